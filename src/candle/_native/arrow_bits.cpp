#include "arrow_bits.h"

#include <bit>
#include <cstring>

namespace candle {

namespace {

static_assert(std::endian::native == std::endian::little);

/// Eight bits as eight bytes of 0 or 1.
uint64_t spread(uint8_t bits) {
  // Byte i of the product keeps only bit i; the addition carries it to the top of the byte.
  const uint64_t apart = bits * uint64_t{0x0101010101010101} & uint64_t{0x8040201008040201};
  return ((apart + 0x7f7f7f7f7f7f7f7f) | apart) >> 7 & 0x0101010101010101;
}

/// The other way round, for bytes of 0 or anything else.
uint8_t gather(uint64_t bytes) {
  constexpr uint64_t low = 0x7f7f7f7f7f7f7f7f;
  const uint64_t ones = (((bytes & low) + low) | bytes) >> 7 & 0x0101010101010101;
  return static_cast<uint8_t>(ones * 0x0102040810204080 >> 56);
}

}  // namespace

int64_t count_zeros(const void* bits, int64_t first, int64_t count) noexcept {
  int64_t at = first;
  int64_t ones = 0;
  const int64_t end = first + count;
  for (; at < end && (at & 7) != 0; at++) ones += bit_at(bits, at);
  const auto* bytes = static_cast<const uint8_t*>(bits);
  for (; end - at >= 64; at += 64) {
    uint64_t word;
    std::memcpy(&word, bytes + at / 8, sizeof word);
    ones += std::popcount(word);
  }
  for (; end - at >= 8; at += 8) ones += std::popcount(bytes[at / 8]);
  for (; at < end; at++) ones += bit_at(bits, at);
  return count - ones;
}

void expand_bits(const void* bits, int64_t first, int64_t count, std::byte* bytes) noexcept {
  int64_t at = first;
  const int64_t end = first + count;
  const auto one = [&] { *bytes++ = bit_at(bits, at++) ? std::byte{1} : std::byte{0}; };
  while (at < end && (at & 7) != 0) one();
  const auto* from = static_cast<const uint8_t*>(bits);
  for (; end - at >= 8; at += 8, bytes += 8) {
    const uint64_t eight = spread(from[at / 8]);
    std::memcpy(bytes, &eight, sizeof eight);
  }
  while (at < end) one();
}

void pack_bits(const std::byte* bytes, int64_t count, std::byte* bits) noexcept {
  for (; count >= 8; count -= 8, bytes += 8) {
    uint64_t eight;
    std::memcpy(&eight, bytes, sizeof eight);
    *bits++ = std::byte{gather(eight)};
  }
  if (count == 0) return;
  uint64_t rest = 0;
  std::memcpy(&rest, bytes, static_cast<size_t>(count));
  *bits = std::byte{gather(rest)};
}

}  // namespace candle
