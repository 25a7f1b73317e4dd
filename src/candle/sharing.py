"""Memory that several processes of one machine see: `share`, and the handle it gives."""

from __future__ import annotations

import os

from . import frameworks
from ._native import _core
from .dtypes import as_dtype

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from mmap import mmap
    from typing import Any
    from weakref import ref

    from ._native._core import Tensor
    from .dtypes import DType

__all__ = ["Shared", "share"]

_NAME = "candle-"
_F_SEAL_FUTURE_WRITE = 0x10  # <linux/fcntl.h>; Python's fcntl has no name for it


def share(x: object, *, writable: bool = False) -> Shared:
    """Copy a tensor once into memory that other processes can open without a copy.

    Parameters
    ----------
    x
        Anything on the host that `candle.asarray` takes.
    writable : bool
        Whether who opens the memory may write to it: what one process writes, the others see.
        Otherwise nobody can write any more, this process included; the kernel holds them to it.

    Returns
    -------
    Shared
        A handle of some hundred bytes, to be pickled for other processes of this user on this
        machine: through `multiprocessing` (fork and spawn), `concurrent.futures`, Ray, Dask or any
        other way.

    Raises
    ------
    BufferError
        For memory of a device.
    OSError
        Where there is no memory left; or no memory files, which are Linux's.

    Notes
    -----
    It is a memory file (``memfd_create(2)``): it has no name that could be left behind, and the
    kernel frees it with the last handle, tensor or process that has it, crashed ones too. A handle
    that goes through `multiprocessing` keeps it until it arrives; any other pickle only names it,
    so that the handle has to live on where it was pickled until it is loaded elsewhere.

    Examples
    --------
    >>> import candle
    >>> handle = candle.share([1.0, 2.0])
    >>> handle.open()
    tensor([1., 2.], dtype=float32)
    """
    t = _core.asarray(x)
    if not t.device.on_host:
        raise BufferError(
            f"other processes cannot open memory of {t.device}: share t.to('cpu'), or send it "
            "with its own framework"
        )
    if not hasattr(os, "memfd_create"):
        raise OSError("this system has no memory files (memfd_create): pickle the tensor instead")
    padded = _core.is_padded(t)
    nbytes = _bytes_of(t.shape, t.dtype, padded)
    available = _available()
    if available is not None and nbytes > available:  # a memory file takes it, and others die of it
        import errno

        raise OSError(
            errno.ENOMEM, f"{nbytes} bytes to be shared are more than there is memory free"
        )
    token = os.urandom(16).hex()
    file = os.memfd_create(_NAME + token, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    handle = Shared(file, token, nbytes, t.dtype, t.shape, padded, writable)
    if nbytes:
        os.posix_fallocate(file, 0, nbytes)  # OSError now, rather than a signal at a write
        _core.assign(handle._tensor(True), t)
    import fcntl

    seals = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW
    fcntl.fcntl(file, fcntl.F_ADD_SEALS, seals if writable else seals | _F_SEAL_FUTURE_WRITE)
    return handle


def _bytes_of(shape: tuple[int, ...], dtype: DType, padded: bool) -> int:
    size = 1
    for extent in shape:
        size *= extent
    return size if padded else -(-size * dtype.bits * dtype.lanes // 8)


def _available() -> int | None:
    """Give the bytes of memory that the kernel says can be had without swapping, if it says so."""
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:  # noqa: PTH123  (pathlib takes 5 ms)
            said = [line.split()[1] for line in lines if line.startswith("MemAvailable:")]
    except OSError:  # no /proc here
        return None
    return int(said[0]) << 10 if said else None


class Shared:
    """A handle to memory that other processes can open; `share` makes it.

    Attributes
    ----------
    shape : tuple of int
    dtype : DType
    nbytes : int
        Bytes of the memory.
    writable : bool
        Whether `open` can be asked for a tensor that may be written.
    """

    __module__ = "candle"
    __slots__ = (
        "__weakref__",
        "_file",
        "_mappings",
        "_padded",
        "_token",
        "dtype",
        "nbytes",
        "shape",
        "writable",
    )

    def __init__(
        self,
        file: int,
        token: str,
        nbytes: int,
        dtype: DType,
        shape: tuple[int, ...],
        padded: bool,
        writable: bool,
    ) -> None:
        self._file = file
        self._token = token
        self._padded = padded
        self._mappings: dict[bool, ref[mmap]] = {}
        self.nbytes: int = nbytes
        self.dtype: DType = dtype
        self.shape: tuple[int, ...] = shape
        self.writable: bool = writable
        _teach_multiprocessing()

    def open(self, to: object = "candle", *, writable: bool = False) -> Any:
        """Give the tensor over the shared memory, in any framework.

        Parameters
        ----------
        to : str or module
            The framework, as in `convert`. One without read-only tensors (torch) gets pages of its
            own when it writes nevertheless (``MAP_PRIVATE``): nobody else sees what it wrote.
        writable : bool
            Whether the tensor may be written: then every process sees what is written. ValueError
            where the memory was not shared so.

        Returns
        -------
        Tensor, or another framework's
            It keeps the memory, also after the handle is gone.
        """
        if writable and not self.writable:
            raise ValueError(
                "the memory was shared to be read: share(x, writable=True) lets others write it"
            )
        target = frameworks.target_of(to)
        return target.give(self._tensor(writable, not writable and not target.read_only), None)

    def _tensor(self, writable: bool, private: bool = False) -> Tensor:
        if self._file < 0:
            raise ValueError("the handle has ended, and its file with it")
        if self.nbytes == 0:  # which cannot be mapped
            return _core.empty(self.shape, self.dtype.id)
        data = _core.asarray(self._private() if private else self._mapped(writable))
        return _core.of_bytes(data, self.shape, self.dtype.id, self._padded)

    def _mapped(self, writable: bool) -> mmap:
        """Map the memory, or give the mapping that is in use: each one keeps a file open."""
        from mmap import MAP_SHARED, PROT_READ, PROT_WRITE, mmap
        from weakref import ref

        known = self._mappings.get(writable)
        mapping = None if known is None else known()
        if mapping is None:
            protection = PROT_READ | (PROT_WRITE if writable else 0)
            mapping = mmap(self._file, self.nbytes, MAP_SHARED, protection)
            self._mappings[writable] = ref(mapping)
        return mapping

    def _private(self) -> mmap:
        from mmap import MAP_PRIVATE, PROT_READ, PROT_WRITE, mmap

        return mmap(self._file, self.nbytes, MAP_PRIVATE, PROT_READ | PROT_WRITE)

    def _described(self) -> tuple[str, int, str, tuple[int, ...], bool, bool]:
        return (
            self._token,
            self.nbytes,
            self.dtype.name,
            self.shape,
            self._padded,
            self.writable,
        )

    def __repr__(self) -> str:
        may = "may be written" if self.writable else "read-only"
        return f"<candle.Shared {self.dtype} {self.shape}, {self.nbytes} bytes, {may}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return _opened, (os.getpid(), self._file, *self._described())

    def __del__(self, close: Callable[[int], None] = os.close) -> None:
        # What uses it after this (in cyclic garbage, at the interpreter's end) finds no other file.
        file, self._file = self._file, -1
        close(file)


def _opened(pid: int, file: int, token: str, *described: Any) -> Shared:
    """Open the memory where a plain pickle says that it is: among the files of a process.

    Raises
    ------
    FileNotFoundError
        If it is not there (any more).
    OSError
        If this process cannot have one more file open.
    """
    path = f"/proc/{pid}/fd/{file}"
    opened = -1
    try:
        _require(path, token)  # before it is opened, which may do things to others
        opened = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        _require(f"/proc/self/fd/{opened}", token)  # its number may have gone to another meanwhile
    except OSError as error:
        if opened >= 0:
            os.close(opened)
        if _is_full(error):
            raise
        raise FileNotFoundError(
            f"the shared memory is gone: process {pid} has ended, has dropped the handle, or is of "
            "another user or machine. Keep the handle where it was pickled until it is loaded, or "
            "send it by multiprocessing"
        ) from error
    return _checked(opened, token, *described)


def _is_full(error: Exception) -> bool:
    """Whether it is of this process that it has too many files open, and not of the memory."""
    import errno

    return isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE)


def _require(path: str, token: str) -> None:
    found = os.readlink(path)  # noqa: PTH115  (pathlib takes 5 ms to import)
    if not found.startswith(f"/memfd:{_NAME}{token} "):
        raise FileNotFoundError(f"{path} is {found}")


def _received(sent: Any, pid: int, number: int, *described: Any) -> Shared:
    """Take the memory file that goes with a pickle of multiprocessing.

    Where the sender does not give it, because it did so before or knows this process by no
    authentication key, it is looked for as a plain pickle's is.

    Raises
    ------
    FileNotFoundError
        If the sender is there no more, or it was received before and the handle is dropped.
    OSError
        If this process cannot have one more file open.
    """
    from multiprocessing import AuthenticationError

    try:
        file = sent.detach()
    except (OSError, EOFError, KeyError, AuthenticationError) as error:
        if _is_full(error):
            raise
        try:
            return _opened(pid, number, *described)
        except FileNotFoundError:
            raise FileNotFoundError(
                "the shared memory is gone: the process that sent it ended before it was received "
                "here, or it was received before and the handle is gone where it was sent"
            ) from error
    return _checked(file, *described)


def _checked(
    file: int,
    token: str,
    nbytes: int,
    dtype: str,
    shape: tuple[int, ...],
    padded: bool,
    writable: bool,
) -> Shared:
    """Make the handle of a file that cannot lose the bytes it is said to have."""
    import fcntl

    try:
        kind = as_dtype(dtype)
        taken = _bytes_of(shape, kind, padded)
    except BaseException:  # no handle has the file yet
        os.close(file)
        raise
    handle = Shared(file, token, nbytes, kind, shape, padded, writable)
    seals = fcntl.fcntl(file, fcntl.F_GET_SEALS)
    if not seals & fcntl.F_SEAL_SHRINK or os.fstat(file).st_size != nbytes:
        raise ValueError(f"the memory file is not one of {nbytes} bytes that candle.share made")
    if nbytes != taken:
        raise ValueError(
            f"{nbytes} bytes were shared, which are not those of a {kind} tensor of the "
            f"shape {shape}: the handle was damaged on the way"
        )
    if writable and seals & _F_SEAL_FUTURE_WRITE:
        raise ValueError("the memory was shared to be read, and the handle says it may be written")
    return handle


def _teach_multiprocessing() -> None:
    from multiprocessing.reduction import DupFd, ForkingPickler

    def sent(handle: Shared) -> tuple[Any, ...]:
        return _received, (DupFd(handle._file), *handle.__reduce__()[1])

    ForkingPickler.register(Shared, sent)
