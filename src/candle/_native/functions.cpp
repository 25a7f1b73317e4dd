// The module's functions that have no file of their own: arguments checked, and passed on.
#include "functions.h"

#include <algorithm>
#include <climits>

#include "copying.h"
#include "demand.h"
#include "device_memory.h"
#include "elements.h"
#include "ingest.h"
#include "overlap.h"
#include "simd.h"
#include "tensor.h"
#include "threads.h"
#include "views.h"
#include "words.h"

namespace candle {

namespace {

constexpr const char* kind_names[] = {"bool", "int", "uint", "real", "complex", "pair"};

/// A row number; false with an error set. `unknown_dtype` for -1 where that is allowed.
bool dtype_argument(PyObject* argument, DTypeId* dtype) {
  const long id = PyLong_AsLong(argument);
  if (PyErr_Occurred()) return false;
  if (id < -1 || id >= dtype_count) {
    PyErr_Format(PyExc_ValueError, "no dtype has the number %ld", id);
    return false;
  }
  *dtype = id == -1 ? unknown_dtype : static_cast<DTypeId>(id);
  return true;
}

bool on_the_host(const Tensor* tensor) {
  if (host_memory(tensor->device)) return true;
  PyErr_SetString(PyExc_BufferError, "the memory is on a device, where the host cannot read it");
  return false;
}

}  // namespace

PyObject* py_dtype_rows(PyObject*, PyObject*) {
  Ref rows = Ref::steal(PyTuple_New(dtype_count));
  for (int i = 0; rows && i < dtype_count; i++) {
    const DTypeRow& row = dtype_table[i];
    PyObject* entry = Py_BuildValue(
        "(zziiiszz)", row.name, row.short_name, row.dlpack.code, row.dlpack.bits, row.dlpack.lanes,
        kind_names[static_cast<int>(row.kind)], row.typestr, row.format);
    if (entry == nullptr) return nullptr;
    PyTuple_SET_ITEM(rows.get(), i, entry);
  }
  return rows.release();
}

PyObject* py_empty(PyObject*, PyObject* args) {
  PyObject* extents;
  PyObject* id;
  Py_ssize_t alignment = 256;
  if (!PyArg_ParseTuple(args, "OO|n:empty", &extents, &id, &alignment)) return nullptr;
  int64_t shape[max_ndim];
  const int32_t ndim = parse_shape(extents, shape);
  DTypeId dtype;
  if (ndim < 0 || !dtype_argument(id, &dtype)) return nullptr;
  if (dtype == unknown_dtype) {
    PyErr_SetString(PyExc_ValueError, "a new tensor needs a dtype");
    return nullptr;
  }
  if (alignment < 1 || !std::has_single_bit(static_cast<size_t>(alignment))) {
    PyErr_Format(PyExc_ValueError, "align is a power of two, not %zd", alignment);
    return nullptr;
  }
  Tensor* tensor = allocate(state.tensor_type, dtype, ndim, shape, static_cast<size_t>(alignment));
  return tensor == nullptr ? nullptr : tensor->object();
}

PyObject* py_copy_into(PyObject*, PyObject* args) {
  PyObject *to, *from;
  if (!PyArg_ParseTuple(args, "OO:copy_into", &to, &from)) return nullptr;
  Tensor* dst = tensor_argument(to);
  Tensor* src = dst == nullptr ? nullptr : tensor_argument(from);
  if (src == nullptr || !copy_into(dst, src)) return nullptr;
  Py_RETURN_NONE;
}

PyObject* py_assign(PyObject*, PyObject* args) {
  PyObject *to, *value;
  if (!PyArg_ParseTuple(args, "OO:assign", &to, &value)) return nullptr;
  Tensor* dst = tensor_argument(to);
  if (dst == nullptr || !assign(dst, value)) return nullptr;
  Py_RETURN_NONE;
}

PyObject* py_fill(PyObject*, PyObject* args) {
  PyObject *to, *value;
  if (!PyArg_ParseTuple(args, "OO:fill", &to, &value)) return nullptr;
  Tensor* dst = tensor_argument(to);
  if (dst == nullptr) return nullptr;
  if (PyLong_Check(value) || PyFloat_Check(value) || PyComplex_Check(value)) {
    if (!assign(dst, value)) return nullptr;
    Py_RETURN_NONE;
  }
  Ref made;  // of a framework's number, or tensor without axes
  if (value != Py_None && !PyUnicode_Check(value) && !PyList_Check(value) &&
      !PyTuple_Check(value)) {
    made = Ref::steal(ingest_anything(state.tensor_type, value, Request{}));
    if (!made) return nullptr;
  }
  auto* number = reinterpret_cast<Tensor*>(made.get());
  if (number == nullptr || number->ndim() > 0) {
    PyErr_Format(PyExc_TypeError,
                 "a tensor is filled with one number, not with %s; copy_() takes what broadcasts",
                 Py_TYPE(value)->tp_name);
    return nullptr;
  }
  if (!copy_into(dst, number)) return nullptr;
  Py_RETURN_NONE;
}

PyObject* py_in_words(PyObject*, PyObject* value) { return in_words(value).release(); }

PyObject* py_materialise(PyObject*, PyObject* args) {
  PyObject* from;
  PyObject* id = nullptr;
  if (!PyArg_ParseTuple(args, "O|O:materialise", &from, &id)) return nullptr;
  Tensor* tensor = tensor_argument(from);
  Demand demand;
  demand.host_only = false;
  if (tensor == nullptr || (id != nullptr && !dtype_argument(id, &demand.cast_to))) return nullptr;
  Decision decision;
  return conform(tensor, demand, CopyMode::always, &decision);
}

PyObject* py_conform(PyObject*, PyObject* args) {
  PyObject *object, *demand, *copy;
  if (!PyArg_ParseTuple(args, "OOO:conform", &object, &demand, &copy)) return nullptr;
  Tensor* tensor = tensor_argument(object);
  const Demand* takes = tensor == nullptr ? nullptr : demand_of(demand);
  CopyMode mode;
  if (takes == nullptr || !parse_copy(copy, &mode)) return nullptr;
  Decision decision;
  return conform(tensor, *takes, mode, &decision);
}

PyObject* py_check_writable(PyObject*, PyObject* object) {
  const Tensor* tensor = tensor_argument(object);
  if (tensor == nullptr || !writable(tensor)) return nullptr;
  Py_RETURN_NONE;
}

PyObject* py_is_padded(PyObject*, PyObject* object) {
  const Tensor* tensor = tensor_argument(object);
  return tensor == nullptr ? nullptr : PyBool_FromLong(tensor->padded);
}

/// Parts of a copy between devices, which has been recorded.
PyObject* py_host_copy(PyObject*, PyObject* args) {
  PyObject* from;
  PyObject* id;
  if (!PyArg_ParseTuple(args, "OO:host_copy", &from, &id)) return nullptr;
  Tensor* tensor = tensor_argument(from);
  Demand demand;
  if (tensor == nullptr || !dtype_argument(id, &demand.cast_to) || !on_the_host(tensor)) {
    return nullptr;
  }
  return copy_of(state.tensor_type, source_of(tensor), demand);
}

PyObject* py_host_write(PyObject*, PyObject* args) {
  PyObject *to, *from;
  if (!PyArg_ParseTuple(args, "OO:host_write", &to, &from)) return nullptr;
  Tensor* dst = tensor_argument(to);
  Tensor* src = dst == nullptr ? nullptr : tensor_argument(from);
  if (src == nullptr || !on_the_host(dst) || !on_the_host(src)) return nullptr;
  if (!write_source(dst, source_of(src))) return nullptr;
  Py_RETURN_NONE;
}

PyObject* py_lender(PyObject*, PyObject* object) {
  const Tensor* tensor = tensor_argument(object);
  if (tensor == nullptr) return nullptr;
  const DeviceMemory* block = tensor->owner.device_memory();
  return Py_NewRef(block == nullptr ? Py_None : block->lender());
}

PyObject* py_simd(PyObject*, PyObject*) { return PyUnicode_FromString(simd_name(simd_level())); }

PyObject* py_live(PyObject*, PyObject*) {
  return Py_BuildValue("{sLsLsLsL}", "tensors", static_cast<long long>(live.tensors.get()),
                       "storages", static_cast<long long>(live.storages.get()), "bytes",
                       static_cast<long long>(live.bytes.get()), "exports",
                       static_cast<long long>(live.exports.get()));
}

PyObject* py_num_threads(PyObject*, PyObject*) { return PyLong_FromLong(num_threads()); }

PyObject* py_set_num_threads(PyObject*, PyObject* argument) {
  int overflow;
  const long count = PyLong_AsLongAndOverflow(argument, &overflow);
  if (count == -1 && PyErr_Occurred()) return nullptr;
  if (count < 1 && overflow <= 0) {
    PyErr_Format(PyExc_ValueError, "a copy takes at least one thread, not %R", argument);
    return nullptr;
  }
  set_num_threads(overflow > 0 ? INT_MAX : static_cast<int>(std::min<long>(count, INT_MAX)));
  Py_RETURN_NONE;
}

PyObject* py_set_overlap_room(PyObject*, PyObject* argument) {
  const long long bytes = PyLong_AsLongLong(argument);
  if (bytes == -1 && PyErr_Occurred()) return nullptr;
  set_overlap_room(bytes);
  Py_RETURN_NONE;
}

}  // namespace candle
