"""Try what may crash in a child process that is a copy of this one, so that it has its objects."""

from __future__ import annotations

import faulthandler
import gc
import os
import select
import signal
import time
import warnings
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

__all__ = ["trial"]


def trial(do: Callable[[], str], seconds: float = 10) -> str:
    """Call a function in a fork of this process; what it returns, or how it ended.

    Returns
    -------
    str
        What `do` returned; ``"killed by SIGSEGV"`` and the like; ``"ended with status 3"``;
        ``"no answer in 10 s"``; ``"raised ..."``. The fork prints nothing.
    """
    if not hasattr(os, "fork"):
        raise OSError("this system has no fork, in which this would be tried")
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of threads that the fork will not have
        child = os.fork()
    if child == 0:
        _run(do, writing)
    os.close(writing)
    said = b""
    late = time.monotonic() + seconds
    try:
        while select.select([reading], [], [], max(0.0, late - time.monotonic()))[0]:
            part = os.read(reading, 1 << 16)
            if not part:
                break
            said += part
        else:
            os.kill(child, signal.SIGKILL)
            return f"no answer in {seconds:g} s"
    finally:
        os.close(reading)
        _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return f"killed by {signal.Signals(os.WTERMSIG(status)).name}"
    if status:
        return f"ended with status {os.waitstatus_to_exitcode(status)}"
    return said.decode(errors="replace")


def _run(do: Callable[[], str], writing: int) -> NoReturn:
    """Be the fork: whatever happens, it ends here."""
    status = 1
    try:
        faulthandler.disable()
        gc.freeze()  # a collection would copy every page of what the fork has from before
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        try:
            said = do()
        except BaseException as error:
            said = f"raised {type(error).__name__}: {error}"
        rest = said.encode(errors="replace")
        while rest:
            rest = rest[os.write(writing, rest) :]
        status = 0
    finally:
        os._exit(status)
