"""Rules of the native sources that no compiler checks."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

NATIVE = Path(__file__).parents[2] / "src" / "candle" / "_native"
FILES = sorted([*NATIVE.glob("*.cpp"), *NATIVE.glob("*.h")])

# These, and every other header that says so of itself, know nothing of Python.
PYTHON_FREE = {"cast", "copy", "decide", "dtype_table", "layout", "validate"}
PYTHON_HEADERS = {"Python.h", "numpy", "pythread.h", "structmember.h"}

# Headers that not every system has; platform.h and platform.cpp alone read them.
SYSTEM_HEADERS = re.compile(
    r"(dlfcn|pthread|sched|semaphore|signal|csignal|unistd|windows|malloc|process|endian)(\.h)?"
    r"|(sys|linux|mach|dispatch)/.*"
)

# Files that may drop references by hand; everywhere else a Ref does it.
COUNTING_BY_HAND = {"pyref.h"}

# Comments, literals (raw ones first): they may say anything.
NO_CODE = re.compile(
    r"""
    //[^\n]* | /\*.*?\*/ | R"(\w*)\(.*?\)\1" | "(?:\\.|[^"\\\n])*" | (?<!\w)'(?:\\.|[^'\\\n])*'
    """,
    re.DOTALL | re.VERBOSE,
)

every_file = pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)


def code_of(text: str) -> str:
    """The text with comments and literals blanked, line by line as it was."""
    return NO_CODE.sub(lambda found: " " + "\n" * found.group().count("\n"), text)


def lines_with(pattern: str, text: str) -> list[str]:
    lines = enumerate(code_of(text).splitlines(), 1)
    return [f"line {number}: {line.strip()}" for number, line in lines if re.search(pattern, line)]


def includes(path: Path) -> list[str]:
    return re.findall(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', path.read_text(), re.MULTILINE)


@every_file
def test_systems_differ_in_one_place(path: Path) -> None:
    found = [name for name in includes(path) if SYSTEM_HEADERS.fullmatch(name)]
    assert path.stem == "platform" or not found
    assert path.name != "platform.cpp" or {"dlfcn.h", "windows.h"} <= set(found)


def python_headers(path: Path, seen: set[Path]) -> list[str]:
    """Headers of Python that a file reads, itself or through others of this folder."""
    if path in seen or not path.exists():
        return []
    seen.add(path)
    found = []
    for name in includes(path):
        if name.partition("/")[0] in PYTHON_HEADERS:
            found.append(f"{path.name}: {name}")
        found += python_headers(NATIVE / name, seen)
    return found


def python_free() -> list[str]:
    named = {
        path.stem for path in FILES if path.suffix == ".h" and "No Python here" in path.read_text()
    }
    return sorted(PYTHON_FREE | named)


def test_there_are_sources() -> None:
    assert {"module.cpp", "pyref.h"} <= {path.name for path in FILES}


@pytest.mark.parametrize("stem", python_free())
def test_knows_nothing_of_python(stem: str) -> None:
    files = [path for path in FILES if path.stem == stem]
    assert files
    assert [python_headers(path, set()) for path in files] == [[]] * len(files)


@every_file
def test_drops_no_reference_by_hand(path: Path) -> None:
    if path.name not in COUNTING_BY_HAND:
        drops = r"\bPy_(X?DECREF|DecRef|CLEAR|X?SETREF)\b"
        assert lines_with(drops, path.read_text()) == []


# In memory that is there already (an address, or what is called a block) nothing can throw.
NEW_THAT_THROWS = r"\bnew\b(?!\s*\((?:std::nothrow|block|&[^)]*)\))(?!>)"


@every_file
def test_new_says_nothrow(path: Path) -> None:
    assert lines_with(NEW_THAT_THROWS, path.read_text()) == []


@every_file
def test_raises_and_catches_nothing(path: Path) -> None:
    assert lines_with(r"\b(throw|try|catch)\b", path.read_text()) == []


def test_the_linter_sees_code_alone() -> None:
    text = """\
// new throw
int a = 1'000; /* try
catch */ const char* s = "new \\" throw"; char c = '"';
#include <new>
auto* x = new (std::nothrow) int; auto* y = new int;
auto r = R"(Py_DECREF)"; Py_DECREF(o);
"""
    assert lines_with(NEW_THAT_THROWS, text) == [
        "line 5: auto* x = new (std::nothrow) int; auto* y = new int;"
    ]
    assert lines_with(r"\b(throw|try|catch)\b", text) == []
    assert lines_with("Py_DECREF", text) == ["line 6: auto r =  ; Py_DECREF(o);"]
    assert lines_with("char c", text) == ["line 3: const char* s =  ; char c =  ;"]
