// Rows of any number of bytes, copied and filled. Part of grid_templates.h.

/// Copies a few bytes by two moves that may cover the same ones.
template <size_t size>
inline void copy_ends(std::byte* to, const std::byte* from, size_t count) noexcept {
  std::byte first[size], last[size];
  std::memcpy(first, from, size);
  std::memcpy(last, from + count - size, size);
  std::memcpy(to, first, size);
  std::memcpy(to + count - size, last, size);
}

using Bytes = typename Register<1, halves>::Type;

inline Bytes load_bytes(const std::byte* from) noexcept {
  Bytes bytes;
  std::memcpy(&bytes, from, sizeof bytes);
  return bytes;
}

inline void store_bytes(std::byte* to, Bytes bytes) noexcept {
  std::memcpy(to, &bytes, sizeof bytes);
}

/// At least two registers. libc's memcpy has the processor move long rows as strings, which takes
/// it five times as long where the two sides lie so and so far from each other.
inline void copy_long(std::byte* to, const std::byte* from, size_t count) noexcept {
  constexpr size_t step = sizeof(Bytes);
  const Bytes first = load_bytes(from);
  const Bytes last = load_bytes(from + count - step);
  store_bytes(to, first);
  size_t at = -reinterpret_cast<uintptr_t>(to) & (step - 1);  // the rest to multiples of the step
  for (; at + 4 * step <= count; at += 4 * step) {
    const Bytes a = load_bytes(from + at);
    const Bytes b = load_bytes(from + at + step);
    const Bytes c = load_bytes(from + at + 2 * step);
    const Bytes d = load_bytes(from + at + 3 * step);
    store_bytes(to + at, a);
    store_bytes(to + at + step, b);
    store_bytes(to + at + 2 * step, c);
    store_bytes(to + at + 3 * step, d);
  }
  for (; at + step < count; at += step) store_bytes(to + at, load_bytes(from + at));
  store_bytes(to + count - step, last);
}

template <size_t by_moves = (halves > 1 ? SIZE_MAX : 512)>
inline void copy_row(std::byte* to, const std::byte* from, size_t count) noexcept {
  if (count > by_moves) {
    std::memcpy(to, from, count);
  } else if (count >= 2 * sizeof(Bytes)) {
    copy_long(to, from, count);
  } else if (count >= 32) {
    std::byte last[32];
    std::memcpy(last, from + count - 32, 32);
    for (size_t i = 0; i + 32 < count; i += 32) std::memcpy(to + i, from + i, 32);
    std::memcpy(to + count - 32, last, 32);
  } else if (count >= 16) {
    copy_ends<16>(to, from, count);
  } else if (count >= 8) {
    copy_ends<8>(to, from, count);
  } else if (count >= 4) {
    copy_ends<4>(to, from, count);
  } else if (count >= 2) {
    copy_ends<2>(to, from, count);
  } else {
    *to = *from;
  }
}

void copy_rows(std::byte* to, const std::byte* from, const Grid& grid) noexcept {
  const Grid g = grid;
  for (int64_t j = 0; j < g.outer; j++, to += g.to_outer, from += g.from_outer) {
    std::byte* put = to;
    const std::byte* get = from;
    for (int64_t i = 0; i < g.inner; i++, put += g.to_inner, get += g.from_inner) {
      copy_row(put, get, static_cast<size_t>(g.item));
    }
  }
}

/// One item again and again.
template <size_t size>
inline void fill_row(std::byte* to, const std::byte* item, int64_t items) noexcept {
  typename Register<size, halves>::Type all;
  if constexpr (size == half) {
    uint64_t parts[2];
    std::memcpy(parts, item, size);
    for (size_t i = 0; i < sizeof all / sizeof parts[0]; i++) all[i] = parts[i % 2];
  } else {
    typename BitsOf<size>::Type value;
    std::memcpy(&value, item, size);
    all = decltype(all){} + value;
  }
  // Whatever is a multiple of an item is one of its phase.
  const size_t count = static_cast<size_t>(items) * size;
  if (count >= sizeof all) {
    size_t at = 0;
    for (; at + 4 * sizeof all <= count; at += 4 * sizeof all) {
      for (size_t k = 0; k < 4; k++) std::memcpy(to + at + k * sizeof all, &all, sizeof all);
    }
    for (; at < count; at += sizeof all) {
      std::memcpy(to + std::min(at, count - sizeof all), &all, sizeof all);
    }
  } else if (count >= half) {
    std::memcpy(to, &all, half);
    std::memcpy(to + count - half, &all, half);
  } else {
    for (size_t at = 0; at < count; at += size) std::memcpy(to + at, &all, size);
  }
}
