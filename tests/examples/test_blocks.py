"""Every code block of every page is run, or its table here says why not and what is looked at."""

from __future__ import annotations

import ast
import builtins
import doctest
import re
from typing import TYPE_CHECKING

import pages
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from children import Child

FRAMEWORKS = ("datasets", "jax", "torch", "tvm_ffi", "pyarrow")
PYTHON = {block.page: pages.blocks("python", block.page) for block in pages.BLOCKS}

# `py` blocks need more than a process and frameworks: page -> the test that runs all it has.
RUN_BY = {
    "docs/gpu.md": "tests/gpu_fakedriver/test_candle_lifetime.py::test_the_lines_of_the_page",
    "docs/integrations.md": "tests/integrations/test_hf_candle.py::test_the_lines_of_the_page",
    "docs/knowing.md": "tests/examples/test_blocks.py::test_tests_with_the_plugin",
    "docs/processes.md": "tests/distributed/test_page.py::test_program",
}

# Kinds that are no code to be run: what reads them.
READ_BY = {
    "{eval-rst}": "tests/examples/test_site.py::test_every_public_name_is_in_the_reference",
    "{toctree}": "tests/examples/test_site.py::test_every_page_is_in_the_navigation",
    "{include}": "tests/examples/test_blocks.py::test_what_is_included_exists",
    "text": "tests/packaging/test_imports.py::test_design_page_draws_the_tree",
    "indented": "tests/packaging/test_imports.py::test_design_page_draws_the_order",
}


def run(block: pages.Block, names: dict[str, object]) -> None:
    """A transcript as a doctest, anything else as it stands."""
    path = pages.PAGES[block.page]
    if ">>>" not in block.code:
        exec(compile("\n" * (block.line - 1) + block.code, path, "exec"), names)
        return
    parser = doctest.DocTestParser()
    test = parser.get_doctest(block.code, names, path.name, str(path), block.line - 1)
    said: list[str] = []
    doctest.DocTestRunner(verbose=False).run(test, out=said.append, clear_globs=False)
    names.update(test.globs)
    assert not said, "".join(said)


@pytest.mark.parametrize("page", [page for page, found in PYTHON.items() if found])
def test_python_blocks(page: str) -> None:
    source = "".join(block.code for block in PYTHON[page])
    for name in FRAMEWORKS:
        if re.search(rf"\b{name}\b|\.{name}\(", source):
            pytest.importorskip(name)
    names: dict[str, object] = {"__name__": "__main__"}
    try:
        for block in PYTHON[page]:
            run(block, names)
    finally:
        vars(builtins).pop("_", None)  # what was printed last


def test_every_other_block_has_its_test() -> None:
    """`sh` blocks are those of test_shell.py. A block of another kind or page has to be entered."""
    needed = set()
    for block in pages.BLOCKS:
        kind = block.kind.partition(" ")[0]
        if kind == "py":
            assert block.page in RUN_BY, f"{block}: no test runs it"
            needed.add(RUN_BY[block.page])
        elif kind not in ("python", "sh"):
            assert kind in READ_BY, f"{block}: a block of a new kind, {block.kind!r}"
            needed.add(READ_BY[kind])
    assert needed == {*RUN_BY.values(), *READ_BY.values()}
    for page, test in RUN_BY.items():
        file, _, name = test.partition("::")
        source = (pages.ROOT / file).read_text()
        assert f'pages.blocks("py", "{page}")' in source, f"{file} does not take all of {page}"
        assert name in functions(source), test
    for test in READ_BY.values():
        file, _, name = test.partition("::")
        assert name in functions((pages.ROOT / file).read_text()), test


def functions(source: str) -> set[str]:
    return {node.name for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)}


def test_what_is_included_exists() -> None:
    included = [block for block in pages.BLOCKS if block.kind.startswith("{include}")]
    for block in included:
        path = pages.PAGES[block.page].parent / block.kind.partition(" ")[2]
        assert path.is_file(), f"{block} includes {path}"


LOADERS = """
import candle
path = None

def load(path):
    return candle.arange({count}){more}

"""


def test_tests_with_the_plugin(run_child: Callable[..., Child], tmp_path: pages.Path) -> None:
    """docs/knowing.md: they pass where their loader does as it should, and only there."""
    [block] = pages.blocks("py", "docs/knowing.md")
    loaders = {"shares": (8, ""), "small": (512, "[::-1].contiguous()")}
    loaders["large"] = (513, "[::-1].contiguous()")
    for name, (count, more) in loaders.items():
        program = LOADERS.format(count=count, more=more) + block.code
        (tmp_path / f"test_{name}.py").write_text(program)
    child = run_child(
        *("-m", "pytest", "-rA", "-p", "candle.testing.plugin", "-p", "no:cacheprovider"),
        *("--rootdir", tmp_path, tmp_path),
        PYTEST_DISABLE_PLUGIN_AUTOLOAD="1",
    )
    passed = re.findall(r"^PASSED \S*\btest_(\w+)\.py::(\w+)", child.stdout, re.MULTILINE)
    assert sorted(passed) == [
        ("shares", "test_one_copy"),
        ("shares", "test_the_loader_shares"),
        ("small", "test_one_copy"),
    ], child.stdout
    assert "3 failed, 3 passed" in child.stdout


def test_readme_shows_code() -> None:
    assert len(PYTHON["README.md"]) >= 3


def test_pages_link_to_what_exists() -> None:
    for page, path in pages.PAGES.items():
        for target in re.findall(r"\]\(([^)#:]+)\)", path.read_text()):
            assert (path.parent / target).exists(), f"{page} links to {target}"


def test_blocks_of_every_form_are_found() -> None:
    text = """
    indented

    twice
no block
    nor this
~~~ c
```
~~~~
```sh

```
- in a list:

  ```{toctree}
  page
  ```
"""
    found = [(block.kind, block.line, block.code) for block in pages.blocks_of("page", text)]
    assert found == [
        ("indented", 2, "    indented\n\n    twice\n"),
        ("c", 8, "```\n"),
        ("sh", 11, "\n"),
        ("{toctree}", 16, "  page\n"),
    ]
    with pytest.raises(ValueError, match="page, line 2: a block without an end"):
        list(pages.blocks_of("page", "\n```sh\n````c\n"))
