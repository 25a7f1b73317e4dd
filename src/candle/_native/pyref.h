// Owned references to Python objects, and the pending error put aside. The only file that counts
// references by hand.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <utility>

namespace candle {

/// One owned reference, or none.
class Ref {
 public:
  Ref() = default;
  static Ref steal(PyObject* object) { return Ref(object); }
  static Ref borrow(PyObject* object) { return Ref(Py_XNewRef(object)); }
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref& operator=(Ref&& other) noexcept {
    PyObject* old = std::exchange(object_, std::exchange(other.object_, nullptr));
    Py_XDECREF(old);
    return *this;
  }
  Ref(const Ref&) = delete;
  Ref& operator=(const Ref&) = delete;
  ~Ref() { Py_XDECREF(object_); }

  PyObject* get() const { return object_; }
  explicit operator bool() const { return object_ != nullptr; }
  /// Gives the reference away.
  [[nodiscard]] PyObject* release() { return std::exchange(object_, nullptr); }

 private:
  explicit Ref(PyObject* object) : object_(object) {}
  PyObject* object_ = nullptr;
};

/// Drops one reference that was kept outside a Ref, in a C struct.
inline void drop(PyObject* object) { Py_XDECREF(object); }

/// An entry of a dict, which other threads may change meanwhile. Nothing where there is none, or
/// with an error set.
inline Ref entry_of(PyObject* dict, PyObject* key) {
#if PY_VERSION_HEX >= 0x030d0000
  PyObject* value = nullptr;
  (void)PyDict_GetItemRef(dict, key, &value);
  return Ref::steal(value);
#else
  return Ref::borrow(PyDict_GetItemWithError(dict, key));
#endif
}

/// A member of a list or tuple; nothing with an IndexError set where another thread has made the
/// list shorter than it was when it was asked.
inline Ref member_of(PyObject* sequence, Py_ssize_t index) {
#ifdef Py_GIL_DISABLED
  if (PyList_Check(sequence)) return Ref::steal(PyList_GetItemRef(sequence, index));
#endif
  return Ref::borrow(PySequence_Fast_GET_ITEM(sequence, index));
}

/// Keeps others of these off an object for as long as it lives; not while Python code runs, or
/// something is waited for. The GIL does as much.
class Alone {
 public:
#ifdef Py_GIL_DISABLED
  explicit Alone(PyObject* object) { PyCriticalSection_Begin(&section_, object); }
  ~Alone() { PyCriticalSection_End(&section_); }

 private:
  PyCriticalSection section_;
#else
  explicit Alone(PyObject*) {}
  ~Alone() {}  // so that it is not called unused
#endif
 public:
  Alone(const Alone&) = delete;
  Alone& operator=(const Alone&) = delete;
};

/// Drops a pending error that only says no; one of memory, or an interrupt, stays, and is told.
/// Whether none is left.
[[nodiscard]] inline bool forgive() {
  if (PyErr_Occurred() == nullptr) return true;
  if (!PyErr_ExceptionMatches(PyExc_Exception) || PyErr_ExceptionMatches(PyExc_MemoryError))
    return false;
  PyErr_Clear();
  return true;
}

/// Puts a pending exception aside for as long as code runs that may call into Python. What that
/// leaves behind is nobody's answer: it is printed.
class PendingError {
 public:
  PendingError() {
    if (PyErr_Occurred()) PyErr_Fetch(&type_, &value_, &traceback_);
  }
  ~PendingError() {
    if (PyErr_Occurred() != nullptr) PyErr_WriteUnraisable(nullptr);
    if (type_ != nullptr) PyErr_Restore(type_, value_, traceback_);
  }
  PendingError(const PendingError&) = delete;
  PendingError& operator=(const PendingError&) = delete;

 private:
  PyObject* type_ = nullptr;
  PyObject* value_ = nullptr;
  PyObject* traceback_ = nullptr;
};

/// The GIL, given up for as long as this lives.
class WithoutGil {
 public:
  explicit WithoutGil(bool release) : state_(release ? PyEval_SaveThread() : nullptr) {}
  ~WithoutGil() {
    if (state_ != nullptr) PyEval_RestoreThread(state_);
  }
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  PyThreadState* state_;
};

/// A function of any of CPython's calling conventions, as its tables of methods hold it.
template <auto function>
PyCFunction function_of() {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

inline bool interpreter_ending() {
#if PY_VERSION_HEX >= 0x030d0000
  return !Py_IsInitialized() || Py_IsFinalizing();
#else
  return !Py_IsInitialized() || _Py_IsFinalizing();
#endif
}

}  // namespace candle
