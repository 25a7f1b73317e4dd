"""Safetensors files made by hand, byte by byte, and what the kernel says of mappings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

# The format's dtypes: name, candle's name, bits.
DTYPES = [
    ("BOOL", "bool", 8),
    ("F4", "float4_e2m1fn", 4),
    ("F6_E2M3", "float6_e2m3fn", 6),
    ("F6_E3M2", "float6_e3m2fn", 6),
    ("U8", "uint8", 8),
    ("I8", "int8", 8),
    ("F8_E5M2", "float8_e5m2", 8),
    ("F8_E4M3", "float8_e4m3fn", 8),
    ("F8_E8M0", "float8_e8m0fnu", 8),
    ("F8_E4M3FNUZ", "float8_e4m3fnuz", 8),
    ("F8_E5M2FNUZ", "float8_e5m2fnuz", 8),
    ("I16", "int16", 16),
    ("U16", "uint16", 16),
    ("F16", "float16", 16),
    ("BF16", "bfloat16", 16),
    ("I32", "int32", 32),
    ("U32", "uint32", 32),
    ("F32", "float32", 32),
    ("C64", "complex64", 64),
    ("F64", "float64", 64),
    ("I64", "int64", 64),
    ("U64", "uint64", 64),
]


def entry(dtype: str, shape: list[int], begin: int, end: int) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def whole(header: object, data: bytes = b"", *, pad: int = 0) -> bytes:
    """A file: the header as JSON, or as bytes that are taken as they are."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    text += b" " * pad
    return len(text).to_bytes(8, "little") + text + data


def write(path: Path, header: object, data: bytes = b"", *, start: int | None = 0) -> Path:
    """Write a file; `start`: where its data begins, modulo 64; None: where it happens to."""
    pad = 0
    if start is not None:
        pad = (start - len(whole(header))) % 64
    path.write_bytes(whole(header, data, pad=pad))
    return path


def header_of(path: Path) -> dict[str, Any]:
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    found: dict[str, Any] = json.loads(data[8 : 8 + length])
    return found


def data_of(path: Path) -> bytes:
    data = path.read_bytes()
    return data[8 + int.from_bytes(data[:8], "little") :]


def mappings(path: Path) -> int:
    """How many mappings of a file this process has."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    return sum(line.endswith(f" {path}") for line in lines)


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def descriptors() -> int:
    """How many files this process has open; what an earlier test left in cycles may go any time."""
    return len(list(Path("/proc/self/fd").iterdir()))


def resident(kind: str) -> int:
    """Bytes of this process's memory that are resident: RssAnon, RssFile."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{kind}:"))
