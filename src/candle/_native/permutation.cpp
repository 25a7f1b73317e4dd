#include "permutation.h"

#include <algorithm>
#include <bit>

#include "overlap.h"

namespace candle {

namespace {

constexpr int64_t block_bytes = 64;  // smaller ones are not worth a ring of their own
constexpr int64_t most_tries = 64;
constexpr int blocks_ahead = 8;  // whose memory is asked for

/// How many stretches of one length, and what that length is.
struct Division {
  int64_t count, length;
};

/// Divides an extent into stretches of at most `most`; without a rest, if there is such a way.
Division divide(int64_t extent, int64_t most) noexcept {
  const int64_t least = (extent + most - 1) / most;
  const int64_t last = std::min(2 * least, least + most_tries);
  for (int64_t count = least; count <= last; count++) {
    if (extent % count == 0) return {count, extent / count};
  }
  return {extent / most, most};
}

/// Joins axes that stay neighbours. None has the extent 1: a walk has no such axes.
int32_t simplify(int32_t ndim, Permutation::Lying* axes) noexcept {
  for (int32_t i = 0; i + 1 < ndim;) {
    const int32_t place = axes[i + 1].place;
    if (place != axes[i].place + 1) {
      i++;
      continue;
    }
    axes[i].extent *= axes[i + 1].extent;
    std::copy(axes + i + 2, axes + ndim, axes + i + 1);
    ndim--;
    for (int32_t k = 0; k < ndim; k++) {
      if (axes[k].place > place) axes[k].place--;
    }
  }
  return ndim;
}

int64_t product(const Permutation::Lying* begin, const Permutation::Lying* end) noexcept {
  int64_t count = 1;
  for (; begin != end; begin++) count *= begin->extent;
  return count;
}

}  // namespace

/// How many elements are read at a time; those with gaps need memory for the result as well.
int64_t Permutation::room() const noexcept {
  const int64_t bytes = items_.contiguous() ? workspace_.item_bytes : workspace_.item_bytes / 2;
  return bytes / items_.item_bytes();
}

void Permutation::run(int32_t ndim, Lying* axes) const noexcept {
  for (;;) {
    ndim = simplify(ndim, axes);
    if (ndim < 2) return;
    const int32_t begin = axes[0].place == 0 ? 1 : 0;
    const int32_t end = axes[ndim - 1].place == ndim - 1 ? ndim - 1 : ndim;
    const int64_t batch = product(axes, axes + begin);
    const int64_t count = product(axes + begin, axes + ndim);
    if (fits(count)) {
      for (int64_t i = 0; i < batch; i++) turn(i * count, ndim - begin, axes + begin, begin);
      return;
    }
    int32_t first = begin;  // what comes to the front
    while (axes[first].place != begin) first++;
    int32_t last = begin;  // what goes to the back
    while (axes[last].place != end - 1) last++;
    const int64_t forward = passes(product(axes + begin, axes + first), axes[first].extent,
                                   product(axes + first + 1, axes + ndim));
    const int64_t backward = passes(axes[last].extent, product(axes + last + 1, axes + end),
                                    product(axes + end, axes + ndim));
    if (forward <= backward) {
      bring_forward(ndim, axes, begin, first, first + 1);
    } else {
      bring_forward(ndim, axes, last, last + 1, end);
    }
  }
}

/// Brings the axes from `middle` on, up to but not including `end`, before those from `begin` on.
void Permutation::bring_forward(int32_t ndim, Lying* axes, int32_t begin, int32_t middle,
                                int32_t end) const noexcept {
  const int64_t batch = product(axes, axes + begin);
  const int64_t outer = product(axes + begin, axes + middle);
  const int64_t inner = product(axes + middle, axes + end);
  const int64_t width = product(axes + end, axes + ndim);
  for (int64_t i = 0; i < batch; i++) {
    transpose(i * outer * inner * width, outer, inner, width);
  }
  std::rotate(axes + begin, axes + middle, axes + end);
}

/// Puts elements that there is room for into the order of their places, which `before` others
/// precede.
void Permutation::turn(int64_t first, int32_t ndim, const Lying* axes,
                       int32_t before) const noexcept {
  const int64_t count = product(axes, axes + ndim);
  Walk walk;
  walk.src = items_.in_memory(workspace_.items);
  walk.src.swapped = false;
  walk.dst = items_.contiguous()
                 ? items_.at(first)
                 : items_.in_memory(workspace_.items + room() * items_.item_bytes());
  walk.ndim = ndim;
  int64_t step = items_.item_bytes() * 8;
  for (int32_t i = ndim - 1; i >= 0; i--) {
    walk.axes[axes[i].place - before] = {axes[i].extent, 0, step};
    step *= axes[i].extent;
  }
  step = items_.item_bytes() * 8;
  for (int32_t i = ndim - 1; i >= 0; i--) {
    walk.axes[i].to = step;
    step *= walk.axes[i].extent;
  }
  walk.ndim = coalesce(walk.axes, ndim);
  items_.read(first, count, workspace_.items);
  copy_apart(walk);
  if (!items_.contiguous()) items_.write(first, count, walk.dst.data);
}

/// How often all elements would be read and written.
int64_t Permutation::passes(int64_t outer, int64_t inner, int64_t width) const noexcept {
  return fits(outer * inner * width) || width * items_.item_bytes() >= block_bytes ? 1 : 2;
}

/// `outer` times `inner` blocks of `width` elements become `inner` times `outer`.
void Permutation::transpose(int64_t first, int64_t outer, int64_t inner,
                            int64_t width) const noexcept {
  if (fits(outer * inner * width)) return turn_matrices(first, 1, outer, inner, width);
  const bool in_blocks =
      width * items_.item_bytes() >= block_bytes || !fits(2 * std::min(outer, inner) * width);
  if (in_blocks) return exchange_blocks(first, outer, inner, width);
  outer <= inner ? transpose_wide(first, outer, inner, width)
                 : transpose_tall(first, outer, inner, width);
}

/// Cuts the inner axis: pieces of rows change places, then what is between them.
void Permutation::transpose_wide(int64_t first, int64_t outer, int64_t inner,
                                 int64_t width) const noexcept {
  const Division pieces = divide(inner, room() / (outer * width));
  const int64_t row = pieces.count * pieces.length * width;
  const int64_t rest = inner * width - row;
  if (rest > 0) {  // the ends of the rows become the end of all, and the rows draw together
    const int64_t item = items_.item_bytes();
    for (int64_t i = 0; i < outer; i++) {
      items_.read(first + i * (row + rest) + row, rest, workspace_.items + i * rest * item);
    }
    for (int64_t i = 1; i < outer; i++) items_.move(first + i * row, first + i * (row + rest), row);
    items_.write(first + outer * row, outer * rest, workspace_.items);
    turn_matrices(first + outer * row, 1, outer, rest / width, width);
  }
  exchange_blocks(first, outer, pieces.count, pieces.length * width);
  turn_matrices(first, pieces.count, outer, pieces.length, width);
}

/// The same the other way: cuts the outer axis.
void Permutation::transpose_tall(int64_t first, int64_t outer, int64_t inner,
                                 int64_t width) const noexcept {
  const Division pieces = divide(outer, room() / (inner * width));
  const int64_t row = pieces.count * pieces.length * width;
  const int64_t rest = outer * width - row;
  turn_matrices(first, pieces.count, pieces.length, inner, width);
  exchange_blocks(first, pieces.count, inner, pieces.length * width);
  if (rest == 0) return;
  const int64_t item = items_.item_bytes();
  turn_matrices(first + inner * row, 1, rest / width, inner, width);
  items_.read(first + inner * row, inner * rest, workspace_.items);
  for (int64_t i = inner - 1; i > 0; i--) {
    items_.move(first + i * (row + rest), first + i * row, row);
  }
  for (int64_t i = 0; i < inner; i++) {
    items_.write(first + i * (row + rest) + row, rest, workspace_.items + i * rest * item);
  }
}

/// Transposes matrices that follow each other, for each of which there is room.
void Permutation::turn_matrices(int64_t first, int64_t count, int64_t outer, int64_t inner,
                                int64_t width) const noexcept {
  const Lying axes[] = {{outer, 1}, {inner, 0}, {width, 2}};
  for (int64_t i = 0; i < count; i++) turn(first + i * outer * inner * width, 3, axes, 0);
}

/// Transposes a matrix of blocks. Each takes the place of another one, in a ring. A window of the
/// blocks is kept track of at a time; a ring that comes by an earlier one has been run.
void Permutation::exchange_blocks(int64_t first, int64_t rows, int64_t columns,
                                  int64_t width) const noexcept {
  const int64_t count = rows * columns;
  const int64_t most = workspace_.item_bytes / items_.item_bytes();
  const auto source = [&](int64_t block) {  // where its elements come from
    const auto wide = static_cast<uint64_t>(block), high = static_cast<uint64_t>(rows);
    if (wide >> 32 == 0) {  // such divisions take half the time
      const auto low = static_cast<uint32_t>(wide), by = static_cast<uint32_t>(high);
      return static_cast<int64_t>(low % by) * columns + low / by;
    }
    return static_cast<int64_t>(wide % high) * columns + static_cast<int64_t>(wide / high);
  };
  uint64_t* const marks = workspace_.marks;
  for (int64_t begin = 0; begin < count; begin += workspace_.mark_count) {
    const int64_t end = std::min(count, begin + workspace_.mark_count);
    const auto mark = [&](int64_t block) {
      if (block < end) {
        marks[(block - begin) >> 6] |= uint64_t{1} << ((block - begin) & 63);
      }
    };
    std::fill_n(marks, (end - begin + 63) / 64, 0);
    for (int64_t word = begin; word < end; word += 64) {
      for (;;) {
        const int64_t leader = word + std::countr_one(marks[(word - begin) >> 6]);
        if (leader >= std::min(word + 64, end)) break;
        int64_t block = source(leader);
        while (begin > 0 && block != leader && block >= begin) block = source(block);
        mark(leader);
        if (block < begin || source(leader) == leader) continue;
        // Blocks larger than the memory go in parts, each in a ring of its own.
        for (int64_t part = first; part < first + width; part += most) {
          const int64_t length = std::min(most, first + width - part);
          items_.read(part + leader * width, length, workspace_.items);
          int64_t to = leader;
          int64_t next = to;  // further on in the ring
          for (int i = 0; i < blocks_ahead; i++) next = source(next);
          for (int64_t from = source(to); from != leader; from = source(to)) {
            next = source(next);
            items_.fetch(part + next * width);
            items_.fetch(part + next * width + length - 1);
            items_.move(part + to * width, part + from * width, length);
            mark(from);
            to = from;
          }
          items_.write(part + to * width, length, workspace_.items);
        }
      }
    }
  }
}

}  // namespace candle
