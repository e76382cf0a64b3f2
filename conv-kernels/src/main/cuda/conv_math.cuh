// The arithmetic of docs/math.md: preactivation, sigmoid, SiLU and its derivative.
#pragma once

// Beyond this exp(-|p|) counts as 0.
constexpr float kSaturated = 88.f;

__device__ __forceinline__ float preactivation(float x3, float x2, float x1, float x0, float w0, float w1, float w2, float w3) {
    return __fmaf_rn(w3, x0, __fmaf_rn(w2, x1, __fmaf_rn(w1, x2, __fmul_rn(w0, x3))));
}

__device__ __forceinline__ float approximateExp2(float v) {
    float e;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(v));
    return e;
}

__device__ __forceinline__ float approximateReciprocal(float v) {
    float r;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(v));
    return r;
}

// Clamps that let NaN pass.
__device__ __forceinline__ float clampLow(float v) {
    float r;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(v), "f"(-kSaturated));
    return r;
}
__device__ __forceinline__ float clampHigh(float v) {
    float r;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(v), "f"(kSaturated));
    return r;
}

// The device's exponential and reciprocal, within two ulp each.
struct FastMath {
    // One exponential e of -p, below 2^127: sigmoid(p) is 1 / (1 + e), and sigmoid(-p) is e times that.
    static __device__ __forceinline__ float silu(float p) {
        float bounded = clampLow(p);
        float e = approximateExp2(__fmul_rn(bounded, -1.44269504f));
        return __fmul_rn(bounded, approximateReciprocal(__fadd_rn(1.f, e)));
    }

    // silu' at a clamped q.
    static __device__ __forceinline__ float derivative(float q) {
        float e = approximateExp2(__fmul_rn(q, -1.44269504f));
        float s = approximateReciprocal(__fadd_rn(1.f, e));
        return __fmul_rn(s, __fmaf_rn(q, __fmul_rn(e, s), 1.f));
    }

    // As above, with the rounding error of the exponent's product made good: policy FP32 keeps those digits.
    static __device__ __forceinline__ float preciseDerivative(float q) {
        float t = __fmul_rn(q, -1.44269504f);
        float rest = __fmaf_rn(q, -1.92596303e-8f, __fmaf_rn(q, -1.44269504f, -t));
        float e = approximateExp2(t);
        e = __fmaf_rn(e, __fmul_rn(rest, 0.693147181f), e);
        float s = __frcp_rn(__fadd_rn(1.f, e));
        return __fmul_rn(s, __fmaf_rn(q, __fmul_rn(e, s), 1.f));
    }
};

// IEEE operations alone; bit for bit dev.kcp.conv.cpu.Silu.
struct PortableMath {
    static __device__ __forceinline__ float expOfMinusAbs(float p) {
        float a = fabsf(p);
        a = a > kSaturated ? kSaturated : a;
        float shifted = __fmaf_rn(a, -__uint_as_float(0x3FB8AA3Bu), 12583039.f);
        float n = __fsub_rn(shifted, 12583039.f);
        float r = __fmaf_rn(n, -__uint_as_float(0x3805FDF4u), __fmaf_rn(n, -__uint_as_float(0x3F317000u), -a));
        float q = __fmaf_rn(__uint_as_float(0x3AB511E7u), r, __uint_as_float(0x3C091D10u));
        q = __fmaf_rn(q, r, __uint_as_float(0x3D2AAC79u));
        q = __fmaf_rn(q, r, __uint_as_float(0x3E2AAA49u));
        q = __fmaf_rn(q, r, __uint_as_float(0x3EFFFFFEu));
        float mantissa = __fmaf_rn(__fmaf_rn(q, r, 1.f), r, 1.f);
        return __fmul_rn(mantissa, __uint_as_float(__float_as_uint(shifted) << 23));
    }

    static __device__ __forceinline__ float silu(float p) {
        float e = expOfMinusAbs(p);
        float larger = __fdiv_rn(1.f, __fadd_rn(1.f, e));
        float sigmoid = p >= 0.f ? larger : __fmul_rn(e, larger);
        return __fmul_rn(p < -kSaturated ? -kSaturated : p, sigmoid);
    }

    static __device__ __forceinline__ float derivative(float q) {
        float e = expOfMinusAbs(q);
        float larger = __fdiv_rn(1.f, __fadd_rn(1.f, e));
        float smaller = __fmul_rn(e, larger);
        return q >= 0.f ? __fmul_rn(larger, __fmaf_rn(q, smaller, 1.f)) : __fmul_rn(smaller, __fmaf_rn(q, larger, 1.f));
    }

    static __device__ __forceinline__ float preciseDerivative(float q) { return derivative(q); }
};
