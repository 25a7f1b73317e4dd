#include "threads.h"

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>

namespace candle {

namespace {

constexpr int most_threads = 256;
constexpr int spins = 4000;  // before a thread that waits goes to sleep

void pause() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// What threads sleep on. Unlike a condition variable's, its waker never waits for a sleeper.
class Semaphore {
 public:
  bool init() noexcept { return sem_init(&semaphore_, 0, 0) == 0; }
  void post() noexcept { sem_post(&semaphore_); }
  void wait() noexcept {
    while (sem_wait(&semaphore_) != 0 && errno == EINTR) {
    }
  }

 private:
  sem_t semaphore_{};
};

/// What a thread takes from first. Apart, so that nobody's counting slows another's.
struct alignas(64) Share {
  std::atomic<int64_t> next{0};
  int64_t end = 0;
};

/// The one job there can be at a time. Every thread begins with a share of its own, the same one
/// when the same job comes again: what it wrote last time is in its cache. Then it helps with the
/// others' shares. Seats are what other threads may still take, taken ones
/// those that have not left yet: both in one word, so that nobody can sit down at a job that is
/// closed.
class Pool {
 public:
  /// False if the threads have a job of another thread.
  bool run(void* context, void (*task)(void*, int64_t, int64_t), int64_t count, int64_t grain,
           int helpers) noexcept {
    if (busy_.exchange(true, std::memory_order_acquire)) return false;
    start_threads(helpers);
    helpers = std::min(helpers, threads_);
    task_ = task;
    context_ = context;
    grain_ = grain;
    shares_ = helpers + 1;
    const int64_t pieces = (count + grain - 1) / grain;
    for (int i = 0; i < shares_; i++) {
      share_[i].next.store(pieces * i / shares_ * grain, std::memory_order_relaxed);
      share_[i].end = std::min(pieces * (i + 1) / shares_ * grain, count);
    }
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

  /// In a child of fork, which has none of the threads.
  void forget() noexcept {
    ready_ = false;
    threads_ = 0;
    numbers_.store(0, std::memory_order_relaxed);
    sleeping_.store(0, std::memory_order_relaxed);
    seats_.store(0, std::memory_order_relaxed);
    busy_.store(false, std::memory_order_relaxed);
  }

 private:
  static constexpr uint32_t one_seat = 1U << 16;
  static constexpr uint32_t taken_mask = 0x7fff;
  static constexpr uint32_t awaited = 0x8000;  // the one who brought the job sleeps until all left
  static constexpr size_t stack_bytes = 1 << 18;

  void work(int number) noexcept {
    for (int i = 0; i < shares_; i++) {
      Share& share = share_[(number + i) % shares_];
      for (;;) {
        const int64_t first = share.next.fetch_add(grain_, std::memory_order_relaxed);
        if (first >= share.end) break;
        task_(context_, first, std::min(first + grain_, share.end));
      }
    }
  }

  void start_threads(int wanted) noexcept {
    if (threads_ >= wanted) return;
    ready_ = ready_ || (wake_.init() && done_.init());
    if (!ready_) return;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);  // signals are for the program's own threads
    pthread_attr_t attributes;
    if (pthread_attr_init(&attributes) == 0) {
      pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
      pthread_attr_setstacksize(&attributes, stack_bytes);
      const auto main = [](void* pool) -> void* {
        static_cast<Pool*>(pool)->serve();
        return nullptr;
      };
      pthread_t thread;
      while (threads_ < wanted && pthread_create(&thread, &attributes, main, this) == 0) threads_++;
      pthread_attr_destroy(&attributes);
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  void serve() noexcept {
    const int number = numbers_.fetch_add(1, std::memory_order_relaxed) + 1;
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

  uint64_t next_job(uint64_t seen) noexcept {
    for (;;) {
      for (int i = 0; i < spins; i++) {
        const uint64_t job = job_.load(std::memory_order_acquire);
        if (job != seen) return job;
        pause();
      }
      sleeping_.fetch_add(1, std::memory_order_seq_cst);
      if (job_.load(std::memory_order_seq_cst) == seen) wake_.wait();
      sleeping_.fetch_sub(1, std::memory_order_relaxed);
    }
  }

  void wait_for_others() noexcept {
    for (int i = 0; i < spins; i++) {
      if (seats_.load(std::memory_order_acquire) == 0) return;
      pause();
    }
    if (seats_.fetch_or(awaited, std::memory_order_acq_rel) != 0) done_.wait();
  }

  std::atomic<bool> busy_{false};
  std::atomic<uint64_t> job_{0};
  std::atomic<uint32_t> seats_{0};
  std::atomic<int> sleeping_{0};
  void (*task_)(void*, int64_t, int64_t) = nullptr;
  void* context_ = nullptr;
  int64_t grain_ = 0;
  int shares_ = 0;
  Share share_[most_threads];
  bool ready_ = false;
  int threads_ = 0;  // beside those that bring the jobs
  std::atomic<int> numbers_{0};
  Semaphore wake_;
  Semaphore done_;
};

/// Never destroyed: its threads may outlive everything else.
constinit Pool pool;

std::atomic<int> asked_threads{0};

int environment_threads() noexcept {
  const char* text = std::getenv("CANDLE_NUM_THREADS");
  const long count = text == nullptr ? 0 : std::strtol(text, nullptr, 10);
  return static_cast<int>(std::clamp<long>(count, 0, most_threads));
}

int processors() noexcept {
#ifdef __linux__
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::min(CPU_COUNT(&set), most_threads);
#endif
  return static_cast<int>(std::clamp<long>(sysconf(_SC_NPROCESSORS_ONLN), 1, most_threads));
}

void watch_forks() noexcept {
  static const int watched = pthread_atfork(nullptr, nullptr, [] { pool.forget(); });
  static_cast<void>(watched);
}

}  // namespace

void run_in_threads(void* context, void (*task)(void* context, int64_t first, int64_t last),
                    int64_t count, int64_t grain) noexcept {
  const int64_t parts = (count + grain - 1) / grain;
  const auto threads = static_cast<int>(std::min<int64_t>(num_threads(), parts));
  if (threads > 1) {
    watch_forks();
    if (pool.run(context, task, count, grain, threads - 1)) return;
  }
  task(context, 0, count);
}

int num_threads() noexcept {
  const int asked = asked_threads.load(std::memory_order_relaxed);
  if (asked > 0) return asked;
  static const int environment = environment_threads();
  return environment > 0 ? environment : processors();
}

void set_num_threads(int count) noexcept {
  asked_threads.store(std::clamp(count, 0, most_threads), std::memory_order_relaxed);
}

}  // namespace candle
