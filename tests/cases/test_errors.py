"""Which exception each fault is, and that its words name the fact and the way out."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import candle
from candle.testing import Producer

if TYPE_CHECKING:
    from collections.abc import Callable

REVERSED = np.arange(6.0)[::-1]


def frozen() -> candle.Tensor:
    return candle.asarray(bytes(8))


def own() -> candle.Tensor:
    return candle.zeros((2, 3))


class Bad:
    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __dlpack__(self, **keywords: Any) -> object:
        raise OSError("the disk is full")


# What is done; the exact class; what the text names.
FAULTS: dict[str, tuple[Callable[[], object], type[Exception], str]] = {
    # The data cannot do it
    "read-only, legacy, copy=False": (
        lambda: frozen().__dlpack__(copy=False),
        candle.CopyError,
        r"read-only.*t\.copy\(\)",
    ),
    "negative stride, copy=False": (
        lambda: candle.asarray(REVERSED).__dlpack__(copy=False),
        candle.CopyError,
        r"stride -1.*contiguous",
    ),
    "other device": (lambda: own().__dlpack__(dl_device=(2, 0)), BufferError, r"cuda|device"),
    "other device, copy=False": (
        lambda: own().__dlpack__(dl_device=(2, 0), copy=False),
        candle.CopyError,
        r"cuda|device",
    ),
    "to a device that is not there": (lambda: own().to("cuda"), BufferError, r"cuda|cupy|driver"),
    "unknown dtype": (
        lambda: candle.from_dlpack(Producer(shape=(2,), dtype=(99, 32))),
        BufferError,
        r"99.*32",
    ),
    "lanes": (
        lambda: candle.from_dlpack(Producer(shape=(2,), dtype=(2, 32, 4))),
        BufferError,
        r"lanes.*4|4.*lanes",
    ),
    "major version": (
        lambda: candle.from_dlpack(Producer(shape=(2,), version=(7, 1), mode="versioned")),
        BufferError,
        r"7",
    ),
    "overflow": (
        lambda: candle.from_dlpack(Producer(shape=(2**40, 2**40))),
        BufferError,
        r"size does not fit 63 bits",
    ),
    "NULL data": (
        lambda: candle.from_dlpack(Producer(shape=(3,), null_data=True)),
        BufferError,
        r"NULL",
    ),
    "negative extent": (lambda: candle.from_dlpack(Producer(shape=(-4,))), BufferError, r"-4"),
    "producer's error": (lambda: candle.from_dlpack(Bad()), BufferError, r"the disk is full"),
    "no buffer of this dtype": (
        lambda: candle.zeros(3, dtype="bfloat16").memoryview(),
        BufferError,
        r"bfloat16.*view",
    ),
    "complex to real": (
        lambda: candle.zeros(3, dtype="complex64").to("float32"),
        BufferError,
        r"complex64.*float32",
    ),
    "object array": (
        lambda: candle.asarray(np.array([[1, 2], [3]], dtype=object)),
        BufferError,
        r"object.*ragged",
    ),
    "structured array": (lambda: candle.asarray(np.zeros(2, "i4,f4")), BufferError, r"field"),
    "times": (lambda: candle.asarray(np.zeros(2, "M8[s]")), BufferError, r"datetime64.*int64"),
    "text array": (lambda: candle.asarray(np.array(["a"])), BufferError, r"text|encode|str"),
    "long double": (lambda: candle.asarray(np.zeros(2, "g")), BufferError, r"float64"),
    "masked array": (
        lambda: candle.asarray(np.ma.masked_equal([1, 2], 1)),
        BufferError,
        r"mask.*filled",
    ),
    "misaligned, copy=False": (
        lambda: candle.from_dlpack(Producer(shape=(2,), byte_offset=1), copy=False),
        candle.CopyError,
        r"multiple of",
    ),
    "cast, copy=False": (
        lambda: candle.asarray(np.zeros(3), dtype="int8", copy=False),
        candle.CopyError,
        r"float64.*int8|int8",
    ),
    "numbers, copy=False": (
        lambda: candle.asarray([1, 2], copy=False),
        candle.CopyError,
        r"Python",
    ),
    "interface of garbage": (
        lambda: candle.asarray(
            type(
                "X",
                (),
                {
                    "__array_interface__": {
                        "shape": (3,),
                        "typestr": "<f4",
                        "data": (0, False),
                        "version": 3,
                    }
                },
            )()
        ),
        BufferError,
        r"0|NULL|data",
    ),
    # A wrong kind of argument
    "not a tensor": (lambda: candle.from_dlpack([1, 2]), TypeError, r"__dlpack__.*list is neither"),
    "unknown keyword": (lambda: own().__dlpack__(maximum=(1, 0)), TypeError, r"maximum|keyword"),
    "max_version of one": (lambda: own().__dlpack__(max_version=1), TypeError, r"max_version"),
    "copy of another kind": (lambda: candle.asarray(REVERSED, copy="yes"), TypeError, r"copy"),
    "order of another kind": (lambda: candle.from_dlpack(REVERSED, order=3), TypeError, r"order"),
    "dtype of another kind": (lambda: candle.zeros(3, dtype=3.5), TypeError, r"float"),
    "shape of another kind": (lambda: candle.zeros("three"), TypeError, r"str"),
    "no hash": (lambda: hash(own()), TypeError, r"hash"),
    # A bad value
    "order F": (lambda: candle.from_dlpack(REVERSED, order="F"), ValueError, r"'F'|order"),
    "stream for an object": (lambda: candle.from_dlpack(REVERSED, stream=1), ValueError, r"stream"),
    "stream of the host": (lambda: own().__dlpack__(stream=1), ValueError, r"stream"),
    "negative shape": (lambda: candle.zeros((2, -3)), ValueError, r"-3"),
    "dtype's name": (lambda: candle.zeros(3, dtype="float37"), (ValueError, TypeError), r"float37"),
    "write to read-only": (lambda: frozen().fill_(0), ValueError, r"read-only"),
    "assignment to read-only": (lambda: frozen().__setitem__(0, 1), ValueError, r"read-only"),
    "write to stride 0": (
        lambda: candle.zeros(1).broadcast_to((3,)).fill_(1),
        ValueError,
        r"stride 0|same",
    ),
    "ragged list": (lambda: candle.asarray([[1, 2], [3]]), ValueError, r"length|ragged|shape"),
    "two elements": (lambda: own().item(), ValueError, r"element"),
    "truth": (lambda: bool(own()), ValueError, r"element|truth"),
    "reshape": (lambda: own().reshape(4, 2), ValueError, r"\(2, 3\)|6"),
    "axis": (lambda: own().permute(0, 5), (ValueError, IndexError), r"5"),
    "index": (lambda: own()[2], IndexError, r"2"),
    "too large for int64": (
        lambda: candle.asarray(2**64),
        (ValueError, OverflowError),
        r"uint64|18446744073709551616|int64",
    ),
}


def test_a_table_of_faults_and_classes() -> None:
    # Case 106: data-apis/array-api#498, numpy/numpy#30937, numpy/numpy#30341,
    # pytorch/pytorch#150691, pytorch/pytorch#194267
    wrong = []
    for name, (fault, kinds, words) in FAULTS.items():
        try:
            fault()
        except Exception as error:
            wanted = kinds if isinstance(kinds, tuple) else (kinds,)
            if type(error) not in wanted:
                wrong.append(f"{name}: {type(error).__name__}: {error}")
            elif not re.search(words, str(error), re.DOTALL):
                wrong.append(f"{name}: says {error}")
        else:
            wrong.append(f"{name}: nothing is raised")
    assert not wrong, "\n".join(wrong)
    assert issubclass(candle.CopyError, BufferError)
    assert issubclass(candle.CopyError, ValueError)
    assert not issubclass(candle.CopyError, TypeError)


def test_it_is_said_who_lacks_the_dtype() -> None:
    # Case 107: pytorch/pytorch#114673, pytorch/pytorch#150691
    for framework, dtypes in {
        "torch": ("float8_e3m4", "float8_e4m3", "float6_e2m3fn", "int4"),
        "jax": ("complex32", "float4_e2m1fn_x2"),
    }.items():
        pytest.importorskip(framework)
        for dtype in dtypes:
            base = Producer(
                shape=(2, 4),
                dtype={
                    "float6_e2m3fn": (15, 6),
                    "int4": (0, 4),
                    "float4_e2m1fn_x2": (17, 4, 2),
                }.get(dtype, (0, 8)),
            )
            t = (
                candle.from_dlpack(base)
                if base.dtype[:2] != (0, 8)
                else candle.zeros((2, 4), dtype=dtype)
            )
            for copy in (None, True):
                with pytest.raises(BufferError) as caught:
                    getattr(t, framework)(copy=copy)
                said = str(caught.value)
                assert f"{framework} has no {dtype}" in said, said
                assert "DLPack" not in said
                assert ".to(" in said or ".view(" in said
    for make, words in (
        (lambda: candle.from_dlpack(Producer(shape=(3,), dtype=(2, 80))), ("80", "2")),
        (lambda: candle.zeros(3, dtype="float8_e5m2").memoryview(), ("float8_e5m2",)),
        (lambda: candle.asarray(np.zeros(3, "V3")), ("V3",)),
    ):
        with pytest.raises(BufferError) as caught:
            make()
        assert all(word in str(caught.value) for word in words), caught.value


def test_objects_are_refused_as_objects() -> None:
    # Case 108: pytorch/pytorch#26158
    ragged = np.array([[1, 2], [3]], dtype=object)
    for x in (
        ragged,
        np.array([None, 1]),
        np.array(object()),
        np.array([1, 2], dtype=object),
        ragged[:0],
        np.array([np.zeros(2), np.zeros(3)], dtype=object),
    ):
        for take in (
            candle.asarray,
            candle.from_dlpack,
            candle.Tensor,
            lambda x: candle.asarray(x, dtype="int64"),
            lambda x: candle.asarray(x, copy=True),
            lambda x: candle.convert([x], "candle"),
        ):
            with pytest.raises(BufferError, match="object") as caught:
                take(x)
            assert "ragged" in str(caught.value)
    for ragged_list in ([[1, 2], [3]], [[], [1]], [1, [2]], [[1], 2], [np.zeros(2), np.zeros(3)]):
        with pytest.raises((ValueError, TypeError, BufferError)):
            candle.asarray(ragged_list)
