#include "state.h"

#include "words.h"

namespace candle {

State state;

namespace {

template <typename Place>
struct Named {
  const char* name;
  Place* place;
};

}  // namespace

void Hook::set(Ref&& object) noexcept {
  Ref old = Ref::steal(object_.exchange(object.release(), std::memory_order_acq_rel));
#ifdef Py_GIL_DISABLED
  (void)old.release();  // another thread may be calling it
#endif
}

int init_state() noexcept {
  Names& n = state.names;
  const Named<PyObject*> names[] = {
      {"__dlpack__", &n.dlpack},
      {"__dlpack_device__", &n.dlpack_device},
      {"__dlpack_c_exchange_api__", &n.c_exchange_api},
      {"__array_struct__", &n.array_struct},
      {"__array_interface__", &n.array_interface},
      {"__cuda_array_interface__", &n.cuda_array_interface},
      {"__array__", &n.array},
      {"__arrow_c_array__", &n.arrow_c_array},
      {"__arrow_c_device_array__", &n.arrow_c_device_array},
      {"__arrow_c_stream__", &n.arrow_c_stream},
      {"__arrow_c_device_stream__", &n.arrow_c_device_stream},
      {"__arrow_c_schema__", &n.arrow_c_schema},
      {"__cuda_stream__", &n.cuda_stream},
      {"max_version", &n.max_version},
      {"dl_device", &n.dl_device},
      {"stream", &n.stream},
      {"data", &n.data},
      {"mask", &n.mask},
      {"offset", &n.offset},
      {"shape", &n.shape},
      {"strides", &n.strides},
      {"typestr", &n.typestr},
      {"copy", &n.copy},
      {"dtype", &n.dtype},
      {"device", &n.device},
      {"order", &n.order},
      {"nulls", &n.nulls},
      {"chunks", &n.chunks},
      {"times", &n.times},
      {"column", &n.column},
      {"requested_schema", &n.requested_schema},
  };
  for (const auto& entry : names) {
    *entry.place = PyUnicode_InternFromString(entry.name);
    if (*entry.place == nullptr) return -1;
  }
  state.max_version_names = PyTuple_Pack(1, n.max_version);
  state.stream_name = PyTuple_Pack(1, n.stream);
  state.copy_name = PyTuple_Pack(1, n.copy);
  state.stream_names = PyTuple_Pack(2, n.stream, n.max_version);
  state.newest_version = Py_BuildValue("(ii)", DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION);
  state.cpu_device = Py_BuildValue("(ii)", static_cast<int>(kDLCPU), 0);
  const bool made = state.max_version_names != nullptr && state.stream_name != nullptr &&
                    state.copy_name != nullptr && state.stream_names != nullptr &&
                    state.newest_version != nullptr && state.cpu_device != nullptr;
  return made ? 0 : -1;
}

PyObject* register_hooks(PyObject*, PyObject* const* args, Py_ssize_t nargs, PyObject* names) {
  Hooks& h = state.hooks;
  const Named<Hook> hooks[] = {
      {"dtypes", &h.dtypes},
      {"as_dtype", &h.as_dtype},
      {"cpu", &h.cpu},
      {"make_device", &h.make_device},
      {"as_device", &h.as_device},
      {"recognise", &h.recognise},
      {"make_plan", &h.make_plan},
      {"refusal", &h.refusal},
      {"watching", &h.watching},
      {"begin", &h.begin},
      {"end", &h.end},
      {"load_door", &h.load_door},
      {"numpy_in", &h.numpy_in},
      {"numpy_out", &h.numpy_out},
      {"device_copy", &h.device_copy},
      {"device_empty", &h.device_empty},
      {"device_write", &h.device_write},
      {"work_stream", &h.work_stream},
      {"index_read", &h.index_read},
      {"index_write", &h.index_write},
      {"torch_writes", &h.torch_writes},
  };
  if (nargs != 0) {
    PyErr_SetString(PyExc_TypeError, "register() takes keywords only");
    return nullptr;
  }
  for (Py_ssize_t i = 0; names != nullptr && i < PyTuple_GET_SIZE(names); i++) {
    PyObject* name = PyTuple_GET_ITEM(names, i);
    Hook* place = nullptr;
    for (const auto& hook : hooks) {
      if (PyUnicode_CompareWithASCIIString(name, hook.name) == 0) place = hook.place;
    }
    if (place == nullptr) {
      PyErr_Format(PyExc_TypeError, "no hook is called %R", name);
      return nullptr;
    }
    const bool dtypes = place == &h.dtypes;
    Ref value = dtypes ? Ref::steal(PySequence_Tuple(args[i])) : Ref::borrow(args[i]);
    if (!value) return nullptr;
    if (dtypes && PyTuple_GET_SIZE(value.get()) != dtype_count) {
      PyErr_Format(PyExc_ValueError, "there are %d dtypes", dtype_count);
      return nullptr;
    }
    place->set(std::move(value));
  }
  Py_RETURN_NONE;
}

PyObject* watch(PyObject*, PyObject* change) {
  const long more = PyLong_AsLong(change);
  if (more == -1 && PyErr_Occurred()) return nullptr;
  state.watchers.fetch_add(static_cast<int>(more), std::memory_order_relaxed);
  Py_RETURN_NONE;
}

bool parse_copy(PyObject* value, CopyMode* mode) noexcept {
  if (value == Py_None) {
    *mode = CopyMode::if_needed;
  } else if (value == Py_True) {
    *mode = CopyMode::always;
  } else if (value == Py_False) {
    *mode = CopyMode::never;
  } else {
    PyErr_Format(PyExc_TypeError, "copy is None, False or True, not %R", value);
    return false;
  }
  return true;
}

bool parse_dtype(PyObject* value, DTypeId* dtype) noexcept {
  *dtype = unknown_dtype;
  if (value == Py_None) return true;
  Ref known = Ref::steal(PyObject_CallOneArg(state.hooks.as_dtype, value));
  if (!known) return false;
  for (int i = 0; i < dtype_count; i++) {
    if (dtype_object(i) == known.get()) {
      *dtype = static_cast<DTypeId>(i);
      return true;
    }
  }
  PyErr_Format(PyExc_TypeError, "%R is no dtype of candle", known.get());
  return false;
}

bool parse_device(PyObject* value, Request* request) noexcept {
  if (value == Py_None) return true;
  const Ref device = Ref::steal(PyObject_CallOneArg(state.hooks.as_device, value));
  if (!device) return false;
  const Ref pair = Ref::steal(PyObject_GetAttrString(device.get(), "dlpack"));
  int type, id;
  if (!pair || !PyArg_ParseTuple(pair.get(), "ii", &type, &id)) return false;
  request->somewhere = true;
  request->device = {static_cast<DLDeviceType>(type), id};
  return true;
}

bool parse_host_stream(PyObject* value) noexcept {
  if (!PyLong_Check(value)) {
    PyErr_Format(PyExc_TypeError, "stream is None or an int, not %s", Py_TYPE(value)->tp_name);
    return false;
  }
  int overflow;
  if (PyLong_AsLongAndOverflow(value, &overflow) == -1 && overflow == 0) return true;
  const Ref text = in_words(value);
  if (text) {
    PyErr_Format(PyExc_ValueError, "stream=%U: memory on the CPU has no streams; pass None or -1",
                 text.get());
  }
  return false;
}

int keyword_by_value(const char* function, PyObject* name, PyObject* const* accepted,
                     int count) noexcept {
  for (int i = 0; i < count; i++) {
    if (PyUnicode_Compare(name, accepted[i]) == 0) return i;
  }
  if (!PyErr_Occurred()) {
    PyErr_Format(PyExc_TypeError, "%s() got an unexpected keyword argument %R", function, name);
  }
  return -1;
}

bool parse_door(const char* function, PyObject* const* args, Py_ssize_t nargs, PyObject* names,
                CopyMode* mode) noexcept {
  if (nargs != 0) {
    PyErr_Format(PyExc_TypeError, "%s() takes keyword arguments only", function);
    return false;
  }
  for (Py_ssize_t i = 0; names != nullptr && i < PyTuple_GET_SIZE(names); i++) {
    if (keyword_index(function, PyTuple_GET_ITEM(names, i), &state.names.copy, 1) < 0) return false;
    if (!parse_copy(args[i], mode)) return false;
  }
  return true;
}

}  // namespace candle
