"""The site: each public name in the reference, each page in the navigation, charts as drawn."""

from __future__ import annotations

import fnmatch
import importlib.util
import json
import re
from pathlib import Path
from typing import Any

import pytest

import candle
import candle.hf
import candle.mpi
import candle.testing
import candle.utils

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
REFERENCE = (DOCS / "api.md").read_text()
MODULES = ("candle.testing", "candle.mpi", "candle.hf", "candle.utils")


def described() -> list[str]:
    return re.findall(r"^\.\. (?:auto\w+|py:\w+):: (\S+)$", REFERENCE, re.MULTILINE)


def test_every_public_name_is_in_the_reference() -> None:
    dtypes = {name for name in candle.__all__ if isinstance(getattr(candle, name), candle.DType)}
    wanted = [f"candle.{name}" for name in candle.__all__ if name not in dtypes]
    for module in MODULES:
        wanted += [f"{module}.{name}" for name in importlib.import_module(module).__all__]
    assert sorted(described()) == sorted(wanted)
    listed = re.findall(r"^\| `(\w+)` \| (.*?) \|", REFERENCE, re.MULTILINE)
    assert {name for row in listed for name in re.findall(r"\w+", " ".join(row))} == dtypes


def test_reference_has_the_dtypes_as_they_are() -> None:
    rows = re.findall(r"^\| `(\w+)` \| .*? \| (\d+), (\d+), (\d+) \| (\w+) \|$", REFERENCE, re.M)
    for name, *numbers, kind in rows:
        dtype = getattr(candle, name)
        assert [dtype.code, dtype.bits, dtype.lanes] == [int(number) for number in numbers], name
        assert dtype.kind == kind, name
    assert len(rows) > 20


def test_every_page_is_in_the_navigation() -> None:
    trees = re.findall(r"^```\{toctree\}\n(.*?)^```", (DOCS / "index.md").read_text(), re.M | re.S)
    entries = [line for tree in trees for line in tree.splitlines() if line and line[0] != ":"]
    pages = {page.stem for page in DOCS.glob("*.md")} - {"index"}
    named = [page for entry in entries for page in fnmatch.filter(pages, entry)]
    assert sorted(named) == sorted(pages)


CHARTS = sorted(path.stem for path in (DOCS / "charts").glob("*.json"))


@pytest.mark.parametrize("name", CHARTS)
def test_charts_are_drawn_from_their_figures(name: str) -> None:
    """`python benchmarks/charts.py --draw` draws them anew."""
    path = ROOT / "benchmarks" / "charts.py"
    spec = importlib.util.spec_from_file_location("charts", path)
    assert spec is not None
    assert spec.loader is not None
    charts: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(charts)
    folder = DOCS / "charts"
    drawn = charts.drawn(name, json.loads((folder / f"{name}.json").read_text()))
    assert drawn == (folder / f"{name}.svg").read_text()


def test_performance_page_shows_every_chart() -> None:
    page = (DOCS / "performance.md").read_text()
    assert re.findall(r"\(charts/(\w+)\.svg\)", page) == sorted(CHARTS, reverse=True)
