"""Reference counts: what candle takes it gives back, on every path, failed ones included."""

from __future__ import annotations

import gc
import sys
import sysconfig
import weakref
from typing import TYPE_CHECKING, Any

import layouts
import pytest
from interfaces import Interface, Struct

import candle
from candle.testing import Producer, exchange_api, live

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NUMBERS = bytes(64)


@pytest.fixture(autouse=True)
def _no_collector() -> Iterator[None]:
    """Everything goes by reference counts alone."""
    gc.disable()
    yield
    gc.enable()


OWNERS: dict[str, Callable[[], Any]] = {
    "bytes": lambda: bytes(bytearray(64)),
    "bytearray": lambda: bytearray(64),
    "memoryview": lambda: memoryview(bytearray(64)),
    "array interface": lambda: Interface(NUMBERS, shape=(4,), typestr="<f4"),
    "array struct": lambda: Struct(NUMBERS, shape=(4,), strides=(4,)),
}


@pytest.mark.parametrize("kind", OWNERS)
def test_owner_is_held_while_its_memory_is(kind: str) -> None:
    owner = OWNERS[kind]()
    before = sys.getrefcount(owner)
    t = candle.asarray(owner, copy=False)
    held = sys.getrefcount(owner)
    assert held >= before
    view = t[1:]
    assert sys.getrefcount(owner) == held, "a view holds the storage, not the owner"
    del t
    assert sys.getrefcount(owner) == held
    del view
    assert sys.getrefcount(owner) == before


@pytest.mark.parametrize("kind", OWNERS)
def test_copy_holds_nothing(kind: str) -> None:
    owner = OWNERS[kind]()
    before = sys.getrefcount(owner)
    t = candle.asarray(owner, copy=True)
    assert sys.getrefcount(owner) == before
    assert t.size > 0


@pytest.mark.parametrize("writeable", [False, True])
def test_numpy_arrays(framework: Any, writeable: bool) -> None:
    np = framework("numpy")
    array = np.arange(12.0).reshape(3, 4)
    array.flags.writeable = writeable
    before = sys.getrefcount(array)
    t = candle.from_dlpack(array)
    assert sys.getrefcount(array) == before + 1
    again = candle.from_dlpack(array)
    assert sys.getrefcount(array) == before + 2
    del t, again
    assert sys.getrefcount(array) == before
    gone = weakref.ref(array)
    t = candle.from_dlpack(array)
    del array
    assert gone() is not None
    del t
    assert gone() is None


def test_refused_numpy_arrays(framework: Any) -> None:
    np = framework("numpy")
    array = np.array([1, "a"], dtype=object)
    before = sys.getrefcount(array)
    for _ in range(10):
        with pytest.raises(BufferError):
            candle.from_dlpack(array)
    assert sys.getrefcount(array) == before


def test_torch_tensors(framework: Any) -> None:
    torch = framework("torch")
    x = torch.arange(12.0)
    before = sys.getrefcount(x)
    tensors = [candle.from_dlpack(x) for _ in range(3)]
    del tensors
    assert sys.getrefcount(x) == before
    gone = weakref.ref(x)
    t = candle.from_dlpack(x)
    del x
    assert t.tolist() == list(range(12))
    del t
    assert gone() is None


def test_producers_are_not_held() -> None:
    """The managed struct owns the memory; the object that made it need not stay."""
    producer = Producer(shape=(4,))
    before = sys.getrefcount(producer)
    t = candle.from_dlpack(producer)
    assert sys.getrefcount(producer) == before
    del t
    assert sys.getrefcount(producer) == before


@pytest.mark.parametrize(
    "arguments", [{"dtype": (99, 32)}, {"raises": BufferError("no")}, {"returns": "text"}]
)
def test_refused_producers(arguments: dict[str, Any]) -> None:
    producer = Producer(shape=(4,), **arguments)
    before = sys.getrefcount(producer)
    for _ in range(10):
        with pytest.raises(BufferError):
            candle.from_dlpack(producer)
    assert sys.getrefcount(producer) == before


EXPORTS: dict[str, Callable[[candle.Tensor], Any]] = {
    "legacy capsule": lambda t: t.__dlpack__(),
    "versioned capsule": lambda t: t.__dlpack__(max_version=(1, 3)),
    "copied capsule": lambda t: t.__dlpack__(copy=True),
    "memoryview": lambda t: t.memoryview(),
    "array interface": lambda t: t.__array_interface__,
    "numpy": lambda t: t.numpy(),
    "torch": lambda t: t.torch(),
    "view": lambda t: t[1:],
    "transpose": lambda t: t.T,
    "copy": lambda t: t.copy(),
    "list": lambda t: t.tolist(),
    "shape": lambda t: (t.shape, t.stride, t.dtype, t.device, t.flags),
    "text": repr,
}


@pytest.mark.parametrize("kind", EXPORTS)
def test_exports_give_back_the_tensor(kind: str) -> None:
    if kind in ("numpy", "torch"):
        pytest.importorskip(kind)
    t = layouts.counting(3, 4)
    EXPORTS[kind](t)
    references, counts = sys.getrefcount(t), live()
    for _ in range(10):
        made = EXPORTS[kind](t)
        del made
    assert sys.getrefcount(t) == references
    assert live() == counts


@pytest.mark.parametrize("kind", [kind for kind in EXPORTS if kind not in ("numpy", "torch")])
def test_exports_of_a_temporary(kind: str) -> None:
    counts = live()
    made = EXPORTS[kind](layouts.counting(3, 4))
    del made
    assert live() == counts


def test_shared_objects_keep_their_counts() -> None:
    """Singletons that are returned or passed over and over."""
    t = layouts.counting(3, 4)
    api = exchange_api(candle.Tensor)[0]
    watched: list[Any] = [None, True, False, t.dtype, t.device, (1, 0), "copy"]
    if not sysconfig.get_config_var("Py_GIL_DISABLED"):  # each thread counts types for itself there
        watched.append(candle.Tensor)

    def turn() -> None:
        candle.from_dlpack(t, copy=None, dtype=None)
        t.__dlpack__(stream=None, copy=None, dl_device=None, max_version=None)
        _ = t.dtype, t.device, t.readonly, t.T, t[None], t[...], t.is_contiguous()
        api.from_py_object(t).release()
        candle.asarray([True, False, True]).tolist()
        with pytest.raises(TypeError):
            t.__dlpack__(colour=None)  # type: ignore[call-arg]
        with pytest.raises(BufferError):
            t.__dlpack__(dl_device=(2, 0))

    for _ in range(10):
        turn()
    before = [sys.getrefcount(x) for x in watched]
    for _ in range(1000):
        turn()
    after = [sys.getrefcount(x) for x in watched]
    drift = [b - a for a, b in zip(before, after, strict=True)]
    assert all(abs(d) < 500 for d in drift), drift


def test_tensors_are_not_tracked_by_the_collector() -> None:
    t = layouts.counting(3, 4)
    assert not gc.is_tracked(t)
    assert not gc.is_tracked(t[1])
    assert not gc.is_tracked(candle.from_dlpack(Producer(shape=(4,))))


def test_more_blocks_at_once_than_are_kept_for_the_next() -> None:
    before = live()
    for _ in range(2):
        many = [candle.full((1,), n) for n in range(5000)]
        assert [t.item() for t in many] == list(range(5000))
        del many
        assert live() == before


def test_weak_references() -> None:
    t = layouts.counting(3)
    called = []
    reference = weakref.ref(t, called.append)
    assert reference() is t
    del t
    assert reference() is None
    assert called == [reference]
