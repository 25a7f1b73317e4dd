"""The code blocks of the pages: README.md, those beside it, and docs/."""

from __future__ import annotations

import re
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
FOLDERS = ("*.md", "docs/**/*.md", "examples/**/*.md", "benchmarks/**/*.md", "tests/**/*.md")
PAGES = {
    path.relative_to(ROOT).as_posix(): path
    for folder in FOLDERS
    for path in sorted(ROOT.glob(folder))
}


class Block(NamedTuple):
    """A code block of a page."""

    page: str
    line: int  # its first line's number
    kind: str  # what stands behind the fence, or "indented"
    code: str

    def __str__(self) -> str:
        return f"{self.page}, line {self.line}"


def blocks_of(page: str, text: str) -> Iterator[Block]:
    """The blocks of a text: between fences, or indented by four spaces after an empty line."""
    lines = text.splitlines()
    at = 0
    while at < len(lines):
        fence = re.match(r" *(`{3,}|~{3,}) *(.*?) *$", lines[at])
        if fence:
            first, kind = at + 1, fence[2]
            closing = re.compile(rf" *{fence[1]}{fence[1][0]}* *$")
            end = next((n for n in range(first, len(lines)) if closing.match(lines[n])), None)
            if end is None:
                raise ValueError(f"{page}, line {first}: a block without an end")
            at = end + 1
        elif lines[at].startswith("    ") and not (at and lines[at - 1]):
            first, kind = at, "indented"
            over = re.compile(" {0,3}[^ ]")
            end = at = next(n for n in count(at) if n == len(lines) or over.match(lines[n]))
        else:
            at += 1
            continue
        yield Block(page, first + 1, kind, "".join(f"{line}\n" for line in lines[first:end]))


BLOCKS = [block for page, path in PAGES.items() for block in blocks_of(page, path.read_text())]


def blocks(kind: str, page: str) -> list[Block]:
    """The blocks of one kind in a page."""
    return [block for block in BLOCKS if (block.kind, block.page) == (kind, page)]
