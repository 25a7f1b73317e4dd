"""numpy's .npz files: zip files of .npy files."""

from __future__ import annotations

import errno
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile

from .._native import _core
from ..devices import as_device
from . import npy
from .files import File, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from mmap import mmap as Mapping
    from typing import IO, TypeVar
    from zipfile import ZipInfo

    from .._native._core import Tensor
    from ..devices import Device
    from . import Path

    T = TypeVar("T")

__all__ = ["load"]

_SUFFIX = ".npy"
_ENCRYPTED = 0x1  # flag of a member
_LOCAL = 30  # bytes of a member's local header, without its name and what may follow
_MOST_DEFLATED = 1032  # bytes that one of deflate's gives at most, and a few
_AT_ONCE = 1 << 18  # bytes that are inflated at a time


def load(path: Path, device: object, names: Iterable[str] | None, mmap: bool) -> dict[str, Tensor]:
    """Give the arrays of a file, or those with certain names."""
    where = None if device is None else as_device(device)
    wanted = None if names is None else _checked(names)
    with (
        File(path) as file,
        open(file.fd, "rb", closefd=False) as opened,
        _unzipped(file.fault, lambda: ZipFile(opened)) as zipped,
    ):
        members = _members(file, zipped, wanted)
        mapping = file.map() if mmap else None
        return {name: _array(file, zipped, info, mapping, where) for name, info in members.items()}


def _unzipped(fault: npy.Fault, function: Callable[[], T]) -> T:
    """Call zipfile, which raises almost anything over a broken file."""
    try:
        return function()
    except MemoryError:
        raise
    except OSError as error:
        if error.errno not in (None, errno.EINVAL):  # bz2's words, and a place that cannot be
            raise
        raise fault(f"the zip file is broken: {error}") from error
    except Exception as error:
        raise fault(f"the zip file is broken: {error}") from error


def _checked(names: Iterable[object]) -> frozenset[str]:
    if isinstance(names, str):
        raise TypeError(f"names={names!r} is one str; several are wanted: names=[{names!r}]")
    given = tuple(names)
    for name in given:
        if not isinstance(name, str):
            raise TypeError(f"names of arrays are str, not {type(name).__name__}")
    return frozenset(str(name) for name in given)


def _members(file: File, zipped: ZipFile, wanted: frozenset[str] | None) -> dict[str, ZipInfo]:
    found: dict[str, ZipInfo] = {}
    for info in zipped.infolist():
        name = info.filename.removesuffix(_SUFFIX)
        is_array = name != info.filename  # numpy writes none under another name
        if wanted is not None and not (is_array and name in wanted):
            continue
        if not is_array:
            raise file.fault(
                f"its member {shown(name)} is no array; names= loads others, and zipfile takes the "
                "file apart"
            )
        if name in found:
            raise file.fault(f"it has two arrays called {shown(name)}")
        if info.flag_bits & _ENCRYPTED:
            raise file.fault(f"its member {shown(name)} is encrypted; decrypt it first")
        found[name] = info
    missing = sorted((wanted or frozenset()) - found.keys())
    if missing:
        raise file.fault(f"it has no array called {shown(missing[0])}")
    return found


def _array(
    file: File, zipped: ZipFile, info: ZipInfo, mapping: Mapping | None, device: Device | None
) -> Tensor:
    def fault(told: str) -> ValueError:
        return file.fault(f"member {shown(info.filename)}: {told}")

    try:
        with _unzipped(fault, lambda: zipped.open(info)) as stream:
            member = _Member(stream, fault)
            found = npy.read_format(member.take, fault)
            npy.check_size(found, info.file_size, fault)
            _check_inflated(info, fault)
            if info.compress_type == ZIP_STORED and mapping is not None:
                begin = _data_begin(file, info, fault)
                return npy.mapped(found, mapping, begin + found.length, device)
            return npy.filled(found, member.fill, device)
    except BufferError as error:
        error.add_note(
            f"this is {shown(info.filename)} of {file.name}; load_npz(names=...) loads others"
        )
        raise


def _check_inflated(info: ZipInfo, fault: npy.Fault) -> None:
    """Refuse what a few bytes cannot become, before memory is asked for."""
    most = _MOST_DEFLATED * (info.compress_size + 1)
    if info.compress_type == ZIP_DEFLATED and info.file_size > most:
        raise fault(
            f"its {info.compress_size} bytes of deflate cannot become {info.file_size}: the zip "
            "file is broken"
        )


def _data_begin(file: File, info: ZipInfo, fault: npy.Fault) -> int:
    """Say where the bytes of a stored member are; `zipped.open` has checked the local header."""
    local = file.read(info.header_offset, _LOCAL)
    name, more = int.from_bytes(local[26:28], "little"), int.from_bytes(local[28:30], "little")
    begin = info.header_offset + _LOCAL + name + more
    if info.compress_size != info.file_size or begin + info.file_size > file.size:
        raise fault("its sizes contradict each other: the zip file is broken")
    return begin


class _Member:
    """The bytes of a member, one after the other."""

    __slots__ = ("fault", "stream")

    def __init__(self, stream: IO[bytes], fault: npy.Fault) -> None:
        self.stream = stream
        self.fault = fault

    def take(self, count: int) -> bytes:
        """Give the next bytes."""
        data = self._read(count)
        if len(data) < count:
            raise self.fault("it ends within its header; write it again")
        return data

    def fill(self, t: Tensor) -> None:
        """Write what is left to the memory of a tensor; it has to end there."""
        view = _core.quietly(_core.as_bytes(t).memoryview) if t.nbytes else memoryview(b"")
        done = 0
        while done < len(view):
            data = self._read(min(_AT_ONCE, len(view) - done))
            if not data:
                raise self.fault(f"it ends after {done} of {len(view)} bytes; write it again")
            view[done : done + len(data)] = data
            done += len(data)
        self._read(1)  # its checksum is looked at; more bytes than the zip file says never come

    def _read(self, count: int) -> bytes:
        return _unzipped(self.fault, lambda: self.stream.read(count))
