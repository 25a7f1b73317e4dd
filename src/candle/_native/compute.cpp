// The quick path of operators: what Python would do in several calls, in one.
#include "compute.h"

#include "export.h"
#include "ingest.h"
#include "tensor.h"

namespace candle {
namespace {

/// The Tensor on the host that an object exactly is, else nullptr.
const Tensor* host_tensor(PyObject* object) {
  if (!Py_IS_TYPE(object, state.tensor_type)) return nullptr;
  const auto* tensor = reinterpret_cast<const Tensor*>(object);
  return host_memory(tensor->device) ? tensor : nullptr;
}

}  // namespace

PyObject* on_host(PyObject*, PyObject* const* args, Py_ssize_t nargs) {
  if (nargs != 3) {
    PyErr_SetString(PyExc_TypeError, "on_host() takes exactly three arguments");
    return nullptr;
  }
  PyObject *const function = args[0], *const first = args[1], *const second = args[2];
  const Tensor* tensor = host_tensor(first);
  if (tensor == nullptr) Py_RETURN_NONE;
  // numpy gives Python's numbers the dtype of the array beside them, if it is one of its own.
  const bool number =
      (PyFloat_CheckExact(second) || PyLong_CheckExact(second)) && tensor->row().typestr != nullptr;
  if (!number && host_tensor(second) == nullptr) Py_RETURN_NONE;
  const Ref left = Ref::steal(to_numpy(first, nullptr, 0, nullptr));
  if (!left) return nullptr;
  const Ref right =
      number ? Ref::borrow(second) : Ref::steal(to_numpy(second, nullptr, 0, nullptr));
  if (!right) return nullptr;
  PyObject* operands[] = {left.get(), right.get()};
  const Ref result = Ref::steal(PyObject_Vectorcall(function, operands, 2, nullptr));
  if (!result) return nullptr;
  PyObject* const given[] = {result.get()};
  return from_dlpack(nullptr, given, 1, nullptr);
}

}  // namespace candle
