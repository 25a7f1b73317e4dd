#include "arrow_layout.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>

#include "arrow_bits.h"

namespace candle {

namespace {

/// No memory has more rows, of one bit each. Buffers are read by such numbers before their elements
/// are looked for.
constexpr int64_t most_rows = int64_t{1} << 48;

long long number(int64_t value) { return static_cast<long long>(value); }

/// What every array has to be, whatever its type.
bool sound(const ArrowArray& array, int64_t buffers, int64_t children, Objection* objection) {
  if (array.release == nullptr)
    return objection->say(nullptr, "its array, or a child of it, has been released");
  if (array.length < 0 || array.offset < 0 || array.length > most_rows ||
      array.offset > most_rows) {
    return objection->say(nullptr, "an array has the length %lld and the offset %lld",
                          number(array.length), number(array.offset));
  }
  if (array.null_count < -1 || array.null_count > array.length) {
    return objection->say(nullptr, "an array of %lld has %lld nulls", number(array.length),
                          number(array.null_count));
  }
  if (array.n_buffers != buffers || array.buffers == nullptr) {
    return objection->say(nullptr, "an array has %lld buffers at %s, and its type has %lld",
                          number(array.n_buffers), array.buffers == nullptr ? "NULL" : "an address",
                          number(buffers));
  }
  if (array.n_children != children || (children > 0 && array.children == nullptr)) {
    return objection->say(nullptr, "an array has %lld children at %s, and its type has %lld",
                          number(array.n_children),
                          array.children == nullptr ? "NULL" : "an address", number(children));
  }
  for (int64_t i = 0; i < children; i++) {
    if (array.children[i] == nullptr)
      return objection->say(nullptr, "child %lld of an array is NULL", number(i));
  }
  if (array.null_count > 0 && array.buffers[0] == nullptr) {
    return objection->say(nullptr, "an array has %lld nulls and no validity buffer (NULL)",
                          number(array.null_count));
  }
  return true;
}

/// Walks from the outermost node to the elements.
class Walk {
 public:
  Walk(const ColumnType& type, bool readable, Piece* piece, Objection* objection)
      : type_(type), readable_(readable), piece_(piece), objection_(objection) {}

  bool walk(const ArrowArray& array, int64_t begin, int64_t count) {
    Piece& p = *piece_;
    p.ndim = 1;
    p.shape[0] = count;
    p.strides[0] = 1;
    p.size = count;
    first_ = begin;
    const ArrowArray* at = &array;
    for (int32_t i = 0; i < type_.depth; i++) {
      const ColumnType::Node& node = type_.nodes[i];
      if (!enter(*at, buffers_of(node.level), 1) || !descend(*at, node)) return false;
      at = at->children[0];
    }
    return elements(*at);
  }

 private:
  static int64_t buffers_of(Level level) {
    switch (level) {
      case Level::fixed:
      case Level::tensor:
        return 1;
      case Level::list:
      case Level::large_list:
        return 2;
      default:
        return 3;
    }
  }

  /// Checks a node, and that it has the rows that are wanted of it; from here on `first_` is a slot
  /// of its buffers.
  bool enter(const ArrowArray& array, int64_t buffers, int64_t children) {
    if (!sound(array, buffers, children, objection_)) return false;
    int64_t reach = 0;
    if (!reach_of(&reach)) return false;
    if (piece_->size > 0 && (first_ >= array.length || reach >= array.length - first_)) {
      return objection_->say(nullptr, "a child of %lld is asked for the rows %lld to %lld",
                             number(array.length), number(first_), number(first_ + reach));
    }
    first_ = piece_->size > 0 ? first_ + array.offset : 0;
    return note_nulls(array);
  }

  /// How far behind the first slot the last one is.
  bool reach_of(int64_t* reach) {
    Span span;
    const Piece& p = *piece_;
    if (element_span(p.ndim, p.shape, p.strides, &span) &&
        !__builtin_add_overflow(first_, std::max<int64_t>(span.high, 0), reach)) {
      *reach = std::max<int64_t>(span.high, 0);
      return true;
    }
    return too_large();
  }

  bool too_large() {
    return objection_->say(nullptr, "its rows times their width do not fit 63 bits");
  }

  bool note_nulls(const ArrowArray& array) {
    Piece& p = *piece_;
    if (array.null_count == 0 || array.buffers[0] == nullptr || p.size == 0) return true;
    if (!readable_) {
      return objection_->say(nullptr,
                             "%s nulls, and where is written on a device; fill or drop them first",
                             array.null_count < 0 ? "it may have" : "it has");
    }
    Nulls nulls{static_cast<const uint8_t*>(array.buffers[0]), first_, 1, p.ndim};
    int64_t found = 0;
    if (is_c_contiguous(p.ndim, p.shape, p.strides)) {
      found = count_zeros(nulls.bits, first_, p.size);
    } else {
      int64_t index[max_ndim] = {};
      int64_t slot = first_;
      do {
        found += !bit_at(nulls.bits, slot);
      } while (next(p.ndim, p.shape, p.strides, index, &slot));
    }
    if (found == 0) return true;
    p.null_slots += found;
    p.nulls[p.nullable++] = nulls;
    return true;
  }

  static bool next(int32_t ndim, const int64_t* shape, const int64_t* strides, int64_t* index,
                   int64_t* slot) {
    for (int32_t i = ndim - 1; i >= 0; i--) {
      *slot += strides[i];
      if (++index[i] < shape[i]) return true;
      *slot -= strides[i] * shape[i];
      index[i] = 0;
    }
    return false;
  }

  /// From a node's slots to those of its child.
  bool descend(const ArrowArray& array, const ColumnType::Node& node) {
    int64_t width = node.width;
    int64_t step = width;
    int64_t begin = 0;
    const bool fixed = node.level == Level::fixed || node.level == Level::tensor;
    if (fixed) {
      if (__builtin_mul_overflow(first_, width, &begin)) return too_large();
    } else if (!measure(array, node.level, &begin, &width, &step)) {
      return false;
    }
    Piece& p = *piece_;
    for (int32_t i = 0; i < p.ndim; i++) {
      if (__builtin_mul_overflow(p.strides[i], step, &p.strides[i])) return too_large();
    }
    for (int32_t i = 0; i < p.nullable; i++) {
      if (__builtin_mul_overflow(p.nulls[i].step, step, &p.nulls[i].step)) return too_large();
    }
    if (node.level == Level::tensor) {
      for (int32_t i = 0; i < node.axes; i++) {
        p.shape[p.ndim] = type_.extents[node.first_axis + i];
        p.strides[p.ndim++] = type_.strides[node.first_axis + i];
      }
    } else {
      p.shape[p.ndim] = width;
      p.strides[p.ndim++] = 1;
    }
    if (__builtin_mul_overflow(p.size, width, &p.size)) return too_large();
    first_ = begin;
    return true;
  }

  bool is_null(const ArrowArray& array, int64_t slot) const {
    return array.null_count != 0 && array.buffers[0] != nullptr &&
           !bit_at(array.buffers[0], first_ + slot);
  }

  /// The one length of variable lists, and the distance from one to the next.
  bool measure(const ArrowArray& array, Level level, int64_t* begin, int64_t* width,
               int64_t* step) {
    *width = *step = *begin = 0;
    if (piece_->size == 0) return true;
    if (!readable_) {
      return objection_->say(nullptr,
                             "where its lists begin is written on a device; make it a column of "
                             "lists of fixed size first");
    }
    const bool views = level == Level::view || level == Level::large_view;
    for (int i = 1; i <= (views ? 2 : 1); i++) {
      if (array.buffers[i] == nullptr)
        return objection_->say(nullptr, "an array of lists has no offsets or sizes (NULL)");
    }
    const int64_t length = array.children[0]->length;
    const bool large = level == Level::large_list || level == Level::large_view;
    return large ? measure_by<int64_t>(array, views, length, begin, width, step)
                 : measure_by<int32_t>(array, views, length, begin, width, step);
  }

  /// Whether lists have one length and lie one behind the other, which most do: seen at a glance,
  /// with no branch for each. Where not, a closer look has to say why.
  template <typename Offset>
  bool lie_evenly(const void* buffer, int64_t length, int64_t* begin, int64_t* width) const {
    const auto load = [this, buffer](int64_t row) {  // buffers may be misaligned
      Offset value;
      std::memcpy(&value, static_cast<const Offset*>(buffer) + first_ + row, sizeof value);
      return value;
    };
    const int64_t count = piece_->size;
    const int64_t from = load(0);
    int64_t size, end;
    if (from < 0 || __builtin_sub_overflow(int64_t{load(1)}, from, &size) || size < 0 ||
        __builtin_mul_overflow(size, count, &end) || __builtin_add_overflow(end, from, &end) ||
        end > length || end > std::numeric_limits<Offset>::max()) {
      return false;
    }
    using Bits = std::make_unsigned_t<Offset>;
    auto expected = static_cast<Bits>(from);
    constexpr int64_t block = 256;
    for (int64_t row = 0; row <= count; row += block) {
      Bits wrong = 0;
      for (int64_t i = row; i < std::min(row + block, count + 1); i++) {
        wrong |= static_cast<Bits>(load(i)) ^ expected;
        expected += static_cast<Bits>(size);
      }
      if (wrong != 0) return false;
    }
    *begin = from;
    *width = size;
    return true;
  }

  template <typename Offset>
  bool measure_by(const ArrowArray& array, bool views, int64_t length, int64_t* begin,
                  int64_t* width, int64_t* step) {
    const Piece& p = *piece_;
    if (!views && is_c_contiguous(p.ndim, p.shape, p.strides) &&
        lie_evenly<Offset>(array.buffers[1], length, begin, width)) {
      *step = *width;
      if (*width == 0) *begin = 0;
      return true;
    }
    const auto load = [this](const void* buffer, int64_t slot) {  // buffers may be misaligned
      Offset value;
      std::memcpy(&value, static_cast<const Offset*>(buffer) + first_ + slot, sizeof value);
      return int64_t{value};
    };
    const auto begin_of = [&](int64_t slot) { return load(array.buffers[1], slot); };
    int64_t index[max_ndim] = {};
    int64_t row = 0;
    int64_t slot = 0;  // of a row, from the first one's on: there are others between some rows
    do {
      const int64_t from = begin_of(slot);
      int64_t size = 0;
      const bool fits = from >= 0 && from <= length;
      if (fits)
        size =
            views ? load(array.buffers[2], slot) : std::max<int64_t>(begin_of(slot + 1), -1) - from;
      if (row == 0) *begin = from, *width = *step = size;
      if (!fits || size < 0 || from > length - size) {
        return objection_->say(nullptr,
                               "list %lld begins at %lld and does not end after it and within the "
                               "%lld items there are",
                               number(row), number(from), number(length));
      }
      if (size != *width) {
        return objection_->say("ragged", "row %lld%s has %lld items and the first has %lld",
                               number(row), is_null(array, slot) ? ", which is null," : "",
                               number(size), number(*width));
      }
      int64_t expected = 0;
      if (row == 1) *step = (from - *begin) / slot;
      if (size > 0 &&
          (__builtin_mul_overflow(slot, *step, &expected) || from - *begin != expected)) {
        return objection_->say("ragged", "row %lld does not lie where the rows before it lead to",
                               number(row));
      }
      row++;
    } while (next(p.ndim, p.shape, p.strides, index, &slot));
    if (*step <= 0 && *width > 0)
      return objection_->say("ragged", "the rows do not lie one behind the other");
    if (*width == 0) *begin = *step = 0;
    return true;
  }

  bool elements(const ArrowArray& array) {
    Piece& p = *piece_;
    const int64_t item = item_bytes(dtype_table[type_.dtype].dlpack);
    const ArrowArray* at = &array;
    if (type_.pairs) {  // two numbers an element
      if (!enter(array, 1, 1)) return false;
      at = array.children[0];
      int64_t reach = 0, last;
      if (!sound(*at, 2, 0, objection_) || !reach_of(&reach)) return false;
      if (__builtin_add_overflow(first_, reach + 1, &last) ||
          __builtin_mul_overflow(last, 2, &last) || (p.size > 0 && last > at->length)) {
        return objection_->say(nullptr, "there are %lld numbers for the pairs up to %lld",
                               number(at->length), number(first_ + reach));
      }
      if (at->null_count != 0 && at->buffers[0] != nullptr && p.size > 0 &&
          (!readable_ || count_zeros(at->buffers[0], at->offset, at->length) > 0)) {
        return objection_->say("nulls", "the parts of complex numbers are null, or may be");
      }
      if (at->offset % 2 != 0) {
        return objection_->say(nullptr, "a complex number begins with its imaginary part");
      }
      first_ += p.size > 0 ? at->offset / 2 : 0;
    } else if (!enter(array, 2, 0)) {
      return false;
    }
    const auto* data = static_cast<const std::byte*>(at->buffers[1]);
    if (type_.bytes_each > 0 || type_.ndim > p.ndim) {  // bytes of one width
      const ColumnType::Node each{Level::fixed, type_.bytes_each, 0, 1};
      if (!descend(array, each)) return false;
    }
    if (p.size == 0) return true;
    if (data == nullptr)
      return objection_->say(nullptr, "there are %lld elements and no memory (NULL)",
                             number(p.size));
    int64_t reach = 0, bytes;
    if (!reach_of(&reach)) return false;
    if (__builtin_mul_overflow(first_ + reach, item, &bytes) || bytes > INT64_MAX / 8)
      return too_large();
    p.data = type_.bits ? data : data + first_ * item;
    p.bit = type_.bits ? first_ : 0;
    return true;
  }

  const ColumnType& type_;
  bool readable_;
  Piece* piece_;
  Objection* objection_;
  int64_t first_ = 0;  // the first of the slots that are looked at
};

}  // namespace

bool lay_out(const ColumnType& type, const ArrowArray& array, int64_t begin, int64_t count,
             bool readable, Piece* piece, Objection* objection) noexcept {
  return Walk(type, readable, piece, objection).walk(array, begin, count);
}

void lay_out_nothing(const ColumnType& type, Piece* piece) noexcept {
  piece->ndim = 1;
  piece->shape[0] = 0;
  for (int32_t i = 0; i < type.depth; i++) {
    const ColumnType::Node& node = type.nodes[i];
    const bool fixed = node.level == Level::fixed;
    if (node.level != Level::tensor) piece->shape[piece->ndim++] = fixed ? node.width : 0;
    for (int32_t axis = 0; node.level == Level::tensor && axis < node.axes; axis++) {
      piece->shape[piece->ndim++] = type.extents[node.first_axis + axis];
    }
  }
  if (type.ndim > piece->ndim) piece->shape[piece->ndim++] = type.bytes_each;
  compact_strides(piece->ndim, piece->shape, piece->strides);
}

bool check_table(const ArrowArray& table, int64_t columns, Objection* objection) noexcept {
  return sound(table, 1, columns, objection);
}

bool add_row_nulls(const ArrowArray& table, bool readable, Piece* piece,
                   Objection* objection) noexcept {
  if (table.null_count == 0 || table.buffers[0] == nullptr || piece->size == 0) return true;
  if (!readable)
    return objection->say(nullptr, "its rows may be null, and where is written on a device");
  const auto* bits = static_cast<const uint8_t*>(table.buffers[0]);
  const int64_t found = count_zeros(bits, table.offset, table.length);
  if (found == 0) return true;
  piece->null_slots += found;
  piece->nulls[piece->nullable++] = {bits, table.offset, piece->strides[0], 1};
  return true;
}

}  // namespace candle
