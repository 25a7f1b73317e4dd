// Shapes and strides: sizes, contiguity, byte ranges, reshaping. No Python here.
#pragma once

#include <cstdint>

namespace candle {

/// The most axes a Tensor has. numpy's own limit is 64, and nobody's tensors have more.
inline constexpr int32_t max_ndim = 64;

/// Number of elements of a shape; -1 where an extent is negative or the product does not fit 63
/// bits.
int64_t count_elements(int32_t ndim, const int64_t* shape) noexcept;

/// Row-major strides, in elements; canonical: an axis of extent 0 counts as 1.
void compact_strides(int32_t ndim, const int64_t* shape, int64_t* strides) noexcept;

/// Gives axes of extent 1 the stride they would have in row-major order of what lies inside them,
/// so that strict consumers agree; empty tensors get row-major strides.
void make_canonical(int32_t ndim, const int64_t* shape, int64_t* strides) noexcept;

/// Whether the elements lie in row-major order without gaps. Axes of extent 1 and empty tensors do
/// not count, as in numpy.
bool is_c_contiguous(int32_t ndim, const int64_t* shape, const int64_t* strides) noexcept;

/// The same for column-major order.
bool is_f_contiguous(int32_t ndim, const int64_t* shape, const int64_t* strides) noexcept;

/// Whether the elements, one at least, fill one range without gaps or overlap, in any order of
/// positive strides.
bool is_dense(int32_t ndim, const int64_t* shape, const int64_t* strides) noexcept;

/// The same, with the first axis outside of all others: each row is a dense block, next to the one
/// before.
bool is_rows(int32_t ndim, const int64_t* shape, const int64_t* strides) noexcept;

/// The order in which the axes of such rows lie: the i-th from outside is axis order[i]. The first
/// and those of extent 1 stay in their places.
void rows_order(int32_t ndim, const int64_t* shape, const int64_t* strides,
                int32_t* order) noexcept;

/// Whether an order of axes is the same read the other way round.
bool is_own_inverse(int32_t ndim, const int32_t* order) noexcept;

/// The first axis of extent > 1 with a negative stride, or -1.
int32_t negative_axis(int32_t ndim, const int64_t* shape, const int64_t* strides) noexcept;

/// The first axis of extent > 1 with stride 0, or -1.
int32_t overlapping_axis(int32_t ndim, const int64_t* shape, const int64_t* strides) noexcept;

/// Lowest and highest element offset a layout reaches, both inclusive; {0, -1} when empty. False on
/// overflow.
struct Span {
  int64_t low, high;
};
bool element_span(int32_t ndim, const int64_t* shape, const int64_t* strides, Span* span) noexcept;

/// Strides that give the same elements a new shape without a copy; false where there are none. Both
/// shapes have the same number of elements. Rule: numpy's `reshape`.
bool reshape_strides(int32_t ndim, const int64_t* shape, const int64_t* strides, int32_t new_ndim,
                     const int64_t* new_shape, int64_t* new_strides) noexcept;

/// Strides of `shape` seen as `new_shape` by the broadcasting rules of the Array API; false where
/// they do not allow it.
bool broadcast_strides(int32_t ndim, const int64_t* shape, const int64_t* strides, int32_t new_ndim,
                       const int64_t* new_shape, int64_t* new_strides) noexcept;

}  // namespace candle
