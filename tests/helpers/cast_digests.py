"""Every dtype cast to every other, as digests: run as a program, it prints them as JSON."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import rounding
from rounding import COMPLEX, INTEGERS, NAMES

import candle

if TYPE_CHECKING:
    import numpy.typing as npt

    Array = npt.NDArray[Any]


def source(name: str) -> Array:
    """All codes of a dtype of at most 16 bits; of a wider one the edges, NaNs and random codes."""
    if name == "bool":
        return np.arange(256, dtype=np.uint8).view(bool)
    if name == "complex32":
        halves = np.random.default_rng(0).integers(0, 2**16, 2**12, np.uint16)
        return halves.view(rounding.numpy_dtype(name))
    if rounding.bits_of(name) <= 16:
        return rounding.every_code(name)
    edges = rounding.edge_values(name, count=2**14)
    if name in INTEGERS:
        noise = np.random.default_rng(1).integers(0, 2**64, 2**12, np.uint64)
        shifted = noise >> np.arange(2**12, dtype=np.uint64) % np.uint64(64)  # of every magnitude
        return np.concatenate([edges, shifted.astype(edges.dtype), ~shifted.astype(edges.dtype)])
    component = COMPLEX.get(name, name)
    more = [_nans(component), _near(component)]
    return np.concatenate([edges, *(array.view(edges.dtype) for array in more)])


def _nans(name: str) -> Array:
    """NaNs of both signs: payloads of one bit each, and random ones."""
    mantissa, unsigned = (23, np.uint32) if name == "float32" else (52, np.uint64)
    infinity = unsigned(np.array(np.inf, name).view(unsigned))
    bits = unsigned(1) << np.arange(mantissa, dtype=unsigned)
    noise = np.random.default_rng(2).integers(1, 2**mantissa, 64 + mantissa % 2, dtype=unsigned)
    payloads = np.concatenate([bits, noise])
    sign = unsigned(1) << unsigned(8 * infinity.itemsize - 1)
    return np.concatenate([payloads | infinity, payloads | infinity | sign])


def _near(name: str) -> Array:
    """Numbers halfway between such of small floats, and their neighbours."""
    random = np.random.default_rng(3)
    exponents = random.integers(-30, 20, 2**13)
    kept = random.choice([1, 2, 3, 4, 7, 10], 2**13)
    middle = np.floor(np.ldexp(random.random(2**13) + 1, kept)) + 0.5
    numbers = np.ldexp(middle, exponents - kept).astype(name)
    up, down = np.dtype(name).type(np.inf), np.dtype(name).type(-np.inf)
    return np.concatenate(
        [numbers, -np.nextafter(numbers, down), np.nextafter(numbers, up), -numbers]
    )


def targets(name: str) -> list[str]:
    """What `name` can be cast to."""
    fits = COMPLEX if name in COMPLEX else NAMES
    return [x for x in (*fits, *(["bool"] if name in COMPLEX else [])) if x != name]


def cast(array: Array, name: str) -> Array:
    """The result of a cast as codes."""
    if array.dtype.names:
        tensor = candle.asarray(array.view(np.uint32)).view("complex32")
    else:
        tensor = candle.asarray(array)
    result = tensor.to(name)
    return rounding.codes((result.view("uint32") if name == "complex32" else result).numpy())


def digests() -> dict[str, str]:
    """A digest of each pair's results, NaN codes included."""
    found = {}
    for name in NAMES:
        array = source(name)
        for target in targets(name):
            digest = hashlib.sha256(np.ascontiguousarray(cast(array, target)).tobytes())
            found[f"{name} to {target}"] = digest.hexdigest()
    return found


if __name__ == "__main__":
    print(json.dumps(digests()))
