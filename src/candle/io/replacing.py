"""Files that are there whole or not at all."""

from __future__ import annotations

import errno
import os
import stat
import sys
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Self

    from . import Path as AnyPath

__all__ = ["Replacement"]

_AT_ONCE = 1 << 30  # bytes; the kernel writes no more than 2 GB in one call


class Replacement:
    """A file that takes its place when the block ends well, and leaves no trace if not.

    It is written beside its place, synced to the disk, and renamed. A symbolic link stays one: what
    it names is replaced. Permission bits are those of the file that is replaced, else the ones a
    new file gets.
    """

    __slots__ = ("_beside", "_fd", "_place")

    def __init__(self, path: AnyPath) -> None:
        name = os.fsdecode(path)
        if name.endswith((os.sep, os.altsep or os.sep)):
            raise IsADirectoryError(errno.EISDIR, "a file's name does not end with this", name)
        self._place = Path(os.path.realpath(name))  # of a loop, too
        mode = _mode(self._place)
        self._fd = -1
        self._beside = self._place.with_name(f".candle-{os.urandom(8).hex()}.tmp")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        if sys.platform == "win32":
            flags |= os.O_BINARY | os.O_NOINHERIT
        else:
            flags |= os.O_CLOEXEC
        try:
            # Nobody who may not read the old file opens the new one before it has its bits.
            self._fd = os.open(self._beside, flags, 0o666 if mode is None else 0o600)
        except OSError as error:
            error.filename = str(self._place)
            raise
        try:
            if mode is not None and sys.platform != "win32":  # which has no such bits
                os.fchmod(self._fd, mode)
        except BaseException:
            self._drop()
            raise

    def write(self, data: bytes | memoryview) -> None:
        """Write all of some bytes."""
        view = memoryview(data)
        while view:
            view = view[os.write(self._fd, view[:_AT_ONCE]) :]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *exc_info: object) -> None:
        try:
            if kind is None:
                os.fsync(self._fd)
                self._close()  # may tell of a failure, too
                self._beside.replace(self._place)
        finally:  # an interrupt may come when it has its new name
            self._drop()
        # Windows opens no folders.
        if kind is None and sys.platform != "win32":
            _sync_folder(self._place.parent)

    def __del__(self) -> None:
        """Drop what was interrupted before the block began, or in the middle of its end."""
        if getattr(self, "_fd", -1) >= 0:
            self._drop()

    def _drop(self) -> None:
        if sys.platform == "win32":
            self._close()  # what is open cannot be removed there
        self._beside.unlink(missing_ok=True)
        self._close()

    def _close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


def _mode(place: Path) -> int | None:
    """Give the permission bits of a file that may be replaced; None where there is none."""
    try:
        found = place.stat().st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(found):
        raise IsADirectoryError(errno.EISDIR, "a directory stands in the file's place", str(place))
    if not stat.S_ISREG(found):
        raise OSError(
            errno.EINVAL, "only a regular file can be replaced, and this is none", str(place)
        )
    if not os.access(place, os.W_OK):
        raise PermissionError(
            errno.EACCES, "the file that is to be replaced is read-only", str(place)
        )
    return found & 0o777


def _sync_folder(folder: Path) -> None:
    """Make the new name last, too."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some file systems sync no folders
            raise
    finally:
        os.close(fd)
