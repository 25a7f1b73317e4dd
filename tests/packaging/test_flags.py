"""What the environment variables of hatch_build.py ask the compiler and the linker for."""

from __future__ import annotations

import importlib.util
from typing import Any

import pages
import pytest


@pytest.fixture(scope="module")
def hook() -> Any:
    pytest.importorskip("hatchling")
    spec = importlib.util.spec_from_file_location("hatch_build", pages.ROOT / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True)
def _none_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("COVERAGE", "SANITIZE", "DEBUG", "CXXFLAGS", "LDFLAGS", "WERROR"):
        monkeypatch.delenv(f"CANDLE_{name}", raising=False)


KINDS = {"1": "-fsanitize=address,undefined", "thread": "-fsanitize=thread"}


@pytest.mark.parametrize("kind", KINDS)
def test_sanitizers(hook: Any, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANDLE_SANITIZE", kind)
    flags = hook.compile_flags(cl=False)
    assert {KINDS[kind], "-UNDEBUG", "-fno-wrapv"} <= set(flags)
    assert [flag for flag in flags if flag in KINDS.values()] == [KINDS[kind]]
    assert KINDS[kind] in hook.sanitizers()  # the linker's
    with pytest.raises(RuntimeError, match="for Linux"):
        hook.compile_flags(cl=True)


def test_objects_of_each_kind_are_kept_apart(hook: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    variants = [hook.variant()]
    for name, value in (("SANITIZE", "1"), ("SANITIZE", "thread"), ("COVERAGE", "1")):
        monkeypatch.setenv(f"CANDLE_{name}", value)
        variants.append(hook.variant())
    assert len(set(variants)) == len(variants)


@pytest.mark.parametrize("value", ["", "0"])
def test_switched_off(hook: Any, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = hook.compile_flags(cl=False)
    monkeypatch.setenv("CANDLE_SANITIZE", value)
    assert hook.compile_flags(cl=False) == plain
    assert hook.sanitizers() == []


@pytest.mark.parametrize("value", ["address", "yes", "threads", "2"])
def test_an_unknown_sanitizer(hook: Any, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANDLE_SANITIZE", value)
    with pytest.raises(ValueError, match=f"'{value}': give one of 1, thread"):
        hook.compile_flags(cl=False)
