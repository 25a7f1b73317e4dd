"""torch: its C exchange table, the guards it lacks, and tensors that are no plain memory."""

from __future__ import annotations

import sys

from .._native import _core
from ..ledger import refuse
from .record import Record
from .target import Target, tell_read_only

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

    from .._native._core import Tensor
    from ..dtypes import DType

__all__ = [
    "collated",
    "current_stream",
    "detached",
    "door",
    "dtype_for",
    "examples",
    "hazards",
    "owner",
    "record",
    "target",
    "work_stream",
]

_TABLE = "__dlpack_c_exchange_api__"

_DTYPES = (
    "bool",
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "bfloat16", "complex32", "complex64", "complex128"),
    *("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"),
    "float4_e2m1fn_x2",
)

# Those of one byte an element. Its table says "8-bit integer" of torch.int4 and the like too.
_BYTES = (
    *("bool", "int8", "uint8"),
    *("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"),
    "float4_e2m1fn_x2",
)


def _module() -> Any:
    """Give torch, unless another package's import hook has put itself in its place."""
    torch = sys.modules.get("torch")
    return torch if hasattr(getattr(torch, "_C", None), "TensorBase") else None


def _refuse(code: str, fact: str) -> NoReturn:
    refuse("exchange", code, fact, "torch.Tensor")


def _no_memory(x: Any) -> str | None:
    """Say why a plain tensor has elements and no memory, if so."""
    if x._is_zerotensor():
        return "the tensor is one of torch's zero tensors, which are never written out"
    try:
        emptied = x.numel() > 0 and x.untyped_storage().nbytes() == 0
    except (RuntimeError, NotImplementedError):
        return None
    return "the tensor's storage was emptied: it has 0 bytes" if emptied else None


def _explain(x: Any) -> None:
    """Raise why torch's table refuses a tensor, or describes an impossible one."""
    torch = _module()
    functorch = getattr(torch._C, "_functorch", None)
    in_transform = getattr(functorch, "is_functorch_wrapped_tensor", lambda _: False)
    functional = getattr(torch, "_is_functional_tensor", lambda _: False)
    if in_transform(x) or functional(x):
        _refuse(
            "traced",
            "the tensor stands in a tensor's place inside a transform (vmap, grad, functionalize), "
            "and has no memory",
        )
    if x.layout is not torch.strided:
        _refuse("sparse", f"the tensor has the layout {x.layout}, not rows and columns in memory")
    if x.is_nested:
        _refuse("nested", "the tensor is nested: its parts have shapes of their own")
    if x.is_meta:
        _refuse("no_memory", "the tensor is on torch's meta device and has no memory")
    if x.is_quantized:
        _refuse(
            "quantised",
            f"the tensor is quantised ({x.dtype}): its integers mean nothing without their scale",
        )
    if str(x.dtype).startswith("torch.bit"):
        _refuse("bits", f"the elements are {x.dtype}, bits without a meaning")
    if x.dtype.itemsize == 1 and x.dtype not in _byte_dtypes(torch):
        _refuse("bits", f"the elements are {x.dtype}, which torch hands on as whole bytes")
    empty = _no_memory(x)
    if empty is not None:
        _refuse("no_memory", empty)


def _byte_dtypes(torch: Any) -> tuple[object, ...]:
    return tuple(getattr(torch, name) for name in _BYTES if hasattr(torch, name))


def _refuse_wrapper(torch: Any, x: Any) -> NoReturn:
    """Refuse a subclass whose elements its own code makes; torch's own by what they are."""
    fakes = sys.modules.get("torch._subclasses.fake_tensor")
    if fakes is not None and isinstance(x, fakes.FakeTensor):
        _refuse("no_memory", "the tensor is a FakeTensor: a shape and a device without elements")
    with torch._C.DisableTorchFunctionSubclass():
        if x.is_nested:
            _refuse("nested", "the tensor is nested: its parts have shapes of their own")
    name = type(x).__name__
    _refuse("wrapper", f"{name} is a torch wrapper subclass, whose elements its own code makes")


def _plain(x: Any) -> object:
    """Give an exact torch.Tensor over a subclass's memory; refuse wrappers, which have none."""
    torch = _module()
    if torch.nn.parameter.is_lazy(x):
        _refuse("no_memory", "the parameter is not initialised: it has not even a shape yet")
    dispatch = getattr(type(x), "__torch_dispatch__", None)
    plain = (torch.Tensor.__torch_dispatch__, torch._C._disabled_torch_dispatch_impl)
    if dispatch is not None and dispatch not in plain:
        _refuse_wrapper(torch, x)
    with torch._C.DisableTorchFunctionSubclass():
        if x.requires_grad:  # under no_grad() the plain tensor would not
            _refuse("requires_grad", "the tensor requires grad, and candle records no gradients")
        _refuse_tangent(x)
        return x.as_subclass(torch.Tensor)


def _has_tangent(x: Any) -> bool:
    """Tell whether a tensor has a gradient of forward mode, which only an open level can see."""
    forward = sys.modules["torch.autograd.forward_ad"]
    return forward._current_level >= 0 and forward.unpack_dual(x).tangent is not None


def _refuse_tangent(x: Any) -> None:
    if _has_tangent(x):
        fact = "the tensor has a tangent (forward-mode AD), and candle records no gradients"
        _refuse("requires_grad", fact)


def record(cls: type, base: type) -> Record | None:
    """Exact tensors and Parameters by torch's table; subclasses by an exact tensor instead."""
    torch = _module()
    if torch is not None and issubclass(cls, torch.UntypedStorage):
        # What holds the memory of Parameters.
        return Record("plain", is_pinned=torch.UntypedStorage.is_pinned)
    if torch is None or not issubclass(cls, torch.Tensor):
        return None
    if cls is not torch.Tensor and cls is not torch.nn.Parameter:
        return Record("stand_in", stand_in=_plain)
    base_type = torch._C.TensorBase
    return Record(
        "exchange",
        table=getattr(cls, _TABLE, None),
        requires_grad=base_type.__dict__.get("requires_grad"),
        forward_mode=vars(torch.autograd.forward_ad),
        refuse_tangent=_refuse_tangent,
        is_conj=getattr(base_type, "is_conj", None),
        is_neg=getattr(base_type, "is_neg", None),
        is_pinned=base_type.is_pinned,
        dtype=base_type.__dict__.get("dtype"),
        byte_dtypes=_byte_dtypes(torch),
        # torch's managed struct holds no more than the tensor: what re-seats the one re-seats the
        # other. module.half() does so to a frozen Parameter. Device memory is held by its storage.
        holds_itself=cls is torch.Tensor,
        hold=base_type.untyped_storage,
        work_stream=_stream_source(),
        record_stream=_record_stream,
        device_guard=_guard,
        resolve=_resolve,
        explain=_explain,
    )


def owner(x: Any) -> object:
    """Give the storage that a tensor lies in."""
    torch = _module()
    if not isinstance(x, torch.Tensor):
        return None
    try:
        return x.untyped_storage()
    except (NotImplementedError, RuntimeError, ValueError):  # sparse, in a transform, uninitialised
        return None


def current_stream(index: int) -> int:
    """Give the handle of torch's current stream of a CUDA device."""
    handle: int = sys.modules["torch"].cuda.current_stream(index).cuda_stream
    return handle


def work_stream(index: int) -> int | None:
    """Give the current stream of a CUDA device where torch uses CUDA."""
    torch = _module()
    return current_stream(index) if torch is not None and torch.cuda.is_initialized() else None


def _stream_source() -> Callable[[int], int] | None:
    """Ask Python where there is no table, or one built without CUDA: that names no stream."""
    torch = sys.modules["torch"]
    built_in = torch.version.cuda or torch.version.hip
    return None if built_in and hasattr(torch.Tensor, _TABLE) else current_stream


def _guard(index: int) -> object:
    """Make a device current: torch's `__dlpack__` refuses tensors of any other."""
    return sys.modules["torch"].cuda.device(index)


def _resolve(x: Any) -> Any:
    return x.resolve_conj().resolve_neg()


def _record_stream(storage: Any, stream: Any, index: int) -> None:
    """Tell torch's allocator of a stream that reads a block, so that it waits before it frees."""
    torch = sys.modules["torch"]
    block = torch.empty(0, dtype=torch.uint8, device=f"cuda:{index}").set_(storage)
    given: Any = stream.__cuda_stream__
    said: Any = given() if callable(given) else given
    block.record_stream(torch.cuda.ExternalStream(said[1], device=index))


def _tell_read_only() -> None:
    tell_read_only("torch")


_demand = _core.Demand(
    "torch", dtypes=_DTYPES, negative_strides=False, read_only=False, host_only=False
)


def door() -> tuple[object, object, object, object]:
    """Import torch; its table, what it takes, who tells of read-only copies, its streams."""
    import torch

    if _module() is None:
        raise ImportError(
            "the module called torch is not PyTorch: another package has put itself in its place"
        )
    table = getattr(torch.Tensor, _TABLE, None)
    return table, _demand, _tell_read_only, _stream_source()


def detached(x: Any) -> Any:
    """Give a tensor that is no part of autograd: the tensor itself where it is none."""
    if sys.modules["torch"].nn.parameter.is_lazy(x):
        return x  # refused, in better words than torch's
    return x.detach() if x.requires_grad or _has_tangent(x) else x


def dtype_for(dtype: DType) -> object:
    """Give torch's dtype for one of candle's."""
    if dtype.name not in _DTYPES:
        refuse("candle", "dtype_unknown", f"torch has no {dtype}", "candle", "torch")
    return getattr(sys.modules["torch"], dtype.name)


def _give(t: Tensor, copy: bool | None) -> Any:
    return t.torch(copy=copy)


def _share(t: Tensor) -> Any:
    if t.readonly:
        return _core.conform(t, _demand, False)  # a CopyError
    return t.torch(copy=False)


def _lent(t: Tensor) -> Any:
    """Give a tensor that torch only reads: read-only memory is shared then."""
    ahead = all(stride >= 0 for stride in t.stride)
    return t.torch(copy=False if t.readonly and ahead else None)


def collated(batch: Any, *, collate_fn_map: dict[Any, Callable[..., Any]] | None = None) -> Any:
    """Stack samples that are Tensors, as torch's own: in a worker, right into shared memory."""
    functions = collate_fn_map or {}
    stack = functions[sys.modules["torch"].Tensor]
    samples = [_lent(t) if isinstance(t, _core.Tensor) else t for t in batch]
    return stack(samples, collate_fn_map=collate_fn_map)


def target() -> Target:
    """Import torch: read-only memory is copied, or shared on the caller's word."""
    import torch

    from . import torch_calls

    return Target(
        "torch",
        types=(torch.Tensor,),
        give=_give,
        share=_share,
        demand=_demand,
        natively="torch",
        read_only=False,
        tell=_tell_read_only,
        guard=torch_calls.Guard,
        calls=torch_calls,
    )


def examples() -> dict[str, Any]:
    """Make a tensor, and one that requires grad."""
    import torch

    return {
        "torch": torch.zeros(4, 6),
        "torch, transposed": torch.zeros(6, 4).t(),
        "torch, requires grad": torch.zeros(4, 6, requires_grad=True),
    }


def hazards(trial: Callable[[Callable[[], str]], str]) -> list[str]:
    """Try what the installed torch gets wrong; `trial` is for what may end the process."""
    import torch

    found = []
    if _module() is None:
        return ["the module called torch is not PyTorch: an import hook has put another there"]

    def reversed_view() -> str:
        import numpy as np

        torch.from_dlpack(np.zeros(3)[::-1])
        return ""

    said = trial(reversed_view)
    if said.startswith("killed"):
        found.append(
            f"torch.from_dlpack of a reversed array ends the process ({said}): "
            "go through candle, which copies it"
        )
    t = _core.asarray(bytes(8))
    if torch.from_dlpack(t).data_ptr() == t.data_ptr():
        found.append(
            "torch.from_dlpack ignores READ_ONLY: what it gives can be written; t.torch() copies"
        )
    negative = torch.tensor([1 + 2j, 3 + 4j]).conj().imag
    if torch.from_dlpack(negative)[0].item() != negative[0].item():
        found.append("torch's own export loses the negative bit, and so the sign; candle copies it")
    return found
