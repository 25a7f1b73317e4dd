// What systems do differently: shared libraries, aligned memory, threads, what those sleep on and
// where they may run. Their own headers stay in platform.cpp where they can. No Python here.
#pragma once

#include <cstddef>
#include <cstdint>

#ifdef __linux__
#include <sched.h>
#endif
#ifndef _WIN32
#include <pthread.h>
#endif
#if !defined(_WIN32) && !defined(__APPLE__)
#include <semaphore.h>
#endif

#if defined(_MSC_VER) && !defined(__clang__)
#error "candle needs clang or gcc: on Windows clang-cl or MinGW-w64 (docs/platforms.md)"
#endif

namespace candle::platform {

/// Opens a library of the system by its file name, for good; nullptr: there is none.
void* open_library(const char* name) noexcept;
/// The address of a function in it; nullptr: it has none of that name.
void* find_in_library(void* library, const char* name) noexcept;

/// Memory at a multiple of `alignment`, a power of two of at least a pointer's size; nullptr: none.
/// Only `free_aligned` gives it back.
void* allocate_aligned(size_t bytes, size_t alignment) noexcept;
void free_aligned(void* block) noexcept;
/// Asks for huge pages there, before they are touched. A refusal changes nothing.
void prefer_huge_pages(void* block, size_t bytes) noexcept;

/// For loops that wait.
inline void pause() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// What threads sleep on. Unlike a condition variable's, its waker never waits for a sleeper.
/// Usable, again in a child of fork, once `init` has succeeded.
class Semaphore {
 public:
  bool init() noexcept;
  void post() noexcept;
  void wait() noexcept;

 private:
#if defined(_WIN32) || defined(__APPLE__)
  void* semaphore_ = nullptr;
#else
  sem_t semaphore_{};
#endif
};

#ifdef _WIN32
struct Thread {};  // one that runs without being known
#else
using Thread = pthread_t;
#endif

/// Starts a thread with a small stack, which nobody waits for and no signal is handled in.
bool start_thread(void (*run)(int number) noexcept, int number, Thread* thread) noexcept;

/// Which processors threads may run on; none where that is not known. Linux knows.
class Affinity {
 public:
  /// The calling thread's.
  static Affinity here() noexcept;
  /// The same, at most some milliseconds old: asking the system takes as long as another thread's
  /// part of a small copy.
  static const Affinity& lately_here() noexcept;

  int count() const noexcept;
  bool operator==(const Affinity& other) const noexcept;
  bool pin(Thread thread) const noexcept;

#ifdef __linux__
 private:
  cpu_set_t set_{};
#endif
};

/// How many processors there are for this process, as far as the system says it without a thread.
int64_t processors() noexcept;

/// From now on `run` is called in every child of fork, where there is fork. Called more than once
/// with one function, it runs as often.
void call_after_fork(void (*run)()) noexcept;

}  // namespace candle::platform
