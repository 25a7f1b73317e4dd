"""The standard's functions on CUDA devices: who is called, over whose memory, and where.

cupy's kernels are numpy's here, behind the real array-api-compat.
"""

from __future__ import annotations

import gc
import warnings
from typing import TYPE_CHECKING, Any

import isolation
import numpy as np
import pytest

import candle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fake_driver import Driver

pytest.importorskip("array_api_compat")
pytestmark = pytest.mark.isolated(together="file")


@pytest.fixture
def cupy(driver: Driver | None) -> Iterator[Any]:
    """The module, installed; None in the parent process."""
    if not isolation.is_child():
        yield None
        return
    import fake_cupy

    yield fake_cupy.install()
    driver.drain()
    gc.collect()


UNARY = """
    abs acos acosh asin asinh atan atanh ceil conj cos cosh exp expm1 floor imag isfinite isinf
    isnan log log1p log2 log10 negative positive real reciprocal round sign signbit sin sinh square
    sqrt tan tanh trunc logical_not
""".split()  # noqa: SIM905
BINARY = """
    add atan2 copysign divide equal floor_divide greater greater_equal hypot less less_equal
    logaddexp logical_and logical_or logical_xor maximum minimum multiply nextafter not_equal pow
    remainder subtract matmul vecdot tensordot
""".split()  # noqa: SIM905
REDUCTIONS = """
    all any argmax argmin count_nonzero max mean min prod std sum var sort argsort flip
    cumulative_sum cumulative_prod diff
""".split()  # noqa: SIM905
LINALG = """
    cholesky det diagonal eigh eigvalsh inv matrix_norm matrix_rank matrix_transpose pinv qr slogdet
    svd svdvals trace vector_norm
""".split()  # noqa: SIM905
FFT = "fft fftn fftshift hfft ifft ifftn ifftshift ihfft irfft irfftn rfft rfftn".split()  # noqa: SIM905

# x, y: float32, (3, 3), x symmetric and positive; i: int64, (3,); m: bool, (3, 3).
CALLS: dict[str, Callable[[Any, Any, Any, Any, Any], Any]] = {
    **{n: lambda xp, x, y, i, m, n=n: getattr(xp, n)(x) for n in UNARY},
    **{n: lambda xp, x, y, i, m, n=n: getattr(xp, n)(x, y) for n in BINARY},
    **{n: lambda xp, x, y, i, m, n=n: getattr(xp, n)(x, axis=0) for n in REDUCTIONS},
    **{f"linalg.{n}": lambda xp, x, y, i, m, n=n: getattr(xp.linalg, n)(x) for n in LINALG},
    **{f"fft.{n}": lambda xp, x, y, i, m, n=n: getattr(xp.fft, n)(x) for n in FFT},
    "bits": lambda xp, x, y, i, m: (
        (xp.bitwise_and(i, i), xp.bitwise_or(i, i), xp.bitwise_xor(i, i), xp.bitwise_invert(i)),
        (xp.bitwise_left_shift(i, i), xp.bitwise_right_shift(i, i)),
    ),
    "numbers": lambda xp, x, y, i, m: (xp.add(x, 2), xp.multiply(0.5, x), xp.where(m, x, 0.0)),
    "sum of all": lambda xp, x, y, i, m: xp.sum(x),
    "sum in float64": lambda xp, x, y, i, m: xp.sum(x, dtype=xp.float64, keepdims=True),
    "axes": lambda xp, x, y, i, m: (xp.mean(x, axis=(0, 1)), xp.std(x, correction=1)),
    "reshape": lambda xp, x, y, i, m: xp.reshape(x, (9,)),
    "permute_dims": lambda xp, x, y, i, m: xp.permute_dims(x, (1, 0)),
    "expand_dims": lambda xp, x, y, i, m: xp.squeeze(xp.expand_dims(x, axis=0), axis=0),
    "moveaxis": lambda xp, x, y, i, m: xp.moveaxis(x, 0, 1),
    "broadcast_to": lambda xp, x, y, i, m: xp.broadcast_to(i, (2, 3)),
    "broadcast_arrays": lambda xp, x, y, i, m: xp.broadcast_arrays(x, i),
    "concat": lambda xp, x, y, i, m: xp.concat([x, y], axis=0),
    "stack": lambda xp, x, y, i, m: xp.stack((x, y), axis=-1),
    "unstack": lambda xp, x, y, i, m: xp.unstack(x),
    "tile": lambda xp, x, y, i, m: (xp.tile(x, (2, 1)), xp.repeat(x, 2, axis=0), xp.roll(x, 1)),
    "take": lambda xp, x, y, i, m: xp.take(x, i, axis=0),
    "take_along_axis": lambda xp, x, y, i, m: xp.take_along_axis(x, i[None], axis=0),
    "searchsorted": lambda xp, x, y, i, m: xp.searchsorted(xp.sort(x[0]), x[1]),
    "isin": lambda xp, x, y, i, m: xp.isin(x, y),
    "tril": lambda xp, x, y, i, m: (xp.tril(x), xp.triu(x)),
    "meshgrid": lambda xp, x, y, i, m: xp.meshgrid(i, i),
    "astype": lambda xp, x, y, i, m: (xp.astype(x, xp.float64), xp.astype(x, xp.int32)),
    "likes": lambda xp, x, y, i, m: (xp.zeros_like(x), xp.ones_like(x), xp.full_like(x, 2)),
    "solve": lambda xp, x, y, i, m: xp.linalg.solve(x, y),
    "outer": lambda xp, x, y, i, m: (xp.linalg.outer(i, i), xp.linalg.cross(x, y)),
    "methods": lambda xp, x, y, i, m: (x.sum(0), x.max(), x.mean(1), x.argmin(), x.std(), m.any()),
    "more methods": lambda xp, x, y, i, m: (x.matmul(y), x.prod(), x.var(0), m.all(1)),
    "operators": lambda xp, x, y, i, m: (
        (x + y, x - 1, 2 * x, x / y, x // y, x % y, x**2, x @ y, 1 - x, 2**x),
        (i & 1, i | i, i ^ i, i << 1, i >> 1, ~i, -x, +x, abs(x), ~m, m & m),
        (x < y, x <= 1, x > y, x >= 1, x == y, x != 1),
        divmod(x, y),
    ),
    "arrays of ints": lambda xp, x, y, i, m: (x[i], x[:, i], x[[2, 0]], x[i, i]),
    "hf": lambda xp, x, y, i, m: (
        (x.broadcast_div(y), x.sum_keepdim(0), x.argmax_keepdim(1), x.max_keepdim(0)),
        (x.index_select(i, 0), x.gather(i[None], 0), m.where_cond(x, y), x.powf(2.0)),
        (x.sqr(), x.recip(), x.sum_all(), x.mean_all(), x.t()),
    ),
}
# What has as many elements as the values say: the host waits for them, in cupy too.
WAITING: dict[str, Callable[[Any, Any, Any, Any, Any], Any]] = {
    "nonzero": lambda xp, x, y, i, m: xp.nonzero(m),
    "unique_values": lambda xp, x, y, i, m: xp.unique_values(x),
    "unique_all": lambda xp, x, y, i, m: xp.unique_all(i),
    "mask": lambda xp, x, y, i, m: x[m],
    # array-api-compat's picks with masks.
    "clip": lambda xp, x, y, i, m: (xp.clip(x, 1, 3), xp.clip(x, max=y), x.clip(1, 2)),
}


def host(device: str | None = None) -> tuple[candle.Tensor, ...]:
    a = np.array([[4, 1, 0.5], [1, 3, 0.25], [0.5, 0.25, 2]], "float32")
    arrays = (a, a[::-1].copy() + 0.5, np.array([2, 0, 1]), a > 0.5)
    return tuple(candle.asarray(array) for array in arrays)


def leaves(x: Any) -> list[Any]:
    return [leaf for item in x for leaf in leaves(item)] if isinstance(x, tuple | list) else [x]


def on_device(cupy: Any, device: int, stream: Any = None) -> tuple[list[Any], list[candle.Tensor]]:
    with cupy.cuda.Device(device):
        arrays = [cupy.asarray(t.numpy()) for t in host()]
    return arrays, [candle.from_dlpack(array) for array in arrays]


def check(cupy: Any, driver: Driver, calls: dict[str, Any], waits: bool) -> None:
    xp = candle.zeros(1).__array_namespace__()
    wrong = []
    for device in (0, 1):
        kept, operands = on_device(cupy, device)
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for name, call in calls.items():
                want = leaves(call(xp, *host()))
                driver.trace()
                before = driver.counters()
                with candle.strict():
                    found = leaves(call(xp, *operands))
                after = driver.counters()
                called = {c.name for c in driver.trace()}
                waited = after.host_syncs - before.host_syncs
                if bool(waited) is not waits:
                    wrong.append(f"{name}: the host waited {waited} times")
                if any("DtoH" in function for function in called):
                    wrong.append(f"{name}: came back to the host: {called}")
                for got, expected in zip(found, want, strict=True):
                    if type(got) is not candle.Tensor or got.device != f"cuda:{device}":
                        wrong.append(f"{name}: {got!r}")
                        continue
                    back = got.to("cpu")
                    if back.dtype != expected.dtype or not np.allclose(
                        back.numpy(), expected.numpy(), equal_nan=True
                    ):
                        wrong.append(f"{name}: {back} instead of {expected}")
        assert [
            (x == y.numpy()).all() for x, y in zip([a.get() for a in kept], host(), strict=True)
        ]
    assert not wrong, "\n".join(wrong)


def test_every_function_runs_where_the_memory_is(cupy: Any, driver: Driver) -> None:
    check(cupy, driver, CALLS, waits=False)


def test_functions_that_have_to_wait(cupy: Any, driver: Driver) -> None:
    check(cupy, driver, WAITING, waits=True)


def test_functions_wait_for_what_is_queued(cupy: Any, driver: Driver) -> None:
    xp = candle.zeros(1).__array_namespace__()
    for device in (0, 1):
        with cupy.cuda.Device(device):
            with cupy.cuda.Stream(non_blocking=True):
                x = cupy.asarray(np.zeros(4, "float32"))
                x.fill(5)  # queued, and held back
                t = candle.from_dlpack(x)
            with cupy.cuda.Stream(non_blocking=True):
                total = xp.sum(xp.square(t))
                t += 1
        assert total.to("cpu").item() == 100
        assert x.get().tolist() == [6] * 4


def test_assignment_through_masks_and_ints(cupy: Any, driver: Driver) -> None:
    for device in (0, 1):
        [x, *_], [t, _, ints, mask] = on_device(cupy, device)
        want = host()[0]
        with candle.strict():  # an assignment asks for its copies
            for value in (7, candle.tensor([1.5, 2.5, 3.5]), t[0] + 1):
                t[mask] = 0
                t[ints] = value
                want[host()[3]] = 0
                want[[2, 0, 1]] = value.to("cpu") if isinstance(value, candle.Tensor) else value
                assert x.get().tolist() == want.tolist()
            with pytest.raises(TypeError):
                t[mask] = None


def test_functions_of_numpy_write_where_they_are_told(cupy: Any, driver: Driver) -> None:
    for device in (0, 1):
        _, [t, y, *_] = on_device(cupy, device)
        out = candle.zeros_like(t)
        assert out.device == f"cuda:{device}"
        with candle.strict():
            assert np.add(t, y, out=out) is out
            assert np.concatenate([t, y]).device == out.device
            assert type(np.linalg.inv(t)) is candle.Tensor
        assert out.to("cpu").tolist() == (host()[0] + host()[1]).tolist()


def test_nobody_to_compute(driver: Driver) -> None:
    from candle.cuda import provider

    memory = driver.alloc(16, 1)
    from owned_capsules import owned_capsule

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(provider, "_loaded", {"cupy": None, "torch": None})
        capsule = owned_capsule(
            memory, lambda: None, shape=(4,), strides=(1,), dtype=(2, 32), device=(2, 1)
        )
        t = candle.from_dlpack(capsule)
        for text in (
            *("t + t", "2 * t", "t == 1", "t.sum()", "t[[0, 1]]", "t.__iadd__(1)", "np.sin(t)"),
            *("np.concatenate([t, t])", "t.__array_namespace__().exp(t)"),
        ):
            with pytest.raises(BufferError, match=r"cupy or torch.*pip install"):
                eval(text, {"t": t, "np": np})
        del t
    driver.free(memory)
