#include "forward_mode.h"

namespace candle {

detail::ForwardMode detail::forward_mode;

namespace {

constexpr char variable[] = "_current_level";

/// What is no number of a level counts as open: then the tensors are asked.
bool is_open(PyObject* level) {
  if (level == nullptr || !PyLong_Check(level)) return true;
  int overflow;
  return PyLong_AsLongAndOverflow(level, &overflow) >= 0 || overflow != 0;
}

#if PY_VERSION_HEX >= 0x030c0000
/// Called before the dict changes.
int changes(PyDict_WatchEvent, PyObject* variables, PyObject* key, PyObject* value) {
  const bool one = key != nullptr && PyUnicode_Check(key);
  if (variables == detail::forward_mode.variables &&
      (!one || PyUnicode_CompareWithASCIIString(key, variable) == 0)) {
    detail::forward_mode.open.store(!one || is_open(value), std::memory_order_relaxed);
  }
  return 0;
}
#endif

}  // namespace

bool detail::read_forward_mode() noexcept {
  const Ref name = Ref::steal(PyUnicode_InternFromString(variable));
  const Ref level = name ? entry_of(forward_mode.variables, name.get()) : Ref();
  if (PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    return true;  // nothing is kept: it is read again
  }
  const bool open = is_open(level.get());
#if PY_VERSION_HEX < 0x030c0000
  forward_mode.version =
      reinterpret_cast<const PyDictObject*>(forward_mode.variables)->ma_version_tag;
#endif
  forward_mode.open = open;
  return open;
}

bool follow_forward_mode(PyObject* variables) noexcept {
  if (detail::forward_mode.variables == variables) return true;
  if (!PyDict_Check(variables)) {
    PyErr_SetString(PyExc_TypeError, "the variables of a module are a dict");
    return false;
  }
#if PY_VERSION_HEX >= 0x030c0000
  static const int watcher = PyDict_AddWatcher(changes);
  if (watcher < 0 || PyDict_Watch(watcher, variables) < 0) {
    PyErr_Clear();  // others have taken them all: every tensor is asked
    detail::forward_mode.open = true;
    return true;
  }
#endif
  drop(std::exchange(detail::forward_mode.variables, Py_NewRef(variables)));
  (void)detail::read_forward_mode();
  return true;
}

}  // namespace candle
