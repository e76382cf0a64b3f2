// Around the exchange of g rows, one warp per fragment and channel tile. head: g of the rows that other fragments' last
// rows wait for; owed: dx of the rows that waited.
#pragma once
#include "backward_derivative.cuh"
#include "backward_tree.cuh"

struct FragmentUnit {
    int64_t fragment;
    int channel;

    __device__ __forceinline__ explicit FragmentUnit(const ConvArgs& a) {
        int tiles = int((a.channels + kWarpChannels - 1) / kWarpChannels);
        int64_t unit = int64_t(blockIdx.x) * kBackwardWarps + (threadIdx.x >> 5);
        fragment = unit / tiles;
        channel = min(int(unit % tiles) * kWarpChannels + int(threadIdx.x & 31) * kLane, int(a.channels) - kLane);
    }
};

template <class Math, bool kExact>
__device__ __forceinline__ void head(const ConvArgs& a) {
    FragmentUnit unit(a);
    if (unit.fragment >= a.fragments) return;
    int64_t headRow = __ldg(a.headBegin + unit.fragment);
    if (headRow < 0) return;
    int begin = __ldg(a.begin + unit.fragment);
    int count = min(kHistory, __ldg(a.begin + unit.fragment + 1) - begin);
    Taps taps;
    taps.load(a, unit.channel);
    float window[kHistory + 1][kLane];
#pragma unroll
    for (int j = 0; j < kHistory; j++) {
        int pool = __ldg(a.historyRow + kHistory * unit.fragment + (kHistory - 1 - j));
        unpack(pool < 0 ? make_uint2(0, 0) : loadRow(a.history + (pool * a.channels + unit.channel) * 2), window[j]);
    }
    for (int r = 0; r < count; r++) {
        float p[kLane], d[kLane], dy[kLane], g[kLane];
        unpack(loadRow(a.x + (begin + r) * a.xPitch + unit.channel * 2), window[kHistory]);
        unpack(loadRow(a.dy + (begin + r) * a.dyPitch + unit.channel * 2), dy);
#pragma unroll
        for (int i = 0; i < kLane; i++) {
            p[i] = __fadd_rn(preactivation(window[0][i], window[1][i], window[2][i], window[3][i], taps.w[0][i],
                                           taps.w[1][i], taps.w[2][i], taps.w[3][i]), taps.bias[i]);
        }
        derivatives<Math, kExact>(p, d);
#pragma unroll
        for (int i = 0; i < kLane; i++) {
            g[i] = __fmul_rn(dy[i], d[i]);
            window[0][i] = window[1][i];
            window[1][i] = window[2][i];
            window[2][i] = window[3][i];
        }
        *reinterpret_cast<float4*>(a.head + (headRow + r) * a.channels + unit.channel) = make_float4(g[0], g[1], g[2], g[3]);
    }
}

__device__ __forceinline__ void owed(const ConvArgs& a) {
    FragmentUnit unit(a);
    if (unit.fragment >= a.fragments) return;
    int64_t tailRow = __ldg(a.tailBegin + unit.fragment);
    if (tailRow < 0) return;
    int end = __ldg(a.begin + unit.fragment + 1);
    int count = min(kHistory, end - __ldg(a.begin + unit.fragment));
    Taps taps;
    taps.load(a, unit.channel);
    float g[2 * kHistory][kLane];       // the last rows of the fragment, then those after it
    int present = count;
    for (int j = 0; j < count; j++) {
        for (int i = 0; i < kLane; i++) g[j][i] = a.tail[(tailRow + j) * a.channels + unit.channel + i];
    }
    for (int j = 0; j < kHistory; j++) {
        int64_t pool = __ldg(a.owedRow + kHistory * unit.fragment + j);
        if (pool < 0) break;
        for (int i = 0; i < kLane; i++) g[present][i] = a.received[pool * a.channels + unit.channel + i];
        present++;
    }
    for (int r = 0; r < count; r++) {
        float dx[kLane];
        for (int i = 0; i < kLane; i++) {
            dx[i] = __fmul_rn(taps.w[3][i], g[r][i]);
            if (r + 1 < present) dx[i] = __fmaf_rn(taps.w[2][i], g[r + 1][i], dx[i]);
            if (r + 2 < present) dx[i] = __fmaf_rn(taps.w[1][i], g[r + 2][i], dx[i]);
            if (r + 3 < present) dx[i] = __fmaf_rn(taps.w[0][i], g[r + 3][i], dx[i]);
        }
        storeRow(a.out + int64_t(end - count + r) * a.outPitch + unit.channel * 2, pack(dx));
    }
}
