// Blocks between floats and integers of 64 bits, for which AVX2 has no instruction. Not a header of
// its own: for cast_avx2.cpp, after cast_blocks_x86.h.

namespace candle {
namespace {

/// Saturated, in two halves of 32 bits.
__m256i to_int64(__m256d value) noexcept {
  const __m256d lowest = _mm256_set1_pd(-0x1p63);
  const __m256d is_large = _mm256_cmp_pd(value, _mm256_set1_pd(0x1p63), _CMP_GE_OQ);
  const __m256d is_number = _mm256_cmp_pd(value, value, _CMP_ORD_Q);
  const __m256d whole =
      _mm256_max_pd(_mm256_round_pd(value, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC), lowest);
  const __m256d high = _mm256_floor_pd(_mm256_mul_pd(whole, _mm256_set1_pd(0x1p-32)));
  const __m256d low = _mm256_fnmadd_pd(high, _mm256_set1_pd(0x1p32), whole);
  // Added to these numbers, integers appear in their last bits.
  const __m256i high_bits = _mm256_castpd_si256(_mm256_add_pd(high, _mm256_set1_pd(0x1.8p52)));
  const __m256i low_bits = _mm256_castpd_si256(_mm256_add_pd(low, _mm256_set1_pd(0x1p52)));
  const __m256i bits = _mm256_blend_epi32(_mm256_slli_epi64(high_bits, 32), low_bits, 0b01010101);
  const __m256d highest = _mm256_castsi256_pd(_mm256_set1_epi64x(INT64_MAX));
  const __m256d saturated = _mm256_blendv_pd(_mm256_castsi256_pd(bits), highest, is_large);
  return _mm256_castpd_si256(_mm256_and_pd(saturated, is_number));
}

template <>
struct Block<Float, Number<int64_t>> {
  static constexpr bool exists = true;
  static void run(const std::byte* from, std::byte* to) noexcept {
    for (int64_t i = 0; i < cast_block; i += 4) {
      const __m128 floats = _mm_loadu_ps(reinterpret_cast<const float*>(from + 4 * i));
      store_32_bytes(to + 8 * i, to_int64(_mm256_cvtps_pd(floats)));
    }
  }
};

template <>
struct Block<Double, Number<int64_t>> {
  static constexpr bool exists = true;
  static void run(const std::byte* from, std::byte* to) noexcept {
    for (int64_t i = 0; i < cast_block; i += 4) {
      store_32_bytes(to + 8 * i, to_int64(load_doubles(from, i)));
    }
  }
};

template <>
struct Block<Number<int64_t>, Float> {
  static constexpr bool exists = true;

  /// Added to this number, integers of at most 52 bits appear in its last bits.
  static constexpr double unit = 0x1.8p52;

  /// Sets bits in the exponents of `changed` where an integer has more.
  static __m128 quarter(const std::byte* from, __m256i* changed) noexcept {
    const __m256i sum =
        _mm256_add_epi64(load_32_bytes(from), _mm256_castpd_si256(_mm256_set1_pd(unit)));
    const __m256i exponent = _mm256_set1_epi64x(0x4330000000000000);
    *changed = _mm256_or_si256(*changed, _mm256_xor_si256(sum, exponent));
    return _mm256_cvtpd_ps(_mm256_sub_pd(_mm256_castsi256_pd(sum), _mm256_set1_pd(unit)));
  }

  static void run(const std::byte* from, std::byte* to) noexcept {
    __m256i changed = _mm256_setzero_si256();
    for (int64_t i = 0; i < cast_block; i += 8) {
      const __m128 low = quarter(from + 8 * i, &changed);
      const __m128 high = quarter(from + 8 * i + 32, &changed);
      store_floats(to, i, _mm256_setr_m128(low, high));
    }
    const __m256i field = _mm256_set1_epi64x(static_cast<int64_t>(0xfff0000000000000U));
    if (_mm256_testz_si256(changed, field) != 0) return;
    for (int64_t i = 0; i < cast_block; i++) {
      int64_t integer;
      std::memcpy(&integer, from + 8 * i, sizeof integer);
      const float rounded = numbers::to_float(integer);
      std::memcpy(to + 4 * i, &rounded, sizeof rounded);
    }
  }
};

}  // namespace
}  // namespace candle
