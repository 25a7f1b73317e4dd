#include "copy.h"

#include <algorithm>

#include "cast.h"
#include "overlap.h"
#include "walk.h"

namespace candle {

CopyStatus copy(const Side& dst, const Side& src, int32_t ndim, const int64_t* shape) noexcept {
  if (!can_cast(src.dtype, dst.dtype)) return CopyStatus::no_cast;
  if (std::find(shape, shape + ndim, 0) != shape + ndim) return CopyStatus::ok;
  Walk walk;
  make_walk(dst, src, ndim, shape, &walk);
  if (!may_overlap(walk)) {
    copy_apart(walk);
    return CopyStatus::ok;
  }
  return copy_overlapping(walk) ? CopyStatus::ok : CopyStatus::no_memory;
}

}  // namespace candle
