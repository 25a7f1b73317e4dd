// A deleter and a capsule destructor for tests: they count their calls and note where they ran.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

namespace candle {

/// `_core.counting_deleter()`: the addresses of a deleter for legacy structs, one for versioned
/// structs, and a capsule destructor, as a tuple of ints. `manager_ctx` of such a struct points to
/// six `long`: deleted, destructed, pending, thread, gil, initialized. The deleters free nothing:
/// the struct and the notes belong to the test.
PyObject* counting_deleter_addresses(PyObject* module, PyObject* unused) noexcept;

}  // namespace candle
