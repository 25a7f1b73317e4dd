#include "move.h"

#include <algorithm>
#include <bit>

#include "layout.h"
#include "tensor.h"

namespace candle {

namespace {

/// [(code, fact), ...] of a decision.
Ref reasons_of(const Move& move) {
  Ref list = Ref::steal(PyList_New(0));
  for (int i = 0; list && i < static_cast<int>(Reason::count); i++) {
    if ((move.decision.reasons >> i & 1) == 0) continue;
    const Fact fact = describe(static_cast<Reason>(i), move.source, move.demand);
    Ref pair = Ref::steal(Py_BuildValue("(ss)", reason_names[i], fact.text));
    if (!pair || PyList_Append(list.get(), pair.get()) < 0) return {};
  }
  return list;
}

/// "torch.Tensor", and plain names of candle's own type and of builtins.
Ref full_name(PyTypeObject* type) {
  if (type == nullptr) return Ref::steal(PyUnicode_FromString(ownerless));
  if (type == state.tensor_type) return Ref::steal(PyUnicode_FromString("candle"));
  PyObject* object = reinterpret_cast<PyObject*>(type);
  const Ref module = Ref::steal(PyObject_GetAttrString(object, "__module__"));
  if (!forgive()) return {};
  Ref name = Ref::steal(PyObject_GetAttrString(object, "__qualname__"));
  if (!module || !name || !PyUnicode_Check(module.get()) ||
      PyUnicode_CompareWithASCIIString(module.get(), "builtins") == 0) {
    if (!forgive()) return {};
    return name ? std::move(name) : Ref::steal(PyUnicode_FromString(type->tp_name));
  }
  return Ref::steal(PyUnicode_FromFormat("%U.%U", module.get(), name.get()));
}

/// The Plan that Python sees; nothing with an error set.
Ref make_plan(const Move& move) {
  const Ref reasons = reasons_of(move);
  const Ref producer = full_name(move.producer);
  if (!reasons || !producer) return {};
  return Ref::steal(PyObject_CallFunction(state.hooks.make_plan, "ssLOOs",
                                          route_names[static_cast<int>(move.decision.route)],
                                          action_names[static_cast<int>(move.decision.action)],
                                          static_cast<long long>(move.decision.nbytes),
                                          reasons.get(), producer.get(), move.demand.consumer));
}

void raise_refusal(const Ref& plan) {
  if (!plan) return;
  const Ref error = Ref::steal(PyObject_CallOneArg(state.hooks.refusal, plan.get()));
  if (error) PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.get())), error.get());
}

}  // namespace

void refuse(const Move& move) noexcept { raise_refusal(make_plan(move)); }

void refuse_by(Route route, const char* code, const char* fact, PyTypeObject* producer) noexcept {
  const Ref name = full_name(producer);
  if (!name) return;
  raise_refusal(Ref::steal(PyObject_CallFunction(
      state.hooks.make_plan, "ssi[(ss)]Os", route_names[static_cast<int>(route)],
      action_names[static_cast<int>(Action::refuse)], 0, code, fact, name.get(), "candle")));
}

void raise_from(Ref&& cause) noexcept {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  PyException_SetCause(value, cause.release());
  PyErr_Restore(type, value, traceback);
}

void blame_producer(const char* producer, const char* fails_to) noexcept {
  if (PyErr_Occurred() == nullptr) {  // a function of its C table
    PyErr_Format(PyExc_BufferError, "%s does not %s, and gives no reason", producer, fails_to);
    return;
  }
  if (!PyErr_ExceptionMatches(PyExc_Exception) || PyErr_ExceptionMatches(PyExc_MemoryError)) return;
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  if (traceback != nullptr) PyException_SetTraceback(value, traceback);
  Ref owned_type = Ref::steal(type);
  Ref cause = Ref::steal(value);
  Ref owned_traceback = Ref::steal(traceback);
  const Ref words = Ref::steal(PyObject_Str(value));
  if (!forgive()) return;  // else it cannot even say what is wrong
  PyErr_Format(PyExc_BufferError, words ? "%s does not %s: %s: %U" : "%s does not %s: %s", producer,
               fails_to, Py_TYPE(value)->tp_name, words.get());
  raise_from(std::move(cause));
}

thread_local int Quiet::depth = 0;

void Recording::begin(const Move& move) noexcept {
  if (Quiet::now() || state.hooks.watching == nullptr) return;
  PyObject* value = nullptr;
  allowed_ = PyContextVar_Get(state.hooks.watching, nullptr, &value) == 0;
  const Ref watchers = Ref::steal(value);
  if (!watchers || watchers.get() == Py_None) return;
  const Ref plan = make_plan(move);
  PyObject* asked = asked_for(move.decision, move.demand) ? Py_True : Py_False;
  Ref entry = plan ? Ref::steal(PyObject_CallFunctionObjArgs(state.hooks.begin, watchers.get(),
                                                             plan.get(), asked, nullptr))
                   : Ref();
  allowed_ = static_cast<bool>(entry);
  if (!entry || entry.get() == Py_None) return;
  entry_ = std::move(entry);
  started_ = std::chrono::steady_clock::now();
}

void Recording::end() noexcept {
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - started_;
  const Ref seconds = Ref::steal(PyFloat_FromDouble(taken.count()));
  const Ref told = seconds ? Ref::steal(PyObject_CallFunctionObjArgs(state.hooks.end, entry_.get(),
                                                                     seconds.get(), nullptr))
                           : Ref();
  if (!told) PyErr_WriteUnraisable(state.hooks.end);
}

bool record_share(const Source& source, const char* consumer) noexcept {
  if (!watched()) return true;
  const Decision decision{source.route, Action::share, 0, 0};
  Demand demand;
  demand.consumer = consumer;
  Recording recording({decision, source, demand, state.tensor_type});
  return recording.done(recording.allowed());
}

namespace {

/// Where a source's elements lie: address, shape, strides and item in bits, DLPack's device.
Ref memory_of(const Source& source) {
  int64_t strides[max_ndim];
  for (int32_t i = 0; i < source.ndim; i++) {
    // Where nobody steps, a stride may be any number, also one too large to be multiplied.
    const bool steps = source.size > 0 && source.shape[i] > 1;
    strides[i] = steps ? source.strides[i] * source.unit : 0;
  }
  const Ref shape = Ref::steal(extents_tuple(source.shape, source.ndim));
  const Ref steps = Ref::steal(extents_tuple(strides, source.ndim));
  if (!shape || !steps) return {};
  return Ref::steal(Py_BuildValue(
      "(KOOiii)", static_cast<unsigned long long>(reinterpret_cast<uintptr_t>(source.data)),
      shape.get(), steps.get(), item_bits(dtype_table[source.dtype].dlpack, source.padded),
      static_cast<int>(source.device.device_type), static_cast<int>(source.device.device_id)));
}

/// A tensor as a copy would be, without its memory.
PyObject* phantom(const Source& source, const Demand& demand) {
  Tensor* tensor = new_tensor(state.tensor_type, source.ndim);
  if (tensor == nullptr) return nullptr;
  tensor->data = reinterpret_cast<std::byte*>(uintptr_t{1} << 16);  // aligned for everybody
  tensor->size = source.size;
  tensor->device = copied_to(source, demand);
  tensor->dtype = demand.cast_to == unknown_dtype ? source.dtype : demand.cast_to;
  tensor->read_only = false;
  tensor->padded = false;  // what is planned is candle's own copy
  std::copy_n(source.shape, source.ndim, tensor->shape());
  compact_strides(source.ndim, source.shape, tensor->strides());
  return tensor->object();
}

}  // namespace

bool plan_of(const Move& move, DryRun* dry) noexcept {
  if (move.decision.action == Action::refuse) {
    refuse(move);
    return false;
  }
  dry->found = make_plan(move);
  return static_cast<bool>(dry->found);
}

PyObject* stop_at(const Move& move, Owner&& owner, DryRun* dry) noexcept {
  if (dry->memory_only) {
    // Elements that have no one place, or are in a copy that is soon gone.
    const ReasonSet placeless = move.source.reasons & (fresh_reasons | parts_reasons);
    if (placeless != 0) {
      const auto reason = static_cast<Reason>(std::countr_zero(placeless));
      PyErr_Format(PyExc_BufferError, "where it lies is not told: %s",
                   describe(reason, move.source, move.demand).text);
      return nullptr;
    }
    dry->found = memory_of(move.source);
    return dry->found ? Py_NewRef(Py_None) : nullptr;
  }
  if (!plan_of(move, dry)) return nullptr;
  return move.decision.action == Action::share
             ? share(state.tensor_type, move.source, std::move(owner))
             : phantom(move.source, move.demand);
}

}  // namespace candle
