#include "blocks.h"

#include <bit>

#include "grid_kernels.h"
#include "simd.h"

#if CANDLE_HAS_AVX2
#include <immintrin.h>
#endif

namespace candle {

namespace {

constexpr int64_t widest = 32;  // bytes of a register that streams are mixed in
constexpr int64_t line = 64;

int log2_of(int64_t item) noexcept { return std::countr_zero(static_cast<uint64_t>(item)); }

const GridKernels& kernels() noexcept {
#if CANDLE_HAS_AVX2
  if (simd_level() >= Simd::avx2) return avx2_grids;
#endif
  return baseline_grids;
}

}  // namespace

bool transposes_lines(int64_t item, int64_t inner, int64_t outer) noexcept {
  return simd_level() >= Simd::avx512 && item <= 16 && inner * item >= line && outer * item >= 16;
}

GridKernel grid_kernel(const Grid& g, [[maybe_unused]] bool distant) noexcept {
  const GridKernels& all = kernels();
  const SizedKernels& sized = all.sized[log2_of(g.item)];
  if (g.to_inner != g.item) return sized.any;
  if (g.from_outer == g.item && g.from_inner != 0) {  // two axes, of more than one step each
    if (all.interleave != nullptr && g.inner < sized.least && g.to_outer == g.inner * g.item &&
        g.outer * g.item >= widest) {
      return all.interleave;
    }
    if (all.separate != nullptr && g.outer < sized.least && g.from_inner == g.outer * g.item &&
        g.inner * g.item >= widest) {
      return all.separate;
    }
#if CANDLE_HAS_AVX512
    // Items that fill a register need tiles only where their rows share places in the cache.
    const bool apart = g.item == 16 && g.from_inner % 2048 != 0 && g.to_outer % 2048 != 0;
    if (transposes_lines(g.item, g.inner, g.outer) && (distant || !apart)) {
      const TileKernels& tiles = avx512_tiles[log2_of(g.item)];
      return distant ? tiles.distant : tiles.cached;
    }
#endif
    if (g.inner >= sized.least && g.outer >= sized.least) return sized.transposed;
  }
  for (int64_t step = -1; step <= 4; step++) {
    if (g.from_inner == step * g.item) return sized.gather[step + 1];
  }
  return sized.any;
}

GridKernel row_kernel(bool streams) noexcept {
  return streams ? kernels().streamed_rows : kernels().rows;
}

void finish_streaming() noexcept {
#if CANDLE_HAS_AVX2
  _mm_sfence();
#endif
}

}  // namespace candle
