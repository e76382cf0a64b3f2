// The derivative of SiLU for a lane's channels, of either policy.
#pragma once
#include "conv_common.cuh"
#include "conv_math.cuh"

// silu'(q) of a lane's channels from their preactivations.
template <class Math, bool kExact>
__device__ __forceinline__ void derivatives(const float (&p)[kLane], float (&d)[kLane]) {
    float q[kLane];
    if (kExact) {
#pragma unroll
        for (int i = 0; i < kLane; i++) q[i] = clampHigh(clampLow(p[i]));
    } else {
#pragma unroll
        for (int i = 0; i < kLane; i += 2) {
            uint32_t pair = pack(p[i], p[i + 1]);
            asm("max.NaN.bf16x2 %0, %0, %1;" : "+r"(pair) : "r"(0xC2B0C2B0u));
            asm("min.NaN.bf16x2 %0, %0, %1;" : "+r"(pair) : "r"(0x42B042B0u));
            q[i] = low(pair);
            q[i + 1] = high(pair);
        }
    }
#pragma unroll
    for (int i = 0; i < kLane; i++) d[i] = kExact ? Math::preciseDerivative(q[i]) : Math::derivative(q[i]);
}
