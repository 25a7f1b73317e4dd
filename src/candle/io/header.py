"""The header of a safetensors file: checked, and every fault named.

The rules are those of the format's README and JSON schema, and of its own parser.
"""

from __future__ import annotations

import json

from ..dtypes import as_dtype
from .files import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..dtypes import DType
    from .files import File

__all__ = ["DTYPES", "LIMIT", "METADATA", "NAMES", "PREFIX", "Header", "Member", "read_header"]

PREFIX = 8  # bytes that say how long the header is
LIMIT = 100_000_000  # bytes of a header
METADATA = "__metadata__"

# The format's name of each of its dtypes.
DTYPES: dict[str, DType] = {
    name: as_dtype(own)
    for name, own in {
        "BOOL": "bool",
        "F4": "float4_e2m1fn",
        "F6_E2M3": "float6_e2m3fn",
        "F6_E3M2": "float6_e3m2fn",
        "U8": "uint8",
        "I8": "int8",
        "F8_E5M2": "float8_e5m2",
        "F8_E4M3": "float8_e4m3fn",
        "F8_E8M0": "float8_e8m0fnu",
        "F8_E4M3FNUZ": "float8_e4m3fnuz",
        "F8_E5M2FNUZ": "float8_e5m2fnuz",
        "I16": "int16",
        "U16": "uint16",
        "F16": "float16",
        "BF16": "bfloat16",
        "I32": "int32",
        "U32": "uint32",
        "F32": "float32",
        "C64": "complex64",
        "F64": "float64",
        "I64": "int64",
        "U64": "uint64",
    }.items()
}
NAMES = {dtype: name for name, dtype in DTYPES.items()}

_FIELDS = {"dtype", "shape", "data_offsets"}
_MOST = (1 << 63) - 1
_AXES = 64  # the most that a Tensor has


class Member:
    """One tensor of a file.

    Attributes
    ----------
    dtype : DType
    shape : tuple of int
    begin, end : int
        Where its bytes are in the file.
    """

    __slots__ = ("begin", "dtype", "end", "shape")

    def __init__(self, dtype: DType, shape: tuple[int, ...], begin: int, end: int) -> None:
        self.dtype: DType = dtype
        self.shape: tuple[int, ...] = shape
        self.begin: int = begin
        self.end: int = end


class Header:
    """What a file says of itself: its members by name, and its metadata."""

    __slots__ = ("members", "metadata")

    def __init__(self, members: dict[str, Member], metadata: dict[str, str]) -> None:
        self.members: dict[str, Member] = members
        self.metadata: dict[str, str] = metadata


class _Twice(Exception):
    """A key that a JSON object has twice."""


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        for key, _ in pairs:  # pragma: no branch - one of them was there before
            if key not in found:
                raise _Twice(key)
            del found[key]
    return found


def read_header(file: File) -> Header:
    """Read and check a file's header.

    Raises
    ------
    ValueError
        For whatever breaks the format.
    """
    fault = file.fault
    if file.size < PREFIX:
        raise fault(
            f"a safetensors file begins with {PREFIX} bytes that say how long its header is, and "
            f"this has {file.size} bytes; download or write it again"
        )
    length = int.from_bytes(file.read(0, PREFIX), "little")
    if length > LIMIT:
        raise fault(
            f"its first {PREFIX} bytes say that the header has {length} bytes, and the format "
            f"allows {LIMIT}; is it a safetensors file?"
        )
    if length > file.size - PREFIX:
        raise fault(
            f"the header has {length} bytes, and only {file.size - PREFIX} follow: the file was "
            "cut short; download or write it again"
        )
    entries = _parsed(file.read(PREFIX, length), fault)
    metadata = _metadata(entries.pop(METADATA, {}), fault)
    start = PREFIX + length
    members = {name: _member(name, entry, start, fault) for name, entry in entries.items()}
    _check_cover(members, start, file.size, fault)
    return Header(members, metadata)


def _parsed(header: bytes, fault: Callable[[str], ValueError]) -> dict[str, Any]:
    if not header.startswith(b"{"):
        raise fault(
            f"the header begins with {header[:1]!r} and not with b'{{'; is it a safetensors file?"
        )
    try:
        entries: dict[str, Any] = json.loads(str(header, "utf-8"), object_pairs_hook=_distinct)
        for name in entries:
            name.encode()
    except _Twice as twice:
        raise fault(f"the header has the key {shown(twice.args[0])} twice") from None
    except RecursionError:
        raise fault("the header is nested too deeply to be a safetensors header") from None
    except UnicodeDecodeError as error:
        raise fault(f"the header is not UTF-8: {error.reason} at byte {error.start}") from None
    except UnicodeEncodeError as error:
        raise fault(
            f"the name {shown(error.object)} holds half a character (a surrogate)"
        ) from None
    except ValueError as error:
        raise fault(f"the header is not JSON: {error}") from None
    return entries


def _metadata(found: object, fault: Callable[[str], ValueError]) -> dict[str, str]:
    if type(found) is not dict:
        raise fault(f"{METADATA} is a JSON object of texts, and this is {_kind(found)}")
    for key, value in found.items():
        if type(value) is not str:
            raise fault(f"{METADATA} holds texts only, and {shown(key)} is {_kind(value)}")
        try:
            (key + value).encode()
        except UnicodeEncodeError:
            raise fault(f"{METADATA} {shown(key)} holds half a character (a surrogate)") from None
    return found


def _member(name: str, entry: Any, start: int, fault: Callable[[str], ValueError]) -> Member:
    if type(entry) is not dict:
        raise fault(
            f"tensor {shown(name)} is described by a JSON object, and this is {_kind(entry)}"
        )
    if entry.keys() != _FIELDS:
        missing, more = _FIELDS - entry.keys(), entry.keys() - _FIELDS
        told = f"lacks {min(missing)!r}" if missing else f"has {shown(min(more))} besides"
        raise fault(
            f"tensor {shown(name)} is described by dtype, shape and data_offsets, and {told}"
        )
    written, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    dtype = DTYPES.get(written) if type(written) is str else None
    if dtype is None:
        raise fault(
            f"tensor {shown(name)} has the dtype {shown(written)}; those of the format that candle "
            f"knows are {', '.join(DTYPES)}"
        )
    if type(shape) is not list or not all(map(_is_size, shape)):
        raise fault(f"the shape of tensor {shown(name)} is {shown(shape)}, not a list of sizes")
    if type(offsets) is not list or len(offsets) != 2 or not all(map(_is_size, offsets)):
        raise fault(
            f"the data_offsets of tensor {shown(name)} are {shown(offsets)}, not two offsets"
        )
    if len(shape) > _AXES:
        raise fault(f"tensor {shown(name)} has {len(shape)} axes; candle holds up to {_AXES}")
    count = 1
    for extent in shape:
        count *= extent or 1  # those beside a 0 count too, as they do for a Tensor
        if count > _MOST:
            break
    bits = 0 if 0 in shape else count * dtype.bits
    if count > _MOST or bits > _MOST:
        raise fault(
            f"tensor {shown(name)} of shape {shown(shape)} and dtype {written} has more elements "
            "than 63 bits can count the bits of"
        )
    begin, end = offsets
    if bits % 8:
        raise fault(
            f"tensor {shown(name)} of shape {shown(shape)} and dtype {written} has {bits} bits: no "
            "whole bytes"
        )
    if begin > end:
        raise fault(f"the data_offsets of tensor {shown(name)} go backwards: {offsets}")
    if end - begin != bits // 8:
        raise fault(
            f"tensor {shown(name)} of shape {shown(shape)} and dtype {written} takes {bits // 8} "
            f"bytes, and its data_offsets {offsets} give it {end - begin}"
        )
    return Member(dtype, tuple(shape), start + begin, start + end)


def _check_cover(
    members: dict[str, Member], start: int, size: int, fault: Callable[[str], ValueError]
) -> None:
    """Check that the members lie one after the other, from the header to the end of the file."""
    reached = start
    before: str | None = None

    def behind() -> str:
        return "the header" if before is None else f"tensor {shown(before)}"

    for name, member in sorted(members.items(), key=lambda item: (item[1].begin, item[1].end)):
        if member.begin < reached:
            raise fault(
                f"tensor {shown(name)} begins {reached - member.begin} bytes before the end of "
                f"{behind()}: they overlap"
            )
        if member.begin > reached:
            raise fault(
                f"{member.begin - reached} bytes between {behind()} and tensor {shown(name)} "
                "belong to none; the format allows no gaps"
            )
        reached, before = member.end, name
    if reached > size:
        raise fault(
            f"the tensors reach to byte {reached}, and the file has {size}: it was cut short; "
            "download or write it again"
        )
    if reached < size:
        raise fault(f"{size - reached} bytes follow after {behind()} and belong to no tensor")


def _is_size(x: object) -> bool:
    return type(x) is int and 0 <= x <= _MOST  # True is no size


def _kind(x: object) -> str:
    names: dict[type, str] = {
        dict: "an object",
        list: "a list",
        str: "a text",
        type(None): "null",
    }
    return names.get(type(x)) or shown(x)
