// memoryview(): the buffer protocol, on an object of its own. On the Tensor type itself
// torch.asarray would take it before DLPack and misread the bytes.
#include <cstdlib>

#include "export.h"
#include "move.h"
#include "tensor.h"

namespace candle {

namespace {

struct BufferObject {
  PyObject_HEAD PyObject* tensor;
};

int get_buffer(PyObject* self, Py_buffer* view, int flags) {
  auto* tensor = reinterpret_cast<Tensor*>(reinterpret_cast<BufferObject*>(self)->tensor);
  const int32_t ndim = tensor->ndim();
  view->obj = nullptr;
  if ((flags & PyBUF_WRITABLE) == PyBUF_WRITABLE && tensor->read_only) {
    PyErr_SetString(PyExc_BufferError,
                    "the tensor is read-only; t.copy() gives one that can be written");
    return -1;
  }
  const bool compact = is_c_contiguous(ndim, tensor->shape(), tensor->strides());
  if ((flags & PyBUF_STRIDES) != PyBUF_STRIDES && !compact) {
    PyErr_SetString(PyExc_BufferError,
                    "the tensor is not contiguous; t.contiguous() gives one that is");
    return -1;
  }
  if ((flags & PyBUF_C_CONTIGUOUS) == PyBUF_C_CONTIGUOUS && !compact) {
    PyErr_SetString(PyExc_BufferError,
                    "the tensor is not in row-major order; t.contiguous() gives one that is");
    return -1;
  }
  if ((flags & PyBUF_ANY_CONTIGUOUS) == PyBUF_ANY_CONTIGUOUS && !compact &&
      !is_f_contiguous(ndim, tensor->shape(), tensor->strides())) {
    PyErr_SetString(PyExc_BufferError,
                    "the tensor is not contiguous; t.contiguous() gives one that is");
    return -1;
  }
  if ((flags & PyBUF_F_CONTIGUOUS) == PyBUF_F_CONTIGUOUS &&
      !is_f_contiguous(ndim, tensor->shape(), tensor->strides())) {
    PyErr_SetString(PyExc_BufferError, "the tensor is not in column-major order");
    return -1;
  }
  const int bytes = item_bytes(tensor->row().dlpack);
  auto* extents = static_cast<Py_ssize_t*>(
      std::malloc((2 * static_cast<size_t>(ndim) + 1) * sizeof(Py_ssize_t)));
  if (extents == nullptr) {
    PyErr_NoMemory();
    return -1;
  }
  for (int32_t i = 0; i < ndim; i++) {
    extents[i] = static_cast<Py_ssize_t>(tensor->shape()[i]);
    extents[ndim + i] = static_cast<Py_ssize_t>(tensor->strides()[i] * bytes);
  }
  static char nothing[16];
  view->buf = tensor->data == nullptr ? nothing : reinterpret_cast<char*>(tensor->data);
  view->obj = Py_NewRef(self);
  view->len = static_cast<Py_ssize_t>(tensor->size * bytes);
  view->itemsize = bytes;
  view->readonly = tensor->read_only;
  view->ndim = ndim;
  view->format =
      (flags & PyBUF_FORMAT) == PyBUF_FORMAT ? const_cast<char*>(tensor->row().format) : nullptr;
  view->shape = (flags & PyBUF_ND) == PyBUF_ND ? extents : nullptr;
  view->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? extents + ndim : nullptr;
  view->suboffsets = nullptr;
  view->internal = extents;
  return 0;
}

void release_buffer(PyObject*, Py_buffer* view) { std::free(view->internal); }

void buffer_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  drop(reinterpret_cast<BufferObject*>(self)->tensor);
  type->tp_free(self);
  drop(reinterpret_cast<PyObject*>(type));
}

/// A dtype that has a format and holds the values of one that has none.
const char* wider(const DTypeRow& row) {
  switch (row.kind) {
    case Kind::signed_int:
      return "int8";
    case Kind::unsigned_int:
      return "uint8";
    case Kind::complex_number:
      return "complex64";
    default:
      return "float32";
  }
}

void refuse_format(const Tensor* tensor) {
  const DTypeRow& row = tensor->row();
  const int32_t last = tensor->ndim() - 1;
  const bool whole =
      tensor->bits() == 8 || (last >= 0 && tensor->shape()[last] * tensor->bits() % 8 == 0 &&
                              is_c_contiguous(tensor->ndim(), tensor->shape(), tensor->strides()));
  if (row.kind == Kind::pair) {
    PyErr_Format(PyExc_BufferError,
                 "the buffer protocol has no format for %s; t.view('uint8').memoryview() gives its "
                 "bytes",
                 row.name);
  } else {
    PyErr_Format(PyExc_BufferError,
                 "the buffer protocol has no format for %s; t.to('%s').memoryview() gives its "
                 "values%s",
                 row.name, wider(row), whole ? ", t.view('uint8').memoryview() its bytes" : "");
  }
}

PyType_Slot buffer_slots[] = {
    {Py_bf_getbuffer, reinterpret_cast<void*>(get_buffer)},
    {Py_bf_releasebuffer, reinterpret_cast<void*>(release_buffer)},
    {Py_tp_dealloc, reinterpret_cast<void*>(buffer_dealloc)},
    {0, nullptr},
};

PyType_Spec buffer_spec = {
    .name = "candle._native._core.Buffer",
    .basicsize = sizeof(BufferObject),
    .itemsize = 0,
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = buffer_slots,
};

}  // namespace

PyObject* to_memoryview(PyObject* self, PyObject*) {
  auto* tensor = reinterpret_cast<Tensor*>(self);
  if (!host_memory(tensor->device)) {
    PyErr_SetString(PyExc_BufferError,
                    "the buffer protocol is for the host's memory; take t.to('cpu') first");
    return nullptr;
  }
  if (tensor->row().format == nullptr) {
    refuse_format(tensor);
    return nullptr;
  }
  Source source = source_of(tensor);
  source.route = Route::buffer;
  if (!record_share(source, "a reader of the buffer")) return nullptr;
  auto* buffer = PyObject_New(BufferObject, state.buffer_type);
  if (buffer == nullptr) return nullptr;
  buffer->tensor = Py_NewRef(self);
  const Ref owned = Ref::steal(reinterpret_cast<PyObject*>(buffer));
  return PyMemoryView_FromObject(owned.get());
}

PyObject* tensor_of_buffer(PyObject* object) noexcept {
  return Py_IS_TYPE(object, state.buffer_type) ? reinterpret_cast<BufferObject*>(object)->tensor
                                               : nullptr;
}

int init_buffer_type(PyObject* module) noexcept {
  state.buffer_type =
      reinterpret_cast<PyTypeObject*>(PyType_FromModuleAndSpec(module, &buffer_spec, nullptr));
  return state.buffer_type == nullptr ? -1 : 0;
}

}  // namespace candle
