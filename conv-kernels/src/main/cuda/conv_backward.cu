// Backward. `main` walks down the rows of each group of eight leaves of the reduction tree, writes dx and one row of
// sums per group; `reduce` sums those rows in the tree. Around an exchange: `head` makes g of the rows that other
// fragments' last rows wait for, `owed` the dx that waited. `round` casts a finished root.
#include "backward_exchange.cuh"
#include "backward_main.cuh"
#include "backward_reduce.cuh"

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
    BACKWARD_MAIN(backward_main_##name##_bf16_tables, math, false, false, true, DENSE_BLOCKS)      \
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
