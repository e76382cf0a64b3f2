// The trainer's programs beside matrix products: token vectors, norms, cross entropy, sums by the tree over tiles, the
// gradient's norm and AdamW. Compiled without contraction (-fmad=false); every fma is written out. No program uses
// atomics: each sum has one order, fixed by the rows alone.
//
// S = rows, C = channels (a multiple of 8), V = 256. Rows are dense BF16 unless said otherwise. Sums over rows are made of
// leaves of at most 64 rows that never cross a tile; dev.kcp.train.cuda adds leaves inside a tile, then tiles.
#include "integers.cuh"

constexpr int kWarps = 8;
constexpr int kThreads = 32 * kWarps;
constexpr int kLeafRows = 64;
constexpr int kVocabulary = 256;
constexpr int kFanIn = 16;          // rows that one thread of a tree program adds
constexpr int kNormBlocks = 1024;   // most partial sums of the gradient's norm


// Where leaves lie: leaf l is part l % leavesPerTile of tile l / leavesPerTile.
struct Leaf {
    int64_t begin;
    int rows;

    __device__ Leaf(int64_t leaf, int64_t rowsInAll, int64_t tileRows) {
        int64_t leavesPerTile = (tileRows + kLeafRows - 1) / kLeafRows;
        int64_t tile = leaf / leavesPerTile;
        begin = tile * tileRows + leaf % leavesPerTile * kLeafRows;
        int64_t tileEnd = min((tile + 1) * tileRows, rowsInAll);
        rows = int(max(int64_t(0), min(int64_t(kLeafRows), tileEnd - begin)));
    }
};

// ---- loads and stores ------------------------------------------------------------------------------------------------

__device__ __forceinline__ float low(uint32_t pair) { return __uint_as_float(pair << 16); }
__device__ __forceinline__ float high(uint32_t pair) { return __uint_as_float(pair & 0xffff0000u); }

// BF16 pair, each rounded to nearest even.
__device__ __forceinline__ uint32_t pack(float lowValue, float highValue) {
    uint32_t pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(highValue), "f"(lowValue));
    return pair;
}

__device__ __forceinline__ void unpack(uint4 packed, float (&v)[8]) {
    v[0] = low(packed.x);
    v[1] = high(packed.x);
    v[2] = low(packed.y);
    v[3] = high(packed.y);
    v[4] = low(packed.z);
    v[5] = high(packed.z);
    v[6] = low(packed.w);
    v[7] = high(packed.w);
}

__device__ __forceinline__ uint4 pack(const float (&v)[8]) {
    return make_uint4(pack(v[0], v[1]), pack(v[2], v[3]), pack(v[4], v[5]), pack(v[6], v[7]));
}

__device__ __forceinline__ void loadFloats(const float* from, float (&v)[8]) {
    float4 a = *reinterpret_cast<const float4*>(from);
    float4 b = *reinterpret_cast<const float4*>(from + 4);
    v[0] = a.x;
    v[1] = a.y;
    v[2] = a.z;
    v[3] = a.w;
    v[4] = b.x;
    v[5] = b.y;
    v[6] = b.z;
    v[7] = b.w;
}

// The same bits in every lane: each step adds the same two numbers in both.
template <typename T>
__device__ __forceinline__ T warpSum(T v) {
#pragma unroll
    for (int step = 16; step > 0; step /= 2) v += __shfl_xor_sync(~0u, v, step);
    return v;
}

__device__ __forceinline__ int64_t thread() { return int64_t(blockIdx.x) * blockDim.x + threadIdx.x; }

// ---- token vectors ---------------------------------------------------------------------------------------------------

struct EmbedArgs {
    const int* tokens;
    const uint4* vectors;   // [V, C]
    uint4* stream;          // [S, C]
    int64_t rows;
    int64_t rowChunks;      // 16-byte accesses of one row
};

extern "C" __global__ void __launch_bounds__(kThreads) train_embed(const __grid_constant__ EmbedArgs a) {
    int64_t at = thread();
    if (at >= a.rows * a.rowChunks) return;
    int64_t row = at / a.rowChunks;
    a.stream[at] = __ldg(a.vectors + int64_t(__ldg(a.tokens + row)) * a.rowChunks + at % a.rowChunks);
}

struct OneHotArgs {
    const int* tokens;
    uint4* out;             // BF16 [S, V]: 1 at the row's token, else 0
    int64_t rows;
};

extern "C" __global__ void __launch_bounds__(kThreads) train_one_hot(const __grid_constant__ OneHotArgs a) {
    constexpr int kChunks = kVocabulary / 8;
    int64_t at = thread();
    if (at >= a.rows * kChunks) return;
    int place = __ldg(a.tokens + at / kChunks) - int(at % kChunks) * 8;
    uint32_t one = 0x3f80u << (place % 2 * 16);
    auto word = [&](int pair) { return place >= 0 && place / 2 == pair ? one : 0u; };
    a.out[at] = make_uint4(word(0), word(1), word(2), word(3));
}

// ---- norm ------------------------------------------------------------------------------------------------------------

struct NormArgs {
    const uint4* x;         // [S, C]
    const float* gain;      // [C]
    uint4* y;               // [S, C]
    float* inverseRms;      // [S]
    int64_t rows;
    int64_t channels;
};

// One warp a row; the second read of the row comes from the cache.
extern "C" __global__ void __launch_bounds__(kThreads) train_norm(const __grid_constant__ NormArgs a) {
    int64_t row = int64_t(blockIdx.x) * kWarps + threadIdx.x / 32;
    if (row >= a.rows) return;
    int lane = threadIdx.x % 32;
    int64_t chunks = a.channels / 8;
    const uint4* x = a.x + row * chunks;
    float squares = 0;
    float v[8];
    for (int64_t i = lane; i < chunks; i += 32) {
        unpack(x[i], v);
#pragma unroll
        for (int j = 0; j < 8; j++) squares = __fmaf_rn(v[j], v[j], squares);
    }
    squares = warpSum(squares);
    float r = float(1.0 / sqrt(double(squares) / double(a.channels) + 1e-6));
    for (int64_t i = lane; i < chunks; i += 32) {
        float gain[8];
        unpack(x[i], v);
        loadFloats(a.gain + i * 8, gain);
#pragma unroll
        for (int j = 0; j < 8; j++) v[j] = v[j] * r * gain[j];
        a.y[row * chunks + i] = pack(v);
    }
    if (lane == 0) a.inverseRms[row] = r;
}

struct NormBackwardArgs {
    const uint4* x;             // [S, C]
    const float* gain;          // [C]
    const float* inverseRms;    // [S]
    const uint4* dy;            // [S, C]
    uint4* dx;                  // [S, C], added to
    float* leaves;              // [leaves, C]: gradient of the gain
    int64_t rows;
    int64_t channels;
    int64_t tileRows;
};

// One block a leaf, eight rows at a time so that their second read comes from the cache: first each row's share, by a warp,
// then each thread's channels down the rows. The leaf's sum waits in memory, where its thread alone comes back to it.
extern "C" __global__ void __launch_bounds__(kThreads) train_norm_backward(const __grid_constant__ NormBackwardArgs a) {
    __shared__ float rms[kWarps];
    __shared__ float shares[kWarps];
    Leaf leaf(blockIdx.x, a.rows, a.tileRows);
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int64_t chunks = a.channels / 8;
    // Four channels a thread: a warp's access is 256 bytes, and a block of 256 threads covers 1024 channels.
    int64_t quads = a.channels / 4;
    const uint2* x = reinterpret_cast<const uint2*>(a.x);
    const uint2* dy = reinterpret_cast<const uint2*>(a.dy);
    uint2* dx = reinterpret_cast<uint2*>(a.dx);
    float4* sums = reinterpret_cast<float4*>(a.leaves) + blockIdx.x * quads;
    for (int begin = 0; begin < leaf.rows; begin += kWarps) {
        int count = min(kWarps, leaf.rows - begin);
        if (warp < count) {
            int64_t row = leaf.begin + begin + warp;
            float products = 0;
            for (int64_t i = lane; i < chunks; i += 32) {
                float xv[8], dyv[8], gain[8];
                unpack(a.x[row * chunks + i], xv);
                unpack(a.dy[row * chunks + i], dyv);
                loadFloats(a.gain + i * 8, gain);
#pragma unroll
                for (int j = 0; j < 8; j++) products = __fmaf_rn(dyv[j] * gain[j], xv[j], products);
            }
            products = warpSum(products);
            if (lane == 0) {
                float r = a.inverseRms[row];
                rms[warp] = r;
                shares[warp] = float(double(products) * r * r * r / double(a.channels));
            }
        }
        __syncthreads();
        for (int64_t quad = threadIdx.x; quad < quads; quad += kThreads) {
            float4 gain = reinterpret_cast<const float4*>(a.gain)[quad];
            float4 sum = begin == 0 ? make_float4(0, 0, 0, 0) : sums[quad];
            int64_t first = (leaf.begin + begin) * quads + quad;
            // Loads before stores, which the compiler must take for ones of the same memory.
#pragma unroll
            for (int half = 0; half < kWarps; half += kWarps / 2) {
                uint2 xs[kWarps / 2], dys[kWarps / 2], dxs[kWarps / 2];
#pragma unroll
                for (int i = 0; i < kWarps / 2; i++) {
                    if (half + i < count) {
                        xs[i] = x[first + (half + i) * quads];
                        dys[i] = dy[first + (half + i) * quads];
                        dxs[i] = dx[first + (half + i) * quads];
                    }
                }
#pragma unroll
                for (int i = 0; i < kWarps / 2; i++) {
                    if (half + i < count) {
                        float r = rms[half + i];
                        float share = shares[half + i];
                        auto one = [&](float xv, float dyv, float dxv, float g, float& s) {
                            s = __fmaf_rn(dyv, xv * r, s);
                            return dxv + (dyv * g * r - xv * share);
                        };
                        float v0 = one(low(xs[i].x), low(dys[i].x), low(dxs[i].x), gain.x, sum.x);
                        float v1 = one(high(xs[i].x), high(dys[i].x), high(dxs[i].x), gain.y, sum.y);
                        float v2 = one(low(xs[i].y), low(dys[i].y), low(dxs[i].y), gain.z, sum.z);
                        float v3 = one(high(xs[i].y), high(dys[i].y), high(dxs[i].y), gain.w, sum.w);
                        dx[first + (half + i) * quads] = make_uint2(pack(v0, v1), pack(v2, v3));
                    }
                }
            }
            sums[quad] = sum;
        }
        // Before the next rows' shares take the place of these.
        __syncthreads();
    }
}

// ---- cross entropy ---------------------------------------------------------------------------------------------------

struct CrossEntropyArgs {
    uint4* logits;          // [S, V], replaced by their gradient
    const int* targets;     // [S]
    double* leaves;         // [leaves]: loss in nats
    int64_t rows;
    int64_t tileRows;
    int64_t scaleBits;      // FP32
};

extern "C" __global__ void __launch_bounds__(kThreads) train_cross_entropy(const __grid_constant__ CrossEntropyArgs a) {
    __shared__ double losses[kLeafRows];
    Leaf leaf(blockIdx.x, a.rows, a.tileRows);
    float scale = __uint_as_float(uint32_t(a.scaleBits));
    int lane = threadIdx.x % 32;
    for (int row = threadIdx.x / 32; row < leaf.rows; row += kWarps) {
        uint4* logits = a.logits + (leaf.begin + row) * (kVocabulary / 8) + lane;
        int target = a.targets[leaf.begin + row];
        float v[8];
        unpack(*logits, v);
        float top = v[0];
#pragma unroll
        for (int j = 1; j < 8; j++) top = fmaxf(top, v[j]);
#pragma unroll
        for (int step = 16; step > 0; step /= 2) top = fmaxf(top, __shfl_xor_sync(~0u, top, step));
        float atTarget = 0;
        float total = 0;
#pragma unroll
        for (int j = 0; j < 8; j++) {
            if (target == lane * 8 + j) atTarget = v[j];
            v[j] = expf(v[j] - top);
            total += v[j];
        }
        atTarget = __shfl_sync(~0u, atTarget, target / 8);
        total = warpSum(total);
        float factor = scale / total;
#pragma unroll
        for (int j = 0; j < 8; j++) {
            v[j] = v[j] * factor;
            if (target == lane * 8 + j) v[j] = v[j] - scale;
        }
        *logits = pack(v);
        if (lane == 0) losses[row] = log(double(total)) - (double(atTarget) - double(top));
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        double sum = 0;
        for (int row = 0; row < leaf.rows; row++) sum += losses[row];
        a.leaves[blockIdx.x] = sum;
    }
}

// ---- the tree over tiles ---------------------------------------------------------------------------------------------

// Rows of `in` come in segments of `perSegment` rows, the last perhaps shorter; each run of kFanIn rows of a segment
// becomes one row of `out`, added as halves: the first 2^k rows, then the others.
struct TreeArgs {
    const void* in;
    void* out;
    int64_t elements;       // of a row
    int64_t rows;
    int64_t perSegment;
    int64_t blocksPerRow;
};

template <typename V>
__device__ __forceinline__ V plus(V a, V b) { return a + b; }
template <>
__device__ __forceinline__ float4 plus(float4 a, float4 b) {
    return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

template <typename V>
__device__ __forceinline__ void tree(const TreeArgs& a, int64_t vectors) {
    int64_t outRow = blockIdx.x / a.blocksPerRow;
    int64_t at = blockIdx.x % a.blocksPerRow * kThreads + threadIdx.x;
    if (at >= vectors) return;
    int64_t groups = (a.perSegment + kFanIn - 1) / kFanIn;
    int64_t segment = outRow / groups;
    int64_t begin = segment * a.perSegment + outRow % groups * kFanIn;
    int64_t end = min(min(begin + kFanIn, (segment + 1) * a.perSegment), a.rows);
    int count = int(end - begin);
    const V* in = reinterpret_cast<const V*>(a.in) + begin * vectors + at;
    V v[kFanIn];
#pragma unroll
    for (int i = 0; i < kFanIn; i++) {
        if (i < count) v[i] = in[i * vectors];
    }
#pragma unroll
    for (int step = 1; step < kFanIn; step *= 2) {
#pragma unroll
        for (int i = 0; i < kFanIn; i += 2 * step) {
            if (i + step < count) v[i] = plus(v[i], v[i + step]);
        }
    }
    reinterpret_cast<V*>(a.out)[outRow * vectors + at] = v[0];
}

extern "C" __global__ void __launch_bounds__(kThreads) train_tree_float(const __grid_constant__ TreeArgs a) {
    tree<float4>(a, a.elements / 4);
}

extern "C" __global__ void __launch_bounds__(kThreads) train_tree_double(const __grid_constant__ TreeArgs a) {
    tree<double>(a, a.elements);
}

// ---- element by element ----------------------------------------------------------------------------------------------

struct PairArgs {
    void* to;
    const void* from;
    int64_t elements;
};

extern "C" __global__ void __launch_bounds__(kThreads) train_add_float(const __grid_constant__ PairArgs a) {
    int64_t i = thread();
    if (i < a.elements) static_cast<float*>(a.to)[i] += static_cast<const float*>(a.from)[i];
}

extern "C" __global__ void __launch_bounds__(kThreads) train_add_double(const __grid_constant__ PairArgs a) {
    int64_t i = thread();
    if (i < a.elements) static_cast<double*>(a.to)[i] += static_cast<const double*>(a.from)[i];
}

extern "C" __global__ void __launch_bounds__(kThreads) train_to_bf16(const __grid_constant__ PairArgs a) {
    int64_t i = thread();
    if (i < a.elements) static_cast<uint16_t*>(a.to)[i] = uint16_t(pack(static_cast<const float*>(a.from)[i], 0.f));
}

extern "C" __global__ void __launch_bounds__(kThreads) train_to_float(const __grid_constant__ PairArgs a) {
    int64_t i = thread();
    if (i < a.elements) static_cast<float*>(a.to)[i] = low(static_cast<const uint16_t*>(a.from)[i]);
}

// ---- optimizer -------------------------------------------------------------------------------------------------------

struct SquareArgs {
    const float4* gradients;
    double* partials;       // [blocks]
    double* norm;
    int64_t vectors;
    int64_t blocks;         // at most kNormBlocks
};

__device__ __forceinline__ double blockSum(double v) {
    __shared__ double warps[32];
    v = warpSum(v);
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = v;
    __syncthreads();
    return warpSum(threadIdx.x % 32 < blockDim.x / 32 ? warps[threadIdx.x % 32] : 0.0);
}

extern "C" __global__ void __launch_bounds__(kThreads) train_squares(const __grid_constant__ SquareArgs a) {
    double sum = 0;
    for (int64_t i = thread(); i < a.vectors; i += int64_t(gridDim.x) * kThreads) {
        float4 g = a.gradients[i];
        sum += double(g.x) * g.x;
        sum += double(g.y) * g.y;
        sum += double(g.z) * g.z;
        sum += double(g.w) * g.w;
    }
    sum = blockSum(sum);
    if (threadIdx.x == 0) a.partials[blockIdx.x] = sum;
}

// One block of kNormBlocks threads.
extern "C" __global__ void __launch_bounds__(kNormBlocks) train_root(const __grid_constant__ SquareArgs a) {
    double sum = blockSum(threadIdx.x < a.blocks ? a.partials[threadIdx.x] : 0.0);
    if (threadIdx.x == 0) *a.norm = sqrt(sum);
}

struct AdamArgs {
    float* values;
    uint2* copies;              // BF16, for products
    const float* gradients;
    float* first;
    float* second;
    const double* norm;
    const double* factors;      // step size, second correction, keep, clip norm
    const uint8_t* decayed;     // one for each 16 elements
    int64_t vectors;            // of 4 elements
    int64_t beta1Bits;          // FP32, as the two below
    int64_t beta2Bits;
    int64_t epsilonBits;
};

extern "C" __global__ void __launch_bounds__(kThreads) train_adam(const __grid_constant__ AdamArgs a) {
    int64_t i = thread();
    double norm = *a.norm;
    if (i >= a.vectors || !isfinite(norm)) return;
    float beta1 = __uint_as_float(uint32_t(a.beta1Bits));
    float beta2 = __uint_as_float(uint32_t(a.beta2Bits));
    float epsilon = __uint_as_float(uint32_t(a.epsilonBits));
    float stepSize = float(a.factors[0]);
    float secondCorrection = float(a.factors[1]);
    float keep = a.decayed[i / 4] ? float(a.factors[2]) : 1.f;
    float scale = float(fmin(1.0, a.factors[3] / fmax(norm, 2.2250738585072014e-308)));
    float4 value = reinterpret_cast<float4*>(a.values)[i];
    float4 gradient = reinterpret_cast<const float4*>(a.gradients)[i];
    float4 first = reinterpret_cast<float4*>(a.first)[i];
    float4 second = reinterpret_cast<float4*>(a.second)[i];
    auto one = [&](float& w, float g, float& m, float& v) {
        g = g * scale;
        m = __fmaf_rn(m, beta1, g * (1 - beta1));
        v = __fmaf_rn(v, beta2, g * g * (1 - beta2));
        float move = __fdiv_rn(m * stepSize, __fsqrt_rn(v) * secondCorrection + epsilon);
        w = w * keep - move;
    };
    one(value.x, gradient.x, first.x, second.x);
    one(value.y, gradient.y, first.y, second.y);
    one(value.z, gradient.z, first.z, second.z);
    one(value.w, gradient.w, first.w, second.w);
    reinterpret_cast<float4*>(a.first)[i] = first;
    reinterpret_cast<float4*>(a.second)[i] = second;
    reinterpret_cast<float4*>(a.values)[i] = value;
    a.copies[i] = make_uint2(pack(value.x, value.y), pack(value.z, value.w));
}
