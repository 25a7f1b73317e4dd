// numpy's C API, imported when the first ndarray is met and not before. Include this instead of
// numpy's headers.
#pragma once

#include "pyref.h"

#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#define PY_ARRAY_UNIQUE_SYMBOL candle_numpy_api
#ifndef CANDLE_OWNS_NUMPY_API
#define NO_IMPORT_ARRAY
#endif
#include <numpy/arrayobject.h>

namespace candle {

/// Imports numpy if that has not happened; false with an error set.
bool import_numpy() noexcept;

}  // namespace candle
