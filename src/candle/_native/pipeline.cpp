#include "pipeline.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "blocks.h"
#include "caster.h"
#include "relayout.h"
#include "simd.h"
#include "threads.h"

namespace candle {

namespace {

// Measured on processors with 32 KB of first-level and 1 MB of second-level cache.
constexpr int64_t line_bytes = 64;
constexpr int64_t buffer_bytes = 1 << 16;         // of a box that is transposed
constexpr int64_t cast_bytes = buffer_bytes / 2;  // of one that is cast too, and what it becomes
constexpr int64_t apart_bytes = 34 * 64;  // so what lies around it does not share places in a page
constexpr int64_t small_bytes = 1 << 13;  // of a box that goes through the buffer row by row
constexpr int64_t straight_bytes = 1 << 16;    // of a box that needs no buffer
constexpr int64_t cached_bytes = 1 << 20;      // up to here both sides stay in the second cache
constexpr int64_t source_bytes = 256;          // above, of a crossing box that follow in the source
constexpr int64_t streaming_bytes = 24 << 20;  // from here on the caches would not keep the result
constexpr int64_t threaded_bytes = 3 << 16;    // from here on threads share a copy ...
constexpr int64_t shared_bytes = 1 << 17;      // ... or from here, if it crosses
constexpr int64_t least_task_bytes = 1 << 16;  // what a thread takes at a time
constexpr int64_t most_task_bytes = 1 << 18;

/// What is the same for all boxes of a copy.
struct Plan {
  /// `whole_pieces`: the boxes are pieces of the walk as it goes, each read before it is written.
  Plan(const Walk& walk, bool whole_pieces) noexcept;

  std::byte* to;
  const std::byte* from;
  int64_t to_size, from_size;    // bytes of an item
  std::optional<Caster> caster;  // none: the bits stay
  int64_t swapped_size = 0;      // of the components whose bytes are reversed without a cast
  const bool in_pieces;
  bool buffered = false;
  bool streams = false;
  bool distant = false;     // the source, or the destination, is larger than the second cache
  int32_t run_axis = -1;    // the last one, if both sides run along it
  int32_t crossing = -1;    // the axis the source runs along, or would but for the last one
  int64_t cover_bytes = 0;  // of a box that follow each other in the source, if it crosses
  int32_t ndim;
  Axis axes[max_ndim];       // strides in bytes
  bool backwards[max_ndim];  // the boxes along an axis go from its end on
  int64_t box[max_ndim];     // extents of the boxes; the last ones of an axis may have less
  int64_t boxes = 1;
  int64_t bytes;  // of the larger side

 private:
  void choose_way() noexcept;
  void choose_box() noexcept;
  int64_t target_run() const noexcept;
  bool streaming_pays(int64_t from_bytes, int64_t to_bytes) const noexcept;
};

Plan::Plan(const Walk& walk, bool whole_pieces) noexcept
    : to(walk.dst.data + (walk.dst.start >> 3)),
      from(walk.src.data + (walk.src.start >> 3)),
      to_size(walk.dst.bits() >> 3),
      from_size(walk.src.bits() >> 3),
      in_pieces(whole_pieces),
      ndim(walk.ndim),
      bytes(std::max(to_size, from_size)) {
  for (int32_t i = 0; i < ndim; i++) {
    Axis& axis = axes[i] = {walk.axes[i].extent, walk.axes[i].to / 8, walk.axes[i].from / 8};
    bytes *= axis.extent;
    backwards[i] = axis.to < 0;
    if (!backwards[i]) continue;
    to += (axis.extent - 1) * axis.to;
    from += (axis.extent - 1) * axis.from;
    axis.to = -axis.to;
    axis.from = -axis.from;
  }
  if (!same_dtype(walk.dst.dtype, walk.src.dtype)) {
    caster.emplace(walk.src.dtype, walk.src.swapped, walk.dst.dtype);
  } else if (walk.src.swapped) {
    swapped_size = item_bytes(component_of(walk.src.dtype));
  }
  choose_way();
  choose_box();
  for (int32_t i = 0; i < ndim; i++) boxes *= (axes[i].extent + box[i] - 1) / box[i];
}

/// Bytes that follow each other in the destination.
int64_t Plan::target_run() const noexcept {
  int64_t run = to_size;
  for (int32_t i = ndim - 1; i >= 0 && axes[i].to == run; i--) run *= axes[i].extent;
  return run;
}

/// How many lines so far from each other the first cache (8 ways of 4096 bytes) has room for.
int64_t room_for_lines(int64_t distance) noexcept {
  return 8 * (4096 / std::gcd(distance, int64_t{4096}));
}

/// Whether the lines that a transpose works on would push each other out: those of the rows that
/// are read at a time, and of the rows that are written.
bool collide(const Axis& inner, const Axis& crossing, int64_t item, int64_t cover_bytes) noexcept {
  const int64_t read = std::min(2 * 16 / item, inner.extent);
  const int64_t written = std::min(cover_bytes / item, crossing.extent);
  const int64_t read_room = room_for_lines(inner.from);
  const int64_t written_room = room_for_lines(crossing.to);
  return read * written_room + written * read_room >= read_room * written_room;
}

/// Past the caches goes what would have to be read into them before it is written, in competition
/// with the source. Of a source that is small and read as it lies, the caches are faster; of one up
/// to half the size, if threads share the copy.
bool Plan::streaming_pays(int64_t from_bytes, int64_t to_bytes) const noexcept {
  if (simd_level() == Simd::baseline || from_bytes < to_bytes / 8) return false;
  return crossing >= 0 || from_bytes > to_bytes / 2 || num_threads() == 1;
}

void Plan::choose_way() noexcept {
  if (in_pieces) {
    buffered = true;
    return;
  }
  const Axis* inner = ndim == 0 ? nullptr : &axes[ndim - 1];
  const bool in_runs = inner != nullptr && inner->to == to_size && inner->from == from_size;
  const int64_t run = in_runs ? inner->extent * to_size : to_size;
  crossing = crossing_axis(in_runs ? ndim - 1 : ndim, axes);
  if (in_runs) run_axis = ndim - 1;

  int64_t from_bytes = from_size, to_bytes = to_size;
  for (int32_t i = 0; i < ndim; i++) {
    to_bytes *= axes[i].extent;
    if (axes[i].from != 0) from_bytes *= axes[i].extent;
  }
  distant = std::max(from_bytes, to_bytes) > cached_bytes;
  cover_bytes = distant ? source_bytes : line_bytes;
  streams = to_bytes >= streaming_bytes && target_run() >= 4 * line_bytes &&
            streaming_pays(from_bytes, to_bytes);
  buffered = caster || swapped_size > 0;
  if (buffered || ndim == 0 || run >= 2 * line_bytes) return;
  buffered = streams;
  if (crossing < 0) return;
  const Axis& across = axes[run_axis < 0 ? ndim - 1 : ndim - 2];
  buffered = buffered || (!transposes_lines(run, across.extent, axes[crossing].extent) &&
                          collide(across, axes[crossing], run, cover_bytes));
}

/// Boxes hold whole lines of the source, and as much as possible that follows in the destination.
void Plan::choose_box() noexcept {
  std::fill_n(box, ndim, 1);
  const bool straight = !buffered && (crossing < 0 || run_axis >= 0);
  const int64_t limit = in_pieces              ? (caster ? cast_bytes : buffer_bytes)
                        : straight             ? straight_bytes
                        : crossing < 0         ? small_bytes
                        : !distant && buffered ? 2 * small_bytes
                        : caster               ? cast_bytes
                                               : buffer_bytes;
  int64_t room = limit / std::max(to_size, from_size);
  int64_t covered = from_size;
  if (run_axis >= 0) {
    box[run_axis] = std::min(axes[run_axis].extent, room);
    room /= box[run_axis];
    covered *= box[run_axis];
  }
  for (int32_t next = crossing; next >= 0 && covered < cover_bytes && room > 1;) {
    const int64_t step = magnitude(axes[next].from);
    const int64_t wanted = std::max<int64_t>(1, cover_bytes / step);
    box[next] = std::min({axes[next].extent, wanted, room});
    room /= box[next];
    covered = step * box[next];
    int32_t further = -1;  // the next of the source's axes
    for (int32_t i = 0; i < ndim; i++) {
      const int64_t other = magnitude(axes[i].from);
      const bool after = other > step || (other == step && i > next);  // each axis comes once
      if (box[i] != 1 || !after || other >= cover_bytes) continue;
      if (further < 0 || other < magnitude(axes[further].from)) further = i;
    }
    next = further;
  }
  for (int32_t i = ndim - 1; i >= 0; i--) {
    const int64_t most = std::min(axes[i].extent, room * box[i]);
    room = room * box[i] / most;
    box[i] = most;
    if (most < axes[i].extent) break;
  }
}

/// Copies boxes, one after the other; each thread has its own.
class Worker {
 public:
  explicit Worker(const Plan& plan) noexcept : plan_(plan) {}

  /// Copies the boxes from `first` on, up to but not including `last`, in the destination's order.
  void run(int64_t first, int64_t last) noexcept {
    int64_t at[max_ndim];  // which box along each axis
    int64_t rest = first;
    for (int32_t i = plan_.ndim - 1; i >= 0; i--) {
      const int64_t count = (plan_.axes[i].extent + plan_.box[i] - 1) / plan_.box[i];
      at[i] = rest % count;
      rest /= count;
    }
    for (int64_t next = first; next < last; next++) {
      run_box(at);
      for (int32_t i = plan_.ndim - 1; i >= 0; i--) {
        if (++at[i] * plan_.box[i] < plan_.axes[i].extent) break;
        at[i] = 0;
      }
    }
    if (plan_.streams) finish_streaming();
  }

 private:
  void run_box(const int64_t* at) noexcept;
  void plan_box(const Axis* axes) noexcept;

  const Plan& plan_;
  bool planned_ = false;
  bool gathers_;   // else a box is read where it lies
  bool scatters_;  // else casts write it where it belongs
  int64_t count_;  // items of a box
  int64_t extents_[max_ndim];
  Relayout gather_;
  Relayout scatter_;
  alignas(line_bytes) std::byte items_[buffer_bytes + apart_bytes];
};

void Worker::plan_box(const Axis* axes) noexcept {
  planned_ = true;
  for (int32_t i = 0; i < plan_.ndim; i++) extents_[i] = axes[i].extent;
  if (!plan_.buffered) {
    gather_.plan(plan_.to_size, plan_.ndim, axes, plan_.streams, plan_.distant);
    return;
  }
  Axis in[max_ndim], out[max_ndim];
  bool source_in_order = true, target_in_order = true;  // the items of a box follow each other
  count_ = 1;
  for (int32_t i = plan_.ndim - 1; i >= 0; i--) {
    const int64_t extent = axes[i].extent;
    in[i] = {extent, count_ * plan_.from_size, axes[i].from};
    out[i] = {extent, axes[i].to, count_ * plan_.to_size};
    source_in_order &= extent == 1 || in[i].to == in[i].from;
    target_in_order &= extent == 1 || out[i].to == out[i].from;
    count_ *= extent;
  }
  gathers_ = !source_in_order || plan_.in_pieces || plan_.swapped_size > 0;
  scatters_ = !target_in_order || plan_.streams || !plan_.caster;
  if (gathers_) gather_.plan(plan_.from_size, plan_.ndim, in, false, plan_.distant);
  if (scatters_) scatter_.plan(plan_.to_size, plan_.ndim, out, plan_.streams, false);
}

void Worker::run_box(const int64_t* at) noexcept {
  std::byte* to = plan_.to;
  const std::byte* from = plan_.from;
  Axis axes[max_ndim];
  bool as_before = planned_;
  for (int32_t i = 0; i < plan_.ndim; i++) {
    const Axis& axis = plan_.axes[i];
    const int64_t before = at[i] * plan_.box[i];
    const int64_t extent = std::min(plan_.box[i], axis.extent - before);
    const int64_t begin = plan_.backwards[i] ? axis.extent - before - extent : before;
    to += begin * axis.to;
    from += begin * axis.from;
    axes[i] = {extent, axis.to, axis.from};
    as_before = as_before && axes[i].extent == extents_[i];
  }
  if (!as_before) plan_box(axes);
  if (!plan_.buffered) return gather_.run(to, from);
  const std::byte* items = from;
  if (gathers_) {
    gather_.run(items_, from);
    items = items_;
    if (plan_.swapped_size > 0) {
      swap_bytes(items_, count_ * plan_.from_size / plan_.swapped_size,
                 static_cast<int>(plan_.swapped_size));
    }
  }
  if (plan_.caster) {
    std::byte* target = scatters_ ? items_ + cast_bytes : to;
    plan_.caster->run(items, target, count_);
    if (!scatters_) return;
    items = target;
  }
  scatter_.run(to, items);
}

/// One after the other, from the first on, unless they are shared by threads.
void run_boxes(const Walk& walk, bool in_pieces, bool shared) noexcept {
  const Plan plan(walk, in_pieces);
  const auto run = [](void* context, int64_t first, int64_t last) {
    Worker(*static_cast<const Plan*>(context)).run(first, last);
  };
  void* context = const_cast<Plan*>(&plan);
  const int64_t least_bytes = plan.crossing < 0 ? threaded_bytes : shared_bytes;
  if (!shared || plan.bytes < least_bytes) return run(context, 0, plan.boxes);
  const int64_t task_bytes = std::clamp(plan.bytes / 32, least_task_bytes, most_task_bytes);
  run_in_threads(context, run, plan.boxes,
                 std::max<int64_t>(1, plan.boxes * task_bytes / plan.bytes));
}

}  // namespace

void copy_boxes(const Walk& walk) noexcept { run_boxes(walk, false, true); }

void copy_in_pieces(const Walk& walk, bool any_order) noexcept { run_boxes(walk, true, any_order); }

int64_t items_at_a_time(const Walk& walk) noexcept {
  const bool casts = !same_dtype(walk.dst.dtype, walk.src.dtype);
  return (casts ? cast_bytes : buffer_bytes) * 8 / std::max(walk.dst.bits(), walk.src.bits());
}

}  // namespace candle
