"""Named cases of what a producer may say, sound and unsound, and what candle does with each."""

from __future__ import annotations

from typing import Any, NamedTuple

from .abi import IS_COPIED, IS_SUBBYTE_TYPE_PADDED, READ_ONLY
from .producers import Producer


class Case(NamedTuple):
    """One case.

    Attributes
    ----------
    name
        What is special about it.
    arguments
        Arguments of `Producer`.
    wanted
        What candle does: ``"share"``; ``"read-only"`` (share, and remember that it must not be
        written); ``"refuse"`` (``BufferError``); ``"sound"`` (right values or ``BufferError``).
    """

    name: str
    arguments: dict[str, Any]
    wanted: str

    def producer(self) -> Producer:
        """Make a fresh producer of this case."""
        return Producer(**self.arguments)


def _case(name: str, wanted: str, **arguments: Any) -> Case:
    return Case(name, arguments, wanted)


_VERSIONED: dict[str, Any] = {"mode": "versioned"}
_FAR = 2**62

CASES = (
    # How it is asked for
    _case("plain, by max_version", "share", shape=(2, 3)),
    _case("legacy only", "share", shape=(4,), mode="legacy"),
    _case("legacy, no keywords taken", "share", shape=(4,), mode="legacy", signature="none"),
    _case("legacy, only stream taken", "share", shape=(4,), mode="legacy", signature="stream"),
    _case("versioned, no keywords taken", "share", shape=(4,), signature="none", **_VERSIONED),
    _case("version 1.0", "share", shape=(4,), version=(1, 0), **_VERSIONED),
    _case("version 1.99", "share", shape=(4,), version=(1, 99), **_VERSIONED),
    _case("version 2.0", "refuse", shape=(4,), version=(2, 0), **_VERSIONED),
    _case("version 0.9", "refuse", shape=(4,), version=(0, 9), **_VERSIONED),
    _case("raises BufferError", "refuse", shape=(2,), raises=BufferError("no")),
    _case("raises RuntimeError", "refuse", shape=(2,), raises=RuntimeError("no")),
    _case("raises TypeError", "refuse", shape=(2,), raises=TypeError("of its own")),
    _case("gives no capsule", "refuse", shape=(2,), returns="a string"),
    _case("capsule of another name", "refuse", shape=(2,), mode="legacy", capsule_name="tensor"),
    _case("capsule named as used", "refuse", shape=(2,), capsule_name="used_dltensor_versioned"),
    # Flags
    _case("read-only flag", "read-only", shape=(4,), flags=READ_ONLY, **_VERSIONED),
    _case("copied flag", "share", shape=(4,), flags=IS_COPIED, **_VERSIONED),
    _case("unknown flag bit 40", "share", shape=(4,), flags=1 << 40, **_VERSIONED),
    _case("padded flag on whole bytes", "share", shape=(4,), flags=4, **_VERSIONED),
    # Layout
    _case("NULL strides", "share", shape=(2, 3), strides=None),
    _case("NULL strides, legacy", "share", shape=(2, 3), strides=None, mode="legacy"),
    _case("byte_offset 4", "share", shape=(2,), byte_offset=4),
    _case("byte_offset 4, legacy", "share", shape=(2,), byte_offset=4, mode="legacy"),
    _case("byte_offset 4, 0-d", "share", shape=(), byte_offset=4),
    _case("byte_offset 2, misaligned", "sound", shape=(2,), byte_offset=2),
    _case("0-d", "share", shape=()),
    _case("0-d, NULL shape and strides", "share", shape=(), strides=None, null_shape=True),
    _case("empty", "share", shape=(0,)),
    _case("empty, NULL data", "share", shape=(0, 3), null_data=True),
    _case("empty, NULL data and strides", "share", shape=(3, 0), null_data=True, strides=None),
    _case("empty, junk strides", "share", shape=(0, 3), strides=(-_FAR, _FAR)),
    _case("transposed", "share", shape=(3, 2), strides=(1, 3)),
    _case("with gaps", "share", shape=(3, 2), strides=(100, 7)),
    _case("stride 0", "share", shape=(3, 4), strides=(0, 1)),
    _case("negative stride", "share", shape=(4,), strides=(-1,), byte_offset=12),
    _case("junk stride on extent 1", "share", shape=(1, 4, 1), strides=(999, 1, -77)),
    _case("huge stride on extent 1", "share", shape=(1, 4), strides=(2**63 - 1, 1)),
    _case("64 axes", "share", shape=(1,) * 64),
    _case("NULL deleter", "share", shape=(2,), null_deleter=True),
    _case("NULL deleter, legacy", "share", shape=(2,), null_deleter=True, mode="legacy"),
    # Dtypes
    _case("bfloat16", "share", shape=(2,), dtype=(4, 16)),
    _case("bool", "share", data=bytes([0, 1, 1, 0]), shape=(4,), dtype=(6, 8)),
    _case("float8_e4m3fn", "share", shape=(4,), dtype=(10, 8)),
    _case("fp4 pairs", "share", shape=(4,), dtype=(17, 4, 2)),
    _case("fp4", "share", shape=(4,), dtype=(17, 4)),
    _case("int4", "share", shape=(4,), dtype=(0, 4)),
    _case(
        "int4, one a byte",
        "sound",
        shape=(4,),
        dtype=(0, 4),
        flags=IS_SUBBYTE_TYPE_PADDED,
        **_VERSIONED,
    ),
    # Devices
    _case("pinned memory", "share", shape=(4,), device=(3, 0)),
    _case("device number None", "share", shape=(4,), device_answer=(1, None)),
    _case("pinned answer, plain capsule", "share", shape=(4,), device_answer=(3, 0)),
    # Unsound
    _case("NULL data with elements", "refuse", shape=(2,), null_data=True),
    _case("NULL data, 0-d", "refuse", shape=(), null_data=True),
    _case("NULL data, byte_offset", "refuse", shape=(2,), null_data=True, byte_offset=64),
    _case("byte_offset that wraps around", "refuse", shape=(2,), byte_offset=2**64 - 8),
    _case("byte_offset 2**63", "refuse", shape=(2,), byte_offset=2**63),
    _case("byte_offset 2**63, legacy", "refuse", shape=(2,), byte_offset=2**63, mode="legacy"),
    _case("byte_offset 2**64 - 2**48", "refuse", shape=(2,), byte_offset=2**64 - 2**48),
    _case("address at the very end", "refuse", data=2**64 - 4, shape=(2,)),
    _case("elements around the end", "refuse", data=2**64 - 2**60, shape=(2,), strides=(2**59,)),
    _case(
        "elements around the end, no strides", "refuse", data=2**64 - 8, shape=(4,), strides=None
    ),
    _case("NULL with an offset added", "refuse", data=32, shape=(2,)),
    _case("strides below 0", "refuse", shape=(2,), strides=(-(2**58),)),
    _case("strides below 0, legacy", "refuse", shape=(2,), strides=(-(2**57),), mode="legacy"),
    _case(
        "strides and byte_offset below 0",
        "refuse",
        shape=(2,),
        strides=(-(2**50),),
        byte_offset=2**40,
    ),
    _case("NULL shape with ndim 2", "refuse", shape=(2, 3), null_shape=True),
    _case("ndim -1", "refuse", shape=(2,), ndim=-1),
    _case("ndim -2**31", "refuse", shape=(2,), ndim=-(2**31)),
    _case("ndim 65", "refuse", shape=(2,), ndim=65),
    _case("ndim 1000", "refuse", shape=(2,), ndim=1000),
    _case("extent -2", "refuse", shape=(-2,)),
    _case("extent -2 beside 0", "refuse", shape=(0, -2)),
    _case("overflowing extents", "refuse", shape=(2**40, 2**40)),
    _case("overflowing bytes", "refuse", shape=(2**62,)),
    _case("overflowing strides", "refuse", shape=(3, 3), strides=(_FAR, _FAR)),
    _case("overflowing negative strides", "refuse", shape=(3, 3), strides=(-_FAR, -_FAR)),
    _case("dtype code 99", "refuse", shape=(2,), dtype=(99, 32)),
    _case("dtype code 255", "refuse", shape=(2,), dtype=(255, 32)),
    _case("opaque handle", "refuse", shape=(2,), dtype=(3, 64)),
    _case("float of 8 bits", "refuse", shape=(2,), dtype=(2, 8)),
    _case("float of 0 bits", "refuse", shape=(2,), dtype=(2, 0)),
    _case("float of 33 bits", "refuse", shape=(2,), dtype=(2, 33)),
    _case("bool of 1 bit", "refuse", shape=(2,), dtype=(6, 1)),
    _case("fp4 of 8 bits", "refuse", shape=(2,), dtype=(17, 8)),
    _case("lanes 0", "refuse", shape=(2,), dtype=(2, 32, 0)),
    _case("lanes 2", "refuse", shape=(2,), dtype=(2, 32, 2)),
    _case("lanes 65535", "refuse", shape=(2,), dtype=(2, 32, 65535)),
    _case("fp4, lanes 4", "refuse", shape=(2,), dtype=(17, 4, 4)),
    _case("device type 0", "refuse", shape=(2,), device=(0, 0)),
    _case("device number -1", "refuse", shape=(2,), device=(2, -1)),
    _case("host answer, device capsule", "refuse", shape=(2,), device=(2, 0), device_answer=(1, 0)),
    _case("device answer, host capsule", "refuse", shape=(2,), device_answer=(2, 0)),
)
