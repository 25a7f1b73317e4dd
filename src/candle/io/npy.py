"""numpy's .npy files.

The format: numpy.lib.format, https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html.
"""

from __future__ import annotations

import ast
import sys

from .._native import _core
from ..devices import as_device
from ..dtypes import as_dtype
from ..ledger import refuse
from .files import File, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from mmap import mmap as Mapping
    from typing import Any, NoReturn

    from .._native._core import Tensor
    from ..devices import Device
    from ..dtypes import DType
    from . import Path

    Fault = Callable[[str], ValueError]

__all__ = ["Format", "filled", "load", "mapped", "read_format"]

_MAGIC = b"\x93NUMPY"
_LIMIT = 10_000  # bytes of a header: numpy's own, for what is no structure
_AXES = 64  # the most that a Tensor has
_MOST = (1 << 63) - 1
_AT_ONCE = 1 << 16  # elements that are swapped at a time: each block is buffered

_DTYPES: dict[str, DType] = {
    name: as_dtype(own)
    for name, own in {
        "b1": "bool",
        **{f"i{n}": f"int{8 * n}" for n in (1, 2, 4, 8)},
        **{f"u{n}": f"uint{8 * n}" for n in (1, 2, 4, 8)},
        **{f"f{n}": f"float{8 * n}" for n in (2, 4, 8)},
        **{f"c{n}": f"complex{8 * n}" for n in (8, 16)},
    }.items()
}

# Kinds of elements that numpy has and candle has not: code of the reason, and fact.
_LACKS = {
    "O": ("python_objects", "the array holds Python objects, which candle never unpickles"),
    "M": ("datetime", "the elements are times"),
    "m": ("datetime", "the elements are spans of time"),
    "S": ("text", "the elements are text"),
    "U": ("text", "the elements are text"),
    "V": ("bits", "the file does not say what its elements are, only their size"),
    "f": ("long_double", "candle has no float of this size: it differs from machine to machine"),
    "c": ("long_double", "candle has no complex of this size: it differs from machine to machine"),
}


class NpyFile:
    """A mapped array, as the producer of a move."""

    __module__ = "candle"
    __slots__ = ("__array_interface__",)

    def __init__(self, interface: dict[str, Any]) -> None:
        self.__array_interface__: dict[str, Any] = interface


class Format:
    """What the header of an array says.

    Attributes
    ----------
    dtype : DType
    swapped : bool
        The elements lie in the byte order of another machine.
    fortran : bool
        They lie in column-major order.
    shape : tuple of int
    nbytes : int
    length : int
        Bytes of the header, after which they begin.
    """

    __slots__ = ("dtype", "fortran", "length", "nbytes", "shape", "swapped")

    def __init__(
        self, dtype: DType, swapped: bool, fortran: bool, shape: tuple[int, ...], length: int
    ) -> None:
        self.dtype: DType = dtype
        self.swapped: bool = swapped
        self.fortran: bool = fortran
        self.shape: tuple[int, ...] = shape
        self.length: int = length
        self.nbytes: int = dtype.itemsize
        for extent in shape:
            self.nbytes *= extent


def load(path: Path, device: object, mmap: bool) -> Tensor:
    """Give the array of a file."""
    where = None if device is None else as_device(device)
    with File(path) as file:
        read = 0

        def take(count: int) -> bytes:
            nonlocal read
            if count > file.size - read:
                raise file.fault(
                    f"the header of the array ends after byte {file.size}, where the file does: it "
                    "was cut short; download or write it again"
                )
            read += count
            return file.read(read - count, count)

        try:
            found = read_format(take, file.fault)
            check_size(found, file.size, file.fault)
            if mmap:
                return mapped(found, file.map(), found.length, where)
            return filled(found, lambda t: file.read_tensor(t, found.length), where)
        except BufferError as error:
            error.add_note(f"this is {file.name}")
            raise


def mapped(found: Format, mapping: Mapping, offset: int, device: Device | None) -> Tensor:
    """Give an array that lies in a mapping."""
    dtype = found.dtype
    strides = None
    if found.fortran:
        steps = [dtype.itemsize]
        for extent in found.shape[:-1]:
            steps.append(steps[-1] * extent)
        strides = tuple(steps[: len(found.shape)])
    interface = {
        "version": 3,
        "typestr": _typestr(found),
        "shape": found.shape,
        "strides": strides,
        "data": mapping,
        "offset": offset,
    }
    return _core.asarray(NpyFile(interface), device=device)


def filled(found: Format, fill: Callable[[Tensor], object], device: Device | None) -> Tensor:
    """Give an array in memory of its own, which `fill` is given to write to as it lies."""
    shape = found.shape[::-1] if found.fortran else found.shape
    t = _core.empty(shape, found.dtype.id)
    fill(t)
    if found.swapped:
        flat = t.view((t.size,))
        for begin in range(0, t.size, _AT_ONCE):
            _swap(flat[begin : begin + _AT_ONCE], _typestr(found))
    if found.fortran:
        t = t.permute(*reversed(range(t.ndim)))
    return t if device is None else t.to(device=device)


def _swap(t: Tensor, typestr: str) -> None:
    """Turn the bytes of a vector's elements, where they are."""
    data = (t.data_ptr(), False)
    swapped = NpyFile({"version": 3, "typestr": typestr, "shape": t.shape, "data": data})
    _core.quietly(_core.assign, t, swapped)


def _typestr(found: Format) -> str:
    typestr = found.dtype.typestr
    assert typestr is not None
    return (">" if sys.byteorder == "little" else "<") + typestr[1:] if found.swapped else typestr


def check_size(found: Format, size: int, fault: Fault) -> None:
    """Check that the elements end where the array has to."""
    left = size - found.length
    if found.nbytes > left:
        raise fault(
            f"{found.dtype} elements of shape {found.shape} take {found.nbytes} bytes, and {left} "
            "follow after the header: the array was cut short; download or write it again"
        )
    if found.nbytes < left:
        raise fault(
            f"{left - found.nbytes} bytes follow after the array; if these are more arrays, read "
            "them with np.load from one open file"
        )


def read_format(take: Callable[[int], bytes], fault: Fault) -> Format:
    """Read and check the header of an array.

    Parameters
    ----------
    take : callable
        Gives the next bytes, as many as it is asked for, or raises.
    fault : callable
        Makes the exception of what breaks the format.

    Raises
    ------
    BufferError
        For elements that candle has no dtype for.
    """
    magic = take(len(_MAGIC))
    if magic != _MAGIC:
        raise fault(f"it begins with {magic!r}, and a .npy file with {_MAGIC!r}")
    major, minor = take(2)
    if major not in (1, 2, 3) or minor:
        raise fault(f"it has version {major}.{minor} of the format; 1.0, 2.0 and 3.0 are known")
    width = 2 if major == 1 else 4
    length = int.from_bytes(take(width), "little")
    if length > _LIMIT:
        raise fault(f"the header has {length} bytes; those of plain arrays have up to {_LIMIT}")
    header = take(length)
    try:
        entries = _evaluated(str(header, "utf-8" if major == 3 else "latin-1").strip())
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError) as error:
        raise fault(f"the header is no Python dict: {str(error) or type(error).__name__}") from None
    if type(entries) is not dict or entries.keys() != {"descr", "fortran_order", "shape"}:
        raise fault(f"the header is {shown(entries)}, no dict of descr, fortran_order and shape")
    fortran, shape = entries["fortran_order"], entries["shape"]
    if type(fortran) is not bool:
        raise fault(f"fortran_order is {shown(fortran)}, neither True nor False")
    if type(shape) is not tuple or not all(type(n) is int and 0 <= n <= _MOST for n in shape):
        raise fault(f"the shape is {shown(shape)}, no tuple of sizes")
    if len(shape) > _AXES:
        raise fault(f"the array has {len(shape)} axes; candle holds up to {_AXES}")
    dtype, swapped = _dtype(entries["descr"], fault)
    count = 1
    for extent in shape:
        count *= extent or 1  # those beside a 0 count too, as they do for a Tensor
        if count > _MOST:
            break
    if count > _MOST or (0 not in shape and count * dtype.bits > _MOST):
        raise fault(
            f"shape {shape} of {dtype} has more elements than 63 bits can count the bits of"
        )
    whole = len(_MAGIC) + 2 + width + length
    return Format(dtype, swapped, fortran, shape, whole)


def _evaluated(header: str) -> object:
    try:
        return ast.literal_eval(header)
    except SyntaxError:
        import re

        # Python 2 wrote its long ints so; no descr that candle has a dtype for has an L.
        without = re.sub(r"(?<=\d)L\b", "", header)
        if without == header:
            raise
        return ast.literal_eval(without)


def _dtype(descr: object, fault: Fault) -> tuple[DType, bool]:
    """Give the dtype, and whether its bytes are in the other order."""
    if isinstance(descr, list):
        _refuse("structured", f"the elements are records: {shown(descr)}")
    if type(descr) is not str or descr[:1] not in tuple("<>|="):
        raise fault(f"descr is {shown(descr)}, which describes no elements")
    order, name = descr[0], descr[1:]
    dtype = _DTYPES.get(name)
    if dtype is None:
        kind = name[:1]
        if kind not in _LACKS or (kind in "fc" and not name[1:].isdecimal()):
            raise fault(f"descr is {shown(descr)}, which describes no elements")
        code, fact = _LACKS[kind]
        _refuse(code, f"{fact} (descr {descr!r})")
    if order == "|" and dtype.itemsize > 1:
        raise fault(f"descr is {descr!r}, which does not say in which order the bytes are")
    foreign = ">" if sys.byteorder == "little" else "<"
    return dtype, order == foreign and dtype.itemsize > 1


def _refuse(code: str, fact: str) -> NoReturn:
    refuse("array_interface", code, fact, "candle.NpyFile")
