"""Copies between any two layouts, held against numpy, the bytes beside the elements included."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest

import candle

if TYPE_CHECKING:
    import numpy.typing as npt

    Array = npt.NDArray[Any]

ITEMS = {1: "uint8", 2: "float16", 4: "int32", 8: "float64", 16: "complex128"}
PACKED = {"int4": 4, "uint4": 4, "float4_e2m1fn": 4, "float6_e2m3fn": 6, "float6_e3m2fn": 6}
by_item = pytest.mark.parametrize("size", ITEMS)


class Layout:
    """A random layout: strides of a shape in bytes, and the bytes that they reach."""

    def __init__(
        self, random: np.random.Generator, shape: tuple[int, ...], item: int, *, spread: bool
    ) -> None:
        self.shape = shape
        strides = [0] * len(shape)
        step = item
        for axis in random.permutation(len(shape)):
            if spread and random.random() < 0.2:
                continue
            step += item * int(random.integers(0, 3)) * (random.random() < 0.4)
            strides[axis] = -step if random.random() < 0.3 else step
            step *= max(shape[axis], 1)
        self.strides = tuple(strides)
        ends = [(n - 1) * s for n, s in zip(shape, strides, strict=True)]
        self.before = -sum(end for end in ends if end < 0)
        self.size = self.before + sum(end for end in ends if end > 0) + item

    def of(self, memory: Array, dtype: str, extra: int = 0) -> Array:
        """The layout over memory, `extra` bytes in."""
        return np.ndarray(self.shape, dtype, memory.data, self.before + extra, self.strides)


def noise(random: np.random.Generator, size: int) -> Array:
    return random.integers(0, 256, size, np.uint8)


def random_shape(random: np.random.Generator) -> tuple[int, ...]:
    if random.random() < 0.1:
        return (2, int(random.integers(250, 600)))
    return tuple(int(n) for n in random.choice([1, 2, 3, 4, 5, 7], random.integers(0, 6)))


@by_item
def test_any_layout_to_any_other(size: int) -> None:
    random = np.random.default_rng(size)
    for _ in range(100):
        shape = random_shape(random)
        source, target = (Layout(random, shape, size, spread=spread) for spread in (True, False))
        from_memory, to_memory = noise(random, source.size), noise(random, target.size)
        want = to_memory.copy()
        opaque = f"V{size}"  # numpy may change the bits of NaNs
        target.of(want, opaque)[...] = source.of(from_memory, opaque)

        view = target.of(to_memory, ITEMS[size])
        candle.asarray(view, copy=False).copy_(candle.asarray(source.of(from_memory, ITEMS[size])))
        np.testing.assert_array_equal(to_memory, want)


@by_item
def test_fresh_copies_are_compact(size: int) -> None:
    random = np.random.default_rng(size)
    for _ in range(50):
        source = Layout(random, random_shape(random), size, spread=True)
        array = source.of(noise(random, source.size), ITEMS[size])
        copied = candle.asarray(array).copy()
        assert copied.is_contiguous()
        assert copied.numpy().tobytes() == array.tobytes()


@by_item
def test_overlap_is_as_if_the_source_were_read_first(size: int) -> None:
    random = np.random.default_rng(size)
    for _ in range(100):
        shape = random_shape(random)
        source, target = (Layout(random, shape, size, spread=spread) for spread in (True, False))
        room = max(source.size, target.size) + size * int(random.integers(0, 4))
        memory = noise(random, room)
        at = [size * int(random.integers(0, (room - x.size) // size + 1)) for x in (source, target)]
        want = memory.copy()
        whole = source.of(memory, f"V{size}", at[0]).copy()
        target.of(want, f"V{size}", at[1])[...] = whole

        dst = candle.asarray(target.of(memory, ITEMS[size], at[1]), copy=False)
        dst.copy_(candle.asarray(source.of(memory, ITEMS[size], at[0]), copy=False))
        np.testing.assert_array_equal(memory, want)


def test_overlapping_casts() -> None:
    memory = np.arange(40, dtype=np.int32)
    tensor = candle.asarray(memory, copy=False)
    for source, target in (
        (np.s_[:20], np.s_[3:23]),
        (np.s_[20::-1], np.s_[:21]),
        (np.s_[:], np.s_[:]),
    ):
        floats = memory.view(np.float32)
        floats[:] = np.arange(40)
        want = memory.copy()
        want[target] = floats[source].astype(np.int32)
        tensor[target].copy_(tensor.view("float32")[source])
        np.testing.assert_array_equal(memory, want)


def test_a_copy_onto_itself_changes_nothing() -> None:
    for array in (
        np.arange(12.0).reshape(3, 4),
        np.array([True, False]),
        np.array([np.nan, -0.0]),
    ):
        before = array.tobytes()
        tensor = candle.asarray(array, copy=False)
        tensor.copy_(tensor)
        tensor[::-1].copy_(tensor[::-1])
        assert array.tobytes() == before


def test_reversal_in_place() -> None:
    array = np.arange(1000)
    tensor = candle.asarray(array, copy=False)
    tensor.copy_(tensor[::-1])
    np.testing.assert_array_equal(array, np.arange(999, -1, -1))


def test_shifts_in_place() -> None:
    shape = (6, 7, 8)
    for source, target in (
        (np.s_[1:], np.s_[:-1]),
        (np.s_[:-1], np.s_[1:]),
        (np.s_[:, :, 1:], np.s_[:, :, :-1]),
        (np.s_[1:, :-2, ::2], np.s_[:-1, 2:, ::2]),
        (np.s_[:, :, ::2], np.s_[:, :, 1::2]),
        (np.s_[::-1, 1:, :-1], np.s_[::-1, :-1, 1:]),
    ):
        for dtype in ("uint8", "int32", "complex128"):
            array = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
            want = array.copy()
            want[target] = array[source]
            tensor = candle.asarray(array, copy=False)
            tensor[target].copy_(tensor[source])
            np.testing.assert_array_equal(array, want)


def test_parts_of_one_matrix_that_do_not_overlap() -> None:
    array = np.arange(400).reshape(20, 20)
    want = array.copy()
    want[:10, :10] = array[10:, 10:].T
    want[::2, 15:] = array[1::2, 14:9:-1]
    tensor = candle.asarray(array, copy=False)
    tensor[:10, :10].copy_(tensor[10:, 10:].T)
    tensor[::2, 15:].copy_(tensor[1::2, 14:9:-1])
    np.testing.assert_array_equal(array, want)


# Large ones, of every kind of kernel


@by_item
@pytest.mark.parametrize("shape", [(64, 96), (61, 97), (3, 4000), (4000, 3), (5, 1111), (15, 700)])
def test_matrices_turned_and_mirrored(size: int, shape: tuple[int, int]) -> None:
    big = noise(np.random.default_rng(size), 4 * shape[0] * shape[1] * size + 1)
    wide = np.ndarray((2 * shape[0], 2 * shape[1]), ITEMS[size], big.data, 1)
    for part in (wide[: shape[0], : shape[1]], wide[::2, 1::2], wide[::-2, ::-2]):
        for source in (part, part.T, part[::-1].T, part[:, ::-1].T):
            copied = candle.asarray(source).copy().numpy()
            assert copied.tobytes() == source.tobytes()
            back = np.zeros(source.shape[::-1], ITEMS[size])
            candle.asarray(back, copy=False).copy_(candle.asarray(source).T)
            assert back.tobytes() == source.T.tobytes()


@by_item
def test_five_axes_in_any_order(size: int) -> None:
    random = np.random.default_rng(size)
    shape = (7, 4, 9, 3, 16)
    array = noise(random, size * int(np.prod(shape))).view(ITEMS[size]).reshape(shape)
    for _ in range(20):
        source = array.transpose(random.permutation(5))
        assert candle.asarray(source).copy().numpy().tobytes() == source.tobytes()


def test_images_between_their_two_layouts() -> None:
    pixels = noise(np.random.default_rng(0), 2 * 45 * 37 * 3).reshape(2, 45, 37, 3)
    for dtype in ("uint8", "int16", "float32", "float64"):
        array = pixels.astype(dtype)
        for source in (array.transpose(0, 3, 1, 2), np.moveaxis(array, -1, 1)[:, ::-1]):
            np.testing.assert_array_equal(candle.asarray(source).copy().numpy(), source)
            as_float = candle.asarray(source).to("float32").numpy()
            np.testing.assert_array_equal(as_float, source.astype("float32"))
        planes = np.ascontiguousarray(array.transpose(0, 3, 1, 2))
        np.testing.assert_array_equal(
            candle.asarray(planes.transpose(0, 2, 3, 1)).copy().numpy(), array
        )


@pytest.mark.parametrize("rows", [4096, 4099])
def test_copies_past_the_caches(rows: int) -> None:
    source = noise(np.random.default_rng(rows), rows * 8191).reshape(rows, 8191)
    target = np.zeros(source.size + 3, np.uint8)[3:]
    for view, shape in ((source.T, (8191, rows)), (source[:, ::-1], source.shape)):
        into = target.reshape(shape)
        candle.asarray(into, copy=False).copy_(candle.asarray(view))
        np.testing.assert_array_equal(into, view)


# Every extent around those of the tiles that matrices are turned in


def turn(
    random: np.random.Generator, size: int, shape: tuple[int, int], steps: tuple[int, int]
) -> None:
    """Turn a matrix beside any line, its rows and the result's so many bytes apart."""
    rows, columns = shape
    at = [size * int(n) for n in random.integers(0, 130 // size, 2)]
    from_memory = noise(random, at[0] + rows * steps[0])
    source = np.ndarray(shape, f"V{size}", from_memory.data, at[0], (steps[0], size))
    to_memory = noise(random, at[1] + columns * steps[1] + 64)
    want = to_memory.copy()
    layout: dict[str, Any] = {"shape": (columns, rows), "strides": (steps[1], size)}
    np.ndarray(dtype=f"V{size}", buffer=want.data, offset=at[1], **layout)[...] = source.T

    target = np.ndarray(dtype=ITEMS[size], buffer=to_memory.data, offset=at[1], **layout)
    candle.asarray(target, copy=False).copy_(candle.asarray(source.view(ITEMS[size])).T)
    assert to_memory.tobytes() == want.tobytes(), (shape, steps, at)


@by_item
def test_transposes_of_every_small_extent(size: int) -> None:
    random = np.random.default_rng(size)
    edges = (1, 2, 3, 4, 8, 15, 16, 17, 32, 63, 64, 65, 130)
    every = range(1, 131)
    for shape in {*itertools.product(every, edges), *itertools.product(edges, every)}:
        rows, columns = shape
        gap = size * int(random.choice([0, 0, 1, 3]))
        whole_lines = (rows * size + 63) // 64 * 64
        to_step = whole_lines if random.random() < 0.5 else rows * size + gap
        turn(random, size, shape, (columns * size + gap, to_step))


@by_item
def test_transposes_whose_rows_share_their_places_in_the_cache(size: int) -> None:
    random = np.random.default_rng(size)
    edges = (4, 16, 17, 63, 64, 65, 127, 130)
    for shape in itertools.product(edges, edges):
        for _ in range(2):
            steps = [int(n) for n in random.choice([512, 1024, 2048, 4096, 8192], 2)]
            if shape[1] * size <= steps[0] and shape[0] * size <= steps[1]:
                turn(random, size, shape, (steps[0], steps[1]))


@by_item
@pytest.mark.parametrize("step", [2048, 4096, 2048 + 64])
def test_transposes_of_more_than_the_second_cache_holds(size: int, step: int) -> None:
    random = np.random.default_rng(size)
    rows = (1 << 20) // 2048 + 67
    for columns in (2048 // size, 2048 // size - 1, 2048 // size - 37):
        for to_step in (rows * size, (rows * size + 4095) // 4096 * 4096):
            turn(random, size, (rows, columns), (step, to_step))


# Memory that only a copy can serve


@pytest.mark.parametrize("dtype", ["int16", "float32", "float64", "complex64", "complex128"])
def test_odd_strides_and_addresses(dtype: str) -> None:
    record = np.zeros((4, 5), [("a", "u1"), ("b", dtype), ("c", "V2")])
    record["b"] = np.arange(20).reshape(4, 5)
    for array in (record["b"], record["b"][::-1, ::2], record["b"].T):
        copied = candle.asarray(array)
        np.testing.assert_array_equal(copied.numpy(), array)
        np.testing.assert_array_equal(candle.asarray(array, dtype="complex128").numpy(), array)


@pytest.mark.parametrize("dtype", ["int16", "uint32", "float64", "complex64", "complex128"])
def test_the_foreign_byte_order_at_any_stride(dtype: str) -> None:
    native = np.arange(600).astype(dtype).reshape(2, 300)
    foreign = native.astype(native.dtype.newbyteorder())
    for view in (np.s_[:], np.s_[::-1, ::3], np.s_[0], np.s_[1, 7]):
        np.testing.assert_array_equal(candle.asarray(foreign[view]).numpy(), native[view])
    np.testing.assert_array_equal(candle.asarray(foreign.T).numpy(), native.T)


# Elements of less than a byte: packed in candle's own memory, padded to a byte in numpy's


def packed_codes(memory: Array, bits: int, count: int) -> list[int]:
    """Element i lies at bit i * bits, the lowest bits of a byte first."""
    whole = int.from_bytes(memory.tobytes(), "little")
    return [whole >> (i * bits) & (2**bits - 1) for i in range(count)]


def padded_codes(tensor: candle.Tensor) -> Array:
    array: Array = tensor.numpy()
    return array.view(np.uint8)


@pytest.mark.parametrize("name", PACKED)
def test_packed_and_padded(name: str) -> None:
    bits = PACKED[name]
    codes = np.random.default_rng(bits).integers(0, 2**bits, (10, 36), np.uint8)
    padded = candle.asarray(codes.view(getattr(ml_dtypes, name)))
    packed = padded.copy()
    assert (padded.nbytes, packed.nbytes) == (360, 360 * bits // 8)
    lowest_first = packed.view("uint8").numpy()
    assert packed_codes(lowest_first, bits, 360) == codes.ravel().tolist()

    anywhere = (np.s_[1:, 1:], np.s_[:, ::-1], np.s_[1::3, ::5], np.s_[::-1, 31])
    on_whole_bytes = (np.s_[:], np.s_[::2], np.s_[4::-1], np.s_[4], np.s_[:, 4:30:3])
    for side, views in ((padded, anywhere + on_whole_bytes), (packed, on_whole_bytes)):
        for view in views:
            once = side[view].copy()
            np.testing.assert_array_equal(padded_codes(once), codes[view])
            np.testing.assert_array_equal(padded_codes(once.copy()), codes[view])
        np.testing.assert_array_equal(padded_codes(side.T.copy()), codes.T)


@pytest.mark.parametrize("name", PACKED)
def test_bits_beside_packed_elements_stay(name: str) -> None:
    bits = PACKED[name]
    random = np.random.default_rng(bits)
    for view in (slice(0, 13), slice(4, 31), slice(8, 64, 3), slice(16, None, -1), slice(4, 5)):
        memory = noise(random, 64 * bits // 8)
        codes = np.array(packed_codes(memory, bits, 64), np.uint8)
        new = random.integers(0, 2**bits, codes[view].size, np.uint8)
        target = candle.asarray(memory, copy=False).view(name)[view]
        target.copy_(candle.asarray(new.view(getattr(ml_dtypes, name))))
        codes[view] = new
        assert packed_codes(memory, bits, 64) == codes.tolist()


@pytest.mark.parametrize("name", PACKED)
def test_packed_elements_overlap(name: str) -> None:
    bits = PACKED[name]
    random = np.random.default_rng(bits)
    for source, target in (((0, 40), (8, 48)), ((8, 48), (0, 40)), ((0, 33), (4, 37))):
        memory = noise(random, 64 * bits // 8)
        codes = packed_codes(memory, bits, 64)
        codes[slice(*target)] = codes[slice(*source)]
        tensor = candle.asarray(memory, copy=False).view(name)
        tensor[slice(*target)].copy_(tensor[slice(*source)])
        assert packed_codes(memory, bits, 64) == codes


# Shapes at the edges


def test_rows_past_the_caches_in_another_order() -> None:
    """Rows too long to be gathered and too many for the caches, read as the source runs."""
    source = np.arange(96 << 18, dtype="u1").reshape(384, 512, 128)
    for order in ((1, 0, 2), (0, 1, 2)):
        made = candle.asarray(source).permute(*order).copy()
        np.testing.assert_array_equal(made.numpy(), source.transpose(order))


def test_windows_as_a_destination() -> None:
    """Elements that are one, written the same values, whichever axis goes first."""
    for size in (1, 4, 8):
        memory = np.zeros(64, f"u{size}")
        windows = np.lib.stride_tricks.sliding_window_view(memory, 5, writeable=True)
        values = np.lib.stride_tricks.sliding_window_view(np.arange(64, dtype=f"u{size}"), 5)
        for to, from_ in ((windows, values), (windows.T, values.T)):
            memory[:] = 0
            candle.asarray(to, copy=False).copy_(candle.asarray(from_.copy()))
            assert memory.tolist() == list(range(64))


def test_foreign_byte_order_into_packed_elements() -> None:
    for dtype in (">i2", ">f4", ">f8", ">i8"):
        values = np.array([1, -2, 3, -8, 7], dtype)
        assert candle.asarray(values, dtype="int4").tolist() == [1, -2, 3, -8, 7]
        assert candle.asarray(values[::-2], dtype="int4").tolist() == [7, 3, 1]


def test_no_axes_and_one_element() -> None:
    one = candle.asarray(np.array(2.5))
    for tensor in (one, one.reshape((1,) * 64)):
        assert tensor.copy().tolist() == tensor.tolist()
        assert tensor.to("int8").item() == 2


def test_64_axes() -> None:
    array = np.arange(24).reshape((2, *[1] * 30, 3, *[1] * 30, 4, 1))
    turned = array.transpose(*range(63, -1, -1))
    np.testing.assert_array_equal(candle.asarray(turned).copy().numpy(), turned)


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 3), (2, 0, 2)])
def test_empty_shapes(shape: tuple[int, ...]) -> None:
    target = candle.zeros(shape, dtype="bfloat16")
    target.copy_(candle.zeros(shape, dtype="float64"))
    assert target.tolist() == candle.asarray(np.zeros(shape)).copy().tolist()


def test_broadcasting() -> None:
    array = np.arange(3, dtype=np.float32)
    target = candle.zeros((2, 4, 3), dtype="int16")
    target.copy_(candle.asarray(array))
    assert target.tolist() == [[[0, 1, 2]] * 4] * 2
    target.copy_(candle.asarray(np.arange(4, dtype=">u2").reshape(4, 1)))
    assert target.tolist() == [[[i] * 3 for i in range(4)]] * 2


def test_past_the_caches() -> None:
    """Of copies too large for them: rows with gaps, long and short, and a source that is small."""
    source = np.arange(6_815_744, dtype="float32")
    memory = np.full(6_815_744, -1, "float32")
    for columns, room, from_ in (
        (65_000, 65_536, source),
        (63, 64, source),
        (65_536, 65_536, source[:65_536]),
    ):
        target = memory.reshape(-1, room)
        values = from_ if len(from_) == columns else from_.reshape(-1, room)[:, :columns]
        candle.asarray(target[:, :columns]).copy_(candle.asarray(values))
        assert (target[:, :columns] == values).all(), columns
        assert (target[:, columns:] == -1).all(), columns
        memory.fill(-1)


def test_windows_on_many_axes() -> None:
    """More elements than a box has room for lie in fewer bytes than it is to cover."""
    memory = np.arange(64, dtype="u1")
    for steps in ((1,) * 7, (1,) * 6 + (2,), (2,) + (1,) * 6):
        source = np.lib.stride_tricks.as_strided(memory, (8,) * 6 + (3,), steps)
        assert (candle.asarray(source).copy().numpy() == source).all(), steps
