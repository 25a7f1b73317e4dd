"""Where and with what the figures of a benchmark were taken."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from pathlib import Path

import candle


def processor() -> str:
    """Name this machine's processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def environment(*distributions: str) -> dict[str, str]:
    """Name the machine, and the versions of candle, Python and these distributions."""
    return {
        "processor": f"{processor()}, {os.cpu_count()} cores seen",
        "system": f"{platform.system()} {platform.machine()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "candle": candle.__version__,
        **{name: version(name) for name in distributions},
    }
