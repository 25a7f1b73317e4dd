// Every element type candle knows: one row a type, the only place where names, DLPack codes and
// formats meet.
#pragma once

#include <dlpack/dlpack.h>

#include <bit>
#include <cstdint>
#include <cstring>

namespace candle {

/// What kind of number an element is; the rules of casting go by it.
enum class Kind : uint8_t { boolean, signed_int, unsigned_int, real, complex_number, pair };

struct DTypeRow {
  const char* name;        // the Python Array API's, else ml_dtypes' name
  const char* short_name;  // HuggingFace candle's name, or nullptr
  DLDataType dlpack;
  Kind kind;
  const char* typestr;  // array interface type, without the byte order; nullptr where it has none
  const char* format;   // PEP 3118 format; nullptr where it has none
};

/// Index of a row; what a Tensor stores.
using DTypeId = uint8_t;

inline constexpr DTypeId unknown_dtype = 0xff;

// clang-format off
inline constexpr DTypeRow dtype_table[] = {
    {"bool",               nullptr, {kDLBool, 8, 1},              Kind::boolean,        "b1",    "?"},
    {"int8",               "i8",    {kDLInt, 8, 1},               Kind::signed_int,     "i1",    "b"},
    {"int16",              "i16",   {kDLInt, 16, 1},              Kind::signed_int,     "i2",    "h"},
    {"int32",              "i32",   {kDLInt, 32, 1},              Kind::signed_int,     "i4",    "i"},
    {"int64",              "i64",   {kDLInt, 64, 1},              Kind::signed_int,     "i8",    "q"},
    {"uint8",              "u8",    {kDLUInt, 8, 1},              Kind::unsigned_int,   "u1",    "B"},
    {"uint16",             "u16",   {kDLUInt, 16, 1},             Kind::unsigned_int,   "u2",    "H"},
    {"uint32",             "u32",   {kDLUInt, 32, 1},             Kind::unsigned_int,   "u4",    "I"},
    {"uint64",             "u64",   {kDLUInt, 64, 1},             Kind::unsigned_int,   "u8",    "Q"},
    {"float16",            "f16",   {kDLFloat, 16, 1},            Kind::real,           "f2",    "e"},
    {"float32",            "f32",   {kDLFloat, 32, 1},            Kind::real,           "f4",    "f"},
    {"float64",            "f64",   {kDLFloat, 64, 1},            Kind::real,           "f8",    "d"},
    {"bfloat16",           "bf16",  {kDLBfloat, 16, 1},           Kind::real,           nullptr, nullptr},
    {"complex32",          nullptr, {kDLComplex, 32, 1},          Kind::complex_number, nullptr, nullptr},
    {"complex64",          nullptr, {kDLComplex, 64, 1},          Kind::complex_number, "c8",    "Zf"},
    {"complex128",         nullptr, {kDLComplex, 128, 1},         Kind::complex_number, "c16",   "Zd"},
    {"float8_e3m4",        nullptr, {kDLFloat8_e3m4, 8, 1},       Kind::real,           nullptr, nullptr},
    {"float8_e4m3",        nullptr, {kDLFloat8_e4m3, 8, 1},       Kind::real,           nullptr, nullptr},
    {"float8_e4m3b11fnuz", nullptr, {kDLFloat8_e4m3b11fnuz, 8, 1}, Kind::real,          nullptr, nullptr},
    {"float8_e4m3fn",      "f8e4m3", {kDLFloat8_e4m3fn, 8, 1},    Kind::real,           nullptr, nullptr},
    {"float8_e4m3fnuz",    nullptr, {kDLFloat8_e4m3fnuz, 8, 1},   Kind::real,           nullptr, nullptr},
    {"float8_e5m2",        nullptr, {kDLFloat8_e5m2, 8, 1},       Kind::real,           nullptr, nullptr},
    {"float8_e5m2fnuz",    nullptr, {kDLFloat8_e5m2fnuz, 8, 1},   Kind::real,           nullptr, nullptr},
    {"float8_e8m0fnu",     nullptr, {kDLFloat8_e8m0fnu, 8, 1},    Kind::real,           nullptr, nullptr},
    {"float6_e2m3fn",      nullptr, {kDLFloat6_e2m3fn, 6, 1},     Kind::real,           nullptr, nullptr},
    {"float6_e3m2fn",      nullptr, {kDLFloat6_e3m2fn, 6, 1},     Kind::real,           nullptr, nullptr},
    {"float4_e2m1fn",      nullptr, {kDLFloat4_e2m1fn, 4, 1},     Kind::real,           nullptr, nullptr},
    {"float4_e2m1fn_x2",   nullptr, {kDLFloat4_e2m1fn, 4, 2},     Kind::pair,           nullptr, nullptr},
    {"int4",               nullptr, {kDLInt, 4, 1},               Kind::signed_int,     nullptr, nullptr},
    {"uint4",              nullptr, {kDLUInt, 4, 1},              Kind::unsigned_int,   nullptr, nullptr},
};
// clang-format on

inline constexpr int dtype_count = sizeof(dtype_table) / sizeof(dtype_table[0]);
static_assert(dtype_count <= 64, "sets of dtypes are 64-bit masks");

/// A set of dtypes, bit i for row i.
using DTypeSet = uint64_t;

inline constexpr bool same_dtype(DLDataType a, DLDataType b) {
  return a.code == b.code && a.bits == b.bits && a.lanes == b.lanes;
}

namespace detail {

inline constexpr int code_count = kDLFloat4_e2m1fn + 1;
inline constexpr int width_count = 9;  // std::bit_width of 1 to 255 bits

struct DTypeIndex {
  DTypeId one[code_count][width_count];
};

constexpr DTypeIndex make_dtype_index() {
  DTypeIndex index{};
  for (auto& row : index.one) {
    for (auto& id : row) id = unknown_dtype;
  }
  for (int i = 0; i < dtype_count; i++) {
    const DLDataType d = dtype_table[i].dlpack;
    if (d.lanes == 1) index.one[d.code][std::bit_width(d.bits)] = static_cast<DTypeId>(i);
  }
  return index;
}

inline constexpr DTypeIndex dtype_index = make_dtype_index();

}  // namespace detail

/// The row of a DLPack dtype, or `unknown_dtype`.
inline constexpr DTypeId dtype_id(DLDataType d) {
  if (d.code >= detail::code_count) return unknown_dtype;
  if (d.lanes == 1) {
    const DTypeId id = detail::dtype_index.one[d.code][std::bit_width(d.bits)];
    return id != unknown_dtype && dtype_table[id].dlpack.bits == d.bits ? id : unknown_dtype;
  }
  for (int i = 0; i < dtype_count; i++) {
    if (same_dtype(dtype_table[i].dlpack, d)) return static_cast<DTypeId>(i);
  }
  return unknown_dtype;
}

/// The row with this name or HuggingFace candle's short name, or `unknown_dtype`.
constexpr DTypeId dtype_named(const char* name) {
  constexpr auto equal = [](const char* a, const char* b) {
    while (*a != 0 && *a == *b) a++, b++;
    return *a == *b;
  };
  for (int i = 0; i < dtype_count; i++) {
    const DTypeRow& row = dtype_table[i];
    if (equal(row.name, name) || (row.short_name != nullptr && equal(row.short_name, name))) {
      return static_cast<DTypeId>(i);
    }
  }
  return unknown_dtype;
}

inline constexpr DTypeId id_bool = dtype_named("bool");
inline constexpr DTypeId id_int64 = dtype_named("int64");
inline constexpr DTypeId id_uint8 = dtype_named("uint8");
inline constexpr DTypeId id_float32 = dtype_named("float32");
inline constexpr DTypeId id_float64 = dtype_named("float64");
inline constexpr DTypeId id_complex64 = dtype_named("complex64");
inline constexpr DTypeId id_complex128 = dtype_named("complex128");

/// Bits one element takes in memory. A sub-byte element takes a whole byte where `padded`, and is
/// packed else.
inline constexpr int item_bits(DLDataType d, bool padded = false) {
  const int bits = d.bits * d.lanes;
  return padded && bits < 8 ? 8 : bits;
}

/// Bytes one element takes, rounded up: what `itemsize` says.
inline constexpr int item_bytes(DLDataType d) { return (d.bits * d.lanes + 7) / 8; }

static_assert(sizeof(DLTensor) == 48 && sizeof(DLManagedTensor) == 64);
static_assert(sizeof(DLManagedTensorVersioned) == 80);
static_assert(sizeof(DLPackExchangeAPIHeader) == 16 && sizeof(DLPackExchangeAPI) == 56);
static_assert(dtype_id({kDLFloat4_e2m1fn, 4, 2}) == dtype_named("float4_e2m1fn_x2"));
static_assert(dtype_id({kDLFloat, 8, 1}) == unknown_dtype &&
              dtype_id({kDLInt, 6, 1}) == unknown_dtype);

}  // namespace candle
