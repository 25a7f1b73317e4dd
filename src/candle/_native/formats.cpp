// The words other protocols have for dtypes: array interface typestrs and PEP 3118 formats.
#include <bit>
#include <cstdlib>
#include <cstring>

#include "ingest.h"

namespace candle {

namespace {

constexpr bool little = std::endian::native == std::endian::little;

DTypeId number_type(uint8_t code, long bytes) {
  return bytes < 1 || bytes > 16 ? unknown_dtype
                                 : dtype_id({code, static_cast<uint8_t>(8 * bytes), 1});
}

/// The formats of one letter, with their sizes: this machine's, and the standard one of "<" and
/// ">".
constexpr char format_letters[] = "?bhilqnBcHILQNefd";
struct FormatLetter {
  uint8_t code;
  long bytes, standard_bytes;
};
constexpr FormatLetter letters[] = {
    {kDLBool, 1, 1},           {kDLInt, 1, 1},  {kDLInt, 2, 2},   {kDLInt, 4, 4},
    {kDLInt, sizeof(long), 4}, {kDLInt, 8, 8},  {kDLInt, 8, 8},   {kDLUInt, 1, 1},
    {kDLUInt, 1, 1},           {kDLUInt, 2, 2}, {kDLUInt, 4, 4},  {kDLUInt, sizeof(long), 4},
    {kDLUInt, 8, 8},           {kDLUInt, 8, 8}, {kDLFloat, 2, 2}, {kDLFloat, 4, 4},
    {kDLFloat, 8, 8},
};
static_assert(sizeof(letters) / sizeof(letters[0]) == sizeof(format_letters) - 1);

}  // namespace

DTypeId parse_typestr(const char* typestr, bool* swapped) noexcept {
  const char order = typestr[0];
  if (order == 0 || typestr[1] == 0 || std::strchr("<>|=", order) == nullptr) return unknown_dtype;
  *swapped = order == (little ? '>' : '<');
  char* end;
  const long bytes = std::strtol(typestr + 2, &end, 10);
  if (end == typestr + 2 || *end != 0) return unknown_dtype;
  if (bytes == 1) *swapped = false;
  switch (typestr[1]) {
    case 'b':
      return bytes == 1 ? id_bool : unknown_dtype;
    case 'i':
      return number_type(kDLInt, bytes);
    case 'u':
      return number_type(kDLUInt, bytes);
    case 'f':
      return bytes == 1 ? unknown_dtype : number_type(kDLFloat, bytes);
    case 'c':
      return bytes < 8 ? unknown_dtype : number_type(kDLComplex, bytes);
    default:
      return unknown_dtype;
  }
}

DTypeId parse_format(const char* format, Py_ssize_t itemsize, bool* swapped) noexcept {
  *swapped = false;
  if (format == nullptr) return itemsize == 1 ? id_uint8 : unknown_dtype;
  if (std::strchr("@=<>!", format[0]) != nullptr && format[0] != 0) {
    *swapped = (format[0] == '<') ? !little : (format[0] == '>' || format[0] == '!') && little;
    format++;
  }
  if (itemsize == 1) *swapped = false;
  const auto size = static_cast<long>(itemsize);
  if (format[0] == 'Z' && (format[1] == 'f' || format[1] == 'd') && format[2] == 0) {
    return size == (format[1] == 'f' ? 8 : 16) ? number_type(kDLComplex, size) : unknown_dtype;
  }
  if (format[0] == 0 || format[1] != 0) return unknown_dtype;
  const char* place = std::strchr(format_letters, format[0]);
  if (place == nullptr) return unknown_dtype;
  const FormatLetter& letter = letters[place - format_letters];
  if (size != letter.bytes && size != letter.standard_bytes) return unknown_dtype;
  return number_type(letter.code, size);
}

}  // namespace candle
