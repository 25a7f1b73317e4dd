"""docs/integrations.md says what its lines do."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from types import ModuleType


def loaded() -> ModuleType:
    from pathlib import Path

    path = Path(__file__).parent / "lines.py"
    spec = importlib.util.spec_from_file_location("lines", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


lines: Any = loaded()
TOGETHER = [name for name, library in lines.LIBRARIES.items() if not library.apart]


@pytest.fixture(scope="module")
def found() -> dict[str, list[Any]]:
    """What the lines of the small libraries do, in one process."""
    rows: dict[str, list[Any]] = {}
    for name, row in lines.in_a_process([name for name in TOGETHER if lines.installed(name)]):
        rows.setdefault(name, []).append(row)
    return rows


def test_page_has_every_library() -> None:
    told = lines.table(lines.PAGE.read_text())
    assert list(told) == list(lines.LIBRARIES)
    for name, library in lines.LIBRARIES.items():
        written = [line.line for line in library.out]
        assert [row.line for row in told[name]] == [
            *written,
            *(library.into if library.make else ()),
            *(lines.SUMS if library.computes else ()),
        ]


@pytest.mark.parametrize("name", lines.LIBRARIES)
def test_lines(name: str, found: dict[str, list[Any]]) -> None:
    if not lines.installed(name):
        pytest.skip(f"{name} is not installed")
    rows = found[name] if name in TOGETHER else [row for _, row in lines.in_a_process([name])]
    assert rows == lines.table(lines.PAGE.read_text())[name]
