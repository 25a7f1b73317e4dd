#define CANDLE_OWNS_NUMPY_API
#include "numpy_api.h"

namespace candle {

bool import_numpy() noexcept { return PyArray_API != nullptr || _import_array() == 0; }

}  // namespace candle
