"""Producers of every protocol whose k-th step raises: each look-up, each call, each number read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import roads
from interfaces import Interface, Struct

import candle
from candle.testing import Producer

if TYPE_CHECKING:
    from collections.abc import Callable


class Steps:
    """Counts what is asked of a producer, and raises `error` at step `at`; -1: never."""

    def __init__(self, at: int = -1, error: BaseException | None = None) -> None:
        self.at, self.error = at, error
        self.names: list[str] = []

    def tick(self, name: str) -> None:
        self.names.append(name)
        if len(self.names) - 1 == self.at and self.error is not None:
            raise self.error


class Stepping:
    """An object whose every look-up is a step, over what has the real answers."""

    protocols: tuple[str, ...] = ()

    def __init__(self, steps: Steps, real: Any) -> None:
        object.__setattr__(self, "steps", steps)
        object.__setattr__(self, "real", real)

    def __getattribute__(self, name: str) -> Any:
        if name in ("steps", "real", "protocols"):
            return object.__getattribute__(self, name)
        steps = object.__getattribute__(self, "steps")
        steps.tick(name)
        if name not in type(self).protocols:
            return object.__getattribute__(self, name)
        answer = getattr(self.real, name)
        if not callable(answer):
            return Keyed(answer, steps) if isinstance(answer, dict) else answer

        def call(*args: Any, **keywords: Any) -> Any:
            steps.tick(f"{name}()")
            return answer(*args, **keywords)

        return call


class Keyed(dict):  # type: ignore[type-arg]
    """A dict whose keys are compared in steps."""

    def __init__(self, items: dict[str, Any], steps: Steps) -> None:
        super().__init__({Key(name, steps): value for name, value in items.items()})


class Key(str):
    """A text whose comparison is a step; its hash is that of the text."""

    steps: Steps

    def __new__(cls, text: str, steps: Steps) -> Key:
        made = super().__new__(cls, text)
        made.steps = steps
        return made

    def __eq__(self, other: object) -> bool:
        self.steps.tick(f"== {other}")
        return str.__eq__(self, other)  # type: ignore[no-any-return]

    __hash__ = str.__hash__


class Number:
    """An extent or a device's number, read in a step."""

    def __init__(self, value: int, steps: Steps) -> None:
        self.value, self.steps = value, steps

    def __index__(self) -> int:
        self.steps.tick("__index__")
        return self.value


class Sequence:
    """A sequence whose length and items are steps."""

    def __init__(self, steps: Steps, items: list[Any]) -> None:
        self.steps, self.items = steps, items

    def __len__(self) -> int:
        self.steps.tick("len")
        return len(self.items)

    def __getitem__(self, index: int) -> Any:
        self.steps.tick("item")
        return self.items[index]


def stepping(*protocols: str) -> Callable[[Steps, Any], Stepping]:
    """Makes objects of a new type that has these attributes, as a type has methods."""

    def make(steps: Steps, real: Any) -> Stepping:
        members: dict[str, Any] = {"protocols": protocols}
        members.update(dict.fromkeys(protocols, lambda self, *args, **keywords: None))
        return type("Producer", (Stepping,), members)(steps, real)

    return make


class Devices(Producer):
    """A producer that says its device in numbers of another kind."""

    steps: Steps

    def __dlpack_device__(self) -> object:
        self.steps.tick("__dlpack_device__()")
        return Number(1, self.steps), Number(0, self.steps)


def devices(steps: Steps) -> Producer:
    made = Devices(shape=(4,))
    made.steps = steps
    return made


def by_numbers(steps: Steps) -> Any:
    interface = Interface(roads.DATA, shape=(Number(4, steps),), typestr="<f4")
    interface.fields["strides"] = (Number(4, steps),)
    return interface


_dlpack = stepping("__dlpack__", "__dlpack_device__")
PRODUCERS: dict[str, Callable[[Steps], Any]] = {
    "DLPack": lambda steps: _dlpack(steps, Producer(shape=(4,))),
    "DLPack, legacy": lambda steps: _dlpack(steps, Producer(shape=(4,), mode="legacy")),
    "DLPack, old signature": lambda steps: _dlpack(
        steps, Producer(shape=(4,), mode="legacy", signature="none")
    ),
    "DLPack, numbers of a device": devices,
    "DLPack and Arrow": lambda steps: stepping(
        "__dlpack__", "__dlpack_device__", "__arrow_c_array__"
    )(steps, roads.tensor()),
    "array interface": lambda steps: stepping("__array_interface__")(
        steps, Interface(roads.DATA, shape=(4,), typestr="<f4")
    ),
    "array interface of numbers": by_numbers,
    "array interface over a buffer": lambda steps: stepping("__array_interface__")(
        steps, Interface(shape=(4,), typestr="<f4", data=bytearray(roads.DATA), offset=0)
    ),
    "array struct": lambda steps: stepping("__array_struct__")(
        steps, Struct(roads.DATA, shape=(4,), strides=(4,))
    ),
    "Arrow": lambda steps: stepping("__arrow_c_array__")(steps, roads.tensor()),
    "__array__": lambda steps: stepping("__array__")(steps, np.array(roads.NUMBERS, "f4")),
    "sequence": lambda steps: Sequence(steps, list(roads.NUMBERS)),
    "sequence of sequences": lambda steps: Sequence(
        steps, [Sequence(steps, [number]) for number in roads.NUMBERS]
    ),
    "sequence of producers": lambda steps: Sequence(
        steps, [_dlpack(steps, Producer(shape=(2,))), _dlpack(steps, Producer(shape=(2,)))]
    ),
}

WAYS: dict[str, Callable[[Any], Any]] = {
    "asarray": candle.asarray,
    "asarray, copied": lambda x: candle.asarray(x, copy=True),
    "asarray, cast": lambda x: candle.asarray(x, dtype="float64"),
    "in a list": lambda x: candle.asarray([x]),
    "copy_": lambda x: candle.zeros(4).copy_(x),
    "explain": lambda x: candle.explain(x, "numpy"),
    "convert": lambda x: candle.convert([x], "candle"),
}
