"""Tensors between two ranks of MPI, as mpi4py takes them; `candle.mpi.agreed`."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import engines
import pytest

import candle
import candle.mpi

if TYPE_CHECKING:
    from pathlib import Path

OPENS = """
import pytest, remote, candle
from candle.mpi import agreed
from candle.testing import live
from mpi4py import MPI
world = MPI.COMM_WORLD
rank, other = world.rank, 1 - world.rank
assert world.size == 2
before = live()

def passed(mine, theirs):
    "Rank 0's go to rank 1, and rank 1's to rank 0."
    if rank == 0:
        world.Send(mine, other)
        world.Recv(theirs, other)
    else:
        world.Recv(theirs, other)
        world.Send(mine, other)

def main():
"""
ENDS = """
main()
assert remote.alive() == before, (remote.alive(), before)
"""


def on_two_ranks(folder: Path, code: str) -> None:
    """Run the body of a function as both ranks; one that fails ends both."""
    program = folder / "program.py"
    program.write_text(OPENS + textwrap.indent(textwrap.dedent(code), "    ") + ENDS)
    engines.mpirun(2, program).check(quiet=False)


def test_sent_and_received_as_they_are(tmp_path: Path) -> None:
    code = """
    for dtype in ("bool", "uint8", "int16", "int32", "uint64", "float32", "float64", "complex64"):
        t = candle.asarray([[0, 1, 2], [3, 4, 5]]).to(dtype)
        into = candle.zeros((2, 3), dtype=dtype)
        with candle.strict():
            passed(t, into)
        assert into.tolist() == t.tolist(), dtype
    into = candle.zeros(3, dtype="bfloat16")
    passed(candle.asarray([1, 2, 3]).to("bfloat16"), into)  # as bytes
    assert into.tolist() == [1, 2, 3]
    frozen, into = candle.asarray(b"abc"), candle.zeros(3, dtype="uint8")
    passed(frozen, into)
    assert bytes(into.tolist()) == b"abc"
    table = candle.zeros((4, 3))
    passed(candle.ones(3), table[2])
    assert table.tolist()[1:] == [[0] * 3, [1] * 3, [0] * 3], "into a part of a larger one"
    """
    on_two_ranks(tmp_path, code)


def test_collective_calls(tmp_path: Path) -> None:
    code = """
    t = candle.asarray([1, 2, 3]).to("float64")
    total = candle.empty(3, dtype="float64")
    world.Allreduce(t, total)
    assert total.tolist() == [2, 4, 6]
    world.Allreduce(MPI.IN_PLACE, total, MPI.MAX)
    assert total.tolist() == [2, 4, 6]
    from_first = candle.full(4, rank, dtype="int32")
    world.Bcast(from_first, 0)
    assert from_first.tolist() == [0] * 4
    all_ = candle.empty((2, 3))
    world.Allgather(candle.full(3, rank, dtype="float32"), all_)
    assert all_.tolist() == [[0] * 3, [1] * 3]
    part = candle.empty(3)
    world.Scatter(all_ if rank == 0 else None, part, 0)
    assert part.tolist() == [rank] * 3
    """
    on_two_ranks(tmp_path, code)


def test_what_mpi4py_refuses(tmp_path: Path) -> None:
    code = """
    with pytest.raises(BufferError, match="not writable"):
        world.Recv(candle.asarray(b"abc"), other)
    with pytest.raises(BufferError, match="not contiguous"):
        world.Send(candle.zeros((4, 4))[:, ::2], other)
    with pytest.raises(candle.CopyError, match=r"negative strides.*t\\.contiguous\\(\\)"):
        world.Send(candle.zeros(4)[::-1], other)
    for send in (world.Send, world.Recv):  # it would go beyond the memory
        with pytest.raises(candle.CopyError, match=r'packed.*t\\.view\\("uint8"\\)'):
            send(candle.zeros(1000, dtype="int4"), other)
    into = candle.zeros(1000, dtype="int4")
    passed(candle.arange(1000).to("int4").view("uint8"), into.view("uint8"))
    assert into.tolist() == candle.arange(1000).to("int4").tolist()
    """
    on_two_ranks(tmp_path, code)


def test_messages_of_another_length(tmp_path: Path) -> None:
    """MPI tells of those that are too long, and the status of those that are too short."""
    code = """
    status = MPI.Status()
    if rank == 0:
        world.Send(candle.ones(8), other)
        world.Send(candle.ones(2), other)
    else:
        with pytest.raises(MPI.Exception) as caught:
            world.Recv(candle.zeros(4), other)
        assert caught.value.Get_error_class() == MPI.ERR_TRUNCATE
        into = candle.zeros(8)
        world.Recv(into, other, status=status)
        assert status.Get_count(MPI.FLOAT) == 2
        assert into.tolist() == [1] * 2 + [0] * 6
        caught = None
    """
    on_two_ranks(tmp_path, code)


def test_every_kind_agreed_upon(tmp_path: Path) -> None:
    code = """
    for name, make in remote.SENT.items():
        t = make().contiguous()
        into = candle.empty(t.shape, dtype=t.dtype)
        with candle.strict():
            passed(agreed(world, t), agreed(world, into))
        assert remote.see(into)[:4] == remote.see(t)[:4], name
    numpy = pytest.importorskip("numpy")
    array = numpy.zeros(3)
    passed(agreed(world, numpy.ones(3)), agreed(world, array))
    assert array.tolist() == [1] * 3
    """
    on_two_ranks(tmp_path, code)


def test_ranks_that_disagree_all_raise(tmp_path: Path) -> None:
    code = """
    for other_kind in (candle.zeros(4, dtype="int32"), candle.zeros(5), candle.zeros((4, 1))):
        mine = candle.zeros(4), other_kind
        with pytest.raises(ValueError, match=r"float32 \\(4,\\) on rank 0; .* on rank 1"):
            agreed(world, mine[rank])
    for dtype in ("bfloat16", "float16", "float8_e5m2"):
        t = candle.asarray([1, 2]).to(dtype)
        with pytest.raises(BufferError, match=r'rank 0: MPI .*t\\.to\\("float32"\\).*; rank 1'):
            agreed(world, t, reducing=True)
    total = candle.zeros(2)
    world.Allreduce(agreed(world, t.to("float32"), reducing=True), total)
    assert total.tolist() == [2, 4]
    numpy = pytest.importorskip("numpy")
    for name, wrong in {
        "without gaps": candle.zeros((4, 4)).T,
        "list": [1.0],
        "has a mask": numpy.ma.zeros(3),
    }.items():
        with pytest.raises(BufferError, match=f"^rank 1: .*{name}"):
            agreed(world, wrong if rank == 1 else candle.zeros((4, 4)))
    """
    on_two_ranks(tmp_path, code)


def test_windows_are_shared_by_both(tmp_path: Path) -> None:
    code = """
    window = MPI.Win.Allocate_shared(64 if rank == 0 else 0, comm=world)
    memory, _ = window.Shared_query(0)
    with candle.strict():
        t = candle.asarray(memory).view("float64")
    if rank == 0:
        t[...] = 42
    world.Barrier()
    assert t.tolist() == [42] * 8
    world.Barrier()
    del t, memory
    window.Free()
    """
    on_two_ranks(tmp_path, code)


def test_pickled_messages(tmp_path: Path) -> None:
    code = """
    from mpi4py.util import pkl5
    tree = {name: make() for name, make in remote.SENT.items()}
    for comm in (world, pkl5.Intracomm(world)):
        got = comm.sendrecv(tree, other, source=other)
        remote.same(tree, remote.see_all(got))
        del got
    tree.clear()
    """
    on_two_ranks(tmp_path, code)


class Ranks:
    """A communicator of several ranks that all say the same, but for what is given."""

    def __init__(self, **others: object) -> None:
        self.others = others

    def allgather(self, mine: object) -> list[object]:
        return [mine, *self.others.values()]


def test_agreed_shares() -> None:
    t = candle.zeros((2, 3))
    message = candle.mpi.agreed(Ranks(), t)
    assert (message.dtype, message.shape, message.data_ptr()) == (t.dtype, t.shape, t.data_ptr())
    half = candle.zeros((2, 3), dtype="float16")
    message = candle.mpi.agreed(Ranks(), half)
    assert (message.dtype, message.shape) == (candle.uint8, (12,))
    assert message.data_ptr() == half.data_ptr()


def test_ranks_are_grouped_in_the_message() -> None:
    others = Ranks(a=("", ("int8", (2,))), b=("", ("int8", (2,))))
    with pytest.raises(ValueError, match=r"float32 \(2,\) on rank 0; int8 \(2,\) on ranks 1, 2\."):
        candle.mpi.agreed(others, candle.zeros(2))


@pytest.mark.parametrize("raised", [RuntimeError, MemoryError, KeyError, OSError, ImportError])
def test_a_producer_that_fails_keeps_no_rank_waiting(raised: type[Exception]) -> None:
    class Broken:
        def __dlpack_device__(self) -> tuple[int, int]:
            return (1, 0)

        def __dlpack__(self, **_keywords: object) -> object:
            raise raised("broken")

    ranks = Ranks()
    said = []
    ranks.allgather = lambda mine: said.append(mine) or [mine]  # type: ignore[method-assign, func-returns-value]
    with pytest.raises(BufferError, match=r"rank 0: .*broken"):
        candle.mpi.agreed(ranks, Broken())
    assert len(said) == 1


def test_elements_below_a_byte_are_the_same_only_in_one_packing() -> None:
    packed = candle.ones(6, dtype="int4")
    padded = candle.Tensor(packed.numpy())
    assert candle.mpi.agreed(Ranks(), packed).size == 3
    assert candle.mpi.agreed(Ranks(), padded).size == 6
    with pytest.raises(ValueError, match=r"padded int4 \(6,\) on rank 0; int4 \(6,\) on rank 1"):
        candle.mpi.agreed(Ranks(a=("", ("int4", (6,)))), padded)
