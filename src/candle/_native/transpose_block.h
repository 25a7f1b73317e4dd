// Small squares of items transposed in registers of any width. Included inside the unnamed
// namespace of each file that has kernels of them, and says how a register is loaded.

constexpr size_t half = 16;  // bytes that the interleaving instructions treat as one

template <size_t size>
struct BitsOf;
template <>
struct BitsOf<1> {
  using Type = uint8_t;
};
template <>
struct BitsOf<2> {
  using Type = uint16_t;
};
template <>
struct BitsOf<4> {
  using Type = uint32_t;
};
template <>
struct BitsOf<8> {
  using Type = uint64_t;
};
template <>
struct BitsOf<16> {
  using Type = uint64_t __attribute__((vector_size(16)));
};

/// A register of `count` halves that holds items of `size` bytes.
template <size_t size, size_t count>
struct Register {
  using Item = typename BitsOf<std::min<size_t>(size, 8)>::Type;
  typedef Item Type __attribute__((vector_size(half * count)));
};

constexpr int zipped(size_t at, size_t in_half, size_t all, bool high) noexcept {
  const size_t inside = at % in_half;
  const size_t item = at / in_half * in_half + inside / 2 + (high ? in_half / 2 : 0);
  return static_cast<int>(inside % 2 == 0 ? item : item + all);
}

/// Takes items of `a` and `b` by turns, of the low or the high part of each half.
template <bool high, size_t in_half, class Vector, size_t... at>
inline Vector zip(Vector a, Vector b, std::index_sequence<at...>) noexcept {
  return __builtin_shufflevector(a, b, zipped(at, in_half, sizeof...(at), high)...);
}

/// Fills a register with halves that lie `step` after each other.
template <size_t count>
inline void load_halves(const std::byte* from, int64_t step, void* vector) noexcept;

/// Transposes a square of 16-byte rows, or several of them that lie next to each other in the
/// destination.
template <size_t size, size_t count>
[[gnu::always_inline]] inline void transpose_block(std::byte* to, int64_t to_step,
                                                   const std::byte* from,
                                                   int64_t from_step) noexcept {
  constexpr size_t n = half / size;
  using Vector = typename Register<size, count>::Type;
  Vector rows[n];
#pragma GCC unroll 16
  for (size_t r = 0; r < n; r++) {
    load_halves<count>(from + static_cast<int64_t>(r) * from_step,
                       static_cast<int64_t>(n) * from_step, &rows[r]);
  }
#pragma GCC unroll 4
  for (size_t round = 1; round < n; round *= 2) {
    Vector next[n];
#pragma GCC unroll 8
    for (size_t r = 0; r < n / 2; r++) {
      constexpr auto all = std::make_index_sequence<sizeof(Vector) / sizeof(rows[0][0])>{};
      next[2 * r] = zip<false, n>(rows[r], rows[r + n / 2], all);
      next[2 * r + 1] = zip<true, n>(rows[r], rows[r + n / 2], all);
    }
#pragma GCC unroll 16
    for (size_t r = 0; r < n; r++) rows[r] = next[r];
  }
#pragma GCC unroll 16
  for (size_t r = 0; r < n; r++) {
    std::memcpy(to + static_cast<int64_t>(r) * to_step, &rows[r], half * count);
  }
}
