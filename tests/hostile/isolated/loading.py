"""Load the core while each allocation of Python's fails in turn, in a fork each.

A load that fails says MemoryError. Loaded again, the core is whole, or says that it has failed
before. Prints how many loads had an allocation fail, and what was wrong.
"""

from __future__ import annotations

import ctypes
import os
import sysconfig
import traceback
from importlib.machinery import ExtensionFileLoader, ModuleSpec
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from faults import Faults

if TYPE_CHECKING:
    from collections.abc import Callable

WRONG, FAILED = 1, 2  # how a fork ends, a sum; FAILED: an allocation did


def out_of_memory(error: BaseException) -> bool:
    """Python 3.11 forgets to say so where it has no room for the name of a type.

    Python 3.14 says something else where it has none for an attribute that is set on a type.
    """
    forgotten = "without setting an exception" in str(error)
    unset = isinstance(error, AttributeError) and str(error).startswith("type object ")
    return isinstance(error, MemoryError) or forgotten or unset


def attempt(load: Callable[[], Any], faults: Faults, at: int, last: bool) -> None:
    """One load, and one more where it failed."""
    try:
        core = faults.call(load, at, last=last)
    except Exception as error:
        assert out_of_memory(error), f"{type(error).__name__}: {error}"
        try:
            core = load()
        except ImportError as told:
            assert "failed to load before" in str(told), told
            return
    assert core.live()["tensors"] == 0
    assert core.Tensor.from_dlpack is core.from_dlpack
    assert type(core.Tensor.__dlpack_c_exchange_api__).__name__ == "PyCapsule"
    assert "byte_order" in core.curable_reasons


def fork(load: Callable[[], Any], faults: Faults, at: int, last: bool) -> int:
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    status = 0
    try:
        attempt(load, faults, at, last)
    except BaseException:
        status = WRONG
        print(traceback.format_exc(), flush=True)
    os._exit(status | (FAILED if faults.helper.failed() else 0))


def main() -> None:
    found = find_spec("candle")
    assert found is not None
    assert found.origin is not None
    name = f"_native/_core{sysconfig.get_config_var('EXT_SUFFIX')}"
    path = str(Path(found.origin).parent / name)
    loader = ExtensionFileLoader("candle._native._core", path)

    def load() -> Any:
        module = module_from_spec(ModuleSpec("candle._native._core", loader, origin=path))
        loader.exec_module(module)
        return module

    ctypes.CDLL(path)  # so that no fork has to
    faults = Faults()
    loads = 0
    for last in (False, True):
        for at in range(10_000):
            status = fork(load, faults, at, last)
            if status in (0, WRONG):
                break
            loads += 1
            if status != FAILED:
                print(f"allocation {at}{' and on' * last}: exit status {status}")
        else:
            raise AssertionError("this never ends")
    print(loads)


if __name__ == "__main__":
    main()
