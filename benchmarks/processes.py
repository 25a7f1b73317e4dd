"""What it takes to get a tensor into another process: candle beside numpy and torch, in one run.

Ray, Dask and MPI are left out where they are absent. Milliseconds: the least of interleaved rounds.
Needs torch; ``pip install 'candle-dlpack[distributed]'`` and an MPI for all of it.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import pickle
import shutil
import subprocess
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

# Here and in the processes that take this path over: the copy.py of this folder is not Python's.
FOLDER = Path(__file__).resolve().parent
sys.path[:] = [path for path in sys.path if Path(path).resolve() != FOLDER]

import numpy as np  # noqa: E402
import torch  # noqa: E402

import candle  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable

    Ways = dict[str, Callable[[], object]]

GET_TARGET = 50  # times faster than torch's tensor


def tensors(nbytes: int) -> dict[str, Any]:
    """Give the same numbers to each."""
    values = np.arange(nbytes // 4, dtype="float32")
    return {
        "candle": candle.asarray(values, copy=True),
        "numpy": values,
        "torch": torch.tensor(values),
    }


def milliseconds(ways: Ways, rounds: int) -> dict[str, float]:
    """Time every way, in turns; what it gives is dropped outside of the timing."""
    best = dict.fromkeys(ways, float("inf"))
    for i in range(rounds):
        for name in list(ways)[:: 1 if i % 2 else -1]:
            begin = time.perf_counter()
            result = ways[name]()
            best[name] = min(best[name], (time.perf_counter() - begin) * 1000)
            del result
    return best


def by_pickle(sent: dict[str, Any], rounds: int) -> dict[str, dict[str, float]]:
    """Pickle and unpickle with the buffers out of band."""

    def there_and_back(x: object) -> object:
        buffers: list[pickle.PickleBuffer] = []
        stream = pickle.dumps(x, protocol=5, buffer_callback=buffers.append)
        return pickle.loads(stream, buffers=buffers)

    ways: Ways = {name: lambda x=x: there_and_back(x) for name, x in sent.items()}
    return {"pickle, out of band": milliseconds(ways, rounds)}


def echo(pipe: Any) -> None:
    """Touch what comes and say so, in another process."""
    while (x := pipe.recv()) is not None:
        t = candle.asarray(x.open() if isinstance(x, candle.Shared) else x)
        pipe.send(t[-1].item())


def by_pipe(sent: dict[str, Any], rounds: int) -> dict[str, dict[str, float]]:
    """Send to another process by a pipe of multiprocessing, and wait until it has read it."""
    import torch.multiprocessing  # noqa: F401  (teaches it to share torch's tensors)

    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=echo, args=(there,), daemon=True)
    process.start()

    def ask(x: object) -> object:
        here.send(x)
        return here.recv()

    ways: Ways = {name: lambda x=x: ask(x) for name, x in sent.items()}
    ways["candle.share"] = lambda: ask(candle.share(sent["candle"]))
    handle = candle.share(sent["candle"])
    ways["shared before"] = lambda: ask(handle)
    best = milliseconds(ways, rounds)
    here.send(None)
    process.join()
    return {"pipe": best}


def by_ray(sent: dict[str, Any], rounds: int) -> dict[str, dict[str, float]]:
    """Put into the store of Ray, and get from it."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import ray

    store = sent["numpy"].nbytes * 8
    ray.init(num_cpus=1, include_dashboard=False, object_store_memory=store, log_to_driver=False)
    try:
        putting: Ways = {name: lambda x=x: ray.put(x) for name, x in sent.items()}
        put = milliseconds(putting, rounds)
        references = {name: ray.put(x) for name, x in sent.items()}
        getting: Ways = {name: lambda r=r: ray.get(r) for name, r in references.items()}
        got = milliseconds(getting, rounds)
        addresses = {ray.get(references["candle"]).data_ptr() for _ in range(2)}
        assert len(addresses) == 1, "two gets share one address"
        return {"ray.put": put, "ray.get": got}
    finally:
        ray.shutdown()


def by_dask(sent: dict[str, Any], rounds: int) -> dict[str, dict[str, float]]:
    """Send to a worker of Dask, and back."""
    from distributed import Client, LocalCluster

    with (
        LocalCluster(1, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):

        def there_and_back(x: object) -> object:
            [future] = client.scatter([x], hash=False, direct=True)
            return client.gather(future, direct=True)  # else by the scheduler, and protocol 4

        ways: Ways = {name: lambda x=x: there_and_back(x) for name, x in sent.items()}
        return {"dask, there and back": milliseconds(ways, rounds)}


def by_mpi(sent: dict[str, Any], rounds: int) -> dict[str, dict[str, float]]:
    """Run this file as two ranks."""
    if shutil.which("mpirun") is None:
        print("there is no mpirun: MPI is left out")
        return {}
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    said = subprocess.run(
        [
            *("mpirun", "-n", "2", sys.executable, "-m", "mpi4py", __file__, "--as-rank"),
            *("--megabytes", str(sent["numpy"].nbytes / 1e6), "--rounds", str(rounds)),
        ],
        env={**os.environ, **root},
        stdout=subprocess.PIPE,
        check=True,
    )
    found: dict[str, dict[str, float]] = json.loads(said.stdout)
    return found


def as_rank(sent: dict[str, Any], rounds: int) -> dict[str, dict[str, float]]:
    """Send from rank 0 to rank 1, and back."""
    from mpi4py import MPI

    world = MPI.COMM_WORLD

    def there_and_back(x: Any) -> None:
        if world.rank == 0:
            world.Send(x, 1)
            world.Recv(x, 1)
        else:
            world.Recv(x, 0)
            world.Send(x, 0)

    ways: Ways = {name: lambda x=x: there_and_back(x) for name, x in sent.items()}
    ways["candle, pickled"] = (
        (lambda: (world.send(sent["candle"], 1), world.recv(source=1)))
        if world.rank == 0
        else (lambda: world.send(world.recv(source=0), 0))
    )
    return {"MPI, there and back": milliseconds(ways, rounds)}


def installed(name: str) -> bool:
    """Tell whether a distribution is there; say it if not."""
    try:
        version(name)
    except PackageNotFoundError:
        print(f"{name} is not installed: left out")
        return False
    return True


PLAIN = {"pickle": by_pickle, "pipe": by_pipe}  # these need nothing
ENGINES = PLAIN | {"ray": by_ray, "distributed": by_dask, "mpi4py": by_mpi}


def main() -> int:
    """Measure, print, and write JSON if asked."""
    parser = argparse.ArgumentParser(description="Tensors to other processes, beside peers.")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--megabytes", type=float, default=100)
    parser.add_argument("--only", nargs="+", choices=ENGINES)
    parser.add_argument("--as-rank", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    nbytes, rounds = int(options.megabytes * 1e6), options.rounds
    sent = tensors(nbytes)
    if options.as_rank:
        best = as_rank(sent, rounds)
        from mpi4py import MPI

        if MPI.COMM_WORLD.rank == 0:
            print(json.dumps(best))
        return 0
    best: dict[str, dict[str, float]] = {}
    names = ["torch", "numpy"]
    for name, measure in ENGINES.items():
        if name not in (options.only or ENGINES) or not (name in PLAIN or installed(name)):
            continue
        if name not in PLAIN:
            names.append(name)
        best |= measure(sent, rounds)
    sys.path.append(str(FOLDER))
    from machine import environment

    report = {
        "environment": environment(*names),
        "bytes": nbytes,
        "milliseconds": best,
        "ratios": {
            case: {name: ms / least["candle"] for name, ms in least.items()}
            for case, least in best.items()
        },
        "target": {"ray.get": {"torch": GET_TARGET}},
    }
    print(", ".join(f"{name} {text}" for name, text in report["environment"].items()))
    print(f"\n{f'ms for {options.megabytes:g} MB':24} {'way':16} {'least':>10} {'of candle':>10}")
    for case, least in best.items():
        for i, (name, ms) in enumerate(least.items()):
            ratio = report["ratios"][case][name]
            missed = case == "ray.get" and name == "torch" and ratio < GET_TARGET
            said = f"  missed {GET_TARGET}" if missed else ""
            print(f"{'' if i else case:24} {name:16} {ms:10.3f} {ratio:10.2f}{said}")
    if options.json:
        options.json.write_text(json.dumps(report, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
