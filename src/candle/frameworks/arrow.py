"""pyarrow: immutable; its columns come in and go out natively, by Arrow's own protocol."""

from __future__ import annotations

from .._native import _core
from .record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .._native._core import Tensor

__all__ = ["examples", "give", "hazards", "record"]


def record(cls: type, base: type) -> Record:
    """Everything comes in read-only: what has no Arrow protocol too (pyarrow.Tensor)."""
    return Record("plain", read_only=True)


class _Handout:
    """What pyarrow is given: the capsules of one array."""

    __slots__ = ("_capsules",)

    def __init__(self, capsules: tuple[object, object]) -> None:
        self._capsules = capsules

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        return self._capsules


def give(t: Tensor, layout: str, wanted: Any, copy: bool | None) -> Any:
    """Make a pyarrow.Array over a tensor's rows, or of a copy where Arrow cannot take them."""
    import pyarrow

    if layout not in ("tensor", "list"):
        raise ValueError(f'layout is "tensor" or "list", not {layout!r}')
    if wanted is not None and not hasattr(wanted, "__arrow_c_schema__"):
        raise TypeError(f"type is an Arrow type, not {wanted!r}")
    requested = None if wanted is None else wanted.__arrow_c_schema__()
    return pyarrow.array(_Handout(_core.arrow_capsules(t, requested, layout == "list", copy)))


def hazards(trial: object) -> list[str]:
    """Try what the installed pyarrow gets wrong."""
    import pyarrow

    kind = pyarrow.fixed_shape_tensor(pyarrow.int8(), [2, 3, 4], permutation=[2, 0, 1])
    storage = pyarrow.array([range(24)], pyarrow.list_(pyarrow.int8(), 24))
    x = pyarrow.ExtensionArray.from_storage(kind, storage)
    expected = _core.from_arrow(x)
    if expected.tolist() == x.to_numpy_ndarray().tolist():
        return []
    return [
        "pyarrow reads fixed_shape_tensor's permutation the wrong way round where it is not its "
        "own inverse, and writes it so too: candle copies such layouts on the way to Arrow"
    ]


def examples() -> dict[str, Any]:
    """Make an array."""
    import pyarrow

    return {"pyarrow": pyarrow.array([0.0] * 24, pyarrow.float32())}
