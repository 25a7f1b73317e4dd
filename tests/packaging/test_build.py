"""What the sdist and the wheel hold; `pytest -m build` runs this.

They are built once, the wheel from the sdist.
"""

from __future__ import annotations

import email
import os
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import candle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from email.message import Message

pytestmark = pytest.mark.build

ROOT = Path(__file__).parents[2]
NAME = f"candle_dlpack-{candle.__version__}"
BINARY = f"candle/_native/_core{sysconfig.get_config_var('EXT_SUFFIX')}"
BINARIES = {".so", ".pyd", ".dll", ".dylib", ".a", ".o", ".d", ".pyc"}


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with an sdist of this tree and a wheel of that sdist."""
    pytest.importorskip("build")
    out = tmp_path_factory.mktemp("dist")
    knobs = {
        "CANDLE_COVERAGE",
        "CANDLE_SANITIZE",
        "CANDLE_DEBUG",
        "CANDLE_CXXFLAGS",
        "CANDLE_LDFLAGS",
    }
    done = subprocess.run(
        [sys.executable, "-m", "build", "--outdir", out, ROOT],
        capture_output=True,
        text=True,
        check=False,
        env={name: value for name, value in os.environ.items() if name not in knobs},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return out


@pytest.fixture(scope="session")
def wheel(built: Path) -> zipfile.ZipFile:
    [path] = built.glob("*.whl")
    return zipfile.ZipFile(path)


@pytest.fixture(scope="session")
def sdist(built: Path) -> set[str]:
    """Names of the files in the sdist, without its top folder."""
    [path] = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = [member.name for member in archive.getmembers() if member.isfile()]
    assert {name.partition("/")[0] for name in names} == {NAME}
    return {name.partition("/")[2] for name in names}


def in_tree(folder: str, *suffixes: str) -> set[str]:
    """Files below a folder of the repository that have one of these suffixes."""
    paths = (ROOT / folder).rglob("*")
    return {path.relative_to(ROOT).as_posix() for path in paths if path.suffix in suffixes}


def read(wheel: zipfile.ZipFile, name: str) -> Message:
    return email.message_from_bytes(wheel.read(f"{NAME}.dist-info/{name}"))


def in_package(names: Iterable[str]) -> set[str]:
    return {name for name in names if not name.startswith(f"{NAME}.dist-info/")}


def test_one_sdist_and_one_wheel(built: Path) -> None:
    names = sorted(path.name for path in built.iterdir())
    assert len(names) == 2
    assert names[0].startswith(f"{NAME}-cp")
    assert names[1] == f"{NAME}.tar.gz"


def test_wheel_holds_the_package_and_one_binary(wheel: zipfile.ZipFile) -> None:
    sources = {name.removeprefix("src/") for name in in_tree("src/candle", ".py", ".pyi", ".typed")}
    assert {"candle/__init__.py", "candle/py.typed", "candle/_native/_core.pyi"} <= sources
    assert in_package(wheel.namelist()) == {*sources, BINARY}


def test_wheel_describes_itself(wheel: zipfile.ZipFile) -> None:
    names = set(wheel.namelist()) - in_package(wheel.namelist())
    assert {name.partition("/")[2] for name in names} == {
        "METADATA",
        "RECORD",
        "WHEEL",
        "entry_points.txt",
        "licenses/LICENSE",
    }
    plugins = wheel.read(f"{NAME}.dist-info/entry_points.txt").decode().split()
    assert plugins == ["[pytest11]", "candle", "=", "candle.testing.plugin"]
    metadata = read(wheel, "METADATA")
    assert metadata["Name"] == "candle-dlpack"
    assert metadata["Version"] == candle.__version__
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"] == ">=3.11"
    always = [needed for needed in metadata.get_all("Requires-Dist", []) if "extra" not in needed]
    assert sorted(needed.partition(">")[0] for needed in always) == [
        "array-api-compat",
        "ml-dtypes",
        "numpy",
    ]


def test_wheel_is_for_this_python_alone(wheel: zipfile.ZipFile) -> None:
    described = read(wheel, "WHEEL")
    free_threaded = "t" if sysconfig.get_config_var("Py_GIL_DISABLED") else ""
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    assert described["Root-Is-Purelib"] == "false"
    assert described["Tag"].startswith(f"{python}-{python}{free_threaded}-")


def test_wheel_works(
    wheel: zipfile.ZipFile, tmp_path: Path, in_child: Callable[..., object]
) -> None:
    wheel.extractall(tmp_path)
    code = "import candle; print(candle._native._core.__file__, candle.tensor([1, 2]).tolist())"
    said = in_child(code, PYTHONPATH=str(tmp_path)).check()  # type: ignore[attr-defined]
    assert said.strip() == f"{tmp_path / BINARY} [1, 2]"


def test_sdist_holds_the_sources(sdist: set[str]) -> None:
    wanted = {"LICENSE", "PKG-INFO", "README.md", "hatch_build.py", "pyproject.toml"}
    assert wanted <= sdist
    native = in_tree("src", ".cpp", ".h")
    assert "src/candle/_native/module.cpp" in native
    assert native | in_tree("src", ".py", ".pyi", ".typed") <= sdist
    for folder in ("tests", "examples"):
        files = in_tree(folder, ".py")
        assert files
        assert files <= sdist


def test_sdist_holds_no_binary(sdist: set[str]) -> None:
    assert [name for name in sdist if Path(name).suffix in BINARIES or "__pycache__" in name] == []
