"""Files to load from: opened, measured, read and mapped."""

from __future__ import annotations

import errno
import os
import reprlib
import stat
import sys
from mmap import mmap

from .._native import _core

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Self

    from .._native._core import Tensor
    from . import Path

__all__ = ["File", "shown"]

_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a character device",
    stat.S_IFBLK: "a block device",
}

# Linux's MAP_NORESERVE, which Python does not name. Without it a private mapping of more than this
# machine has of memory is refused, though nothing may ever be written to it.
_NO_RESERVE = (
    0x4000
    if sys.platform == "linux" and os.uname().machine in ("x86_64", "aarch64", "riscv64")
    else 0
)

_AT_ONCE = 1 << 30  # bytes; the kernel reads no more than 2 GB in one call

_words = reprlib.Repr()
_words.maxstring = _words.maxother = _words.maxlong = 120
_words.maxlist = _words.maxtuple = _words.maxdict = _words.maxset = 8


def shown(x: object) -> str:
    """Give the repr of what a file says, in a length that a message can have."""
    return _words.repr(x)


if sys.platform == "win32":
    from io import FileIO
    from mmap import ACCESS_COPY

    def _read_at(fd: int, view: memoryview, offset: int) -> int:
        os.lseek(fd, offset, os.SEEK_SET)
        return FileIO(fd, closefd=False).readinto(view)

    def _mapped(fd: int, size: int) -> mmap:
        if os.fstat(fd).st_size < size:
            raise ValueError("the file is shorter")  # as Python says it elsewhere
        return mmap(fd, size, access=ACCESS_COPY)

else:
    from mmap import MAP_PRIVATE, PROT_READ, PROT_WRITE

    def _read_at(fd: int, view: memoryview, offset: int) -> int:
        return os.preadv(fd, [view], offset)

    def _mapped(fd: int, size: int) -> mmap:
        options = {"trackfd": False} if sys.version_info >= (3, 13) else {}
        flags = MAP_PRIVATE | _NO_RESERVE
        return mmap(fd, size, flags=flags, prot=PROT_READ | PROT_WRITE, **options)


class File:
    """A regular file, open for reading as long as the block lasts.

    Attributes
    ----------
    name : str
    size : int
        In bytes, when it was opened.
    """

    __slots__ = ("fd", "name", "size")

    def __init__(self, path: Path) -> None:
        self.name: str = os.fsdecode(path)
        if sys.platform == "win32":
            flags = os.O_RDONLY | os.O_BINARY | os.O_NOINHERIT
        else:  # a pipe without a writer must not hold us up
            flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
        self.fd: int = os.open(path, flags)
        try:
            found = os.fstat(self.fd)
            if not stat.S_ISREG(found.st_mode):
                kind = _KINDS.get(stat.S_IFMT(found.st_mode), "no regular file")
                number = errno.EISDIR if stat.S_ISDIR(found.st_mode) else errno.EINVAL
                told = f"{kind} cannot be loaded, only a regular file: copy it into one first"
                raise OSError(number, told, self.name)
        except BaseException:
            self.close()
            raise
        self.size: int = found.st_size

    def close(self) -> None:
        """Close it; mappings stay."""
        os.close(self.fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def fault(self, told: str) -> ValueError:
        """Build the exception of a file that is not what it has to be."""
        return ValueError(f"{self.name}: {told}")

    def read(self, offset: int, count: int) -> bytes:
        """Give `count` bytes from `offset` on."""
        data = bytearray(count)
        self.read_into(memoryview(data), offset)
        return bytes(data)

    def read_into(self, view: memoryview, offset: int) -> None:
        """Fill a view of bytes from `offset` on."""
        done = 0
        while done < len(view):
            count = _read_at(self.fd, view[done : done + _AT_ONCE], offset + done)
            if count == 0:
                raise self._shrunk()
            done += count

    def read_tensor(self, t: Tensor, offset: int) -> None:
        """Fill the memory of a row-major tensor from `offset` on."""
        if t.nbytes:
            self.read_into(_core.quietly(_core.as_bytes(t).memoryview), offset)

    def map(self) -> mmap:
        """Map all of it, privately and writable. It holds the file as long as it is used."""
        try:
            mapping = _mapped(self.fd, self.size)
        except ValueError:  # Python has compared the sizes
            raise self._shrunk() from None
        except OSError as error:
            error.filename = self.name
            error.add_note("mmap=False reads the file instead")
            raise
        self.look_again()
        return mapping

    def look_again(self) -> None:
        """Refuse to go on if the file has become shorter: touching what is gone is SIGBUS."""
        if os.fstat(self.fd).st_size < self.size:
            raise self._shrunk()

    def _shrunk(self) -> ValueError:
        now = os.fstat(self.fd).st_size
        return self.fault(
            f"it had {self.size} bytes when it was opened, and has {now} now: somebody writes to "
            "it; load it when it is complete"
        )
