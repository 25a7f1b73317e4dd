"""What the files beside this one define: each as much as there is to say of its framework."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .._native._core import Demand
    from ..dtypes import DType
    from .record import Record
    from .target import Target

__all__ = ["FrameworkFile"]


class FrameworkFile(Protocol):
    """A module that knows one framework. Imported for type checkers and tests only.

    `record` and `owner` are asked of whose types candle meets; `target` of whose tensors can be
    asked for by name, with `demand` or, if the native core knows the framework, without; `examples`
    of whatever the doctor tells of. What else a file does not define goes without saying.

    Attributes
    ----------
    DEVICE : str
        Where the framework takes the host's tensors to. Not defined: it leaves them there.
    MORE_THAN_MEMORY : bool
        Its objects are more than tensors: they have labels. Not defined: they are not.
    """

    DEVICE: str
    MORE_THAN_MEMORY: bool

    def record(self, cls: type, base: type) -> Record | None:
        """Say how objects of a type come in, of which a base is the framework's own."""
        ...

    def owner(self, x: Any) -> object:
        """Give what a tensor says that its memory belongs to, or None."""
        ...

    def target(self) -> Target:
        """Import the framework, and say how it is given tensors."""
        ...

    def demand(self) -> Demand:
        """Say what it takes, as it is configured now."""
        ...

    def dtype_for(self, dtype: DType) -> object:
        """Give its own dtype for one of candle's; BufferError where it has none."""
        ...

    def door(self) -> tuple[object, object, object, object]:
        """Import it: exchange table, Demand, who tells of copies, who names the stream."""
        ...

    def detached(self, x: Any) -> Any:
        """Give a tensor out of autograd, over the same memory."""
        ...

    def work_stream(self, index: int) -> object:
        """Give its current stream of a CUDA device; None where it does not use CUDA."""
        ...

    def examples(self) -> dict[str, Any]:
        """Import it, and make tensors that differ in what consumers make of them."""
        ...

    def hazards(self, trial: Callable[[Callable[[], str]], str]) -> list[str]:
        """Try what the installed version gets wrong; `trial` calls in a process of its own."""
        ...
