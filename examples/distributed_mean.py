"""The mean of each column of a table, its rows spread over processes: by Ray, Dask or MPI.

    python examples/distributed_mean.py ray
    python examples/distributed_mean.py dask
    mpirun -n 3 python examples/distributed_mean.py mpi

The same function runs in all of them. Each hop prints the bytes that candle copied, by its own
count, and what the engine does with them, as far as that can be seen from here. The exit status is
1 if the result is wrong, or candle copied what it could have shared.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import candle

COLUMNS = 1024


class Arrived(NamedTuple):
    """What a process sees of a tensor that was unpickled in it."""

    nbytes: int
    copied: int
    where: str


class Hop(NamedTuple):
    """One move between processes."""

    name: str
    nbytes: int
    copied: int  # by candle
    engine: str
    needless: bool = True  # whether candle had no need to copy


def arrival(name: str, t: Arrived, engine: str) -> Hop:
    """Say what became of a tensor on its way here, or to a worker that tells of it."""
    if t.copied:
        engine += "; where no element can begin, so that candle copies them once more"
    return Hop(name, t.nbytes, t.copied, engine, needless=False)


def arrived(t: candle.Tensor) -> Arrived:
    """Look whose memory it has: the engine's, or candle's own where that was misaligned."""
    copied = t.nbytes if isinstance(candle.owner(t), candle.Tensor) else 0
    return Arrived(t.nbytes, copied, whereabouts(t))


def table(megabytes: int) -> candle.Tensor:
    """Make the rows; their number is a multiple of all numbers of workers up to 10."""
    rows = -(-megabytes * 256 // 2520) * 2520
    values = np.arange(rows, dtype="float32")[:, None] % 7 + np.arange(COLUMNS, dtype="float32")
    return candle.from_dlpack(values)


def parts(rows: candle.Tensor, count: int) -> list[candle.Tensor]:
    """Cut a table into equal ones. They share its memory."""
    if rows.shape[0] % count:
        sys.exit(f"{rows.shape[0]} rows are not spread evenly over {count} processes")
    return list(rows.unflatten(0, (count, -1)))


def mean(rows: candle.Tensor) -> candle.Tensor:
    """Give the mean of each column: what runs in every process, whatever the engine."""
    return candle.from_dlpack(rows.numpy().mean(axis=0))


def whereabouts(t: candle.Tensor) -> str:
    """Name what a tensor's memory is mapped from: a file, or nothing ("anonymous memory")."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        extent, *rest = line.split(maxsplit=5)
        first, last = (int(edge, 16) for edge in extent.split("-"))
        if first <= t.data_ptr() < last:
            return rest[4] if len(rest) > 4 else "anonymous memory"
    return "unknown memory"


def run_there(rows: candle.Tensor) -> tuple[candle.Tensor, Arrived, int]:
    """Compute the mean in a worker; say what arrived, and how many bytes candle copied then."""
    with candle.trace() as moves:
        result = mean(rows)
    return result, arrived(rows), moves.nbytes


def by_ray(rows: candle.Tensor, count: int) -> tuple[candle.Tensor, list[Hop]]:
    """Put the parts into the store of Ray, whose workers map it."""
    import ray

    ray.init(
        num_cpus=count,
        include_dashboard=False,
        object_store_memory=rows.nbytes * 2 + (100 << 20),
        log_to_driver=False,
    )
    try:
        with candle.trace() as moves:
            stored = [ray.put(part) for part in parts(rows, count)]
        hops = [Hop("driver -> store", rows.nbytes, moves.nbytes, "copies them into the store")]
        remote = ray.remote(run_there)
        answers = ray.get([remote.remote(reference) for reference in stored])
        for i, (result, there, copied) in enumerate(answers):
            verb = (
                "copies nothing: they lie" if "plasma" in there.where else "copies them; they lie"
            )
            hops += [
                arrival(f"store -> worker {i}", there, f"{verb} in {there.where}"),
                Hop(f"within worker {i}", 0, copied, ""),
                arrival(f"worker {i} -> driver", arrived(result), "copies them, as a message"),
            ]
        return mean(candle.stack([result for result, *_ in answers])), hops
    finally:
        ray.shutdown()


def by_dask(rows: candle.Tensor, count: int) -> tuple[candle.Tensor, list[Hop]]:
    """Send the parts to the workers of Dask, through sockets."""
    from distributed import Client, LocalCluster

    with (
        LocalCluster(count, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        addresses = list(client.scheduler_info()["workers"])
        hops, futures = [], []
        for i, part in enumerate(parts(rows, count)):
            with candle.trace() as moves:
                [sent] = client.scatter([part], workers=[addresses[i]], hash=False)
            said = "copies them into a socket"
            hops.append(Hop(f"driver -> socket {i}", part.nbytes, moves.nbytes, said))
            futures.append(client.submit(run_there, sent, workers=[addresses[i]], pure=False))
        answers = client.gather(futures, direct=True)  # as frames, not by the scheduler
        for i, (result, there, copied) in enumerate(answers):
            hops += [
                arrival(f"socket -> worker {i}", there, "copies them out of the socket"),
                Hop(f"within worker {i}", 0, copied, ""),
                arrival(f"worker {i} -> driver", arrived(result), "copies them, by a socket"),
            ]
        return mean(candle.stack([result for result, *_ in answers])), hops


def by_mpi(rows: candle.Tensor, _: int) -> tuple[candle.Tensor | None, list[Hop]]:
    """Scatter the parts from rank 0; every rank runs this. The result is rank 0's."""
    from mpi4py import MPI

    from candle.mpi import agreed

    world = MPI.COMM_WORLD
    part = candle.empty((rows.shape[0] // world.size, COLUMNS), dtype="float32")
    with candle.trace() as arriving:
        world.Scatter(rows if world.rank == 0 else None, agreed(world, part), 0)
    result, _, there = run_there(part)
    total = candle.empty((COLUMNS,), dtype="float32")
    with candle.trace() as leaving:
        world.Reduce(agreed(world, result, reducing=True), total, MPI.SUM, 0)
    hops: list[Hop] = []
    for i, counts in enumerate(world.gather((arriving.nbytes, there, leaving.nbytes)) or []):
        said = "copies them within the process" if i == 0 else "copies them from memory to memory"
        hops.append(Hop(f"rank 0 -> rank {i}", part.nbytes, counts[0], said))
        hops.append(Hop(f"within rank {i}", 0, counts[1], ""))
        hops.append(Hop(f"rank {i} -> sum", result.nbytes, counts[2], "copies and adds them"))
    if world.rank != 0:
        return None, []
    return candle.from_dlpack(total.numpy() / world.size), hops


ENGINES: dict[str, Any] = {"ray": by_ray, "dask": by_dask, "mpi": by_mpi}
PACKAGES = {"ray": "ray", "dask": "distributed", "mpi": "mpi4py"}


def main() -> str | None:
    """Run one engine, print its hops, and compare the result with numpy's."""
    parser = argparse.ArgumentParser(description="Means of columns, over several processes.")
    parser.add_argument("engine", choices=ENGINES)
    parser.add_argument("--megabytes", type=int, default=64)
    parser.add_argument("--workers", type=int, default=2, help="of Ray or Dask; mpirun -n for MPI")
    options = parser.parse_args()
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        __import__(PACKAGES[options.engine])
    except ImportError as error:
        return f"{error}: pip install 'candle-dlpack[distributed]'"
    rows = table(options.megabytes)
    found, hops = ENGINES[options.engine](rows, options.workers)
    if found is None:  # another rank has the result
        return None
    print(f"{'hop':22} {'bytes':>12} {'candle copied':>14}  {options.engine}")
    for hop in hops:
        print(f"{hop.name:22} {hop.nbytes:12} {hop.copied:14}  {hop.engine}".rstrip())
    if not np.allclose(found.numpy(), rows.numpy().mean(axis=0), rtol=1e-4):
        return "the means are wrong"
    print(f"the means of {rows.shape[0]} x {COLUMNS} elements are right")
    copied = sum(hop.copied for hop in hops if hop.needless)
    return f"candle copied {copied} bytes that it could have shared" if copied else None


if __name__ == "__main__":
    sys.exit(main())
