// candle._native._core: the module, the table of its functions, and how it is loaded.
#include <bit>

#include "compute.h"
#include "counting_deleter.h"
#include "demand.h"
#include "explain.h"
#include "export.h"
#include "functions.h"
#include "ingest.h"
#include "tensor.h"
#include "views.h"

namespace candle {

namespace {

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
    {"dtype_rows", py_dtype_rows, METH_NOARGS,
     "dtype_rows($module, /)\n--\n\n(name, short name, code, bits, lanes, kind, typestr, format) "
     "of every dtype."},
    {"empty", py_empty, METH_VARARGS,
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
    {"check_writable", py_check_writable, METH_O,
     "check_writable($module, t, /)\n--\n\nRaises ValueError if the tensor may not be written."},
    {"in_words", py_in_words, METH_O,
     "in_words($module, value, /)\n--\n\nA value as a message shows it, ints of any size "
     "included."},
    {"materialise", py_materialise, METH_VARARGS,
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
    {"is_padded", py_is_padded, METH_O,
     "is_padded($module, t, /)\n--\n\nWhether sub-byte elements take a byte each."},
    {"as_bytes", as_bytes, METH_O,
     "as_bytes($module, t, /)\n--\n\nThe memory of a row-major tensor, a vector of uint8."},
    {"of_bytes", function_of<of_bytes>(), METH_FASTCALL,
     "of_bytes($module, data, shape, dtype_id, padded=False, /)\n--\n\nThe other way round."},
    {"frozen", frozen, METH_O,
     "frozen($module, t, /)\n--\n\nA view of a tensor that may not be written."},
    {"host_copy", py_host_copy, METH_VARARGS,
     "host_copy($module, t, dtype_id, /)\n--\n\nAs materialise, on the host, and recorded by who "
     "calls."},
    {"host_write", py_host_write, METH_VARARGS,
     "host_write($module, dst, src, /)\n--\n\nAs copy_into, on the host, and recorded by who "
     "calls."},
    {"lender", py_lender, METH_O,
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
