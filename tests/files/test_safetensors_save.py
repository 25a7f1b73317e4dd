"""Saving safetensors files: what the bytes are, and that they are there whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import gc
import os
import socket
import stat
from collections import OrderedDict, UserDict, namedtuple
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from model_files import DTYPES, data_of, descriptors, header_of, names_in

import candle
from candle.io.replacing import Replacement

if TYPE_CHECKING:
    from collections.abc import Callable

    from children import Child


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.safetensors"


def saved(tree: Any, path: Path, **options: Any) -> dict[str, candle.Tensor]:
    candle.save_safetensors(tree, path, **options)
    return candle.load_safetensors(path)


# What is written.


@pytest.mark.parametrize(("name", "own", "bits"), DTYPES, ids=[row[0] for row in DTYPES])
def test_every_dtype_there_and_back(path: Path, name: str, own: str, bits: int) -> None:
    t = candle.Tensor([[1, 2, 1, 4], [1, 1, 2, 4]], dtype=own)
    back = saved({"x": t}, path)["x"]
    header = header_of(path)["x"]
    assert header == {"dtype": name, "shape": [2, 4], "data_offsets": [0, bits]}
    assert (back.dtype, back.shape, back.tolist()) == (t.dtype, t.shape, t.tolist())


def test_pairs_are_two_elements(path: Path, framework: Any) -> None:
    torch = framework("torch")
    x = torch.arange(8, dtype=torch.uint8).view(torch.float4_e2m1fn_x2).reshape(2, 4)
    back = saved({"x": x}, path)["x"]
    assert header_of(path)["x"]["shape"] == [2, 8]
    assert data_of(path) == bytes(range(8))
    assert back.view("float4_e2m1fn_x2").torch().view(torch.uint8).tolist() == [
        [0, 1, 2, 3],
        [4, 5, 6, 7],
    ]


def test_padded_elements_are_packed(path: Path) -> None:
    codes = np.random.default_rng(1).integers(0, 16, (3, 500_001 * 2), np.uint8)
    padded = codes.view(ml_dtypes.float4_e2m1fn)
    candle.save_safetensors({"x": padded, "y": padded[:, ::2][:, :8], "z": padded[:0]}, path)
    flat = codes.ravel()
    x = (flat[::2] | flat[1::2] << 4).tobytes()
    flat = codes[:, ::2][:, :8].ravel()
    y = (flat[::2] | flat[1::2] << 4).tobytes()
    header, data = header_of(path), data_of(path)
    assert data[slice(*header["x"]["data_offsets"])] == x
    assert data[slice(*header["y"]["data_offsets"])] == y
    assert header["z"]["shape"] == [0, 1_000_002]


def test_tensors_of_all_frameworks(path: Path, framework: Any) -> None:
    torch, jax = framework("torch"), framework("jax")
    tree = {
        "torch": torch.arange(6, dtype=torch.bfloat16).reshape(2, 3),
        "numpy": np.arange(3, dtype="u2"),
        "jax": jax.numpy.arange(4, dtype="int32"),
        "candle": candle.arange(5),
        "buffer": memoryview(bytearray(b"abc")),
    }
    del tree["buffer"]  # plain bytes are no tensors
    back = saved(tree, path)
    assert {name: t.tolist() for name, t in back.items()} == {
        name: candle.asarray(x).tolist() for name, x in tree.items()
    }
    assert str(back["torch"].dtype) == "bfloat16"


def test_parameters_are_written_without_their_gradient(path: Path, framework: Any) -> None:
    torch = framework("torch")
    layer = torch.nn.Linear(3, 2)
    grown = layer.weight * 2
    back = saved({**dict(layer.named_parameters()), "grown": grown}, path)
    assert back["weight"].tolist() == layer.weight.tolist()
    assert back["grown"].tolist() == grown.tolist()


LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "transposed": lambda x: x.T,
    "reversed": lambda x: x[::-1, ::-1],
    "stepped": lambda x: x[::3, 1::2],
    "broadcast": lambda x: np.broadcast_to(x[:1], x.shape),
    "wide rows": lambda x: x.reshape(3, -1, 2)[:, :, 0],
    "one row": lambda x: x.reshape(1, -1)[:, ::2],
    "swapped": lambda x: x.astype(x.dtype.newbyteorder()),
    "read-only": lambda x: np.frombuffer(x.tobytes(), x.dtype),
    "misaligned": lambda x: np.frombuffer(b"\0" + x.tobytes(), x.dtype, offset=1),
    "no axes": lambda x: x[3, 4, ...],
    "empty": lambda x: x[:, :0],
    "many axes": lambda x: x.reshape(300, 30, 10, 70).transpose(3, 1, 0, 2),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", ["u1", "<f8"])
def test_layouts_are_put_in_order(path: Path, layout: str, dtype: str) -> None:
    x = np.random.default_rng(0).integers(0, 256, (300, 21000)).astype(dtype)
    x = LAYOUTS[layout](x)
    candle.save_safetensors({"x": x}, path)
    assert header_of(path)["x"]["shape"] == list(x.shape)
    assert data_of(path) == x.astype(x.dtype.newbyteorder("<")).tobytes()


def test_what_cannot_be_shared_is_copied_with_its_reason(path: Path, framework: Any) -> None:
    torch = framework("torch")
    x = torch.tensor([1 + 2j, 3 - 1j], dtype=torch.complex64).conj()
    with candle.trace() as moves:
        back = saved({"conj": x, "swapped": np.arange(3, dtype=">i2")}, path)
    assert back["conj"].tolist() == [1 - 2j, 3 + 1j]
    assert back["swapped"].tolist() == [0, 1, 2]
    codes = [[r.code for r in move.reasons] for move in moves if move.action == "copy"]
    assert sorted(codes) == [["byte_order"], ["conj_bit"]]
    with candle.strict(), pytest.raises(candle.CopyError):
        candle.save_safetensors({"conj": x}, path)
    with candle.strict():  # what is written is no copy that nobody asked for
        candle.save_safetensors({"x": torch.ones(1000, 1000).T}, path)


def test_shared_memory_is_written_once_for_each_name(path: Path) -> None:
    x = np.arange(8.0)
    back = saved({"a": x, "b": x, "half": x[:4]}, path)
    assert back["a"].tolist() == back["b"].tolist() == x.tolist()
    assert back["half"].tolist() == x[:4].tolist()
    assert not candle.shares_memory(back["a"], back["b"])
    assert len(data_of(path)) == 2 * 64 + 32


# The layout of the file.

shapes = st.lists(st.integers(0, 5), max_size=3).map(tuple)
members = st.dictionaries(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=4).filter("__metadata__".__ne__),
    st.tuples(st.sampled_from([own for _, own, bits in DTYPES if bits >= 8]), shapes),
    max_size=6,
)


@settings(max_examples=40)
@given(members, st.one_of(st.none(), st.dictionaries(st.text("ab\n😀"), st.text("ab\n😀"))))
def test_every_member_is_aligned(
    tmp_path_factory: pytest.TempPathFactory, members: Any, metadata: Any
) -> None:
    path = tmp_path_factory.getbasetemp() / "aligned.safetensors"
    tree = {name: candle.ones(shape, dtype=dtype) for name, (dtype, shape) in members.items()}
    with candle.trace() as moves:
        back = saved(tree, path, metadata=metadata)
    assert not moves.copies
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    assert (8 + length) % 64 == 0
    assert content[8 : 8 + length].rstrip(b" ").endswith(b"}")
    for name, t in tree.items():
        assert back[name].shape == t.shape
        assert back[name].tolist() == t.tolist()
        begin = header_of(path)[name]["data_offsets"][0]
        assert begin % t.itemsize == 0
        if t.nbytes % 64 == 0:
            assert begin % 64 == 0
    assert candle.safetensors_metadata(path) == (metadata or {})
    # The same names and values in another order are the same bytes.
    candle.save_safetensors(dict(reversed(tree.items())), path, metadata)
    assert path.read_bytes() == content


# Names.

Point = namedtuple("Point", "x y")


@dataclass
class Layer:
    weight: Any
    bias: Any


def test_mappings_of_all_kinds(path: Path) -> None:
    tree = MappingProxyType({"a": UserDict({"b": candle.ones(2)}), "c": np.zeros(1)})
    assert sorted(saved(tree, path)) == ["a.b", "c"]


def test_a_replacement_that_never_began(path: Path) -> None:
    """Nothing is left of it."""
    replacement = Replacement(path)
    assert len(os.listdir(path.parent)) == 1  # noqa: PTH208
    del replacement
    gc.collect()
    assert list(path.parent.iterdir()) == []


@pytest.mark.parametrize(("code", "raised"), [(errno.EINVAL, False), (errno.EIO, True)])
def test_folders_that_are_not_synced(
    path: Path, code: int, raised: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some file systems cannot; a disk that fails is told of, though the file is there."""
    sync = os.fsync

    def fsync(fd: int) -> None:
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            raise OSError(code, "no folders")
        sync(fd)

    monkeypatch.setattr(os, "fsync", fsync)
    before = descriptors()
    with pytest.raises(OSError, match="no folders") if raised else contextlib.nullcontext():
        candle.save_safetensors({"x": candle.ones(2)}, path)
    assert descriptors() == before
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_names_of_a_tree(path: Path) -> None:
    one = np.ones(1)
    tree = {
        "a": one,
        "b": {"c": one, "d": {"e.f": one}},
        "layers": [Layer(one, one), (one, OrderedDict(z=one))],
        "point": Point(one, [one]),
        "nothing": {},
    }
    assert sorted(saved(tree, path)) == [
        "a",
        "b.c",
        "b.d.e.f",
        "layers.0.bias",
        "layers.0.weight",
        "layers.1.0",
        "layers.1.1.z",
        "point.x",
        "point.y.0",
    ]
    assert sorted(saved([one, {"": one}], path)) == ["0", "1."]
    assert saved({}, path) == {}


def looped() -> Any:
    tree: dict[str, Any] = {"a": {}}
    tree["a"]["b"] = tree
    return tree


X = np.ones(2)
REFUSED: dict[str, tuple[Any, type[Exception], str]] = {
    "a tensor": (X, TypeError, r'saved by name, and this is one ndarray: give a dict, \{"weight"'),
    "nothing": (None, TypeError, "this is one NoneType"),
    "text": ("abc", TypeError, "this is one str"),
    "a number": ({"a": {"step": 3}}, TypeError, "'a.step' is no tensor but int: leave it out"),
    "None": ({"bias": None}, TypeError, "'bias' is no tensor but NoneType"),
    "numbers": ({"a": [1.0]}, TypeError, "'a.0' is no tensor but float"),
    "a type": ({"a": Layer}, TypeError, "'a' is no tensor but type"),
    "a number as name": ({"a": {0: X}}, TypeError, "a has the key 0; use '0'"),
    "no name": ({None: X}, TypeError, "the structure has the key None"),
    "one name twice": ({"a.b": X, "a": {"b": X}}, ValueError, "two tensors .* called 'a.b'"),
    "a loop": (looped(), ValueError, "'a.b' is a dict that it lies inside of"),
    "the name of metadata": ({"__metadata__": X}, ValueError, "can be called '__metadata__'"),
    "half a character": ({"a\ud800": X}, ValueError, "half a character"),
    "int4": ({"a": candle.zeros(2, dtype="int4")}, BufferError, r'has no int4.*t.view\("uint8"\)'),
    "complex128": ({"a": X + 1j}, BufferError, r"safetensors has no complex128, only .*t.to\("),
    "half a byte": (
        {"a": candle.zeros(3, dtype="float4_e2m1fn")},
        BufferError,
        "3 elements of float4_e2m1fn are 12 bits.*make the last axis longer",
    ),
    "a pair without axes": (
        {"a": candle.zeros(2, dtype="float4_e2m1fn").view("float4_e2m1fn_x2")[0]},
        BufferError,
        "has no float4_e2m1fn_x2",
    ),
    "objects": ({"a": np.array([{}])}, BufferError, "Python objects"),
    "masked": ({"a": np.ma.masked_array([1, 2], [0, 1])}, BufferError, "mask"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refused_and_nothing_written(path: Path, case: str) -> None:
    tree, kind, told = REFUSED[case]
    path.write_bytes(b"old")
    with pytest.raises(kind, match=told) as refused:
        candle.save_safetensors(tree, path)
    if isinstance(refused.value, BufferError):
        assert refused.value.__notes__ == ["this is tensor 'a'"]
    assert path.read_bytes() == b"old"
    assert names_in(path.parent) == [path.name]


@pytest.mark.parametrize("metadata", [{"a": 1}, {1: "a"}, {"a": None}, {"a": b"b"}, {"a": ["b"]}])
def test_metadata_is_text(path: Path, metadata: Any) -> None:
    with pytest.raises(TypeError, match="metadata is str by str"):
        candle.save_safetensors({"x": X}, path, metadata)


@pytest.mark.parametrize("metadata", ["ab", 3, [("a", "b")]])
def test_metadata_is_a_mapping(path: Path, metadata: Any) -> None:
    with pytest.raises(TypeError, match="metadata is a mapping of str to str"):
        candle.save_safetensors({"x": X}, path, metadata)
    assert not path.exists()


def test_trees_deeper_than_python_calls(path: Path) -> None:
    tree: Any = {"x": X}
    for _ in range(5000):
        tree = {"a": tree}
    assert list(saved(tree, path)) == ["a." * 5000 + "x"]


def test_one_container_in_two_places(path: Path) -> None:
    inner = [X]
    assert sorted(saved({"a": inner, "b": inner}, path)) == ["a.0", "b.0"]


def test_a_header_beyond_the_limit(path: Path) -> None:
    with pytest.raises(ValueError, match="the format allows 100000000: shorter names or"):
        candle.save_safetensors({"x": X}, path, {"a": "x" * 100_000_000})
    assert not path.exists()


# The file.


def test_permissions_are_those_of_an_ordinary_file(path: Path) -> None:
    plain = path.with_name("plain")
    for mask in (0o022, 0o027, 0o000):
        before = os.umask(mask)
        try:
            plain.touch()
            candle.save_safetensors({"x": X}, path)
        finally:
            os.umask(before)
        assert path.stat().st_mode == plain.stat().st_mode
        path.unlink()
        plain.unlink()
    path.touch()
    path.chmod(0o640)
    candle.save_safetensors({"x": X}, path)  # a file that is opened keeps its own
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_nobody_reads_a_private_file_while_it_is_replaced(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.touch()
    path.chmod(0o600)
    seen = []
    known = os.fchmod
    monkeypatch.setattr(
        os, "fchmod", lambda fd, mode: (seen.append(os.fstat(fd).st_mode & 0o077), known(fd, mode))
    )
    candle.save_safetensors({"x": X}, path)
    assert seen == [0]
    assert path.stat().st_mode & 0o777 == 0o600


def test_symbolic_links_stay(path: Path) -> None:
    target = path.with_name("blob")
    path.symlink_to(target.name)
    for _ in range(2):  # which is not there, and which is
        candle.save_safetensors({"x": X}, path)
        assert path.is_symlink()
        assert candle.load_safetensors(target)["x"].tolist() == X.tolist()
    assert names_in(path.parent) == ["blob", path.name]


def test_saving_over_what_is_mapped(path: Path) -> None:
    candle.save_safetensors({"x": np.arange(5.0)}, path)
    old = candle.load_safetensors(path)
    old["x"][0] = 7
    candle.save_safetensors({"x": old["x"][::-1], "y": old["x"]}, path)
    assert candle.load_safetensors(path)["x"].tolist() == [4, 3, 2, 1, 7]
    assert old["x"].tolist() == [7, 1, 2, 3, 4]


PLACES: dict[str, tuple[Callable[[Path], Any], type[OSError], str]] = {
    "a directory": (Path.mkdir, IsADirectoryError, "a directory stands in the file's place"),
    "a pipe": (os.mkfifo, OSError, "only a regular file can be replaced"),
    "a socket": (
        lambda path: socket.socket(socket.AF_UNIX).bind(path.name),
        OSError,
        "only a regular file can be replaced",
    ),
    "a loop of links": (lambda path: path.symlink_to(path.name), OSError, "symbolic links"),
    "a name that ends as folders do": (lambda path: None, IsADirectoryError, "does not end"),
    "below a file": (lambda path: path.parent.joinpath("f").touch(), OSError, "directory"),
    "below nothing": (lambda path: None, FileNotFoundError, "No such file"),
}


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("case", PLACES)
def test_places_where_no_file_can_be(
    path: Path, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, kind, told = PLACES[case]
    monkeypatch.chdir(path.parent)
    make(path)
    folder = path.parent
    if case.startswith("below"):
        path = path.parent / "f" / path.name
    before = names_in(folder)
    name = f"{path}/" if case.startswith("a name") else str(path)
    with pytest.raises(kind, match=told) as refused:
        candle.save_safetensors({"x": X}, name)
    assert refused.value.filename == name
    assert names_in(folder) == before


AS_NOBODY = """
    import os, sys
    from pathlib import Path
    import candle, numpy
    folder = Path(sys.argv[1])
    once = folder / "once"  # what is loaded when it is first needed may lie where nobody may read
    candle.save_safetensors({"x": numpy.ones(3)}, once)
    candle.load_safetensors(once)
    (folder / "locked").mkdir()
    (folder / "open").mkdir(mode=0o777)
    (folder / "open").chmod(0o777)
    (folder / "open" / "theirs").write_bytes(b"old")
    if os.getuid() == 0:
        os.setgid(65534)
        os.setuid(65534)
    for place in ("locked/new", "open/theirs"):
        try:
            candle.save_safetensors({"x": numpy.ones(3)}, folder / place)
        except PermissionError as error:
            print(error.filename is not None, error.strerror)
    candle.save_safetensors({"x": numpy.ones(3)}, folder / "open/mine")
    print((folder / "open" / "theirs").read_bytes(), sorted(os.listdir(folder / "open")))
    os.chmod(folder / "open/mine", 0)
    try:
        candle.load_safetensors(folder / "open/mine")
    except PermissionError as error:
        print(error.strerror)
"""


@pytest.mark.skipif(os.getuid() != 0, reason="takes root to make files of somebody else")
def test_permissions_are_respected(
    tmp_path_factory: pytest.TempPathFactory, in_child: Callable[..., Child]
) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        output = in_child(AS_NOBODY, folder).check()
    assert output.splitlines() == [
        "True Permission denied",
        "True the file that is to be replaced is read-only",
        "b'old' ['mine', 'theirs']",
        "Permission denied",
    ]


KILLED = """
    import os, signal, sys
    from pathlib import Path
    import candle
    from candle.io import saving  # as the first call does
    path = Path(sys.argv[1])
    candle.save_safetensors({"x": candle.zeros((3, 7)).T, "y": candle.zeros(5)}, path)
    old = path.read_bytes()
    tree = {"x": candle.ones((3, 7)).T, "y": candle.ones(5), "z": candle.ones(300000)}
    other = path.with_name("other")
    candle.save_safetensors(tree, other)
    new = other.read_bytes()
    other.unlink()
    calls = ["open", "write", "fsync", "close", "replace", "fchmod", "fstat"]
    ended = []
    for step in range(1000):
        child = os.fork()
        if child == 0:
            left = step
            def counted(real):
                def call(*args, **kwargs):
                    global left
                    if left == 0:
                        os.kill(os.getpid(), signal.SIGKILL)
                    left -= 1
                    if real is write:  # only half of what it could
                        args = (args[0], args[1][: max(1, len(args[1]) // 2)])
                    return real(*args, **kwargs)
                return call
            write = os.write
            for name in calls:
                setattr(os, name, counted(getattr(os, name)))
            candle.save_safetensors(tree, path)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        content = path.read_bytes()
        assert content in (old, new), step
        ended.append(content == new)
        for left_behind in path.parent.glob(".candle-*.tmp"):
            left_behind.unlink()
        assert os.listdir(path.parent) == [path.name]
        if os.WIFEXITED(status):
            assert os.WEXITSTATUS(status) == 0 and content == new
            break
        path.write_bytes(old)
    assert ended == sorted(ended)
    print(ended.count(False), ended.count(True))
"""


def test_killed_at_each_step(path: Path, in_child: Callable[..., Child]) -> None:
    """There is the old file or the new one, whole."""
    old, new = map(int, in_child(KILLED, str(path)).check().split())
    assert old >= 10
    assert new >= 2  # after the rename, and at the end


@pytest.mark.parametrize("name", ["write", "fsync", "replace", "close", "fchmod"])
def test_a_failing_step_leaves_the_old_file_and_nothing_else(
    path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.write_bytes(b"old")
    before = descriptors()
    real = getattr(os, name)

    def fails(*args: Any, **options: Any) -> Any:
        if name == "close":
            real(*args)
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, name, fails)
        with pytest.raises(OSError, match="No space left"):
            candle.save_safetensors({"x": X}, path)
    assert path.read_bytes() == b"old"
    assert names_in(path.parent) == [path.name]
    assert descriptors() <= before


def test_an_interrupt_leaves_the_old_file_and_nothing_else(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*args: Any) -> int:
        raise KeyboardInterrupt

    path.write_bytes(b"old")
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", interrupted)
        with pytest.raises(KeyboardInterrupt):
            candle.save_safetensors({"x": X}, path)
    assert path.read_bytes() == b"old"
    assert names_in(path.parent) == [path.name]


PEAK = """
    import sys
    import numpy
    import candle
    from model_files import resident
    x = numpy.ones((2048, 8192), "f4")  # 64 MB
    y = candle.asarray(x)
    tree = {"plain": y, "transposed": y.T, "stepped": y[:, ::2], "reversed": y[::-1]}
    candle.save_safetensors({"x": y[:4].T}, sys.argv[1])  # loads the modules, starts the threads
    candle.get_num_threads()
    import resource
    open("/proc/self/clear_refs", "w").write("5")  # the peak begins here
    before = resident("RssAnon")
    candle.save_safetensors(tree, sys.argv[1])
    peak = resident("VmHWM") - resident("RssFile") - resident("RssShmem")
    assert peak - before < 4 << 20, (peak, before)
"""


def test_no_second_copy_in_memory(path: Path, in_child: Callable[..., Child]) -> None:
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        pytest.skip("this kernel does not measure peaks")
    in_child(PEAK, str(path)).check()
