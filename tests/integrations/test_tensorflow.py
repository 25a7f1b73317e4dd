"""tensorflow: its functions take Tensors, aligned or not; its tensors come in read-only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import candle

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.isolated(together="file")

DTYPES = (
    "bool",
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "bfloat16", "complex64", "complex128"),
)


def address(x: Any) -> int:
    return int(candle.Tensor(x).data_ptr())


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes(tf: Any, dtype: str) -> None:
    t = candle.Tensor([[0, 1], [1, 0]], dtype=dtype)
    x = tf.convert_to_tensor(t)
    assert (x.dtype.name, address(x)) == (dtype, t.data_ptr())
    back = candle.Tensor(x)
    assert (back.dtype, back.readonly, back.tolist()) == (t.dtype, True, t.tolist())


def test_functions_and_operators(tf: Any, t: candle.Tensor) -> None:
    assert np.array_equal(tf.add(t, 1.0), t.numpy() + 1)
    assert np.array_equal(tf.ones((4, 6)) * t, t.numpy())
    assert np.array_equal(t * tf.ones((4, 6)), t.numpy())
    assert np.array_equal(tf.concat([t, t], 0), np.concatenate([t.numpy()] * 2))
    assert np.array_equal(tf.function(lambda a: a + 1)(t), t.numpy() + 1)
    assert tf.keras.layers.Dense(2)(t).shape == (4, 2)
    [first, *_] = tf.data.Dataset.from_tensor_slices(t)
    assert first.numpy().tolist() == t[0].tolist()


UNFIT: dict[str, tuple[Callable[[candle.Tensor], candle.Tensor], str]] = {
    "misaligned": (lambda t: t.flatten()[1:], "alignment"),
    "transposed": (lambda t: t.T, "order"),
    "stepped": (lambda t: t[:, ::2], "order"),
    "reversed": (lambda t: t[::-1], "order"),
    "repeated": (lambda t: t[0].broadcast_to((3, 6)), "order"),
}


@pytest.mark.parametrize("case", UNFIT)
def test_copied_once_into_what_it_needs(tf: Any, t: candle.Tensor, case: str) -> None:
    """An operation on memory that is not aligned would end this process."""
    make, code = UNFIT[case]
    source = make(t)
    for given in (tf.convert_to_tensor, lambda s: candle.convert(s, "tensorflow")):
        with candle.trace() as moves:
            x = given(source)
        assert np.array_equal(tf.negative(x), -source.numpy())
        assert [move.action for move in moves if move.consumer == "tensorflow"] == ["copy"]
    plan = candle.explain(source, "tensorflow")
    assert (plan.action, plan.reasons[0].code) == ("copy", code)
    with pytest.raises(candle.CopyError):
        candle.convert(source, "tensorflow", copy=False)
    with candle.strict(), pytest.raises(candle.CopyError):
        tf.convert_to_tensor(source)


def test_shares_read_only_and_never_writes(tf: Any, frozen: candle.Tensor) -> None:
    with candle.strict():
        x = tf.convert_to_tensor(frozen)
    assert address(x) == frozen.data_ptr()
    variable = tf.Variable(x)
    del x
    variable.assign_add(tf.ones(4))
    grown = tf.function(lambda a: tf.tensor_scatter_nd_add(a, [[0]], [9.0]))(frozen)
    assert grown.numpy().tolist() == [9, 1, 2, 3]
    assert frozen.tolist() == [0, 1, 2, 3]


def test_no_dtype_is_changed_unasked(tf: Any, t: candle.Tensor) -> None:
    with pytest.raises(ValueError, match=r"float64 is wanted.*float32"):
        tf.convert_to_tensor(t, dtype=tf.float64)
    assert tf.convert_to_tensor(t, dtype=tf.float32).dtype == tf.float32
    with pytest.raises((ValueError, TypeError, tf.errors.InvalidArgumentError)):
        tf.ones((4, 6), "int32") + t


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2", "int4"])
def test_dtypes_that_its_dlpack_lacks(tf: Any, dtype: str) -> None:
    t = candle.Tensor([0, 1], dtype=dtype)
    assert tf.convert_to_tensor(t).dtype.name == dtype
    with pytest.raises(BufferError, match=f"tensorflow has no {dtype}"):
        candle.convert(t, "tensorflow")
    back = candle.Tensor(
        tf.cast(tf.constant([0, 1], "int8" if dtype == "int4" else "float32"), dtype)
    )
    assert (back.dtype, back.tolist()) == (dtype, [0, 1])


@pytest.mark.parametrize("dtype", ["complex32", "float8_e8m0fnu", "float6_e2m3fn"])
def test_dtypes_that_it_lacks(tf: Any, dtype: str) -> None:
    t = candle.ones(2, dtype=dtype)
    for move in (tf.convert_to_tensor, tf.abs):
        with pytest.raises(ValueError, match=rf"tensorflow has no {dtype}: convert first"):
            move(t)


def test_convert_trees(tf: Any, t: candle.Tensor) -> None:
    tree = {"a": t, "b": [np.ones(3), tf.ones(2)]}
    given = candle.convert(tree, "tensorflow")
    assert given["b"][1] is tree["b"][1]
    assert isinstance(given["b"][0], tf.Tensor)
    assert address(given["a"]) == t.data_ptr()
    back = candle.convert(given, "numpy")
    assert back["a"].tolist() == t.tolist()


def test_accepts(tf: Any, t: candle.Tensor) -> None:
    @candle.accepts("tensorflow")
    def doubled(x: Any) -> Any:
        assert isinstance(x, tf.Tensor)
        return x * 2

    result = doubled(t)
    assert type(result) is candle.Tensor
    assert result.tolist() == (t.numpy() * 2).tolist()
    assert isinstance(doubled(t.numpy()), np.ndarray)


def test_empty_and_scalars(tf: Any) -> None:
    assert tf.convert_to_tensor(candle.zeros((0, 3))).shape == (0, 3)
    assert tf.convert_to_tensor(candle.Tensor(2.5)).numpy() == 2.5
    assert candle.Tensor(tf.zeros((0, 3))).shape == (0, 3)
    assert candle.Tensor(tf.constant(2.5)).item() == 2.5


def test_what_is_no_plain_tensor(tf: Any) -> None:
    assert candle.Tensor(tf.Variable([1.0, 2.0])).tolist() == [1, 2]
    with pytest.raises(BufferError, match="string has no numbers"):
        candle.Tensor(tf.constant(["a"]))
    with pytest.raises(ValueError, match="different shapes"):
        candle.Tensor(tf.ragged.constant([[1], [1, 2]]))
    sparse = tf.sparse.from_dense([[1, 0]]), tf.IndexedSlices(tf.ones(2), tf.constant([0, 1]))
    for x in sparse:
        with pytest.raises(BufferError, match=f"{type(x).__name__}.*only some elements"):
            candle.Tensor(x)
    with pytest.raises(BufferError, match="quantised"):
        candle.Tensor(tf.quantization.quantize(tf.constant([1.0]), 0.0, 4.0, tf.qint8).output)
    with pytest.raises(BufferError, match=r"tf\.function, and has no memory"):
        tf.function(candle.Tensor, autograph=False)(tf.ones(2))


def test_the_hazard_is_told(tf: Any) -> None:
    from candle import frameworks
    from candle.testing.trial import trial

    [told] = frameworks.hazards("tensorflow", trial)
    assert "SIGABRT" in told


def test_examples(tf: Any) -> None:
    """What the doctor tries."""
    from candle import frameworks

    made = frameworks.examples("tensorflow")
    assert candle.asarray(made["tensorflow"]).tolist() == [[0.0] * 6] * 4


def test_hazard_that_a_version_has_not(tf: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from candle import frameworks

    own = tf.zeros(1)
    monkeypatch.setattr(tf.experimental.dlpack, "from_dlpack", lambda capsule: own)
    assert frameworks.hazards("tensorflow", lambda do: do()) == []
