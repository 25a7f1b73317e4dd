#include "threads.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>

#include "platform.h"

namespace candle {

namespace {

using platform::Affinity;

constexpr int most_threads = 256;
constexpr int64_t most_parts = int64_t{1} << 31;
constexpr int spins = 4000;  // before a thread that waits goes to sleep

/// A stretch of a job's parts, to be taken from either end.
class alignas(64) Stretch {
 public:
  void set(uint64_t first, uint64_t last) noexcept {
    ends_.store(last << 32 | first, std::memory_order_relaxed);
  }

  /// The next part at one end; -1: there is none.
  int64_t take(bool at_end) noexcept {
    uint64_t ends = ends_.load(std::memory_order_relaxed);
    for (;;) {
      const uint64_t first = ends & 0xffffffffU;
      const uint64_t last = ends >> 32;
      if (first == last) return -1;
      const uint64_t next = at_end ? ends - (uint64_t{1} << 32) : ends + 1;
      if (ends_.compare_exchange_weak(ends, next, std::memory_order_relaxed)) {
        return static_cast<int64_t>(at_end ? last - 1 : first);
      }
    }
  }

 private:
  std::atomic<uint64_t> ends_{0};
};

void serve_pool(int number) noexcept;

/// The one job there can be at a time. Seats are what other threads may still take, taken ones
/// those that have not left yet: both in one word, so that nobody can sit down at a job that is
/// closed. Each thread has a stretch of every job, the same one if it can: what it copied before is
/// in its caches. Then it helps with the others' from their ends.
class Pool {
 public:
  /// False if the threads have a job of another thread.
  bool run(void* context, void (*task)(void*, int64_t, int64_t), int64_t count, int64_t grain,
           int helpers, const Affinity& affinity) noexcept {
    if (busy_.exchange(true, std::memory_order_acquire)) return false;
    start_threads(helpers);
    follow(affinity);
    helpers = std::min(helpers, threads_);
    task_ = task;
    context_ = context;
    count_ = count;
    grain_ = grain;
    share_out((count + grain - 1) / grain, helpers + 1);
    seats_.store(static_cast<uint32_t>(helpers) * one_seat, std::memory_order_release);
    job_.fetch_add(1, std::memory_order_seq_cst);
    for (int i = std::min(helpers, sleeping_.load(std::memory_order_seq_cst)); i > 0; i--) {
      wake_.post();
    }
    work(0);
    seats_.fetch_and(taken_mask, std::memory_order_acq_rel);  // who comes late has no job
    wait_for_others();
    busy_.store(false, std::memory_order_release);
    return true;
  }

  /// The thread of this number; those that bring jobs are 0.
  [[noreturn]] void serve(int number) noexcept {
    uint64_t seen = 0;
    for (;;) {
      seen = next_job(seen);
      uint32_t seats = seats_.load(std::memory_order_acquire);
      while (seats >= one_seat) {
        if (!seats_.compare_exchange_weak(seats, seats - one_seat + 1, std::memory_order_acq_rel,
                                          std::memory_order_acquire)) {
          continue;
        }
        work(number);
        const uint32_t before = seats_.fetch_sub(1, std::memory_order_acq_rel);
        if (before == (awaited | 1)) done_.post();
        break;
      }
    }
  }

  /// In a child of fork, which has none of the threads.
  void forget() noexcept {
    ready_ = false;
    threads_ = 0;
    sleeping_.store(0, std::memory_order_relaxed);
    seats_.store(0, std::memory_order_relaxed);
    busy_.store(false, std::memory_order_relaxed);
  }

 private:
  static constexpr uint32_t one_seat = 1U << 16;
  static constexpr uint32_t taken_mask = 0x7fff;
  static constexpr uint32_t awaited = 0x8000;  // the one who brought the job sleeps until all left

  void share_out(int64_t parts, int stretches) noexcept {
    stretch_count_ = stretches;
    for (int i = 0; i < stretches; i++) {
      stretches_[i].set(static_cast<uint64_t>(parts * i / stretches),
                        static_cast<uint64_t>(parts * (i + 1) / stretches));
    }
  }

  void work(int thread) noexcept {
    const int own = thread % stretch_count_;
    for (int i = 0; i < stretch_count_; i++) {
      Stretch& stretch = stretches_[(own + i) % stretch_count_];
      for (int64_t part; (part = stretch.take(i > 0)) >= 0;) {
        task_(context_, part * grain_, std::min((part + 1) * grain_, count_));
      }
    }
  }

  /// Threads run where the one that brings a job may.
  void follow(const Affinity& affinity) noexcept {
    if (affinity.count() == 0 || affinity == affinity_) return;
    affinity_ = affinity;
    for (int i = 0; i < threads_; i++) {
      if (!affinity.pin(handles_[i])) affinity_ = {};  // try again with the next job
    }
  }

  void start_threads(int wanted) noexcept {
    if (threads_ >= wanted) return;
    ready_ = ready_ || (wake_.init() && done_.init());
    if (!ready_) return;
    while (threads_ < wanted &&
           platform::start_thread(serve_pool, threads_ + 1, &handles_[threads_])) {
      threads_++;
    }
  }

  uint64_t next_job(uint64_t seen) noexcept {
    for (;;) {
      for (int i = 0; i < spins; i++) {
        const uint64_t job = job_.load(std::memory_order_acquire);
        if (job != seen) return job;
        platform::pause();
      }
      sleeping_.fetch_add(1, std::memory_order_seq_cst);
      if (job_.load(std::memory_order_seq_cst) == seen) wake_.wait();
      sleeping_.fetch_sub(1, std::memory_order_relaxed);
    }
  }

  void wait_for_others() noexcept {
    for (int i = 0; i < spins; i++) {
      if (seats_.load(std::memory_order_acquire) == 0) return;
      platform::pause();
    }
    if (seats_.fetch_or(awaited, std::memory_order_acq_rel) != 0) done_.wait();
  }

  std::atomic<bool> busy_{false};
  std::atomic<uint64_t> job_{0};
  std::atomic<uint32_t> seats_{0};
  std::atomic<int> sleeping_{0};
  void (*task_)(void*, int64_t, int64_t) = nullptr;
  void* context_ = nullptr;
  int64_t count_ = 0;
  int64_t grain_ = 0;
  int stretch_count_ = 1;
  bool ready_ = false;
  int threads_ = 0;  // beside those that bring the jobs
  platform::Thread handles_[most_threads] = {};
  Affinity affinity_;
  Stretch stretches_[most_threads];
  platform::Semaphore wake_;
  platform::Semaphore done_;
};

/// Never destroyed: its threads may outlive everything else.
constinit Pool pool;

void serve_pool(int number) noexcept { pool.serve(number); }

std::atomic<int> asked_threads{0};

int environment_threads() noexcept {
  const char* text = std::getenv("CANDLE_NUM_THREADS");
  const long count = text == nullptr ? 0 : std::strtol(text, nullptr, 10);
  return static_cast<int>(std::clamp<long>(count, 0, most_threads));
}

/// How many threads share a copy of a thread that may run there.
int threads_within(const Affinity& affinity) noexcept {
  const int asked = asked_threads.load(std::memory_order_relaxed);
  if (asked > 0) return asked;
  static const int environment = environment_threads();
  if (environment > 0) return environment;
  const int64_t count = affinity.count() > 0 ? affinity.count() : platform::processors();
  return static_cast<int>(std::clamp<int64_t>(count, 1, most_threads));
}

void watch_forks() noexcept {
  static const bool watched = [] {
    platform::call_after_fork([] { pool.forget(); });
    return true;
  }();
  static_cast<void>(watched);
}

}  // namespace

void run_in_threads(void* context, void (*task)(void* context, int64_t first, int64_t last),
                    int64_t count, int64_t grain) noexcept {
  grain = std::max(grain, count / most_parts + 1);
  const int64_t parts = (count + grain - 1) / grain;
  const Affinity& affinity = Affinity::lately_here();
  const auto threads = static_cast<int>(std::min<int64_t>(threads_within(affinity), parts));
  if (threads > 1) {
    watch_forks();
    if (pool.run(context, task, count, grain, threads - 1, affinity)) return;
  }
  task(context, 0, count);
}

int num_threads() noexcept { return threads_within(Affinity::here()); }

void set_num_threads(int count) noexcept {
  asked_threads.store(std::clamp(count, 0, most_threads), std::memory_order_relaxed);
}

}  // namespace candle
