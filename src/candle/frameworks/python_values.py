"""Tensors of the Python values of a dataset's examples, and what is none left as it is."""

from __future__ import annotations

import sys

from .._native import _core
from ..dtypes import as_dtype
from ..ledger import refuse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeGuard

__all__ = ["DTYPES", "tensors_of"]

_INTEGERS = (f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))
DTYPES = frozenset(("bool", "float16", "float32", "float64", *_INTEGERS))
_NUMBERS = frozenset((bool, int, float, complex))


def _inner(feature: Any) -> Any:
    """Give what a feature of datasets has below its lists; None where it is not known."""
    while True:
        if isinstance(feature, list):
            feature = feature[0]
        elif hasattr(feature, "feature"):  # List, LargeList
            feature = feature.feature
        else:
            return feature


def tensors_of(value: Any, feature: Any, asked: dict[str, Any]) -> Any:
    """Make tensors of numbers, of sequences of them and of arrays, at any depth of dicts and lists.

    Parameters
    ----------
    value
        An example, a batch (a dict of lists), or a part of one.
    feature
        What datasets says of it, if it does: numbers get its dtype, which else is that of
        `asarray`.
    asked : dict
        `dtype`, `device` and `copy`, as for `asarray`.
    """
    feature = _inner(feature)
    if isinstance(value, dict):
        fields = feature if isinstance(feature, dict) else {}
        return {name: tensors_of(item, fields.get(name), asked) for name, item in value.items()}
    if isinstance(feature, dict):
        return [tensors_of(item, feature, asked) for item in value] if _is_list(value) else value
    if feature is None:
        return _made(value, asked, False)
    dtype = getattr(feature, "dtype", None)
    if dtype not in DTYPES:
        return value
    return _made(value, {**asked, "dtype": asked["dtype"] or as_dtype(dtype)}, True)


def _is_list(value: object) -> TypeGuard[list[Any] | tuple[Any, ...]]:
    return isinstance(value, list | tuple)


def _is_array(value: Any) -> bool:
    """Tell whether a value is a framework's tensor; of numbers, if it is an ndarray."""
    if not hasattr(type(value), "__dlpack__"):
        return False
    numpy = sys.modules.get("numpy")
    if numpy is None or not isinstance(value, numpy.ndarray):
        return True
    return value.dtype.names is None and value.dtype.kind not in "OSUMm"


def _is_number(value: object) -> bool:
    numpy = sys.modules.get("numpy")
    return type(value) in _NUMBERS or (
        numpy is not None and isinstance(value, numpy.number | numpy.bool_)
    )


def _made(value: Any, asked: dict[str, Any], of_numbers: bool) -> Any:
    """Make a tensor of a value; where `of_numbers`, it cannot be anything else."""
    if isinstance(value, _core.Tensor):
        return value
    if _is_number(value) or _is_array(value):
        return _core.asarray(value, **asked)
    if isinstance(value, dict):
        return tensors_of(value, None, asked)
    if value is None and of_numbers:
        _refuse_null()
    if not _is_list(value):
        return value
    if all(map(_is_number, value)):
        return _core.asarray(list(value), **asked)
    made = [_made(item, asked, of_numbers) for item in value]
    tensors = [item for item in made if isinstance(item, _core.Tensor)]
    if len(tensors) < len(made):
        if tensors and None in [item for item in made if not isinstance(item, _core.Tensor)]:
            _refuse_null()
        return made
    alike = {(t.shape, t.dtype, t.device) for t in tensors}
    return _core.asarray(tensors) if len(alike) == 1 else tensors


def _refuse_null() -> None:
    refuse("sequence", "nulls", "a value among numbers is None", "datasets")
