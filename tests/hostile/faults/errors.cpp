// Native functions of a producer that leave an error of Python's set, whatever they return.
#include <cstdlib>
#include <string>

#include "faults.h"

namespace {

void* given = nullptr;  // what the slots hand out
long handed = 0;        // how often they did
void (*forward)(void*) = nullptr;

int hand_out(void** out, int code) {
  *out = given;
  handed++;
  return code;
}

void complain() { PyErr_SetString(PyExc_RuntimeError, "left behind"); }

}  // namespace

/// What `slot` gives, and the deleter that `deleter` calls first.
EXPORTED void prepare(void* managed, void* deleter) {
  given = managed;
  handed = 0;
  forward = reinterpret_cast<void (*)(void*)>(deleter);
}

/// A sound slot of an exchange table, with no Python in it.
EXPORTED int gives(PyObject*, void** out) {
  return hand_out(out, 0);
}

/// How often a slot has given something since `prepare`.
EXPORTED long handed_out() { return handed; }

/// A slot that gives what it should, but leaves an error set.
EXPORTED int gives_with_error(PyObject*, void** out) {
  complain();
  return hand_out(out, 0);
}

/// Leaves an error set and says that it failed, and gives something all the same.
EXPORTED int fails_with_result(PyObject*, void** out) {
  complain();
  return hand_out(out, -1);
}

/// A deleter that leaves an error set. It is called with the GIL.
EXPORTED void deletes_with_error(void* managed) {
  forward(managed);
  complain();
}

/// Runs Python in a new interpreter when the process exits: after the end of the one that runs now.
/// The process then exits with 1 if it raises.
EXPORTED void run_at_exit(const char* code) {
  static std::string kept;
  kept = code;
  std::atexit([] {
    Py_InitializeEx(0);
    if (PyRun_SimpleStringFlags(kept.c_str(), nullptr) != 0) std::_Exit(1);
  });
}

/// Calls a deleter when the process exits: after the interpreter's end.
EXPORTED void release_at_exit(void* managed, void* deleter) {
  prepare(managed, deleter);
  std::atexit([] { forward(given); });
}
