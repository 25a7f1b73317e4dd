"""What torch does to its tensors after candle shares them: re-seating, resizing, dropping."""

from __future__ import annotations

import gc
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import candle
from candle.testing import live

torch = pytest.importorskip("torch")

if TYPE_CHECKING:
    from collections.abc import Callable

may_crash = pytest.mark.isolated  # memory that is freed too early crashes or not, by chance

SIZES = [10, 1000, 100_000]  # the last in pages of its own, which are unmapped when freed
sizes = pytest.mark.parametrize("size", SIZES)


def _junk() -> list[Any]:
    """What takes the memory that was freed too early."""
    return [torch.full((n,), 7.0) for n in SIZES for _ in range(8)]


def _kept(t: candle.Tensor, values: Any) -> bool:
    filler = _junk()
    return len(filler) > 0 and np.array_equal(t.numpy().ravel(), values)


def _set_data(module: Any) -> None:
    module.weight.data = torch.zeros(2, 2)


def _set_none(module: Any) -> None:
    module.weight = None


MODULE_CHANGES: dict[str, Callable[[Any], Any]] = {
    "half": lambda module: module.half(),
    "double": lambda module: module.double(),
    "data =": _set_data,
    "set_": lambda module: module.weight.set_(torch.zeros(2, 2)),
    "None": _set_none,
    "to_empty": lambda module: module.to_empty(device="cpu"),
}


@may_crash
@sizes
@pytest.mark.parametrize("change", MODULE_CHANGES)
def test_frozen_parameters_keep_candles_memory(size: int, change: str) -> None:
    """They are re-seated in place, so that candle holds their storage, not their struct."""
    module = torch.nn.Linear(size, 1, bias=False).requires_grad_(False)
    t = candle.asarray(module.weight, copy=False)
    view = candle.asarray(module.weight)[0, ::2]
    values = module.weight.numpy().ravel().copy()
    with torch.no_grad():
        MODULE_CHANGES[change](module)
    assert _kept(t, values)
    assert _kept(view, values[::2])
    del module
    assert _kept(t, values)


def test_writes_are_seen_until_a_parameter_is_reseated() -> None:
    module = torch.nn.Linear(4, 1, bias=False).requires_grad_(False)
    t = candle.asarray(module.weight)
    module.weight.fill_(3)
    assert t.tolist() == [[3, 3, 3, 3]]
    module.half()
    module.weight.fill_(5)
    assert t.tolist() == [[3, 3, 3, 3]]


def _reseat(x: Any) -> None:
    x.data = torch.zeros(3)


CHANGES: dict[str, Callable[[Any], Any]] = {
    "data =": _reseat,
    "set_()": lambda x: x.set_(),
    "set_(tensor)": lambda x: x.set_(torch.zeros(3)),
    "resize_ to nothing": lambda x: x.resize_(0),
    "resize_ to more": lambda x: x.resize_(2_000_000),
    "storage freed": lambda x: x.untyped_storage().resize_(0),  # as FSDP does with its own
}


@may_crash
@sizes
@pytest.mark.parametrize("change", CHANGES)
def test_reseating_a_plain_tensor_does_not_hurt_the_bookkeeping(size: int, change: str) -> None:
    """Documented as invalidating: nothing is read here. The release is what has to work."""
    before = live()
    x = torch.ones(size)
    t = candle.asarray(x)
    view = t[1:]
    CHANGES[change](x)
    del x
    filler = _junk()
    assert (t.shape, view.shape) == ((size,), (size - 1,))
    del t, view, filler
    gc.collect()
    assert live() == before


@may_crash
@sizes
@pytest.mark.parametrize("change", ["data =", "set_()", "set_(tensor)", "resize_ to nothing"])
def test_detach_is_the_remedy(size: int, change: str) -> None:
    """But for what changes the storage itself, which both share."""
    x = torch.arange(1.0, 1 + size)
    t = candle.asarray(x.detach())
    values = x.numpy().copy()
    CHANGES[change](x)
    del x
    assert _kept(t, values)


class Plain(torch.Tensor):
    """A subclass without code of its own."""


OWNERS: dict[str, Callable[[Any], Any]] = {
    "plain": lambda x: x,
    "transposed": lambda x: x.view(2, -1).T,
    "stepped": lambda x: x[::2],
    "subclass": lambda x: x.as_subclass(Plain),
    "buffer": torch.nn.Buffer,
    "parameter": lambda x: torch.nn.Parameter(x, requires_grad=False),
    "from numpy": lambda x: torch.from_numpy(x.numpy().copy()),
    "inference": lambda x: torch.inference_mode()(lambda: x * 1)(),
}


@may_crash
@sizes
@pytest.mark.parametrize("owner", OWNERS)
def test_storage_outlives_the_tensor(size: int, owner: str) -> None:
    x = OWNERS[owner](torch.arange(1.0, 1 + size))
    t = candle.from_dlpack(x)
    values = x.detach().flatten().numpy().copy()
    del x
    assert _kept(t, values)
    row = t[1]
    of_row = row.numpy().ravel().copy()
    del t
    assert _kept(row, of_row)


@sizes
def test_what_torch_got_outlives_candles_tensor(size: int) -> None:
    t = candle.arange(size, dtype="float32")
    values = t.numpy().copy()
    ways = [t.torch(), torch.from_dlpack(t), torch.asarray(t), t.numpy()]
    part = t[1:].torch()
    del t
    filler = _junk()
    assert all(np.array_equal(y, values) for y in ways)
    assert np.array_equal(part, values[1:])
    del filler


def test_a_chain_of_hops_holds_the_first_owner() -> None:
    """torch to candle to numpy to candle to torch, with every name in between dropped."""
    x = torch.arange(1000.0)
    address, values = x.data_ptr(), x.tolist()
    y = candle.asarray(candle.asarray(x).numpy()).torch()
    del x
    filler = _junk()
    assert y.data_ptr() == address
    assert y.tolist() == values
    del filler


def test_threads_drop_what_they_were_given() -> None:
    def work(y: Any) -> None:
        for _ in range(200):
            candle.asarray(y).torch()

    t = candle.asarray(torch.ones(1000))
    threads = [threading.Thread(target=work, args=(t.torch(),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert t.tolist() == [1] * 1000
