"""Arrow's C structs built by hand, right and wrong, and who counts their releases."""

from __future__ import annotations

import ctypes
import struct
from ctypes import CFUNCTYPE, POINTER, Structure, c_char_p, c_int, c_int32, c_int64, c_void_p
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

RELEASE = CFUNCTYPE(None, c_void_p)


class Schema(Structure):
    """ArrowSchema."""


Schema._fields_ = [
    ("format", c_void_p),
    ("name", c_void_p),
    ("metadata", c_void_p),
    ("flags", c_int64),
    ("n_children", c_int64),
    ("children", POINTER(POINTER(Schema))),
    ("dictionary", c_void_p),
    ("release", c_void_p),
    ("private_data", c_void_p),
]


class Array(Structure):
    """ArrowArray."""


Array._fields_ = [
    ("length", c_int64),
    ("null_count", c_int64),
    ("offset", c_int64),
    ("n_buffers", c_int64),
    ("n_children", c_int64),
    ("buffers", POINTER(c_void_p)),
    ("children", POINTER(POINTER(Array))),
    ("dictionary", c_void_p),
    ("release", c_void_p),
    ("private_data", c_void_p),
]


class DeviceArray(Structure):
    """ArrowDeviceArray."""

    _fields_ = [
        ("array", Array),
        ("device_id", c_int64),
        ("device_type", c_int32),
        ("sync_event", c_void_p),
        ("reserved", c_int64 * 3),
    ]


GET = CFUNCTYPE(c_int, c_void_p, c_void_p)
LAST_ERROR = CFUNCTYPE(c_void_p, c_void_p)


class Stream(Structure):
    """ArrowArrayStream."""

    _fields_ = [
        ("get_schema", c_void_p),
        ("get_next", c_void_p),
        ("get_last_error", c_void_p),
        ("release", c_void_p),
        ("private_data", c_void_p),
    ]


class DeviceStream(Structure):
    """ArrowDeviceArrayStream."""

    _fields_ = [("device_type", c_int32), *Stream._fields_]


# Releases of what was built here, by the number in private_data.
released: dict[int, int] = {}
_numbers = iter(range(1, 1 << 62))


@RELEASE
def _release_schema(address: int) -> None:
    held = Schema.from_address(address)
    released[held.private_data] += 1
    held.release = None


@RELEASE
def _release_array(address: int) -> None:
    held = Array.from_address(address)
    released[held.private_data] += 1
    held.release = None


def _number() -> int:
    number = next(_numbers)
    released[number] = 0
    return number


def _address(function: Any) -> int:
    address: int = ctypes.cast(function, c_void_p).value
    return address


def _text(text: bytes | None, kept: list[Any]) -> int | None:
    if text is None:
        return None
    kept.append(ctypes.create_string_buffer(text, len(text) + 1))
    return ctypes.addressof(kept[-1])


def metadata(entries: Iterable[tuple[bytes, bytes]]) -> bytes:
    """A metadata block."""
    pairs = list(entries)
    texts = [text for pair in pairs for text in pair]
    lengths = b"".join(struct.pack("=i", len(text)) + text for text in texts)
    return struct.pack("=i", len(pairs)) + lengths


def extension(name: str, text: str | bytes = b"") -> bytes:
    """The metadata block of an extension type."""
    data = text.encode() if isinstance(text, str) else text
    return metadata([(b"ARROW:extension:name", name.encode()), (b"ARROW:extension:metadata", data)])


def schema(
    format: str | bytes | None,
    *children: Schema,
    metadata: bytes | None = None,
    name: bytes | None = b"",
    dictionary: bool = False,
) -> Schema:
    """A schema; its attributes may be spoilt afterwards."""
    made = Schema()
    kept: list[Any] = [children]
    made.format = _text(format.encode() if isinstance(format, str) else format, kept)
    made.name = _text(name, kept)
    made.metadata = _text(metadata, kept)
    made.flags = 2
    made.n_children = len(children)
    if children:
        kept.append((POINTER(Schema) * len(children))(*[ctypes.pointer(c) for c in children]))
        made.children = ctypes.cast(kept[-1], POINTER(POINTER(Schema)))
    made.dictionary = ctypes.addressof(made) if dictionary else None
    made.release = _address(_release_schema)
    made.private_data = _number()
    made.kept = kept  # type: ignore[attr-defined]
    return made


def array(
    length: int,
    buffers: Sequence[bytes | bytearray | int | None],
    *children: Array,
    null_count: int = 0,
    offset: int = 0,
) -> Array:
    """An array over copies of buffers; an int is an address, None NULL."""
    made = Array()
    kept: list[Any] = [children]
    addresses = []
    for buffer in buffers:
        if isinstance(buffer, bytes | bytearray):
            kept.append(ctypes.create_string_buffer(bytes(buffer), len(buffer)))
            addresses.append(ctypes.addressof(kept[-1]))
        else:
            addresses.append(buffer)
    made.length, made.null_count, made.offset = length, null_count, offset
    made.n_buffers, made.n_children = len(addresses), len(children)
    kept.append((c_void_p * max(1, len(addresses)))(*addresses))
    made.buffers = ctypes.cast(kept[-1], POINTER(c_void_p))
    if children:
        kept.append((POINTER(Array) * len(children))(*[ctypes.pointer(c) for c in children]))
        made.children = ctypes.cast(kept[-1], POINTER(POINTER(Array)))
    made.release = _address(_release_array)
    made.private_data = _number()
    made.kept = kept  # type: ignore[attr-defined]
    made.room = length, len(addresses)  # type: ignore[attr-defined]
    return made


_new = ctypes.pythonapi.PyCapsule_New
_new.restype = ctypes.py_object
_new.argtypes = [c_void_p, c_char_p, c_void_p]
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype = c_void_p
_pointer.argtypes = [ctypes.py_object, c_char_p]
_names: dict[bytes, Any] = {}


def capsule(held: Structure, name: bytes) -> Any:
    """A capsule without a destructor: what nobody takes out of it stays."""
    kept = _names.setdefault(name, ctypes.create_string_buffer(name))
    return _new(ctypes.addressof(held), ctypes.cast(kept, c_char_p), None)


def held_in(capsule: Any, name: bytes, kind: Any) -> Any:
    """What a capsule holds."""
    return kind.from_address(_pointer(capsule, name))


class Exporter:
    """An object with ``__arrow_c_array__`` over structs that were built here."""

    def __init__(self, type_: Schema, data: Array) -> None:
        self.schema, self.array = type_, data

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[Any, Any]:
        return capsule(self.schema, b"arrow_schema"), capsule(self.array, b"arrow_array")

    @property
    def releases(self) -> int:
        """How often the array was released."""
        return released[self.array.private_data]


class DeviceExporter(Exporter):
    """The same with ``__arrow_c_device_array__`` alone."""

    __arrow_c_array__ = None  # type: ignore[assignment]

    def __init__(
        self, type_: Schema, data: Array, device: tuple[int, int], event: int | None = None
    ) -> None:
        super().__init__(type_, data)
        self.device_array = DeviceArray(data, device[1], device[0], event)
        self.number = data.private_data

    def __arrow_c_device_array__(
        self, requested_schema: object = None, **kwargs: object
    ) -> tuple[Any, Any]:
        return (
            capsule(self.schema, b"arrow_schema"),
            capsule(self.device_array, b"arrow_device_array"),
        )

    @property
    def releases(self) -> int:
        return released[self.number]


class StreamExporter:
    """An object with ``__arrow_c_stream__``; `fails` names the call that does.

    With `device`, a type and number, one with ``__arrow_c_device_stream__`` in its place.
    """

    def __init__(
        self,
        type_: Schema,
        chunks: Sequence[Array],
        fails: str | None = None,
        error: bytes | None = b"out of luck",
        device: tuple[int, int] | None = None,
    ) -> None:
        self.device = device
        self.schema, self.chunks, self.error = type_, list(chunks), error
        self.fails = fails
        self.released = 0
        self.given = 0
        text = None if error is None else ctypes.create_string_buffer(error)
        self._keep = [
            text,
            GET(self._get_schema),
            GET(self._get_next),
            LAST_ERROR(lambda _: None if text is None else ctypes.addressof(text)),
            RELEASE(self._release),
        ]
        functions = [*[_address(function) for function in self._keep[1:]], 0]
        self.stream = Stream(*functions)
        if device is not None:
            self.stream = DeviceStream(device[0], *functions)
            self.__arrow_c_device_stream__ = self._device_capsule

    def _get_schema(self, _stream: int, out: int) -> int:
        if self.fails == "get_schema":
            return 5
        ctypes.memmove(out, ctypes.addressof(self.schema), ctypes.sizeof(Schema))
        return 0

    def _get_next(self, _stream: int, out: int) -> int:
        if self.given == len(self.chunks):
            if self.fails == "get_next":
                return 22
            Array.from_address(out).release = None
            return 0
        chunk = self.chunks[self.given]
        ctypes.memmove(out, ctypes.addressof(chunk), ctypes.sizeof(Array))
        if self.device is not None:
            whole = DeviceArray(chunk, self.device[1], self.device[0])
            ctypes.memmove(out, ctypes.addressof(whole), ctypes.sizeof(DeviceArray))
        self.given += 1
        return 0

    def _release(self, address: int) -> None:
        self.released += 1
        type(self.stream).from_address(address).release = None

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        return capsule(self.stream, b"arrow_array_stream")

    def _device_capsule(self, requested_schema: object = None, **kwargs: object) -> Any:
        return capsule(self.stream, b"arrow_device_array_stream")
