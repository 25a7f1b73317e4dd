#include "cast_kernels.h"

#include <cstring>
#include <type_traits>

namespace candle {

namespace {

template <class T>
T load(const std::byte* from) noexcept {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <class T>
void store(std::byte* to, T value) noexcept {
  std::memcpy(to, &value, sizeof value);
}

/// Truncates towards zero; what lies outside becomes the nearest integer that lies inside, NaN
/// becomes 0.
template <int bits, bool is_signed, class Real>
auto saturate(Real value) noexcept {
  using Result = std::conditional_t<bits == 64 && !is_signed, uint64_t, int64_t>;
  constexpr uint64_t half = uint64_t{1} << (bits - (is_signed ? 2 : 1));
  constexpr auto beyond = static_cast<Real>(half) * 2;
  constexpr Real lowest = is_signed ? -beyond : 0;
  constexpr auto highest_integer = static_cast<Result>(half - 1 + half);
  constexpr auto lowest_integer = is_signed ? static_cast<Result>(-highest_integer - 1) : Result{0};
  if (value >= beyond) return highest_integer;
  if (value <= lowest) return lowest_integer;
  return value == value ? static_cast<Result>(value) : Result{0};
}

// Each destination: what its elements are stored as, and how one is made of a carrier.

struct ToBool {
  template <class C>
  static uint8_t make(C value, const SmallFloat*) noexcept {
    return value != 0;
  }
};

template <class Stored, int bits, bool is_signed>
struct ToInteger {
  template <class C>
  static Stored make(C value, const SmallFloat*) noexcept {
    constexpr auto mask = static_cast<Stored>(bits < 8 ? (1U << bits) - 1 : ~0ULL);
    if constexpr (std::is_floating_point_v<C>) {
      return static_cast<Stored>(static_cast<Stored>(saturate<bits, is_signed>(value)) & mask);
    } else {
      return static_cast<Stored>(static_cast<Stored>(value) & mask);
    }
  }
};

template <class Real>
struct ToReal {
  template <class C>
  static Real make(C value, const SmallFloat*) noexcept {
    if constexpr (std::is_same_v<C, Real>) {  // the processor's conversions make NaNs quiet, but
                                              // here is none
      using Pattern = std::conditional_t<sizeof(C) == 4, uint32_t, uint64_t>;
      const Pattern quiet = value == value ? 0 : Pattern{1} << (sizeof(C) == 4 ? 22 : 51);
      return std::bit_cast<Real>(std::bit_cast<Pattern>(value) | quiet);
    } else {
      return static_cast<Real>(value);
    }
  }
};

/// Calls `round(negative, significand, exponent)` with the exact value, or gives `nan(negative,
/// payload)`.
template <class C, class Round, class Nan>
uint32_t round_exact(C value, Round round, Nan nan) noexcept {
  if constexpr (std::is_floating_point_v<C>) {
    using Pattern = std::conditional_t<sizeof(C) == 4, uint32_t, uint64_t>;
    constexpr int mantissa_bits = sizeof(C) == 4 ? 23 : 52;
    constexpr int exponent_ones = sizeof(C) == 4 ? 255 : 2047;
    constexpr int bias = exponent_ones / 2;
    const auto pattern = std::bit_cast<Pattern>(value);
    const bool negative = pattern >> (8 * sizeof(C) - 1) != 0;
    const auto field = static_cast<int>(pattern >> mantissa_bits) & exponent_ones;
    const Pattern mantissa = pattern & ((Pattern{1} << mantissa_bits) - 1);
    if (field == exponent_ones && mantissa != 0) {
      return nan(negative, uint64_t{mantissa} << (64 - mantissa_bits));
    }
    // Infinity goes on as 2**(bias + 1), which overflows every format.
    const Pattern implicit = field == 0 ? 0 : Pattern{1} << mantissa_bits;
    const int exponent = std::max(field, 1) - bias - mantissa_bits;
    return round(negative, uint64_t{mantissa | implicit}, exponent);
  } else {
    const bool negative = value < 0;
    const auto magnitude = static_cast<uint64_t>(value);
    return round(negative, negative ? 0 - magnitude : magnitude, 0);
  }
}

template <const FloatFormat& format>
struct ToHalf {
  template <class C>
  static uint16_t make(C value, const SmallFloat*) noexcept {
    return static_cast<uint16_t>(round_exact(
        value, [](bool negative, uint64_t s, int e) { return format.round(negative, s, e); },
        [](bool negative, uint64_t payload) { return format.nan(negative, payload); }));
  }
};

struct ToSmallFloat {
  template <class C>
  static uint8_t make(C value, const SmallFloat* small) noexcept {
    const FloatFormat& format = small->format;
    return static_cast<uint8_t>(round_exact(
        value, [&](bool negative, uint64_t s, int e) { return format.round(negative, s, e); },
        [&](bool negative, uint64_t payload) { return format.nan(negative, payload); }));
  }
};

struct ToPowerOfTwo {
  template <class C>
  static uint8_t make(C value, const SmallFloat*) noexcept {
    return static_cast<uint8_t>(round_exact(value, PowerOfTwoFormat::round,
                                            [](bool, uint64_t) { return PowerOfTwoFormat::nan; }));
  }
};

template <class To, class C>
void encode(const std::byte* __restrict from, std::byte* __restrict to, int64_t count,
            const SmallFloat* format) noexcept {
  using Stored = decltype(To::make(C{}, format));
  for (int64_t i = 0; i < count; i++) {
    store(to + i * int64_t{sizeof(Stored)},
          To::make(load<C>(from + i * int64_t{sizeof(C)}), format));
  }
}

template <class To>
Kernel encode_from(Carrier carrier) noexcept {
  switch (carrier) {
    case Carrier::int32:
      return encode<To, int32_t>;
    case Carrier::int64:
      return encode<To, int64_t>;
    case Carrier::uint64:
      return encode<To, uint64_t>;
    case Carrier::float32:
      return encode<To, float>;
    default:
      return encode<To, double>;
  }
}

template <bool is_signed>
Kernel encode_integer(Carrier carrier, int bits) noexcept {
  switch (bits) {
    case 4:
      return encode_from<ToInteger<uint8_t, 4, is_signed>>(carrier);
    case 8:
      return encode_from<ToInteger<uint8_t, 8, is_signed>>(carrier);
    case 16:
      return encode_from<ToInteger<uint16_t, 16, is_signed>>(carrier);
    case 32:
      return encode_from<ToInteger<uint32_t, 32, is_signed>>(carrier);
    default:
      return encode_from<ToInteger<uint64_t, 64, is_signed>>(carrier);
  }
}

// Each source: how a carrier is made of what its elements are stored as.

int32_t from_bool(uint8_t stored, const SmallFloat*) noexcept { return stored != 0; }
int32_t from_uint4(uint8_t stored, const SmallFloat*) noexcept { return stored & 15; }
int32_t from_int4(uint8_t stored, const SmallFloat*) noexcept { return ((stored & 15) ^ 8) - 8; }

template <class Stored, class C>
C from_integer(Stored stored, const SmallFloat*) noexcept {
  return stored;
}

float from_float16(uint16_t stored, const SmallFloat*) noexcept {
  return float16_format.value(stored);
}

float from_bfloat16(uint16_t stored, const SmallFloat*) noexcept {
  const uint32_t quiet = bfloat16_format.is_nan(stored) ? 1U << 22 : 0;
  return std::bit_cast<float>(static_cast<uint32_t>(stored) << 16 | quiet);
}

float from_small_float(uint8_t stored, const SmallFloat* format) noexcept {
  return format->values[stored];
}

template <class Stored, class C, C (*make)(Stored, const SmallFloat*) noexcept>
void decode(const std::byte* __restrict from, std::byte* __restrict to, int64_t count,
            const SmallFloat* format) noexcept {
  for (int64_t i = 0; i < count; i++) {
    store(to + i * int64_t{sizeof(C)},
          make(load<Stored>(from + i * int64_t{sizeof(Stored)}), format));
  }
}

template <class Stored, class C>
constexpr Kernel decode_integer = decode<Stored, C, from_integer<Stored, C>>;

template <class Word>
void swap_words(std::byte* data, int64_t count) noexcept {
  for (int64_t i = 0; i < count; i++, data += sizeof(Word)) {
    const Word word = load<Word>(data);
    if constexpr (sizeof(Word) == 2) {
      store(data, __builtin_bswap16(word));
    } else if constexpr (sizeof(Word) == 4) {
      store(data, __builtin_bswap32(word));
    } else {
      store(data, __builtin_bswap64(word));
    }
  }
}

const SmallFloat* small_float_of(DLDataType dtype) noexcept {
  return &small_floats[dtype.code - kDLFloat8_e3m4];
}

}  // namespace

Decoder decoder_of(DLDataType component) noexcept {
  const int bits = component.bits;
  switch (component.code) {
    case kDLBool:
      return {decode<uint8_t, int32_t, from_bool>, nullptr, Carrier::int32};
    case kDLInt:
      if (bits == 4) return {decode<uint8_t, int32_t, from_int4>, nullptr, Carrier::int32};
      if (bits == 8) return {decode_integer<int8_t, int32_t>, nullptr, Carrier::int32};
      if (bits == 16) return {decode_integer<int16_t, int32_t>, nullptr, Carrier::int32};
      return {nullptr, nullptr, bits == 32 ? Carrier::int32 : Carrier::int64};
    case kDLUInt:
      if (bits == 4) return {decode<uint8_t, int32_t, from_uint4>, nullptr, Carrier::int32};
      if (bits == 8) return {decode_integer<uint8_t, int32_t>, nullptr, Carrier::int32};
      if (bits == 16) return {decode_integer<uint16_t, int32_t>, nullptr, Carrier::int32};
      if (bits == 32) return {decode_integer<uint32_t, int64_t>, nullptr, Carrier::int64};
      return {nullptr, nullptr, Carrier::uint64};
    case kDLFloat:
      if (bits == 16) return {decode<uint16_t, float, from_float16>, nullptr, Carrier::float32};
      return {nullptr, nullptr, bits == 32 ? Carrier::float32 : Carrier::float64};
    case kDLBfloat:
      return {decode<uint16_t, float, from_bfloat16>, nullptr, Carrier::float32};
    default:
      return {decode<uint8_t, float, from_small_float>, small_float_of(component),
              Carrier::float32};
  }
}

Encoder encoder_of(Carrier carrier, DLDataType component) noexcept {
  const int bits = component.bits;
  switch (component.code) {
    case kDLBool:
      return {encode_from<ToBool>(carrier), nullptr};
    case kDLInt:
      return {encode_integer<true>(carrier, bits), nullptr};
    case kDLUInt:
      return {encode_integer<false>(carrier, bits), nullptr};
    case kDLFloat:
      if (bits == 16) return {encode_from<ToHalf<float16_format>>(carrier), nullptr};
      if (bits == 32) return {encode_from<ToReal<float>>(carrier), nullptr};
      return {encode_from<ToReal<double>>(carrier), nullptr};
    case kDLBfloat:
      return {encode_from<ToHalf<bfloat16_format>>(carrier), nullptr};
    case kDLFloat8_e8m0fnu:
      return {encode_from<ToPowerOfTwo>(carrier), nullptr};
    default:
      return {encode_from<ToSmallFloat>(carrier), small_float_of(component)};
  }
}

void swap_bytes(std::byte* data, int64_t count, int component_size) noexcept {
  switch (component_size) {
    case 2:
      return swap_words<uint16_t>(data, count);
    case 4:
      return swap_words<uint32_t>(data, count);
    default:
      return swap_words<uint64_t>(data, count);
  }
}

}  // namespace candle
