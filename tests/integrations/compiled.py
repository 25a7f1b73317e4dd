"""Small functions of pybind11, nanobind and Cython, compiled here: where is my argument?

Every function adds 1 to the first element, where its argument may be written, and returns the
address of it.
"""

from __future__ import annotations

import atexit
import importlib.util
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

PYBIND11 = """
#include <pybind11/numpy.h>
namespace py = pybind11;
PYBIND11_MODULE(by_pybind11, m) {
  m.def("array", [](py::array_t<float> a) {
    a.mutable_data()[0] += 1;
    return reinterpret_cast<uintptr_t>(a.data());
  });
  m.def("const_array", [](const py::array_t<float> a) {
    return reinterpret_cast<uintptr_t>(a.data());
  });
  m.def("buffer", [](py::buffer b) {
    auto info = b.request(true);
    static_cast<float*>(info.ptr)[0] += 1;
    return reinterpret_cast<uintptr_t>(info.ptr);
  });
}
"""

NANOBIND = """
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
namespace nb = nanobind;
NB_MODULE(by_nanobind, m) {
  m.def("array", [](nb::ndarray<float, nb::ndim<2>, nb::device::cpu> a) {
    a(0, 0) += 1;
    return reinterpret_cast<uintptr_t>(&a(0, 0));
  }, nb::arg().noconvert());
  m.def("const_array", [](nb::ndarray<const float, nb::ndim<2>, nb::device::cpu> a) {
    return reinterpret_cast<uintptr_t>(&a(0, 0));
  }, nb::arg().noconvert());
}
"""

CYTHON = """
# cython: language_level=3
def array(float[:, :] a):
    a[0, 0] += 1
    return <size_t>&a[0, 0]

def const_array(const float[:, :] a):
    return <size_t>&a[0, 0]
"""


def _run(*command: str | Path) -> None:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]} failed:\n{done.stderr}")


def _compile(source: Path, module: Path, *extra: str | Path) -> None:
    headers = sysconfig.get_path("include")
    common = ("-O0", "-std=c++17", "-shared", "-fPIC", "-fvisibility=hidden")
    _run("g++", *common, f"-I{headers}", source, *extra, "-o", module)


@cache
def functions(maker: str) -> Any:
    """Compile the module of ``"pybind11"``, ``"nanobind"`` or ``"Cython"``, once in a process."""
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    name = f"by_{maker.lower()}"
    module = folder / f"{name}{sysconfig.get_config_var('EXT_SUFFIX')}"
    source = folder / f"{name}.cpp"
    if maker == "pybind11":
        import pybind11

        source.write_text(PYBIND11)
        _compile(source, module, f"-I{pybind11.get_include()}")
    elif maker == "nanobind":
        import nanobind

        source.write_text(NANOBIND)
        home = Path(nanobind.__file__).parent
        includes = [f"-I{home / 'include'}", f"-I{home / 'ext' / 'robin_map' / 'include'}"]
        _compile(source, module, home / "src" / "nb_combined.cpp", *includes)
    else:
        written = folder / f"{name}.pyx"
        written.write_text(CYTHON)
        _run(sys.executable, "-m", "cython", "--cplus", written)
        _compile(source, module)
    spec = importlib.util.spec_from_file_location(name, module)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded
