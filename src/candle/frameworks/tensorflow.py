"""tensorflow: its tensors are immutable, in row-major order, and at multiples of 64 bytes."""

from __future__ import annotations

from .._native import _core
from ..ledger import refuse
from .handout import Handout, capsule_target
from .record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .._native._core import Tensor
    from .target import Target

__all__ = ["demand", "examples", "hazards", "made_of", "record", "target"]

_DTYPES = (
    "bool",
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "bfloat16", "complex64", "complex128"),
)

# It never writes, so that read-only memory is shared with it. Operations on a tensor that is not
# aligned end the process.
_demand = _core.Demand(
    "tensorflow",
    dtypes=_DTYPES,
    c_order=True,
    alignment=64,
    negative_strides=False,
    route="dlpack_legacy",
)


def _stand_in(x: Any) -> object:
    """Give the tensor itself, or a copy where its DLPack lacks the dtype.

    Exporting one of strings would end the process.
    """
    name = getattr(getattr(x, "dtype", None), "name", "")
    if name in ("string", "resource", "variant"):
        fact = f"a tensorflow tensor of {name} has no numbers"
        refuse("dlpack_legacy", "text", fact, type(x).__name__)
    if name.startswith(("qint", "quint")):
        fact = f"the tensor is quantised ({name}): its integers mean nothing without their scale"
        refuse("dlpack_legacy", "quantised", fact, type(x).__name__)
    if type(x).__name__ in ("IndexedSlices", "SparseTensor"):
        refuse("dlpack_legacy", "sparse", "only some elements have memory", type(x).__name__)
    if type(x).__name__ == "SymbolicTensor":
        fact = "the tensor stands in a tensor's place inside a tf.function, and has no memory"
        refuse("dlpack_legacy", "traced", fact, type(x).__name__)
    if name and name not in _DTYPES and hasattr(x, "numpy"):
        return _core.quietly(_core.asarray, x.numpy())
    return x


def _explain(x: Any) -> None:
    """Refuse memory of a device by name: its `__dlpack__` takes no stream, not even -1."""
    kind, number = x.__dlpack_device__()
    if kind != 1:
        fact = (
            f"the tensor is on {x.device or f'DLPack device ({kind}, {number})'}, and tensorflow "
            "tells nobody which of its work there is still queued"
        )
        refuse("dlpack_legacy", "foreign_device", fact, type(x).__name__)


def record(cls: type, base: type) -> Record | None:
    """Read-only, after a look at the dtype."""
    return Record("stand_in", read_only=True, stand_in=_stand_in, copies=True, explain=_explain)


def demand() -> _core.Demand:
    """Say what tensorflow takes."""
    return _demand


def _take(handout: Handout) -> Any:
    import tensorflow as tf

    return tf.experimental.dlpack.from_dlpack(handout.__dlpack__())


def target() -> Target:
    """Import tensorflow: read-only memory is shared, on the host alone."""
    import tensorflow as tf

    return capsule_target("tensorflow", (tf.Tensor,), _take, _demand, views=False, devices=False)


def made_of(t: Tensor, dtype: Any) -> Any:
    """Give what tensorflow asks a Tensor for, in `__tf_tensor__`.

    Raises
    ------
    ValueError
        If another dtype is wanted: tensorflow does not convert tensors unasked either. Or if it has
        none for the elements.
    """
    import tensorflow as tf

    name = t.dtype.name
    if dtype is not None and tf.as_dtype(dtype).base_dtype.name != name:
        raise ValueError(f"a tensor of {tf.as_dtype(dtype).name} is wanted, and this is of {name}")
    if name not in _DTYPES:
        try:
            return tf.constant(t.numpy())  # by way of numpy, which copies
        except ValueError:
            raise ValueError(
                f'tensorflow has no {name}: convert first, t.to("float32") or the like'
            ) from None
    return _take(Handout(_core.conform(t, _demand, None)))


def examples() -> dict[str, Any]:
    """Make a tensor."""
    import tensorflow as tf

    return {"tensorflow": tf.zeros((4, 6))}


def hazards(trial: Callable[[Callable[[], str]], str]) -> list[str]:
    """Try what the installed tensorflow gets wrong; `trial` is for what may end the process."""
    import tensorflow as tf

    def misaligned() -> str:
        t = _core.empty((65,), _core.asarray(0.0).dtype.id)[1:]
        tf.abs(tf.experimental.dlpack.from_dlpack(t.__dlpack__()))
        return ""

    said = trial(misaligned)
    if said.startswith("killed"):
        return [
            "an operation on what tf.experimental.dlpack.from_dlpack made of memory that is not at "
            f"a multiple of 64 bytes ends the process ({said}): tf.convert_to_tensor(t) and "
            'candle.convert(t, "tensorflow") copy it'
        ]
    return []
