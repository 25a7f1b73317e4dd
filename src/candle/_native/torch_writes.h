// Which arguments a torch function writes to.
#pragma once

#include <memory>

#include "pyref.h"

namespace candle {

/// What frameworks/torch_writes.py says of a function. The references are borrowed from what it
/// answered.
struct TorchWrites {
  PyObject* function = nullptr;
  TorchWrites* next = nullptr;  // of the same slot
  Ref answer;
  PyObject* outs = nullptr;          // a tuple: the keywords whose tensors are always written to
  unsigned long long positions = 0;  // a bit for each other argument that is written to
  PyObject* names = nullptr;         // a tuple: the same, where they are given by keyword
  // The argument that says whether these are: its position (or -1) and name, its default, and None
  // or False, with which they are not. No name: they always are.
  Py_ssize_t switch_position = -1;
  PyObject* switch_name = nullptr;
  PyObject* switch_default = nullptr;
  PyObject* switch_off = nullptr;

  bool at(Py_ssize_t position) const { return position < 64 && (positions >> position & 1) != 0; }
};

/// Whether a keyword is among names.
bool is_among(PyObject* keyword, PyObject* names) noexcept;

/// Nothing with an error set. `fleeting` holds what is not kept: of functions that come and go.
const TorchWrites* torch_writes(PyObject* function,
                                std::unique_ptr<TorchWrites>* fleeting) noexcept;

/// Whether this call writes to what the function may write to; `kwargs` may be NULL. -1 with an
/// error set.
int writes_now(const TorchWrites& writes, PyObject* args, PyObject* kwargs) noexcept;

}  // namespace candle
