"""`children.in_fork` is as `children.in_child`: how a fork ended is told, and nothing is kept."""

from __future__ import annotations

import subprocess

import children
import pytest

NONE = ()


def test_what_it_says_and_is_given() -> None:
    code = """
    import os, sys
    print(sys.argv, os.environ["CANDLE_WORD"], __name__, sys.stdin.read())
    """
    said = children.in_fork(NONE, code, "a", "b", CANDLE_WORD="yes").check()
    assert said == "['-c', 'a', 'b'] yes __main__ \n"


def test_each_begins_afresh() -> None:
    code = """
    import json, os, sys
    known = set(globals()), os.environ.get("CANDLE_WORD"), "candle" in sys.modules
    import candle
    os.environ["CANDLE_WORD"] = "kept"
    print(known[1:], "left" in known[0])
    left = 1
    """
    for _ in range(2):
        assert children.in_fork(NONE, code).check() == "(None, False) False\n"


def test_it_has_the_frameworks() -> None:
    code = "import sys; print('numpy' in sys.modules, 'candle' in sys.modules)"
    pytest.importorskip("numpy")
    assert children.in_fork(("numpy",), code).check() == "True False\n"


def test_it_ends_as_an_interpreter_does() -> None:
    """Handlers run, then what is left is taken down, and what a finaliser prints is seen."""
    code = """
    import atexit
    class Last:
        def __del__(self, say=print): say("finalised")
    last = Last()
    atexit.register(print, "handler")
    print("end")
    """
    assert children.in_fork(NONE, code).check() == "end\nhandler\nfinalised\n"


@pytest.mark.parametrize(
    ("code", "ending"),
    [
        ("raise SystemExit(3)", 3),
        ("import os; os._exit(4)", 4),
        ("raise ValueError('no')", 1),
        ("import ctypes; ctypes.string_at(16)", "SIGSEGV"),
        ("import os; os.abort()", "SIGABRT"),
        ("import os\nclass A:\n def __del__(_, end=os.abort): end()\na = A()", "SIGABRT"),
    ],
)
def test_how_it_ended(code: str, ending: int | str) -> None:
    child = children.in_fork(NONE, code)
    assert ending in (child.returncode, child.signal)
    assert child.stderr != "" or ending in (3, 4)
    with pytest.raises(AssertionError):
        child.check()
    assert children.in_fork(NONE, "print(1)").check() == "1\n"


def test_warnings_and_what_is_unraisable_are_seen() -> None:
    code = """
    class A:
        def __del__(self): raise ValueError("unraisable")
    a = A()
    """
    assert "unraisable" in children.in_fork(NONE, code).stderr
    assert (
        "deprecated"
        in children.in_fork(NONE, "import warnings; warnings.warn('deprecated')").stderr
    )


def test_one_that_takes_too_long() -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        children.in_fork(NONE, "import time; print('here', flush=True); time.sleep(60)", timeout=2)
    assert children.in_fork(NONE, "print(1)").check() == "1\n"
