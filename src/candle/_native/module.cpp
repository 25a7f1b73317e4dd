// candle._native._core: the module, and the functions the Python layer calls on tensors.
#include <algorithm>
#include <climits>

#include "compute.h"
#include "copying.h"
#include "counting_deleter.h"
#include "demand.h"
#include "device_memory.h"
#include "elements.h"
#include "explain.h"
#include "export.h"
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

bool on_the_host(const Tensor* tensor) {
  if (host_memory(tensor->device)) return true;
  PyErr_SetString(PyExc_BufferError, "the memory is on a device, where the host cannot read it");
  return false;
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

PyObject* check_writable(PyObject*, PyObject* object) {
  const Tensor* tensor = tensor_argument(object);
  if (tensor == nullptr || !writable(tensor)) return nullptr;
  Py_RETURN_NONE;
}

PyObject* is_padded(PyObject*, PyObject* object) {
  const Tensor* tensor = tensor_argument(object);
  return tensor == nullptr ? nullptr : PyBool_FromLong(tensor->padded);
}

/// Parts of a copy between devices, which has been recorded.
PyObject* host_copy(PyObject*, PyObject* args) {
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

PyObject* host_write(PyObject*, PyObject* args) {
  PyObject *to, *from;
  if (!PyArg_ParseTuple(args, "OO:host_write", &to, &from)) return nullptr;
  Tensor* dst = tensor_argument(to);
  Tensor* src = dst == nullptr ? nullptr : tensor_argument(from);
  if (src == nullptr || !on_the_host(dst) || !on_the_host(src)) return nullptr;
  if (!write_source(dst, source_of(src))) return nullptr;
  Py_RETURN_NONE;
}

PyObject* lender(PyObject*, PyObject* object) {
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

PyMethodDef from_dlpack_method = {"from_dlpack", function_of<from_dlpack>(),
                                  METH_FASTCALL | METH_KEYWORDS, from_dlpack_doc};

PyMethodDef module_methods[] = {
    {"from_arrow", function_of<from_arrow>(), METH_FASTCALL | METH_KEYWORDS, from_arrow_doc},
    {"asarray", function_of<asarray>(), METH_FASTCALL | METH_KEYWORDS, asarray_doc},
    {"shared", function_of<shared>(), METH_FASTCALL,
     "shared($module, x, detached=False, /)\n--\n\nasarray(x, copy=False). detached: of what "
     "requires grad too, where its memory can be held without it."},
    {"sharer", function_of<sharer>(), METH_FASTCALL,
     "sharer($module, done, detached, share, otherwise, /)\n--\n\nA function of a tensor that "
     "gives share(shared(x, detached)), and the same again for the same tensor, kept in the dict "
     "done by id; otherwise(x) where that is a BufferError. share may be \"numpy\" or \"torch\"."},
    {"ingest_by", function_of<ingest_by>(), METH_FASTCALL,
     "ingest_by($module, route, x, /)\n--\n\nIngest by one route alone, for tests. LookupError "
     "where it does not apply."},
    {"exchange_floor", exchange_floor, METH_O,
     "exchange_floor($module, x, /)\n--\n\n"
     "Takes a managed tensor from the table of x's type and gives it back: what no ingest can "
     "beat, for benchmarks."},
    {"register", function_of<register_hooks>(), METH_FASTCALL | METH_KEYWORDS,
     "register($module, /, **hooks)\n--\n\nHands the core the Python callables and objects it "
     "needs."},
    {"watch", watch, METH_O,
     "watch($module, change, /)\n--\n\nHow many watchers of moves there are more, or less."},
    {"plan_in", function_of<plan_in>(), METH_FASTCALL,
     "plan_in($module, x, dtype, device, /)\n--\n\nWhat asarray would do: a tensor like its "
     "result, which may have no memory, and the Plan."},
    {"plan_out", plan_out, METH_VARARGS,
     "plan_out($module, t, demand, /)\n--\n\nThe Plan of an export: to numpy, torch, "
     "dlpack, dlpack_legacy, or by a Demand."},
    {"quietly", function_of<quietly>(), METH_FASTCALL,
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
     "fill($module, dst, value, /)\n--\n\nWrites a number, or a tensor without axes, to every "
     "element."},
    {"on_host", function_of<on_host>(), METH_FASTCALL,
     "on_host($module, function, a, b, /)\n--\n\nA function of two arrays, on a Tensor and a "
     "Tensor "
     "or number; None where it is not as simple as that."},
    {"check_writable", check_writable, METH_O,
     "check_writable($module, t, /)\n--\n\nRaises ValueError if the tensor may not be written."},
    {"in_words", py_in_words, METH_O,
     "in_words($module, value, /)\n--\n\nA value as a message shows it, ints of any size "
     "included."},
    {"materialise", materialise, METH_VARARGS,
     "materialise($module, t, dtype_id=-1, /)\n--\n\nA fresh row-major copy, cast if a dtype is "
     "given."},
    {"conform", py_conform, METH_VARARGS,
     "conform($module, t, demand, copy, /)\n--\n\nThe tensor itself if it meets the demand, else a "
     "copy that does."},
    {"restride", function_of<restride>(), METH_FASTCALL,
     "restride($module, t, shape, stride, offset=0, /)\n--\n\nA view inside the tensor; counts "
     "elements."},
    {"reshaped_stride", function_of<reshaped_stride>(), METH_FASTCALL,
     "reshaped_stride($module, t, shape, /)\n--\n\nStrides that give a shape without a copy, or "
     "None."},
    {"reinterpret", function_of<reinterpret>(), METH_FASTCALL,
     "reinterpret($module, t, dtype_id, /)\n--\n\nA view of the same bytes as another dtype."},
    {"is_padded", is_padded, METH_O,
     "is_padded($module, t, /)\n--\n\nWhether sub-byte elements take a byte each."},
    {"as_bytes", as_bytes, METH_O,
     "as_bytes($module, t, /)\n--\n\nThe memory of a row-major tensor, a vector of uint8."},
    {"of_bytes", function_of<of_bytes>(), METH_FASTCALL,
     "of_bytes($module, data, shape, dtype_id, padded=False, /)\n--\n\nThe other way round."},
    {"frozen", frozen, METH_O,
     "frozen($module, t, /)\n--\n\nA view of a tensor that may not be written."},
    {"host_copy", host_copy, METH_VARARGS,
     "host_copy($module, t, dtype_id, /)\n--\n\nAs materialise, on the host, and recorded by who "
     "calls."},
    {"host_write", host_write, METH_VARARGS,
     "host_write($module, dst, src, /)\n--\n\nAs copy_into, on the host, and recorded by who "
     "calls."},
    {"lender", lender, METH_O,
     "lender($module, t, /)\n--\n\nThe type whose device memory a tensor lies in, or None."},
    {"arrow_capsules", arrow_capsules, METH_VARARGS,
     "arrow_capsules($module, t, requested_schema, lists, copy, /)\n--\n\n__arrow_c_array__, as "
     "plain lists if asked, with the copy mode of a door."},
    {"legacy_capsule", function_of<legacy_capsule>(), METH_FASTCALL,
     "legacy_capsule($module, t, stream=None, /)\n--\n\nA legacy capsule for a consumer that never "
     "writes; "
     "shares read-only memory too."},
    {"num_threads", py_num_threads, METH_NOARGS,
     "num_threads($module, /)\n--\n\nHow many threads share a big copy."},
    {"set_num_threads", py_set_num_threads, METH_O,
     "set_num_threads($module, count, /)\n--\n\nSays how many threads share a big copy."},
    {"set_overlap_room", py_set_overlap_room, METH_O,
     "set_overlap_room($module, bytes, /)\n--\n\nSays how much memory a copy onto its own source "
     "takes, half a megabyte at most, for tests."},
    {"simd", py_simd, METH_NOARGS,
     "simd($module, /)\n--\n\nThe vector instructions that are used: avx512, avx2 or "
     "baseline."},
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

/// The names of the reasons that a copy puts right.
PyObject* curable_reasons() {
  Ref names = Ref::steal(PyTuple_New(std::popcount(~fatal_reasons)));
  for (int i = 0; names && i < PyTuple_GET_SIZE(names.get()); i++) {
    PyObject* name = PyUnicode_FromString(reason_names[i]);
    if (name == nullptr) return nullptr;
    PyTuple_SET_ITEM(names.get(), i, name);
  }
  return names.release();
}

/// The one module of a process: what it made is kept for good, and would not go with another.
PyObject* loaded = nullptr;
bool python_ended = false;

PyObject* create_module(PyObject* spec, PyModuleDef*) {
  if (PyInterpreterState_Get() != PyInterpreterState_Main()) {
    PyErr_SetString(PyExc_ImportError,
                    "candle works in the main interpreter only: what a subinterpreter makes ends "
                    "with it, and tensors' memory may not; import candle in the main one");
    return nullptr;
  }
  if (python_ended) {
    PyErr_SetString(PyExc_ImportError,
                    "candle was loaded by a Python that has ended in this process, and cannot be "
                    "loaded by another; start a new process");
    return nullptr;
  }
  if (loaded != nullptr) return Py_NewRef(loaded);
  const Ref name = Ref::steal(PyObject_GetAttrString(spec, "name"));
  return name ? PyModule_NewObject(name.get()) : nullptr;
}

int exec_module(PyObject* module) {
  if (module == loaded) {  // imported again, after somebody emptied sys.modules
    forget_doors();
    return 0;
  }
  if (state.tensor_type != nullptr) {
    PyErr_SetString(PyExc_ImportError,
                    "candle's core has failed to load before; start a new process");
    return -1;
  }
  if (init_state() < 0 || init_tensor_type(module) < 0 || init_demand_type(module) < 0 ||
      init_buffer_type(module) < 0) {
    return -1;
  }
  const Ref curable = Ref::steal(curable_reasons());
  if (!curable || PyModule_AddObjectRef(module, "curable_reasons", curable.get()) < 0) return -1;
  if (init_exchange_table() < 0 || add_from_dlpack(module) < 0) return -1;
  if (Py_AtExit([] { python_ended = true; }) < 0) {
    PyErr_SetString(PyExc_ImportError, "CPython has no place left for candle's exit function");
    return -1;
  }
  loaded = Py_NewRef(module);
  return 0;
}

PyModuleDef_Slot module_slots[] = {
    {Py_mod_create, reinterpret_cast<void*>(create_module)},
    {Py_mod_exec, reinterpret_cast<void*>(exec_module)},
#if PY_VERSION_HEX >= 0x030c0000
    {Py_mod_multiple_interpreters, Py_MOD_MULTIPLE_INTERPRETERS_NOT_SUPPORTED},
#endif
#if PY_VERSION_HEX >= 0x030d0000
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},  // docs/platforms.md has what that rests on
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
