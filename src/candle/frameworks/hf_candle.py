"""HuggingFace candle (candle-nn): its tensors leave and enter it through files alone.

A memory file in the safetensors format is one: exact for every dtype that it has, and any shape.
"""

from __future__ import annotations

import os
import sys

from .._native import _core
from ..ledger import refuse
from ..naming import module_of
from .record import Record
from .target import Target

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .._native._core import Tensor

__all__ = ["demand", "examples", "give", "record", "target"]

# candle's name -> safetensors'
_NAMES = {
    "uint8": "U8",
    "uint32": "U32",
    "int64": "I64",
    "bfloat16": "BF16",
    "float16": "F16",
    "float32": "F32",
    "float64": "F64",
}
_BACK = {name: dtype for dtype, name in _NAMES.items()}
_NUMBERS = {row[0]: number for number, row in enumerate(_core.dtype_rows())}
_KEY = "t"

_demand = _core.Demand("hf_candle", dtypes=tuple(_NAMES), copies=True, route="buffer")


def _module() -> Any:
    """Find HuggingFace candle among what is loaded, under whatever name."""
    loaded = sys.modules.get("hf_candle")
    if loaded is None:
        for module in list(sys.modules.values()):
            names = getattr(module, "__dict__", {})  # others may import when they are asked
            tensor = names.get("Tensor")
            if isinstance(tensor, type) and _is_tensor(tensor) and "utils" in names:
                return module
    return loaded


def _is_tensor(cls: type) -> bool:
    return (module_of(cls), cls.__name__) == ("builtins", "Tensor") and all(
        hasattr(cls, name) for name in ("to_torch", "nelement", "values")
    )


def _memory_file() -> int:
    if not hasattr(os, "memfd_create"):
        raise OSError(
            "HuggingFace candle's tensors move through memory files (memfd_create), which this "
            "system has not: save and load a safetensors file instead"
        )
    return os.memfd_create("candle-hf", os.MFD_CLOEXEC)


def _taken(x: Any) -> Tensor:
    """Copy a tensor out of HuggingFace candle, by a memory file that is mapped."""
    import json
    import mmap

    if str(x.device) != "cpu":
        fact = f"the tensor is on {x.device}, and only what is on the CPU is copied out"
        refuse("buffer", "foreign_device", fact, "HuggingFace candle")
    file = _memory_file()
    try:
        _module().utils.save_safetensors(f"/proc/self/fd/{file}", {_KEY: x})
        memory = mmap.mmap(file, 0)
    finally:
        os.close(file)
    begin = 8 + int.from_bytes(memory[:8], "little")
    entry = json.loads(memory[8:begin])[_KEY]
    first, end = entry["data_offsets"]
    data = _core.asarray(memory)[begin + first : begin + end]
    return _core.of_bytes(data, entry["shape"], _NUMBERS[_BACK[entry["dtype"]]])


def _copied(x: Any) -> Tensor:
    return _core.quietly(_taken, x)


def _refuse_quantised(x: Any) -> object:
    fact = f"the tensor is quantised ({x.ggml_dtype}): its blocks are no numbers of a dtype"
    refuse("buffer", "quantised", fact, "HuggingFace candle")


def record(cls: type, base: type) -> Record | None:
    """Tensors as copies; quantised ones are refused."""
    if _is_tensor(base):
        return Record("stand_in", stand_in=_copied, copies=True)
    if base.__name__ == "QTensor" and hasattr(base, "ggml_dtype"):
        return Record("stand_in", stand_in=_refuse_quantised)
    return None


def demand() -> _core.Demand:
    """Say what HuggingFace candle takes."""
    return _demand


def _loaded() -> Any:
    module = _module()
    if module is None:
        raise ImportError(
            "HuggingFace candle is not loaded: candle.hf.load(folder), where it was installed by "
            "pip install --target folder candle-nn"
        )
    return module


def give(t: Tensor, copy: bool | None) -> Any:
    """Make a tensor of HuggingFace candle.

    Raises
    ------
    ImportError
        Where it is not loaded.
    """
    load = _loaded().utils.load_safetensors
    source = _core.conform(t, _demand, copy)
    file = _memory_file()
    try:
        _core.quietly(_write, file, source)
        made = load(f"/proc/self/fd/{file}")
    finally:
        os.close(file)
    return made[_KEY]


def _write(file: int, source: Tensor) -> None:
    """Write a file of one tensor, its elements in row-major order."""
    import json
    import mmap

    entry = {
        "dtype": _NAMES[source.dtype.name],
        "shape": list(source.shape),
        "data_offsets": [0, source.nbytes],
    }
    header = json.dumps({_KEY: entry}, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 64 + 56)  # so that the elements begin at a multiple of 64
    os.write(file, len(header).to_bytes(8, "little") + header)
    if source.nbytes:
        begin = 8 + len(header)
        os.posix_fallocate(file, 0, begin + source.nbytes)
        data = _core.asarray(mmap.mmap(file, 0))[begin:]
        _core.copy_into(_core.of_bytes(data, source.shape, source.dtype.id), source)


def _share(t: Tensor) -> Any:
    return give(t, False)


def target() -> Target:
    """Find HuggingFace candle, which is loaded by `candle.hf.load` alone."""
    return Target(
        "hf_candle",
        types=(_loaded().Tensor,),
        give=give,
        share=_share,
        demand=_demand,
        views=False,
        devices=False,
    )


def examples() -> dict[str, Any]:
    """Make a tensor."""
    return {"hf_candle": _loaded().zeros((4, 6))}
