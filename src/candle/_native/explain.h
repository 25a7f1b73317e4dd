// Dry runs for `candle.explain`, and where memory lies and whose it is.
#pragma once

#include "pyref.h"

namespace candle {

// Module functions.
PyObject* plan_in(PyObject* module, PyObject* const* args, Py_ssize_t nargs);
PyObject* plan_out(PyObject* module, PyObject* args);
PyObject* quietly(PyObject* module, PyObject* const* args, Py_ssize_t nargs);
PyObject* memory_of(PyObject* module, PyObject* x);
PyObject* keeper(PyObject* module, PyObject* object);

}  // namespace candle
