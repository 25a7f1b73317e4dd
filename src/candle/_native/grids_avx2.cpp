#include <algorithm>
#include <cstring>
#include <utility>

#include "grid_kernels.h"
#include "simd.h"

#if CANDLE_HAS_AVX2

#include <immintrin.h>

namespace candle {

CANDLE_BEGIN_AVX2

namespace {

constexpr size_t halves = 2;

#include "grid_templates.h"

inline __m128i load_half(const std::byte* from) noexcept {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
}

inline __m256i load_two(const std::byte* low, const std::byte* high) noexcept {
  return _mm256_inserti128_si256(_mm256_castsi128_si256(load_half(low)), load_half(high), 1);
}

template <>
inline void load_halves<1>(const std::byte* from, int64_t, void* vector) noexcept {
  std::memcpy(vector, from, half);
}

template <>
inline void load_halves<2>(const std::byte* from, int64_t step, void* vector) noexcept {
  const __m256i both = load_two(from, from + step);
  std::memcpy(vector, &both, sizeof both);
}

/// Whole cache lines past the caches, what stands before and after them as ever.
void stream(std::byte* to, const std::byte* from, size_t count) noexcept {
  constexpr size_t line = 64;
  const size_t head = -reinterpret_cast<uintptr_t>(to) & (line - 1);
  if (count < head + line) return copy_row(to, from, count);
  if (head > 0) copy_row(to, from, head);
  size_t at = head;
  for (; count - at >= line; at += line) {
    const auto* get = reinterpret_cast<const __m256i*>(from + at);
    auto* put = reinterpret_cast<__m256i*>(to + at);
    const __m256i low = _mm256_loadu_si256(get);
    const __m256i high = _mm256_loadu_si256(get + 1);
    _mm256_stream_si256(put, low);
    _mm256_stream_si256(put + 1, high);
  }
  if (at < count) copy_row(to + at, from + at, count - at);
}

void stream_rows(std::byte* to, const std::byte* from, const Grid& grid) noexcept {
  const Grid g = grid;
  // Short rows far from each other: no processor sees by itself which come next.
  const int64_t fetched = g.item <= 512 ? g.item : 0;
  const int64_t ahead = g.inner >= 16 ? 16 * g.from_inner : 16 / g.inner * g.from_outer;
  for (int64_t j = 0; j < g.outer; j++, to += g.to_outer, from += g.from_outer) {
    std::byte* put = to;
    const std::byte* get = from;
    for (int64_t i = 0; i < g.inner; i++, put += g.to_inner, get += g.from_inner) {
      for (int64_t k = 0; k < fetched; k += 64) __builtin_prefetch(get + ahead + k);
      stream(put, get, static_cast<size_t>(g.item));
    }
  }
}

// A few streams of items that are mixed into one, or taken out of it. 16 bytes of each stream make
// 16 bytes times their number: every register of the one side is put together of bytes of all
// registers of the other, which the masks name.

/// masks[out][in]: where the bytes of an outgoing register come from.
struct Masks {
  alignas(half) uint8_t bytes[most_mixed][most_mixed][half];

  __m256i get(int64_t out, int64_t in) const noexcept {
    return _mm256_broadcastsi128_si256(
        _mm_load_si128(reinterpret_cast<const __m128i*>(bytes[out][in])));
  }
};

void make_masks(Masks* masks, int64_t streams, int64_t size, bool mixing) noexcept {
  for (int64_t out = 0; out < streams; out++) {
    std::memset(masks->bytes[out], 0x80, static_cast<size_t>(streams) * half);
    for (int64_t at = 0; at < static_cast<int64_t>(half); at++) {
      int64_t in, from;
      if (mixing) {
        const int64_t item = (out * static_cast<int64_t>(half) + at) / size;
        in = item % streams;
        from = item / streams * size + at % size;
      } else {
        const int64_t byte = (at / size * streams + out) * size + at % size;
        in = byte / static_cast<int64_t>(half);
        from = byte % static_cast<int64_t>(half);
      }
      masks->bytes[out][in][at] = static_cast<uint8_t>(from);
    }
  }
}

/// Moves 32 bytes of each stream. A register of the sides lies `*_step` after the one before it,
/// its upper half `*_half` after the lower one.
template <int64_t known>
inline void mix(std::byte* to, int64_t to_step, int64_t to_half, const std::byte* from,
                int64_t from_step, int64_t from_half, int64_t streams,
                const Masks& masks) noexcept {
  const int64_t count = known == 0 ? streams : known;
  __m256i in[known == 0 ? most_mixed : known];
#pragma GCC unroll 4
  for (int64_t i = 0; i < count; i++) {
    in[i] = load_two(from + i * from_step, from + i * from_step + from_half);
  }
#pragma GCC unroll 4
  for (int64_t out = 0; out < count; out++) {
    __m256i all = _mm256_setzero_si256();
#pragma GCC unroll 4
    for (int64_t i = 0; i < count; i++) {
      all = _mm256_or_si256(all, _mm256_shuffle_epi8(in[i], masks.get(out, i)));
    }
    std::byte* put = to + out * to_step;
    _mm_storeu_si128(reinterpret_cast<__m128i*>(put), _mm256_castsi256_si128(all));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(put + to_half), _mm256_extracti128_si256(all, 1));
  }
}

template <int64_t known>
void mix_all(std::byte* to, const std::byte* from, const Grid& g, bool mixing) noexcept {
  constexpr int64_t wide = 2 * half;
  const int64_t streams = mixing ? g.inner : g.outer;
  const int64_t bytes = (mixing ? g.outer : g.inner) * g.item;
  Masks masks;
  make_masks(&masks, streams, g.item, mixing);
  constexpr auto step = static_cast<int64_t>(half);
  for (int64_t at = 0; at < bytes; at += wide) {
    at = std::min(at, bytes - wide);
    if (mixing) {
      mix<known>(to + at * streams, step, step * streams, from + at, g.from_inner, step, streams,
                 masks);
    } else {
      mix<known>(to + at, g.to_outer, step, from + at * streams, step, step * streams, streams,
                 masks);
    }
  }
}

template <bool mixing>
void mix_streams(std::byte* to, const std::byte* from, const Grid& grid) noexcept {
  switch (mixing ? grid.inner : grid.outer) {
    case 2:
      return mix_all<2>(to, from, grid, mixing);
    case 3:
      return mix_all<3>(to, from, grid, mixing);
    case 4:
      return mix_all<4>(to, from, grid, mixing);
    default:
      return mix_all<0>(to, from, grid, mixing);
  }
}

}  // namespace

CANDLE_END_SIMD

const GridKernels avx2_grids = {
    {sized_kernels<1>(), sized_kernels<2>(), sized_kernels<4>(), sized_kernels<8>(),
     sized_kernels<16>()},
    copy_rows,
    stream_rows,
    mix_streams<true>,
    mix_streams<false>,
};

}  // namespace candle

#endif
