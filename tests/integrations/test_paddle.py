"""paddle: shared in both directions; what its export leaves out is refused."""

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
    *("int8", "int16", "int32", "int64", "uint8", "float16", "float32", "float64", "bfloat16"),
    *("complex64", "complex128", "float8_e4m3fn", "float8_e5m2"),
)


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes(paddle: Any, dtype: str) -> None:
    t = candle.Tensor([[0, 1], [1, 0]], dtype=dtype)
    x = candle.convert(t, "paddle")
    assert (str(x.dtype), x.data_ptr()) == (f"paddle.{dtype}", t.data_ptr())
    back = candle.Tensor(x)
    assert (back.dtype, back.readonly, back.data_ptr()) == (t.dtype, False, t.data_ptr())


def test_writes_are_seen_on_both_sides(paddle: Any, t: candle.Tensor) -> None:
    x = candle.convert(t, "paddle")
    x[0, 0] = 42
    assert t[0, 0].item() == 42
    t[0, 1] = 43
    assert x[0, 1].item() == 43
    y = paddle.zeros([3])
    candle.Tensor(y)[...] = 7
    assert y.tolist() == [7, 7, 7]


VIEWS: dict[str, Callable[[candle.Tensor], candle.Tensor]] = {
    "transposed": lambda t: t.T,
    "stepped": lambda t: t[:, ::2],
    "repeated": lambda t: t[0].broadcast_to((3, 6)),
    "inner": lambda t: t[1:, 2:],
}


@pytest.mark.parametrize("case", VIEWS)
def test_views(paddle: Any, t: candle.Tensor, case: str) -> None:
    view = VIEWS[case](t)
    x = candle.convert(view, "paddle", copy=False)
    address, values = x.data_ptr(), x.tolist()
    assert address == view.data_ptr()
    assert values == view.tolist()


def test_layouts(paddle: Any, t: candle.Tensor) -> None:
    with pytest.raises(candle.CopyError, match="negative strides"):
        candle.convert(t[::-1], "paddle", copy=False)
    assert candle.convert(t[::-1], "paddle").numpy().tolist() == t[::-1].tolist()
    assert list(candle.convert(candle.zeros((0, 3)), "paddle").shape) == [0, 3]
    assert list(candle.convert(candle.zeros(()), "paddle").shape) == []


def test_read_only(paddle: Any, frozen: candle.Tensor) -> None:
    x = candle.convert(frozen, "paddle")
    x[0] = 42
    assert frozen[0].item() == 0
    assert candle.convert(frozen, "paddle", copy=False).data_ptr() == frozen.data_ptr()
    assert candle.explain(frozen, "paddle").reasons[0].code == "read_only"


def test_limits(paddle: Any) -> None:
    with pytest.raises(BufferError, match=r"10 axes, and paddle takes 0 to 9"):
        candle.convert(candle.zeros((1,) * 10), "paddle")
    with pytest.raises(BufferError, match="paddle has no uint16"):
        candle.convert(candle.zeros(2, dtype="uint16"), "paddle")


def test_gradients_and_sparse_tensors_are_refused(paddle: Any) -> None:
    x = paddle.ones([2, 2])
    x.stop_gradient = False
    for given in (x, paddle.create_parameter([2], "float32"), x * 2):
        with pytest.raises(BufferError, match=r"requires grad.*detach"):
            candle.Tensor(given)
    assert candle.Tensor(x.detach()).data_ptr() == x.data_ptr()
    with pytest.raises(BufferError, match=r"some elements.*to_dense"):
        candle.Tensor(paddle.eye(3).to_sparse_coo(2))


@pytest.mark.parametrize("to", ["numpy", "candle", "paddle"])
@pytest.mark.parametrize("copy", [None, False, True])
def test_detached_trees(paddle: Any, to: str, copy: bool | None) -> None:
    x, plain = paddle.ones([2, 2]), paddle.zeros([2])
    x.stop_gradient = False
    given = candle.convert({"x": x, "plain": plain}, to, copy=copy, detach=True)
    back = candle.Tensor(given["x"])
    assert back.tolist() == [[1, 1], [1, 1]]
    assert (back.data_ptr() == x.data_ptr()) == (not copy)
    assert not x.stop_gradient


def test_variables_of_a_static_graph_are_refused(paddle: Any) -> None:
    paddle.enable_static()
    try:
        with paddle.static.program_guard(paddle.static.Program()):
            x = paddle.static.data("x", [2, 3])
            with pytest.raises(BufferError, match=r"static graph.*outside of the function"):
                candle.Tensor(x)
    finally:
        paddle.disable_static()


def test_convert_keeps_views(paddle: Any) -> None:
    """Memory that has to be copied is copied once, and seen by all that showed it."""
    table = np.arange(6.0)
    given = candle.convert({"all": table, "row": table[3:]}, "paddle", copy=True)
    given["all"][3] = 42
    assert given["row"][0].item() == 42
    assert table[3] == 3


def test_hazards(paddle: Any) -> None:
    from candle import frameworks

    told = " ".join(frameworks.hazards("paddle", lambda do: ""))
    assert "READ_ONLY" in told
    assert "uint16" in told


def test_examples(paddle: Any) -> None:
    """What the doctor tries."""
    from candle import frameworks

    made = frameworks.examples("paddle")
    assert candle.asarray(made["paddle"]).tolist() == [[0.0] * 6] * 4
    with pytest.raises(BufferError, match="requires grad"):
        candle.asarray(made["paddle, requires grad"])


def test_hazards_that_a_version_has_not(paddle: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from candle import frameworks

    own = paddle.zeros([1])
    monkeypatch.setattr(paddle, "to_tensor", lambda x: own)
    monkeypatch.setattr(paddle, "from_dlpack", lambda x: own)
    assert frameworks.hazards("paddle", lambda do: do()) == []
