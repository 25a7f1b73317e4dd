"""docs/checks.md says what `candle.testing.check` finds in the installed frameworks."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pytest

from candle.testing import CLAUSES, check

PAGE = Path(__file__).parents[2] / "docs" / "checks.md"


def frozen(np: Any) -> Any:
    array = np.zeros(3)
    array.flags.writeable = False
    return array


# Distribution -> the objects the page tells of.
OBJECTS: dict[str, Any] = {
    "torch": lambda torch: {
        "zeros(2, 3)": torch.zeros(2, 3),
        "zeros(0, 3)": torch.zeros(0, 3),
        "zeros(2, 3).t()": torch.zeros(2, 3).t(),
        "tensor(1.0)": torch.tensor(1.0),
    },
    "numpy": lambda np: {
        "zeros((2, 3))": np.zeros((2, 3)),
        "zeros((0, 3))": np.zeros((0, 3)),
        "zeros((2, 3)).T": np.zeros((2, 3)).T,
        "a read-only array": frozen(np),
    },
    "jax": lambda jax: {
        "zeros((2, 3))": jax.numpy.zeros((2, 3)),
        "zeros((0, 3))": jax.numpy.zeros((0, 3)),
    },
    "apache-tvm-ffi": lambda tvm_ffi: {
        "from_dlpack(ndarray)": tvm_ffi.from_dlpack(
            pytest.importorskip("numpy").zeros((2, 3), "float32")
        ),
    },
    "pyarrow": lambda pa: {"array([1, 2, 3])": pa.array([1, 2, 3])},
    "candle-dlpack": lambda candle: {
        "zeros((2, 3))": candle.zeros((2, 3)),
        "zeros((0, 3))": candle.zeros((0, 3)),
        "a read-only tensor": candle.asarray(b"abc"),
        "a reversed view": candle.arange(3)[::-1],
    },
}
MODULES = {"apache-tvm-ffi": "tvm_ffi", "candle-dlpack": "candle"}


def found(objects: dict[str, Any]) -> list[list[str]]:
    """Rows of the page for some objects: what is not kept."""
    return [
        [f"`{name}`", finding.clause, finding.verdict, finding.fact]
        for name, x in objects.items()
        for finding in check(x).findings
        if finding.verdict in ("broken", "note")
    ]


def sections() -> dict[str, tuple[str, list[list[str]]]]:
    """Distribution -> the version and the rows that the page has."""
    told = {}
    for section in PAGE.read_text().split("\n### ")[1:]:
        name, _, said = section.partition("\n")[0].partition(" ")
        cells = [
            [cell.strip() for cell in line.strip("|").split("|")]
            for line in section.splitlines()
            if line.startswith("|")
        ]
        told[name] = (said, cells[2:])
    return told


def test_every_clause_is_in_the_page() -> None:
    listed = re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", PAGE.read_text(), re.MULTILINE)
    assert dict(listed[1:]) == CLAUSES
    assert sections().keys() == OBJECTS.keys()


@pytest.mark.parametrize("name", OBJECTS)
def test_page(name: str) -> None:
    module = pytest.importorskip(MODULES.get(name, name))
    said, rows = sections()[name]
    try:
        installed = version(name)
    except PackageNotFoundError:  # candle's own, from a tree
        installed = said
    if installed.partition("+")[0] != said and said:
        pytest.skip(f"the page tells of {name} {said}, and {installed} is installed")
    assert found(OBJECTS[name](module)) == rows
