// What all programs share: the argument block, loads and stores, and the walk over documents. Compiled without contraction
// (-fmad=false); every fma is written out.
//
// Rows are tokens, [S, C] BF16, channels contiguous. A warp covers kWarpChannels channels, four per lane, and walks down
// rows. A fragment is a document, or one document's part in a shard.
#pragma once
#include "integers.cuh"

constexpr int kLane = 4;                          // channels per lane: one 8-byte access
constexpr int kWarpChannels = 32 * kLane;
constexpr int kHistory = 3;                       // taps - 1
constexpr int kLeafRows = 64;
constexpr int kNever = 0x7fffffff;

// Written by the host, field by field, in dev.kcp.conv.cuda.CallArguments: the same order, each field 8 bytes.
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

// ---- the walk over fragments -----------------------------------------------------------------------------------------

// Tokens of all fragments. Offsets that end past the rows of x, which the host cannot see, read and write none there.
__device__ __forceinline__ int tokensOf(const ConvArgs& a) {
    return a.fragments == 0 ? 0 : min(__ldg(a.begin + a.fragments), int(a.rows));
}

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
