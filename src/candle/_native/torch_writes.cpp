#include "torch_writes.h"

#include <atomic>
#include <new>

#include "state.h"

namespace candle {

namespace {

// A hash table of chains, as of the types (type_record.h): published whole, so that readers need no
// lock. What is in it stays, and so do the functions: those of modules, which are so many.
constexpr size_t slots = 512;
std::atomic<TorchWrites*> known[slots];

std::atomic<TorchWrites*>* slot_of(PyObject* function) {
  const auto address = reinterpret_cast<uintptr_t>(function);
  return &known[(address >> 4 ^ address >> 13) % slots];
}

bool same_text(PyObject* a, PyObject* b) {
  return a == b || (PyUnicode_Check(a) && PyUnicode_Compare(a, b) == 0);
}

/// Asks. False with an error set; `lasts`: whether the function is one of a module.
bool ask(TorchWrites* writes, int* lasts) {
  writes->answer = Ref::steal(PyObject_CallOneArg(state.hooks.torch_writes, writes->function));
  return writes->answer &&
         PyArg_ParseTuple(writes->answer.get(), "pO!KO!nOOO;what a torch function writes to", lasts,
                          &PyTuple_Type, &writes->outs, &writes->positions, &PyTuple_Type,
                          &writes->names, &writes->switch_position, &writes->switch_name,
                          &writes->switch_default, &writes->switch_off);
}

}  // namespace

bool is_among(PyObject* keyword, PyObject* names) noexcept {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); i++) {
    if (same_text(keyword, PyTuple_GET_ITEM(names, i))) return true;
  }
  return false;
}

const TorchWrites* torch_writes(PyObject* function,
                                std::unique_ptr<TorchWrites>* fleeting) noexcept {
  std::atomic<TorchWrites*>* head = slot_of(function);
  for (const TorchWrites* at = head->load(std::memory_order_acquire); at != nullptr;
       at = at->next) {
    if (at->function == function) return at;
  }
  fleeting->reset(new (std::nothrow) TorchWrites);
  if (*fleeting == nullptr) {
    PyErr_NoMemory();
    return nullptr;
  }
  TorchWrites* made = fleeting->get();
  made->function = function;
  int lasts = 0;
  if (!ask(made, &lasts)) return nullptr;
  if (!lasts) return made;
  (void)fleeting->release();
  (void)Py_NewRef(function);
  made->next = head->load(std::memory_order_relaxed);
  while (!head->compare_exchange_weak(made->next, made, std::memory_order_acq_rel)) {
  }
  return made;
}

int writes_now(const TorchWrites& writes, PyObject* args, PyObject* kwargs) noexcept {
  if (writes.positions == 0) return 0;
  if (writes.switch_name == Py_None) return 1;
  Ref value;
  const Py_ssize_t at = writes.switch_position;
  if (at >= 0 && at < PyTuple_GET_SIZE(args)) {
    value = member_of(args, at);
  } else if (kwargs != nullptr) {
    value = entry_of(kwargs, writes.switch_name);
    if (!value && PyErr_Occurred()) return -1;
  }
  PyObject* decides = value ? value.get() : writes.switch_default;
  return writes.switch_off == Py_None ? decides != Py_None : PyObject_IsTrue(decides);
}

}  // namespace candle
