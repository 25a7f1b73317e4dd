"""The smallest input that still fails: each is tried in a fork, which may crash."""

from __future__ import annotations

import importlib
import sys
import time
from typing import TYPE_CHECKING

from .worker import HELPERS

if TYPE_CHECKING:
    from collections.abc import Iterator


def ending(target: str, data: bytes) -> str:
    """How an input ends: empty if nothing is wrong."""
    sys.path.insert(0, str(HELPERS))
    from inputs.choices import Choices

    from candle.testing.trial import trial

    module = importlib.import_module(f"inputs.{target}")

    def attempt() -> str:
        module.run(Choices(data))
        return ""

    return trial(attempt, seconds=10)


def smaller(data: bytes) -> Iterator[bytes]:
    """Shorter ones, then such with zeros."""
    for cut in (2, 4, 8, 16, 32):
        size = -(-len(data) // cut)
        for at in range(0, len(data), size):
            yield data[:at] + data[at + size :]
    for at, byte in enumerate(data):
        if byte:
            yield data[:at] + b"\0" + data[at + 1 :]


def minimised(target: str, data: bytes, most: int = 400, seconds: float = 120) -> bytes:
    """Take away what is not needed, in at most so many trials and about so many seconds."""
    progress, late = True, time.monotonic() + seconds
    while progress and most > 0:
        progress = False
        for candidate in smaller(data):
            most -= 1
            if most <= 0 or time.monotonic() > late:
                most = 0
                break
            if len(candidate) <= len(data) and ending(target, candidate):
                data = (
                    candidate.rstrip(b"\0")
                    if ending(target, candidate.rstrip(b"\0"))
                    else candidate
                )
                progress = True
                break
    return data


def main() -> None:
    """``TARGET HEX LIBRARIES``: print the smallest, and how it ends."""
    target, text, *libraries = sys.argv[1:]
    for library in libraries:
        importlib.import_module(library)
    data = bytes.fromhex(text)
    found = minimised(target, data) if ending(target, data) else data
    print(found.hex())
    print(ending(target, found) or "nothing is wrong when it is tried alone")


if __name__ == "__main__":
    main()
