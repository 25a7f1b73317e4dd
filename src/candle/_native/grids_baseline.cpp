#include <algorithm>
#include <cstring>
#include <utility>

#include "grid_kernels.h"

namespace candle {

namespace {

constexpr size_t halves = 1;

#include "grid_templates.h"

template <>
inline void load_halves<1>(const std::byte* from, int64_t, void* vector) noexcept {
  std::memcpy(vector, from, half);
}

}  // namespace

const GridKernels baseline_grids = {
    {sized_kernels<1>(), sized_kernels<2>(), sized_kernels<4>(), sized_kernels<8>(),
     sized_kernels<16>()},
    copy_rows,
    copy_rows,
    nullptr,
    nullptr,
};

}  // namespace candle
