#include "counting_deleter.h"

#include <dlpack/dlpack.h>
#include <pythread.h>

#include <cstring>

#include "pyref.h"

namespace candle {

namespace {

/// What a test reads, by ctypes: keep in step with `Notes` in candle/testing/producers.py.
struct Notes {
  long deleted;      // calls of the deleter
  long destructed;   // calls of the capsule destructor
  long pending;      // those of them that found an exception pending
  long thread;       // where the deleter ran last
  long gil;          // whether that thread held the GIL; -1 where Python was down
  long initialized;  // whether Python was up
};

/// By the compiler's own functions: not every standard library has atomic_ref yet.
void count(long* number) { __atomic_fetch_add(number, 1, __ATOMIC_SEQ_CST); }
void note(long* place, long value) { __atomic_store_n(place, value, __ATOMIC_RELAXED); }

/// Needs no Python: any thread, with or without the GIL, also after the interpreter's end.
void note_deletion(void* manager_ctx) {
  Notes* notes = static_cast<Notes*>(manager_ctx);
  const int initialized = Py_IsInitialized();
  note(&notes->thread, static_cast<long>(PyThread_get_thread_ident()));
  note(&notes->initialized, initialized);
  note(&notes->gil, initialized != 0 ? PyGILState_Check() : -1);
  count(&notes->deleted);
}

template <typename Managed>
void note_managed(Managed* managed) noexcept {
  note_deletion(managed->manager_ctx);
}

template <typename Managed>
void destroy(void* pointer, bool used) {
  Managed* managed = static_cast<Managed*>(pointer);
  Notes* notes = static_cast<Notes*>(managed->manager_ctx);
  count(&notes->destructed);
  if (PyErr_Occurred() != nullptr) count(&notes->pending);
  const PendingError pending;
  if (!used && managed->deleter != nullptr) managed->deleter(managed);
}

/// As a correct producer's: deletes only what nobody took, with a pending exception put aside: a
/// deleter that a test puts there may run Python.
void destroy_capsule(PyObject* capsule) noexcept {
  const char* name = PyCapsule_GetName(capsule);
  if (name == nullptr) return;
  void* managed = PyCapsule_GetPointer(capsule, name);
  const bool used = std::strncmp(name, "used_", 5) == 0;
  if (std::strstr(name, "versioned") != nullptr) {
    destroy<DLManagedTensorVersioned>(managed, used);
  } else {
    destroy<DLManagedTensor>(managed, used);
  }
}

}  // namespace

PyObject* counting_deleter_addresses(PyObject*, PyObject*) noexcept {
  void (*legacy)(DLManagedTensor*) noexcept = note_managed;
  void (*versioned)(DLManagedTensorVersioned*) noexcept = note_managed;
  return Py_BuildValue("(KKK)", reinterpret_cast<unsigned long long>(legacy),
                       reinterpret_cast<unsigned long long>(versioned),
                       reinterpret_cast<unsigned long long>(&destroy_capsule));
}

}  // namespace candle
