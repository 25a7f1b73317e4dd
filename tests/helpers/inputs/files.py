"""Files of tensors with bytes changed: refused, or read as the library they come from does."""

from __future__ import annotations

import io
import json
import os
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import candle
from candle.testing import assert_no_leak

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

WORDS = (
    *(b"{", b"}", b"[", b"]", b'"', b",", b":", b"\\", b"\0", b" ", b"0", b"-1", b"1e9", b"null"),
    *(b'"shape"', b'"dtype"', b'"data_offsets"', b"__metadata__", b"F32", b"BOOL", b"F4", b"99"),
    *(
        b"True",
        b"False",
        b"(",
        b")",
        b"'<f4'",
        b"'|b1'",
        b"'O'",
        b"'fortran_order'",
        b"18446744073",
    ),
)


def safetensors(rng: random.Random) -> bytes:
    header: dict[str, Any] = {}
    at = 0
    for name in "xyz"[: rng.randint(1, 3)]:
        shape = [rng.randint(0, 3) for _ in range(rng.randint(0, 3))]
        kind, item = rng.choice((("F32", 4), ("U8", 1), ("BF16", 2), ("I64", 8), ("BOOL", 1)))
        size = item * int(np.prod(shape))
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [at, at + size]}
        at += size
    if rng.random() < 0.3:
        header["__metadata__"] = {"a": "b"}
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + bytes(i % 2 for i in range(at))


def array(rng: random.Random) -> Any:
    shape = [rng.randint(0, 3) for _ in range(rng.randint(0, 3))]
    dtype = rng.choice(("<f4", ">i2", "|u1", "?", "<c8", "<f2"))
    a = (np.arange(int(np.prod(shape))) % 2).astype(dtype).reshape(shape)
    return np.asfortranarray(a) if rng.random() < 0.3 else a


def npy(rng: random.Random) -> bytes:
    out = io.BytesIO()
    np.lib.format.write_array(out, array(rng), version=rng.choice((None, (1, 0), (2, 0), (3, 0))))
    return out.getvalue()


def npz(rng: random.Random) -> bytes:
    out = io.BytesIO()
    save: Callable[..., None] = rng.choice((np.savez, np.savez_compressed))
    save(out, **{name: array(rng) for name in "xy"[: rng.randint(1, 2)]})
    return out.getvalue()


def changed(rng: random.Random, data: bytes) -> bytes:
    made = bytearray(data)
    for _ in range(rng.choice((0, 1, 1, 1, 2, 4))):
        at = rng.randrange(min(len(made), 400) or 1)
        change = rng.randrange(6)
        if change == 0:
            made[at : at + 1] = rng.randbytes(1)
        elif change == 1:
            made[at:at] = rng.choice(WORDS)
        elif change == 2:
            word = rng.choice(WORDS)
            made[at : at + len(word)] = word
        elif change == 3:
            del made[at : at + rng.randint(1, 8)]
        elif change == 4:
            made = made[:at]
        else:
            made += rng.randbytes(rng.randint(1, 8))
    return bytes(made)


def by_numpy(path: Path) -> Any:
    with np.load(path, allow_pickle=False) as found:
        return {name: found[name] for name in found}


KINDS: dict[str, tuple[Any, Any, Any]] = {
    "safetensors": (safetensors, candle.load_safetensors, None),
    "npy": (npy, candle.load_npy, lambda path: np.load(path, allow_pickle=False)),
    "npz": (npz, candle.load_npz, by_numpy),
}


@cache
def place(_process: int) -> Path:
    shared = Path("/dev/shm")
    folder = tempfile.TemporaryDirectory(dir=shared if shared.is_dir() else None)
    kept.append(folder)
    return Path(folder.name)


kept: list[tempfile.TemporaryDirectory[str]] = []


def listed(found: Any) -> Any:
    if isinstance(found, dict):
        return {name: listed(item) for name, item in found.items()}
    return (tuple(found.shape), repr(found.tolist()))


def run(rng: random.Random) -> str:
    """Write a file, and read it mapped and not."""
    kind = rng.choice(list(KINDS))
    make, load, oracle = KINDS[kind]
    path = place(os.getpid()) / f"x.{kind}"
    path.write_bytes(changed(rng, make(rng)))
    outcomes = []
    with assert_no_leak():
        for mmap in (True, False):
            try:
                found = load(path, mmap=mmap)
            except (ValueError, BufferError) as error:
                outcomes.append(f"{type(error).__name__} {str(error)[-60:]}")
            else:
                outcomes.append(listed(found))
                del found
    if isinstance(outcomes[0], str) or isinstance(outcomes[1], str):
        both = isinstance(outcomes[0], str) and isinstance(outcomes[1], str)
        # To map a member, what stands in front of it has to be right too.
        assert both or (kind == "npz" and isinstance(outcomes[0], str)), outcomes
        return f"{kind} {str(outcomes[0])[:40]}"
    assert outcomes[0] == outcomes[1]
    try:
        wanted = outcomes[0] if oracle is None else listed(oracle(path))
    except ValueError:
        return f"{kind} read by candle alone"  # numpy looks at other bytes first
    assert wanted == outcomes[0]
    return f"{kind} read"
