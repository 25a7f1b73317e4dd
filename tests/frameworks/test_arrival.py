"""What tells of a module's arrival, and whom it teaches: it loads nothing itself."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from candle.frameworks import registering
from candle.frameworks.arrival import _Waiting, when_loaded

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "late_comer.py").write_text("there = True\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "late_comer", raising=False)
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    return "late_comer"


def test_told_when_a_module_has_run(module: str) -> None:
    told: list[ModuleType] = []
    when_loaded(module, told.append)
    assert told == []
    imported = __import__(module)
    assert told == [imported]
    assert imported.there
    waiting = [finder for finder in sys.meta_path if isinstance(finder, _Waiting)]
    assert not any(module in finder.calls for finder in waiting)


def test_told_at_once(module: str) -> None:
    imported = __import__(module)
    told: list[ModuleType] = []
    when_loaded(module, told.append)
    assert told == [imported]


def test_looking_a_module_up_does_not_load_it(module: str) -> None:
    from importlib.util import find_spec

    told: list[ModuleType] = []
    when_loaded(module, told.append)
    assert find_spec(module) is not None
    assert told == []
    assert [__import__(module)] == told


def test_absent_module(module: str) -> None:
    absent = f"{module}_that_is_not_there"
    when_loaded(absent, lambda _: None)
    with pytest.raises(ModuleNotFoundError):
        __import__(absent)
    [waiting] = [finder for finder in sys.meta_path if isinstance(finder, _Waiting)]
    del waiting.calls[absent]


def test_two_that_wait(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Candle imported twice has two finders, and each would ask the other."""
    told: list[str] = []
    for name in ("first", "second"):
        waiting = _Waiting()
        waiting.calls[module] = lambda _, name=name: told.append(name)  # type: ignore[misc]
        sys.meta_path.insert(0, waiting)  # type: ignore[arg-type]
    __import__(module)
    assert sorted(told) == ["first", "second"]


def test_import_of_candle_loads_no_torch(in_child: Callable[..., Any]) -> None:
    code = """
        import sys, candle
        candle.Tensor([1.0])
        assert not [name for name in sys.modules if name.partition(".")[0] == "torch"]
        assert "candle.frameworks.torch" not in sys.modules
    """
    in_child(code).check()


def test_told_once_of_a_module_that_runs_twice(module: str) -> None:
    from importlib.util import find_spec, module_from_spec

    told: list[ModuleType] = []
    when_loaded(module, told.append)
    spec = find_spec(module)
    assert spec is not None
    assert spec.loader is not None
    imported = __import__(module)
    again = module_from_spec(spec)
    spec.loader.exec_module(again)
    assert again.there
    assert told == [imported]


def test_folder_without_code(tmp_path: Path, module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a package's place lies a folder, which can be imported, and has nothing that could run."""
    monkeypatch.delitem(sys.modules, "late_folder", raising=False)
    (tmp_path / "late_folder").mkdir()
    told: list[ModuleType] = []
    when_loaded("late_folder", told.append)
    imported = __import__("late_folder")
    assert list(imported.__path__) == [str(tmp_path / "late_folder")]
    assert told == []
    [waiting] = [finder for finder in sys.meta_path if isinstance(finder, _Waiting)]
    del waiting.calls["late_folder"]


@pytest.mark.parametrize("teach", [registering._with_dataloader, registering._with_einops])
def test_versions_that_are_made_otherwise(teach: Callable[[ModuleType], None]) -> None:
    """What is not where candle looks for it is left alone."""
    module = ModuleType("of another version")
    module.AbstractBackend = module.default_collate_fn_map = "something else"  # type: ignore[attr-defined]
    before = {**vars(module)}
    teach(module)
    assert vars(module) == before
