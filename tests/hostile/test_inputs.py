"""Hostile producers, tables, consumers and files, and chains, as hypothesis makes them.

What a fuzzer makes from bytes (docs/fuzzing.md) is the same; what it found is tried here again.
"""

from __future__ import annotations

import gc
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import hypothesis.strategies as st
import inputs.arrow
import inputs.chains
import inputs.consumers
import inputs.files
import inputs.producers
import inputs.tables
import pytest
from inputs.choices import Choices

if TYPE_CHECKING:
    from collections.abc import Iterator

TARGETS = {
    "producers": inputs.producers,
    "tables": inputs.tables,
    "consumers": inputs.consumers,
    "chains": inputs.chains,
    "files": inputs.files,
    "arrow": inputs.arrow,
}
FOUND = Path(__file__).parent / "found"


@pytest.fixture(autouse=True)
def _deleters_may_fail() -> Iterator[None]:
    """Hypothesis may end an input anywhere; what it held is dropped outside of any block then."""
    with inputs.producers.deleters_may_fail():
        yield
        gc.collect()


numbers = hypothesis.given(st.randoms(use_true_random=False))
together = pytest.mark.isolated(together="file")


@together
@hypothesis.settings(max_examples=400)
@numbers
def test_producers(rng: Any) -> None:
    """Each is shared, copied or refused as it should; each struct is deleted once."""
    inputs.producers.run(rng)


@together
@hypothesis.settings(max_examples=200)
@numbers
def test_tables(rng: Any) -> None:
    """Of any version, with any chain, slots that are missing or fail."""
    inputs.tables.run(rng)


@together
@hypothesis.settings(max_examples=400)
@numbers
def test_consumers(rng: Any) -> None:
    """Any keyword; capsules dropped, taken twice, renamed, spoilt, released from anywhere."""
    inputs.consumers.run(rng)


@together
@hypothesis.settings(max_examples=300)
@numbers
def test_chains(rng: Any) -> None:
    """Views, moves, copies, casts and writes: the values and the sharing of numpy's chain."""
    inputs.chains.run(rng)


@together
@hypothesis.settings(max_examples=150)
@numbers
def test_chains_across_frameworks(rng: Any) -> None:
    """The same by way of torch, jax, pyarrow and tvm-ffi."""
    for name in ("torch", "jax", "pyarrow", "tvm_ffi"):
        pytest.importorskip(name)
    inputs.chains.run(rng)


@together
@hypothesis.settings(max_examples=200)
@numbers
def test_files(rng: Any) -> None:
    """safetensors, npy and npz with bytes changed: refused, or read as numpy does."""
    inputs.files.run(rng)


# What was found, as `TARGET: HEX`; longer ones are files in found/, TARGET-NAME.hex.
REPRODUCERS = [
    # A stride of -2^63 on an axis of one element, multiplied by the item's size.
    "producers: 00002eddea0000920030089d76719e77fd0bbe95ed8eaa3f6de86a412f5def92c43a961ec0dfaa2576"
    "35439f8b",
]


@together
def test_what_was_found() -> None:
    found = [text.split(": ") for text in REPRODUCERS]
    found += [(path.name.split("-")[0], path.read_text()) for path in sorted(FOUND.glob("*.hex"))]
    for target, text in found:
        TARGETS[target].run(Choices(bytes.fromhex(text)))


@together
@pytest.mark.parametrize("target", TARGETS)
def test_bytes_at_an_end(target: str) -> None:
    """Every input is one, the empty one too."""
    for data in (b"", b"\1", bytes(range(256)), b"\xff" * 64):
        TARGETS[target].run(Choices(data))
