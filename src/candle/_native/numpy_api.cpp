#define CANDLE_OWNS_NUMPY_API
#include "numpy_api.h"

#include <atomic>

namespace candle {

namespace {

/// Set once the table below it is, for good; threads that see it see the table.
std::atomic<bool> imported{false};

/// Held by the one thread that sets the table. With the GIL there is no other.
class Setting {
 public:
#ifdef Py_GIL_DISABLED
  Setting() { PyMutex_Lock(&mutex_); }
  ~Setting() { PyMutex_Unlock(&mutex_); }

 private:
  static PyMutex mutex_;
};
PyMutex Setting::mutex_;
#else
  Setting() {}
};
#endif

}  // namespace

bool import_numpy() noexcept {
  if (imported.load(std::memory_order_acquire)) return true;
  // Whatever Python numpy runs when it is imported, it runs here, not while others are kept out.
  const Ref numpy = Ref::steal(PyImport_ImportModule("numpy"));
  if (!numpy) return false;
  const Setting setting;
  if (imported.load(std::memory_order_relaxed)) return true;
  if (_import_array() != 0) {
    PyArray_API = nullptr;  // it is set before the checks that failed
    return false;
  }
  imported.store(true, std::memory_order_release);
  return true;
}

}  // namespace candle
