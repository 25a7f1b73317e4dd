"""Importing candle again, in subinterpreters, and after a failure."""

from __future__ import annotations

from typing import Any

import pytest

FORGET = """
import sys

def forget():
    for name in [n for n in sys.modules if n.partition(".")[0] == "candle"]:
        del sys.modules[name]
"""


def test_importing_again(in_child: Any) -> None:
    """Tools that empty sys.modules: old tensors and new ones are of one type."""
    in_child(
        FORGET
        + """
import gc
import candle
old_module, old = candle, candle.arange(3)
old_core = candle._native._core
for _ in range(3):
    forget()
    gc.collect()
    import candle
    assert candle is not old_module and candle._native._core is old_core
    assert candle.Tensor is old_module.Tensor
    new = candle.arange(3)
    assert type(old) is type(new) and (old == new).tolist() == [True] * 3
    assert old.dtype == new.dtype == old_module.int64 == candle.int64
    assert new.dtype is candle.int64 and str(old) == str(new)
    for module in (old_module, candle):
        assert candle.zeros(2, dtype=module.float16).dtype is candle.float16
        cpu = candle.asarray(old, device=module.Device("cpu")).device
        assert cpu == module.Device("cpu") and cpu is candle.Device("cpu")
    assert candle.from_dlpack(old).data_ptr() == old.data_ptr()
    for move in (
        lambda: candle.from_dlpack(new, dtype="float32", copy=False),
        lambda: new.reshape(3, copy=True).view(3)[::-1].reshape(3, 1)[::2].reshape(2, copy=False),
        lambda: old_module.from_dlpack(old, dtype="float32", copy=False),
    ):
        try:
            move()
        except candle.CopyError as error:
            assert isinstance(error.plan, candle.Plan)
    copies = []
    from candle.ledger import listening
    with listening(copies.append):
        candle.tensor(old)
    assert len(copies) == 1
"""
    ).check()


def test_importing_again_with_frameworks(in_child: Any, framework: Any) -> None:
    framework("torch")
    in_child(
        FORGET
        + """
import warnings
import numpy as np, torch
import candle
frozen = np.arange(3.0)
frozen.flags.writeable = False
warnings.simplefilter("ignore")
assert candle.asarray(frozen).torch().tolist() == [0, 1, 2]
old_error = candle.CopyError
forget()
import candle
assert candle.asarray(torch.ones(2)).numpy().tolist() == [1, 1]
for odd in (torch.ones(2, requires_grad=True), np.array([None])):
    try:
        candle.asarray(odd)
    except BufferError:
        continue
    raise AssertionError(odd)
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    candle.asarray(frozen).torch()
assert [w.category for w in said] == [candle.ReadOnlyCopyWarning], said
"""
    ).check()


INNER = """
import sys
sys.path[:] = {path!r}
for _ in range(2):
    try:
        import candle
    except ImportError as error:
        assert "interpreter" in str(error), error
    else:
        raise AssertionError("candle was imported")
"""


@pytest.mark.parametrize("first", [False, True])
def test_subinterpreters_are_told(in_child: Any, first: bool) -> None:
    """Whether or not the main interpreter has candle already; and it can have it afterwards."""
    in_child(
        f"""
        import sys
        try:
            import _interpreters as interpreters
        except ImportError:
            import _xxsubinterpreters as interpreters
        if {first}:
            import candle
        for _ in range(2):
            inner = interpreters.create()
            failed = interpreters.run_string(inner, sys.argv[1].format(path=sys.path))
            assert failed is None, failed
            interpreters.destroy(inner)
        import candle
        assert candle.arange(3).tolist() == [0, 1, 2]
        """,
        INNER,
    ).check()


def test_a_failure_in_the_middle_can_be_mended(in_child: Any) -> None:
    in_child(
        """
        import sys
        for name in ("candle.frameworks", "candle.tensor"):
            sys.modules[name] = None
            try:
                import candle
            except ImportError:
                pass
            else:
                raise AssertionError("it was imported")
            del sys.modules[name]
            # What needs nobody's Python works.
            core = sys.modules["candle._native._core"]
            assert core.asarray(bytearray(b"ab")).tolist() == [97, 98]
        import candle
        assert candle.arange(3).tolist() == [0, 1, 2]
        """
    ).check()
