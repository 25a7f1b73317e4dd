"""The codes of reasons, as an enum.

Not `enum`'s: importing that takes as long as half of candle. It does what a `StrEnum` does, and to
type checkers it is one.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from enum import StrEnum
    from typing import Any

__all__ = ["ReasonCode"]


class _Members(type):
    """Makes members of the strings in a class's body: its only objects."""

    def __new__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> Any:
        texts = {key: text for key, text in body.items() if key.isupper()}
        made: Any = super().__new__(cls, name, bases, body)
        made.__members__ = members = {}
        for key, text in texts.items():
            members[key] = member = str.__new__(made, text)
            member.name, member.value = key, text
            type.__setattr__(made, key, member)
        made._by_value = {str(text): members[key] for key, text in texts.items()}
        return made

    def __call__(cls: Any, value: object) -> Any:
        """Give the member of a value, as an enum does."""
        try:
            return cls._by_value[value]
        except (KeyError, TypeError):
            raise ValueError(f"{value!r} is not a valid {cls.__name__}") from None

    def __getitem__(cls: Any, name: str) -> Any:
        return cls.__members__[name]

    def __iter__(cls: Any) -> Iterator[Any]:
        return iter(cls.__members__.values())

    def __len__(cls: Any) -> int:
        return len(cls.__members__)

    def __contains__(cls: Any, value: object) -> bool:
        return value in tuple(cls)

    def __setattr__(cls: Any, name: str, value: object) -> None:
        if name in cls.__dict__.get("__members__", ()):
            raise AttributeError(f"cannot reassign member {name!r}")
        super().__setattr__(name, value)

    def __repr__(cls) -> str:
        return f"<enum {cls.__name__!r}>"


if not TYPE_CHECKING:

    class StrEnum(str, metaclass=_Members):
        __slots__ = ("name", "value")

        def __repr__(self):
            return f"<{type(self).__name__}.{self.name}: {self.value!r}>"

        def __reduce__(self):
            return type(self), (self.value,)

        def __copy__(self):
            return self

        def __deepcopy__(self, memo):
            return self


class ReasonCode(StrEnum):
    """Why a move cannot share, for programs: a str too, so that it compares with its name.

    The first group is put right by a copy, the second is not.

    Examples
    --------
    >>> import candle
    >>> plan = candle.explain(candle.zeros((2, 3))[::-1], "dlpack")
    >>> plan.reasons[0].code is candle.ReasonCode.NEGATIVE_STRIDE
    True
    >>> plan.reasons[0].code == "negative_stride"
    True
    """

    __module__ = "candle"

    REQUESTED = "requested"
    DTYPE = "dtype"
    ORDER = "order"
    BYTE_ORDER = "byte_order"
    MISALIGNED = "misaligned"
    ODD_STRIDE = "odd_stride"
    NEGATIVE_STRIDE = "negative_stride"
    READ_ONLY = "read_only"
    NOT_DENSE = "not_dense"
    ALIGNMENT = "alignment"
    CONJ_BIT = "conj_bit"
    NEG_BIT = "neg_bit"
    PACKED = "packed"
    NO_EXPORT = "no_export"
    DEVICE = "device"
    PYTHON_VALUES = "python_values"
    BITMAP = "bitmap"
    PERMUTED = "permuted"
    CHUNKS = "chunks"
    COLUMNS = "columns"
    FILLED = "filled"
    CONSUMER_COPIES = "consumer_copies"
    PRODUCER_COPIES = "producer_copies"
    # From here on a copy does not help.
    DTYPE_UNKNOWN = "dtype_unknown"
    WOULD_NARROW = "would_narrow"
    FOREIGN_DEVICE = "foreign_device"
    REQUIRES_GRAD = "requires_grad"
    NO_CAST = "no_cast"
    PAIRS = "pairs"
    NO_AXES = "no_axes"
    LONG_ROWS = "long_rows"
    AXES = "axes"
    NO_DTYPE = "no_dtype"
    MASKED = "masked"
    NULLS = "nulls"
    RAGGED = "ragged"
    ENCODED = "encoded"
    MIXED = "mixed"
    SPARSE = "sparse"
    NO_MEMORY = "no_memory"
    TRACED = "traced"
    QUANTISED = "quantised"
    NESTED = "nested"
    WRAPPER = "wrapper"
    PYTHON_OBJECTS = "python_objects"
    STRUCTURED = "structured"
    DATETIME = "datetime"
    LONG_DOUBLE = "long_double"
    TEXT = "text"
    BITS = "bits"
    PRODUCER = "producer"
