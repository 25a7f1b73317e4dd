// The routes of plain memory: __array_struct__, __array_interface__, and the buffer protocol.
#include <cstring>
#include <new>

#include "device_memory.h"
#include "ingest.h"
#include "layout.h"
#include "move.h"
#include "tensor.h"

namespace candle {

namespace {

// numpy's PyArrayInterface, as its documentation of the array interface protocol gives it.
struct ArrayStruct {
  int two;
  int nd;
  char typekind;
  int itemsize;
  int flags;
  Py_intptr_t* shape;
  Py_intptr_t* strides;
  void* data;
  PyObject* descr;
};
constexpr int not_swapped_flag = 0x200;
constexpr int writeable_flag = 0x400;

bool bad_interface(const Ingest& ingest, const char* what) {
  PyErr_Format(PyExc_BufferError, "the array interface of %s is wrong: %s", ingest.producer(),
               what);
  return false;
}

void no_such_dtype(const Ingest& ingest, Route route, const char* said) {
  Fact fact;
  PyOS_snprintf(fact.text, sizeof fact.text,
                "candle has no dtype for the elements, which %.100s calls \"%.60s\"",
                ingest.producer(), said);
  refuse_by(route, "no_dtype", fact.text, ingest.from());
}

/// Checks what every byte-counted layout has to hold. False with an error set.
bool sound(const Ingest& ingest, Source* source, int64_t* spare) {
  if (source->ndim < 0 || source->ndim > max_ndim) {
    PyErr_Format(PyExc_BufferError, "%s has %d axes; candle holds 0 to %d", ingest.producer(),
                 source->ndim, max_ndim);
    return false;
  }
  source->size = count_elements(source->ndim, source->shape);
  int64_t bytes;
  const int item = item_bytes(dtype_table[source->dtype].dlpack);
  if (source->size < 0 || __builtin_mul_overflow(source->size, item, &bytes)) {
    return bad_interface(ingest, "an extent is negative or the size does not fit 63 bits");
  }
  if (source->size > 0 && source->data == nullptr) {
    return bad_interface(ingest, "there are elements and no memory (NULL)");
  }
  if (source->strides == nullptr || source->size == 0) {
    compact_strides(source->ndim, source->shape, spare);
    for (int32_t i = 0; source->size > 0 && i < source->ndim; i++) spare[i] *= item;
    source->strides = spare;
  }
  Span span;
  constexpr int64_t most = INT64_MAX / 8;  // strides are counted in bits further on
  if (!element_span(source->ndim, source->shape, source->strides, &span) || span.low < -most ||
      span.high > most) {
    return bad_interface(ingest, "the strides reach beyond the address space");
  }
  const auto first = reinterpret_cast<uintptr_t>(source->data);
  uintptr_t end;
  if (source->size > 0 &&
      (first < static_cast<uintptr_t>(-span.low) ||
       __builtin_add_overflow(first, static_cast<uintptr_t>(span.high + item), &end))) {
    return bad_interface(ingest, "the elements reach beyond the address space");
  }
  return true;
}

// --- the array interface, a dict ---

/// Entry of the dict, None like absence. Held: code of the producer's may change the dict. False
/// with an error set: one that cannot be read is not absent.
bool entry(const Ingest& ingest, PyObject* interface, PyObject* key, Ref* value) {
  *value = entry_of(interface, key);
  if (!*value && PyErr_Occurred() != nullptr) {
    blame_producer(ingest.producer());
    return false;
  }
  if (value->get() == Py_None) *value = Ref();
  return true;
}

/// The pointer of the interface, or the memory of a buffer it names instead. Fills owner.
bool locate(const Ingest& ingest, PyObject* interface, Source* source, Owner* owner) {
  Ref data;
  if (!entry(ingest, interface, state.names.data, &data)) return false;
  if (data && PyTuple_Check(data.get())) {
    if (PyTuple_GET_SIZE(data.get()) != 2 || !PyLong_Check(PyTuple_GET_ITEM(data.get(), 0))) {
      return bad_interface(ingest, "data is not a tuple of address and read-only flag");
    }
    static_assert(sizeof(void*) == sizeof(unsigned long long));
    source->data =
        reinterpret_cast<std::byte*>(PyLong_AsUnsignedLongLong(PyTuple_GET_ITEM(data.get(), 0)));
    if (PyErr_Occurred())
      return forgive() && bad_interface(ingest, "the address does not fit a pointer");
    const int read_only = PyObject_IsTrue(PyTuple_GET_ITEM(data.get(), 1));
    if (read_only < 0) {
      blame_producer(ingest.producer());
      return false;
    }
    source->read_only |= read_only != 0;
    // The dict need not keep the memory alive, nor the object.
    Ref both = Ref::steal(PyTuple_Pack(2, ingest.x, interface));
    if (!both) return false;
    *owner = Owner::object(std::move(both));
  } else {
    auto* view = new (std::nothrow) Py_buffer;
    if (view == nullptr ||
        PyObject_GetBuffer(data ? data.get() : ingest.x, view, PyBUF_SIMPLE) != 0) {
      delete view;
      if (!PyErr_Occurred()) PyErr_NoMemory();
      blame_producer(ingest.producer());
      return false;
    }
    source->data = static_cast<std::byte*>(view->buf);
    source->read_only |= view->readonly != 0;
    const int64_t available = view->len;
    *owner = Owner::buffer(view);
    int64_t offset = 0;
    Ref number;
    if (!entry(ingest, interface, state.names.offset, &number)) return false;
    if (number) offset = PyLong_AsLongLong(number.get());
    if (PyErr_Occurred())
      return forgive() && bad_interface(ingest, "its offset is not an int of 64 bits");
    const int64_t item = item_bytes(dtype_table[source->dtype].dlpack);
    source->size = count_elements(source->ndim, source->shape);
    if (source->size < 0)
      return bad_interface(ingest, "an extent is negative or the size does not fit 63 bits");
    if (source->size > 0) {
      int64_t compact[max_ndim];
      const int64_t* strides = source->strides;
      if (strides == nullptr) {
        if (source->size > available / item)
          return bad_interface(ingest, "its shape reaches outside the buffer");
        compact_strides(source->ndim, source->shape, compact);
        for (int32_t i = 0; i < source->ndim; i++) compact[i] *= item;
        strides = compact;
      }
      Span span;
      if (offset < 0 || offset > available ||
          !element_span(source->ndim, source->shape, strides, &span) || span.low < -offset ||
          span.high > available - offset - item) {
        return bad_interface(ingest, "shape, strides and offset reach outside the buffer");
      }
      source->data += offset;
    }
  }
  if (!*owner) PyErr_NoMemory();
  return static_cast<bool>(*owner);
}

bool parse_interface(const Ingest& ingest, PyObject* interface, Source* source, int64_t* shape,
                     int64_t* strides) {
  if (!PyDict_Check(interface)) return bad_interface(ingest, "it is not a dict");
  Ref mask, typestr, extents, steps;
  if (!entry(ingest, interface, state.names.mask, &mask)) return false;
  if (mask) {
    refuse_by(source->route, "masked", "the array has a mask, which candle does not carry",
              ingest.from());
    return false;
  }
  if (!entry(ingest, interface, state.names.typestr, &typestr)) return false;
  Py_ssize_t length = 0;
  const char* text = typestr && PyUnicode_Check(typestr.get())
                         ? PyUnicode_AsUTF8AndSize(typestr.get(), &length)
                         : nullptr;
  if (text == nullptr || std::strlen(text) != static_cast<size_t>(length)) {
    return forgive() && bad_interface(ingest, "it has no typestr");
  }
  source->dtype = parse_typestr(text, &source->swapped);
  if (source->dtype == unknown_dtype) {
    no_such_dtype(ingest, source->route, text);
    return false;
  }
  if (!entry(ingest, interface, state.names.shape, &extents)) return false;
  if (!extents || !PyTuple_Check(extents.get()))
    return bad_interface(ingest, "its shape is not a tuple");
  source->ndim = parse_extents(extents.get(), shape, "shape");
  if (source->ndim < 0) {
    blame_producer(ingest.producer());
    return false;
  }
  source->shape = shape;
  if (!entry(ingest, interface, state.names.strides, &steps)) return false;
  if (steps) {
    if (!PyTuple_Check(steps.get()) || PyTuple_GET_SIZE(steps.get()) != source->ndim) {
      return bad_interface(ingest, "its strides are not a tuple as long as the shape");
    }
    if (parse_extents(steps.get(), strides, "strides") < 0) {
      blame_producer(ingest.producer());
      return false;
    }
    source->strides = strides;
  }
  return true;
}

/// The device of memory that says no more than its address. Without elements it may say nothing,
/// and is on the current device then. False with an error set.
bool find_device(const Ingest& ingest, Source* source) {
  cuda::Pointer pointer;
  if (source->size == 0) {
    const bool known = source->data != nullptr &&
                       cuda::describe(source->data, &pointer) == cuda::success &&
                       pointer.type != cuda::MemoryType::unknown;
    source->device = {kDLCUDA, known ? pointer.device : cuda::current_device()};
    return true;
  }
  const cuda::Result result = cuda::describe(source->data, &pointer);
  if (result != cuda::success) {
    cuda_failed("ask which device the memory is on", result);
    return false;
  }
  if (pointer.type == cuda::MemoryType::unknown) {
    return bad_interface(ingest, "the CUDA driver does not know its address");
  }
  source->device = {pointer.managed ? kDLCUDAManaged : kDLCUDA, pointer.device};
  return true;
}

/// What the copy engine would put right on the host, nobody does on a device.
bool copyable_on_device(const Ingest& ingest, const Source& source) {
  const int item = item_bytes(dtype_table[source.dtype].dlpack);
  if (source.swapped) {
    return bad_interface(ingest, "its elements are in foreign byte order; copy them to the host");
  }
  for (int32_t i = 0; source.size > 0 && i < source.ndim; i++) {
    if (source.shape[i] > 1 && source.strides[i] % item != 0) {
      return bad_interface(ingest, "a stride is no multiple of the item; copy it to the host");
    }
  }
  return true;
}

}  // namespace

bool ingest_array_struct(const Ingest& ingest, bool read_only, PyObject** result) noexcept {
  *result = nullptr;
  if (PyType_Check(ingest.x)) return false;
  const Ref capsule = protocol_attribute(ingest, state.names.array_struct);
  if (!capsule) return PyErr_Occurred() != nullptr;
  const bool unnamed =
      PyCapsule_CheckExact(capsule.get()) && PyCapsule_GetName(capsule.get()) == nullptr;
  const auto* interface =
      unnamed ? static_cast<const ArrayStruct*>(PyCapsule_GetPointer(capsule.get(), nullptr))
              : nullptr;
  if (interface == nullptr || interface->two != 2) {
    PyErr_Clear();
    bad_interface(ingest, "__array_struct__ is no capsule of an array struct");
    return true;
  }
  const char typestr[] = {(interface->flags & not_swapped_flag) != 0 ? '=' : '<',
                          interface->typekind, 0};
  char with_size[24];
  PyOS_snprintf(with_size, sizeof with_size, "%s%d", typestr, interface->itemsize);
  Source source;
  source.dtype = parse_typestr(with_size, &source.swapped);
  if (source.dtype == unknown_dtype) {
    no_such_dtype(ingest, Route::array_struct, with_size);
    return true;
  }
  source.swapped = (interface->flags & not_swapped_flag) == 0 && interface->itemsize > 1;
  static_assert(sizeof(Py_intptr_t) == sizeof(int64_t));
  source.ndim = interface->nd;
  source.shape = reinterpret_cast<const int64_t*>(interface->shape);
  source.strides = reinterpret_cast<const int64_t*>(interface->strides);
  source.data = static_cast<std::byte*>(interface->data);
  source.unit = 8;
  source.route = Route::array_struct;
  source.read_only = read_only || (interface->flags & writeable_flag) == 0;
  int64_t spare[max_ndim];
  if (source.ndim > 0 && source.shape == nullptr) {
    bad_interface(ingest, "it has no shape (NULL)");
  } else if (sound(ingest, &source, spare)) {
    Ref both = Ref::steal(PyTuple_Pack(2, ingest.x, capsule.get()));
    if (both) *result = finish(ingest, source, Owner::object(std::move(both)));
  }
  return true;
}

bool ingest_cuda_interface(const Ingest& ingest, bool read_only, PyObject** result) noexcept {
  *result = nullptr;
  if (PyType_Check(ingest.x)) return false;
  const Ref interface = protocol_attribute(ingest, state.names.cuda_array_interface);
  if (!interface) return PyErr_Occurred() != nullptr;
  int64_t shape[max_ndim], strides[max_ndim], spare[max_ndim];
  Source source;
  source.unit = 8;
  source.route = Route::cuda_array_interface;
  source.read_only = read_only;
  Owner owner;
  if (!parse_interface(ingest, interface.get(), &source, shape, strides)) return true;
  Ref data;
  if (!entry(ingest, interface.get(), state.names.data, &data)) return true;
  if (!data || !PyTuple_Check(data.get())) {
    bad_interface(ingest, "data is not a tuple of address and read-only flag");
    return true;
  }
  if (!locate(ingest, interface.get(), &source, &owner) || !sound(ingest, &source, spare) ||
      !find_device(ingest, &source) || !copyable_on_device(ingest, source)) {
    return true;
  }
  Lending lending(&source);
  lending.producer = ingest.x;
  lending.by_interface = true;
  if (!interface_stream(interface.get(), &lending.origin) ||
      !DeviceMemory::lend(source, &owner, std::move(lending))) {
    return true;
  }
  *result = finish(ingest, source, std::move(owner));
  return true;
}

bool ingest_array_interface(const Ingest& ingest, bool read_only, PyObject** result) noexcept {
  *result = nullptr;
  if (PyType_Check(ingest.x)) return false;
  const Ref interface = protocol_attribute(ingest, state.names.array_interface);
  if (!interface) return PyErr_Occurred() != nullptr;
  int64_t shape[max_ndim], strides[max_ndim], spare[max_ndim];
  Source source;
  source.unit = 8;
  source.route = Route::array_interface;
  source.read_only = read_only;
  Owner owner;
  if (parse_interface(ingest, interface.get(), &source, shape, strides) &&
      locate(ingest, interface.get(), &source, &owner) && sound(ingest, &source, spare)) {
    *result = finish(ingest, source, std::move(owner));
  }
  return true;
}

bool ingest_buffer(const Ingest& ingest, bool read_only, PyObject** result) noexcept {
  *result = nullptr;
  if (!PyObject_CheckBuffer(ingest.x)) return false;
  auto* view = new (std::nothrow) Py_buffer;
  if (view == nullptr) {
    PyErr_NoMemory();
    return true;
  }
  if (PyObject_GetBuffer(ingest.x, view, PyBUF_FULL_RO) != 0) {
    delete view;
    blame_producer(ingest.producer());
    return true;
  }
  Owner owner = Owner::buffer(view);
  Source source;
  source.dtype = parse_format(view->format, view->itemsize, &source.swapped);
  if (source.dtype == unknown_dtype) {
    no_such_dtype(ingest, Route::buffer, view->format == nullptr ? "" : view->format);
    return true;
  }
  if (view->suboffsets != nullptr) {
    PyErr_Format(PyExc_BufferError,
                 "%s lies in memory as pointers to rows; copy it into one block first",
                 ingest.producer());
    return true;
  }
  source.data = static_cast<std::byte*>(view->buf);
  source.ndim = view->ndim;
  source.shape = reinterpret_cast<const int64_t*>(view->shape);
  source.strides = reinterpret_cast<const int64_t*>(view->strides);
  source.unit = 8;
  source.route = Route::buffer;
  source.read_only = read_only || view->readonly != 0;
  if (source.ndim > 1 && source.shape == nullptr) {
    PyErr_Format(PyExc_BufferError, "the buffer of %s has %d axes and no shape (NULL)",
                 ingest.producer(), source.ndim);
    return true;
  }
  const int64_t flat[] = {view->len / view->itemsize};
  if (source.shape == nullptr && source.ndim == 1) source.shape = flat;
  int64_t spare[max_ndim];
  if (sound(ingest, &source, spare)) *result = finish(ingest, source, std::move(owner));
  return true;
}

}  // namespace candle
