"""Other packages that are imported as candle, and what of them lies in this one's folder."""

from __future__ import annotations

from os import listdir

__all__ = ["NAMES", "clashes", "remedy", "warn"]

# Distributions whose wheels install a package of this name, and files that only they have.
_MARKS = {
    "candle-nn": ("candle.abi3.so", "candle.pyd", "functional", "models"),
    "candle-python": ("_C.py", "_backends", "_dispatch", "torch_compat.py"),
}


NAMES = tuple(_MARKS)


def clashes(folder: str) -> list[str]:
    """Name the distributions whose files lie in a folder."""
    try:
        there = set(listdir(folder))  # noqa: PTH208  (pathlib is slow to import)
    except OSError:  # imported from an archive
        return []
    return [name for name, marks in _MARKS.items() if not there.isdisjoint(marks)]


def remedy(name: str) -> str:
    """Say what to do about one."""
    return f"pip uninstall {name} candle-dlpack, then pip install candle-dlpack"


def warn(folder: str) -> None:
    """Warn of what lies in this package's folder and is not its own."""
    for name in clashes(folder):
        import warnings

        warnings.warn(
            f"files of {name}, whose import name is candle too, lie in this package's folder, "
            f"{folder}: one has overwritten parts of the other. {remedy(name)}",
            RuntimeWarning,
            stacklevel=3,
        )
