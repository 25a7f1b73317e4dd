"""`python -m candle`, and what it says of packages of the same name."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

import candle
from candle import doctor, frameworks, neighbours

if TYPE_CHECKING:
    from collections.abc import Callable

PACKAGE = Path(candle.__file__).parent
OUTCOMES = {"shared", "copied", "refused"}


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    return doctor.examine()


def test_frameworks(report: dict[str, Any]) -> None:
    assert report["frameworks"].keys() == set(frameworks.known())
    assert report["frameworks"]["numpy"]["version"] == pytest.importorskip("numpy").__version__


def test_pairs_are_what_happens(report: dict[str, Any]) -> None:
    pairs = {(pair["from"], pair["to"]): pair for pair in report["pairs"]}
    usable = [name for name, entry in report["frameworks"].items() if "version" in entry]
    targets = [name for name in usable if name in frameworks.TARGETS]
    assert {to for _, to in pairs} == set(targets)
    assert {pair["outcome"] for pair in report["pairs"]} <= OUTCOMES
    assert pairs["numpy", "candle"]["outcome"] == pairs["candle", "numpy"]["outcome"] == "shared"
    for (kind, _), pair in pairs.items():
        assert bool(pair["why"]) == (pair["outcome"] != "shared"), kind
        assert bool(pair["bytes"]) == (pair["outcome"] == "copied"), kind
    if "torch" in usable:
        assert pairs["numpy", "torch"]["outcome"] == "shared"
        assert pairs["numpy, read-only", "torch"]["why"].startswith("read_only")
        assert pairs["numpy, reversed", "torch"]["why"].startswith("negative_stride")
        assert "detach" in pairs["torch, requires grad", "numpy"]["why"]


def test_hazards(report: dict[str, Any]) -> None:
    torch = pytest.importorskip("torch")
    told = " ".join(report["hazards"]["torch"])
    assert "could not be tried" not in told
    if torch.__version__.startswith("2.13."):
        for words in ("SIGABRT", "READ_ONLY", "negative bit"):
            assert words in told


def test_what_jax_keeps_is_told(report: dict[str, Any], in_child: Any) -> None:
    """Whether memory that jax had stays until a collection, as the hazard says."""
    jax = pytest.importorskip("jax")
    told = " ".join(report["hazards"]["jax"])
    said = in_child(
        """
        import gc
        gc.disable()
        import candle
        from candle.testing import live
        array = candle.zeros(16).jax()
        taken = candle.asarray(array)
        del array, taken
        kept = live()["exports"]
        gc.collect(0)
        assert live() == {"tensors": 0, "storages": 0, "bytes": 0, "exports": 0}, live()
        print(kept)
        """
    ).check()
    assert ("garbage collection" in told) == (int(said) == 1)
    if jax.__version__.startswith("0.10."):
        assert int(said) == 1


def test_machine(report: dict[str, Any]) -> None:
    assert report["machine"]["threads"] == candle.get_num_threads()
    assert report["machine"]["simd"] in ("avx512", "avx2", "baseline")
    assert report["cuda"].startswith(("no driver", "a driver", "driver for CUDA"))
    assert report["candle"]["folder"] == str(PACKAGE)
    json.dumps(report)


def test_prints(report: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    doctor._print(report)
    text = capsys.readouterr().out
    for words in ("frameworks\n", "pairs, tried just now\n", "hazards\n", "name clashes\n"):
        assert words in text


def test_route(capsys: pytest.CaptureFixture[str]) -> None:
    assert doctor.main(["--route", "numpy", "candle"]) == 0
    assert [line.split()[-1] for line in capsys.readouterr().out.splitlines()] == ["shared"] * 3
    assert doctor.main(["--route", "candle", "numpy", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [
        {"from": "candle", "to": "numpy", "outcome": "shared", "why": "", "bytes": 0}
    ]
    with pytest.raises(SystemExit) as caught:
        doctor.main(["--route", "pandas", "numpy"])
    assert caught.value.code == 2
    assert "'pandas' is none of" in capsys.readouterr().err


def test_as_a_module(run_child: Callable[..., Any]) -> None:
    said = run_child("-m", "candle", "--route", "numpy", "candle", "--json").check()
    assert {pair["outcome"] for pair in json.loads(said)} == {"shared"}


def test_framework_that_fails_to_import(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "cupy.py").write_text("raise OSError('no libcudart')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "cupy", raising=False)
    assert doctor._look_for("cupy") == {"error": "OSError: no libcudart"}


BROKEN = {
    "torch": "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)",
    "jax": "raise SystemExit('no more of this')",
    "cupy": "import os; os._exit(3)",
    "tvm_ffi": "print('hello'); __version__ = 3",
    "pyarrow": "raise OSError('libarrow.so: cannot open')",
}


@pytest.fixture
def broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Packages in the frameworks' places, none of which works."""
    for name, code in BROKEN.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(code)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    return tmp_path


def test_frameworks_that_are_broken(broken: Path, run_child: Callable[..., Any]) -> None:
    """Each is told of; none ends it, and nothing but JSON is printed."""
    child = run_child("-m", "candle", "--json")
    assert child.returncode == 0, child.stderr
    report = json.loads(child.stdout)
    errors = {name: entry.get("error") for name, entry in report["frameworks"].items()}
    assert errors["torch"] == "ends the process: killed by SIGSEGV"
    assert errors["jax"] == "SystemExit: no more of this"
    assert errors["cupy"] == "ends the process: ended with status 3"
    assert errors["pyarrow"] == "OSError: libarrow.so: cannot open"
    assert report["frameworks"]["tvm_ffi"]["version"] == "3"
    tried = {(pair["from"], pair["to"]): pair["outcome"] for pair in report["pairs"]}
    assert tried["candle", "tvm_ffi"] == tried["tvm_ffi", "candle"] == "refused"
    assert all(one != other for one, other in tried)
    assert "no attribute" in report["hazards"]["tvm_ffi"][0]


@pytest.mark.parametrize(
    ("producer", "consumer", "words"),
    [
        ("torch", "candle", "killed by SIGSEGV"),
        ("candle", "cupy", "ended with status 3"),
        ("jax", "candle", "SystemExit: no more of this"),
        ("candle", "tvm-ffi", "no attribute"),
    ],
)
def test_route_of_broken_ones(
    broken: Path, run_child: Callable[..., Any], producer: str, consumer: str, words: str
) -> None:
    said = run_child("-m", "candle", "--route", producer, consumer, "--json").check()
    (pair,) = json.loads(said)
    assert pair["outcome"] == "refused"
    assert words in pair["why"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
@pytest.mark.parametrize("asks", [["--json"], ["--route", "candle", "numpy"]])
def test_without_fork(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], asks: list[str]
) -> None:
    """A system that has none tries in its own process, and says the same."""
    monkeypatch.setattr(frameworks, "known", lambda: ("candle", "numpy"))
    said = []
    for fork in (True, False):
        if not fork:
            monkeypatch.delattr(os, "fork")
        assert doctor.main(asks) == 0
        said.append(capsys.readouterr().out)
    assert said[0] == said[1]
    assert "shared" in said[0]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_an_end_that_no_framework_makes(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is told of, and not tried for ever."""
    parent = os.getpid()
    monkeypatch.setattr(doctor, "_machine", lambda: os.getpid() == parent or os._exit(3))
    for names, words in ((("numpy",), "numpy"), ((), "")):
        monkeypatch.setattr(frameworks, "known", lambda names=names: names)
        with pytest.raises(SystemExit, match=f"python -m candle: {words} ended with status 3"):
            doctor.main([])


def test_copies_that_nobody_tells_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """A framework that copies what it was given to share."""
    np = pytest.importorskip("numpy")
    monkeypatch.setattr(doctor, "convert", lambda x, to: np.array(x))
    told = doctor._move("candle", candle.zeros(3), "numpy")
    assert told == {
        **{"from": "candle", "to": "numpy", "outcome": "copied"},
        **{"why": "by numpy itself", "bytes": 12},
    }


def _right(x: Any) -> Any:
    """What takes any tensor right: a copy by candle."""
    return candle.asarray(x).torch(copy=True)


@pytest.mark.parametrize("name", ["torch", "jax", "tvm_ffi", "pyarrow"])
def test_hazards_that_a_version_has_not(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = pytest.importorskip(name)
    if name == "torch":
        monkeypatch.setattr(module, "from_dlpack", _right)
    if name == "tvm_ffi":
        real = module.from_dlpack
        monkeypatch.setattr(module, "from_dlpack", lambda x: real(candle.tensor(x)))
    if name == "pyarrow":
        kind = module.fixed_shape_tensor
        monkeypatch.setattr(module, "fixed_shape_tensor", lambda of, shape, **_: kind(of, shape))
    if name == "jax":
        module.config.update("jax_enable_x64", True)
        monkeypatch.setattr(module.dlpack, "from_dlpack", candle.from_dlpack)
    try:
        assert frameworks.hazards(name, doctor.trial) == []
    finally:
        if name == "jax":
            module.config.update("jax_enable_x64", False)


# Packages of the same name.


@pytest.mark.parametrize(
    ("name", "mark"), [(n, m) for n, marks in neighbours._MARKS.items() for m in marks]
)
def test_files_of_others(tmp_path: Path, name: str, mark: str) -> None:
    (tmp_path / mark).touch()
    assert neighbours.clashes(str(tmp_path)) == [name]
    with pytest.warns(RuntimeWarning, match=f"files of {name}.*pip uninstall {name} candle-dlpack"):
        neighbours.warn(str(tmp_path))


def test_none_here() -> None:
    assert neighbours.clashes(str(PACKAGE)) == []
    assert neighbours.clashes("/nowhere/at/all") == []


def test_those_installed_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in neighbours.NAMES:
        (tmp_path / f"{name.replace('-', '_')}-0.9.dist-info").mkdir()
        (tmp_path / f"{name.replace('-', '_')}-0.9.dist-info" / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.9\n"
        )
    monkeypatch.syspath_prepend(tmp_path)
    hook = ModuleType("_candle_torch_compat")
    hook.__file__ = str(tmp_path / "_candle_torch_compat.py")
    monkeypatch.setitem(sys.modules, "_candle_torch_compat", hook)
    told = doctor._clashes()
    assert [text.partition(" is installed")[0] for text in told[:-1]] == [
        f"{name} 0.9" for name in neighbours.NAMES
    ]
    assert all(
        f"pip uninstall {name}" in text
        for name, text in zip(neighbours.NAMES, told[:-1], strict=True)
    )
    assert "import hook is active" in told[-1]


def test_import_warns(tmp_path: Path, run_child: Callable[..., Any]) -> None:
    folder = tmp_path / "candle"
    shutil.copytree(PACKAGE, folder, ignore=shutil.ignore_patterns("*.cpp", "*.h", "__pycache__"))
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import candle; print(candle.__file__)"
    )
    assert run_child("-c", code).check().strip() == str(folder / "__init__.py")
    (folder / "candle.abi3.so").touch()
    child = run_child("-c", code)
    assert child.returncode == 0
    assert "RuntimeWarning: files of candle-nn" in child.stderr
    assert "pip uninstall candle-nn candle-dlpack" in child.stderr


def test_hazard_of_jax_that_it_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    """A version that narrows nothing by itself has one hazard less, whichever way it says so."""
    jax = pytest.importorskip("jax")
    wide = jax.numpy.zeros(1).astype("float32")

    def refuses(x: Any, copy: bool = True) -> Any:
        if not copy:
            raise ValueError("float64 needs x64")
        return x

    told = {}
    for name, function in (("refuses", refuses), ("narrows", lambda x, copy=True: wide)):
        monkeypatch.setattr(jax.dlpack, "from_dlpack", function)
        told[name] = frameworks.hazards("jax", doctor.trial)
    assert len(told["refuses"]) == 1
    assert told["narrows"][:-1] == told["refuses"]
    assert "narrows 64-bit" in told["narrows"][-1]
