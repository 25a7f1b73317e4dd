"""Memory that other processes open: `candle.share`."""

from __future__ import annotations

import gc
import io
import multiprocessing
import os
import pickle
import subprocess
import sys
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import candle
from candle._native import _core
from candle.testing import Producer

if TYPE_CHECKING:
    from collections.abc import Callable

ALL_DTYPES = [candle.as_dtype(row[0]) for row in _core.dtype_rows()]

pytestmark = pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="memory files are Linux's")


def files() -> list[str]:
    """Memory files of candle's that this process has open or mapped."""
    found = []
    for entry in Path("/proc/self/fd").iterdir():
        try:
            found.append(str(entry.readlink()))
        except OSError:  # the folder's own
            continue
    found += Path("/proc/self/maps").read_text().splitlines()
    return [name for name in found if "memfd:candle" in name]


@pytest.fixture(autouse=True)
def _nothing_left_open() -> Any:
    before = len(files())
    yield
    gc.collect()
    end = time.monotonic() + 10  # multiprocessing closes what it has sent in a thread of its own
    while len(files()) != before and time.monotonic() < end:
        time.sleep(0.01)
    assert len(files()) == before


# What the children run: `multiprocessing` finds it by name.


def look(handle: candle.Shared) -> tuple[Any, bool]:
    t = handle.open()
    return t.tolist(), t.readonly


def overwrite(handle: candle.Shared) -> None:
    handle.open(writable=True)[...] = 42


def made_there(values: list[float]) -> candle.Shared:
    return candle.share(values)


def loaded(stream: bytes) -> Any:
    return pickle.loads(stream).open().tolist()


@pytest.fixture(scope="module", params=["spawn", "forkserver"])
def pool(request: pytest.FixtureRequest) -> Any:
    """A process that runs functions."""
    with ProcessPoolExecutor(1, multiprocessing.get_context(request.param)) as executor:
        yield executor


def test_others_read_and_write(pool: ProcessPoolExecutor) -> None:
    handle = candle.share([1.0, 2.0], writable=True)
    assert pool.submit(look, handle).result() == ([1.0, 2.0], True)
    mine = handle.open()
    pool.submit(overwrite, handle).result()
    assert mine.tolist() == [42.0, 42.0]


def test_handles_come_back(pool: ProcessPoolExecutor) -> None:
    handle = pool.submit(made_there, [1.0, 2.0]).result()
    assert handle.open().tolist() == [1.0, 2.0]
    assert pool.submit(look, handle).result()[0] == [1.0, 2.0], "and are sent on"


def test_a_temporary_lives_until_it_is_received(pool: ProcessPoolExecutor) -> None:
    future = pool.submit(look, candle.share([3.0]))
    gc.collect()
    assert future.result()[0] == [3.0]


def test_plain_pickles_name_the_memory(pool: ProcessPoolExecutor) -> None:
    handle = candle.share([1.0, 2.0])
    assert pool.submit(loaded, pickle.dumps(handle)).result() == [1.0, 2.0]


def test_fork(in_child: Any) -> None:
    code = """
        import os, candle
        handle = candle.share([1.0, 2.0], writable=True)
        mine = handle.open()
        child = os.fork()
        if child == 0:
            t = handle.open(writable=True)
            t[0] = 42
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        assert mine.tolist() == [42.0, 2.0]
    """
    in_child(code).check()


GONE = {
    "the handle is dropped": "del handle",
    "another file has its number": "os.dup2(1, handle._file)",
    "the process has ended": "os._exit(0)",
}
SENDER = """
import os, pickle, sys, candle
handle = candle.share([1.0])
print(pickle.dumps(handle).hex(), flush=True)
sys.stdin.readline()
{then}
print("done", flush=True)
sys.stdin.readline()
"""


@pytest.mark.parametrize("how", GONE)
def test_memory_that_is_gone(how: str) -> None:
    code = SENDER.format(then=GONE[how])
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as sender:
        assert sender.stdin is not None
        assert sender.stdout is not None
        stream = bytes.fromhex(sender.stdout.readline().decode())
        assert loaded(stream) == [1.0], "as long as it is there"
        sender.stdin.write(b"\n")
        sender.stdin.flush()
        if how == "the process has ended":
            assert sender.wait() == 0
        else:
            assert sender.stdout.readline() == b"done\n"
        with pytest.raises(FileNotFoundError, match=r"the shared memory is gone.*Keep the handle"):
            pickle.loads(stream)
        if how != "the process has ended":
            sender.communicate(b"\n")


def test_sender_that_ended(in_child: Any) -> None:
    code = """
        import multiprocessing, candle
        def give(queue):
            queue.put(candle.share([1.0]))
        context = multiprocessing.get_context("fork")
        queue = context.Queue()
        process = context.Process(target=give, args=(queue,))
        process.start()
        process.join()
        try:
            queue.get()
        except FileNotFoundError as error:
            assert "ended before it was received" in str(error), error
        else:
            raise AssertionError
    """
    in_child(code).check()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")
def test_another_user(in_child: Any) -> None:
    """Whom the kernel does not let see the files of this process, as with hidden ones in /proc."""
    code = """
        import os, pickle, sys
        import candle.sharing
        os.setresuid(65534, 65534, 65534)
        try:
            pickle.loads(bytes.fromhex(sys.argv[1]))
        except FileNotFoundError as error:
            assert "is of another user" in str(error), error
        else:
            raise AssertionError
    """
    handle = candle.share([1.0])
    in_child(code, pickle.dumps(handle).hex()).check()


def test_a_crash_leaves_nothing(in_child: Any) -> None:
    code = """
        import os, candle
        handle = candle.share(candle.zeros(1 << 20))
        t = handle.open()
        os.kill(os.getpid(), 9)
    """
    before = os.statvfs("/dev/shm").f_bfree
    assert in_child(code).signal == "SIGKILL"
    assert abs(os.statvfs("/dev/shm").f_bfree - before) * 4096 < 1 << 20
    assert not files()


def test_damaged_handles_say_so_and_leave_nothing_open() -> None:
    handle = candle.share([1.0, 2.0])
    opens, good = handle.__reduce__()
    damages = [
        (3, 4096, ValueError, "4096 bytes"),
        (3, -1, ValueError, "-1 bytes"),
        (4, "int4", ValueError, "not those of a int4"),
        (4, "int31", TypeError, "not a dtype"),
        (4, None, TypeError, "not a dtype"),
        (5, (3,), ValueError, "not those of"),
        (5, (1 << 62, 1 << 62), ValueError, "not those of"),
        (5, None, TypeError, "iterable"),
        (7, True, ValueError, "shared to be read"),
    ]
    for place, value, wrong, words in damages:
        described = [*good[:place], value, *good[place + 1 :]]
        with pytest.raises(wrong, match=words):
            opens(*described)
    assert opens(*good).open().tolist() == [1.0, 2.0]


def test_too_many_open_files_are_not_memory_that_is_gone(in_child: Any) -> None:
    code = """
        import errno, os, pickle, resource, candle
        from multiprocessing.reduction import ForkingPickler
        handle = candle.share([1.0])
        streams = pickle.dumps(handle), bytes(ForkingPickler.dumps(handle))
        pickle.loads(streams[0])  # imports what it needs
        resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 4,) * 2)
        taken = []
        try:
            while True:
                taken.append(os.dup(0))
        except OSError:
            pass
        attempts = [(pickle.loads, stream) for stream in streams] + [(candle.share, [1.0])]
        for function, argument in attempts:
            try:
                function(argument)
            except OSError as error:
                assert error.errno == errno.EMFILE, error
            else:
                raise AssertionError
        for file in taken:
            os.close(file)
        assert pickle.loads(streams[0]).open().tolist() == [1.0]
    """
    in_child(code).check()


def test_received_by_who_has_another_authentication_key() -> None:
    """As through a connection, or a manager, between processes that did not start each other."""
    handle = candle.share([1.0, 2.0])
    stream = bytes(ForkingPickler.dumps(handle))
    key = multiprocessing.current_process().authkey
    multiprocessing.current_process().authkey = b"another"
    try:
        assert pickle.loads(stream).open().tolist() == [1.0, 2.0]
    finally:
        multiprocessing.current_process().authkey = key
    pickle.loads(stream)  # takes what waited for it


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_received_twice_while_the_handle_is_there() -> None:
    handle = candle.share([1.0, 2.0])
    stream = bytes(ForkingPickler.dumps(handle))
    assert [pickle.loads(stream).open().tolist() for _ in range(2)] == [[1.0, 2.0]] * 2
    del handle
    with pytest.raises(FileNotFoundError, match="received before"):
        pickle.loads(stream)


@pytest.mark.parametrize("said", [None, "MemTotal: 1 kB\n"], ids=["no /proc", "no such line"])
def test_where_the_free_memory_is_not_said(said: str | None, monkeypatch: Any) -> None:
    def opened(path: str, **keywords: Any) -> Any:
        if said is None:
            raise FileNotFoundError(path)
        return io.StringIO(said)

    monkeypatch.setattr("builtins.open", opened)
    handle = candle.share([1.0])
    monkeypatch.undo()
    assert handle.open().tolist() == [1.0]


def test_nobody_writes_what_was_shared_to_be_read() -> None:
    handle = candle.share([1.0])
    with pytest.raises(ValueError, match="share\\(x, writable=True\\)"):
        handle.open(writable=True)
    import mmap

    for protection in (mmap.PROT_WRITE, mmap.PROT_READ | mmap.PROT_WRITE):
        with pytest.raises(PermissionError):
            mmap.mmap(handle._file, 4, mmap.MAP_SHARED, protection)
    for size in (0, 2, 100):
        with pytest.raises(PermissionError):
            os.ftruncate(handle._file, size)
    assert handle.open().readonly


def test_memory_outlives_its_handle() -> None:
    handle = candle.share([1.0, 2.0])
    t = handle.open()
    del handle
    assert t[1:].tolist() == [2.0]


def test_opened_often_it_is_mapped_once() -> None:
    """Each mapping keeps a file open, of which a process may have a thousand."""
    handle = candle.share([1.0, 2.0], writable=True)
    opened: list[candle.Tensor] = []

    def many() -> None:
        opened.extend(handle.open(writable=i % 2 == 0) for i in range(200))

    threads = [threading.Thread(target=many) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(opened) == 1600
    assert {t.readonly for t in opened} == {True, False}
    assert len(files()) < 40
    opened[0][0] = 42
    assert {t[0].item() for t in opened} == {42.0}
    del opened[:]
    assert handle.open().tolist() == [42.0, 2.0]


def test_handles_in_cyclic_garbage() -> None:
    handle: Any = candle.share([1.0])
    cycle: list[Any] = [handle, handle.open()]
    cycle.append(cycle)
    del handle, cycle
    gc.collect()
    assert not files()


def test_a_handle_that_was_ended_opens_nothing() -> None:
    """Of the finalizers in cyclic garbage any may be the first."""

    class Late:
        handle: candle.Shared

        def __del__(self) -> None:
            with pytest.raises(ValueError, match="the handle has ended"):
                self.handle.open()
            with pytest.raises(FileNotFoundError):
                pickle.loads(pickle.dumps(self.handle))
            ends.append(True)

    ends: list[bool] = []
    handle: Any = candle.share([1.0])
    handle.__del__()
    late = Late()
    late.handle = handle
    del late
    assert ends == [True]
    handle._file = os.dup(2)  # which its own end closes


def test_at_the_interpreters_end(in_child: Any) -> None:
    code = """
        import atexit, candle
        handle = candle.share([1.0, 2.0])
        kept = handle.open()
        atexit.register(lambda: print(candle.share(handle.open("numpy")).open().tolist()))
    """
    assert in_child(code).check() == "[1.0, 2.0]\n"


def test_a_file_number_that_goes_to_another_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the look at a file's name and its opening."""
    handle, other = candle.share([1.0]), candle.share([2.0])
    stream = pickle.dumps(handle)
    real = os.open

    def late(path: Any, flags: int) -> int:
        os.dup2(other._file, handle._file)
        return real(path, flags)

    monkeypatch.setattr(os, "open", late)
    with pytest.raises(FileNotFoundError, match="the shared memory is gone"):
        pickle.loads(stream)


FRAMEWORKS: dict[str, Callable[[Any], int]] = {
    "torch": lambda x: x.data_ptr(),
    "numpy": lambda x: x.ctypes.data,
    "jax": lambda x: x.unsafe_buffer_pointer(),
    "tvm_ffi": lambda x: candle.asarray(x).data_ptr(),
}


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_opened_as_any_framework_without_a_copy(framework: str) -> None:
    pytest.importorskip(framework)
    handle = candle.share(candle.arange(1024, dtype="float32"))
    with candle.strict():
        x = handle.open(framework)
    assert candle.asarray(x).tolist() == list(range(1024))
    assert FRAMEWORKS[framework](x) % 4096 == 0, "it is the mapping's first byte"


def test_torch_writes_to_pages_of_its_own() -> None:
    pytest.importorskip("torch")
    handle = candle.share([1.0, 2.0])
    x, t = handle.open("torch"), handle.open()
    x[0] = 42
    assert t.tolist() == handle.open("torch").tolist() == [1.0, 2.0]
    assert x.tolist() == [42.0, 2.0]


def test_torch_writes_to_all_where_that_was_asked() -> None:
    pytest.importorskip("torch")
    handle = candle.share([1.0, 2.0], writable=True)
    x, t = handle.open("torch", writable=True), handle.open()
    x[0] = 42
    assert t.tolist() == [42.0, 2.0]


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (5,), (3, 4)], ids=str)
def test_every_dtype(shape: tuple[int, ...]) -> None:
    for dtype in ALL_DTYPES:
        t = candle.empty(shape, dtype=dtype)
        memory = _core.as_bytes(t)
        memory[...] = candle.arange(memory.size).to("uint8")
        back = candle.share(t).open()
        assert (back.dtype, back.shape) == (dtype, shape)
        assert _core.as_bytes(back).tolist() == memory.tolist()


def test_any_layout_is_copied_once() -> None:
    t = candle.arange(12, dtype="float32").reshape(3, 4)
    for x in (t.T, t[::-1], t[:, ::2], t[0].broadcast_to(5, 4)):
        with candle.trace() as moves:
            handle = candle.share(x)
        assert [(move.action, move.nbytes) for move in moves if move.action == "copy"] == [
            ("copy", x.nbytes)
        ]
        assert handle.open().tolist() == x.tolist()


def test_too_much_memory() -> None:
    t = candle.zeros(1).broadcast_to(1 << 50)
    before = len(files())
    with pytest.raises(OSError, match="more than there is memory free"):
        candle.share(t)
    assert len(files()) == before


def test_what_is_said_of_a_handle() -> None:
    handle = candle.share(candle.zeros((2, 3)))
    assert repr(handle) == "<candle.Shared float32 (2, 3), 24 bytes, read-only>"
    assert (handle.shape, handle.dtype, handle.nbytes, handle.writable) == (
        (2, 3),
        candle.float32,
        24,
        False,
    )
    assert len(pickle.dumps(handle)) < 300


def test_what_cannot_be_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    far = candle.from_dlpack(Producer(shape=(4,), device=(10, 0)).capsule())
    with pytest.raises(BufferError, match="rocm:0"):
        candle.share(far)
    monkeypatch.delattr(os, "memfd_create")
    with pytest.raises(OSError, match="pickle the tensor instead"):
        candle.share(candle.zeros(2))
