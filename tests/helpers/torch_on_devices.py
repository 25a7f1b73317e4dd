"""Tensors of torch's on devices of the fake driver, and how results of them compare with numpy's.

The functions want `fake_torch_cuda` installed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import fake_driver
import numpy as np
from owned_capsules import owned_capsule
from standard_calls import host, leaves

import candle

if TYPE_CHECKING:
    from collections.abc import Sequence


def crossings() -> list[str]:
    """What torch copied between the host and a device since the last time."""
    import fake_torch_cuda

    found = [*fake_torch_cuda.crossed]
    fake_torch_cuda.crossed.clear()
    return found


def lent(values: Any, device: int) -> tuple[Any, candle.Tensor]:
    """An array on a device that torch owns, and a Tensor over it."""
    import torch

    x = torch.from_numpy(np.array(values)).to(f"cuda:{device}")
    return x, candle.from_dlpack(x)


def of_torch(device: int) -> list[candle.Tensor]:
    return [lent(t.numpy(), device)[1] for t in host()]


def raw(
    device: int, tensors: Sequence[candle.Tensor] | None = None, *, read_only: bool = False
) -> list[candle.Tensor]:
    """The operands in memory that nobody but the driver knows of, by plain capsules."""
    made = []
    for t in host() if tensors is None else tensors:
        driver = fake_driver.loaded()
        address = driver.alloc(t.nbytes, device)
        driver.view(address, t.nbytes)[:] = t.numpy().tobytes()
        kind = {"real": 2, "int": 0, "bool": 6}[t.dtype.kind]
        capsule = owned_capsule(
            address,
            lambda address=address: fake_driver.loaded().free(address),
            shape=t.shape,
            strides=t.stride,
            dtype=(kind, t.dtype.bits),
            device=(2, device),
            versioned=True,
            flags=int(read_only),
        )
        made.append(candle.from_dlpack(capsule))
    return made


def same(got: Any, want: Any, place: str) -> str:
    """What is wrong with a result of torch's on a device, beside numpy's."""
    pairs = list(zip(leaves(got), leaves(want), strict=False))
    if len(leaves(got)) != len(leaves(want)):
        return f"{got!r} instead of {want!r}"
    for mine, array in pairs:
        if type(mine) is bool and mine == array:
            continue
        if type(mine) is not candle.Tensor or mine.device != place:
            return f"gives {mine!r}"
        back, expected = mine.to("cpu").numpy(), np.asarray(array)
        if back.dtype != expected.dtype or back.shape != expected.shape:
            return f"gives {back.dtype} {back.shape} instead of {expected.dtype} {expected.shape}"
        if not np.allclose(back, expected, 1e-4, 1e-6, equal_nan=True):
            return f"gives {back} instead of {expected}"
    return ""
