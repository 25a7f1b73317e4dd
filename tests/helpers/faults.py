"""The native helper of tests/hostile: failing allocations, and slots that leave errors behind."""

from __future__ import annotations

import ctypes as C
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fake_driver

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SOURCES = Path(__file__).parents[1] / "hostile" / "faults"


def build() -> Path:
    """Compile the helper; returns the library's path."""
    return fake_driver.build_library(SOURCES, "faults.so")


class Faults:
    """The helper, loaded into this process, with its hooks put in.

    Parameters
    ----------
    core
        Path of the compiled core, if its own allocations are to fail too. It is loaded already.
    """

    def __init__(self, core: str = "") -> None:
        library = C.PyDLL(str(build()))
        library.install.argtypes, library.install.restype = [C.c_char_p], C.c_long
        library.call.argtypes = [C.py_object, C.c_int, C.c_long, C.c_int]
        library.call.restype = C.py_object
        library.seen.restype = library.failed.restype = library.handed_out.restype = C.c_long
        library.prepare.argtypes, library.prepare.restype = [C.c_void_p, C.c_void_p], None
        self.helper = library
        self.addresses = library.install(core.encode())

    def address(self, name: str) -> int:
        """Where one of the helper's functions lies."""
        found = C.cast(getattr(self.helper, name), C.c_void_p).value
        assert found is not None
        return found

    def call(
        self, function: Callable[[], Any], at: int = -1, *, native: bool = False, last: bool = False
    ) -> Any:
        """Call a function while allocation number `at` fails; with `last`, all those behind too."""
        return self.helper.call(function, native, at, last)

    def each(self, *, native: bool) -> Iterator[tuple[str, Callable[[Callable[[], Any]], Any]]]:
        """For each allocation that a move makes: words for it, and what to call the move by.

        First each fails alone, then with all that come behind it.
        """
        for last in (False, True):
            for at in range(10_000):
                word = f"allocation {at}{' and on' * last}"
                yield (
                    word,
                    lambda move, at=at, last=last: self.call(move, at, native=native, last=last),
                )
                if self.helper.failed() == 0:
                    break
            else:
                raise AssertionError("this never ends")
