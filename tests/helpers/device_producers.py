"""Objects that export device memory as the libraries do: their signatures, stream rules, errors.

No driver and no device is there: addresses are made up, and what would be ordered is noted in a
`Runtime`. Every call's arguments are noted too, and deleters are counted.
"""

from __future__ import annotations

import contextlib
import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from candle.testing import Producer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

CPU, CUDA, CUDA_HOST, METAL, ROCM, ROCM_HOST, MANAGED, ONEAPI = 1, 2, 3, 8, 10, 11, 13, 14
LEGACY, PER_THREAD = 1, 2
ADDRESS = 0x7F00_0000_0000  # nothing is mapped there: who looks at it dies


@dataclass
class Runtime:
    """What the CUDA runtime and the frameworks on it keep per thread, and a log.

    Attributes
    ----------
    device
        The current one.
    streams
        The current stream of each device; the legacy one, 1, where there is none.
    ordered
        Pairs: a stream, and the one that was made to wait for it. ``"own"`` is the work that a
        producer knows of by events of its own.
    waits
        What the host waited for.
    handed_on
        Handles that went to the driver though they name no stream.
    """

    device: int = 0
    streams: dict[int, int] = field(default_factory=dict)
    ordered: list[tuple[object, object]] = field(default_factory=list)
    waits: list[object] = field(default_factory=list)
    handed_on: list[int] = field(default_factory=list)

    def current(self, device: int) -> int:
        return self.streams.get(device, LEGACY)

    @contextlib.contextmanager
    def on(self, device: int, stream: int | None = None) -> Iterator[None]:
        """A device, and maybe a stream of it, are current within the block."""
        before, streams = self.device, dict(self.streams)
        self.device = device
        if stream is not None:
            self.streams[device] = stream
        try:
            yield
        finally:
            self.device, self.streams = before, streams

    def order(self, first: object, then: object) -> None:
        if first != then:
            self.ordered.append((first, then))


@dataclass
class Asked:
    """One call of ``__dlpack__``, and the device that was current."""

    arguments: tuple[Any, ...]
    keywords: dict[str, Any]
    device: int


class DeviceArray:
    """Float32 elements on a device. `export` in a subclass has the library's signature and rules.

    Parameters
    ----------
    runtime
        Where things are noted.
    device
        The number of its device.
    fields
        For the `Producer` behind it: shape, strides, dtype, flags.

    Attributes
    ----------
    calls
        Every call of ``__dlpack__``.
    producer
        What makes its capsules and counts their deleters.
    """

    kind = CUDA
    capsule_kind: int | None = None  # where that is another
    versions = True  # whether it can make versioned capsules

    def __init__(
        self,
        runtime: Runtime | None = None,
        *,
        device: int = 0,
        address: int = ADDRESS,
        shape: Sequence[int] = (2, 3),
        **fields: Any,
    ) -> None:
        self.runtime = Runtime() if runtime is None else runtime
        self.device = device
        self.calls: list[Asked] = []
        said = (self.capsule_kind or self.kind, device)
        self.producer = Producer(address, shape=shape, device=said, **fields)

    @property
    def address(self) -> int:
        return self.producer.address

    @property
    def deletes(self) -> int:
        return self.producer.deletes

    @property
    def streams(self) -> list[Any]:
        """What was passed as `stream`, call by call; ``"absent"`` where nothing was."""
        return [call.keywords.get("stream", "absent") for call in self.calls]

    def __dlpack_device__(self) -> tuple[int, int]:
        return (self.kind, self.device)

    def __dlpack__(self, *arguments: Any, **keywords: Any) -> object:
        self.calls.append(Asked(arguments, keywords, self.runtime.device))
        return self.export(*arguments, **keywords)

    def export(self, *, stream: Any = None) -> object:
        raise NotImplementedError

    def capsule(self, max_version: tuple[int, int] | None = None) -> object:
        modern = max_version is not None and max_version[0] >= 1
        return self.producer.capsule(self.versions and modern)


class TorchLike(DeviceArray):
    """torch 2.13."""

    rocm = False
    requires_grad = False

    def export(
        self,
        *,
        stream: Any = -1,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object:
        if self.requires_grad:
            raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
        if self.device != self.runtime.device:
            raise BufferError(
                "Can't export tensors on a different CUDA device index. "
                f"Expected: {self.device}. Current device: {self.runtime.device}."
            )
        if stream is not None and type(stream) is not int:
            raise TypeError("stream must be ``int`` or ``none``")
        if stream != -1:
            self.runtime.order(self.runtime.current(self.device), self.waiter(stream))
        return self.capsule(max_version)

    def waiter(self, stream: int | None) -> int:
        if stream is None or stream == LEGACY:
            return LEGACY
        if stream == PER_THREAD:
            raise BufferError("per-thread default stream is not supported.")
        if stream == 0:
            raise AssertionError(f"unsupported stream on CUDA: {stream}.")
        return stream


class RocmLike(TorchLike):
    """torch for ROCm: the default stream is 0; 1 and 2 mean nothing."""

    kind = ROCM

    def waiter(self, stream: int | None) -> int:
        if stream in (LEGACY, PER_THREAD):
            raise AssertionError(f"unsupported stream on ROCm: {stream}.")
        return stream or 0


class CupyLike(DeviceArray):
    """cupy 14.2: it goes by the current device, not the array's."""

    def export(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object:
        if stream == 0:
            warnings.warn("Stream 0 is ambiguous", stacklevel=2)
        if stream != -1:
            current = self.runtime.current(self.runtime.device)
            self.runtime.order(current, stream or LEGACY)
        return self.capsule(max_version)


class ManagedLike(CupyLike):
    """cupy's managed memory."""

    kind = MANAGED


class JaxLike(DeviceArray):
    """jax 0.10: any int goes to the driver; no stream means that the host waits."""

    versions = False

    def export(
        self,
        *,
        stream: int | Any | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object:
        if stream is None:
            self.runtime.waits.append("own")
        elif stream < 0:
            self.runtime.handed_on.append(stream)
        else:
            self.runtime.order("own", stream)
        return self.capsule()

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": self.producer.shape,
            "typestr": "<f4",
            "data": (self.address, True),
            "version": 2,
        }


class JaxArrayImpl(JaxLike):
    """The same, of a type that is told from its module as jax's arrays are."""

    __module__ = "jaxlib._jax"


class WarpLike(DeviceArray):
    """warp: no keyword but `stream`, and its own device guard."""

    versions = False

    def export(self, stream: Any = None) -> object:
        if stream != -1:
            self.runtime.order(
                self.runtime.current(self.device), LEGACY if stream is None else stream
            )
        return self.capsule()


class PaddleLike(DeviceArray):
    """paddle 3.3: it knows no per-thread stream, and goes by its own current device."""

    def export(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object:
        if stream is not None and not isinstance(stream, int):
            raise TypeError("stream must be an integer or None.")
        if stream != -1:
            if stream in (0, PER_THREAD):
                raise ValueError(f"For CUDA, stream={stream} is not supported.")
            current = self.runtime.current(self.runtime.device)
            self.runtime.order(current, LEGACY if stream is None else stream)
        return self.capsule(max_version)


class PaddleTensor(PaddleLike):
    """The same, of a type that is told from its module as paddle's tensors are."""

    __module__ = "paddle"
    stop_gradient = True

    def is_sparse(self) -> bool:
        return False


class TensorflowLike(DeviceArray):
    """tensorflow 2.21: no stream at all, and nothing is waited for."""

    versions = False

    def export(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object:
        if stream is not None:
            raise RuntimeError("tf.Tensor does not support DLPack export with a non-None stream")
        return self.capsule()


class EagerTensor(TensorflowLike):
    """The same, of a type that is told from its module as tensorflow's tensors are."""

    __module__ = "tensorflow.python.framework.ops"

    def __init__(self, *arguments: Any, **fields: Any) -> None:
        super().__init__(*arguments, **fields)
        self.device: Any = "/job:localhost/replica:0/task:0/device:GPU:0"

    def __dlpack_device__(self) -> tuple[int, int]:
        return (self.kind, 0)


class CoreLike(DeviceArray):
    """cuda.core's buffers, and tvm-ffi's tensors: `stream` is ignored."""

    def export(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object:
        return self.capsule(max_version)


class HostLike(DeviceArray):
    """numpy, jax and pyarrow on the CPU: any `stream` but None is an error."""

    kind = CPU

    def export(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object:
        if stream is not None:
            raise RuntimeError("__dlpack__ on the CPU only supports stream=None")
        return self.capsule(max_version)


class TorchPinnedLike(DeviceArray):
    """torch's pinned memory: announced as such, and plain CPU memory in the capsule."""

    kind = CUDA_HOST
    capsule_kind = CPU

    def export(
        self,
        *,
        stream: Any = -1,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object:
        if stream not in (None, -1):
            raise AssertionError("stream should be None on cpu.")
        return self.capsule(max_version)


class PinnedLike(HostLike):
    """Pinned memory that the capsule says is pinned."""

    kind = CUDA_HOST


class OneApiLike(DeviceArray):
    """dpnp: `stream` is a queue object of its own."""

    kind = ONEAPI

    class Queue:
        """Stands for a SyclQueue."""

    def export(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object:
        if stream is not None and not isinstance(stream, self.Queue):
            raise TypeError(f"stream must be a SyclQueue, not {type(stream).__name__}")
        if stream is not None:
            self.runtime.order("own", stream)
        return self.capsule(max_version)


class UnknownLike(OneApiLike):
    """A device that nobody has heard of."""

    kind = 77


class InterfaceOnly:
    """Nothing but ``__cuda_array_interface__``; its fields as given, NotImplemented leaves one out.

    numba's arrays are so, of version 3.
    """

    def __init__(self, *, version: int = 3, address: int = ADDRESS, **fields: Any) -> None:
        self.asked = 0
        self.fields: dict[str, Any] = {
            "shape": (2, 3),
            "typestr": "<f4",
            "data": (address, False),
            "strides": None,
            "version": version,
            **({"stream": None} if version >= 3 else {}),
            **fields,
        }
        for name in [name for name, value in self.fields.items() if value is NotImplemented]:
            del self.fields[name]

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        self.asked += 1
        return dict(self.fields)


def raw_capsule(**fields: Any) -> tuple[object, Producer]:
    """A capsule that nobody can be asked about, and what counts its deleter."""
    versioned = fields.pop("versioned", True)
    fields = {"shape": (2, 3), "device": (CUDA, 0), **fields}
    producer = Producer(fields.pop("address", ADDRESS), **fields)
    return producer.capsule(versioned), producer


PRODUCERS: dict[str, type[DeviceArray]] = {
    "torch": TorchLike,
    "cupy": CupyLike,
    "jax": JaxLike,
    "warp": WarpLike,
    "paddle": PaddleLike,
    "tensorflow": TensorflowLike,
    "cuda.core": CoreLike,
    "managed": ManagedLike,
    "pinned": PinnedLike,
    "torch pinned": TorchPinnedLike,
    "ROCm": RocmLike,
    "oneAPI": OneApiLike,
    "unknown": UnknownLike,
}
