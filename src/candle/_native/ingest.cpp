#include "ingest.h"

#include <algorithm>
#include <string_view>

#include "copying.h"
#include "tensor.h"

namespace candle {

namespace {

PyObject* ingest_tensor(const Ingest& ingest, Tensor* tensor) {
  Owner owner = share_of(tensor);
  return owner ? finish(ingest, source_of(tensor), std::move(owner)) : nullptr;
}

bool is_python_value(PyObject* x) {
  return PyLong_CheckExact(x) || PyFloat_CheckExact(x) || PyBool_Check(x) ||
         PyComplex_CheckExact(x);
}

PyObject* refuse_type(PyObject* x, bool dlpack_only) {
  if (dlpack_only) {
    PyErr_Format(PyExc_TypeError,
                 "from_dlpack takes an object with __dlpack__ or a DLPack capsule, and %s is "
                 "neither; candle.asarray() "
                 "takes anything",
                 Py_TYPE(x)->tp_name);
  } else {
    PyErr_Format(PyExc_TypeError,
                 "candle does not know how to take the elements of %s: it has none of __dlpack__, "
                 "__array_interface__, "
                 "__array_struct__, the buffer protocol, Arrow's protocol and __array__, and is no "
                 "number and no "
                 "sequence of numbers or "
                 "tensors",
                 Py_TYPE(x)->tp_name);
  }
  return nullptr;
}

PyObject* ingest_protocols(const Ingest& ingest, const TypeRecord& record, bool dlpack_only) {
  PyObject* result = nullptr;
  // What has both says more by Arrow; its __dlpack__ raises for half of what it holds.
  if (record.dlpack_and_arrow && ingest_arrow(ingest, &result)) return result;
  if (ingest_dlpack(ingest, record, false, &result)) return result;
  if (dlpack_only) return refuse_type(ingest.x, true);
  if (ingest_cuda_interface(ingest, record.read_only, &result)) return result;
  if (ingest_array_struct(ingest, record.read_only, &result)) return result;
  if (ingest_array_interface(ingest, record.read_only, &result)) return result;
  if (ingest_buffer(ingest, record.read_only, &result)) return result;
  if (ingest_arrow(ingest, &result)) return result;
  if (ingest_array(ingest, record.read_only, &result)) return result;
  if (ingest_number(ingest, &result)) return result;
  if (ingest_sequence(ingest, &result)) return result;
  return refuse_type(ingest.x, false);
}

/// Of a tensor that holds a copy, made for this, of what the producer does not hand out.
PyObject* ingest_fresh(const Ingest& ingest, Tensor* fresh) {
  Source source = source_of(fresh);
  source.route = Route::buffer;
  source.reasons = bit(Reason::no_export);
  source.fresh = true;
  Owner owner = share_of(fresh);
  return owner ? finish(ingest, source, std::move(owner)) : nullptr;
}

/// The ladder: candle's own type, what the type is known to be, then the protocols.
PyObject* climb(const Ingest& ingest, bool dlpack_only) {
  PyObject* x = ingest.x;
  const TypeRecord* record = record_of(Py_TYPE(x));
  if (record == nullptr) return nullptr;
  if (record->kind == TypeKind::numpy) return ingest_numpy(ingest);
  if (record->kind == TypeKind::exchange) return ingest_exchange(ingest, *record);
  // Python code of the producer's may give x another class while it runs.
  const auto hold_type = [record] {
    return Ref::borrow(reinterpret_cast<PyObject*>(record->type.load()));
  };
  if (record->kind == TypeKind::foreign_exchange) {
    const Ref type = hold_type();
    return ingest_exchange(ingest, *record);
  }
  if (Tensor* tensor = as_tensor(x)) return ingest_tensor(ingest, tensor);
  const Ref type = hold_type();
  if (record->kind == TypeKind::stand_in) {
    const Ref other = Ref::steal(PyObject_CallOneArg(record->stand_in, x));
    if (!other) return nullptr;
    if (other.get() != x) {
      Tensor* fresh = record->copies ? as_tensor(other.get()) : nullptr;
      if (fresh != nullptr)
        return ingest_fresh({ingest.type, other.get(), ingest.request, ingest.from()}, fresh);
      return climb({ingest.type, other.get(), ingest.request, ingest.from()}, dlpack_only);
    }
  }
  if (PyCapsule_CheckExact(x)) return ingest_capsule(ingest);
  return ingest_protocols(ingest, *record, dlpack_only);
}

/// Weighs a move. Keeps the extents where more is to be done than to share: a watcher runs Python,
/// and the GIL is released in long copies, so that a producer may change its own meanwhile. False
/// with an error set.
bool weigh(const Ingest& ingest, const Source& source, Admission* admission) {
  const Request& request = ingest.request;
  Admission& a = *admission;
  if (request.into != nullptr) {
    if (!decide_write(request.into, source, &a.demand, &a.decision)) return false;
  } else {
    a.demand.cast_to = request.dtype;
    a.demand.c_order = request.c_order;
    a.demand.host_only = false;
    a.demand.somewhere = request.somewhere;
    a.demand.device = request.device;
    a.decision = decide(source, a.demand, request.copy);
  }
  a.source = source;
  if (a.decision.action == Action::share && !watched() && request.dry == nullptr) return true;
  std::copy_n(source.shape, source.ndim, a.shape);
  std::copy_n(source.strides, source.ndim, a.strides);
  a.source.shape = a.shape;
  a.source.strides = a.strides;
  return true;
}

Move move_of(const Ingest& ingest, const Admission& admission) {
  return {admission.decision, admission.source, admission.demand, ingest.from()};
}

/// What has to be decided. Apart, so that what needs no decision needs no room for one either.
[[gnu::noinline]] PyObject* settle(const Ingest& ingest, const Source& source, Owner&& owner) {
  Admission admission;
  if (DryRun* dry = ingest.request.dry) {
    return weigh(ingest, source, &admission)
               ? stop_at(move_of(ingest, admission), std::move(owner), dry)
               : nullptr;
  }
  return admit(ingest, source, &admission) ? carry_out(ingest, &admission, std::move(owner))
                                           : nullptr;
}

/// On a device only the framework turns signs: what it gives is ingested in the view's place.
PyObject* make_resolved(const Ingest& ingest) {
  const TypeRecord* record = record_of(Py_TYPE(ingest.x));
  if (record == nullptr) return nullptr;
  if (record->resolve == nullptr) {
    PyErr_Format(PyExc_BufferError, "candle cannot turn the signs of %s on a device",
                 ingest.producer());
    return nullptr;
  }
  const Ref resolved = Ref::steal(PyObject_CallOneArg(record->resolve, ingest.x));
  if (!resolved) {
    blame_producer(ingest.producer());
    return nullptr;
  }
  Request request = ingest.request;
  if (request.copy == CopyMode::always) request.copy = CopyMode::if_needed;  // it is a copy
  const Quiet steps;
  return ingest_anything(ingest.type, resolved.get(), request);
}

/// The copy of elements that lie in parts, straight into what is wanted.
PyObject* put_together(const Ingest& ingest, const Admission& admission) {
  const Source& source = admission.source;
  const Demand& demand = admission.demand;
  Tensor* into = ingest.request.into;
  if (into != nullptr && host_memory(into->device) && into->ndim() == source.ndim &&
      std::equal(source.shape, source.shape + source.ndim, into->shape())) {
    return ingest.assembly->write(into) ? Py_NewRef(into->object()) : nullptr;
  }
  const DTypeId dtype = demand.cast_to == unknown_dtype ? source.dtype : demand.cast_to;
  Tensor* whole = allocate(ingest.type, dtype, source.ndim, source.shape);
  if (whole == nullptr) return nullptr;
  Ref owned = Ref::steal(whole->object());
  if (!ingest.assembly->write(whole)) return nullptr;
  if (into != nullptr) {
    const bool on_devices = moves_on_devices(source_of(whole), into);
    const bool written =
        on_devices ? device_write(into, whole) : write_source(into, source_of(whole));
    return written ? Py_NewRef(into->object()) : nullptr;
  }
  return host_memory(copied_to(source, demand)) ? owned.release() : device_copy(whole, demand);
}

/// Whether the copy that was decided on has been made, where elements leave as a copy only.
bool is_made(const Ingest& ingest, const Admission& admission) {
  constexpr ReasonSet by_that = fresh_reasons | bit(Reason::requested);
  return admission.source.fresh && (admission.decision.reasons & ~by_that) == 0 &&
         ingest.request.into == nullptr;
}

/// Reasons for which no tensor over the memory has the source's values. Memory of a device with the
/// first two is refused by its protocol, and its signs are turned by its framework.
constexpr ReasonSet unsaid_reasons =
    bit(Reason::byte_order) | bit(Reason::odd_stride) | sign_reasons;

/// The copy of such memory to a device: made right on the host first.
PyObject* put_right(const Ingest& ingest, const Admission& admission) {
  const Ref right = Ref::steal(copy_of(state.tensor_type, admission.source, admission.demand));
  auto* host = reinterpret_cast<Tensor*>(right.get());
  if (host == nullptr) return nullptr;
  Tensor* into = ingest.request.into;
  if (into == nullptr) return device_copy(host, admission.demand);
  return device_write(into, host) ? Py_NewRef(into->object()) : nullptr;
}

PyObject* make(const Ingest& ingest, const Admission& admission, Owner&& owner) {
  if (admission.decision.action == Action::share || is_made(ingest, admission))
    return share(ingest.type, admission.source, std::move(owner));
  if (ingest.assembly != nullptr) return put_together(ingest, admission);
  Tensor* into = ingest.request.into;
  const bool on_devices = into == nullptr ? moves_on_devices(admission.source, admission.demand)
                                          : moves_on_devices(admission.source, into);
  const bool as_it_lies = (admission.source.reasons & sign_reasons) == 0;
  if (!as_it_lies && !host_memory(admission.source.device)) return make_resolved(ingest);
  if (on_devices) {
    if ((admission.decision.reasons & unsaid_reasons) != 0) return put_right(ingest, admission);
    const Ref shared = Ref::steal(share(state.tensor_type, admission.source, std::move(owner)));
    auto* there = reinterpret_cast<Tensor*>(shared.get());
    if (there == nullptr) return nullptr;
    if (into == nullptr) return device_copy(there, admission.demand);
    return device_write(into, there) ? Py_NewRef(into->object()) : nullptr;
  }
  if (into != nullptr && as_it_lies)
    return write_source(into, admission.source) ? Py_NewRef(into->object()) : nullptr;
  return copy_of(ingest.type, admission.source, admission.demand);
}

}  // namespace

PyObject* finish(const Ingest& ingest, const Source& source, Owner&& owner) noexcept {
  if (ingest.request.is_plain() && plainly_shares(source) && !watched())
    return share(ingest.type, source, std::move(owner));
  return settle(ingest, source, std::move(owner));
}

bool admit(const Ingest& ingest, const Source& source, Admission* admission) noexcept {
  if (!weigh(ingest, source, admission)) return false;
  const Move move = move_of(ingest, *admission);
  if (admission->decision.action == Action::refuse) {
    refuse(move);
    return false;
  }
  return admission->recording.emplace(move).allowed();
}

PyObject* carry_out(const Ingest& ingest, Admission* admission, Owner&& owner) noexcept {
  return admission->recording->done(make(ingest, *admission, std::move(owner)));
}

PyObject* ingest_anything(PyTypeObject* type, PyObject* x, const Request& request) noexcept {
  const Ingest ingest{type, x, request};
  PyObject* result = nullptr;
  if (is_python_value(x)) {
    ingest_number(ingest, &result);
    return result;
  }
  if (PyList_CheckExact(x) || PyTuple_CheckExact(x)) {
    ingest_sequence(ingest, &result);
    return result;
  }
  return climb(ingest, false);
}

Ref protocol_attribute(const Ingest& ingest, PyObject* name) noexcept {
  PyObject* value;
#if PY_VERSION_HEX >= 0x030d0000
  if (PyObject_GetOptionalAttr(ingest.x, name, &value) < 0) blame_producer(ingest.producer());
#else
  value = PyObject_GetAttr(ingest.x, name);
  if (value == nullptr && PyErr_ExceptionMatches(PyExc_AttributeError)) {
    PyErr_Clear();
  } else if (value == nullptr) {
    blame_producer(ingest.producer());
  }
#endif
  Ref found = Ref::steal(value);
  return found.get() == Py_None ? Ref()
                                : std::move(found);  // None: "not supported" in Python's data model
}

PyObject* from_dlpack(PyObject*, PyObject* const* args, Py_ssize_t nargs, PyObject* names) {
  static const Request plain;
  if (nargs == 1 && names == nullptr) return climb({state.tensor_type, args[0], plain}, true);
  if (nargs != 1) {
    PyErr_Format(PyExc_TypeError, "from_dlpack() takes exactly one positional argument (%zd given)",
                 nargs);
    return nullptr;
  }
  PyObject* const accepted[] = {state.names.device, state.names.copy, state.names.dtype,
                                state.names.order, state.names.stream};
  PyObject* values[] = {Py_None, Py_None, Py_None, Py_None, Py_None};
  for (Py_ssize_t i = 0; names != nullptr && i < PyTuple_GET_SIZE(names); i++) {
    const int at = keyword_index("from_dlpack", PyTuple_GET_ITEM(names, i), accepted, 5);
    if (at < 0) return nullptr;
    values[at] = args[nargs + i];
  }
  Request request;
  if (!parse_device(values[0], &request) || !parse_copy(values[1], &request.copy) ||
      !parse_dtype(values[2], &request.dtype)) {
    return nullptr;
  }
  if (values[3] != Py_None) {
    const bool text = PyUnicode_Check(values[3]) != 0;
    if (!text || PyUnicode_CompareWithASCIIString(values[3], "C") != 0) {
      PyErr_Format(text ? PyExc_ValueError : PyExc_TypeError, "order is None or \"C\", not %R",
                   values[3]);
      return nullptr;
    }
    request.c_order = true;
  }
  if (values[4] != Py_None) {
    if (!PyCapsule_CheckExact(args[0])) {
      PyErr_SetString(PyExc_ValueError,
                      "stream= goes with a raw capsule only; objects with __dlpack__ are asked for "
                      "the right order");
      return nullptr;
    }
    request.stream = values[4];
  }
  return climb({state.tensor_type, args[0], request}, true);
}

PyObject* asarray(PyObject*, PyObject* const* args, Py_ssize_t nargs, PyObject* names) {
  if (nargs != 1) {
    PyErr_Format(PyExc_TypeError, "asarray() takes exactly one positional argument (%zd given)",
                 nargs);
    return nullptr;
  }
  PyObject* const accepted[] = {state.names.dtype, state.names.device, state.names.copy};
  PyObject* values[] = {Py_None, Py_None, Py_None};
  for (Py_ssize_t i = 0; names != nullptr && i < PyTuple_GET_SIZE(names); i++) {
    const int at = keyword_index("asarray", PyTuple_GET_ITEM(names, i), accepted, 3);
    if (at < 0) return nullptr;
    values[at] = args[nargs + i];
  }
  Request request;
  if (!parse_dtype(values[0], &request.dtype) || !parse_device(values[1], &request) ||
      !parse_copy(values[2], &request.copy)) {
    return nullptr;
  }
  return ingest_anything(state.tensor_type, args[0], request);
}

/// `shared(x, detached=False)`: what whole structures are made of, one call a tensor.
PyObject* shared(PyObject*, PyObject* const* args, Py_ssize_t nargs) {
  if (nargs < 1 || nargs > 2) {
    PyErr_SetString(PyExc_TypeError, "usage: shared(x, detached=False)");
    return nullptr;
  }
  Request request;
  request.copy = CopyMode::never;
  request.detached = nargs == 2 && args[1] == Py_True;
  return ingest_anything(state.tensor_type, args[0], request);
}

PyObject* ingest_by(PyObject*, PyObject* const* args, Py_ssize_t nargs) {
  const char* name = nargs == 2 && PyUnicode_Check(args[0]) ? PyUnicode_AsUTF8(args[0]) : nullptr;
  if (name == nullptr) {
    PyErr_SetString(PyExc_TypeError, "ingest_by(route, x)");
    return nullptr;
  }
  const std::string_view route(name);
  const Request request;
  const Ingest ingest{state.tensor_type, args[1], request};
  const TypeRecord* record = record_of(Py_TYPE(args[1]));
  if (record == nullptr) return nullptr;
  const Ref type = Ref::borrow(reinterpret_cast<PyObject*>(record->type.load()));
  PyObject* result = nullptr;
  bool applies = false;
  if (route == "candle") {
    Tensor* tensor = as_tensor(args[1]);
    applies = tensor != nullptr;
    if (applies) result = ingest_tensor(ingest, tensor);
  } else if (route == "exchange") {
    applies = record->table != nullptr;
    if (applies) result = ingest_exchange(ingest, *record);
  } else if (route == "numpy") {
    applies = record->kind == TypeKind::numpy;
    if (applies) result = ingest_numpy(ingest);
  } else if (route == "dlpack_versioned" || route == "dlpack_legacy") {
    applies = ingest_dlpack(ingest, *record, route == "dlpack_legacy", &result);
  } else if (route == "cuda_array_interface") {
    applies = ingest_cuda_interface(ingest, record->read_only, &result);
  } else if (route == "array_struct") {
    applies = ingest_array_struct(ingest, record->read_only, &result);
  } else if (route == "array_interface") {
    applies = ingest_array_interface(ingest, record->read_only, &result);
  } else if (route == "buffer") {
    applies = ingest_buffer(ingest, record->read_only, &result);
  } else if (route == "arrow_array" || route == "arrow_stream") {
    applies = ingest_arrow(ingest, &result);
  } else if (route == "array") {
    applies = ingest_array(ingest, record->read_only, &result);
  } else if (route == "sequence") {
    applies = ingest_sequence(ingest, &result);
  } else if (route == "scalar") {
    applies = ingest_number(ingest, &result);
  } else {
    PyErr_Format(PyExc_ValueError, "no route is called %R", args[0]);
    return nullptr;
  }
  if (!applies && !PyErr_Occurred()) {
    PyErr_Format(PyExc_LookupError, "the route %s does not apply to %s", name,
                 Py_TYPE(args[1])->tp_name);
  }
  return result;
}

}  // namespace candle
