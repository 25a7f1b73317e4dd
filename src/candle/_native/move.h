// What happens around a Decision: the exception of a refused move, and the one place every copy is
// recorded.
#pragma once

#include "decide.h"
#include "pyref.h"
#include "state.h"

namespace candle {

/// What messages call the producer of memory that came without an object.
inline constexpr const char* ownerless = "a managed tensor";

/// One move, as the ledger and a refusal's plan describe it.
struct Move {
  const Decision& decision;
  const Source& source;
  const Demand& demand;
  PyTypeObject* producer;  // nullptr where there is none
};

/// Sets the exception of a refused move: a CopyError with its plan where a copy would have helped,
/// else a BufferError.
void refuse(const Move& move) noexcept;

/// Sets a BufferError of a kind that only Python words know: `code` is a reason's name in
/// candle.plan.
void refuse_by(Route route, const char* code, const char* fact, PyTypeObject* producer) noexcept;

/// A producer's own error becomes a BufferError that has it as its cause. MemoryError and
/// non-Exceptions pass.
void blame_producer(const char* producer) noexcept;

namespace detail {
bool tell_listener(const Move& move) noexcept;
}

/// Every copy passes here before it is made; false with an error set where a listener forbids it.
inline bool record(const Move& move) noexcept {
  return state.listeners.load(std::memory_order_relaxed) == 0 || detail::tell_listener(move);
}

}  // namespace candle
