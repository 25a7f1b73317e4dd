"""Frameworks that are not installed here: what is known of their types, by stand-ins for them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

import candle

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.isolated
@pytest.mark.parametrize("rows", [[[1.0, 2.0], [3.0, 4.0]], [[1.0], [2.0, 3.0]]])
def test_sequence_whose_stand_in_is_itself(rows: list[list[float]]) -> None:
    """Such as tensorflow's ragged tensors: no protocol, and rows by `[]`."""

    class Ragged:
        __module__ = "tensorflow.python.ragged"

        def __getitem__(self, i: int) -> Any:
            return candle.Tensor(rows[i])

    if len(rows[0]) == len(rows[1]):
        assert candle.Tensor(Ragged()).tolist() == rows
        assert candle.Tensor([Ragged(), Ragged()]).tolist() == [rows, rows]
    else:
        with pytest.raises(ValueError, match="different shapes"):
            candle.Tensor(Ragged())


def eager(dtype: str, cls: str = "EagerTensor") -> Any:
    """Something that says it is tensorflow's, with a dtype."""
    named = type("DType", (), {"name": dtype})()
    return type(cls, (), {"__module__": "tensorflow.python.framework.ops", "dtype": named})()


@pytest.mark.parametrize(
    ("x", "code"),
    [
        (eager("string"), "text"),
        (eager("qint8"), "quantised"),
        (eager("float32", "SymbolicTensor"), "traced"),
    ],
)
def test_tensorflow_refusals(x: Any, code: str) -> None:
    with pytest.raises(BufferError) as caught:
        candle.Tensor(x)
    assert caught.value.plan.reasons[0].code == code  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["tensorflow", "paddle", "mlx", "warp"])
def test_absent_frameworks(name: str) -> None:
    import importlib.util

    if importlib.util.find_spec(name) is not None:
        pytest.skip("it is installed")
    with pytest.raises(ImportError):
        candle.convert(candle.zeros(2), name)
    assert candle.explain(candle.zeros(2), name).consumer == name


def test_explain_knows_what_they_take() -> None:
    t = candle.zeros((4, 6))
    said = {
        name: [reason.code for reason in candle.explain(x, name).reasons]
        for name, x in {
            "tensorflow": t.T,
            "paddle": t[::-1],
            "mlx": t,
            "warp": t[0, 0],
        }.items()
    }
    assert said == {
        "tensorflow": ["order"],
        "paddle": ["negative_stride"],
        "mlx": ["consumer_copies"],
        "warp": ["axes"],
    }
    assert "as tensorflow takes them" in candle.explain(t.T, "tensorflow").reasons[0].fact
    assert candle.explain(t[:0], "mlx").action == "share"


@pytest.mark.parametrize(
    ("where", "words"),
    [((2, 0), "the tensor is on /device:GPU:0"), ((1, 0), "stream is not supported")],
)
def test_tensorflow_on_a_device_is_refused_by_name(where: tuple[int, int], words: str) -> None:
    """Its `__dlpack__` takes no stream there; on the host its own words are told."""

    class EagerTensor:
        __module__ = "tensorflow.python.framework.ops"
        device = "/device:GPU:0"

        def __dlpack_device__(self) -> tuple[int, int]:
            return where

        def __dlpack__(self, stream: Any = None, **keywords: Any) -> Any:
            raise NotImplementedError("stream is not supported")

    with pytest.raises(BufferError, match=words) as caught:
        candle.Tensor(EagerTensor())
    plan = getattr(caught.value, "plan", None)
    assert (plan is not None and plan.reasons[0].code == "foreign_device") == (where == (2, 0))


@pytest.mark.parametrize(
    ("module", "name"),
    [("builtins", "Tensor"), ("builtins", "QTensor"), ("cupy.cuda.stream", "Stream")],
)
def test_classes_that_only_sound_like_it(module: str, name: str) -> None:
    """HuggingFace candle's types say that they are Python's own; so may others."""
    x = type(name, (), {"__module__": module})()
    with pytest.raises(TypeError, match=name):
        candle.asarray(x)


def test_a_class_that_says_it_is_numpys(in_child: Any) -> None:
    """Where numpy is not loaded: it has to be something else."""
    code = """
        import sys, candle
        x = type("ndarray", (), {"__module__": "numpy"})()
        try:
            candle.asarray(x)
        except TypeError as error:
            print("ndarray" in str(error), "numpy" in sys.modules)
    """
    assert in_child(code).check() == "True False\n"


def test_another_package_in_the_place_of_torch(tmp_path: Path, in_child: Any) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").touch()
    code = """
        import sys
        sys.path.insert(0, sys.argv[1])
        import candle
        from candle import frameworks
        for ask in (candle.zeros(2).torch, lambda: candle.convert([candle.zeros(2)], "torch")):
            try:
                ask()
            except ImportError as error:
                print("not PyTorch" in str(error))
            except AttributeError as error:  # of a name that the package has not
                print("Tensor" in str(error))
        print(frameworks.hazards("torch", lambda do: do()))
    """
    first, second, told = in_child(code, str(tmp_path)).check().splitlines()
    assert (first, second) == ("True", "True")
    assert "is not PyTorch" in told


FAKE = {
    "candle.abi3.so": "",
    "__init__.py": """
import sys, types
for name in ("candle.candle", "candle.odd"):  # as a library makes its own
    sys.modules[name] = types.ModuleType(name)
from . import nn
""",
    "nn.py": "from candle.odd import __name__ as odd\nhere = __name__",
    "onnx.py": "raise ImportError('built without it')",
}


@pytest.mark.parametrize("broken", [False, True])
def test_loading_a_package_of_the_same_name(tmp_path: Path, in_child: Any, broken: bool) -> None:
    """Its modules get the other name; if one fails, nothing of it stays."""
    folder = tmp_path / "candle"
    folder.mkdir()
    for name, text in {**FAKE, **({"worse.py": "1 / 0"} if broken else {})}.items():
        (folder / name).write_text(text)
    code = """
        import sys, candle
        own = candle
        try:
            hf = candle.hf.load(sys.argv[1])
            import hf_candle, hf_candle.nn
            assert hf is hf_candle
            assert sys.modules["hf_candle.odd"].__name__ == "hf_candle.odd"
            assert hf_candle.nn.__spec__.name == "hf_candle.nn"
            assert hf_candle.nn.__package__ == "hf_candle"
            print("loaded")
        except ZeroDivisionError:
            assert not [name for name in sys.modules if name.startswith("hf_candle")]
            print("failed")
        import candle, candle.testing
        assert candle is own and "candle.nn" not in sys.modules
    """
    said = in_child(code, str(tmp_path)).check()
    assert said == ("failed\n" if broken else "loaded\n")


def test_systems_without_memory_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """HuggingFace candle's tensors move through them."""
    from candle.frameworks import hf_candle

    monkeypatch.delattr(os, "memfd_create", raising=False)
    with pytest.raises(OSError, match="save and load a safetensors file instead"):
        hf_candle._memory_file()
