"""examples/distributed_mean.py: the same function on Ray, Dask and MPI, and what it says."""

from __future__ import annotations

import re
import shutil
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import children
import engines
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

EXAMPLE = Path(__file__).parents[2] / "examples" / "distributed_mean.py"
MEGABYTES = ("--megabytes", "10")


def hops(output: str) -> dict[str, tuple[int, int, str]]:
    """What is said of each hop: bytes, those that candle copied, what the engine does."""
    found = re.findall(r"^(\w.*?)  +(\d+) +(\d+)(.*)$", output, re.MULTILINE)
    assert "elements are right" in output
    return {name: (int(nbytes), int(copied), said) for name, nbytes, copied, said in found}


def required(module: str) -> None:
    if find_spec(module) is None:
        pytest.skip(f"{module} is not installed")


@pytest.fixture
def folder() -> Iterator[str]:
    """One whose name is short enough for the sockets of Ray."""
    made = tempfile.mkdtemp(prefix="ray")
    yield made
    shutil.rmtree(made, ignore_errors=True)


def test_ray(folder: str) -> None:
    required("ray")
    child = children.run_child(
        EXAMPLE, "ray", *MEGABYTES, whole=True, timeout=100, **engines.ray_settings(folder)
    )
    said = hops(child.check(quiet=False))
    assert [copied for _, copied, _ in said.values()] == [0] * 7
    for worker in range(2):
        nbytes, _, engine = said[f"store -> worker {worker}"]
        assert nbytes == 5040 * 4096 // 2
        assert "copies nothing: they lie in /dev/shm/plasma" in engine


def test_dask() -> None:
    required("distributed")
    child = children.run_child(EXAMPLE, "dask", *MEGABYTES, whole=True, timeout=100)
    said = hops(child.check(quiet=False))
    assert len(said) == 8
    for name, (nbytes, copied, engine) in said.items():
        assert copied in ((0, nbytes) if "once more" in engine else (0,)), name


def test_mpi() -> None:
    said = hops(engines.mpirun(2, EXAMPLE, "mpi", *MEGABYTES).check(quiet=False))
    assert [copied for _, copied, _ in said.values()] == [0] * 6


def test_notices_what_is_wrong(tmp_path: Path) -> None:
    """Its exit status is no formality."""
    code = f"""
import candle, runpy, sys
candle.Tensor.numpy = lambda t, real=candle.Tensor.numpy: real(t, copy=True)
sys.argv[1:] = ["mpi", "--megabytes", "10"]
runpy.run_path({str(EXAMPLE)!r}, run_name="__main__")
"""
    program = tmp_path / "program.py"
    program.write_text(code)
    child = engines.mpirun(1, program)
    assert child.returncode != 0
    assert "bytes that it could have shared" in child.stderr


def test_absent() -> None:
    code = f"""
import runpy, sys
sys.modules["ray"] = None
sys.argv[1:] = ["ray"]
runpy.run_path({str(EXAMPLE)!r}, run_name="__main__")
"""
    child = children.in_child(code)
    assert child.returncode == 1
    assert "pip install 'candle-dlpack[distributed]'" in child.stderr
