"""DType: one object for each element type, equal to every other spelling of it."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
from labels import label

import candle
from candle import dtypes
from candle.dtypes import DType, as_dtype

DTYPES = [x for name in dtypes.__all__ if isinstance(x := getattr(dtypes, name), DType)]
every_dtype = pytest.mark.parametrize("dtype", sorted(set(DTYPES), key=lambda d: d.id), ids=str)

NUMPY_NAMES = [
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
]
ML_NAMES = [
    *("bfloat16", "float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn"),
    *("float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"),
    *("float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn", "int4", "uint4"),
]
TORCH_NAMES = [
    *NUMPY_NAMES,
    *("bfloat16", "complex32", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2"),
    *("float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn_x2"),
]
JAX_NAMES = [
    *NUMPY_NAMES,
    *("bfloat16", "float8_e4m3fn", "float8_e5m2", "int4", "uint4"),
]
SHORT_NAMES = {
    "u8": "uint8",
    "u32": "uint32",
    "i64": "int64",
    "bf16": "bfloat16",
    "f16": "float16",
    "f32": "float32",
    "f64": "float64",
}


def test_every_row_has_its_constant():
    assert sorted(dtype.id for dtype in set(DTYPES)) == list(range(len(set(DTYPES))))
    assert {str(dtype) for dtype in DTYPES} == {*NUMPY_NAMES, *ML_NAMES, *TORCH_NAMES}
    for dtype in DTYPES:
        assert getattr(dtypes, dtype.name) is dtype
        assert getattr(candle, dtype.name) is dtype


@every_dtype
def test_text(dtype):
    assert str(dtype) == dtype.name
    assert repr(dtype) == f"candle.{dtype.name}"
    assert eval(repr(dtype), {"candle": candle}) is dtype


@every_dtype
def test_equals_its_names_and_hashes_as_its_name(dtype):
    assert dtype == dtype.name
    assert dtype.name == dtype
    assert hash(dtype) == hash(dtype.name)
    assert {dtype.name: 1}[dtype] == 1
    assert as_dtype(dtype) is as_dtype(dtype.name) is DType(dtype.name) is dtype
    if dtype.short_name is not None:
        assert dtype == dtype.short_name
        assert as_dtype(dtype.short_name) is dtype
        assert getattr(candle, dtype.short_name) is dtype
    assert (dtype != dtype.name) is False


@pytest.mark.parametrize(("short", "name"), SHORT_NAMES.items())
def test_short_names_are_those_of_huggingface_candle(short, name):
    assert as_dtype(short).name == name
    assert as_dtype(name).short_name == short


@every_dtype
def test_differs_from_every_other(dtype):
    others = [other for other in set(DTYPES) if other is not dtype]
    assert not any(dtype in (other, other.name) for other in others)


@every_dtype
def test_copies_and_pickles_to_itself(dtype):
    assert copy.copy(dtype) is dtype
    assert copy.deepcopy([dtype]) == [dtype]
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(dtype, protocol)) is dtype


@every_dtype
def test_does_not_change(dtype):
    with pytest.raises(AttributeError, match="does not change"):
        dtype.bits = 3
    with pytest.raises(AttributeError, match="does not change"):
        del dtype.name
    with pytest.raises(AttributeError):
        dtype.anything = 3


@every_dtype
def test_sizes(dtype):
    assert dtype.itemsize == (dtype.bits * dtype.lanes + 7) // 8
    assert dtype.kind in ("bool", "int", "uint", "real", "complex", "pair")


@pytest.mark.parametrize("name", NUMPY_NAMES)
def test_numpy(name):
    np = pytest.importorskip("numpy")
    dtype, theirs, scalar = getattr(dtypes, name), np.dtype(name), np.dtype(name).type
    assert dtype == theirs
    assert theirs == dtype
    assert dtype == scalar
    assert as_dtype(theirs) is as_dtype(scalar) is dtype
    assert np.dtype(dtype.typestr) == theirs
    assert dtype.itemsize == theirs.itemsize
    for other in NUMPY_NAMES:
        assert (dtype == np.dtype(other)) == (name == other)
        assert (np.dtype(other) != dtype) == (name != other)


def test_numpys_other_names_of_the_same_types():
    np = pytest.importorskip("numpy")
    assert as_dtype(np.longlong) is candle.int64
    assert as_dtype(np.ulonglong) is candle.uint64
    assert as_dtype(np.dtype("longlong")) is candle.int64
    assert as_dtype(np.intc) is candle.int32
    assert as_dtype(np.bool_) is candle.bool


@pytest.mark.parametrize("typestr", ["i2", "i4", "i8", "u2", "f2", "f4", "f8", "c8", "c16"])
def test_numpys_foreign_byte_order_is_no_dtype(typestr):
    np = pytest.importorskip("numpy")
    foreign = np.dtype(typestr).newbyteorder()
    assert all(dtype != foreign for dtype in DTYPES)
    with pytest.raises(TypeError, match=r"newbyteorder\('='\)"):
        as_dtype(foreign)


def test_numpy_dtypes_without_a_counterpart():
    np = pytest.importorskip("numpy")
    kinds = ["O", "U3", "S3", "V4", "M8[ns]", "m8[s]", "f4,i4", "(2,)f4"]
    for theirs in [*map(np.dtype, kinds), np.dtype("longdouble"), np.floating, np.generic]:
        if theirs == np.dtype("longdouble") and np.dtype("longdouble").itemsize == 8:
            continue
        assert all(dtype != theirs for dtype in DTYPES), theirs
        with pytest.raises(TypeError, match="dtype"):
            as_dtype(theirs)


@pytest.mark.parametrize("name", ML_NAMES)
def test_ml_dtypes(name):
    np = pytest.importorskip("numpy")
    ml_dtypes = pytest.importorskip("ml_dtypes")
    dtype = getattr(dtypes, name)
    if not hasattr(ml_dtypes, name):
        pytest.skip("this version of ml_dtypes has no such type")
    scalar = getattr(ml_dtypes, name)
    theirs = np.dtype(scalar)
    assert dtype == scalar
    assert dtype == theirs
    assert theirs == dtype
    assert as_dtype(scalar) is as_dtype(theirs) is dtype
    assert dtype != np.dtype("float32")


@pytest.mark.parametrize("name", TORCH_NAMES)
def test_torch(name):
    torch = pytest.importorskip("torch")
    dtype, theirs = getattr(dtypes, name), getattr(torch, name)
    assert dtype == theirs
    assert theirs == dtype
    assert as_dtype(theirs) is dtype
    assert dtype.itemsize == theirs.itemsize
    assert dtype != torch.quint8
    for other in TORCH_NAMES:
        assert (dtype == getattr(torch, other)) == (name == other)


def test_torch_dtypes_without_a_counterpart():
    torch = pytest.importorskip("torch")
    for theirs in (torch.quint8, torch.qint32, torch.bits8):
        with pytest.raises(TypeError, match="torch"):
            as_dtype(theirs)


@pytest.mark.parametrize("name", JAX_NAMES)
def test_jax(name):
    jnp = pytest.importorskip("jax.numpy")
    dtype, scalar = getattr(dtypes, name), getattr(jnp, name)
    assert dtype == scalar
    assert scalar == dtype
    assert dtype == scalar.dtype
    assert as_dtype(scalar) is dtype
    assert dtype != jnp.int2


def test_jaxs_keys_have_no_counterpart():
    jax = pytest.importorskip("jax")
    theirs = jax.random.key(0).dtype
    assert all(dtype != theirs for dtype in DTYPES)
    with pytest.raises(TypeError, match="not a dtype candle knows"):
        as_dtype(theirs)


def test_python_types():
    assert as_dtype(bool) is candle.bool
    assert as_dtype(int) is candle.int64
    assert as_dtype(float) is candle.float32
    assert as_dtype(complex) is candle.complex64


class Boastful:
    """Raises at any attribute a dtype could be told by."""

    def __getattr__(self, name: str):
        raise AttributeError(name)

    def __str__(self) -> str:
        raise AssertionError("was printed")

    __repr__ = object.__repr__


@pytest.mark.parametrize(
    "thing",
    [
        *(
            "",
            "float",
            "<f4",
            "f4",
            "torch.float32",
            "Float32",
            None,
            3,
            1.0,
            b"f32",
            (),
            str,
            list,
        ),
        *(type("float32", (), {}), Boastful(), Boastful, object()),
    ],
    ids=label,
)
def test_what_is_no_dtype(thing):
    assert candle.float32 != thing
    assert (candle.float32 == thing) is False
    with pytest.raises(TypeError, match=r"not a dtype candle knows; take one of candle's"):
        as_dtype(thing)


def test_a_tensor_is_no_dtype():
    torch = pytest.importorskip("torch")
    np = pytest.importorskip("numpy")
    for thing in (candle.zeros(3), torch.zeros(3), np.zeros(3), np.float32(1)):
        with pytest.raises(TypeError, match="not a dtype candle knows"):
            as_dtype(thing)


def test_other_types_may_decide_equality():
    class Equal:
        __hash__ = None

        def __eq__(self, other):
            return True

    assert candle.float32 == Equal()


def test_needs_no_framework(in_child):
    code = """
        import sys
        import candle
        assert candle.float32 == "f32"
        assert candle.float32 != "torch.float32"
        assert not {"numpy", "torch", "jax", "ml_dtypes"} & set(sys.modules)
    """
    in_child(code).check()


def test_dtypes_of_an_import_before_this_one(in_child: Any) -> None:
    """candle.hf takes candle out of the loaded modules; what was kept of it goes on meaning it."""
    in_child(
        """
        import importlib, candle
        from candle import dtypes
        before = [getattr(dtypes, name) for name in dtypes.__all__]
        before = {str(d): d for d in before if type(d) is dtypes.DType}
        again = importlib.reload(dtypes)
        for name, d in before.items():
            assert type(d) is not again.DType
            assert again.as_dtype(d) is getattr(again, name)
            assert getattr(again, name) == d
        class DType:
            __module__ = "elsewhere"
            def __str__(self):
                return "float32"
        for other in (DType(), type("DType", (), {})()):
            try:
                again.as_dtype(other)
            except TypeError:
                assert again.float32 != other
            else:
                raise AssertionError("of another module")
        """
    ).check()
