// Sums over rows of x^T dy for short tiles: a product whose additions follow the tree over tiles. A library's product of
// 64 rows writes as many bytes as one of 4096; here a block keeps what it owes the tree in registers and writes once for
// sixteen tiles. Compiled without contraction (-fmad=false); no atomics: bits depend on the rows of the tiles alone.
//
// x: BF16 [S, K], dy: BF16 [S, M], dense, K and M multiples of 8; out: FP32 [groups, K, M]. A block makes 128 x 64 of K x M
// for one group of tiles; each of its eight warps 32 x 32.
#include "integers.cuh"

constexpr int kThreads = 256;
constexpr int kBlockK = 128;
constexpr int kBlockM = 64;
constexpr int kChunkRows = 64;      // rows of a stage; tiles are multiples of it
constexpr int kGroupTiles = 16;     // in dev.kcp.train.cuda.TreeSums as here
constexpr int kStages = 4;
constexpr int kXBytes = kChunkRows * kBlockK * 2;
constexpr int kStageBytes = kXBytes + kChunkRows * kBlockM * 2;     // 24 KiB; in SmallTiles as here
constexpr int kSums = 32;           // of a thread

struct ProductArgs {
    const char* x;
    const char* dy;
    const char* secondX;            // a second product, added inside each tile; or null
    const char* secondDy;
    float* out;
    float* owed;                    // [groups, K, M], scratch
    int64_t rowBegin;
    int64_t rowEnd;
    int64_t tileRows;
    int64_t k;
    int64_t m;
};

// Where the next chunk of rows is: chunks of a tile, first those of the first product, then tiles.
struct Walk {
    int64_t row;                    // first row of the tile
    int chunk = 0;
    bool second = false;

    __device__ __forceinline__ Walk(int64_t begin) : row(begin) {}

    // True where a tile ends.
    __device__ __forceinline__ bool next(const ProductArgs& a) {
        if ((++chunk) * kChunkRows < a.tileRows) return false;
        chunk = 0;
        if (!second && a.secondX) {
            second = true;
            return false;
        }
        second = false;
        row += a.tileRows;
        return true;
    }
};

__device__ __forceinline__ void copyAsync(uint32_t to, const char* from, bool valid) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(valid ? 16 : 0));
}

// Rows of one operand's stage; rows and columns that do not exist become zeros. 16-byte pieces of a row are exchanged by
// the row's number, so that eight rows of one column lie in different banks.
template <int kColumns>
__device__ __forceinline__ void loadRows(const char* from, int64_t first, int64_t end, int64_t columns, int64_t begin, uint32_t to) {
    constexpr int kPieces = kColumns / 8;
    constexpr int kRowsAtOnce = kThreads / kPieces;
    static_assert(kRowsAtOnce % 8 == 0, "a thread's rows share a place in the exchange");
    int row = threadIdx.x / kPieces, piece = threadIdx.x % kPieces;
    int64_t left = begin + piece * 8 < columns ? end - first - row : 0;
    const char* source = from + ((first + row) * columns + begin + piece * 8) * 2;
    int64_t step = columns * (kRowsAtOnce * 2);
    to += row * (kColumns * 2) + (piece ^ row % 8) * 16;
#pragma unroll
    for (int i = 0; i < kChunkRows / kRowsAtOnce; i++) {
        bool valid = i * kRowsAtOnce < left;
        copyAsync(to + i * (kRowsAtOnce * kColumns * 2), valid ? source : from, valid);
        source += step;
    }
}

__device__ __forceinline__ void load(const ProductArgs& a, const Walk& walk, uint32_t stage, int64_t kBegin, int64_t mBegin) {
    int64_t first = walk.row + walk.chunk * kChunkRows;
    loadRows<kBlockK>(walk.second ? a.secondX : a.x, first, a.rowEnd, a.k, kBegin, stage);
    loadRows<kBlockM>(walk.second ? a.secondDy : a.dy, first, a.rowEnd, a.m, mBegin, stage + kXBytes);
}

__device__ __forceinline__ void loadTransposed(uint32_t (&v)[4], uint32_t address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
                 : "r"(address));
}

__device__ __forceinline__ void multiply(float* c, const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// One stage's rows: sums[(2 * 4) * 4], two 16-row fragments of K by four 8-column fragments of M.
__device__ __forceinline__ void accumulate(float (&sums)[kSums], uint32_t stage, int warpK, int warpM, int lane) {
    int matrix = lane / 8, line = lane % 8;
#pragma unroll
    for (int step = 0; step < kChunkRows / 16; step++) {
        uint32_t x[2][4], dy[2][4];
        // Fragments of x: rows 0-7 of K 0-7, of K 8-15, then rows 8-15.
        int xRow = step * 16 + matrix / 2 * 8 + line;
#pragma unroll
        for (int i = 0; i < 2; i++) {
            int piece = (warpK + i * 16) / 8 + matrix % 2;
            loadTransposed(x[i], stage + xRow * (kBlockK * 2) + (piece ^ xRow % 8) * 16);
        }
        // Fragments of dy: rows 0-7 of M 0-7, rows 8-15, then M 8-15.
        int dyRow = step * 16 + matrix % 2 * 8 + line;
#pragma unroll
        for (int j = 0; j < 2; j++) {
            int piece = (warpM + j * 16) / 8 + matrix / 2;
            loadTransposed(dy[j], stage + kXBytes + dyRow * (kBlockM * 2) + (piece ^ dyRow % 8) * 16);
        }
#pragma unroll
        for (int i = 0; i < 2; i++) {
#pragma unroll
            for (int j = 0; j < 4; j++) {
                multiply(sums + (i * 4 + j) * 4, x[i], dy[j / 2][j % 2 * 2], dy[j / 2][j % 2 * 2 + 1]);
            }
        }
    }
}

__device__ __forceinline__ void copy(float (&to)[kSums], const float (&from)[kSums]) {
#pragma unroll
    for (int i = 0; i < kSums; i++) to[i] = from[i];
}

__device__ __forceinline__ void add(float (&right)[kSums], const float (&left)[kSums]) {
#pragma unroll
    for (int i = 0; i < kSums; i++) right[i] = left[i] + right[i];
}

// The thread's sums as they lie in one group's K x M.
struct Place {
    float* out;
    int64_t k, m;
    const ProductArgs& a;

    template <typename F>
    __device__ __forceinline__ void each(F&& body) const {
        // Sixteen addresses in registers all along would leave too few: they are made when they are needed.
        float* base = out;
        asm volatile("" : "+l"(base));
#pragma unroll
        for (int i = 0; i < 2; i++) {
#pragma unroll
            for (int j = 0; j < 4; j++) {
#pragma unroll
                for (int half = 0; half < 2; half++) {
                    int64_t row = k + i * 16 + half * 8;
                    int64_t column = m + j * 8;
                    if (row < a.k && column < a.m) {
                        body(reinterpret_cast<float2*>(base + row * a.m + column), (i * 4 + j) * 4 + half * 2);
                    }
                }
            }
        }
    }

    __device__ __forceinline__ void store(const float (&sums)[kSums]) const {
        each([&](float2* at, int i) { *at = make_float2(sums[i], sums[i + 1]); });
    }

    __device__ __forceinline__ void add(float (&right)[kSums]) const {
        each([&](float2* at, int i) {
            float2 left = *at;
            right[i] = left.x + right[i];
            right[i + 1] = left.y + right[i + 1];
        });
    }
};

extern "C" __global__ void __launch_bounds__(kThreads, 1) train_small_tiles(const __grid_constant__ ProductArgs a) {
    extern __shared__ __align__(128) char shared[];
    uint32_t stages = uint32_t(__cvta_generic_to_shared(shared));
    int64_t blocksM = (a.m + kBlockM - 1) / kBlockM;
    int64_t blocks = (a.k + kBlockK - 1) / kBlockK * blocksM;
    int64_t group = blockIdx.x / blocks;
    int64_t kBegin = blockIdx.x % blocks / blocksM * kBlockK;
    int64_t mBegin = blockIdx.x % blocks % blocksM * kBlockM;
    int64_t groupBegin = a.rowBegin + group * kGroupTiles * a.tileRows;
    int64_t groupEnd = min(groupBegin + kGroupTiles * a.tileRows, a.rowEnd);
    int tiles = int((groupEnd - groupBegin + a.tileRows - 1) / a.tileRows);
    int chunks = tiles * int(a.tileRows / kChunkRows) * (a.secondX ? 2 : 1);
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int warpK = warp % 4 * 32, warpM = warp / 4 * 32;

    Walk loading(groupBegin), walk(groupBegin);
    // One commit for each stage, also where nothing is left to load, so that counting them is simple.
    for (int i = 0; i < kStages - 1; i++) {
        if (i < chunks) {
            load(a, loading, stages + i * kStageBytes, kBegin, mBegin);
            loading.next(a);
        }
        asm volatile("cp.async.commit_group;");
    }

    float sums[kSums] = {};
    // Sums of so many tiles; those of four wait in scratch and those of eight where the result goes, for want of registers.
    float pending1[kSums], pending2[kSums];
    int64_t threadK = kBegin + warpK + lane / 4, threadM = mBegin + warpM + lane % 4 * 2;
    Place pending4{a.owed + group * a.k * a.m, threadK, threadM, a};
    Place place{a.out + group * a.k * a.m, threadK, threadM, a};
    int tile = 0;
    for (int i = 0; i < chunks; i++) {
        asm volatile("cp.async.wait_group %0;" ::"n"(kStages - 2));
        // The stage that is loaded next was read before this barrier.
        __syncthreads();
        if (i + kStages - 1 < chunks) {
            load(a, loading, stages + (i + kStages - 1) % kStages * kStageBytes, kBegin, mBegin);
            loading.next(a);
        }
        asm volatile("cp.async.commit_group;");
        accumulate(sums, stages + i % kStages * kStageBytes, warpK, warpM, lane);
        if (!walk.next(a)) continue;
        tile++;
        if (tile == kGroupTiles) {
            add(sums, pending1);
            add(sums, pending2);
            pending4.add(sums);
            place.add(sums);
            break;
        }
        if (tile & 1) {
            copy(pending1, sums);
        } else {
            add(sums, pending1);
            if (tile & 2) {
                copy(pending2, sums);
            } else {
                add(sums, pending2);
                if (tile & 4) {
                    pending4.store(sums);
                } else {
                    pending4.add(sums);
                    place.store(sums);
                }
            }
        }
#pragma unroll
        for (int s = 0; s < kSums; s++) sums[s] = 0;
    }
    if (tile < kGroupTiles) {
        // What is owed, the newest first.
        int newest = tile & -tile;
        if (newest == 1) copy(sums, pending1);
        if (newest == 2) copy(sums, pending2);
        if ((tile & 2) && newest < 2) add(sums, pending2);
        // Where four or eight tiles are the newest sum, the zeros of a tile that never came are added to them, which changes
        // no sum but that of -0, which a sum that began at +0 is not.
        if (tile & 4) pending4.add(sums);
        if (tile & 8) place.add(sums);
    }
    place.store(sums);
}
