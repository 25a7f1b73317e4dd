// The attributes and the native methods of Tensor, as CPython's tables.
#include "device_memory.h"
#include "elements.h"
#include "export.h"
#include "tensor.h"

namespace candle {

namespace {

Tensor* cast(PyObject* self) { return reinterpret_cast<Tensor*>(self); }

PyObject* get_shape(PyObject* self, void*) {
  return extents_tuple(cast(self)->shape(), cast(self)->ndim());
}

PyObject* get_stride(PyObject* self, void*) {
  return extents_tuple(cast(self)->strides(), cast(self)->ndim());
}

PyObject* get_ndim(PyObject* self, void*) { return PyLong_FromLong(cast(self)->ndim()); }

PyObject* get_size(PyObject* self, void*) { return PyLong_FromLongLong(cast(self)->size); }

PyObject* get_dtype(PyObject* self, void*) { return Py_NewRef(dtype_object(cast(self)->dtype)); }

PyObject* get_device(PyObject* self, void*) {
  const DLDevice device = cast(self)->device;
  if (device.device_type == kDLCPU && device.device_id == 0) return Py_NewRef(state.hooks.cpu);
  return PyObject_CallFunction(state.hooks.make_device, "ii", static_cast<int>(device.device_type),
                               static_cast<int>(device.device_id));
}

PyObject* get_itemsize(PyObject* self, void*) {
  return PyLong_FromLong(item_bytes(cast(self)->row().dlpack));
}

PyObject* get_nbytes(PyObject* self, void*) {
  const Tensor* tensor = cast(self);
  return PyLong_FromLongLong(bytes_of(tensor->size, tensor->dtype, tensor->padded));
}

PyObject* get_readonly(PyObject* self, void*) { return PyBool_FromLong(cast(self)->read_only); }

PyObject* data_ptr(PyObject* self, PyObject*) { return PyLong_FromVoidPtr(cast(self)->data); }

PyObject* is_contiguous(PyObject* self, PyObject*) {
  const Tensor* t = cast(self);
  return PyBool_FromLong(is_c_contiguous(t->ndim(), t->shape(), t->strides()));
}

PyObject* is_fortran_contiguous(PyObject* self, PyObject*) {
  const Tensor* t = cast(self);
  return PyBool_FromLong(is_f_contiguous(t->ndim(), t->shape(), t->strides()));
}

}  // namespace

PyGetSetDef tensor_getset[] = {
    {"shape", get_shape, nullptr, "Extent of each axis, in elements.", nullptr},
    {"stride", get_stride, nullptr,
     "Step of each axis, in elements (as DLPack counts, not in bytes).", nullptr},
    {"ndim", get_ndim, nullptr, "Number of axes.", nullptr},
    {"rank", get_ndim, nullptr, "Number of axes (HuggingFace candle's name for ndim).", nullptr},
    {"size", get_size, nullptr, "Number of elements, an int.", nullptr},
    {"nelement", get_size, nullptr, "Number of elements (HuggingFace candle's name for size).",
     nullptr},
    {"dtype", get_dtype, nullptr, "The elements' DType.", nullptr},
    {"device", get_device, nullptr, "The Device the memory is on.", nullptr},
    {"itemsize", get_itemsize, nullptr, "Bytes of one element; 1 for packed sub-byte elements.",
     nullptr},
    {"nbytes", get_nbytes, nullptr,
     "Bytes the elements take, size times itemsize, or less where they are packed.", nullptr},
    {"readonly", get_readonly, nullptr,
     "Whether the memory may not be written through this tensor.", nullptr},
    {"__array_interface__", get_array_interface, nullptr,
     "The array interface, version 3. AttributeError where the dtype has no typestr.", nullptr},
    {"__cuda_array_interface__", get_cuda_array_interface, nullptr,
     "The CUDA array interface, version 3, with the stream to come after. AttributeError off CUDA "
     "devices.",
     nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyMethodDef tensor_methods[] = {
    {"data_ptr", data_ptr, METH_NOARGS,
     "data_ptr($self, /)\n--\n\nAddress of the first element, an int."},
    {"is_contiguous", is_contiguous, METH_NOARGS,
     "is_contiguous($self, /)\n--\n\n"
     "Whether the elements lie in row-major order without gaps. Axes of extent 1 do not count."},
    {"is_fortran_contiguous", is_fortran_contiguous, METH_NOARGS,
     "is_fortran_contiguous($self, /)\n--\n\n"
     "Whether the elements lie in column-major order without gaps. Axes of extent 1 do not count."},
    {"tolist", to_list, METH_NOARGS,
     "tolist($self, /)\n--\n\n"
     "The values as (nested) lists of Python numbers; one number for a tensor with no axes. "
     "Copies."},
    {"values", to_list, METH_NOARGS,
     "values($self, /)\n--\n\nHuggingFace candle's name for tolist()."},
    {"item", item, METH_NOARGS,
     "item($self, /)\n--\n\nThe value of a tensor of one element, as a Python number. ValueError "
     "for other sizes."},
    {"__dlpack__", function_of<dlpack>(), METH_FASTCALL | METH_KEYWORDS,
     "__dlpack__($self, /, *, stream=None, max_version=None, dl_device=None, copy=None)\n--\n\n"
     "A DLPack capsule over the memory (Python Array API standard, 2024.12).\n\n"
     "Versioned if the consumer takes major version 1 or later, else legacy. Shares, except where "
     "a capsule cannot\n"
     "say what the tensor is (negative strides; read-only memory in a legacy capsule): that is "
     "copied, or with\n"
     "``copy=False`` a BufferError."},
    {"__dlpack_device__", dlpack_device, METH_NOARGS,
     "__dlpack_device__($self, /)\n--\n\nDLPack's device type and number, a tuple of two ints."},
    {"__arrow_c_array__", function_of<arrow_c_array>(), METH_FASTCALL | METH_KEYWORDS,
     "__arrow_c_array__($self, /, requested_schema=None)\n--\n\n"
     "Capsules of an Arrow schema and an Arrow array over the memory (Arrow PyCapsule "
     "interface).\n\n"
     "One axis becomes a primitive array, more become ``arrow.fixed_shape_tensor``; booleans "
     "become bits, and dtypes\n"
     "that Arrow lacks ``arrow.opaque``. Shares where rows lie one behind the other without gaps, "
     "in whatever order\n"
     "their own axes lie; else, and for bits, copies. `requested_schema` asks for another type: "
     "the same elements in\n"
     "lists of fixed size, ``arrow.bool8``, another dtype (a cast). BufferError for what Arrow "
     "cannot say."},
    {"__arrow_c_device_array__", function_of<arrow_c_device_array>(), METH_FASTCALL | METH_KEYWORDS,
     "__arrow_c_device_array__($self, /, requested_schema=None, **kwargs)\n--\n\n"
     "The same with where the memory is (Arrow C device interface): that of a device stays "
     "there.\n\n"
     "Work that is pending on a CUDA device ends with the event that goes with the array."},
    {"__arrow_c_schema__", arrow_c_schema, METH_NOARGS,
     "__arrow_c_schema__($self, /)\n--\n\nThe capsule of the Arrow schema that "
     "``__arrow_c_array__`` gives."},
    {"numpy", function_of<to_numpy>(), METH_FASTCALL | METH_KEYWORDS,
     "numpy($self, /, *, copy=None)\n--\n\n"
     "An ndarray over the same memory; bfloat16 and the 8-bit floats as ml_dtypes' dtypes.\n\n"
     "Read-only where the tensor is. ``copy=True`` gives a fresh, writable array; ``copy=False`` "
     "raises CopyError\n"
     "where the memory cannot be shared (packed sub-byte elements)."},
    {"torch", function_of<to_torch>(), METH_FASTCALL | METH_KEYWORDS,
     "torch($self, /, *, copy=None)\n--\n\n"
     "A torch.Tensor over the same memory, through torch's own C exchange table.\n\n"
     "torch has no read-only and no negative strides: such tensors are copied with ``copy=None``. "
     "With\n"
     "``copy=False`` read-only memory is shared, on the caller's word that nothing is written, and "
     "negative strides\n"
     "raise CopyError."},
    {"to_torch", function_of<to_torch>(), METH_FASTCALL | METH_KEYWORDS,
     "to_torch($self, /, *, copy=None)\n--\n\nHuggingFace candle's name for torch()."},
    {"__torch_function__", function_of<torch_function>(), METH_CLASS | METH_VARARGS | METH_KEYWORDS,
     "__torch_function__($type, /, func, types, args=(), kwargs=None)\n--\n\n"
     "What torch asks when a function of its own is given a Tensor: the function is called with "
     "torch()\n"
     "of every Tensor in its arguments, and what it gives is torch's. Lists, tuples and dicts are "
     "looked into.\n\n"
     "A Tensor that the function writes to (``out=``, ``inplace=True``, the first argument of "
     "``add_``) is shared,\n"
     "or a ValueError: what was written to a copy would be lost."},
    {"__array__", function_of<array>(), METH_FASTCALL | METH_KEYWORDS,
     "__array__($self, dtype=None, /, *, copy=None)\n--\n\nWhat numpy asks where it has no other "
     "way in: numpy()."},
    {"record_stream", record_stream, METH_O,
     "record_stream($self, stream, /)\n--\n\n"
     "Keep the memory, when it is given back, until what is queued on a stream by then has run.\n\n"
     "For a consumer that still reads on a stream of its own when the last Python reference goes. "
     "Takes a stream\n"
     "object of torch, cupy or cuda.core (``__cuda_stream__``), and holds it until then. TypeError "
     "for a bare handle,\nBufferError where the producer's stream is not known."},
    {"wait_for", wait_for, METH_O,
     "wait_for($self, stream, /)\n--\n\n"
     "Make the producer's current stream wait for what is queued on a stream by now: for a "
     "consumer "
     "that has written.\n\n"
     "Takes a stream object, or a handle. The host does not wait. BufferError where the "
     "producer's stream is not known."},
    {"memoryview", to_memoryview, METH_NOARGS,
     "memoryview($self, /)\n--\n\n"
     "The memory as a buffer with format, shape and strides (PEP 3118). Shares.\n\n"
     "BufferError for dtypes that have no format there: view them as bytes first, "
     "``t.view('uint8')``."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace candle
