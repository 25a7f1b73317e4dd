"""The same struct of a `candle.testing.Producer`, offered on every road that DLPack has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from candle.testing import Producer, exchange_producer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# Each makes what is handed to an importer.
ROADS: dict[str, Callable[[Producer], Any]] = {
    "object": lambda producer: producer,
    "versioned capsule": lambda producer: producer.capsule(True),
    "legacy capsule": lambda producer: producer.capsule(False),
    "exchange table": exchange_producer,
}
VERSIONED = ("object", "versioned capsule", "exchange table")  # what can say read-only


class Offer(NamedTuple):
    """A producer, and what to import of it; drop `x` to let go of an unused capsule."""

    road: str
    producer: Producer
    x: Any


def offers(*roads: str, **arguments: Any) -> Iterator[Offer]:
    """A fresh producer for each road, all or those named; arguments of `Producer`."""
    for road in roads or ROADS:
        producer = Producer(**arguments)
        yield Offer(road, producer, ROADS[road](producer))


class Holder:
    """An object that hands out one capsule, as consumers want it that take objects alone."""

    def __init__(self, capsule: object, device: tuple[int, int] = (1, 0)) -> None:
        self.capsule, self.device = capsule, device

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __dlpack__(self, **keywords: Any) -> object:
        return self.capsule
