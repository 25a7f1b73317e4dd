"""Who has to wait for whom when an array goes from one framework to another: cases, and ways.

A case is a script. A way to order work (a `Strategy`) imports an array of a framework and exports
it to a consumer on another stream. `play` says whether that consumer saw what was written last.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import threading
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fake_driver import Driver

N = 64
SIZE = 4 * N

# The producer's streams are A and C, the consumer's is B. `on` makes a stream current and `off`
# leaves it; each `write` writes another value.
CASES = {
    "exported where it was imported": "on A; write; import; export",
    "exported after leaving the stream": "on A; write; import; off; export",
    "written again after the import": "on A; write; import; write; export",
    "written again on another stream": "on A; write; import; off; A before C; on C; write; export",
    "written on another, which is left": (
        "on A; write; import; off; A before C; on C; write; off; export"
    ),
    "all on the legacy stream": "write; import; export",
    "imported before it was written": "import; on A; write; export",
    "exported twice": "on A; write; import; export; write; export",
    "exported by another thread": "on A; write; import; export in a thread",
    "exported to the producer's stream": "on A; write; import; export to A",
}

_EVERY = frozenset(CASES)
_UNKNOWABLE = "written on another, which is left"
_NEEDS_NONE = "exported to the producer's stream"


class Framework(Protocol):
    """What `play` wants of a producer: arrays, and a stream that is current."""

    def stream(self, handle: int) -> contextlib.AbstractContextManager[Any]:
        """Make a stream current."""

    def current(self) -> int:
        """The stream that is current on this thread."""

    def array(self) -> Any:
        """N float32, uninitialised."""

    def address(self, x: Any) -> int:
        """Where an array lies."""


class Strategy(Protocol):
    """Imports an array when it is made; `export` gives the address that a consumer reads."""

    def export(self, stream: int) -> int:
        """Hand it to a consumer on `stream`."""


class Streams(NamedTuple):
    """By the letters of the scripts."""

    A: int
    B: int
    C: int


# Never the same twice: memory may still hold what the last play left in it.
_values = itertools.count(1)


class _Play:
    def __init__(self, driver: Driver, framework: Framework, device: int) -> None:
        self.driver, self.framework, self.device = driver, framework, device
        self.streams = Streams(*(driver.stream(device) for _ in range(3)))
        self.x = framework.array()
        self.value = math.nan
        self.right: list[bool] = []
        self.imported: Any = None

    def write(self) -> None:
        self.value = float(next(_values))
        address = self.framework.address(self.x)
        self.driver.late_fill(
            self.framework.current(), address, self.value, N, delay_us=0, device=self.device
        )

    def export(self, stream: int) -> None:
        address = self.imported.export(stream)
        seen = self.driver.read(address, stream, N, device=self.device)
        self.right.append(seen == [self.value] * N)

    def run(self, script: str, strategy: Callable[[Any], Strategy]) -> None:
        with contextlib.ExitStack() as stack:
            for step in script.split("; "):
                match step.split():
                    case ["on", name]:
                        current = self.framework.stream(getattr(self.streams, name))
                        stack.enter_context(current)
                    case ["off"]:
                        stack.close()
                    case ["write"]:
                        self.write()
                    case ["import"]:
                        self.imported = strategy(self.x)
                    case ["export"]:
                        self.export(self.streams.B)
                    case ["export", "to", name]:
                        self.export(getattr(self.streams, name))
                    case ["export", "in", "a", "thread"]:
                        self.in_thread(self.export, self.streams.B)
                    case [first, "before", then]:
                        first, then = getattr(self.streams, first), getattr(self.streams, then)
                        self.driver.order(first, then, device=self.device)
                    case _:
                        raise ValueError(step)

    @staticmethod
    def in_thread(function: Callable[..., object], *arguments: object) -> None:
        errors: list[BaseException] = []

        def run() -> None:
            try:
                function(*arguments)
            except BaseException as error:
                errors.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        if errors:
            raise errors[0]


def play(
    driver: Driver,
    case: str,
    strategy: Callable[[Any], Strategy],
    framework: Framework,
    device: int = 0,
) -> bool:
    """Run a case, with all work held back; returns whether every consumer saw the last value."""
    scene = _Play(driver, framework, device)
    with driver.hold():
        scene.run(CASES[case], strategy)
    driver.drain()
    for stream in scene.streams:
        driver.destroy_stream(stream)
    return all(scene.right)


# A framework, in Python


class PlainArray:
    """What a framework's array does by the standard, but for the capsule: the address instead."""

    def __init__(self, framework: PlainFramework) -> None:
        self.framework = framework
        self.address = framework.driver.alloc(SIZE, framework.device)
        self.calls: list[object] = []

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, self.framework.device)

    def __dlpack__(self, *, stream: int | None = None, **_keywords: object) -> int:
        self.calls.append(stream)
        if stream != -1:
            self.framework.order(self.framework.current(), stream or 1)
        return self.address


class PlainFramework:
    """A framework with a current stream per thread; `1`, the legacy one, to begin with."""

    def __init__(self, driver: Driver, device: int = 0) -> None:
        self.driver, self.device = driver, device
        self.local = threading.local()
        self.arrays: list[PlainArray] = []

    def current(self) -> int:
        return getattr(self.local, "stream", 1)

    @contextlib.contextmanager
    def stream(self, handle: int) -> Iterator[None]:
        before, self.local.stream = self.current(), handle
        try:
            yield
        finally:
            self.local.stream = before

    def order(self, first: int, then: int) -> None:
        """As frameworks do: an event."""
        if first == then:
            return
        call = self.driver.call
        with self.driver.context(self.device):
            event = call("cuEventCreate", 2)
            call("cuEventRecord", event, first)
            call("cuStreamWaitEvent", then, event, 0)
            call("cuEventDestroy_v2", event)

    def array(self) -> PlainArray:
        self.arrays.append(PlainArray(self))
        return self.arrays[-1]

    def address(self, x: PlainArray) -> int:
        return x.address

    def close(self) -> None:
        """Free all arrays."""
        while self.arrays:
            self.driver.free(self.arrays.pop().address)


# Ways to order work, over PlainArray


class _Way:
    right: frozenset[str]  # the cases in which it is

    def __init__(self, x: PlainArray) -> None:
        self.x = x
        self.framework = x.framework


class NoOrder(_Way):
    """The control: nobody waits for anybody."""

    right = frozenset({_NEEDS_NONE})

    def export(self, stream: int) -> int:
        return self.x.__dlpack__(stream=-1)


class ImportSync(_Way):
    """A stream of one's own waits at the import, and consumers wait for that."""

    right = _EVERY - {
        _UNKNOWABLE,
        "written again after the import",
        "written again on another stream",
        "imported before it was written",
        "exported twice",
    }

    def __init__(self, x: PlainArray) -> None:
        super().__init__(x)
        self.own = self.framework.driver.stream(self.framework.device)
        x.__dlpack__(stream=self.own)

    def export(self, stream: int) -> int:
        self.framework.order(self.own, stream)
        return self.x.address


class OriginOnly(_Way):
    """Consumers wait for the stream that was current at the import."""

    right = _EVERY - {
        _UNKNOWABLE,
        "written again on another stream",
        "imported before it was written",
    }

    def __init__(self, x: PlainArray) -> None:
        super().__init__(x)
        self.origin = self.framework.current()

    def export(self, stream: int) -> int:
        self.framework.order(self.origin, stream)
        return self.x.address


class Relay(_Way):
    """The producer is asked again at each export."""

    right = _EVERY - {
        _UNKNOWABLE,
        "exported after leaving the stream",
        "exported by another thread",
    }

    def export(self, stream: int) -> int:
        return self.x.__dlpack__(stream=stream)


class RelayOrigin(OriginOnly):
    """Both: the stream current at the import, and the producer's current one at the export."""

    right = _EVERY - {_UNKNOWABLE}

    def export(self, stream: int) -> int:
        super().export(stream)
        return self.x.__dlpack__(stream=stream)


WAYS = {way.__name__: way for way in (NoOrder, ImportSync, OriginOnly, Relay, RelayOrigin)}
