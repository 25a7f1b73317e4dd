"""HuggingFace candle in the same process, under the name `hf_candle`: both are imported as candle.

Its wheel, candle-nn, has to lie in a folder of its own: ``pip install --target folder candle-nn``.
"""

from __future__ import annotations

import sys
from _thread import allocate_lock
from os import path as os_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

__all__ = ["NAME", "load"]

NAME = "hf_candle"
_LIBRARY = "candle.abi3.so"
_OWN = __name__.partition(".")[0]
_loading = allocate_lock()


def load(path: object = None) -> ModuleType:
    """Load HuggingFace candle (candle-nn) beside this package.

    Parameters
    ----------
    path : path, optional
        The folder that it was installed to with ``pip install --target``. Default: the first
        folder on ``sys.path`` that has it.

    Returns
    -------
    module
        The package, with all its modules. ``import hf_candle``, ``from hf_candle.nn import Linear``
        work from then on. Calling it again gives the same one.

    Raises
    ------
    ImportError
        Where it is not there, or was initialised before in this process, under another name or by
        a load that failed: its library allows that once.
    ValueError
        Where another one than that in `path` is loaded.

    Notes
    -----
    While it loads it has the name ``candle``, which its own modules import, and this package's
    modules cannot be found: no other thread may use candle meanwhile, but for this function.
    """
    with _loading:
        return _load(path)


def _load(path: object) -> ModuleType:
    loaded = sys.modules.get(NAME)
    if loaded is not None:
        if path is not None and _find(path) not in loaded.__path__:
            raise ValueError(f"{NAME} is loaded from {loaded.__path__[0]}, and not from {path}")
        return loaded
    folder = _find(path)
    own = _taken_out()
    try:
        _import(folder)
    except BaseException as error:
        _taken_out()  # what has come of it so far
        if isinstance(error, ImportError) and _was_initialised(error):
            raise ImportError(
                "HuggingFace candle was initialised in this process before, under another name or "
                "by a load that failed, and can be only once: call candle.hf.load() first, in a "
                "new process"
            ) from error
        raise
    else:
        _rename(_taken_out())
    finally:
        sys.modules.update(own)
    return sys.modules[NAME]


def _was_initialised(error: BaseException | None) -> bool:
    """Look through what an error came of: the package says of any that its DLLs are missing."""
    return error is not None and (
        "initialized once" in str(error) or _was_initialised(error.__context__)
    )


def _find(path: object) -> str:
    """Give the folder of the package."""
    own = os_path.dirname(os_path.abspath(__file__))  # noqa: PTH100, PTH120  (pathlib is slow)
    for place in sys.path if path is None else [str(path)]:
        folder = os_path.join(os_path.abspath(place), _OWN)  # noqa: PTH100, PTH118
        if os_path.isfile(os_path.join(folder, _LIBRARY)) and folder != own:  # noqa: PTH113, PTH118
            return folder
    where = "on sys.path" if path is None else f"in {path}"
    raise ImportError(
        f"HuggingFace candle is not {where}: install it into a folder of its own, "
        "pip install --target folder candle-nn, and call candle.hf.load(folder)"
    )


def _taken_out() -> dict[str, ModuleType]:
    """Take everything called candle out of the loaded modules."""
    names = [name for name in sys.modules if name == _OWN or name.startswith(f"{_OWN}.")]
    return {name: sys.modules.pop(name) for name in names}


def _import(folder: str) -> None:
    """Import the package and all its modules: none may be left that asks for another later."""
    from importlib import import_module
    from importlib.util import module_from_spec, spec_from_file_location
    from pkgutil import walk_packages
    from warnings import catch_warnings, simplefilter

    spec = spec_from_file_location(
        _OWN, f"{folder}/__init__.py", submodule_search_locations=[folder]
    )
    assert spec is not None  # it looks at no file
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[_OWN] = module
    with catch_warnings():
        # Of its docstrings' escapes, when it is compiled: nothing that the caller could mend.
        for kind in (DeprecationWarning, SyntaxWarning):
            simplefilter("ignore", kind)
        spec.loader.exec_module(module)
        for found in walk_packages(module.__path__, f"{_OWN}.", onerror=lambda name: None):
            try:
                import_module(found.name)
            except Exception:
                if found.name != f"{_OWN}.onnx":  # which fails in wheels that were built without it
                    raise


def _rename(modules: dict[str, ModuleType]) -> None:
    for name, module in modules.items():
        new = NAME + name[len(_OWN) :]
        module.__name__ = new
        if module.__spec__ is not None:
            module.__spec__.name = new
            module.__package__ = module.__spec__.parent
        sys.modules[new] = module
