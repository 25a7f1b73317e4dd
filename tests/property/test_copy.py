"""Copies between any two layouts and dtypes equal the exact ones, and touch nothing else."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

import children
import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
import rounding
import strided
from strided import PAIRS, POOL, Layout, compact

import candle

if TYPE_CHECKING:
    import numpy.typing as npt

    Array = npt.NDArray[Any]

ITEMS = {1: "uint8", 2: "float16", 4: "int32", 8: "float64", 16: "complex128"}
PACKED = {"int4": 4, "uint4": 4, "float4_e2m1fn": 4, "float6_e2m3fn": 6, "float6_e3m2fn": 6}
EXTENTS = (1, 2, 3, 4, 5, 8, 17, 33, 65, 257, 300)
AT_EDGES = (1, 2, 3, 5, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 257)
by_item = pytest.mark.parametrize("size", ITEMS)
SEEDS = st.integers(0, 2**32 - 1)


@st.composite
def shapes(draw: Any, most: int = 600, axes: int = 8) -> tuple[int, ...]:
    """Up to so many axes, and at most `most` elements; sometimes none."""
    extents = EXTENTS if most <= 600 else AT_EDGES
    shape: list[int] = []
    for _ in range(draw(st.integers(0, axes))):
        shape.append(draw(st.sampled_from([n for n in extents if n <= most])))
        most //= shape[-1]
    if shape and draw(st.integers(0, 19)) == 0:
        shape[draw(st.integers(0, len(shape) - 1))] = 0
    return tuple(draw(st.permutations(shape)))


@st.composite
def layouts(
    draw: Any, shape: tuple[int, ...], item: int, *, unit: int, zeros: bool = False
) -> Layout:
    """Axes in any order and direction, with gaps of some units; some steps 0 if `zeros`."""
    strides = [0] * len(shape)
    step = item
    for axis in draw(st.permutations(range(len(shape)))):
        if zeros and draw(st.integers(0, 5)) == 0:
            continue
        step += unit * draw(st.sampled_from([0, 0, 0, 1, 3]))
        strides[axis] = -step if draw(st.booleans()) else step
        step *= max(shape[axis], 1)
    return Layout(shape, tuple(strides), item)


def pool_index(random: np.random.Generator, layout: Layout) -> Array:
    """Which element of a pool lies where; the same where elements are one in memory."""
    axes = zip(layout.shape, layout.strides, strict=True)
    index = random.integers(0, POOL, [1 if step == 0 and n else n for n, step in axes])
    return np.broadcast_to(index, layout.shape)


def put(memory: Array, layout: Layout, pool: Array, index: Array, extra: int = 0) -> None:
    layout.opaque(memory, extra)[...] = pool.view(f"V{layout.item}")[index]


class Source:
    """Random elements of a pool in a random layout, maybe one that only a copy can read."""

    def __init__(self, draw: Any, name: str, shape: tuple[int, ...]) -> None:
        self.name = name
        dtype = rounding.numpy_dtype(name)
        odd = dtype.names is None and draw(st.booleans())
        self.foreign = odd and strided.can_be_foreign(name) and draw(st.booleans())
        unit = 1 if odd else dtype.itemsize
        self.layout = draw(layouts(shape, dtype.itemsize, unit=unit, zeros=True))
        aligned = 1 if odd else strided.component_size(name)
        self.extra = draw(st.integers(0, 3)) * aligned
        random = np.random.default_rng(draw(SEEDS))
        self.index = pool_index(random, self.layout)
        self.memory = strided.noise(random, self.layout.size + self.extra)
        pool = strided.pool(name)
        if self.foreign:
            pool = pool.byteswap()
        put(self.memory, self.layout, pool, self.index, self.extra)
        self.array = self.layout.of(
            self.memory, dtype.newbyteorder() if self.foreign else dtype, self.extra
        )
        self.shared = not odd

    def given(self) -> Any:
        """What candle is given: a tensor where there can be one, else the array."""
        return strided.share(self.array) if self.shared else self.array


PAIR = st.sampled_from(PAIRS) | st.sampled_from([pair for pair in PAIRS if pair[0] == pair[1]])


def check_any_layouts(draw: Any, pair: tuple[str, str], shape: tuple[int, ...]) -> None:
    name = pair[1]
    source = Source(draw, pair[0], shape)
    dtype = rounding.numpy_dtype(name)
    target = draw(layouts(shape, dtype.itemsize, unit=dtype.itemsize))
    extra = draw(st.integers(0, 3)) * strided.component_size(name)
    random = np.random.default_rng(draw(SEEDS))
    memory = strided.noise(random, target.size + extra + 16)
    before, read = memory.copy(), source.memory.copy()

    tensor = strided.share(target.of(memory, dtype, extra))
    if draw(st.booleans()):
        tensor.copy_(source.given())
    else:
        tensor[...] = source.given()
    strided.check_cast(source.index, target.of(memory, dtype, extra), *pair)
    assert target.beside(memory, extra) == target.beside(before, extra)
    np.testing.assert_array_equal(source.memory, read)


@hypothesis.settings(max_examples=500)
@hypothesis.given(st.data(), PAIR, shapes())
def test_any_layout_to_any_other(
    data: st.DataObject, pair: tuple[str, str], shape: tuple[int, ...]
) -> None:
    check_any_layouts(data.draw, pair, shape)


@hypothesis.settings(max_examples=300)
@hypothesis.given(st.data(), PAIR, shapes())
def test_fresh_copies_are_compact(
    data: st.DataObject, pair: tuple[str, str], shape: tuple[int, ...]
) -> None:
    source = Source(data.draw, pair[0], shape)
    given = source.given()
    if isinstance(given, candle.Tensor):
        fresh = given.to(pair[1], copy=True)
    else:
        fresh = candle.asarray(given, dtype=pair[1], copy=True)
    assert fresh.is_contiguous()
    assert fresh.shape == shape
    strided.check_cast(source.index, strided.array_of(fresh), *pair)


@hypothesis.settings(max_examples=200)
@hypothesis.given(st.data(), PAIR, shapes(), shapes(most=8))
def test_broadcast_sources(
    data: st.DataObject, pair: tuple[str, str], shape: tuple[int, ...], outer: tuple[int, ...]
) -> None:
    thinner = tuple(1 if data.draw(st.booleans()) else n for n in shape)
    source = Source(data.draw, pair[0], thinner)
    whole = (*outer[: 8 - len(shape)], *shape)
    target = candle.empty(whole, dtype=pair[1])
    target.copy_(source.given())
    index = np.broadcast_to(source.index, whole)
    strided.check_cast(index, strided.array_of(target), *pair)


# Overlap: as if the source were read first.


@hypothesis.settings(max_examples=400)
@hypothesis.given(st.data(), PAIR, shapes())
def test_overlap(data: st.DataObject, pair: tuple[str, str], shape: tuple[int, ...]) -> None:
    if math.prod(shape) == 0:
        return
    sizes = [rounding.numpy_dtype(name).itemsize for name in pair]
    source = data.draw(layouts(shape, sizes[0], unit=sizes[0], zeros=True))
    target = data.draw(layouts(shape, sizes[1], unit=sizes[1]))
    same = pair[0] == pair[1] and data.draw(st.booleans())
    if same:  # in place, in another direction or order of equal axes
        flips = data.draw(st.tuples(*[st.sampled_from([1, -1])] * len(shape)))
        steps = [step * sign for step, sign in zip(target.strides, flips, strict=True)]
        order = data.draw(st.permutations(range(len(shape))))
        if all(shape[i] == n for i, n in zip(order, shape, strict=True)):
            steps = [steps[i] for i in order]
        source = Layout(shape, tuple(steps), sizes[0])
    units = [strided.component_size(name) for name in pair]
    room = max(source.size, target.size) + 8 * max(units)
    at = [
        unit * data.draw(st.integers(0, (room - side.size) // unit))
        for unit, side in zip(units, (source, target), strict=True)
    ]
    if same:
        shift = data.draw(st.integers(-4, 4)) * units[0]
        at[0] = min(max(at[1] + shift, 0), (room - source.size) // units[0] * units[0])
    random = np.random.default_rng(data.draw(SEEDS))
    index = pool_index(random, source)
    memory = strided.noise(random, room)
    put(memory, source, strided.pool(pair[0]), index, at[0])
    before = memory.copy()

    to = target.of(memory, rounding.numpy_dtype(pair[1]), at[1])
    from_ = source.of(memory, rounding.numpy_dtype(pair[0]), at[0])
    strided.share(to).copy_(strided.share(from_))
    strided.check_cast(index, to, *pair)
    assert target.beside(memory, at[1]) == target.beside(before, at[1])


@by_item
@pytest.mark.parametrize("side", [2, 8, 17, 64, 257, 520])
def test_transposed_in_place(size: int, side: int) -> None:
    memory = strided.noise(np.random.default_rng(side), side * side * size)
    array = memory.view(f"V{size}").reshape(side, side)
    for turn in (
        lambda t: t.T,
        lambda t: t[::-1],
        lambda t: t[:, ::-1],
        lambda t: t.T[::-1, ::-1],
    ):
        want = turn(array).tobytes()
        tensor = candle.asarray(memory.view(ITEMS[size]).reshape(side, side), copy=False)
        tensor.copy_(turn(tensor))
        assert array.tobytes() == want


@by_item
@pytest.mark.parametrize("shift", [1, 3, 16, 100, 4099])
def test_shifted_by_a_little(size: int, shift: int) -> None:
    count = 600_000 // size
    for source, target in ((0, shift), (shift, 0)):
        memory = strided.noise(np.random.default_rng(size), (count + shift) * size)
        items = memory.view(f"V{size}")
        want = items.copy()
        want[target : target + count] = items[source : source + count]
        tensor = candle.asarray(memory.view(ITEMS[size]), copy=False)
        tensor[target : target + count].copy_(tensor[source : source + count])
        assert items.tobytes() == want.tobytes()


# Elements of less than a byte, packed


def packed_codes(memory: Array, bits: int, count: int) -> Array:
    """Element i lies at bit i * bits, the lowest bits of a byte first."""
    lowest_first = np.unpackbits(memory, bitorder="little")[: count * bits].reshape(count, bits)
    weights: Array = 1 << np.arange(bits)
    codes: Array = lowest_first @ weights
    return codes


def whole_byte_slice(draw: Any, count: int, bits: int) -> slice:
    """A slice that begins on a whole byte."""
    per = math.lcm(8, bits) // bits
    start = draw(st.integers(0, count // per - 1)) * per
    step = draw(st.sampled_from([1, 1, 1, 2, 3, 5, -1, -1, -2, -3]))
    stop = draw(st.integers(start, count)) if step > 0 else draw(st.integers(-1, start - 1))
    return slice(start, None if stop < 0 else stop, step)


@hypothesis.settings(max_examples=300)
@hypothesis.given(st.data(), st.sampled_from([*PACKED]), st.sampled_from([*PACKED]), SEEDS)
def test_packed_to_packed(data: st.DataObject, source: str, name: str, seed: int) -> None:
    random = np.random.default_rng(seed)
    if data.draw(st.booleans()):
        name = source
    count = 960
    memories = [strided.noise(random, count * PACKED[one] // 8) for one in (source, name)]
    tensors = [
        candle.asarray(memory, copy=False).view(one)
        for memory, one in zip(memories, (source, name), strict=True)
    ]
    codes = [
        packed_codes(memory, PACKED[one], count)
        for memory, one in zip(memories, (source, name), strict=True)
    ]
    here, there = (whole_byte_slice(data.draw, count, PACKED[one]) for one in (source, name))
    length = min(len(range(*one.indices(count))) for one in (here, there))
    if length == 0:
        return
    tensors[1][there][:length].copy_(tensors[0][here][:length])

    moved = codes[0][here][:length]
    if source != name:
        elements = rounding.every_code(source)[moved]
        moved = np.array([code or 0 for code in rounding.expected(elements, name)])
    wanted = codes[1].copy()
    wanted[there][:length] = moved
    np.testing.assert_array_equal(packed_codes(memories[1], PACKED[name], count), wanted)
    np.testing.assert_array_equal(packed_codes(memories[0], PACKED[source], count), codes[0])


@hypothesis.settings(max_examples=100)
@hypothesis.given(st.data(), st.sampled_from([*PACKED]), st.sampled_from(rounding.NAMES), SEEDS)
def test_packed_and_whole(data: st.DataObject, packed: str, name: str, seed: int) -> None:
    count, bits = 960, PACKED[packed]
    memory = strided.noise(np.random.default_rng(seed), count * bits // 8)
    part = whole_byte_slice(data.draw, count, bits)
    tensor = candle.asarray(memory, copy=False).view(packed)
    index = packed_codes(memory, bits, count)[part]  # the pool has every code at its own place
    whole = candle.empty(index.shape, dtype=name)
    whole.copy_(tensor[part])
    strided.check_cast(index, strided.array_of(whole), packed, name)


# Sizes at which work is cut into tiles and shared among threads; test_environment runs all of these
# again.


def move(source: Layout, target: Layout, random: np.random.Generator) -> None:
    """Copy random items, and compare the whole memory with what numpy makes of it."""
    size = source.item
    memory, read = strided.noise(random, target.size), strided.noise(random, source.size)
    want = memory.copy()
    target.opaque(want)[...] = source.opaque(read)
    to = candle.asarray(target.of(memory, ITEMS[size]), copy=False)
    to.copy_(candle.asarray(source.of(read, ITEMS[size]), copy=False))
    if memory.tobytes() != want.tobytes():
        bad = np.argwhere(target.opaque(memory) != target.opaque(want))
        raise AssertionError(f"{source} to {target}: wrong at {bad[:3].tolist()} ({len(bad)})")


def padded(rows: int, columns: int, leading: int, item: int) -> Layout:
    """A matrix whose rows begin `leading` items apart."""
    return Layout((rows, columns), (leading * item, item), item)


def turned(layout: Layout) -> Layout:
    return Layout(layout.shape[::-1], layout.strides[::-1], layout.item)


LARGE = shapes(most=1 << 18, axes=5)


@hypothesis.settings(max_examples=100)
@hypothesis.given(st.data(), st.sampled_from([*ITEMS]), LARGE, SEEDS)
def test_large_layouts(data: st.DataObject, size: int, shape: tuple[int, ...], seed: int) -> None:
    source = data.draw(layouts(shape, size, unit=size, zeros=True))
    move(source, data.draw(layouts(shape, size, unit=size)), np.random.default_rng(seed))


@hypothesis.settings(max_examples=60)
@hypothesis.given(st.data(), PAIR, LARGE)
def test_large_layouts_of_any_dtypes(
    data: st.DataObject, pair: tuple[str, str], shape: tuple[int, ...]
) -> None:
    check_any_layouts(data.draw, pair, shape)


@by_item
def test_large_transposes_of_every_small_extent(size: int) -> None:
    random = np.random.default_rng(size)
    for rows, columns in itertools.product(AT_EDGES, AT_EDGES):
        gaps = random.choice([0, 0, 1, 3, 64], 2)
        source = padded(rows, columns, columns + int(gaps[0]), size)
        target = padded(columns, rows, rows + int(gaps[1]), size)
        if random.random() < 0.3:
            target.strides = (target.strides[0], -target.strides[1])
            target.__post_init__()
        move(turned(source), target, random)


@by_item
@pytest.mark.parametrize(
    ("rows", "columns"), [(1024, 1024), (1023, 1025), (3, 300_001), (300_001, 3), (17, 65_537)]
)
def test_large_transposes(size: int, rows: int, columns: int) -> None:
    random = np.random.default_rng(size)
    rows = max(rows * 4 // size, 1) if rows > 1000 else rows
    columns = max(columns * 4 // size, 1) if columns > rows else columns
    move(turned(padded(rows, columns, columns, size)), padded(columns, rows, rows, size), random)


@by_item
def test_large_power_of_two_steps(size: int) -> None:
    random = np.random.default_rng(size)
    for rows, columns, leading in ((257, 63, 4096), (1000, 33, 1024), (65, 129, 8192)):
        source = padded(rows, columns, leading, size)
        move(turned(source), padded(columns, rows, 1 << rows.bit_length(), size), random)
        move(source, padded(rows, columns, columns, size), random)
        move(padded(rows, columns, columns, size), source, random)


@by_item
def test_large_permutations(size: int) -> None:
    random = np.random.default_rng(size)
    for shape in ((5, 31, 17, 65), (2, 3, 33, 7, 63), (64, 2, 32, 32), (1, 257, 3, 63)):
        source = compact(shape, size)
        orders = list(itertools.permutations(range(len(shape))))
        for at in random.choice(len(orders), 6, replace=False):
            move(source, compact(shape, size, orders[at]), random)


@by_item
def test_large_steps_and_directions(size: int) -> None:
    random = np.random.default_rng(size)
    count = 2_000_003 // size
    dense = compact((count,), size)
    for step in (2, 3, -1, -2, 5):
        move(Layout((count,), (step * size,), size), dense, random)
        move(dense, Layout((count,), (step * size,), size), random)
    move(Layout((count,), (0,), size), dense, random)
    rows = count // 257
    for strides in ((0, size), (size, 0), (-257 * size, size), (257 * size, -size)):
        move(Layout((rows, 257), strides, size), compact((rows, 257), size), random)


@by_item
def test_large_and_small_runs_of_every_length(size: int) -> None:
    random = np.random.default_rng(size)
    dtype = np.dtype({1: "u1", 2: "u2", 4: "f4", 8: "f8", 16: "c16"}[size])
    items = strided.noise(random, 2 * 530 * size).view(dtype)
    shared, foreign = candle.asarray(items), items.byteswap().view(dtype.newbyteorder())
    for length in range(530):
        for step in (1, 2, -1, -2):
            begin = length % 7 if step > 0 else 2 * 529 - length % 7
            stop = begin + length * step
            part = slice(begin, None if stop < 0 else stop, step)
            want = items[part].tobytes()
            assert shared[part].copy().numpy().tobytes() == want, part
            assert candle.asarray(foreign[part]).numpy().tobytes() == want, part


@pytest.mark.parametrize("size", [1, 4, 16])
def test_large_runs(size: int) -> None:
    random = np.random.default_rng(size)
    for count in (1 << 20, (1 << 20) + 1, 3_000_017):
        move(compact((count // size,), size), compact((count // size,), size), random)


LARGE_CASTS = [
    ("float32", "float16"),
    ("float16", "float32"),
    ("float32", "bfloat16"),
    ("bfloat16", "float32"),
    ("float64", "float32"),
    ("float32", "float64"),
    ("float64", "bfloat16"),
    ("int64", "float32"),
    ("int64", "int32"),
    ("uint8", "float32"),
    ("float32", "uint8"),
    ("float32", "float8_e4m3fn"),
    ("float8_e5m2", "float16"),
    ("bool", "float32"),
    ("float32", "bool"),
    ("float32", "complex64"),
    ("complex64", "complex128"),
    ("int4", "float32"),
]


@pytest.mark.parametrize("source", rounding.NAMES)
def test_large_casts_in_runs_of_every_length(source: str) -> None:
    random = np.random.default_rng(1)
    dtype = rounding.numpy_dtype(source)
    index = random.integers(0, POOL, 1400)
    array = strided.pool(source)[index]
    tensor = strided.share(array)
    spread = strided.share(np.repeat(array, 2))[::2]
    for name in [target for one, target in PAIRS if one == source]:
        whole = candle.empty((1400,), dtype=name) if name not in PACKED else None
        lengths = range(300) if (source, name) in LARGE_CASTS else random.integers(0, 300, 24)
        for begin, length in ((0, 1400), *((n % 41, n) for n in lengths)):
            part = slice(begin, begin + int(length))
            for side in (tensor, spread):
                if whole is None:
                    fresh = side[part].to(name, copy=True)
                    strided.check_cast(index[part], strided.array_of(fresh), source, name)
                    continue
                result = strided.array_of(whole)
                result.view(np.uint8)[...] = 0xA5
                whole[part].copy_(side[part])
                strided.check_cast(index[part], result[part], source, name)
                rest = np.delete(result, part).view(np.uint8)
                assert (rest == 0xA5).all(), (name, part)
        backwards = tensor[::-1].to(name, copy=True)
        strided.check_cast(index[::-1], strided.array_of(backwards), source, name)
    assert array.dtype == dtype


@pytest.mark.parametrize(("source", "name"), LARGE_CASTS)
def test_large_casts(source: str, name: str) -> None:
    random = np.random.default_rng(2)
    rows, columns = 515, 1031
    index = random.integers(0, POOL, (rows, columns))
    array = strided.pool(source)[index]
    tensor = strided.share(array)
    target = candle.empty((rows, columns), dtype=name)
    target.copy_(tensor)
    strided.check_cast(index, strided.array_of(target), source, name)
    for view in (np.s_[:, ::2], np.s_[::-1, ::-3], np.s_[1:, 5:]):
        fresh = tensor[view].to(name, copy=True)
        strided.check_cast(index[view], strided.array_of(fresh), source, name)
    if strided.can_be_foreign(source):
        foreign = array.byteswap().view(array.dtype.newbyteorder())
        fresh = candle.asarray(foreign.T, dtype=name)
        strided.check_cast(index.T, strided.array_of(fresh), source, name)


@pytest.mark.parametrize(("source", "name"), LARGE_CASTS)
def test_large_transposed_casts(source: str, name: str) -> None:
    random = np.random.default_rng(3)
    for rows, columns in ((1, 1), (3, 7), (17, 15), (31, 65), (63, 257), (512, 1024), (1023, 517)):
        index = random.integers(0, POOL, (rows, columns))
        tensor = strided.share(strided.pool(source)[index])
        target = candle.empty((columns, rows), dtype=name)
        target.copy_(tensor.T)
        strided.check_cast(index.T, strided.array_of(target), source, name)
        channels = strided.share(strided.pool(source)[index].reshape(rows, columns, 1))
        first = channels.broadcast_to((rows, columns, 3)).permute(2, 0, 1).to(name, copy=True)
        strided.check_cast(
            np.broadcast_to(index, (3, rows, columns)), strided.array_of(first), source, name
        )


@by_item
def test_large_byte_swaps(size: int) -> None:
    random = np.random.default_rng(4)
    dtype = np.dtype({1: "u1", 2: "u2", 4: "f4", 8: "c8", 16: "c16"}[size])
    native = strided.noise(random, 515 * 1031 * size).view(dtype).reshape(515, 1031)
    foreign = native.byteswap().view(dtype.newbyteorder())
    for view in (np.s_[:], np.s_[::-1, ::2], np.s_[3:, 1:]):
        assert candle.asarray(foreign[view]).numpy().tobytes() == native[view].tobytes()
        assert candle.asarray(foreign[view].T).copy().numpy().tobytes() == native[view].T.tobytes()


@by_item
def test_large_unaligned_sources(size: int) -> None:
    random = np.random.default_rng(5)
    dtype = ITEMS[size]
    rows, columns = 315, 517
    for extra, gap in ((1, 0), (0, 1), (3, 5)):
        layout = Layout((rows, columns), (columns * size + gap, size), size)
        memory = strided.noise(random, layout.size + extra)
        array = layout.of(memory, dtype, extra)
        assert candle.asarray(array).numpy().tobytes() == array.tobytes()
        assert candle.asarray(array.T).copy().numpy().tobytes() == array.T.tobytes()


ENVIRONMENTS: list[dict[str, str]] = [
    {"CANDLE_SIMD": "avx2"},
    {"CANDLE_NUM_THREADS": "1"},
    {"CANDLE_NUM_THREADS": "3"},
    {"CANDLE_SIMD": "baseline", "CANDLE_NUM_THREADS": "3"},
]


@pytest.mark.parametrize("environment", ENVIRONMENTS, ids=lambda one: ",".join(one.values()))
def test_environment(environment: dict[str, str], pytestconfig: pytest.Config) -> None:
    child = children.run_child(
        *("-X", "faulthandler", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "test_large"),
        *("-c", str(pytestconfig.inipath), "--rootdir", str(pytestconfig.rootpath)),
        __file__,
        **environment,
    )
    child.check()


DIGEST = """
import hashlib, numpy as np, strided
digest = hashlib.sha256()
for source, name in strided.PAIRS:
    tensor = strided.share(np.resize(strided.pool(source), (13, 79)))
    for view in (tensor, tensor[:, ::2], tensor.T):
        digest.update(strided.array_of(view.to(name, copy=True)).tobytes())
print(digest.hexdigest())
"""


def test_every_machine_gives_the_same_bits() -> None:
    outputs = {children.in_child(DIGEST, **one).check() for one in ({}, *ENVIRONMENTS)}
    assert len(outputs) == 1


# Memory: the destination, and little more.

PEAK = """
import sys
import numpy as np
import candle

def status(key):
    for line in open("/proc/self/status"):
        if line.startswith(key):
            return int(line.split()[1]) << 10

source, target, turned, how = sys.argv[1:]
source, target = np.dtype(source), np.dtype(target)

def full(dtype, rows, columns):
    array = np.empty((rows, columns), dtype)
    array[...] = 1  # every page of it
    return array

def prepare(size):
    count = size // max(source.itemsize, target.itemsize)
    view = full(source, 1024, count // 1024)
    if turned == "turned":
        view = view.T
    return view, candle.asarray(full(target, *view.shape)) if how == "into" else None

def run(view, into):
    if into is None:
        return candle.asarray(view, dtype=target, copy=True)
    return into.copy_(candle.asarray(view) if view.dtype.isnative else view)

run(*prepare(1 << 22))  # threads, and whatever else is made once
view, into = prepare(1 << 26)
before, hidden = status("VmRSS"), status("VmHWM")
result = run(view, into)
extra = status("VmHWM") - before - (result.nbytes if into is None else 0)
assert result[5, 7].item() == 1
print(hidden - before, extra)
"""
MOVES = {
    "copy": ("f4", "f4", "straight"),
    "transpose": ("f4", "f4", "turned"),
    "transpose of bytes": ("u1", "u1", "turned"),
    "cast": ("f4", "f2", "straight"),
    "widening cast": ("u1", "f4", "straight"),
    "transposed cast": ("f8", "f4", "turned"),
    "byte swap": (">f4", "f4", "straight"),
    "transposed byte swap": (">f8", "f8", "turned"),
    "swapped cast": (">f8", "f4", "straight"),
}
MB = 1 << 20
SLACK = MB  # the allocator's: stacks of threads, what it keeps
HUGE_PAGE = 2 * MB  # fresh memory may end in the middle of one


@pytest.mark.parametrize("name", MOVES)
def test_peak_memory_of_fresh_copies(name: str) -> None:
    hidden, extra = map(int, children.in_child(PEAK, *MOVES[name], "fresh").check().split())
    assert hidden < MB, "a peak before the copy hides the one of the copy"
    assert extra < MB + SLACK + HUGE_PAGE


@pytest.mark.parametrize("name", MOVES)
def test_peak_memory_of_copies_into_a_tensor(name: str) -> None:
    hidden, extra = map(int, children.in_child(PEAK, *MOVES[name], "into").check().split())
    assert hidden < MB, "a peak before the copy hides the one of the copy"
    assert extra < MB + SLACK


@pytest.mark.parametrize("typestr", ["<u2", ">u2", "<f4", ">f8", "u1"])
def test_axes_that_step_alike(typestr: str) -> None:
    """Overlapping sources, whose axes have one step or multiples of it, in either direction."""
    memory = np.arange(4096, dtype="u1")
    steps = (0, 8, -8, 16, 40, -40, 64)
    for strides in itertools.product(steps, repeat=3):
        x: Any = np.ndarray((3, 2, 4), typestr, memory, 2048, strides)
        for source in (x, x.transpose(1, 2, 0)):
            t = candle.asarray(source, copy=True)
            assert t.numpy().tobytes() == source.astype(source.dtype.newbyteorder("=")).tobytes()
            cast = candle.asarray(source, dtype="float32").numpy()
            with np.errstate(all="ignore"):
                np.testing.assert_array_equal(cast, source.astype("f4"))
