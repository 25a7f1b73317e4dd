"""What MPI does not look at: whether all ranks mean the same by the bytes they exchange."""

from __future__ import annotations

from ._native import _core

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ._native._core import Tensor

__all__ = ["agreed"]

# What mpi4py has a datatype for, with which MPI can reckon.
_NAMED = {
    "bool",
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
    *("float32", "float64", "complex64", "complex128"),
}


def agreed(comm: Any, x: object, *, reducing: bool = False) -> Tensor:
    """Give what to send, receive or reduce, once all ranks have tensors of one dtype and shape.

    An MPI message is bytes: whoever receives it as another dtype reads numbers that nobody sent,
    and no error says so. This is a collective call, to be made by every rank of a communicator
    before what it exchanges; where something is wrong on one rank, it raises on all of them, and
    nobody waits for a message that does not come.

    Parameters
    ----------
    comm
        The communicator: mpi4py's, or what else has ``allgather`` for Python objects.
    x
        The tensor of this rank, of any framework: what it sends, or what it receives into.
    reducing : bool
        Whether MPI is to reckon with the elements (``Reduce``, ``Allreduce``, ``Scan``).

    Returns
    -------
    Tensor
        It shares the memory of `x`, and is one of bytes (uint8, one axis) where MPI has no name for
        the dtype: float16, bfloat16, the 8-bit floats and smaller ones.

    Raises
    ------
    ValueError
        On every rank, if they have tensors of different dtypes or shapes.
    BufferError
        On every rank, if one's tensor cannot be shared, has gaps or does not lie in row-major
        order; or if `reducing`, and MPI cannot reckon with the dtype: mpi4py gives it the elements
        of bfloat16 and of the 8-bit floats as bytes, the sums of which mean nothing.

    Examples
    --------
    >>> import candle.mpi
    >>> class Alone:
    ...     def allgather(self, mine):
    ...         return [mine]
    >>> candle.mpi.agreed(Alone(), candle.ones(2))
    tensor([1., 1.], dtype=float32)
    """
    t, wrong = None, ""
    try:
        t = _core.asarray(x, copy=False)
        wrong = _obstacle(t, reducing)
    except Exception as error:  # of any kind: the other ranks wait for this one
        wrong = str(error) or type(error).__name__
    kind = None if t is None else (_core.is_padded(t) * "padded " + t.dtype.name, t.shape)
    told: list[tuple[str, Any]] = comm.allgather((wrong, kind))
    obstacles = [f"rank {rank}: {words}" for rank, (words, _) in enumerate(told) if words]
    if obstacles or t is None:
        raise BufferError("; ".join(obstacles))
    ranks: dict[Any, list[int]] = {}
    for rank, (_, each) in enumerate(told):
        ranks.setdefault(each, []).append(rank)
    if len(ranks) > 1:
        said = "; ".join(
            f"{dtype} {shape} on rank{'s' * (len(who) > 1)} {', '.join(map(str, who))}"
            for (dtype, shape), who in ranks.items()
        )
        raise ValueError(
            f"the ranks have different tensors, and MPI would take the bytes of one for "
            f"another's: {said}. Convert them to one dtype and shape first"
        )
    return t if t.dtype.name in _NAMED else _core.as_bytes(t)


def _obstacle(t: Tensor, reducing: bool) -> str:
    """Say why MPI cannot take a tensor, if it cannot."""
    if not t.is_contiguous():
        return (
            "the elements do not lie in row-major order without gaps; send t.contiguous(), or "
            "receive into candle.empty(...) and assign that"
        )
    if reducing and t.dtype.name not in _NAMED:
        return (
            f'MPI cannot reckon with {t.dtype}; reduce t.to("float32"), or another dtype that C has'
        )
    return ""
