// Arrow's bits, the lowest of a byte first: counted, made bytes, made of bytes. No Python here.
#pragma once

#include <cstddef>
#include <cstdint>

namespace candle {

inline bool bit_at(const void* bits, int64_t at) noexcept {
  return (static_cast<const uint8_t*>(bits)[at >> 3] >> (at & 7) & 1) != 0;
}

/// How many of `count` bits from bit `first` on are 0. Reads no byte that holds none of them.
int64_t count_zeros(const void* bits, int64_t first, int64_t count) noexcept;

/// Writes a byte, 0 or 1, for each of `count` bits from bit `first` on.
void expand_bits(const void* bits, int64_t first, int64_t count, std::byte* bytes) noexcept;

/// Writes a bit for each of `count` bytes: 1 where it is not 0. Bits behind the last are 0.
void pack_bits(const std::byte* bytes, int64_t count, std::byte* bits) noexcept;

}  // namespace candle
