"""Run Python in a child process: what may crash, has to be fresh, or is looked at after exit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path

HELPERS = Path(__file__).parent
PYTHON = sys.executable


@dataclass
class Child:
    """How a child process ended."""

    returncode: int
    stdout: str
    stderr: str

    @property
    def signal(self) -> str | None:
        """Name of the signal that killed it."""
        return signal.Signals(-self.returncode).name if self.returncode < 0 else None

    def check(self, *, quiet: bool = True) -> str:
        """Assert a clean exit (with nothing on stderr, if `quiet`); returns stdout."""
        ending = self.signal or f"exit status {self.returncode}"
        said = f"{ending}\n--- stdout\n{self.stdout}\n--- stderr\n{self.stderr}"
        assert self.returncode == 0, said
        assert not quiet or self.stderr == "", said
        return self.stdout


def run_child(
    *arguments: str | Path, timeout: float = 300, whole: bool = False, **environment: str
) -> Child:
    """Run this Python with command-line arguments; tests/helpers is on its path.

    With `whole`, every process that it started ends with it: see `run_whole`.
    """
    run = run_whole if whole else run_command
    return run(PYTHON, *map(str, arguments), timeout=timeout, **environment)


def run_whole(*command: str, timeout: float = 300, **environment: str) -> Child:
    """Run a command that starts others, which end with it, also where it fails or takes longer.

    What it leaves behind is a failure: exit status 125.
    """
    supervised = (PYTHON, str(HELPERS / "whole.py"), str(timeout), *command)
    return run_command(*supervised, timeout=timeout + 60, **environment)


def run_command(*command: str, timeout: float, **environment: str) -> Child:
    """Run a command; tests/helpers is on the path of the Python in it."""
    inherited = os.environ.get("PYTHONPATH")
    path = os.pathsep.join([str(HELPERS), *([inherited] if inherited else [])])
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=timeout,
        env={**os.environ, "PYTHONPATH": path, **environment},
        check=False,
    )
    # Of the undefined-behaviour sanitizer: no test expects it, even one that expects a death.
    assert "runtime error:" not in done.stderr, done.stderr
    return Child(done.returncode, done.stdout, done.stderr)


def in_child(code: str, *arguments: str, timeout: float = 300, **environment: str) -> Child:
    """Run a piece of code, with the traceback of a crash on stderr."""
    return run_child(
        "-X",
        "faulthandler",
        "-c",
        textwrap.dedent(code),
        *arguments,
        timeout=timeout,
        **environment,
    )
