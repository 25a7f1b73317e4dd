#include "platform.h"

#include <cstdlib>
#include <new>

#ifdef _WIN32
#ifndef NOMINMAX
#define NOMINMAX
#endif
#ifndef WIN32_LEAN_AND_MEAN
#define WIN32_LEAN_AND_MEAN
#endif
#include <windows.h>
// after it
#include <malloc.h>
#include <process.h>

#include <bit>
#else
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <ctime>
#endif
#ifdef __APPLE__
#include <dispatch/dispatch.h>
#endif

namespace candle::platform {

namespace {

constexpr size_t stack_bytes = 1 << 18;

/// What a new thread is told. It frees it.
struct Start {
  void (*run)(int number) noexcept;
  int number;
};

void run_started(void* told) noexcept {
  auto* start = static_cast<Start*>(told);
  const Start own = *start;
  delete start;
  own.run(own.number);
}

}  // namespace

// --- libraries, memory ---

#ifdef _WIN32

void* open_library(const char* name) noexcept {
  // Not from the folder of the program, or the one it was started in.
  return reinterpret_cast<void*>(LoadLibraryExA(name, nullptr, LOAD_LIBRARY_SEARCH_SYSTEM32));
}

void* find_in_library(void* library, const char* name) noexcept {
  return reinterpret_cast<void*>(GetProcAddress(static_cast<HMODULE>(library), name));
}

void* allocate_aligned(size_t bytes, size_t alignment) noexcept {
  return _aligned_malloc(bytes, alignment);
}

void free_aligned(void* block) noexcept { _aligned_free(block); }

#else

void* open_library(const char* name) noexcept { return dlopen(name, RTLD_NOW | RTLD_LOCAL); }

void* find_in_library(void* library, const char* name) noexcept { return dlsym(library, name); }

void* allocate_aligned(size_t bytes, size_t alignment) noexcept {
  void* block;
  return posix_memalign(&block, alignment, bytes) == 0 ? block : nullptr;
}

void free_aligned(void* block) noexcept { std::free(block); }

#endif

void prefer_huge_pages([[maybe_unused]] void* block, [[maybe_unused]] size_t bytes) noexcept {
#ifdef MADV_HUGEPAGE
  madvise(block, bytes, MADV_HUGEPAGE);
#endif
}

// --- what threads sleep on ---

#if defined(_WIN32)

bool Semaphore::init() noexcept {
  semaphore_ = CreateSemaphoreW(nullptr, 0, 0x7fffffff, nullptr);
  return semaphore_ != nullptr;
}

void Semaphore::post() noexcept { ReleaseSemaphore(semaphore_, 1, nullptr); }

void Semaphore::wait() noexcept { WaitForSingleObject(semaphore_, INFINITE); }

#elif defined(__APPLE__)

bool Semaphore::init() noexcept {  // sem_init always fails there
  semaphore_ = dispatch_semaphore_create(0);
  return semaphore_ != nullptr;
}

void Semaphore::post() noexcept {
  dispatch_semaphore_signal(static_cast<dispatch_semaphore_t>(semaphore_));
}

void Semaphore::wait() noexcept {
  dispatch_semaphore_wait(static_cast<dispatch_semaphore_t>(semaphore_), DISPATCH_TIME_FOREVER);
}

#else

bool Semaphore::init() noexcept { return sem_init(&semaphore_, 0, 0) == 0; }

void Semaphore::post() noexcept { sem_post(&semaphore_); }

void Semaphore::wait() noexcept {
  while (sem_wait(&semaphore_) != 0 && errno == EINTR) {
  }
}

#endif

// --- threads ---

#ifdef _WIN32

namespace {

unsigned __stdcall enter_thread(void* told) noexcept {
  run_started(told);
  return 0;
}

}  // namespace

bool start_thread(void (*run)(int number) noexcept, int number, Thread*) noexcept {
  auto* start = new (std::nothrow) Start{run, number};
  if (start == nullptr) return false;
  const uintptr_t handle = _beginthreadex(nullptr, stack_bytes, enter_thread, start,
                                          STACK_SIZE_PARAM_IS_A_RESERVATION, nullptr);
  if (handle == 0) {
    delete start;
    return false;
  }
  CloseHandle(reinterpret_cast<HANDLE>(handle));
  return true;
}

int64_t processors() noexcept {
  DWORD_PTR own = 0;
  DWORD_PTR all = 0;
  if (GetProcessAffinityMask(GetCurrentProcess(), &own, &all) == 0) return 1;
  return std::popcount(own);
}

void call_after_fork(void (*)()) noexcept {}

#else

namespace {

void* enter_thread(void* told) noexcept {
  run_started(told);
  return nullptr;
}

bool start_detached(Start* start, Thread* thread) noexcept {
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return false;
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, stack_bytes);
  const bool started = pthread_create(thread, &attributes, enter_thread, start) == 0;
  pthread_attr_destroy(&attributes);
  return started;
}

}  // namespace

bool start_thread(void (*run)(int number) noexcept, int number, Thread* thread) noexcept {
  auto* start = new (std::nothrow) Start{run, number};
  if (start == nullptr) return false;
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // signals are for the program's own threads
  const bool started = start_detached(start, thread);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (!started) delete start;
  return started;
}

int64_t processors() noexcept { return sysconf(_SC_NPROCESSORS_ONLN); }

void call_after_fork(void (*run)()) noexcept { pthread_atfork(nullptr, nullptr, run); }

#endif

// --- where they may run ---

#ifdef __linux__

Affinity Affinity::here() noexcept {
  Affinity affinity;
  if (sched_getaffinity(0, sizeof affinity.set_, &affinity.set_) != 0) CPU_ZERO(&affinity.set_);
  return affinity;
}

const Affinity& Affinity::lately_here() noexcept {
  thread_local Affinity affinity;
  thread_local timespec asked{};
  timespec now{};
  if (clock_gettime(CLOCK_MONOTONIC_COARSE, &now) == 0 && now.tv_sec == asked.tv_sec &&
      now.tv_nsec == asked.tv_nsec) {
    return affinity;
  }
  asked = now;
  affinity = here();
  return affinity;
}

int Affinity::count() const noexcept { return CPU_COUNT(&set_); }

bool Affinity::operator==(const Affinity& other) const noexcept {
  return CPU_EQUAL(&set_, &other.set_);
}

bool Affinity::pin(Thread thread) const noexcept {
  return pthread_setaffinity_np(thread, sizeof set_, &set_) == 0;
}

#else

Affinity Affinity::here() noexcept { return {}; }

const Affinity& Affinity::lately_here() noexcept {
  static constexpr Affinity unknown{};
  return unknown;
}

int Affinity::count() const noexcept { return 0; }

bool Affinity::operator==(const Affinity&) const noexcept { return true; }

bool Affinity::pin(Thread) const noexcept { return true; }

#endif

}  // namespace candle::platform
