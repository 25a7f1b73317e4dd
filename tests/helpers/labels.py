"""Names for parameters of tests."""

from __future__ import annotations

import re


def label(value: object) -> str:
    """Give what `repr` gives without an address, so that each process names a test alike."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))
