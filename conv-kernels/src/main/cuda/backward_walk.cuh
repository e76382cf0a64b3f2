// One warp's way down the rows of a segment: g of each row, its products with x, and dx of the rows before it.
#pragma once
#include "backward_derivative.cuh"
#include "backward_tree.cuh"
#include "conv_feed.cuh"

constexpr int kChunkRows = 8;
constexpr int kBatchRows = 2;       // rows whose special-function results are made before the first is used
using BackwardFeed = Feed<2, kChunkRows, 2>;
constexpr int kX = 0;
constexpr int kDy = 1;

// One warp's way down one segment: rows that follow one another both here and in the packed batch.
template <class Math, bool kExact, bool kBias, bool kTables>
struct Walk {
    using Sum = typename SumOf<kExact>::Type;
    static constexpr int kPlanes = kBias ? 5 : 4;
    typedef Sum LeafSums[kPlanes][kWarpChannels];

    const ConvArgs& a;
    BackwardFeed& feed;
    int tile;           // first channel of the warp
    int channel;        // first channel of the lane
    Taps taps;
    Sum sums[kPlanes][kLane];
    float x1[kLane], x2[kLane], x3[kLane];      // x of the three rows before
    float d1[kLane], d2[kLane], d3[kLane];      // dx of the three rows before, as far as summed
    Position at;
    int valid;          // history rows of this fragment that its document has
    int owedBegin;      // rows of this fragment from here on owe their dx
    unsigned withheld;  // bit 2: dx of the row three before is not written here; bits 1, 0: the later ones

    __device__ __forceinline__ Walk(const ConvArgs& args, BackwardFeed& rows, int firstChannel, int laneChannel)
        : a(args), feed(rows), tile(firstChannel), channel(laneChannel) {}

    __device__ __forceinline__ void begin() {
        taps.load(a, channel);
        zeroSums();
    }

    __device__ __forceinline__ void zeroSums() {
#pragma unroll
        for (int k = 0; k < kPlanes; k++) {
#pragma unroll
            for (int i = 0; i < kLane; i++) sums[k][i] = Sum(0);
        }
    }

    __device__ __forceinline__ void storeLeaf(LeafSums& leaf) {
        int column = (threadIdx.x & 31) * kLane;
#pragma unroll
        for (int k = 0; k < kPlanes; k++) {
#pragma unroll
            for (int i = 0; i < kLane; i++) leaf[k][column + i] = sums[k][i];
        }
        zeroSums();
    }

    // Facts of the fragment that a row lies in.
    __device__ __forceinline__ void enter() {
        valid = 0;
        owedBegin = kNever;
        if (kTables) {
#pragma unroll
            for (int j = 0; j < kHistory; j++) valid += __ldg(a.historyRow + kHistory * at.fragment + j) >= 0;
            if (__ldg(a.tailBegin + at.fragment) >= 0) owedBegin = max(at.begin, at.next - kHistory);
        }
    }

    // The row `distance` before row t of the current fragment, or zeros.
    __device__ __forceinline__ uint2 rowBefore(int t, int distance) const {
        int inside = t - at.begin;
        if (inside >= distance) return loadRow(a.x + int64_t(t - distance) * a.xPitch + channel * 2);
        if (kTables) {
            int pool = __ldg(a.historyRow + kHistory * at.fragment + distance - inside - 1);
            if (pool >= 0) return loadRow(a.history + (pool * a.channels + channel) * 2);
        }
        return make_uint2(0, 0);
    }

    __device__ __forceinline__ void rowsBefore(int t) {
        unpack(rowBefore(t, 1), x1);
        unpack(rowBefore(t, 2), x2);
        unpack(rowBefore(t, 3), x3);
    }

    __device__ __forceinline__ void preactivations(const float (&x0)[kLane], float (&p)[kLane]) const {
#pragma unroll
        for (int i = 0; i < kLane; i++) {
            p[i] = preactivation(x3[i], x2[i], x1[i], x0[i], taps.w[0][i], taps.w[1][i], taps.w[2][i], taps.w[3][i]);
            if (kBias) p[i] = __fadd_rn(p[i], taps.bias[i]);
        }
    }

    __device__ __forceinline__ void shiftX(const float (&x0)[kLane]) {
#pragma unroll
        for (int i = 0; i < kLane; i++) {
            x3[i] = x2[i];
            x2[i] = x1[i];
            x1[i] = x0[i];
        }
    }

    // kRows rows whose documents give all three rows before them, all inside this fragment and none withheld. The
    // special-function results of all of them are under way before the first is used.
    template <int kRows>
    __device__ __forceinline__ void interiorRows(int r, char*& out, int64_t outPitch) {
        float x[kRows + kHistory][kLane], d[kRows][kLane];
#pragma unroll
        for (int i = 0; i < kLane; i++) {
            x[0][i] = x3[i];
            x[1][i] = x2[i];
            x[2][i] = x1[i];
        }
#pragma unroll
        for (int j = 0; j < kRows; j++) {
            float p[kLane];
            unpack(feed.read(kX, r + j), x[j + kHistory]);
            preactivations(x[j + kHistory], p);
            derivatives<Math, kExact>(p, d[j]);
            shiftX(x[j + kHistory]);
        }
#pragma unroll
        for (int j = 0; j < kRows; j++) {
            float dy[kLane], dx[kLane];
            unpack(feed.read(kDy, r + j), dy);
#pragma unroll
            for (int i = 0; i < kLane; i++) {
                float g = __fmul_rn(dy[i], d[j][i]);
                sums[0][i] = product(g, x[j][i], sums[0][i]);
                sums[1][i] = product(g, x[j + 1][i], sums[1][i]);
                sums[2][i] = product(g, x[j + 2][i], sums[2][i]);
                sums[3][i] = product(g, x[j + 3][i], sums[3][i]);
                if (kBias) sums[kPlanes - 1][i] = plus(sums[kPlanes - 1][i], Sum(g));
                dx[i] = __fmaf_rn(taps.w[0][i], g, d3[i]);
                d3[i] = __fmaf_rn(taps.w[1][i], g, d2[i]);
                d2[i] = __fmaf_rn(taps.w[2][i], g, d1[i]);
                d1[i] = __fmul_rn(taps.w[3][i], g);
            }
            storeRow(out, pack(dx));
            out += outPitch;
        }
    }

    // A chunk of rows of this segment in which documents begin and end anywhere. Without tables: no history from elsewhere
    // and nothing owed, so that one count, rows since the document's begin, says what a row reads and what it adds to.
    __device__ __forceinline__ void mixedChunk(int row, char*& out, int64_t outPitch) {
        // Bit i + 2: row + i is a document's first.
        unsigned firsts = row - at.begin < kHistory ? 4u >> (row - at.begin) : 0u;
        while (at.next < row + kChunkRows) {
            firsts |= 4u << (at.next - row);
            at.advance(a);
        }
#pragma unroll
        for (int r = 0; r < kChunkRows; r++) {
            bool one = !(firsts & 4u << r), two = !(firsts & 6u << r), three = !(firsts & 7u << r);
            float x0[kLane], dy[kLane], p[kLane], d[kLane];
            unpack(feed.read(kX, r), x0);
            // An absent row is a zero in the sum; only the sign of a zero p could tell, and silu' does not see it.
#pragma unroll
            for (int i = 0; i < kLane; i++) {
                p[i] = 0.f;
                if (three) p[i] = __fmul_rn(taps.w[0][i], x3[i]);
                if (two) p[i] = __fmaf_rn(taps.w[1][i], x2[i], p[i]);
                if (one) p[i] = __fmaf_rn(taps.w[2][i], x1[i], p[i]);
                p[i] = __fmaf_rn(taps.w[3][i], x0[i], p[i]);
                if (kBias) p[i] = __fadd_rn(p[i], taps.bias[i]);
            }
            derivatives<Math, kExact>(p, d);
            unpack(feed.read(kDy, r), dy);
#pragma unroll
            for (int i = 0; i < kLane; i++) {
                float g = __fmul_rn(dy[i], d[i]);
                if (three) sums[0][i] = product(g, x3[i], sums[0][i]);
                if (two) sums[1][i] = product(g, x2[i], sums[1][i]);
                if (one) sums[2][i] = product(g, x1[i], sums[2][i]);
                sums[3][i] = product(g, x0[i], sums[3][i]);
                if (kBias) sums[kPlanes - 1][i] = plus(sums[kPlanes - 1][i], Sum(g));
                if (three) d3[i] = __fmaf_rn(taps.w[0][i], g, d3[i]);
                if (two) d2[i] = __fmaf_rn(taps.w[1][i], g, d2[i]);
                if (one) d1[i] = __fmaf_rn(taps.w[2][i], g, d1[i]);
            }
            if (!(withheld & 4u >> r)) storeRow(out, pack(d3));
            out += outPitch;
#pragma unroll
            for (int i = 0; i < kLane; i++) {
                d3[i] = d2[i];
                d2[i] = d1[i];
                d1[i] = __fmul_rn(taps.w[3][i], __fmul_rn(dy[i], d[i]));
            }
            shiftX(x0);
        }
        withheld = 0;
    }

    // Any row. `live`: it belongs to the fragment of the rows before it or begins one; `inside`: its products are summed
    // here. A row after the segment's end is not inside; it serves the dx of the last three.
    __device__ __forceinline__ void anyRow(int t, int r, bool live, bool inside, char* out) {
        float g[kLane];
        if (live) {
            int reach = min(kHistory, t - at.begin);            // rows before it whose dx it adds to
            int known = min(kHistory, t - at.begin + valid);    // rows before it that its document has
            float x0[kLane], dy[kLane], p[kLane], d[kLane];
            unpack(feed.read(kX, r), x0);
            preactivations(x0, p);
            derivatives<Math, kExact>(p, d);
            unpack(feed.read(kDy, r), dy);
#pragma unroll
            for (int i = 0; i < kLane; i++) {
                g[i] = __fmul_rn(dy[i], d[i]);
                if (inside) {
                    if (known >= 3) sums[0][i] = product(g[i], x3[i], sums[0][i]);
                    if (known >= 2) sums[1][i] = product(g[i], x2[i], sums[1][i]);
                    if (known >= 1) sums[2][i] = product(g[i], x1[i], sums[2][i]);
                    sums[3][i] = product(g[i], x0[i], sums[3][i]);
                    if (kBias) sums[kPlanes - 1][i] = plus(sums[kPlanes - 1][i], Sum(g[i]));
                }
                if (reach >= 3) d3[i] = __fmaf_rn(taps.w[0][i], g[i], d3[i]);
                if (reach >= 2) d2[i] = __fmaf_rn(taps.w[1][i], g[i], d2[i]);
                if (reach >= 1) d1[i] = __fmaf_rn(taps.w[2][i], g[i], d1[i]);
            }
            shiftX(x0);
            if (kTables && inside && t >= owedBegin) {
                int64_t row = __ldg(a.tailBegin + at.fragment) + (t - owedBegin);
                *reinterpret_cast<float4*>(a.tail + row * a.channels + channel) = make_float4(g[0], g[1], g[2], g[3]);
            }
        }
        if (!(withheld & 4u)) storeRow(out, pack(d3));
#pragma unroll
        for (int i = 0; i < kLane; i++) {
            d3[i] = d2[i];
            d2[i] = d1[i];
            if (live) d1[i] = __fmul_rn(taps.w[3][i], g[i]);
        }
        withheld = withheld << 1 | (kTables && t >= owedBegin ? 1u : 0u);
    }

    // leaf: where the segment's first leaf goes; rows from `change` on belong to the leaf after it.
    __device__ __forceinline__ void segment(int begin, int end, int change, int tokens, LeafSums* leaf) {
        int loadEnd = min(end + kHistory, tokens);
        feed.aim(kX, a.x, a.xPitch, begin, tile);
        feed.aim(kDy, a.dy, a.dyPitch, begin, tile);
        feed.start(begin, loadEnd);
        at.find(a, begin);
        enter();
        rowsBefore(begin);
#pragma unroll
        for (int i = 0; i < kLane; i++) d1[i] = d2[i] = d3[i] = 0.f;
        withheld = 7u;
        bool live = true;
        char* out = a.out + int64_t(begin - kHistory) * a.outPitch + channel * 2;

        // Rows of this segment known to be interior; the first three have dx before them that is not written here.
        int calmBegin = max(at.begin, begin) + kHistory;
        int calmEnd = min(at.next, end);
#pragma unroll 1
        for (int row = begin; row < end + kHistory; row += kChunkRows) {
            feed.await();
            if (row == change && row < end) storeLeaf(leaf[0]);
            if (kTables ? interior(row, kChunkRows, end, change) : row >= calmBegin && row + kChunkRows <= calmEnd) {
#pragma unroll
                for (int r = 0; r < kChunkRows; r += kBatchRows) interiorRows<kBatchRows>(r, out, a.outPitch);
            } else if (kTables ? mixed(row, end, change) : row + kChunkRows <= end) {
                int fragment = at.fragment;
                mixedChunk(row, out, a.outPitch);
                if (kTables && at.fragment != fragment) {
                    enter();
                    // Rows of the document before have no part in what follows.
#pragma unroll
                    for (int i = 0; i < kLane; i++) {
                        if (row + kChunkRows - at.begin < 3) x3[i] = 0.f;
                        if (row + kChunkRows - at.begin < 2) x2[i] = 0.f;
                    }
                }
                calmBegin = at.begin + kHistory;
                calmEnd = min(at.next, end);
            } else {
                int chunkEnd = min(row + kChunkRows, end + kHistory);
                if (!kTables && row < at.next) rowsBefore(row);
#pragma unroll 1
                for (int t = row; t < chunkEnd;) {
                    bool inside = t < end;
                    if (kTables && t == change && t > row && inside) storeLeaf(leaf[0]);
                    if (kTables && t + 2 <= chunkEnd && interior(t, 2, end, change)) {
                        interiorRows<2>(t - row, out, a.outPitch);
                        t += 2;
                        continue;
                    }
                    if (t == at.next) {
                        live = inside;
                        if (inside) {
                            at.advance(a);
                            enter();
                            if (kTables) {
                                rowsBefore(t);
                            } else {
#pragma unroll
                                for (int i = 0; i < kLane; i++) x1[i] = x2[i] = x3[i] = 0.f;
                            }
                        }
                    }
                    anyRow(t, t - row, live, inside, out);
                    out += a.outPitch;
                    t++;
                }
            }
            feed.refill();
        }
    }

    // Whether rows [row, row + count) are all of the kind that interiorRows takes.
    __device__ __forceinline__ bool interior(int row, int count, int end, int change) const {
        return row + count <= min(min(at.next, owedBegin), end) && row - at.begin >= kHistory && (withheld & 7u) == 0
                && !(kTables && row < change && change < row + count);
    }

    // With tables, whether mixedChunk may take a chunk: one leaf, no history from elsewhere and nothing owed in it.
    __device__ __forceinline__ bool mixed(int row, int end, int change) const {
        int chunkEnd = row + kChunkRows;
        if (chunkEnd > end || chunkEnd > owedBegin || (row < change && change < chunkEnd)) return false;
        if (row - at.begin < kHistory && valid > 0) return false;
        Position ahead = at;
        while (ahead.next < chunkEnd) {
            ahead.advance(a);
            bool owes = __ldg(a.tailBegin + ahead.fragment) >= 0 && ahead.next - kHistory < chunkEnd;
            if (owes || __ldg(a.historyRow + kHistory * ahead.fragment) >= 0) return false;
        }
        return true;
    }
};
