"""A linter for libraries that export tensors by DLPack: what of the standard an object breaks."""

from __future__ import annotations

import ctypes as C
import os
from functools import partial
from typing import TYPE_CHECKING, Any

from .._native import _core
from ..naming import module_of
from . import capsules, ownership
from .abi import IS_COPIED, IS_SUBBYTE_TYPE_PADDED, READ_ONLY, SLOTS
from .exchange import exchange_api
from .findings import CLAUSES, Finding, Report
from .trial import trial

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["check"]

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
_UNVERSIONED: tuple[int, int] = (1, 0)
_CapsuleType = type(_core.Tensor.__dlpack_c_exchange_api__)


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
        self.announced: tuple[int, int] | None = None  # the device, if it is told as it should be

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
        return Report(f"{module_of(cls) or 'builtins'}.{cls.__qualname__}", findings)

    def ends_the_process(self) -> bool:
        """Export and drop, elsewhere, before it is done here."""
        for clause, taken in (("unconsumed", False), ("without the GIL", True)):

            def drop(taken: bool = taken) -> str:
                for keywords in ({}, {"max_version": _NEWEST}):
                    capsule = self.ask(**keywords)
                    if taken and _is_capsule(capsule):
                        capsules.take(capsule).release()
                return ""

            said = trial(drop) if self.trials else ""
            if said.startswith(("killed", "no answer", "ended")):
                self.say(clause, "broken", said)
        return bool(self.findings) and self.findings[-1].clause != "device"

    def say(self, clause: str, verdict: str, fact: str) -> None:
        if not any(f[:2] == (clause, verdict) and fact in f.fact for f in self.findings):
            self.findings.append(Finding(clause, verdict, fact))

    def ask(self, **keywords: Any) -> Any:
        """Give a capsule, or the exception that came instead."""
        try:
            return self.obj.__dlpack__(**keywords)
        except (Exception, SystemExit) as error:
            return error.with_traceback(None)

    # What is asked for.

    def device(self) -> None:
        try:
            answer: Any = self.obj.__dlpack_device__()
        except (Exception, SystemExit) as error:
            self.say("device", "broken", f"it raises {_words(error)}")
            return
        if (
            isinstance(answer, tuple)
            and len(answer) == 2
            and all(isinstance(part, int) for part in answer)
        ):
            self.announced = (int(answer[0]), int(answer[1]))
        else:
            self.say("device", "broken", f"it gives {_shown(answer)}")

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
        device = self.announced or (1, 0)
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
        if self.announced is not None and self.announced[0] != 1:
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
        if self.announced not in (None, fields.device):
            words = f"{kind}: {fields.device}, announced was {self.announced}"
            self.say("same device", "broken", words)
        immutable = self.immutable_address()
        if fields.address == immutable and not (fields.flags or 0) & READ_ONLY:
            why = "the flag is missing" if fields.flags is not None else "it cannot say so"
            self.say("read-only", "broken", f"{kind}: immutable memory, and {why}")

    def immutable_address(self) -> int | None:
        """Say where the object's elements are, if they must not be written."""
        try:
            t = _core.shared(self.obj)
        except (BufferError, TypeError, SystemExit):
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
                for clause in ownership.CLAUSES:
                    self.say(clause, "untried", "")
                continue
            for clause, said in ownership.breaches(self.obj, partial(self.ask, **keywords)):
                self.say(clause, "broken", f"{kind}: {said}")

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
    if fields.strides is None and fields.shape and (fields.version or _UNVERSIONED) >= (1, 2):
        yield "strides", "they are NULL"
    if 0 in fields.shape:
        return
    if not fields.data:
        yield "data", "it is NULL under elements"
    elif fields.address % max(1, bits // 8 // (2 if code == 5 else 1)):
        yield "alignment", f"the address is {fields.address & -fields.address} modulo its size"


def _name(capsule: object) -> str | None:
    return capsules.capsule_name(capsule) if type(capsule) is _CapsuleType else None


def _is_capsule(x: object) -> bool:
    return _name(x) in _CAPSULE


def _shown(x: object) -> str:
    try:
        return repr(x)
    except Exception:  # whatever its author did not foresee
        return f"an object of {type(x).__name__}"


def _words(error: BaseException) -> str:
    try:
        text = " ".join(str(error).split())
    except Exception:  # likewise
        text = "it has no words"
    return f"{type(error).__name__}: {text if len(text) < 100 else text[:99] + '…'}"


def _got(x: object) -> str:
    if isinstance(x, BaseException):
        return f"it raises {_words(x)}"
    name = _name(x)
    return f"it gives {type(x).__name__}" if name is None else f"it gives a capsule named {name!r}"
