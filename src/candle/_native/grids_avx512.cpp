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

inline __m128i load_half(const std::byte* from) noexcept {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
}

inline __m256i load_two(const std::byte* from, int64_t step) noexcept {
  const __m256i low = _mm256_castsi128_si256(load_half(from));
  return _mm256_inserti128_si256(low, load_half(from + step), 1);
}

template <>
inline void load_halves<halves>(const std::byte* from, int64_t step, void* vector) noexcept {
  // Without a mask GCC 12 warns of its own header.
  const __m512i all = _mm512_maskz_inserti64x4(0xff, _mm512_castsi256_si512(load_two(from, step)),
                                               load_two(from + 2 * step, step), 1);
  std::memcpy(vector, &all, sizeof all);
}

/// In which order the tiles come.
struct Order {
  int64_t columns;  // of the source, before its next rows
  int64_t rows;  // a number of tiles of them, which one row of the destination after the other gets
  bool packed;   // by way of a buffer
};

constexpr int64_t most_rows = 128;
constexpr int64_t buffer_bytes = 1 << 14;
constexpr int64_t distant_bytes = 256;  // that are fetched of a row at a time
constexpr int to_second = 2;            // into the second cache: the first waits for too few lines

/// How many lines so far from each other the first cache has room for, of 8 ways or more.
int64_t room_for_lines(int64_t distance) noexcept {
  constexpr int64_t way = 4096;
  return distance % way == 0 ? 8 : 8 * way / (distance & -distance);
}

/// The tiles of some rows of the source come one after the other, then those of the next rows.
/// Where rows share their places in the cache, it has room for fewer of them: the rows of the
/// destination then get more at a time, and those of the source go through a buffer.
template <size_t size, bool distant>
Order choose_order(const Grid& g) noexcept {
  constexpr auto width = static_cast<int64_t>(size);
  constexpr int64_t wide = line / width;
  const int64_t from_room = room_for_lines(g.from_inner), to_room = room_for_lines(g.to_outer);
  const bool pack = g.outer >= wide && (from_room < wide || (distant && to_room < 16));
  if (distant) {
    if (!pack) return {g.outer, wide, false};
    return {distant_bytes / width, buffer_bytes / distant_bytes, true};
  }
  Order order{g.outer, wide, pack};
  if (pack || (width >= 4 ? 32 : 8) >= to_room) order.columns = wide;
  if (to_room < 16) order.rows = pack ? most_rows : std::min(std::max(from_room, wide), most_rows);
  return order;
}

/// `to_step` and `step` bytes from row to row. Where there is no whole number of blocks, the last
/// one goes over items once more.
template <size_t size, bool distant, bool along_rows>
inline void transpose_part(std::byte* to, int64_t to_step, const std::byte* from, int64_t step,
                           int64_t rows, int64_t columns) noexcept {
  constexpr auto width = static_cast<int64_t>(size);
  constexpr int64_t n = static_cast<int64_t>(half) / width;
  constexpr int64_t wide = line / width;
  const std::byte* ahead = from + 2 * wide * step;
  for (int64_t c = 0; c < columns; c += n) {
    if (c > columns - n) c = columns - n;
    std::byte* put = to + c * to_step;
    const std::byte* get = from + c * width;
    if constexpr (distant) {
      for (int64_t r = c / n % 4; r < wide; r += 4) {
        __builtin_prefetch(ahead + r * step + c * width, 0, to_second);
        if (c + wide >= columns) {  // rows need not end where a line does
          __builtin_prefetch(ahead + r * step + columns * width - 1, 0, to_second);
        }
      }
    }
    if constexpr (along_rows) {
      for (int64_t r = 0; r < rows; r += wide) {
        if (r > rows - wide) r = rows - wide;
        transpose_block<size, halves>(put + r * width, to_step, get + r * step, step);
      }
    } else {
      transpose_block<size, halves>(put, to_step, get, step);
    }
  }
}

/// `ahead`: what comes after it.
template <bool distant>
void pack(std::byte* to, int64_t to_step, const std::byte* from, const std::byte* ahead,
          int64_t step, int64_t rows, int64_t bytes) noexcept {
  for (int64_t r = 0; r < rows; r++, to += to_step, from += step, ahead += step) {
    if constexpr (distant) {
      for (int64_t at = 0; at < bytes; at += line) {
        at = std::min(at, bytes - line);
        __builtin_prefetch(ahead + at, 0, to_second);
        std::memcpy(to + at, from + at, line);
      }
    } else {
      std::memcpy(to, from, line);
    }
  }
}

template <size_t size, bool distant>
void transpose_tiles(std::byte* to, const std::byte* from, const Grid& grid) noexcept {
  constexpr auto width = static_cast<int64_t>(size);
  constexpr int64_t n = static_cast<int64_t>(half) / width;
  constexpr int64_t wide = line / width;
  const Grid g = grid;
  const Order order = choose_order<size, distant>(g);
  alignas(line) std::byte buffer[buffer_bytes];
  // Where all rows of the destination begin beside a line, all but the first tile do not.
  const int64_t beside = -reinterpret_cast<intptr_t>(to) & (line - 1);
  const bool alike = g.to_outer % line == 0 && beside % width == 0;
  const int64_t lead = alike && beside != 0 ? beside / width : order.rows;
  for (int64_t j = 0; j < g.outer; j += order.columns) {
    j = std::min(j, g.outer - (order.packed ? wide : n));
    const int64_t columns = std::min(order.columns, g.outer - j);
    for (int64_t i = 0, next = lead;; next = i + order.rows) {
      const int64_t rows = std::min(order.rows, g.inner - i);
      const bool last = i + rows == g.inner;
      std::byte* put = to + i * width + j * g.to_outer;
      const std::byte* get = from + j * width + i * g.from_inner;
      if (order.packed) {
        const int64_t step = order.columns * width;
        const std::byte* ahead = last && j + columns < g.outer ? from + (j + columns) * width
                                                               : get + rows * g.from_inner;
        pack<distant>(buffer, step, get, ahead, g.from_inner, rows, columns * width);
        transpose_part<size, false, true>(put, g.to_outer, buffer, step, rows, columns);
      } else if (rows > wide) {
        transpose_part<size, distant, true>(put, g.to_outer, get, g.from_inner, rows, columns);
      } else {
        transpose_part<size, distant, false>(put, g.to_outer, get, g.from_inner, rows, columns);
      }
      if (last) break;
      i = std::min(next, g.inner - wide);
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
