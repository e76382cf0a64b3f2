// Whole rows copied and added, for the halo exchange and the upper reduction tree, and the headers by which a receiver
// knows what it received. Compiled without contraction; every sum is one IEEE addition.
#include "integers.cuh"

// Written by dev.kcp.conv.cuda.CudaRowOps: each field 8 bytes.
struct MoveArgs {
    const int4* moves;          // source (-1: zeros), source's row, target, target's row
    const char* source[3];
    int64_t sourcePitch[3];     // bytes
    char* target[2];
    int64_t targetPitch[2];
    int64_t rowChunks;          // 16-byte accesses of one row
};

struct AddArgs {
    const int2* additions;      // row that is added to, row that is added
    int64_t count;
    char* rows;
    int64_t elements;           // of one row
};

constexpr int kMaskWords = 16;

// A header: message number on the edge, and a digest of all calls whose messages went over the edge before it.
struct Header {
    int64_t number;
    uint64_t past;
};

// Written by dev.kcp.conv.cuda.MessageHeaders: each field 8 bytes.
struct HeaderArgs {
    uint64_t to[kMaskWords];    // a bit per peer
    uint64_t from[kMaskWords];
    Header* outgoing;           // [peers]: what the next message to each peer travels with
    const Header* incoming;     // [peers]: what the last message from each peer came with
    Header* expected;           // [peers]: what the next message from each peer must come with
    uint64_t digest;            // of the call that was just made
    int64_t* verdict;           // pinned host memory, 6 words: peer + 1 once one was wrong, what was expected, what came, a lock
};

__device__ __forceinline__ bool has(const uint64_t* mask, int peer) { return mask[peer / 64] >> (peer % 64) & 1; }

__device__ __forceinline__ void advance(Header& header, uint64_t digest) {
    header.number++;
    header.past = header.past * 0x9e3779b97f4a7c15ull + digest;
}

extern "C" __global__ void __launch_bounds__(256) rows_move(const __grid_constant__ MoveArgs a) {
    int4 move = __ldg(a.moves + blockIdx.x);
    uint4* to = reinterpret_cast<uint4*>(a.target[move.z] + move.w * a.targetPitch[move.z]);
    int64_t at = int64_t(blockIdx.y) * blockDim.x + threadIdx.x;
    int64_t step = int64_t(gridDim.y) * blockDim.x;
    if (move.x < 0) {
        for (; at < a.rowChunks; at += step) to[at] = make_uint4(0, 0, 0, 0);
        return;
    }
    const uint4* from = reinterpret_cast<const uint4*>(a.source[move.x] + move.y * a.sourcePitch[move.x]);
    for (; at < a.rowChunks; at += step) to[at] = from[at];
}

template <typename T>
__device__ __forceinline__ void addRows(const AddArgs& a) {
    int64_t at = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (at >= a.elements) return;
    T* rows = reinterpret_cast<T*>(a.rows) + at;
    for (int64_t i = 0; i < a.count; i++) {
        int2 pair = __ldg(a.additions + i);
        rows[pair.x * a.elements] += rows[pair.y * a.elements];
    }
}

extern "C" __global__ void __launch_bounds__(256) rows_add_float(const __grid_constant__ AddArgs a) { addRows<float>(a); }

extern "C" __global__ void __launch_bounds__(256) rows_add_double(const __grid_constant__ AddArgs a) { addRows<double>(a); }

// After a call's messages: compares what came with them, and makes what the next ones will travel with, so that nothing
// runs before a send. The first header that is wrong stays in the verdict.
extern "C" __global__ void headers_check(const __grid_constant__ HeaderArgs a) {
    int peer = threadIdx.x;
    if (has(a.to, peer)) advance(a.outgoing[peer], a.digest);
    if (!has(a.from, peer)) return;
    Header expected = a.expected[peer];
    Header came = a.incoming[peer];
    advance(a.expected[peer], a.digest);
    if (came.number == expected.number && came.past == expected.past) return;
    if (atomicExch_system(reinterpret_cast<unsigned long long*>(a.verdict + 5), 1ull) == 0ull) {
        a.verdict[1] = expected.number;
        a.verdict[2] = int64_t(expected.past);
        a.verdict[3] = came.number;
        a.verdict[4] = int64_t(came.past);
        __threadfence_system();
        *reinterpret_cast<volatile int64_t*>(a.verdict) = peer + 1;
    }
}
