"""Compile ``candle._native._core`` when a wheel is built or an editable install is made.

A build hook of hatchling, which drives setuptools' ``build_ext``. Environment variables it reads:

- ``CANDLE_DLPACK_INCLUDE``: folder that holds ``dlpack/dlpack.h`` 1.3 or later; without it the
  header of the apache-tvm-ffi package is used.
- ``CANDLE_DEBUG=1``: no optimisation, assertions on.
- ``CANDLE_COVERAGE=1``: counts of lines and branches for gcov, which lie beside the objects.
- ``CANDLE_SANITIZE=1``: address and undefined-behaviour sanitizers, assertions on.
- ``CANDLE_SANITIZE=thread``: the thread sanitizer, assertions on.
- ``CANDLE_WERROR=1``: more warnings, each an error.
- ``CANDLE_CXXFLAGS``, ``CANDLE_LDFLAGS``: further flags of the compiler and the linker.
- ``CANDLE_JOBS``: compilers at a time; by default one for each processor.

On Windows setuptools finds Visual Studio, and its compiler's place is taken by clang-cl, which has
to be on the path: vector types and checked arithmetic are clang's and gcc's.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sysconfig
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

DLPACK_AT_LEAST = (1, 3)
DLPACK_PROVIDER = "apache-tvm-ffi>=0.1.15"  # the first with dlpack.h 1.3

COMMON = ["-std=c++20", "-fvisibility=hidden", "-fno-exceptions", "-fno-rtti", "-Wall", "-Wextra"]
STRICT = ["-Wshadow", "-Wconversion", "-Werror"]
# Python brings -g, which is most of the binary, into every extension.
RELEASE = ["-O3", "-g0", "-DNDEBUG"]
DEBUG = ["-O0", "-g", "-UNDEBUG"]
# Functions stay functions: gcov tells by them what ran.
COVERAGE = ["-O1", "-g0", "-DNDEBUG", "--coverage", "-fno-inline"]
COVERAGE_LINKER = ["--coverage", "-Wl,-u,__gcov_dump,-u,__gcov_reset"]
SANITIZERS = {
    "1": ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"],
    "thread": ["-fsanitize=thread"],
}
# Python brings -fwrapv as well, with which no overflow would be reported.
SANITIZE = ["-O1", "-g", "-UNDEBUG", "-fno-wrapv", "-fno-omit-frame-pointer"]

# The same of clang-cl. Elsewhere Python brings -fwrapv; some of what setuptools gives Microsoft's
# compiler clang does not use.
CL_COMMON = ["/std:c++20", "/EHs-c-", "/D_HAS_EXCEPTIONS=0", "/GR-", "/W4", "/clang:-fwrapv"]
CL_COMMON += ["-Wno-unused-command-line-argument"]
CL_RELEASE = ["/clang:-O3", "/DNDEBUG"]
CL_DEBUG = ["/Od", "/UNDEBUG"]


class NativeBuildHook(BuildHookInterface):
    """Compiles the native core and hands it to the wheel."""

    PLUGIN_NAME = "custom"
    temporary: tempfile.TemporaryDirectory[str] | None = None

    def dependencies(self) -> list[str]:
        """Ask for the package that brings ``dlpack.h``, unless a folder with it is given."""
        return [] if given_dlpack() else [DLPACK_PROVIDER]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile; ``version`` is "editable" or "standard"."""
        native = Path(self.root, "src", "candle", "_native").resolve()
        if version == "editable":
            # Beside its sources, where the installed path file points. Objects are kept.
            compile_core(native, native, Path(self.root, "build", variant()))
        else:
            self.temporary = tempfile.TemporaryDirectory()
            out = Path(self.temporary.name)
            binary = compile_core(native, out, out / "objects")
            build_data["force_include"][str(binary)] = f"candle/_native/{binary.name}"
        build_data["pure_python"] = False
        build_data["infer_tag"] = True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what was compiled: the wheel holds it now."""
        if self.temporary is not None:
            self.temporary.cleanup()


def enabled(name: str) -> bool:
    """Whether an environment variable switches something on."""
    return os.environ.get(name, "0") not in ("", "0")


def sanitizers() -> list[str]:
    """Give the flags of the sanitizers that are asked for, which the linker takes too."""
    if not enabled("CANDLE_SANITIZE"):
        return []
    name = os.environ["CANDLE_SANITIZE"]
    if name not in SANITIZERS:
        raise ValueError(f"CANDLE_SANITIZE is {name!r}: give one of {', '.join(SANITIZERS)}")
    return SANITIZERS[name]


def variant() -> str:
    """Name of what is built: objects of other flags or of another Python are kept beside it."""
    kinds = ("coverage", "sanitize", "debug")
    kind = next((kind for kind in kinds if enabled(f"CANDLE_{kind.upper()}")), "release")
    if kind == "sanitize" and os.environ["CANDLE_SANITIZE"] == "thread":
        kind = "sanitize-thread"
    return f"{kind}-{sysconfig.get_config_var('SOABI')}"


def dlpack_version(include: Path) -> tuple[int, int] | None:
    """Version of ``dlpack/dlpack.h`` in an include folder, None where there is none."""
    header = include / "dlpack" / "dlpack.h"
    if not header.is_file():
        return None
    found = dict(
        re.findall(r"^#define DLPACK_(MAJOR|MINOR)_VERSION (\d+)", header.read_text(), re.M)
    )
    return int(found.get("MAJOR", 0)), int(found.get("MINOR", 0))


def check_dlpack(include: Path, wanted: str) -> Path:
    """Return the folder if its ``dlpack.h`` is new enough, else raise."""
    version = dlpack_version(include)
    if version is None:
        raise FileNotFoundError(f"no dlpack/dlpack.h in {include}: {wanted}")
    # A later major version is another ABI.
    if version < DLPACK_AT_LEAST or version[0] != DLPACK_AT_LEAST[0]:
        raise RuntimeError(f"dlpack.h in {include} is {version[0]}.{version[1]}: {wanted}")
    return include


def given_dlpack() -> Path | None:
    """Return the include folder that ``CANDLE_DLPACK_INCLUDE`` names, checked."""
    given = os.environ.get("CANDLE_DLPACK_INCLUDE")
    if not given:
        return None
    return check_dlpack(
        Path(given).resolve(),
        "CANDLE_DLPACK_INCLUDE must name a folder with dlpack/dlpack.h 1.3 or later",
    )


def dlpack_include() -> Path:
    """Return the include folder that holds ``dlpack/dlpack.h``."""
    given = given_dlpack()
    if given is not None:
        return given
    # Found and not imported: importing tvm_ffi imports torch, where there is one.
    spec = importlib.util.find_spec("tvm_ffi")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(
            f"dlpack/dlpack.h is missing: install {DLPACK_PROVIDER}, or set CANDLE_DLPACK_INCLUDE"
        )
    return check_dlpack(
        Path(spec.submodule_search_locations[0], "include"), f"install {DLPACK_PROVIDER}"
    )


def compile_core(native: Path, out: Path, objects: Path) -> Path:
    """Compile ``native/*.cpp`` into ``out``; what ``objects`` holds from before is used again."""
    binary = out / f"_core{sysconfig.get_config_var('EXT_SUFFIX')}"
    # A build that fails leaves no older binary behind to be imported in its place.
    binary.unlink(missing_ok=True)
    import numpy
    from setuptools import Distribution, Extension
    from setuptools.command.build_ext import build_ext

    class BuildCore(build_ext):
        def build_extensions(self) -> None:
            if is_cl(self.compiler):
                take_clang(self.compiler, self.plat_name)
            core.extra_compile_args += compile_flags(is_cl(self.compiler))
            # As system headers they give no warnings.
            folders = [str(dlpack_include()), numpy.get_include(), *command.include_dirs]
            if is_cl(self.compiler):
                folders += self.compiler.include_dirs  # Visual Studio's
            for folder in folders:
                flag = "-imsvc" if is_cl(self.compiler) else "-isystem"
                core.extra_compile_args += [flag, folder]
            self.compiler.compile = Incremental(self.compiler, native)
            super().build_extensions()

    linker_flags = sanitizers()
    if enabled("CANDLE_COVERAGE"):
        linker_flags = COVERAGE_LINKER
    core = Extension(
        "_core",
        sources=sorted(str(path) for path in native.glob("*.cpp")),
        language="c++",
        extra_link_args=[*linker_flags, *shlex.split(os.environ.get("CANDLE_LDFLAGS", ""))],
    )
    command = BuildCore(Distribution({"name": "candle", "ext_modules": [core]}))
    command.build_lib = str(out)
    command.build_temp = str(objects)
    command.force = True  # what is up to date is for Incremental to say
    command.ensure_finalized()
    command.run()
    return binary


def is_cl(compiler: Any) -> bool:
    """Whether a compiler is driven like Microsoft's."""
    return bool(compiler.compiler_type == "msvc")


def take_clang(compiler: Any, platform: str) -> None:
    """Put clang-cl in the place of Microsoft's compiler; linker and headers stay."""
    if not compiler.initialized:
        compiler.initialize(platform)
    found = shutil.which("clang-cl")
    if found is None:
        raise FileNotFoundError(
            "candle is compiled by clang on Windows: install LLVM, and put clang-cl on the path"
        )
    compiler.cc = found


def compile_flags(cl: bool) -> list[str]:
    """Give the flags that the environment variables ask for."""
    sanitize, debug = sanitizers(), enabled("CANDLE_DEBUG")
    if sanitize and cl:
        raise RuntimeError("CANDLE_SANITIZE is for Linux: build without it")
    flags = list(CL_COMMON if cl else COMMON)
    if enabled("CANDLE_COVERAGE"):
        flags += COVERAGE
    elif sanitize:
        flags += [*SANITIZE, *sanitize]
    elif cl:
        flags += CL_DEBUG if debug else CL_RELEASE
    else:
        flags += DEBUG if debug else RELEASE
    if enabled("CANDLE_WERROR"):
        flags += STRICT
    return [*flags, *shlex.split(os.environ.get("CANDLE_CXXFLAGS", ""), posix=os.name != "nt")]


class Incremental:
    """Stands for a compiler's ``compile``: sources in parallel, and only those that changed.

    Beside each object lies a record of what it was made of: the command, and a digest of every file
    that the compiler read. Times of files are not trusted: an older file may replace a newer one.
    """

    def __init__(self, compiler: Any, native: Path) -> None:
        self.compile = compiler.compile
        # Taken before anything is compiled, so that an edit during the build counts as a change.
        self.digests = {
            path: digest(path) for path in map(str, native.iterdir()) if is_source(path)
        }
        tools = [str(getattr(compiler, name)) for name in compiler.executables]
        self.cl = is_cl(compiler)
        driver = [compiler.cc if self.cl else compiler.compiler_cxx[0], "--version"]
        version = subprocess.run(driver, capture_output=True, text=True, check=False).stdout
        # The names, too: a new header can take the place of one found elsewhere so far.
        self.identity = [*tools, version, *sorted(self.digests)]

    def __call__(self, sources: list[str], *, output_dir: str, **options: Any) -> list[str]:
        """Compile, with the arguments that ``build_ext`` gives; returns the objects."""
        Path(output_dir).mkdir(parents=True, exist_ok=True)
        jobs = int(os.environ.get("CANDLE_JOBS") or os.cpu_count() or 1)
        with ThreadPoolExecutor(jobs) as pool:
            return list(pool.map(lambda source: self.one(source, output_dir, options), sources))

    def one(self, source: str, output_dir: str, options: dict[str, Any]) -> str:
        """Compile one source, unless its object is still what it would become."""
        listing = Path(output_dir, Path(source).stem + ".d")
        record = listing.with_suffix(".json")
        listed = ["-MD", "-MF", str(listing)]
        if self.cl:
            listed = [f"/clang:{flag}" for flag in listed]
        flags = [*options["extra_postargs"], *listed]
        command = [
            *self.identity,
            source,
            *flags,
            *map(str, options["macros"]),
            *options["include_dirs"],
        ]
        kept = self.kept(record, command)
        if kept is not None:
            return kept
        record.unlink(missing_ok=True)
        [made] = self.compile(
            [source], output_dir=output_dir, **{**options, "extra_postargs": flags}
        )
        read = {path: self.digest(path) for path in dependencies(listing)}
        record.write_text(
            json.dumps({"command": command, "object": [made, digest(made)], "read": read})
        )
        return str(made)

    def kept(self, record: Path, command: list[str]) -> str | None:
        """Return the object of an earlier build, if the same would come out again."""
        try:
            was = json.loads(record.read_text())
            made, content = was["object"]
            if was["command"] != command or digest(made) != content:
                return None
            if any(self.digest(path) != then for path, then in was["read"].items()):
                return None
        except (OSError, ValueError, KeyError):
            return None
        return str(made)

    def digest(self, path: str) -> str:
        """Digest of a file, worked out once in a build."""
        path = str(Path(path).resolve())
        if path not in self.digests:
            self.digests[path] = digest(path)
        return self.digests[path]


def is_source(path: str) -> bool:
    """Whether a file is C++."""
    return path.endswith((".cpp", ".h"))


def digest(path: str) -> str:
    """Digest of a file's content."""
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def dependencies(listing: Path) -> list[str]:
    """Read the names of the files in a compiler's list of dependencies, a rule of make."""
    names = listing.read_text().partition(": ")[2].replace("\\\n", " ")
    escaped = r"\\([ #])" if os.name == "nt" else r"\\(.)"  # the rest are folders there
    return [re.sub(escaped, r"\1", name) for name in re.findall(r"(?:\\.|\S)+", names)]
