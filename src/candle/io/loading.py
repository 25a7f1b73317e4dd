"""Loading safetensors files."""

from __future__ import annotations

from .._native import _core
from ..devices import as_device
from ..frameworks.own import Lent
from .files import File, shown
from .header import read_header

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .._native._core import Tensor
    from ..devices import Device
    from . import Path
    from .header import Member

__all__ = ["load", "metadata"]

_asarray = _core.asarray


class SafetensorsFile(Lent):
    """A member of a file that is mapped, as the producer of a move."""

    __module__ = "candle"
    __slots__ = ()


def metadata(path: Path) -> dict[str, str]:
    """Read a file's metadata."""
    with File(path) as file:
        return read_header(file).metadata


def load(path: Path, device: object, mmap: bool) -> dict[str, Tensor]:
    """Give the tensors of a file."""
    where = None if device is None else as_device(device)
    with File(path) as file:
        members = read_header(file).members
        if mmap:
            return _mapped(file, members, where)
        return {name: _read(file, name, member, where) for name, member in members.items()}


def _mapped(file: File, members: dict[str, Member], device: Device | None) -> dict[str, Tensor]:
    data = _core.quietly(_asarray, file.map())  # the one storage of all
    tensors = {}
    for name, member in members.items():
        t = _core.of_bytes(data[member.begin : member.end], member.shape, member.dtype.id)
        try:
            tensors[name] = _asarray(SafetensorsFile(t), device=device)
        except BufferError as error:
            _note(error, name, file)
            raise
    return tensors


def _read(file: File, name: str, member: Member, device: Device | None) -> Tensor:
    t = _core.empty(member.shape, member.dtype.id)
    file.read_tensor(t, member.begin)
    if device is None:
        return t
    try:
        return t.to(device=device)
    except BufferError as error:
        _note(error, name, file)
        raise


def _note(error: BufferError, name: str, file: File) -> None:
    error.add_note(f"this is tensor {shown(name)} of {file.name}")
