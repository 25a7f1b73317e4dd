#include "decide.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <string_view>

#include "cast.h"
#include "layout.h"

namespace candle {

namespace {

uintptr_t natural_alignment(DTypeId dtype) { return detail::items.of[dtype].misalignment + 1; }

/// Whether a byte stride is no multiple of the item. Axes of extent 1 may have any stride.
bool has_odd_stride(const Source& source, int64_t between) {
  int64_t seen = 0;
  for (int32_t i = 0; i < source.ndim; i++) seen |= source.strides[i];
  if ((seen & between) == 0) return false;
  for (int32_t i = 0; i < source.ndim; i++) {
    if ((source.strides[i] & between) != 0 && source.shape[i] > 1) return true;
  }
  return false;
}

bool has_negative(const Source& source) {
  return negative_axis(source.ndim, source.shape, source.strides) >= 0;
}

/// The source's strides in elements. Only where they divide.
struct ElementStrides {
  int64_t values[max_ndim];
  explicit ElementStrides(const Source& source) {
    const int bits = item_bits(dtype_table[source.dtype].dlpack, source.padded);
    for (int32_t i = 0; i < source.ndim; i++) {  // an axis nobody walks may have any stride
      values[i] = source.shape[i] > 1 ? source.strides[i] * source.unit / bits : 1;
    }
  }
};

/// The elements of a row, or of the lists within, which have room for none at all too.
int64_t row_elements(const Source& source) {
  int64_t row = 1, widest = 0;
  for (int32_t i = 1; i < source.ndim; i++) {
    row *= source.shape[i];
    widest = std::max(widest, source.shape[i]);
  }
  return std::max(row, widest);
}

/// Whether the axes of a row lie in an order that means another read the other way round.
bool is_turned(const Source& source, const int64_t* strides) {
  int32_t order[max_ndim];
  rows_order(source.ndim, source.shape, strides, order);
  return !is_own_inverse(source.ndim, order);
}

/// Whether a Demand is the caller's own: candle's, or one of its functions'.
bool is_asked_for(std::string_view consumer) {
  return consumer == "candle" || consumer.ends_with("()");
}

const char* dtype_name(DTypeId dtype) {
  return dtype == unknown_dtype ? "of unknown dtype" : dtype_table[dtype].name;
}

}  // namespace

int64_t bytes_of(int64_t size, DTypeId dtype, bool padded) noexcept {
  int64_t bits;
  if (__builtin_mul_overflow(size, item_bits(dtype_table[dtype].dlpack, padded), &bits)) return -1;
  return bits / 8 + (bits % 8 != 0);
}

Decision decide(const Source& source, const Demand& demand, CopyMode mode) noexcept {
  const detail::Item& item = detail::items.of[source.dtype];
  const DTypeId result = demand.cast_to == unknown_dtype ? source.dtype : demand.cast_to;
  ReasonSet reasons = source.reasons;
  const auto note = [&reasons](bool found, Reason reason) {
    reasons |= ReasonSet{found} << static_cast<int>(reason);
  };

  note(mode == CopyMode::always, Reason::requested);
  const bool from_pairs = dtype_table[source.dtype].kind == Kind::pair;
  const bool to_pairs = dtype_table[result].kind == Kind::pair;
  note((demand.dtypes >> result & 1) == 0, to_pairs ? Reason::pairs : Reason::dtype_unknown);
  note((demand.narrows >> result & 1) != 0, Reason::would_narrow);
  const bool on_host = host_memory(source.device);
  const bool to_host = host_memory(demand.device);
  const bool elsewhere =
      demand.somewhere && !same_device(source.device, demand.device) && !(on_host && to_host);
  note((demand.host_only && !on_host) || elsewhere, Reason::device);
  note(demand.copies && source.size > 0, Reason::consumer_copies);
  note(source.ndim < demand.least_axes || source.ndim > demand.most_axes, Reason::axes);
  note(source.swapped, Reason::byte_order);
  note(source.read_only && !demand.read_only, Reason::read_only);
  if (result != source.dtype) {
    note(true, Reason::dtype);
    note(!can_cast(dtype_table[source.dtype].dlpack, dtype_table[result].dlpack),
         from_pairs || to_pairs ? Reason::pairs : Reason::no_cast);
  }
  if (item.bits < 8) note(source.padded ? !demand.padded : !demand.packed, Reason::packed);
  note(demand.rows && source.ndim == 0, Reason::no_axes);
  note(demand.bitmap && result == id_bool, Reason::bitmap);
  // Lists of fixed size count their items in 31 bits.
  note(demand.rows && row_elements(source) > INT32_MAX, Reason::long_rows);
  if (source.size > 0) {
    const auto address = reinterpret_cast<uintptr_t>(source.data);
    note((address & item.misalignment) != 0, Reason::misaligned);
    note((address & (demand.alignment - 1)) != 0, Reason::alignment);
    const bool odd = source.unit != item.bits && has_odd_stride(source, item.between);
    note(odd, Reason::odd_stride);
    note(!demand.negative_strides && has_negative(source), Reason::negative_stride);
    if ((demand.c_order || demand.dense || demand.rows) && !odd) {
      const ElementStrides strides(source);
      if (demand.rows && source.ndim > 0) {
        const bool rows = is_rows(source.ndim, source.shape, strides.values);
        note(!rows, Reason::not_dense);
        note(rows && !demand.c_order && is_turned(source, strides.values), Reason::permuted);
      }
      note(demand.c_order && !is_c_contiguous(source.ndim, source.shape, strides.values),
           Reason::order);
      note(demand.dense && !is_dense(source.ndim, source.shape, strides.values), Reason::not_dense);
    }
  }

  if (reasons == 0) return {source.route, Action::share, 0, 0};
  const auto copied_to = demand.somewhere ? demand.device : source.device;
  note(!(on_host || source.device.device_type == kDLCUDA) ||
           !(host_memory(copied_to) || copied_to.device_type == kDLCUDA),
       Reason::foreign_device);
  const bool refused = (reasons & fatal_reasons) != 0 || mode == CopyMode::never;
  const bool bits = demand.bitmap && result == id_bool;
  return {source.route, refused ? Action::refuse : Action::copy, reasons,
          bits ? (source.size + 7) / 8 : bytes_of(source.size, result, !demand.packed)};
}

Fact describe(Reason reason, const Source& source, const Demand& demand) noexcept {
  Fact fact;
  const auto say = [&fact](const char* format, auto... values) {
    if constexpr (sizeof...(values) == 0) {
      std::snprintf(fact.text, sizeof fact.text, "%s", format);
    } else {
      std::snprintf(fact.text, sizeof fact.text, format, values...);
    }
  };
  const char* name = dtype_name(source.dtype);
  const char* wanted = dtype_name(demand.cast_to == unknown_dtype ? source.dtype : demand.cast_to);
  const char* consumer = demand.consumer;
  const auto address = reinterpret_cast<uintptr_t>(source.data);
  switch (reason) {
    case Reason::requested:
      say("a copy was asked for (copy=True)");
      break;
    case Reason::dtype:
      say("the elements are %s and %s was asked for", name, wanted);
      break;
    case Reason::order:
      if (is_asked_for(consumer)) {
        say("the elements do not lie in row-major order without gaps, which was asked for");
      } else {
        say("the elements do not lie in row-major order without gaps, as %s takes them", consumer);
      }
      break;
    case Reason::byte_order:
      say("the %s elements lie in the byte order of another machine", name);
      break;
    case Reason::misaligned:
      say("the address 0x%" PRIxPTR " is not a multiple of %d, the alignment of %s", address,
          static_cast<int>(natural_alignment(source.dtype)), name);
      break;
    case Reason::odd_stride:
      for (int32_t i = 0; i < source.ndim; i++) {
        if (source.shape[i] > 1 &&
            source.strides[i] % item_bytes(dtype_table[source.dtype].dlpack) != 0) {
          say("axis %d has a stride of %" PRId64 " bytes, no multiple of the %d bytes of %s", i,
              source.strides[i], item_bytes(dtype_table[source.dtype].dlpack), name);
          break;
        }
      }
      break;
    case Reason::negative_stride: {
      const int32_t axis = negative_axis(source.ndim, source.shape, source.strides);
      say("axis %d has stride %" PRId64 ", and %s takes no negative strides", axis,
          source.strides[axis], consumer);
      break;
    }
    case Reason::read_only:
      say("the memory is read-only, and %s would be free to write to it", consumer);
      break;
    case Reason::not_dense:
      say("the elements have gaps between them or overlap, and %s takes only dense memory",
          consumer);
      break;
    case Reason::alignment:
      say("the address 0x%" PRIxPTR " is not a multiple of %u, as %s needs it", address,
          demand.alignment, consumer);
      break;
    case Reason::conj_bit:
      say("the tensor is a conjugate view: its memory holds the conjugates of its values");
      break;
    case Reason::neg_bit:
      say("the tensor is a negative view: its memory holds its values with the other sign");
      break;
    case Reason::packed:
      say(source.padded ? "the %s elements take a byte each, and %s takes them packed"
                        : "the %s elements are packed, several to a byte, and %s takes one a byte",
          name, consumer);
      break;
    case Reason::no_export:
      say("%s elements leave their framework as a copy only", name);
      break;
    case Reason::consumer_copies:
      say("%s makes a copy of whatever it is given", consumer);
      break;
    case Reason::producer_copies:
      say("%s", source.copied);
      break;
    case Reason::axes:
      say("the tensor has %d axes, and %s takes %d to %d", source.ndim, consumer, demand.least_axes,
          demand.most_axes);
      break;
    case Reason::dtype_unknown: {
      const bool by_capsule =
          demand.route == Route::dlpack_versioned || demand.route == Route::dlpack_legacy;
      say(by_capsule ? "%s has no %s that it takes as foreign memory" : "%s has no %s", consumer,
          wanted);
      break;
    }
    case Reason::would_narrow:
      say("%s would make %s smaller", consumer, wanted);
      break;
    case Reason::device:
      if (demand.somewhere) {
        say("the memory is on DLPack device (%d, %d), and (%d, %d) was asked for",
            static_cast<int>(source.device.device_type), static_cast<int>(source.device.device_id),
            static_cast<int>(demand.device.device_type), static_cast<int>(demand.device.device_id));
      } else {
        say("the memory is on DLPack device (%d, %d), and %s takes the host's",
            static_cast<int>(source.device.device_type), static_cast<int>(source.device.device_id),
            consumer);
      }
      break;
    case Reason::foreign_device:
      say("candle copies on the CPU and on CUDA devices, and the move is from DLPack device (%d, "
          "%d) "
          "to (%d, %d)",
          static_cast<int>(source.device.device_type), static_cast<int>(source.device.device_id),
          static_cast<int>((demand.somewhere ? demand.device : source.device).device_type),
          static_cast<int>((demand.somewhere ? demand.device : source.device).device_id));
      break;
    case Reason::python_values:
      say("the elements are Python objects, each in a place of its own, not one block of memory");
      break;
    case Reason::bitmap:
      say(demand.bitmap ? "the booleans take a byte each, and %s takes them as bits"
                        : "the booleans are bits, eight to a byte",
          consumer);
      break;
    case Reason::permuted:
      say("the axes of a row lie in an order that some consumers of Arrow read the other way "
          "round");
      break;
    case Reason::chunks:
      say("the elements lie in %" PRId64 " chunks", source.parts->chunks);
      break;
    case Reason::columns:
      say("the elements lie in %" PRId64 " columns, each in a block of its own",
          source.parts->columns);
      break;
    case Reason::filled:
      say("%" PRId64 " null%s to be filled", source.parts->nulls,
          source.parts->nulls == 1 ? " is" : "s are");
      break;
    case Reason::requires_grad:
      say("the tensor requires grad, and candle records no gradients");
      break;
    case Reason::no_cast:
      say("%s does not become %s: that would lose what it means", name, wanted);
      break;
    case Reason::pairs:
      if (demand.cast_to == unknown_dtype || demand.cast_to == source.dtype) {
        say("%s has no %s", consumer, wanted);
      } else {
        say("%s does not become %s: an element is a pair of numbers", name, wanted);
      }
      break;
    case Reason::no_axes:
      say("the tensor has no axes, and %s takes rows", consumer);
      break;
    case Reason::long_rows:
      say("a row has %" PRId64 " elements, and %s takes at most %d", row_elements(source), consumer,
          INT32_MAX);
      break;
    case Reason::count:
      say("no reason");
      break;
  }
  return fact;
}

}  // namespace candle
