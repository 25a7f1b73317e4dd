#include "words.h"

namespace candle {

namespace {

constexpr Py_ssize_t longest = 100;  // characters
constexpr long printed_bits = 320;   // an int of so many has less than a hundred digits

/// Bits of an int; 0 where they cannot be told, and -1 with an error set.
long bits_of_int(PyObject* value) {
  const Ref bits = Ref::steal(PyObject_CallMethod(value, "bit_length", nullptr));
  const long count = bits ? PyLong_AsLong(bits.get()) : 0;
  if (!PyErr_Occurred()) return count;
  return forgive() ? 0 : -1;
}

}  // namespace

Ref in_words(PyObject* value) noexcept {
  PyErr_Clear();
  if (PyLong_CheckExact(value)) {
    const long bits = bits_of_int(value);
    if (bits < 0) return {};
    if (bits > printed_bits) return Ref::steal(PyUnicode_FromFormat("an int of %ld bits", bits));
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
