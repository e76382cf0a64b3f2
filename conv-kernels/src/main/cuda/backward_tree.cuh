// The reduction tree of dweight and dbias: the shape of a group, the types of its sums, and the additions of a node.
#pragma once
#include "conv_common.cuh"

constexpr int kGroupLeaves = 8;
constexpr int kBackwardWarps = 4;
constexpr int kWarpLeaves = kGroupLeaves / kBackwardWarps;
constexpr int kWarpRows = kWarpLeaves * kLeafRows;
constexpr int kGroupRows = kGroupLeaves * kLeafRows;

template <bool kDouble> struct SumOf { using Type = float; };
template <> struct SumOf<true> { using Type = double; };

__device__ __forceinline__ float plus(float a, float b) { return __fadd_rn(a, b); }
__device__ __forceinline__ double plus(double a, double b) { return __dadd_rn(a, b); }
__device__ __forceinline__ float product(float a, float b, float sum) { return __fmaf_rn(a, b, sum); }
__device__ __forceinline__ double product(float a, float b, double sum) { return __fma_rn(double(a), double(b), sum); }

// The sum of up to eight neighbours of one level of the tree; a node without a right sibling is its parent.
template <class Sum>
__device__ __forceinline__ Sum treeOfEight(Sum (&v)[kGroupLeaves], int count) {
#pragma unroll
    for (int step = 1; step < kGroupLeaves; step *= 2) {
#pragma unroll
        for (int i = 0; i + step < kGroupLeaves; i += 2 * step) {
            if (i + step < count) v[i] = plus(v[i], v[i + step]);
        }
    }
    return v[0];
}
