"""100,000 round trips of each kind, a million of all: no growth, each deleter once."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
import sanitizers

SCRIPT = Path(__file__).parent / "isolated" / "round_trips.py"
TIMES = 100_000
# The smallest block that malloc gives is 32 bytes: leaking one a turn would be 3.2 MB.
GROWTH = 1_500_000


def kinds() -> list[str]:
    """Read from the script, which needs the frameworks."""
    text = SCRIPT.read_text().partition("KINDS:")[2].partition("\n}")[0]
    return [line.split('"')[1] for line in text.splitlines() if line.startswith('    "')]


@pytest.mark.parametrize("kind", kinds())
def test_round_trips(run_child: Any, kind: str) -> None:
    name = kind.partition(",")[0]
    if name in ("numpy", "torch", "jax", "tvm_ffi") and importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} is not installed")
    times = 2000 if sanitizers.is_address() else 10 * TIMES if kind == "mixed" else TIMES
    child = run_child("-X", "faulthandler", SCRIPT, kind, str(times), JAX_PLATFORMS="cpu")
    result = json.loads(child.check())
    assert not any(result["left"].values()), result
    assert sanitizers.is_address() or result["grown"] < GROWTH, result
