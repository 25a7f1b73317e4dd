#include "move.h"

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
  PyErr_Clear();
  Ref name = Ref::steal(PyObject_GetAttrString(object, "__qualname__"));
  if (!module || !name || !PyUnicode_Check(module.get()) ||
      PyUnicode_CompareWithASCIIString(module.get(), "builtins") == 0) {
    PyErr_Clear();
    return name ? std::move(name) : Ref::steal(PyUnicode_FromString(type->tp_name));
  }
  return Ref::steal(PyUnicode_FromFormat("%U.%U", module.get(), name.get()));
}

/// The Plan that Python sees; nothing with an error set.
Ref plan_of(const Move& move) {
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

void refuse(const Move& move) noexcept { raise_refusal(plan_of(move)); }

void refuse_by(Route route, const char* code, const char* fact, PyTypeObject* producer) noexcept {
  const Ref name = full_name(producer);
  if (!name) return;
  raise_refusal(Ref::steal(PyObject_CallFunction(
      state.hooks.make_plan, "ssi[(ss)]Os", route_names[static_cast<int>(route)],
      action_names[static_cast<int>(Action::refuse)], 0, code, fact, name.get(), "candle")));
}

void blame_producer(const char* producer) noexcept {
  if (!PyErr_ExceptionMatches(PyExc_Exception) || PyErr_ExceptionMatches(PyExc_MemoryError)) return;
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  if (traceback != nullptr) PyException_SetTraceback(value, traceback);
  Ref owned_type = Ref::steal(type);
  Ref cause = Ref::steal(value);
  Ref owned_traceback = Ref::steal(traceback);
  PyErr_Format(PyExc_BufferError, "%s does not export its memory: %s: %S", producer,
               Py_TYPE(value)->tp_name, value);
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  if (value != nullptr) PyException_SetCause(value, cause.release());
  PyErr_Restore(type, value, traceback);
}

bool detail::tell_listener(const Move& move) noexcept {
  if (state.hooks.listener == nullptr) return true;
  const Ref listener = Ref::borrow(state.hooks.listener);
  const Ref plan = plan_of(move);
  return plan && static_cast<bool>(Ref::steal(PyObject_CallOneArg(listener.get(), plan.get())));
}

}  // namespace candle
