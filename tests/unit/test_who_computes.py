"""Which library computes on devices: none is imported that is not needed."""

from __future__ import annotations

from typing import Any

import pytest

import candle
from candle.cuda import provider


class Knowing:
    """A provider, as far as it is asked here."""

    def __init__(self, *dtypes: candle.DType) -> None:
        self.dtypes = dtypes

    def knows(self, dtype: candle.DType) -> bool:
        return dtype in self.dtypes


@pytest.mark.parametrize(
    ("installed", "computes", "looked_for"),
    [
        ({"cupy": Knowing(candle.float32), "torch": Knowing()}, "cupy", ["cupy"]),
        ({"cupy": Knowing(), "torch": Knowing(candle.float32)}, "torch", ["cupy", "torch"]),
        ({"torch": Knowing(candle.float32)}, "torch", ["cupy", "torch"]),
        ({"cupy": Knowing(), "torch": Knowing()}, "cupy", ["cupy", "torch"]),
    ],
    ids=["first", "first lacks the dtype", "first is absent", "nobody has the dtype"],
)
def test_looked_for_in_turn(
    monkeypatch: pytest.MonkeyPatch,
    installed: dict[str, Any],
    computes: str,
    looked_for: list[str],
) -> None:
    loaded: list[str] = []

    def load(name: str) -> Any:
        loaded.append(name)
        return installed.get(name)

    monkeypatch.setattr(provider, "_load", load)
    assert provider.library_for(candle.zeros(2)) == computes
    assert loaded == looked_for
