#include "arrow_gather.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>

#include "arrow_bits.h"
#include "copying.h"
#include "elements.h"
#include "tensor.h"
#include "words.h"

namespace candle {

namespace {

struct Free {
  void operator()(std::byte* block) const { std::free(block); }
};

/// Calls `act(index)` for each null slot, with the index of its axes.
template <typename Act>
void each_null(const Piece& piece, const Nulls& nulls, Act act) {
  int64_t strides[max_ndim] = {};
  int64_t slots = 1;
  for (int32_t i = 0; i < nulls.axes; i++) {
    strides[i] = piece.strides[i] / nulls.step;
    slots *= piece.shape[i];
  }
  int64_t index[max_ndim];
  const auto at = [&](int64_t number) {  // of a slot, in row-major order
    index[0] = number;
    for (int32_t i = nulls.axes - 1; i > 0; i--) {
      index[i] = index[0] % piece.shape[i];
      index[0] /= piece.shape[i];
    }
  };
  if (!is_c_contiguous(nulls.axes, piece.shape, strides)) {
    for (int64_t number = 0; number < slots; number++) {
      at(number);
      int64_t slot = nulls.first;
      for (int32_t i = 0; i < nulls.axes; i++) slot += index[i] * strides[i];
      if (!bit_at(nulls.bits, slot)) act(index);
    }
    return;
  }
  for (int64_t number = 0; number < slots; number++) {
    const int64_t slot = nulls.first + number;
    if ((slot & 7) == 0 && slots - number >= 8 && nulls.bits[slot / 8] == 0xff) {
      number += 7;  // nulls are few
      continue;
    }
    if (bit_at(nulls.bits, slot)) continue;
    at(number);
    act(index);
  }
}

}  // namespace

/// Where the elements of one part go in a tensor: the first, and the strides of the part's axes.
struct Gathering::Place {
  int64_t first;
  int64_t strides[max_ndim];

  int64_t of(const int64_t* index, int32_t axes) const {
    int64_t at = first;
    for (int32_t i = 0; i < axes; i++) at += index[i] * strides[i];
    return at;
  }
};

bool Gathering::disagree(int64_t chunk, int64_t column, const Piece& first) const noexcept {
  const Piece& piece = arrival_.piece(chunk, column);
  Objection objection;
  if (column > 0) {
    objection.say("mixed", "column %lld has rows of another shape than the first",
                  static_cast<long long>(column));
  } else {
    const int32_t last = std::min(piece.ndim, first.ndim) - 1;
    objection.say("ragged", "the rows of chunk %lld have %lld elements and those before have %lld",
                  static_cast<long long>(chunk), static_cast<long long>(piece.shape[last]),
                  static_cast<long long>(first.shape[last]));
  }
  return arrival_.refuse(objection);
}

bool Gathering::measure() noexcept {
  RoomyPiece nothing;
  int64_t rows = 0;
  for (int64_t chunk = from_; chunk < to_; chunk++) {
    if (arrival_.lengths[chunk] == 0) continue;
    if (some_chunk_ < 0) some_chunk_ = chunk;
    filled_chunks_++;
    if (__builtin_add_overflow(rows, arrival_.lengths[chunk], &rows)) rows = INT64_MAX;
    const Piece& first = arrival_.piece(some_chunk_, 0);
    for (int64_t column = 0; column < arrival_.columns(); column++) {
      const Piece& piece = arrival_.piece(chunk, column);
      nulls_ += piece.null_slots;
      if (piece.ndim != first.ndim ||
          !std::equal(piece.shape + 1, piece.shape + piece.ndim, first.shape + 1)) {
        return disagree(chunk, column, first);
      }
    }
  }
  if (some_chunk_ < 0) lay_out_nothing(arrival_.types[0], &nothing);
  const Piece& first = some_chunk_ < 0 ? nothing : arrival_.piece(some_chunk_, 0);
  const DTypeId dtype = arrival_.types[0].dtype;
  for (int64_t column = 0; column < arrival_.columns(); column++) {
    const ColumnType& type = arrival_.types[column];
    bits_ |= type.bits;
    const Request& request = arrival_.ingest.request;
    if (type.dtype == dtype || request.dtype != unknown_dtype || request.into != nullptr) continue;
    Objection objection;
    objection.say("mixed", "column %lld is %s and the first is %s", static_cast<long long>(column),
                  dtype_table[type.dtype].name, dtype_table[dtype].name);
    return arrival_.refuse(objection);
  }
  ndim_ = first.ndim + (arrival_.table() ? 1 : 0);
  if (ndim_ > max_ndim) {
    PyErr_Format(PyExc_BufferError,
                 "a table of such columns has more axes than the %d that candle "
                 "holds",
                 max_ndim);
    return false;
  }
  int64_t* shape = shape_;
  *shape++ = rows;
  if (arrival_.table()) *shape++ = arrival_.columns();
  std::copy(first.shape + 1, first.shape + first.ndim, shape);
  size_ = count_elements(ndim_, shape_);
  if (size_ >= 0 && bytes_of(size_, dtype, false) >= 0) return true;
  PyErr_Format(PyExc_BufferError, "%s has more elements than memory can be addressed",
               arrival_.ingest.producer());
  return false;
}

int64_t Gathering::only_chunk() const noexcept {
  const bool filled = arrival_.options.nulls == ArrowOptions::NullsAs::fill && nulls_ > 0;
  return filled_chunks_ == 1 && arrival_.columns() == 1 && !bits_ && !filled ? some_chunk_ : -1;
}

Source Gathering::source(Parts* parts) noexcept {
  Source source;
  const int64_t only = only_chunk();
  source.dtype = arrival_.types[0].dtype;
  source.unit = dtype_table[source.dtype].dlpack.bits * dtype_table[source.dtype].dlpack.lanes;
  source.ndim = ndim_;
  source.shape = shape_;
  source.strides = strides_;
  source.size = size_;
  source.route = arrival_.route;
  source.device = arrival_.device;
  source.read_only = true;
  compact_strides(ndim_, shape_, strides_);
  if (size_ == 0) return source;
  if (only >= 0) {
    const Piece& piece = piece_of(only);
    source.data = const_cast<std::byte*>(piece.data);
    int64_t* strides = strides_;
    *strides++ = piece.strides[0];
    if (arrival_.table()) *strides++ = 1;
    std::copy(piece.strides + 1, piece.strides + piece.ndim, strides);
    return source;
  }
  *parts = {filled_chunks_, arrival_.columns(), nulls_};
  source.parts = parts;
  const auto note = [&source](bool found, Reason reason) {
    if (found) source.reasons |= bit(reason);
  };
  note(bits_, Reason::bitmap);
  note(filled_chunks_ > 1, Reason::chunks);
  note(arrival_.columns() > 1, Reason::columns);
  note(arrival_.options.nulls == ArrowOptions::NullsAs::fill && nulls_ > 0, Reason::filled);
  return source;
}

template <typename Act>
bool Gathering::each_part(const Tensor* dst, Act act) const noexcept {
  const int skipped = arrival_.table() ? 1 : 0;
  int64_t row = 0;
  for (int64_t chunk = from_; chunk < to_; chunk++) {
    for (int64_t column = 0; column < arrival_.columns(); column++) {
      const Piece& piece = arrival_.piece(chunk, column);
      if (piece.size == 0) continue;
      Place place;
      place.first = row * dst->strides()[0] + (skipped != 0 ? column * dst->strides()[1] : 0);
      place.strides[0] = dst->strides()[0];
      for (int32_t i = 1; i < piece.ndim; i++) place.strides[i] = dst->strides()[i + skipped];
      if (!act(place, piece, arrival_.types[column])) return false;
    }
    row += arrival_.lengths[chunk];
  }
  return true;
}

bool Gathering::write_part(const Tensor* dst, const Place& place, const Piece& piece,
                           const ColumnType& type) const noexcept {
  const int32_t ndim = piece.ndim;
  const int to_bits = dst->bits();
  std::byte* target;
  if (!move_data(dst, place.first, &target)) return false;
  int64_t from_strides[max_ndim], to_strides[max_ndim];
  const int from_bits = item_bits(dtype_table[type.dtype].dlpack);
  for (int32_t i = 0; i < ndim; i++) {
    from_strides[i] = piece.shape[i] > 1 ? piece.strides[i] * from_bits : 0;
    to_strides[i] = piece.shape[i] > 1 ? place.strides[i] * to_bits : 0;
  }
  std::unique_ptr<std::byte, Free> bytes;
  const std::byte* data = piece.data;
  if (type.bits) {
    const bool straight = dst->dtype == id_bool &&
                          is_c_contiguous(ndim, piece.shape, place.strides) &&
                          is_c_contiguous(ndim, piece.shape, piece.strides);
    Span span;  // gaps between rows are expanded too
    element_span(ndim, piece.shape, piece.strides, &span);
    const int64_t count = straight ? piece.size : span.high + 1;
    if (!straight) bytes.reset(static_cast<std::byte*>(std::malloc(static_cast<size_t>(count))));
    std::byte* expanded = straight ? target : bytes.get();
    if (expanded == nullptr) return PyErr_NoMemory() != nullptr;
    {
      const WithoutGil without(count >= gil_free_bytes);
      expand_bits(piece.data, piece.bit, count, expanded);
    }
    if (straight) return true;
    data = expanded;
  }
  const Side to{target, dst->row().dlpack, false, dst->padded, to_strides};
  const Side from{const_cast<std::byte*>(data), dtype_table[type.dtype].dlpack, false, false,
                  from_strides};
  return run_copy(to, from, ndim, piece.shape, bytes_of(piece.size, dst->dtype, dst->padded));
}

void Gathering::fill_part(const Tensor* dst, const Place& place,
                          const Piece& piece) const noexcept {
  std::byte item[16] = {};
  store_scalar(item, 0, dst->row().dlpack, fill_);
  const int bits = dst->bits();
  const auto put = [&](int64_t element) {
    if (bits < 8) {
      store_scalar(dst->data, element * bits, dst->row().dlpack, fill_);
    } else {
      std::memcpy(dst->data + element * (bits / 8), item, static_cast<size_t>(bits / 8));
    }
  };
  for (int32_t i = 0; i < piece.nullable; i++) {
    const Nulls& nulls = piece.nulls[i];
    each_null(piece, nulls, [&](int64_t* index) {
      // All elements below a null slot are null.
      std::fill(index + nulls.axes, index + piece.ndim, 0);
      for (;;) {
        put(place.of(index, piece.ndim));
        int32_t axis = piece.ndim - 1;
        for (; axis >= nulls.axes && ++index[axis] == piece.shape[axis]; axis--) index[axis] = 0;
        if (axis < nulls.axes) return;
      }
    });
  }
}

bool Gathering::write(Tensor* dst) const noexcept {
  const bool fill = arrival_.options.nulls == ArrowOptions::NullsAs::fill;
  return each_part(dst, [&](const Place& place, const Piece& piece, const ColumnType& type) {
    if (!write_part(dst, place, piece, type)) return false;
    if (fill) fill_part(dst, place, piece);
    return true;
  });
}

Ref Gathering::mask() const noexcept {
  Tensor* mask = allocate(state.tensor_type, id_bool, ndim_, shape_);
  if (mask == nullptr) return {};
  Ref owned = Ref::steal(mask->object());
  if (mask->size > 0) std::memset(mask->data, 0, static_cast<size_t>(mask->size));
  each_part(mask, [&](const Place& place, const Piece& piece, const ColumnType&) {
    if (piece.nullable == 1 && piece.ndim == 1 && place.strides[0] == 1) {  // the most common
      std::byte* bytes = mask->data + place.first;
      expand_bits(piece.nulls[0].bits, piece.nulls[0].first, piece.size, bytes);
      for (int64_t i = 0; i < piece.size; i++) bytes[i] ^= std::byte{1};
      return true;
    }
    for (int32_t i = 0; i < piece.nullable; i++) {
      const Nulls& nulls = piece.nulls[i];
      // What lies below a slot lies together, as the mask has the elements in row-major order.
      int64_t below = 1;
      for (int32_t axis = nulls.axes; axis < piece.ndim; axis++) below *= piece.shape[axis];
      each_null(piece, nulls, [&](const int64_t* index) {
        std::memset(mask->data + place.of(index, nulls.axes), 1, static_cast<size_t>(below));
      });
    }
    return true;
  });
  return owned;
}

bool Gathering::take_fill(DTypeId dtype) noexcept {
  bool is_number;
  PyObject* value = arrival_.options.fill;
  if (!scalar_of(value, &fill_, &is_number)) return false;
  const Kind kind = dtype_table[dtype].kind;
  bool whole = true;
  if (kind == Kind::boolean) {
    whole = fill_.kind == Scalar::Kind::boolean ||
            (fill_.kind == Scalar::Kind::signed_int && (fill_.integer | 1) == 1);
  } else if (kind == Kind::signed_int || kind == Kind::unsigned_int) {
    if (fill_.kind == Scalar::Kind::real && !is_large(fill_, value)) {
      constexpr double beyond = 9223372036854775808.0;  // 2^63
      whole = std::trunc(fill_.real) == fill_.real && std::fabs(fill_.real) < beyond;
      if (whole) {
        fill_ = {.kind = Scalar::Kind::signed_int, .integer = static_cast<int64_t>(fill_.real)};
      }
    }
    whole = whole && fill_.kind != Scalar::Kind::complex_number;
  } else {
    whole = kind == Kind::complex_number ||
            (kind == Kind::real && fill_.kind != Scalar::Kind::complex_number);
  }
  if (whole) return fits(fill_, dtype, value);
  const Ref text = in_words(value);
  if (text) {
    PyErr_Format(PyExc_ValueError,
                 "nulls=%U does not fit %s; name a dtype that holds it, such as dtype=\"float64\"",
                 text.get(), dtype_table[dtype].name);
  }
  return false;
}

}  // namespace candle
