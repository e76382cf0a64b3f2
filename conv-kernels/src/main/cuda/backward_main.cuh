// main: the block of one group of eight leaves, from the walks of its four warps to its row of sums.
#pragma once
#include "backward_launch.cuh"
#include "backward_walk.cuh"

// Sums of one group's leaf slots that make a node, or the share of a leaf, written by one thread per channel.
template <class Sum, int kPlanes>
__device__ __forceinline__ void storePiece(const ConvArgs& a, const Sum (*leaves)[kPlanes][kWarpChannels], int first,
                                           int count, void* rows, int64_t row, int tile) {
    int column = int(threadIdx.x) % kWarpChannels;
    if (tile + column >= a.channels) return;
    Sum* to = static_cast<Sum*>(rows) + row * kPlanes * a.channels + tile + column;
#pragma unroll
    for (int k = int(threadIdx.x) / kWarpChannels; k < kPlanes; k += 32 * kBackwardWarps / kWarpChannels) {
        Sum v[kGroupLeaves];
#pragma unroll
        for (int i = 0; i < kGroupLeaves; i++) v[i] = i < count ? leaves[first + i][k][column] : Sum(0);
        to[k * a.channels] = treeOfEight(v, count);
    }
}

template <class Math, bool kExact, bool kBias, bool kTables>
struct MainShared {
    typename Walk<Math, kExact, kBias, kTables>::LeafSums leaves[kGroupLeaves];
    BackwardFeed::Ring rings[kBackwardWarps];
};

template <class Math, bool kExact, bool kBias, bool kTables>
__device__ __forceinline__ void backwardMain(const ConvArgs& a) {
    using Steps = Walk<Math, kExact, kBias, kTables>;
    using Sum = typename Steps::Sum;
    extern __shared__ __align__(128) char sharedBytes[];
    auto& shared = *reinterpret_cast<MainShared<Math, kExact, kBias, kTables>*>(sharedBytes);
    allowDependents();
    int tiles = int((a.channels + kWarpChannels - 1) / kWarpChannels);
    int group = int(blockIdx.x / tiles);
    int tile = int(blockIdx.x % tiles) * kWarpChannels;
    int warp = int(threadIdx.x >> 5);
    // Tables come from the host, which has checked them.
    int tokens = kTables ? __ldg(a.begin + a.fragments) : tokensOf(a);
    // Lanes past the last channel do the last lane's work again.
    int channel = min(tile + int(threadIdx.x & 31) * kLane, int(a.channels) - kLane);
    BackwardFeed feed(shared.rings[warp], tile, channel, a.channels);
    Steps steps(a, feed, tile, channel);
    auto* leaf = shared.leaves + warp * kWarpLeaves;

    if (kTables) {
        int segment = __ldg(a.segmentBegin + group * kBackwardWarps + warp);
        int segmentEnd = __ldg(a.segmentBegin + group * kBackwardWarps + warp + 1);
        bool second = false;
        if (segment < segmentEnd) steps.begin();
        for (; segment < segmentEnd; segment++) {
            int4 rows = __ldg(a.segments + segment);
            // The first segment of the second leaf: rows before it all went to the first.
            if (!second && rows.w <= rows.x) steps.storeLeaf(leaf[0]);
            steps.segment(rows.x, rows.y, second || rows.w <= rows.x ? kNever : rows.w, tokens, leaf);
            second = second || rows.w < rows.y;
        }
        steps.storeLeaf(leaf[second ? 1 : 0]);
    } else {
        int64_t first = int64_t(group) * kGroupRows + warp * kWarpRows;
        int begin = int(min(first, int64_t(kNever)));
        int end = int(min(first + kWarpRows, int64_t(tokens)));
        if (begin < end) {
            steps.begin();
            steps.segment(begin, end, kWarpLeaves > 1 ? begin + kLeafRows : kNever, tokens, leaf);
            steps.storeLeaf(leaf[end - begin > kLeafRows ? 1 : 0]);
        }
        int64_t slackEnd = min(first + kWarpRows, a.rows);
        for (int64_t t = max(first, int64_t(tokens)); t < slackEnd; t++) {
            storeRow(a.out + t * a.outPitch + channel * 2, make_uint2(0, 0));
        }
    }
    // The leaves of all warps stand before they are summed.
    __syncthreads();
    if (!a.sums && !a.dweight && !a.dbias) return;
    if (kTables) {
        int pieceEnd = __ldg(a.pieceBegin + group + 1);
        for (int i = __ldg(a.pieceBegin + group); i < pieceEnd; i++) {
            int4 piece = __ldg(a.pieces + i);
            storePiece<Sum, Steps::kPlanes>(a, shared.leaves, piece.x, piece.y, piece.w ? a.scratch : a.sums, piece.z, tile);
        }
    } else {
        int64_t count = (int64_t(tokens) + kLeafRows - 1) / kLeafRows - int64_t(group) * kGroupLeaves;
        if (count > 0) {
            storePiece<Sum, Steps::kPlanes>(a, shared.leaves, 0, int(min(count, int64_t(kGroupLeaves))), a.scratch, group, tile);
        }
    }
}
