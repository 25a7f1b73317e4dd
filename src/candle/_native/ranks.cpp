#include "ranks.h"

#include <algorithm>
#include <cstring>

#include "packed.h"

namespace candle {

namespace {

constexpr int64_t piece_bytes = 1 << 12;

template <size_t Size>
void copy_items(std::byte* to, int64_t to_step, const std::byte* from, int64_t from_step,
                int64_t count) noexcept {
  for (int64_t i = 0; i < count; i++, to += to_step, from += from_step) {
    std::memcpy(to, from, Size);
  }
}

/// What is left of `*value`, which becomes the quotient. Small divisions take half the time.
int64_t split_off(int64_t* value, int64_t by) noexcept {
  const auto whole = static_cast<uint64_t>(*value);
  const auto part = static_cast<uint64_t>(by);
  if (((whole | part) >> 32) == 0) {
    const auto low = static_cast<uint32_t>(whole);
    const auto low_part = static_cast<uint32_t>(part);
    *value = low / low_part;
    return low % low_part;
  }
  *value = static_cast<int64_t>(whole / part);
  return static_cast<int64_t>(whole % part);
}

/// Steps in bytes.
void copy_run(std::byte* to, int64_t to_step, const std::byte* from, int64_t from_step,
              int64_t count, int64_t item) noexcept {
  if (to_step == item && from_step == item) {
    std::memcpy(to, from, static_cast<size_t>(count * item));
    return;
  }
  switch (item) {
    case 1:
      return copy_items<1>(to, to_step, from, from_step, count);
    case 2:
      return copy_items<2>(to, to_step, from, from_step, count);
    case 4:
      return copy_items<4>(to, to_step, from, from_step, count);
    case 8:
      return copy_items<8>(to, to_step, from, from_step, count);
    default:
      return copy_items<16>(to, to_step, from, from_step, count);
  }
}

}  // namespace

bool Ranks::plan(const Place& place, const Walk& walk, int64_t Axis::* step) noexcept {
  place_ = place;
  item_ = std::max(place.bits() / 8, 1);
  count_ = 1;
  Axis axes[max_ndim];
  int32_t ndim = 0;
  for (int32_t i = 0; i < walk.ndim; i++) {
    const Axis& axis = walk.axes[i];
    const int64_t width = magnitude(axis.*step);
    if (axis.*step < 0) place_.start -= (axis.extent - 1) * width;
    axes[ndim++] = {axis.extent, width, width};
  }
  std::stable_sort(axes, axes + ndim, [](const Axis& a, const Axis& b) { return a.to > b.to; });
  ndim_ = coalesce(axes, ndim);
  if (ndim_ == 0) axes[ndim_++] = {1, place.bits(), place.bits()};
  int64_t reach = place.bits();
  for (int32_t i = ndim_ - 1; i >= 0; i--) {
    if (axes[i].to < reach) return false;
    reach += (axes[i].extent - 1) * axes[i].to;
    extents_[i] = axes[i].extent;
    steps_[i] = axes[i].to;
    count_ *= axes[i].extent;
  }
  contiguous_ = ndim_ == 1 && !place.packed() && steps_[0] == place.bits();
  return true;
}

bool Ranks::operator==(const Ranks& other) const noexcept {
  return place_.data + (place_.start >> 3) == other.place_.data + (other.place_.start >> 3) &&
         (place_.start & 7) == (other.place_.start & 7) && ndim_ == other.ndim_ &&
         std::equal(extents_, extents_ + ndim_, other.extents_) &&
         std::equal(steps_, steps_ + ndim_, other.steps_);
}

Place Ranks::in_memory(std::byte* items) const noexcept {
  return {items, 0, place_.dtype, place_.swapped, true};
}

Place Ranks::at(int64_t first) const noexcept {
  Place place = place_;
  place.start += first * steps_[0];
  return place;
}

bool Ranks::steps_of(int32_t ndim, const int64_t* extents, int64_t* steps) const noexcept {
  return reshape_strides(ndim_, extents_, steps_, ndim, extents, steps);
}

Ranks::Run Ranks::run_from(int64_t rank) const noexcept {
  const int32_t inner = ndim_ - 1;
  Run run{place_.start, 0};
  for (int32_t i = inner; i > 0; i--) {
    const int64_t index = split_off(&rank, extents_[i]);
    run.bit += index * steps_[i];
    if (i == inner) run.count = extents_[i] - index;
  }
  run.bit += rank * steps_[0];
  if (inner == 0) run.count = extents_[0] - rank;
  return run;
}

int64_t Ranks::bit_of(int64_t rank) const noexcept { return run_from(rank).bit; }

void Ranks::fetch(int64_t rank) const noexcept {
  __builtin_prefetch(place_.data + (bit_of(rank) >> 3), 1);
}

/// Calls `visit(bit, count)` for stretches along the innermost axis, upwards.
template <class Visit>
void Ranks::for_each_run(int64_t first, int64_t count, Visit visit) const noexcept {
  const int32_t inner = ndim_ - 1;
  int64_t index[max_ndim];
  int64_t bit = place_.start;
  for (int32_t i = inner; i >= 0; i--) {
    index[i] = i == 0 ? first : split_off(&first, extents_[i]);
    bit += index[i] * steps_[i];
  }
  for (int64_t skipped = index[inner];; skipped = 0) {
    const int64_t length = std::min(count, extents_[inner] - skipped);
    visit(bit, length);
    count -= length;
    if (count == 0) return;
    bit -= skipped * steps_[inner];
    for (int32_t i = inner - 1;; i--) {
      bit += steps_[i];
      if (++index[i] < extents_[i]) break;
      bit -= extents_[i] * steps_[i];
      index[i] = 0;
    }
  }
}

void Ranks::read(int64_t first, int64_t count, std::byte* items) const noexcept {
  const int64_t step = steps_[ndim_ - 1];
  for_each_run(first, count, [&](int64_t bit, int64_t length) {
    if (place_.packed()) {
      for (int64_t i = 0; i < length; i++) {
        items[i] = std::byte{read_bits(place_.data, bit + i * step, place_.dtype.bits)};
      }
    } else {
      copy_run(items, item_, place_.data + (bit >> 3), step >> 3, length, item_);
    }
    items += length * item_;
  });
}

void Ranks::write(int64_t first, int64_t count, const std::byte* items) const noexcept {
  const int64_t step = steps_[ndim_ - 1];
  for_each_run(first, count, [&](int64_t bit, int64_t length) {
    if (place_.packed()) {
      for (int64_t i = 0; i < length; i++) {
        write_bits(place_.data, bit + i * step, place_.dtype.bits,
                   std::to_integer<uint8_t>(items[i]));
      }
    } else {
      copy_run(place_.data + (bit >> 3), step >> 3, items, item_, length, item_);
    }
    items += length * item_;
  });
}

void Ranks::move(int64_t to, int64_t from, int64_t count) const noexcept {
  if (contiguous_) {
    std::byte* begin = place_.data + (place_.start >> 3);
    std::memmove(begin + to * item_, begin + from * item_, static_cast<size_t>(count * item_));
    return;
  }
  const bool apart = magnitude(to - from) >= count;
  if (apart && !place_.packed()) return move_apart(to, from, count);
  std::byte items[piece_bytes];
  const int64_t most = piece_bytes / item_;
  for (int64_t done = 0; done < count;) {
    const int64_t length = std::min(most, count - done);
    const int64_t first = to < from ? done : count - done - length;
    read(from + first, length, items);
    write(to + first, length, items);
    done += length;
  }
}

void Ranks::move_apart(int64_t to, int64_t from, int64_t count) const noexcept {
  const int64_t step = steps_[ndim_ - 1];
  Run target = run_from(to);
  Run source = run_from(from);
  for (;;) {
    const int64_t length = std::min({count, target.count, source.count});
    copy_run(place_.data + (target.bit >> 3), step >> 3, place_.data + (source.bit >> 3), step >> 3,
             length, item_);
    count -= length;
    if (count == 0) return;
    to += length;
    from += length;
    const auto advance = [&](Run* run, int64_t rank) {
      *run = run->count == length ? run_from(rank)
                                  : Run{run->bit + length * step, run->count - length};
    };
    advance(&target, to);
    advance(&source, from);
  }
}

}  // namespace candle
