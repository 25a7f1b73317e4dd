"""`ReasonCode`: one enum holds the codes of every reason there is, wherever it is found out."""

from __future__ import annotations

import ast
import copy
import enum
import json
import pickle
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import candle
from candle.plan import FATAL, REMEDIES, Reason

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE = Path(candle.__file__).parent
NATIVE = Path(__file__).parents[2] / "src" / "candle" / "_native"  # no wheel has the sources


def test_codes_are_those_that_have_a_remedy() -> None:
    assert [code.value for code in candle.ReasonCode] == list(REMEDIES)
    assert [code.name for code in candle.ReasonCode] == [code.upper() for code in REMEDIES]


@pytest.mark.parametrize("code", REMEDIES)
def test_a_code_is_a_member_and_a_str(code: str) -> None:
    reason = Reason(code, "measured")
    member = candle.ReasonCode[code.upper()]
    assert reason.code is member is candle.ReasonCode(code)
    assert reason.code == code
    assert reason.code in {code}
    assert {reason.code: 1}[code] == 1  # type: ignore[index]
    assert f"{reason.code}" == str(reason.code) == code
    assert json.loads(json.dumps([reason.code])) == [code]
    assert reason == Reason(member, "measured")
    assert hash(reason) == hash(Reason(member, "measured"))
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(reason, protocol)) == reason
        assert pickle.loads(pickle.dumps(member, protocol)) is member
    assert copy.deepcopy(reason) == reason
    assert copy.deepcopy(member) is copy.copy(member) is member


def test_it_does_what_an_enum_of_the_standard_library_does() -> None:
    """To type checkers it is one; `enum` itself takes too long to import."""
    ours: Any = candle.ReasonCode
    theirs: Any = enum.StrEnum("ReasonCode", [(c.name, c.value) for c in ours], module="candle")
    assert list(ours) == list(theirs)
    assert len(ours) == len(theirs)
    assert list(ours.__members__) == list(theirs.__members__)
    assert repr(ours) == repr(theirs)
    for mine, other in zip(ours, theirs, strict=True):
        assert (mine.name, mine.value, repr(mine)) == (other.name, other.value, repr(other))
        assert (str(mine), f"{mine:>20}", hash(mine)) == (str(other), f"{other:>20}", hash(other))
        assert isinstance(mine, ours)
        assert isinstance(mine, str)
        assert mine in ours
        assert getattr(ours, mine.name) is ours[mine.name] is ours(mine.value) is ours(mine) is mine
    for wrong in (None, [], "ORDER", 3):
        for kind in (ours, theirs):
            with pytest.raises(ValueError, match="is not a valid ReasonCode"):
                kind(wrong)
        assert wrong not in ours
    for kind in (ours, theirs):
        with pytest.raises(AttributeError, match="cannot reassign member"):
            kind.ORDER = "colour"
        with pytest.raises(KeyError):
            kind["order"]


def test_other_codes_are_none() -> None:
    with pytest.raises(ValueError, match="'colour' is not a valid ReasonCode"):
        Reason("colour", "red")


def test_what_the_native_core_says() -> None:
    source = (NATIVE / "decide.h").read_text()
    block = re.search(r"reason_names\[\] = {(.*?)};", source, re.DOTALL)
    assert block is not None
    decided = re.findall(r'"(\w+)"', block[1])
    assert len(decided) == len(set(decided)) > 20
    elsewhere = {
        code
        for path in NATIVE.glob("*.cpp")
        for code in re.findall(r'refuse_by\([^,;]+,\s*"(\w+)"', path.read_text())
    }
    assert {"masked", "no_dtype"} <= elsewhere
    assert {*decided, *elsewhere} <= set(candle.ReasonCode)
    curable = set(candle._native._core.curable_reasons)
    assert curable == set(REMEDIES) - FATAL
    assert curable < set(decided)


def strings(node: ast.AST) -> Iterator[str]:
    for child in ast.walk(node):
        if isinstance(child, ast.Constant) and isinstance(child.value, str):
            yield child.value


def test_what_the_frameworks_files_say() -> None:
    found = set()
    for path in (PACKAGE / "frameworks").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                place = {"refuse": 1, "_refuse": 0}.get(node.func.id)
                if place is not None and not isinstance(node.args[place], ast.Name):
                    code = node.args[place]
                    parts = [code.body, code.orelse] if isinstance(code, ast.IfExp) else [code]
                    found |= {text for part in parts for text in strings(part)}
    assert {"sparse", "text", "no_dtype", "wrapper"} <= found
    assert found <= set(candle.ReasonCode)
