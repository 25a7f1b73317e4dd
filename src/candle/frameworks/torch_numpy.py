"""numpy's functions, computed by torch.

torch has most of numpy's names, and not always numpy's meaning: `torch.std` divides by one less,
`torch.equal` gives one bool, `torch.split` takes sizes, `torch.sort` gives a pair. So they are
called by way of the standard's; what has no counterpart that means the same is refused.
"""

from __future__ import annotations

from functools import cache

from ..dtypes import as_dtype
from .torch_calls import operation
from .torch_names import DIRECT, FUNCTIONS, RENAMED, SAME, parameters
from .torch_standard import REMEDY, of_standard, standard, torch_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .torch_names import Parameter

__all__ = ["like"]

_REDUCTIONS = {
    "add": "sum",
    "multiply": "prod",
    "maximum": "max",
    "minimum": "min",
    "logical_and": "all",
    "logical_or": "any",
}
_RUNNING = {"add": "cumulative_sum", "multiply": "cumulative_prod"}


@cache
def like(path: str, method: str = "__call__", *, universal: bool = False) -> Any:
    """Give what does as one of numpy's functions does.

    Parameters
    ----------
    path : str
        Its name below ``numpy``: ``"linalg.inv"``.
    method : str
        Of a universal function: ``"__call__"``, ``"reduce"``, ``"accumulate"`` or ``"outer"``.
    universal : bool
        Whether it is one.

    Raises
    ------
    TypeError
        If torch has none that means the same.
    """
    if universal:
        return _arrays_only(path, _universal(path, method))
    if path in _OWN:
        return _arrays_only(path, _OWN[path])
    if path not in FUNCTIONS:
        raise TypeError(f"torch has no {path} that means numpy's; {REMEDY}")
    return _arrays_only(path, _bound(path, *FUNCTIONS[path]))


def _arrays_only(path: str, function: Any) -> Any:
    """Give a function that tells in candle's words of arguments that torch does not take."""

    def run(*arguments: Any, **keywords: Any) -> Any:
        try:
            return function(*arguments, **keywords)
        except (AttributeError, TypeError) as error:  # of a number in an array's place, and so on
            said = str(error).partition("\n")[0]
            if REMEDY in said:
                raise
            raise TypeError(f"torch's {path} does not take that: {said}; {REMEDY}") from error

    return run


def _universal(name: str, method: str) -> Any:
    shown = name if method == "__call__" else f"{name}.{method}"
    refused = TypeError(f"torch has no {shown} that means numpy's; {REMEDY}")
    if method in ("reduce", "accumulate"):
        found = (_REDUCTIONS if method == "reduce" else _RUNNING).get(name)
        if found is None:
            raise refused
        typed = "dtype" if name in _RUNNING else "-"
        return _bound(shown, found, parameters(f"*array axis=axis:0 {typed} - keepdims"))
    function: Any
    if name in _OWN_UNIVERSAL:
        function = _OWN_UNIVERSAL[name]
    elif name in DIRECT:
        direct = DIRECT[name]
        function = standard(getattr(torch_module(), direct), direct)
    else:
        standards = name if name in SAME else RENAMED.get(name)
        if standards is None:
            raise refused
        function = of_standard(standards)
    if method not in ("__call__", "outer"):
        raise refused

    def run(*inputs: Any, **keywords: Any) -> Any:
        _refuse_more(shown, keywords)
        if method == "outer":
            first, second = inputs
            inputs = (first.reshape(*first.shape, *[1] * second.dim()), second)
        return function(*inputs)

    return run


def _tiled(A: Any, reps: Any) -> Any:
    return of_standard("tile")(A, (reps,) if isinstance(reps, int) else tuple(reps))


def _fabs(x: Any) -> Any:
    if x.is_complex():
        raise TypeError(f"torch has no fabs of complex numbers; {REMEDY}")
    return standard(of_standard("abs"), "fabs")(x)


def _rint(x: Any) -> Any:
    return standard(of_standard("round"), "rint")(x)


def _divided(x1: Any, x2: Any) -> Any:
    return operation(divmod)(x1, x2)


_OWN_UNIVERSAL = {
    "divmod": _divided,
    "fabs": _fabs,
    "rint": _rint,
}


def _transposed(a: Any, axes: Any = None) -> Any:
    return a.permute(tuple(reversed(range(a.dim()))) if axes is None else tuple(axes))


def _squeezed(a: Any, axis: Any = None) -> Any:
    return torch_module().squeeze(a) if axis is None else of_standard("squeeze")(a, axis=axis)


def _traced(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    return of_standard("sum")(torch_module().diagonal(a, offset, axis1, axis2), axis=-1)


def _outer(a: Any, b: Any) -> Any:
    return of_standard("linalg.outer")(a.reshape(-1), b.reshape(-1))


def _dot(a: Any, b: Any) -> Any:
    if a.dim() == 0 or b.dim() == 0:
        return of_standard("multiply")(a, b)
    if b.dim() > 2:
        raise TypeError(f"torch has no dot for more than two axes that means numpy's; {REMEDY}")
    return of_standard("matmul")(a, b)


def _chosen(condition: Any, x: Any = None, y: Any = None) -> Any:
    return of_standard("nonzero")(condition) if x is None else of_standard("where")(condition, x, y)


# The axis that numpy goes along unasked.
_LAST = {"argsort": -1, "cumulative_prod": None, "cumulative_sum": None, "sort": -1}


def _along(name: str) -> Any:
    """Give a function of the standard's that goes along an axis: of all elements for None."""

    def run(a: Any, axis: Any = _LAST[name], dtype: Any = None, **more: Any) -> Any:
        _refuse_more(name, more)
        if axis is None:
            a, axis = a.reshape(-1), 0
        if a.dim() == 0:
            raise TypeError(f"torch has no {name} of no axes that means numpy's; {REMEDY}")
        cast = {} if dtype is None else {"dtype": _dtype(dtype)}
        return of_standard(name)(a, axis=axis, **cast)

    return run


def _taken(a: Any, indices: Any, axis: int | None = None) -> Any:
    if axis is None:
        a, axis = a.reshape(-1), 0
    found = of_standard("take")(a, indices.reshape(-1), axis=axis)  # an error for another axis
    along: int = axis % a.dim()
    return found.reshape(*a.shape[:along], *indices.shape, *a.shape[along + 1 :])


def _qr(a: Any, mode: str = "reduced") -> Any:
    if mode not in ("reduced", "complete"):
        raise TypeError(f"torch has no qr of mode {mode!r} that means numpy's; {REMEDY}")
    return of_standard("linalg.qr")(a, mode=mode)


_OWN = {
    "argsort": _along("argsort"),
    "cumprod": _along("cumulative_prod"),
    "cumsum": _along("cumulative_sum"),
    "linalg.qr": _qr,
    "sort": _along("sort"),
    "take": _taken,
    "dot": _dot,
    "outer": _outer,
    "squeeze": _squeezed,
    "tile": _tiled,
    "trace": _traced,
    "transpose": _transposed,
    "where": _chosen,
}


def _refuse_more(path: str, keywords: dict[str, Any]) -> None:
    for name, value in keywords.items():
        if value is not None and type(value).__name__ != "_NoValueType":
            raise TypeError(f"torch's {path} takes no {name}=; {REMEDY}")


def _bound(path: str, target: str, takes: tuple[Parameter, ...]) -> Any:
    """Give a function with numpy's parameters that calls the standard's, or torch's after a dot."""

    def run(*arguments: Any, **keywords: Any) -> Any:
        placed: list[Any] = []
        named: dict[str, Any] = {}
        rest = list(arguments)
        for parameter in takes:
            if parameter.passed == "all by place":
                placed += rest
                rest.clear()
                continue
            if rest:
                value = rest.pop(0)
            elif parameter.name in keywords:
                value = keywords.pop(parameter.name)
            elif parameter.default is not None:
                value = parameter.default
            else:
                continue
            if type(value).__name__ == "_NoValueType":
                continue
            if parameter.passed == "refused":
                _refuse_more(path, {"further argument": value})
            elif parameter.passed == "by place":
                placed.append(value)
            elif parameter.name != "dtype":
                named[parameter.torchs] = value
            elif value is not None:
                named["dtype"] = _dtype(value)
        _refuse_more(path, {"further argument": rest[0]} if rest else keywords)
        return _function(target)(*placed, **named)

    return run


def _function(target: str) -> Any:
    """Give a function of the standard's by its name, or torch's by its own after a dot."""
    if target[:1] != ".":
        return of_standard(target)
    function: Any = torch_module()
    for part in target[1:].split("."):
        function = getattr(function, part)
    return standard(function, target[1:])


def _dtype(value: Any) -> Any:
    torch = torch_module()
    if value is float or value is complex:  # numpy's, which are not candle's
        return torch.float64 if value is float else torch.complex128
    return value if isinstance(value, torch.dtype) else getattr(torch, as_dtype(value).name)
