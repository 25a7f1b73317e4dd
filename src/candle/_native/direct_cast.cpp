#include "direct_cast.h"

#include <bit>
#include <cstring>

#include "cast_kernels.h"
#include "dtype_table.h"
#include "simd.h"

namespace candle {

namespace {

const CastTable& casts() noexcept {
#if CANDLE_HAS_AVX512
  if (simd_level() >= Simd::avx512) return avx512_casts();
#endif
#if CANDLE_HAS_AVX2
  if (simd_level() >= Simd::avx2) return avx2_casts();
#endif
  return baseline_casts();
}

int row_of(int bytes) noexcept { return std::countr_zero(static_cast<unsigned>(bytes)); }

/// The code of one.
uint64_t one_of(DLDataType dtype) noexcept {
  constexpr int32_t one = 1;
  std::byte carrier[sizeof one];
  std::memcpy(carrier, &one, sizeof one);
  std::byte code[sizeof(uint64_t)] = {};
  const Encoder encoder = encoder_of(Carrier::int32, dtype);
  encoder.run(carrier, code, 1, encoder.format);
  uint64_t whole = 0;
  const auto size = static_cast<size_t>(item_bytes(dtype));
  constexpr bool is_big = std::endian::native == std::endian::big;
  std::memcpy(reinterpret_cast<std::byte*>(&whole) + (is_big ? sizeof whole - size : 0), code,
              size);
  return whole;
}

/// The bits of a component that say that it is not zero: all but the sign of what has a negative
/// zero. 0 for the type that has no zero.
uint64_t nonzero_bits(DLDataType dtype) noexcept {
  const uint64_t all = ~uint64_t{0} >> (64 - dtype.bits);
  switch (dtype.code) {
    case kDLFloat:
    case kDLBfloat:
      return all >> 1;
    case kDLInt:
    case kDLUInt:
      return all;
    case kDLFloat8_e8m0fnu:
      return 0;
    default: {
      const FloatFormat& format = small_floats[dtype.code - kDLFloat8_e3m4].format;
      return format.specials == FloatFormat::Specials::unsigned_zero ? all : all >> 1;
    }
  }
}

}  // namespace

DirectCast direct_cast(DLDataType from, DLDataType to) noexcept {
  const DLDataType component = component_of(from);
  const int bytes = item_bytes(from);
  if (to.code == kDLBool) {
    uint64_t mask = nonzero_bits(component);
    if (from.code == kDLComplex) mask |= mask << component.bits % 64;
    if (mask == 0 || bytes > 8) return {nullptr, 0};
    return {casts().any_bit[row_of(bytes)], mask};
  }
  if (from.code == kDLBool) {
    if (to.code == kDLComplex || to.code == kDLFloat8_e8m0fnu) return {nullptr, 0};
    return {casts().one_or_zero[row_of(item_bytes(to))], one_of(to)};
  }
  return {casts().between(from, to), 0};
}

}  // namespace candle
