"""`candle.testing.check` finds each breach that is made for it, and none in candle."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

import candle
from candle.testing import CLAUSES, Producer, capsules, check, exchange_producer, ownership
from candle.testing.capsules import managed
from candle.testing.producers import SameCapsule
from candle.testing.trial import trial


def broken(obj: Any, *, trials: bool = False) -> set[str]:
    return {finding.clause for finding in check(obj, trials=trials).broken}


OWN = {"copy=True", "dl_device"}  # a Producer makes no copies, and has no other device


@pytest.mark.own_memory
def test_what_a_producer_does() -> None:
    assert broken(Producer(shape=(2, 3))) == OWN
    # It keeps its structs, to count deletions that come late or twice.
    assert broken(Producer(shape=(2, 3)), trials=True) == {*OWN, "unconsumed", "keeps alive"}


def test_untried() -> None:
    untried = {f.clause for f in check(candle.zeros(2), trials=False).findings if f[1] == "untried"}
    assert untried == {"unconsumed", "consumed", "keeps alive", "without the GIL"}


class Misbehaved:
    """A producer that does something to another's structs."""

    def __init__(self, spoil: Any) -> None:
        self.kept: list[Any] = []
        self.t = candle.zeros(2)
        self.spoil = spoil

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __dlpack__(self, **keywords: Any) -> object:
        capsule = self.t.__dlpack__(**keywords)
        self.spoil(self, managed(capsule))
        return capsule


def no_function(producer: Misbehaved, struct: Any) -> None:
    struct.deleter = 16


def kept(producer: Misbehaved, struct: Any) -> None:
    producer.kept.append(bytearray(200))


@pytest.mark.own_memory
def test_what_only_a_trial_shows() -> None:
    report = {f.clause: f.fact for f in check(Misbehaved(no_function)).broken}
    assert report["unconsumed"] == report["without the GIL"] == "killed by SIGSEGV"
    assert (
        "bytes are left by each"
        in {f.clause: f.fact for f in check(Misbehaved(kept)).broken}["keeps alive"]
    )


BREACHES: dict[str, tuple[str, dict[str, Any]]] = {
    "no number": ("device", {"device_answer": (1, None)}),
    "other device": ("same device", {"device_answer": (3, 0)}),
    "device raises": ("device", {"device_answer": ValueError("no")}),
    "no keywords": ("keywords", {"signature": "none"}),
    "only stream": ("keywords", {"signature": "stream"}),
    "no capsule": ("legacy", {"returns": "text"}),
    "always versioned": ("legacy", {"mode": "versioned"}),
    "always legacy": ("versioned", {"mode": "legacy"}),
    "versioned to the old": ("older consumer", {"mode": "versioned"}),
    "major 2": ("version", {"version": (2, 0)}),
    "unknown flag": ("flags", {"flags": 1 << 40}),
    "flagged as a copy": ("copy=False", {"flags": 2}),
    "negative extent": ("shape", {"shape": (-2,)}),
    "NULL strides": ("strides", {"strides": None}),
    "NULL data": ("data", {"null_data": True}),
    "misaligned": ("alignment", {"byte_offset": 2}),
    "no such dtype": ("dtype", {"dtype": (2, 33)}),
    "no lanes": ("dtype", {"dtype": (2, 32, 0)}),
    "NULL deleter": ("deleter", {"null_deleter": True}),
}


@pytest.mark.parametrize("name", BREACHES)
def test_breach(name: str) -> None:
    clause, arguments = BREACHES[name]
    assert clause in broken(Producer(**{"shape": (2, 3), **arguments}))
    assert clause not in OWN


@pytest.mark.parametrize(
    ("arguments", "clause"),
    [
        ({"byte_offset": 4}, "byte_offset"),
        ({"shape": (0, 3)}, "data"),
    ],
)
def test_notes_are_no_breaches(arguments: dict[str, Any], clause: str) -> None:
    report = check(Producer(**{"shape": (2, 3), **arguments}))
    assert (clause, "note") in {finding[:2] for finding in report.findings}
    assert clause not in {finding.clause for finding in report.broken}


def test_null_strides_were_allowed_once() -> None:
    assert "strides" not in broken(Producer(shape=(2,), strides=None, version=(1, 1)))


def test_same_capsule_again() -> None:
    assert "fresh" in broken(SameCapsule(Producer(shape=(2,))))


@pytest.mark.parametrize(
    "make",
    [
        lambda: candle.zeros((2, 3)),
        lambda: candle.zeros((0, 3)),
        lambda: candle.zeros(()),
        lambda: candle.asarray(b"abc"),
        lambda: candle.arange(6)[::-1],
        lambda: candle.zeros(4, dtype="float4_e2m1fn"),
    ],
    ids=["plain", "empty", "no axes", "read-only", "reversed", "packed"],
)
def test_candle_breaks_nothing(make: Any) -> None:
    report = check(make())
    assert report, report
    assert {finding.clause for finding in report.findings} == set(CLAUSES)


class Exporter:
    """Exports soundly, in what a subclass does not change."""

    def __dlpack_device__(self) -> Any:
        return (1, 0)

    def __dlpack__(self, **keywords: Any) -> Any:
        return SOUND.__dlpack__(**keywords)


SOUND = candle.zeros((2, 3))


class Speechless(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class Unshown:
    def __repr__(self) -> str:
        raise RuntimeError("nothing to see")


class PyCapsule:
    """No capsule, for all its name."""


def raising(error: BaseException) -> Any:
    def call(*arguments: Any, **keywords: Any) -> Any:
        raise error

    return call


HOSTILE: dict[str, tuple[str, Any, str]] = {
    "device is None": ("__dlpack_device__", lambda self: None, "device"),
    "device is a list": ("__dlpack_device__", lambda self: [1, 0], "device"),
    "device is empty": ("__dlpack_device__", lambda self: (), "device"),
    "device is text": ("__dlpack_device__", lambda self: "cpu", "device"),
    "device is of text": ("__dlpack_device__", lambda self: ("cpu", 0), "device"),
    "device cannot be shown": ("__dlpack_device__", lambda self: Unshown(), "device"),
    "device is another": ("__dlpack_device__", lambda self: (2, 0), "same device"),
    "device exits": ("__dlpack_device__", raising(SystemExit(3)), "device"),
    "device is speechless": ("__dlpack_device__", raising(Speechless()), "device"),
    "none": ("__dlpack__", lambda self, **keywords: None, "legacy"),
    "itself": ("__dlpack__", lambda self, **keywords: self, "legacy"),
    "something called PyCapsule": ("__dlpack__", lambda self, **keywords: PyCapsule(), "legacy"),
    "speechless": ("__dlpack__", raising(Speechless()), "legacy"),
    "surrogates": ("__dlpack__", raising(ValueError("\udc80")), "legacy"),
    "endless": ("__dlpack__", lambda self, **keywords: self.__dlpack__(**keywords), "legacy"),
    "exits": ("__dlpack__", raising(SystemExit(3)), "legacy"),
    "no table": ("__dlpack_c_exchange_api__", 3, "exchange table"),
    "refuses the new": (
        "__dlpack__",
        lambda self, **keywords: SOUND.__dlpack__() if not keywords else refusing(),
        "versioned",
    ),
    "knows one version": (
        "__dlpack__",
        lambda self, max_version=None, **keywords: SOUND.__dlpack__(
            max_version=max_version if max_version == (1, 3) else None, **keywords
        ),
        "versioned",
    ),
    "no copies": (
        "__dlpack__",
        lambda self, copy=None, **keywords: None if copy else SOUND.__dlpack__(**keywords),
        "copy=True",
    ),
    "one struct for all": (
        "__dlpack__",
        lambda self, **keywords: capsules.new_capsule(STRUCT, "dltensor_versioned"),
        "fresh",
    ),
}


def refusing() -> None:
    raise BufferError("not in this form")


STRUCT = Producer(shape=(2,)).export()


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_exporters(name: str) -> None:
    attribute, value, clause = HOSTILE[name]
    trials = name in ("exits", "speechless", "something called PyCapsule")
    report = check(type("Hostile", (Exporter,), {attribute: value})(), trials=trials)
    assert clause in {finding.clause for finding in report.broken}
    assert {finding.clause for finding in report.findings} == set(CLAUSES)
    assert repr(report)


@pytest.mark.parametrize(
    ("how", "fact"),
    [
        ({"version": (2, 0)}, "its versions are [(2, 0)]"),
        ({"without": ("current_work_stream",)}, "empty slots: current_work_stream"),
        ({"without": ("dltensor_from_py_object_no_sync",)}, None),  # which may be
    ],
)
def test_exchange_tables(how: dict[str, Any], fact: str | None) -> None:
    exporter = exchange_producer(Producer(shape=(2,)), dlpack=True, **how)
    found = {f.clause: f.fact for f in check(exporter, trials=False).broken}
    assert found.get("exchange table") == fact


def test_shape_of_nothing() -> None:
    """A tensor without axes may have none; where there are strides it is forgotten."""
    assert "shape" not in broken(Producer(shape=(), null_shape=True, strides=None))
    assert "shape" in broken(Producer(shape=(2, 3), null_shape=True))


def left_by(producer: Misbehaved) -> str:
    return ownership._left(producer, partial(producer.__dlpack__, max_version=(1, 3)), taken=True)


def test_references_that_are_left() -> None:
    def itself(producer: Misbehaved, struct: Any) -> None:
        producer.kept.append(producer)

    assert left_by(Misbehaved(itself)) == "1 references to the object are left by each"


DESTRUCTOR = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
_pointer = ctypes.PyDLL(None).PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_char_p]


class Eager(Producer):
    """The destructor of its capsules calls the deleter as often as is said, whoever owns it."""

    def __init__(self, times: int) -> None:
        super().__init__(shape=(2,))
        self.destructor = DESTRUCTOR(self.destroy)
        self.times = times

    def destroy(self, capsule: int) -> None:
        for name in (b"dltensor_versioned", b"used_dltensor_versioned"):
            try:
                address = _pointer(capsule, name)
            except ValueError:
                continue
            struct = capsules.DLManagedTensorVersioned.from_address(address)
            for _ in range(self.times):
                capsules.DELETER(struct.deleter)(address)

    def capsule(self, versioned: bool = True) -> object:
        destructor = ctypes.cast(self.destructor, ctypes.c_void_p).value
        return capsules.new_capsule(self.export(), "dltensor_versioned", destructor)


@pytest.mark.parametrize(
    ("times", "taken", "said"),
    [
        (1, False, ""),
        (2, False, "the deleter is called 2 times"),
        (1, True, "the deleter is called 1 times"),  # by a capsule that no longer owns
    ],
)
def test_deleters_that_are_called_too_often(times: int, taken: bool, said: str) -> None:
    producer = Eager(times)
    assert ownership._counted(producer.capsule, taken) == said
    assert producer.deletes == 1


@pytest.mark.own_memory
def test_memory_where_the_library_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without glibc's count there is the interpreter's."""
    counted = SimpleNamespace(**{**vars(ctypes), "CDLL": lambda name: None})
    monkeypatch.setattr(ownership, "C", counted)
    assert ownership._held() > 0
    assert "bytes are left by each" in left_by(Misbehaved(kept))


def test_an_exporter_without_device() -> None:
    class Exporting:
        __dlpack__ = Exporter.__dlpack__

    assert broken(Exporting()) == {"device"}


def test_an_exporter_that_ends_the_process() -> None:
    class Ending(Exporter):
        def __dlpack__(self, **keywords: Any) -> Any:
            os._exit(3)

    report = check(Ending())
    assert report.broken[0] == ("unconsumed", "broken", "ended with status 3")


def test_report_prints() -> None:
    text = repr(check(candle.zeros(2)))
    assert text.startswith("candle.Tensor: 0 clauses broken\nkept     device")


def test_what_has_no_dlpack() -> None:
    with pytest.raises(TypeError, match="list has no __dlpack__"):
        check([1])


def test_device_out_of_reach_is_refused() -> None:
    t = candle.zeros(2)
    for device in ((14, 99), (2, 0)):
        for copy in (None, False):
            with pytest.raises(BufferError):
                t.__dlpack__(max_version=(1, 3), dl_device=device, copy=copy)


def test_trial() -> None:
    def crash() -> str:
        os.kill(os.getpid(), signal.SIGSEGV)
        return ""

    def sleep() -> str:
        time.sleep(60)
        return ""

    def fail() -> str:
        raise KeyError("a")

    assert trial(lambda: "said") == "said"
    assert trial(lambda: "") == ""
    assert trial(crash) == "killed by SIGSEGV"
    assert trial(sleep, 0.1) == "no answer in 0.1 s"
    assert trial(fail) == "raised KeyError: 'a'"
    assert trial(raising(SystemExit(3))) == "raised SystemExit: 3"
    assert trial(raising(ValueError("\udc80"))) == "raised ValueError: ?"
    assert trial(lambda: os._exit(3)) == "ended with status 3"  # type: ignore[func-returns-value]
    assert trial(lambda: "x" * 1_000_000) == "x" * 1_000_000
    with pytest.MonkeyPatch.context() as patch:
        patch.delattr(os, "fork")
        with pytest.raises(OSError, match="this system has no fork"):
            trial(lambda: "")
    # What cannot be told ends the fork all the same.
    assert trial(lambda: 3) == "ended with status 1"  # type: ignore[arg-type,return-value]
    assert trial(raising(Speechless())) == "ended with status 1"
