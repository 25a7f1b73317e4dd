#include "arrow_pieces.h"

#include <algorithm>

namespace candle {

namespace {

constexpr size_t block_bytes = size_t{1} << 16;
static_assert(2 * max_ndim * sizeof(int64_t) + (max_ndim + 2) * sizeof(Nulls) <= block_bytes);

}  // namespace

std::byte* Pieces::room_for(size_t bytes) noexcept {
  if (blocks_.size() == 0 || used_ + bytes > block_bytes) {
    Block* block = blocks_.add();
    if (block == nullptr) return nullptr;
    block->memory = static_cast<std::byte*>(std::malloc(block_bytes));
    used_ = 0;
  }
  std::byte* memory = blocks_[blocks_.size() - 1].memory;
  if (memory == nullptr) return nullptr;
  used_ += bytes;
  return memory + used_ - bytes;
}

bool Pieces::keep(const Piece& piece) noexcept {
  const auto ndim = static_cast<size_t>(piece.ndim), nullable = static_cast<size_t>(piece.nullable);
  std::byte* memory = room_for(2 * ndim * sizeof(int64_t) + nullable * sizeof(Nulls));
  Piece* kept = memory == nullptr ? nullptr : pieces_.add();
  if (kept == nullptr) return false;
  *kept = piece;
  kept->shape = reinterpret_cast<int64_t*>(memory);
  kept->strides = kept->shape + ndim;
  kept->nulls = reinterpret_cast<Nulls*>(kept->strides + ndim);
  std::copy_n(piece.shape, ndim, kept->shape);
  std::copy_n(piece.strides, ndim, kept->strides);
  std::copy_n(piece.nulls, nullable, kept->nulls);
  return true;
}

}  // namespace candle
