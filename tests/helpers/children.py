"""Run Python in a child process: what may crash, has to be fresh, or is looked at after exit."""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import textwrap
from dataclasses import dataclass
from functools import cache
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
    return _ended(done.returncode, done.stdout, done.stderr)


def _ended(returncode: int, stdout: str, stderr: str) -> Child:
    # Of the undefined-behaviour sanitizer: no test expects it, even one that expects a death.
    assert "runtime error:" not in stderr, stderr
    return Child(returncode, stdout, stderr)


def in_child(code: str, *arguments: str, timeout: float = 300, **environment: str) -> Child:
    """Run a piece of code, with the traceback of a crash on stderr."""
    return run_child(
        "-X",
        "faulthandler",
        # Python 3.12 warns of a fork beside threads, which is what some of these are about.
        "-W",
        "ignore:This process:DeprecationWarning",
        "-c",
        textwrap.dedent(code),
        *arguments,
        timeout=timeout,
        **environment,
    )


@cache
def _template(frameworks: tuple[str, ...]) -> subprocess.Popen[bytes]:
    """The process that has imported these, one for each set of them until this process ends."""
    command = [PYTHON, "-X", "faulthandler", str(HELPERS / "template.py"), *frameworks]
    inherited = os.environ.get("PYTHONPATH")
    path = os.pathsep.join([str(HELPERS), *([inherited] if inherited else [])])
    template = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        bufsize=0,  # what `select` does not know of would be missed
        env={**os.environ, "PYTHONPATH": path, "JAX_PLATFORMS": "cpu"},
    )
    atexit.register(template.communicate)
    return template


def _answer(template: subprocess.Popen[bytes], seconds: float) -> int | None:
    """The next number a template says, None where it says none in time."""
    assert template.stdout is not None
    if not select.select([template.stdout], [], [], seconds)[0]:
        return None
    said = template.stdout.readline()
    assert said, f"the template ended: {template.wait()}"
    return int(said)


def in_fork(
    frameworks: tuple[str, ...],
    code: str,
    *arguments: str,
    timeout: float = 300,
    **environment: str,
) -> Child:
    """As `in_child`, in a fork of a process that has imported some frameworks, and no candle.

    That takes milliseconds, where importing them takes seconds. Variables that a framework reads
    when it is imported come too late, and it is imported before candle: a test that depends on
    either is no test for this.
    """
    template = _template(frameworks)
    assert template.stdin is not None
    with tempfile.TemporaryDirectory() as folder:
        out, errors = Path(folder, "stdout"), Path(folder, "stderr")
        fresh = os.O_WRONLY | os.O_CREAT
        request = {
            "code": textwrap.dedent(code),
            "arguments": arguments,
            "environment": environment,
            "streams": [(os.devnull, os.O_RDONLY), (str(out), fresh), (str(errors), fresh)],
        }
        template.stdin.write(f"{json.dumps(request)}\n".encode())
        child = _answer(template, timeout)
        assert child is not None, "the template does not fork"
        status = _answer(template, timeout)
        if status is None:
            os.kill(child, signal.SIGKILL)
            _answer(template, timeout)
            said = out.read_text(), errors.read_text()
            raise subprocess.TimeoutExpired(["a fork of", *frameworks], timeout, *said)
        return _ended(os.waitstatus_to_exitcode(status), out.read_text(), errors.read_text())
