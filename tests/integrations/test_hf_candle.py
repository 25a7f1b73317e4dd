"""HuggingFace candle itself, from the folder that CANDLE_HF names (`pip install --target`)."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import isolation
import numpy as np
import pages
import pytest

import candle

if TYPE_CHECKING:
    from collections.abc import Callable

FOLDER = os.environ.get("CANDLE_HF", "")
pytestmark = [
    pytest.mark.isolated(together="file"),
    pytest.mark.skipif(not FOLDER, reason="CANDLE_HF names no folder with candle-nn"),
]

DTYPES = {
    "uint8": "U8",
    "uint32": "U32",
    "int64": "I64",
    "bfloat16": "BF16",
    "float16": "F16",
    "float32": "F32",
    "float64": "F64",
}


@pytest.fixture
def hf() -> Any:
    return candle.hf.load(FOLDER) if isolation.is_child() else None


def extremes(dtype: str) -> candle.Tensor:
    """What a way through Python's numbers, or through float32, would not keep."""
    if dtype in ("uint8", "uint32", "int64"):
        info = np.iinfo(dtype)
        return candle.Tensor(np.array([info.min, info.max, 1, info.max - 1], dtype))
    exact = {"float64": [1e300, 0.1], "float32": [3e38, 1e-45]}.get(dtype, [1.5, -0.0])
    return candle.Tensor([*exact, float("inf"), float("nan")], dtype=dtype)


def bits(t: candle.Tensor) -> Any:
    return t.contiguous().view("uint8").tolist()


def test_the_lines_of_the_page(in_child: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "hf").symlink_to(FOLDER)
    [block] = pages.blocks("py", "docs/integrations.md")
    code = f"""
from pathlib import Path
import candle
{block.code}
same = candle.convert(t, "hf_candle")
print(type(x) is type(same) is hf.Tensor, x.shape, t.tolist() == x.values() == same.values())
print(t.shape, Linear.__name__)
"""
    said = in_child(code, HOME=str(tmp_path)).check(quiet=False)  # it logs what it thinks
    assert said == "True (2, 3) True\n(2, 3) Linear\n"


@pytest.mark.parametrize("dtype", DTYPES)
def test_exact(hf: Any, dtype: str) -> None:
    t = extremes(dtype)
    x = t.to_hf_candle()
    assert str(x.dtype) == DTYPES[dtype].lower() or str(x.dtype) == DTYPES[dtype]
    back = candle.Tensor(x)
    assert (back.dtype, bits(back)) == (t.dtype, bits(t))
    assert back.readonly is False
    back[0] = 1
    assert bits(candle.Tensor(x)) == bits(t)


@pytest.mark.parametrize("shape", [(), (1,), (0,), (0, 3), (3, 0), (2, 3, 4, 5, 6), (1, 1, 1, 1)])
def test_shapes(hf: Any, shape: tuple[int, ...]) -> None:
    count = int(np.prod(shape))
    t = candle.Tensor(np.arange(count, dtype="float32").reshape(shape))
    x = t.to_hf_candle()
    assert tuple(x.shape) == shape
    back = candle.Tensor(x)
    assert (back.shape, back.tolist()) == (shape, t.tolist())


LAYOUTS: dict[str, Callable[[candle.Tensor], candle.Tensor]] = {
    "transposed": lambda t: t.T,
    "stepped": lambda t: t[:, ::2],
    "reversed": lambda t: t[::-1],
    "repeated": lambda t: t[0].broadcast_to((3, 6)),
}


@pytest.mark.parametrize("case", LAYOUTS)
def test_layouts(hf: Any, t: candle.Tensor, case: str) -> None:
    view = LAYOUTS[case](t)
    assert candle.Tensor(view.to_hf_candle()).tolist() == view.tolist()


def test_its_views(hf: Any) -> None:
    x = hf.Tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    assert candle.Tensor(x.t()).tolist() == [[1, 4], [2, 5], [3, 6]]
    assert candle.Tensor(x.narrow(1, 1, 2)).tolist() == [[2, 3], [5, 6]]


def test_the_copies_are_told(hf: Any, t: candle.Tensor) -> None:
    x = hf.Tensor([1.0, 2.0])
    with candle.trace() as moves:
        candle.Tensor(x)
        t.to_hf_candle()
    assert [(move.action, move.reasons[0].code, move.nbytes) for move in moves] == [
        ("copy", "no_export", 8),
        ("copy", "consumer_copies", 96),
    ]
    for refused in (
        lambda: candle.Tensor(x, copy=False),
        lambda: t.to_hf_candle(copy=False),
    ):
        with pytest.raises(candle.CopyError):
            refused()
    with candle.strict():
        for move in (lambda: candle.Tensor(x), t.to_hf_candle):
            with pytest.raises(candle.CopyError):
                move()
    assert candle.explain(x, "numpy").action == "copy"
    assert candle.explain(t, "hf_candle").action == "copy"


def test_nothing_is_copied_twice(hf: Any) -> None:
    """What comes in lies in the file that the other candle wrote."""
    before = candle.testing.live()["bytes"]
    t = candle.Tensor(hf.Tensor([1.0, 2.0]))
    assert candle.testing.live()["bytes"] == before
    assert candle.Tensor(t).data_ptr() == t.data_ptr()


def test_casts_and_writes(hf: Any, t: candle.Tensor) -> None:
    x = hf.Tensor([[1.0, 2.0]])
    assert candle.Tensor(x, dtype="int8").tolist() == [[1, 2]]
    t[:1, :2] = x
    assert t[0, :2].tolist() == [1, 2]
    assert candle.tensor(x).tolist() == [[1, 2]]


def test_trees(hf: Any, t: candle.Tensor) -> None:
    x = hf.Tensor([1.0, 2.0])
    arrays = candle.convert({"a": x, "b": [t, x]}, "numpy")
    assert arrays["a"].tolist() == [1, 2]
    assert arrays["b"][1] is arrays["a"]
    theirs = candle.convert([np.ones(2, "float32"), x], "hf_candle")
    assert type(theirs[0]) is type(x)
    assert theirs[1] is x

    @candle.accepts("numpy")
    def doubled(array: Any) -> Any:
        return array * 2

    assert candle.Tensor(doubled(x)).tolist() == [2, 4]
    assert type(doubled(x)) is type(x)


@pytest.mark.parametrize("dtype", ["bool", "int8", "int32", "uint16", "float8_e4m3fn", "complex64"])
def test_dtypes_it_lacks(hf: Any, dtype: str) -> None:
    with pytest.raises(BufferError, match=rf"hf_candle has no {dtype} .*t\.to\("):
        candle.zeros(2, dtype=dtype).to_hf_candle()


def test_quantised(hf: Any) -> None:
    with pytest.raises(BufferError, match="quantised"):
        candle.Tensor(hf.Tensor([[0.5] * 32]).quantize("q8_0"))


def test_other_devices(hf: Any) -> None:
    from candle.frameworks import hf_candle

    class Elsewhere:
        device = "cuda:0"

    with pytest.raises(BufferError, match="is on cuda:0"):
        hf_candle._taken(Elsewhere())


def test_no_files_are_left(hf: Any) -> None:
    def files() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    before = files()
    for _ in range(3):
        candle.Tensor(candle.zeros(3).to_hf_candle())
        with pytest.raises(BufferError):
            candle.zeros(3, dtype="bool").to_hf_candle()
    assert files() == before


# Loading it.


def test_both_are_there(hf: Any) -> None:
    assert sys.modules["candle"] is candle
    assert sys.modules["hf_candle"] is hf
    assert hf.__file__ == str(Path(FOLDER).absolute() / "candle" / "__init__.py")
    names = [name for name in sys.modules if name.partition(".")[0] == "hf_candle"]
    assert {"hf_candle.nn.linear", "hf_candle.utils"} <= set(names)
    assert all(
        FOLDER not in str(getattr(sys.modules[n], "__file__", ""))
        for n in sys.modules
        if n.partition(".")[0] == "candle"
    )
    import hf_candle.nn  # type: ignore[import-not-found]

    assert tuple(hf_candle.nn.Linear(3, 2)(hf.rand((4, 3))).shape) == (4, 2)
    assert candle.hf.load() is candle.hf.load(FOLDER) is hf


def test_another_folder(hf: Any, tmp_path: Path) -> None:
    (tmp_path / "candle").mkdir()
    (tmp_path / "candle" / "candle.abi3.so").touch()
    with pytest.raises(ValueError, match="is loaded from"):
        candle.hf.load(tmp_path)


def test_absent(hf: Any, in_child: Callable[..., Any]) -> None:
    code = """
        import candle
        for call in (candle.hf.load, lambda: candle.hf.load("/nowhere"),
                     candle.zeros(2).to_hf_candle):
            try:
                call()
            except ImportError as error:
                print("pip install --target" in str(error))
        print(candle.zeros(2).tolist())
    """
    assert in_child(code).check().split("\n") == ["True"] * 3 + ["[0.0, 0.0]", ""]


def test_broken(hf: Any, tmp_path: Path, in_child: Callable[..., Any]) -> None:
    """What fails to load leaves everything as it was."""
    (tmp_path / "candle").mkdir()
    (tmp_path / "candle" / "candle.abi3.so").touch()
    (tmp_path / "candle" / "__init__.py").write_text("from . import gone\n")
    code = """
        import sys, candle, candle.testing
        before = set(sys.modules)
        try:
            candle.hf.load(sys.argv[1])
        except ImportError as error:
            print(error.name or "candle")
        print(sorted(name for name in set(sys.modules) ^ before if "candle" in name))
        assert sys.modules["candle"] is candle and "hf_candle" not in sys.modules
    """
    assert in_child(code, str(tmp_path)).check().split("\n")[1] == "[]"


def test_initialised_before(hf: Any, in_child: Callable[..., Any]) -> None:
    code = """
        import sys, candle
        from importlib.machinery import ExtensionFileLoader
        from importlib.util import module_from_spec, spec_from_loader
        path = sys.argv[1] + "/candle/candle.abi3.so"
        loader = ExtensionFileLoader("other.candle", path)
        other = module_from_spec(spec_from_loader("other.candle", loader))
        loader.exec_module(other)
        sys.modules["other.candle"] = other
        print(candle.Tensor(other.Tensor([1.0, 2.0])).tolist())
        print(candle.Tensor(candle.zeros(2).to_hf_candle()).tolist())
        try:
            candle.hf.load(sys.argv[1])
        except ImportError as error:
            print("only once" in str(error), error.__cause__ is not None)
        print(candle.zeros(1).tolist())
    """
    said = in_child(code, FOLDER).check(quiet=False).split("\n")  # it logs what it thinks
    assert said == ["[1.0, 2.0]", "[0.0, 0.0]", "True True", "[0.0]", ""]


def test_on_the_path(hf: Any, in_child: Callable[..., Any]) -> None:
    code = """
        import sys
        import candle
        sys.path.append(sys.argv[1])
        print(candle.hf.load().__name__)
        import hf_candle.functional as f
        print(f.__name__)
    """
    assert in_child(code, FOLDER).check() == "hf_candle\nhf_candle.functional\n"


def test_loaded_by_many_threads_at_once(hf: Any, in_child: Callable[..., Any]) -> None:
    code = """
        import sys, threading, candle
        loaded = []
        def load():
            loaded.append(candle.hf.load(sys.argv[1]))
        threads = [threading.Thread(target=load) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        print(len(loaded), loaded.count(loaded[0]), sys.modules["candle"] is candle)
        print(candle.Tensor(loaded[0].Tensor([1.0])).tolist())
    """
    assert in_child(code, FOLDER).check() == "8 8 True\n[1.0]\n"


def test_looking_for_it_loads_nothing_else(hf: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Packages whose modules import when they are asked for something are not asked."""

    class Lazy(ModuleType):
        def __getattr__(self, name: str) -> Any:
            raise RuntimeError(f"{name} was to be imported")

    from candle.frameworks import hf_candle

    monkeypatch.delitem(sys.modules, "hf_candle")
    monkeypatch.setattr(sys, "modules", {"lazy": Lazy("lazy"), "none": None, **sys.modules})
    assert hf_candle._module().Tensor is hf.Tensor


def test_examples(hf: Any) -> None:
    """What the doctor tries."""
    from candle import frameworks

    made = frameworks.examples("hf_candle")
    assert candle.asarray(made["hf_candle"]).tolist() == [[0.0] * 6] * 4
