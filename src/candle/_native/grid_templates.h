// The kernels that are written once for all vector instructions. Included inside the unnamed
// namespace of each file that makes a table of them, which says how wide its registers are.

#include "transpose_block.h"
// after it
#include "row_templates.h"

template <size_t size>
inline void copy_item(std::byte* to, const std::byte* from) noexcept {
  typename BitsOf<size>::Type item;
  std::memcpy(&item, from, size);
  std::memcpy(to, &item, size);
}

template <size_t size>
void copy_any(std::byte* to, const std::byte* from, const Grid& grid) noexcept {
  const Grid g = grid;
  for (int64_t j = 0; j < g.outer; j++, to += g.to_outer, from += g.from_outer) {
    std::byte* __restrict put = to;
    const std::byte* __restrict get = from;
    int64_t i = 0;
    for (; i + 4 <= g.inner; i += 4) {
      typename BitsOf<size>::Type items[4];
      for (auto& item : items) {
        std::memcpy(&item, get, size);
        get += g.from_inner;
      }
      for (const auto& item : items) {
        std::memcpy(put, &item, size);
        put += g.to_inner;
      }
    }
    for (; i < g.inner; i++, put += g.to_inner, get += g.from_inner) copy_item<size>(put, get);
  }
}

/// With a step known to the compiler, which turns it into shuffles.
template <size_t size, int step>
void gather_rows(std::byte* to, const std::byte* from, const Grid& grid) noexcept {
  constexpr auto width = static_cast<int64_t>(size);
  const Grid g = grid;
  for (int64_t j = 0; j < g.outer; j++, to += g.to_outer, from += g.from_outer) {
    std::byte* __restrict put = to;
    const std::byte* __restrict get = from;
    if constexpr (step == 0) {
      fill_row<size>(put, get, g.inner);
    } else {
      for (int64_t i = 0; i < g.inner; i++) {
        copy_item<size>(put + i * width, get + i * step * width);
      }
    }
  }
}

/// Where the extents are no multiples of the block, the last blocks go over items once more. No
/// processor sees by itself which lines come next: they are fetched two blocks ahead.
template <size_t size, size_t count>
void transpose_blocks(std::byte* to, const std::byte* from, const Grid& grid) noexcept {
  constexpr auto width = static_cast<int64_t>(size);
  constexpr auto n = static_cast<int64_t>(half / size);
  constexpr int64_t wide = n * static_cast<int64_t>(count);
  const Grid g = grid;
  for (int64_t i = 0; i < g.inner; i += wide) {
    i = std::min(i, g.inner - wide);
    const std::byte* ahead = from + (i + 2 * wide) * g.from_inner;
    for (int64_t j = 0; j < g.outer; j += n) {
      j = std::min(j, g.outer - n);
      if (j * width % 64 == 0) {
        for (int64_t r = 0; r < wide; r++) __builtin_prefetch(ahead + j * width + r * g.from_inner);
      }
      transpose_block<size, count>(to + i * width + j * g.to_outer, g.to_outer,
                                   from + j * width + i * g.from_inner, g.from_inner);
    }
  }
}

/// A strip of rows at a time goes through a buffer: so many rows at distances near a power of two
/// would push each other out of the cache before all of their lines has been used.
template <size_t size, size_t count>
void transpose_strips(std::byte* to, const std::byte* from, const Grid& grid) noexcept {
  constexpr auto width = static_cast<int64_t>(size);
  constexpr int64_t wide = static_cast<int64_t>(half / size * count);
  constexpr int64_t row_bytes = 256;
  alignas(64) std::byte rows[wide * row_bytes];
  for (int64_t j = 0; j < grid.outer; j += row_bytes / width) {
    const int64_t columns = std::min(grid.outer - j, row_bytes / width);
    const size_t row = std::min(static_cast<size_t>(columns) * size, size_t{row_bytes});
    for (int64_t i = 0; i < grid.inner; i += wide) {
      i = std::min(i, grid.inner - wide);
      const std::byte* get = from + j * width + i * grid.from_inner;
      for (int64_t r = 0; r < wide; r++) {
        for (int64_t at = 0; at < row_bytes; at += 64) {
          __builtin_prefetch(get + (r + wide) * grid.from_inner + at);
        }
        copy_row<row_bytes>(rows + r * row_bytes, get + r * grid.from_inner, row);
      }
      transpose_blocks<size, count>(
          to + j * grid.to_outer + i * width, rows,
          {grid.item, columns, grid.to_outer, width, wide, width, row_bytes});
    }
  }
}

/// Items that fill a register need no shuffles: four at a time, a line of the source.
void transpose_registers(std::byte* to, const std::byte* from, const Grid& grid) noexcept {
  constexpr auto width = static_cast<int64_t>(half);
  const Grid g = grid;
  for (int64_t j = 0; j < g.outer; j += 4) {
    const int64_t columns = std::min<int64_t>(4, g.outer - j);
    std::byte* put = to + j * g.to_outer;
    const std::byte* get = from + j * width;
    for (int64_t i = 0; i < g.inner; i++, put += width, get += g.from_inner) {
      __builtin_prefetch(get + 16 * g.from_inner);
      if (columns == 4) {
        copy_item<half>(put, get);
        copy_item<half>(put + g.to_outer, get + width);
        copy_item<half>(put + 2 * g.to_outer, get + 2 * width);
        copy_item<half>(put + 3 * g.to_outer, get + 3 * width);
      } else {
        for (int64_t c = 0; c < columns; c++) {
          copy_item<half>(put + c * g.to_outer, get + c * width);
        }
      }
    }
  }
}

template <size_t size>
void transpose(std::byte* to, const std::byte* from, const Grid& grid) noexcept {
  if constexpr (size == half) return transpose_registers(to, from, grid);
  constexpr auto wide = static_cast<int64_t>(half / size * halves);
  if (grid.inner < wide) return transpose_blocks<size, 1>(to, from, grid);
  // Rows at about such a distance share two sets; the last strip is of whole blocks too.
  const bool collide = ((grid.from_inner + 128) & 2047) <= 256;
  if (size == 1 && collide && grid.outer % int64_t{half} == 0) {
    return transpose_strips<size, halves>(to, from, grid);
  }
  transpose_blocks<size, halves>(to, from, grid);
}

template <size_t size>
constexpr SizedKernels sized_kernels() noexcept {
  return {copy_any<size>,
          transpose<size>,
          {gather_rows<size, -1>, gather_rows<size, 0>, gather_rows<size, 1>, gather_rows<size, 2>,
           gather_rows<size, 3>, gather_rows<size, 4>},
          half / size};
}
