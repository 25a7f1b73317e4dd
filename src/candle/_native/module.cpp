// candle._native._core: the module, and the functions the Python layer calls on tensors.
#include "copying.h"
#include "counting_deleter.h"
#include "demand.h"
#include "device_memory.h"
#include "elements.h"
#include "explain.h"
#include "export.h"
#include "ingest.h"
#include "tensor.h"
#include "views.h"

namespace candle {

namespace {

constexpr const char* kind_names[] = {"bool", "int", "uint", "real", "complex", "pair"};

PyObject* dtype_rows(PyObject*, PyObject*) {
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

PyObject* empty(PyObject*, PyObject* args) {
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
  if (!PyLong_Check(value) && !PyFloat_Check(value) && !PyComplex_Check(value)) {
    PyErr_Format(PyExc_TypeError, "a tensor is filled with a number, not with %s",
                 Py_TYPE(value)->tp_name);
    return nullptr;
  }
  if (!assign(dst, value)) return nullptr;
  Py_RETURN_NONE;
}

PyObject* materialise(PyObject*, PyObject* args) {
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

PyObject* lender(PyObject*, PyObject* object) {
  const Tensor* tensor = tensor_argument(object);
  if (tensor == nullptr) return nullptr;
  const DeviceMemory* block = tensor->owner.device_memory();
  return Py_NewRef(block == nullptr ? Py_None : block->lender());
}

PyObject* py_live(PyObject*, PyObject*) {
  return Py_BuildValue("{sLsLsLsL}", "tensors", static_cast<long long>(live.tensors.get()),
                       "storages", static_cast<long long>(live.storages.get()), "bytes",
                       static_cast<long long>(live.bytes.get()), "exports",
                       static_cast<long long>(live.exports.get()));
}

template <auto function>
PyCFunction fast() {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

constexpr char from_dlpack_doc[] =
    "from_dlpack($module, x, /, *, device=None, copy=None, dtype=None, order=None, "
    "stream=None)\n--\n\n"
    "A Tensor over a DLPack producer's memory (Python Array API standard, 2024.12).\n\n"
    "Parameters\n----------\n"
    "x\n    An object with ``__dlpack__``, or a raw capsule, which is consumed.\n"
    "device\n    Wanted device; memory elsewhere is copied across.\n"
    "copy\n    None: share if possible, else copy. False: share or raise. True: always a fresh "
    "copy.\n"
    "dtype\n    Wanted dtype; other elements are cast, which copies.\n"
    "order\n    \"C\": row-major without gaps; other layouts are copied.\n"
    "stream\n    Goes with a raw capsule of CUDA memory only: the stream that work on it is queued "
    "on, an object\n    or a handle. Default: the legacy default stream.\n\n"
    "Raises\n------\n"
    "CopyError\n    With ``copy=False``, where the memory cannot be shared.\n"
    "BufferError\n    Where the data cannot be expressed, or the producer refuses.\n"
    "TypeError, ValueError\n    For wrong arguments.";
constexpr char asarray_doc[] =
    "asarray($module, data, /, *, dtype=None, device=None, copy=None)\n--\n\n"
    "A Tensor of anything: see Tensor. Shares memory where it can.";

PyMethodDef from_dlpack_method = {"from_dlpack", fast<from_dlpack>(), METH_FASTCALL | METH_KEYWORDS,
                                  from_dlpack_doc};

PyMethodDef module_methods[] = {
    {"asarray", fast<asarray>(), METH_FASTCALL | METH_KEYWORDS, asarray_doc},
    {"ingest_by", fast<ingest_by>(), METH_FASTCALL,
     "ingest_by($module, route, x, /)\n--\n\nIngest by one route alone, for tests. LookupError "
     "where it does not apply."},
    {"exchange_floor", exchange_floor, METH_O,
     "exchange_floor($module, x, /)\n--\n\n"
     "Takes a managed tensor from the table of x's type and gives it back: what no ingest can "
     "beat, for benchmarks."},
    {"register", fast<register_hooks>(), METH_FASTCALL | METH_KEYWORDS,
     "register($module, /, **hooks)\n--\n\nHands the core the Python callables and objects it "
     "needs."},
    {"watch", watch, METH_O,
     "watch($module, change, /)\n--\n\nHow many watchers of moves there are more, or less."},
    {"plan_in", fast<plan_in>(), METH_FASTCALL,
     "plan_in($module, x, dtype, device, /)\n--\n\nWhat asarray would do: a tensor like its "
     "result, which may have no memory, and what make_plan takes."},
    {"plan_out", plan_out, METH_VARARGS,
     "plan_out($module, t, demand, /)\n--\n\nWhat make_plan takes, of an export: to numpy, "
     "torch, dlpack, dlpack_legacy, or by a Demand."},
    {"quietly", fast<quietly>(), METH_FASTCALL,
     "quietly($module, function, /, *arguments)\n--\n\nCalls a function whose moves are steps of "
     "another, or none of the caller's, and are not told."},
    {"memory_of", memory_of, METH_O,
     "memory_of($module, x, /)\n--\n\nWhere the elements of anything lie: address, shape, strides "
     "and item in bits, DLPack's device."},
    {"keeper", keeper, METH_O,
     "keeper($module, x, /)\n--\n\nThe Python object that keeps the memory of a tensor, or of its "
     "memoryview; or None."},
    {"dtype_rows", dtype_rows, METH_NOARGS,
     "dtype_rows($module, /)\n--\n\n(name, short name, code, bits, lanes, kind, typestr, format) "
     "of every dtype."},
    {"empty", empty, METH_VARARGS,
     "empty($module, shape, dtype_id, align=256, /)\n--\n\nA row-major tensor with its own "
     "uninitialised memory."},
    {"copy_into", py_copy_into, METH_VARARGS,
     "copy_into($module, dst, src, /)\n--\n\nCopies a tensor, broadcast and cast, into another."},
    {"assign", py_assign, METH_VARARGS,
     "assign($module, dst, value, /)\n--\n\nWhat dst[...] = value does."},
    {"fill", py_fill, METH_VARARGS,
     "fill($module, dst, value, /)\n--\n\nWrites a number to every element."},
    {"materialise", materialise, METH_VARARGS,
     "materialise($module, t, dtype_id=-1, /)\n--\n\nA fresh row-major copy, cast if a dtype is "
     "given."},
    {"conform", py_conform, METH_VARARGS,
     "conform($module, t, demand, copy, /)\n--\n\nThe tensor itself if it meets the demand, else a "
     "copy that does."},
    {"restride", fast<restride>(), METH_FASTCALL,
     "restride($module, t, shape, stride, offset=0, /)\n--\n\nA view inside the tensor; counts "
     "elements."},
    {"reshaped_stride", fast<reshaped_stride>(), METH_FASTCALL,
     "reshaped_stride($module, t, shape, /)\n--\n\nStrides that give a shape without a copy, or "
     "None."},
    {"reinterpret", fast<reinterpret>(), METH_FASTCALL,
     "reinterpret($module, t, dtype_id, /)\n--\n\nA view of the same bytes as another dtype."},
    {"lender", lender, METH_O,
     "lender($module, t, /)\n--\n\nThe type whose device memory a tensor lies in, or None."},
    {"legacy_capsule", fast<legacy_capsule>(), METH_FASTCALL,
     "legacy_capsule($module, t, stream=None, /)\n--\n\nA legacy capsule for a consumer that never "
     "writes; "
     "shares read-only memory too."},
    {"live", py_live, METH_NOARGS,
     "live($module, /)\n--\n\nWhat is alive: tensors, storages, bytes of candle's own memory, "
     "exports."},
    {"counting_deleter", counting_deleter_addresses, METH_NOARGS,
     "counting_deleter($module, /)\n--\n\nAddresses of deleters that count, for tests."},
    {nullptr, nullptr, 0, nullptr},
};

/// `from_dlpack` is put on the type as a plain builtin: it is no descriptor, so that nothing is
/// bound when it is looked up.
int add_from_dlpack(PyObject* module) {
  const Ref name = Ref::steal(PyModule_GetNameObject(module));
  const Ref function = Ref::steal(PyCFunction_NewEx(&from_dlpack_method, module, name.get()));
  if (!function) return -1;
  if (PyObject_SetAttrString(reinterpret_cast<PyObject*>(state.tensor_type), "from_dlpack",
                             function.get()) < 0)
    return -1;
  return PyModule_AddObjectRef(module, "from_dlpack", function.get());
}

int exec_module(PyObject* module) {
  if (state.tensor_type != nullptr) {
    PyErr_SetString(
        PyExc_ImportError,
        "candle's core can be loaded once in a process, and by the main interpreter only");
    return -1;
  }
  if (init_state() < 0 || init_tensor_type(module) < 0 || init_demand_type(module) < 0 ||
      init_buffer_type(module) < 0) {
    return -1;
  }
  return init_exchange_table() < 0 ? -1 : add_from_dlpack(module);
}

PyModuleDef_Slot module_slots[] = {
    {Py_mod_exec, reinterpret_cast<void*>(exec_module)},
#if PY_VERSION_HEX >= 0x030c0000
    {Py_mod_multiple_interpreters, Py_MOD_MULTIPLE_INTERPRETERS_NOT_SUPPORTED},
#endif
    {0, nullptr},
};

PyModuleDef module_def = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "_core",
    .m_doc = "The compiled core of candle.",
    .m_size = 0,
    .m_methods = module_methods,
    .m_slots = module_slots,
    .m_traverse = nullptr,
    .m_clear = nullptr,
    .m_free = nullptr,
};

}  // namespace

}  // namespace candle

PyMODINIT_FUNC PyInit__core() { return PyModuleDef_Init(&candle::module_def); }
