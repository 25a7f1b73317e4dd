"""The examples run, whatever is installed."""

from __future__ import annotations

from importlib.util import find_spec
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from children import Child

EXAMPLES = Path(__file__).parents[2] / "examples"
OPTIONAL = ("torch", "jax")
HIDDEN = [some for count in range(3) for some in combinations(OPTIONAL, count)]

# Runs a script in which some modules cannot be imported.
WITHOUT = """
import runpy, sys
script, *hidden = sys.argv[1:]
sys.modules.update(dict.fromkeys(hidden))
runpy.run_path(script, run_name="__main__")
"""


def lines_of(output: str) -> dict[str, str]:
    """What is said of each hop."""
    hops = (line.split("  ", 1) for line in output.splitlines() if " 0x" in line)
    return {name.strip(): said for name, said in hops}


@pytest.mark.parametrize(
    "hidden", HIDDEN, ids=lambda names: "without " + (" ".join(names) or "none")
)
def test_exchange(in_child: Callable[..., Child], hidden: tuple[str, ...]) -> None:
    output = in_child(WITHOUT, str(EXAMPLES / "exchange.py"), *hidden).check()
    torch, jax = (name not in hidden and find_spec(name) is not None for name in OPTIONAL)
    first = "torch" if torch else "numpy"
    shared = [f"{first} -> candle", "candle -> numpy"]
    copied = ["foreign bytes -> candle"]
    if jax:
        shared.append("numpy -> candle -> jax")
    if torch and not jax:
        shared.append("numpy -> candle -> torch")
    if torch and jax:
        copied.append("jax -> candle -> torch")
    upper, _, lower = output.partition("and what cannot be shared:")
    above, below = lines_of(upper), lines_of(lower)
    assert set(below) == set(copied)
    assert set(above) >= set(shared)
    assert all(" shared: " in said for said in above.values())
    assert all(" copied: " in said for said in below.values())
    assert (
        len({address for said in above.values() for address in said.split() if "0x" in address})
        == 1
    )
    assert "byte_order: the float32 elements" in below["foreign bytes -> candle"]
    for name, there in zip(OPTIONAL, (torch, jax), strict=True):
        assert (f"{name} is not installed" in output) != there


def test_exchange_notices_a_copy(in_child: Callable[..., Child]) -> None:
    """Its exit status is no formality."""
    code = "import candle\ncandle.from_dlpack = candle.tensor\n" + WITHOUT
    child = in_child(code, str(EXAMPLES / "exchange.py"), *OPTIONAL)
    assert child.returncode == 1
    assert "numpy -> candle: copied: requested" in child.stderr


@pytest.mark.parametrize(
    "hidden", HIDDEN, ids=lambda names: "without " + (" ".join(names) or "none")
)
def test_gpu_pipeline_on_the_cpu(in_child: Callable[..., Child], hidden: tuple[str, ...]) -> None:
    """It says that it has no GPU, and why, and goes the same way there."""
    gone = ("cupy", *hidden)
    output = in_child(WITHOUT, str(EXAMPLES / "gpu_pipeline.py"), *gone).check()
    torch, jax = (name not in hidden and find_spec(name) is not None for name in OPTIONAL)
    first, *hops, total = output.splitlines()
    lack = "cupy" if torch else "torch"
    assert first == f"no GPU pipeline: {lack} is not installed; on the CPU instead"
    assert [hop.split("  ")[0].strip() for hop in hops] == [
        "torch -> candle",
        "candle -> cupy",
        *["candle -> jax"] * jax,
    ]
    assert all(hop.endswith("  shared") for hop in hops)
    assert total == "sum: 524288"


@pytest.mark.parametrize(
    "hidden", HIDDEN, ids=lambda names: "without " + (" ".join(names) or "none")
)
def test_parquet_to_frameworks(in_child: Callable[..., Child], hidden: tuple[str, ...]) -> None:
    pytest.importorskip("pyarrow.parquet")
    output = in_child(WITHOUT, str(EXAMPLES / "parquet_to_frameworks.py"), *hidden).check()
    there = [name for name in OPTIONAL if name not in hidden and find_spec(name) is not None]
    hops = [line.split("  ")[0] for line in output.splitlines() if " 0x" in line]
    assert hops == ["pyarrow -> candle", *(f"candle -> {name}" for name in there)]
    assert len({word for word in output.split() if word.startswith("0x")}) == 1
    assert output.count("is not installed") == 2 - len(there)


def test_parquet_to_frameworks_notices_a_copy(in_child: Callable[..., Child]) -> None:
    """Its exit status is no formality."""
    pytest.importorskip("pyarrow.parquet")
    code = (
        "import candle\nshare = candle.from_arrow\n"
        "candle.from_arrow = lambda x, **asked: share(x, **{**asked, 'copy': True})[...]\n"
        "candle.Tensor.readonly = True\n" + WITHOUT
    )
    child = in_child(code, str(EXAMPLES / "parquet_to_frameworks.py"), *OPTIONAL)
    assert child.returncode == 1
    assert "pyarrow -> candle moved the memory" in child.stderr


def test_gpu_pipeline_notices_a_wrong_sum(in_child: Callable[..., Child]) -> None:
    """Its exit status is no formality."""
    code = "import candle\ncandle.ones = candle.zeros\n" + WITHOUT
    child = in_child(code, str(EXAMPLES / "gpu_pipeline.py"), "cupy", *OPTIONAL)
    assert child.returncode == 1
    assert "the sum is 0, not 524288" in child.stderr


@pytest.mark.parametrize("hidden", [(), ("jax",)], ids=["with jax", "without jax"])
def test_model_to_jax(in_child: Callable[..., Child], hidden: tuple[str, ...]) -> None:
    output = in_child(WITHOUT, str(EXAMPLES / "model_to_jax.py"), *hidden).check()
    jax = not hidden and find_spec("jax") is not None
    said = [line.rsplit("  ", 1)[1] for line in output.splitlines() if " 0x" in line]
    assert said == ["shared"] * 10
    assert f"{'jax' if jax else 'numpy'} computes (2, 10)" in output
    assert ("jax is not installed: numpy computes" in output) != jax


@pytest.mark.skipif(find_spec("jax") is None, reason="numpy takes every layout")
def test_model_to_jax_notices_a_copy(in_child: Callable[..., Child]) -> None:
    """Its exit status is no formality."""
    code = (
        "import candle\nload = candle.load_safetensors\n"
        "candle.load_safetensors = lambda p: {k: t[::-1] for k, t in load(p).items()}\n"
    )
    child = in_child(code + WITHOUT, str(EXAMPLES / "model_to_jax.py"))
    assert child.returncode == 1
    assert "was copied" in child.stderr
