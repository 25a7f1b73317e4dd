"""Element types: one `DType` for each row of the native table, and what else stands for it."""

from __future__ import annotations

import builtins
import sys

from ._native import _core
from .naming import module_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Literal, NoReturn, Self

    Kind = Literal["bool", "int", "uint", "real", "complex", "pair"]


class DType:
    """An element type.

    There is one object for each type, so ``is`` works; ``DType(x)`` gives the object that ``x``
    stands for (see `as_dtype`).

    A DType equals other spellings of itself: its name (``"float32"``), HuggingFace candle's name
    (``"f32"``), and the dtype objects and scalar types of torch, numpy, jax and ml_dtypes
    (``torch.float32``, ``np.dtype("float32")``, ``np.float32``, ``jnp.float32``). A numpy dtype of
    foreign byte order (``">f4"``) equals none.

    The hash is that of the name, so ``{"float32": 4}[t.dtype]`` works. Short names and other
    libraries' objects are equal but hash differently: convert them with `as_dtype` before looking
    them up in a set or dict.

    Attributes
    ----------
    name : str
        The Python Array API's name, else that of ml_dtypes or torch.
    short_name : str or None
        HuggingFace candle's name.
    kind : {"bool", "int", "uint", "real", "complex", "pair"}
        What sort of number an element is. A pair is two numbers that are only handled together
        (torch's fp4).
    code, bits, lanes : int
        DLPack's description.
    itemsize : int
        Bytes of one element, rounded up. Packed sub-byte elements take less: ``t.nbytes`` says.
    typestr : str or None
        The array interface's type string, in this machine's byte order; None where it has none.
    format : str or None
        The format of the buffer protocol (PEP 3118); None where it has none.
    id : int
        Number of the row in the native table. It may change between versions.
    """

    __slots__ = (
        "_hash",
        "bits",
        "code",
        "format",
        "id",
        "itemsize",
        "kind",
        "lanes",
        "name",
        "short_name",
        "typestr",
    )

    name: str
    short_name: str | None
    kind: Kind
    code: int
    bits: int
    lanes: int
    itemsize: int
    typestr: str | None
    format: str | None
    id: int
    _hash: int

    def __new__(cls, dtype: object, /) -> DType:  # noqa: D102
        return as_dtype(dtype)

    @classmethod
    def _make(cls, **fields: object) -> Self:
        self = object.__new__(cls)
        for name, value in fields.items():
            object.__setattr__(self, name, value)
        object.__setattr__(self, "_hash", hash(fields["name"]))
        return self

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a DType does not change; {name!r} cannot be set")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"a DType does not change; {name!r} cannot be deleted")

    def __eq__(self, other: object) -> builtins.bool:
        if self is other:
            return True
        found = _find(other)
        return NotImplemented if found is None else found is self

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"candle.{self.name}"

    @property
    def dtype(self) -> Any:
        """The dtype of numpy or ml_dtypes of that name; by it ``np.dtype(t.dtype)`` works."""
        import numpy as np

        if self.typestr:
            return np.dtype(self.typestr)
        import ml_dtypes

        return np.dtype(getattr(ml_dtypes, self.name))  # AttributeError where it has none

    def __reduce__(self) -> str:
        return self.name  # pickle and copy then take the constant of this name in this module


def as_dtype(dtype: object, /) -> DType:
    """Give the DType that something stands for.

    Parameters
    ----------
    dtype
        A DType; a name (``"float32"``, HuggingFace candle's ``"f32"``); a dtype or scalar type of
        torch, numpy, jax or ml_dtypes; or one of Python's types: bool, int, float and complex stand
        for bool, int64, float32 and complex64. Short names count bits: ``"i8"`` is int8 (in numpy's
        type strings the same text is a type of 8 bytes).

    Returns
    -------
    DType

    Raises
    ------
    TypeError
        If it stands for none that candle knows.
    """
    found = _find(dtype)
    if found is None and isinstance(dtype, type):
        found = _of_python_type.get(dtype)
    if found is not None:
        return found
    if getattr(dtype, "isnative", None) is False:
        raise TypeError(
            f"{dtype!r} has foreign byte order or mixed fields; a Tensor has native order: "
            "take dtype.newbyteorder('='), or one field of the structure"
        )
    raise TypeError(
        f"{dtype!r} is not a dtype candle knows; take one of candle's (candle.float32), a name "
        "('float32', 'f32'), bool, int, float, complex, or a dtype of torch, numpy, jax, ml_dtypes"
    )


def is_dtype(x: object) -> builtins.bool:
    """Whether as_dtype() takes something."""
    try:
        as_dtype(x)
    except TypeError:
        return False
    return True


def _find(x: object) -> DType | None:
    """Give the DType that `x` equals, if there is one."""
    if type(x) is DType:
        return x
    if isinstance(x, str):
        return _of_name.get(x)
    name = _foreign_name(x)
    return None if name is None else _of_standard_name.get(name)


def _foreign_name(x: object) -> str | None:
    """Give the name another library has for its dtype. Told by its looks: nothing is imported."""
    if isinstance(x, type):
        # The scalar types of numpy, ml_dtypes and jax know their dtype; other classes of such a
        # name do not.
        return _scalar_type_names.get(x.__name__, x.__name__) if hasattr(x, "dtype") else None
    if getattr(x, "isnative", None) is True:  # numpy.dtype
        name = getattr(x, "name", None)
        return name if isinstance(name, str) else None
    kind = type(x)
    if kind.__name__ == "DType" and module_of(kind) == __name__:  # candle's, imported once before
        return str(x)
    if kind.__name__ in ("dtype", "Dtype"):  # torch.dtype and its like print as "torch.float32"
        module, _, name = str(x).rpartition(".")
        return name if module == module_of(kind) else None
    return None


_scalar_type_names = {
    "bool_": "bool",
    "intc": "int32",
    "uintc": "uint32",
    "longlong": "int64",
    "ulonglong": "uint64",
}


def _make_dtypes() -> list[DType]:
    order = "<" if sys.byteorder == "little" else ">"
    dtypes = []
    for row, (name, short, code, bits, lanes, kind, typestr, fmt) in enumerate(_core.dtype_rows()):
        itemsize = (bits * lanes + 7) // 8
        dtypes.append(
            DType._make(
                name=name,
                short_name=short,
                kind=kind,
                code=code,
                bits=bits,
                lanes=lanes,
                itemsize=itemsize,
                typestr=typestr and ("|" if itemsize == 1 else order) + typestr,
                format=fmt,
                id=row,
            )
        )
    return dtypes


_dtypes = _make_dtypes()
_of_standard_name = {dtype.name: dtype for dtype in _dtypes}
_of_name = _of_standard_name | {dtype.short_name: dtype for dtype in _dtypes if dtype.short_name}

_named = _of_standard_name.__getitem__
int8: DType = _named("int8")
int16: DType = _named("int16")
int32: DType = _named("int32")
int64: DType = _named("int64")
uint8: DType = _named("uint8")
uint16: DType = _named("uint16")
uint32: DType = _named("uint32")
uint64: DType = _named("uint64")
float16: DType = _named("float16")
float32: DType = _named("float32")
float64: DType = _named("float64")
bfloat16: DType = _named("bfloat16")
complex32: DType = _named("complex32")
complex64: DType = _named("complex64")
complex128: DType = _named("complex128")
float8_e3m4: DType = _named("float8_e3m4")
float8_e4m3: DType = _named("float8_e4m3")
float8_e4m3b11fnuz: DType = _named("float8_e4m3b11fnuz")
float8_e4m3fn: DType = _named("float8_e4m3fn")
float8_e4m3fnuz: DType = _named("float8_e4m3fnuz")
float8_e5m2: DType = _named("float8_e5m2")
float8_e5m2fnuz: DType = _named("float8_e5m2fnuz")
float8_e8m0fnu: DType = _named("float8_e8m0fnu")
float6_e2m3fn: DType = _named("float6_e2m3fn")
float6_e3m2fn: DType = _named("float6_e3m2fn")
float4_e2m1fn: DType = _named("float4_e2m1fn")
float4_e2m1fn_x2: DType = _named("float4_e2m1fn_x2")
int4: DType = _named("int4")
uint4: DType = _named("uint4")
bool: DType = _named("bool")  # the standard's name; this module writes builtins.bool for Python's

# HuggingFace candle's names.
i8: DType = int8
i16: DType = int16
i32: DType = int32
i64: DType = int64
u8: DType = uint8
u16: DType = uint16
u32: DType = uint32
u64: DType = uint64
f16: DType = float16
f32: DType = float32
f64: DType = float64
bf16: DType = bfloat16
f8e4m3: DType = float8_e4m3fn

_of_python_type: dict[type, DType] = {
    builtins.bool: bool,
    int: int64,
    float: float32,
    complex: complex64,
}

__all__ = [
    "DType",
    "as_dtype",
    "bf16",
    "bfloat16",
    "bool",
    "complex32",
    "complex64",
    "complex128",
    "f8e4m3",
    "f16",
    "f32",
    "f64",
    "float4_e2m1fn",
    "float4_e2m1fn_x2",
    "float6_e2m3fn",
    "float6_e3m2fn",
    "float8_e3m4",
    "float8_e4m3",
    "float8_e4m3b11fnuz",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
    "float16",
    "float32",
    "float64",
    "i8",
    "i16",
    "i32",
    "i64",
    "int4",
    "int8",
    "int16",
    "int32",
    "int64",
    "is_dtype",
    "u8",
    "u16",
    "u32",
    "u64",
    "uint4",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
]

_core.register(dtypes=_dtypes, as_dtype=as_dtype)
