"""The programs of docs/processes.md run."""

from __future__ import annotations

import shutil
import tempfile
from importlib.util import find_spec
from typing import TYPE_CHECKING

import children
import engines
import pages
import pytest

if TYPE_CHECKING:
    from pathlib import Path

PROGRAMS = dict(zip(("Ray", "Dask", "MPI"), pages.blocks("py", "docs/processes.md"), strict=True))
PACKAGES = {"Ray": "ray", "Dask": "distributed", "MPI": "mpi4py"}


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name: str, tmp_path: Path) -> None:
    if find_spec(PACKAGES[name]) is None:
        pytest.skip(f"{PACKAGES[name]} is not installed")
    program = tmp_path / "program.py"
    program.write_text(PROGRAMS[name].code)
    if name == "MPI":
        engines.mpirun(2, program).check(quiet=False)
        return
    folder = tempfile.mkdtemp(prefix="ray")
    try:
        settings = engines.ray_settings(folder)
        children.run_child(program, whole=True, timeout=100, **settings).check(quiet=False)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
