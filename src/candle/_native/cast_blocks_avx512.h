// Blocks between floats and integers that AVX-512 converts in one instruction, with one rounding.
// Not a header of its own: for cast_avx512.cpp, after cast_blocks_x86.h.

namespace candle {
namespace {

/// Eight integers of 64 bits.
template <class T>
__m512i load_integers(const std::byte* from, int64_t i) noexcept {
  return _mm512_loadu_si512(from + int64_t{sizeof(T)} * i);
}

template <class T>
  requires(std::is_integral_v<T> && sizeof(T) == 8)
struct Block<Number<T>, Float> {
  static constexpr bool exists = true;
  static void run(const std::byte* from, std::byte* to) noexcept {
    for (int64_t i = 0; i < cast_block; i += 8) {
      const __m512i integers = load_integers<T>(from, i);
      store_floats(
          to, i, std::is_signed_v<T> ? _mm512_cvtepi64_ps(integers) : _mm512_cvtepu64_ps(integers));
    }
  }
};

template <class T>
  requires(std::is_integral_v<T> && sizeof(T) == 8)
struct Block<Number<T>, Double> {
  static constexpr bool exists = true;
  static void run(const std::byte* from, std::byte* to) noexcept {
    for (int64_t i = 0; i < cast_block; i += 8) {
      const __m512i integers = load_integers<T>(from, i);
      _mm512_storeu_pd(to + 8 * i, std::is_signed_v<T> ? _mm512_cvtepi64_pd(integers)
                                                       : _mm512_cvtepu64_pd(integers));
    }
  }
};

// Of what no signed integer holds the processor makes the lowest one, NaN too; of what no unsigned
// one holds, the highest.

/// Saturated.
template <class T>
__m512i to_integers(__m256 floats) noexcept {
  if constexpr (std::is_unsigned_v<T>) {
    const __mmask8 is_above = _mm256_cmp_ps_mask(floats, _mm256_setzero_ps(), _CMP_GE_OQ);
    return _mm512_maskz_cvttps_epu64(is_above, floats);
  } else {
    const __mmask8 is_number = _mm256_cmp_ps_mask(floats, floats, _CMP_ORD_Q);
    const __mmask8 is_large = _mm256_cmp_ps_mask(floats, _mm256_set1_ps(0x1p63F), _CMP_GE_OQ);
    const __m512i highest = _mm512_set1_epi64(INT64_MAX);
    return _mm512_mask_mov_epi64(_mm512_maskz_cvttps_epi64(is_number, floats), is_large, highest);
  }
}

template <class T>
__m512i to_integers(__m512d doubles) noexcept {
  if constexpr (std::is_unsigned_v<T>) {
    const __mmask8 is_above = _mm512_cmp_pd_mask(doubles, _mm512_setzero_pd(), _CMP_GE_OQ);
    return _mm512_maskz_cvttpd_epu64(is_above, doubles);
  } else {
    const __mmask8 is_number = _mm512_cmp_pd_mask(doubles, doubles, _CMP_ORD_Q);
    const __mmask8 is_large = _mm512_cmp_pd_mask(doubles, _mm512_set1_pd(0x1p63), _CMP_GE_OQ);
    const __m512i highest = _mm512_set1_epi64(INT64_MAX);
    return _mm512_mask_mov_epi64(_mm512_maskz_cvttpd_epi64(is_number, doubles), is_large, highest);
  }
}

template <class T>
  requires(std::is_integral_v<T> && sizeof(T) == 8)
struct Block<Float, Number<T>> {
  static constexpr bool exists = true;
  static void run(const std::byte* from, std::byte* to) noexcept {
    for (int64_t i = 0; i < cast_block; i += 8) {
      _mm512_storeu_si512(to + 8 * i, to_integers<T>(load_floats(from, i)));
    }
  }
};

template <class T>
  requires(std::is_integral_v<T> && sizeof(T) == 8)
struct Block<Double, Number<T>> {
  static constexpr bool exists = true;
  static void run(const std::byte* from, std::byte* to) noexcept {
    for (int64_t i = 0; i < cast_block; i += 8) {
      _mm512_storeu_si512(to + 8 * i, to_integers<T>(_mm512_loadu_pd(from + 8 * i)));
    }
  }
};

template <>
struct Block<Float, Number<uint32_t>> {
  static constexpr bool exists = true;
  static void run(const std::byte* from, std::byte* to) noexcept {
    for (int64_t i = 0; i < cast_block; i += 16) {
      const __m512 floats = _mm512_loadu_ps(from + 4 * i);
      const __mmask16 above = _mm512_cmp_ps_mask(floats, _mm512_setzero_ps(), _CMP_GE_OQ);
      _mm512_storeu_si512(to + 4 * i, _mm512_maskz_cvttps_epu32(above, floats));
    }
  }
};

template <>
struct Block<Double, Number<uint32_t>> {
  static constexpr bool exists = true;
  static void run(const std::byte* from, std::byte* to) noexcept {
    for (int64_t i = 0; i < cast_block; i += 8) {
      const __m512d doubles = _mm512_loadu_pd(from + 8 * i);
      const __mmask8 above = _mm512_cmp_pd_mask(doubles, _mm512_setzero_pd(), _CMP_GE_OQ);
      store_32_bytes(to + 4 * i, _mm512_maskz_cvttpd_epu32(above, doubles));
    }
  }
};

}  // namespace
}  // namespace candle
