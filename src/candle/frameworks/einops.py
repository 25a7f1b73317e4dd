"""einops: what it needs to know to take Tensors; it has no tensors of its own."""

from __future__ import annotations

from .._native import _core

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .._native._core import Tensor

__all__ = ["backend"]


def backend(base: type) -> type:
    """Make einops' backend of its abstract one; it finds the backends among the subclasses.

    Views share memory. Reductions are Tensor's; concatenation, tiling and einsum are numpy's
    functions of Tensors: what they add up in bfloat16 and smaller floats is computed in float32.
    """

    class CandleBackend(base):  # type: ignore[misc]
        framework_name = "candle"

        def is_appropriate_type(self, tensor: object) -> bool:
            return isinstance(tensor, _core.Tensor)

        def from_numpy(self, x: Any) -> Tensor:
            return _core.asarray(x)

        def to_numpy(self, x: Tensor) -> Any:
            return x.numpy()

        def arange(self, start: int, stop: int) -> Tensor:
            return _core.asarray(range(start, stop))

        def transpose(self, x: Tensor, axes: Any) -> Tensor:
            return x.permute(*axes)

        def reduce(self, x: Tensor, operation: str, axes: Any) -> Tensor:
            reduced: Tensor = getattr(x, operation)(axis=tuple(axes))
            return reduced

        def stack_on_zeroth_dimension(self, tensors: list[Tensor]) -> Tensor:
            return _core.asarray(tensors)

        def add_axis(self, x: Tensor, new_position: int) -> Tensor:
            return x.unsqueeze(new_position)

        def tile(self, x: Tensor, repeats: tuple[int, ...]) -> Tensor:
            # einops repeats only axes of extent 1, which it has added; others would be refused.
            return x.broadcast_to([e * n for e, n in zip(x.shape, repeats, strict=True)])

        def concat(self, tensors: list[Tensor], axis: int) -> Tensor:
            import numpy as np

            return _core.asarray(np.concatenate(tensors, axis=axis))

        def is_float_type(self, x: Tensor) -> bool:
            return x.dtype.kind in ("real", "complex")

        def einsum(self, pattern: str, *tensors: Tensor) -> Tensor:
            import numpy as np

            return _core.asarray(np.einsum(pattern, *tensors))

    return CandleBackend
