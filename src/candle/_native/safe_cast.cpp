#include "safe_cast.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "cast_numbers.h"
#include "walk.h"

namespace candle {

namespace {

/// The integers that a dtype holds.
struct Limits {
  int64_t low;
  uint64_t high;

  bool hold(const Scalar& value) const {
    if (value.kind == Scalar::Kind::unsigned_int) return value.unsigned_integer <= high;
    return value.integer >= low &&
           (value.integer < 0 || static_cast<uint64_t>(value.integer) <= high);
  }
  bool hold(const Limits& others) const { return others.low >= low && others.high <= high; }
};

bool is_integer(Kind kind) { return kind == Kind::signed_int || kind == Kind::unsigned_int; }

/// Of an integer dtype, or of a float with `exact_integer_bits`.
Limits limits_of(DTypeId dtype) {
  const DTypeRow& row = dtype_table[dtype];
  const int bits = row.dlpack.bits;
  if (row.kind == Kind::boolean) return {0, 1};
  if (row.kind == Kind::unsigned_int) return {0, ~uint64_t{0} >> (64 - bits)};
  if (row.kind == Kind::signed_int) {
    const uint64_t high = (uint64_t{1} << (bits - 1)) - 1;
    return {-static_cast<int64_t>(high) - 1, high};
  }
  const int64_t most = int64_t{1} << exact_integer_bits(dtype);
  return {-most, static_cast<uint64_t>(most)};
}

/// What a number is after a cast.
Scalar cast(const Scalar& value, DTypeId to) {
  alignas(16) std::byte item[16];
  store_scalar(item, 0, dtype_table[to].dlpack, value);
  return load_scalar(item, 0, dtype_table[to].dlpack);
}

bool has_infinity(DTypeId dtype) {
  return std::isinf(
      cast({.kind = Scalar::Kind::real, .real = std::numeric_limits<double>::infinity()}, dtype)
          .real);
}

double real_of_integer(const Scalar& value) {
  return value.kind == Scalar::Kind::unsigned_int ? static_cast<double>(value.unsigned_integer)
                                                  : static_cast<double>(value.integer);
}

/// Of a cast that may lose something.
bool keeps(const Scalar& value, DTypeId to) {
  if (is_integer(dtype_table[to].kind)) {
    const Limits limits = limits_of(to);
    if (value.kind != Scalar::Kind::real) return limits.hold(value);
    const auto end = 2 * static_cast<double>(limits.high / 2 + 1);  // a power of two
    return value.real >= static_cast<double>(limits.low) && value.real < end &&
           value.real == std::trunc(value.real);
  }
  if (exact_integer_bits(to) != 0) return limits_of(to).hold(value);
  const double made = cast(value, to).real;
  if (value.kind != Scalar::Kind::real)
    return limits_of(id_float64).hold(value) && made == real_of_integer(value);
  return std::isnan(value.real) || !std::isnan(made);
}

template <class T>
T read(const std::byte* at) noexcept {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

/// Whether integers lie between the limits.
template <class T>
struct Inside {
  using Stored = T;
  using Word = std::make_unsigned_t<T>;
  using Flag = Word;
  Word low, width;

  explicit Inside(const Limits& limits) {
    using Range = std::numeric_limits<T>;
    const T least = static_cast<T>(std::max<int64_t>(
        limits.low, std::is_signed_v<T> ? static_cast<int64_t>(Range::min()) : 0));
    const T most =
        static_cast<T>(std::min<uint64_t>(limits.high, static_cast<uint64_t>(Range::max())));
    low = static_cast<Word>(least);
    width = static_cast<Word>(static_cast<Word>(most) - low);
  }
  Flag lost(T value) const noexcept {
    return static_cast<Word>(static_cast<Word>(value) - low) > width;
  }
  static bool any(Flag lost) noexcept { return lost != 0; }
};

/// Whether floats are whole numbers between the limits. By their patterns, which are ordered as the
/// numbers are: what is looked for is a difference with the sign bit set.
template <class Number, class Real>
struct Whole {
  using Stored = typename Number::Stored;
  using Flag = typename numbers::Layout<Real>::Pattern;
  Flag most, least;  // the last magnitudes above and below zero

  explicit Whole(const Limits& limits)
      : most(std::bit_cast<Flag>(2 * static_cast<Real>(limits.high / 2 + 1)) - 1),
        least(std::bit_cast<Flag>(std::abs(static_cast<Real>(limits.low)))) {}
  Flag lost(Stored stored) const noexcept {
    using L = numbers::Layout<Real>;
    constexpr Flag no_fractions = L::power_of_two(L::mantissa_bits);  // from here on
    const auto pattern = std::bit_cast<Flag>(Number::read(stored));
    const Flag magnitude = pattern & ~L::sign_bit;
    const auto large = std::bit_cast<Real>(no_fractions);
    const auto whole = std::bit_cast<Flag>(std::bit_cast<Real>(magnitude) + large - large);
    const Flag fraction = whole ^ magnitude;
    const Flag has_fraction = (fraction | (0 - fraction)) & (magnitude - no_fractions);
    return has_fraction | (~pattern & (most - magnitude)) | (pattern & (least - magnitude));
  }
  static bool any(Flag lost) noexcept { return (lost & numbers::Layout<Real>::sign_bit) != 0; }
};

/// Looks at a run of elements; some thousands at a time, for an early end.
template <class Test, bool together>
bool any_lost_in(const Test& test, const std::byte* at, int64_t count, int64_t step) noexcept {
  using Stored = typename Test::Stored;
  constexpr int64_t block = 4096;
  if (together) step = sizeof(Stored);
  while (count > 0) {
    const int64_t some = std::min(count, block);
    typename Test::Flag lost = 0;
    for (int64_t i = 0; i < some; i++) {
      const auto flag = test.lost(read<Stored>(at + i * step));
      lost = static_cast<typename Test::Flag>(lost | flag);
    }
    if (Test::any(lost)) return true;
    at += some * step;
    count -= some;
  }
  return false;
}

template <class Test>
bool any_lost(const Test& test, const Axis* axes, int32_t ndim, const std::byte* at) noexcept {
  constexpr int64_t item = sizeof(typename Test::Stored);
  if (ndim == 0) return any_lost_in<Test, true>(test, at, 1, item);
  const int64_t step = axes->from / 8;
  if (ndim == 1) {
    return step == item ? any_lost_in<Test, true>(test, at, axes->extent, step)
                        : any_lost_in<Test, false>(test, at, axes->extent, step);
  }
  for (int64_t i = 0; i < axes->extent; i++) {
    if (any_lost(test, axes + 1, ndim - 1, at + i * step)) return true;
  }
  return false;
}

template <class Test>
bool any_lost(const Walk& walk, const Limits& limits) noexcept {
  return any_lost(Test(limits), walk.axes, walk.ndim, walk.src.data + walk.src.start / 8);
}

/// Whether anything is lost, of the dtypes that people use; of others it may be.
bool maybe_lost(const Side& from, int32_t ndim, const int64_t* shape, DTypeId to) noexcept {
  if (!is_integer(dtype_table[to].kind) && exact_integer_bits(to) == 0) return true;
  int64_t once[max_ndim];  // what repeats is looked at once
  for (int32_t i = 0; i < ndim; i++) once[i] = from.strides[i] == 0 ? 1 : shape[i];
  Walk walk;
  make_walk(from, from, ndim, once, &walk);
  const Limits limits = limits_of(to);
  switch (dtype_id(from.dtype)) {
    case dtype_named("int8"):
      return any_lost<Inside<int8_t>>(walk, limits);
    case dtype_named("int16"):
      return any_lost<Inside<int16_t>>(walk, limits);
    case dtype_named("int32"):
      return any_lost<Inside<int32_t>>(walk, limits);
    case dtype_named("int64"):
      return any_lost<Inside<int64_t>>(walk, limits);
    case dtype_named("uint8"):
      return any_lost<Inside<uint8_t>>(walk, limits);
    case dtype_named("uint16"):
      return any_lost<Inside<uint16_t>>(walk, limits);
    case dtype_named("uint32"):
      return any_lost<Inside<uint32_t>>(walk, limits);
    case dtype_named("uint64"):
      return any_lost<Inside<uint64_t>>(walk, limits);
    case dtype_named("float16"):
      return any_lost<Whole<numbers::Half, float>>(walk, limits);
    case dtype_named("bfloat16"):
      return any_lost<Whole<numbers::Bfloat, float>>(walk, limits);
    case dtype_named("float32"):
      return any_lost<Whole<numbers::Float, float>>(walk, limits);
    case dtype_named("float64"):
      return any_lost<Whole<numbers::Double, double>>(walk, limits);
    default:
      return true;
  }
}

/// One after the other, in row-major order, from the axis `axis` on.
bool find_lost(const Side& from, int32_t ndim, const int64_t* shape, DTypeId to, int32_t axis,
               int64_t bit, int64_t* index, Scalar* value) noexcept {
  if (axis == ndim) {
    *value = load_scalar(from.data, bit, from.dtype);
    return !keeps(*value, to);
  }
  for (index[axis] = 0; index[axis] < shape[axis]; index[axis]++) {
    const int64_t at = bit + index[axis] * from.strides[axis];
    if (find_lost(from, ndim, shape, to, axis + 1, at, index, value)) return true;
  }
  return false;
}

}  // namespace

int exact_integer_bits(DTypeId dtype) noexcept {
  const DTypeRow& row = dtype_table[dtype];
  const bool is_complex = row.dlpack.code == kDLComplex;
  if (row.dlpack.code == kDLBfloat) return 8;
  if (row.dlpack.code != kDLFloat && !is_complex) return 0;
  switch (is_complex ? row.dlpack.bits / 2 : row.dlpack.bits) {
    case 16:
      return 11;
    case 32:
      return 24;
    default:
      return 53;
  }
}

bool always_keeps(DTypeId from, DTypeId to) noexcept {
  const Kind source = dtype_table[from].kind;
  const Kind target = dtype_table[to].kind;
  if (from == to || target == Kind::boolean || source == Kind::complex_number) return true;
  const bool is_small = !is_integer(target) && exact_integer_bits(to) == 0;
  if (source == Kind::real) return !is_integer(target) && (!is_small || has_infinity(to));
  return !is_small && limits_of(to).hold(limits_of(from));
}

bool first_lost(const Side& from, int32_t ndim, const int64_t* shape, DTypeId to, int64_t* index,
                Scalar* value) noexcept {
  return maybe_lost(from, ndim, shape, to) && find_lost(from, ndim, shape, to, 0, 0, index, value);
}

}  // namespace candle
