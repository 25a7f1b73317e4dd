"""Tensors that go through two workers of Dask."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import isolation
import pytest
import remote

import candle

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [
    pytest.mark.isolated(together="file", whole=True),
    pytest.mark.filterwarnings("ignore"),  # its own are many
]

COUNT = 1 << 16


@pytest.fixture(autouse=True)
def _nothing_left_alive() -> None:
    """Not looked for here: the scheduler runs in this process, and keeps what tasks were given."""


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    """Two workers on this machine, each a process."""
    distributed = pytest.importorskip("distributed")
    if not isolation.is_child():
        yield None
        return
    with (
        distributed.LocalCluster(
            2, processes=True, threads_per_worker=1, dashboard_address=None, memory_limit="1GB"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.fixture
def workers(client: Any) -> list[str]:
    """Their addresses."""
    return list(client.scheduler_info()["workers"]) if client else []


def big() -> candle.Tensor:
    return candle.arange(COUNT, dtype="float64")


def test_every_kind_to_a_worker_and_back(client: Any, workers: list[str]) -> None:
    tree = {name: make() for name, make in remote.SENT.items()}
    there = client.scatter(tree, workers=workers[:1], hash=False)
    seen = {name: client.submit(remote.see, there[name], workers=workers[:1]) for name in tree}
    remote.same(tree, client.gather(seen))
    remote.same(tree, remote.see_all(client.gather(there)))


def test_fetched_from_the_worker_it_is_a_frame(client: Any) -> None:
    """By way of the scheduler it is pickled in one piece, by protocol 4."""
    made = client.submit(remote.made, COUNT, "uint8", pure=False)  # aligned anywhere
    fetched, relayed = client.gather(made, direct=True), client.gather(made)
    for t, own in (fetched, False), (relayed, True):
        assert t.tolist() == candle.arange(COUNT).to("uint8").tolist()
        assert not t.readonly
        assert isinstance(candle.owner(t), candle.Tensor) == own


def test_from_worker_to_worker(client: Any, workers: list[str]) -> None:
    first, second = workers
    made = client.submit(remote.made, COUNT, "bfloat16", workers=[first], pure=False)
    twice = client.submit(remote.doubled, made, workers=[second], pure=False)
    seen = client.submit(remote.see, twice, workers=[first], pure=False).result()
    remote.same({"": candle.asarray(big().to("bfloat16").numpy() * 2)}, {"": seen})


@pytest.mark.parametrize("odd", [1, 3, 5, 7])
def test_neighbours_of_odd_lengths(client: Any, workers: list[str], odd: int) -> None:
    """Frames of one message lie one behind the other: these lie at odd addresses."""
    tree = {"odd": candle.zeros(odd, dtype="uint8"), "after": big(), "and": candle.ones(3)}
    seen = client.submit(remote.see_all, tree, workers=workers[:1], pure=False).result()
    remote.same(tree, seen)


def test_workers_need_no_framework(client: Any) -> None:
    torch = pytest.importorskip("torch")
    t = candle.asarray(torch.arange(1000))
    remote.same({"": t}, {"": client.submit(remote.see, t, pure=False).result()})
    assert client.submit(remote.frameworks, pure=False).result() == set()


def test_errors_come_back(client: Any) -> None:
    with pytest.raises(ValueError, match="read-only"):
        client.submit(remote.overwrite, candle.asarray(bytes(10)), pure=False).result()


def test_arrays_of_tensors(client: Any) -> None:
    da = pytest.importorskip("dask.array")
    array = da.from_array(big().numpy(), chunks=COUNT // 4)
    assert array.sum().compute() == sum(range(COUNT))


def test_shared_memory_beside_the_messages(client: Any) -> None:
    handle = candle.share([1.0, 2.0])
    values, memory = client.submit(remote.opened, handle, pure=False).result()
    assert values == [1.0, 2.0]
    assert "memfd:candle" in memory


def test_nothing_is_left_in_the_workers(client: Any, workers: list[str]) -> None:
    for _ in range(4):
        client.submit(remote.see, big(), workers=workers[:1], pure=False).result()
    left = client.submit(remote.alive, workers=workers[:1], pure=False).result()
    assert left["tensors"] <= 2
