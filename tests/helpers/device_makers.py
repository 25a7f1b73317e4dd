"""What makes arrays and copies on the fake driver's devices, and what is said of the copies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import candle
from candle.ledger import listening


class Cupy:
    """Arrays of the stand-in for cupy. It has neither bfloat16 nor smaller floats."""

    name = "cupy"

    def __init__(self) -> None:
        import fake_cupy

        self.module = fake_cupy.install()

    def array(self, values: Any, device: int = 0) -> Any:
        with self.module.cuda.Device(device):
            return self.module.asarray(values)

    def on(self, stream: int, device: int = 0) -> Any:
        import fake_cupy

        return fake_cupy.CupyFramework(device).stream(stream)


class Torch:
    """Tensors of torch. Reversed ones it has not."""

    name = "torch"

    def __init__(self) -> None:
        torch = pytest.importorskip("torch")
        if torch.version.cuda is not None:
            pytest.skip("torch has CUDA of its own")
        import fake_torch_cuda

        fake_torch_cuda.install()
        self.module = torch

    def array(self, values: Any, device: int = 0) -> Any:
        host = self.module.from_numpy(np.array(values))
        return self.module.empty_like(host, device=f"cuda:{device}").copy_(host)

    def on(self, stream: int, device: int = 0) -> Any:
        import fake_torch_cuda

        return fake_torch_cuda.TorchFramework(device).stream(stream)


class Copies(list[candle.Plan]):
    """The copies within a block."""

    def __enter__(self) -> Copies:
        self._listening = listening(self.append)
        self._listening.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._listening.__exit__(*error)

    @property
    def reasons(self) -> list[tuple[str, ...]]:
        return [tuple(reason.code for reason in plan.reasons) for plan in self]
