#include "simd.h"

#if CANDLE_HAS_AVX2

#include <immintrin.h>

#include <cstring>
#include <type_traits>

#include "cast_numbers.h"
#include "direct_cast.h"

CANDLE_BEGIN_AVX2

namespace candle {
namespace {

struct Instructions {
  static constexpr bool has_halves = true;

  static void read_halves(const std::byte* from, std::byte* to) noexcept {
    for (int64_t i = 0; i < cast_block; i += 8) {
      const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + 2 * i));
      _mm256_storeu_ps(reinterpret_cast<float*>(to + 4 * i), _mm256_cvtph_ps(halves));
    }
  }

  static void write_halves(const std::byte* from, std::byte* to) noexcept {
    for (int64_t i = 0; i < cast_block; i += 8) {
      const __m256 floats = _mm256_loadu_ps(reinterpret_cast<const float*>(from + 4 * i));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to + 2 * i),
                       _mm256_cvtps_ph(floats, _MM_FROUND_TO_NEAREST_INT));
    }
  }
};

}  // namespace
}  // namespace candle

#include "cast_loops.h"

CANDLE_END_SIMD

namespace candle {

const CastTable& avx2_casts() noexcept { return table; }

}  // namespace candle

#endif
