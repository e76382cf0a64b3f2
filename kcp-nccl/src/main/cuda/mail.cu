// Messages between GPUs that reach one another's memory: the sender's blocks write into a mailbox in the receiver's memory,
// the receiver's blocks take them from there to where they belong. Nothing but this kernel takes part, a few small blocks
// that find room beside a program which fills the device.
#include "integers.cuh"
#include "verdict.cuh"

// As in dev.kcp.nccl.PeerMail. A message is cut into lanes, each with a block of its own at both ends and with counts
// of its own, so that no block waits for another one of its launch.
constexpr int kLaneBytes = 4096;
constexpr int kLanes = 256;
constexpr int kSlots = 4;       // messages of a lane that may be under way; a power of two, so that counts may wrap
constexpr int kParcels = 24;
constexpr int kTurnsPerLook = 1024;

// What one rank keeps for one peer. Flags and data are written by the peer, and so are credits; counts by this rank.
struct Box {
    uint64_t flags[kSlots][kLanes];     // low half: number of the message + 1; high half: digest of its call
    uint32_t credits[kLanes];           // messages that the peer has taken
    uint32_t sent[kLanes];
    uint32_t received[kLanes];
    uint32_t unused[kLanes];
    uint4 data[kSlots][kLanes][kLaneBytes / 16];
};

struct Parcel {
    char* memory;
    int64_t bytes;
    Box* mine;          // this rank's box of the peer
    Box* theirs;        // the peer's box of this rank
    int64_t firstLane;
    int64_t firstBlock;
    int64_t peer;
};

// Written by dev.kcp.nccl.PeerMail: each field 8 bytes.
struct MailArgs {
    int64_t outgoing;           // so many parcels are sent, the others received
    int64_t parcels;
    uint64_t digest;            // of the call, in the low half
    const int64_t* stop;        // pinned host memory: not 0 once nobody shall wait any more
    int64_t* verdict;           // pinned host memory, as in verdict.cuh
    Parcel parcel[kParcels];
};

// A turn of waiting orders nothing: an acquire would empty the multiprocessor's cache each time, under the program that it is
// shared with. The last one acquires.
__device__ __forceinline__ uint64_t look(const uint64_t* word) {
    uint64_t value;
    asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
    return value;
}

__device__ __forceinline__ uint32_t look(const uint32_t* word) {
    uint32_t value;
    asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
    return value;
}

__device__ __forceinline__ uint64_t acquire(const uint64_t* word) {
    uint64_t value;
    asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
    return value;
}

__device__ __forceinline__ uint32_t acquire(const uint32_t* word) {
    uint32_t value;
    asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
    return value;
}

__device__ __forceinline__ void publish(uint64_t* word, uint64_t value) {
    asm volatile("st.release.sys.global.u64 [%0], %1;" : : "l"(word), "l"(value) : "memory");
}

__device__ __forceinline__ void publish(uint32_t* word, uint32_t value) {
    asm volatile("st.release.sys.global.u32 [%0], %1;" : : "l"(word), "r"(value) : "memory");
}

// One thread waits until a word satisfies the condition; false if it was told to stop.
template <typename T, typename Condition>
__device__ __forceinline__ bool await(const T* word, const int64_t* stop, T& value, Condition isThere) {
    for (int turn = 1;; turn++) {
        if (isThere(look(word))) {
            value = acquire(word);
            return true;
        }
        if (turn % kTurnsPerLook == 0 && *reinterpret_cast<const volatile int64_t*>(stop) != 0) return false;
    }
}

template <typename T>
__device__ __forceinline__ void copyAs(char* to, const char* from, int bytes) {
    for (int at = threadIdx.x; at < bytes / int(sizeof(T)); at += blockDim.x) {
        reinterpret_cast<T*>(to)[at] = __ldcg(reinterpret_cast<const T*>(from) + at);
    }
}

// All threads copy; what does not begin or end at a multiple of 16 bytes goes in smaller accesses.
__device__ __forceinline__ void copy(char* to, const char* from, int bytes) {
    uint64_t places = reinterpret_cast<uint64_t>(to) | reinterpret_cast<uint64_t>(from) | uint64_t(bytes);
    if (places % 16 == 0) {
        copyAs<uint4>(to, from, bytes);
    } else if (places % 4 == 0) {
        copyAs<uint32_t>(to, from, bytes);
    } else {
        copyAs<unsigned char>(to, from, bytes);
    }
}

// Both ends fold the length in, so that messages of other lengths differ too.
__device__ __forceinline__ uint64_t flagOf(const MailArgs& a, int64_t bytes, uint32_t number) {
    uint32_t digest = uint32_t(a.digest) ^ uint32_t(bytes) * 0x9e3779b1u;
    return uint64_t(digest) << 32 | (number + 1);
}

__device__ __forceinline__ void send(const MailArgs& a, const Parcel& parcel, int lane, char* memory, int bytes) {
    __shared__ bool stopped;
    uint32_t number = parcel.mine->sent[lane];
    if (threadIdx.x == 0) {
        uint32_t taken;
        stopped = !await(parcel.mine->credits + lane, a.stop, taken,
                         [=](uint32_t credit) { return number - credit < uint32_t(kSlots); });
    }
    __syncthreads();
    if (stopped) return;
    int slot = number % kSlots;
    copy(reinterpret_cast<char*>(parcel.theirs->data[slot][lane]), memory, bytes);
    __syncthreads();
    if (threadIdx.x == 0) {
        parcel.mine->sent[lane] = number + 1;
        publish(&parcel.theirs->flags[slot][lane], flagOf(a, parcel.bytes, number));
    }
}

__device__ __forceinline__ void receive(const MailArgs& a, const Parcel& parcel, int lane, char* memory, int bytes) {
    __shared__ bool stopped;
    uint32_t number = parcel.mine->received[lane];
    int slot = number % kSlots;
    if (threadIdx.x == 0) {
        uint64_t expected = flagOf(a, parcel.bytes, number);
        uint64_t came;
        stopped = !await(&parcel.mine->flags[slot][lane], a.stop, came,
                         [=](uint64_t flag) { return uint32_t(flag) == number + 1; });
        if (!stopped && came != expected) {
            complain(a.verdict, parcel.peer, int64_t(expected & 0xffffffffull), expected >> 32,
                     int64_t(came & 0xffffffffull), came >> 32);
        }
    }
    __syncthreads();
    if (stopped) return;
    copy(memory, reinterpret_cast<const char*>(parcel.mine->data[slot][lane]), bytes);
    __syncthreads();
    if (threadIdx.x == 0) {
        parcel.mine->received[lane] = number + 1;
        publish(parcel.theirs->credits + lane, number + 1);
    }
}

extern "C" __global__ void __launch_bounds__(128) mail_exchange(const __grid_constant__ MailArgs a) {
    if (a.parcels == 0) return;
    int which = 0;
    while (which + 1 < a.parcels && blockIdx.x >= a.parcel[which + 1].firstBlock) which++;
    const Parcel& parcel = a.parcel[which];
    int64_t chunk = blockIdx.x - parcel.firstBlock;
    int lane = int(parcel.firstLane + chunk);
    char* memory = parcel.memory + chunk * kLaneBytes;
    int64_t left = parcel.bytes - chunk * kLaneBytes;
    int bytes = left < kLaneBytes ? int(left) : kLaneBytes;
    if (which < a.outgoing) {
        send(a, parcel, lane, memory, bytes);
    } else {
        receive(a, parcel, lane, memory, bytes);
    }
}
