"""The standard's functions, called in the library that the memory is with."""

from __future__ import annotations

from ._native import _core
from .dtypes import DType, as_dtype, float32, int64, uint64
from .engines import engine_for, host, tensors_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from .devices import Device
    from .engines import Engine

__all__ = ["called", "delegate", "like_neighbours", "number_like", "takes_numbers"]

# Functions that are computed in float32 for bfloat16 and narrower, by the standard's names and by
# numpy's. Those that add or multiply many elements up: a sum soon is too large for the next element
# to change it (1 + ... + 1 ends at 256), and ml_dtypes has no sums in float32, as numpy has for its
# float16. Those that sort: ml_dtypes' order is none where there is a NaN.
_WIDENED = {
    *("sum", "prod", "mean", "std", "var", "cumulative_sum", "cumulative_prod"),
    *("matmul", "tensordot", "vecdot", "matvec", "vecmat", "dot", "inner", "vdot", "einsum"),
    *("average", "trace", "cumprod", "cumsum", "nancumprod", "nancumsum"),
    *("nanmean", "nanprod", "nanstd", "nansum", "nanvar"),
    *("sort", "argsort", "lexsort", "partition", "argpartition", "searchsorted", "digitize"),
    *("median", "percentile", "quantile", "nanmedian", "nanpercentile", "nanquantile"),
    *("unique", "unique_all", "unique_counts", "unique_inverse", "unique_values"),
    *("isin", "intersect1d", "setdiff1d", "setxor1d", "union1d"),
    "clip",  # which ml_dtypes has not
}
_WIDENED_PARTS = ("linalg.", "fft.")
_KINDS = ("bool", "uint", "int", "real", "complex")  # each takes those before it
_WIDE = {"real": float32, "int": int64, "uint": uint64}


def delegate(name: str, part: str = "") -> Callable[..., Any]:
    """Make one of the standard's functions, which is looked up when it is first called.

    Parameters
    ----------
    name : str
    part : str
        The extension it is of: ``"linalg"`` or ``"fft"``.
    """
    shown = f"{part}.{name}" if part else name

    def function(*arguments: Any, **keywords: Any) -> Any:
        engine = engine_for(*arguments, *keywords.values())
        found = engine.standard(name, part)
        if keywords.get("dtype") is not None:
            keywords["dtype"] = as_dtype(keywords["dtype"])
        if engine is host and takes_numbers(found):
            return called(engine, found, shown, like_neighbours(arguments), keywords)
        return called(engine, found, shown, arguments, keywords)

    return function


def called(
    engine: Engine, function: Any, name: str, arguments: Sequence[Any], keywords: dict[str, Any]
) -> Any:
    """Call one of an engine's functions, and give tensors for its results.

    Parameters
    ----------
    engine : Engine
    function : callable
    name : str
        What it is called in the standard or in numpy, below the library's own name.
    arguments, keywords
        What the caller gave. What ``out=`` names is written to, and is the result.
    """
    out = keywords.get("out")
    rounded = None
    if engine is host and (name in _WIDENED or name.startswith(_WIDENED_PARTS)):
        if _is_narrow(out):
            keywords = {key: value for key, value in keywords.items() if key != "out"}
            return _written(out, called(engine, function, name, arguments, keywords))
        arguments, keywords, rounded = _widened(arguments, keywords)
    place = engine.place(*arguments, *keywords.values())
    with engine.on(place):
        given = [engine.unwrapped(x, place) for x in arguments]
        named = {k: engine.unwrapped(x, place) for k, x in keywords.items() if k != "out"}
        written: dict[int, Any] = {}
        if out is not None:
            if engine is not host:
                _check_out(out, place)
            if not engine.writes_out:
                return _written(out, engine.wrapped(function(*given, **named)), cast="same kind")
            named["out"] = engine.destinations(out, written)
        found = engine.wrapped(function(*given, **named), written)
    return found if rounded is None else _rounded(found, rounded)


def _check_out(out: Any, place: Device | None) -> None:
    for t in out if isinstance(out, tuple) else (out,):
        if not isinstance(t, _core.Tensor):
            raise TypeError(f"out= is a Tensor on {place}, where the operands are, not {type(t)}")
        if t.device is not place:
            raise ValueError(f"out= is on {t.device}, and the operands are on {place}")


def _is_narrow(out: Any) -> bool:
    """Tell a tensor, or a tuple of one, of a dtype of floats that numpy has not."""
    [t] = out if isinstance(out, tuple) and len(out) == 1 else [out]
    return isinstance(t, _core.Tensor) and t.dtype.kind == "real" and not t.dtype.typestr


def _written(out: Any, found: Any, cast: str = "any") -> Any:
    places: list[Any] = list(out) if isinstance(out, tuple) else [out]
    if isinstance(found, tuple):
        return tuple([_written(t, x, cast) for t, x in zip(places, found, strict=True)])
    [t] = places
    if t.shape != found.shape:
        raise ValueError(f"out= has the shape {t.shape}, and the result {found.shape}")
    if cast != "any" and _KINDS.index(t.dtype.kind) < _KINDS.index(found.dtype.kind):
        raise TypeError(f"out= is {t.dtype}, which does not take the result's {found.dtype}")
    _core.assign(t, found)
    return t


def takes_numbers(function: Any) -> bool:
    """Tell numpy's functions whose arguments are all operands, numbers among them."""
    return type(function).__name__ == "ufunc" or function.__name__ == "where"


def like_neighbours(arguments: Sequence[Any]) -> Sequence[Any]:
    """Give Python's numbers the dtype of the tensors beside them, where numpy has not the dtype.

    numpy does so for the dtypes it has itself. A float beside integers stays what it is.
    """
    dtypes = {t.dtype for t in tensors_in(arguments) if t.dtype.kind != "bool"}
    if len(dtypes) != 1:
        return arguments
    [dtype] = dtypes
    return arguments if dtype.typestr else [number_like(x, dtype) for x in arguments]


def number_like(x: Any, dtype: DType) -> Any:
    """Give a Python number as a tensor of a dtype that numpy has not; anything else as it is."""
    kind = type(x)
    if (kind is float and dtype.kind == "real") or (kind is int and dtype.kind in _WIDE):
        return _core.asarray(x, dtype=dtype)
    return x


def _widened(
    arguments: Sequence[Any], keywords: dict[str, Any]
) -> tuple[Sequence[Any], dict[str, Any], DType | None]:
    """Give wider tensors for those of dtypes that numpy has not, and the dtype to round to."""
    dtypes = {t.dtype for t in tensors_in((*arguments, *keywords.values()))}
    asked = keywords.get("dtype")
    rounded: DType | None
    if isinstance(asked, DType) and not asked.typestr and asked.kind == "real":
        keywords = {**keywords, "dtype": float32}
        rounded = asked
    elif all(dtype.typestr for dtype in dtypes) or keywords.get("out") is not None:
        return arguments, keywords, None
    else:
        [*narrow] = {dtype for dtype in dtypes if not dtype.typestr}
        alone = len(dtypes) == 1 and narrow[0].kind == "real" and asked is None
        rounded = narrow[0] if alone else None
    return [_wide(x) for x in arguments], {k: _wide(x) for k, x in keywords.items()}, rounded


def _wide(x: Any) -> Any:
    if isinstance(x, _core.Tensor):
        wide = None if x.dtype.typestr else _WIDE.get(x.dtype.kind)
        return x if wide is None else _core.materialise(x, wide.id)
    return type(x)([_wide(item) for item in x]) if type(x) in (list, tuple) else x


def _rounded(x: Any, dtype: DType) -> Any:
    if isinstance(x, tuple):
        items: list[Any] = [_rounded(item, dtype) for item in x]
        return type(x)(*items) if hasattr(x, "_fields") else tuple(items)
    return x.to(dtype) if isinstance(x, _core.Tensor) and x.dtype is float32 else x
