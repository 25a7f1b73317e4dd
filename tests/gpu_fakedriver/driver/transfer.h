// Queued writes: copies and fills, for the driver's entry points and for the tests' own.
#pragma once

#include <vector>

#include "driver.h"

namespace fake {

/// Copies; out of pageable memory it is read at once, and into it the caller waits for the stream,
/// as the real driver does.
Result copy(Call& call, Stream& stream, Address to, Address from, size_t size, int delay_us);

/// Writes one item over and over.
Result fill(Call& call, Stream& stream, Address to, std::vector<std::byte> item, size_t count,
            int delay_us);

}  // namespace fake
