"""Each command of an `sh` block in a page is run, or stands in NOT_RUN with the reason.

What cannot be run is looked at: its files, options, extras and requirements are there.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import children
import pages
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

PROJECT = tomllib.loads((pages.ROOT / "pyproject.toml").read_text())["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
CI = (pages.ROOT / ".ci" / "run").read_text()

INSTALLS = "installs: the network, and minutes"
IN_CI = "the network, and minutes; .ci/run does it"
SUITE = "it is what runs this"
COMPILES = "compiles the core for minutes"
NOT_RUN = {
    "pip install .": IN_CI,
    "pip install '.[test]'": IN_CI,
    "pip install -e '.[test,dev]'": INSTALLS,
    "pip install pytest hypothesis ml_dtypes -e .": INSTALLS,
    "pip install torch==2.13.0": INSTALLS,
    "pip install --target ~/hf candle-nn": IN_CI,
    "python examples/exchange.py": "test_examples.py runs it",
    "python -m pytest -n 2 --dist loadfile": SUITE,
    "python -m pytest tests/unit/test_tensor.py": SUITE,
    "python -m pytest -m build tests/packaging": IN_CI,
    "CANDLE_CXXFLAGS=-fsanitize-coverage=trace-pc pip install -e .": INSTALLS,
    ".ci/sanitized address -m tests.fuzz --seconds 600 --workers 2": COMPILES,
    ".ci/sanitized thread -m pytest tests/threads": COMPILES,
}


def commands() -> dict[str, pages.Block]:
    """Every command of the blocks, and a block that has it."""
    return {
        command: block
        for block in pages.BLOCKS
        if block.kind == "sh"
        for line in block.code.splitlines()
        for command in re.sub(r"(^|\s+)#.*", "", line).split(" && ")
        if command
    }


COMMANDS = commands()


# Those that are run: each says by what, in an empty folder.


def run(*command: str | Path, **environment: str) -> children.Child:
    return children.run_command(*map(str, command), timeout=300, **environment)


def environment_is_made(tmp_path: Path) -> None:
    """The two belong together; without pip, which takes seconds to be copied."""
    code = "python3 -m venv --without-pip .venv && . .venv/bin/activate && command -v python"
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    said = run("sh", "-c", f"cd {shlex.quote(str(tmp_path))} && {code}", PATH=path).check()
    assert said == f"{tmp_path}/.venv/bin/python\n"


def fuzzer_finds_nothing(tmp_path: Path) -> None:
    """Shorter, and with none of the libraries, which take long to be imported."""
    words = shlex.split(FUZZ)[1:]
    shorter = ("--seconds", "2", "--seed", "1", "--workers", "1", "--libraries")
    child = run(sys.executable, *words, *shorter, PYTHONPATH=os.pathsep.join(path_of_candle()))
    assert re.match(r"[1-9]\d* inputs in .* 0 failures\n$", child.check()), child.stdout


def report_says_that_there_is_no_gpu(tmp_path: Path) -> None:
    words = shlex.split("python tests/gpu/report.py report.json")[1:-1]
    child = run(sys.executable, *words, tmp_path / "report.json", CUDA_VISIBLE_DEVICES="")
    assert (child.returncode, child.stdout) == (2, "no CUDA device: nothing was run\n")


def path_of_candle() -> list[str]:
    import candle

    return [str(pages.ROOT), str(Path(candle.__file__).parents[1])]


FUZZ = "python -m tests.fuzz --seconds 600 --workers 2 --libraries torch tvm_ffi"
RUN: dict[str, Callable[[Path], None]] = {
    "python3 -m venv .venv": environment_is_made,
    ". .venv/bin/activate": environment_is_made,
    FUZZ: fuzzer_finds_nothing,
    "python tests/gpu/report.py report.json": report_says_that_there_is_no_gpu,
}


def test_every_command_is_known() -> None:
    unknown = {command: str(block) for command, block in COMMANDS.items()}
    for command in (*RUN, *NOT_RUN):
        assert command in unknown, f"no page has {command!r} any more"
        del unknown[command]
    assert unknown == {}, "neither RUN nor NOT_RUN has them"


@pytest.mark.parametrize("check", dict.fromkeys(RUN.values()), ids=lambda check: check.__name__)
def test_runs(
    check: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(pages.ROOT)
    check(tmp_path)


# Those that are not.


def name_of(requirement: str) -> str:
    return re.split(r"[^\w.-]", requirement)[0]


def look_at_pip(words: list[str]) -> None:
    """What is installed is what the project, or CI, names."""
    known = {need.partition(";")[0] for needs in EXTRAS.values() for need in needs}
    known |= {*PROJECT["dependencies"]}
    known |= {name_of(need) for need in known}
    if "--target" in words:
        at = words.index("--target")
        assert f'--target "$work/hf" {words[at + 2]}\n' in CI
        assert words[at + 1] == "~/hf"
        return
    for word in words:
        if word in ("-e", "."):
            continue
        extras = re.fullmatch(r"\.\[([\w,-]+)\]", word)
        if extras:
            assert set(extras[1].split(",")) <= EXTRAS.keys(), word
        else:
            assert word in known, word


def look_at_pytest(words: list[str]) -> None:
    """Its options are understood, and there are tests of that choice: in one folder, of all."""
    pytest.importorskip("xdist")
    paths = [word for word in words if word.startswith("tests/")] or ["tests/threads"]
    options = [word for word in words if word not in paths]
    assert all((pages.ROOT / path).exists() for path in paths), words
    child = run(sys.executable, "-m", "pytest", *options, *paths, "--collect-only", "-q")
    found = re.search(r"^(\d+)(?:/\d+)? tests? collected", child.check(), re.MULTILINE)
    assert found, child.stdout
    assert int(found[1]) > 5


def look_at_python(words: list[str]) -> None:
    if words[:2] == ["-m", "pytest"]:
        look_at_pytest(words[2:])
    elif words[:2] == ["-m", "tests.fuzz"]:
        assert shlex.join(words[:6]) in FUZZ
    else:
        [script] = words
        assert f'"{Path(script).name}"' in (Path(__file__).parent / "test_examples.py").read_text()


def look_at_flags(flags: str, tmp_path: Path) -> None:
    """The compiler has them."""
    if shutil.which("g++") is None:
        pytest.skip("there is no g++")
    command = ["g++", *shlex.split(flags), "-c", "-x", "c++", os.devnull, "-o", tmp_path / "o"]
    subprocess.run(command, check=True)


def test_what_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(pages.ROOT)
    for command in NOT_RUN:
        words = shlex.split(command)
        while re.match(r"[A-Z_]+=", words[0]):
            variable, _, flags = words.pop(0).partition("=")
            assert f"``{variable}" in (pages.ROOT / "hatch_build.py").read_text()
            look_at_flags(flags, tmp_path)
        if words[:2] == ["pip", "install"]:
            look_at_pip(words[2:])
        elif words[0] == "python":
            look_at_python(words[1:])
        else:
            assert words[0] == ".ci/sanitized", command
            assert os.access(words[0], os.X_OK)
            assert f"  {words[1]})" in Path(words[0]).read_text()
            look_at_python(words[2:])


def test_ci_runs_what_it_is_said_to(tmp_path: Path) -> None:
    """README.md's are taken from the page itself."""
    script = pages.ROOT / ".ci" / "readme_commands.py"
    taken = [run(sys.executable, script, name).check() for name in ("install", "test")]
    assert taken == [block.code for block in pages.blocks("sh", "README.md")]
    for name in ("install", "test"):
        assert f"\nreadme {name}\n" in CI
    assert "\npython -m pytest -m build tests/packaging\n" in CI
