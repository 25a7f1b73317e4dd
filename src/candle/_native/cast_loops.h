// The loops of the direct casts. Not a header of its own: each level of instructions compiles it
// once, after its includes and after the blocks that it casts better than the compiler would:
// specialisations of
// `Block`, and of `AnyBit` for casts to bool.

namespace candle {
namespace {

using numbers::Bfloat;
using numbers::Convert;
using numbers::Double;
using numbers::Float;
using numbers::Folded;
using numbers::Half;
using numbers::Number;
using numbers::Quiet;
using numbers::Small;

template <class T>
T load(const std::byte* from, int64_t i) noexcept {
  T value;
  std::memcpy(&value, from + i * int64_t{sizeof(T)}, sizeof value);
  return value;
}

template <class T>
void store(std::byte* to, int64_t i, T value) noexcept {
  std::memcpy(to + i * int64_t{sizeof(T)}, &value, sizeof value);
}

template <class From, class To>
void cast_elements(const std::byte* __restrict from, std::byte* __restrict to,
                   int64_t count) noexcept {
  for (int64_t i = 0; i < count; i++) {
    store(to, i, Convert<To>::from(From::read(load<typename From::Stored>(from, i))));
  }
}

/// One of `cast_block` elements.
template <class From, class To>
void cast_one_block(const std::byte* from, std::byte* to) noexcept {
  if constexpr (Block<From, To>::exists) {
    Block<From, To>::run(from, to);
  } else {
    cast_elements<From, To>(from, to, cast_block);
  }
}

struct OneStep {
  static constexpr bool pays = false;
};

/// By way of floats or doubles, which hold all that bears on the result.
template <class From, class Through, class To>
struct TwoSteps {
  static constexpr bool pays = Block<From, Through>::exists || Block<Through, To>::exists;

  static void run(const std::byte* from, std::byte* to) noexcept {
    alignas(32) std::byte between[cast_block * sizeof(typename Through::Stored)];
    cast_one_block<From, Through>(from, between);
    cast_one_block<Through, To>(between, to);
  }
};

/// Two steps if the level of instructions has a block for one of them.
template <class From, class To>
struct Steps : OneStep {};
template <FloatFormat f, class To>
struct Steps<Small<f>, To> : TwoSteps<Small<f>, Float, To> {};
template <FloatFormat f>
struct Steps<Small<f>, Float> : OneStep {};
template <class T>
  requires std::is_integral_v<T>
struct Steps<Number<T>, Half> : TwoSteps<Number<T>, Float, Half> {};  // what floats round overflows
template <class T>
  requires(std::is_integral_v<T> && sizeof(T) <= 2)
struct Steps<Number<T>, Bfloat> : TwoSteps<Number<T>, Float, Bfloat> {};
template <class T>
  requires(std::is_integral_v<T> && sizeof(T) == 4)
struct Steps<Number<T>, Bfloat> : TwoSteps<Folded<T, 24>, Float, Bfloat> {};
template <class T>
  requires(std::is_integral_v<T> && sizeof(T) == 8)
struct Steps<Number<T>, Bfloat> : TwoSteps<Folded<T, 53>, Double, Bfloat> {};

template <class From, class To>
void cast(const std::byte* from, std::byte* to, int64_t blocks, uint64_t) noexcept {
  constexpr int64_t from_step = cast_block * int64_t{sizeof(typename From::Stored)};
  constexpr int64_t to_step = cast_block * int64_t{sizeof(typename To::Stored)};
  if constexpr (Block<From, To>::exists || Steps<From, To>::pays) {
    using Best = std::conditional_t<Block<From, To>::exists, Block<From, To>, Steps<From, To>>;
    for (int64_t i = 0; i < blocks; i++, from += from_step, to += to_step) Best::run(from, to);
  } else {
    cast_elements<From, To>(from, to, blocks * cast_block);
  }
}

/// To bool: whether any of the bits of `mask` is set.
template <class Word>
void any_bit(const std::byte* __restrict from, std::byte* __restrict to, int64_t blocks,
             uint64_t mask) noexcept {
  const auto bits = static_cast<Word>(mask);
  if constexpr (AnyBit<Word>::exists) {
    return AnyBit<Word>::run(from, to, blocks, bits);
  }
  for (int64_t i = 0; i < blocks * cast_block; i++) {
    store(to, i, static_cast<uint8_t>((load<Word>(from, i) & bits) != 0));
  }
}

/// From bool: the code of one, or 0.
template <class Word>
void one_or_zero(const std::byte* __restrict from, std::byte* __restrict to, int64_t blocks,
                 uint64_t one) noexcept {
  const auto code = static_cast<Word>(one);
  for (int64_t i = 0; i < blocks * cast_block; i++) {
    store(to, i, load<uint8_t>(from, i) != 0 ? code : Word{0});
  }
}

/// To complex numbers of the same component.
template <class Real>
void append_zeros(const std::byte* __restrict from, std::byte* __restrict to, int64_t blocks,
                  uint64_t) noexcept {
  using Word = typename Quiet<Real>::Stored;
  for (int64_t i = 0; i < blocks * cast_block; i++) {
    store(to, 2 * i, Quiet<Real>::read(load<Word>(from, i)));
    store(to, 2 * i + 1, Word{0});
  }
}

/// What tells dtypes of one lane apart.
constexpr int key(int code, int bits) { return code << 8 | bits; }
constexpr int key(DLDataType dtype) { return key(dtype.code, dtype.bits); }

constexpr FloatFormat format_of(DLDataTypeCode code) {
  return small_floats[code - kDLFloat8_e3m4].format;
}
using E4m3fn = Small<format_of(kDLFloat8_e4m3fn)>;
using E4m3fnuz = Small<format_of(kDLFloat8_e4m3fnuz)>;
using E5m2 = Small<format_of(kDLFloat8_e5m2)>;
using E5m2fnuz = Small<format_of(kDLFloat8_e5m2fnuz)>;

template <class From>
CastRun to_float(DLDataType to) noexcept {
  switch (key(to)) {
    case key(kDLFloat, 16):
      return cast<From, Half>;
    case key(kDLFloat, 32):
      return cast<From, Float>;
    case key(kDLFloat, 64):
      return cast<From, Double>;
    case key(kDLBfloat, 16):
      return cast<From, Bfloat>;
    default:
      return nullptr;
  }
}

/// From an integer of these bits; integers of the same width become each other by wrapping.
template <class From>
CastRun from_integer(DLDataType to) noexcept {
  if (to.code != kDLInt && to.code != kDLUInt) return to_float<From>(to);
  using Unsigned = Number<std::make_unsigned_t<typename From::Stored>>;
  constexpr int bits = 8 * sizeof(typename From::Stored);
  switch (to.bits) {
    case 8:
      return cast<Unsigned, Number<uint8_t>>;
    case 16:
      return cast < std::conditional_t<bits<16, From, Unsigned>, Number<uint16_t>>;
    case 32:
      return cast < std::conditional_t<bits<32, From, Unsigned>, Number<uint32_t>>;
    case 64:
      return cast < std::conditional_t<bits<64, From, Unsigned>, Number<uint64_t>>;
    default:
      return nullptr;
  }
}

/// From a float of at least 16 bits.
template <class From>
CastRun from_float(DLDataType to) noexcept {
  switch (key(to)) {
    case key(kDLInt, 8):
      return cast<From, Number<int8_t>>;
    case key(kDLInt, 16):
      return cast<From, Number<int16_t>>;
    case key(kDLInt, 32):
      return cast<From, Number<int32_t>>;
    case key(kDLInt, 64):
      return cast<From, Number<int64_t>>;
    case key(kDLUInt, 8):
      return cast<From, Number<uint8_t>>;
    case key(kDLUInt, 16):
      return cast<From, Number<uint16_t>>;
    case key(kDLUInt, 32):
      return cast<From, Number<uint32_t>>;
    case key(kDLUInt, 64):
      return cast<From, Number<uint64_t>>;
    case key(kDLFloat8_e4m3fn, 8):
      return cast<From, E4m3fn>;
    case key(kDLFloat8_e4m3fnuz, 8):
      return cast<From, E4m3fnuz>;
    case key(kDLFloat8_e5m2, 8):
      return cast<From, E5m2>;
    case key(kDLFloat8_e5m2fnuz, 8):
      return cast<From, E5m2fnuz>;
    default:
      return to_float<From>(to);
  }
}

/// From a float of 8 bits to those of 16 and 32 bits.
template <class From>
CastRun from_small_float(DLDataType to) noexcept {
  switch (key(to)) {
    case key(kDLFloat, 16):
      return cast<From, Half>;
    case key(kDLFloat, 32):
      return cast<From, Float>;
    case key(kDLBfloat, 16):
      return cast<From, Bfloat>;
    default:
      return nullptr;
  }
}

CastRun cast_between(DLDataType from, DLDataType to) noexcept {
  switch (key(from)) {
    case key(kDLInt, 8):
      return from_integer<Number<int8_t>>(to);
    case key(kDLInt, 16):
      return from_integer<Number<int16_t>>(to);
    case key(kDLInt, 32):
      return from_integer<Number<int32_t>>(to);
    case key(kDLInt, 64):
      return from_integer<Number<int64_t>>(to);
    case key(kDLUInt, 8):
      return from_integer<Number<uint8_t>>(to);
    case key(kDLUInt, 16):
      return from_integer<Number<uint16_t>>(to);
    case key(kDLUInt, 32):
      return from_integer<Number<uint32_t>>(to);
    case key(kDLUInt, 64):
      return from_integer<Number<uint64_t>>(to);
    case key(kDLFloat, 16):
      return from_float<Half>(to);
    case key(kDLFloat, 32):
      return to.code == kDLComplex ? append_zeros<float> : from_float<Float>(to);
    case key(kDLFloat, 64):
      return to.code == kDLComplex ? append_zeros<double> : from_float<Double>(to);
    case key(kDLBfloat, 16):
      return from_float<Bfloat>(to);
    case key(kDLFloat8_e4m3fn, 8):
      return from_small_float<E4m3fn>(to);
    case key(kDLFloat8_e4m3fnuz, 8):
      return from_small_float<E4m3fnuz>(to);
    case key(kDLFloat8_e5m2, 8):
      return from_small_float<E5m2>(to);
    case key(kDLFloat8_e5m2fnuz, 8):
      return from_small_float<E5m2fnuz>(to);
    default:
      return nullptr;
  }
}

constexpr CastTable table = {
    cast_between,
    {any_bit<uint8_t>, any_bit<uint16_t>, any_bit<uint32_t>, any_bit<uint64_t>},
    {one_or_zero<uint8_t>, one_or_zero<uint16_t>, one_or_zero<uint32_t>, one_or_zero<uint64_t>},
};

}  // namespace
}  // namespace candle
