"""Make, read and consume DLPack capsules, with ctypes alone.

Everything goes through a ``ctypes.PyDLL`` of its own: argument types set on the shared
``ctypes.pythonapi`` would hold for every other user of it in the process.
"""

from __future__ import annotations

import ctypes as C
from typing import TYPE_CHECKING, Any, NamedTuple

from .abi import DLManagedTensor, DLManagedTensorVersioned, DLTensor, Managed

if TYPE_CHECKING:
    from types import TracebackType
    from typing import TypeVar

    T = TypeVar("T")

_python = C.PyDLL(None)
_process = C.CDLL(None)


def _function(library: C.CDLL, name: str, result: Any, *arguments: Any) -> Any:
    function = getattr(library, name)
    function.restype, function.argtypes = result, list(arguments)
    return function


_is_valid = _function(_python, "PyCapsule_IsValid", C.c_int, C.py_object, C.c_char_p)
_get_name = _function(_python, "PyCapsule_GetName", C.c_char_p, C.py_object)
_get_pointer = _function(_python, "PyCapsule_GetPointer", C.c_void_p, C.py_object, C.c_char_p)
_set_name = _function(_python, "PyCapsule_SetName", C.c_int, C.py_object, C.c_char_p)
_new = _function(_python, "PyCapsule_New", C.py_object, C.c_void_p, C.c_char_p, C.c_void_p)

_hold = _function(_python, "Py_IncRef", None, C.py_object)

_thread_create = _function(
    _process, "pthread_create", C.c_int, C.c_void_p, C.c_void_p, C.c_void_p, C.c_void_p
)
_thread_join = _function(_process, "pthread_join", C.c_int, C.c_ulong, C.c_void_p)

DELETER = C.CFUNCTYPE(None, C.c_void_p)


def for_good(container: T) -> T:
    """Return what is never freed, with all that it holds: not at Python's end either.

    Then modules go in any order, and what looks at their memory may go after them.
    """
    _hold(container)
    return container


# A capsule keeps the pointer to its name, not the text: names live as long as the process.
_names: dict[bytes, C.Array[C.c_char]] = for_good({})


def static_name(name: bytes) -> C.c_char_p:
    """Return a C string that is never freed."""
    text = _names.setdefault(name, C.create_string_buffer(name))
    return C.cast(text, C.c_char_p)


def new_capsule(address: int, name: str | None, destructor: int | None = None) -> object:
    """Make a capsule over what lies at `address`.

    Parameters
    ----------
    address
        What the capsule points to. The capsule does not own it.
    name
        Its name, such as ``"dltensor"`` or ``"dltensor_versioned"``; None for none.
    destructor
        Address of a ``void (*)(PyObject*)`` to call when the capsule dies.
    """
    return _new(address, None if name is None else static_name(name.encode()), destructor)


def capsule_name(capsule: object) -> str | None:
    """Return the name of a capsule; None where it has none."""
    name: bytes | None = _get_name(capsule)
    return None if name is None else name.decode()


def rename(capsule: object, name: bytes) -> None:
    """Give a capsule another name."""
    _set_name(capsule, static_name(name))


def capsule_address(capsule: object, name: str) -> int:
    """Return what a capsule points to. ``ValueError`` if it has another name."""
    address: int = _get_pointer(capsule, name.encode())
    return address


def managed(capsule: object) -> Managed:
    """Return the managed struct a DLPack capsule points to, consumed or not.

    It is valid while its owner lives. ``ValueError`` for any other capsule.
    """
    for name in ("dltensor_versioned", "used_dltensor_versioned"):
        if _is_valid(capsule, name.encode()):
            return DLManagedTensorVersioned.from_address(capsule_address(capsule, name))
    for name in ("dltensor", "used_dltensor"):
        if _is_valid(capsule, name.encode()):
            return DLManagedTensor.from_address(capsule_address(capsule, name))
    raise ValueError(f"the capsule is named {capsule_name(capsule)!r}: this is not DLPack's")


class TensorInfo(NamedTuple):
    """Every field of a struct; strides in elements, None for NULL, `data` 0 for NULL.

    `name`, `version` and `flags` are None where there are none; `deleter`: whether there is one.
    """

    name: str | None
    version: tuple[int, int] | None
    flags: int | None
    device: tuple[int, int]
    dtype: tuple[int, int, int]
    shape: tuple[int, ...] | None
    strides: tuple[int, ...] | None
    data: int
    byte_offset: int
    deleter: bool

    @property
    def address(self) -> int:
        """Where the first element lies."""
        return self.data + self.byte_offset


def _extents(pointer: Any, ndim: int) -> tuple[int, ...] | None:
    return tuple(pointer[i] for i in range(ndim)) if pointer else None


def struct_info(struct: Managed | DLTensor, name: str | None = None) -> TensorInfo:
    """Read every field of a struct, touching nothing."""
    versioned = isinstance(struct, DLManagedTensorVersioned)
    tensor = struct if isinstance(struct, DLTensor) else struct.dl_tensor
    return TensorInfo(
        name=name,
        version=(struct.version.major, struct.version.minor) if versioned else None,
        flags=struct.flags if versioned else None,
        device=(tensor.device.device_type, tensor.device.device_id),
        dtype=(tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes),
        shape=_extents(tensor.shape, tensor.ndim),
        strides=_extents(tensor.strides, tensor.ndim),
        data=tensor.data or 0,
        byte_offset=tensor.byte_offset,
        deleter=bool(getattr(struct, "deleter", None)),
    )


def info(capsule: object) -> TensorInfo:
    """Read every field of what a capsule points to. The capsule is not consumed."""
    return struct_info(managed(capsule), capsule_name(capsule))


def describe(capsule: object) -> str:
    """Say in one line what a capsule points to. The capsule is not consumed."""
    fields = info(capsule)
    version = f" {fields.version[0]}.{fields.version[1]}" if fields.version else ""
    alignment = fields.address & -fields.address if fields.data else "NULL"
    return (
        f"{fields.name}{version} flags={fields.flags} device={fields.device} dtype={fields.dtype} "
        f"shape={fields.shape} strides={fields.strides} alignment={alignment} "
        f"byte_offset={fields.byte_offset} deleter={fields.deleter}"
    )


def call_on_foreign_thread(function: int, argument: int) -> None:
    """Call the C function at an address with one pointer, on a thread Python never saw."""
    thread = C.c_ulong()
    if _thread_create(C.byref(thread), None, function, argument) != 0:
        raise OSError("pthread_create failed")
    _thread_join(thread, None)


class Taken:
    """A managed struct that you own now, as a consumer does: `release` it once, or use `with`."""

    def __init__(self, struct: Managed, name: str | None = None) -> None:
        self.struct = struct
        self.name = name
        self.released: bool = False

    @property
    def info(self) -> TensorInfo:
        """Every field of the struct."""
        return struct_info(self.struct, self.name)

    @property
    def address(self) -> int:
        """Where the struct lies."""
        return C.addressof(self.struct)

    def read(self, count: int) -> bytes:
        """`count` bytes from the first element on."""
        return C.string_at(self.info.address, count)

    def release(self, *, foreign_thread: bool = False) -> None:
        """Call the deleter, without the GIL.

        Parameters
        ----------
        foreign_thread
            Call it on a thread that Python has never seen, as XLA's pool does.
        """
        if self.released:
            raise RuntimeError("this struct was released before")
        self.released = True
        if not self.struct.deleter:
            return
        if foreign_thread:
            call_on_foreign_thread(self.struct.deleter, self.address)
        else:
            DELETER(self.struct.deleter)(self.address)

    def __enter__(self) -> Taken:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        if not self.released:
            self.release()


def take(capsule: object) -> Taken:
    """Consume a capsule as the protocol asks: rename it and become the owner of its struct.

    ``ValueError`` if it was consumed before.
    """
    name = capsule_name(capsule)
    struct = managed(capsule)
    if name is None or name.startswith("used_"):
        raise ValueError(f"the capsule is named {name!r}: it was consumed before")
    rename(capsule, b"used_" + name.encode())
    return Taken(struct, name)
