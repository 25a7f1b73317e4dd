"""Tools for testing tensor exchange: hostile producers, readers of capsules, leak counters.

They need neither numpy nor torch, and no compiler.
"""

from candle.testing.capsules import describe, info, take
from candle.testing.cases import CASES
from candle.testing.exchange import exchange_api
from candle.testing.leaks import assert_no_leak, live, live_tensors
from candle.testing.producers import Producer
from candle.testing.sharing import shares_memory
from candle.testing.tables import exchange_producer

__all__ = [
    "CASES",
    "Producer",
    "assert_no_leak",
    "describe",
    "exchange_api",
    "exchange_producer",
    "info",
    "live",
    "live_tensors",
    "shares_memory",
    "take",
]
