// What a device says of the first message that was wrong; the host looks at it whenever it likes, in
// dev.kcp.nccl.DeviceVerdict.
#pragma once
#include "integers.cuh"

// verdict: pinned host memory, 6 words: peer + 1 once a message was wrong; number and digest that were expected; number and
// digest that came; a lock.
__device__ __forceinline__ void complain(int64_t* verdict, auto peer, int64_t expectedNumber, uint64_t expectedDigest,
                                         int64_t number, uint64_t digest) {
    if (atomicExch_system(reinterpret_cast<unsigned long long*>(verdict + 5), 1ull) == 0ull) {
        verdict[1] = expectedNumber;
        verdict[2] = int64_t(expectedDigest);
        verdict[3] = number;
        verdict[4] = int64_t(digest);
        __threadfence_system();
        *reinterpret_cast<volatile int64_t*>(verdict) = peer + 1;
    }
}
