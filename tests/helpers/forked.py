"""Run a function in a fork of this process: what may crash, and needs no fresh interpreter."""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def in_fork(function: Callable[[], object]) -> None:
    """Call a function in a forked child; AssertionError if it raised, or the child was killed.

    The child has the frameworks that are loaded here, so that it costs no import. Nothing in it may
    need their threads.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    with warnings.catch_warnings():  # jax warns of every fork
        warnings.simplefilter("ignore")
        pid = os.fork()
    if pid == 0:
        status = 1
        try:
            function()
            status = 0
        except BaseException:
            traceback.print_exc(file=sys.__stderr__)
        finally:
            os._exit(status)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert status == 0, f"the child ended with {status}: {function.__qualname__}"
