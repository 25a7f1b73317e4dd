"""The functions of the stand-in for cupy: numpy's, run by late kernels over its memory.

As cupy's: arrays have to be on the current device, and numpy's arrays are refused among them; what
a function gives is queued on the current stream, and only functions whose result has as many
elements as the values say (masks, `nonzero`, `unique`) wait for it; reshaping gives views where
strides allow. The results and their dtypes are numpy's. It has not what cupy has not: times.
"""

from __future__ import annotations

import functools
import operator
import types
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_LACKS = {"isnat", "busday_count", "datetime_as_string", "datetime_data", "is_busday"}
_OWN = {"ndarray", "empty", "asarray", "array", "asnumpy", "from_dlpack", "is_available", "cuda"}
_VIEWS = {
    *("reshape", "transpose", "squeeze", "expand_dims", "broadcast_to", "moveaxis", "swapaxes"),
    *("flip", "ravel", "matrix_transpose", "permute_dims", "diagonal", "real", "atleast_2d"),
}
_WAITS = {
    *("nonzero", "argwhere", "flatnonzero", "unique", "compress", "extract", "unique_all"),
    *("unique_counts", "unique_inverse", "unique_values", "mask"),
}
_IN_PLACE = {"copyto", "put", "putmask", "place", "fill_diagonal", "put_along_axis", "setitem"}
_METHODS = (
    *("all", "any", "argmax", "argmin", "argsort", "clip", "conj", "cumsum", "cumprod", "diagonal"),
    *("dot", "max", "mean", "min", "nonzero", "prod", "ravel", "repeat", "reshape", "round"),
    *("squeeze", "std", "sum", "swapaxes", "take", "trace", "transpose", "var"),
)
_OPERATORS = (
    *("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "divmod"),
    *("and", "or", "xor", "lshift", "rshift"),
)


def _arrays(x: Any, kind: type) -> Iterator[Any]:
    if isinstance(x, kind):
        yield x
    elif isinstance(x, list | tuple | dict):
        for item in x.values() if isinstance(x, dict) else x:
            yield from _arrays(item, kind)


def _mapped(x: Any, kind: type | tuple[type, ...], function: Callable[[Any], Any]) -> Any:
    if isinstance(x, kind):
        return function(x)
    if isinstance(x, dict):
        return {key: _mapped(value, kind, function) for key, value in x.items()}
    if isinstance(x, list | tuple):
        items = [_mapped(item, kind, function) for item in x]
        return type(x)(*items) if hasattr(x, "_fields") else type(x)(items)
    return x


def _model(x: Any) -> Any:
    """An array of the same shape and dtype, that is no index out of bounds and can be inverted."""
    model = np.zeros(x.shape, x.dtype)
    if x.dtype.kind in "fc":
        model += np.eye(*x.shape[-2:]).astype(x.dtype) if x.ndim > 1 else 1
    return model


class Functions:
    """Makes functions of the module that is ``cupy``, for its class of arrays."""

    def __init__(self, fake: types.ModuleType) -> None:
        self.fake = fake
        self.ndarray: Any = fake.ndarray

    def run(self, function: Any, name: str, arguments: Any, keywords: Any) -> Any:
        given = (list(arguments), dict(keywords))
        for x in _arrays(given, self.ndarray):
            if x.size and x.data.device_id != self.fake.Device().id:
                raise ValueError(
                    f"Array device must be same as the current device: array device = "
                    f"{x.data.device_id} while current = {self.fake.Device().id}"
                )
        if any(True for _ in _arrays(given, np.ndarray)):
            raise TypeError("Unsupported type <class 'numpy.ndarray'>")
        out = given[1].pop("out", None)
        if name in _VIEWS and isinstance(arguments[0], self.ndarray):
            view = self.view(function, given)
            if view is not None:
                return view
        if name in _WAITS:
            self.fake.get_current_stream().synchronize()
            models = _mapped(given, self.ndarray, lambda x: x._bytes().copy())
        else:
            models = _mapped(given, self.ndarray, _model)
        wanted = list(_arrays([out], self.ndarray))
        made: list[Any] = []

        def allocated(x: Any) -> Any:
            made.append(wanted.pop(0) if wanted else self.ndarray(x.shape, x.dtype))
            return made[-1]

        result = _mapped(function(*models[0], **models[1]), (np.ndarray, np.generic), allocated)

        def kernel() -> None:
            args, named = _mapped(given, self.ndarray, self.fake.ndarray._bytes)
            found = function(*args, **named)
            for array, value in zip(made, _arrays([found], (np.ndarray, np.generic)), strict=True):  # type: ignore[arg-type]
                array._bytes()[...] = value

        if made or name in _IN_PLACE:
            self.fake._launch(kernel)
        return result

    def view(self, function: Any, given: Any) -> Any:
        """What a function of views gives: found out with memory of the same layout."""
        x = given[0][0]
        low = sum((n - 1) * step for n, step in zip(x.shape, x.strides, strict=True) if step < 0)
        high = sum((n - 1) * step for n, step in zip(x.shape, x.strides, strict=True) if step > 0)
        block = np.empty(high - low + x.itemsize, "u1")
        whole = np.ndarray(x.shape, x.dtype, block, -low, x.strides)
        part = function(whole, *given[0][1:], **given[1])
        if x.size == 0 or not np.may_share_memory(part, block):
            return None
        offset = part.ctypes.data - whole.ctypes.data
        memory = self.fake.MemoryPointer(x.data.ptr + offset, part.nbytes, x.data.device_id, x)
        return self.ndarray(part.shape, part.dtype, memory, part.strides)

    def of(self, function: Any, name: str) -> Any:
        def run(*arguments: Any, **keywords: Any) -> Any:
            return self.run(function, name, arguments, keywords)

        try:
            functools.update_wrapper(run, function)
        except (AttributeError, TypeError):
            run.__name__ = name
        return run

    def fill(self, module: types.ModuleType, source: types.ModuleType, skip: Iterable[str]) -> None:
        for name, value in vars(source).items():
            if name[0] == "_" or name in skip or isinstance(value, types.ModuleType):
                continue
            function = callable(value) and not isinstance(value, type)
            setattr(module, name, self.of(value, name) if function else value)


def _in_place(function: Any) -> Any:
    def run(a: Any, b: Any) -> None:
        function(a, b)

    return run


def add_to(cupy: types.ModuleType, fake: types.ModuleType) -> None:
    """Give the stand-in's module and its class of arrays what numpy has."""
    functions = Functions(fake)
    functions.fill(cupy, np, _LACKS | _OWN)
    for part in ("linalg", "fft"):
        module = types.ModuleType(f"cupy.{part}")
        functions.fill(module, getattr(np, part), ())
        setattr(cupy, part, module)
    ndarray = functions.ndarray
    for name in _METHODS:
        setattr(ndarray, name, functions.of(getattr(np, name), name))
    for name in _OPERATORS:
        function = divmod if name == "divmod" else getattr(operator, f"__{name}__")
        forward = functions.of(function, name)
        setattr(ndarray, f"__{name}__", forward)
        setattr(ndarray, f"__r{name}__", lambda x, y, forward=forward: forward(y, x))
        if name != "divmod":
            write = functions.of(_in_place(getattr(operator, f"__i{name}__")), "setitem")
            setattr(ndarray, f"__i{name}__", lambda x, y, write=write: (write(x, y), x)[1])
    for name in ("lt", "le", "gt", "ge", "eq", "ne", "neg", "pos", "abs", "invert"):
        setattr(ndarray, f"__{name}__", functions.of(getattr(operator, f"__{name}__"), name))
    views = ndarray.__getitem__
    pick, masked = functions.of(operator.getitem, "pick"), functions.of(operator.getitem, "mask")

    def getitem(x: Any, key: Any) -> Any:
        arrays = [*_arrays([key], ndarray)]
        if not arrays and not any(
            isinstance(k, list) for k in (key if isinstance(key, tuple) else [key])
        ):
            return views(x, key)
        return (masked if any(k.dtype == bool for k in arrays) else pick)(x, key)

    ndarray.__getitem__ = getitem
    ndarray.__len__ = lambda x: x.shape[0]
    ndarray.__iter__ = lambda x: (x[i] for i in range(len(x)))
