"""docs/when-it-copies.md says what the code does."""

from __future__ import annotations

import re
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import candle
from candle import plan
from candle.ledger import listening

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "when-it-copies.md"


def tables() -> list[list[list[str]]]:
    """Every table of the page, as rows of cells; the line below the head is left out."""
    found: list[list[list[str]]] = [[]]
    for line in PAGE.read_text().splitlines():
        if line.startswith("|"):
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            if not set(cells[0]) <= {"-", ":"}:
                found[-1].append(cells)
        elif found[-1]:
            found.append([])
    return [table for table in found if table]


def table(*head: str) -> list[list[str]]:
    """The rows of the tables with that head."""
    return [row for found in tables() if tuple(found[0]) == head for row in found[1:]]


# Reasons.

REASONS = {code.strip("`"): remedy for code, _, remedy in table("code", "fact", "remedy")}


def test_every_reason_is_in_the_page() -> None:
    assert REASONS == plan.REMEDIES
    assert list(REASONS) == list(plan.REMEDIES)


def test_page_tells_which_reasons_a_copy_puts_right() -> None:
    curable, fatal = (
        {row[0].strip("`") for row in found[1:]} for found in tables() if found[0][0] == "code"
    )
    assert fatal == plan.FATAL
    assert not curable & fatal


def test_every_native_reason_and_route_is_in_the_page() -> None:
    source = (ROOT / "src/candle/_native/decide.h").read_text()
    reasons, routes = (
        re.findall(r'"(\w+)"', re.search(rf"{name}_names\[\] = {{(.*?)}};", source, re.DOTALL)[1])  # type: ignore[index]
        for name in ("reason", "route")
    )
    assert set(reasons) <= set(REASONS)
    assert len(reasons) > 10
    listed = {
        name
        for row in table("producer", "route", "comes in")
        for name in re.findall(r"`(\w+)`", row[1])
    }
    assert listed == set(routes)


# Routes.


def speaking(protocol: str) -> object:
    """Something over an array's memory that has one protocol and no other."""
    array = np.zeros(2)
    return type("Producer", (), {protocol: getattr(array, protocol), "keeps": array})()


class DeviceVector:
    """No elements: so that it needs no driver, nor anybody to copy them."""

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {"shape": (0,), "typestr": "<f4", "data": (0, False), "version": 3}


ROUTES: dict[str, tuple[str | None, Callable[[Any], Any]]] = {
    "`candle.Tensor`": (None, lambda _: candle.zeros((2,))),
    "`torch.Tensor`, `Parameter`": ("torch", lambda torch: torch.zeros(2)),
    "`numpy.ndarray`, its subclasses": (None, lambda _: np.zeros(2).view(np.recarray)),
    "pyarrow, polars, and whatever else has `__arrow_c_array__`, `__arrow_c_stream__` or their "
    "device variants": ("pyarrow", lambda pa: pa.chunked_array([[1, 2]])),
    "jax, tensorflow, mlx by DLPack": ("jax", lambda jax: jax.numpy.zeros(2)),
    "anything else with `__dlpack__` (tvm-ffi, cupy), a raw capsule": (
        None,
        lambda _: np.zeros(2).__dlpack__(),
    ),
    "`__cuda_array_interface__` (numba)": (None, lambda _: DeviceVector()),
    "`__array_struct__`": (None, lambda _: speaking("__array_struct__")),
    "`__array_interface__`": (None, lambda _: speaking("__array_interface__")),
    "the buffer protocol (`bytes`, `array.array`, `mmap`)": (None, lambda _: b"ab"),
}


@pytest.mark.parametrize("producer", ROUTES)
def test_route(producer: str) -> None:
    framework, make = ROUTES[producer]
    x = make(required(framework))
    copies: list[candle.Plan] = []
    with listening(copies.append):
        try:
            candle.asarray(x, copy=True)
        except BufferError:  # told first; then there is nobody to copy on a device
            assert isinstance(x, DeviceVector)
    said = {row[0]: row[1] for row in table("producer", "route", "comes in")}[producer]
    assert f"`{copies[0].route}`" in said


# Pairs: every producer with every consumer.

CONSUMERS: dict[str, tuple[str | None, Callable[[Any, Any], Any]]] = {
    "t.numpy()": (None, lambda t, _: t.numpy()),
    "t.torch()": ("torch", lambda t, _: t.torch()),
    "t.torch(copy=False)": ("torch", lambda t, _: t.torch(copy=False)),
    "t.jax()": ("jax", lambda t, _: t.jax()),
    "t.memoryview()": (None, lambda t, _: np.asarray(t.memoryview())),
    "np.asarray(t)": (None, lambda t, _: np.asarray(t)),
    "np.from_dlpack(t)": (None, lambda t, _: np.from_dlpack(t)),
    "torch.from_dlpack(t)": ("torch", lambda t, torch: torch.from_dlpack(t)),
    "torch.asarray(t)": ("torch", lambda t, torch: torch.asarray(t)),
    "tvm_ffi.from_dlpack(t)": ("tvm_ffi", lambda t, tvm_ffi: tvm_ffi.from_dlpack(t)),
    "candle.from_dlpack(t.__dlpack__())": (None, lambda t, _: candle.from_dlpack(t.__dlpack__())),
    "jax.dlpack.from_dlpack(t)": ("jax", lambda t, jax: jax.dlpack.from_dlpack(t)),
    "jnp.asarray(t)": ("jax", lambda t, jax: jax.numpy.asarray(t)),
}


def own(count: int = 256) -> np.ndarray[Any, Any]:
    """Memory of candle's as an array: at a multiple of 256 bytes."""
    return candle.zeros((count,), dtype="float32").numpy()


def frozen() -> np.ndarray[Any, Any]:
    array = own().reshape(16, 16)
    array.flags.writeable = False
    return array


PRODUCERS: dict[str, tuple[str, str | None, Callable[[Any], Any]]] = {
    "torch": ("plain", "torch", lambda torch: torch.zeros(16, 16)),
    "torch transposed": ("plain", "torch", lambda torch: torch.zeros(16, 16).t()),
    "torch stepped": ("stepped", "torch", lambda torch: torch.zeros(16, 16)[:, ::2]),
    "torch slice": ("off 64", "torch", lambda torch: torch.zeros(257)[1:]),
    "tvm-ffi": ("plain", "tvm_ffi", lambda tvm_ffi: tvm_ffi.from_dlpack(own())),
    "candle": ("plain", None, lambda _: candle.zeros((16, 16))),
    "numpy": ("plain", None, lambda _: own().reshape(16, 16)),
    "numpy frozen": ("read-only", None, lambda _: frozen()),
    "numpy reversed": ("reversed", None, lambda _: own().reshape(16, 16)[::-1]),
    "numpy stepped": ("stepped", None, lambda _: own().reshape(16, 16)[:, ::2]),
    "numpy slice": ("off 64", None, lambda _: own(257)[1:]),
    "jax": ("read-only", "jax", lambda jax: jax.numpy.zeros((16, 16))),
    "buffer": ("plain", None, lambda _: memoryview(own())),
}

PAIRS = table("consumer", "plain", "read-only", "reversed", "stepped", "off 64")


def required(name: str | None) -> Any:
    return None if name is None else pytest.importorskip(name)


def address(x: Any) -> int:
    if isinstance(x, np.ndarray):
        return x.ctypes.data
    if hasattr(x, "unsafe_buffer_pointer"):
        return int(x.unsafe_buffer_pointer())
    return int(x.data_ptr()) if hasattr(x, "data_ptr") else candle.from_dlpack(x).data_ptr()


def outcome(move: Callable[[], Any], t: candle.Tensor) -> str:
    """The words of the page for what a move did."""
    copies: list[candle.Plan] = []
    try:
        with listening(copies.append), warnings.catch_warnings():
            warnings.simplefilter("ignore", candle.ReadOnlyCopyWarning)
            result = move()
    except candle.CopyError as error:
        return f"refuses: `{error.plan.reasons[0].code}`"
    if copies:
        return f"copies: `{copies[0].reasons[0].code}`"
    return "shares" if address(result) == address(t) else "copies in jax"


def test_page_has_every_consumer() -> None:
    assert [row[0].strip("`") for row in PAIRS] == list(CONSUMERS)


@pytest.mark.parametrize("producer", PRODUCERS)
@pytest.mark.parametrize("row", PAIRS, ids=lambda row: row[0].strip("`"))
def test_pair(row: list[str], producer: str) -> None:
    memory, framework, make = PRODUCERS[producer]
    consumer, move = CONSUMERS[row[0].strip("`")]
    consumer_module = required(consumer)
    said = row[["", "plain", "read-only", "reversed", "stepped", "off 64"].index(memory)]
    if row[0].startswith("`j") and version("jax").split(".")[:2] != ["0", "10"]:
        pytest.skip("the page tells of jax 0.10 here")
    x = make(required(framework))
    t = candle.asarray(x, copy=False)
    if said == "fails in jax":
        with pytest.raises(Exception, match="compact"):
            move(t, consumer_module)
        return
    assert outcome(lambda: move(t, consumer_module), t) == said
