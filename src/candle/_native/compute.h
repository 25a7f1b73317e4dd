// Two operands on the host, computed with numpy.
#pragma once

#include "pyref.h"

namespace candle {

/// `_core.on_host(function, a, b)`: a function of two arrays, on a Tensor and a Tensor or number.
/// None where it is not as simple as that, and nothing was computed.
PyObject* on_host(PyObject* module, PyObject* const* args, Py_ssize_t nargs);

}  // namespace candle
