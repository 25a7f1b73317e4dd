"""Which sanitizer the tests run under, where that changes what there is to see."""

from __future__ import annotations

import os


def is_address() -> bool:
    """Whether memory is the address sanitizer's: kept back when freed, and counted by none."""
    return "asan" in os.environ.get("LD_PRELOAD", "")
