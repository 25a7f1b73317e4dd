#include "elements.h"

#include <cstring>

#include "copying.h"
#include "ingest.h"

namespace candle {

namespace {

PyObject* number_of(const Scalar& scalar) {
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
    return demand;
  }();
  if (host_memory(tensor->device)) return Ref::borrow(tensor->object());
  Decision decision;
  return Ref::steal(conform(tensor, values, CopyMode::if_needed, &decision));
}

PyObject* list_of(const Tensor* tensor, int32_t axis, int64_t bit) {
  if (axis == tensor->ndim()) {
    return number_of(load_scalar(tensor->data, bit, tensor->row().dlpack, false));
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

bool fill_with(Tensor* dst, const Scalar& scalar, PyObject* value) {
  if (!writable(dst)) return false;
  alignas(16) std::byte element[16] = {};
  if (!store(element, 0, dst->dtype, scalar, value)) return false;
  if (!host_memory(dst->device)) {
    Tensor* one = allocate(state.tensor_type, dst->dtype, 0, nullptr);
    const Ref owned = Ref::steal(one == nullptr ? nullptr : one->object());
    if (!owned) return false;
    std::memcpy(one->data, element, static_cast<size_t>(item_bytes(dst->row().dlpack)));
    return copy_into(dst, one);
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
        PyErr_Format(PyExc_ValueError, "%R does not fit 64 bits; pass it as a float", value);
        return false;
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
  bool inside = true;
  if (row.kind == Kind::unsigned_int) {
    const uint64_t most = bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
    if (scalar.kind == Scalar::Kind::signed_int) {
      inside = scalar.integer >= 0 && static_cast<uint64_t>(scalar.integer) <= most;
    } else if (scalar.kind == Scalar::Kind::unsigned_int) {
      inside = scalar.unsigned_integer <= most;
    }
  } else {
    const int64_t most = static_cast<int64_t>((uint64_t{1} << (bits - 1)) - 1);
    if (scalar.kind == Scalar::Kind::signed_int) {
      inside = scalar.integer <= most && scalar.integer >= -most - 1;
    } else if (scalar.kind == Scalar::Kind::unsigned_int) {
      inside = false;
    }
  }
  if (!inside) PyErr_Format(PyExc_ValueError, "%R does not fit %s", value, row.name);
  return inside;
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
  if (!store_scalar(data, bit, row.dlpack, scalar)) {
    PyErr_Format(PyExc_BufferError, "the complex number %R does not become %s", value, row.name);
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
  return number_of(load_scalar(read->data, 0, read->row().dlpack, false));
}

bool assign(Tensor* dst, PyObject* value) noexcept {
  Scalar scalar;
  bool is_number;
  if (!scalar_of(value, &scalar, &is_number)) return false;
  if (is_number) return fill_with(dst, scalar, value);
  if (Tensor* src = as_tensor(value)) return copy_into(dst, src);
  Request request;
  if (PyList_Check(value) || PyTuple_Check(value)) request.dtype = dst->dtype;
  Ref source;
  {
    const Quiet step;  // the move is the writing
    source = Ref::steal(ingest_anything(state.tensor_type, value, request));
  }
  return source && copy_into(dst, reinterpret_cast<Tensor*>(source.get()));
}

}  // namespace candle
