// What the module keeps for the life of the process: its types, interned names, and the hooks the
// Python layer registers.
#pragma once

#include <atomic>

#include "decide.h"
#include "pyref.h"

namespace candle {

/// Names that are looked up on every move.
struct Names {
  PyObject* dlpack;                 // __dlpack__
  PyObject* dlpack_device;          // __dlpack_device__
  PyObject* c_exchange_api;         // __dlpack_c_exchange_api__
  PyObject* array_struct;           // __array_struct__
  PyObject* array_interface;        // __array_interface__
  PyObject* cuda_array_interface;   // __cuda_array_interface__
  PyObject* array;                  // __array__
  PyObject* arrow_c_array;          // __arrow_c_array__
  PyObject* arrow_c_device_array;   // __arrow_c_device_array__
  PyObject* arrow_c_stream;         // __arrow_c_stream__
  PyObject* arrow_c_device_stream;  // __arrow_c_device_stream__
  PyObject* arrow_c_schema;         // __arrow_c_schema__
  PyObject* cuda_stream;            // __cuda_stream__
  PyObject* max_version;
  PyObject* dl_device;
  PyObject* stream;
  PyObject* data;
  PyObject* mask;
  PyObject* offset;
  PyObject* shape;
  PyObject* strides;
  PyObject* typestr;
  PyObject* copy;
  PyObject* dtype;
  PyObject* device;
  PyObject* order;
  PyObject* nulls;
  PyObject* chunks;
  PyObject* times;
  PyObject* column;
  PyObject* requested_schema;
};

/// What another module registers: a Python object for good, or until it is imported again.
class Hook {
 public:
  operator PyObject*() const noexcept { return object_.load(std::memory_order_acquire); }
  void set(Ref&& object) noexcept;

 private:
  std::atomic<PyObject*> object_{nullptr};
};

/// Python callables and objects that other modules register; each is set once, at import.
struct Hooks {
  Hook dtypes;        // tuple of DType, in the order of dtype_table
  Hook as_dtype;      // anything -> DType
  Hook cpu;           // the CPU's Device
  Hook make_device;   // DLPack type, number -> Device
  Hook as_device;     // anything -> Device
  Hook recognise;     // type -> Record or None (frameworks)
  Hook make_plan;     // route, action, nbytes, reasons, producer, consumer -> Plan (plan)
  Hook refusal;       // Plan -> the exception to raise (ledger)
  Hook watching;      // a ContextVar: who watches moves, or None (ledger)
  Hook begin;         // watchers, Plan, whether it was asked for -> entry or None (ledger)
  Hook end;           // entry, seconds (ledger)
  Hook load_door;     // name of a framework -> (exchange table, Demand, ...) (frameworks)
  Hook numpy_in;      // numpy dtype -> dtype id, or raises (frameworks.numpy)
  Hook numpy_out;     // dtype id -> numpy dtype, or raises (frameworks.numpy)
  Hook device_copy;   // tensor, dtype or None, device, stream -> Tensor (cuda)
  Hook device_empty;  // (shape, dtype, number) -> tensor (cuda)
  Hook device_write;  // tensor to write, tensor to read (cuda)
  Hook work_stream;   // device number -> the stream that work is queued on now (cuda)
  Hook index_read;    // tensor, index with masks or arrays -> Tensor (advanced_indexing)
  Hook index_write;   // tensor, such an index, value (advanced_indexing)
  Hook torch_writes;  // torch function -> what it writes to (frameworks.torch_writes)
};

struct State {
  PyTypeObject* tensor_type;
  PyTypeObject* demand_type;
  PyTypeObject* buffer_type;
  Names names;
  Hooks hooks;
  PyObject* max_version_names;   // ("max_version",)
  PyObject* stream_name;         // ("stream",)
  PyObject* copy_name;           // ("copy",)
  PyObject* stream_names;        // ("stream", "max_version")
  PyObject* newest_version;      // (1, 3)
  PyObject* cpu_device;          // (1, 0), the answer of __dlpack_device__
  std::atomic<int> watchers{0};  // in all contexts together
};
extern State state;

/// The Python object of a dtype. Borrowed.
inline PyObject* dtype_object(int dtype) noexcept {
  PyObject* all = state.hooks.dtypes;
  return PyTuple_GET_ITEM(all, dtype);
}

/// Fills names; -1 with an error set.
int init_state() noexcept;

/// `_core.register(**hooks)`.
PyObject* register_hooks(PyObject* module, PyObject* const* args, Py_ssize_t nargs,
                         PyObject* names);

/// `_core.watch(change)`: how many watchers more there are.
PyObject* watch(PyObject* module, PyObject* change);

struct DryRun;
struct Tensor;

/// What a caller asked for in an ingest or export.
struct Request {
  CopyMode copy = CopyMode::if_needed;
  DTypeId dtype = unknown_dtype;
  bool c_order = false;
  Tensor* into = nullptr;  // where the elements are to be copied; it may be written
  bool somewhere = false;  // on `device`
  DLDevice device = {kDLCPU, 0};
  PyObject* stream = nullptr;  // borrowed; of a raw capsule: where work on it may be pending
  bool detached = false;       // the caller's word that gradients end here
  DryRun* dry = nullptr;       // nothing is moved

  bool is_plain() const {
    return copy != CopyMode::always && dtype == unknown_dtype && !c_order && into == nullptr &&
           !somewhere && dry == nullptr;
  }
};

/// Keyword arguments into a Request's fields; false with an error set.
bool parse_copy(PyObject* value, CopyMode* mode) noexcept;
bool parse_dtype(PyObject* value, DTypeId* dtype) noexcept;
bool parse_device(PyObject* value, Request* request) noexcept;
/// A `stream=` that is not None for memory of the host, which has none: -1, else a ValueError.
bool parse_host_stream(PyObject* value) noexcept;

/// The index of a keyword among those accepted by value; -1 with a TypeError set.
int keyword_by_value(const char* function, PyObject* name, PyObject* const* accepted,
                     int count) noexcept;

/// The same, by identity first, which is how nearly all come.
inline int keyword_index(const char* function, PyObject* name, PyObject* const* accepted,
                         int count) noexcept {
  for (int i = 0; i < count; i++) {
    if (name == accepted[i]) return i;
  }
  return keyword_by_value(function, name, accepted, count);
}

/// `copy=`, the only argument of the named doors out; false with an error set.
bool parse_door(const char* function, PyObject* const* args, Py_ssize_t nargs, PyObject* names,
                CopyMode* mode) noexcept;

}  // namespace candle
