#include "validate.h"

#include <cinttypes>
#include <cstdio>

#include "layout.h"

namespace candle {

namespace {

template <typename... Values>
bool say(Fact* fact, const char* format, Values... values) {
  std::snprintf(fact->text, sizeof fact->text, format, values...);
  return false;
}

}  // namespace

bool validate(const DLTensor& tensor, uint64_t flags, Source* source, int64_t* spare, Fact* wrong) noexcept {
  const int32_t ndim = tensor.ndim;
  if (ndim < 0 || ndim > max_ndim) {
    return say(wrong, "it has %d axes; candle holds 0 to %d", ndim, max_ndim);
  }
  if (ndim > 0 && tensor.shape == nullptr) return say(wrong, "it has %d axes and no shape (NULL)", ndim);
  const DTypeId dtype = dtype_id(tensor.dtype);
  if (dtype == unknown_dtype) {
    return say(wrong, "candle has no dtype with DLPack code %u, %u bits and %u lanes", tensor.dtype.code,
                 tensor.dtype.bits, tensor.dtype.lanes);
  }
  for (int32_t i = 0; i < ndim; i++) {
    if (tensor.shape[i] < 0) return say(wrong, "axis %d has the extent %" PRId64, i, tensor.shape[i]);
  }
  const int64_t size = count_elements(ndim, tensor.shape);
  const bool padded = (flags & DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED) != 0 && tensor.dtype.bits < 8;
  if (size < 0 || bytes_of(size, dtype, padded) < 0) return say(wrong, "its size does not fit 63 bits");
  if (size > 0 && tensor.data == nullptr) {
    return say(wrong, "it has %" PRId64 " elements and no memory (NULL)", size);
  }
  const int64_t* strides = tensor.strides;
  if (strides == nullptr || size == 0) {
    compact_strides(ndim, tensor.shape, spare);
    strides = spare;
  }
  Span span;
  const int bits = item_bits(tensor.dtype, padded);
  int64_t reach;
  if (!element_span(ndim, tensor.shape, strides, &span) ||
      __builtin_mul_overflow(span.high, bits, &reach) || __builtin_mul_overflow(span.low, bits, &reach)) {
    return say(wrong, "its strides reach beyond the address space");
  }
  source->data = static_cast<std::byte*>(tensor.data);
  if (source->data != nullptr) source->data += tensor.byte_offset;
  source->size = size;
  source->shape = tensor.shape;
  source->strides = strides;
  source->unit = bits;
  source->ndim = ndim;
  source->device = tensor.device;
  source->dtype = dtype;
  source->padded = padded;
  source->read_only = (flags & DLPACK_FLAG_BITMASK_READ_ONLY) != 0;
  return true;
}

}  // namespace candle
