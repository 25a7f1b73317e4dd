#include "copying.h"

#include <algorithm>

#include "arrow_bits.h"
#include "move.h"

namespace candle {

void bit_strides(const Source& source, int64_t* strides) noexcept {
  for (int32_t i = 0; i < source.ndim; i++) {  // an axis nobody walks may have any stride
    strides[i] = source.shape[i] > 1 && source.size > 0 ? source.strides[i] * source.unit : 0;
  }
}

bool run_copy(const Side& dst, const Side& src, int32_t ndim, const int64_t* shape,
              int64_t nbytes) noexcept {
  CopyStatus status;
  {
    const WithoutGil without(nbytes >= gil_free_bytes);
    status = copy(dst, src, ndim, shape);
  }
  if (status == CopyStatus::no_memory) PyErr_NoMemory();
  if (status == CopyStatus::no_cast) {
    PyErr_Format(PyExc_BufferError, "%s does not become %s", dtype_table[dtype_id(src.dtype)].name,
                 dtype_table[dtype_id(dst.dtype)].name);
  }
  return status == CopyStatus::ok;
}

bool writable(const Tensor* dst) noexcept {
  if (dst->read_only) {
    PyErr_SetString(PyExc_ValueError,
                    "the tensor is read-only; t.copy() gives one that can be written");
    return false;
  }
  const int32_t axis =
      dst->size == 0 ? -1 : overlapping_axis(dst->ndim(), dst->shape(), dst->strides());
  if (axis >= 0) {
    PyErr_Format(PyExc_ValueError,
                 "axis %d has stride 0: its %lld elements are one and the same memory; write to "
                 "t.copy() instead",
                 axis, static_cast<long long>(dst->shape()[axis]));
    return false;
  }
  return true;
}

bool decide_write(const Tensor* dst, const Source& source, Demand* demand,
                  Decision* decision) noexcept {
  demand->host_only = false;
  demand->somewhere = true;
  demand->device = dst->device;
  demand->cast_to = dst->dtype;
  *decision = decide(source, *demand, CopyMode::always);
  decision->nbytes = bytes_of(dst->size, dst->dtype, dst->padded);
  if (decision->action == Action::refuse) return true;
  int64_t unused[max_ndim];
  if (broadcast_strides(source.ndim, source.shape, source.strides, dst->ndim(), dst->shape(),
                        unused)) {
    return true;
  }
  const Ref from = Ref::steal(extents_tuple(source.shape, source.ndim));
  const Ref to = Ref::steal(extents_tuple(dst->shape(), dst->ndim()));
  if (from && to) {
    PyErr_Format(PyExc_ValueError, "shape %R does not broadcast to shape %R", from.get(), to.get());
  }
  return false;
}

bool write_source(Tensor* dst, const Source& source) noexcept {
  int64_t from_strides[max_ndim], to_strides[max_ndim];
  broadcast_strides(source.ndim, source.shape, source.strides, dst->ndim(), dst->shape(),
                    from_strides);
  bit_strides(source_of(dst), to_strides);
  for (int32_t i = 0; i < dst->ndim(); i++) {  // an axis nobody walks may have any stride
    from_strides[i] = dst->shape()[i] > 1 && dst->size > 0 ? from_strides[i] * source.unit : 0;
  }
  const Side to{dst->data, dst->row().dlpack, false, dst->padded, to_strides};
  const Side from{source.data, dtype_table[source.dtype].dlpack, source.swapped, source.padded,
                  from_strides};
  return run_copy(to, from, dst->ndim(), dst->shape(),
                  bytes_of(dst->size, dst->dtype, dst->padded));
}

bool check_copy_into(const Tensor* dst, const Tensor* src) noexcept {
  const Source source = source_of(src);
  Demand demand;
  Decision decision;
  if (!decide_write(dst, source, &demand, &decision)) return false;
  if (decision.action == Action::refuse) refuse({decision, source, demand, state.tensor_type});
  return decision.action != Action::refuse;
}

bool copy_into(Tensor* dst, Tensor* src) noexcept {
  if (!writable(dst)) return false;
  const Source source = source_of(src);
  Demand demand;
  Decision decision;
  if (!decide_write(dst, source, &demand, &decision)) return false;
  const Move move{decision, source, demand, state.tensor_type};
  if (decision.action == Action::refuse) {
    refuse(move);
    return false;
  }
  Recording recording(move);
  return recording.allowed() &&
         recording.done(moves_on_devices(source, dst) ? device_write(dst, src)
                                                      : write_source(dst, source));
}

namespace {

/// Turns the sign of numbers that lie next to each other: of all, or of every second one, which are
/// imaginary parts.
template <typename Bits>
void turn_signs(std::byte* data, int64_t count, bool even, bool odd) {
  constexpr Bits sign = Bits{1} << (8 * sizeof(Bits) - 1);
  auto* numbers = reinterpret_cast<Bits*>(data);
  for (int64_t i = 0; i < count; i++) numbers[i] ^= (i % 2 == 0 ? even : odd) ? sign : Bits{0};
}

/// Gives a fresh copy of a conjugate or negative view the values of the view.
void apply_signs(Tensor* fresh, ReasonSet reasons) {
  const bool neg = (reasons & bit(Reason::neg_bit)) != 0;
  const bool conj = (reasons & bit(Reason::conj_bit)) != 0;
  const bool is_complex = fresh->row().kind == Kind::complex_number;
  const int64_t count = is_complex ? 2 * fresh->size : fresh->size;
  const bool odd = is_complex ? neg != conj : neg;
  switch (fresh->bits() / (is_complex ? 2 : 1)) {
    case 16:
      return turn_signs<uint16_t>(fresh->data, count, neg, odd);
    case 32:
      return turn_signs<uint32_t>(fresh->data, count, neg, odd);
    default:
      return turn_signs<uint64_t>(fresh->data, count, neg, odd);
  }
}

}  // namespace

namespace {

/// Booleans as bits, in row-major order: a vector of bytes. Gathered some rows at a time.
PyObject* bits_of(const Source& source, const Demand& demand) {
  const int64_t bytes[] = {(source.size + 7) / 8};
  Tensor* result = allocate(state.tensor_type, id_uint8, 1, bytes);
  if (result == nullptr) return nullptr;
  Ref owned = Ref::steal(result->object());
  if (source.size == 0) return owned.release();
  if (source.dtype == id_bool && is_c_contiguous(source.ndim, source.shape, source.strides)) {
    const WithoutGil without(source.size >= gil_free_bytes);
    pack_bits(source.data, source.size, result->data);
    return owned.release();
  }
  // Eight rows at least, so that no byte has bits of two blocks.
  const int64_t row = source.size / source.shape[0];
  const int64_t block = 8 * std::max<int64_t>(1, gil_free_bytes / 8 / row);
  Demand plain = demand;
  plain.bitmap = false;
  Source some = source;
  int64_t shape[max_ndim];
  std::copy_n(source.shape, source.ndim, shape);
  some.shape = shape;
  std::byte* bits = result->data;
  for (int64_t at = 0; at < source.shape[0]; at += block) {
    shape[0] = std::min(block, source.shape[0] - at);
    some.size = shape[0] * row;
    some.data = source.data + at * source.strides[0] * source.unit / 8;
    const Ref part = Ref::steal(copy_of(state.tensor_type, some, plain));
    if (!part) return nullptr;
    pack_bits(reinterpret_cast<Tensor*>(part.get())->data, some.size, bits);
    bits += some.size / 8;
  }
  return owned.release();
}

}  // namespace

PyObject* copy_of(PyTypeObject* type, const Source& source, const Demand& demand) noexcept {
  const DTypeId dtype = demand.cast_to == unknown_dtype ? source.dtype : demand.cast_to;
  if (demand.bitmap && dtype == id_bool) return bits_of(source, demand);
  const ReasonSet signs = source.reasons & sign_reasons;
  if (signs != 0 && dtype != source.dtype) {  // signs first: a cast may saturate
    Demand same = demand;
    same.cast_to = unknown_dtype;
    const Ref resolved = Ref::steal(copy_of(state.tensor_type, source, same));
    return resolved ? copy_of(type, source_of(reinterpret_cast<Tensor*>(resolved.get())), demand)
                    : nullptr;
  }
  const bool padded = !demand.packed && dtype_table[dtype].dlpack.bits < 8;
  const size_t alignment = std::max<size_t>(256, demand.alignment);
  Tensor* result = allocate(type, dtype, source.ndim, source.shape, alignment, padded);
  if (result == nullptr) return nullptr;
  Ref owned = Ref::steal(result->object());
  if (!write_source(result, source)) return nullptr;
  if (signs != 0) apply_signs(result, signs);
  return owned.release();
}

bool device_write(Tensor* dst, Tensor* src) noexcept {
  const Quiet steps;
  return static_cast<bool>(Ref::steal(PyObject_CallFunctionObjArgs(
      state.hooks.device_write, dst->object(), src->object(), nullptr)));
}

PyObject* device_empty(DTypeId dtype, int32_t ndim, const int64_t* shape,
                       DLDevice device) noexcept {
  const Ref extents = Ref::steal(extents_tuple(shape, ndim));
  if (!extents) return nullptr;
  return PyObject_CallFunction(state.hooks.device_empty, "OOi", extents.get(), dtype_object(dtype),
                               static_cast<int>(device.device_id));
}

PyObject* device_copy(Tensor* tensor, const Demand& demand) noexcept {
  const Quiet steps;
  const DLDevice device = copied_to(source_of(tensor), demand);
  PyObject* dtype = demand.cast_to == unknown_dtype ? Py_None : dtype_object(demand.cast_to);
  Ref result = Ref::steal(PyObject_CallFunction(
      state.hooks.device_copy, "OO(ii)K", tensor->object(), dtype,
      static_cast<int>(device.device_type), static_cast<int>(device.device_id),
      static_cast<unsigned long long>(demand.stream)));
  if (!result) return nullptr;
  if (Tensor* made = as_tensor(result.get())) {
    const bool bits = demand.bitmap && made->dtype == id_bool;
    if (!bits && (made->bits() >= 8 || demand.packed)) return result.release();
    if (host_memory(made->device)) return copy_of(state.tensor_type, source_of(made), demand);
    PyErr_Format(PyExc_BufferError,
                 "%s takes %s elements %s, which nobody makes on a device; copy them to the CPU "
                 "first, t.to('cpu')",
                 demand.consumer, made->row().name, bits ? "eight to a byte" : "one a byte");
    return nullptr;
  }
  PyErr_Format(PyExc_TypeError, "the copy on the device is %s, not a Tensor",
               Py_TYPE(result.get())->tp_name);
  return nullptr;
}

namespace {

/// A tensor as what an export begins with.
Source export_source(const Tensor* tensor, const Demand& demand) {
  Source source = source_of(tensor);
  source.route = demand.route;
  return source;
}

[[gnu::noinline]] PyObject* settle(Tensor* tensor, const Demand& demand, CopyMode mode,
                                   Decision* decision) {
  const Source source = export_source(tensor, demand);
  *decision = decide(source, demand, mode);
  if (decision->action == Action::share && !watched()) return Py_NewRef(tensor->object());
  const Move move{*decision, source, demand, state.tensor_type};
  if (decision->action == Action::refuse) {
    refuse(move);
    return nullptr;
  }
  Recording recording(move);
  if (!recording.allowed()) return nullptr;
  // A copy that the consumer makes is told of here, and made there.
  constexpr ReasonSet theirs = bit(Reason::consumer_copies) | bit(Reason::requested);
  const bool here =
      (decision->reasons & ~theirs) != 0 || (decision->reasons & bit(Reason::consumer_copies)) == 0;
  if (decision->action == Action::share || !here)
    return recording.done(Py_NewRef(tensor->object()));
  return recording.done(moves_on_devices(source, demand)
                            ? device_copy(tensor, demand)
                            : copy_of(state.tensor_type, source, demand));
}

}  // namespace

bool conform_dry(const Tensor* tensor, const Demand& demand, CopyMode mode, DryRun* dry) noexcept {
  const Source source = export_source(tensor, demand);
  const Decision decision = decide(source, demand, mode);
  return plan_of({decision, source, demand, state.tensor_type}, dry);
}

PyObject* conform(Tensor* tensor, const Demand& demand, CopyMode mode,
                  Decision* decision) noexcept {
  if (mode != CopyMode::always && plainly_shares(source_of(tensor), demand) && !watched()) {
    *decision = {};
    return Py_NewRef(tensor->object());
  }
  return settle(tensor, demand, mode, decision);
}

}  // namespace candle
