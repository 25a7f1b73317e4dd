"""The containers of other libraries themselves, where they are installed, and tqdm's bar."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

import candle
from candle.testing import shares_memory

FIELD = np.arange(3.0)


def converted(tree: Any, to: str = "candle", **how: Any) -> Any:
    """The tree, converted; seen to be another of its type, with the old one as it was."""
    new = candle.convert(tree, to, **how)
    assert new is not tree
    assert type(new) is type(tree)
    return new


@pytest.mark.parametrize("copy", [None, True])
@pytest.mark.parametrize("slots", [True, False])
@pytest.mark.parametrize("frozen", [True, False])
def test_attrs(copy: bool | None, slots: bool, frozen: bool) -> None:
    attrs = pytest.importorskip("attrs")
    calls = []

    def convert_x(x: Any) -> Any:
        calls.append("converter")
        return np.asarray(x)

    def initialised(self: Any) -> None:
        calls.append("post-init")

    cls = attrs.make_class(
        "Sample",
        {
            "x": attrs.field(
                converter=convert_x, validator=attrs.validators.instance_of(np.ndarray)
            ),
            "_hidden": attrs.field(default=None),
            "later": attrs.field(init=False, default=None),
            "n": attrs.field(default=0, kw_only=True),
        },
        class_body={"__attrs_post_init__": initialised},
        slots=slots,
        frozen=frozen,
    )
    sample = cls(FIELD, [FIELD], n=7)
    before = len(calls)
    new = converted(sample, copy=copy)
    assert len(calls) == before
    assert isinstance(new.x, candle.Tensor)
    assert shares_memory(new.x, new._hidden[0])
    assert shares_memory(new.x, FIELD) == (copy is None)
    assert (new.n, new.later) == (7, None)
    assert sample.x is FIELD


def test_attrs_that_refuse_to_be_set() -> None:
    attrs = pytest.importorskip("attrs")

    @attrs.define(on_setattr=attrs.setters.frozen)
    class Sample:
        x: Any

    @attrs.define
    class Checked:
        x: Any = attrs.field(validator=attrs.validators.instance_of(np.ndarray))

    assert isinstance(converted(Sample(FIELD)).x, candle.Tensor)
    assert isinstance(converted([Checked(FIELD)])[0].x, candle.Tensor)
    child = attrs.evolve(Sample(None), x={"a": Checked(FIELD)})
    assert isinstance(candle.convert(child, "candle").x["a"].x, candle.Tensor)


def test_attrs_through_accepts() -> None:
    attrs = pytest.importorskip("attrs")

    @attrs.frozen
    class Pair:
        a: Any
        b: Any = None

    @candle.accepts("numpy")
    def swapped(pair: Any) -> Any:
        assert isinstance(pair.a, np.ndarray)
        return Pair(pair.b, pair.a + 1)

    result = swapped(Pair(candle.zeros(2)))
    assert type(result) is Pair
    assert result.a is None
    assert isinstance(result.b, candle.Tensor)
    assert result.b.tolist() == [1, 1]


def test_model_output() -> None:
    """Its members are items and attributes."""
    torch = pytest.importorskip("torch")
    outputs = pytest.importorskip("transformers.modeling_outputs")
    made = outputs.CausalLMOutputWithPast(
        logits=torch.ones(2, 3), hidden_states=(torch.ones(1), torch.ones(2))
    )
    new = converted(made, "numpy")
    assert isinstance(new.logits, np.ndarray)
    assert new.logits is new["logits"] is new[0] is new.to_tuple()[0]
    assert new.hidden_states is new["hidden_states"]
    assert [type(x) for x in new.hidden_states] == [np.ndarray] * 2
    assert new.loss is None
    assert list(new) == ["logits", "hidden_states"]
    assert isinstance(made.logits, torch.Tensor)
    back = converted(new, "torch")
    assert back.logits.data_ptr() == made.logits.data_ptr()
    doubled = candle.accepts("numpy")(lambda output: type(output)(logits=output.logits * 2))(made)
    assert type(doubled) is type(made)
    assert doubled.logits.tolist() == [[2, 2, 2]] * 2


def test_batch_encoding() -> None:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    made = transformers.BatchEncoding({"input_ids": torch.ones(1, 2), "lengths": [2]})
    new = converted(made, "numpy")
    assert isinstance(new.input_ids, np.ndarray)
    assert new["input_ids"] is new.input_ids
    assert new["lengths"] == [2]
    assert isinstance(made["input_ids"], torch.Tensor)
    made = transformers.BatchFeature({"pixel_values": FIELD})
    assert isinstance(converted(made, "torch").pixel_values, torch.Tensor)


def test_tensordict() -> None:
    """It makes tensors of what it is given: other frameworks' it cannot hold, and that is told."""
    torch = pytest.importorskip("torch")
    tensordict = pytest.importorskip("tensordict")
    made = tensordict.TensorDict({"a": torch.ones(2, 3), "b": {"c": torch.ones(2)}}, [2])
    new = converted(made, "torch", copy=True)
    assert new["b", "c"].tolist() == [1, 1]
    assert not shares_memory(new["a"], made["a"])
    with pytest.raises(TypeError, match=r"cannot make a TensorDict of other members.*in a dict"):
        candle.convert(made, "numpy")
    plain = candle.convert(made.to_dict(), "numpy")
    assert shares_memory(plain["b"]["c"], made["b", "c"])


def test_results_of_torch_functions() -> None:
    torch = pytest.importorskip("torch")
    new = converted(torch.max(torch.ones(2, 3), 0), "numpy")
    assert isinstance(new.values, np.ndarray)
    assert new.indices.tolist() == [0, 0, 0]


def test_progress_bar(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("tqdm")
    tree = [np.zeros(4), np.zeros(2)]
    candle.convert(tree, "candle", copy=True)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.modules["candle.copies"], "PROGRESS_BYTES", 40)
    candle.convert(tree, "candle")  # shares
    assert capsys.readouterr().err == ""
    new = candle.convert(tree, "candle", copy=True)
    assert [t.shape for t in new] == [(4,), (2,)]
    said = capsys.readouterr().err
    assert "candle.convert: 100%" in said
    assert "48.0/48.0" in said


def test_progress_bar_of_what_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The bar is closed, and the exception passes."""
    tqdm = pytest.importorskip("tqdm")
    monkeypatch.setattr(sys.modules["candle.copies"], "PROGRESS_BYTES", 10)
    tree = [np.zeros(2), np.zeros(3, "complex64")]
    with pytest.raises(BufferError, match=r"complex64 does not become") as caught:
        candle.convert(tree, "candle", dtype="int8")
    assert caught.value.__notes__ == ["this tensor is at tree[1]"]
    assert "candle.convert" in capsys.readouterr().err
    assert not tqdm.tqdm._instances
