"""Tensor's named ways out, which know their consumer."""

from __future__ import annotations

from ._native._core import Tensor
from .attaching import attach

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class _Doors(Tensor):
    """Beside numpy(), torch() and to_torch(), which are native."""

    def cupy(self, *, copy: bool | None = None) -> Any:
        """Give a cupy.ndarray over the same memory on a CUDA device.

        Memory of the host is copied to cupy's current device with ``copy=None``. cupy has no
        read-only arrays: read-only memory is copied with ``copy=None``, and shared with
        ``copy=False`` on the caller's word that nothing is written. A dtype that cupy lacks is a
        BufferError. cupy's current stream is made to wait for what may be pending.
        """
        from .frameworks.cupy import give

        return give(self, copy)

    def jax(self, *, copy: bool | None = None) -> Any:
        """Give a jax.Array over the same memory.

        jax takes dense memory aligned to 64 bytes, and without x64 no 64-bit dtypes: the former is
        copied with ``copy=None``,
        the latter is a BufferError. jax never writes, so that read-only memory is shared.
        """
        from .frameworks.jax import give

        return give(self, copy)

    def arrow(
        self, *, layout: str = "tensor", type: object = None, copy: bool | None = None
    ) -> Any:
        """Give a pyarrow.Array over the same memory: a row for each index of the first axis.

        One axis becomes an array of numbers. More become a FixedShapeTensorArray, which keeps the
        shape of the rows and the order in which their axes lie. Rows that have gaps between them,
        or within, are copied with ``copy=None``. Booleans are copied to Arrow's bits;
        ``type=pyarrow.bool8()`` shares them. bfloat16, the 8-bit floats and complex numbers have no
        type in Arrow, and become pyarrow's OpaqueArray over the same bytes; `candle.from_arrow`
        knows them again.

        Parameters
        ----------
        layout : str
            ``"tensor"``, or ``"list"`` for nested lists of fixed size.
        type : optional
            An Arrow type: lists of fixed size, joined or not; an extension; other numbers, if
            they hold the values: a BufferError else. What has ``__arrow_c_schema__``.
        copy : bool, optional
            None: share, else copy. False: share or raise CopyError. True: always copy.

        Notes
        -----
        Other libraries take a tensor as it is: ``polars.Series(t)``, ``nanoarrow.Array(t)``, a
        DuckDB query. They need no pyarrow.
        """
        from .frameworks.arrow import give

        return give(self, layout, type, copy)

    def to_hf_candle(self, *, copy: bool | None = None) -> Any:
        """Give a tensor of HuggingFace candle (candle-nn), which `candle.hf.load` has loaded.

        A copy, exact, of any layout and number of axes. ``copy=False`` is a CopyError. BufferError
        for dtypes other than uint8, uint32, int64, bfloat16, float16, float32 and float64.
        """
        from .frameworks.hf_candle import give

        return give(self, copy)

    def __tf_tensor__(self, dtype: Any = None, name: str | None = None) -> Any:
        """Give a tensorflow tensor: what tensorflow's functions ask their arguments for.

        Shares memory in row-major order at a multiple of 64 bytes, read-only memory too, because
        tensorflow never writes; copies else. ValueError where another dtype is wanted.
        """
        from .frameworks.tensorflow import made_of

        return made_of(self, dtype)


attach(_Doors)
