"""`explain`: arguments, what it leaves alone, and how a plan looks."""

from __future__ import annotations

import json
import math
import pickle
from typing import Any

import numpy as np
import pytest

import candle
from candle._native import _core
from candle.testing import Producer, live


def test_moves_nothing_and_allocates_nothing_of_its_size() -> None:
    t = candle.zeros((1000, 1000))
    before = live()
    assert candle.explain(t, dtype="float64").nbytes == 8_000_000
    assert candle.explain(t[::-1], "dlpack").nbytes == 4_000_000
    assert candle.explain([1.0] * 1000).nbytes == 4000
    assert candle.explain(t.T, "dlpack", dtype="int8").nbytes == 1_000_000
    assert live() == before
    assert (
        candle.explain(candle.Tensor([1, 2]).broadcast_to((2**40, 2)), dtype="int8").nbytes == 2**41
    )


def test_nothing_is_told_of() -> None:
    with candle.trace() as moves, candle.strict():
        candle.explain(candle.zeros((3, 3)).T, dtype="float64")
        candle.explain(candle.zeros((3, 3), dtype="complex64"), dtype="float32")
    assert len(moves) == 0


def test_a_raw_capsule_is_not_consumed() -> None:
    t = candle.arange(4)
    for keywords in ({}, {"max_version": (1, 3)}):
        capsule = t.__dlpack__(**keywords)  # type: ignore[arg-type]
        plan = candle.explain(capsule, "dlpack")
        assert [step.action for step in plan.steps] == ["share", "share"]
        assert candle.from_dlpack(capsule).data_ptr() == t.data_ptr()
        with pytest.raises(BufferError, match="consumed"):
            candle.from_dlpack(capsule)
        assert "consumed" in candle.explain(capsule).reasons[0].fact


def test_a_producers_own_capsule_gets_its_deleter() -> None:
    producer = Producer(shape=(2, 3))
    assert candle.explain(producer, "dlpack").action == "share"
    assert producer.notes.deleted == 1


def test_types_that_do_not_tell_their_names() -> None:
    """Or tell none: they go by what CPython calls them."""

    class Silent(type):
        hidden: tuple[str, ...] = ()

        def __getattribute__(cls, name: str) -> Any:
            if name in type.__getattribute__(cls, "hidden"):
                raise ValueError(name)
            return type.__getattribute__(cls, name)

    class Odd(Producer, metaclass=Silent):
        pass

    candle.explain(Odd(shape=(2,)))  # what is known of a type is asked once
    for hidden in (("__module__",), ("__qualname__",), ("__module__", "__qualname__")):
        type.__setattr__(Odd, "hidden", hidden)
        seen = candle.explain(Odd(shape=(2,))).producer
        type.__setattr__(Odd, "hidden", ())
        assert seen.endswith("Odd"), hidden

    class Numbered(Producer):
        pass

    Numbered.__module__ = 5  # type: ignore[assignment]
    Numbered.__qualname__ = "Numbered"
    assert candle.explain(Numbered(shape=(2,))).producer == "Numbered"


def test_faults_of_a_producer() -> None:
    plan = candle.explain(Producer(shape=(2,), raises=RuntimeError("out of order")))
    assert (plan.action, plan.reasons[0].code) == ("refuse", "producer")
    assert "out of order" in plan.reasons[0].fact
    plan = candle.explain(Producer(shape=(-2,)), "numpy")
    assert (plan.action, plan.consumer, plan.reasons[0].code) == ("refuse", "numpy", "producer")


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        ({"x": object()}, TypeError, "does not know"),
        ({"x": "text"}, TypeError, "does not know"),
        ({"x": [[1], [2, 3]]}, ValueError, "ragged"),
        ({"x": 1, "to": "pytorch"}, ValueError, "'pytorch' is none of candle, numpy, torch"),
        ({"x": 1, "to": json}, ValueError, "'json' is none of"),
        ({"x": 1, "to": candle.Tensor}, TypeError, "a str or its module, not by an object of type"),
        ({"x": 1, "to": candle.zeros(2)}, TypeError, "not by an object of Tensor"),
        ({"x": 1, "dtype": "float31"}, TypeError, "float31"),
        ({"x": 1, "device": "moon"}, ValueError, "moon"),
    ],
)
def test_wrong_arguments_raise(arguments: Any, error: Any, match: str) -> None:
    with pytest.raises(error, match=match):
        candle.explain(arguments.pop("x"), arguments.pop("to", None), **arguments)


def test_facts_of_a_place_name_it() -> None:
    """The axis that is odd, not one before it; who counts how many bytes; one null and several."""
    block = bytes(range(64))
    for shape, strides, axis, step in (
        ((3,), (6,), 0, 6),
        ((1, 2, 3), (3, 8, 6), 2, 6),
        ((2, 2), (8, -5), 1, -5),
    ):
        x = np.ndarray(shape, "<i4", block, 16, strides)
        [reason] = candle.explain(x).reasons
        assert f"axis {axis} has a stride of {step} bytes, no multiple of the 4" in reason.fact
        ordered = candle.from_dlpack(x, order="C")
        assert (ordered.tolist(), ordered.is_contiguous()) == (x.tolist(), True)
    padded = candle.asarray(np.ones(3, pytest.importorskip("ml_dtypes").int4))
    with pytest.raises(candle.CopyError, match="int4 elements take a byte each, and a consumer of"):
        padded.__dlpack__(copy=False)
    assert candle.from_dlpack(padded.__dlpack__()).tolist() == [1, 1, 1]
    pa = pytest.importorskip("pyarrow")
    for values, said in (([1, None], "1 null is to be filled"), ([None] * 2, "2 nulls are to be")):
        with pytest.raises(candle.CopyError, match=said):
            candle.from_arrow(pa.array(values, "int32"), nulls=0, copy=False)


def test_what_only_few_consumers_ask_for() -> None:
    """Dense memory of any order, and a number of axes."""
    t = candle.arange(12).reshape(3, 4)
    for view, shared in ((t, True), (t.T, True), (t[:, ::2], False)):
        given = _core.conform(view, _core.Demand("x", dense=True), None)
        assert (given.data_ptr() == t.data_ptr(), given.tolist()) == (shared, view.tolist())
    for name, shared in (("float32", True), ("f32", True), ("f64", False)):
        demand = _core.Demand("x", dtypes=(name,))
        if shared:
            assert _core.conform(t.to("float32"), demand, None).dtype == candle.float32
            continue
        with pytest.raises(BufferError, match="x has no float32"):
            _core.conform(t.to("float32"), demand, None)
    for axes, fits in (((0, 1), False), ((1, 2), True), ((2, 4), True), ((3, 4), False)):
        demand = _core.Demand("x", axes=axes)
        if fits:
            assert _core.conform(t, demand, None).data_ptr() == t.data_ptr()
            continue
        with pytest.raises(BufferError, match=f"has 2 axes, and x takes {axes[0]} to {axes[1]}"):
            _core.conform(t, demand, None)


def test_one_move_or_two() -> None:
    t = candle.zeros((2, 3))
    assert candle.explain(t, "dlpack").steps == ()
    assert candle.explain(t).route == "candle"
    plan = candle.explain(t, "dlpack", dtype="int8")
    assert (plan.route, plan.action, plan.nbytes) == ("candle -> dlpack_versioned", "copy", 6)
    assert [step.action for step in plan.steps] == ["copy", "share"]


def test_how_a_plan_looks() -> None:
    plan = candle.explain(candle.zeros((2, 3))[:, ::-1], "dlpack")
    assert repr(plan) == (
        "candle -> a consumer of DLPack by dlpack_versioned: copy, 24 bytes\n"
        "  negative_stride: axis 1 has stride -1, and a consumer of DLPack takes no negative "
        "strides; allow the copy, or take t.contiguous() first"
    )
    html = plan._repr_html_()
    assert "-&gt;" in html
    assert "<td>negative_stride</td>" in html
    said = json.loads(json.dumps(plan.to_dict()))
    assert said["reasons"][0] == {
        "code": "negative_stride",
        "fact": plan.reasons[0].fact,
        "remedy": plan.reasons[0].remedy,
    }
    assert said["nbytes"] == 24
    assert pickle.loads(pickle.dumps(plan)) == plan
    assert hash(pickle.loads(pickle.dumps(plan))) == hash(plan)
    assert plan != candle.explain(candle.zeros((2, 3))[::-1], "dlpack")
    assert candle.explain(candle.zeros(3))._repr_html_().startswith("<b>candle -&gt; candle")


def test_plans_and_reasons_are_values() -> None:
    plan = candle.explain(np.zeros(3, ">f4"))
    (reason,) = plan.reasons
    assert repr(reason) == f"Reason('byte_order': {reason.fact}; {reason.remedy})"
    assert reason == candle.Reason("byte_order", reason.fact)
    for x in (plan, reason):
        assert (x == repr(x)) is False
        assert (x != repr(x)) is True
    with pytest.raises(candle.CopyError) as caught:
        candle.zeros(3).to("float64", copy=False)
    again = pickle.loads(pickle.dumps(caught.value))
    assert type(again) is candle.CopyError
    assert (str(again), again.plan) == (str(caught.value), caught.value.plan)


def test_refusals_carry_their_plan() -> None:
    with pytest.raises(BufferError) as caught:
        candle.zeros(3, dtype="complex64").to("float32")
    assert not isinstance(caught.value, candle.CopyError)
    plan = caught.value.plan  # type: ignore[attr-defined]
    assert plan == candle.explain(candle.zeros(3, dtype="complex64"), dtype="float32") or (
        plan.reasons[-1].code == "no_cast"
    )
    assert pickle.loads(pickle.dumps(caught.value)).plan == plan


VALUES: list[Any] = [
    *(True, 7, -1, 300, 1 << 40, 1.5, math.nan, math.inf, 1e300, 1j, 1 << 64),
    *([], [1, -1], [300], [[True], [2]], [1.5, 2], [math.nan], [0.5, 1j], [1 << 64]),
    *(range(3), (1, [2]), [np.complex64(1j)], [np.float64(3)], [np.zeros(2, "c8")] * 2),
    *([np.zeros(2), 1], [np.zeros(0, "c8")], [np.int64(300), 7], [candle.zeros(2, dtype="int4")]),
]


@pytest.mark.parametrize("dtype", [None, *(row[0] for row in _core.dtype_rows())])
def test_python_values_are_planned_as_they_are_made(dtype: str | None) -> None:
    """Whether they can be is known of the values alone."""
    for x in VALUES:
        refused = made = None
        try:
            made = candle.asarray(x, dtype=dtype)
        except (BufferError, TypeError, ValueError, OverflowError) as error:
            refused = error
        if isinstance(refused, BufferError) or refused is None:
            plan = candle.explain(x, dtype=dtype)
            assert plan.action == ("copy" if refused is None else "refuse"), (x, dtype)
            assert made is None or plan.nbytes == made.nbytes, (x, dtype)
            told = getattr(refused, "plan", None)
            if told is not None:
                assert plan.reasons == told.reasons
            elif refused is not None:
                assert plan.reasons[0].fact == str(refused)
        else:
            with pytest.raises(type(refused)) as caught:
                candle.explain(x, dtype=dtype)
            assert str(caught.value) == str(refused)
