// What happens around a Decision: the exception of a refused move, the one place where every move
// is told to who watches, and the dry run, which goes no further.
#pragma once

#include <chrono>

#include "decide.h"
#include "pyref.h"
#include "state.h"
#include "storage.h"

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

/// Raises the pending error from another.
void raise_from(Ref&& cause) noexcept;

/// A producer's own error becomes a BufferError that has it as its cause. MemoryError and
/// non-Exceptions pass.
void blame_producer(const char* producer, const char* fails_to = "export its memory") noexcept;

/// Whether anybody, in whatever context, watches moves.
inline bool watched() noexcept { return state.watchers.load(std::memory_order_relaxed) != 0; }

/// Every move passes here before it is made, and is told of when it is. Costs one load and a branch
/// where nobody watches.
class Recording {
 public:
  explicit Recording(const Move& move) noexcept {
    if (watched()) begin(move);
  }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  /// False with an error set where a watcher forbids the move.
  bool allowed() const noexcept { return allowed_; }

  /// Passes on what the move gave.
  PyObject* done(PyObject* result) noexcept {
    done(result != nullptr);
    return result;
  }
  bool done(bool good) noexcept {
    if (entry_ && good) end();
    return good;
  }

 private:
  void begin(const Move& move) noexcept;
  void end() noexcept;

  bool allowed_ = true;
  Ref entry_;
  std::chrono::steady_clock::time_point started_;
};

/// While one lives, the moves this thread makes are steps of another, and are not told.
class Quiet {
 public:
  Quiet() noexcept { depth++; }
  ~Quiet() { depth--; }
  Quiet(const Quiet&) = delete;
  Quiet& operator=(const Quiet&) = delete;
  static bool now() noexcept { return depth != 0; }

  /// Ends one for as long as it lives.
  class Lifted {
   public:
    Lifted() noexcept { depth--; }
    ~Lifted() { depth++; }
    Lifted(const Lifted&) = delete;
    Lifted& operator=(const Lifted&) = delete;
  };

 private:
  static thread_local int depth;
};

/// Tells of an export that always shares. False with an error set.
bool record_share(const Source& source, const char* consumer) noexcept;

/// An ingest or export that ends where its move is decided.
struct DryRun {
  bool memory_only = false;  // asks where the elements lie, whatever speaks against a move
  Ref found;                 // the Plan; or address, shape, strides, ...
};

/// The end of a dry run: writes the move down. False with the exception of a refused move set.
bool plan_of(const Move& move, DryRun* dry) noexcept;

/// The same of an ingest. Gives the tensor that the move would have given: over the same memory
/// where it shares; where it copies, one with the copy's layout and no memory, to be asked and
/// never read. nullptr with an error set.
PyObject* stop_at(const Move& move, Owner&& owner, DryRun* dry) noexcept;

}  // namespace candle
