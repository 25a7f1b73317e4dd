// What is kept of the chunks and columns of an arrival. No Python here.
#pragma once

#include "arrow_layout.h"
#include "grown.h"

namespace candle {

/// Pieces as small as they can be: a column may have a chunk for each of its rows.
class Pieces {
 public:
  /// Copies a piece to the end. False where there is no memory.
  bool keep(const Piece& piece) noexcept;
  const Piece& operator[](int64_t i) const noexcept { return pieces_[i]; }

 private:
  struct Block {
    ~Block() { std::free(memory); }
    Block() = default;
    Block(Block&& other) noexcept : memory(std::exchange(other.memory, nullptr)) {}
    std::byte* memory = nullptr;
  };
  std::byte* room_for(size_t bytes) noexcept;

  Grown<Piece> pieces_;
  Grown<Block> blocks_;  // of their arrays
  size_t used_ = 0;      // bytes of the last one
};

}  // namespace candle
