"""Saving safetensors files."""

from __future__ import annotations

import json

from .. import frameworks
from .._native import _core
from ..dtypes import uint8
from ..ledger import trying
from ..plan import CopyError
from .files import shown
from .header import DTYPES, LIMIT, METADATA, NAMES, PREFIX
from .naming import named
from .replacing import Replacement

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from .._native._core import Tensor
    from . import Path

__all__ = ["save"]

_ALIGNMENT = 64  # what jax and tensorflow need
_BLOCK = 1 << 20  # bytes that are put in order at a time


def save(tree: Any, path: Path, metadata: Mapping[str, str] | None) -> None:
    """Write a file."""
    texts = None if metadata is None else _texts(metadata)
    members = sorted((_Member(name, x) for name, x in named(tree).items()), key=_Member.rank)
    header = _header(members, texts)
    with Replacement(path) as file:
        file.write(header)
        for member in members:
            for data in member.data():
                file.write(data)


class _Member:
    """A tensor that is to be written."""

    __slots__ = ("dtype", "name", "nbytes", "shape", "shared", "x")

    def __init__(self, name: str, x: Any) -> None:
        detached = frameworks.detacher(type(x))
        self.name = name
        self.x = x if detached is None else detached(x)
        self.shared: Tensor | None = None
        try:
            try:
                with trying():
                    t = self.shared = _core.shared(self.x)
            except CopyError:
                t, _ = _core.plan_in(self.x, None, None)
            self._describe(t)
        except BufferError as error:
            error.add_note(f"this is tensor {shown(name)}")
            raise

    def _describe(self, t: Tensor) -> None:
        """Note what the header says of it."""
        shape, dtype = t.shape, t.dtype
        bits = t.size * dtype.bits * dtype.lanes
        if dtype.kind == "pair" and shape:
            shape = (*shape[:-1], 2 * shape[-1])
            dtype = DTYPES["F4"]
        if dtype not in NAMES:
            how = 't.view("uint8")' if dtype.kind in ("int", "uint") else "t.to(...)"
            raise BufferError(
                f"safetensors has no {dtype}, only {', '.join(str(d) for d in NAMES)}; {how} makes "
                "it one of these"
            )
        if bits % 8:
            raise BufferError(
                f"{t.size} elements of {dtype} are {bits} bits, and safetensors takes whole bytes: "
                "make the last axis longer"
            )
        self.dtype, self.shape, self.nbytes = NAMES[dtype], shape, bits // 8

    def rank(self) -> tuple[int, str]:
        """Give its place among the members: those that keep the next ones aligned first."""
        even = self.nbytes | _ALIGNMENT
        return -(even & -even), self.name

    def data(self) -> Iterator[memoryview]:
        """Give its bytes, in row-major order."""
        t = _core.asarray(self.x) if self.shared is None else self.shared
        if t.nbytes == 0:
            return
        host = t.device.on_host
        if host and t.is_contiguous() and not _core.is_padded(t):
            yield _bytes(t)
            return
        block = _core.empty((min(_BLOCK, self.nbytes),), uint8.id)
        for piece in _pieces(t):
            whole = _core.of_bytes(block[: _packed_bytes(piece)], piece.shape, piece.dtype.id)
            _core.quietly(_core.copy_into, whole, piece)
            yield _bytes(whole)


def _bytes(t: Tensor) -> memoryview:
    return _core.quietly(_core.as_bytes(t).memoryview)


def _packed_bytes(t: Tensor) -> int:
    return t.size * t.dtype.bits * t.dtype.lanes // 8


def _pieces(t: Tensor) -> Iterator[Tensor]:
    """Give a tensor in parts of at most a block, in row-major order."""
    if t.dtype.bits * t.dtype.lanes < 8:
        if not t.is_contiguous():
            t = _core.quietly(_core.materialise, t)
        t = _core.restride(t, (t.size,), (1,))
        step = _BLOCK
        yield from (t[i : i + step] for i in range(0, t.size, step))
    elif _packed_bytes(t) <= _BLOCK:
        yield t
    else:
        row = _packed_bytes(t) // t.shape[0]
        if row > _BLOCK:
            for part in t:
                yield from _pieces(part)
        else:
            step = _BLOCK // row
            yield from (t[i : i + step] for i in range(0, t.shape[0], step))


def _texts(metadata: Mapping[Any, Any]) -> dict[str, str]:
    if not hasattr(metadata, "keys"):
        raise TypeError(f"metadata is a mapping of str to str, and this is {metadata!r:.80}")
    texts = dict(metadata)
    for key, value in texts.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise TypeError(
                f"metadata is str by str, and has {shown(key)}: {shown(value)}; use str(...)"
            )
    return dict(sorted(texts.items()))


def _header(members: list[_Member], metadata: dict[str, str] | None) -> bytes:
    entries: dict[str, Any] = {} if metadata is None else {METADATA: metadata}
    offset = 0
    for member in members:
        if member.name == METADATA:
            raise ValueError(f"no tensor can be called {METADATA!r}, which the format has taken")
        end = offset + member.nbytes
        entries[member.name] = {
            "dtype": member.dtype,
            "shape": member.shape,
            "data_offsets": (offset, end),
        }
        offset = end
    text = json.dumps(entries, ensure_ascii=False, separators=(",", ":"))
    try:
        header = text.encode()
    except UnicodeEncodeError as error:
        wrong = text[max(0, error.start - 20) : error.end]
        raise ValueError(
            f"a name or text holds half a character (a surrogate), after {wrong!r}; safetensors "
            "takes what UTF-8 can say"
        ) from None
    header += b" " * (-(PREFIX + len(header)) % _ALIGNMENT)
    if len(header) > LIMIT:
        raise ValueError(
            f"the header would have {len(header)} bytes, and the format allows {LIMIT}: shorter "
            "names or metadata, or several files"
        )
    return len(header).to_bytes(PREFIX, "little") + header
