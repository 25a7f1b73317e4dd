"""docs/reliability.md has every case and every trap, and names tests that there are."""

from __future__ import annotations

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs" / "reliability.md"
CASES, TRAPS = range(1, 109), range(1, 41)
RESULT = re.compile(r"holds|holds on the fake driver|cannot be shown here: ")


def rows(first: str) -> list[list[str]]:
    """The cells of each row whose first cell is like this."""
    lines = [
        line.strip("|").split(" | ") for line in PAGE.read_text().splitlines() if line[:1] == "|"
    ]
    cells = [[cell.strip() for cell in line] for line in lines]
    return [line for line in cells if re.fullmatch(first, line[0])]


def named(row: list[str]) -> list[str]:
    return re.findall(r"`([\w/]+\.py::\w+)`", row[-2])


@cache
def functions(path: Path) -> dict[str, str]:
    """The tests of a file that pytest collects, and the comments and code of each."""
    source = path.read_text()
    found = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            assert node.name not in found, f"{path}: {node.name} is there twice"
            found[node.name] = ast.get_source_segment(source, node) or ""
    return found


def test_every_case_and_trap_is_there_once() -> None:
    assert Counter(int(row[0]) for row in rows(r"\d+")) == Counter(CASES)
    assert Counter(int(row[0][5:]) for row in rows(r"trap \d+")) == Counter(TRAPS)


def test_every_row_says_what_was_reported_how_it_is_shown_and_the_result() -> None:
    for row in rows(r"\d+"):
        assert len(row) == 5, row
        reports = row[1].split(", ")
        assert all(re.fullmatch(r"[\w.-]+/[\w.-]+#\d+", report) for report in reports), row
    for row in rows(r"(trap )?\d+"):
        assert named(row), row
        assert RESULT.match(row[-1]), row
        assert len(row[-3]) > 10, row


def test_every_test_that_is_named_is_there() -> None:
    for row in rows(r"(trap )?\d+"):
        for test in named(row):
            file, name = test.split("::")
            assert Path(file).name.startswith("test_"), test
            assert name in functions(TESTS / file), f"{row[0]}: there is no {test}"


def test_every_test_of_a_case_is_named() -> None:
    listed = {test for row in rows(r"(trap )?\d+") for test in named(row)}
    files = [*sorted((TESTS / "cases").glob("test_*.py"))]
    files.append(TESTS / "gpu_fakedriver" / "test_reported_cases.py")
    there = {
        f"{file.relative_to(TESTS).as_posix()}::{name}"
        for file in files
        if file.name != "test_table.py"
        for name in functions(file)
    }
    assert len(there) > 100
    assert there <= listed, sorted(there - listed)


def test_the_tests_say_which_case_they_show() -> None:
    """By the number, in a comment: the table and the tests agree on it, in both directions."""
    wrong = []
    for first, word in ((r"\d+", "Cases?"), (r"trap \d+", "Traps?")):
        shows: dict[str, set[int]] = {}
        for row in rows(first):
            for test in named(row):
                shows.setdefault(test, set()).add(int(row[0].removeprefix("trap ")))
        for test, numbers in shows.items():
            file, name = test.split("::")
            blocks = re.findall(rf"# {word} ([\d, ]+)", functions(TESTS / file)[name])
            said = {int(number) for block in blocks for number in re.findall(r"\d+", block)}
            reported = file.startswith("cases/") or file.endswith("test_reported_cases.py")
            if (word == "Cases?" and reported and numbers - said) or (said and said - numbers):
                wrong.append(
                    f"{test} is for {sorted(said)}, the table has it for {sorted(numbers)}"
                )
    assert not wrong, "\n".join(wrong)


def test_what_is_named_is_collected(request: pytest.FixtureRequest) -> None:
    """As far as whole files are collected with this one; those to be built are left out."""
    config = request.config
    if config.option.keyword or any("::" in argument for argument in config.args):
        pytest.skip("some tests were picked out")
    collected = {item.nodeid.partition("[")[0] for item in request.session.items}
    files = {test.partition("::")[0] for test in collected}
    for row in rows(r"(trap )?\d+"):
        for test in named(row):
            if f"tests/{test}".partition("::")[0] in files:
                assert f"tests/{test}" in collected, test
