"""Write the docstrings of the running library into the stub of the native core.

Editors and type checkers read the stub, and `help` reads the library: both say the same. With
``--check`` nothing is written, and the status says whether something would be.
"""

from __future__ import annotations

import ast
import inspect
import sys
from pathlib import Path
from typing import Any

import candle
from candle._native import _core

STUB = Path(__file__).parents[1] / "src/candle/_native/_core.pyi"


def documented(node: ast.FunctionDef) -> bool:
    """Whether a function of the stub carries a docstring: overloads and special methods do not."""
    private = node.name.startswith("_")
    decorators = {ast.unparse(decorator) for decorator in node.decorator_list}
    return not private and "overload" not in decorators


def docstring(owner: Any, name: str) -> str | None:
    """Give what the library says of it."""
    return inspect.getdoc(inspect.getattr_static(owner, name))


def body(text: str, indent: str) -> list[str]:
    """Write the lines of a docstring."""
    first, *rest = text.replace("\\", "\\\\").split("\n")
    lines = [f'{indent}"""{first}', *(f"{indent}{line}" if line else "" for line in rest)]
    if len(lines) > 1:
        return [*lines, f'{indent}"""']
    return [lines[0] + '"""']


def written(stub: str) -> str:
    """Give the stub the docstrings of the library."""
    lines = stub.split("\n")
    tree = ast.parse(stub)
    found: list[tuple[ast.FunctionDef, Any]] = []
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            found.append((node, _core))
        elif isinstance(node, ast.ClassDef):
            owner = getattr(_core, node.name)
            found += [(inner, owner) for inner in node.body if isinstance(inner, ast.FunctionDef)]
    for node, owner in sorted(found, key=lambda pair: -pair[0].lineno):
        if not documented(node):
            continue
        text = docstring(owner, node.name)
        if text is None:
            raise SystemExit(f"{node.name} has no docstring")
        statement = node.body[0]
        first, last = statement.lineno - 1, node.end_lineno or statement.lineno
        head = lines[first][: statement.col_offset].rstrip()
        indent = " " * (node.col_offset + 4)
        lines[first:last] = [*([head] if head else []), *body(text, indent)]
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    """Write or check."""
    assert candle.Tensor is _core.Tensor
    was = STUB.read_text()
    now = written(was)
    if arguments == ["--check"]:
        return int(now != was)
    STUB.write_text(now)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
