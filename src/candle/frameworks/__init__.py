"""What candle knows of each framework, one file each: recognise, take, give, limits.

This is the only Python that knows a framework by name, but for the two that make copies on devices
(`candle.cuda`). A file is loaded when the first object of
its framework is met; none imports a framework that is not there already, except where the caller
asks for that framework's tensor.
"""

from __future__ import annotations

import sys

from .._native import _core
from ..ledger import passed_through
from ..naming import package_of
from .registering import register_on_load

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..dtypes import DType
    from .file import FrameworkFile
    from .record import Record
    from .target import Target

__all__ = [
    "CONSUMERS",
    "TARGETS",
    "detacher",
    "device_of",
    "door_of",
    "dtype_for",
    "examples",
    "has_numbers",
    "has_stand_in",
    "hazards",
    "is_array_of_one",
    "is_more_than_memory",
    "is_mute",
    "is_number",
    "kind_of",
    "known",
    "name_of",
    "recognise",
    "target_of",
]

# Frameworks, the file here that knows each, the packages that its types are of, and how it is told
# what it can take: by the file's `demand`, or natively: the core knows it under the same name.
# None: it is not given tensors under its own name.
_FRAMEWORKS = (
    ("torch", "torch", ("torch",), "native"),
    ("numpy", "numpy", ("numpy",), "native"),
    ("jax", "jax", ("jax", "jaxlib"), "demand"),
    ("cupy", "cupy", ("cupy",), "demand"),
    ("tvm_ffi", "tvm_ffi", ("tvm_ffi",), "demand"),
    ("tensorflow", "tensorflow", ("tensorflow",), "demand"),
    ("paddle", "paddle", ("paddle",), "demand"),
    ("mlx", "mlx", ("mlx",), "demand"),
    ("warp", "warp", ("warp",), "demand"),
    ("hf_candle", "hf_candle", ("hf_candle",), "demand"),
    ("candle", "own", ("candle",), "native"),
    ("pyarrow", "arrow", ("pyarrow",), None),
    ("pandas", "pandas", ("pandas",), None),
    ("scipy", "sparse", ("scipy",), None),
    ("sparse", "sparse", ("sparse",), None),
)

_FILES = {name: file for name, file, _, _ in _FRAMEWORKS}
# Package of a type -> its framework.
_OF_PACKAGE = {package: name for name, _, packages, _ in _FRAMEWORKS for package in packages}
_DEMANDING = tuple(name for name, _, _, told in _FRAMEWORKS if told == "demand")

# Those whose tensors can be asked for by name.
TARGETS = tuple(name for name, _, _, told in _FRAMEWORKS if told is not None)

# Protocols instead of frameworks: the core knows what they can express.
_PROTOCOLS = ("dlpack", "dlpack_legacy")
_BY_ARROW = ("arrow", "pyarrow", "polars", "duckdb", "nanoarrow")  # all take `__arrow_c_array__`

# Whoever may be asked of what would happen on the way to them.
CONSUMERS = ("candle", "numpy", "torch", *_PROTOCOLS, *_DEMANDING, *_BY_ARROW)

# Their objects ask for what candle offers in Python, though of some nothing has to be known here.
passed_through.update((*_OF_PACKAGE, "arro3", "datasets", "duckdb", "nanoarrow", "polars"))


def _file(framework: str) -> FrameworkFile:
    """Import the file here that knows a framework."""
    module = f"{__name__}.{_FILES[framework]}"
    __import__(module)
    loaded: Any = sys.modules[module]
    file: FrameworkFile = loaded
    return file


def _root(base: type) -> str:
    """Give the package that a type is of."""
    package = package_of(base)
    # HuggingFace candle's types say that they are Python's own.
    if package == "builtins" and base.__name__ in ("Tensor", "QTensor"):
        return "hf_candle"
    return package


def recognise(cls: type) -> Record | None:
    """Say what is known of a type: the native core asks once for each it meets.

    A subclass that a user wrote counts as its framework's.
    """
    for base in cls.__mro__[:-1]:
        name = _OF_PACKAGE.get(_root(base))
        record = None if name is None else getattr(_file(name), "record", None)
        found: Record | None = None if record is None else record(cls, base)
        if found is not None:
            return found
    return None


def load_door(name: str) -> tuple[object, object, object, object]:
    """Import a framework.

    Its exchange table, its Demand, who tells of read-only copies, and who names its current stream
    where the table does not.
    """
    return _file(name).door()


def known() -> tuple[str, ...]:
    """Name the frameworks that candle can tell more of."""
    return (*TARGETS, "pyarrow")


def examples(name: str) -> dict[str, Any]:
    """Import a framework, and make tensors of it that differ in what consumers make of them."""
    return _file(name).examples()


def hazards(name: str, trial: Callable[[Callable[[], str]], str]) -> list[str]:
    """Try what the installed version of a framework gets wrong.

    Parameters
    ----------
    name : str
    trial : callable
        Calls a function in a process of its own: what it returned, or how it ended.
    """
    found: list[str] = getattr(_file(name), "hazards", lambda trial: [])(trial)
    return found


_found: dict[str, Target] = {}


def target_of(framework: object) -> Target:
    """Import a framework and say how it is given tensors.

    Parameters
    ----------
    framework
        Its name, or its module or one inside it.

    Raises
    ------
    ValueError
        For a framework that candle cannot give tensors to.
    ImportError
        Where it is not installed.
    """
    root = name_of(framework, TARGETS)
    found = _found.get(root)
    if found is None:
        found = _found[root] = _file(root).target()
    return found


def name_of(framework: object, choice: tuple[str, ...]) -> str:
    """Name a framework that was given by its name or its module, or by one inside it.

    Raises
    ------
    ValueError
        For one that is not among those that can be chosen.
    TypeError
        For what is neither a str nor a module.
    """
    name = framework if isinstance(framework, str) else None
    if isinstance(framework, type(sys)):
        name = getattr(framework, "__name__", None)
    if name is None:
        cls = type(framework).__name__
        raise TypeError(f"a framework is named by a str or its module, not by an object of {cls}")
    root = name.partition(".")[0].replace("-", "_")
    if root not in choice:
        raise ValueError(f"{name!r} is none of {', '.join(choice)}")
    return root


def dtype_for(name: str, dtype: DType) -> object:
    """Give a framework's own dtype for one of candle's; BufferError where it has none."""
    return _file(name).dtype_for(dtype)


def has_numbers(x: object) -> bool:
    """Tell an array or number of numpy's that candle has no dtype for from everything else."""
    from .numpy import has_numbers

    return has_numbers(x)


def kind_of(cls: type) -> str | None:
    """Name the framework that a type of tensors, or of a subclass of them, belongs to."""
    for base in cls.__mro__[:-1]:
        name = _OF_PACKAGE.get(_root(base))
        if name is not None:
            return name
    return None


def is_more_than_memory(cls: type) -> bool:
    """Tell whether objects of a type are more than tensors: a Series has labels, a DataArray names.

    So are those of libraries that candle does not know.
    """
    kind = kind_of(cls)
    return kind is None or getattr(_file(kind), "MORE_THAN_MEMORY", False)


def has_stand_in(cls: type) -> bool:
    """Tell whether candle takes, or refuses, objects of a type whatever protocols they have."""
    record = recognise(cls)
    return record is not None and record.kind == "stand_in"


def is_mute(cls: type) -> bool:
    """Tell whether a type is of tensors that no protocol hands on: HuggingFace candle's."""
    return hasattr(cls, "to_torch") and kind_of(cls) == "hf_candle"


def detacher(cls: type) -> Callable[[Any], Any] | None:
    """Give what takes tensors of a type out of autograd; None where they are never part of it."""
    kind = kind_of(cls)
    if kind in ("paddle", "torch") and kind in sys.modules:
        return _file(kind).detached
    return None


def is_number(cls: type) -> bool:
    """Tell whether objects of a type are one number with an array's protocols: numpy's scalars."""
    np = sys.modules.get("numpy")
    return np is not None and issubclass(cls, np.generic)


def work_stream(index: int) -> object:
    """Give the current stream of a CUDA device: torch's where torch uses CUDA, else cupy's.

    None where neither is loaded, and nothing is imported to find out.
    """
    for name in ("torch", "cupy"):
        if name in sys.modules:
            stream = _file(name).work_stream(index)
            if stream is not None:
                return stream
    return None


def is_array_of_one(cls: type) -> bool:
    """Tell whether objects of a type are what numpy gives in place of arrays without axes."""
    np = sys.modules.get("numpy")
    if np is None or not issubclass(cls, np.generic):
        return False
    return not issubclass(cls, np.flexible | np.object_ | np.datetime64 | np.timedelta64)


def door_of(name: str) -> str | _core.Demand:
    """Say what a consumer takes: its Demand, or the name that the native core knows it by."""
    if name in _BY_ARROW:
        return "arrow"
    return _file(name).demand() if name in _DEMANDING else name


def device_of(name: str) -> str | None:
    """Name the device to which a consumer takes the host's tensors; None where it leaves them."""
    if name not in _DEMANDING:
        return None
    device: str | None = getattr(_file(name), "DEVICE", None)
    return device


def owner(x: object) -> object:
    """Give what a framework's tensor says that its memory belongs to, or None."""
    for base in type(x).__mro__[:-1]:
        name = _OF_PACKAGE.get(_root(base))
        found = None if name is None else getattr(_file(name), "owner", None)
        if found is not None:
            belongs: object = found(x)
            return belongs
    return None


def _numpy_in(dtype: object) -> int:
    from .numpy import dtype_in

    return dtype_in(dtype)


def _numpy_out(number: int) -> object:
    from .numpy import dtype_out

    return dtype_out(number)


def _torch_writes(function: object) -> object:
    from .torch_writes import writes

    return writes(function)


_core.register(
    recognise=recognise,
    load_door=load_door,
    torch_writes=_torch_writes,
    work_stream=work_stream,
    numpy_in=_numpy_in,
    numpy_out=_numpy_out,
)
register_on_load()
