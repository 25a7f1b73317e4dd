#include "words.h"

namespace candle {

namespace {

constexpr Py_ssize_t longest = 100;      // characters
constexpr long long printed_bits = 320;  // an int of so many has less than a hundred digits

/// Bits of an int; -1 with an error set.
long long bits_of_int(PyObject* value) {
  const Ref bits = Ref::steal(PyObject_CallMethod(value, "bit_length", nullptr));
  return bits ? PyLong_AsLongLong(bits.get()) : -1;
}

}  // namespace

Ref in_words(PyObject* value) noexcept {
  PyErr_Clear();
  if (PyLong_CheckExact(value)) {
    const long long bits = bits_of_int(value);
    if (bits < 0) return {};
    if (bits > printed_bits) return Ref::steal(PyUnicode_FromFormat("an int of %lld bits", bits));
  }
  Ref text = Ref::steal(PyObject_Repr(value));
  if (!text) {
    if (!forgive()) return {};
    return Ref::steal(PyUnicode_FromFormat("a %s", Py_TYPE(value)->tp_name));
  }
  if (PyUnicode_GET_LENGTH(text.get()) <= longest) return text;
  return Ref::steal(PyUnicode_FromFormat("%.100U...", text.get()));
}

}  // namespace candle
