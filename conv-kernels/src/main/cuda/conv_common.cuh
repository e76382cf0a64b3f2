// What forward and backward share: the argument block, loads and stores, the arithmetic of docs/math.md, and the walk
// over documents. Compiled without contraction (-fmad=false); every fma is written out.
//
// Rows are tokens, [S, C] BF16, channels contiguous. A warp covers kWarpChannels channels, four per lane, and walks down
// rows. A fragment is a document, or one document's part in a shard.
#pragma once
#include <cstdint>

constexpr int kLane = 4;                          // channels per lane: one 8-byte access
constexpr int kWarpChannels = 32 * kLane;
constexpr int kHistory = 3;                       // taps - 1
constexpr int kLeafRows = 64;
constexpr int kNever = 0x7fffffff;

// Written by the host, field by field, in dev.kcp.conv.cuda.KernelArguments: the same order, each field 8 bytes.
struct ConvArgs {
    const char* x;
    const char* dy;
    const char* weight;
    const char* bias;           // or null
    const char* history;        // BF16 [H, C], dense; only with tables
    char* out;                  // y or dx; where nobody asks for dx, one row of scrap at pitch 0
    float* head;                // FP32 [headRows, C], dense
    float* tail;                // FP32 [tailRows, C], dense
    const float* received;      // FP32 [.., C], dense
    void* scratch;              // one row of sums [planes, C] per complete group of eight leaves
    void* sums;                 // [nodes, planes, C], or null
    char* dweight;              // or null: final gradients, rounded once
    char* dbias;
    const int* begin;           // [fragments + 1]; cu_seqlens itself where a whole batch is given
    const int* historyRow;      // [3 * fragments], tables only, as all below
    const int* owedRow;         // [3 * fragments]
    const int* headBegin;       // [fragments]
    const int* tailBegin;       // [fragments]
    const int4* segments;       // rows of one warp, local and packed without a gap: begin, end, fragment, first row of the second leaf
    const int* segmentBegin;    // [4 * groups + 1]: segments of each warp of a group
    const int4* pieces;         // sums that a group writes: first leaf slot, slots, row, 1 if the row is one of scratch
    const int* pieceBegin;      // [groups + 1]
    const int4* ranges;         // sums that reduce makes: row of sums, first row of scratch, rows
    int64_t xPitch;             // bytes
    int64_t dyPitch;
    int64_t outPitch;
    int64_t rows;
    int64_t channels;
    int64_t fragments;
    int64_t weightIsBf16;
    int64_t biasIsBf16;
    int64_t dweightIsBf16;
    int64_t dbiasIsBf16;
    int64_t sumPlanes;          // 4, or 5 with a bias
};

// ---- loads and stores ------------------------------------------------------------------------------------------------

__device__ __forceinline__ float low(uint32_t pair) { return __uint_as_float(pair << 16); }
__device__ __forceinline__ float high(uint32_t pair) { return __uint_as_float(pair & 0xffff0000u); }

__device__ __forceinline__ void unpack(uint2 packed, float (&v)[kLane]) {
    v[0] = low(packed.x);
    v[1] = high(packed.x);
    v[2] = low(packed.y);
    v[3] = high(packed.y);
}

// BF16 pair, each rounded to nearest even.
__device__ __forceinline__ uint32_t pack(float lowValue, float highValue) {
    uint32_t pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(highValue), "f"(lowValue));
    return pair;
}

__device__ __forceinline__ uint2 pack(const float (&v)[kLane]) { return make_uint2(pack(v[0], v[1]), pack(v[2], v[3])); }

__device__ __forceinline__ uint2 loadRow(const char* address) { return __ldg(reinterpret_cast<const uint2*>(address)); }

__device__ __forceinline__ void storeRow(char* address, uint2 packed) { *reinterpret_cast<uint2*>(address) = packed; }

// FP32 to BF16 bits; from FP64 in one rounding, the FP32 step rounding to odd.
__device__ __forceinline__ uint16_t toBf16(float v) { return uint16_t(pack(v, 0.f)); }
__device__ __forceinline__ uint16_t toBf16(double v) {
    float truncated = __double2float_rz(v);
    if (double(truncated) != v && v == v) truncated = __uint_as_float(__float_as_uint(truncated) | 1u);
    return toBf16(truncated);
}

// Taps of a lane's channels. Without a bias -0 is added, which changes no number.
struct Taps {
    float w[4][kLane];
    float bias[kLane];

    __device__ __forceinline__ void load(const ConvArgs& a, int channel) {
        float4 rows[kLane];
#pragma unroll
        for (int i = 0; i < kLane; i++) {
            if (a.weightIsBf16) {
                uint2 packed = __ldg(reinterpret_cast<const uint2*>(a.weight) + channel + i);
                rows[i] = make_float4(low(packed.x), high(packed.x), low(packed.y), high(packed.y));
            } else {
                rows[i] = __ldg(reinterpret_cast<const float4*>(a.weight) + channel + i);
            }
        }
#pragma unroll
        for (int i = 0; i < kLane; i++) {
            w[0][i] = rows[i].x;
            w[1][i] = rows[i].y;
            w[2][i] = rows[i].z;
            w[3][i] = rows[i].w;
            bias[i] = -0.f;
        }
        if (a.bias && a.biasIsBf16) {
            unpack(loadRow(a.bias + channel * 2), bias);
        } else if (a.bias) {
            float4 row = __ldg(reinterpret_cast<const float4*>(a.bias + channel * 4));
            bias[0] = row.x;
            bias[1] = row.y;
            bias[2] = row.z;
            bias[3] = row.w;
        }
    }
};

// ---- arithmetic ------------------------------------------------------------------------------------------------------

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

// ---- the walk over fragments -----------------------------------------------------------------------------------------

// The last i of [0, fragments) with begin[i] <= row, found by the whole warp, 32 probes at a time. begin[0] is 0.
__device__ __forceinline__ int fragmentOf(const int* begin, int fragments, int row) {
    int lane = threadIdx.x & 31;
    int first = 0;      // begin[first] <= row
    int count = fragments;
    while (count > 1) {
        int stride = (count + 31) / 32;
        int probe = first + lane * stride;
        bool reached = lane * stride < count && __ldg(begin + probe) <= row;
        int last = 31 - __clz(__ballot_sync(~0u, reached) | 1u);
        int end = first + count;
        first += last * stride;
        count = min(stride, end - first);
    }
    return first;
}

// Where a row stands: its fragment and the rows at which the next two begin, the second fetched long before it is needed.
struct Position {
    int fragment;
    int begin;
    int next;       // end of the fragment; rows at and after the last fragment's end have none
    int after;

    __device__ __forceinline__ void find(const ConvArgs& a, int row) {
        fragment = fragmentOf(a.begin, int(a.fragments), row);
        begin = __ldg(a.begin + fragment);
        next = __ldg(a.begin + fragment + 1);
        after = fetch(a, fragment + 2);
    }

    // Steps to the fragment that begins at next, over empty ones.
    __device__ __forceinline__ void advance(const ConvArgs& a) {
        begin = next;
        do {
            fragment++;
            next = after;
            after = fetch(a, fragment + 2);
        } while (next <= begin);
    }

    static __device__ __forceinline__ int fetch(const ConvArgs& a, int index) {
        return index <= a.fragments ? __ldg(a.begin + index) : kNever;
    }
};

// ---- rows on their way -----------------------------------------------------------------------------------------------

// One warp's rows of one or two tensors, a ring of chunks in shared memory that fill themselves while others are read.
// Two lanes' halves copy a pair of rows at a time, 16 bytes per lane.
template <int kTensors, int kChunkRows, int kStages>
struct WarpRing {
    uint4 rows[kStages][kTensors][kChunkRows][16];
};

template <int kTensors, int kChunkRows, int kStages>
struct Feed {
    using Ring = WarpRing<kTensors, kChunkRows, kStages>;
    static constexpr int kRows = kChunkRows;
    static constexpr uint32_t kRowBytes = kWarpChannels * 2;
    static constexpr uint32_t kStageBytes = kTensors * kChunkRows * kRowBytes;

    const char* from[kTensors];     // this lane's 16 bytes of the next row to fetch
    int64_t pairBytes[kTensors];    // from a row to the next but one
    int rowsLeft;                   // rows from the lane's next one to the end; where it copies nothing, none
    uint32_t first;                 // shared addresses: the first stage
    uint32_t stage;                 // the current one
    uint32_t write;                 // this lane's place in a stage, when copying
    uint32_t read4;                 // and when reading
    bool copies;                    // whether this lane's 16 bytes lie inside the row

    __device__ __forceinline__ Feed(Ring& warpRing, int tile, int channel, int64_t channels)
        : first(uint32_t(__cvta_generic_to_shared(&warpRing))),
          write((threadIdx.x >> 4 & 1) * kRowBytes + (threadIdx.x & 15) * 16),
          read4((channel - tile) * 2),
          copies(tile + (threadIdx.x & 15) * 8 < channels) {}

    // Points one tensor at a tile's first row.
    __device__ __forceinline__ void aim(int tensor, const char* base, int64_t pitch, int firstRow, int tile) {
        int half = threadIdx.x >> 4 & 1;
        from[tensor] = base + (int64_t(firstRow) + half) * pitch + (tile + (threadIdx.x & 15) * 8) * 2;
        pairBytes[tensor] = 2 * pitch;
    }

    __device__ __forceinline__ void start(int firstRow, int endRow) {
        rowsLeft = copies ? endRow - firstRow - int(threadIdx.x >> 4 & 1) : 0;
        stage = first;
#pragma unroll
        for (int i = 0; i < kStages; i++) fill();
    }

    // Fetches the next chunk into the current stage, and steps to the stage after it.
    __device__ __forceinline__ void fill() {
        uint32_t to = stage + write;
#pragma unroll
        for (int r = 0; r < kChunkRows; r += 2) {
            bool there = r < rowsLeft;
#pragma unroll
            for (int k = 0; k < kTensors; k++) {
                if (there) {
                    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to + (k * kChunkRows + r) * kRowBytes),
                                 "l"(from[k])
                                 : "memory");
                }
                from[k] += pairBytes[k];
            }
        }
        rowsLeft -= kChunkRows;
        asm volatile("cp.async.commit_group;" ::: "memory");
        stage = stage == first + (kStages - 1) * kStageBytes ? first : stage + kStageBytes;
    }

    // Waits until the current stage's rows stand, those that every lane copied.
    __device__ __forceinline__ void await() const {
        asm volatile("cp.async.wait_group %0;" ::"n"(kStages - 1) : "memory");
        __syncwarp();
    }

    __device__ __forceinline__ uint2 read(int tensor, int r) const {
        uint2 v;
        asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];"
                     : "=r"(v.x), "=r"(v.y)
                     : "r"(stage + read4 + (tensor * kChunkRows + r) * kRowBytes));
        return v;
    }

    // Every lane has read the current stage: it takes the next chunk.
    __device__ __forceinline__ void refill() {
        __syncwarp();
        fill();
    }
};
