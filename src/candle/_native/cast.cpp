#include "cast.h"

#include <algorithm>
#include <cstring>

#include "cast_kernels.h"
#include "dtype_table.h"
#include "packed.h"

namespace candle {

namespace {

constexpr int largest_item = 16;

template <class T>
T carried(const std::byte* carrier) noexcept {
  T value;
  std::memcpy(&value, carrier, sizeof value);
  return value;
}

double carried_real(const std::byte* carrier, Carrier type) noexcept {
  return type == Carrier::float32 ? double{carried<float>(carrier)} : carried<double>(carrier);
}

Scalar scalar_of_carrier(const std::byte* carrier, Carrier type) noexcept {
  switch (type) {
    case Carrier::int32:
      return {.kind = Scalar::Kind::signed_int, .integer = carried<int32_t>(carrier)};
    case Carrier::int64:
      return {.kind = Scalar::Kind::signed_int, .integer = carried<int64_t>(carrier)};
    case Carrier::uint64:
      return {.kind = Scalar::Kind::unsigned_int, .unsigned_integer = carried<uint64_t>(carrier)};
    default:
      return {.kind = Scalar::Kind::real, .real = carried_real(carrier, type)};
  }
}

/// Writes the scalar (the real part of a complex one) as a carrier.
Carrier carry(const Scalar& value, std::byte* carrier) noexcept {
  switch (value.kind) {
    case Scalar::Kind::boolean:
    case Scalar::Kind::signed_int:
      std::memcpy(carrier, &value.integer, sizeof value.integer);
      return Carrier::int64;
    case Scalar::Kind::unsigned_int:
      std::memcpy(carrier, &value.unsigned_integer, sizeof value.unsigned_integer);
      return Carrier::uint64;
    default:
      std::memcpy(carrier, &value.real, sizeof value.real);
      return Carrier::float64;
  }
}

}  // namespace

bool can_cast(DLDataType from, DLDataType to) noexcept {
  const DTypeId source = dtype_id(from);
  const DTypeId target = dtype_id(to);
  if (source == unknown_dtype || target == unknown_dtype) return false;
  const Kind source_kind = dtype_table[source].kind;
  const Kind target_kind = dtype_table[target].kind;
  if (source_kind == Kind::pair || target_kind == Kind::pair) return source == target;
  return source_kind != Kind::complex_number || target_kind == Kind::complex_number ||
         target_kind == Kind::boolean;
}

Scalar load_scalar(const std::byte* data, int64_t bit, DLDataType dtype) noexcept {
  alignas(8) std::byte item[largest_item];
  alignas(8) std::byte carriers[2 * sizeof(double)];
  const int item_size = item_bytes(dtype);
  if (dtype.bits < 8) {
    item[0] = static_cast<std::byte>(read_bits(data, bit, dtype.bits));
  } else {
    std::memcpy(item, data + (bit >> 3), static_cast<size_t>(item_size));
  }
  const DLDataType component = component_of(dtype);
  const bool is_complex = dtype.code == kDLComplex;
  const int count = is_complex ? 2 : 1;
  const Decoder decoder = decoder_of(component);
  const std::byte* carrier = item;
  if (decoder.run != nullptr) {
    decoder.run(item, carriers, count, decoder.format);
    carrier = carriers;
  }
  Scalar scalar = scalar_of_carrier(carrier, decoder.carrier);
  if (dtype.code == kDLBool) scalar.kind = Scalar::Kind::boolean;
  if (dtype.code == kDLUInt && scalar.kind == Scalar::Kind::signed_int) {
    scalar = {.kind = Scalar::Kind::unsigned_int,
              .unsigned_integer = static_cast<uint64_t>(scalar.integer)};
  }
  if (is_complex) {
    scalar.kind = Scalar::Kind::complex_number;
    scalar.imaginary = carried_real(carrier + carrier_bytes(decoder.carrier), decoder.carrier);
  }
  return scalar;
}

bool store_scalar(std::byte* data, int64_t bit, DLDataType dtype, const Scalar& value) noexcept {
  const DTypeId id = dtype_id(dtype);
  if (id == unknown_dtype || dtype_table[id].kind == Kind::pair) return false;
  const bool to_complex = dtype.code == kDLComplex;
  const bool from_complex = value.kind == Scalar::Kind::complex_number;
  if (from_complex && !to_complex && dtype.code != kDLBool) return false;

  alignas(8) std::byte carrier[sizeof(double)];
  alignas(8) std::byte item[largest_item] = {};
  const DLDataType component = component_of(dtype);
  const Carrier type = carry(value, carrier);
  const Encoder encoder = encoder_of(type, component);
  encoder.run(carrier, item, 1, encoder.format);
  if (from_complex) {
    std::memcpy(carrier, &value.imaginary, sizeof value.imaginary);
    std::byte* imaginary = item + item_bytes(component);
    encoder.run(carrier, imaginary, 1, encoder.format);
    if (!to_complex) item[0] |= *imaginary;
  }
  if (dtype.bits < 8) {
    write_bits(data, bit, dtype.bits, std::to_integer<uint8_t>(item[0]));
  } else {
    std::memcpy(data + (bit >> 3), item, static_cast<size_t>(item_bytes(dtype)));
  }
  return true;
}

}  // namespace candle
