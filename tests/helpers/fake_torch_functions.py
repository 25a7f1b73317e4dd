"""Arithmetic for the torch of `fake_torch_cuda`: its own code down to the kernels, then the host's.

`install()` makes torch's dispatcher call `_run` for whatever has no CUDA kernel here. What torch
does above its kernels is its own: type promotion, shapes and strides of results (its meta
functions), operations made of others, what it asks of the device (`item()`, masks).

A kernel is the CPU's, queued on the current stream of the device that its tensors are on and late
as everything there; it sees the memory that kernels see. As torch's: tensors of two devices are
refused, but for tensors without axes on the host; the host waits for what has as many elements as
the values say, and for values that Python asks for. What torch cannot do on the CPU it cannot do
here: that CUDA's kernels take a few dtypes more or less is not shown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import fake_torch_cuda
import torch
from torch.library import Library
from torch.utils._pytree import tree_flatten, tree_map_only

if TYPE_CHECKING:
    from collections.abc import Iterator

# Operations whose results have as many elements as the values say, or are Python's.
_WAITS = {
    *("nonzero", "masked_select", "_unique2", "unique_dim", "unique_consecutive", "equal"),
    *("_local_scalar_dense", "repeat_interleave", "bincount", "is_nonzero"),
}
_DIVIDES = {"div", "floor_divide", "remainder", "fmod"}  # the CPU's refuse to divide ints by 0
# They change the tensor's shape and strides, and no element.
_RESHAPES = {"as_strided_", "squeeze_", "swapaxes_", "t_", "transpose_", "unsqueeze_"}
_INDICES = {"index", "index_put_", "_index_put_impl_"}

failed: list[torch.Tensor] = []
"""What the last operation that failed was called with: its memory is kept until the next one."""

_library: Library | None = None


def _tensors(x: Any) -> Iterator[torch.Tensor]:
    return (leaf for leaf in tree_flatten(x)[0] if isinstance(leaf, torch.Tensor))


def _device_of(given: Any) -> torch.device:
    """The one device of all tensors; else torch's error."""
    devices = {x.device for x in _tensors(given) if x.is_cuda}
    elsewhere = {x.device for x in _tensors(given) if not x.is_cuda and x.dim() > 0}
    if len(devices | elsewhere) > 1:
        found = ", ".join(sorted(map(str, devices | elsewhere)))
        raise RuntimeError(
            f"Expected all tensors to be on the same device, but found at least two: {found}!"
        )
    if devices:
        return devices.pop()
    return torch.device("cuda", fake_torch_cuda.current_device())


def _model(x: torch.Tensor, *, ones: bool = False) -> torch.Tensor:
    """A tensor of the same layout on the host, that is no index out of bounds, and invertible.

    One to divide by is of `ones`.
    """
    if not x.is_cuda:
        return x.clone()
    model = torch.empty_strided(x.shape, x.stride(), dtype=x.dtype)
    if 0 in x.stride() or model.numel() == 0:
        model = torch.empty(x.shape, dtype=x.dtype)
    if ones:
        return model.fill_(1)
    model.zero_()
    if x.dtype.is_floating_point or x.dtype.is_complex:
        if x.dim() > 1:
            model.diagonal(dim1=-2, dim2=-1).fill_(1)
        else:
            model.fill_(1)
    return model


def _mapped(x: Any, function: Any) -> Any:
    x = tree_map_only(torch.Tensor, function, x)
    return tree_map_only(torch.device, lambda device: torch.device("cpu"), x)


def _waits(name: str, given: Any) -> bool:
    if name not in _INDICES:
        return name in _WAITS
    _, indices, *values = given[0]
    masks = [x for x in indices if x is not None and x.dtype in (torch.bool, torch.uint8)]
    # One mask and one number of the host's: torch fills and asks nothing.
    filled = len(indices) == 1 and values and values[0].numel() == 1 and not values[0].is_cuda
    return bool(masks) and not filled


def _with_numbers(schema: Any, arguments: Any) -> tuple[Any, ...]:
    """Give tensors for the numbers that Python is told of where torch has tensors of one.

    torch has marked them as numbers, whose dtype counts less than that of tensors without axes.
    """
    tensors = [x for x in arguments if isinstance(x, torch.Tensor)]
    return tuple(
        torch.tensor(x, dtype=torch.result_type(tensors[0], x) if tensors else None)
        if isinstance(x, bool | int | float | complex) and str(argument.type) == "Tensor"
        else x
        for x, argument in zip(arguments, schema.arguments, strict=False)
    )


def _run(operation: Any, *arguments: Any, **keywords: Any) -> Any:
    schema = operation._schema
    arguments = _with_numbers(schema, arguments)
    given = (arguments, keywords)
    name = schema.name.removeprefix("aten::")
    views = any(r.alias_info is not None and not r.alias_info.is_write for r in schema.returns)
    if views or name in _RESHAPES:
        return operation._op_dk(torch._C.DispatchKey.CPU, *arguments, **keywords)
    device = _device_of(given)
    if _waits(name, given):
        fake_torch_cuda.current_stream(device).synchronize()
        models = _mapped(given, lambda x: fake_torch_cuda.bytes_of(x).clone())
    else:
        ones = name.rstrip("_") in _DIVIDES
        models = _mapped(given, lambda x: _model(x, ones=ones))
    failed.clear()
    try:
        modelled = operation(*models[0], **models[1])
    except BaseException:
        failed.extend(_tensors(given))  # no memory is to go while the error is on its way up
        raise
    if not any(True for _ in _tensors(modelled)) and not any(
        a.alias_info is not None and a.alias_info.is_write for a in schema.arguments
    ):
        fake_torch_cuda.note(operation, *_tensors(given))
        return modelled  # Python's number
    written = {}
    for mine, model in zip(_tensors(given), _tensors(models), strict=True):
        written[id(model)] = mine
        if mine.is_cuda and mine.shape != model.shape:
            grown = torch.empty(model.shape, dtype=mine.dtype, device=device)
            mine.set_(grown.untyped_storage(), 0, grown.shape, grown.stride())
    made = []

    def allocated(model: torch.Tensor) -> torch.Tensor:
        if id(model) in written:
            return written[id(model)]
        fresh = torch.empty_strided(model.shape, model.stride(), dtype=model.dtype, device=device)
        made.append(fresh)
        return fresh

    result = tree_map_only(torch.Tensor, allocated, modelled)
    # The host's are read at once; the shapes of the others are those of now.
    host = _mapped(given, lambda x: x.detach() if x.is_cuda else x.clone())
    targets = [x.detach() for x in made]

    def kernel() -> None:
        seen = [fake_torch_cuda.bytes_of(x) for x in _tensors(host)]
        names = iter(seen)
        args, named = tree_map_only(torch.Tensor, lambda _: next(names), host)
        found = operation(*args, **named)
        ids = {id(x) for x in seen}
        fresh = [x for x in _tensors(found) if id(x) not in ids]
        for target, value in zip(targets, fresh, strict=True):
            fake_torch_cuda.bytes_of(target).copy_(value)

    fake_torch_cuda.note(operation, *_tensors(given), *made)
    fake_torch_cuda.launch(kernel, torch.empty(0, device=device))
    return result


def install() -> None:
    """Do this to torch, in this process; after `fake_torch_cuda.install`."""
    global _library  # noqa: PLW0603
    if _library is None:
        _library = Library("_", "IMPL")
        _library.fallback(_run, "CUDA")
