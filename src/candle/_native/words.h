// Python values in error messages.
#pragma once

#include "pyref.h"

namespace candle {

/// A value as the message of an error to come shows it; a pending one is dropped. The repr, cut
/// where it is long; of an int that Python would not print, how many bits it has. Nothing, with an
/// error set, only where there is no memory or the user interrupts.
Ref in_words(PyObject* value) noexcept;

}  // namespace candle
