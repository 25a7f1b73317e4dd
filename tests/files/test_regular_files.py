"""What is no plain file, and files that change while they are loaded or in use."""

from __future__ import annotations

import errno
import io
import os
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from model_files import descriptors, entry, mappings, write

import candle
from candle.io import files

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from children import Child

LOADERS: dict[str, Callable[..., Any]] = {
    "safetensors": candle.load_safetensors,
    "npy": candle.load_npy,
    "npz": candle.load_npz,
}
every_loader = pytest.mark.parametrize("kind", LOADERS)
both_ways = pytest.mark.parametrize("mmap", [True, False], ids=["mapped", "read"])


def good_file(kind: str, folder: Path) -> Path:
    path = folder / f"good.{kind}"
    x = np.arange(2048.0)
    if kind == "safetensors":
        write(path, {"x": entry("F64", [2048], 0, x.nbytes)}, x.tobytes())
    elif kind == "npy":
        np.save(path, x)
    else:
        np.savez(path, x=x)
    return path


@every_loader
@both_ways
@pytest.mark.parametrize(
    "case", ["directory", "pipe", "device", "nothing", "below a file", "empty"]
)
def test_what_is_no_file(tmp_path: Path, kind: str, mmap: bool, case: str) -> None:
    path = tmp_path / "it"
    error: type[Exception] = OSError
    if case == "directory":
        path.mkdir()
        error, told = IsADirectoryError, "a directory cannot be loaded, only a regular file"
    elif case == "pipe":
        os.mkfifo(path)  # which nobody writes to
        told = "a pipe cannot be loaded, only a regular file: copy it into one first"
    elif case == "device":
        path = path.parent / "/dev/zero"
        told = "a character device cannot be loaded"
    elif case == "nothing":
        error, told = FileNotFoundError, "No such file"
    elif case == "below a file":
        path.touch()
        path /= "it"
        error, told = NotADirectoryError, "Not a directory"
    else:
        path.touch()
        error, told = ValueError, "0 bytes|not a zip file|ends after byte 0"
    before = descriptors()
    with pytest.raises(error, match=told) as refused:
        LOADERS[kind](path, mmap=mmap)
    assert str(path) in str(refused.value)
    assert descriptors() <= before


@every_loader
@pytest.mark.parametrize("path", [None, 3, 1.5, io.BytesIO(b"")])
def test_what_is_no_path(kind: str, path: Any) -> None:
    with pytest.raises(TypeError, match="expected str, bytes"):
        LOADERS[kind](path)


@every_loader
@both_ways
def test_every_file_cut_short_is_refused(tmp_path: Path, kind: str, mmap: bool) -> None:
    path = good_file(kind, tmp_path)
    whole = path.read_bytes()
    head = len(whole) - 2048 * 8
    for length in (*range(0, min(head, 200), 7), head - 1, head, head + 1, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(ValueError, match="good") as refused:
            LOADERS[kind](path, mmap=mmap)
        assert type(refused.value) is ValueError
        assert str(path) in str(refused.value)
        del refused
        assert mappings(path) == 0


@every_loader
def test_a_file_that_shrinks_while_it_is_loaded(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before it is mapped, and just after: Python compares first, candle then."""
    path = good_file(kind, tmp_path)
    content, size = path.read_bytes(), path.stat().st_size
    real = files.mmap

    def before(*args: Any, **options: Any) -> Any:
        os.truncate(path, size - 5000)
        return real(*args, **options)

    def after(*args: Any, **options: Any) -> Any:
        mapping = real(*args, **options)
        os.truncate(path, size - 5000)
        return mapping

    for shrinks in (before, after):
        path.write_bytes(content)
        with monkeypatch.context() as patch:
            patch.setattr(files, "mmap", shrinks)
            with pytest.raises(ValueError, match=f"had {size} bytes .*, and has {size - 5000} now"):
                LOADERS[kind](path)
        assert mappings(path) == 0


def test_a_file_that_shrinks_while_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = good_file("safetensors", tmp_path)
    real = os.preadv
    calls = 0

    def shrinks(*args: Any) -> int:
        nonlocal calls
        calls += 1
        if calls == 3:  # after the header
            os.truncate(path, 1000)
        return real(*args)

    monkeypatch.setattr(os, "preadv", shrinks)
    with pytest.raises(ValueError, match="and has 1000 now: somebody writes to it"):
        candle.load_safetensors(path, mmap=False)


def test_reads_that_give_less_than_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.preadv

    def little(fd: int, views: list[memoryview], offset: int) -> int:
        return real(fd, [views[0][:100]], offset)

    monkeypatch.setattr(os, "preadv", little)
    for kind, load in LOADERS.items():
        given = load(good_file(kind, tmp_path), mmap=False)
        t = given if kind == "npy" else given["x"]
        assert t.tolist() == list(range(2048))


def test_a_file_system_that_maps_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def cannot(*args: Any, **options: Any) -> Any:
        raise OSError(errno.ENODEV, os.strerror(errno.ENODEV))

    path = good_file("safetensors", tmp_path)
    monkeypatch.setattr(files, "mmap", cannot)
    with pytest.raises(OSError, match="No such device") as refused:
        candle.load_safetensors(path)
    assert refused.value.filename == str(path)
    assert refused.value.__notes__ == ["mmap=False reads the file instead"]
    assert candle.load_safetensors(path, mmap=False)["x"].shape == (2048,)


CUT = """
    import os, sys
    import candle
    x = candle.load_safetensors(sys.argv[1], mmap=sys.argv[2] == "mapped")["x"]
    os.truncate(sys.argv[1], 0)
    print(x[5].item(), flush=True)
"""


@pytest.mark.own_memory
def test_a_mapped_file_that_is_cut_short_ends_the_process(
    tmp_path: Path, in_child: Callable[..., Child]
) -> None:
    """As docs/files.md says. What is read beforehand does not care."""
    assert in_child(CUT, str(good_file("safetensors", tmp_path)), "mapped").signal == "SIGBUS"
    output = in_child(CUT, str(good_file("safetensors", tmp_path)), "read").check()
    assert output == "5.0\n"


def test_a_file_that_is_replaced_stays_as_it_was(tmp_path: Path) -> None:
    path = good_file("safetensors", tmp_path)
    t = candle.load_safetensors(path)["x"]
    candle.save_safetensors({"x": np.zeros(3)}, path)
    assert t[-1].item() == 2047
    path.unlink()
    assert t[5].item() == 5


def test_many_files_at_once(tmp_path: Path) -> None:
    path = good_file("npy", tmp_path)
    held = [candle.load_npy(path) for _ in range(300)]
    assert mappings(path) == 300
    assert {t[7].item() for t in held} == {7.0}
    del held
    assert mappings(path) == 0
