// Is a producer's DLTensor possible at all? No Python here.
#pragma once

#include <dlpack/dlpack.h>

#include "decide.h"

namespace candle {

/// Fills `source` from a producer's description if it is sound; else false, and `wrong` says why
/// not.
///
/// Refused: a negative rank or one above `max_ndim`, negative extents, sizes beyond 63 bits, no
/// shape, an unknown dtype or lanes, no data although there are elements, a byte_offset or strides
/// that reach beyond the address space or around it, a packed element off its byte. Strides that
/// are absent are row-major: they are written to `spare`, which has `max_ndim` places. `flags` are
/// those of a versioned struct.
bool validate(const DLTensor& tensor, uint64_t flags, Source* source, int64_t* spare,
              Fact* wrong) noexcept;

}  // namespace candle
