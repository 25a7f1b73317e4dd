// What `candle.convert` does with each tensor it meets, in one call from Python.
#include "export.h"
#include "ingest.h"
#include "move.h"
#include "tensor.h"

namespace candle {

namespace {

/// The members of the tuple that a sharer is bound to.
enum Bound { done, detached, share, otherwise };

/// What becomes of a tensor: looked up by its identity; else shared; else what Python makes of it.
PyObject* share_once(PyObject* self, PyObject* x) {
  PyObject* known = PyTuple_GET_ITEM(self, Bound::done);
  const Ref key = Ref::steal(PyLong_FromVoidPtr(x));
  if (!key) return nullptr;
  if (Ref found = entry_of(known, key.get())) return found.release();
  if (PyErr_Occurred()) return nullptr;
  // A refusal here leads to another try, and is none that a watcher is to be told of.
  if (watched()) return PyObject_CallOneArg(PyTuple_GET_ITEM(self, Bound::otherwise), x);
  PyObject* const arguments[] = {x, PyTuple_GET_ITEM(self, Bound::detached)};
  Ref result = Ref::steal(shared(nullptr, arguments, 2));
  PyObject* give = PyTuple_GET_ITEM(self, Bound::share);
  if (result && PyUnicode_CheckExact(give)) {
    auto* tensor = reinterpret_cast<Tensor*>(result.get());
    const bool torch = PyUnicode_CompareWithASCIIString(give, "torch") == 0;
    result = Ref::steal(torch ? share_as_torch(tensor) : share_as_numpy(tensor));
  } else if (result) {
    result = Ref::steal(PyObject_CallOneArg(give, result.get()));
  }
  if (result)
    return PyDict_SetItem(known, key.get(), result.get()) < 0 ? nullptr : result.release();
  if (!PyErr_ExceptionMatches(PyExc_BufferError)) return nullptr;
  PyErr_Clear();
  return PyObject_CallOneArg(PyTuple_GET_ITEM(self, Bound::otherwise), x);
}

PyMethodDef share_once_method = {"share", share_once, METH_O, nullptr};

}  // namespace

PyObject* sharer(PyObject*, PyObject* const* args, Py_ssize_t nargs) {
  if (nargs != 4 || !PyDict_CheckExact(args[0])) {
    PyErr_SetString(PyExc_TypeError, "usage: sharer(done, detached, share, otherwise)");
    return nullptr;
  }
  const Ref bound = Ref::steal(PyTuple_Pack(4, args[0], args[1], args[2], args[3]));
  return bound ? PyCFunction_New(&share_once_method, bound.get()) : nullptr;
}

}  // namespace candle
