// Elements that do not fill their bytes: bit i of memory is bit i % 8 of byte i / 8. No Python
// here.
#pragma once

#include <cstddef>
#include <cstdint>

namespace candle {

/// The `bits` (at most 8) bits from bit `at` on, which may be negative. Touches only the bytes that
/// hold them.
inline uint8_t read_bits(const std::byte* data, int64_t at, int bits) noexcept {
  const std::byte* byte = data + (at >> 3);
  const int phase = static_cast<int>(at & 7);
  auto value = std::to_integer<uint32_t>(byte[0]) >> phase;
  if (phase + bits > 8) value |= std::to_integer<uint32_t>(byte[1]) << (8 - phase);
  return static_cast<uint8_t>(value & ((1U << bits) - 1));
}

/// Writes the low `bits` bits of `value` there; the bits beside them stay.
inline void write_bits(std::byte* data, int64_t at, int bits, uint8_t value) noexcept {
  std::byte* byte = data + (at >> 3);
  const int phase = static_cast<int>(at & 7);
  const uint32_t mask = ((1U << bits) - 1) << phase;
  const uint32_t placed = (static_cast<uint32_t>(value) << phase) & mask;
  byte[0] =
      (byte[0] & static_cast<std::byte>(~mask & 0xff)) | static_cast<std::byte>(placed & 0xff);
  if (phase + bits > 8) {
    byte[1] = (byte[1] & static_cast<std::byte>(~(mask >> 8) & 0xff)) |
              static_cast<std::byte>(placed >> 8);
  }
}

}  // namespace candle
