"""Where memory is: one `Device` for each pair of DLPack's device type and number."""

from __future__ import annotations

from ._native import _core
from .naming import module_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

__all__ = ["Device", "as_device"]

# DLPack's device types under its own names, in small letters.
_names = {
    1: "cpu",
    2: "cuda",
    3: "cuda_host",
    4: "opencl",
    7: "vulkan",
    8: "metal",
    9: "vpi",
    10: "rocm",
    11: "rocm_host",
    12: "ext_dev",
    13: "cuda_managed",
    14: "oneapi",
    15: "webgpu",
    16: "hexagon",
    17: "maia",
    18: "trn",
}
_host = frozenset({1, 3, 11})
_codes = {name: code for code, name in _names.items()}
_prefix = "device_"  # of types newer than this list

# What torch calls devices that its DLPack export names otherwise.
_aliases = {"mps": "metal", "xpu": "oneapi", "hip": "rocm", "privateuseone": "ext_dev"}


class Device:
    """A device, by DLPack's type and number.

    There is one object for each device, so ``is`` works.

    A Device equals its text (``"cpu"``, ``"cuda:0"``), the text without the number where that is 0
    (``"cuda"``), and a torch.device that prints as one of these. The hash is that of
    ``str(device)``; the other spellings are equal but may hash differently.

    Parameters
    ----------
    device
        A device's type (``"cuda"``), or anything else that `as_device` takes, where no `index` is
        given.
    index : int, optional
        The device's number among those of its type.

    Attributes
    ----------
    type : str
        "cpu", "cuda", "cuda_host" (pinned), "cuda_managed", "rocm", "metal", ...: the names of
        DLPack. "device_<code>" for a type newer than this version of candle.
    index : int
        The device's number, 0 if there is just one.
    dlpack : tuple of int
        DLPack's (device_type, device_id).
    on_host : bool
        Whether it is memory of the host, which numpy computes on: the CPU's (DLPack's kDLCPU, of
        any number), and what is pinned for CUDA or ROCm (kDLCUDAHost, kDLROCMHost).

    Raises
    ------
    ValueError
        For a type that does not exist, or a number that is negative or beyond 31 bits.
    TypeError
        For an object that names no device.
    """

    __slots__ = ("_text", "dlpack", "index", "on_host", "type")

    type: str
    index: int
    dlpack: tuple[int, int]
    on_host: bool
    _text: str

    def __new__(cls, device: object = "cpu", /, index: int | None = None) -> Device:  # noqa: D102
        if index is None:
            return as_device(device)
        if not isinstance(device, str):
            raise TypeError(f"a device's type is a str such as 'cuda', not {device!r}")
        if not _is_int(index):
            raise TypeError(f"a device's number is an int, not {index!r}")
        code = _code_of(device)
        if code is None:
            raise _unknown(device)
        return _make_device(code, index)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a Device does not change; {name!r} cannot be set")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"a Device does not change; {name!r} cannot be deleted")

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if isinstance(other, str):
            return _parse(other) is self
        if _is_torch_like(other):
            return _parse(str(other)) is self
        return NotImplemented

    def __hash__(self) -> int:
        return hash(self._text)

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"candle.Device({self._text!r})"

    def __reduce__(self) -> tuple[object, ...]:
        return as_device, (self._text,)


def as_device(device: object = None, /) -> Device:
    """Give the Device that something stands for.

    Parameters
    ----------
    device
        A Device; a text (``"cpu"``, ``"cuda"`` for its number 0, ``"cuda:1"``); a torch.device; a
        device of jax, or of cupy and other CUDA libraries; DLPack's pair of ints (device_type,
        device_id). None is the CPU. torch's names mps, xpu, hip and privateuseone stand for metal,
        oneapi, rocm and ext_dev.

    Returns
    -------
    Device

    Raises
    ------
    ValueError
        For a text or number that names no device.
    TypeError
        For an object that names no device.
    """
    if type(device) is Device:
        return device
    if device is None:
        return cpu
    if isinstance(device, str) or _is_torch_like(device):
        found = _parse(str(device))
        if found is None:
            raise _unknown(str(device))
        return found
    if isinstance(device, tuple) and len(device) == 2 and all(_is_int(n) for n in device):
        return _make_device(*device)
    found = _of_handle(device)
    if found is None:
        raise TypeError(
            f"{device!r} is not a device candle knows; take a candle.Device, a text ('cpu', "
            "'cuda:0'), a device of torch, jax or cupy, or DLPack's (device_type, device_id)"
        )
    return found


def _make_device(code: int, index: int) -> Device:
    """Give the Device of DLPack's pair of numbers."""
    try:
        return _devices[code, index]
    except KeyError:
        pass
    code, index = int(code), int(index)  # enums and numpy's ints too
    if not (0 <= code < 1 << 31 and 0 <= index < 1 << 31):
        raise ValueError(f"({code}, {index}) is no DLPack device: both are from 0 to 2147483647")
    name = _names.get(code, f"{_prefix}{code}")
    device = object.__new__(Device)
    put = object.__setattr__
    put(device, "type", name)
    put(device, "index", index)
    put(device, "dlpack", (code, index))
    put(device, "on_host", code in _host)
    put(device, "_text", name if (code, index) == (1, 0) else f"{name}:{index}")
    return _devices.setdefault((code, index), device)  # atomic: threads get the same one


def _code_of(name: str) -> int | None:
    name = _aliases.get(name, name)
    if name.startswith(_prefix):
        digits = name.removeprefix(_prefix)
        return int(digits) if _is_number(digits) and int(digits) not in _names else None
    return _codes.get(name)


def _parse(text: str) -> Device | None:
    """Give the Device a text names, if it names one."""
    name, colon, digits = text.partition(":")
    code = _code_of(name)
    if code is None or (colon and not _is_number(digits)):
        return None
    return _make_device(code, int(digits) if colon else 0)


def _is_int(x: object) -> bool:
    return hasattr(x, "__index__") and not isinstance(x, bool)


def _is_number(digits: str) -> bool:
    return digits.isascii() and digits.isdecimal() and len(digits) < 10


def _is_torch_like(x: object) -> bool:
    """Whether `x` looks like a torch.device, whose str() is the text of it.

    A Device of candle's looks so too where candle was imported once before.
    """
    if (module_of(type(x)), type(x).__name__) == (__name__, "Device"):
        return True
    return type(x).__name__ == "device" and isinstance(getattr(x, "type", None), str)


def _of_handle(x: Any) -> Device | None:
    """Give the Device of a library's own device object, told by its looks: nothing is imported."""
    kind = type(x)
    if hasattr(kind, "local_hardware_id") and hasattr(kind, "platform"):  # jax
        if x.platform == "cpu":
            return cpu  # jax numbers its host devices, but they are all the host's memory
        version = x.client.platform_version
        platform = next((name for name in ("cuda", "rocm") if name in version), None)
        index = x.local_hardware_id
    elif hasattr(kind, "compute_capability"):  # cupy, cuda.core, numba
        platform = "cuda"
        index = getattr(x, "device_id", getattr(x, "id", None))
    else:
        return None
    return None if platform is None or index is None else _make_device(_codes[platform], index)


def _unknown(text: str) -> ValueError:
    return ValueError(
        f"{text!r} names no device; a device is a type and a number, such as 'cpu' or 'cuda:0', "
        f"and the types are {', '.join(_codes)}"
    )


_devices: dict[tuple[int, int], Device] = {}
cpu: Device = _make_device(1, 0)

_core.register(cpu=cpu, make_device=_make_device, as_device=as_device)
