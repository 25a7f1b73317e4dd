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
from .arrival import when_loaded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

    from ..dtypes import DType
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

# First part of a type's module -> the file here that knows it.
_FILES = {
    "candle": "own",
    "cupy": "cupy",
    "hf_candle": "hf_candle",
    "jax": "jax",
    "jaxlib": "jax",
    "mlx": "mlx",
    "numpy": "numpy",
    "paddle": "paddle",
    "pandas": "pandas",
    "pyarrow": "arrow",
    "scipy": "sparse",
    "sparse": "sparse",
    "tensorflow": "tensorflow",
    "torch": "torch",
}


# With them those that are Python and ask for what candle offers, though nothing has to be known of
# them.
passed_through.update((*_FILES, "arro3", "datasets", "duckdb", "nanoarrow", "polars"))

# Those whose tensors can be asked for by name -> the file here that gives them.
_TARGETS = {
    "torch": "torch",
    "numpy": "numpy",
    "jax": "jax",
    "cupy": "cupy",
    "tvm_ffi": "tvm_ffi",
    "tensorflow": "tensorflow",
    "paddle": "paddle",
    "mlx": "mlx",
    "warp": "warp",
    "hf_candle": "hf_candle",
    "candle": "own",
}


def _file(name: str) -> object:
    module = f"{__name__}.{name}"
    __import__(module)
    return sys.modules[module]


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
        name = _FILES.get(_root(base))
        if name is not None:
            record: Record | None = _file(name).record(cls, base)  # type: ignore[attr-defined]
            if record is not None:
                return record
    return None


def load_door(name: str) -> tuple[object, object, object, object]:
    """Import a framework.

    Its exchange table, its Demand, who tells of read-only copies, and who names its current stream
    where the table does not.
    """
    door: tuple[object, object, object, object] = _file(name).door()  # type: ignore[attr-defined]
    return door


TARGETS = tuple(_TARGETS)

# Those whose file says what they take; of others it is the native core that knows.
_DEMANDS = ("jax", "cupy", "tvm_ffi", "tensorflow", "paddle", "mlx", "warp", "hf_candle")
_NATIVE = ("numpy", "torch", "dlpack", "dlpack_legacy")
_ARROW = ("arrow", "pyarrow", "polars", "duckdb", "nanoarrow")  # all take `__arrow_c_array__`

# Whoever may be asked of what would happen on the way to them.
CONSUMERS = ("candle", *_NATIVE, *_DEMANDS, *_ARROW)

# Where each framework's examples and hazards are told of.
_TOLD = {**_TARGETS, "pyarrow": "arrow"}


def known() -> tuple[str, ...]:
    """Name the frameworks that candle can tell more of, candle last."""
    return tuple(_TOLD)


def examples(name: str) -> dict[str, Any]:
    """Import a framework, and make tensors of it that differ in what consumers make of them."""
    made: dict[str, Any] = _file(_TOLD[name]).examples()  # type: ignore[attr-defined]
    return made


def hazards(name: str, trial: Callable[[Callable[[], str]], str]) -> list[str]:
    """Try what the installed version of a framework gets wrong.

    Parameters
    ----------
    name : str
    trial : callable
        Calls a function in a process of its own: what it returned, or how it ended.
    """
    found: list[str] = getattr(_file(_TOLD[name]), "hazards", lambda trial: [])(trial)
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
        found = _found[root] = _file(_TARGETS[root]).target()  # type: ignore[attr-defined]
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
    found: object = _file(_TARGETS[name]).dtype_for(dtype)  # type: ignore[attr-defined]
    return found


def has_numbers(x: object) -> bool:
    """Tell an array or number of numpy's that candle has no dtype for from everything else."""
    return bool(_file("numpy").has_numbers(x))  # type: ignore[attr-defined]


def kind_of(cls: type) -> str | None:
    """Name the framework that a type of tensors, or of a subclass of them, belongs to."""
    for base in cls.__mro__[:-1]:
        root = _root(base)
        if root in _FILES or root in _TARGETS:
            return {"jaxlib": "jax"}.get(root, root)
    return None


def is_more_than_memory(cls: type) -> bool:
    """Tell whether objects of a type are more than tensors: a Series has labels, a DataArray names.

    So are those of libraries that candle does not know.
    """
    kind = kind_of(cls)
    if kind is None:
        return True
    name = _FILES.get(kind)
    return name is not None and getattr(_file(name), "MORE_THAN_MEMORY", False)


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
        detached: Callable[[Any], Any] = _file(kind).detached  # type: ignore[attr-defined]
        return detached
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
            stream: object = _file(name).work_stream(index)  # type: ignore[attr-defined]
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
    if name in _ARROW:
        return "arrow"
    if name in _NATIVE:
        return name
    takes: _core.Demand = _file(name).demand()  # type: ignore[attr-defined]
    return takes


def device_of(name: str) -> str | None:
    """Name the device to which a consumer takes the host's tensors; None where it leaves them."""
    if name not in _DEMANDS:
        return None
    device: str | None = getattr(_file(name), "DEVICE", None)
    return device


def owner(x: object) -> object:
    """Give what a framework's tensor says that its memory belongs to, or None."""
    for base in type(x).__mro__[:-1]:
        name = _FILES.get(_root(base))
        found = None if name is None else getattr(_file(name), "owner", None)
        if found is not None:
            belongs: object = found(x)
            return belongs
    return None


def _numpy_in(dtype: object) -> int:
    number: int = _file("numpy").dtype_in(dtype)  # type: ignore[attr-defined]
    return number


def _numpy_out(number: int) -> object:
    return _file("numpy").dtype_out(number)  # type: ignore[attr-defined]


_core.register(
    recognise=recognise,
    load_door=load_door,
    work_stream=work_stream,
    numpy_in=_numpy_in,
    numpy_out=_numpy_out,
)


def _collate(batch: Any, **options: Any) -> Any:
    made: Any = _file("torch").collated(batch, **options)  # type: ignore[attr-defined]
    return made


def _teach_collate(module: ModuleType) -> None:
    """Tell torch's DataLoader how samples that are Tensors make a batch: in every process alike."""
    functions = getattr(module, "default_collate_fn_map", None)
    if isinstance(functions, dict):
        functions[_core.Tensor] = _collate


def _teach_einops(module: ModuleType) -> None:
    """Add candle to the kinds of tensors that einops knows."""
    base = getattr(module, "AbstractBackend", None)
    if isinstance(base, type):
        # It looks among the subclasses, which nothing else keeps.
        module.CandleBackend = _file("einops").backend(base)  # type: ignore[attr-defined]


when_loaded("einops._backends", _teach_einops)
when_loaded("torch.utils.data._utils.collate", _teach_collate)


def _teach_format(module: ModuleType) -> None:
    """Tell HuggingFace datasets of the format "candle"."""
    _file("datasets").register(module)  # type: ignore[attr-defined]


when_loaded("datasets.formatting", _teach_format)
