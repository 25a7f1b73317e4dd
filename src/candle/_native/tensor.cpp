#include "tensor.h"

#include <structmember.h>

#include <cstring>

#include "ingest.h"
#include "words.h"

namespace candle {

namespace {

/// Memory of dropped tensors of few axes, kept for the next ones. All blocks have room for
/// `pooled_axes`.
class Pool {
 public:
  static constexpr int32_t pooled_axes = 4;

  static bool takes(PyTypeObject* type, int32_t ndim) {
#ifdef Py_GIL_DISABLED
    (void)type, (void)ndim;
    return false;
#else
    return type == state.tensor_type && ndim <= pooled_axes;
#endif
  }
  void* get() {
    return count_ > 0 ? blocks_[--count_]
                      : PyObject_Malloc(sizeof(Tensor) + pooled_axes * 2 * sizeof(int64_t));
  }
  void put(void* block) {
    if (count_ < capacity) {
      blocks_[count_++] = block;
    } else {
      PyObject_Free(block);
    }
  }

 private:
  static constexpr int capacity = 64;
  void* blocks_[capacity];
  int count_ = 0;
};
Pool pool;

void tensor_dealloc(PyObject* self) {
  auto* tensor = reinterpret_cast<Tensor*>(self);
  PyTypeObject* type = Py_TYPE(self);
  if (tensor->weakrefs != nullptr) PyObject_ClearWeakRefs(self);
  tensor->owner.~Owner();
  live.tensors.add_with_gil(-1);
  if (Pool::takes(type, tensor->ndim())) {
    pool.put(self);
  } else {
    type->tp_free(self);
  }
  drop(reinterpret_cast<PyObject*>(type));
}

PyObject* tensor_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"data", "dtype", "device", "copy", nullptr};
  PyObject* data;
  PyObject* dtype = Py_None;
  PyObject* device = Py_None;
  PyObject* copy = Py_None;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|$OOO:Tensor", const_cast<char**>(names), &data,
                                   &dtype, &device, &copy)) {
    return nullptr;
  }
  Request request;
  if (!parse_copy(copy, &request.copy) || !parse_dtype(dtype, &request.dtype) ||
      !parse_device(device, &request)) {
    return nullptr;
  }
  return ingest_anything(type, data, request);
}

Py_ssize_t tensor_length(PyObject* self) {
  const auto* tensor = reinterpret_cast<Tensor*>(self);
  if (tensor->ndim() == 0) {
    PyErr_SetString(PyExc_TypeError, "a tensor with no axes has no length");
    return -1;
  }
  return static_cast<Py_ssize_t>(tensor->shape()[0]);
}

PyObject* tensor_iter(PyObject* self) {
  if (tensor_length(self) < 0) {
    PyErr_SetString(PyExc_TypeError,
                    "a tensor with no axes cannot be iterated over; item() gives its value");
    return nullptr;
  }
  return PySeqIter_New(self);
}

PyMemberDef tensor_members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Tensor, weakrefs), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

PyType_Slot tensor_slots[] = {
    {Py_tp_dealloc, reinterpret_cast<void*>(tensor_dealloc)},
    {Py_tp_new, reinterpret_cast<void*>(tensor_new)},
    {Py_tp_iter, reinterpret_cast<void*>(tensor_iter)},
    {Py_tp_hash, reinterpret_cast<void*>(PyObject_HashNotImplemented)},
    {Py_mp_length, reinterpret_cast<void*>(tensor_length)},
    {Py_mp_subscript, reinterpret_cast<void*>(index_tensor)},
    {Py_mp_ass_subscript, reinterpret_cast<void*>(assign_index)},
    {Py_sq_length, reinterpret_cast<void*>(tensor_length)},
    {Py_sq_item, reinterpret_cast<void*>(item_at)},
    {Py_tp_getset, tensor_getset},
    {Py_tp_methods, tensor_methods},
    {Py_tp_members, tensor_members},
    {Py_tp_doc,
     const_cast<char*>(
         "Tensor(data, *, dtype=None, device=None, copy=None)\n--\n\n"
         "A tensor over anybody's memory, or its own.\n\n"
         "Takes anything: a tensor of any framework, any exchange protocol, a number, nested "
         "sequences of\n"
         "numbers, a sequence of tensors. Memory is shared where it can be, and copied else.\n\n"
         "Parameters\n----------\n"
         "data\n    What to take the elements from.\n"
         "dtype\n    Wanted dtype: a DType, a name, or a framework's dtype. Default: the data's "
         "own; Python\n"
         "    numbers become bool, int64, float32 and complex64.\n"
         "device\n    Wanted device; memory elsewhere is copied across.\n"
         "copy\n    None: share if possible, else copy. False: share or raise. True: always a "
         "fresh copy.\n\n"
         "Raises\n------\n"
         "CopyError\n    With ``copy=False``, where the memory cannot be shared.\n"
         "BufferError\n    Where the data cannot be expressed.\n"
         "TypeError, ValueError\n    For wrong arguments.\n")},
    {0, nullptr},
};

PyType_Spec tensor_spec = {
    .name = "candle.Tensor",
    .basicsize = sizeof(Tensor),
    .itemsize = 2 * sizeof(int64_t),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .slots = tensor_slots,
};

}  // namespace

Tensor* new_tensor(PyTypeObject* type, int32_t ndim) noexcept {
  Tensor* tensor;
  if (Pool::takes(type, ndim)) {
    tensor = static_cast<Tensor*>(pool.get());
    if (tensor != nullptr) (void)PyObject_InitVar(&tensor->ob_base, type, ndim);
  } else {
    tensor = reinterpret_cast<Tensor*>(type->tp_alloc(type, ndim));
  }
  if (tensor == nullptr) {
    if (!PyErr_Occurred()) PyErr_NoMemory();
    return nullptr;
  }
  live.tensors.add_with_gil(1);
  new (&tensor->owner) Owner();
  tensor->weakrefs = nullptr;
  return tensor;
}

PyObject* share(PyTypeObject* type, const Source& source, Owner&& owner) noexcept {
#ifdef Py_GIL_DISABLED
  // Later, two threads could do it at once.
  if (!owner.become_share()) return PyErr_NoMemory();
#endif
  const int32_t ndim = source.ndim;
  Tensor* tensor = new_tensor(type, ndim);
  if (tensor == nullptr) return nullptr;
  tensor->owner = std::move(owner);
  tensor->data = source.data;
  tensor->size = source.size;
  tensor->device = source.device;
  tensor->dtype = source.dtype;
  tensor->read_only = source.read_only;
  tensor->padded = source.padded;
  int64_t* shape = tensor->shape();
  int64_t* strides = tensor->strides();
  // Byte strides become element strides: items of whole bytes have a power of two of them.
  const int shift = source.unit == tensor->bits()
                        ? 0
                        : std::countr_zero(static_cast<unsigned>(tensor->bits() / 8));
  bool thin = false;
  for (int32_t i = 0; i < ndim; i++) {
    shape[i] = source.shape[i];
    strides[i] = source.strides[i] >> shift;
    thin |= shape[i] <= 1;
  }
  if (thin) make_canonical(ndim, shape, strides);
  return tensor->object();
}

Tensor* allocate(PyTypeObject* type, DTypeId dtype, int32_t ndim, const int64_t* shape,
                 size_t alignment, bool padded) noexcept {
  const int64_t size = count_elements(ndim, shape);
  const int64_t bytes = size < 0 ? -1 : bytes_of(size, dtype, padded);
  if (bytes < 0) {
    PyErr_SetString(PyExc_ValueError, "the shape has more elements than memory can be addressed");
    return nullptr;
  }
  std::byte* data = nullptr;
  Owner owner = Owner::allocate(static_cast<size_t>(bytes), alignment, &data);
  if (!owner) {
    PyErr_Format(PyExc_MemoryError, "no memory for %lld bytes", static_cast<long long>(bytes));
    return nullptr;
  }
  Tensor* tensor = new_tensor(type, ndim);
  if (tensor == nullptr) return nullptr;
  tensor->owner = std::move(owner);
  tensor->data = data;
  tensor->size = size;
  tensor->device = {kDLCPU, 0};
  tensor->dtype = dtype;
  tensor->read_only = false;
  tensor->padded = padded;
  if (ndim > 0) std::memcpy(tensor->shape(), shape, static_cast<size_t>(ndim) * sizeof(int64_t));
  compact_strides(ndim, shape, tensor->strides());
  return tensor;
}

Owner share_of(Tensor* tensor) noexcept {
  Owner owner = tensor->owner.share();
  if (!owner) PyErr_NoMemory();
  return owner;
}

Tensor* new_view(Tensor* base, int32_t ndim) noexcept {
  Owner owner = share_of(base);
  if (!owner) return nullptr;
  Tensor* view = new_tensor(state.tensor_type, ndim);
  if (view == nullptr) return nullptr;
  view->owner = std::move(owner);
  view->data = base->data;
  view->size = base->size;
  view->device = base->device;
  view->dtype = base->dtype;
  view->read_only = base->read_only;
  view->padded = base->padded;
  return view;
}

bool begins_a_byte(const Tensor* tensor, int64_t elements) noexcept {
  if (elements * tensor->bits() % 8 == 0) return true;
  const Kind kind = tensor->row().kind;
  PyErr_Format(PyExc_BufferError,
               "%s elements are packed, and what is asked for would begin in the middle of a byte; "
               "take it of t.to(\"%s\"), or the values of all by t.tolist()",
               tensor->row().name,
               kind == Kind::signed_int     ? "int8"
               : kind == Kind::unsigned_int ? "uint8"
                                            : "float32");
  return false;
}

bool move_data(const Tensor* tensor, int64_t elements, std::byte** data) noexcept {
  if (!begins_a_byte(tensor, elements)) return false;
  *data = tensor->data + elements * tensor->bits() / 8;
  return true;
}

PyObject* extents_tuple(const int64_t* values, int32_t count) noexcept {
  Ref tuple = Ref::steal(PyTuple_New(count));
  if (!tuple) return nullptr;
  for (int32_t i = 0; i < count; i++) {
    PyObject* value = PyLong_FromLongLong(values[i]);
    if (value == nullptr) return nullptr;
    PyTuple_SET_ITEM(tuple.get(), i, value);
  }
  return tuple.release();
}

int32_t parse_extents(PyObject* sequence, int64_t* values, const char* what) noexcept {
  const Ref items = Ref::steal(PySequence_Tuple(sequence));  // a list could change meanwhile
  if (!items) {
    if (PyErr_ExceptionMatches(PyExc_TypeError)) PyErr_SetString(PyExc_TypeError, what);
    return -1;
  }
  const Py_ssize_t count = PyTuple_GET_SIZE(items.get());
  if (count > max_ndim) {
    PyErr_Format(PyExc_ValueError, "%zd axes are too many; a tensor has at most %d", count,
                 max_ndim);
    return -1;
  }
  for (Py_ssize_t i = 0; i < count; i++) {
    Ref number = Ref::steal(PyNumber_Index(PyTuple_GET_ITEM(items.get(), i)));
    if (!number) return -1;
    values[i] = PyLong_AsLongLong(number.get());
    if (values[i] == -1 && PyErr_Occurred()) {
      if (PyErr_ExceptionMatches(PyExc_OverflowError)) {
        const Ref text = in_words(number.get());
        if (text) PyErr_Format(PyExc_ValueError, "%U does not fit 64 bits", text.get());
      }
      return -1;
    }
  }
  return static_cast<int32_t>(count);
}

int32_t parse_shape(PyObject* sequence, int64_t* shape) noexcept {
  const int32_t ndim = parse_extents(sequence, shape, "a shape is a sequence of ints");
  if (ndim < 0) return -1;
  for (int32_t i = 0; i < ndim; i++) {
    if (shape[i] < 0) {
      PyErr_Format(PyExc_ValueError, "axis %d has the extent %lld; extents are not negative", i,
                   static_cast<long long>(shape[i]));
      return -1;
    }
  }
  if (count_elements(ndim, shape) < 0) {
    PyErr_SetString(PyExc_ValueError, "the shape has more elements than fit 63 bits");
    return -1;
  }
  return ndim;
}

int init_tensor_type(PyObject* module) noexcept {
  state.tensor_type =
      reinterpret_cast<PyTypeObject*>(PyType_FromModuleAndSpec(module, &tensor_spec, nullptr));
  if (state.tensor_type == nullptr) return -1;
  return PyModule_AddObjectRef(module, "Tensor", reinterpret_cast<PyObject*>(state.tensor_type));
}

}  // namespace candle
