// What a schema's metadata says of an extension type. No Python here.
#pragma once

#include <string_view>

#include "arrow_schema.h"

namespace candle {

struct Extension {
  std::string_view name;  // empty: none
  std::string_view metadata;
};

/// Finds the extension in a metadata block, which has no length of its own: one that claims more
/// than `most_metadata` bytes is not believed, and nothing beyond what it claims is read. False
/// with an objection.
inline constexpr int64_t most_metadata = 1 << 20;
bool read_extension(const char* metadata, Extension* extension, Objection* objection) noexcept;

/// The metadata of `arrow.fixed_shape_tensor`.
struct TensorMetadata {
  int32_t ndim = 0;
  int64_t shape[max_ndim];        // as the elements lie
  int32_t permutation[max_ndim];  // axis i of the tensor is axis permutation[i] of `shape`
};
bool parse_tensor_metadata(std::string_view json, TensorMetadata* tensor,
                           Objection* objection) noexcept;

/// The metadata of `arrow.opaque`: the names, cut from the text. Names with escapes are none of
/// candle's, and come as they stand.
struct OpaqueMetadata {
  std::string_view type_name, vendor_name;
};
bool parse_opaque_metadata(std::string_view json, OpaqueMetadata* opaque,
                           Objection* objection) noexcept;

}  // namespace candle
