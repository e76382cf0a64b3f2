// Integers of a fixed size: a GPU host's runtime compiler has no headers of its own.
#pragma once

#ifdef __CUDACC_RTC__
using uint8_t = unsigned char;
using uint16_t = unsigned short;
using uint32_t = unsigned int;
using uint64_t = unsigned long;
using int64_t = long;
#else
#include <cstdint>
#endif
