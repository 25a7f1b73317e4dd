// Whether torch computes gradients in forward mode: a tensor may then have a tangent, which its
// memory does not say. torch counts the levels that are open in a variable of a Python module.
#pragma once

#include <atomic>

#include "pyref.h"

namespace candle {

namespace detail {

// A lookup in the module's dict is too much for every tensor. Python tells of a dict that has
// changed: the newer ones call, the older ones count.
struct ForwardMode {
  PyObject* variables = nullptr;
#if PY_VERSION_HEX >= 0x030c0000
  std::atomic<bool> open{false};
#else
  uint64_t version = 0;  // of the dict when `open` was read
  bool open = false;
#endif
};
extern ForwardMode forward_mode;

bool read_forward_mode() noexcept;

}  // namespace detail

/// Follows the variable `_current_level` among those of a module, which is -1 while no level is
/// open. False with an error set.
bool follow_forward_mode(PyObject* variables) noexcept;

/// Only after it has been followed.
inline bool forward_mode_open() noexcept {
#if PY_VERSION_HEX >= 0x030c0000
  return detail::forward_mode.open.load(std::memory_order_relaxed);
#else
  const auto* dict = reinterpret_cast<const PyDictObject*>(detail::forward_mode.variables);
  return dict->ma_version_tag == detail::forward_mode.version ? detail::forward_mode.open
                                                              : detail::read_forward_mode();
#endif
}

}  // namespace candle
