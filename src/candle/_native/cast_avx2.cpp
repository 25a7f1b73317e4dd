#include "simd.h"

#if CANDLE_HAS_AVX2

#include <immintrin.h>

#include <cstring>
#include <limits>
#include <type_traits>

#include "cast_numbers.h"
#include "direct_cast.h"

CANDLE_BEGIN_AVX2

#include "cast_blocks_x86.h"
// after it
#include "cast_blocks_avx2.h"
// after all blocks
#include "cast_loops.h"

CANDLE_END_SIMD

namespace candle {

const CastTable& avx2_casts() noexcept { return table; }

}  // namespace candle

#endif
