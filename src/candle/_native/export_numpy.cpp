// numpy(), __array__ and __array_interface__.
#include <atomic>

#include "copying.h"
#include "device_memory.h"
#include "export.h"
#include "move.h"
#include "numpy_api.h"
#include "tensor.h"

namespace candle {

namespace {

/// numpy's dtype for each of candle's, filled when first needed; other packages' types come from
/// frameworks/numpy.py.
std::atomic<PyObject*> known_descr[dtype_count];

constexpr int numpy_number(DTypeId dtype) {
  switch (dtype) {
    case dtype_named("bool"):
      return NPY_BOOL;
    case dtype_named("int8"):
      return NPY_INT8;
    case dtype_named("int16"):
      return NPY_INT16;
    case dtype_named("int32"):
      return NPY_INT32;
    case dtype_named("int64"):
      return NPY_INT64;
    case dtype_named("uint8"):
      return NPY_UINT8;
    case dtype_named("uint16"):
      return NPY_UINT16;
    case dtype_named("uint32"):
      return NPY_UINT32;
    case dtype_named("uint64"):
      return NPY_UINT64;
    case dtype_named("float16"):
      return NPY_FLOAT16;
    case dtype_named("float32"):
      return NPY_FLOAT32;
    case dtype_named("float64"):
      return NPY_FLOAT64;
    case dtype_named("complex64"):
      return NPY_COMPLEX64;
    case dtype_named("complex128"):
      return NPY_COMPLEX128;
    default:
      return NPY_NOTYPE;
  }
}

/// A borrowed numpy dtype; nullptr with a BufferError set where numpy and ml_dtypes have none.
PyArray_Descr* descr_of(DTypeId dtype) {
  PyObject* known = known_descr[dtype].load(std::memory_order_acquire);
  if (known == nullptr) {
    const int number = numpy_number(dtype);
    Ref made =
        Ref::steal(number == NPY_NOTYPE
                       ? PyObject_CallFunction(state.hooks.numpy_out, "i", static_cast<int>(dtype))
                       : reinterpret_cast<PyObject*>(PyArray_DescrFromType(number)));
    if (!made) return nullptr;
    // Another thread's, where one was faster.
    if (known_descr[dtype].compare_exchange_strong(known, made.get(), std::memory_order_acq_rel)) {
      known = made.release();
    }
  }
  return reinterpret_cast<PyArray_Descr*>(known);
}

constexpr Demand numpy_demand = [] {
  Demand demand;
  demand.consumer = "numpy";
  demand.route = Route::numpy;
  demand.packed = false;
  return demand;
}();

PyObject* view_as_array(Tensor* tensor) {
  PyArray_Descr* descr = descr_of(tensor->dtype);
  if (descr == nullptr) return nullptr;
  const int32_t ndim = tensor->ndim();
  int64_t strides[max_ndim];
  byte_strides(tensor, strides);
  static std::byte nothing[16];  // numpy would allocate for NULL
  void* data = tensor->data == nullptr ? nothing : tensor->data;
  Ref array = Ref::steal(PyArray_NewFromDescr(
      &PyArray_Type,
      reinterpret_cast<PyArray_Descr*>(Py_NewRef(reinterpret_cast<PyObject*>(descr))), ndim,
      reinterpret_cast<const npy_intp*>(tensor->shape()), reinterpret_cast<npy_intp*>(strides),
      data, tensor->read_only ? 0 : NPY_ARRAY_WRITEABLE, nullptr));
  if (!array) return nullptr;
  auto* object = reinterpret_cast<PyArrayObject*>(array.get());
  if (PyArray_SetBaseObject(object, Py_NewRef(tensor->object())) < 0) return nullptr;
  return array.release();
}

PyObject* to_array(Tensor* tensor, CopyMode mode) {
  const Demand* demand = demand_of_numpy(tensor);
  if (demand == nullptr) return nullptr;
  Decision decision;
  const Ref meant = Ref::steal(conform(tensor, *demand, mode, &decision));
  return meant ? view_as_array(reinterpret_cast<Tensor*>(meant.get())) : nullptr;
}

/// The dict of both array interfaces, version 3; with a stream for the CUDA one.
PyObject* interface_of(const Tensor* tensor, const Ref& stream) {
  const DTypeRow& row = tensor->row();
  const int32_t ndim = tensor->ndim();
  const int bytes = item_bytes(row.dlpack);
  int64_t steps[max_ndim];
  byte_strides(tensor, steps);
  const bool compact = is_c_contiguous(ndim, tensor->shape(), tensor->strides());
  const Ref shape = Ref::steal(extents_tuple(tensor->shape(), ndim));
  const Ref strides = compact ? Ref::borrow(Py_None) : Ref::steal(extents_tuple(steps, ndim));
  const Ref address = Ref::steal(PyLong_FromVoidPtr(tensor->size == 0 ? nullptr : tensor->data));
  if (!shape || !strides || !address) return nullptr;
  char typestr[8];
  const char order = bytes == 1 ? '|' : (std::endian::native == std::endian::little ? '<' : '>');
  PyOS_snprintf(typestr, sizeof typestr, "%c%s", order, row.typestr);
  Ref interface = Ref::steal(Py_BuildValue("{sOsOsss(OO)si}", "shape", shape.get(), "strides",
                                           strides.get(), "typestr", typestr, "data", address.get(),
                                           tensor->read_only ? Py_True : Py_False, "version", 3));
  if (interface && stream &&
      PyDict_SetItem(interface.get(), state.names.stream, stream.get()) < 0) {
    return nullptr;
  }
  return interface.release();
}

bool told_of(const Tensor* tensor, Route route) {
  Source source = source_of(tensor);
  source.route = route;
  return record_share(source, "a reader of the array interface");
}

}  // namespace

const Demand* demand_of_numpy(const Tensor* tensor) noexcept {
  return import_numpy() && descr_of(tensor->dtype) != nullptr ? &numpy_demand : nullptr;
}

PyObject* share_as_numpy(Tensor* tensor) noexcept { return to_array(tensor, CopyMode::never); }

PyObject* to_numpy(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* names) {
  CopyMode mode = CopyMode::if_needed;
  if (!parse_door("numpy", args, nargs, names, &mode)) return nullptr;
  return to_array(reinterpret_cast<Tensor*>(self), mode);
}

PyObject* array(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* names) {
  if (nargs > 1) {
    PyErr_Format(PyExc_TypeError, "__array__() takes at most one positional argument (%zd given)",
                 nargs);
    return nullptr;
  }
  PyObject* dtype = nargs == 1 ? args[0] : Py_None;
  CopyMode mode = CopyMode::if_needed;
  PyObject* const accepted[] = {state.names.copy, state.names.dtype};
  for (Py_ssize_t i = 0; names != nullptr && i < PyTuple_GET_SIZE(names); i++) {
    const int at = keyword_index("__array__", PyTuple_GET_ITEM(names, i), accepted, 2);
    if (at < 0) return nullptr;
    if (at == 1) dtype = args[nargs + i];
    if (at == 0 && !parse_copy(args[nargs + i], &mode)) return nullptr;
  }
  Ref made = Ref::steal(to_array(reinterpret_cast<Tensor*>(self), mode));
  if (!made || dtype == Py_None) return made.release();
  PyArray_Descr* wanted = nullptr;
  if (PyArray_DescrConverter(dtype, &wanted) == NPY_FAIL) return nullptr;
  const Ref owned = Ref::steal(reinterpret_cast<PyObject*>(wanted));
  auto* source = reinterpret_cast<PyArrayObject*>(made.get());
  if (PyArray_EquivTypes(PyArray_DESCR(source), wanted)) return made.release();
  if (mode == CopyMode::never) {
    PyErr_Format(PyExc_ValueError, "the elements are %s and cannot become %R without a copy",
                 reinterpret_cast<Tensor*>(self)->row().name, owned.get());
    return nullptr;
  }
  return PyArray_CastToType(source, reinterpret_cast<PyArray_Descr*>(Py_NewRef(owned.get())), 0);
}

PyObject* get_array_interface(PyObject* self, void*) {
  auto* tensor = reinterpret_cast<Tensor*>(self);
  const DTypeRow& row = tensor->row();
  if (!host_memory(tensor->device)) {
    PyErr_SetString(PyExc_AttributeError,
                    "the array interface is for the host's memory; t.numpy() copies it there");
    return nullptr;
  }
  if (row.typestr == nullptr) {  // AttributeError, so that numpy goes on to __array__
    const char* remedy = "t.numpy() gives it as an ml_dtypes array";
    if (row.kind == Kind::pair) remedy = "t.view('uint8') has its bytes";
    if (row.kind == Kind::complex_number) remedy = "t.to('complex64') has its values";
    PyErr_Format(PyExc_AttributeError, "the array interface has no %s; %s", row.name, remedy);
    return nullptr;
  }
  return told_of(tensor, Route::array_interface) ? interface_of(tensor, Ref()) : nullptr;
}

PyObject* get_cuda_array_interface(PyObject* self, void*) {
  auto* tensor = reinterpret_cast<Tensor*>(self);
  if (!cuda_memory(tensor->device) || tensor->row().typestr == nullptr) {
    PyErr_Format(
        PyExc_AttributeError,
        "the CUDA array interface is for CUDA memory of dtypes that it has a name for, and "
        "this tensor is %s on DLPack device type %d",
        tensor->row().name, static_cast<int>(tensor->device.device_type));
    return nullptr;
  }
  // One stream can be named: it is made to come after all others.
  cuda::Stream stream = cuda::legacy_stream;
  DeviceMemory* block = tensor->owner.device_memory();
  if (block != nullptr && !block->gather(&stream)) return nullptr;
  const Ref number = Ref::steal(PyLong_FromUnsignedLongLong(stream));
  return number && told_of(tensor, Route::cuda_array_interface) ? interface_of(tensor, number)
                                                                : nullptr;
}

}  // namespace candle
