// Checked mode: whether the document offsets are what every other program takes for granted.
#include "conv_common.cuh"

constexpr int kCheckThreads = 1024;

// One block looks at all offsets. Writes to out, an int4: the first index at which they do not start at 0 or fall, or -1;
// the offset before it and the one there; and the last of all offsets.
extern "C" __global__ void __launch_bounds__(kCheckThreads) check_offsets(const __grid_constant__ ConvArgs a) {
    __shared__ int first;
    if (threadIdx.x == 0) first = kNever;
    __syncthreads();
    for (int64_t i = threadIdx.x; i <= a.fragments; i += kCheckThreads) {
        int before = i == 0 ? 0 : __ldg(a.begin + i - 1);
        int here = __ldg(a.begin + i);
        if (i == 0 ? here != 0 : here < before) {
            atomicMin(&first, int(i));
            break;
        }
    }
    __syncthreads();
    if (threadIdx.x > 0) return;
    bool wrong = first != kNever;
    int before = wrong && first > 0 ? __ldg(a.begin + first - 1) : 0;
    int here = wrong ? __ldg(a.begin + first) : 0;
    *reinterpret_cast<int4*>(a.out) = make_int4(wrong ? first : -1, before, here, __ldg(a.begin + a.fragments));
}
