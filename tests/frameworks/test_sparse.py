"""Sparse arrays are no sequences of their rows: they are refused by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import candle

scipy_sparse = pytest.importorskip("scipy.sparse")


@pytest.mark.parametrize("kind", ["coo", "csc", "csr", "dok", "lil"])
@pytest.mark.parametrize("form", ["matrix", "array"])
@pytest.mark.parametrize("take", [candle.asarray, candle.from_dlpack, candle.tensor])
def test_scipys(kind: str, form: str, take: Any) -> None:
    x = getattr(scipy_sparse, f"{kind}_{form}")(np.eye(3))
    with pytest.raises(BufferError, match=rf"scipy\.{kind}_{form}.*sparse.*todense\(\)"):
        take(x)
    assert candle.asarray(x.todense()).tolist() == np.eye(3).tolist()
