"""A linter for libraries that export tensors by DLPack: what of the standard an object breaks."""

from __future__ import annotations

import ctypes as C
import gc
import os
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from .._native import _core
from . import capsules
from .abi import IS_COPIED, IS_SUBBYTE_TYPE_PADDED, READ_ONLY, SLOTS
from .exchange import exchange_api
from .trial import trial

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["CLAUSES", "Finding", "Report", "check"]

# Clause by clause, what DLPack's header and the Python Array API standard (2024.12) ask for.
CLAUSES = {
    "device": "`__dlpack_device__()` gives two ints: a device type and a number",
    "same device": "the struct names the device that `__dlpack_device__` names",
    "keywords": "`stream`, `max_version`, `dl_device` and `copy` are taken, as keywords",
    "legacy": "without `max_version` comes a capsule named `dltensor`, or a BufferError",
    "versioned": "for `max_version=(1, n)` comes a capsule named `dltensor_versioned`",
    "older consumer": "for `max_version=(0, n)` comes a `dltensor` capsule, or a BufferError",
    "version": "the struct's major version is 1",
    "flags": "no flag is set that the version does not define",
    "read-only": "immutable memory is flagged READ_ONLY; a capsule that cannot say so is refused",
    "copy=True": "a copy is made, and flagged IS_COPIED; or a BufferError",
    "copy=False": "the same memory, not flagged IS_COPIED; or a BufferError",
    "dl_device": "the host is exported to, and a device out of reach is a BufferError",
    "shape": "`shape` is there where there are axes, and no extent is negative",
    "strides": "`strides` is there where there are axes (since 1.2)",
    "data": "`data` is not NULL under elements, and should be NULL where there are none",
    "byte_offset": "`byte_offset` is 0, as several consumers ignore it or refuse another",
    "alignment": "the first element lies at a multiple of its own size",
    "dtype": "code, bits and lanes are a dtype of the standard",
    "fresh": "each call gives a capsule, a struct and extents of its own",
    "deleter": "there is a deleter",
    "unconsumed": "a capsule that nobody takes calls the deleter, once, when it dies",
    "consumed": "a capsule that was taken and renamed leaves the struct to its new owner",
    "keeps alive": "an export holds its memory, and lets it go with the deleter",
    "without the GIL": "the deleter may be called without the GIL, on any thread",
    "exchange table": "the type's C exchange table is a capsule, of major version 1, and complete",
}

_CODES = {
    **dict.fromkeys((0, 1), frozenset({1, 2, 3, 4, 5, 6, 7, 8, 16, 32, 64})),
    2: {16, 32, 64},
    3: set(range(1, 256)),
    4: {16},
    5: {32, 64, 128},
    6: {8},
    **dict.fromkeys(range(7, 15), frozenset({8})),
    **dict.fromkeys((15, 16), frozenset({6})),
    17: {4},
    18: {32},
}
_CAPSULE = "dltensor", "dltensor_versioned"
_NEWEST = (1, 3)
_USAGE = (
    *("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks"),
    *("fordblks", "keepcost"),
)
_EXPORTS = 10000  # of 50 bytes each, a leak is seen


class Finding(NamedTuple):
    """What was found out about one clause.

    Attributes
    ----------
    clause : str
        A key of `CLAUSES`.
    verdict : {"kept", "broken", "note", "untried"}
        A note is no breach: something that consumers stumble over.
    fact : str
        What was seen; empty where the clause is kept.
    """

    clause: str
    verdict: str
    fact: str = ""


class Report:
    """What `check` found.

    Attributes
    ----------
    subject : str
        The type that was looked at.
    findings : list of Finding
        One or more for each clause, in the order of `CLAUSES`.
    """

    def __init__(self, subject: str, findings: list[Finding]) -> None:
        order = list(CLAUSES)
        self.subject = subject
        self.findings = sorted(findings, key=lambda finding: order.index(finding.clause))

    @property
    def broken(self) -> list[Finding]:
        """The clauses that are broken."""
        return [finding for finding in self.findings if finding.verdict == "broken"]

    def __bool__(self) -> bool:
        return not self.broken

    def __repr__(self) -> str:
        lines = [
            f"{finding.verdict:8} {finding.clause:16} {finding.fact or CLAUSES[finding.clause]}"
            for finding in self.findings
        ]
        return "\n".join([f"{self.subject}: {len(self.broken)} clauses broken", *lines])


def check(obj: Any, *, trials: bool = True) -> Report:
    """Look at an object's DLPack export, clause by clause.

    Exports the object some dozens of times and looks at every field; takes capsules, drops them,
    and calls deleters. What may crash is tried in a fork of this process (not on Windows).

    Parameters
    ----------
    obj
        Anything with ``__dlpack__``, on the host.
    trials : bool
        False leaves out what needs a fork: ``unconsumed``, ``consumed``, ``keeps alive`` and
        ``without the GIL`` are untried then.

    Returns
    -------
    Report
        False where a clause of the standard is broken; prints as a list.

    Raises
    ------
    TypeError
        If there is no ``__dlpack__``.

    Examples
    --------
    >>> import candle
    >>> from candle.testing import check
    >>> report = check(candle.zeros((2, 3)))
    >>> bool(report)
    True
    """
    if not hasattr(type(obj), "__dlpack__"):
        raise TypeError(f"{type(obj).__name__} has no __dlpack__ to look at")
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of deprecated capsules, which are what is asked for
        return _Check(obj, trials and hasattr(os, "fork")).report()


class _Check:
    def __init__(self, obj: Any, trials: bool) -> None:
        self.obj = obj
        self.trials = trials
        self.findings: list[Finding] = []

    def report(self) -> Report:
        self.device()
        if self.ends_the_process():
            self.findings += [Finding(clause, "untried") for clause in CLAUSES]
            return self.made(self.findings)
        self.fresh()
        legacy, versioned = self.kinds()
        for name, capsule in (("legacy", legacy), ("versioned", versioned)):
            if capsule is not None and (name in str(_name(capsule)) or name == "legacy"):
                self.struct(capsules.info(capsule), name)
        del legacy, versioned, capsule
        self.keywords()
        self.copies()
        self.other_devices()
        self.ownership()
        self.exchange_table()
        kept = {finding.clause for finding in self.findings}
        self.findings += [Finding(clause, "kept") for clause in CLAUSES if clause not in kept]
        return self.made(self.findings)

    def made(self, findings: list[Finding]) -> Report:
        cls = type(self.obj)
        return Report(f"{cls.__module__}.{cls.__qualname__}", findings)

    def ends_the_process(self) -> bool:
        """Export and drop, elsewhere, before it is done here."""
        for clause, taken in (("unconsumed", False), ("without the GIL", True)):

            def drop(taken: bool = taken) -> str:
                for keywords in ({}, {"max_version": _NEWEST}):
                    capsule = self.ask(**keywords)
                    if taken and _is_capsule(capsule):
                        capsules.take(capsule).release()
                return ""

            said = self.tried(drop) if self.trials else ""
            if said.startswith(("killed", "no answer")):
                self.say(clause, "broken", said)
        return bool(self.findings) and self.findings[-1].clause != "device"

    def say(self, clause: str, verdict: str, fact: str) -> None:
        if not any(f[:2] == (clause, verdict) and fact in f.fact for f in self.findings):
            self.findings.append(Finding(clause, verdict, fact))

    def ask(self, **keywords: Any) -> Any:
        """Give a capsule, or the exception that came instead."""
        try:
            return self.obj.__dlpack__(**keywords)
        except Exception as error:
            return error.with_traceback(None)

    # What is asked for.

    def device(self) -> None:
        try:
            answer: Any = self.obj.__dlpack_device__()
        except Exception as error:
            self.say("device", "broken", f"it raises {_words(error)}")
            return
        if not (
            isinstance(answer, tuple)
            and len(answer) == 2
            and all(isinstance(part, int) for part in answer)
        ):
            self.say("device", "broken", f"it gives {answer!r}")

    def kinds(self) -> tuple[Any, Any]:
        legacy = self.ask()
        if isinstance(legacy, BufferError):
            self.say("legacy", "note", f"refused: {_words(legacy)}")
        elif _name(legacy) != "dltensor":
            self.say("legacy", "broken", _got(legacy))
        versioned = self.ask(max_version=_NEWEST)
        if isinstance(versioned, BufferError):
            self.say("versioned", "broken", f"refused: {_words(versioned)}")
        elif _name(versioned) != "dltensor_versioned":
            self.say("versioned", "broken", _got(versioned))
        for newer in ((1, 0), (2, 0)):
            given = self.ask(max_version=newer)
            if _name(versioned) == "dltensor_versioned" != _name(given):
                self.say("versioned", "broken", f"for max_version={newer} {_got(given)}")
        older = self.ask(max_version=(0, 8))
        if not isinstance(older, BufferError) and _name(older) != "dltensor":
            self.say("older consumer", "broken", _got(older))
        return (legacy if _is_capsule(legacy) else None), (
            versioned if _is_capsule(versioned) else None
        )

    def keywords(self) -> None:
        device = self.ask_device()
        for name, value in (
            ("stream", None),
            ("max_version", _NEWEST),
            ("dl_device", device),
            ("copy", None),
        ):
            given = self.ask(**{name: value})
            if isinstance(given, TypeError):
                self.say("keywords", "broken", f"{name}={value!r} raises {_words(given)}")
        given = self.ask(stream=None, max_version=_NEWEST, dl_device=device, copy=None)
        if isinstance(given, TypeError):
            self.say("keywords", "broken", f"all four together raise {_words(given)}")

    def ask_device(self) -> Any:
        try:
            return self.obj.__dlpack_device__()
        except Exception:
            return (1, 0)

    def copies(self) -> None:
        plain = self.ask(max_version=_NEWEST)
        if not _is_capsule(plain):
            return
        here = capsules.info(plain)
        empty = not here.data
        for wanted in (True, False):
            clause = f"copy={wanted}"
            given = self.ask(max_version=_NEWEST, copy=wanted)
            if isinstance(given, BufferError):
                self.say(clause, "note", f"refused: {_words(given)}")
                continue
            if not _is_capsule(given):
                self.say(clause, "broken", _got(given))
                continue
            there = capsules.info(given)
            if not empty and (there.address != here.address) != wanted:
                self.say(clause, "broken", "a copy was made" if not wanted else "no copy was made")
            elif there.flags is None and wanted:
                self.say(clause, "broken", "a legacy capsule, which cannot say that it is a copy")
            elif there.flags is not None and bool(there.flags & IS_COPIED) != wanted:
                words = "without the flag" if wanted else "with the flag"
                self.say(clause, "broken", f"the {'copy' if wanted else 'memory'} comes {words}")

    def other_devices(self) -> None:
        if self.ask_device()[0] != 1:
            self.say("dl_device", "untried", "the object is not on the host")
            return
        given = self.ask(max_version=_NEWEST, dl_device=(1, 0))
        if not _is_capsule(given):
            self.say("dl_device", "broken", f"for the host: {_got(given)}")
        given = self.ask(max_version=_NEWEST, dl_device=(14, 99), copy=False)
        if _is_capsule(given):
            self.say(
                "dl_device", "broken", "another device is ignored, and the host's memory given"
            )
        elif not isinstance(given, BufferError):
            self.say("dl_device", "broken", f"for a device out of reach: {_got(given)}")

    # What is given.

    def struct(self, fields: capsules.TensorInfo, kind: str) -> None:
        for clause, wrong in _faults(fields):
            self.say(clause, "broken", f"{kind}: {wrong}")
        if fields.shape is not None and 0 in fields.shape and fields.data:
            self.say("data", "note", f"{kind}: the tensor is empty, and the pointer is not NULL")
        if fields.byte_offset:
            self.say("byte_offset", "note", f"{kind}: it is {fields.byte_offset}")
        if fields.device != tuple(self.ask_device()):
            self.say(
                "same device",
                "broken",
                f"{kind}: {fields.device}, announced was {self.ask_device()!r}",
            )
        immutable = self.immutable_address()
        if fields.address == immutable and not (fields.flags or 0) & READ_ONLY:
            why = "the flag is missing" if fields.flags is not None else "it cannot say so"
            self.say("read-only", "broken", f"{kind}: immutable memory, and {why}")

    def immutable_address(self) -> int | None:
        """Say where the object's elements are, if they must not be written."""
        try:
            t = _core.shared(self.obj)
        except (BufferError, TypeError):
            return None
        return t.data_ptr() if t.readonly and t.size else None

    def fresh(self) -> None:
        first, second = self.ask(max_version=_NEWEST), self.ask(max_version=_NEWEST)
        if not (_is_capsule(first) and _is_capsule(second)):
            return
        one, two = capsules.managed(first), capsules.managed(second)
        if first is second:
            self.say("fresh", "broken", "two calls give the same capsule")
        elif C.addressof(one) == C.addressof(two):
            self.say("fresh", "broken", "two capsules have the same struct")
        elif one.dl_tensor.shape and (
            C.addressof(one.dl_tensor.shape.contents) == C.addressof(two.dl_tensor.shape.contents)
        ):
            self.say("fresh", "note", "two structs have the same shape array")

    # Who owns it.

    def ownership(self) -> None:
        for kind, keywords in (("legacy", {}), ("versioned", {"max_version": _NEWEST})):
            capsule = self.ask(**keywords)
            if not _is_capsule(capsule) or ("versioned" in str(_name(capsule))) != bool(keywords):
                continue
            if not capsules.info(capsule).deleter:
                self.say("deleter", "broken", f"{kind}: it is NULL")
                continue
            del capsule
            if not self.trials:
                for clause in ("unconsumed", "consumed", "keeps alive", "without the GIL"):
                    self.say(clause, "untried", "")
                continue
            self.dropped(kind, keywords)
            self.let_go(kind, keywords)
            self.off_the_gil(kind, keywords)

    def dropped(self, kind: str, keywords: dict[str, Any]) -> None:
        """Put a deleter that counts in front of the struct's own, and drop the capsule.

        A capsule's destructor need not go by the struct's deleter: one that nobody took may free
        the struct in a way of its own.
        """
        for clause, taken in (("unconsumed", False), ("consumed", True)):

            def count(taken: bool = taken) -> str:
                calls: list[int] = []
                capsule = self.ask(**keywords)
                struct = capsules.managed(capsule)
                own = capsules.DELETER(struct.deleter)

                def delete(address: int) -> None:
                    calls.append(address)
                    if len(calls) == 1:
                        own(address)

                counting = capsules.DELETER(delete)
                struct.deleter = C.cast(counting, C.c_void_p).value
                owner = capsules.take(capsule) if taken else None
                del capsule
                if calls[taken is False :]:
                    return f"the deleter is called {len(calls)} times"
                if owner is not None:
                    owner.release()
                return ""

            said = self.tried(count)
            if said:
                self.say(clause, "broken", f"{kind}: {said}")

    def let_go(self, kind: str, keywords: dict[str, Any]) -> None:
        """Count references and memory over many exports, taken and not."""

        def export(taken: bool) -> None:
            capsule = self.ask(**keywords)
            if taken:
                capsules.take(capsule).release()

        for taken in (False, True):
            clause = "keeps alive" if taken else "unconsumed"

            def grow(taken: bool = taken) -> str:
                for _ in range(1000):
                    export(taken)
                gc.collect()
                references, before = sys.getrefcount(self.obj), _held()
                for _ in range(_EXPORTS):
                    export(taken)
                gc.collect()
                more = sys.getrefcount(self.obj) - references
                if more:
                    return f"{more / _EXPORTS:g} references to the object are left by each"
                grown = _held() - before
                return (
                    f"about {grown // _EXPORTS} bytes are left by each" if grown > 1 << 19 else ""
                )

            said = self.tried(grow)
            if said:
                self.say(clause, "broken", f"{kind}: {said}")

    def off_the_gil(self, kind: str, keywords: dict[str, Any]) -> None:
        def release() -> str:
            for foreign in (False, True):
                capsules.take(self.ask(**keywords)).release(foreign_thread=foreign)
            return ""

        said = self.tried(release)
        if said:
            self.say("without the GIL", "broken", f"{kind}: {said}")

    def tried(self, do: Callable[[], str]) -> str:
        return trial(do)

    def exchange_table(self) -> None:
        cls = type(self.obj)
        found = getattr(cls, "__dlpack_c_exchange_api__", None)
        if found is None:
            words = "there is none" if not hasattr(cls, "__c_dlpack_exchange_api__") else "old name"
            self.say("exchange table", "untried", words)
            return
        try:
            tables = exchange_api(cls)
        except (TypeError, ValueError):
            self.say("exchange table", "broken", f"it is {type(found).__name__}, not its capsule")
            return
        if not any(table.version[0] == 1 for table in tables):
            self.say("exchange table", "broken", f"its versions are {[t.version for t in tables]}")
        for table in tables[:1]:
            missing = set(SLOTS) - set(table.slots) - {"dltensor_from_py_object_no_sync"}
            if missing:
                self.say("exchange table", "broken", f"empty slots: {', '.join(sorted(missing))}")


def _faults(fields: capsules.TensorInfo) -> Iterator[tuple[str, str]]:
    """Give the clauses that a struct breaks by itself, and how."""
    code, bits, lanes = fields.dtype
    if bits not in _CODES.get(code, ()) or not lanes:
        yield "dtype", f"it is ({code}, {bits}, {lanes})"
    if fields.version is not None:
        known = READ_ONLY | IS_COPIED | IS_SUBBYTE_TYPE_PADDED
        if fields.version[0] != 1:
            yield "version", f"it is {fields.version[0]}.{fields.version[1]}"
        elif (fields.flags or 0) & ~known:
            yield "flags", f"they are {fields.flags:#x}"
    if fields.shape is None:
        if fields.strides is not None:
            yield "shape", "it is NULL"
        return
    if any(extent < 0 for extent in fields.shape):
        yield "shape", f"it is {fields.shape}"
    if fields.strides is None and fields.shape and (fields.version or (1, 0)) >= (1, 2):
        yield "strides", "they are NULL"
    if 0 in fields.shape:
        return
    if not fields.data:
        yield "data", "it is NULL under elements"
    elif fields.address % max(1, bits // 8 // (2 if code == 5 else 1)):
        yield "alignment", f"the address is {fields.address & -fields.address} modulo its size"


def _name(capsule: object) -> str | None:
    return capsules.capsule_name(capsule) if type(capsule).__name__ == "PyCapsule" else None


def _is_capsule(x: object) -> bool:
    return _name(x) in _CAPSULE


def _words(error: Exception) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text if len(text) < 100 else text[:99] + '…'}"


def _got(x: object) -> str:
    if isinstance(x, Exception):
        return f"it raises {_words(x)}"
    name = _name(x)
    return f"it gives {type(x).__name__}" if name is None else f"it gives a capsule named {name!r}"


class _Usage(C.Structure):
    """What glibc's `mallinfo2` says of its memory."""

    _fields_ = tuple((name, C.c_size_t) for name in _USAGE)


def _held() -> int:
    """Bytes in use: by glibc's count, and about so many in the interpreter's own small blocks.

    Growth of the process shows no leak that goes into memory which was free before.
    """
    small = 48 * sys.getallocatedblocks()
    usage = getattr(C.CDLL(None), "mallinfo2", None)
    if usage is None:
        return small
    usage.restype = _Usage
    found = usage()
    return small + int(found.uordblks) + int(found.hblkhd)
