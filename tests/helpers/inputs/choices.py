"""The numbers of a random source, read from bytes: what a fuzzer changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import MutableSequence, Sequence

T = TypeVar("T")


class Choices:
    """As much of ``random.Random`` as inputs are made by; zeros where the bytes are at an end."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def randbytes(self, count: int) -> bytes:
        """The next bytes."""
        part = self.data[self.at : self.at + count]
        self.at += count
        return part + bytes(count - len(part))

    def getrandbits(self, bits: int) -> int:
        """A number of so many bits."""
        return int.from_bytes(self.randbytes((bits + 7) // 8), "little") & ((1 << bits) - 1)

    def randrange(self, start: int, stop: int | None = None) -> int:
        """A number below, or from `start` to below `stop`."""
        low, high = (0, start) if stop is None else (start, stop)
        span = high - low
        return low + int.from_bytes(self.randbytes((span.bit_length() + 7) // 8), "little") % span

    def randint(self, low: int, high: int) -> int:
        """A number, both ends included."""
        return self.randrange(low, high + 1)

    def random(self) -> float:
        """A number from 0 to below 1, in steps of 1/256."""
        return self.randrange(256) / 256

    def choice(self, items: Sequence[T]) -> T:
        """One of them."""
        return items[self.randrange(len(items))]

    def shuffle(self, items: MutableSequence[T]) -> None:
        """Put into any order."""
        for i in range(len(items) - 1, 0, -1):
            j = self.randint(0, i)
            items[i], items[j] = items[j], items[i]
