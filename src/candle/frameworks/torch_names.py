"""numpy's functions by the standard's and torch's names: those that mean the same."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

__all__ = ["DIRECT", "FUNCTIONS", "RENAMED", "SAME", "Parameter", "parameters"]

# Universal functions that the standard has by the same name.
SAME = frozenset(
    """
    add bitwise_and bitwise_or bitwise_xor ceil copysign cos cosh divide equal exp expm1 floor
    floor_divide greater greater_equal hypot isfinite isinf isnan less less_equal log log10 log1p
    log2 logaddexp logical_and logical_not logical_or logical_xor matmul maximum minimum multiply
    negative nextafter not_equal positive reciprocal remainder sign signbit sin sinh sqrt square
    subtract tan tanh trunc vecdot
    """.split()  # noqa: SIM905
)

# By another.
RENAMED = {
    "absolute": "abs",
    "arccos": "acos",
    "arccosh": "acosh",
    "arcsin": "asin",
    "arcsinh": "asinh",
    "arctan": "atan",
    "arctan2": "atan2",
    "arctanh": "atanh",
    "conjugate": "conj",
    "invert": "bitwise_invert",
    "left_shift": "bitwise_left_shift",
    "power": "pow",
    "right_shift": "bitwise_right_shift",
}

# Those that torch has and the standard has not.
DIRECT = {
    **{name: name for name in ("deg2rad", "exp2", "fmax", "fmin", "fmod", "gcd")},
    **{name: name for name in ("lcm", "logaddexp2", "rad2deg")},
    "degrees": "rad2deg",
    "radians": "deg2rad",
}


class Parameter:
    """One parameter of a function of numpy's, and what becomes of its argument.

    Attributes
    ----------
    name : str
        numpy's; ``"-"`` where nobody gives it by name.
    passed : str
        ``"by place"``, ``"by name"``, ``"all by place"``: with whatever follows it, or
        ``"refused"``: torch has no such parameter.
    torchs : str
        Its name there, if it is passed by name.
    default : int, optional
        numpy's, where torch has another.
    """

    __slots__ = ("default", "name", "passed", "torchs")

    def __init__(self, word: str) -> None:
        """Read one word of `_ROWS`: ``*x``, ``x``, ``x=y``, ``x=y:0``, ``**x`` or ``-``."""
        name, _, there = word.lstrip("*").partition("=")
        torchs, _, default = there.partition(":")
        self.name: str = name
        self.torchs: str = torchs or name
        self.default: int | None = int(default) if default else None
        self.passed: Literal["by place", "by name", "all by place", "refused"] = "by name"
        if word[:1] == "*":
            self.passed = "all by place" if word[:2] == "**" else "by place"
        elif word == "-":
            self.passed = "refused"


def parameters(words: str) -> tuple[Parameter, ...]:
    """Read what stands in a row of `_ROWS` behind the names: numpy's parameters in order."""
    return tuple(map(Parameter, words.split()))


# numpy's names, each with ">" and the standard's where that is another, or a dot and torch's; then
# the parameters: ``*x`` goes on by its place, ``x`` by its name, ``x=y`` by the name y, ``x=y:0``
# so with another default than torch's, ``-`` does not go on, ``**x`` is whatever is left.
_ROWS = """
all any max min = *a axis - keepdims
amax>max amin>min = *a axis - keepdims
argmax argmin = *a axis - keepdims
array_split>.tensor_split = *ary *indices_or_sections axis=dim
atleast_1d>.atleast_1d atleast_2d>.atleast_2d atleast_3d>.atleast_3d = **arys
broadcast_arrays = **args
broadcast_to = *array *shape
clip = *a a_min=min a_max=max - min max
column_stack>.column_stack hstack>.hstack vstack>.vstack dstack>.dstack = *tup
concatenate>concat = *arrays axis
copy>.clone = *a
count_nonzero = *a axis keepdims
cross>linalg.cross = *a *b - - - axis=axis:-1
cumulative_prod cumulative_sum = *x axis dtype - include_initial
diag>.diag = *v k=diagonal
diagonal>.diagonal = *a offset axis1=dim1 axis2=dim2
diff = *a n axis prepend append
einsum>.einsum = **operands
expand_dims = *a axis
flip = *m axis
fliplr>.fliplr flipud>.flipud = *m
full_like = *a *fill_value dtype
imag real = *val
isclose>.isclose allclose>.allclose = *a *b rtol atol equal_nan
isin = *element *test_elements
kron>.kron = *a *b
matrix_transpose = *x
mean = *a axis - - keepdims
meshgrid = **xi indexing
moveaxis = *a *source *destination
nan_to_num>.nan_to_num = *x - nan posinf neginf
nonzero = *a
ones_like zeros_like empty_like = *a dtype
prod sum = *a axis dtype - keepdims
ravel>.ravel = *a
repeat = *a *repeats axis
reshape = *a *shape
roll = *a *shift axis
rot90>.rot90 = *m k axes=dims
round>.round around>.round = *a decimals
searchsorted = *a *v side sorter
stack = *arrays axis
std var = *a axis - - ddof=correction keepdims correction
swapaxes>.swapaxes = *a *axis1 *axis2
take_along_axis = *arr *indices axis
tensordot = *a *b axes
tril triu = *m k
unique>unique_values = *ar
unique_counts unique_inverse unique_values = *x
unstack = *x axis
linalg.cholesky linalg.det linalg.eigh linalg.eigvalsh linalg.inv = *a
linalg.pinv linalg.slogdet = *a
linalg.svdvals linalg.matrix_norm linalg.vector_norm linalg.matrix_transpose = *x
linalg.diagonal linalg.trace = *x offset
linalg.cross linalg.outer linalg.vecdot linalg.matmul = *x1 *x2
linalg.matrix_power = *a *n
linalg.matrix_rank = *A
linalg.norm>.linalg.norm = *x ord axis=dim keepdims=keepdim
linalg.solve = *a *b
linalg.svd = *a full_matrices
linalg.tensordot = *a *b axes
fft.fft fft.ifft fft.rfft fft.irfft fft.hfft fft.ihfft = *a n axis norm
fft.fftn fft.ifftn fft.rfftn fft.irfftn = *a s axes norm
fft.fftshift fft.ifftshift = *x axes
"""

# numpy's name -> the standard's, or a dot and torch's; and the parameters.
FUNCTIONS: dict[str, tuple[str, tuple[Parameter, ...]]] = {}
for _line in _ROWS.strip().splitlines():
    _names, _, _words = _line.partition(" = ")
    _parameters = parameters(_words)
    for _name in _names.split():
        _numpys, _, _others = _name.partition(">")
        FUNCTIONS[_numpys] = (_others or _numpys, _parameters)
