"""The same elements as every framework's tensor, in every layout, and their bytes read back.

Nothing here reads values through candle: memory is read by address.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import ml_dtypes
import numpy as np

import candle
from candle.testing import Producer, info

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

SHAPE = (6, 8)
SIZE = 48
PRODUCERS = ("candle", "jax", "numpy", "torch", "tvm_ffi")

# DLPack's code, bits, lanes: written down a second time.
DLPACK = {
    "bool": (6, 8, 1),
    **{f"int{bits}": (0, bits, 1) for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": (1, bits, 1) for bits in (8, 16, 32, 64)},
    **{f"float{bits}": (2, bits, 1) for bits in (16, 32, 64)},
    "bfloat16": (4, 16, 1),
    **{f"complex{bits}": (5, bits, 1) for bits in (32, 64, 128)},
    "float8_e3m4": (7, 8, 1),
    "float8_e4m3": (8, 8, 1),
    "float8_e4m3b11fnuz": (9, 8, 1),
    "float8_e4m3fn": (10, 8, 1),
    "float8_e4m3fnuz": (11, 8, 1),
    "float8_e5m2": (12, 8, 1),
    "float8_e5m2fnuz": (13, 8, 1),
    "float8_e8m0fnu": (14, 8, 1),
    "float4_e2m1fn_x2": (17, 4, 2),
    "float6_e2m3fn": (15, 6, 1),
    "float6_e3m2fn": (16, 6, 1),
    "float4_e2m1fn": (17, 4, 1),
    "int4": (0, 4, 1),
    "uint4": (1, 4, 1),
}
SUB_BYTE = tuple(name for name, (_, bits, lanes) in DLPACK.items() if bits * lanes < 8)
WHOLE = tuple(name for name in DLPACK if name not in SUB_BYTE)
_TORCH_LACKS = {"float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz"}
_JAX_LACKS = {"complex32", "float4_e2m1fn_x2"}
NUMPY_DLPACK = ("bool", *(f"{sign}int{n}" for sign in ("", "u") for n in (8, 16, 32, 64)))
NUMPY_DLPACK += ("float16", "float32", "float64", "complex64", "complex128")


@cache
def jax_asks_for_versions() -> bool:
    """Whether jax's own door asks for versioned capsules, which can say read-only: from 0.12 on."""
    producer = Producer(shape=(2,))
    importlib.import_module("jax.dlpack").from_dlpack(producer)
    return "max_version" in producer.calls[0]


@cache
def known(framework: str) -> frozenset[str]:
    """Dtypes of at least a byte that a framework's tensors can have."""
    if framework == "torch":
        return frozenset(WHOLE) - _TORCH_LACKS
    if framework == "jax":
        return frozenset(WHOLE) - _JAX_LACKS
    if framework == "numpy":
        return frozenset(name for name in WHOLE if numpy_dtype(name) is not None)
    return frozenset(WHOLE)


def present(framework: str) -> bool:
    """Whether it is installed."""
    return importlib.util.find_spec(framework) is not None


@cache
def numpy_dtype(name: str) -> np.dtype[Any] | None:
    """The dtype of numpy or ml_dtypes; None where they have none."""
    scalar = getattr(ml_dtypes, name, None)
    if scalar is not None:
        return np.dtype(scalar)
    return np.dtype(name) if name in NUMPY_DLPACK else None


def itemsize(name: str) -> int:
    """Bytes of one element, of dtypes of whole bytes."""
    _, bits, lanes = DLPACK[name]
    return bits * lanes // 8


@cache
def content(name: str) -> np.ndarray[Any, Any]:
    """A row of random bytes for each element: every bit pattern there is."""
    random = np.random.default_rng(len(name))
    rows = random.integers(0, 2 if name == "bool" else 256, (SIZE, itemsize(name)), np.uint8)
    rows.flags.writeable = False
    return rows


def aligned_bytes(data: np.ndarray[Any, Any], align: int = 256, start: int = 0) -> Any:
    """A fresh writable uint8 array of these bytes, whose address is `start` mod `align`."""
    flat = np.ascontiguousarray(data).view(np.uint8).ravel()
    block = np.empty(flat.size + 2 * align, np.uint8)
    first = (start - block.ctypes.data) % align
    block[first : first + flat.size] = flat
    return block[first : first + flat.size]


# --- layouts: of any framework's (6, 8) tensor, and of the numbers of its elements ---


def _broadcast(x: Any) -> Any:
    row = x[0]
    if hasattr(row, "expand"):
        return row.expand(3, 8)
    if hasattr(row, "broadcast_to"):
        return row.broadcast_to((3, 8))
    return np.broadcast_to(row, (3, 8))


LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "contiguous": lambda x: x,
    "later rows": lambda x: x[1:],
    "transposed": lambda x: x.T,
    "stepped": lambda x: x[1:6:2, 1:8:3],
    "column": lambda x: x[:, 3:4],
    "broadcast": _broadcast,
    "0-d": lambda x: x[2, 3, ...],
    "empty": lambda x: x[2:2],
    "negative": lambda x: x[::-1, ::-2],
    "negative outer": lambda x: x[4:1:-1],
}
HAVE_NEGATIVE = ("candle", "numpy")


def layouts_of(framework: str) -> list[str]:
    """Names of the layouts a framework's tensors can have."""
    return [n for n in LAYOUTS if framework in HAVE_NEGATIVE or "negative" not in n]


@cache
def expected(name: str, layout: str) -> tuple[tuple[int, ...], bytes]:
    """Shape, and the bytes of the elements in row-major order."""
    order = LAYOUTS[layout](np.arange(SIZE).reshape(SHAPE))
    return order.shape, content(name)[order.ravel()].tobytes()


def _candle_base(name: str) -> Any:
    t = candle.empty(SHAPE, dtype=name)
    data = content(name).tobytes()
    ctypes.memmove(t.data_ptr(), data, len(data))
    return t


def _numpy_base(name: str) -> Any:
    return aligned_bytes(content(name)).view(numpy_dtype(name)).reshape(SHAPE)


def _torch_base(name: str) -> Any:
    torch = importlib.import_module("torch")
    data = torch.from_numpy(aligned_bytes(content(name)))
    return data.view(getattr(torch, name)).reshape(SHAPE)


def make(framework: str, name: str, layout: str) -> Any:
    """A fresh tensor: writable, over memory aligned to 256 bytes, where the framework has such."""
    if framework == "jax":
        # Its arrays are always dense: it has the values of a layout, not the layout.
        return importlib.import_module("jax.numpy").asarray(LAYOUTS[layout](_numpy_base(name)))
    if framework == "tvm_ffi":
        owner = "torch" if present("torch") and name in known("torch") else "candle"
        return importlib.import_module("tvm_ffi").from_dlpack(make(owner, name, layout))
    base = {"candle": _candle_base, "numpy": _numpy_base, "torch": _torch_base}[framework](name)
    return LAYOUTS[layout](base)


class Case(NamedTuple):
    """A framework's tensor of one dtype in one layout, and what it is."""

    producer: str
    dtype: str
    layout: str
    x: Any

    @property
    def readonly(self) -> bool:
        """Whether it comes in read-only."""
        return self.producer == "jax" or (self.producer, self.layout) == ("numpy", "broadcast")

    def assert_came(self, t: candle.Tensor, way: str = "") -> Seen:
        """Assert that a Tensor of it has its dtype, shape and elements; returns what it is."""
        came, said = see(t), f"{self.producer} {way}, {self.dtype}, {self.layout}"
        assert str(t.dtype) == self.dtype, said
        assert (came.shape, came.content) == expected(self.dtype, self.layout), said
        return came


def cases(producer: str, dtype: str, layouts: Sequence[str] = ()) -> Iterator[Case]:
    """A framework's tensors of a dtype in every layout, or those named; none where it lacks it."""
    if dtype in known(producer):
        for layout in layouts or layouts_of(producer):
            yield Case(producer, dtype, layout, make(producer, dtype, layout))


def refused(call: Callable[..., Any], /, *arguments: Any, **keywords: Any) -> candle.Plan:
    """The plan of the CopyError that a call raises.

    Unlike `pytest.raises`, it leaves no reference cycle: collecting those takes long in a process
    with torch and jax.
    """
    try:
        call(*arguments, **keywords)
    except candle.CopyError as error:
        return error.plan
    raise AssertionError("nothing was refused")


# --- any framework's tensor, read by address ---


class Seen(NamedTuple):
    """Strides in bytes; `dtype` is DLPack's triple."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: tuple[int, int, int]
    readonly: bool | None

    @property
    def content(self) -> bytes:
        """Bytes of the elements in row-major order. Whoever asks keeps the memory alive."""
        size = self.dtype[1] * self.dtype[2] // 8
        if 0 in self.shape:
            return b""
        reach = [(n - 1) * s for n, s in zip(self.shape, self.strides, strict=True)]
        low = sum(r for r in reach if r < 0)
        span = sum(r for r in reach if r > 0) - low + size
        memory = np.frombuffer((ctypes.c_ubyte * span).from_address(self.address + low), np.uint8)
        view = np.lib.stride_tricks.as_strided(
            memory[-low:], (*self.shape, size), (*self.strides, 1), writeable=False
        )
        return view.tobytes()

    @property
    def block(self) -> tuple[int, int]:
        """First byte, and one beyond the last."""
        reach = [(n - 1) * s for n, s in zip(self.shape, self.strides, strict=True)]
        size = self.dtype[1] * self.dtype[2] // 8
        low = self.address + sum(r for r in reach if r < 0)
        return low, self.address + sum(r for r in reach if r > 0) + size


def _times(strides: Sequence[int], size: int) -> tuple[int, ...]:
    return tuple(stride * size for stride in strides)


def see(x: Any) -> Seen:
    """Find out what a tensor is from its own framework."""
    module = type(x).__module__.partition(".")[0]
    if module == "candle":
        dtype = (x.dtype.code, x.dtype.bits, x.dtype.lanes)
        return Seen(x.data_ptr(), x.shape, _times(x.stride, x.itemsize), dtype, x.readonly)
    if module == "numpy":
        dtype = DLPACK[x.dtype.name]
        return Seen(x.ctypes.data, x.shape, x.strides, dtype, not x.flags.writeable)
    if module == "torch":
        dtype = DLPACK[str(x.dtype).removeprefix("torch.")]
        strides = _times(x.stride(), x.element_size())
        return Seen(x.data_ptr(), tuple(x.shape), strides, dtype, None)
    if module == "jaxlib":
        strides = np.asarray(x).strides
        return Seen(x.unsafe_buffer_pointer(), x.shape, strides, DLPACK[x.dtype.name], True)
    assert module == "tvm_ffi", f"{type(x)} is no tensor known here"
    dtype = info(x.__dlpack__()).dtype
    strides = _times(x.strides, dtype[1] * dtype[2] // 8)
    return Seen(x.data_ptr(), tuple(x.shape), strides, dtype, None)


def is_dense(seen: Seen) -> bool:
    """No gaps and no overlap, in whatever order of the axes."""
    if 0 in seen.shape:
        return True
    step = seen.dtype[1] * seen.dtype[2] // 8
    for stride, extent in sorted(zip(seen.strides, seen.shape, strict=True)):
        if extent > 1:
            if stride != step:
                return False
            step *= extent
    return True


def has_negative(seen: Seen) -> bool:
    """On an axis where it means something."""
    if 0 in seen.shape:
        return False
    return any(s < 0 and n > 1 for s, n in zip(seen.strides, seen.shape, strict=True))
