"""The compiled core: the Tensor type, the ways in and out, the one decision on every move.

This stub is the reference of every type. `Tensor` is complete here, with the methods that are
written in Python (`candle.tensor`, `views`, `doors`, `operators` and others): `candle.attaching`
puts those onto the type when `candle` is imported.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from types import ModuleType
from typing import Any, Literal, Self, SupportsIndex, TypeAlias, TypeVar, final, overload

from numpy.typing import NDArray
from typing_extensions import disjoint_base

from candle.devices import Device
from candle.dtypes import DType
from candle.plan import Plan
from candle.tensor import Flags

_Axis: TypeAlias = int | tuple[int, ...] | None
_Shape: TypeAlias = SupportsIndex | Sequence[SupportsIndex]
_T = TypeVar("_T")

@disjoint_base
class Tensor:
    """A tensor over anybody's memory, or its own."""

    __dlpack_c_exchange_api__: Any
    __hash__: None  # type: ignore[assignment]

    def __new__(
        cls, data: object, *, dtype: object = None, device: object = None, copy: bool | None = None
    ) -> Self: ...

    # In: a builtin on the type, no method.
    from_dlpack: Callable[..., Tensor]

    # What it is.
    @property
    def shape(self) -> tuple[int, ...]:
        """Extent of each axis, in elements."""
    @property
    def stride(self) -> tuple[int, ...]:
        """Step of each axis, in elements (as DLPack counts, not in bytes)."""
    @property
    def ndim(self) -> int:
        """Number of axes."""
    @property
    def rank(self) -> int:
        """Number of axes (HuggingFace candle's name for ndim)."""
    @property
    def size(self) -> int:
        """Number of elements, an int."""
    @property
    def nelement(self) -> int:
        """Number of elements (HuggingFace candle's name for size)."""
    @property
    def dtype(self) -> DType:
        """The elements' DType."""
    @property
    def device(self) -> Device:
        """The Device the memory is on."""
    @property
    def itemsize(self) -> int:
        """Bytes of one element; 1 for packed sub-byte elements."""
    @property
    def nbytes(self) -> int:
        """Bytes the elements take, size times itemsize, or less where they are packed."""
    @property
    def readonly(self) -> bool:
        """Whether the memory may not be written through this tensor."""
    @property
    def flags(self) -> Flags:
        """C_CONTIGUOUS, F_CONTIGUOUS, WRITEABLE and ALIGNED, which all are."""
    def data_ptr(self) -> int:
        """Address of the first element, an int."""
    def is_contiguous(self) -> bool:
        """Whether the elements lie in row-major order without gaps. Axes of extent 1 do not count."""
    def is_fortran_contiguous(self) -> bool:
        """Whether the elements lie in column-major order without gaps. Axes of extent 1 do not count."""
    def __len__(self) -> int: ...
    def __bool__(self) -> bool: ...
    def __int__(self) -> int: ...
    def __float__(self) -> float: ...
    def __complex__(self) -> complex: ...
    def __index__(self) -> int: ...
    def __format__(self, spec: str) -> str: ...
    def _repr_html_(self) -> str: ...
    def __eq__(self, other: object) -> Tensor: ...  # type: ignore[override]
    def __ne__(self, other: object) -> Tensor: ...  # type: ignore[override]

    # Views, sharing memory.
    def __getitem__(self, key: Any, /) -> Tensor: ...
    def __iter__(self) -> Iterator[Tensor]: ...
    @property
    def T(self) -> Tensor:
        """The transpose of a tensor with two axes. Shares memory."""
    @property
    def mT(self) -> Tensor:
        """The transpose of each matrix, the last two axes swapped. Shares memory."""
    def permute(self, *dims: Any) -> Tensor:
        """Reorder the axes. Shares memory.

        Parameters
        ----------
        *dims : int or one sequence of int
            For each axis of the result the axis of this tensor it is; all of them once.
        """
    def transpose(self, dim1: int, dim2: int) -> Tensor:
        """Swap two axes. Shares memory."""
    def squeeze(self, dim: int | tuple[int, ...] | None = None) -> Tensor:
        """Drop axes of extent 1: all, or those named. Shares memory.

        Raises
        ------
        ValueError
            If a named axis has another extent.
        """
    def unsqueeze(self, dim: int) -> Tensor:
        """Insert an axis of extent 1 before axis `dim` of the result. Shares memory."""
    def narrow(self, dim: int, start: int, length: int) -> Tensor:
        """Take `length` items of one axis from `start` on. Shares memory."""
    def broadcast_to(self, shape: Any, *extents: int) -> Tensor:
        """See the tensor as a larger one whose new axes repeat it (stride 0). Shares memory.

        Writing through the result is refused where an axis has stride 0: its elements are one and
        the same memory.
        """
    def broadcast_as(self, *shape: Any) -> Tensor:
        """HuggingFace candle's name for broadcast_to()."""
    def view(self, shape_or_dtype: Any, *extents: int) -> Tensor:
        """See the same memory in another shape, or its bytes as another dtype. Never copies.

        Parameters
        ----------
        shape_or_dtype : shape, or DType, or a dtype's name
            One extent of a shape may be -1. A dtype of another size changes the last axis, which
            has to lie without gaps.

        Raises
        ------
        ValueError
            Where the strides do not allow it; reshape() copies then.
        """
    def unflatten(self, dim: int, sizes: Any) -> Tensor:
        """Split one axis into several. Shares memory; ValueError where the sizes do not fit."""
    def reshape(self, shape: Any, *extents: int, copy: bool | None = None) -> Tensor:
        """Give the elements, in row-major order, another shape.

        Parameters
        ----------
        shape : shape
            One extent may be -1.
        copy : bool, optional
            None: share where the strides allow, else copy. False: share or raise CopyError. True:
            always copy.
        """
    def flatten(self, start_dim: int = 0, end_dim: int = -1, *, copy: bool | None = None) -> Tensor:
        """Join axes `start_dim` to `end_dim`: a view where the strides allow, else a copy."""

    # Writing.
    def __setitem__(self, key: Any, value: object, /) -> None: ...
    def __delitem__(self, key: Any, /) -> None: ...
    def copy_(self, source: object) -> Tensor:
        """Write a source's elements, broadcast and cast, into this tensor, which is returned.

        Raises
        ------
        ValueError
            If the tensor is read-only, has an axis of stride 0, or the shapes do not broadcast.
        """
    def fill_(self, value: object) -> Tensor:
        """Write one number to every element. ValueError if read-only, or out of range.

        Parameters
        ----------
        value
            A number of Python's or of a framework's, or a tensor or array with no axes.
        """

    # Copies.
    def contiguous(self) -> Tensor:
        """Give the tensor itself if it lies in row-major order without gaps, else such a copy."""
    def copy(self) -> Tensor:
        """Give a fresh, writable copy in row-major order, aligned to 256 bytes."""
    def clone(self) -> Tensor:
        """Torch's name for copy()."""
    def to(
        self,
        target: object = None,
        *,
        dtype: object = None,
        device: object = None,
        copy: bool | None = None,
    ) -> Tensor:
        """Give the tensor with another dtype or device; the tensor itself where nothing changes.

        Parameters
        ----------
        target : DType, Device, Tensor, or a name
            A name is tried as a dtype's, then as a device's. A Tensor gives both.
        dtype, device : optional
            The same by keyword.
        copy : bool, optional
            None: copy where the dtype or the device changes. False: raise CopyError then. True:
            always copy.

        Notes
        -----
        Casts round once, to nearest even. Overflow gives inf where the dtype has it, else NaN.
        Float to integer truncates
        and saturates, NaN becomes 0. Integer to integer wraps. Complex to real is a BufferError.
        On CUDA devices cupy or torch copies and casts, by its own rules.
        """
    def to_dtype(self, dtype: object) -> Tensor:
        """HuggingFace candle's name for to(dtype)."""
    def to_device(self, device: object, /, *, stream: object = None) -> Tensor:
        """Give the tensor on another device, as `to` does (Python Array API).

        Parameters
        ----------
        device
            Where it is wanted.
        stream
            None: candle orders the copy after the work that fills the tensor, and its consumers
            after the copy. ValueError for anything else.
        """
    def __copy__(self) -> Tensor: ...
    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor: ...
    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[Any, ...]: ...
    def __reduce__(self) -> tuple[Any, ...]: ...
    def __sizeof__(self) -> int: ...

    # Out.
    def tolist(self) -> Any:
        """The values as (nested) lists of Python numbers; one number for a tensor with no axes. Copies."""
    def values(self) -> Any:
        """HuggingFace candle's name for tolist()."""
    def item(self) -> Any:
        """The value of a tensor of one element, as a Python number. ValueError for other sizes."""
    def numpy(self, *, copy: bool | None = None) -> NDArray[Any]:
        """An ndarray over the same memory; bfloat16 and the 8-bit floats as ml_dtypes' dtypes.

        Read-only where the tensor is. ``copy=True`` gives a fresh, writable array; ``copy=False`` raises CopyError
        where the memory cannot be shared (packed sub-byte elements).
        """
    def torch(self, *, copy: bool | None = None) -> Any:
        """A torch.Tensor over the same memory, through torch's own C exchange table.

        torch has no read-only and no negative strides: such tensors are copied with ``copy=None``. With
        ``copy=False`` read-only memory is shared, on the caller's word that nothing is written, and negative strides
        raise CopyError.
        """
    def to_torch(self, *, copy: bool | None = None) -> Any:
        """HuggingFace candle's name for torch()."""
    def cupy(self, *, copy: bool | None = None) -> Any:
        """Give a cupy.ndarray over the same memory on a CUDA device.

        Memory of the host is copied to cupy's current device with ``copy=None``. cupy has no
        read-only arrays: read-only memory is copied with ``copy=None``, and shared with
        ``copy=False`` on the caller's word that nothing is written. A dtype that cupy lacks is a
        BufferError. cupy's current stream is made to wait for what may be pending.
        """
    def jax(self, *, copy: bool | None = None) -> Any:
        """Give a jax.Array over the same memory.

        jax takes dense memory aligned to 64 bytes, and without x64 no 64-bit dtypes: the former is
        copied with ``copy=None``,
        the latter is a BufferError. jax never writes, so that read-only memory is shared.
        """
    def arrow(
        self, *, layout: str = "tensor", type: object = None, copy: bool | None = None
    ) -> Any:
        """Give a pyarrow.Array over the same memory: a row for each index of the first axis.

        One axis becomes an array of numbers. More become a FixedShapeTensorArray, which keeps the
        shape of the rows and the order in which their axes lie. Rows that have gaps between them,
        or within, are copied with ``copy=None``. Booleans are copied to Arrow's bits;
        ``type=pyarrow.bool8()`` shares them. bfloat16, the 8-bit floats and complex numbers have no
        type in Arrow, and become pyarrow's OpaqueArray over the same bytes; `candle.from_arrow`
        knows them again.

        Parameters
        ----------
        layout : str
            ``"tensor"``, or ``"list"`` for nested lists of fixed size.
        type : optional
            An Arrow type: lists of fixed size, joined or not; an extension; other numbers, if
            they hold the values: a BufferError else. What has ``__arrow_c_schema__``.
        copy : bool, optional
            None: share, else copy. False: share or raise CopyError. True: always copy.

        Notes
        -----
        Other libraries take a tensor as it is: ``polars.Series(t)``, ``nanoarrow.Array(t)``, a
        DuckDB query. They need no pyarrow.
        """
    def memoryview(self) -> memoryview:
        """The memory as a buffer with format, shape and strides (PEP 3118). Shares.

        BufferError for dtypes that have no format there: view them as bytes first, ``t.view('uint8')``.
        """
    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...
    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[Any, Any]: ...
    def __arrow_c_device_array__(
        self, requested_schema: object = None, **kwargs: object
    ) -> tuple[Any, Any]: ...
    def __arrow_c_schema__(self) -> Any: ...
    def record_stream(self, stream: object, /) -> None:
        """Keep the memory, when it is given back, until what is queued on a stream by then has run.

        For a consumer that still reads on a stream of its own when the last Python reference goes. Takes a stream
        object of torch, cupy or cuda.core (``__cuda_stream__``), and holds it until then. TypeError for a bare handle,
        BufferError where the producer's stream is not known.
        """
    def wait_for(self, stream: object, /) -> None:
        """Make the producer's current stream wait for what is queued on a stream by now: for a consumer that has written.

        Takes a stream object, or a handle. The host does not wait. BufferError where the producer's stream is not known.
        """
    def to_hf_candle(self, *, copy: bool | None = None) -> Any:
        """Give a tensor of HuggingFace candle (candle-nn), which `candle.hf.load` has loaded.

        A copy, exact, of any layout and number of axes. ``copy=False`` is a CopyError. BufferError
        for dtypes other than uint8, uint32, int64, bfloat16, float16, float32 and float64.
        """
    def __tf_tensor__(self, dtype: Any = None, name: str | None = None) -> Any: ...
    @classmethod
    def __torch_function__(
        cls,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any: ...
    def __array__(self, dtype: Any = None, /, *, copy: bool | None = None) -> NDArray[Any]: ...
    @property
    def __array_interface__(self) -> dict[str, Any]:
        """The array interface, version 3. AttributeError where the dtype has no typestr."""
    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The CUDA array interface, version 3. AttributeError off CUDA devices."""

    # Computed by the library that the memory is with.
    def __add__(self, other: Any) -> Tensor: ...
    def __radd__(self, other: Any) -> Tensor: ...
    def __iadd__(self, other: Any) -> Self: ...
    def __sub__(self, other: Any) -> Tensor: ...
    def __rsub__(self, other: Any) -> Tensor: ...
    def __isub__(self, other: Any) -> Self: ...
    def __mul__(self, other: Any) -> Tensor: ...
    def __rmul__(self, other: Any) -> Tensor: ...
    def __imul__(self, other: Any) -> Self: ...
    def __truediv__(self, other: Any) -> Tensor: ...
    def __rtruediv__(self, other: Any) -> Tensor: ...
    def __itruediv__(self, other: Any) -> Self: ...
    def __floordiv__(self, other: Any) -> Tensor: ...
    def __rfloordiv__(self, other: Any) -> Tensor: ...
    def __ifloordiv__(self, other: Any) -> Self: ...
    def __mod__(self, other: Any) -> Tensor: ...
    def __rmod__(self, other: Any) -> Tensor: ...
    def __divmod__(self, other: Any) -> tuple[Tensor, Tensor]: ...
    def __rdivmod__(self, other: Any) -> tuple[Tensor, Tensor]: ...
    def __imod__(self, other: Any) -> Self: ...
    def __pow__(self, other: Any) -> Tensor: ...
    def __rpow__(self, other: Any) -> Tensor: ...
    def __ipow__(self, other: Any) -> Self: ...
    def __matmul__(self, other: Any) -> Tensor: ...
    def __rmatmul__(self, other: Any) -> Tensor: ...
    def __imatmul__(self, other: Any) -> Self: ...
    def __and__(self, other: Any) -> Tensor: ...
    def __rand__(self, other: Any) -> Tensor: ...
    def __iand__(self, other: Any) -> Self: ...
    def __or__(self, other: Any) -> Tensor: ...
    def __ror__(self, other: Any) -> Tensor: ...
    def __ior__(self, other: Any) -> Self: ...
    def __xor__(self, other: Any) -> Tensor: ...
    def __rxor__(self, other: Any) -> Tensor: ...
    def __ixor__(self, other: Any) -> Self: ...
    def __lshift__(self, other: Any) -> Tensor: ...
    def __rlshift__(self, other: Any) -> Tensor: ...
    def __ilshift__(self, other: Any) -> Self: ...
    def __rshift__(self, other: Any) -> Tensor: ...
    def __rrshift__(self, other: Any) -> Tensor: ...
    def __irshift__(self, other: Any) -> Self: ...
    def __lt__(self, other: Any) -> Tensor: ...
    def __le__(self, other: Any) -> Tensor: ...
    def __gt__(self, other: Any) -> Tensor: ...
    def __ge__(self, other: Any) -> Tensor: ...
    def __neg__(self) -> Tensor: ...
    def __pos__(self) -> Tensor: ...
    def __abs__(self) -> Tensor: ...
    def __invert__(self) -> Tensor: ...
    def __array_ufunc__(
        self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **keywords: Any
    ) -> Any: ...
    def __array_function__(
        self, function: Any, types: Any, arguments: Any, keywords: dict[str, Any]
    ) -> Any: ...
    def __array_namespace__(self, /, *, api_version: str | None = None) -> ModuleType: ...
    def sum(self, axis: _Axis = None, *, dtype: object = None, keepdims: bool = False) -> Tensor:
        """Add up: integers narrower than int64 in int64 or uint64, unless `dtype` says another."""
    def prod(self, axis: _Axis = None, *, dtype: object = None, keepdims: bool = False) -> Tensor:
        """Multiply up, in the dtypes of sum()."""
    def std(self, axis: _Axis = None, *, correction: float = 0.0, keepdims: bool = False) -> Tensor:
        """Give the standard deviation, of squares divided by the count less `correction`."""
    def var(self, axis: _Axis = None, *, correction: float = 0.0, keepdims: bool = False) -> Tensor:
        """Give the variance: squares divided by the count less `correction`."""
    def mean(self, axis: _Axis = None, *, keepdims: bool = False) -> Tensor:
        """Give the mean; of integers in float64."""
    def max(self, axis: _Axis = None, *, keepdims: bool = False) -> Tensor:
        """Give the largest; NaN where there is one."""
    def min(self, axis: _Axis = None, *, keepdims: bool = False) -> Tensor:
        """Give the smallest; NaN where there is one."""
    def all(self, axis: _Axis = None, *, keepdims: bool = False) -> Tensor:
        """Tell whether all are true, or not zero."""
    def any(self, axis: _Axis = None, *, keepdims: bool = False) -> Tensor:
        """Tell whether one is true, or not zero."""
    def argmax(self, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
        """Give where the first of the largest is, in int64; among all if `axis` is None."""
    def argmin(self, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
        """Give where the first of the smallest is, as argmax() does."""
    def clip(self, min: object = None, max: object = None) -> Tensor:
        """Put the nearer of two bounds in the place of what lies outside them."""
    def matmul(self, other: object) -> Tensor:
        """Multiply matrices, as the operator ``@`` does."""

    # The same, by HuggingFace candle's names.
    def abs(self) -> Tensor:
        """Do what the Python Array API standard says of `abs`."""
    def cos(self) -> Tensor:
        """Do what the Python Array API standard says of `cos`."""
    def exp(self) -> Tensor:
        """Do what the Python Array API standard says of `exp`."""
    def log(self) -> Tensor:
        """Do what the Python Array API standard says of `log`."""
    def recip(self) -> Tensor:
        """Do what the Python Array API standard says of `reciprocal`."""
    def sin(self) -> Tensor:
        """Do what the Python Array API standard says of `sin`."""
    def sqr(self) -> Tensor:
        """Do what the Python Array API standard says of `square`."""
    def sqrt(self) -> Tensor:
        """Do what the Python Array API standard says of `sqrt`."""
    def broadcast_add(self, rhs: object) -> Tensor:
        """Add; the same as ``+``."""
    def broadcast_sub(self, rhs: object) -> Tensor:
        """Subtract; the same as ``-``."""
    def broadcast_mul(self, rhs: object) -> Tensor:
        """Multiply; the same as ``*``."""
    def broadcast_div(self, rhs: Tensor) -> Tensor:
        """Divide; integers as in Rust, in their own dtype and towards zero (``/`` gives floats)."""
    def sum_keepdim(self, dim: int | list[int] | tuple[int, ...]) -> Tensor:
        """Add up along one axis or several, in the tensor's own dtype."""
    def max_keepdim(self, dim: int) -> Tensor:
        """Give the largest along an axis."""
    def min_keepdim(self, dim: int) -> Tensor:
        """Give the smallest along an axis."""
    def argmax_keepdim(self, dim: int) -> Tensor:
        """Give where the first of the largest is along an axis, in uint32."""
    def argmin_keepdim(self, dim: int) -> Tensor:
        """Give where the first of the smallest is along an axis, in uint32."""
    def sum_all(self) -> Tensor:
        """Add up all elements, in the tensor's own dtype."""
    def mean_all(self) -> Tensor:
        """Give the mean of all elements."""
    def get(self, index: int) -> Tensor:
        """Give one item of the first axis. Shares memory."""
    def index_select(self, rhs: object, dim: int) -> Tensor:
        """Copy the items of an axis that a vector of ints names."""
    def gather(self, index: Tensor, dim: int) -> Tensor:
        """Copy, along one axis, the elements that a tensor of ints names for each place of its own.

        Its other axes may be shorter than this tensor's.
        """
    def where_cond(self, on_true: object, on_false: object) -> Tensor:
        """Take elements of one tensor where this one is not zero, and of the other where it is."""
    def powf(self, p: float) -> Tensor:
        """Raise every element to a power."""
    def t(self) -> Tensor:
        """Swap the last two axes; the same as ``mT``. Shares memory."""
    def detach(self) -> Tensor:
        """Give the tensor itself: it is no part of anybody's autograd."""
    def broadcast_left(self, *shape: int | tuple[int, ...]) -> Tensor:
        """Put axes before the first, along which the tensor repeats (stride 0). Shares memory."""
    def flatten_all(self) -> Tensor:
        """Join all axes: a view where the strides allow, else a copy."""
    def flatten_from(self, dim: int) -> Tensor:
        """Join the axes from `dim` on: a view where the strides allow, else a copy."""
    def flatten_to(self, dim: int) -> Tensor:
        """Join the axes up to `dim`, and that: a view where the strides allow, else a copy."""

@final
class Demand:
    """What a consumer takes; `conform` makes a tensor so."""

    def __new__(
        cls,
        consumer: str,
        *,
        dtypes: Iterable[str] | None = None,
        narrows: Iterable[str] | None = None,
        alignment: int = 1,
        dense: bool = False,
        c_order: bool = False,
        negative_strides: bool = True,
        read_only: bool = True,
        packed: bool = True,
        host_only: bool = True,
        copies: bool = False,
        axes: tuple[int, int] = (0, 64),
        route: str = "candle",
    ) -> Self: ...

curable_reasons: tuple[str, ...]

def from_dlpack(
    x: object,
    /,
    *,
    device: object = None,
    copy: bool | None = None,
    dtype: object = None,
    order: Literal["C"] | None = None,
    stream: int | None = None,
) -> Tensor:
    """A Tensor over a DLPack producer's memory (Python Array API standard, 2024.12).

    Parameters
    ----------
    x
        An object with ``__dlpack__``, or a raw capsule, which is consumed.
    device
        Wanted device; memory elsewhere is copied across.
    copy
        None: share if possible, else copy. False: share or raise. True: always a fresh copy.
    dtype
        Wanted dtype; other elements are cast, which copies.
    order
        "C": row-major without gaps; other layouts are copied.
    stream
        Goes with a raw capsule of CUDA memory only: the stream that work on it is queued on, an object
        or a handle. Default: the legacy default stream.

    Raises
    ------
    CopyError
        With ``copy=False``, where the memory cannot be shared.
    BufferError
        Where the data cannot be expressed, or the producer refuses.
    TypeError, ValueError
        For wrong arguments.
    """

@overload
def from_arrow(
    x: object,
    /,
    *,
    nulls: Literal["error"] | float = "error",
    chunks: Literal["copy"] = "copy",
    times: Literal["error", "integers"] = "error",
    column: str | int | None = None,
    dtype: object = None,
    device: object = None,
    copy: bool | None = None,
) -> Tensor: ...
@overload
def from_arrow(
    x: object,
    /,
    *,
    nulls: Literal["mask"],
    chunks: Literal["copy"] = "copy",
    times: Literal["error", "integers"] = "error",
    column: str | int | None = None,
    dtype: object = None,
    device: object = None,
    copy: bool | None = None,
) -> tuple[Tensor, Tensor]: ...
@overload
def from_arrow(
    x: object,
    /,
    *,
    nulls: Literal["error"] | float = "error",
    chunks: Literal["list"],
    times: Literal["error", "integers"] = "error",
    column: str | int | None = None,
    dtype: object = None,
    device: object = None,
    copy: bool | None = None,
) -> list[Tensor]: ...
@overload
def from_arrow(
    x: object,
    /,
    *,
    nulls: Literal["mask"],
    chunks: Literal["list"],
    times: Literal["error", "integers"] = "error",
    column: str | int | None = None,
    dtype: object = None,
    device: object = None,
    copy: bool | None = None,
) -> list[tuple[Tensor, Tensor]]: ...
def asarray(
    data: object, /, *, dtype: object = None, device: object = None, copy: bool | None = None
) -> Tensor:
    """A Tensor of anything: see Tensor. Shares memory where it can."""

def shared(x: object, detached: bool = False, /) -> Tensor:
    """asarray(x, copy=False). detached: of what requires grad too, where its memory can be held without it."""

def sharer(
    done: dict[int, Any],
    detached: bool,
    share: Callable[[Tensor], Any] | Literal["numpy", "torch"],
    otherwise: Callable[[Any], Any],
    /,
) -> Callable[[Any], Any]:
    """A function of a tensor that gives share(shared(x, detached)), and the same again for the same tensor, kept in the dict done by id; otherwise(x) where that is a BufferError. share may be "numpy" or "torch"."""

def ingest_by(route: str, x: object, /) -> Tensor:
    """Ingest by one route alone, for tests. LookupError where it does not apply."""

def exchange_floor(x: object, /) -> None:
    """Takes a managed tensor from the table of x's type and gives it back: what no ingest can beat, for benchmarks."""

def register(**hooks: object) -> None:
    """Hands the core the Python callables and objects it needs."""

def watch(change: int, /) -> None:
    """How many watchers of moves there are more, or less."""

def plan_in(x: object, dtype: object, device: object, /) -> tuple[Tensor, Plan]:
    """What asarray would do: a tensor like its result, which may have no memory, and the Plan."""

def plan_out(t: Tensor, demand: str | Demand, /) -> Plan:
    """The Plan of an export: to numpy, torch, dlpack, dlpack_legacy, or by a Demand."""

def quietly(function: Callable[..., _T], /, *arguments: Any) -> _T:
    """Calls a function whose moves are steps of another, or none of the caller's, and are not told."""

def memory_of(x: object, /) -> tuple[int, tuple[int, ...], tuple[int, ...], int, int, int]:
    """Where the elements of anything lie: address, shape, strides and item in bits, DLPack's device."""

def keeper(x: object, /) -> object:
    """The Python object that keeps the memory of a tensor, or of its memoryview; or None."""

def dtype_rows() -> tuple[
    tuple[
        str,
        str | None,
        int,
        int,
        int,
        Literal["bool", "int", "uint", "real", "complex", "pair"],
        str | None,
        str | None,
    ],
    ...,
]:
    """(name, short name, code, bits, lanes, kind, typestr, format) of every dtype."""

def empty(shape: _Shape, dtype_id: int, align: int = 256, /) -> Tensor:
    """A row-major tensor with its own uninitialised memory."""

def copy_into(dst: Tensor, src: Tensor, /) -> None:
    """Copies a tensor, broadcast and cast, into another."""

def assign(dst: Tensor, value: object, /) -> None:
    """What dst[...] = value does."""

def fill(dst: Tensor, value: object, /) -> None:
    """Writes a number, or a tensor without axes, to every element."""

def on_host(function: Callable[[Any, Any], Any], a: object, b: object, /) -> Tensor | None:
    """A function of two arrays, on a Tensor and a Tensor or number; None where it is not as simple as that."""

def check_writable(t: Tensor, /) -> None:
    """Raises ValueError if the tensor may not be written."""

def in_words(value: object, /) -> str:
    """A value as a message shows it, ints of any size included."""

def materialise(t: Tensor, dtype_id: int = -1, /) -> Tensor:
    """A fresh row-major copy, cast if a dtype is given."""

def conform(t: Tensor, demand: Demand, copy: bool | None, /) -> Tensor:
    """The tensor itself if it meets the demand, else a copy that does."""

def restride(t: Tensor, shape: _Shape, stride: _Shape, offset: int = 0, /) -> Tensor:
    """A view inside the tensor; counts elements."""

def reshaped_stride(t: Tensor, shape: _Shape, /) -> tuple[int, ...] | None:
    """Strides that give a shape without a copy, or None."""

def reinterpret(t: Tensor, dtype_id: int, /) -> Tensor:
    """A view of the same bytes as another dtype."""

def is_padded(t: Tensor, /) -> bool:
    """Whether sub-byte elements take a byte each."""

def as_bytes(t: Tensor, /) -> Tensor:
    """The memory of a row-major tensor, a vector of uint8."""

def of_bytes(data: Tensor, shape: _Shape, dtype_id: int, padded: bool = False, /) -> Tensor:
    """The other way round."""

def frozen(t: Tensor, /) -> Tensor:
    """A view of a tensor that may not be written."""

def host_copy(t: Tensor, dtype_id: int, /) -> Tensor:
    """As materialise, on the host, and recorded by who calls."""

def host_write(dst: Tensor, src: Tensor, /) -> None:
    """As copy_into, on the host, and recorded by who calls."""

def lender(t: Tensor, /) -> type | None:
    """The type whose device memory a tensor lies in, or None."""

def arrow_capsules(
    t: Tensor, requested_schema: object, lists: bool, copy: bool | None, /
) -> tuple[Any, Any]:
    """__arrow_c_array__, as plain lists if asked, with the copy mode of a door."""

def legacy_capsule(t: Tensor, stream: int | None = None, /) -> Any:
    """A legacy capsule for a consumer that never writes; shares read-only memory too."""

def num_threads() -> int:
    """How many threads share a big copy."""

def set_num_threads(count: int, /) -> None:
    """Says how many threads share a big copy."""

def set_overlap_room(bytes: int, /) -> None:
    """Says how much memory a copy onto its own source takes, half a megabyte at most, for tests."""

def simd() -> str:
    """The vector instructions that are used: avx512, avx2 or baseline."""

def live() -> dict[str, int]:
    """What is alive: tensors, storages, bytes of candle's own memory, exports."""

def counting_deleter() -> tuple[int, int, int]:
    """Addresses of deleters that count, for tests."""
