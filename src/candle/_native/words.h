// Python values in error messages.
#pragma once

#include "pyref.h"

namespace candle {

/// A value as a message shows it: its repr, cut where it is long; of an int that Python would not
/// print, how many bits it has. nullptr with an error set only where there is no memory, or the
/// user interrupts.
Ref in_words(PyObject* value) noexcept;

}  // namespace candle
