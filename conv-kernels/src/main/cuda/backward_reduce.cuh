// reduce: from main's rows of sums to nodes or gradients; round: from a finished root to gradients.
#pragma once
#include "backward_launch.cuh"
#include "backward_tree.cuh"

constexpr int kReduceParts = 8;

// The tree over rows [begin, begin + size) of which those below count exist; size a power of two of at least 8, begin a
// multiple of it. At least one row exists.
template <class Sum>
__device__ __forceinline__ Sum subtree(const Sum* column, int64_t pitch, int begin, int size, int count) {
    Sum stack[24];
    int blocks = 0;
    int end = min(begin + size, count);
    for (int row = begin; row < end; row += 8, blocks++) {
        Sum v[8];
#pragma unroll
        for (int i = 0; i < 8; i++) v[i] = row + i < end ? __ldcg(column + (row + i) * pitch) : Sum(0);
        Sum node = treeOfEight(v, end - row);
        int level = 0;
        for (; blocks >> level & 1; level++) node = plus(stack[level], node);
        stack[level] = node;
    }
    int level = __ffs(blocks) - 1;
    Sum node = stack[level];
    while (blocks >> ++level) {
        if (blocks >> level & 1) node = plus(stack[level], node);
    }
    return node;
}

// A NaN is stored as one number, the CPU's: its sign and digits would tell where it was made.
__device__ __forceinline__ void storeGradient(const ConvArgs& a, int plane, int channel, auto value) {
    char* to = plane == 4 ? a.dbias : a.dweight;
    if (!to) return;
    int64_t index = plane == 4 ? channel : int64_t(channel) * 4 + plane;
    if (plane == 4 ? a.dbiasIsBf16 : a.dweightIsBf16) {
        reinterpret_cast<uint16_t*>(to)[index] = value == value ? toBf16(value) : uint16_t(0x7fc0);
    } else {
        reinterpret_cast<float*>(to)[index] = value == value ? float(value) : __uint_as_float(0x7fc00000u);
    }
}

// Thread (c, part): eight threads share a column of a plane, each an aligned part of the rows.
template <class Sum, bool kTables>
__device__ __forceinline__ void reduce(const ConvArgs& a) {
    __shared__ Sum parts[kReduceParts][32];
    awaitPrimary();
    int64_t firstRow = 0, outRow = 0;
    int count;
    if (kTables) {
        int4 range = __ldg(a.ranges + blockIdx.y);
        outRow = range.x;
        firstRow = range.y;
        count = range.z;
    } else {
        count = int((int64_t(tokensOf(a)) + kGroupRows - 1) / kGroupRows);
    }
    int size = 8;
    while (int64_t(size) * kReduceParts < count) size *= 2;
    int64_t columns = a.sumPlanes * a.channels;
    int64_t column = int64_t(blockIdx.x) * 32 + threadIdx.x;
    int part = threadIdx.y;
    if (column < columns && part * size < count) {
        const Sum* from = static_cast<const Sum*>(a.scratch) + firstRow * columns + column;
        parts[part][threadIdx.x] = subtree(from, columns, part * size, size, count);
    }
    __syncthreads();
    if (part > 0 || column >= columns) return;
    Sum v[kReduceParts];
#pragma unroll
    for (int i = 0; i < kReduceParts; i++) v[i] = i * size < count ? parts[i][threadIdx.x] : Sum(0);
    Sum root = treeOfEight(v, (count + size - 1) / size);
    if (a.sums) static_cast<Sum*>(a.sums)[outRow * columns + column] = root;
    storeGradient(a, int(column / a.channels), int(column % a.channels), root);
}

template <class Sum>
__device__ __forceinline__ void roundRoot(const ConvArgs& a) {
    int64_t column = int64_t(blockIdx.x) * 256 + threadIdx.x;
    if (column >= a.sumPlanes * a.channels) return;
    Sum root = a.sums ? static_cast<const Sum*>(a.sums)[column] : Sum(0);
    storeGradient(a, int(column / a.channels), int(column % a.channels), root);
}
