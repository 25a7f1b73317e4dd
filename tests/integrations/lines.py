"""The lines to write beside other libraries, and what they do: run, not promised.

Each line stands in docs/integrations.md as it is run here. `python tests/integrations/lines.py`
writes the table of the page anew, for the libraries that are installed, and keeps the other rows.

A line has these names: its library by its usual short name, `candle`, `np`, `t` (float32, of the
shape (4, 6), candle's own memory) and `x` (an object of the library's, made by `make`).
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

PAGE = Path(__file__).parents[2] / "docs" / "integrations.md"
BEGIN = "<!-- lines: made by tests/integrations/lines.py -->\n"
END = "<!-- end of the lines -->\n"


class Line(NamedTuple):
    """One line, and how to see what it did.

    `see` is an expression of the result `r`, which gives the address of its first element, or None
    where it has no memory to compare.
    """

    line: str
    see: str | None = "candle.Tensor(r).data_ptr()"


class Library(NamedTuple):
    """What is tried with one library."""

    distribution: str
    setup: str
    make: str | None = None  # an object of its own, to come in
    at: str = "candle.Tensor(x).data_ptr()"  # where that lies, by its own word
    out: tuple[Line, ...] = ()
    into: tuple[str, ...] = ("candle.Tensor(x)",)
    apart: bool = False  # from other libraries, in a process of its own
    computes: bool = False  # its objects have operators


NDARRAY = "r.ctypes.data"
SUMS = ("t + x", "x + t")

LIBRARIES = {
    "torch": Library(
        "torch",
        "import torch",
        "torch.zeros(4, 6)",
        "x.data_ptr()",
        (
            Line("t.torch()", "r.data_ptr()"),
            Line("torch.transpose(t, 0, 1)", "r.data_ptr()"),
            Line("torch.nn.Linear(6, 2)(t)", None),
            Line("torch.utils.data.default_collate([t, t])", "r.data_ptr()"),
        ),
        computes=True,
    ),
    "tensorflow": Library(
        "tensorflow-cpu",
        "import tensorflow as tf",
        "tf.zeros((4, 6))",
        "np.from_dlpack(x).ctypes.data",
        (
            Line('candle.convert(t, "tensorflow")', "np.from_dlpack(r).ctypes.data"),
            Line("tf.convert_to_tensor(t)", "np.from_dlpack(r).ctypes.data"),
            Line("tf.convert_to_tensor(t.T)", "np.from_dlpack(r).ctypes.data"),
            Line("tf.add(t, 1.0)", None),
        ),
        apart=True,
        computes=True,
    ),
    "paddle": Library(
        "paddlepaddle",
        "import paddle",
        "paddle.zeros([4, 6])",
        "x.data_ptr()",
        (
            Line('candle.convert(t, "paddle")', "r.data_ptr()"),
            Line("paddle.from_dlpack(t)", "r.data_ptr()"),
            Line("paddle.from_dlpack(t.T)", "r.data_ptr()"),
        ),
        apart=True,
        computes=True,
    ),
    "mlx": Library(
        "mlx",
        "import mlx.core as mx",
        "mx.zeros((4, 6))",
        "np.asarray(memoryview(x)).ctypes.data",
        (
            Line('candle.convert(t, "mlx")', "np.asarray(memoryview(r)).ctypes.data"),
            Line("mx.array(t)", "np.asarray(memoryview(r)).ctypes.data"),
        ),
        computes=True,
    ),
    "warp": Library(
        "warp-lang",
        "import warp as wp; wp.config.quiet = True; wp.init()",
        'wp.zeros((4, 6), dtype=float, device="cpu")',
        "x.ptr",
        (
            Line('candle.convert(t, "warp")', "r.ptr"),
            Line("wp.from_dlpack(t)", "r.ptr"),
            Line("wp.array(t, copy=False)", "r.ptr"),
        ),
        computes=True,
    ),
    "numba": Library(
        "numba",
        "import numba\nf = numba.njit(lambda a: a.T)",
        out=(Line("f(t.numpy())", NDARRAY),),
        into=(),
    ),
    "pandas": Library(
        "pandas",
        "import pandas as pd",
        "pd.DataFrame(np.zeros((4, 6), 'float32'))",
        "x.to_numpy().ctypes.data",
        (
            Line("pd.DataFrame(t.numpy(), copy=False)", "r.to_numpy().ctypes.data"),
            Line("pd.DataFrame(t)", "r.to_numpy().ctypes.data"),
            Line("pd.Series(t[:, 1].numpy(), copy=False)", "r.to_numpy().ctypes.data - 4"),
        ),
        computes=True,
    ),
    "scikit-learn": Library(
        "scikit-learn",
        "from sklearn.preprocessing import StandardScaler",
        out=(Line("StandardScaler().fit_transform(t)", None),),
        into=(),
    ),
    "matplotlib": Library(
        "matplotlib",
        "import matplotlib; matplotlib.use('Agg')\nimport matplotlib.pyplot as plt",
        out=(Line("plt.plot(t[0], t[1])", None), Line("plt.imshow(t)", None)),
        into=(),
    ),
    "Pillow": Library(
        "pillow",
        "from PIL import Image",
        "Image.new('F', (6, 4))",
        "0",
        (Line("Image.fromarray(t.numpy())", "0"),),
    ),
    "OpenCV": Library(
        "opencv-python-headless",
        "import cv2",
        "cv2.transpose(np.zeros((6, 4), 'float32'))",
        "x.ctypes.data",
        (
            Line("cv2.blur(t.numpy(), (3, 3))", None),
            Line("cv2.flip(t.numpy(), 0, dst=t.numpy())", NDARRAY),
        ),
    ),
    "onnxruntime": Library(
        "onnxruntime",
        "import onnxruntime as ort",
        "ort.OrtValue.ortvalue_from_numpy(np.zeros((4, 6), 'float32'))",
        "x.data_ptr()",
        (
            Line("ort.OrtValue.from_dlpack(t)", "r.data_ptr()"),
            Line("ort.OrtValue.ortvalue_from_numpy(t.numpy())", "r.data_ptr()"),
        ),
    ),
    "einops": Library(
        "einops",
        "import einops",
        out=(
            Line('einops.rearrange(t, "a b -> b a")', "r.data_ptr()"),
            Line('einops.repeat(t, "a b -> n a b", n=3)', "r.data_ptr()"),
            Line('einops.reduce(t, "a b -> a", "mean")', None),
        ),
        into=(),
    ),
    "xgboost": Library(
        "xgboost-cpu",
        "import xgboost as xgb",
        out=(Line("xgb.DMatrix(t, label=t[:, 0])", None),),
        into=(),
    ),
    "h5py": Library(
        "h5py",
        "import h5py\nh = h5py.File('lines.h5', 'w', driver='core', backing_store=False)",
        "h.create_dataset('x', (4, 6), 'f4')",
        "0",
        (Line('h.create_dataset("t", data=t)', "0"),),
        ("candle.Tensor(x)",),
    ),
    "zarr": Library(
        "zarr",
        "import zarr",
        "zarr.zeros((4, 6), dtype='f4')",
        "0",
        (Line("zarr.create_array({}, data=t.numpy())", "0"),),
    ),
}


for _maker, _lines in {
    "pybind11": (
        Line("f.array(t)  # py::array_t<float>", "r"),
        Line("f.array(t.T)  # py::array_t<float>", "r"),
        Line("f.buffer(t.memoryview())  # py::buffer", "r"),
    ),
    "nanobind": (
        Line("f.array(t)  # nb::ndarray<float>", "r"),
        Line("f.array(t.T)  # nb::ndarray<float>", "r"),
    ),
    "Cython": (
        Line("f.array(t.memoryview())  # float[:, :]", "r"),
        Line("f.array(t.T.memoryview())  # float[:, :]", "r"),
    ),
}.items():
    LIBRARIES[_maker] = Library(
        _maker.lower(),
        f"import {_maker}; from compiled import functions; f = functions({_maker!r})",
        out=_lines,
        into=(),
    )


class Row(NamedTuple):
    """A row of the page."""

    beside: str
    line: str
    gives: str


def outcome(before: int, after: int | None) -> str:
    if after is None:
        return "takes it"
    return "shared" if after == before else "copied"


def rows(name: str) -> list[Row]:
    """Run the lines of a library in this process."""
    import numpy as np

    import candle

    library = LIBRARIES[name]
    names: dict[str, Any] = {"candle": candle, "np": np}
    exec(library.setup, names)
    made = []
    for line in library.out:
        names["t"] = t = candle.arange(24, dtype="float32").reshape(4, 6)
        names["r"] = eval(line.line, names)
        after = None if line.see is None else int(eval(line.see, names))
        made.append(Row(f"{name} <-", line.line, outcome(t.data_ptr(), after)))
    if library.make is not None:
        names["x"] = eval(library.make, names)
        for code in library.into:
            t = eval(code, names)
            gives = outcome(int(eval(library.at, names)), t.data_ptr())
            made.append(Row(f"{name} ->", code, gives + (", read-only" if t.readonly else "")))
    for code in SUMS if library.computes else ():
        names["t"] = candle.ones((4, 6))
        made.append(Row(f"{name} +", code, kind(lambda code=code: eval(code, names))))
    return made


def kind(compute: Callable[[], Any]) -> str:
    """What comes back: its class, or that of what is raised."""
    try:
        found = type(compute())
    except Exception as error:
        return type(error).__name__
    return f"`{found.__module__.partition('.')[0]}.{found.__name__}`"


def installed(name: str) -> bool:
    """Whether a library is there; nothing is imported."""
    module = LIBRARIES[name].setup.split()[1].partition(".")[0].rstrip(";")
    return importlib.util.find_spec(module) is not None


def table(text: str) -> dict[str, list[Row]]:
    """Library -> its rows in the page."""
    found: dict[str, list[Row]] = {}
    for line in text.partition(BEGIN)[2].partition(END)[0].splitlines():
        if line.startswith("| ") and not line.startswith("| library"):
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            row = Row(cells[0], cells[1].strip("`"), cells[2])
            found.setdefault(row.beside.split()[0], []).append(row)
    return found


def in_a_process(names: list[str]) -> list[tuple[str, Row]]:
    """Run the lines of some libraries in a process of their own."""
    code = f"""if True:
        import lines
        for name in {names!r}:
            for row in lines.rows(name):
                print(name, *row, sep="\\t")
    """
    run = [sys.executable, "-W", "ignore", "-c", code]
    done = subprocess.run(
        run, cwd=Path(__file__).parent, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"the lines of {names} ended with {done.returncode}: {done.stderr}")
    cells = [line.split("\t") for line in done.stdout.splitlines() if line.count("\t") == 3]
    return [(name, Row(*row)) for name, *row in cells]


def write() -> None:
    """Put the rows of what is installed into the page."""
    text = PAGE.read_text()
    told = {name: old for name, old in table(text).items() if not installed(name)}
    together = [name for name in LIBRARIES if installed(name) and not LIBRARIES[name].apart]
    apart = [[name] for name in LIBRARIES if installed(name) and LIBRARIES[name].apart]
    for names in [together, *apart]:
        for name, row in in_a_process(names):
            told.setdefault(name, []).append(row)
    head = "| library | line | memory, or what comes back |\n|---|---|---|\n"
    listed = "".join(
        f"| {row.beside} | `{row.line}` | {row.gives} |\n"
        for name in LIBRARIES
        for row in told.get(name, [])
    )
    before, _, rest = text.partition(BEGIN)
    after = rest.partition(END)[2]
    PAGE.write_text(before + BEGIN + head + listed + END + after)


def versions() -> dict[str, str]:
    """Library -> its version, of those installed."""
    return {name: version(LIBRARIES[name].distribution) for name in LIBRARIES if installed(name)}


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    warnings.simplefilter("ignore")
    write()
