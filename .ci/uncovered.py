#!/usr/bin/env python3
"""Lines of the native core that did not run in the last `.ci/coverage`, and that nobody excuses.

Prints them, and then what docs/coverage.md excuses in vain. With `--branches`, in place of lines,
those that ran and of whose branches some did not.

A row's first cell names files and pieces of source lines, all in backticks: a piece is of the file
before it, or of any file if there is none, and `...` in it is anything. Lines that did not run and
have none that ran between them are one stretch: a piece in one of them, or in the line before them,
excuses all.
"""

from __future__ import annotations

import fnmatch
import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
OUT = ROOT / "build" / "coverage"
NATIVE = "src/candle/_native/"


def excuses(heading: str) -> Iterator[tuple[str, str]]:
    """Give (file, piece) of each excuse of the table under a heading of the page."""
    page = (ROOT / "docs" / "coverage.md").read_text()
    section = page.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    for row in re.findall(r"^\| (.*?) \|", section, re.MULTILINE):
        file = "*"
        for quoted in re.findall(r"`(.*?)`", row):
            if re.fullmatch(r"\w+\.(cpp|h)", quoted):
                file = quoted
            else:
                yield file, quoted


def is_in(piece: str, line: str) -> bool:
    """Tell whether a line holds a piece."""
    return fnmatch.fnmatchcase(line, "*".join(map(escaped, ["", *piece.split("..."), ""])))


def escaped(text: str) -> str:
    """Text as a pattern of itself."""
    return re.sub(r"([*?[])", r"[\1]", text)


def counted() -> Iterator[tuple[str, list[tuple[int, tuple[int, dict[int, int]]]]]]:
    """Give each file and its lines that can run: how often they did, and each of their branches."""
    for file in json.loads((OUT / "native.json").read_text())["files"]:
        lines: dict[int, tuple[int, dict[int, int]]] = {}
        for line in file["lines"]:  # one for each function that has it
            if line.get("gcovr/excluded"):
                continue
            count, branches = lines.get(line["line_number"], (0, {}))
            lines[line["line_number"]] = (count + line["count"], branches)
            for i, branch in enumerate(line["branches"]):
                if not branch.get("gcovr/excluded"):
                    number = branch.get("branchno", i)
                    branches[number] = branches.get(number, 0) + branch["count"]
        yield file["file"].removeprefix(NATIVE), sorted(lines.items())


def stretches(lines: list[Any], want_branches: bool) -> Iterator[list[int]]:
    """Give the numbers of lines that belong together."""
    found: list[int] = []
    for number, (count, branches) in lines:
        if want_branches:
            if count and not all(branches.values()):
                yield [number]
        elif count == 0:
            found.append(number)
        else:
            yield found
            found = []
    yield found


def main() -> bool:
    """Tell whether there is a line that nobody excuses."""
    want_branches = sys.argv[1:] == ["--branches"]
    kind = "branches" if want_branches else "lines"
    unused = list(excuses(f"Native: {kind} that did not run"))
    known = list(unused)
    bad = 0
    for file, lines in counted():
        source = (OUT / "tree" / NATIVE / file).read_text().splitlines()
        for numbers in stretches(lines, want_branches):
            seen = [source[n - 1] for n in numbers]
            if numbers and not want_branches:
                seen.append(source[numbers[0] - 2])
            fitting = [
                (name, piece)
                for name, piece in known
                if name in ("*", file) and any(is_in(piece, line) for line in seen)
            ]
            unused = [excuse for excuse in unused if excuse not in fitting]
            if not fitting:
                bad += len(numbers)
                for number in numbers:
                    print(f"{file}:{number}: {source[number - 1].strip()}")
    for name, piece in unused:
        print(f"excuses nothing: {name}: {piece}")
    what = "lines of such branches" if want_branches else "lines"
    print(f"{bad} {what} without an excuse, {len(unused)} excuses of nothing")
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
