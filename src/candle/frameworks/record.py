"""What a framework's file answers about a type; the native core reads it once."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["Record"]


class Record:
    """How objects of one type come in.

    Attributes
    ----------
    kind : str
        ``"plain"``: the protocols are tried in order. ``"numpy"``: exactly ndarray.
        ``"exchange"``: by the C exchange table, if all that it does not look at can be asked, else
        as plain ones. ``"stand_in"``: by the object that `stand_in` gives in its place.
    read_only : bool
        Objects are immutable, though their capsules do not say so.
    table : capsule, optional
        The type's C exchange table.
    requires_grad, is_conj, is_neg : optional
        What has to be asked before a table is believed: a getset descriptor, and two callables.
    forward_mode : dict, optional
        The variables of torch.autograd.forward_ad, which say whether forward mode is open.
    refuse_tangent : callable, optional
        Raises for an object with a gradient of forward mode. Called only while that is open.
    is_pinned : callable, optional
        Says whether memory of the host is pinned. Asked when a consumer asks for the device.
    dtype : optional
        A getset descriptor; with it the table's word on elements of a byte is not taken.
    byte_dtypes : tuple, optional
        The dtypes whose elements are a byte; the table calls smaller ones so too.
    holds_itself : bool
        An object keeps its memory alive as well as its managed struct would.
    hold : callable, optional
        Gives what keeps an object's memory alive, where neither does.
    work_stream : callable, optional
        Gives the framework's current stream of a CUDA device, by number: an object with
        ``__cuda_stream__``, or a handle. Default: what the table says.
    record_stream : callable, optional
        ``record_stream(kept, stream, number)`` keeps what `hold` gave until the work of a stream
        is done.
    resolve : callable, optional
        Gives, for a conjugate or negative view, an object whose memory holds its values.
    device_guard : callable, optional
        Makes a CUDA device current, by number: a context manager.
    import_stream : int
        What `__dlpack__` is asked with to hand out CUDA memory without waiting.
    stand_in : callable, optional
        Gives the object to ingest in place of one, or raises.
    copies : bool
        A Tensor that `stand_in` gives holds a copy, made for that: the move is one, and is refused
        where copies are.
    explain : callable, optional
        Asked where an object's own framework has failed or said what cannot be. Raises why, in
        better words; or gives an ndarray with a copy of the elements; or None.
    """

    __slots__ = (
        "byte_dtypes",
        "copies",
        "device_guard",
        "dtype",
        "explain",
        "forward_mode",
        "hold",
        "holds_itself",
        "import_stream",
        "is_conj",
        "is_neg",
        "is_pinned",
        "kind",
        "read_only",
        "record_stream",
        "refuse_tangent",
        "requires_grad",
        "resolve",
        "stand_in",
        "table",
        "work_stream",
    )

    def __init__(
        self,
        kind: str,
        *,
        read_only: bool = False,
        table: object = None,
        requires_grad: object = None,
        forward_mode: dict[str, object] | None = None,
        refuse_tangent: Callable[[Any], None] | None = None,
        is_conj: object = None,
        is_neg: object = None,
        is_pinned: object = None,
        dtype: object = None,
        byte_dtypes: tuple[object, ...] | None = None,
        holds_itself: bool = False,
        hold: object = None,
        work_stream: Callable[[int], object] | None = None,
        record_stream: Callable[..., object] | None = None,
        resolve: Callable[..., object] | None = None,
        device_guard: Callable[[int], object] | None = None,
        import_stream: int = -1,
        stand_in: Callable[..., object] | None = None,
        copies: bool = False,
        explain: Callable[..., object] | None = None,
    ) -> None:
        self.kind: str = kind
        self.read_only: bool = read_only
        self.table: object = table
        self.requires_grad: object = requires_grad
        self.forward_mode: dict[str, object] | None = forward_mode
        self.refuse_tangent: Callable[[Any], None] | None = refuse_tangent
        self.is_conj: object = is_conj
        self.is_neg: object = is_neg
        self.is_pinned: object = is_pinned
        self.dtype: object = dtype
        self.byte_dtypes: tuple[object, ...] | None = byte_dtypes
        self.holds_itself: bool = holds_itself
        self.hold: object = hold
        self.work_stream: Callable[[int], object] | None = work_stream
        self.record_stream: Callable[..., object] | None = record_stream
        self.resolve: Callable[..., object] | None = resolve
        self.device_guard: Callable[[int], object] | None = device_guard
        self.import_stream: int = import_stream
        self.stand_in: Callable[..., object] | None = stand_in
        self.copies: bool = copies
        self.explain: Callable[..., object] | None = explain
