"""`candle.array_api`: what it has, what it says of itself, that it computes over shared memory."""

from __future__ import annotations

from typing import Any

import pytest

import candle
from candle import array_api as xp

np = pytest.importorskip("numpy")
pytest.importorskip("array_api_compat")

PARTS = {"": xp, "linalg": xp.linalg, "fft": xp.fft}
DELEGATED = [
    (part, name)
    for part, module in PARTS.items()
    for name in module.__all__
    if "Do what the Python Array API standard says" in (getattr(module, name).__doc__ or "")
]


def test_the_standards_names() -> None:
    strict = pytest.importorskip("array_api_strict")
    for part, module in PARTS.items():
        theirs = getattr(strict, part) if part else strict
        own = {"set_array_api_strict_flags", "get_array_api_strict_flags", "reset_array_api_strict"}
        wanted = {n for n in theirs.__all__ if n[0] != "_" and "strict" not in n} - own
        wanted -= {"ArrayAPIStrictFlags", "Device", "ALL_DEVICES", "CPU_DEVICE"}
        assert wanted <= set(module.__all__)
        assert set(module.__all__) <= set(dir(module))
        for name in module.__all__:
            assert getattr(module, name) is getattr(module, name)
        with pytest.raises(AttributeError, match="nonsense"):
            module.nonsense  # noqa: B018


def test_import_star() -> None:
    names: dict[str, Any] = {}
    exec("from candle.array_api import *", names)
    assert set(xp.__all__) <= set(names)


def test_what_it_says_of_itself() -> None:
    info = xp.__array_namespace_info__()
    assert xp.__array_api_version__ == "2025.12"
    assert info.default_device() == candle.Device("cpu")
    assert info.devices()[0] == "cpu"
    assert info.default_dtypes() == {
        "real floating": xp.float32,
        "complex floating": xp.complex64,
        "integral": xp.int64,
        "indexing": xp.int64,
    }
    assert info.dtypes(kind="bool") == {"bool": xp.bool}
    assert set(info.dtypes(kind=("unsigned integer", "complex floating"))) == {
        *("uint8", "uint16", "uint32", "uint64", "complex64", "complex128")
    }
    assert info.capabilities()["max dimensions"] == 64
    assert xp.asarray([1.0]).dtype is info.default_dtypes()["real floating"]
    assert xp.arange(3).dtype is info.default_dtypes()["integral"]


def test_promotion() -> None:
    assert xp.result_type(xp.int8, xp.uint8) is xp.int16
    assert xp.result_type(xp.asarray([1.0]), xp.float64, 1j) is xp.complex128
    assert xp.result_type(xp.float32, 1) is xp.float32
    assert xp.result_type(candle.bfloat16, 1.0) is candle.bfloat16
    assert xp.result_type(candle.bfloat16, xp.float32) is xp.float32
    assert xp.can_cast(xp.int8, xp.int16)
    assert not xp.can_cast(xp.asarray([1.0]), xp.int64)
    assert xp.isdtype(xp.float32, ("integral", "real floating"))
    assert not xp.isdtype(xp.bool, "numeric")
    assert xp.isdtype(xp.float32, xp.float32)
    assert not xp.isdtype(xp.float32, (xp.float64, "integral"))
    with pytest.raises(ValueError, match="whole"):
        xp.isdtype(xp.bool, "whole")


@pytest.mark.parametrize("name", ["float32", "float64", "bfloat16", "float8_e4m3fn", "complex64"])
def test_finfo(name: str) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    want = ml_dtypes.finfo("float32" if name == "complex64" else name)
    for given in (candle.as_dtype(name), candle.empty(1, dtype=name)):
        got = xp.finfo(given)
        assert got.bits == want.bits
        for field in ("eps", "max", "min", "smallest_normal"):
            assert getattr(got, field) == float(getattr(want, field))
            assert type(getattr(got, field)) is float
    assert xp.finfo("complex64").dtype is xp.float32


def test_iinfo() -> None:
    for name in ("int8", "uint8", "int64", "uint64"):
        got, want = xp.iinfo(name), np.iinfo(name)
        assert (got.bits, got.min, got.max) == (want.bits, want.min, want.max)
    with pytest.raises(TypeError, match="finfo"):
        xp.iinfo("float32")
    with pytest.raises(TypeError, match="iinfo"):
        xp.finfo("int8")


def test_dtypes_and_devices_as_arguments() -> None:
    t = candle.tensor([1, 2])
    for dtype in (xp.float64, "f64", np.float64, np.dtype("float64")):
        assert xp.sum(t, dtype=dtype).dtype is xp.float64
    assert xp.astype(t, xp.int8).dtype is xp.int8
    assert xp.fft.fftfreq(4, device="cpu").dtype is xp.float32
    assert xp.fft.rfftfreq(4, dtype=xp.float64).tolist() == [0, 0.25, 0.5]


# Sharing

SHAPE = (4, 4)
LAID = {
    "whole": lambda: candle.asarray(well()),
    "steps": lambda: candle.asarray(np.repeat(well(), 2, 1)[:, ::2]),
    "transposed": lambda: candle.asarray(np.ascontiguousarray(well().T).T),
    "reversed": lambda: candle.asarray(well()[::-1, ::-1].copy()[::-1, ::-1]),
}


def well() -> Any:
    """A matrix that every function of the standard can do something with."""
    return np.eye(4) * 0.5 + 0.25


BITWISE = {"bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift"}
BINARY = {
    *("add", "atan2", "copysign", "divide", "equal", "floor_divide", "greater", "greater_equal"),
    *("hypot", "less", "less_equal", "logaddexp", "maximum", "minimum", "multiply", "nextafter"),
    *("not_equal", "pow", "remainder", "subtract", "matmul", "tensordot", "vecdot", "solve"),
    *("logical_and", "logical_or", "logical_xor", "isin", "broadcast_arrays"),
}
ROWS, ORDER = candle.tensor([0, 2]), candle.tensor([[0, 1, 2, 3]])
SORTED = candle.tensor([0.0, 1.0], dtype="float64")
SPECIAL = {
    "acosh": lambda f, x: f(x + 2),
    "bitwise_invert": lambda f, x: f(x > 0),
    "logical_not": lambda f, x: f(x > 0),
    "conj": lambda f, x: f(x.to("complex64")),
    "imag": lambda f, x: f(x.to("complex64")),
    "take": lambda f, x: f(x, ROWS, axis=0),
    "take_along_axis": lambda f, x: f(x, ORDER, axis=0),
    "broadcast_to": lambda f, x: f(x, (2, 4, 4)),
    "broadcast_shapes": lambda f, x: f(x.shape, (4,)),
    "concat": lambda f, x: f([x, x]),
    "stack": lambda f, x: f([x, x]),
    "expand_dims": lambda f, x: f(x, axis=0),
    "moveaxis": lambda f, x: f(x, 0, 1),
    "permute_dims": lambda f, x: f(x, (1, 0)),
    "repeat": lambda f, x: f(x, 2),
    "reshape": lambda f, x: f(x, (2, 8)),
    "roll": lambda f, x: f(x, 1),
    "squeeze": lambda f, x: f(x[:1], axis=0),
    "tile": lambda f, x: f(x, (2, 1)),
    "searchsorted": lambda f, x: f(SORTED, x[0]),
    "where": lambda f, x: f(x > 0, x, x),
    "cumulative_sum": lambda f, x: f(x, axis=0),
    "cumulative_prod": lambda f, x: f(x, axis=0),
    "clip": lambda f, x: f(x, 0.0, x),
    "cross": lambda f, x: f(x[:, :3], x[:, :3]),
    "outer": lambda f, x: f(x[0], x[0]),
    "matrix_power": lambda f, x: f(x, 2),
}


@pytest.mark.parametrize("laid", LAID)
@pytest.mark.parametrize(("part", "name"), DELEGATED, ids=[".".join(x) for x in DELEGATED])
def test_every_function_computes_over_shared_memory(part: str, name: str, laid: str) -> None:
    function, x = getattr(PARTS[part], name), LAID[laid]()
    before = x.tolist()
    if name in BITWISE:
        x = x.view("int64")
        before = x.tolist()
        call = (lambda f, x: f(x, x % 8)) if "shift" in name else (lambda f, x: f(x, x))
    elif name in SPECIAL:
        call = SPECIAL[name]
    elif name in BINARY:
        call = lambda f, x: f(x, x)  # noqa: E731
    else:
        call = lambda f, x: f(x)  # noqa: E731
    with candle.strict(), candle.trace() as moves:
        got = call(function, x)
    copied = [move for move in moves if move.action != "share"]
    if name not in ("conj", "imag"):  # for these the operand is cast first
        assert copied == []
    assert x.tolist() == before
    for one in got if isinstance(got, (tuple, list)) else (got,):
        assert isinstance(one, (candle.Tensor, int)), type(one)


def test_views_share_and_results_belong_to_nobody_else() -> None:
    x = LAID["whole"]()
    for view in (
        *(xp.reshape(x, (16,)), xp.permute_dims(x, (1, 0)), xp.flip(x), xp.expand_dims(x, axis=0)),
        *(xp.squeeze(x[:1], axis=0), xp.broadcast_to(x, (2, 4, 4)), xp.moveaxis(x, 0, 1)),
        *(xp.matrix_transpose(x), xp.unstack(x)[0], xp.linalg.diagonal(x), xp.real(x)),
    ):
        assert candle.shares_memory(view, x)
    result = xp.add(x, x)
    assert not result.readonly
    assert not candle.shares_memory(result, x)


def test_operands_of_frameworks() -> None:
    torch = pytest.importorskip("torch")
    t = candle.tensor([1.0, 2.0])
    for other in (torch.tensor([1.0, 2.0]), np.array([1.0, 2.0], "float32")):
        for got in (xp.add(t, other), xp.add(other, t), xp.concat([t, other]), xp.sin(other)):
            assert (type(got), got.dtype) == (candle.Tensor, candle.float32)


def test_named_results() -> None:
    found = xp.linalg.eigh(LAID["whole"]())
    assert type(found.eigenvalues) is type(found.eigenvectors) is candle.Tensor
    assert xp.unique_counts(candle.tensor([1, 1, 2])).counts.tolist() == [2, 1]


def test_clip_leaves_its_bounds_alone() -> None:
    for bound in (np.array([-2.0, 1.0, 300.0]), np.array([-200, 1000, 3])):
        before = bound.copy()
        for writable in (True, False):
            bound.flags.writeable = writable
            values = candle.asarray(np.array([1, 2, 3], "uint8"))
            for clip in (values.clip, lambda *bounds, x=values: xp.clip(x, *bounds)):
                clip(candle.asarray(bound), None)
                clip(None, candle.asarray(bound))
            assert bound.tolist() == before.tolist()
