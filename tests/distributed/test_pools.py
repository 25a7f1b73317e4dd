"""Plain tensors through multiprocessing, concurrent.futures and joblib: pickled into messages."""

from __future__ import annotations

import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import children
import pytest
import remote

import candle

if TYPE_CHECKING:
    from collections.abc import Callable

START_METHODS = [
    name for name in multiprocessing.get_all_start_methods() if name in ("spawn", "forkserver")
]


def tree() -> dict[str, candle.Tensor]:
    return {name: make() for name, make in remote.SENT.items()}


@pytest.mark.parametrize("method", START_METHODS)
def test_executor(method: str) -> None:
    context = multiprocessing.get_context(method)
    with ProcessPoolExecutor(2, context) as executor:
        remote.same(tree(), executor.submit(remote.see_all, tree()).result())
        remote.same(tree(), remote.see_all(executor.submit(remote.back, tree()).result()))
        made = list(executor.map(remote.made, range(4), ["bfloat16"] * 4))
        assert [t.tolist() for t in made] == [list(range(i)) for i in range(4)]
        with pytest.raises(ValueError, match="read-only"):
            executor.submit(remote.overwrite, candle.asarray(b"abc")).result()


@pytest.mark.parametrize("method", START_METHODS)
def test_pool_and_queues(method: str) -> None:
    context = multiprocessing.get_context(method)
    with context.Pool(2) as pool:
        twice = pool.map(remote.doubled, [candle.ones(1000), candle.zeros((2, 2)).T])
        assert [t.shape for t in twice] == [(1000,), (2, 2)]
        assert set(twice[0].tolist()) == {2.0}
        assert not twice[0].readonly
    here, there = context.Queue(), context.Queue()
    process = context.Process(target=remote.serve, args=(here, there))
    process.start()
    here.put(tree())
    remote.same(tree(), there.get(timeout=60))
    process.join()
    assert process.exitcode == 0
    for queue in (here, there):
        queue.close()
        queue.join_thread()


def test_fork(in_child: Callable[..., children.Child]) -> None:
    """What was there before is there in the child, and what comes later comes by the queue."""
    code = """
        import multiprocessing, candle, remote
        context = multiprocessing.get_context("fork")
        before = candle.arange(100_000).reshape(2, -1)
        here, there = context.Queue(), context.Queue()
        def work():
            assert before.mT.contiguous().shape == (50_000, 2)  # on its threads
            remote.serve(here, there)
        process = context.Process(target=work)
        process.start()
        tree = {name: make() for name, make in remote.SENT.items()}
        here.put(tree)
        remote.same(tree, there.get(timeout=60))
        process.join()
        assert process.exitcode == 0
        with context.Pool(2) as pool:
            assert pool.map(remote.doubled, [candle.ones(3)])[0].tolist() == [2, 2, 2]
    """
    in_child(code).check()


def test_pipe_between_threads_of_one_process() -> None:
    first, second = multiprocessing.Pipe()
    with first, second:
        first.send(candle.arange(100))
        assert second.recv().tolist() == list(range(100))


JOBLIB = """
import candle, joblib, os, remote
tree = {name: make() for name, make in remote.SENT.items()}
def work(tree, handle):
    return os.getpid(), remote.see_all(tree), handle.open().tolist()
if __name__ == "__main__":
    handle = candle.share([1.0, 2.0])
    for pid, seen, values in joblib.Parallel(2)(joblib.delayed(work)(tree, handle) for _ in "ab"):
        assert pid != os.getpid()
        remote.same(tree, seen)
        assert values == [1, 2]
    assert joblib.hash(candle.ones(3)) == joblib.hash(candle.ones(3))
    joblib.dump(tree, "tree.joblib")
    remote.same(tree, remote.see_all(joblib.load("tree.joblib")))
    from joblib.externals.loky import get_reusable_executor
    get_reusable_executor().shutdown()
"""


def test_joblib(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    if find_spec("joblib") is None:
        pytest.skip("joblib is not installed")
    monkeypatch.chdir(tmp_path)
    program = tmp_path / "program.py"
    program.write_text(JOBLIB)
    children.run_child(program, whole=True, timeout=100).check(quiet=False)


# The supervisor of all these.

BEHIND = """
import os, subprocess, sys, time
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
{end}
"""
ENDS = {"1": "sys.exit(1)", "SIGABRT": "os.abort()", "124": "time.sleep(600)"}


@pytest.mark.parametrize("ending", ENDS)
def test_nothing_is_left_running(ending: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mark = f"CANDLE_TEST_{os.getpid()}_{ending}"
    monkeypatch.setenv(mark, "1")
    child = children.run_child("-c", BEHIND.format(end=ENDS[ending]), whole=True, timeout=2)
    assert ending in (str(child.returncode), child.signal)
    assert remote.running_with(mark) == []
