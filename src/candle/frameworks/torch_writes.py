"""What torch's functions write to among their arguments: the native core asks once for each.

Operators say it in their schemas. Of functions written in Python, and of the operators whose
schemas leave it out, the few that write to more than their first argument are named here.
"""

from __future__ import annotations

import sys
from types import BuiltinFunctionType, FunctionType, MethodDescriptorType, ModuleType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    # Whether the function is one of a module and stays; the keywords whose tensors it always writes
    # to; the positions of other arguments that it writes to, a bit for each; their names; and the
    # argument that says whether it does, if one does: its position (-1: by name alone), name,
    # default, and None or False, if it does not.
    Answer = tuple[bool, tuple[str, ...], int, tuple[str, ...], int, str | None, object, object]

__all__ = ["writes"]

_OUT = ("out",)
_STATISTICS = ("running_mean", "running_var")

# Operators whose schemas do not say that they write: to what, and the argument that turns it on.
_OPERATORS: dict[str, tuple[tuple[str, ...], str | None]] = {
    "batch_norm": (_STATISTICS, "training"),
    "native_batch_norm": (_STATISTICS, "training"),
    "cudnn_batch_norm": (_STATISTICS, "training"),
    "miopen_batch_norm": (_STATISTICS, "training"),
    "_batch_norm_impl_index": (_STATISTICS, "training"),
    "instance_norm": (_STATISTICS, "use_input_stats"),
    "batch_norm_update_stats": (_STATISTICS, None),
    "batch_norm_gather_stats": (_STATISTICS, None),
    "batch_norm_gather_stats_with_counts": (_STATISTICS, None),
}

# Functions written in Python: what they write to, the argument that turns it on, its default, and
# the value that turns it off.
_Written = tuple[tuple[str, ...], str | None, object, object]
_FUNCTIONAL: dict[str, _Written] = {
    "batch_norm": (_STATISTICS, "training", False, False),
    "instance_norm": (_STATISTICS, "use_input_stats", True, False),
    "embedding": (("weight",), "max_norm", None, None),
    "embedding_bag": (("weight",), "max_norm", None, None),
}
# Every rank is taken to write what one rank does.
_COLLECTIVE: dict[str, _Written] = {
    name: ((written,), None, None, None)
    for name, written in {
        "irecv": "tensor",
        "recv": "tensor",
        "broadcast": "tensor",
        "all_reduce": "tensor",
        "all_reduce_coalesced": "tensors",
        "reduce": "tensor",
        "all_gather": "tensor_list",
        "all_gather_single": "output_tensor",
        "all_gather_coalesced": "output_tensor_lists",
        "gather": "gather_list",
        "scatter": "tensor",
        "reduce_scatter": "output",
        "reduce_scatter_single": "output",
        "all_to_all_single": "output",
        "all_to_all": "output_tensor_list",
    }.items()
}
_FUNCTIONS = {
    "torch.nn.functional": _FUNCTIONAL,
    "torch.distributed.distributed_c10d": _COLLECTIVE,
}


def writes(function: Any) -> Answer:
    """Say what a torch function writes to.

    Parameters
    ----------
    function
        What torch calls `__torch_function__` with: an operator or overload of ``torch.ops``, a
        function or method of torch, any other callable.
    """
    packet = getattr(sys.modules.get("torch._ops"), "OpOverloadPacket", ())
    overload = getattr(sys.modules.get("torch._ops"), "OpOverload", ())
    if isinstance(function, overload):
        schema = function._schema
        return _of_schemas(_last(schema.name), [schema], builtin=False)
    if isinstance(function, packet):
        schemas = [getattr(function, name)._schema for name in function.overloads()]
        return _of_schemas(function.__name__, filter(_dispatched, schemas), builtin=False)
    if isinstance(function, FunctionType):
        return _of_python(function)
    if _builtin(function):
        name = function.__name__
        schemas = sys.modules["torch"]._C._jit_get_schemas_for_operator(f"aten::{name}")
        if schemas:
            return _of_schemas(name, filter(_dispatched, schemas), builtin=True)
        return _of_others(name, stays=True)
    return _of_others(getattr(function, "__name__", None), stays=False)


def _last(name: str) -> str:
    return name.rpartition("::")[2]


def _dispatched(schema: Any) -> bool:
    """Tell operators from those that TorchScript has by the same name, for its lists and dicts."""
    name = ".".join(filter(None, (schema.name, schema.overload_name)))
    known: bool = sys.modules["torch"]._C._dispatch_has_kernel(name)
    return known


def _builtin(function: Any) -> bool:
    """Tell whether this is a function of torch's modules, or a method of its tensors."""
    torch = sys.modules.get("torch")
    if torch is None:
        return False
    if isinstance(function, MethodDescriptorType):
        return function.__objclass__ is torch._C.TensorBase
    if not isinstance(function, BuiltinFunctionType):
        return False
    home = function.__self__
    if home is None:
        home = torch._C._VariableFunctions
    elif not isinstance(home, ModuleType) or not home.__name__.startswith("torch."):
        return False
    return getattr(home, function.__name__, None) is function


def _of_schemas(name: str, schemas: Iterable[Any], *, builtin: bool) -> Answer:
    """Join what the overloads of an operator write to.

    ``torch.ops`` calls the first argument of most "self", the functions of torch "input"; these
    have one ``out=`` for all outputs. An operator of others may have left its writing out, and say
    it by an underscore.
    """
    untold, switch = _OPERATORS.get(name, ((), None))
    positions, names, outs = int(_says(name)), set(), set()
    at, default = -1, None
    for schema in schemas:
        for i, argument in enumerate(schema.arguments):
            said = argument.alias_info is not None and argument.alias_info.is_write
            if said and argument.kwarg_only:
                outs.add(argument.name)
            elif said or argument.name in untold or (i == 0 and _says(name)):
                names.add(argument.name)
                positions |= 1 << i
            if argument.name == switch:
                at, default = i, argument.default_value
    if builtin:
        outs.add("out")
        names |= {"input"} if "self" in names else set()
    return True, tuple(sorted(outs)), positions, tuple(sorted(names)), at, switch, default, False


def _of_python(function: FunctionType) -> Answer:
    module, name = function.__module__, function.__name__
    home = sys.modules.get(module) if module != "__main__" else None
    stays = getattr(home, name, None) is function
    parameters = _parameters(function)
    places = {parameter: i for i, parameter in enumerate(parameters)}
    named = _FUNCTIONS.get(module, {}).get(name)
    if named is not None:
        written, switch, default, off = named
        positions = sum(1 << places[parameter] for parameter in written if parameter in places)
        at = -1 if switch is None else places.get(switch, -1)
        return stays, _OUT, positions, written, at, switch, default, off
    if _says(name):
        return stays, _OUT, 1, parameters[:1], -1, None, None, None
    return stays, _OUT, 1, parameters[:1], places.get("inplace", -1), "inplace", False, False


def _parameters(function: Any) -> tuple[str, ...]:
    """Name the parameters of a function, or of the one that it wraps, that have positions."""
    for _ in range(100):
        if not hasattr(function, "__wrapped__"):
            break
        function = function.__wrapped__
    code = getattr(function, "__code__", None)
    return () if code is None else code.co_varnames[: code.co_argcount]


def _of_others(name: object, *, stays: bool) -> Answer:
    """Give what torch says by an underscore at the end, or by ``inplace=True``: the first argument.

    Its operators of Python's have a tensor of torch's own there.
    """
    switch = None if isinstance(name, str) and _says(name) else "inplace"
    return stays, _OUT, 1, (), -1, switch, False, False


def _says(name: str) -> bool:
    """Tell whether a name says that the first argument is written to."""
    return name.endswith("_") and not name.endswith("__")
