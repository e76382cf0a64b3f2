// Whole rows copied and added, for the halo exchange and the upper reduction tree. Compiled without contraction; every sum
// is one IEEE addition.
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
