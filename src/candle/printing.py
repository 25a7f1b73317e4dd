"""Tensors as text, and as HTML for notebooks. Only the elements that are shown are read."""

from __future__ import annotations

from math import frexp, gcd, isfinite, ldexp, prod

from ._native import _core

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from ._native._core import Tensor
    from .dtypes import DType

__all__ = ["tensor_html", "tensor_repr"]

_threshold = 1000  # elements; of a larger tensor only the edges are shown
_edges = (3, 2, 1)  # elements shown at either end of an axis, if no more than the threshold in all
_line_width = 80
_decimals = 4
_opening = "tensor("


def tensor_repr(t: Tensor, /) -> str:
    """Give a tensor as text: its values, its dtype, and its device if that is not the CPU.

    Values look as in numpy, with at most 4 decimals. Of a tensor with more than 1000 elements the
    edges are shown (3 elements at either end of an axis, less of 4 axes and more, none of 10 large
    ones), and the shape. Values on another device are not fetched: ``...`` stands for them. Pairs
    (torch's fp4) are shown as the byte that holds them. Whether the tensor is read-only is not
    shown, as in numpy and jax; ``t.readonly`` says.

    Parameters
    ----------
    t : Tensor

    Returns
    -------
    str
    """
    values, complete = _values_text(t)
    facts = [] if complete else [f"shape={t.shape}"]
    facts.append(f"dtype={t.dtype}")
    if str(t.device) != "cpu":
        facts.append(f"device='{t.device}'")
    ending = f"{', '.join(facts)})"
    text = _opening + values
    last_line = len(text) - (text.rfind("\n") + 1)
    fits = last_line + len(", ") + len(ending) <= _line_width
    return text + (", " if fits else ",\n" + " " * len(_opening)) + ending


def tensor_html(t: Tensor, /) -> str:
    """Give a tensor as HTML: a line of facts over the values of `tensor_repr`.

    Parameters
    ----------
    t : Tensor

    Returns
    -------
    str
    """
    facts = [f"shape {t.shape}", str(t.dtype), str(t.device), f"{t.nbytes:,} bytes"]
    if t.readonly:
        facts.append("read-only")
    values, _ = _values_text(t, indent=0)
    return f"<div><b>Tensor</b> {' · '.join(facts)}<pre>{values}</pre></div>"


def _values_text(t: Tensor, indent: int = len(_opening)) -> tuple[str, bool]:
    """Give the values in brackets, and whether they tell the shape."""
    if t.size == 0:
        return "[]", t.ndim == 1
    edge = _edge_of(t)
    if not t.device.on_host or edge == 0:  # managed memory would be moved by a look at it
        return "...", False
    values = _read(t.view("uint8") if t.dtype.kind == "pair" else t, edge)
    words = iter(_words(values, t.dtype))
    return _brackets(words, t.shape, edge, indent), t.size <= _threshold


def _edge_of(t: Tensor) -> int:
    """Give how many elements are shown at either end of an axis; 0 if even 1 would be too many."""
    if t.size <= _threshold:
        return _threshold
    for edge in _edges:
        if prod(min(extent, 2 * edge) for extent in t.shape) <= _threshold:
            return edge
    return 0


def _read(t: Tensor, edge: int) -> list[Any]:
    """Give the shown elements as Python numbers, in row-major order."""
    if t.size <= _threshold:
        return _flat(t.tolist(), t.ndim)
    if t.dtype.bits * t.dtype.lanes < 8:
        return [_packed_element(t, offset) for offset in _offsets(t, edge)]
    return list(_edge_elements(t, edge))


def _flat(values: Any, ndim: int) -> list[Any]:
    if ndim == 0:
        return [values]
    for _ in range(ndim - 1):
        values = [value for row in values for value in row]
    return list(values)


def _edge_elements(t: Tensor, edge: int) -> Iterator[Any]:
    extent = t.shape[0]
    if t.ndim > 1:
        for index in _shown(extent, edge):
            yield from _edge_elements(t[index], edge)
    elif extent > 2 * edge:
        yield from t[:edge].tolist()
        yield from t[extent - edge :].tolist()
    else:
        yield from t.tolist()


def _shown(extent: int, edge: int) -> list[int]:
    if extent <= 2 * edge:
        return list(range(extent))
    return [*range(edge), *range(extent - edge, extent)]


def _offsets(t: Tensor, edge: int) -> list[int]:
    """Give the offsets of the shown elements from the first, in elements."""
    offsets = [0]
    for extent, stride in zip(t.shape, t.stride, strict=True):
        steps = [index * stride for index in _shown(extent, edge)]
        offsets = [offset + step for offset in offsets for step in steps]
    return offsets


def _packed_element(t: Tensor, offset: int) -> Any:
    """Read one element that may begin within a byte, where no view can begin."""
    surplus = offset % (8 // gcd(8, t.dtype.bits))
    return _core.restride(t, (surplus + 1,), (1,), offset - surplus).tolist()[surplus]


def _brackets(words: Iterator[str], shape: tuple[int, ...], edge: int, indent: int) -> str:
    """Set words in nested brackets, `indent` columns from the left."""
    if not shape:
        return next(words)
    extent, *inner = shape
    indent += 1
    count = len(_shown(extent, edge))
    parts = [_brackets(words, tuple(inner), edge, indent) for _ in range(count)]
    if count < extent:
        parts.insert(edge, "...")
    lines = (",\n" + (len(inner) - 1) * "\n" + indent * " ").join(parts)
    return f"[{lines if inner else _wrapped(parts, indent)}]"


def _wrapped(parts: list[str], indent: int) -> str:
    lines = [parts[0]]
    for part in parts[1:]:
        if indent + len(lines[-1]) + len(", ") + len(part) < _line_width:
            lines[-1] += f", {part}"
        else:
            lines.append(part)
    return (",\n" + indent * " ").join(lines)


def _words(values: list[Any], dtype: DType) -> list[str]:
    """Write every value, all equally wide."""
    if dtype.kind == "pair":
        return [f"0x{value:02x}" for value in values]
    if dtype.kind == "real":
        return _real_words(values, _significand_bits.get(dtype.name))
    if dtype.kind == "complex":
        return _complex_words(values, _significand_bits.get(dtype.name))
    return _aligned([str(value) for value in values])


def _aligned(words: list[str]) -> list[str]:
    width = max(map(len, words))
    return [word.rjust(width) for word in words]


# Types whose values are shown by the shortest digits that tell them from their neighbours, as in
# numpy. Coarser types are shown by the value they really have (0.3 in bfloat16 is 0.3008), as in
# torch. float64's shortest digits are Python's own.
_significand_bits = {"float16": 11, "complex32": 11, "float32": 24, "complex64": 24}


def _shortest(value: float, bits: int | None) -> float:
    """Give the float with the fewest digits among those that `bits` do not tell from `value`."""
    if bits is None:
        return value
    fraction, exponent = frexp(value)
    to_neighbour = ldexp(1.0, exponent - bits - (2 if abs(fraction) == 0.5 else 1))
    first = int((bits - 1) * 0.30103)  # so many digits always survive
    for digits in range(first, first + 3):
        short = float(f"{value:.{digits}g}")
        if abs(short - value) < to_neighbour:
            return short
    return value


def _complex_words(values: list[complex], bits: int | None) -> list[str]:
    real = _real_words([value.real for value in values], bits)
    imaginary = _real_words([value.imag for value in values], bits, plus="+")
    words = []
    for x, y in zip(real, imaginary, strict=True):
        number = y.rstrip()
        words.append(f"{x}{number}j{' ' * (len(y) - len(number))}")
    return words


def _real_words(values: list[float], bits: int | None, plus: str = "") -> list[str]:
    """Write floats in one notation: plain, or scientific where plain would lose digits."""
    finite = [value for value in values if isfinite(value)]
    sizes = [abs(value) for value in finite if value]
    whole = all(value.is_integer() for value in finite)
    largest, smallest = max(sizes, default=1.0), min(sizes, default=1.0)
    scientific = largest >= 1e8 or (
        not whole and (smallest < 10.0**-_decimals or largest > 1000 * smallest)
    )
    write = _scientific_writer(finite, bits) if scientific else _plain_writer(finite, bits)
    words = []
    for value in values:
        word = write(value) if isfinite(value) else str(value)
        words.append(word if word.lstrip()[0] == "-" else plus + word)
    return _aligned(words)


def _plain_writer(finite: list[float], bits: int | None) -> Callable[[float], str]:
    def write(value: float) -> str:
        if value.is_integer():
            return f"{value:.0f}."
        return f"{_shortest(value, bits):.{_decimals}f}".rstrip("0")

    places = max((_places(write(value)) for value in finite), default=0)

    def write_aligned(value: float) -> str:
        word = write(value)
        return word + " " * (places - _places(word))

    return write_aligned


def _places(word: str) -> int:
    return len(word) - word.index(".") - 1


def _scientific_writer(finite: list[float], bits: int | None) -> Callable[[float], str]:
    def places(value: float) -> int:
        mantissa, _, _ = f"{_shortest(value, bits):.{_decimals}e}".partition("e")
        return _places(mantissa.rstrip("0"))

    most = max(map(places, finite))

    def write(value: float) -> str:
        mantissa, _, exponent = f"{_shortest(value, bits):.{most}e}".partition("e")
        return f"{mantissa}{'' if most else '.'}e{exponent}"

    return write
