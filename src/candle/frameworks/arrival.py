"""Tells when a module of another package has been loaded, without ever loading it."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

__all__ = ["when_loaded"]


class _Waiting:
    """An import finder that finds nothing itself: it sees what the others find.

    It stands in ``sys.meta_path`` only until all that it waits for has come.
    """

    def __init__(self) -> None:
        self.calls: dict[str, Callable[[ModuleType], None]] = {}
        self.asked: set[str] = set()

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in self.calls or name in self.asked:
            return None
        self.asked.add(name)  # another of these would ask this one
        try:
            for finder in sys.meta_path:
                find = getattr(finder, "find_spec", None)
                spec: ModuleSpec | None = find and find(name, path, target)
                if spec is not None:
                    self.follow(spec)
                    return spec
            return None
        finally:
            self.asked.discard(name)

    def follow(self, spec: ModuleSpec) -> None:
        """Let the call be made after the module's own code has run."""
        loader = spec.loader
        run = getattr(loader, "exec_module", None)
        if run is None:
            return

        def exec_module(module: ModuleType) -> None:
            run(module)
            self.arrived(module)

        loader.exec_module = exec_module  # type: ignore[union-attr, method-assign]

    def arrived(self, module: ModuleType) -> None:
        call = self.calls.pop(module.__name__, None)
        if not self.calls and self in sys.meta_path:
            sys.meta_path.remove(self)
        if call is not None:
            call(module)


_waiting = _Waiting()


def when_loaded(name: str, call: Callable[[ModuleType], None]) -> None:
    """Call a function with a module: now if it is loaded, else as soon as it is."""
    module = sys.modules.get(name)
    if module is not None:
        call(module)
        return
    _waiting.calls[name] = call
    if _waiting not in sys.meta_path:
        sys.meta_path.insert(0, _waiting)
