"""Datasets made here, and kept from the network."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

os.environ["HF_HUB_OFFLINE"] = "1"  # read when datasets is imported


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Any]:
    """`saved(features, **columns)` writes a dataset and opens its file: it is mapped, in chunks."""
    datasets = pytest.importorskip("datasets")

    def save(features: dict[str, Any] | None = None, /, **columns: Any) -> Any:
        features = None if features is None else datasets.Features(features)
        made = datasets.Dataset.from_dict(columns, features=features)
        path = tmp_path_factory.mktemp("saved")
        made.save_to_disk(path)
        return datasets.load_from_disk(path)

    datasets.disable_progress_bars()
    return save
