"""Which module of candle may import which, and what `import candle` must not load."""

from __future__ import annotations

import ast
import json
import re
import sys
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pages
import pytest

import candle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# A part imports what stands before it, in its own line and in those above, and its own modules.
LINES = (
    ("_native",),
    ("naming", "dtypes", "devices", "threads"),
    ("codes", "callables", "plan", "ledger", "forbidding", "tracing", "neighbours", "attaching"),
    ("frameworks", "cuda"),
    ("creation", "patterns", "printing", "joining", "sampling", "pickling", "engines"),
    ("views", "doors"),
    ("tensor", "delegating"),
    ("operators", "advanced_indexing", "numpy_protocols", "reductions", "hf_methods"),
    ("explain", "memory", "trees", "leaves", "copies", "convert", "accepting"),
    ("sharing", "hf", "mpi", "io", "array_api"),
    ("utils",),
    ("__init__",),
    ("testing", "doctor", "__main__"),
)
ORDER = [name for line in LINES for name in line]

# Each costs as much as half of candle or more, or is a framework that the user may not want.
SLOW = {"ast", "dataclasses", "enum", "importlib.metadata", "inspect", "json", "mmap", "typing"}
SLOW |= {"zipfile"}
FRAMEWORKS = {
    "array_api_compat",
    "cupy",
    "datasets",
    "jax",
    "ml_dtypes",
    "numpy",
    "pyarrow",
    "torch",
    "tvm_ffi",
}

PACKAGE = Path(candle.__file__).parent


class Import(NamedTuple):
    """One import of one module."""

    module: str  # the whole dotted name, such as candle.frameworks.torch
    line: int
    in_function: bool
    for_types: bool  # below `if TYPE_CHECKING`


def module_name(path: Path) -> str:
    parts = ("candle", *path.relative_to(PACKAGE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def module_names() -> set[str]:
    return {module_name(path) for path in PACKAGE.rglob("*.py")} | {"candle._native._core"}


def imported(node: ast.AST, package: str, known: set[str]) -> list[str]:
    """Modules that an import statement in a package loads."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if not isinstance(node, ast.ImportFrom):
        return []
    base = node.module or ""
    if node.level:
        parent = package.split(".")[: len(package.split(".")) - node.level + 1]
        base = ".".join([*parent, *([node.module] if node.module else [])])
    # A name of a package is a module of it, or stands in its __init__.
    whole = [f"{base}.{alias.name}" for alias in node.names]
    return [name if name in known else base for name in whole]


def walk(
    node: ast.AST, package: str, known: set[str], in_function: bool = False, for_types: bool = False
) -> Iterator[Import]:
    """Every import below a node of the syntax tree, those in function bodies included."""
    for child in ast.iter_child_nodes(node):
        for name in imported(child, package, known):
            yield Import(name, child.lineno, in_function, for_types)  # type: ignore[attr-defined]
        function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        types = isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)
        yield from walk(child, package, known, in_function or function, for_types or types)


def imports_of(path: Path) -> list[Import]:
    name = module_name(path)
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    return list(walk(ast.parse(path.read_text()), package, module_names()))


def part(module: str) -> str:
    """First name below candle, as ORDER has it."""
    return module.split(".")[1] if "." in module else "__init__"


FILES = sorted(PACKAGE.rglob("*.py"))
every_file = pytest.mark.parametrize("path", FILES, ids=map(module_name, FILES))


@every_file
def test_imports_point_one_way(path: Path) -> None:
    own = part(module_name(path))
    assert own in ORDER, f"ORDER does not say where {own} stands"
    wrong = [
        f"line {each.line}: {each.module}"
        for each in imports_of(path)
        if each.module.partition(".")[0] == "candle"
        and part(each.module) != own
        and ORDER.index(part(each.module)) > ORDER.index(own)
    ]
    assert wrong == []


@every_file
def test_no_third_party_at_import(path: Path) -> None:
    allowed = {*sys.stdlib_module_names, "candle"}
    if module_name(path) == "candle.testing.plugin":  # which pytest imports, and nobody else
        allowed.add("pytest")
    loaded = [each for each in imports_of(path) if not each.in_function and not each.for_types]
    assert [each for each in loaded if each.module.partition(".")[0] not in allowed] == []


@every_file
def test_functions_import_no_own_module(path: Path) -> None:
    """The exceptions are the files of frameworks/ and io/, loaded when they are first needed."""
    own = [each for each in imports_of(path) if each.in_function and each.module[:6] == "candle"]
    assert [each for each in own if part(each.module) not in ("frameworks", "io")] == []


def test_no_attribute_is_made_up_on_the_way() -> None:
    """CPython looks names up at full speed only in modules that have no `__getattr__`."""
    assert "__getattr__" not in vars(candle)


def test_the_walk_sees_what_is_hidden() -> None:
    code = """
from . import dtypes, missing
from ..plan import refusal
TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..tensor import Tensor
class A:
    def f(self):
        if self:
            import torch.nn
"""
    known = {"candle.frameworks.dtypes"}
    assert list(walk(ast.parse(code), "candle.frameworks", known)) == [
        Import("candle.frameworks.dtypes", 2, False, False),
        Import("candle.frameworks", 2, False, False),
        Import("candle.plan", 3, False, False),
        Import("candle.tensor", 6, False, True),
        Import("torch.nn", 10, True, False),
    ]


@pytest.mark.parametrize("use", ["", "repr(candle.Tensor([1, 2, 3]))"])
def test_import_stays_cheap(in_child: Callable[..., Any], use: str) -> None:
    code = f"""
        import json, sys
        before = set(sys.modules)
        import candle
        {use}
        print(json.dumps(sorted(set(sys.modules) - before)))
    """
    loaded = json.loads(in_child(code).check())
    assert "candle" in loaded
    assert (SLOW | FRAMEWORKS).intersection(loaded) == set()
    assert [name for name in loaded if name.startswith("candle.io.")] == []


def test_design_page_draws_the_tree() -> None:
    [block] = pages.blocks("text", "docs/design.md")
    named = re.findall(r"\w+(?:\.py|/)(?= |$)", block.code.partition("\n")[2], re.MULTILINE)
    there = {f"{path.name}/" for path in PACKAGE.iterdir() if path.is_dir()}
    there |= {path.name for path in PACKAGE.glob("*.py")}
    assert sorted(named) == sorted(there - {"__init__.py", "__main__.py", "__pycache__/"})


def test_design_page_draws_the_order() -> None:
    [block] = pages.blocks("indented", "docs/design.md")
    groups = [
        [ORDER.index(name) for name in re.findall(r"\w+", group)]
        for group in block.code.split("<-")
    ]
    assert len(groups) > 5
    assert all(max(before) < min(after) for before, after in pairwise(groups)), groups
