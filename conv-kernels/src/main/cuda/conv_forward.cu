// Forward: y = bf16(silu(p)). `main` computes every row that needs no history from elsewhere and zeroes slack rows;
// `seam` the first up to three rows of continuing fragments.
#include "conv_feed.cuh"
#include "conv_math.cuh"

constexpr int kForwardWarps = 4;

template <class Math, bool kBias>
__device__ __forceinline__ uint2 forwardRow(const Taps& taps, const float (&x3)[kLane], const float (&x2)[kLane],
                                            const float (&x1)[kLane], const float (&x0)[kLane]) {
    float y[kLane];
#pragma unroll
    for (int i = 0; i < kLane; i++) {
        float p = preactivation(x3[i], x2[i], x1[i], x0[i], taps.w[0][i], taps.w[1][i], taps.w[2][i], taps.w[3][i]);
        y[i] = Math::silu(kBias ? __fadd_rn(p, taps.bias[i]) : p);
    }
    return pack(y);
}

__device__ __forceinline__ void shift(float (&x3)[kLane], float (&x2)[kLane], float (&x1)[kLane], const float (&x0)[kLane]) {
#pragma unroll
    for (int i = 0; i < kLane; i++) {
        x3[i] = x2[i];
        x2[i] = x1[i];
        x1[i] = x0[i];
    }
}

__device__ __forceinline__ void zero(float (&v)[kLane]) {
#pragma unroll
    for (int i = 0; i < kLane; i++) v[i] = 0.f;
}

using ForwardFeed = Feed<1, 4, 6>;

// A warp takes kRows rows of 128 channels.
template <class Math, bool kBias, bool kTables, int kRows>
__device__ __forceinline__ void forwardMain(const ConvArgs& a) {
    __shared__ __align__(128) ForwardFeed::Ring rings[kForwardWarps];
    int tiles = int((a.channels + kWarpChannels - 1) / kWarpChannels);
    int64_t unit = int64_t(blockIdx.x) * kForwardWarps + (threadIdx.x >> 5);
    int64_t firstRow = unit / tiles * kRows;
    if (firstRow >= a.rows) return;
    int row = int(firstRow);
    int tile = int(unit % tiles) * kWarpChannels;
    // Lanes past the last channel do the last lane's work again.
    int channel = min(tile + int(threadIdx.x & 31) * kLane, int(a.channels) - kLane);
    int tokens = tokensOf(a);
    int end = int(min(firstRow + kRows, int64_t(tokens)));
    char* out = a.out + firstRow * a.outPitch + channel * 2;

    if (row < end) {
        ForwardFeed feed(rings[threadIdx.x >> 5], tile, channel, a.channels);
        feed.aim(0, a.x, a.xPitch, row, tile);
        feed.start(row, end);
        const char* x = a.x + firstRow * a.xPitch + channel * 2;
        uint2 before[kHistory];
#pragma unroll
        for (int j = 0; j < kHistory; j++) before[j] = row > j ? loadRow(x - (j + 1) * a.xPitch) : make_uint2(0, 0);
        Taps taps;
        taps.load(a, channel);
        Position at;
        at.find(a, row);
        bool continues = kTables && __ldg(a.headBegin + at.fragment) >= 0;
        float x1[kLane], x2[kLane], x3[kLane];
        unpack(row - at.begin >= 1 ? before[0] : make_uint2(0, 0), x1);
        unpack(row - at.begin >= 2 ? before[1] : make_uint2(0, 0), x2);
        unpack(row - at.begin >= 3 ? before[2] : make_uint2(0, 0), x3);

#pragma unroll 1
        for (; row < end; row += ForwardFeed::kRows) {
            feed.await();
            bool whole = row + ForwardFeed::kRows <= min(at.next, end) && !(continues && row - at.begin < kHistory);
            if (whole) {
#pragma unroll
                for (int i = 0; i < ForwardFeed::kRows; i++) {
                    float x0[kLane];
                    unpack(feed.read(0, i), x0);
                    storeRow(out, forwardRow<Math, kBias>(taps, x3, x2, x1, x0));
                    out += a.outPitch;
                    shift(x3, x2, x1, x0);
                }
            } else {
                int count = min(ForwardFeed::kRows, end - row);
#pragma unroll 2
                for (int i = 0; i < count; i++) {
                    if (row + i == at.next) {
                        at.advance(a);
                        continues = kTables && __ldg(a.headBegin + at.fragment) >= 0;
                        zero(x1);
                        zero(x2);
                        zero(x3);
                    }
                    float x0[kLane];
                    unpack(feed.read(0, i), x0);
                    uint2 y = forwardRow<Math, kBias>(taps, x3, x2, x1, x0);
                    if (!(continues && row + i - at.begin < kHistory)) storeRow(out, y);
                    out += a.outPitch;
                    shift(x3, x2, x1, x0);
                }
            }
            feed.refill();
        }
    }
    int64_t slackEnd = min(firstRow + kRows, a.rows);
    for (int64_t t = max(firstRow, int64_t(tokens)); t < slackEnd; t++) {
        storeRow(a.out + t * a.outPitch + channel * 2, make_uint2(0, 0));
    }
}

// One warp per fragment and channel tile.
template <class Math>
__device__ __forceinline__ void forwardSeam(const ConvArgs& a) {
    int tiles = int((a.channels + kWarpChannels - 1) / kWarpChannels);
    int64_t unit = int64_t(blockIdx.x) * kForwardWarps + (threadIdx.x >> 5);
    int64_t fragment = unit / tiles;
    if (fragment >= a.fragments || __ldg(a.headBegin + fragment) < 0) return;
    int channel = min(int(unit % tiles) * kWarpChannels + int(threadIdx.x & 31) * kLane, int(a.channels) - kLane);
    int begin = __ldg(a.begin + fragment);
    int count = min(kHistory, __ldg(a.begin + fragment + 1) - begin);
    Taps taps;
    taps.load(a, channel);
    float window[kHistory][kLane];      // rows before the fragment, the oldest first
#pragma unroll
    for (int j = 0; j < kHistory; j++) {
        int pool = __ldg(a.historyRow + kHistory * fragment + (kHistory - 1 - j));
        unpack(pool < 0 ? make_uint2(0, 0) : loadRow(a.history + (pool * a.channels + channel) * 2), window[j]);
    }
    for (int r = 0; r < count; r++) {
        float x0[kLane];
        unpack(loadRow(a.x + (begin + r) * a.xPitch + channel * 2), x0);
        storeRow(a.out + (begin + r) * a.outPitch + channel * 2, forwardRow<Math, true>(taps, window[0], window[1], window[2], x0));
        shift(window[0], window[1], window[2], x0);
    }
}

// Blocks per multiprocessor that registers are kept few for; newer generations' code would spill at six.
#if __CUDA_ARCH__ >= 1000
#define DENSE_BLOCKS 5
#else
#define DENSE_BLOCKS 6
#endif

#define FORWARD_MAIN(name, math, bias, tables, rowsPerWarp, blocks)                                                            \
    extern "C" __global__ void __launch_bounds__(32 * kForwardWarps, blocks) name(const __grid_constant__ ConvArgs a) { \
        forwardMain<math, bias, tables, rowsPerWarp>(a);                                                            \
    }
#define FORWARD_MAINS(math, name, rowsPerWarp)                                              \
    FORWARD_MAIN(forward_main_##name##_batch_##rowsPerWarp, math, false, false, rowsPerWarp, 6)     \
    FORWARD_MAIN(forward_main_##name##_batch_bias_##rowsPerWarp, math, true, false, rowsPerWarp, 5) \
    FORWARD_MAIN(forward_main_##name##_tables_##rowsPerWarp, math, false, true, rowsPerWarp, DENSE_BLOCKS) \
    FORWARD_MAIN(forward_main_##name##_tables_bias_##rowsPerWarp, math, true, true, rowsPerWarp, 5)
#define FORWARD_SEAM(name, math)                                                                                 \
    extern "C" __global__ void __launch_bounds__(32 * kForwardWarps, 4) name(const __grid_constant__ ConvArgs a) { \
        forwardSeam<math>(a);                                                                                   \
    }

FORWARD_MAINS(FastMath, fast, 32)
FORWARD_MAINS(FastMath, fast, 16)
FORWARD_MAINS(PortableMath, portable, 32)
FORWARD_MAINS(PortableMath, portable, 16)
FORWARD_SEAM(forward_seam_fast, FastMath)
FORWARD_SEAM(forward_seam_portable, PortableMath)
