// The headers by which a receiver knows what it received.
#include "integers.cuh"
#include "verdict.cuh"

constexpr int kMaskWords = 16;

// A header: message number on the edge, and a digest of all calls whose messages went over the edge before it.
struct Header {
    int64_t number;
    uint64_t past;
};

// Written by dev.kcp.nccl.MessageHeaders: each field 8 bytes.
struct HeaderArgs {
    uint64_t to[kMaskWords];    // a bit per peer
    uint64_t from[kMaskWords];
    Header* outgoing;           // [peers]: what the next message to each peer travels with
    const Header* incoming;     // [peers]: what the last message from each peer came with
    Header* expected;           // [peers]: what the next message from each peer must come with
    uint64_t digest;            // of the call that was just made
    int64_t* verdict;           // pinned host memory, as in verdict.cuh
};

__device__ __forceinline__ bool has(const uint64_t* mask, int peer) { return mask[peer / 64] >> (peer % 64) & 1; }

__device__ __forceinline__ void advance(Header& header, uint64_t digest) {
    header.number++;
    header.past = header.past * 0x9e3779b97f4a7c15ull + digest;
}

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
    complain(a.verdict, peer, expected.number, expected.past, came.number, came.past);
}
