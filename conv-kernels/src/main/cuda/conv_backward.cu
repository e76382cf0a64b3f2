// Backward. `main` walks down the rows of each group of eight leaves of the reduction tree, writes dx and one row of
// sums per group; `reduce` sums those rows in the tree. Around an exchange: `head` makes g of the rows that other
// fragments' last rows wait for, `owed` the dx that waited. `round` casts a finished root.
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

// Lets the dependent launch come as early as it may: it waits for this grid's end itself.
__device__ __forceinline__ void allowDependents() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");
#endif
}

__device__ __forceinline__ void awaitPrimary() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

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
            if (!kTables && row == change && row < end) storeLeaf(leaf[0]);
            if (kTables ? interior(row, kChunkRows, end, change) : row >= calmBegin && row + kChunkRows <= calmEnd) {
#pragma unroll
                for (int r = 0; r < kChunkRows; r += kBatchRows) interiorRows<kBatchRows>(r, out, a.outPitch);
            } else if (!kTables && row + kChunkRows <= end) {
                mixedChunk(row, out, a.outPitch);
                calmBegin = at.begin + kHistory;
                calmEnd = min(at.next, end);
            } else {
                int chunkEnd = min(row + kChunkRows, end + kHistory);
                if (!kTables && row < at.next) rowsBefore(row);
#pragma unroll 1
                for (int t = row; t < chunkEnd;) {
                    if (kTables && t + 2 <= chunkEnd && interior(t, 2, end, change)) {
                        interiorRows<2>(t - row, out, a.outPitch);
                        t += 2;
                        continue;
                    }
                    bool inside = t < end;
                    if (kTables && t == change && inside) storeLeaf(leaf[0]);
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
                && !(kTables && row <= change && change < row + count);
    }
};

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
    int tokens = __ldg(a.begin + a.fragments);
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

// ---- reduce ----------------------------------------------------------------------------------------------------------

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

__device__ __forceinline__ void storeGradient(const ConvArgs& a, int plane, int channel, auto value) {
    char* to = plane == 4 ? a.dbias : a.dweight;
    if (!to) return;
    int64_t index = plane == 4 ? channel : int64_t(channel) * 4 + plane;
    if (plane == 4 ? a.dbiasIsBf16 : a.dweightIsBf16) {
        reinterpret_cast<uint16_t*>(to)[index] = toBf16(value);
    } else {
        reinterpret_cast<float*>(to)[index] = float(value);
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
        count = int((int64_t(__ldg(a.begin + a.fragments)) + kGroupRows - 1) / kGroupRows);
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

// ---- around the exchange: one warp per fragment and channel tile -------------------------------------------------------

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

// ---- entries ---------------------------------------------------------------------------------------------------------

// Blocks per multiprocessor that registers are kept few for; newer generations' code would spill at four.
#if __CUDA_ARCH__ >= 1000
#define DENSE_BLOCKS 3
#else
#define DENSE_BLOCKS 4
#endif

#define BACKWARD_MAIN(name, math, exact, bias, tables, blocks)                                                \
    extern "C" __global__ void __launch_bounds__(32 * kBackwardWarps, blocks) name(const __grid_constant__ ConvArgs a) { \
        backwardMain<math, exact, bias, tables>(a);                                                              \
    }
#define BACKWARD_MAINS(math, name)                                                             \
    BACKWARD_MAIN(backward_main_##name##_bf16_batch, math, false, false, false, DENSE_BLOCKS)       \
    BACKWARD_MAIN(backward_main_##name##_bf16_batch_bias, math, false, true, false, 3)   \
    BACKWARD_MAIN(backward_main_##name##_bf16_tables, math, false, false, true, 3)       \
    BACKWARD_MAIN(backward_main_##name##_bf16_tables_bias, math, false, true, true, 3)   \
    BACKWARD_MAIN(backward_main_##name##_fp32_batch, math, true, false, false, 2)        \
    BACKWARD_MAIN(backward_main_##name##_fp32_batch_bias, math, true, true, false, 2)    \
    BACKWARD_MAIN(backward_main_##name##_fp32_tables, math, true, false, true, 2)        \
    BACKWARD_MAIN(backward_main_##name##_fp32_tables_bias, math, true, true, true, 2)
#define BACKWARD_HEADS(math, name)                                                                                \
    extern "C" __global__ void backward_head_##name##_bf16(const __grid_constant__ ConvArgs a) { head<math, false>(a); } \
    extern "C" __global__ void backward_head_##name##_fp32(const __grid_constant__ ConvArgs a) { head<math, true>(a); }

BACKWARD_MAINS(FastMath, fast)
BACKWARD_MAINS(PortableMath, portable)
BACKWARD_HEADS(FastMath, fast)
BACKWARD_HEADS(PortableMath, portable)
extern "C" __global__ void backward_reduce_bf16_batch(const __grid_constant__ ConvArgs a) { reduce<float, false>(a); }
extern "C" __global__ void backward_reduce_fp32_batch(const __grid_constant__ ConvArgs a) { reduce<double, false>(a); }
extern "C" __global__ void backward_reduce_bf16_tables(const __grid_constant__ ConvArgs a) { reduce<float, true>(a); }
extern "C" __global__ void backward_reduce_fp32_tables(const __grid_constant__ ConvArgs a) { reduce<double, true>(a); }
extern "C" __global__ void backward_owed(const __grid_constant__ ConvArgs a) { owed(a); }
extern "C" __global__ void backward_round_bf16(const __grid_constant__ ConvArgs a) { roundRoot<float>(a); }
extern "C" __global__ void backward_round_fp32(const __grid_constant__ ConvArgs a) { roundRoot<double>(a); }
