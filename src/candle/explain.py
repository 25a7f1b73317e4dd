"""`explain`: what a move would do, asked of the code that makes it."""

from __future__ import annotations

from . import frameworks
from ._native import _core
from .ledger import unwatched
from .naming import module_of
from .plan import Plan, Reason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

    from ._native._core import Demand

__all__ = ["explain"]


def explain(
    x: object,
    to: str | ModuleType | None = None,
    *,
    dtype: object = None,
    device: object = None,
) -> Plan:
    """Say what a move would do, and why. Moves nothing, and allocates nothing of the data's size.

    Parameters
    ----------
    x
        Anything that `candle.asarray` takes. A raw capsule is not consumed. What has no other
        protocol than ``__array__`` is asked for it, with ``copy=False`` first: it alone knows what
        that would give. A stream of Arrow data is read, and a query behind it runs.
    to : str or module, optional
        Who is to get it: ``"candle"`` (the default), ``"numpy"``, ``"torch"``, ``"jax"``,
        ``"cupy"``, ``"tensorflow"``, ``"paddle"``, ``"mlx"``, ``"warp"``, ``"tvm_ffi"``,
        ``"hf_candle"``, or the module; ``"dlpack"`` or ``"dlpack_legacy"`` for any consumer of such
        capsules; ``"arrow"`` for any consumer of Arrow, among them ``"pyarrow"``, ``"polars"``,
        ``"duckdb"`` and ``"nanoarrow"``.
    dtype, device : optional
        What the caller would ask `candle.asarray` for.

    Returns
    -------
    Plan
        Of ``asarray(x, dtype=dtype, device=device)``, and of the export of its result: `t.numpy`,
        `t.torch`, `t.jax`, `t.arrow`, `t.__dlpack__`, or what `convert` does, all with
        ``copy=None``. Where `x` is not candle's and goes on to another framework, `Plan.steps` has
        both moves, and the plan is their sum. A move that would be refused has the action
        ``"refuse"`` and the reasons that the exception's plan would have.

    Raises
    ------
    TypeError, ValueError
        Where `x` is nothing that has elements, or for wrong arguments.
    ImportError
        Where `to` is not installed.

    Examples
    --------
    >>> import candle
    >>> candle.explain(candle.zeros((4, 3)).T, "jax").action
    'share'
    >>> candle.explain(candle.zeros((4, 3))[:, :2], "dlpack").action
    'share'
    """
    name = _name_of(to)
    with unwatched():
        if name == "candle":
            return _in(x, dtype, device)[0]
        door = frameworks.door_of(name)
        first, tensor = _in(x, dtype, device)
        if device is None and tensor is not None and tensor.device.type == "cpu":
            elsewhere = frameworks.device_of(name)
            if elsewhere is not None:
                first, tensor = _in(x, dtype, elsewhere)
        if tensor is None:
            return _sum((first,), name)
        last = _out(tensor, door, name)
    own = isinstance(x, _core.Tensor) and first.action == "share"
    return last if own else _sum((first, last), last.consumer)


def _name_of(to: str | ModuleType | None) -> str:
    if to is None:
        return "candle"
    return frameworks.name_of(to, frameworks.CONSUMERS)


def _in(x: object, dtype: object, device: object) -> tuple[Plan, _core.Tensor | None]:
    try:
        tensor, plan = _core.plan_in(x, dtype, device)
    except BufferError as error:
        return _refused(error, _type_name(x), "candle"), None
    return plan, tensor


def _out(tensor: _core.Tensor, door: str | Demand, name: str) -> Plan:
    try:
        return _core.plan_out(tensor, door)
    except BufferError as error:
        return _refused(error, "candle", name)


def _refused(error: BufferError, producer: str, consumer: str) -> Plan:
    plan = getattr(error, "plan", None)
    if isinstance(plan, Plan):
        return plan
    return Plan("unknown", "refuse", 0, (Reason("producer", str(error)),), producer, consumer)


def _type_name(x: object) -> str:
    cls = type(x)
    module = module_of(cls)
    return cls.__qualname__ if module in ("", "builtins") else f"{module}.{cls.__qualname__}"


def _sum(steps: tuple[Plan, ...], consumer: str) -> Plan:
    actions = {step.action for step in steps}
    return Plan(
        " -> ".join(step.route for step in steps),
        next(action for action in ("refuse", "copy", "share") if action in actions),
        sum(step.nbytes for step in steps),
        tuple(reason for step in steps for reason in step.reasons),
        steps[0].producer,
        consumer,
        steps,
    )
