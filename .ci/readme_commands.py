"""Print one of the two set-up commands of README.md: `readme_commands.py install` or `... test`."""

import re
import sys
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"
MARKS = {"install": "examples/exchange.py", "test": "pytest"}


def sections(text: str) -> list[list[str]]:
    """Return the sh blocks of each section; what looks like a heading in a block is a comment."""
    found: list[list[str]] = [[]]
    fence, block, shell = "", [], False
    for line in text.splitlines():
        opening = re.match(r"\s*(`{3,}|~{3,})\s*(\w*)", line)
        if fence:
            if opening and opening[1].startswith(fence) and not opening[2]:
                if shell:
                    found[-1].append("\n".join(block))
                fence = ""
            else:
                block.append(line)
        elif opening:
            fence, block, shell = opening[1], [], opening[2] == "sh"
        elif re.match(r"#+ ", line):
            found.append([])
    return found


def commands(text: str) -> dict[str, str]:
    """Return the two commands, from the one section that has both of them and no other."""
    set_up = [
        blocks
        for blocks in sections(text)
        if all(any(mark in block for block in blocks) for mark in MARKS.values())
    ]
    if len(set_up) != 1:
        sys.exit(
            f"README.md: {len(set_up)} sections hold sh blocks with each of {[*MARKS.values()]}"
        )
    [blocks] = set_up
    if len(blocks) != len(MARKS):
        sys.exit(f"README.md: the set-up section has {len(blocks)} sh blocks, not {len(MARKS)}")
    for (name, mark), block in zip(MARKS.items(), blocks, strict=True):
        if mark not in block or "pip install" not in block:
            sys.exit(f"README.md: the {name} command lacks {mark!r} or 'pip install': {block!r}")
    return dict(zip(MARKS, blocks, strict=True))


if __name__ == "__main__":
    print(commands(README.read_text())[sys.argv[1]])
