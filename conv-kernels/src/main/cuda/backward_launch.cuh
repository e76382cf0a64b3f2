// How reduce starts before main has ended, and waits for that end itself.
#pragma once

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
