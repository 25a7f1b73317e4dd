// The threads that share big copies. No Python here.
#pragma once

#include <cstdint>

namespace candle {

/// Runs `task(context, first, last)` for stretches of 0 to `count`, each of `grain` or less, on
/// this thread and others; returns when all is done. Alone where the others are busy for another
/// thread, or there are none.
void run_in_threads(void* context, void (*task)(void* context, int64_t first, int64_t last),
                    int64_t count, int64_t grain) noexcept;

/// How many threads share a copy: as `set_num_threads` says, else the environment variable
/// CANDLE_NUM_THREADS, else one for each processor that this thread may run on.
int num_threads() noexcept;

/// At least 1; 0: as if it had never been called.
void set_num_threads(int count) noexcept;

}  // namespace candle
