"""Tools for testing tensor exchange: hostile producers, readers of capsules, leak counters.

They need neither numpy nor torch, and no compiler.
"""

from .capsules import describe, info, take
from .cases import CASES
from .exchange import exchange_api
from .leaks import assert_no_leak, live, live_tensors
from .producers import Producer
from .sharing import shares_memory
from .tables import exchange_producer

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
