"""Tools for testing tensor exchange: a linter, hostile producers, capsules, leak counters.

They need neither numpy nor torch, and no compiler.
"""

from .capsules import describe, info, take
from .cases import CASES
from .check import check
from .exchange import exchange_api
from .findings import CLAUSES, Finding, Report
from .leaks import assert_no_leak, live, live_tensors
from .producers import Producer
from .sharing import shares_memory
from .tables import exchange_producer

__all__ = [
    "CASES",
    "CLAUSES",
    "Finding",
    "Producer",
    "Report",
    "assert_no_leak",
    "check",
    "describe",
    "exchange_api",
    "exchange_producer",
    "info",
    "live",
    "live_tensors",
    "shares_memory",
    "take",
]
