"""HuggingFace datasets: the format "candle", whose batches share the memory of the Arrow table.

It is registered when datasets is loaded, by the function with which datasets registers its own
formats; it has no public one.
"""

from __future__ import annotations

from itertools import pairwise

from .._native import _core
from ..dtypes import as_dtype
from ..ledger import refuse, trying
from .python_values import DTYPES, tensors_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType
    from typing import Any

    from .._native._core import Tensor

__all__ = ["FormatName", "register"]


class FormatName(str):
    """The format's name, as a dataset keeps it.

    Unpickled it brings candle with it: a spawned worker of a DataLoader unpickles the dataset
    before anything else, and would not know the format.
    """

    __slots__ = ()


def register(module: ModuleType) -> None:
    """Make the format known to datasets; `module` is ``datasets.formatting``.

    Versions that do it otherwise are left alone: they say that they do not know the format.
    """
    known = getattr(module, "_register_formatter", None)
    base = getattr(module, "TensorFormatter", None)
    if known is not None and base is not None:
        known(
            type("CandleFormatter", (_Format, base), {"__module__": __name__}), FormatName("candle")
        )


def _kind(of: Any, times: bool) -> str:
    """Say what a column of an Arrow type becomes.

    ``"tensor"``: numbers, at any depth of lists. ``"parts"``: structs with such fields, at any
    depth. ``"objects"``: all others.
    """
    import pyarrow

    types = pyarrow.types
    while True:
        if isinstance(of, pyarrow.BaseExtensionType):
            of = of.storage_type
        elif types.is_list(of) or types.is_large_list(of) or types.is_fixed_size_list(of):
            of = of.value_type
        else:
            break
    if types.is_floating(of) or types.is_integer(of) or types.is_boolean(of):
        return "tensor"
    if types.is_struct(of):
        fields = (_kind(field.type, times) for field in of)
        return "objects" if all(kind == "objects" for kind in fields) else "parts"
    return "tensor" if times and types.is_temporal(of) else "objects"


def _bounds(chunk: Any) -> list[int]:
    """Say where the lists of an array begin in its values, and where the last one ends."""
    import pyarrow

    if not pyarrow.types.is_fixed_size_list(chunk.type):
        bounds: list[int] = _core.from_arrow(chunk.offsets).tolist()
        return bounds
    width = chunk.type.list_size
    return [(chunk.offset + row) * width for row in range(len(chunk) + 1)]


class _Format:
    """What is mixed into datasets' class of formatters."""

    # Those of datasets' class.
    features: Any
    python_features_decoder: Any

    def __init__(
        self,
        features: Any = None,
        token_per_repo_id: Any = None,
        *,
        dtype: object = None,
        device: object = None,
        copy: bool | None = None,
        nulls: object = "error",
        times: str = "objects",
    ) -> None:
        super().__init__(features, token_per_repo_id)  # type: ignore[call-arg]
        if isinstance(nulls, str) and nulls not in ("error", "objects"):
            raise ValueError(
                f'nulls is "error", "objects" or a number to fill in, not {nulls!r}; a mask is had '
                'of one column: candle.from_arrow(ds.with_format("arrow")[...]["x"], nulls="mask")'
            )
        if times not in ("objects", "integers"):
            raise ValueError(f'times is "objects" or "integers", not {times!r}')
        self._nulls = nulls
        self._times = times == "integers"
        self._asked = {
            "dtype": None if dtype is None else as_dtype(dtype),
            "device": device,
            "copy": copy,
        }
        self._options: dict[str, Any] = {
            **self._asked,
            "nulls": "error" if isinstance(nulls, str) else nulls,
            "times": "integers" if self._times else "error",
        }

    # What datasets calls.

    def format_row(self, pa_table: Any) -> dict[str, Any]:
        """Make a dict of the first row."""
        return {name: rows[0] for name, rows in self._columns(pa_table)}

    def format_column(self, pa_table: Any) -> Tensor | list[Any]:
        """Make one tensor of the first column, or a list of its rows where it cannot be one."""
        return next(self._columns(pa_table))[1]

    def format_batch(self, pa_table: Any) -> dict[str, Tensor | list[Any]]:
        """Make a dict of columns, each as `format_column` makes it."""
        return dict(self._columns(pa_table))

    def recursive_tensorize(self, data_struct: Any) -> Any:
        """Make tensors of Python values: of a dataset that has no Arrow table behind it."""
        return tensors_of(data_struct, self.features, self._asked)

    # Columns.

    def _columns(self, table: Any) -> Iterator[tuple[str, Tensor | list[Any]]]:
        for name, column in zip(table.column_names, table.columns, strict=True):
            yield name, self._column(name, column)

    def _column(self, name: str, column: Any) -> Tensor | list[Any]:
        feature: Any = self.features.get(name) if self.features else None
        # Array2D and so on: pyarrow is slow to make objects of their types.
        grid = hasattr(feature, "shape") and feature.dtype in DTYPES
        kind = "tensor" if grid else _kind(column.type, self._times)
        if kind == "objects" or (kind == "parts" and _decodes(feature)):
            return self._objects(name, column)
        try:
            return self._rows(column, kind)
        except BufferError as error:
            if _has_reason(error, "nulls") and self._nulls == "objects":
                return self._objects(name, column)
            remedy = (
                ': with_format("candle", nulls=0) fills nulls, nulls="objects" leaves columns that '
                "have some as Python objects, columns=[...] takes others"
            )
            error.add_note(
                f"column {name!r} of the dataset{remedy if _has_reason(error, 'nulls') else ''}"
            )
            raise

    def _objects(self, name: str, column: Any) -> list[Any]:
        values: list[Any] = column.to_pylist()
        if self.features and name in self.features:
            values = self.python_features_decoder.decode_column(values, name)
        return values

    def _rows(self, column: Any, kind: str) -> Tensor | list[Any]:
        """Give the rows of an array, chunked or not: in one block, if they can be that."""
        if kind == "objects":
            objects: list[Any] = column.to_pylist()
            return objects
        if kind == "tensor" and not (column.null_count and self._skips_nulls(column.type)):
            block = self._block(column)
            if block is not None:
                return block
        chunks = getattr(column, "chunks", None)
        if chunks is None:
            return self._split(column)
        if len(chunks) == 1:
            return self._split(chunks[0])
        rows: list[Any] = []
        for chunk in chunks:
            rows.extend(self._rows(chunk, kind))  # "+=" would be the tensor's
        return rows

    def _skips_nulls(self, of: Any) -> bool:
        """Tell whether a null row is None: a list of any length, where nulls are filled."""
        import pyarrow

        types = pyarrow.types
        if isinstance(of, pyarrow.BaseExtensionType):
            of = of.storage_type
        return self._nulls != "error" and (types.is_list(of) or types.is_large_list(of))

    def _block(self, column: Any) -> Tensor | None:
        """Make one tensor of a column of numbers; None where its lists differ in length."""
        try:
            with trying(any_refusal=True):
                block: Tensor = _core.from_arrow(column, **self._options)
        except BufferError as error:
            if _has_reason(error, "ragged"):
                return None
            raise
        shape = None if len(column) else getattr(column.type, "shape", None)
        if shape is not None and None not in shape:  # of Array2D and so on; no list says it then
            return block.reshape((0, *shape))
        return block

    def _split(self, chunk: Any) -> list[Any]:
        """Give the rows of an array of structs, or of lists that are not one block."""
        import pyarrow

        of = chunk.type
        if isinstance(of, pyarrow.BaseExtensionType):
            return self._split(chunk.storage)
        if pyarrow.types.is_struct(of):
            names = [field.name for field in of]
            fields = [
                self._rows(rows, _kind(field.type, self._times))
                for field, rows in zip(of, chunk.flatten(), strict=True)
            ]
            return [dict(zip(names, row, strict=True)) for row in zip(*fields, strict=True)]
        if chunk.null_count and isinstance(self._nulls, str):
            refuse("arrow_array", "nulls", f"{chunk.null_count} rows are null", "datasets")
        kind = _kind(of.value_type, self._times)
        bounds = _bounds(chunk)
        values = chunk.values
        within = values.slice(bounds[0], bounds[-1] - bounds[0])
        items = self._block(within) if kind == "tensor" else self._rows(within, kind)
        rows: list[Any] = []
        for begin, end in pairwise(bounds):
            if items is not None:
                rows.append(items[begin - bounds[0] : end - bounds[0]])
            else:  # each may be a block by itself
                rows.append(self._rows(values.slice(begin, end - begin), kind))
        if chunk.null_count:
            there = chunk.is_valid().to_pylist()
            rows = [row if valid else None for row, valid in zip(rows, there, strict=True)]
        return rows


def _decodes(feature: Any) -> bool:
    """Tell whether datasets makes objects of a column's values: images, say."""
    from datasets.features.features import require_decoding

    return feature is not None and bool(require_decoding(feature))


def _has_reason(error: BufferError, code: str) -> bool:
    plan = getattr(error, "plan", None)
    return plan is not None and any(reason.code == code for reason in plan.reasons)
