// Casts of runs: elements that lie one after the other become such elements of another dtype. No
// Python here.
#pragma once

#include <dlpack/dlpack.h>

#include <cstddef>
#include <cstdint>

#include "cast_kernels.h"
#include "direct_cast.h"

namespace candle {

/// The cast of one pair of dtypes, by the rules of cast.h. Elements below a byte take a byte each
/// on both sides. May be used by several threads at once.
class Caster {
 public:
  /// `can_cast(from, to)` holds and the dtypes differ. `swapped`: the components of the source lie
  /// in the foreign byte order.
  Caster(DLDataType from, bool swapped, DLDataType to) noexcept;

  /// Casts `count` elements. The two runs do not overlap; neither need be aligned.
  void run(const std::byte* from, std::byte* to, int64_t count) const noexcept;

 private:
  /// A direct cast, and what it reads and writes.
  struct Step {
    DirectCast cast;
    int from_bytes;
    int to_bytes;

    void run(const std::byte* from, std::byte* to, int64_t count) const noexcept;
  };

  bool add_step(DLDataType from, DLDataType to) noexcept;
  bool plan_steps(DLDataType from, DLDataType to) noexcept;
  void run_steps(const std::byte* from, std::byte* to, int64_t count) const noexcept;
  void run_general(const std::byte* from, std::byte* to, int64_t count) const noexcept;

  DLDataType from_;
  DLDataType to_;
  bool swaps_;
  int step_count_ = 0;  // 0: there is no direct cast
  Step steps_[2];
  Decoder decoder_;
  Encoder encoder_;
};

}  // namespace candle
