#include <algorithm>
#include <cstring>
#include <utility>

#include "grid_kernels.h"
#include "simd.h"

#if CANDLE_HAS_AVX512

#include <immintrin.h>

namespace candle {

CANDLE_BEGIN_AVX512

namespace {

#include "transpose_block.h"

constexpr int64_t line = 64;
constexpr size_t halves = 4;  // of a line

inline __m256i load_two(const std::byte* from, int64_t step) noexcept {
  const auto load = [](const std::byte* get) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(get));
  };
  return _mm256_inserti128_si256(_mm256_castsi128_si256(load(from)), load(from + step), 1);
}

template <>
inline void load_halves<halves>(const std::byte* from, int64_t step, void* vector) noexcept {
  // Without a mask GCC 12 warns of its own header.
  const __m512i all = _mm512_maskz_inserti64x4(0xff, _mm512_castsi256_si512(load_two(from, step)),
                                               load_two(from + 2 * step, step), 1);
  std::memcpy(vector, &all, sizeof all);
}

/// Where the extents are no multiples of the tile, the last tiles go over items once more.
template <size_t size, bool distant>
void transpose_tiles(std::byte* to, const std::byte* from, const Grid& grid) noexcept {
  constexpr auto width = static_cast<int64_t>(size);
  constexpr int64_t n = static_cast<int64_t>(half) / width;
  constexpr int64_t wide = line / width;
  const Grid g = grid;
  // Where all rows of the destination begin beside a line, all but the first tile do not.
  const int64_t beside = -reinterpret_cast<intptr_t>(to) & (line - 1);
  const bool alike = g.to_outer % line == 0 && beside % width == 0;
  const int64_t lead = alike && beside != 0 ? beside / width : wide;
  for (int64_t i = 0; i < g.inner; i += i == 0 ? lead : wide) {
    i = std::min(i, g.inner - wide);
    for (int64_t j = 0; j < g.outer; j += n) {
      j = std::min(j, g.outer - n);
      transpose_block<size, halves>(to + i * width + j * g.to_outer, g.to_outer,
                                    from + j * width + i * g.from_inner, g.from_inner);
    }
  }
}

template <size_t size>
constexpr TileKernels tile_kernels() noexcept {
  return {transpose_tiles<size, false>, transpose_tiles<size, true>};
}

}  // namespace

CANDLE_END_SIMD

const TileKernels avx512_tiles[5] = {tile_kernels<1>(), tile_kernels<2>(), tile_kernels<4>(),
                                     tile_kernels<8>(), tile_kernels<16>()};

}  // namespace candle

#endif
