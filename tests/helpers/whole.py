"""Run a command and end every process that it started with it, daemons too.

``python whole.py SECONDS COMMAND...`` gives the command's exit status; 124 if it took longer, 125
if it ended well and left processes behind. Linux.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36  # <linux/prctl.h>
GRACE = 10.0  # seconds for what is ending by itself


def parents() -> dict[int, int]:
    """The parent of every process that runs."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it ended meanwhile
            state, parent = (folder / "stat").read_text().rpartition(") ")[2].split()[:2]
            if state != "Z":
                found[int(folder.name)] = int(parent)
    return found


def descendants() -> list[int]:
    """Processes that this one started, or that were left to it."""
    found, last = set[int](), {os.getpid()}
    tree = parents()
    while last:
        last = {pid for pid, parent in tree.items() if parent in last}
        found |= last
    return sorted(found)


def reap() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")[:100]
    except OSError:
        return "?"


def main(limit: float, *command: str) -> int:
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    if prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) or prctl(PR_SET_PDEATHSIG, signal.SIGTERM):
        raise OSError(ctypes.get_errno(), "prctl")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    status = 1
    try:
        status = subprocess.Popen(command).wait(limit)
    except subprocess.TimeoutExpired:
        print(f"took longer than {limit:g} s", file=sys.stderr)
        status = 124
    finally:
        ends = time.monotonic() + (GRACE if status == 0 else 0)
        while (left := descendants()) and time.monotonic() < ends:
            time.sleep(0.05)
            reap()
        if left and status == 0:
            print("left behind:", *map(name, left), sep="\n", file=sys.stderr)
            status = 125
        while left := descendants():
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.01)
            reap()
    if status < 0:
        signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    return status


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), *sys.argv[2:]))
