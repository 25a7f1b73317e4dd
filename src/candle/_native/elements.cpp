#include "elements.h"

#include <cmath>
#include <cstring>

#include "copying.h"
#include "ingest.h"
#include "words.h"

namespace candle {

namespace {

/// Values can be read on the host, one by one. False with a BufferError set.
bool readable(const Tensor* tensor) {
  if (tensor->row().kind == Kind::pair) {
    PyErr_Format(PyExc_BufferError,
                 "an element of %s is a pair of numbers and has no Python value; t.view('uint8') "
                 "shows the bytes",
                 tensor->row().name);
    return false;
  }
  return true;
}

/// The tensor itself, or a copy of device memory that the host can read. Empty with an error set.
Ref on_host(Tensor* tensor) {
  static const Demand values = [] {
    Demand demand;
    demand.consumer = "Python";
    demand.somewhere = true;  // the values were asked for
    return demand;
  }();
  if (host_memory(tensor->device)) return Ref::borrow(tensor->object());
  Decision decision;
  return Ref::steal(conform(tensor, values, CopyMode::if_needed, &decision));
}

PyObject* list_of(const Tensor* tensor, int32_t axis, int64_t bit) {
  if (axis == tensor->ndim()) {
    return number_of(load_scalar(tensor->data, bit, tensor->row().dlpack));
  }
  const auto extent = static_cast<Py_ssize_t>(tensor->shape()[axis]);
  const int64_t step = tensor->strides()[axis] * tensor->bits();
  Ref list = Ref::steal(PyList_New(extent));
  if (!list) return nullptr;
  for (Py_ssize_t i = 0; i < extent; i++) {
    PyObject* value = list_of(tensor, axis + 1, bit + i * step);
    if (value == nullptr) return nullptr;
    PyList_SET_ITEM(list.get(), i, value);
  }
  return list.release();
}

/// The double next to an int, to nearest even; infinite beyond the largest. False with an error
/// set.
bool nearest_double(PyObject* value, double* nearest) {
  *nearest = PyLong_AsDouble(value);
  if (*nearest != -1 || !PyErr_Occurred()) return true;
  if (!PyErr_ExceptionMatches(PyExc_OverflowError)) return false;
  PyErr_Clear();
  int sign;
  PyLong_AsLongLongAndOverflow(value, &sign);
  *nearest = sign < 0 ? -HUGE_VAL : HUGE_VAL;
  return true;
}

/// The double of an int rounded to odd: cut, and its last bit set where something was cut off. Once
/// more rounded, to a shorter format, it is what the int itself would become.
bool odd_double(PyObject* value, double* odd) {
  if (!nearest_double(value, odd)) return false;
  if (std::isinf(*odd)) return true;
  const Ref back = Ref::steal(PyLong_FromDouble(*odd));
  const Ref exact = Ref::steal(PyLong_Type.tp_as_number->nb_positive(value));  // of a subclass too
  if (!back || !exact) return false;
  const int same = PyObject_RichCompareBool(back.get(), exact.get(), Py_EQ);
  const int above = PyObject_RichCompareBool(back.get(), exact.get(), Py_GT);
  if (same < 0 || above < 0) return false;
  if (same > 0) return true;
  if ((above > 0) == (*odd > 0)) *odd = std::nextafter(*odd, 0);
  uint64_t bits;
  std::memcpy(&bits, odd, sizeof bits);
  bits |= 1;
  std::memcpy(odd, &bits, sizeof bits);
  return true;
}

bool fill_with(Tensor* dst, const Scalar& scalar, PyObject* value) {
  if (!writable(dst)) return false;
  alignas(16) std::byte element[16] = {};
  if (!store(element, 0, dst->dtype, scalar, value)) return false;
  if (!host_memory(dst->device)) {
    Tensor* one = allocate(state.tensor_type, dst->dtype, 0, nullptr);
    const Ref owned = Ref::steal(one == nullptr ? nullptr : one->object());
    if (!owned) return false;
    std::memcpy(one->data, element, static_cast<size_t>(item_bytes(dst->row().dlpack)));
    return device_write(dst, one);
  }
  const int64_t still[max_ndim] = {};
  int64_t strides[max_ndim];
  bit_strides(source_of(dst), strides);
  const Side to{dst->data, dst->row().dlpack, false, dst->padded, strides};
  const Side from{element, dst->row().dlpack, false, dst->padded, still};
  return run_copy(to, from, dst->ndim(), dst->shape(),
                  bytes_of(dst->size, dst->dtype, dst->padded));
}

}  // namespace

PyObject* number_of(const Scalar& scalar) noexcept {
  switch (scalar.kind) {
    case Scalar::Kind::boolean:
      return PyBool_FromLong(scalar.integer != 0);
    case Scalar::Kind::signed_int:
      return PyLong_FromLongLong(scalar.integer);
    case Scalar::Kind::unsigned_int:
      return PyLong_FromUnsignedLongLong(scalar.unsigned_integer);
    case Scalar::Kind::real:
      return PyFloat_FromDouble(scalar.real);
    case Scalar::Kind::complex_number:
      return PyComplex_FromDoubles(scalar.real, scalar.imaginary);
  }
  Py_UNREACHABLE();
}

bool scalar_of(PyObject* value, Scalar* scalar, bool* is_number) noexcept {
  *is_number = true;
  if (PyFloat_CheckExact(value)) {
    *scalar = {.kind = Scalar::Kind::real, .real = PyFloat_AS_DOUBLE(value)};
  } else if (PyBool_Check(value)) {
    *scalar = {.kind = Scalar::Kind::boolean, .integer = value == Py_True};
  } else if (PyLong_Check(value)) {
    int overflow;
    const long long integer = PyLong_AsLongLongAndOverflow(value, &overflow);
    if (overflow == 0) {
      *scalar = {.kind = Scalar::Kind::signed_int, .integer = integer};
    } else {
      const unsigned long long large = PyLong_AsUnsignedLongLong(value);
      if (large == static_cast<unsigned long long>(-1) && PyErr_Occurred()) {
        PyErr_Clear();
        *scalar = {.kind = Scalar::Kind::real};
        return odd_double(value, &scalar->real);
      }
      *scalar = {.kind = Scalar::Kind::unsigned_int, .unsigned_integer = large};
    }
  } else if (PyComplex_CheckExact(value)) {
    const Py_complex z = PyComplex_AsCComplex(value);
    *scalar = {.kind = Scalar::Kind::complex_number, .real = z.real, .imaginary = z.imag};
  } else if (PyFloat_Check(value)) {
    *scalar = {.kind = Scalar::Kind::real, .real = PyFloat_AS_DOUBLE(value)};
  } else if (PyComplex_Check(value)) {
    const Py_complex z = PyComplex_AsCComplex(value);
    *scalar = {.kind = Scalar::Kind::complex_number, .real = z.real, .imaginary = z.imag};
  } else {
    *is_number = false;
  }
  return true;
}

bool fits(const Scalar& scalar, DTypeId dtype, PyObject* value) noexcept {
  const DTypeRow& row = dtype_table[dtype];
  if (row.kind != Kind::signed_int && row.kind != Kind::unsigned_int) return true;
  const int bits = row.dlpack.bits;
  const bool is_signed = row.kind == Kind::signed_int;
  const uint64_t most = ~uint64_t{0} >> (64 - bits + (is_signed ? 1 : 0));
  const int64_t least = is_signed ? -static_cast<int64_t>(most) - 1 : 0;
  bool inside = !is_large(scalar, value);
  if (scalar.kind == Scalar::Kind::signed_int) {
    inside = scalar.integer >= least &&
             (scalar.integer < 0 || static_cast<uint64_t>(scalar.integer) <= most);
  } else if (scalar.kind == Scalar::Kind::unsigned_int) {
    inside = scalar.unsigned_integer <= most;
  } else if (scalar.kind == Scalar::Kind::real && inside) {
    const double whole = std::trunc(scalar.real);  // false of NaN, whatever is asked
    inside = whole >= static_cast<double>(least) && whole < 2 * static_cast<double>(most / 2 + 1);
  }
  if (inside) return true;
  const Ref text = in_words(value);
  if (text) PyErr_Format(PyExc_ValueError, "%U does not fit %s", text.get(), row.name);
  return false;
}

void refuse_large(PyObject* value) noexcept {
  const Ref text = in_words(value);
  if (!text) return;
  Scalar scalar;
  bool is_number;
  if (!scalar_of(value, &scalar, &is_number)) return;
  const bool beyond = is_large(scalar, value);
  PyErr_Format(PyExc_ValueError, "%U does not fit %s; name a dtype that holds it: dtype=\"%s\"",
               text.get(), beyond ? "64 bits" : "int64", beyond ? "float64" : "uint64");
}

bool store(std::byte* data, int64_t bit, DTypeId dtype, const Scalar& scalar,
           PyObject* value) noexcept {
  if (!fits(scalar, dtype, value)) return false;
  const DTypeRow& row = dtype_table[dtype];
  if (row.kind == Kind::pair) {
    PyErr_Format(PyExc_BufferError,
                 "%s cannot be made of numbers; make bytes and view them: t.view('%s')", row.name,
                 row.name);
    return false;
  }
  Scalar rounded = scalar;
  const bool is_double = dtype == id_float64 || dtype == id_complex128;
  if (is_double && is_large(scalar, value) && !nearest_double(value, &rounded.real)) return false;
  if (!store_scalar(data, bit, row.dlpack, rounded)) {
    const Ref text = in_words(value);
    if (text) {
      PyErr_Format(PyExc_BufferError,
                   "the complex number %U does not become %s; take its real part first: z.real",
                   text.get(), row.name);
    }
    return false;
  }
  return true;
}

DTypeId default_dtype(const Scalar& scalar) noexcept {
  switch (scalar.kind) {
    case Scalar::Kind::boolean:
      return id_bool;
    case Scalar::Kind::signed_int:
    case Scalar::Kind::unsigned_int:
      return id_int64;
    case Scalar::Kind::real:
      return id_float32;
    case Scalar::Kind::complex_number:
      return id_complex64;
  }
  Py_UNREACHABLE();
}

PyObject* to_list(PyObject* self, PyObject*) {
  auto* tensor = reinterpret_cast<Tensor*>(self);
  if (!readable(tensor)) return nullptr;
  const Ref seen = on_host(tensor);
  return seen ? list_of(reinterpret_cast<Tensor*>(seen.get()), 0, 0) : nullptr;
}

PyObject* item(PyObject* self, PyObject*) {
  auto* tensor = reinterpret_cast<Tensor*>(self);
  if (tensor->size != 1) {
    PyErr_Format(PyExc_ValueError,
                 "item() is for tensors of one element; this one has %lld: use tolist()",
                 static_cast<long long>(tensor->size));
    return nullptr;
  }
  if (!readable(tensor)) return nullptr;
  const Ref seen = on_host(tensor);
  if (!seen) return nullptr;
  const auto* read = reinterpret_cast<Tensor*>(seen.get());
  return number_of(load_scalar(read->data, 0, read->row().dlpack));
}

bool assign(Tensor* dst, PyObject* value) noexcept {
  Scalar scalar;
  bool is_number;
  if (!scalar_of(value, &scalar, &is_number)) return false;
  if (is_number) return fill_with(dst, scalar, value);
  if (Tensor* src = as_tensor(value)) return copy_into(dst, src);
  if (!writable(dst)) return false;
  Request request;
  if (PyList_Check(value) || PyTuple_Check(value)) {
    request.dtype = dst->dtype;
  } else {
    request.into = dst;
  }
  const Ref source = Ref::steal(ingest_anything(state.tensor_type, value, request));
  if (!source || source.get() == dst->object()) return static_cast<bool>(source);
  const Quiet step;  // of the move that the ingest was
  return copy_into(dst, reinterpret_cast<Tensor*>(source.get()));
}

}  // namespace candle
