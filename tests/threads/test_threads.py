"""Threads that share big copies, and threads that are the first to move anything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import candle

if TYPE_CHECKING:
    from collections.abc import Callable

    InChild = Callable[..., Any]

# 16 MB of float32 and its transpose, which numpy makes: enough for all threads to take part.
BIG = """
    import os, sys, threading
    import numpy as np
    import candle
    source = np.arange(4 << 20, dtype=np.float32).reshape(1024, 4096)
    want = source.T.copy()

    def transposed():
        return candle.asarray(source).T.copy().numpy()

    def threads():
        return len(os.listdir("/proc/self/task"))

    def is_right():
        return np.array_equal(transposed(), want)
"""


def after(code: str) -> str:
    return BIG + code


def test_how_many() -> None:
    before = candle.get_num_threads()
    assert before >= 1
    try:
        candle.set_num_threads(3)
        assert candle.get_num_threads() == 3
        candle.set_num_threads(10**30)
        assert candle.get_num_threads() == 256
        for wrong in (0, -1, -(10**30)):
            with pytest.raises(ValueError, match="at least one thread"):
                candle.set_num_threads(wrong)
        with pytest.raises(TypeError):
            candle.set_num_threads("2")  # type: ignore[arg-type]
    finally:
        candle.set_num_threads(before)


def test_the_environment_says_how_many(in_child: InChild) -> None:
    code = "import candle; print(candle.get_num_threads())"
    assert in_child(code, CANDLE_NUM_THREADS="5").check() == "5\n"
    unset = in_child(code).check()
    for nonsense in ("", "0", "-3", "many"):
        assert in_child(code, CANDLE_NUM_THREADS=nonsense).check() == unset


def test_the_affinity_mask_says_how_many(in_child: InChild) -> None:
    in_child(
        """
        import os
        import candle
        if not hasattr(os, "sched_setaffinity"):
            raise SystemExit
        allowed = os.sched_getaffinity(0)
        assert candle.get_num_threads() == min(len(allowed), 256)
        os.sched_setaffinity(0, {min(allowed)})
        assert candle.get_num_threads() == 1
        """,
        CANDLE_NUM_THREADS="",
    ).check()


@pytest.mark.parametrize("count", [1, 2, 3, 8])
def test_no_thread_before_the_first_big_copy(in_child: InChild, count: int) -> None:
    code = after("""
    if not os.path.isdir("/proc/self/task"):
        raise SystemExit
    before = threads()
    candle.arange(1000).copy()
    assert threads() == before
    assert is_right()
    assert threads() == before + int(os.environ["CANDLE_NUM_THREADS"]) - 1
    assert is_right()
    """)
    in_child(code, CANDLE_NUM_THREADS=str(count)).check()


def test_threads_run_where_the_one_that_copies_may(in_child: InChild) -> None:
    code = after("""
    import time

    if not hasattr(os, "sched_setaffinity"):
        raise SystemExit
    before = set(os.listdir("/proc/self/task"))
    assert is_right()
    workers = [int(name) for name in set(os.listdir("/proc/self/task")) - before]
    assert len(workers) == 2
    allowed = os.sched_getaffinity(0)

    def follow(mask):
        os.sched_setaffinity(0, mask)  # of this thread alone
        deadline = time.monotonic() + 20
        while any(os.sched_getaffinity(worker) != mask for worker in workers):
            assert time.monotonic() < deadline
            assert is_right()

    for mask in ({min(allowed)}, allowed, {max(allowed)}, allowed):
        follow(mask)
    other = threading.Thread(target=follow, args=({max(allowed)},))
    other.start()
    other.join()
    follow(allowed)
    """)
    in_child(code, CANDLE_NUM_THREADS="3").check()


def test_after_fork(in_child: InChild) -> None:
    code = after("""
    if not hasattr(os, "fork"):
        raise SystemExit
    assert is_right()
    for _ in range(5):
        pid = os.fork()
        if pid == 0:
            good = is_right() and is_right()
            grandchild = os.fork()
            if grandchild == 0:
                os._exit(0 if is_right() else 1)
            good = good and os.waitpid(grandchild, 0)[1] == 0
            os._exit(0 if good else 1)
        assert is_right()
        assert os.waitpid(pid, 0)[1] == 0
    """)
    in_child(code, CANDLE_NUM_THREADS="4").check()


def test_fork_while_others_copy(in_child: InChild) -> None:
    code = after("""
    if not hasattr(os, "fork"):
        raise SystemExit
    assert is_right()  # what is imported late has been
    going = True
    def keep_copying():
        while going:
            transposed()
    others = [threading.Thread(target=keep_copying) for _ in range(2)]
    for other in others:
        other.start()
    for _ in range(20):
        pid = os.fork()
        if pid == 0:
            os._exit(0 if is_right() else 1)
        assert os.waitpid(pid, 0)[1] == 0
    going = False
    for other in others:
        other.join()
    """)
    in_child(code, CANDLE_NUM_THREADS="3").check(quiet=False)  # newer Pythons warn


def test_several_python_threads_at_once(in_child: InChild) -> None:
    code = after("""
    wrong = []
    def copy_often():
        for _ in range(10):
            if not is_right():
                wrong.append(1)
    copiers = [threading.Thread(target=copy_often) for _ in range(6)]
    for copier in copiers:
        copier.start()
    for copier in copiers:
        copier.join()
    assert not wrong
    """)
    in_child(code, CANDLE_NUM_THREADS="3").check()


def test_more_and_fewer_threads(in_child: InChild) -> None:
    code = after("""
    for count in (1, 4, 2, 1, 7, 2):
        candle.set_num_threads(count)
        assert is_right()
    """)
    in_child(code).check()


def test_exit_with_idle_threads(in_child: InChild) -> None:
    code = after("""
    assert is_right()
    """)
    in_child(code, CANDLE_NUM_THREADS="4", timeout=60).check()


def test_exit_while_a_daemon_copies(in_child: InChild) -> None:
    code = after("""
    def keep_copying():
        while True:
            transposed()
    threading.Thread(target=keep_copying, daemon=True).start()
    assert is_right()
    """)
    in_child(code, CANDLE_NUM_THREADS="3", timeout=60).check()


@pytest.mark.parametrize("limit", [0, 1])
def test_without_leave_to_make_threads(in_child: InChild, limit: int) -> None:
    code = after("""
    import ctypes, resource
    transposed()  # what numpy and Python start lazily is there
    candle.set_num_threads(200)
    resource.setrlimit(resource.RLIMIT_AS, (resource.getrlimit(resource.RLIMIT_AS)[1],) * 2)
    if int(sys.argv[1]):
        size = int(open("/proc/self/statm").read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        resource.setrlimit(resource.RLIMIT_AS, (size + (256 << 20),) * 2)
    assert is_right()
    """)
    in_child(code, str(limit), CANDLE_NUM_THREADS="1").check()


@pytest.mark.parametrize("library", ["numpy", "ml_dtypes", "torch"])
def test_the_first_move_by_many_threads(in_child: InChild, library: str) -> None:
    """What is looked up once and kept: numpy's table and dtypes, other types', torch's door.

    With no GIL, and under the thread sanitizer, a place that two threads fill at once shows here.
    """
    pytest.importorskip(library)
    code = """
    import sys, threading
    import candle

    sys.setswitchinterval(1e-6)
    library = sys.argv[1]
    module = __import__(library)
    import numpy as np

    makers = {
        "numpy": [lambda dtype=dtype: np.arange(8).astype(dtype) for dtype in "?bhilBHILefdFD"],
        "ml_dtypes": [
            lambda dtype=dtype: np.arange(8).astype(getattr(module, dtype))
            for dtype in ("bfloat16", "float8_e5m2", "float8_e4m3fn", "int4", "uint4")
        ]
        if library == "ml_dtypes" else [],
        "torch": [lambda: module.arange(8)],
    }
    barrier, wrong = threading.Barrier(6), []

    def move():
        own = [make() for make in makers[library]]
        barrier.wait()
        try:
            for x in own:
                t = candle.asarray(x)
                back = t.torch() if library == "torch" else t.numpy()
                assert back.dtype == x.dtype and (back == x).all(), x
                assert candle.shares_memory(back, x)
        except BaseException as error:
            wrong.append(repr(error))

    threads = [threading.Thread(target=move) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, wrong
    """
    in_child(code, library).check()
