#include "validate.h"

#include <cinttypes>
#include <cstdio>

#include "layout.h"

namespace candle {

namespace {

template <typename... Values>
bool say(Fact* fact, const char* format, Values... values) {
  if constexpr (sizeof...(values) == 0) {
    std::snprintf(fact->text, sizeof fact->text, "%s", format);
  } else {
    std::snprintf(fact->text, sizeof fact->text, format, values...);
  }
  return false;
}

/// The first page is never mapped: a pointer into it is NULL with something added.
constexpr uintptr_t first_page = 4096;

/// Looks closely at what the quick look could not accept. Fills `size`; false with the words of
/// what is wrong.
bool look_closely(const DLTensor& tensor, DTypeId dtype, bool padded, int64_t* size, Fact* wrong) {
  const int32_t ndim = tensor.ndim;
  for (int32_t i = 0; i < ndim; i++) {
    if (tensor.shape[i] < 0)
      return say(wrong, "axis %d has the extent %" PRId64, i, tensor.shape[i]);
  }
  *size = count_elements(ndim, tensor.shape);
  if (*size < 0 || bytes_of(*size, dtype, padded) < 0)
    return say(wrong, "its size does not fit 63 bits");
  if (*size == 0) return true;
  Span span = {0, *size - 1};
  int64_t low, high;
  const int bits = item_bits(tensor.dtype, padded);
  if ((tensor.strides != nullptr && !element_span(ndim, tensor.shape, tensor.strides, &span)) ||
      __builtin_mul_overflow(span.high, bits, &high) ||
      __builtin_mul_overflow(span.low, bits, &low)) {
    return say(wrong, "its strides reach beyond the address space");
  }
  // Whether the first element itself has an address is looked at further on.
  const auto first = reinterpret_cast<uintptr_t>(tensor.data) + tensor.byte_offset;
  uintptr_t end;
  if (first < static_cast<uintptr_t>(-(low / 8)) ||
      __builtin_add_overflow(first, static_cast<uintptr_t>(high / 8 + bits / 8), &end)) {
    return say(wrong, "its elements reach beyond the address space from 0x%" PRIxPTR " on", first);
  }
  return true;
}

/// Whether extents, strides and their products are all below 2**31 and none is negative, so that
/// nothing can overflow; then `size` is right. Most tensors are so.
bool quick_look(int32_t ndim, const int64_t* shape, const int64_t* strides, int64_t* size) {
  uint64_t count = 1;
  uint64_t bits = 0;  // a product of two numbers that set no bit from 31 on is exact
  for (int32_t i = 0; i < ndim; i++) {
    const auto extent = static_cast<uint64_t>(shape[i]);
    const auto stride = static_cast<uint64_t>(strides[i]);
    count *= extent;
    bits |= extent | stride | count | extent * stride;
  }
  *size = static_cast<int64_t>(count);
  return bits >> 31 == 0 && count > 0;
}

/// Where an address may lie so that what a quick look accepts, elements of 16 bytes at most, ends
/// before the address space does.
constexpr uintptr_t last = UINTPTR_MAX - 16 * (uintptr_t{max_ndim} << 31);

bool no_memory(const DLTensor& tensor, int64_t size, Fact* wrong) {
  const auto data = reinterpret_cast<uintptr_t>(tensor.data);
  if (data == 0) return say(wrong, "it has %" PRId64 " elements and no memory (NULL)", size);
  if (data < first_page) {
    return say(wrong,
               "it has %" PRId64 " elements and no memory (the address 0x%" PRIxPTR
               " lies in the page at NULL)",
               size, data);
  }
  return say(wrong,
             "its address 0x%" PRIxPTR " with byte_offset %" PRIu64
             " leads out of the address space",
             data, tensor.byte_offset);
}

}  // namespace

bool validate(const DLTensor& tensor, uint64_t flags, Source* source, int64_t* spare,
              Fact* wrong) noexcept {
  const int32_t ndim = tensor.ndim;
  if (ndim < 0 || ndim > max_ndim) {
    return say(wrong, "it has %d axes; candle holds 0 to %d", ndim, max_ndim);
  }
  if (ndim > 0 && tensor.shape == nullptr)
    return say(wrong, "it has %d axes and no shape (NULL)", ndim);
  const DTypeId dtype = dtype_id(tensor.dtype);
  if (dtype == unknown_dtype) {
    return say(wrong, "candle has no dtype with DLPack code %u, %u bits and %u lanes",
               tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes);
  }
  if (tensor.device.device_type != kDLCPU &&
      (tensor.device.device_type <= 0 || tensor.device.device_id < 0)) {
    return say(wrong, "there is no DLPack device (%d, %d)",
               static_cast<int>(tensor.device.device_type),
               static_cast<int>(tensor.device.device_id));
  }
  const bool padded =
      (flags & DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED) != 0 && tensor.dtype.bits < 8;
  const int64_t* strides = tensor.strides;
  int64_t size;
  if (strides == nullptr || !quick_look(ndim, tensor.shape, strides, &size)) {
    if (!look_closely(tensor, dtype, padded, &size, wrong)) return false;
    if (strides == nullptr || size == 0) {
      compact_strides(ndim, tensor.shape, spare);
      strides = spare;
    }
  }
  auto address = reinterpret_cast<uintptr_t>(tensor.data);
  if (size > 0) {
    const bool wraps = __builtin_add_overflow(address, tensor.byte_offset, &address);
    const bool far = static_cast<int64_t>(tensor.byte_offset) < 0;
    if (reinterpret_cast<uintptr_t>(tensor.data) < first_page || wraps || far || address > last) {
      return no_memory(tensor, size, wrong);
    }
  }
  source->data = reinterpret_cast<std::byte*>(address);
  source->size = size;
  source->shape = tensor.shape;
  source->strides = strides;
  source->unit = item_bits(tensor.dtype, padded);
  source->ndim = ndim;
  source->device = tensor.device;
  source->dtype = dtype;
  source->padded = padded;
  source->read_only = (flags & DLPACK_FLAG_BITMASK_READ_ONLY) != 0;
  return true;
}

}  // namespace candle
