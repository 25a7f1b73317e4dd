"""Many threads at the same tensor, the same capsule, the same list: what one does at a time.

With the GIL they switch as often as they can; without it all of it really happens at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    InChild = Callable[..., Any]

HEAD = """
    import gc, itertools, sys, threading, weakref
    import numpy as np
    import candle
    from candle.testing import Producer, live, take

    sys.setswitchinterval(1e-6)
    CPUS = 4
    TURNS = 40 if getattr(sys, "_is_gil_enabled", lambda: True)() else 400

    def at_once(*works):
        # Calls them all in threads of their own that begin together; what they raised is raised.
        barrier, raised = threading.Barrier(len(works)), []

        def run(work):
            barrier.wait()
            try:
                work()
            except BaseException as error:
                raised.append(error)

        threads = [threading.Thread(target=run, args=(work,)) for work in works]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if raised:
            raise raised[0]

    def numbers_in(source):
        # Those of a list that changes; None if that was noticed while it was read.
        try:
            return candle.asarray(source, dtype="float64").tolist()
        except RuntimeError as error:
            assert str(error) == "a sequence changed while it was read"

    def settled(before):
        # With no GIL an object may be left to the thread that made it, which may have ended.
        gc.collect()
        return live() == before
"""


@pytest.mark.parametrize("kind", ["versioned", "legacy", "watched", "Arrow", "Arrow stream"])
def test_a_capsule_is_taken_once(in_child: InChild, kind: str) -> None:
    """Whoever comes later is told that it was; its memory is given back once."""
    code = """
    import arrow_structs

    kind = sys.argv[1]
    before = live()

    def make():
        if kind == "Arrow":
            return None, candle.arange(4).__arrow_c_array__()
        if kind == "Arrow stream":
            numbers = arrow_structs.array(2, [None, bytes(range(16))])
            source = arrow_structs.StreamExporter(arrow_structs.schema("l"), [numbers])
            return source, source.__arrow_c_stream__()
        producer = Producer(shape=(3, 4), mode="legacy" if kind == "legacy" else "versioned")
        return producer, producer.capsule()

    def turn():
        made = [make() for _ in range(40)]
        taken, refused = [], []

        def take_all():
            for _, capsule in made:
                try:
                    if kind.startswith("Arrow"):
                        taken.append(candle.from_arrow(capsule))
                    elif kind == "watched":
                        with candle.trace():
                            taken.append(candle.from_dlpack(capsule))
                    else:
                        taken.append(candle.from_dlpack(capsule))
                except BufferError as error:
                    assert "was consumed before" in str(error), error
                    refused.append(1)

        at_once(*[take_all] * CPUS)
        assert (len(taken), len(refused)) == (40, 40 * (CPUS - 1))
        taken.clear()
        for producer, _ in made:
            if isinstance(producer, Producer):
                assert producer.deletes == 1
            elif producer is not None:
                assert producer.released == 1

    for _ in range(10):
        turn()
    assert settled(before), (before, live())
    """
    in_child(HEAD + code, kind).check()


CHANGING = {
    "a list": """
        source = [float(n) for n in range(60)]

        def change():
            for n in range(60):
                source[n] = source[n] + 1.0 - 1.0  # another object of the same value
            source.append(0.0)
            source.pop()
            del source[30:]
            source.extend([float(n) for n in range(30, 60)])

        def read():
            values = numbers_in(source)
            if values is not None:
                begin = [float(n) for n in range(min(len(values), 60))]
                assert values in (begin, [*begin, 0.0])
    """,
    "a nested list": """
        source = [[float(n), n + 0.5] for n in range(30)]

        def change():
            for n in range(30):
                source[n] = [float(n), n + 0.5]
            source.append([0.0, 0.5])
            source.pop()

        def read():
            assert all(b == a + 0.5 for a, b in numbers_in(source) or ())
    """,
    "an array interface": """
        memory = np.arange(12.0)

        class Source:
            __array_interface__ = dict(memory.__array_interface__)

        source, interface = Source(), Source.__array_interface__

        def change():
            for n in range(60):  # other objects of the same values; the dict grows and shrinks
                interface["typestr"] = "".join(["<", "f8"])
                interface["shape"] = (3, 4) if n % 2 else (2, 6)
                interface["data"] = (memory.ctypes.data + n - n, False)
                interface[f"other {n}"] = n
            for n in range(60):
                del interface[f"other {n}"]

        def read():
            values = candle.asarray(source)
            assert values.shape in ((3, 4), (2, 6), (12,)) and values.size == 12
    """,
    "the type's table": """
        from candle.testing import exchange_producer

        def change():
            kinds = [type(f"Kind{n}", (), {"__len__": lambda self: 0}) for n in range(10)]
            for kind in kinds:
                assert candle.asarray([kind.__len__(None)]).tolist() == [0]
                try:
                    candle.asarray(kind())
                except TypeError:
                    pass

        def read():
            for n in range(4):
                kind = type(f"Array{n}", (), {"__array_interface__": {
                    "shape": (0,), "typestr": "<f4", "data": (0, False), "version": 3}})
                assert candle.asarray(kind()).shape == (0,)
            gc.collect(0)
    """,
    "what modules registered": """
        from candle import devices, dtypes
        from candle._native import _core

        def change():  # as an import does, after somebody emptied sys.modules
            for _ in range(20):
                _core.register(as_dtype=lambda x: dtypes.as_dtype(x))
                _core.register(as_device=lambda x: devices.as_device(x))

        def read():
            for _ in range(20):
                t = candle.asarray([1, 2], dtype="int16", device="cpu")
                assert (t.dtype, t.device) == (candle.int16, "cpu")
    """,
}


@pytest.mark.parametrize("what", CHANGING)
def test_what_others_change_while_it_is_read(in_child: InChild, what: str) -> None:
    """Old or new is read, or it is told; never what is no more."""
    code = f"""
    {CHANGING[what].replace(chr(10) + "    ", chr(10)).strip()}

    done = threading.Event()

    def keep_changing():
        for _ in range(TURNS):
            change()
        done.set()

    def keep_reading():
        for _ in range(10):
            read()
        while not done.is_set():
            read()

    before = live()
    at_once(keep_changing, *[keep_reading] * (CPUS - 1))
    assert settled(before), (before, live())
    """
    in_child(HEAD + code).check()


OWNERS = {
    "candle": "lambda: candle.arange(24, dtype='float32').reshape(4, 6)",
    "numpy": "lambda: candle.asarray(np.arange(24, dtype='float32').reshape(4, 6))",
    "bytes": "lambda: candle.asarray(np.arange(24, dtype='float32').tobytes())"
    ".view('float32').reshape(4, 6)",
    "DLPack": "lambda: candle.from_dlpack(Producer(shape=(4, 6)))",
    "a subclass": "lambda: Own(candle.arange(24, dtype='float32').reshape(4, 6))",
}


def test_one_tensor_by_many(in_child: InChild) -> None:
    """Its first view, every export, its attributes and its end, by all of them at once."""
    code = f"""
    import pickle

    class Own(candle.Tensor):
        pass

    makers = [{", ".join(OWNERS.values())}]
    WAYS = [
        lambda t: t[1:],
        lambda t: t.T,
        lambda t: candle.asarray(t),
        lambda t: candle.from_dlpack(t.__dlpack__()),
        lambda t: candle.from_dlpack(t.__dlpack__(max_version=(1, 3))),
        lambda t: take(t.__dlpack__(max_version=(1, 3))).release(foreign_thread=True),
        lambda t: t.numpy(),
        lambda t: np.asarray(t.memoryview()),
        lambda t: np.from_dlpack(t),
        lambda t: candle.from_arrow(t.flatten().__arrow_c_array__()),
        lambda t: pickle.loads(pickle.dumps(t, protocol=5)),
        lambda t: weakref.ref(t)(),
        lambda t: (t.shape, t.stride, t.dtype, t.device, repr(t), t.nbytes),
        lambda t: t.to("bfloat16"),
        lambda t: t + 1,
    ]
    for way in WAYS:  # imports whatever it needs
        way(candle.ones((4, 6)))
    before = live()
    for number in range(12 * len(makers)):
        shared = [makers[number % len(makers)]()]
        left = [way for way in WAYS * 2]
        kept = []

        def use(start):
            t = shared[0]
            for way in left[start:] + left[:start]:
                kept.append(way(t))
            del t

        def drop():  # the last holder may be any of them
            shared[0][0]
            shared[0] = shared[0][:]
        at_once(*[lambda start=start: use(start) for start in range(CPUS - 1)], drop)
        whole = shared.pop()
        assert whole.flatten().tolist() == list(range(24))
        for one in kept:
            if isinstance(one, candle.Tensor) and one.dtype == candle.float32 and one.size == 24:
                assert sorted(one.flatten().tolist())[-1] in (23.0, 24.0)
        del whole, kept, one, use, left
    assert settled(before), (before, live())
    """
    in_child(HEAD + code).check()


def test_the_last_of_many_holders(in_child: InChild) -> None:
    """Views and exports of one memory, let go at once: it is given back once, by whoever is last.

    The counters of what is alive end where they began.
    """
    code = """
    before = live()
    for _ in range(60):
        producer = Producer(shape=(10, 10))
        t = candle.from_dlpack(producer)
        held = [
            [t[n:], t.__dlpack__(), take(t.__dlpack__(max_version=(1, 3))), t.memoryview(), t.T]
            for n in range(CPUS)
        ]
        del t

        def let_go(own):
            own.pop(2).release(foreign_thread=True)
            own.clear()
        works = [lambda own=own: let_go(own) for own in held]
        at_once(*works)
        assert producer.deletes == 1, producer.deletes
    assert settled(before), (before, live())
    """
    in_child(HEAD + code).check()


def test_watchers_are_each_threads_own(in_child: InChild) -> None:
    """Blocks that begin and end elsewhere neither hide a move nor add one."""
    code = """
    def watch(number):
        source = np.arange(12.0).reshape(3, 4)
        swapped = source.astype(">f8")
        for _ in range(100):
            with candle.trace() as moves:
                t = candle.asarray(source)
                for _ in range(number):
                    t.T.contiguous()
            assert [move.action for move in moves] == ["share", *["copy"] * number]
            with candle.strict():
                try:
                    candle.asarray(swapped)
                except candle.CopyError:
                    pass
                else:
                    raise AssertionError("the copy was not forbidden")

    def unwatched():
        for _ in range(300):
            assert candle.asarray([1, 2, 3]).tolist() == [1, 2, 3]

    at_once(*[lambda n=n: watch(n) for n in range(CPUS - 1)], unwatched)
    """
    in_child(HEAD + code).check()


def test_one_tree_by_many(in_child: InChild) -> None:
    code = """
    tree = {"a": candle.ones(3), "b": [candle.zeros((2, 2)), np.ones(4), 7], "c": ("x", None)}
    before = live()

    def convert():
        for target in ("numpy", "candle") * 30:
            made = candle.convert(tree, target)
            assert made["b"][2] == 7 and candle.shares_memory(made["a"], tree["a"])
            assert candle.shares_memory(made["b"][1], tree["b"][1])

    at_once(*[convert] * CPUS)
    assert settled(before), (before, live())
    """
    in_child(HEAD + code).check()


def test_threads_are_watched_where_they_inherit_the_context(in_child: InChild) -> None:
    code = """
    inherits = bool(getattr(sys.flags, "thread_inherit_context", False))
    source = np.ones(3)
    with candle.trace() as moves:
        at_once(*[lambda: [candle.asarray(source) for _ in range(50)]] * CPUS)
    assert len(moves) == (50 * CPUS if inherits else 0), len(moves)
    """
    in_child(HEAD + code).check()
