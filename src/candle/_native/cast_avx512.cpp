#include "simd.h"

#if CANDLE_HAS_AVX512

#include <immintrin.h>

#include <cstring>
#include <limits>
#include <type_traits>

#include "cast_numbers.h"
#include "direct_cast.h"

CANDLE_BEGIN_AVX512

#include "cast_blocks_x86.h"
// after it
#include "cast_blocks_avx512.h"
// after all blocks
#include "cast_loops.h"

CANDLE_END_SIMD

namespace candle {

namespace {

bool is_integer(DLDataType dtype) noexcept { return dtype.code == kDLInt || dtype.code == kDLUInt; }

bool is_wide(DLDataType dtype) noexcept {
  return is_integer(dtype) && dtype.bits >= (dtype.code == kDLInt ? 64 : 32);
}

/// What AVX2 has instructions for gains little from wider ones, or loses where rows begin in the
/// middle of a cache line.
CastRun wide_cast(DLDataType from, DLDataType to) noexcept {
  if (is_integer(from) != is_integer(to) && (is_wide(from) || is_wide(to))) {
    return cast_between(from, to);
  }
  return avx2_casts().between(from, to);
}

constexpr CastTable wide_table = [] {
  CastTable wide = table;
  wide.between = wide_cast;
  return wide;
}();

}  // namespace

const CastTable& avx512_casts() noexcept { return wide_table; }

}  // namespace candle

#endif
