"""numpy's `__array__`: out with a dtype and with every `copy`; in, and what it says of copies."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import candle


def test_a_dtype_is_cast_to_or_refused() -> None:
    """As numpy 2 has it: ValueError where copy=False cannot be met."""
    for name in ("float32", "bfloat16", "float8_e4m3fn", "int4"):
        t = candle.asarray([0.0, 1.0, 2.0]).to(name)
        for made in (t.__array__(np.float64), t.__array__("f8", copy=True), np.asarray(t, "f8")):
            assert (made.dtype, made.tolist()) == (np.dtype("f8"), [0, 1, 2])
            made[...] = 5
        assert t.tolist() == [0, 1, 2]
        with pytest.raises(ValueError, match=rf"{name}.*without a copy|packed, several to a byte"):
            t.__array__(np.float64, copy=False)


def test_the_dtype_it_has_is_shared() -> None:
    t = candle.asarray([1.0, 2.0])
    for dtype in (None, "f4", np.float32, np.dtype("f4")):
        for copy in (None, False):
            assert t.__array__(dtype, copy=copy).ctypes.data == t.data_ptr()
        assert t.__array__(dtype=dtype, copy=True).ctypes.data != t.data_ptr()


class Marked(np.ndarray[Any, Any]):
    """A subclass, which is made a plain array of."""


class Gives:
    """An object with `__array__` and nothing else."""

    def __init__(self, given: Any) -> None:
        self.given = given

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.given


def test_what_an_array_method_gives() -> None:
    array = np.arange(3.0)
    for given in (array, array.view(Marked)):
        t = candle.asarray(Gives(given), copy=False)
        assert (t.tolist(), t.data_ptr()) == ([0, 1, 2], array.ctypes.data)
    assert candle.asarray(Gives(np.float32(1.5))).item() == 1.5
    for wrong, said in ((5, "int"), ([1.0], "list"), (None, "None")):
        with pytest.raises(BufferError, match=said):
            candle.asarray(Gives(wrong))
    with pytest.raises(BufferError, match="mask"):
        candle.asarray(Gives(np.ma.masked_array([1.0], [True])))


class Shows(Gives):
    """It has an array, and knows the keyword."""

    def __init__(self, given: Any) -> None:
        super().__init__(given)
        self.asked: list[object] = []

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        self.asked.append(copy)
        return self.given


class Copies(Shows):
    """It has to make the array, and says so."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        if copy is False:
            raise ValueError("none is there: \u00e4\n")
        return super().__array__(dtype, copy).copy()


class Old(Gives):
    """From before the keyword."""

    def __array__(self, dtype: Any = None) -> Any:
        return self.given


class Mute(ValueError):
    def __repr__(self) -> str:
        raise OSError


class Wordless(Gives):
    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        if copy is False:
            raise Mute
        return self.given


class Unmade(Gives):
    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise ValueError("a file is gone" if copy is None else "no")


FORBIDDEN = {
    "would have to copy: ValueError.'none is there: .xe4.{1,2}n'": Copies,
    "does not take copy=False, so that nobody can tell whether it copies: TypeError.*'copy'": Old,
    "would have to copy: a Mute": Wordless,
}


def test_who_forbids_copies_asks_for_none() -> None:
    array = np.arange(3.0)
    for said, kind in FORBIDDEN.items():
        x = kind(array)
        with pytest.raises(candle.CopyError, match=said) as caught:
            candle.asarray(x, copy=False)
        plan = caught.value.plan
        assert (plan.route, plan.action) == ("array", "refuse"), kind
        assert [reason.code for reason in plan.reasons] == ["producer_copies"], kind
        assert isinstance(caught.value.__cause__, ValueError | TypeError), kind
        with candle.strict(), pytest.raises(candle.CopyError, match=said):
            candle.asarray(x)
        with pytest.raises(BufferError, match=f"where it lies is not told.*{said}"):
            candle.shares_memory(x, array)
        # What is asked for by name is made, and what is allowed: the producer's copy is the one.
        with candle.strict(allow={"producer_copies"}), candle.trace() as moves:
            assert candle.asarray(x).tolist() == [0, 1, 2]
        with candle.strict(), candle.trace() as asked:
            assert candle.asarray(x, dtype="float32").tolist() == [0, 1, 2]
            assert candle.zeros(3).copy_(x).tolist() == [0, 1, 2]
            t = candle.asarray(x, copy=True)
            assert t.data_ptr() != array.ctypes.data
        told = [(move.action, move.nbytes) for move in (*moves, *asked)]
        assert told == [("copy", 24), ("copy", 12), ("copy", 12), ("copy", 24)], kind
        plan = candle.explain(x)
        assert (plan.action, plan.nbytes) == ("copy", 24), kind
        assert [reason.code for reason in plan.reasons] == ["producer_copies"], kind


def test_what_its_array_is_is_not_copied_again() -> None:
    for kind in (Shows, Copies, Old):
        array = np.arange(3.0)
        x = kind(array)
        made: list[Any] = []

        class Seen:
            def __array__(self, **keywords: Any) -> Any:
                made.append(x.__array__(**keywords))  # noqa: B023
                return made[-1]  # noqa: B023

        with candle.trace():
            assert candle.asarray(Seen()).data_ptr() == made[-1].ctypes.data
        assert candle.asarray(Seen()).data_ptr() == made[-1].ctypes.data


def test_what_has_an_array_is_asked_once() -> None:
    array = np.arange(3.0)
    x = Shows(array)
    assert candle.asarray(x, copy=False).data_ptr() == array.ctypes.data
    with candle.strict():
        assert candle.asarray(x).data_ptr() == array.ctypes.data
    assert candle.explain(x).action == "share"
    assert candle.shares_memory(x, array)
    assert x.asked == [False] * 4
    candle.asarray(x)
    candle.asarray(x, copy=True)
    with candle.trace():
        candle.asarray(x, copy=True)
        candle.zeros(3).copy_(x)
    assert x.asked == [False] * 4 + [None] * 4


def test_other_errors_are_the_producers_own() -> None:
    class Fails(Gives):
        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            raise self.given

    for error in (OSError("gone"), KeyError("x")):
        with pytest.raises(BufferError, match=r"Fails does not export") as caught:
            candle.asarray(Fails(error), copy=False)
        assert not isinstance(caught.value, candle.CopyError)
        assert caught.value.__cause__ is error
    for passing in (MemoryError(), KeyboardInterrupt()):
        with pytest.raises(type(passing)):
            candle.asarray(Fails(passing), copy=False)
    with candle.trace(), pytest.raises(BufferError, match="a file is gone"):
        candle.asarray(Unmade(None))


def test_torch_functions_of_any_kind() -> None:
    """What has no name, or an odd one, is one that writes to nothing."""
    t = candle.arange(3)

    def whole(x: Any) -> Any:
        return type(x).__name__, x.tolist()

    for function in (functools.partial(whole), whole):
        pytest.importorskip("torch")
        assert candle.Tensor.__torch_function__(function, (), (t,)) == ("Tensor", [0, 1, 2])
    assert candle.Tensor.__torch_function__(lambda: 5, ()) == 5
    assert candle.Tensor.__torch_function__(whole, (), (t,), None) == ("Tensor", [0, 1, 2])

    class Numbered:
        __name__ = 5

        def __call__(self, x: Any, *, out: Any = None) -> Any:
            return whole(x), out is not None and whole(out)

    both = candle.Tensor.__torch_function__(Numbered(), (), (t,), {"out": candle.zeros(1)})
    assert both == (("Tensor", [0, 1, 2]), ("Tensor", [0]))
    whole.__name__ = "whole_"
    frozen = candle.asarray(bytes(4))
    with pytest.raises(ValueError, match="read-only"):
        candle.Tensor.__torch_function__(whole, (), (frozen,))
