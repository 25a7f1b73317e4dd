// t[...] and t[...] = x: views by ints, slices, None and the ellipsis; by masks and arrays in
// Python.
#include <cstring>

#include "elements.h"
#include "state.h"
#include "tensor.h"
#include "words.h"

namespace candle {

namespace {

/// Drops the first axis at an index that has been checked to be an int.
PyObject* drop_first_axis(Tensor* tensor, Py_ssize_t index) {
  const int64_t extent = tensor->shape()[0];
  const int64_t at = index < 0 ? index + extent : index;
  if (at < 0 || at >= extent) {
    PyErr_Format(PyExc_IndexError, "index %zd is out of bounds for axis 0 of extent %lld", index,
                 static_cast<long long>(extent));
    return nullptr;
  }
  std::byte* data = tensor->data;
  if (tensor->size > 0 && !move_data(tensor, at * tensor->strides()[0], &data)) return nullptr;
  const int32_t ndim = tensor->ndim() - 1;
  Tensor* view = new_view(tensor, ndim);
  if (view == nullptr) return nullptr;
  view->data = data;
  view->size = tensor->size / extent;
  for (int32_t i = 0; i < ndim; i++) view->shape()[i] = tensor->shape()[i + 1];
  for (int32_t i = 0; i < ndim; i++) view->strides()[i] = tensor->strides()[i + 1];
  return view->object();
}

/// A view while it is being built, axis by axis.
struct Builder {
  explicit Builder(const Tensor* base) : tensor(base) {}

  const Tensor* tensor;
  int64_t shape[max_ndim];
  int64_t strides[max_ndim];
  int32_t ndim = 0;    // of the view so far
  int32_t axis = 0;    // of the tensor, the next to be taken
  int64_t offset = 0;  // elements
  bool too_many = false;

  void append(int64_t extent, int64_t stride) {
    if (ndim == max_ndim) {
      too_many = true;
      return;
    }
    shape[ndim] = extent;
    strides[ndim++] = stride;
  }
  void keep() {
    append(tensor->shape()[axis], tensor->strides()[axis]);
    axis++;
  }
  bool take_slice(PyObject* slice) {
    Py_ssize_t start, stop, step;
    if (PySlice_Unpack(slice, &start, &stop, &step) < 0) return false;
    const Py_ssize_t count =
        PySlice_AdjustIndices(static_cast<Py_ssize_t>(tensor->shape()[axis]), &start, &stop, step);
    const int64_t stride = tensor->strides()[axis++];
    if (count > 0) offset += start * stride;
    append(count, count > 1 ? stride * step : stride);
    return true;
  }
  bool take_index(PyObject* item) {
    const Py_ssize_t index = PyNumber_AsSsize_t(item, PyExc_IndexError);
    if (index == -1 && PyErr_Occurred()) return false;
    const int64_t extent = tensor->shape()[axis];
    const int64_t at = index < 0 ? index + extent : index;
    if (at < 0 || at >= extent) {
      PyErr_Format(PyExc_IndexError, "index %zd is out of bounds for axis %d of extent %lld", index,
                   axis, static_cast<long long>(extent));
      return false;
    }
    offset += at * tensor->strides()[axis++];
    return true;
  }
};

/// An int, or a framework's integer without axes. Their `__index__` takes bools and tensors of one
/// element too, which are masks and index arrays here. -1 with an error set.
int is_index(PyObject* item) {
  if (PyLong_Check(item)) return PyBool_Check(item) ? 0 : 1;
  if (!PyIndex_Check(item)) return 0;
  const Ref ndim = Ref::steal(PyObject_GetAttrString(item, "ndim"));
  if (!forgive()) return -1;
  const int has_axes = ndim ? PyObject_IsTrue(ndim.get()) : 0;
  if (!forgive()) return -1;
  if (has_axes != 0) return 0;
  const Ref dtype = Ref::steal(PyObject_GetAttrString(item, "dtype"));
  if (!forgive()) return -1;
  const Ref name = dtype ? Ref::steal(PyObject_Str(dtype.get())) : Ref();
  const char* text = name ? PyUnicode_AsUTF8(name.get()) : "";
  if (!forgive()) return -1;
  return text == nullptr || std::strstr(text, "bool") == nullptr ? 1 : 0;
}

/// Whether an index makes a view: it holds nothing but ints, slices, None and the ellipsis. -1 with
/// an error set.
int is_basic(PyObject* const* items, Py_ssize_t count) {
  for (Py_ssize_t i = 0; i < count; i++) {
    PyObject* item = items[i];
    if (item == Py_None || item == Py_Ellipsis || PySlice_Check(item)) continue;
    if (const int found = is_index(item); found != 1) return found;
  }
  return 1;
}

/// What stands between the brackets.
struct Items {
  explicit Items(PyObject* const& index)
      : first(PyTuple_Check(index) ? &PyTuple_GET_ITEM(index, 0) : &index),
        count(PyTuple_Check(index) ? PyTuple_GET_SIZE(index) : 1) {}

  PyObject* const* first;
  Py_ssize_t count;
};

bool takes_axis(PyObject* item) { return item != Py_None && item != Py_Ellipsis; }

bool build(Builder* builder, PyObject* const* items, Py_ssize_t count) {
  Py_ssize_t taken = 0;
  Py_ssize_t ellipses = 0;
  for (Py_ssize_t i = 0; i < count; i++) {
    taken += takes_axis(items[i]);
    ellipses += items[i] == Py_Ellipsis;
  }
  const int32_t ndim = builder->tensor->ndim();
  if (ellipses > 1) {
    PyErr_SetString(PyExc_IndexError, "an index has at most one ellipsis (...)");
    return false;
  }
  if (taken > ndim) {
    PyErr_Format(PyExc_IndexError, "%zd indices are too many for a tensor with %d axes", taken,
                 ndim);
    return false;
  }
  for (Py_ssize_t i = 0; i < count; i++) {
    PyObject* item = items[i];
    if (item == Py_None) {
      builder->append(1, 1);
    } else if (item == Py_Ellipsis) {
      for (Py_ssize_t kept = taken; kept < ndim; kept++) builder->keep();
    } else if (PySlice_Check(item)) {
      if (!builder->take_slice(item)) return false;
    } else if (!builder->take_index(item)) {
      return false;
    }
  }
  while (builder->axis < ndim) builder->keep();
  if (builder->too_many) {
    PyErr_Format(PyExc_IndexError, "the view would have more than %d axes", max_ndim);
    return false;
  }
  return true;
}

}  // namespace

PyObject* item_at(PyObject* self, Py_ssize_t index) {
  auto* tensor = reinterpret_cast<Tensor*>(self);
  if (tensor->ndim() == 0) {
    PyErr_SetString(PyExc_IndexError,
                    "a tensor with no axes takes no index but () and ...; item() gives its value");
    return nullptr;
  }
  if (index < 0) {  // CPython has added the length once
    PyErr_SetString(PyExc_IndexError, "the index is out of bounds for axis 0");
    return nullptr;
  }
  return drop_first_axis(tensor, index);
}

PyObject* index_tensor(PyObject* self, PyObject* index) {
  auto* tensor = reinterpret_cast<Tensor*>(self);
  if (PyLong_CheckExact(index) && tensor->ndim() > 0) {
    const Py_ssize_t at = PyLong_AsSsize_t(index);
    if (at == -1 && PyErr_Occurred()) {
      const Ref text = in_words(index);
      if (text) PyErr_Format(PyExc_IndexError, "index %U is out of bounds for axis 0", text.get());
      return nullptr;
    }
    return drop_first_axis(tensor, at);
  }
  const Items items(index);
  const int basic = is_basic(items.first, items.count);
  if (basic < 0) return nullptr;
  if (basic == 0) {
    return PyObject_CallFunctionObjArgs(state.hooks.index_read, self, index, nullptr);
  }
  Builder builder(tensor);
  if (!build(&builder, items.first, items.count)) return nullptr;
  std::byte* data = tensor->data;
  const int64_t size = count_elements(builder.ndim, builder.shape);
  if (size > 0 && !move_data(tensor, builder.offset, &data)) return nullptr;
  Tensor* view = new_view(tensor, builder.ndim);
  if (view == nullptr) return nullptr;
  view->data = data;
  view->size = size;
  for (int32_t i = 0; i < builder.ndim; i++) view->shape()[i] = builder.shape[i];
  for (int32_t i = 0; i < builder.ndim; i++) view->strides()[i] = builder.strides[i];
  make_canonical(builder.ndim, view->shape(), view->strides());
  return view->object();
}

int assign_index(PyObject* self, PyObject* index, PyObject* value) {
  if (value == nullptr) {
    PyErr_SetString(PyExc_TypeError, "elements of a tensor cannot be deleted");
    return -1;
  }
  const Items items(index);
  const int basic = is_basic(items.first, items.count);
  if (basic < 0) return -1;
  if (basic == 0) {
    return bool(Ref::steal(
               PyObject_CallFunctionObjArgs(state.hooks.index_write, self, index, value, nullptr)))
               ? 0
               : -1;
  }
  Ref view = Ref::steal(index_tensor(self, index));
  return view && assign(reinterpret_cast<Tensor*>(view.get()), value) ? 0 : -1;
}

}  // namespace candle
