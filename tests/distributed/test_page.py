"""The programs of docs/processes.md run."""

from __future__ import annotations

import re
import shutil
import tempfile
from importlib.util import find_spec
from pathlib import Path

import children
import engines
import pytest

PAGE = Path(__file__).parents[2] / "docs" / "processes.md"
PROGRAMS = [
    (section.partition("\n")[0], code)
    for section in PAGE.read_text().split("\n## ")
    for code in re.findall(r"^```py\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
]
PACKAGES = {"Ray": "ray", "Dask": "distributed", "MPI": "mpi4py"}


def test_every_program_is_found() -> None:
    assert [name for name, _ in PROGRAMS] == list(PACKAGES)


@pytest.mark.parametrize(("name", "code"), PROGRAMS, ids=[name for name, _ in PROGRAMS])
def test_program(name: str, code: str, tmp_path: Path) -> None:
    if find_spec(PACKAGES[name]) is None:
        pytest.skip(f"{PACKAGES[name]} is not installed")
    program = tmp_path / "program.py"
    program.write_text(code)
    if name == "MPI":
        engines.mpirun(2, program).check(quiet=False)
        return
    folder = tempfile.mkdtemp(prefix="ray")
    try:
        settings = engines.ray_settings(folder)
        children.run_child(program, whole=True, timeout=100, **settings).check(quiet=False)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
