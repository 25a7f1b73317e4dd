"""What is installed here, what goes to whom without a copy, and what to beware of."""

from __future__ import annotations

import json
import os
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

from . import frameworks, neighbours
from ._native import _core
from .convert import convert
from .ledger import listening
from .testing.sharing import shares_memory
from .testing.trial import trial
from .threads import get_num_threads

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .plan import Plan

__all__ = ["examine", "main", "route"]

_NAME = 32  # more than a framework's name has bytes
_PATIENCE = 120  # seconds: a cold import of every framework may take half a minute


def examine(
    left_out: dict[str, str] | None = None, begin: Callable[[str], object] = str
) -> dict[str, Any]:
    """Look at this environment.

    Imports every framework that is installed, and moves small tensors between all of them. Hazards
    that may end the process are tried in a fork of it.

    Parameters
    ----------
    left_out : dict, optional
        Frameworks that are not touched, and why.
    begin : callable, optional
        Told the name of each framework before anything is done with it.

    Returns
    -------
    dict
        ``candle``, ``frameworks``, ``pairs``, ``hazards``, ``clashes``, ``machine``, ``cuda``; what
        ``python -m candle --json`` prints.
    """
    found = {}
    for name in frameworks.known():
        begin(name)
        why = (left_out or {}).get(name)
        found[name] = _look_for(name) if why is None else {"error": why}
    usable = [name for name, entry in found.items() if "error" not in entry]
    pairs, hazards = [], {}
    for name in usable:
        begin(name)
        pairs += _pairs(name, usable)
        told = _hazards(name)
        if told:
            hazards[name] = told
    return {
        "candle": {
            "version": _version("candle-dlpack") or sys.modules["candle"].__version__,
            "folder": _folder(),
            "python": sys.version.partition(" ")[0],
        },
        "frameworks": found,
        "pairs": pairs,
        "hazards": hazards,
        "clashes": _clashes(),
        "machine": _machine(),
        "cuda": trial(_cuda) if hasattr(os, "fork") else _cuda(),
    }


def route(producer: str, consumer: str) -> list[dict[str, Any]]:
    """Move tensors of one framework to another, and say how that went.

    Parameters
    ----------
    producer, consumer : str
        Names of frameworks.

    Returns
    -------
    list of dict
        For each kind of memory ``from``, ``to``, ``outcome`` (``"shared"``, ``"copied"``,
        ``"refused"``), ``why`` and ``bytes``.

    Raises
    ------
    ValueError
        For a framework that candle cannot tell of.
    """
    names = [name.replace("-", "_") for name in (producer, consumer)]
    for name, choice in zip(names, (frameworks.known(), frameworks.TARGETS), strict=True):
        if name not in choice:
            raise ValueError(f"{name!r} is none of {', '.join(choice)}")
    return _pairs(names[0], [names[1]])


def _folder() -> str:
    return os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120


def _version(distribution: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def _look_for(name: str) -> dict[str, str]:
    """Import a framework: its version, or why it is not there."""
    from importlib.util import find_spec

    try:
        if find_spec(name) is None:
            return {"error": "not installed"}
        module = __import__(name)
    except (Exception, SystemExit) as error:
        return {"error": f"{type(error).__name__}: {error}"}
    return {"version": str(getattr(module, "__version__", "unknown"))}


def _pairs(producer: str, consumers: Sequence[str]) -> list[dict[str, Any]]:
    try:
        examples = frameworks.examples(producer)
    except (Exception, SystemExit) as error:
        others = [name for name in consumers if name in frameworks.TARGETS and name != producer]
        return [_entry(producer, name, "refused", _words(error)) for name in others]
    return [
        _move(kind, x, consumer)
        for kind, x in examples.items()
        for consumer in consumers
        if consumer in frameworks.TARGETS and consumer != producer
    ]


def _move(kind: str, x: Any, consumer: str) -> dict[str, Any]:
    """Move a tensor and see whether it was shared."""
    from warnings import catch_warnings, simplefilter

    copies: list[Plan] = []
    try:
        with catch_warnings():
            simplefilter("ignore")
            with listening(copies.append):
                moved = convert(x, consumer)
            shared = shares_memory(x, moved)
    except Exception as error:
        return _entry(kind, consumer, "refused", _words(error))
    if copies:
        plan = copies[-1]
        why = "; ".join(f"{reason.code}: {reason.fact}" for reason in plan.reasons)
        return _entry(kind, consumer, "copied", why, sum(plan.nbytes for plan in copies))
    if not shared:
        return _entry(kind, consumer, "copied", f"by {consumer} itself", _core.asarray(x).nbytes)
    return _entry(kind, consumer, "shared", "")


def _entry(kind: str, consumer: str, outcome: str, why: str, nbytes: int = 0) -> dict[str, Any]:
    return {"from": kind, "to": consumer, "outcome": outcome, "why": why, "bytes": nbytes}


def _words(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def _hazards(name: str) -> list[str]:
    try:
        return frameworks.hazards(name, trial)
    except Exception as error:
        return [f"could not be tried: {_words(error)}"]


def _clashes() -> list[str]:
    """Tell of packages of the same name: those in this folder, and those installed elsewhere."""
    here = neighbours.clashes(_folder())
    told = [
        f"files of {name} lie in this package's folder; {neighbours.remedy(name)}" for name in here
    ]
    for name in neighbours.NAMES:
        version = _version(name)
        if version is not None and name not in here:
            told.append(
                f"{name} {version} is installed, and is imported as candle too: whichever comes "
                f"first on sys.path is imported; {neighbours.remedy(name)}"
            )
    if hasattr(sys.modules.get("_candle_torch_compat"), "__file__"):
        told.append(
            "candle-python's import hook is active: where torch is not installed, `import torch` "
            "gives a package named candle; pip uninstall candle-python"
        )
    return told


def _machine() -> dict[str, Any]:
    threads = os.environ.get("CANDLE_NUM_THREADS")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "cores": cores,
        "threads": get_num_threads(),
        "CANDLE_NUM_THREADS": threads,
        "simd": _core.simd(),
    }


def _cuda() -> str:
    """Ask the driver, in a process of its own: a context costs memory."""
    import ctypes

    library = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
    try:
        driver = ctypes.CDLL(library)
    except OSError:
        return f"no driver ({library}) found"
    code = driver.cuInit(0)
    if code != 0:
        return f"a driver that does not start: cuInit gives {code}"
    version, count = ctypes.c_int(), ctypes.c_int()
    driver.cuDriverGetVersion(ctypes.byref(version))
    driver.cuDeviceGetCount(ctypes.byref(count))
    major, minor = version.value // 1000, version.value % 1000 // 10
    return f"driver for CUDA {major}.{minor}, {count.value} devices"


def _print(report: dict[str, Any]) -> None:
    own, machine = report["candle"], report["machine"]
    print(f"candle {own['version']} in {own['folder']}, Python {own['python']}")
    print(
        f"{machine['cores']} cores, {machine['threads']} threads for copies (CANDLE_NUM_THREADS is "
        f"{machine['CANDLE_NUM_THREADS'] or 'not set'}), {machine['simd']} instructions; "
        f"CUDA: {report['cuda']}"
    )
    print("\nframeworks")
    for name, entry in report["frameworks"].items():
        print(f"  {name:10} {entry.get('version') or entry['error']}")
    print("\npairs, tried just now")
    _print_pairs(report["pairs"])
    for title, told in (
        (
            "hazards",
            [f"{name}: {text}" for name, all_ in report["hazards"].items() for text in all_],
        ),
        ("name clashes", report["clashes"]),
    ):
        print(f"\n{title}")
        for text in told or ["none found"]:
            print(f"  {text}")


def _print_pairs(pairs: list[dict[str, Any]]) -> None:
    for pair in pairs:
        size = f" {pair['bytes']} bytes:" if pair["bytes"] else ""
        print(
            f"  {pair['from']:22} -> {pair['to']:8} {pair['outcome']}{size} {pair['why']}".rstrip()
        )


class _Ended(Exception):
    """A framework, or nothing, and how it ended the process."""


def _elsewhere(do: Callable[[Callable[[str], object]], Any]) -> Any:
    """Do something in a fork of this process, as frameworks may end it, and print on the way.

    `do` is given what it is to tell the names of frameworks to.
    """
    from mmap import mmap

    with mmap(-1, _NAME) as written:

        def begin(name: str) -> None:
            written[:] = name.encode().ljust(_NAME)

        said = trial(lambda: json.dumps(do(begin)), _PATIENCE)
        if said.startswith("raised"):  # nothing ended: here it raises again, with its traceback
            return do(begin)
        if said.startswith(("killed", "ended", "no answer")):
            raise _Ended(written[:].decode().strip(" \0"), said)
    return json.loads(said)


def _examine_all() -> dict[str, Any]:
    """Examine in a fork, and again without each framework that ends it."""
    if not hasattr(os, "fork"):
        return examine()
    left_out: dict[str, str] = {}
    while True:
        try:
            report: dict[str, Any] = _elsewhere(partial(examine, left_out))
        except _Ended as ended:
            name, how = ended.args
            if name in left_out or name not in frameworks.known():
                raise SystemExit(f"python -m candle: {name} {how}") from None
            left_out[name] = f"ends the process: {how}"
        else:
            return report


def _route(producer: str, consumer: str) -> list[dict[str, Any]]:
    if not hasattr(os, "fork"):
        return route(producer, consumer)
    try:
        pairs: list[dict[str, Any]] = _elsewhere(lambda begin: route(producer, consumer))
    except _Ended as ended:
        return [_entry(producer, consumer, "refused", f"ends the process: {ended.args[1]}")]
    return pairs


def main(arguments: Sequence[str] | None = None) -> int:
    """Run ``python -m candle``; 1 where packages clash, 2 for wrong arguments."""
    import argparse

    parser = argparse.ArgumentParser("python -m candle", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    parser.add_argument(
        "--route", nargs=2, metavar=("FROM", "TO"), help="try one pair of frameworks"
    )
    options = parser.parse_args(arguments)
    if options.route:
        try:
            pairs = _route(*options.route)
        except ValueError as error:
            parser.error(str(error))
        print(json.dumps(pairs, indent=2)) if options.json else _print_pairs(pairs)
        return 0
    report = _examine_all()
    print(json.dumps(report, indent=2)) if options.json else _print(report)
    return 1 if report["clashes"] else 0
