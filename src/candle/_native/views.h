// Views that the Python layer works out: other shapes, strides and dtypes over the same memory.
// Module functions.
#pragma once

#include "pyref.h"

namespace candle {

PyObject* restride(PyObject* module, PyObject* const* args, Py_ssize_t nargs);
PyObject* reshaped_stride(PyObject* module, PyObject* const* args, Py_ssize_t nargs);
/// The bytes of a row-major tensor, as a vector; and the other way round.
PyObject* as_bytes(PyObject*, PyObject* tensor);
PyObject* of_bytes(PyObject*, PyObject* const* args, Py_ssize_t nargs);
/// A view of all of a tensor that may not be written.
PyObject* frozen(PyObject*, PyObject* tensor);
PyObject* reinterpret(PyObject* module, PyObject* const* args, Py_ssize_t nargs);

/// The Tensor an argument is; nullptr with a TypeError set.
struct Tensor* tensor_argument(PyObject* argument) noexcept;

}  // namespace candle
