// Blocks that AVX2 casts better by hand, and AVX-512 too. Not a header of its own: for
// cast_avx2.cpp and cast_avx512.cpp.

namespace candle {
namespace {

using numbers::Bfloat;
using numbers::Double;
using numbers::Float;
using numbers::Half;
using numbers::Number;
using numbers::Small;

template <class From, class To>
struct Block {
  static constexpr bool exists = false;
};

template <class Word>
struct AnyBit {
  static constexpr bool exists = false;
};

__m256 load_floats(const std::byte* from, int64_t i) noexcept {
  return _mm256_loadu_ps(reinterpret_cast<const float*>(from + 4 * i));
}

void store_floats(std::byte* to, int64_t i, __m256 floats) noexcept {
  _mm256_storeu_ps(reinterpret_cast<float*>(to + 4 * i), floats);
}

__m256d load_doubles(const std::byte* from, int64_t i) noexcept {
  return _mm256_loadu_pd(reinterpret_cast<const double*>(from + 8 * i));
}

__m128i load_16_bytes(const std::byte* from) noexcept {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
}

__m256i load_32_bytes(const std::byte* from) noexcept {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
}

void store_32_bytes(std::byte* to, __m256i bytes) noexcept {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), bytes);
}

/// Packing goes on in each half of the registers: this puts the eight double words of the four
/// quarters that went in back into their order.
__m256i in_order(__m256i packed) noexcept {
  return _mm256_permutevar8x32_epi32(packed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

/// 32 small integers, each in 32 bits, to a byte each.
template <bool is_signed>
__m256i pack_bytes(const __m256i* words) noexcept {
  const __m256i low = _mm256_packs_epi32(words[0], words[1]);
  const __m256i high = _mm256_packs_epi32(words[2], words[3]);
  return in_order(is_signed ? _mm256_packs_epi16(low, high) : _mm256_packus_epi16(low, high));
}

template <>
struct Block<Half, Float> {
  static constexpr bool exists = true;
  static void run(const std::byte* from, std::byte* to) noexcept {
    for (int64_t i = 0; i < cast_block; i += 8) {
      store_floats(to, i, _mm256_cvtph_ps(load_16_bytes(from + 2 * i)));
    }
  }
};

template <>
struct Block<Float, Half> {
  static constexpr bool exists = true;
  static void run(const std::byte* from, std::byte* to) noexcept {
    for (int64_t i = 0; i < cast_block; i += 8) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to + 2 * i),
                       _mm256_cvtps_ph(load_floats(from, i), _MM_FROUND_TO_NEAREST_INT));
    }
  }
};

template <>
struct Block<Bfloat, Float> {
  static constexpr bool exists = true;
  static void run(const std::byte* from, std::byte* to) noexcept {
    for (int64_t i = 0; i < cast_block; i += 8) {
      const __m256i words = _mm256_cvtepu16_epi32(load_16_bytes(from + 2 * i));
      const __m256 floats = _mm256_castsi256_ps(_mm256_slli_epi32(words, 16));
      const __m256 is_nan = _mm256_cmp_ps(floats, floats, _CMP_UNORD_Q);
      const __m256 quiet = _mm256_castsi256_ps(_mm256_set1_epi32(1 << 22));
      store_floats(to, i, _mm256_or_ps(floats, _mm256_and_ps(is_nan, quiet)));
    }
  }
};

template <>
struct Block<Float, Bfloat> {
  static constexpr bool exists = true;

  /// Rounded to their upper halves.
  static __m256i upper_halves(__m256 floats) noexcept {
    const __m256i bits = _mm256_castps_si256(floats);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i rounded =
        _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
    const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(1 << 22));
    const __m256 is_nan = _mm256_cmp_ps(floats, floats, _CMP_UNORD_Q);
    const __m256 chosen =
        _mm256_blendv_ps(_mm256_castsi256_ps(rounded), _mm256_castsi256_ps(quiet), is_nan);
    return _mm256_srli_epi32(_mm256_castps_si256(chosen), 16);
  }

  static void run(const std::byte* from, std::byte* to) noexcept {
    for (int64_t i = 0; i < cast_block; i += 16) {
      const __m256i packed = _mm256_packus_epi32(upper_halves(load_floats(from, i)),
                                                 upper_halves(load_floats(from, i + 8)));
      store_32_bytes(to + 2 * i, _mm256_permute4x64_epi64(packed, 0xd8));
    }
  }
};

// The processor makes the lowest int32 of all that none holds, NaN too.

/// Four doubles to int32, saturated; at most `highest`. NaN to 0, or the lowest if `packed` to
/// unsigned integers, which makes 0 of it.
template <bool packed>
__m128i to_int32(__m256d value, double highest) noexcept {
  const __m256d below = _mm256_min_pd(_mm256_set1_pd(highest), value);  // NaN stays
  if constexpr (packed) return _mm256_cvttpd_epi32(below);
  const __m256d is_number = _mm256_cmp_pd(value, value, _CMP_ORD_Q);
  return _mm256_cvttpd_epi32(_mm256_and_pd(below, is_number));
}

/// Eight floats or doubles to words that become T by packing with saturation.
template <class T, class From>
__m256i words_of(const std::byte* from, int64_t i) noexcept {
  constexpr T highest = std::numeric_limits<T>::max();
  constexpr bool is_unsigned = std::is_unsigned_v<T>;
  if constexpr (std::is_same_v<From, Double>) {
    return _mm256_setr_m128i(to_int32<is_unsigned>(load_doubles(from, i), highest),
                             to_int32<is_unsigned>(load_doubles(from, i + 4), highest));
  } else {
    const __m256 floats = load_floats(from, i);
    __m256 below = _mm256_min_ps(_mm256_set1_ps(highest), floats);
    const __m256 is_number = _mm256_cmp_ps(floats, floats, _CMP_ORD_Q);
    if constexpr (!is_unsigned) below = _mm256_and_ps(below, is_number);
    return _mm256_cvttps_epi32(below);
  }
}

template <class From, class T>
  requires((std::is_same_v<From, Float> || std::is_same_v<From, Double>) && std::is_integral_v<T> &&
           sizeof(T) <= 2)
struct Block<From, Number<T>> {
  static constexpr bool exists = true;
  static void run(const std::byte* from, std::byte* to) noexcept {
    const __m256i words[4] = {words_of<T, From>(from, 0), words_of<T, From>(from, 8),
                              words_of<T, From>(from, 16), words_of<T, From>(from, 24)};
    constexpr bool is_signed = std::is_signed_v<T>;
    if constexpr (sizeof(T) == 1) {
      store_32_bytes(to, pack_bytes<is_signed>(words));
    } else {
      for (int i = 0; i < 2; i++) {
        const __m256i packed = is_signed ? _mm256_packs_epi32(words[2 * i], words[2 * i + 1])
                                         : _mm256_packus_epi32(words[2 * i], words[2 * i + 1]);
        store_32_bytes(to + 32 * i, _mm256_permute4x64_epi64(packed, 0xd8));
      }
    }
  }
};

template <>
struct Block<Double, Number<int32_t>> {
  static constexpr bool exists = true;
  static void run(const std::byte* from, std::byte* to) noexcept {
    for (int64_t i = 0; i < cast_block; i += 8) {
      store_32_bytes(to + 4 * i, words_of<int32_t, Double>(from, i));
    }
  }
};

template <>
struct Block<Float, Number<int32_t>> {
  static constexpr bool exists = true;
  static void run(const std::byte* from, std::byte* to) noexcept {
    for (int64_t i = 0; i < cast_block; i += 8) {
      const __m256 floats = load_floats(from, i);
      const __m256 is_large = _mm256_cmp_ps(floats, _mm256_set1_ps(0x1p31F), _CMP_GE_OQ);
      const __m256 is_number = _mm256_cmp_ps(floats, floats, _CMP_ORD_Q);
      // The processor makes the lowest integer of all that does not fit.
      const __m256i words =
          _mm256_xor_si256(_mm256_cvttps_epi32(floats), _mm256_castps_si256(is_large));
      store_32_bytes(to + 4 * i, _mm256_and_si256(words, _mm256_castps_si256(is_number)));
    }
  }
};

template <>
struct AnyBit<uint32_t> {
  static constexpr bool exists = true;
  static void run(const std::byte* from, std::byte* to, int64_t blocks, uint32_t mask) noexcept {
    const __m256i bits = _mm256_set1_epi32(static_cast<int>(mask));
    for (int64_t i = 0; i < blocks; i++, from += 4 * cast_block, to += cast_block) {
      __m256i words[4];
      for (int j = 0; j < 4; j++) words[j] = _mm256_and_si256(load_32_bytes(from + 32 * j), bits);
      // Saturated, what is not zero stays so.
      store_32_bytes(to, _mm256_min_epu8(pack_bytes<true>(words), _mm256_set1_epi8(1)));
    }
  }
};

/// 8 floats to the codes of an 8-bit format: `numbers::round_real` with less work for the bounds.
template <FloatFormat f>
struct BlockToSmall {
  static constexpr bool exists = true;

  static __m256i codes(__m256 floats) noexcept {
    constexpr int shift = 23 - f.mantissa_bits;
    constexpr int lowest = (128 - f.bias) << 23;
    constexpr int beyond = (static_cast<int>(f.largest() + 1) << shift) + lowest - (1 << 23);
    const __m256i bits = _mm256_castps_si256(floats);
    const __m256i absolute = _mm256_and_si256(bits, _mm256_set1_epi32(INT32_MAX));
    const __m256i sign = _mm256_srli_epi32(_mm256_andnot_si256(absolute, bits), 24);
    const __m256i clamped = _mm256_min_epi32(absolute, _mm256_set1_epi32(beyond));
    const __m256i exponent = _mm256_and_si256(_mm256_max_epi32(clamped, _mm256_set1_epi32(lowest)),
                                              _mm256_set1_epi32(0x7f800000));
    const __m256i large = _mm256_add_epi32(exponent, _mm256_set1_epi32(shift << 23));
    const __m256 sum = _mm256_add_ps(_mm256_castsi256_ps(clamped), _mm256_castsi256_ps(large));
    const __m256i kept = _mm256_sub_epi32(_mm256_castps_si256(sum), large);
    const __m256i fields =
        _mm256_srli_epi32(_mm256_sub_epi32(exponent, _mm256_set1_epi32(lowest)), shift);
    __m256i code = _mm256_add_epi32(kept, fields);
    if constexpr (f.specials == FloatFormat::Specials::unsigned_zero) {
      const __m256i is_zero = _mm256_cmpeq_epi32(code, _mm256_setzero_si256());
      return _mm256_or_si256(code, _mm256_andnot_si256(is_zero, sign));
    }
    if constexpr (f.specials == FloatFormat::Specials::ieee) {
      const __m256i nan =
          _mm256_or_si256(_mm256_set1_epi32(static_cast<int>(f.nan(false, 0))),
                          _mm256_and_si256(_mm256_srli_epi32(absolute, shift),
                                           _mm256_set1_epi32((1 << f.mantissa_bits) - 1)));
      const __m256i is_nan = _mm256_cmpgt_epi32(absolute, _mm256_set1_epi32(0x7f800000));
      code = _mm256_blendv_epi8(code, nan, is_nan);
    }
    return _mm256_or_si256(code, sign);
  }

  static void run(const std::byte* from, std::byte* to) noexcept {
    const __m256i words[4] = {codes(load_floats(from, 0)), codes(load_floats(from, 8)),
                              codes(load_floats(from, 16)), codes(load_floats(from, 24))};
    store_32_bytes(to, pack_bytes<false>(words));
  }
};
template <FloatFormat f>
  requires(f.bits() == 8)
struct Block<Float, Small<f>> : BlockToSmall<f> {};

/// Four doubles to floats for a later rounding: 12 bits, and one that says whether there are more.
__m128 rounded_to_odd(const std::byte* from, int64_t i) noexcept {
  const __m256i rest = _mm256_set1_epi64x((int64_t{1} << 40) - 1);
  const __m256i bits = load_32_bytes(from + 8 * i);
  const __m256i more = _mm256_add_epi64(_mm256_and_si256(bits, rest), rest);
  const __m256i odd = _mm256_andnot_si256(rest, _mm256_or_si256(bits, more));
  return _mm256_cvtpd_ps(_mm256_castsi256_pd(odd));
}

template <FloatFormat f>
struct Block<Double, Small<f>> {
  static constexpr bool exists = true;
  static void run(const std::byte* from, std::byte* to) noexcept {
    alignas(32) std::byte floats[cast_block * sizeof(float)];
    for (int64_t i = 0; i < cast_block; i += 8) {
      store_floats(floats, i,
                   _mm256_setr_m128(rounded_to_odd(from, i), rounded_to_odd(from, i + 4)));
    }
    Block<Float, Small<f>>::run(floats, to);
  }
};

/// 8-bit formats that are halves but for the bias and NaN.
template <FloatFormat f>
  requires(f.bits() == 8 && (f.specials == FloatFormat::Specials::ieee ? f.exponent_bits == 5
                                                                       : f.exponent_bits == 4))
struct Block<Small<f>, Float> {
  static constexpr bool exists = true;

  static void run(const std::byte* from, std::byte* to) noexcept {
    const __m256 scale = _mm256_set1_ps(static_cast<float>(1 << (15 - f.bias)));
    const __m128i magnitude_bits = _mm_set1_epi16(0x7f);
    for (int64_t i = 0; i < cast_block; i += 8) {
      const __m128i codes =
          _mm_cvtepu8_epi16(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from + i)));
      const __m128i magnitude = _mm_and_si128(codes, magnitude_bits);
      const __m128i sign = _mm_slli_epi16(_mm_xor_si128(codes, magnitude), 8);
      const __m128i halves = _mm_or_si128(_mm_slli_epi16(magnitude, 10 - f.mantissa_bits), sign);
      __m256 floats = _mm256_cvtph_ps(halves);
      if constexpr (f.bias != 15) floats = _mm256_mul_ps(floats, scale);
      if constexpr (f.specials != FloatFormat::Specials::ieee) {
        constexpr bool has_sign = f.specials == FloatFormat::Specials::nan;
        const __m128i is_nan = has_sign ? _mm_cmpeq_epi16(magnitude, magnitude_bits)
                                        : _mm_cmpeq_epi16(codes, _mm_set1_epi16(0x80));
        const __m256i nan = _mm256_or_si256(_mm256_slli_epi32(_mm256_cvtepu16_epi32(sign), 16),
                                            _mm256_set1_epi32(0x7fc00000));
        floats = _mm256_blendv_ps(floats, _mm256_castsi256_ps(nan),
                                  _mm256_castsi256_ps(_mm256_cvtepi16_epi32(is_nan)));
      }
      store_floats(to, i, floats);
    }
  }
};

}  // namespace
}  // namespace candle
