"""jax: immutable on the way in; dense, aligned and never narrowed on the way out."""

from __future__ import annotations

import gc
from typing import Any

import meeting
import numpy as np
import pytest

import candle
from candle.ledger import listening

jax = pytest.importorskip("jax")
jnp = jax.numpy

WIDE = ("float64", "int64", "uint64", "complex128")
BOTH = sorted(meeting.known("jax"))


# --- in ---


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("dtype", BOTH)
def test_arrays_come_in_read_only(dtype: str) -> None:
    x = meeting.make("jax", dtype, "contiguous")
    t = candle.asarray(x)
    assert (str(t.dtype), t.readonly) == (dtype, True)
    assert t.data_ptr() == x.unsafe_buffer_pointer()
    for view in (t[1], t.T, t[::2], t.view("uint8")):
        assert view.readonly
    with pytest.raises(ValueError, match="read-only"):
        t[0, 0] = 0
    fresh = candle.asarray(x, copy=True)
    assert not fresh.readonly
    fresh[...] = fresh.copy()


def test_read_only_towards_numpy_and_jax_is_shared() -> None:
    x = jnp.arange(6, dtype="float32")
    t = candle.asarray(x)
    assert t.numpy().ctypes.data == x.unsafe_buffer_pointer()
    assert not t.numpy().flags.writeable
    assert t.jax(copy=False).unsafe_buffer_pointer() == x.unsafe_buffer_pointer()


@pytest.mark.filterwarnings("ignore::candle.ReadOnlyCopyWarning")
def test_torch_never_writes_into_jax_unasked(framework: Any) -> None:
    framework("torch")
    x = jnp.arange(6, dtype="float32")
    y = candle.asarray(x).torch()
    y[0] = 9
    assert x.tolist() == [0, 1, 2, 3, 4, 5]
    on_the_callers_word = candle.asarray(x).torch(copy=False)
    assert on_the_callers_word.data_ptr() == x.unsafe_buffer_pointer()


@pytest.mark.filterwarnings("ignore::candle.ReadOnlyCopyWarning")
def test_printing_before_or_after_changes_nothing(framework: Any) -> None:
    """jax keeps the values it has shown once."""
    framework("torch")
    for show_first in (False, True):
        x = jnp.asarray(np.arange(4, dtype=np.int32).reshape(2, 2))
        if show_first:
            str(x)
        candle.asarray(x).torch().fill_(7)
        assert x.tolist() == [[0, 1], [2, 3]]
        assert str(x) == "[[0 1]\n [2 3]]"


def test_deleted_arrays_are_refused() -> None:
    x = jnp.arange(3)
    x.delete()
    for take in (candle.asarray, candle.from_dlpack, candle.tensor, lambda x: candle.asarray([x])):
        with pytest.raises(BufferError, match="was deleted"):
            take(x)
    plan = candle.explain(x, "numpy")
    assert (plan.action, plan.reasons[0].code) == ("refuse", "no_memory")


@pytest.mark.parametrize("take", [candle.asarray, candle.from_dlpack, candle.tensor])
@pytest.mark.parametrize("dtype", ["int4", "uint4"])
def test_integers_of_four_bits_come_in_as_a_copy(dtype: str, take: Any) -> None:
    values = [[0, 1, 7], [-8, -1, 3]] if dtype == "int4" else [[0, 1, 15], [8, 9, 3]]
    x = jnp.asarray(values, dtype=dtype)
    copies: list[candle.Plan] = []
    with listening(copies.append):
        t = take(x)
    assert (str(t.dtype), t.tolist(), t.readonly) == (dtype, values, False)
    assert [plan.action for plan in copies] == ["copy"]
    assert "jax" in copies[0].producer
    assert "no_export" in [reason.code for reason in copies[0].reasons]
    wider = candle.from_dlpack(x, dtype="int16")
    assert (str(wider.dtype), wider.tolist()) == ("int16", values)
    assert candle.asarray([x, x]).tolist() == [values, values]
    for empty in (x[:0], x[0, 0]):
        assert take(empty).tolist() == empty.tolist()


def test_what_jax_has_but_does_not_take_is_not_said_to_be_lacking() -> None:
    """By way of numpy it comes, in a copy."""
    for dtype in ("int4", "uint4", "float4_e2m1fn"):
        assert hasattr(jax.numpy, dtype)
        t = candle.tensor([1, 2, 3, 4]).to(dtype)
        with pytest.raises(BufferError, match=f"jax has no {dtype} that it takes as foreign mem"):
            t.jax()
        said = candle.explain(t, "jax").reasons[0].fact
        assert said == f"jax has no {dtype} that it takes as foreign memory"
        assert jax.numpy.asarray(t.numpy()).astype("float32").tolist() == [1, 2, 3, 4]


def test_integers_of_four_bits_are_not_shared() -> None:
    x = jnp.arange(4, dtype="int4")
    for take in (candle.asarray, candle.from_dlpack):
        plan = meeting.refused(take, x, copy=False)
        assert [reason.code for reason in plan.reasons] == ["no_export"]
        assert plan.reasons[0].remedy.startswith("allow the copy, or ")
    x.delete()
    for take in (candle.asarray, candle.from_dlpack, candle.tensor, lambda x: candle.asarray([x])):
        with pytest.raises(BufferError, match="was deleted"):
            take(x)
    plan = candle.explain(x, "numpy")
    assert (plan.action, plan.reasons[0].code) == ("refuse", "no_memory")


@pytest.mark.parametrize("dtype", ["int2", "uint2"])
def test_integers_of_two_bits_are_refused(dtype: str) -> None:
    with pytest.raises(BufferError, match=rf"no {dtype} .*astype"):
        candle.asarray(jnp.zeros(3, dtype=dtype))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["BCOO", "BCSR", "COO", "CSR", "CSC"])
def test_sparse_arrays_are_refused(kind: str) -> None:
    sparse = pytest.importorskip("jax.experimental.sparse")
    x = getattr(sparse, kind).fromdense(jnp.eye(3))
    for take in (candle.asarray, candle.from_dlpack, candle.Tensor, lambda x: candle.asarray([x])):
        with pytest.raises(BufferError, match=rf"jax\.{kind}.*sparse.*todense\(\)"):
            take(x)
    assert candle.asarray(x.todense()).shape == (3, 3)


def test_keys_are_refused() -> None:
    with pytest.raises(BufferError, match="key_data"):
        candle.asarray(jax.random.key(0))


@pytest.mark.parametrize("transform", ["jit", "vmap", "grad"])
def test_tracers_are_refused(transform: str) -> None:
    seen: list[str] = []

    def traced(x: Any) -> Any:
        for take in (candle.asarray, candle.from_dlpack, lambda x: candle.asarray([x])):
            try:
                take(x)
            except BufferError as error:
                seen.append(str(error))
        return x.sum()

    getattr(jax, transform)(traced)(jnp.arange(3.0, dtype="float32"))
    assert len(seen) == 3
    assert all("outside of the function" in text and len(text) < 300 for text in seen), seen
    gc.collect()


def test_memory_outlives_the_array() -> None:
    x = jnp.arange(100_000, dtype="float32")
    t = candle.from_dlpack(x)
    del x
    gc.collect()
    filler = [jnp.full(100_000, 7.0, "float32") for _ in range(20)]
    assert np.array_equal(t.numpy(), np.arange(100_000))
    del filler


# --- out ---


def _misaligned(start: int) -> candle.Tensor:
    return candle.asarray(
        meeting.aligned_bytes(np.arange(16, dtype=np.float32), start=start).view(np.float32)
    )


@pytest.mark.parametrize("start", [0, 4, 16, 32, 64, 128, 192])
def test_alignment_to_64_bytes(start: int, capfd: pytest.CaptureFixture[str]) -> None:
    t = _misaligned(start)
    values = list(range(16))
    y = t.jax()
    assert y.tolist() == values
    if start % 64 == 0:
        assert y.unsafe_buffer_pointer() == t.data_ptr()
        assert t.jax(copy=False).unsafe_buffer_pointer() == t.data_ptr()
    else:
        assert y.unsafe_buffer_pointer() != t.data_ptr()
        plan = meeting.refused(t.jax, copy=False)
        assert [reason.code for reason in plan.reasons] == ["alignment"]
        assert plan.nbytes == 64
        assert "64" in plan.reasons[0].fact
        assert "align" in plan.reasons[0].remedy
        t[0] = 99  # the copy does not see it
        assert y.tolist() == values
    fresh = t.jax(copy=True)
    assert fresh.unsafe_buffer_pointer() != t.data_ptr()
    assert capfd.readouterr() == ("", "")


def test_candles_own_memory_is_always_aligned() -> None:
    for count in range(1, 50):
        t = candle.ones((count,))
        assert t.jax(copy=False).unsafe_buffer_pointer() == t.data_ptr()


@pytest.mark.parametrize(
    ("make", "codes"),
    [
        (lambda t: t[:, ::2], {"not_dense"}),
        (lambda t: t[:, :4], {"not_dense"}),
        (lambda t: t[:1].broadcast_to((3, 8)), {"not_dense"}),
        (lambda t: t[::-1], {"negative_stride"}),
        (lambda t: t[0, 1:], {"alignment"}),
        (lambda t: t[1:, ::2], {"not_dense", "alignment"}),
    ],
)
def test_density(make: Any, codes: set[str]) -> None:
    t = make(candle.arange(48, dtype="float32").reshape((6, 8)))
    assert t.jax().tolist() == t.tolist()
    found = {reason.code for reason in meeting.refused(t.jax, copy=False).reasons}
    assert found >= codes


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2), (0, 2, 1), (2, 0, 1)])
def test_every_order_of_the_axes_is_dense(order: tuple[int, ...]) -> None:
    t = candle.arange(24, dtype="float32").reshape((2, 3, 4)).permute(*order)
    y = t.jax(copy=False)
    assert y.unsafe_buffer_pointer() == t.data_ptr()
    assert y.tolist() == t.tolist()


@pytest.mark.parametrize("shape", [(), (0,), (0, 3), (1,), (1, 1), (1, 5, 1)])
def test_small_shapes(shape: tuple[int, ...]) -> None:
    t = candle.ones(shape)
    y = t.jax(copy=False)
    assert y.shape == shape
    assert t.size == 0 or y.unsafe_buffer_pointer() == t.data_ptr()


@pytest.fixture
def x32() -> Any:
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", False)
    yield
    jax.config.update("jax_enable_x64", before)


@pytest.mark.usefixtures("x32")
@pytest.mark.parametrize("layout", ["contiguous", "stepped", "negative", "0-d"])
@pytest.mark.parametrize("dtype", WIDE)
def test_nothing_is_narrowed(dtype: str, layout: str) -> None:
    """Under every copy=, as no copy puts it right; the message names both ways out."""
    t = meeting.make("candle", dtype, layout)
    for copy in (None, False, True):
        with pytest.raises(BufferError) as caught:
            t.jax(copy=copy)
        assert not isinstance(caught.value, candle.CopyError)
        text = str(caught.value)
        assert "jax_enable_x64" in text
        assert ".to(" in text
        assert dtype in text
        del caught


@pytest.mark.usefixtures("x32")
def test_the_remedies_work() -> None:
    t = candle.arange(4, dtype="float64")
    assert t.to("float32").jax().tolist() == [0, 1, 2, 3]
    jax.config.update("jax_enable_x64", True)
    y = t.jax(copy=False)
    assert (str(y.dtype), y.unsafe_buffer_pointer()) == ("float64", t.data_ptr())


@pytest.mark.usefixtures("x32")
@pytest.mark.parametrize("dtype", [name for name in BOTH if name not in WIDE])
def test_other_dtypes_need_no_x64(dtype: str) -> None:
    t = meeting.make("candle", dtype, "contiguous")
    y = t.jax(copy=False)
    assert (y.dtype.name, y.unsafe_buffer_pointer()) == (dtype, t.data_ptr())
    assert candle.asarray(y).data_ptr() == t.data_ptr()


def test_arrays_hold_the_memory() -> None:
    t = candle.arange(100_000, dtype="float32")
    y, z = t.jax(), jax.dlpack.from_dlpack(t)
    address = t.data_ptr()
    del t
    gc.collect()
    filler = [candle.full((100_000,), 7.0) for _ in range(20)]
    assert y.unsafe_buffer_pointer() == z.unsafe_buffer_pointer() == address
    assert np.array_equal(y, np.arange(100_000))
    assert np.array_equal(z, np.arange(100_000))
    del filler


def test_functions_of_jax_work_on_what_they_get() -> None:
    t = candle.arange(6, dtype="float32").reshape((2, 3))
    assert float(jax.jit(jnp.sum)(t.jax())) == 15
    assert jnp.asarray(t).tolist() == t.tolist()
    assert jax.device_put(t.numpy()).tolist() == t.tolist()
    y = candle.asarray(jnp.exp(t.T.jax()))
    assert y.shape == (3, 2)


def test_standard_door_and_read_only_memory() -> None:
    """A legacy capsule, as jax before 0.12 asks for, cannot say so; jax() needs none to."""
    a = meeting.aligned_bytes(np.arange(16, dtype=np.float32)).view(np.float32)
    a.flags.writeable = False
    t = candle.asarray(a)
    shares = jax.dlpack.from_dlpack(t).unsafe_buffer_pointer() == t.data_ptr()
    assert shares == meeting.jax_asks_for_versions()
    assert t.jax().unsafe_buffer_pointer() == t.data_ptr()
    with pytest.raises(BufferError):
        t.__dlpack__(copy=False)


def test_nothing_is_explained_of_what_jax_itself_says() -> None:
    with pytest.raises(BufferError, match="PRNGKey"):
        candle.asarray(jax.random.key(0))
    assert candle.frameworks.jax._explain(jnp.zeros(3)) is None


def test_arrays_on_several_devices(in_child: Any) -> None:
    """No protocol hands them on: they are refused, and what the refusal says can be done."""
    code = """
        import jax, candle, numpy as np
        from jax.sharding import Mesh, NamedSharding, PartitionSpec

        mesh = Mesh(np.array(jax.devices()), "i")
        assert mesh.size == 2
        for spec, parts in (("i", [[0, 1], [2, 3]]), (None, [[0, 1, 2, 3]] * 2)):
            x = jax.device_put(jax.numpy.arange(4), NamedSharding(mesh, PartitionSpec(spec)))
            for take in (
                candle.asarray,
                candle.from_dlpack,
                candle.tensor,
                lambda x: candle.convert({"x": x}, "numpy"),
                lambda x: candle.asarray([x]),
                lambda x: candle.asarray(x, copy=True),
            ):
                try:
                    take(x)
                except BufferError as error:
                    assert "2 devices" in str(error), error
                    assert "x.addressable_shards[i].data" in str(error), error
                    assert "jax.device_put(x, jax.devices()[0])" in str(error), error
                else:
                    raise AssertionError(take)
            plan = candle.explain(x)
            assert plan.action == "refuse"
            assert "2 devices" in plan.reasons[0].fact, plan
            for i, part in enumerate(parts):
                data = x.addressable_shards[i].data
                assert candle.asarray(data, copy=False).tolist() == part
            whole = jax.device_put(x, jax.devices()[0])
            assert candle.asarray(whole, copy=False).tolist() == [0, 1, 2, 3]
    """
    flags = "--xla_force_host_platform_device_count=2"
    in_child(code, XLA_FLAGS=flags, JAX_PLATFORMS="cpu").check(quiet=False)
