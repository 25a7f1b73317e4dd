#define CANDLE_OWNS_NUMPY_API
#include "numpy_api.h"

namespace candle {

bool import_numpy() noexcept {
  if (PyArray_API != nullptr) return true;
  if (_import_array() == 0) return true;
  PyArray_API = nullptr;  // it is set before the checks that failed
  return false;
}

}  // namespace candle
