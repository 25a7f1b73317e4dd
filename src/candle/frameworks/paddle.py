"""paddle: no read-only tensors, no use for uint16, and a table that looks at no gradients."""

from __future__ import annotations

from .._native import _core
from ..ledger import refuse
from .handout import capsule_target
from .record import Record
from .target import demands_of_writers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .target import Target

__all__ = ["demand", "detached", "examples", "hazards", "record", "target"]

# It computes nothing with uint16, and calls bfloat16 so on the way through numpy and files.
_DTYPES = (
    "bool",
    *("int8", "int16", "int32", "int64", "uint8", "uint32", "uint64"),
    *("float16", "float32", "float64", "bfloat16", "complex64", "complex128"),
    *("float8_e4m3fn", "float8_e5m2"),
)


_demand, _on_your_word = demands_of_writers(
    "paddle", dtypes=_DTYPES, axes=(0, 9), route="dlpack_legacy"
)


def _plain(x: Any) -> object:
    """Give the tensor itself; refuse what is no plain memory, which it exports as if it were."""
    if not x.stop_gradient:
        fact = "the tensor requires grad (stop_gradient is False), and candle records no gradients"
        refuse("dlpack_versioned", "requires_grad", fact, "paddle.Tensor")
    if not hasattr(x, "is_sparse"):
        fact = "the variable stands in a tensor's place in a static graph, and has no memory"
        refuse("dlpack_versioned", "traced", fact, type(x).__name__)
    if x.is_sparse():
        refuse("dlpack_versioned", "sparse", "only some elements have memory", "paddle.Tensor")
    return x


def record(cls: type, base: type) -> Record | None:
    """Tensors and parameters, after a look at what their export leaves out."""
    return Record("stand_in", stand_in=_plain) if hasattr(cls, "stop_gradient") else None


def demand() -> _core.Demand:
    """Say what paddle takes."""
    return _demand


def detached(x: Any) -> Any:
    """Give a tensor that is no part of autograd: the tensor itself where it is none."""
    return x if getattr(x, "stop_gradient", True) else x.detach()


def target() -> Target:
    """Import paddle; read-only memory is copied, or shared on the caller's word."""
    import paddle

    return capsule_target(
        "paddle", (paddle.Tensor,), paddle.from_dlpack, _demand, _on_your_word, read_only=False
    )


def examples() -> dict[str, Any]:
    """Make a tensor, and one that requires grad."""
    import paddle

    needs = paddle.zeros([4, 6])
    needs.stop_gradient = False
    return {"paddle": paddle.zeros([4, 6]), "paddle, requires grad": needs}


def hazards(trial: object) -> list[str]:
    """Try what the installed paddle gets wrong."""
    import paddle

    found = []
    t = _core.asarray([1, 2], dtype="uint16")
    if paddle.to_tensor(t.numpy()).dtype == paddle.bfloat16:
        found.append("paddle makes bfloat16 of numpy's uint16; candle refuses to give it uint16")
    t = _core.asarray(bytes(8))
    if paddle.from_dlpack(t).data_ptr() == t.data_ptr():
        found.append("paddle.from_dlpack ignores READ_ONLY: what it gives can be written")
    return found
