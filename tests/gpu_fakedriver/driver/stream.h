// Streams that run late, each on a thread of its own, and the events between them.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "abi.h"
#include "memory.h"

namespace fake {

class Stream;

/// A capture in progress: work queued on its streams is noted and never run.
struct Capture {
  uint64_t id = 0;
  bool global = true;   // its mode forbids others what might disturb it
  bool broken = false;  // something illegal was done meanwhile
  std::shared_ptr<Stream> origin;
  std::vector<std::shared_ptr<Stream>> streams;
  std::set<const Stream*> loose;  // those whose last work nobody in the capture waits for
};

/// A point on a stream: all that was queued up to number `upto`.
struct Point {
  std::shared_ptr<Stream> stream;
  uint64_t upto = 0;
};

/// Work that waits for some points, then for a while, and then runs.
struct Work {
  std::vector<Point> after;
  std::function<void()> run;
  int delay_us = 0;
  bool late = false;  // may be held back
  uint64_t number = 0;
};

struct Event {
  int device = 0;
  uint64_t id = 0;
  std::shared_ptr<const Point> at;   // none before the first record
  std::shared_ptr<Capture> capture;  // the one it was last recorded in, behind work `noted` of `on`
  std::shared_ptr<Stream> on;
  uint64_t noted = 0;
};

/// What a stream is made as, and stays.
struct StreamTraits {
  int device = 0;
  unsigned flags = 0;
  int priority = 0;
  uint64_t id = 0;
  bool legacy = false;
};

/// The members are guarded by the one mutex.
class Stream : public StreamTraits, public std::enable_shared_from_this<Stream> {
 public:
  explicit Stream(const StreamTraits& traits) : StreamTraits(traits) {}

  bool blocking() const { return (flags & stream_non_blocking) == 0; }
  Point now() { return {shared_from_this(), queued_}; }
  bool reached(uint64_t number) const { return done_ >= number; }
  bool idle() const { return reached(queued_); }
  /// Whether it has nothing to do, or nothing it could do now.
  bool stuck() const;
  /// Lets late work go that was held back, up to a number, and all that it waits for.
  void want(uint64_t number);
  /// Queues work, whose number is then `now().upto`; the first one starts the thread.
  void push(Work&& work);
  /// Lets the thread end once it has nothing left to do.
  void close();

  std::shared_ptr<Capture> capture;
  uint64_t noted = 0;                        // how much was captured
  std::vector<std::shared_ptr<Block>> pool;  // freed in the order of this stream

 private:
  static void run(std::shared_ptr<Stream> self);

  bool held_back() const;

  uint64_t queued_ = 0;
  uint64_t done_ = 0;
  uint64_t wanted_ = 0;
  Work current_;
  std::deque<Work> queue_;
  const Point* awaited_ = nullptr;
  bool about_to_run_ = false;
  bool started_ = false;
  bool closed_ = false;
};

/// One mutex for all; what waits for any stream waits for `moved`. They are never destroyed:
/// threads of streams outlive the static objects of a process that ends.
struct Clock {
  std::mutex mutex;
  std::condition_variable moved;
  bool held = false;  // late work is held back until the host waits for it
};
Clock& the_clock();

/// Blocks the host, who holds the mutex, until a point is reached.
void wait_for(std::unique_lock<std::mutex>& lock, const Point& point);

}  // namespace fake
