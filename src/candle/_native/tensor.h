// The Tensor type: a layout over a Storage. One native heap type, not tracked by the collector,
// shape and strides inline.
#pragma once

#include "decide.h"
#include "layout.h"
#include "pyref.h"
#include "state.h"
#include "storage.h"

namespace candle {

struct Tensor {
  PyObject_VAR_HEAD  // ob_size is the number of axes
      Owner owner;
  std::byte* data;  // where the first element begins
  int64_t size;     // elements
  PyObject* weakrefs;
  DLDevice device;
  DTypeId dtype;
  bool read_only;
  bool padded;  // sub-byte elements take a byte each

  int32_t ndim() const { return static_cast<int32_t>(ob_base.ob_size); }
  const int64_t* shape() const { return reinterpret_cast<const int64_t*>(this + 1); }
  int64_t* shape() { return reinterpret_cast<int64_t*>(this + 1); }
  const int64_t* strides() const { return shape() + ndim(); }
  int64_t* strides() { return shape() + ndim(); }
  const DTypeRow& row() const { return dtype_table[dtype]; }
  int bits() const { return item_bits(row().dlpack, padded); }
  PyObject* object() { return reinterpret_cast<PyObject*>(this); }
};

/// The Tensor an object is, exact or of a subclass, else nullptr.
inline Tensor* as_tensor(PyObject* object) {
  return Py_IS_TYPE(object, state.tensor_type) ||
                 PyType_IsSubtype(Py_TYPE(object), state.tensor_type)
             ? reinterpret_cast<Tensor*>(object)
             : nullptr;
}

/// A Tensor with room for `ndim` axes that holds nothing yet; nullptr with an error set. The caller
/// fills every field.
Tensor* new_tensor(PyTypeObject* type, int32_t ndim) noexcept;

/// A Tensor over a source's memory. Takes over `owner`.
PyObject* share(PyTypeObject* type, const Source& source, Owner&& owner) noexcept;

/// A Tensor with its own uninitialised memory, in row-major order. The shape has been checked by
/// `count_elements`.
Tensor* allocate(PyTypeObject* type, DTypeId dtype, int32_t ndim, const int64_t* shape,
                 size_t alignment = 256, bool padded = false) noexcept;

/// A second holder of a Tensor's memory; none, with an error set, where there is no memory for it.
Owner share_of(Tensor* tensor) noexcept;

/// Another view of a Tensor's memory; shape, canonical strides and the rest are filled in by the
/// caller.
Tensor* new_view(Tensor* base, int32_t ndim) noexcept;

/// Whether the element after as many others is the first of a byte; a BufferError is set else.
bool begins_a_byte(const Tensor* tensor, int64_t elements) noexcept;

/// `data` moved by so many elements; false with a BufferError set where a packed element does not
/// begin a byte.
bool move_data(const Tensor* tensor, int64_t elements, std::byte** data) noexcept;

/// What a Tensor looks like to `decide`.
inline Source source_of(const Tensor* tensor) noexcept {
  return {
      .data = tensor->data,
      .size = tensor->size,
      .shape = tensor->shape(),
      .strides = tensor->strides(),
      .unit = tensor->bits(),
      .ndim = tensor->ndim(),
      .device = tensor->device,
      .dtype = tensor->dtype,
      .route = Route::candle,
      .read_only = tensor->read_only,
      .swapped = false,
      .padded = tensor->padded,
      .reasons = 0,
  };
}

/// Strides in bytes, of elements of whole bytes. Those of an empty tensor mean nothing and are not
/// counted.
inline void byte_strides(const Tensor* tensor, int64_t* strides) {
  const int64_t bytes = tensor->size == 0 ? 1 : tensor->bits() / 8;
  for (int32_t i = 0; i < tensor->ndim(); i++) strides[i] = tensor->strides()[i] * bytes;
}

/// A tuple of ints.
PyObject* extents_tuple(const int64_t* values, int32_t count) noexcept;

/// A shape or axis list given from Python, at most `max_ndim` ints; -1 with an error set.
int32_t parse_extents(PyObject* sequence, int64_t* values, const char* what) noexcept;

/// A shape given from Python: non-negative and of a size that fits; -1 with an error set.
int32_t parse_shape(PyObject* sequence, int64_t* shape) noexcept;

PyObject* index_tensor(PyObject* self, PyObject* index);
int assign_index(PyObject* self, PyObject* index, PyObject* value);
PyObject* item_at(PyObject* self, Py_ssize_t index);

extern PyGetSetDef tensor_getset[];
extern PyMethodDef tensor_methods[];

/// Makes the type and puts it into `state`; -1 with an error set.
int init_tensor_type(PyObject* module) noexcept;

}  // namespace candle
