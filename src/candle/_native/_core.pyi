"""The compiled core: the Tensor type, the ways in and out, the one decision on every move.

This stub is the reference of every type. `Tensor` is complete here: its methods written in Python
stand in `candle.tensor` and are attached to the type when `candle` is imported.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from types import EllipsisType
from typing import Any, Literal, Self, SupportsIndex, TypeAlias, TypeVar, final, overload

from typing_extensions import disjoint_base

from candle.devices import Device
from candle.dtypes import DType
from candle.plan import Plan
from candle.tensor import Flags

_Index: TypeAlias = SupportsIndex | slice | EllipsisType | None
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
        """HuggingFace candle's name for ndim."""
    @property
    def size(self) -> int:
        """Number of elements."""
    @property
    def nelement(self) -> int:
        """HuggingFace candle's name for size."""
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
        """Bytes the elements take: size times itemsize, less where they are packed."""
    @property
    def readonly(self) -> bool:
        """Whether the memory may not be written through this tensor."""
    @property
    def flags(self) -> Flags:
        """C_CONTIGUOUS, F_CONTIGUOUS and WRITEABLE."""
    def data_ptr(self) -> int:
        """Address of the first element."""
    def is_contiguous(self) -> bool:
        """Whether the elements lie in row-major order without gaps."""
    def is_fortran_contiguous(self) -> bool:
        """Whether the elements lie in column-major order without gaps."""
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
    def __getitem__(self, key: _Index | tuple[_Index, ...], /) -> Tensor: ...
    def __iter__(self) -> Iterator[Tensor]: ...
    @property
    def T(self) -> Tensor:
        """The transpose of a tensor with two axes."""
    @property
    def mT(self) -> Tensor:
        """The transpose of each matrix: the last two axes swapped."""
    def permute(self, *dims: Any) -> Tensor: ...
    def transpose(self, dim1: int, dim2: int) -> Tensor: ...
    def squeeze(self, dim: int | tuple[int, ...] | None = None) -> Tensor: ...
    def unsqueeze(self, dim: int) -> Tensor: ...
    def narrow(self, dim: int, start: int, length: int) -> Tensor: ...
    def broadcast_to(self, shape: Any, *extents: int) -> Tensor: ...
    def broadcast_as(self, *shape: Any) -> Tensor: ...
    def view(self, shape_or_dtype: Any, *extents: int) -> Tensor: ...
    def unflatten(self, dim: int, sizes: Any) -> Tensor: ...
    def reshape(self, shape: Any, *extents: int, copy: bool | None = None) -> Tensor: ...
    def flatten(
        self, start_dim: int = 0, end_dim: int = -1, *, copy: bool | None = None
    ) -> Tensor: ...

    # Writing.
    def __setitem__(self, key: _Index | tuple[_Index, ...], value: object, /) -> None: ...
    def __delitem__(self, key: _Index | tuple[_Index, ...], /) -> None: ...
    def copy_(self, source: object) -> Tensor: ...
    def fill_(self, value: object) -> Tensor: ...

    # Copies.
    def contiguous(self) -> Tensor: ...
    def copy(self) -> Tensor: ...
    def clone(self) -> Tensor: ...
    def to(
        self,
        target: object = None,
        *,
        dtype: object = None,
        device: object = None,
        copy: bool | None = None,
    ) -> Tensor: ...
    def to_dtype(self, dtype: object) -> Tensor: ...
    def to_device(self, device: object) -> Tensor: ...
    def __copy__(self) -> Tensor: ...
    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor: ...
    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[Any, ...]: ...
    def __sizeof__(self) -> int: ...

    # Out.
    def tolist(self) -> Any: ...
    def values(self) -> Any: ...
    def item(self) -> Any: ...
    def numpy(self, *, copy: bool | None = None) -> Any: ...
    def torch(self, *, copy: bool | None = None) -> Any: ...
    def to_torch(self, *, copy: bool | None = None) -> Any: ...
    def cupy(self, *, copy: bool | None = None) -> Any: ...
    def jax(self, *, copy: bool | None = None) -> Any: ...
    def arrow(
        self, *, layout: str = "tensor", type: object = None, copy: bool | None = None
    ) -> Any: ...
    def memoryview(self) -> memoryview: ...
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
    def record_stream(self, stream: object, /) -> None: ...
    def wait_for(self, stream: object, /) -> None: ...
    def __tf_tensor__(self, dtype: Any = None, name: str | None = None) -> Any: ...
    @classmethod
    def __torch_function__(
        cls,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any: ...
    def __array__(self, dtype: Any = None, /, *, copy: bool | None = None) -> Any: ...
    @property
    def __array_interface__(self) -> dict[str, Any]:
        """The array interface, version 3. AttributeError where the dtype has no typestr."""
    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The CUDA array interface, version 3. AttributeError off CUDA devices."""

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
) -> Tensor: ...
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
) -> Tensor: ...
def shared(x: object, detached: bool = False, /) -> Tensor: ...
def sharer(
    done: dict[int, Any],
    detached: bool,
    share: Callable[[Tensor], Any] | Literal["numpy", "torch"],
    otherwise: Callable[[Any], Any],
    /,
) -> Callable[[Any], Any]: ...
def ingest_by(route: str, x: object, /) -> Tensor: ...
def exchange_floor(x: object, /) -> None: ...
def register(**hooks: object) -> None: ...
def watch(change: int, /) -> None: ...
def plan_in(x: object, dtype: object, device: object, /) -> tuple[Tensor, Plan]: ...
def plan_out(t: Tensor, demand: str | Demand, /) -> Plan: ...
def quietly(function: Callable[..., _T], /, *arguments: Any) -> _T: ...
def memory_of(x: object, /) -> tuple[int, tuple[int, ...], tuple[int, ...], int, int, int]: ...
def keeper(x: object, /) -> object: ...
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
]: ...
def empty(shape: _Shape, dtype_id: int, align: int = 256, /) -> Tensor: ...
def copy_into(dst: Tensor, src: Tensor, /) -> None: ...
def assign(dst: Tensor, value: object, /) -> None: ...
def fill(dst: Tensor, value: object, /) -> None: ...
def in_words(value: object, /) -> str: ...
def materialise(t: Tensor, dtype_id: int = -1, /) -> Tensor: ...
def conform(t: Tensor, demand: Demand, copy: bool | None, /) -> Tensor: ...
def restride(t: Tensor, shape: _Shape, stride: _Shape, offset: int = 0, /) -> Tensor: ...
def reshaped_stride(t: Tensor, shape: _Shape, /) -> tuple[int, ...] | None: ...
def reinterpret(t: Tensor, dtype_id: int, /) -> Tensor: ...
def is_padded(t: Tensor, /) -> bool: ...
def as_bytes(t: Tensor, /) -> Tensor: ...
def of_bytes(data: Tensor, shape: _Shape, dtype_id: int, padded: bool = False, /) -> Tensor: ...
def host_copy(t: Tensor, dtype_id: int, /) -> Tensor: ...
def host_write(dst: Tensor, src: Tensor, /) -> None: ...
def lender(t: Tensor, /) -> type | None: ...
def arrow_capsules(
    t: Tensor, requested_schema: object, lists: bool, copy: bool | None, /
) -> tuple[Any, Any]: ...
def legacy_capsule(t: Tensor, stream: int | None = None, /) -> Any: ...
def num_threads() -> int: ...
def set_num_threads(count: int, /) -> None: ...
def simd() -> str: ...
def live() -> dict[str, int]: ...
def counting_deleter() -> tuple[int, int, int]: ...
