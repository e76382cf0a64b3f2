// Rows on their way from global to shared memory.
#pragma once
#include "conv_common.cuh"

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
