"""Tensor's own methods: what they give, share and refuse."""

from __future__ import annotations

import math
import operator
import re
import weakref
from typing import Any

import numpy as np
import pytest
from labels import label

import candle
from candle import ledger
from candle._native import _core


def grid() -> candle.Tensor:
    return candle.arange(6, dtype="float32").reshape(2, 3)


def test_attributes() -> None:
    t = grid()
    assert (t.shape, t.stride, t.ndim, t.rank) == ((2, 3), (3, 1), 2, 2)
    assert (t.size, t.nelement, t.itemsize, t.nbytes) == (6, 6, 4, 24)
    assert (str(t.dtype), str(t.device), t.readonly) == ("float32", "cpu", False)
    assert t.data_ptr() % 256 == 0
    assert len(t) == 2
    assert t.T.is_fortran_contiguous()
    assert not t.T.is_contiguous()
    assert t.flags["C_CONTIGUOUS"] is True
    assert t.flags.aligned is t.flags["ALIGNED"] is True
    assert t.flags.f_contiguous is False
    assert t.flags.writeable is True
    assert "WRITEABLE : True" in repr(t.flags)


def test_T_is_for_two_axes() -> None:
    with pytest.raises(ValueError, match="mT"):
        _ = candle.zeros(3).T
    with pytest.raises(ValueError, match="mT"):
        _ = candle.zeros((1, 2, 3)).T
    assert candle.zeros((1, 2, 3)).mT.shape == (1, 3, 2)


def test_no_hash_and_elementwise_equality() -> None:
    t = grid()
    with pytest.raises(TypeError, match="unhashable"):
        hash(t)
    equal = t == [[0, 1, 9], [3, 4, 5]]
    assert equal.tolist() == [[True, True, False], [True, True, True]]
    assert (t != grid()).tolist() == [[False] * 3] * 2
    assert str(equal.dtype) == "bool"


def test_numbers_of_one_element() -> None:
    t = candle.tensor([[3]])
    assert (int(t), float(t), complex(t), bool(t), [10, 20, 30, 40][t]) == (
        3,
        3.0,
        3 + 0j,
        True,
        40,
    )
    assert f"{candle.tensor(2.5):.2f}" == "2.50"
    for convert in (int, float, complex, operator.index, math.ceil):
        with pytest.raises(TypeError, match="tolist"):  # what Python takes for "no number"
            convert(candle.arange(6))
    with pytest.raises(ValueError, match="any"):
        bool(grid())
    with pytest.raises(TypeError, match="integers"):
        [1][candle.tensor(0.0)]
    with pytest.raises(ValueError, match="tolist"):
        grid().item()


def test_iteration() -> None:
    assert [row.tolist() for row in grid()] == [[0, 1, 2], [3, 4, 5]]
    for use in (iter, len):
        with pytest.raises(TypeError, match="no axes"):
            use(candle.tensor(1))  # type: ignore[operator]


@pytest.mark.parametrize(
    ("key", "error", "words"),
    [
        (2, IndexError, "out of bounds"),
        (-3, IndexError, "out of bounds"),
        (2**70, IndexError, "out of bounds"),
        ((0, 0, 0), IndexError, "too many"),
        ((..., ...), IndexError, "ellipsis"),
        ([0, 2], IndexError, "out of bounds"),
        ([True], IndexError, "did not match"),
        (1.0, TypeError, "masks"),
        ("a", TypeError, "masks"),
        (slice(None, None, 0), ValueError, "zero"),
    ],
)
def test_wrong_indices(key: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        grid()[key]


def test_no_index_without_axes() -> None:
    t = candle.tensor(5)
    with pytest.raises(IndexError, match="1 indices are too many for a tensor with 0 axes"):
        t[0]
    with pytest.raises(IndexError, match="1 indices are too many for a tensor with 0 axes"):
        t[0] = 1
    assert t[()].item() == t[...].item() == 5


def test_writing_out_of_bounds() -> None:
    t = grid()
    for key in (2, -3, (0, 3), (0, 0, 0)):
        with pytest.raises(IndexError):
            t[key] = 9
    assert t.tolist() == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize("name", ["int4", "uint4", "float4_e2m1fn"])
def test_views_of_packed_elements_begin_on_whole_bytes(name: str) -> None:
    t = candle.tensor([[0, 1, 2], [3, 4, 6]], dtype=name)
    line = t.view(6)
    for move in (
        lambda: t[1],
        lambda: list(t),
        lambda: t[:, 1:],
        lambda: t.narrow(1, 1, 2),
        lambda: line[3],
        lambda: candle.tensor([t[0], t[0]]),
        lambda: t.__setitem__(1, 0),
        lambda: _core.restride(line, (2, 2), (2, 1), 1),
    ):
        with pytest.raises(BufferError, match=rf"^{name} elements.* middle of a byte; .*t\.to\("):
            move()
    assert t.tolist() == [[0, 1, 2], [3, 4, 6]]
    assert line[2:].tolist() == [2, 3, 4, 6]
    assert t.to("float32")[1].tolist() == [3, 4, 6]


def test_too_many_axes() -> None:
    with pytest.raises(IndexError, match="64"):
        grid()[(None,) * 63]


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        ("t.permute(0)", ValueError, "each of the 2 axes"),
        ("t.permute(0, 0)", ValueError, "each of the 2 axes"),
        ("t.permute(0, 2)", IndexError, "axis 2"),
        ("t.squeeze(0)", ValueError, "extent 1"),
        ("t.unsqueeze(4)", IndexError, "axis 4"),
        ("t.narrow(1, 2, 2)", IndexError, "outside"),
        ("t.narrow(1, 0, -1)", IndexError, "outside"),
        ("t.broadcast_to(3, 3)", ValueError, "broadcast"),
        ("t.broadcast_to(3)", ValueError, "broadcast"),
        ("t.view(4)", ValueError, "elements"),
        ("t.view(-1, -1)", ValueError, "elements"),
        ("t.view(-1, 4)", ValueError, "elements"),
        ("t.reshape(-2, -3)", ValueError, "extent"),
        ("t.T.view(6)", ValueError, "reshape"),
        ("t.unflatten(1, (2, 2))", ValueError, "elements"),
        ("t.flatten(1, 0)", ValueError, "before"),
        ('t.to("nothing")', (TypeError, ValueError), "nothing"),
        ('t.to("cuda")', BufferError, "cuda"),
        ('t.to("float64", copy=False)', candle.CopyError, "float64"),
        ('t.to("complex64").to("float32")', BufferError, "real part"),
        ('t.fill_("a")', TypeError, "number"),
        ("t.fill_(1j)", BufferError, "complex"),
        ("t.copy_([1, 2])", ValueError, "broadcast"),
    ],
)
def test_wrong_calls(call: str, error: Any, words: str) -> None:
    with pytest.raises(error, match=words):
        eval(call, {"t": grid()})


def test_views_share() -> None:
    t = grid()
    views = [
        t.permute(1, 0),
        t.transpose(0, 1),
        t.T,
        t.squeeze(),
        t.unsqueeze(1),
        t.narrow(0, 0, 1),
        t.broadcast_to(4, 2, 3),
        t.broadcast_as(4, 2, 3),
        t.view(3, 2),
        t.view(-1),
        t.unflatten(1, (3, 1)),
        t.reshape(6),
        t.flatten(),
        t.contiguous(),
        t.to("float32"),
        t.view("int32"),
    ]
    assert {v.data_ptr() for v in views} == {t.data_ptr()}
    t.fill_(7)
    assert all(
        v.view("float32").tolist() != [] and set(_flat(v.view("float32").tolist())) == {7}
        for v in views
    )


def _flat(values: Any) -> list[Any]:
    return [values] if not isinstance(values, list) else [x for v in values for x in _flat(v)]


def test_view_of_bytes() -> None:
    t = candle.tensor([1.0, -2.0], dtype="float32")
    assert t.view("uint8").shape == (8,)
    assert t.view("uint8").view("float32").tolist() == [1.0, -2.0]
    assert t.view(candle.int32).tolist() == [0x3F800000, -0x40000000]
    assert t.view("float64").shape == (1,)
    odd = candle.zeros(12, dtype="uint8")[1:9]
    with pytest.raises(ValueError, match="alignment"):
        odd.view("float32")
    with pytest.raises(ValueError, match="contiguous"):
        candle.zeros((2, 4), dtype="uint8")[:, ::2].view("int16")
    assert candle.zeros(3, dtype="uint8").view("int4").shape == (6,)


def test_copies_are_copies() -> None:
    t = grid()
    for fresh in (t.copy(), t.clone(), t.to("float32", copy=True), t.reshape(6, copy=True)):
        assert fresh.data_ptr() != t.data_ptr()
        assert not fresh.readonly
        assert fresh.is_contiguous()
    assert t.T.contiguous().tolist() == t.T.tolist()
    assert t.to("int8").to_dtype("f64").dtype == "float64"
    assert t.to(candle.zeros(1, dtype="int16")).dtype == "int16"
    assert t.to_device("cpu") is t


def test_read_only_memory_is_not_written() -> None:
    t = candle.asarray(b"abc")
    assert t.readonly
    assert t[1:].readonly
    assert t.view("int8").readonly
    for write in (
        lambda: t.fill_(0),
        lambda: t.copy_(t),
        lambda: t.__setitem__(0, 1),
        lambda: t[1:].fill_(0),
    ):
        with pytest.raises(ValueError, match=r"read-only.*copy\(\)"):
            write()
    assert t.tolist() == [97, 98, 99]
    assert not t.copy().readonly


def test_stride_zero_is_not_written() -> None:
    b = candle.zeros(3).broadcast_to(2, 3)
    assert not b.readonly
    for write in (
        lambda: b.fill_(1),
        lambda: b.__setitem__(..., 1),
        lambda: b.__setitem__((slice(None), 0), 1),
    ):
        with pytest.raises(ValueError, match="stride 0"):
            write()
    b[0] = 5
    assert b.tolist() == [[5, 5, 5]] * 2


@pytest.mark.parametrize(
    ("dtype", "value"), [("int8", 128), ("uint8", -1), ("uint64", 2**64), ("int64", 2**63)]
)
def test_numbers_that_do_not_fit(dtype: str, value: int) -> None:
    t = candle.zeros(2, dtype=dtype)
    for write in (
        lambda: t.fill_(value),
        lambda: t.__setitem__(0, value),
        lambda: candle.tensor([value], dtype=dtype),
        lambda: candle.tensor(value, dtype=dtype),
    ):
        with pytest.raises(ValueError, match="fit"):
            write()
    assert t.tolist() == [0, 0]


def test_every_copy_is_told_of_before_it_is_made() -> None:
    plans: list[candle.Plan] = []
    t = grid()
    with ledger.listening(plans.append):
        t.T.contiguous()
        t.to("float64")
        t.copy()
        t.T.reshape(6)
        candle.from_dlpack(t, order="C")
        candle.from_dlpack(t.T, order="C")
    assert [(p.action, [r.code for r in p.reasons], p.nbytes) for p in plans] == [
        ("copy", ["order"], 24),
        ("copy", ["dtype"], 48),
        ("copy", ["requested"], 24),
        ("copy", ["order"], 24),
        ("copy", ["order"], 24),
    ]
    t.copy()
    assert len(plans) == 5


def test_a_listener_can_forbid() -> None:
    def forbid(plan: candle.Plan) -> None:
        raise candle.CopyError("no copies here", plan)

    with ledger.listening(forbid), pytest.raises(candle.CopyError, match="no copies here"):
        grid().T.contiguous()


def test_weak_references_and_subclasses() -> None:
    t = grid()
    seen = weakref.ref(t)
    assert seen() is t
    del t
    assert seen() is None

    class Mine(candle.Tensor):
        pass

    mine = Mine([1, 2])
    mine.name = "mine"  # type: ignore[attr-defined]
    assert isinstance(mine, Mine)
    assert candle.asarray(mine).data_ptr() == mine.data_ptr()
    assert mine.tolist() == [1, 2]


def test_not_tracked_by_the_collector() -> None:
    import gc

    assert not gc.is_tracked(grid())


def test_nan_and_infinities_survive_lists() -> None:
    t = candle.tensor([math.nan, math.inf, -math.inf, -0.0])
    values = t.tolist()
    assert math.isnan(values[0])
    assert values[1:3] == [math.inf, -math.inf]
    assert math.copysign(1, values[3]) == -1


def test_equality_with_things_that_have_no_elements() -> None:
    t = grid()
    assert (t == None) is False  # noqa: E711
    assert (t != "text") is True
    assert t in [object(), t]


FLOATS = ("float16", "bfloat16", "float32", "float64", "float8_e5m2", "float4_e2m1fn")


@pytest.mark.parametrize("number", [2**63, -(2**64), 10**400, -(10**5000)], ids=lambda n: n % 97)
@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "int64", "uint8", "int4", *FLOATS, "complex64", "complex128"]
)
def test_numbers_that_no_element_can_be(dtype: str, number: int) -> None:
    for t in (candle.ones((2, 2)).to(dtype), candle.ones((0, 2)).to(dtype)):
        same, other = t == number, t != number
        assert same.tolist() == [[False, False]] * len(t)
        assert other.tolist() == [[True, True]] * len(t)
        assert str(same.dtype) == str(other.dtype) == "bool"
        assert same.shape == t.shape
    if dtype in FLOATS and dtype != "float4_e2m1fn":  # which has no infinity
        t = candle.asarray([1.0, float("inf")]).to(dtype)
        assert (t == number).tolist() == [False, False]


def test_streams_are_candles_to_order() -> None:
    t = candle.zeros(2)
    assert t.to_device("cpu", stream=None) is t
    with pytest.raises(ValueError, match="leave stream= out"):
        t.to_device("cpu", stream=1)


def test_order_of_numbers_beyond_all_floats() -> None:
    """As in numpy: they are refused, where whether they are equal is known."""
    for dtype in (*FLOATS, "complex64"):
        for number in (10**400, -(10**5000)):
            with pytest.raises(OverflowError):
                _ = candle.zeros(2).to(dtype) < number
    assert (candle.zeros(2, dtype="int8") < 10**400).tolist() == [True, True]


def test_comparison_does_not_narrow_python_numbers() -> None:
    assert (candle.tensor([0.1], dtype="float64") == 0.1).tolist() == [True]
    assert (candle.tensor([1e300], dtype="float64") == [1e300]).tolist() == [True]
    assert (candle.tensor([0.1j], dtype="complex128") != 0.1j).tolist() == [False]
    assert (candle.tensor([2**63], dtype="uint64") == 2**63).tolist() == [True]
    pairs = candle.zeros(2, dtype="uint8").view("float4_e2m1fn_x2")
    assert (pairs == pairs.copy()).tolist() == [True, True]
    with pytest.raises(TypeError, match="pairs"):
        _ = pairs == candle.zeros(2)


def test_integers_of_frameworks_make_views() -> None:
    np = pytest.importorskip("numpy")
    torch = pytest.importorskip("torch")
    b = candle.arange(3)
    for key in (np.int64(1), torch.tensor(1), candle.tensor(1)):
        assert b[key].item() == 1
        assert b[key].data_ptr() == b.data_ptr() + b.itemsize


def test_views_too_large_for_memory() -> None:
    one = candle.tensor([[1]])
    with pytest.raises(ValueError, match="63 bits"):
        one.broadcast_to(2**62, 1)
    wide = one.broadcast_to(2**50, 1)
    assert wide.nbytes == 2**53
    with pytest.raises(ValueError, match="63 bits"):
        wide.view("uint8").broadcast_to(2**11, 2**50, 8)
    # Extents beside one of 0 count as well.
    assert candle.zeros((0, 8, 2**56), dtype="int64").view("int8").shape == (0, 8, 2**59)
    with pytest.raises(ValueError, match="63 bits"):
        candle.zeros((0, 16, 2**56), dtype="int64").view("int8")


@pytest.mark.parametrize(
    "call",
    ["t.view((3.0,))", "t.unsqueeze(1.0)", "t.squeeze(0.0)", "t.permute(0.0)", 't.view("foo")'],
)
def test_arguments_of_the_wrong_type(call: str) -> None:
    with pytest.raises(TypeError):
        eval(call, {"t": grid()})


FILLING = {
    "int": lambda: 3,
    "float": lambda: 3.0,
    "bool": lambda: True,
    "tensor": lambda: candle.Tensor(3),
    "numpy float": lambda: pytest.importorskip("numpy").float32(3),
    "numpy int": lambda: pytest.importorskip("numpy").int16(3),
    "numpy array": lambda: pytest.importorskip("numpy").array(3),
    "torch": lambda: pytest.importorskip("torch").tensor(3),
    "jax": lambda: pytest.importorskip("jax").numpy.float32(3),
}


@pytest.mark.parametrize("kind", FILLING)
@pytest.mark.parametrize("dtype", ["float32", "int8", "int4", "complex64", "bfloat16"])
def test_fill_takes_numbers_of_anybody(kind: str, dtype: str) -> None:
    t = candle.zeros((2, 4), dtype=dtype)
    assert t.fill_(FILLING[kind]()) is t
    assert t.tolist() == [[1 if kind == "bool" else 3] * 4] * 2


@pytest.mark.parametrize(
    "value", ["3", b"3", None, [3], (3,), object(), candle.Tensor([3])], ids=label
)
def test_fill_takes_one_number(value: Any) -> None:
    with pytest.raises(TypeError):
        candle.zeros(2).fill_(value)


def test_fill_refuses_what_loses_meaning() -> None:
    with pytest.raises(BufferError, match="complex"):
        candle.zeros(2).fill_(candle.Tensor(1j))


NO_FORMAT = [
    "int4",
    "uint4",
    "float4_e2m1fn",
    "float6_e2m3fn",
    "bfloat16",
    "float8_e5m2",
    "complex32",
]


@pytest.mark.parametrize("dtype", [*NO_FORMAT, "float4_e2m1fn_x2"])
@pytest.mark.parametrize("shape", [(), (3,), (4,), (4, 3), (4, 4)], ids=str)
def test_remedies_of_memoryview_work(dtype: str, shape: tuple[int, ...]) -> None:
    def named(t: candle.Tensor) -> list[str]:
        with pytest.raises(BufferError, match=f"no format for {dtype}") as caught:
            t.memoryview()
        return re.findall(r"t\.[^ ,]*", str(caught.value))

    tensors = [candle.empty(shape, dtype=dtype)]
    if len(shape) == 2:
        tensors += [tensors[0].T, tensors[0][::2]]
    for t in tensors:
        remedies = named(t)
        assert remedies
        for remedy in remedies:
            view = eval(remedy, {"t": t})
            assert view.shape[:-1] == t.shape[:-1]


def test_a_tensor_does_not_go_to_itself() -> None:
    """What a Tensor's own methods refuse is told as what they would have made."""
    t = candle.zeros((2, 3)).T
    refused: list[Any] = [
        lambda: candle.from_dlpack(t, order="C", copy=False),
        lambda: t.reshape(6, copy=False),
        lambda: t.to("float64", copy=False),
        lambda: candle.Tensor([1j]).to("float32"),
        lambda: candle.zeros(2, dtype="uint8").view("float4_e2m1fn_x2").to("float32"),
    ]
    for move in refused:
        with pytest.raises(BufferError, match="cannot be made so") as caught:
            move()
        assert "go to" not in str(caught.value)


def test_pairs_name_their_remedy() -> None:
    pairs = candle.zeros(2, dtype="uint8").view("float4_e2m1fn_x2")
    with pytest.raises(BufferError, match=r't\.view\("float4_e2m1fn"\)'):
        pairs.to("float32")
    assert pairs.view("float4_e2m1fn").to("float32").tolist() == [0, 0, 0, 0]
    with pytest.raises(BufferError, match=r't\.to\("float4_e2m1fn"\)\.view\("float4_e2m1fn_x2"\)'):
        candle.zeros(4).to("float4_e2m1fn_x2")
    assert candle.zeros(4).to("float4_e2m1fn").view("float4_e2m1fn_x2").shape == (2,)


def test_view_functions_say_what_does_not_fit() -> None:
    t = candle.zeros((2, 3))
    with pytest.raises(ValueError, match="2 extents and 1 strides"):
        _core.restride(t, (2, 3), (3,))
    with pytest.raises(ValueError, match="reaches outside"):
        _core.restride(t, (2, 3), (3, 2))


@pytest.mark.parametrize(
    "source",
    [
        np.arange(6, dtype=">i2").reshape(2, 3),
        np.arange(12, dtype="f8").reshape(2, 6)[:, ::-2],
        np.arange(3, dtype="u1"),
        np.float32(3),
        memoryview(b"abc"),
    ],
    ids=["swapped", "reversed", "broadcast", "scalar", "buffer"],
)
def test_anybodys_elements_are_written_once(source: Any) -> None:
    """Straight from the producer's memory: one copy is recorded, and none is made in between."""
    t = candle.empty((2, 3), dtype="float32")
    expected = np.broadcast_to(np.asarray(source), (2, 3)).astype("f4")
    for write in (lambda: t.copy_(source), lambda: t.__setitem__(..., source)):
        t.fill_(-1)
        plans: list[candle.Plan] = []
        with ledger.listening(plans.append):
            write()
        np.testing.assert_array_equal(t.numpy(), expected)
        assert [plan.nbytes for plan in plans] in ([24], [])  # a number is no move
