"""Copies on CUDA devices, by the stand-in for cupy and by torch over the fake driver."""

from __future__ import annotations

import gc
import pickle
import sys
from typing import TYPE_CHECKING, Any

import arrow_structs as arrow
import numpy as np
import pytest
from device_makers import Copies, Cupy, Torch

import candle
from candle.testing import info, live

if TYPE_CHECKING:
    from collections.abc import Callable

    from fake_driver import Driver

pytestmark = pytest.mark.isolated(together="file")

CUDA = (2, 0)


def seen(driver: Driver, t: candle.Tensor, stream: int, dtype: str = "f") -> list[Any]:
    """What a consumer on a stream sees of a row-major tensor on a device."""
    taken = t.__dlpack__(stream=stream, max_version=(1, 3))
    fields = info(taken)
    assert fields.device[0] == 2
    found = driver.read(fields.data, stream, t.size, dtype=dtype, device=fields.device[1])
    del taken
    return found


VALUES = np.arange(24, dtype="float32").reshape(4, 6)


def late(maker: Any, driver: Driver, stream: int, values: Any = VALUES) -> candle.Tensor:
    """Taken by candle on a stream on which its values are still to be written."""
    with maker.on(stream):
        return candle.from_dlpack(maker.array(values))


@pytest.mark.parametrize("copy", [None, True])
def test_to_the_host(maker: Any, driver: Driver, copy: bool | None) -> None:
    a = driver.stream()
    t = late(maker, driver, a)
    with Copies() as copies:
        host = t.to("cpu", copy=copy)
    assert host.device == "cpu"
    assert host.tolist() == VALUES.tolist()
    assert copies.reasons == [("device",) if copy is None else ("requested", "device")]
    assert copies[0].nbytes == VALUES.nbytes
    with pytest.raises(candle.CopyError, match="cupy or torch"):
        t.to("cpu", copy=False)


@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_pickled_by_way_of_the_host(maker: Any, driver: Driver, protocol: int) -> None:
    """It goes back to its device, with its last write and its layout."""
    t = late(maker, driver, driver.stream())
    for sent in (t, t.T):
        with Copies() as copies:
            stream = pickle.dumps(sent, protocol)
        assert copies.reasons == [("device",)]
        back = pickle.loads(stream)
        assert (back.device, back.dtype, back.shape) == (sent.device, sent.dtype, sent.shape)
        assert back.data_ptr() != sent.data_ptr()
        assert back.to("cpu").tolist() == sent.to("cpu").tolist()
        assert not back.readonly


def test_numpy(maker: Any, driver: Driver) -> None:
    t = late(maker, driver, driver.stream())
    with Copies() as copies:
        array = t.numpy()
        also = np.asarray(t)
        assert not hasattr(t, "__array_interface__")
    assert array.tolist() == also.tolist() == VALUES.tolist()
    assert array.flags.writeable
    assert copies.reasons == [("device",)] * 2
    with pytest.raises(candle.CopyError):
        t.numpy(copy=False)
    with pytest.raises((BufferError, TypeError)):
        t.memoryview()


@pytest.mark.parametrize("view", range(6))
def test_views_are_copied_right(maker: Any, driver: Driver, view: int) -> None:
    seen_as: Callable[[Any], Any] = (
        lambda x: x.T,
        lambda x: x[1:3, ::2],
        lambda x: x[::-1],
        lambda x: x[::-2, ::-1],
        lambda x: x[:0],
        lambda x: x[1:2, 3:4],
    )[view]
    a, b = driver.stream(), driver.stream()
    wanted = np.ascontiguousarray(seen_as(VALUES))
    t = seen_as(late(maker, driver, a))
    with Copies() as copies:
        dense = t.contiguous()
    assert dense.is_contiguous()
    assert dense.device == "cuda:0"
    assert len(copies) == (not t.is_contiguous())
    assert dense.numpy().tolist() == wanted.tolist()
    assert t.numpy().tolist() == wanted.tolist()
    assert t.to("float64").numpy().tolist() == wanted.astype("float64").tolist()
    assert t.tolist() == wanted.tolist()
    if dense.size:
        assert seen(driver, dense, b) == wanted.ravel().tolist()


def test_backward_memory_goes_out_as_a_copy(maker: Any, driver: Driver) -> None:
    t = late(maker, driver, driver.stream())[::-1]
    b = driver.stream()
    with Copies() as copies:
        capsule = t.__dlpack__(stream=b, max_version=(1, 3))
    assert copies.reasons == [("negative_stride",)]
    fields = info(capsule)
    assert fields.flags & 2
    assert driver.read(fields.data, b, 24) == VALUES[::-1].ravel().tolist()
    with pytest.raises(candle.CopyError):
        t.__dlpack__(stream=b, copy=False)


def test_casts(maker: Any, driver: Driver) -> None:
    t = late(maker, driver, driver.stream())
    for name in ("float64", "int32", "int8", "bool", "float16", "complex64"):
        with Copies() as copies:
            other = t.to(name)
        assert (other.device, other.dtype) == ("cuda:0", name)
        assert copies.reasons == [("dtype",)]
        assert copies[0].nbytes == other.nbytes
        assert other.numpy().tolist() == VALUES.astype(name).tolist()
    assert t.to("float32") is t


def test_dtypes_that_are_moved_and_not_cast(maker: Any, driver: Driver) -> None:
    """Whatever the provider knows of them."""
    unknown_here = ("float8_e8m0fnu", "complex32", "uint64")  # to torch's stand-in kernels
    for name in ("bfloat16", "float8_e4m3fn", "complex128", *unknown_here):
        if name in unknown_here and maker.name == "torch":
            continue
        raw = candle.asarray(np.arange(96, dtype="uint8"))
        host = raw.view(name)
        t = host.to("cuda")
        assert (t.device, t.dtype, t.shape) == ("cuda:0", name, host.shape)
        assert t.to("cpu").view("uint8").tolist() == raw.tolist()
        part, wanted = t[1::2], host[1::2].copy()
        assert part.contiguous().to("cpu").view("uint8").tolist() == wanted.view("uint8").tolist()
        t[0:2] = host[2:4]
        assert t[0:2].to("cpu").view("uint8").tolist() == host[2:4].view("uint8").tolist()


def test_cupy_names_what_it_does_not_cast(maker: Any, driver: Driver) -> None:
    if maker.name != "cupy":
        pytest.skip("torch casts them")
    t = candle.zeros(4, device="cuda")
    for name in ("bfloat16", "float8_e4m3fn"):
        with pytest.raises(BufferError, match=rf"cupy casts no {name} .*torch"):
            t.to(name)
    assert t.to("cpu").to("bfloat16").tolist() == [0.0] * 4


@pytest.mark.parametrize("name", ["int4", "uint4", "float4_e2m1fn", "float6_e2m3fn"])
def test_elements_below_a_byte(maker: Any, driver: Driver, name: str) -> None:
    host = candle.tensor([1, 0, 2, 3, 1], dtype=name)
    t = host.to("cuda")
    assert t.nbytes == host.nbytes
    assert t.tolist() == t.to("cpu").tolist() == host.tolist()
    assert t.copy().tolist() == host.tolist()
    if t.nbytes < t.size:
        with pytest.raises(BufferError, match="several to a byte"):
            t[::2].contiguous()
    if name in ("int4", "uint4", "float4_e2m1fn"):
        assert t.numpy().astype("float32").tolist() == host.numpy().astype("float32").tolist()


def test_onto_the_device(maker: Any, driver: Driver) -> None:
    """Without a wait, and whatever becomes of the memory on the host."""
    host = VALUES.copy()
    before = driver.counters().host_syncs
    with Copies() as copies:
        moved = [
            candle.asarray(host).to("cuda"),
            candle.asarray(host, device="cuda"),
            candle.from_dlpack(host, device="cuda:0"),
            candle.from_dlpack(host, device="cuda", copy=True),
        ]
        strided = candle.asarray(host[::-1, ::2]).to("cuda")
        cast = candle.from_dlpack(host, device="cuda", dtype="int16")
    assert driver.counters().host_syncs == before
    host[...] = -1
    for t in moved:
        assert seen(driver, t, driver.stream()) == VALUES.ravel().tolist()
    assert strided.tolist() == VALUES[::-1, ::2].tolist()
    assert cast.tolist() == VALUES.astype("int16").tolist()
    assert copies.reasons == [
        *[("device",)] * 3,
        ("requested", "device"),
        ("device",),
        ("dtype", "device"),
    ]
    assert copies[4].nbytes == VALUES.nbytes // 2


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,), (1, 1)])
def test_small_shapes(maker: Any, driver: Driver, shape: tuple[int, ...]) -> None:
    host = np.full(shape, 3.0, "float32")
    t = candle.asarray(host).to("cuda")
    assert (t.shape, t.device) == (shape, "cuda:0")
    assert t.tolist() == t.copy().tolist() == t.to("float64").tolist() == host.tolist()
    assert t.numpy().shape == shape
    t[...] = 4
    assert t.tolist() == np.full(shape, 4.0).tolist()


def test_creation(maker: Any, driver: Driver) -> None:
    made = {
        "zeros": candle.zeros((2, 3), device="cuda"),
        "ones": candle.ones(3, dtype="int32", device="cuda:1"),
        "full": candle.full((2,), 2.5, device=(2, 0)),
        "arange": candle.arange(5, device="cuda"),
        "linspace": candle.linspace(0, 1, 3, device="cuda"),
        "eye": candle.eye(2, device="cuda"),
        "tensor": candle.tensor([[1, 2], [3, 4]], device="cuda:1"),
        "number": candle.tensor(7, device="cuda"),
        "bfloat16": candle.full((3,), 1.5, dtype="bfloat16", device="cuda"),
    }
    assert {name: t.tolist() for name, t in made.items()} == {
        "zeros": [[0.0] * 3] * 2,
        "ones": [1] * 3,
        "full": [2.5, 2.5],
        "arange": [0, 1, 2, 3, 4],
        "linspace": [0.0, 0.5, 1.0],
        "eye": [[1.0, 0.0], [0.0, 1.0]],
        "tensor": [[1, 2], [3, 4]],
        "number": 7,
        "bfloat16": [1.5] * 3,
    }
    on = {name: str(t.device) for name, t in made.items()}
    assert set(on.values()) == {"cuda:0", "cuda:1"}
    assert on["ones"] == on["tensor"] == "cuda:1"
    like = candle.zeros_like(made["ones"], device="cuda:1")
    assert (like.dtype, like.device, like.tolist()) == ("int32", "cuda:1", [0, 0, 0])
    assert candle.empty((2, 0), device="cuda").shape == (2, 0)
    drawn = candle.rand(4, seed=3, device="cuda"), candle.rand(4, seed=3)
    assert drawn[0].device == "cuda:0"
    assert drawn[0].tolist() == drawn[1].tolist()


def test_joining(maker: Any, driver: Driver) -> None:
    a, b = late(maker, driver, driver.stream()), late(maker, driver, driver.stream(), VALUES + 100)
    joined, stacked = candle.cat([a, b]), candle.stack([a, b])
    assert joined.device == stacked.device == "cuda:0"
    assert joined.tolist() == np.concatenate([VALUES, VALUES + 100]).tolist()
    assert stacked.tolist() == np.stack([VALUES, VALUES + 100]).tolist()
    listed = candle.tensor([a, b])
    assert listed.device == "cuda:0"
    assert listed.tolist() == stacked.tolist()
    assert candle.cat([candle.asarray(VALUES), b]).device == "cpu"


def test_writing(maker: Any, driver: Driver) -> None:
    a = driver.stream()
    model = VALUES.copy()
    t = late(maker, driver, a)
    other = np.arange(100, 112, dtype="float32").reshape(4, 3)

    def write(
        name: str, move: Callable[[Any], object], model_move: Callable[[Any], object]
    ) -> None:
        move(t), model_move(model)
        assert t.tolist() == model.tolist(), name

    device = candle.asarray(other).to("cuda")
    as_ints = candle.asarray(other.astype("int64")).to("cuda")

    def both(name: str, move: Callable[[Any, Any], object], there: Any) -> None:
        write(name, lambda x: move(x, there), lambda x: move(x, other))

    def put(key: Any) -> Callable[[Any, Any], object]:
        return lambda x, y: x.__setitem__(key, y)

    both("from the host", put((slice(None), slice(0, 3))), other)
    both("from the device", put((slice(None), slice(None, None, 2))), device)
    both("backward", put((slice(None, None, -1), slice(1, None, 2))), device)
    both("cast", put((slice(None), slice(3, None))), as_ints)
    both("cast backward", put((slice(None, None, -1), slice(0, 3))), as_ints)
    both("backward from backward", lambda x, y: put((slice(None), slice(0, 3)))(x, y[::-1]), device)
    both("broadcast", lambda x, y: put((slice(None), slice(0, 3)))(x, y[:1]), device)
    both(
        "broadcast backward",
        lambda x, y: put((slice(None, None, -1), slice(0, 3)))(x, y[2]),
        device,
    )
    write("number", lambda x: put(0)(x, 9), lambda x: put(0)(x, 9))
    write("fill_", lambda x: x[1].fill_(-3), lambda x: x[1].fill(-3))
    model[:, 1:] = model[:, :-1].copy()
    t[:, 1:] = t[:, :-1]
    assert t.tolist() == model.tolist(), "overlapping"
    t.copy_(candle.asarray(VALUES))
    assert t.tolist() == VALUES.tolist()
    back = candle.zeros((4, 6))
    with Copies() as copies:
        back.copy_(t)
        back[:, ::2] = t[:, 3:]
        t[0] = back[1]
        t[0] = t[1]
    assert copies.reasons == [("requested", "device")] * 3 + [("requested",)]
    assert back[:, ::2].tolist() == VALUES[:, 3:].tolist()
    with pytest.raises(ValueError, match="broadcast"):
        t[...] = candle.zeros(5)


def test_values_and_words(maker: Any, driver: Driver) -> None:
    t = late(maker, driver, driver.stream())
    assert t[1, 2].item() == 8.0
    assert float(t[0, 1]) == 1.0
    assert t.values() == VALUES.tolist()
    if maker.name == "cupy":  # the stand-in for torch has no arithmetic
        assert (t == VALUES).tolist() == (t != VALUES + 1).tolist() == [[True] * 6] * 4
        assert (t == t[::-1]).tolist() == (VALUES[::-1] == VALUES).tolist()
    before = driver.counters().host_syncs
    text = repr(t)
    assert "cuda:0" in text
    assert "4" in text
    assert driver.counters().host_syncs == before, "printing does not wait for a device"


def test_a_copy_is_queued_on_the_consumers_stream(maker: Any, driver: Driver) -> None:
    a, b = driver.stream(), driver.stream()
    t = late(maker, driver, a)
    driver.trace()
    with Copies() as copies:
        capsule = t.__dlpack__(stream=b, max_version=(1, 3), copy=True)
    names = [called.name for called in driver.trace()]
    assert not any("Synchronize" in name for name in names)
    assert names.count("cuStreamWaitEvent") == 1
    fields = info(capsule)
    assert fields.flags & 2
    assert fields.data != t.data_ptr()
    assert driver.read(fields.data, b, 24) == VALUES.ravel().tolist()
    assert copies.reasons == [("requested",)]
    for keywords in ({"copy": True}, {"dl_device": (2, 1)}):
        with pytest.raises(ValueError, match="stream"):
            t.__dlpack__(stream=-2, **keywords)


@pytest.mark.parametrize("stream", ["legacy", "own"])
def test_between_devices(maker: Any, driver: Driver, stream: str) -> None:
    a = driver.stream()
    b = driver.stream(1) if stream == "own" else 1
    t = late(maker, driver, a)
    with Copies() as copies:
        capsule = t.__dlpack__(stream=b, max_version=(1, 3), dl_device=(2, 1))
        moved = t[::-1].to("cuda:1")
        cast = t.to(dtype="int32", device="cuda:1")
    assert copies.reasons[0] == ("device",)
    fields = info(capsule)
    assert fields.device == (2, 1)
    assert driver.read(fields.data, b, 24, device=1) == VALUES.ravel().tolist()
    assert seen(driver, moved, b) == VALUES[::-1].ravel().tolist()
    assert cast.tolist() == VALUES.astype("int32").tolist()
    there = candle.zeros((4, 6), device="cuda:1")
    there[...] = t
    there[:, ::2] = t[:, 3:]
    assert there[:, 1].tolist() == VALUES[:, 1].tolist()
    assert there[:, ::2].tolist() == VALUES[:, 3:].tolist()


def test_between_devices_memory_is_kept_until_it_is_read(maker: Any, driver: Driver) -> None:
    """The copy on the way lies on the first device, whose pool gives it out again at once."""
    a = driver.stream()
    t = late(maker, driver, a)
    moved = t[::-1].to("cuda:1")
    with maker.on(a):
        other = [candle.from_dlpack(maker.array(VALUES - 1)) for _ in range(4)]
    assert moved.tolist() == VALUES[::-1].tolist()
    del other


def test_the_host_asks_by_dl_device(maker: Any, driver: Driver) -> None:
    t = late(maker, driver, driver.stream())
    with Copies() as copies:
        fields = info(capsule := t.__dlpack__(dl_device=(1, 0), max_version=(1, 3)))
    assert fields.device == (1, 0)
    assert fields.flags & 2
    assert np.from_dlpack(candle.from_dlpack(capsule)).tolist() == VALUES.tolist()
    assert copies.reasons == [("device",)]
    with pytest.raises(candle.CopyError):
        t.__dlpack__(dl_device=(1, 0), copy=False)


def test_read_only_memory_is_copied_for_who_would_write(maker: Any, driver: Driver) -> None:
    t = late(maker, driver, driver.stream())
    capsule = candle.testing.Producer(t.data_ptr(), shape=(4, 6), device=(2, 0), flags=1).capsule()
    frozen = candle.from_dlpack(capsule, stream=1)
    assert frozen.readonly
    with pytest.raises(ValueError, match="read-only"):
        frozen[0] = 1
    with Copies() as copies:
        legacy = frozen.__dlpack__(stream=1)
    assert copies.reasons == [("read_only",)]
    assert info(legacy).data != t.data_ptr()
    with pytest.raises(candle.CopyError):
        frozen.__dlpack__(stream=1, copy=False)


def test_an_address_that_no_kernel_takes(maker: Any, driver: Driver) -> None:
    """Elements that lie across their alignment are moved as bytes."""
    raw = candle.asarray(np.arange(64, dtype="uint8")).to("cuda")
    driver.drain()
    producer = candle.testing.Producer(
        raw.data_ptr() + 2, shape=(3, 2), strides=(4, 2), device=(2, 0)
    )
    with Copies() as copies:
        t = candle.from_dlpack(producer.capsule(), stream=1)
    wanted = np.ndarray((3, 2), "float32", np.arange(64, dtype="uint8"), 2, (16, 8))
    assert copies.reasons == [("misaligned",)]
    assert t.tolist() == wanted.tolist()


def test_random_writes_and_copies(maker: Any, driver: Driver) -> None:
    """The same moves on a device and in numpy give the same."""
    rng = np.random.default_rng(7)
    model = rng.integers(0, 100, (5, 6, 4)).astype("int32")
    t = candle.asarray(model).to("cuda")
    for number in range(60):

        def pick(extent: int) -> slice:
            low, high = sorted(rng.integers(0, extent + 1, 2).tolist())
            step = int(rng.choice([1, 1, 2, -1, -2]))
            return (
                slice(low, high, step) if step > 0 else slice(high - 1 if high else 0, None, step)
            )

        key = tuple(map(pick, model.shape))
        part = model[key]
        assert t[key].numpy().tolist() == part.tolist(), number
        source = rng.integers(0, 100, part.shape).astype(rng.choice(["int32", "int16", "int64"]))
        if rng.random() < 0.5 and part.ndim:
            source = source[:1] if part.shape[0] else source
        value = candle.asarray(source)
        t[key] = value.to("cuda") if rng.random() < 0.5 else value
        model[key] = source
        assert t.tolist() == model.tolist(), (number, key)


def test_what_a_provider_makes_gives_everything_back(maker: Any, driver: Driver) -> None:
    before = driver.counters()[:2]
    t = late(maker, driver, driver.stream())
    for _ in range(5):
        t[::-1].to("float64").to("cuda:1").to("cpu")
    del t
    driver.drain()
    gc.collect()
    assert driver.counters()[:2] == before


def test_who_copies(driver: Driver) -> None:
    """Torch for torch's memory, else cupy, else torch."""
    cupy, torch = Cupy(), Torch()
    from candle.cuda import provider

    provider._loaded.clear()
    of_torch = candle.from_dlpack(torch.array(VALUES))
    of_cupy = candle.from_dlpack(cupy.array(VALUES))
    kinds = [type(provider.provider_for(t)).__name__ for t in (of_torch, of_cupy)]
    assert kinds == ["Torch", "Cupy"]
    assert type(provider.provider_for()).__name__ == "Cupy"
    assert type(provider.provider_for(dtypes=(candle.bfloat16,))).__name__ == "Torch"
    assert of_cupy.to("bfloat16").tolist() == VALUES.tolist()
    provider._loaded["cupy"] = None
    assert type(provider.provider_for()).__name__ == "Torch"
    provider._loaded.clear()


class OutOfMemoryError(RuntimeError):
    """As torch's, which is no MemoryError."""


@pytest.mark.parametrize("error", [RuntimeError, TypeError, AttributeError, OutOfMemoryError])
@pytest.mark.parametrize("function", ["on", "copy", "to_host", "across", "empty", "write"])
def test_what_a_provider_raises_is_told_as_a_failed_copy(
    maker: Any,
    driver: Driver,
    function: str,
    error: type[Exception],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A TypeError that left `__dlpack__` would make consumers ask again without a stream."""
    from candle.cuda import provider

    t = late(maker, driver, driver.stream())
    made = provider.provider_for(t)

    def fails(*_arguments: object) -> Any:
        raise error("boom")

    monkeypatch.setattr(type(made), function, fails)
    there, swapped = maker.array(VALUES), VALUES.astype(">f4")
    chunks = Chunks(np.arange(2, dtype="i4"), np.arange(4, dtype="i4"))
    moves: dict[str, list[Callable[[], object]]] = {
        "on": [lambda: t.__dlpack__(copy=True, max_version=(1, 3))],
        "copy": [lambda: t.__dlpack__(copy=True, max_version=(1, 3))],
        "to_host": [lambda: t.__dlpack__(dl_device=(1, 0))],
        "across": [lambda: candle.zeros(3).__dlpack__(dl_device=(2, 0))],
        "empty": [lambda: candle.empty((3,), device="cuda")],
        "write": [
            lambda: t.fill_(1),
            lambda: t.copy_(there),
            lambda: t.copy_(swapped),
            lambda: t.copy_(chunks),
        ],
    }
    before = live()
    kind = MemoryError if error is OutOfMemoryError else BufferError
    for move in moves[function]:
        with pytest.raises(
            kind, match=f"copy on a CUDA device failed: {error.__name__}: boom"
        ) as said:
            move()
        assert isinstance(said.value.__cause__, error)
        del said
    gc.collect()
    assert live() == before


@pytest.mark.parametrize("device", [2, 7])
def test_a_device_that_is_not_there(maker: Any, driver: Driver, device: int) -> None:
    if maker.name != "cupy":
        pytest.skip("devices are the driver's, which has room for more")
    t = late(maker, driver, driver.stream())
    for move in (
        lambda: t.to(f"cuda:{device}"),
        lambda: t.__dlpack__(dl_device=(2, device)),
        lambda: candle.zeros(3, device=f"cuda:{device}"),
    ):
        with pytest.raises(BufferError, match="invalid device"):
            move()


NOTHING_INSTALLED = """
import sys
import numpy as np
import fake_driver
sys.modules.update(dict.fromkeys(("cupy", "torch")))
driver = fake_driver.load()
import candle
from candle.testing import Producer, info
address = driver.alloc(64)
driver.late_fill(1, address, 5.0, 16)
t = candle.from_dlpack(Producer(address, shape=(4, 4), device=(2, 0)).capsule())
stream = driver.stream()
assert info(t.T[1:].__dlpack__(stream=stream)).data == address + 4
assert driver.read(address, stream) == [5.0]
assert t.__cuda_array_interface__["data"] == (address, False)
assert "cuda:0" in repr(t)
moves = [
    lambda: t.to("cpu"), lambda: t.to("float64"), lambda: t.T.contiguous(), t.copy, t.numpy,
    t.tolist, t[0, 0].item, lambda: np.asarray(t), lambda: candle.zeros(3, device="cuda"),
    lambda: candle.asarray([1], device="cuda"), lambda: candle.zeros(3).to("cuda"),
    lambda: t.fill_(1), lambda: t.__setitem__(0, 1), lambda: t.copy_(candle.zeros((4, 4))),
    lambda: t.__dlpack__(copy=True), lambda: t.__dlpack__(dl_device=(1, 0)),
    lambda: candle.zeros(3).__dlpack__(dl_device=(2, 0)), lambda: candle.cat([t, t]),
    lambda: t[::-1].__dlpack__(), lambda: candle.rand(3, device="cuda"),
]
said = set()
for number, move in enumerate(moves):
    try:
        move()
    except BufferError as error:
        said.add(str(error))
    else:
        raise SystemExit(f"move {number} did something")
assert len(said) == 1, said
assert "pip install 'candle-dlpack[cuda13]'" in said.pop()
"""


@pytest.mark.isolated(together="no")
def test_without_a_provider(in_child: Any) -> None:
    """Sharing works, and all else says what to install."""
    in_child(NOTHING_INSTALLED).check()


def test_a_copy_on_a_device_is_one_move(maker: Any, driver: Driver) -> None:
    """Its steps, and what creation does, are none of the caller's."""
    t = late(maker, driver, driver.stream())
    there = ("candle", "candle", "copy", ("device",))
    ways: list[tuple[Any, tuple[str, str, str, tuple[str, ...]]]] = [
        (lambda: t.to("cpu"), there),
        (lambda: candle.ones(3).to("cuda"), there),
        (t.copy, ("candle", "candle", "copy", ("requested",))),
        (t.numpy, ("candle", "numpy", "copy", ("device",))),
        (t.tolist, ("candle", "Python", "copy", ("device",))),
        (
            lambda: candle.asarray(VALUES, device="cuda"),
            ("numpy.ndarray", "candle", "copy", ("device",)),
        ),
        (
            lambda: candle.asarray([1, 2], device="cuda"),
            ("list", "candle", "copy", ("device", "python_values")),
        ),
        (
            lambda: candle.asarray([t, t]),
            ("list", "candle", "copy", ("python_values",)),
        ),
        (
            lambda: t.__setitem__(0, VALUES[1]),
            ("numpy.ndarray", "candle", "copy", ("requested", "device")),
        ),
        (lambda: t.__setitem__(0, t[1]), ("candle", "candle", "copy", ("requested",))),
    ]
    for way, expected in ways:
        with candle.trace() as moves:
            way()
        codes = [tuple(reason.code for reason in move.reasons) for move in moves]
        found = [(m.producer, m.consumer, m.action, c) for m, c in zip(moves, codes, strict=True)]
        assert found == [expected]
    with candle.trace() as moves:
        candle.zeros((2, 3), device="cuda")
        candle.arange(3, device="cuda")
        candle.rand(3, device="cuda", dtype="float16")
        t.fill_(1)
    assert list(moves) == []
    with candle.strict():
        repr(t), t.tolist(), t[0, 0].item()
        with pytest.raises(candle.CopyError):
            t.numpy()


def test_the_owner_of_device_memory(maker: Any, driver: Driver) -> None:
    t = late(maker, driver, driver.stream())
    kept = candle.owner(t[1:])
    if maker.name == "torch":
        assert type(kept).__name__ == "UntypedStorage"
        assert kept.data_ptr() == t.data_ptr()  # type: ignore[attr-defined]
    else:
        assert isinstance(kept, candle.Tensor)  # a capsule does not tell


def test_plans_of_device_memory(maker: Any, driver: Driver) -> None:
    """`explain` says what is then done, and neither asks a stream nor copies."""
    t = late(maker, driver, driver.stream())
    for x, to, device in (
        (t, "numpy", None),
        (t, "dlpack", None),
        (t, "candle", "cpu"),
        (VALUES, "candle", "cuda"),
        ([1.0, 2.0], "candle", "cuda"),
        ([1.0, 2.0], "numpy", "cuda"),
        ([t, t], "numpy", None),
    ):
        before = driver.counters()
        plan = candle.explain(x, to, device=device)
        assert driver.counters() == before
        with candle.trace() as moves:
            made = candle.asarray(x, device=device)
            if to == "numpy":
                made.numpy()
            elif to == "dlpack":
                made.__dlpack__(max_version=(1, 3))
        steps = plan.steps or (plan,)
        assert tuple(moves)[-len(steps) :] == steps


@pytest.mark.parametrize("maker", [Torch], ids=["torch"], indirect=True)
def test_views_with_other_signs_get_their_values(
    maker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their framework turns the signs; the memory as it lies is never copied for the values."""
    values = np.array([1 + 2j, 3 - 4j], "complex64")
    z = maker.array(values)
    # What torch does on a device takes a kernel, which there is none of here.
    monkeypatch.setattr(maker.module.Tensor, "resolve_conj", lambda _: maker.array(values.conj()))
    monkeypatch.setattr(maker.module.Tensor, "resolve_neg", lambda resolved: resolved)
    into = candle.zeros(2, dtype="complex64")
    for take in (
        candle.from_dlpack,
        candle.tensor,
        lambda x: candle.asarray(x, dtype="complex128"),
        lambda x: candle.asarray(x, device="cpu"),
        into.copy_,
    ):
        with Copies() as copies:
            t = take(z.conj())
        assert t.tolist() == values.conj().tolist()
        assert ["conj_bit" in codes for codes in copies.reasons] == [True]
    with pytest.raises(candle.CopyError, match="resolve_conj"):
        candle.from_dlpack(z.conj(), copy=False)


class Chunks:
    """Numbers in two chunks of an Arrow stream."""

    def __init__(self, *parts: Any) -> None:
        self.parts = parts
        self.given: list[object] = []

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        chunks = [arrow.array(len(part), [None, part.ctypes.data]) for part in self.parts]
        self.given.append(arrow.StreamExporter(arrow.schema("i"), chunks))
        return self.given[-1].__arrow_c_stream__()  # type: ignore[attr-defined]


def odd_memory() -> dict[str, Any]:
    """Arrays and tensors on the host whose values no row of items at their address has."""
    fields = np.zeros(4, dtype=[("a", "i1"), ("b", "<f4")])
    fields["b"] = np.arange(4)
    made = {
        "foreign byte order": np.arange(6, dtype=">i4").reshape(2, 3),
        "halves in foreign order": np.arange(3, dtype=">f2"),
        "complex in foreign order": np.arange(6, dtype=">c8")[::-2],
        "fields of records": fields["b"],
        "misaligned": np.frombuffer(b"\0" + fields["b"].tobytes(), "i1")[1:].view("<f4"),
        "reversed": np.arange(6.0)[::-1],
        "broadcast": np.broadcast_to(np.arange(3.0), (2, 3)),
        "in chunks": Chunks(np.arange(3, dtype="i4"), np.arange(5, dtype="i4")),
    }
    if (torch := sys.modules.get("torch")) is not None:
        pairs = torch.tensor([1 + 2j, 3 - 4j])
        made["conjugate"] = pairs.conj()
        made["negative"] = pairs.conj().imag
    return made


def test_values_and_not_bytes_go_to_a_device(maker: Any, driver: Driver) -> None:
    for name, x in odd_memory().items():
        here = candle.asarray(x)
        for dtype in (None, "complex128"):
            wanted = here.to(dtype).tolist() if dtype else here.tolist()
            with Copies() as copies:
                there = [candle.asarray(x, dtype=dtype, device="cuda:1")]
            assert len(copies) == 1, name
            assert copies[0].nbytes == there[0].nbytes, name
            there.append(candle.tensor(x, dtype=dtype, device="cuda"))
            there.append(candle.zeros(here.shape, dtype=dtype or here.dtype, device="cuda"))
            there[-1][...] = x
            there.append(candle.zeros((2, *here.shape), dtype=here.dtype, device="cuda"))
            there[-1].copy_(x)
            assert [t.to("cpu").tolist() for t in there[:3]] == [wanted] * 3, (name, dtype)
            assert there[3].to("cpu").tolist() == [here.tolist()] * 2, name
        with pytest.raises(candle.CopyError):
            candle.asarray(x, device="cuda", copy=False)
