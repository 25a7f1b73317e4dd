#include "demand.h"

#include <bit>
#include <iterator>
#include <string_view>

#include "state.h"

namespace candle {

namespace {

struct DemandObject {
  PyObject_HEAD Demand demand;
  PyObject* consumer;  // owns demand.consumer's text
};

/// A sequence of names into a set; false with an error set.
bool parse_names(PyObject* names, DTypeSet* set) {
  if (names == Py_None) return true;
  const Ref items = Ref::steal(PySequence_Tuple(names));
  if (!items) return false;
  *set = 0;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(items.get()); i++) {
    const char* name = PyUnicode_AsUTF8(PyTuple_GET_ITEM(items.get(), i));
    if (name == nullptr) return false;
    const DTypeId dtype = dtype_named(name);
    if (dtype == unknown_dtype) {
      PyErr_Format(PyExc_ValueError, "candle has no dtype called %s", name);
      return false;
    }
    *set |= DTypeSet{1} << dtype;
  }
  return true;
}

bool parse_route(const char* name, Route* route) {
  for (size_t i = 0; i < std::size(route_names); i++) {
    if (std::string_view(name) != route_names[i]) continue;
    *route = static_cast<Route>(i);
    return true;
  }
  PyErr_Format(PyExc_ValueError, "no route is called %s", name);
  return false;
}

PyObject* demand_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  static const char* keywords[] = {
      "consumer",  "dtypes", "narrows",   "alignment", "dense", "c_order", "negative_strides",
      "read_only", "packed", "host_only", "copies",    "axes",  "route",   nullptr};
  PyObject* consumer;
  PyObject* dtypes = Py_None;
  PyObject* narrows = Py_None;
  unsigned int alignment = 1;
  const char* route = "candle";
  int dense = 0, c_order = 0, negative_strides = 1, read_only = 1, packed = 1, host_only = 1;
  int copies = 0;
  short least_axes = 0, most_axes = max_ndim;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "U|$OOIppppppp(hh)s:Demand",
                                   const_cast<char**>(keywords), &consumer, &dtypes, &narrows,
                                   &alignment, &dense, &c_order, &negative_strides, &read_only,
                                   &packed, &host_only, &copies, &least_axes, &most_axes, &route)) {
    return nullptr;
  }
  if (!std::has_single_bit(alignment)) {
    PyErr_Format(PyExc_ValueError, "alignment is a power of two, not %u", alignment);
    return nullptr;
  }
  Demand demand;
  if (!parse_route(route, &demand.route)) return nullptr;
  demand.consumer = PyUnicode_AsUTF8(consumer);
  if (demand.consumer == nullptr || !parse_names(dtypes, &demand.dtypes) ||
      !parse_names(narrows, &demand.narrows)) {
    return nullptr;
  }
  demand.alignment = alignment;
  demand.dense = dense != 0;
  demand.c_order = c_order != 0;
  demand.negative_strides = negative_strides != 0;
  demand.read_only = read_only != 0;
  demand.packed = packed != 0;
  demand.host_only = host_only != 0;
  demand.copies = copies != 0;
  demand.least_axes = least_axes;
  demand.most_axes = most_axes;
  demand.particular = demand.copies || least_axes > 0 || most_axes < max_ndim;
  PyObject* self = type->tp_alloc(type, 0);
  if (self == nullptr) return nullptr;
  reinterpret_cast<DemandObject*>(self)->demand = demand;
  reinterpret_cast<DemandObject*>(self)->consumer = Py_NewRef(consumer);
  return self;
}

void demand_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  drop(reinterpret_cast<DemandObject*>(self)->consumer);
  type->tp_free(self);
  drop(reinterpret_cast<PyObject*>(type));
}

PyType_Slot demand_slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(demand_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(demand_dealloc)},
    {Py_tp_doc,
     const_cast<char*>(
         "Demand(consumer, *, dtypes=None, narrows=None, alignment=1, dense=False, c_order=False, "
         "negative_strides=True, read_only=True, packed=True, host_only=True, "
         "copies=False, axes=(0, 64), route=\"candle\")\n--\n\n"
         "What a consumer takes; `conform` makes a tensor so.")},
    {0, nullptr},
};

PyType_Spec demand_spec = {
    .name = "candle._native._core.Demand",
    .basicsize = sizeof(DemandObject),
    .itemsize = 0,
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = demand_slots,
};

}  // namespace

const Demand* demand_of(PyObject* object) noexcept {
  if (Py_IS_TYPE(object, state.demand_type))
    return &reinterpret_cast<DemandObject*>(object)->demand;
  PyErr_Format(PyExc_TypeError, "%s is no Demand", Py_TYPE(object)->tp_name);
  return nullptr;
}

int init_demand_type(PyObject* module) noexcept {
  state.demand_type =
      reinterpret_cast<PyTypeObject*>(PyType_FromModuleAndSpec(module, &demand_spec, nullptr));
  if (state.demand_type == nullptr) return -1;
  return PyModule_AddObjectRef(module, "Demand", reinterpret_cast<PyObject*>(state.demand_type));
}

}  // namespace candle
