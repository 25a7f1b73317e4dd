#include "layout.h"

#include <cstdlib>

namespace candle {

int64_t count_elements(int32_t ndim, const int64_t* shape) noexcept {
  int64_t count = 1;
  bool empty = false;
  for (int32_t i = 0; i < ndim; i++) {
    if (shape[i] < 0) return -1;
    if (shape[i] == 0) {
      empty = true;
    } else if (__builtin_mul_overflow(count, shape[i], &count)) {
      return -1;
    }
  }
  return empty ? 0 : count;
}

void compact_strides(int32_t ndim, const int64_t* shape, int64_t* strides) noexcept {
  int64_t step = 1;
  for (int32_t i = ndim - 1; i >= 0; i--) {
    strides[i] = step;
    if (shape[i] > 1 && __builtin_mul_overflow(step, shape[i], &step))
      step = 1;  // only where empty
  }
}

void make_canonical(int32_t ndim, const int64_t* shape, int64_t* strides) noexcept {
  for (int32_t i = 0; i < ndim; i++) {
    if (shape[i] == 0) return compact_strides(ndim, shape, strides);
  }
  int64_t step = 1;
  for (int32_t i = ndim - 1; i >= 0; i--) {
    if (shape[i] == 1) strides[i] = step;
    const int64_t width = strides[i] < 0 ? -strides[i] : strides[i];
    step = width == 0 ? step : shape[i] * width;
  }
}

bool is_c_contiguous(int32_t ndim, const int64_t* shape, const int64_t* strides) noexcept {
  int64_t step = 1;
  bool compact = true;
  for (int32_t i = ndim - 1; i >= 0; i--) {
    if (shape[i] == 0) return true;
    if (shape[i] == 1) continue;
    if (strides[i] != step) compact = false;
    step *= shape[i];
  }
  return compact;
}

bool is_f_contiguous(int32_t ndim, const int64_t* shape, const int64_t* strides) noexcept {
  int64_t step = 1;
  bool compact = true;
  for (int32_t i = 0; i < ndim; i++) {
    if (shape[i] == 0) return true;
    if (shape[i] == 1) continue;
    if (strides[i] != step) compact = false;
    step *= shape[i];
  }
  return compact;
}

bool is_dense(int32_t ndim, const int64_t* shape, const int64_t* strides) noexcept {
  int32_t axes[max_ndim];
  int32_t used = 0;
  for (int32_t i = 0; i < ndim; i++) {
    if (shape[i] == 1) continue;
    int32_t at = used++;
    for (; at > 0 && strides[axes[at - 1]] > strides[i]; at--) axes[at] = axes[at - 1];
    axes[at] = i;
  }
  int64_t step = 1;
  for (int32_t i = 0; i < used; i++) {
    if (strides[axes[i]] != step) return false;
    step *= shape[axes[i]];
  }
  return true;
}

bool is_rows(int32_t ndim, const int64_t* shape, const int64_t* strides) noexcept {
  if (ndim == 0 || !is_dense(ndim, shape, strides)) return false;
  for (int32_t i = 1; i < ndim; i++) {
    if (shape[0] > 1 && shape[i] > 1 && strides[i] > strides[0]) return false;
  }
  return true;
}

void rows_order(int32_t ndim, const int64_t* shape, const int64_t* strides,
                int32_t* order) noexcept {
  int32_t places[max_ndim], axes[max_ndim];
  int32_t used = 0;
  for (int32_t i = 0; i < ndim; i++) {
    order[i] = i;
    if (i == 0 || shape[i] == 1) continue;
    places[used] = i;
    int32_t at = used++;
    for (; at > 0 && strides[axes[at - 1]] < strides[i]; at--) axes[at] = axes[at - 1];
    axes[at] = i;
  }
  for (int32_t i = 0; i < used; i++) order[places[i]] = axes[i];
}

bool is_own_inverse(int32_t ndim, const int32_t* order) noexcept {
  for (int32_t i = 0; i < ndim; i++) {
    if (order[order[i]] != i) return false;
  }
  return true;
}

int32_t negative_axis(int32_t ndim, const int64_t* shape, const int64_t* strides) noexcept {
  for (int32_t i = 0; i < ndim; i++) {
    if (strides[i] < 0 && shape[i] > 1) return i;
  }
  return -1;
}

int32_t overlapping_axis(int32_t ndim, const int64_t* shape, const int64_t* strides) noexcept {
  for (int32_t i = 0; i < ndim; i++) {
    if (strides[i] == 0 && shape[i] > 1) return i;
  }
  return -1;
}

bool element_span(int32_t ndim, const int64_t* shape, const int64_t* strides, Span* span) noexcept {
  *span = {0, 0};
  for (int32_t i = 0; i < ndim; i++) {
    if (shape[i] == 0) {
      *span = {0, -1};
      return true;
    }
  }
  for (int32_t i = 0; i < ndim; i++) {
    int64_t reach;
    if (__builtin_mul_overflow(shape[i] - 1, strides[i], &reach)) return false;
    int64_t& end = reach < 0 ? span->low : span->high;
    if (__builtin_add_overflow(end, reach, &end)) return false;
  }
  return true;
}

bool reshape_strides(int32_t ndim, const int64_t* shape, const int64_t* strides, int32_t new_ndim,
                     const int64_t* new_shape, int64_t* new_strides) noexcept {
  if (count_elements(ndim, shape) == 0) {
    compact_strides(new_ndim, new_shape, new_strides);
    return true;
  }
  int64_t old_shape[max_ndim], old_strides[max_ndim];
  int32_t old_ndim = 0;
  for (int32_t i = 0; i < ndim; i++) {
    if (shape[i] == 1) continue;
    old_shape[old_ndim] = shape[i];
    old_strides[old_ndim++] = strides[i];
  }
  int32_t old = 0;
  int32_t fresh = 0;
  while (old < old_ndim && fresh < new_ndim) {  // the least groups of axes with the same product
    int32_t old_end = old + 1;
    int32_t new_end = fresh + 1;
    int64_t old_product = old_shape[old];
    int64_t new_product = new_shape[fresh];
    while (old_product != new_product) {
      if (new_product < old_product) {
        new_product *= new_shape[new_end++];
      } else {
        old_product *= old_shape[old_end++];
      }
    }
    for (int32_t i = old; i + 1 < old_end; i++) {
      if (old_strides[i] != old_shape[i + 1] * old_strides[i + 1]) return false;
    }
    int64_t step = old_strides[old_end - 1];
    for (int32_t i = new_end - 1; i >= fresh; i--) {
      new_strides[i] = step;
      step *= new_shape[i];
    }
    old = old_end;
    fresh = new_end;
  }
  for (int32_t i = fresh; i < new_ndim; i++) new_strides[i] = 1;  // what is left has extent 1
  return true;
}

bool broadcast_strides(int32_t ndim, const int64_t* shape, const int64_t* strides, int32_t new_ndim,
                       const int64_t* new_shape, int64_t* new_strides) noexcept {
  if (ndim > new_ndim) return false;
  const int32_t added = new_ndim - ndim;
  for (int32_t i = 0; i < new_ndim; i++) {
    if (i < added) {
      new_strides[i] = 0;
    } else if (shape[i - added] == new_shape[i]) {
      new_strides[i] = strides[i - added];
    } else if (shape[i - added] == 1) {
      new_strides[i] = 0;
    } else {
      return false;
    }
  }
  return true;
}

}  // namespace candle
