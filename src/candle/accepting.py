"""Functions written for one framework that take anybody's tensors."""

from __future__ import annotations

from . import frameworks
from ._native import _core
from .callables import way_of_running
from .convert import Conversion, is_tensor_type
from .devices import as_device
from .leaves import shows_the_same
from .trees import Walk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    from .devices import Device

    F = TypeVar("F", bound=Callable[..., Any])

__all__ = ["accepts"]


def accepts(framework: object, *, detach: bool = False) -> Callable[[F], F]:
    """Make a function that is written for one framework take the tensors of all.

    Every tensor in the arguments, nested as `convert` knows it, is given to the framework, shared
    where it can be. The tensors in the result go back to the framework, and the device, of the
    first tensor among the arguments: the others follow it. A tensor that the function hands back
    as it got it is the caller's own object.

    Parameters
    ----------
    framework : str or module
        What the function is written for, as for `convert`.
    detach : bool
        Take tensors that require grad out of autograd where they change framework, among the
        arguments and in the result: those of a model's parameters do. Otherwise they are refused.

    Returns
    -------
    callable
        A decorator of functions, coroutine functions, methods, class methods and static methods.
        Name, signature and type hints stay.

    Notes
    -----
    Tensors that are the framework's already are passed as they are, gradients and all; so are
    results where the first tensor was the framework's. Where no argument is a tensor, the result
    is left alone. A producer that candle cannot give tensors to (`convert` lists whom it can) gets
    candle's own. The object a method belongs to is not looked into. numpy's scalars in a result,
    which numpy gives in place of arrays without axes, go back as such tensors; among the arguments
    they are numbers. Containers are passed as they are only if nothing in them changed: what a
    function puts into one does not reach the caller's.

    Raises
    ------
    ValueError, TypeError
        When the decorator is made, for a framework that candle does not know; when it is applied,
        for what is no function, and for generator functions.
    ImportError
        In a call, where the framework is not installed.

    Examples
    --------
    >>> import candle, numpy
    >>> @candle.accepts("numpy")
    ... def centred(x):
    ...     return x - x.mean()
    >>> centred(candle.arange(3))
    tensor([-1.,  0.,  1.], dtype=float64)
    """
    frameworks.name_of(framework, frameworks.TARGETS)  # a slip is told here, not in a call

    def decorate(function: Any) -> Any:
        if isinstance(function, staticmethod | classmethod):
            return type(function)(decorate(function.__func__))
        return _Accepting(function, framework, detach).wrapper()

    return decorate


def _named(function: Any) -> str:
    return str(getattr(function, "__qualname__", None) or type(function).__qualname__)


class _Accepting:
    """One decorated function."""

    def __init__(self, function: Any, framework: object, detach: bool) -> None:
        if not callable(function):
            raise TypeError(f"accepts() decorates functions, not {type(function).__name__}")
        if isinstance(function, type):
            raise TypeError(
                f"accepts() decorates functions, not the class {_named(function)}; decorate its "
                "methods"
            )
        self.way = way_of_running(function)
        if self.way == "generator":
            raise TypeError(f"{_named(function)} is a generator; decorate what makes each item")
        self.function = function
        self.framework = framework
        self.detach = detach
        scope = getattr(function, "__qualname__", "").rpartition(".")[0]
        self.scope = "" if scope.endswith("<locals>") else scope  # of a class, else nothing

    def wrapper(self) -> Any:
        from functools import wraps

        function: Any = self.function
        if self.way == "coroutine":

            @wraps(function)
            async def accepting_async(*args: Any, **kwargs: Any) -> Any:
                call = _Call(self, args, kwargs)
                return call.given_back(await function(*call.args, **call.kwargs))

            return accepting_async

        @wraps(function)
        def accepting(*args: Any, **kwargs: Any) -> Any:
            call = _Call(self, args, kwargs)
            return call.given_back(function(*call.args, **call.kwargs))

        return accepting

    def is_self(self, x: object) -> bool:
        """Tell whether the first argument is the object that a method belongs to."""
        if not self.scope:
            return False
        module = self.function.__module__
        classes = (*type(x).__mro__, *(x.__mro__ if isinstance(x, type) else ()))
        return any((c.__module__, c.__qualname__) == (module, self.scope) for c in classes)


class _Call:
    """One call: its arguments for the function, and the way back."""

    def __init__(self, accepting: _Accepting, args: tuple[Any, ...], kwargs: Any) -> None:
        self.accepting = accepting
        own = args[:1] if args and accepting.is_self(args[0]) else ()
        rest = ([*(None for _ in own), *args[len(own) :]], kwargs)
        leaves = _tensors(rest)
        self.kind: str | None = None
        self.detach = accepting.detach
        if not leaves:
            self.args, self.kwargs = args, kwargs
            return
        first = leaves[0]
        target = frameworks.target_of(accepting.framework)
        self.numbers = target.numbers
        if not isinstance(first, target.types):
            kind = frameworks.kind_of(type(first))
            self.kind = kind if kind in frameworks.TARGETS else "candle"
        elif all(isinstance(x, target.types) for x in leaves):
            self.args, self.kwargs = args, kwargs
            return
        self.device = _device_of(first)
        follow = target.devices and not self.device.on_host
        device = self.device if follow else None
        self.moves = target.devices  # else all that the function makes is on the host
        # Tensors of the function's own framework keep their gradients.
        own_gradients = any(frameworks.detacher(cls) for cls in target.types)
        detach = accepting.detach and not own_gradients
        conversion = Conversion(target, device=device, detach=detach, where=_in_arguments)
        given = conversion.run(rest)
        # The caller's tensors, and what the function is given for each.
        self.pairs = [(x, conversion.done[id(x)]) for x in leaves if id(x) in conversion.done]
        self.args, self.kwargs = (*own, *given[0][len(own) :]), given[1]

    def given_back(self, result: Any) -> Any:
        if self.kind is None:
            return result
        target = frameworks.target_of(self.kind)
        device = self.device if target.devices and self.moves else None
        conversion = Conversion(
            target,
            device=device,
            detach=self.detach,
            done=self.originals_in(result),
            numbers=self.numbers,
            where=self.in_result,
        )
        return conversion.run(result)

    def originals_in(self, result: Any) -> dict[int, Any]:
        """Give the caller's tensors by the ids of the function's that may be in its result."""
        pairs = self.pairs
        if is_tensor_type(type(result)):
            pairs = [(x, given) for x, given in pairs if given is result]
        return {id(given): x for x, given in pairs if _stands_for(given, x)}

    def in_result(self, path: str) -> str:
        """Say where in the result a tensor is."""
        return f"this tensor is what {_named(self.accepting.function)} gave" + (
            f", at result{path}" if path else ""
        )


def _in_arguments(path: str) -> str:
    """Say where among the arguments a tensor is: they are walked as [args, kwargs]."""
    return f"this tensor is at {'args' if path.startswith('[0]') else 'kwargs'}{path[3:]}"


def _tensors(tree: object) -> list[Any]:
    """Give the tensors in a tree, in their order."""
    tensors: list[Any] = []

    def gather(x: object) -> object:
        tensors.append(x)
        return x

    Walk(lambda cls: gather if is_tensor_type(cls) else None)(tree)
    return tensors


def _stands_for(given: Any, x: Any) -> bool:
    """Tell whether what a function was given for a tensor still shows just what that one does.

    A copy does not, as it may have been written to; nor does what was given another shape in place.
    """
    if given is x:
        return True
    detach = frameworks.detacher(type(x))
    try:
        return shows_the_same(
            _core.quietly(_core.shared, given),
            _core.quietly(_core.shared, x if detach is None else detach(x)),
        )
    except BufferError:  # what is in its memory is not its elements, or it records gradients now
        return False


def _device_of(x: Any) -> Device:
    try:
        return as_device(x.device)
    except (AttributeError, TypeError, ValueError):  # jax's may be a sharding
        pass
    try:
        return as_device(tuple(x.__dlpack_device__()))
    except (AttributeError, TypeError, ValueError, BufferError):
        return _core.quietly(_core.asarray, x).device
