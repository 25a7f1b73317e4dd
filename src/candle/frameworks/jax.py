"""jax: its arrays are immutable, and it takes dense memory aligned to 64 bytes."""

from __future__ import annotations

import gc
import sys

from .._native import _core
from ..ledger import refuse
from ..naming import module_of
from .handout import Handout
from .record import Record
from .sparse import refuse_sparse
from .target import Target

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from .._native._core import Tensor

__all__ = ["demand", "examples", "give", "hazards", "record", "target"]

_DTYPES = (
    "bool",
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "bfloat16", "complex64", "complex128"),
    *("float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz"),
    *("float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"),
)
_WIDE = ("int64", "uint64", "float64", "complex128")


def _demand(narrows: tuple[str, ...]) -> _core.Demand:
    """Describe what jax takes. It never writes, so that read-only memory is shared with it."""
    return _core.Demand(
        "jax",
        dtypes=_DTYPES,
        narrows=narrows,
        dense=True,
        alignment=64,
        negative_strides=False,
        host_only=False,
        route="dlpack_legacy",
    )


_with_x64 = _demand(())
_without_x64 = _demand(_WIDE)


def _refuse_traced(x: object) -> NoReturn:
    """Refuse a tracer; jax's own message is longer than a screen."""
    fact = "the array stands in an array's place inside a transform (jit, vmap, grad)"
    refuse("dlpack_versioned", "traced", f"{fact}, and has no memory", type(x).__name__)


def _explain(x: Any) -> object:
    """Refuse deleted and distributed arrays; give integers below a byte as numpy's, in a copy.

    There is no other way out for those.
    """
    if x.is_deleted():
        refuse(
            "dlpack_versioned", "no_memory", "the array was deleted, or donated to jit", "jax.Array"
        )
    devices = x.sharding.num_devices
    if devices > 1:
        raise BufferError(
            f"the jax.Array lies on {devices} devices, and a Tensor on one; take its parts, which "
            "x.addressable_shards[i].data are, or all of it on one device: "
            "jax.device_put(x, jax.devices()[0])"
        )
    name = str(x.dtype)
    if name in ("int2", "uint2"):
        refuse("dlpack_versioned", "no_dtype", f"candle has no {name}", "jax.Array")
    if name not in ("int4", "uint4"):
        return None
    import numpy as np

    return np.asarray(x)


def record(cls: type, base: type) -> Record | None:
    """Read-only: a jax capsule is a legacy one and cannot say it."""
    if module_of(base).startswith("jax.experimental.sparse"):
        return Record("stand_in", stand_in=refuse_sparse)
    tracer = getattr(getattr(sys.modules.get("jax"), "core", None), "Tracer", ())
    if issubclass(cls, tracer):
        return Record("stand_in", stand_in=_refuse_traced)
    # -1 would go to the driver as it is, and None waits on the host.
    return Record("plain", read_only=True, explain=_explain, import_stream=1)


def demand() -> _core.Demand:
    """Say what jax takes as it is configured now."""
    import jax

    return _with_x64 if jax.config.jax_enable_x64 else _without_x64


def give(t: Tensor, copy: bool | None) -> Any:
    """Make a jax.Array over a tensor's memory, or of a copy where jax cannot take it."""
    import jax

    fit = _core.conform(t, demand(), copy)
    try:
        return jax.dlpack.from_dlpack(Handout(fit))
    except (RuntimeError, TypeError) as error:
        if t.device.on_host:
            raise
        remedy = "t.to('cpu') copies it to where jax is"
        raise BufferError(f"jax does not take memory on {t.device}: {error}; {remedy}") from error


def _share(t: Tensor) -> Any:
    return give(t, False)


def target() -> Target:
    """Import jax: one array is one block of memory there."""
    import jax

    return Target("jax", types=(jax.Array,), give=give, share=_share, views=False)


def examples() -> dict[str, Any]:
    """Make an array."""
    import jax

    return {"jax": jax.numpy.zeros((4, 6), "float32")}


def hazards(trial: object) -> list[str]:
    """Try what the installed jax does that surprises."""
    import jax

    found = []
    if not jax.config.jax_enable_x64:
        found.append(
            "jax has x64 off: 64-bit tensors are refused by candle, and made 32-bit by jax; "
            'jax.config.update("jax_enable_x64", True) allows them'
        )
        wide = _core.empty((8,), _core.asarray(0.0, dtype="float64").dtype.id)
        try:
            narrowed = jax.dlpack.from_dlpack(Handout(wide), copy=False).dtype != "float64"
        except (BufferError, RuntimeError, TypeError, ValueError):  # jax refuses, as it should
            narrowed = False
        if narrowed:
            found.append("jax.dlpack.from_dlpack(copy=False) narrows 64-bit elements, in a copy")
    if _keeps_what_it_exported():
        found.append(
            "jax lets the memory of an array that was handed on by DLPack go at its next "
            "computation or the next garbage collection, not when the last who has it is gone"
        )
    return found


def _keeps_what_it_exported() -> bool:
    before = _core.live()["exports"]
    array = give(_core.asarray([0.0] * 16, dtype="float32"), None)
    taken = _core.from_dlpack(array)
    del array, taken
    kept: bool = _core.live()["exports"] > before
    gc.collect(0)
    return kept
