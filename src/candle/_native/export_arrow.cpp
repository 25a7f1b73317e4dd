// __arrow_c_array__, __arrow_c_schema__ and __arrow_c_device_array__: a tensor as rows, by the
// PyCapsule protocol.
#include <algorithm>
#include <cstring>
#include <new>

#include "arrow_build.h"
#include "copying.h"
#include "device_memory.h"
#include "elements.h"
#include "export.h"
#include "safe_cast.h"
#include "tensor.h"
#include "views.h"

namespace candle {

namespace {

/// What Arrow takes: rows without gaps, of elements of whole bytes; booleans as bits.
Demand arrow_demand(bool host_only) {
  Demand demand;
  demand.consumer = "a consumer of Arrow";
  demand.route = Route::arrow_array;
  demand.dtypes = arrow_dtypes();
  demand.negative_strides = false;
  demand.rows = true;
  demand.bitmap = true;
  demand.host_only = host_only;
  return demand;
}

/// One export: the type, the order in which axes are laid down, and what is demanded of memory.
struct ExportPlan {
  ExportType type;
  Demand demand;
  int32_t order[max_ndim];                 // axis order[i] of the tensor is the i-th from outside
  const ArrowSchema* requested = nullptr;  // copied, in place of the type's own
};

template <typename Struct>
void destroy(PyObject* capsule) {
  const char* name = PyCapsule_GetName(capsule);
  auto* held = static_cast<Struct*>(PyCapsule_GetPointer(capsule, name));
  const PendingError pending;
  if constexpr (std::is_same_v<Struct, ArrowDeviceArray>) {
    if (held->array.release != nullptr) held->array.release(&held->array);
  } else {
    if (held->release != nullptr) held->release(held);
  }
  delete held;
}

/// A capsule with room for a struct, released as yet. Nothing with an error set.
template <typename Struct>
Ref new_capsule(const char* name, Struct** held) {
  *held = new (std::nothrow) Struct{};
  if (*held == nullptr) {
    PyErr_NoMemory();
    return {};
  }
  Ref capsule = Ref::steal(PyCapsule_New(*held, name, destroy<Struct>));
  if (!capsule) delete *held;
  return capsule;
}

/// The type and layout of a tensor where nobody has asked for another.
void plan_default(const Tensor* tensor, bool lists, ExportPlan* plan) {
  const int32_t ndim = tensor->ndim();
  ExportType& type = plan->type;
  type.dtype = tensor->dtype;
  type.bits = tensor->dtype == id_bool;
  for (int32_t i = 0; i < ndim; i++) plan->order[i] = i;
  if (lists) {
    plan->demand.c_order = true;
    type.depth = std::max(0, ndim - 1);
    std::copy_n(tensor->shape() + 1, type.depth, type.widths);
    return;
  }
  if (!type.bits && tensor->size > 0 && is_rows(ndim, tensor->shape(), tensor->strides())) {
    int32_t order[max_ndim];
    rows_order(ndim, tensor->shape(), tensor->strides(), order);
    // pyarrow 26 takes Arrow's permutation for its inverse: only where that is the same is it used.
    if (is_own_inverse(ndim, order)) std::copy_n(order, ndim, plan->order);
  }
  if (ndim < 2) return;
  type.tensor = true;
  type.depth = 1;
  type.axes = ndim - 1;
  type.widths[0] = 1;
  for (int32_t i = 0; i < type.axes; i++) {
    const int32_t axis = plan->order[i + 1];
    type.extents[i] = tensor->shape()[axis];
    type.permutation[axis - 1] = i;
    type.widths[0] *= type.extents[i];
  }
}

bool cannot_be(const Tensor* tensor, const char* why) {
  const Ref shape = Ref::steal(extents_tuple(tensor->shape(), tensor->ndim()));
  if (shape) {
    PyErr_Format(PyExc_BufferError,
                 "a tensor of the dtype %s and the shape %R cannot be handed out as the Arrow type "
                 "that is asked for: %s",
                 tensor->row().name, shape.get(), why);
  }
  return false;
}

/// Whether lists of such widths are the axes of a tensor's rows, some of them joined.
bool joins(const Tensor& tensor, const ExportType& type) {
  int32_t axis = 1;
  for (int32_t i = 0; i < type.depth; i++) {
    int64_t joined = 1;
    while (axis < tensor.ndim() && (joined < type.widths[i] || tensor.shape()[axis] == 1))
      joined *= tensor.shape()[axis++];
    if (joined != type.widths[i]) return false;
  }
  return axis == tensor.ndim();
}

/// Whether a requested dtype holds what the tensor does, as those who request one rely on. False
/// with an error set.
bool holds(const Tensor* tensor, DTypeId wanted) {
  const DTypeRow& row = dtype_table[wanted];
  if (tensor->size == 0 || !can_cast(tensor->row().dlpack, row.dlpack) ||
      always_keeps(tensor->dtype, wanted)) {
    return true;
  }
  char why[400];
  if (!host_memory(tensor->device)) {
    PyOS_snprintf(why, sizeof why,
                  "whether %s holds its values cannot be seen on a device; t.to(\"%s\") casts them "
                  "in any case",
                  row.name, row.name);
    return cannot_be(tensor, why);
  }
  int64_t strides[max_ndim], index[max_ndim];
  bit_strides(source_of(tensor), strides);
  const Side side{tensor->data, tensor->row().dlpack, false, tensor->padded, strides};
  Scalar value;
  bool lost;
  {
    const WithoutGil without(bytes_of(tensor->size, tensor->dtype, tensor->padded) >=
                             gil_free_bytes);
    lost = first_lost(side, tensor->ndim(), tensor->shape(), wanted, index, &value);
  }
  if (!lost) return true;
  const Ref place = Ref::steal(extents_tuple(index, tensor->ndim()));
  const Ref number = Ref::steal(number_of(value));
  const bool beyond = value.kind != Scalar::Kind::real && exact_integer_bits(wanted) != 0;
  const Ref text =
      place && number
          ? Ref::steal(PyUnicode_FromFormat(
                beyond
                    ? "the element at %R is %R, beyond the integers that %s holds without gaps; "
                      "t.to(\"%s\") rounds it"
                    : "the element at %R is %R, which %s does not hold; t.to(\"%s\") casts it in "
                      "any case",
                place.get(), number.get(), row.name, row.name))
          : Ref();
  const char* words = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
  return words != nullptr && cannot_be(tensor, words);
}

/// The type and layout that a requested schema says. False with an error set.
bool plan_requested(const Tensor* tensor, const ArrowSchema& schema, ExportPlan* plan) {
  ColumnType wanted;
  Objection objection;
  if (!parse_column(schema, true, &wanted, &objection)) return cannot_be(tensor, objection.text);
  ExportType& type = plan->type;
  type.dtype = wanted.dtype;
  type.bits = wanted.bits;
  plan->requested = &schema;
  plan->demand.bitmap = wanted.bits;
  plan->demand.c_order = true;
  if (wanted.dtype != tensor->dtype) {
    if (wanted.temporal) return cannot_be(tensor, "only integers of the same width become times");
    plan->demand.cast_to = wanted.dtype;
  }
  const int32_t ndim = tensor->ndim();
  for (int32_t i = 0; i < ndim; i++) plan->order[i] = i;
  bool same = wanted.ndim == ndim;
  bool permuted = false;
  int32_t axis = 1;
  for (int32_t i = 0; i < wanted.depth; i++) {
    const ColumnType::Node& node = wanted.nodes[i];
    if (node.level != Level::fixed && node.level != Level::tensor)
      return cannot_be(tensor, "candle makes lists of fixed size only");
    type.widths[type.depth++] = node.width;
    const int64_t* extents =
        node.level == Level::fixed ? &node.width : wanted.extents + node.first_axis;
    same = same && std::equal(extents, extents + node.axes, tensor->shape() + axis);
    if (same && node.level == Level::tensor) {
      const int64_t* strides = wanted.strides + node.first_axis;
      std::stable_sort(plan->order + axis, plan->order + axis + node.axes,
                       [=](int32_t a, int32_t b) { return strides[a - axis] > strides[b - axis]; });
    }
    permuted = permuted || node.level == Level::tensor;
    axis += node.axes;
  }
  if (wanted.ndim > axis)
    return cannot_be(tensor, "candle makes no binary data; view the elements as uint8");
  if (same || (!permuted && ndim > 0 && joins(*tensor, type))) return holds(tensor, wanted.dtype);
  return cannot_be(tensor, "its rows have other axes");
}

/// Reads `requested_schema`; nullptr, no error, where it is None.
const ArrowSchema* requested_in(PyObject* capsule) {
  if (capsule == Py_None) return nullptr;
  if (!PyCapsule_IsValid(capsule, arrow_names::schema)) {
    PyErr_Format(PyExc_TypeError, "requested_schema is None or a capsule \"%s\", not %R",
                 arrow_names::schema, capsule);
    return nullptr;
  }
  return static_cast<const ArrowSchema*>(PyCapsule_GetPointer(capsule, arrow_names::schema));
}

bool make_plan(const Tensor* tensor, PyObject* requested, bool lists, bool host_only,
               ExportPlan* plan) {
  plan->demand = arrow_demand(host_only);
  const ArrowSchema* schema = requested_in(requested);
  if (schema == nullptr) {
    if (PyErr_Occurred()) return false;
    plan_default(tensor, lists, plan);
    return true;
  }
  return plan_requested(tensor, *schema, plan);
}

/// The tensor with its axes in the order of a plan; itself where that is its own.
Ref in_order(Tensor* tensor, const int32_t* order) {
  const int32_t ndim = tensor->ndim();
  if (std::is_sorted(order, order + ndim)) return Ref::borrow(tensor->object());
  Tensor* view = new_view(tensor, ndim);
  if (view == nullptr) return {};
  for (int32_t i = 0; i < ndim; i++) {
    view->shape()[i] = tensor->shape()[order[i]];
    view->strides()[i] = tensor->strides()[order[i]];
  }
  return Ref::steal(view->object());
}

Ref schema_capsule(const ExportPlan& plan) {
  ArrowSchema* schema;
  Ref capsule = new_capsule(arrow_names::schema, &schema);
  if (!capsule) return {};
  const bool built = plan.requested != nullptr ? copy_schema(*plan.requested, schema)
                                               : build_schema(plan.type, schema);
  if (built) return capsule;
  PyErr_NoMemory();
  return {};
}

/// What a consumer has to wait for, as an event. False with an error set.
bool mark_end(Tensor* tensor, ExportEvent* event) {
  DeviceMemory* block = tensor->owner.device_memory();
  if (block == nullptr || block->idle()) return true;
  if (!cuda_memory(tensor->device)) return block->relay(Py_None);
  cuda::Stream stream = cuda::legacy_stream;
  if (!block->gather(&stream)) return false;
  event->device = tensor->device.device_id;
  const cuda::Result result = cuda::record_event(event->device, stream, &event->event);
  if (result == cuda::success) return true;
  cuda_failed("mark the end of the producer's work", result);
  return false;
}

/// Fills an array with a tensor's rows. False with an error set.
bool fill_array(Tensor* tensor, const ExportPlan& plan, CopyMode mode, ArrowArray* array,
                void** sync_event, DLDevice* device) {
  const int64_t rows = tensor->ndim() == 0 ? 0 : tensor->shape()[0];
  const Ref ordered = in_order(tensor, plan.order);
  if (!ordered) return false;
  Decision decision;
  const Ref meant =
      Ref::steal(conform(reinterpret_cast<Tensor*>(ordered.get()), plan.demand, mode, &decision));
  if (!meant) return false;
  auto* fit = reinterpret_cast<Tensor*>(meant.get());
  *device = fit->device;
  ExportEvent event;
  if (!mark_end(fit, &event)) return false;
  Owner owner = share_of(fit);
  if (owner && build_array(plan.type, rows, fit->data, std::move(owner), event, array, sync_event))
    return true;
  if (event.event != nullptr) cuda::destroy_event(event.device, event.event);
  if (!PyErr_Occurred()) PyErr_NoMemory();
  return false;
}

PyObject* export_pair(Tensor* tensor, const ExportPlan& plan, CopyMode mode) {
  const Ref schema = schema_capsule(plan);
  ArrowArray* array;
  const Ref capsule = schema ? new_capsule(arrow_names::array, &array) : Ref();
  void* unused;
  DLDevice host;
  if (!capsule || !fill_array(tensor, plan, mode, array, &unused, &host)) return nullptr;
  return PyTuple_Pack(2, schema.get(), capsule.get());
}

/// `requested_schema`, by position or keyword. False with an error set.
bool parse(const char* function, PyObject* const* args, Py_ssize_t nargs, PyObject* names,
           bool any_keyword, PyObject** requested) {
  if (nargs > 1) {
    PyErr_Format(PyExc_TypeError, "%s() takes at most one positional argument (%zd given)",
                 function, nargs);
    return false;
  }
  if (nargs == 1) *requested = args[0];
  for (Py_ssize_t i = 0; names != nullptr && i < PyTuple_GET_SIZE(names); i++) {
    PyObject* name = PyTuple_GET_ITEM(names, i);
    PyObject* value = args[nargs + i];
    if (PyUnicode_Compare(name, state.names.requested_schema) == 0) {
      *requested = value;
    } else if (!any_keyword) {
      PyErr_Format(PyExc_TypeError, "%s() got an unexpected keyword argument %R", function, name);
      return false;
    } else if (value != Py_None) {  // what the protocol may come to mean later
      PyErr_Format(PyExc_NotImplementedError, "%s() knows no keyword %R", function, name);
      return false;
    }
  }
  return true;
}

}  // namespace

const Demand& demand_of_arrow() noexcept {
  static const Demand demand = arrow_demand(true);
  return demand;
}

PyObject* arrow_c_array(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* names) {
  auto* tensor = reinterpret_cast<Tensor*>(self);
  PyObject* requested = Py_None;
  ExportPlan plan;
  if (!parse("__arrow_c_array__", args, nargs, names, false, &requested) ||
      !make_plan(tensor, requested, false, true, &plan)) {
    return nullptr;
  }
  return export_pair(tensor, plan, CopyMode::if_needed);
}

PyObject* arrow_c_device_array(PyObject* self, PyObject* const* args, Py_ssize_t nargs,
                               PyObject* names) {
  auto* tensor = reinterpret_cast<Tensor*>(self);
  PyObject* requested = Py_None;
  ExportPlan plan;
  if (!parse("__arrow_c_device_array__", args, nargs, names, true, &requested) ||
      !make_plan(tensor, requested, false, host_memory(tensor->device), &plan)) {
    return nullptr;
  }
  const Ref schema = schema_capsule(plan);
  ArrowDeviceArray* array;
  const Ref capsule = schema ? new_capsule(arrow_names::device_array, &array) : Ref();
  DLDevice device;
  if (!capsule ||
      !fill_array(tensor, plan, CopyMode::if_needed, &array->array, &array->sync_event, &device)) {
    return nullptr;
  }
  const bool host = host_memory(device);
  array->device_type = host ? kDLCPU : device.device_type;
  array->device_id = host ? -1 : device.device_id;
  return PyTuple_Pack(2, schema.get(), capsule.get());
}

PyObject* arrow_c_schema(PyObject* self, PyObject*) {
  auto* tensor = reinterpret_cast<Tensor*>(self);
  ExportPlan plan;
  if (!make_plan(tensor, Py_None, false, false, &plan)) return nullptr;
  // Of what the move would be refused, there is no schema either.
  DryRun dry;
  if (!conform_dry(tensor, plan.demand, CopyMode::if_needed, &dry)) return nullptr;
  return schema_capsule(plan).release();
}

PyObject* arrow_capsules(PyObject*, PyObject* args) {
  PyObject *object, *requested, *copy;
  int lists;
  if (!PyArg_ParseTuple(args, "OOpO:arrow_capsules", &object, &requested, &lists, &copy))
    return nullptr;
  Tensor* tensor = tensor_argument(object);
  CopyMode mode;
  ExportPlan plan;
  if (tensor == nullptr || !parse_copy(copy, &mode) ||
      !make_plan(tensor, requested, lists != 0, true, &plan)) {
    return nullptr;
  }
  return export_pair(tensor, plan, mode);
}

}  // namespace candle
