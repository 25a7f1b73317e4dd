"""Try what may crash in a child process that is a copy of this one, so that it has its objects."""

from __future__ import annotations

import faulthandler
import os
import select
import signal
import warnings
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["trial"]


def trial(do: Callable[[], str], seconds: float = 10) -> str:
    """Call a function in a fork of this process; what it returns, or how it ended.

    Returns
    -------
    str
        What `do` returned; ``"killed by SIGSEGV"`` and the like; ``"no answer in 10 s"``;
        ``"raised ..."``. The fork writes nothing to stderr.
    """
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of threads that the fork will not have
        child = os.fork()
    if child == 0:
        faulthandler.disable()
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        try:
            said = do()
        except BaseException as error:
            said = f"raised {type(error).__name__}: {error}"
        os.write(writing, said.encode()[:4000])
        os._exit(0)
    os.close(writing)
    try:
        if not select.select([reading], [], [], seconds)[0]:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return f"no answer in {seconds:g} s"
        said = os.read(reading, 4000).decode(errors="replace")
        _, status = os.waitpid(child, 0)
    finally:
        os.close(reading)
    if os.WIFSIGNALED(status):
        return f"killed by {signal.Signals(os.WTERMSIG(status)).name}"
    return said
