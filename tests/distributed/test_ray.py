"""Tensors in Ray: put, got, and passed between two workers."""

from __future__ import annotations

import os
import shutil
import tempfile
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import engines
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

BIG = 1 << 18  # elements: what is smaller travels in messages, and not by the store


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    """Two workers on this machine."""
    if find_spec("ray") is None:
        pytest.skip("ray is not installed")
    if not isolation.is_child():
        yield None
        return
    folder = tempfile.mkdtemp(prefix="ray")  # pytest's names are too long for its sockets
    os.environ.update(engines.ray_settings(folder))
    import ray as module

    module.init(
        num_cpus=2, include_dashboard=False, object_store_memory=200 << 20, log_to_driver=False
    )
    yield module
    module.shutdown()
    shutil.rmtree(folder, ignore_errors=True)


def big(dtype: str = "float32") -> candle.Tensor:
    return candle.arange(BIG).to(dtype)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float8_e4m3fn", "complex64"])
def test_get_copies_nothing(ray: Any, dtype: str) -> None:
    t = big(dtype)
    reference = ray.put(t)
    with candle.strict(), candle.trace() as moves:
        first, second = ray.get(reference), ray.get(reference)
    assert moves.nbytes == 0
    assert first.data_ptr() == second.data_ptr() != t.data_ptr()
    assert "/plasma" in remote.mapping(first.data_ptr())
    assert first.data_ptr() % 64 == 0
    remote.same({"": t}, {"": remote.see(first)})


def test_what_was_got_is_read_only(ray: Any) -> None:
    reference = ray.put(big())
    t = ray.get(reference)
    assert t.readonly
    for write in (t.fill_, t.copy_):
        with pytest.raises(ValueError, match="read-only"):
            write(candle.asarray(42.0))
    with pytest.raises(ValueError, match="read-only"):
        t[0] = 42
    with pytest.raises(ValueError, match="read-only"):
        t.numpy()[0] = 42
    with pytest.raises(ValueError, match="read-only"):
        t[5:].view("int32").numpy()[0] = 42
    assert ray.get(reference)[:3].tolist() == [0, 1, 2]


def test_torch_gets_memory_of_its_own(ray: Any) -> None:
    pytest.importorskip("torch")
    reference = ray.put(big())
    x = ray.get(reference).torch()
    x[0] = 42
    assert ray.get(reference)[0].item() == 0


def test_trees(ray: Any) -> None:
    tree = {"weights": [big(), big("float16")], "name": "a", "small": candle.ones(3)}
    got = ray.get(ray.put(tree))
    assert got["name"] == "a"
    assert "/plasma" in remote.mapping(got["weights"][1].data_ptr())
    for here, there in ((tree, got), (tree["weights"], got["weights"])):
        for key in (0, 1) if isinstance(here, list) else ("small",):
            remote.same({"": here[key]}, {"": remote.see(there[key])})


def test_every_kind_to_a_worker_and_back(ray: Any) -> None:
    tree = {name: make() for name, make in remote.SENT.items()}
    remote.same(tree, ray.get(ray.remote(remote.see_all).remote(tree)))
    got = ray.get(ray.remote(remote.back).remote(tree))
    remote.same(tree, remote.see_all(got))
    assert got["transposed"].stride == tree["transposed"].stride


def test_gaps_are_copied_once_and_said(ray: Any) -> None:
    t = big()[::2]
    with candle.trace() as moves:
        reference = ray.put(t)
    copies = moves.copies
    assert [(move.nbytes, move.reasons[0].code) for move in copies] == [(BIG * 2, "order")]
    assert ray.get(reference)[:3].tolist() == [0, 2, 4]


def test_workers_share_the_memory_of_the_store(ray: Any) -> None:
    """And the one's result goes to the other without this process."""
    made = ray.remote(remote.made).remote(BIG, "float32")
    twice = ray.remote(remote.doubled).remote(made)
    seen = ray.get(ray.remote(remote.see).remote(twice))
    assert "/plasma" in seen.memory
    assert seen.readonly
    remote.same({"": candle.asarray(big().numpy() * 2)}, {"": seen})


def test_writing_in_a_worker_is_an_error_there(ray: Any) -> None:
    reference = ray.put(big())
    with pytest.raises(ValueError, match="read-only"):
        ray.get(ray.remote(remote.overwrite).remote(reference))
    assert ray.get(reference)[0].item() == 0


def test_a_tensor_keeps_its_memory_in_the_store(ray: Any) -> None:
    t = ray.get(ray.put(big()))  # the reference is gone
    for _ in range(5):
        ray.get(ray.put(candle.zeros(BIG * 16)))  # more than there is room for
    assert t[-1].item() == BIG - 1


@pytest.mark.parametrize("framework", ["torch", "jax"])
def test_workers_need_no_framework(ray: Any, framework: str) -> None:
    pytest.importorskip(framework)
    t = candle.asarray(candle.convert(big(), framework))
    remote.same({"": t}, {"": ray.get(ray.remote(remote.see).remote(t))})
    assert ray.get(ray.remote(remote.frameworks).remote()) == set()


def test_shared_memory_beside_the_store(ray: Any) -> None:
    handle = candle.share([1.0, 2.0])
    values, memory = ray.get(ray.remote(remote.opened).remote(handle))
    assert values == [1.0, 2.0]
    assert "memfd:candle" in memory
    late = ray.put(handle)
    del handle
    with pytest.raises(Exception, match="the shared memory is gone"):
        ray.get(ray.remote(remote.opened).remote(late))


def test_nothing_is_left_in_the_workers(ray: Any) -> None:
    alive, see = ray.remote(remote.alive), ray.remote(remote.see)
    for _ in range(4):
        ray.get([see.remote(big()) for _ in range(4)])
    assert ray.get(alive.remote())["tensors"] <= 1
