#include "views.h"

#include <algorithm>

#include "decide.h"
#include "layout.h"
#include "tensor.h"
#include "words.h"

namespace candle {

namespace {

bool wrong_count(const char* usage) {
  PyErr_Format(PyExc_TypeError, "usage: %s", usage);
  return false;
}

/// Whether a layout, `offset` elements further on, stays where the tensor's own elements are.
bool inside(const Tensor* tensor, int32_t ndim, const int64_t* shape, const int64_t* strides,
            int64_t offset) {
  Span mine, theirs;
  if (!element_span(tensor->ndim(), tensor->shape(), tensor->strides(), &mine)) return false;
  if (!element_span(ndim, shape, strides, &theirs)) return false;
  if (theirs.high < theirs.low) return true;
  return !__builtin_add_overflow(theirs.low, offset, &theirs.low) &&
         !__builtin_add_overflow(theirs.high, offset, &theirs.high) && theirs.low >= mine.low &&
         theirs.high <= mine.high;
}

PyObject* make_view(Tensor* tensor, std::byte* data, int32_t ndim, const int64_t* shape,
                    const int64_t* strides) {
  const int64_t size = count_elements(ndim, shape);
  if (size < 0 || bytes_of(size, tensor->dtype, tensor->padded) < 0) {
    PyErr_SetString(PyExc_ValueError,
                    "the view would have more elements than 63 bits can count the bits of");
    return nullptr;
  }
  Tensor* view = new_view(tensor, ndim);
  if (view == nullptr) return nullptr;
  view->data = data;
  view->size = size;
  std::copy_n(shape, ndim, view->shape());
  std::copy_n(strides, ndim, view->strides());
  make_canonical(ndim, view->shape(), view->strides());
  return view->object();
}

}  // namespace

Tensor* tensor_argument(PyObject* argument) noexcept {
  Tensor* tensor = as_tensor(argument);
  if (tensor == nullptr)
    PyErr_Format(PyExc_TypeError, "%s is no Tensor", Py_TYPE(argument)->tp_name);
  return tensor;
}

PyObject* restride(PyObject*, PyObject* const* args, Py_ssize_t nargs) {
  if (nargs < 3 || nargs > 4) {
    wrong_count("restride(t, shape, stride, offset=0)");
    return nullptr;
  }
  Tensor* tensor = tensor_argument(args[0]);
  if (tensor == nullptr) return nullptr;
  int64_t shape[max_ndim], strides[max_ndim];
  const int32_t ndim = parse_shape(args[1], shape);
  if (ndim < 0) return nullptr;
  const int32_t count = parse_extents(args[2], strides, "strides are a sequence of ints");
  if (count < 0) return nullptr;
  const int64_t offset = nargs == 4 ? PyLong_AsLongLong(args[3]) : 0;
  if (offset == -1 && PyErr_Occurred()) return nullptr;
  if (count != ndim) {
    PyErr_Format(PyExc_ValueError, "%d extents and %d strides; give one stride for each extent",
                 ndim, count);
    return nullptr;
  }
  if (!inside(tensor, ndim, shape, strides, offset)) {
    PyErr_SetString(PyExc_ValueError,
                    "the view reaches outside the tensor; a view can only show elements it has");
    return nullptr;
  }
  std::byte* data = tensor->data;
  if (count_elements(ndim, shape) > 0 && !move_data(tensor, offset, &data)) return nullptr;
  return make_view(tensor, data, ndim, shape, strides);
}

PyObject* reshaped_stride(PyObject*, PyObject* const* args, Py_ssize_t nargs) {
  if (nargs != 2) {
    wrong_count("reshaped_stride(t, shape)");
    return nullptr;
  }
  const Tensor* tensor = tensor_argument(args[0]);
  if (tensor == nullptr) return nullptr;
  int64_t shape[max_ndim], strides[max_ndim];
  const int32_t ndim = parse_shape(args[1], shape);
  if (ndim < 0) return nullptr;
  if (count_elements(ndim, shape) != tensor->size) {
    const Ref text = in_words(args[1]);
    if (text) {
      PyErr_Format(PyExc_ValueError, "%lld elements do not make the shape %U",
                   static_cast<long long>(tensor->size), text.get());
    }
    return nullptr;
  }
  if (!reshape_strides(tensor->ndim(), tensor->shape(), tensor->strides(), ndim, shape, strides))
    Py_RETURN_NONE;
  return extents_tuple(strides, ndim);
}

PyObject* reinterpret(PyObject*, PyObject* const* args, Py_ssize_t nargs) {
  if (nargs != 2) {
    wrong_count("reinterpret(t, dtype_id)");
    return nullptr;
  }
  Tensor* tensor = tensor_argument(args[0]);
  if (tensor == nullptr) return nullptr;
  const long id = PyLong_AsLong(args[1]);
  if (id < 0 || id >= dtype_count) {
    if (!PyErr_Occurred()) PyErr_Format(PyExc_ValueError, "no dtype has the number %ld", id);
    return nullptr;
  }
  const DTypeRow& row = dtype_table[id];
  const int32_t ndim = tensor->ndim();
  const int64_t old_bits = tensor->bits();
  const int64_t new_bits = item_bits(row.dlpack, tensor->padded);
  int64_t shape[max_ndim], strides[max_ndim];
  std::copy_n(tensor->shape(), ndim, shape);
  std::copy_n(tensor->strides(), ndim, strides);
  if (old_bits != new_bits) {
    const int32_t last = ndim - 1;
    int64_t wide = 0;
    bool fits = ndim > 0 && strides[last] == 1 &&
                !__builtin_mul_overflow(shape[last], old_bits, &wide) && wide % new_bits == 0;
    for (int32_t i = 0; fits && tensor->size > 0 && i < last; i++) {
      fits = shape[i] == 1 || strides[i] * old_bits % new_bits == 0;
      strides[i] = strides[i] * old_bits / new_bits;
    }
    if (!fits) {
      PyErr_Format(PyExc_ValueError,
                   "%s of %lld bits cannot be seen as %s of %lld bits here: the last axis must lie "
                   "without gaps and hold "
                   "whole elements of both; t.contiguous() removes gaps",
                   tensor->row().name, static_cast<long long>(old_bits), row.name,
                   static_cast<long long>(new_bits));
      return nullptr;
    }
    shape[last] = wide / new_bits;
  }
  const auto alignment =
      static_cast<uintptr_t>(item_bytes(row.dlpack)) / (row.kind == Kind::complex_number ? 2 : 1);
  if (tensor->size > 0 && new_bits >= 8 &&
      reinterpret_cast<uintptr_t>(tensor->data) % alignment != 0) {
    PyErr_Format(PyExc_ValueError,
                 "the address is not a multiple of %zu, the alignment of %s; t.copy() is aligned",
                 static_cast<size_t>(alignment), row.name);
    return nullptr;
  }
  auto* view = reinterpret_cast<Tensor*>(make_view(tensor, tensor->data, ndim, shape, strides));
  if (view == nullptr) return nullptr;
  view->dtype = static_cast<DTypeId>(id);
  view->padded = tensor->padded && row.dlpack.bits * row.dlpack.lanes < 8;
  return view->object();
}

PyObject* as_bytes(PyObject*, PyObject* argument) {
  Tensor* tensor = tensor_argument(argument);
  if (tensor == nullptr) return nullptr;
  if (!is_c_contiguous(tensor->ndim(), tensor->shape(), tensor->strides())) {
    PyErr_SetString(PyExc_ValueError, "the elements have gaps between them");
    return nullptr;
  }
  Tensor* view = new_view(tensor, 1);
  if (view == nullptr) return nullptr;
  view->data = tensor->data;
  view->size = bytes_of(tensor->size, tensor->dtype, tensor->padded);
  view->shape()[0] = view->size;
  view->strides()[0] = 1;
  view->dtype = dtype_named("uint8");
  view->padded = false;
  return view->object();
}

PyObject* of_bytes(PyObject*, PyObject* const* args, Py_ssize_t nargs) {
  if (nargs < 3 || nargs > 4) {
    wrong_count("of_bytes(data, shape, dtype_id, padded=False)");
    return nullptr;
  }
  Tensor* data = tensor_argument(args[0]);
  int64_t shape[max_ndim], strides[max_ndim];
  const int32_t ndim = data == nullptr ? -1 : parse_shape(args[1], shape);
  if (ndim < 0) return nullptr;
  const long id = PyLong_AsLong(args[2]);
  const bool padded = nargs == 4 && args[3] == Py_True;
  if (id == -1 && PyErr_Occurred()) return nullptr;
  const int64_t size = count_elements(ndim, shape);
  if (id < 0 || id >= dtype_count || data->dtype != dtype_named("uint8") ||
      !is_c_contiguous(data->ndim(), data->shape(), data->strides()) ||
      data->size != bytes_of(size, static_cast<DTypeId>(id), padded)) {
    PyErr_SetString(PyExc_ValueError, "the bytes are not those of such a tensor");
    return nullptr;
  }
  compact_strides(ndim, shape, strides);
  Tensor* view = new_view(data, ndim);
  if (view == nullptr) return nullptr;
  view->data = data->data;
  view->size = size;
  std::copy_n(shape, ndim, view->shape());
  std::copy_n(strides, ndim, view->strides());
  view->dtype = static_cast<DTypeId>(id);
  view->padded = padded && dtype_table[id].dlpack.bits * dtype_table[id].dlpack.lanes < 8;
  return view->object();
}

PyObject* frozen(PyObject*, PyObject* argument) {
  Tensor* tensor = tensor_argument(argument);
  if (tensor == nullptr) return nullptr;
  Tensor* view = new_view(tensor, tensor->ndim());
  if (view == nullptr) return nullptr;
  std::copy_n(tensor->shape(), tensor->ndim(), view->shape());
  std::copy_n(tensor->strides(), tensor->ndim(), view->strides());
  view->read_only = true;
  return view->object();
}

}  // namespace candle
