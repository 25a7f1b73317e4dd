"""Starting what runs programs in several processes."""

from __future__ import annotations

import secrets
import shutil
from importlib.util import find_spec
from typing import TYPE_CHECKING

import children
import pytest

if TYPE_CHECKING:
    from pathlib import Path


def ray_settings(folder: str) -> dict[str, str]:
    """Environment variables that Ray reads when it is imported."""
    return {
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_TMPDIR": folder,
        "RAY_AUTH_MODE": "token",  # else it would write one into the home folder
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
    }


def mpirun(count: int, *arguments: str | Path) -> children.Child:
    """Run this Python as several ranks; one that fails ends all. Skips the test without MPI."""
    if find_spec("mpi4py") is None:
        pytest.skip("mpi4py is not installed")
    if shutil.which("mpirun") is None:
        pytest.skip("there is no mpirun")
    command = ["mpirun", "-n", str(count)]
    if "Open MPI" in children.run_command("mpirun", "--version", timeout=60).stdout:
        command.append("--oversubscribe")  # which else starts no more ranks than there are cores
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    program = (children.PYTHON, "-m", "mpi4py", *map(str, arguments))
    return children.run_whole(*command, *program, timeout=100, **root)
