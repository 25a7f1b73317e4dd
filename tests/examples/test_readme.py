"""Every ```python block of README.md and the pages in docs/ runs and prints what it says."""

from __future__ import annotations

import builtins
import doctest
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FRAMEWORKS = ("datasets", "jax", "torch", "tvm_ffi", "pyarrow")


def python_blocks(page: Path) -> list[tuple[int, str]]:
    """The blocks and the lines they begin at."""
    text = page.read_text()
    found = re.finditer(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [(text.count("\n", 0, match.start()) + 1, match[1]) for match in found]


def run(block: str, names: dict[str, object], page: Path, line: int) -> None:
    """A transcript as a doctest, anything else as it stands."""
    if ">>>" not in block:
        exec(compile("\n" * line + block, page, "exec"), names)
        return
    test = doctest.DocTestParser().get_doctest(block, names, page.name, str(page), line)
    said: list[str] = []
    doctest.DocTestRunner(verbose=False).run(test, out=said.append, clear_globs=False)
    names.update(test.globs)
    assert not said, "".join(said)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_blocks(page: Path) -> None:
    blocks = python_blocks(page)
    source = "".join(block for _, block in blocks)
    for name in FRAMEWORKS:
        if re.search(rf"\b{name}\b|\.{name}\(", source):
            pytest.importorskip(name)
    names: dict[str, object] = {"__name__": "__main__"}
    try:
        for line, block in blocks:
            run(block, names, page, line)
    finally:
        vars(builtins).pop("_", None)  # what was printed last


def test_readme_shows_code() -> None:
    assert len(python_blocks(ROOT / "README.md")) >= 3


def test_pages_link_to_what_exists() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
