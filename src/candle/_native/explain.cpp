#include "explain.h"

#include <string_view>

#include "copying.h"
#include "demand.h"
#include "device_memory.h"
#include "export.h"
#include "ingest.h"
#include "move.h"
#include "views.h"

namespace candle {

namespace {

/// What the door of a name takes, or a Demand; nullptr with an error set.
const Demand* demand_for(const Tensor* tensor, PyObject* door) {
  if (!PyUnicode_Check(door)) return demand_of(door);
  const char* text = PyUnicode_AsUTF8(door);
  if (text == nullptr) return nullptr;
  const std::string_view name(text);
  if (name == "numpy") return demand_of_numpy(tensor);
  if (name == "torch") return demand_of_torch();
  if (name == "arrow") return &demand_of_arrow();
  if (name == "dlpack") return &demand_of_capsule(true);
  if (name == "dlpack_legacy") return &demand_of_capsule(false);
  PyErr_Format(PyExc_ValueError, "no door is called %R", door);
  return nullptr;
}

}  // namespace

PyObject* plan_in(PyObject*, PyObject* const* args, Py_ssize_t nargs) {
  if (nargs != 3) {
    PyErr_SetString(PyExc_TypeError, "plan_in(x, dtype, device)");
    return nullptr;
  }
  DryRun dry;
  Request request;
  if (!parse_dtype(args[1], &request.dtype) || !parse_device(args[2], &request)) return nullptr;
  request.dry = &dry;
  const Ref tensor = Ref::steal(ingest_anything(state.tensor_type, args[0], request));
  return tensor ? PyTuple_Pack(2, tensor.get(), dry.found.get()) : nullptr;
}

PyObject* plan_out(PyObject*, PyObject* args) {
  PyObject *object, *door;
  if (!PyArg_ParseTuple(args, "OO:plan_out", &object, &door)) return nullptr;
  Tensor* tensor = tensor_argument(object);
  const Demand* demand = tensor == nullptr ? nullptr : demand_for(tensor, door);
  if (demand == nullptr) return nullptr;
  DryRun dry;
  return conform_dry(tensor, *demand, CopyMode::if_needed, &dry) ? dry.found.release() : nullptr;
}

PyObject* quietly(PyObject*, PyObject* const* args, Py_ssize_t nargs) {
  if (nargs < 1) {
    PyErr_SetString(PyExc_TypeError, "quietly(function, *arguments)");
    return nullptr;
  }
  const Quiet steps;
  return PyObject_Vectorcall(args[0], args + 1, static_cast<size_t>(nargs - 1), nullptr);
}

PyObject* memory_of(PyObject*, PyObject* x) {
  DryRun dry;
  dry.memory_only = true;
  Request request;
  request.dry = &dry;
  const Ref done = Ref::steal(ingest_anything(state.tensor_type, x, request));
  return done ? dry.found.release() : nullptr;
}

PyObject* keeper(PyObject*, PyObject* object) {
  const Tensor* tensor = as_tensor(object);
  const DeviceMemory* block = tensor == nullptr ? nullptr : tensor->owner.device_memory();
  PyObject* kept = block != nullptr    ? block->memory().python_object()
                   : tensor != nullptr ? tensor->owner.python_object()
                                       : tensor_of_buffer(object);
  return Py_NewRef(kept == nullptr ? Py_None : kept);
}

}  // namespace candle
