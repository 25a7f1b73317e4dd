"""Every producer with every consumer: all dtypes both know, all layouts, values and addresses."""

from __future__ import annotations

import contextlib
import importlib
from typing import TYPE_CHECKING, Any, NamedTuple

import meeting
import numpy as np
import pytest

import candle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = [
    pytest.mark.usefixtures("x64"),
    pytest.mark.filterwarnings("ignore::candle.ReadOnlyCopyWarning"),
]

JAX_ALIGNMENT = 64


def _call(module: str, function: str) -> Callable[[Any], Any]:
    """A function of a framework that is imported when it is called."""

    def call(t: Any) -> Any:
        return getattr(importlib.import_module(module), function)(t)

    return call


# --- where the rules say that a door shares: "share", "copy", or "refuse" (the consumer's own) ---


def _always(_: meeting.Seen) -> str:
    return "share"


def _never(_: meeting.Seen) -> str:
    return "copy"


def _by_dlpack(t: meeting.Seen) -> str:
    return "copy" if meeting.has_negative(t) else "share"


def _writable(t: meeting.Seen) -> str:
    return "copy" if meeting.has_negative(t) or t.readonly else "share"


def _aligned(t: meeting.Seen) -> str:
    return "copy" if t.address % JAX_ALIGNMENT else "share"


def _by_jax(t: meeting.Seen) -> str:
    return _aligned(t) if meeting.is_dense(t) else "copy"


def _by_capsule_to_jax(t: meeting.Seen) -> str:
    silent = t.readonly and not meeting.jax_asks_for_versions()
    if silent or meeting.has_negative(t):
        return "copy"
    return _aligned(t) if meeting.is_dense(t) else "refuse"


class Door(NamedTuple):
    """A way from a candle Tensor to a consumer."""

    name: str
    consumer: str
    go: Callable[[Any], Any]
    fate: Callable[[meeting.Seen], str]


DOORS = (
    Door("candle.asarray", "candle", candle.asarray, _always),
    Door("candle.from_dlpack", "candle", candle.from_dlpack, _always),
    Door("jax()", "jax", lambda t: t.jax(), _by_jax),
    Door("jax.from_dlpack", "jax", _call("jax.dlpack", "from_dlpack"), _by_capsule_to_jax),
    Door("jnp.asarray", "jax", _call("jax.numpy", "asarray"), _never),
    Door("numpy()", "numpy", lambda t: t.numpy(), _always),
    Door("np.asarray", "numpy", np.asarray, _always),
    Door("np.from_dlpack", "numpy", np.from_dlpack, _by_dlpack),
    Door("torch()", "torch", lambda t: t.torch(), _writable),
    Door("to_torch()", "torch", lambda t: t.to_torch(), _writable),
    Door("torch.from_dlpack", "torch", _call("torch", "from_dlpack"), _by_dlpack),
    Door("torch.asarray", "torch", _call("torch", "asarray"), _by_dlpack),
    Door("torch.as_tensor", "torch", _call("torch", "as_tensor"), _by_dlpack),
    Door("tvm_ffi.from_dlpack", "tvm_ffi", _call("tvm_ffi", "from_dlpack"), _by_dlpack),
)


def _pairs() -> list[Any]:
    """Every producer, door and dtype that fit together."""
    made = []
    for producer in meeting.PRODUCERS:
        for door in DOORS:
            dtypes = meeting.known(producer) & meeting.known(door.consumer)
            if door.name == "np.from_dlpack":  # numpy's own DLPack knows none of ml_dtypes
                dtypes &= frozenset(meeting.NUMPY_DLPACK)
            made += [
                pytest.param(producer, door, name, id=f"{producer}-{door.name}-{name}")
                for name in sorted(dtypes)
            ]
    return made


def _apart(a: meeting.Seen, b: meeting.Seen) -> bool:
    (low_a, high_a), (low_b, high_b) = a.block, b.block
    return high_a <= low_b or high_b <= low_a


class Findings:
    """What fails in a loop, told together at its end: subtests cost more than what they watch."""

    def __init__(self) -> None:
        self.found: list[str] = []

    @contextlib.contextmanager
    def noting(self, case: str) -> Iterator[None]:
        try:
            yield
        except AssertionError as error:
            self.found.append(f"{case}: {error}")

    def assert_none(self) -> None:
        assert not self.found, "\n".join(self.found)


def _check_in(case: meeting.Case, take: Any) -> None:
    t = take(case.x)
    came = case.assert_came(t)
    assert t.readonly == case.readonly
    if t.size:
        assert came.address == meeting.see(case.x).address


@pytest.mark.parametrize("dtype", meeting.WHOLE)
@pytest.mark.parametrize("producer", meeting.PRODUCERS)
def test_in(framework: Any, producer: str, dtype: str) -> None:
    framework(producer)
    findings = Findings()
    for case in meeting.cases(producer, dtype):
        for take in (candle.from_dlpack, candle.asarray, candle.Tensor.from_dlpack, candle.Tensor):
            with findings.noting(f"{take.__name__}, {case.layout}"):
                _check_in(case, take)
    findings.assert_none()


def _check_pair(case: meeting.Case, door: Door) -> None:
    t = candle.from_dlpack(case.x)
    came = meeting.see(t)
    shape, elements = meeting.expected(case.dtype, case.layout)
    fate = door.fate(came) if elements else "share"
    if fate == "refuse":
        with pytest.raises(RuntimeError, match="strid"):
            door.go(t)
        return
    y = door.go(t)
    went = meeting.see(y)
    assert went.dtype == meeting.DLPACK[case.dtype]
    assert (went.shape, went.content) == (shape, elements)
    if not elements:
        return
    if fate == "share":
        assert went.address == came.address
    else:
        assert _apart(went, came)
    if door.consumer == "numpy":
        assert went.readonly == (t.readonly and fate == "share")


@pytest.mark.parametrize(("producer", "door", "dtype"), _pairs())
def test_pair(framework: Any, producer: str, door: Door, dtype: str) -> None:
    """What `test_in` shows to have come in right goes out right."""
    framework(producer)
    framework(door.consumer)
    findings = Findings()
    for case in meeting.cases(producer, dtype):
        with findings.noting(case.layout):
            _check_pair(case, door)
    findings.assert_none()


@pytest.mark.parametrize("dtype", meeting.WHOLE)
@pytest.mark.parametrize("producer", meeting.PRODUCERS)
def test_copy_false_shares_exactly_where_copy_none_does(
    framework: Any, producer: str, dtype: str
) -> None:
    """The named doors; torch() under `copy=False` shares read-only memory on the caller's word."""
    framework(producer)
    doors = {"numpy": _always, "torch": _by_dlpack, "jax": _by_jax}
    for case in meeting.cases(producer, dtype):
        t = candle.asarray(case.x)
        came = meeting.see(t)
        _, elements = meeting.expected(dtype, case.layout)
        for name, fate in doors.items():
            if not meeting.present(name) or dtype not in meeting.known(name):
                continue
            said = f"{producer} -> {name}(copy=...), {dtype}, {case.layout}"
            if elements and fate(came) == "copy":
                plan = meeting.refused(getattr(t, name), copy=False)
                assert (plan.action, plan.nbytes) == ("refuse", len(elements)), said
                assert all(reason.remedy for reason in plan.reasons), said
            elif elements:
                assert meeting.see(getattr(t, name)(copy=False)).address == came.address, said
            y = getattr(t, name)(copy=True)
            fresh = meeting.see(y)
            assert fresh.content == elements, said
            assert not elements or _apart(fresh, came), said
            assert name != "numpy" or not fresh.readonly, said


@pytest.mark.parametrize("dtype", meeting.WHOLE)
@pytest.mark.parametrize("producer", meeting.PRODUCERS)
def test_copy_true_and_order_on_the_way_in(framework: Any, producer: str, dtype: str) -> None:
    framework(producer)
    for case in meeting.cases(producer, dtype):
        x, layout = case.x, case.layout
        origin = meeting.see(x)
        for t in (
            candle.from_dlpack(x, copy=True),
            candle.asarray(x, copy=True),
            candle.tensor(x),
        ):
            fresh = case.assert_came(t)
            assert not t.readonly, layout
            assert not t.size or _apart(fresh, origin), layout
        t = candle.from_dlpack(x, order="C")
        assert t.is_contiguous(), layout
        case.assert_came(t)


LACKING = [
    *((name, "torch") for name in ("float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz")),
    *((name, "jax") for name in ("complex32", "float4_e2m1fn_x2")),
    ("float4_e2m1fn_x2", "numpy"),
]


@pytest.mark.parametrize(("dtype", "consumer"), LACKING)
def test_dtype_the_consumer_lacks(framework: Any, dtype: str, consumer: str) -> None:
    """Never converted; the message says who lacks what, and what to do. Under every copy=."""
    framework(consumer)
    t = meeting.make("candle", dtype, "contiguous")
    remedy = r"\.view\(\"float4_e2m1fn\"\)" if dtype.endswith("_x2") else r"\.to\("
    for copy in (None, False, True):
        with pytest.raises(BufferError, match=rf"{consumer}.*{dtype}.*{remedy}"):
            getattr(t, consumer)(copy=copy)
