"""Every reason: a move that has it, and the same move once its remedy was followed."""

from __future__ import annotations

import ast
import re
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest

import candle
from candle._native import _core
from candle.plan import FATAL, REMEDIES
from candle.testing import Producer

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.filterwarnings("ignore::candle.ReadOnlyCopyWarning")


def traced(move: Callable[[], object]) -> candle.Plan:
    """The plan of the last move that a call makes, or is refused."""
    with candle.trace() as moves:
        try:
            move()
        except BufferError as error:
            return error.plan  # type: ignore[attr-defined,no-any-return]
    return moves[-1]


def run_ends_decoded(ends: list[int], values: list[int]) -> Any:
    import pyarrow.compute

    x = pyarrow.RunEndEncodedArray.from_arrays(ends, values)
    return pyarrow.compute.run_end_decode(x)


def shares(x: object, to: str = "candle") -> bool:
    """Whether it does, and is seen to under `copy=False`."""
    t = candle.asarray(x, copy=False)
    if to != "candle":
        getattr(t, to)(copy=False)
    return candle.explain(x, to).action == "share"


def frozen() -> candle.Tensor:
    return candle.asarray(struct.pack("4f", 1, 2, 3, 4)).view("float32")


def misaligned() -> Any:
    return np.frombuffer(bytearray(17), "u1")[1:].view("f4")


class Copies:
    """It makes an array whenever it is asked for one."""

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        if copy is False:
            raise ValueError("the elements are in a file")
        return np.arange(3.0)


def pairs() -> candle.Tensor:
    return candle.zeros(4).to("float4_e2m1fn").view("float4_e2m1fn_x2")


def stepped() -> candle.Tensor:
    return candle.zeros((16, 16))[:, ::2]


class Case(NamedTuple):
    """`plan` has the reason; `follow` does what the remedy says, and whether that helped."""

    plan: Callable[[], candle.Plan]
    follow: Callable[[], bool]
    needs: str = "numpy"


def torch() -> Any:
    return pytest.importorskip("torch")


def jax() -> Any:
    return pytest.importorskip("jax")


def pyarrow() -> Any:
    return pytest.importorskip("pyarrow")


def conjugate() -> Any:
    return torch().zeros(4, dtype=torch().complex64).conj()


def wrapped() -> Any:
    base = torch()

    class Wrapper(base.Tensor):  # type: ignore[misc,name-defined]
        @staticmethod
        def __new__(cls: Any, inside: Any) -> Any:
            made = base.Tensor._make_wrapper_subclass(cls, inside.shape, dtype=inside.dtype)
            made.inside = inside
            return made

        @classmethod
        def __torch_dispatch__(cls, *arguments: Any) -> Any:
            raise NotImplementedError

    return Wrapper(base.ones(3))


def quantised() -> Any:
    return torch().quantize_per_tensor(torch().ones(3), 0.1, 0, torch().quint8)


def nested() -> Any:
    return torch().nested.nested_tensor([torch().ones(2), torch().ones(3)])


def jax_sparse() -> Any:
    sparse = pytest.importorskip("jax.experimental.sparse")
    return sparse.BCOO.fromdense(jax().numpy.eye(3))


def shares_with_x64(x: object) -> bool:
    before = jax().config.jax_enable_x64
    jax().config.update("jax_enable_x64", True)
    try:
        return shares(x, "jax")
    finally:
        jax().config.update("jax_enable_x64", before)


def turned() -> candle.Tensor:
    return candle.zeros((5, 2, 3, 4)).permute(0, 2, 3, 1)


def mixed() -> Any:
    return pyarrow().table({"a": [1], "b": [0.5]})


RECORDS = np.zeros(3, [("a", "f8"), ("b", "f8")])
BAD = Producer(shape=(4,), raises=RuntimeError("not today"))

CASES: dict[str, Case] = {
    "requested": Case(
        lambda: traced(lambda: candle.asarray(np.zeros(3), copy=True)), lambda: shares(np.zeros(3))
    ),
    "dtype": Case(lambda: candle.explain(np.zeros(3), dtype="int8"), lambda: shares(np.zeros(3))),
    "order": Case(
        lambda: traced(lambda: candle.zeros((2, 3)).T.reshape(6, copy=False)),
        lambda: candle.zeros((3, 2)).reshape(6, copy=False).size == 6,
    ),
    "byte_order": Case(
        lambda: candle.explain(np.zeros(3, ">i4")),
        lambda: shares((x := np.zeros(3, ">i4")).astype(x.dtype.newbyteorder("="))),
    ),
    "misaligned": Case(
        lambda: candle.explain(misaligned()), lambda: shares(candle.empty(4).numpy())
    ),
    "odd_stride": Case(
        lambda: candle.explain(np.zeros(3, "u4,u1")["f0"]),
        lambda: shares(np.zeros(3, "u4,u1")["f0"].copy()),
    ),
    "negative_stride": Case(
        lambda: candle.explain(np.zeros(3)[::-1], "torch"),
        lambda: shares(candle.asarray(np.zeros(3)[::-1]).contiguous(), "torch"),
        "torch",
    ),
    "read_only": Case(
        lambda: candle.explain(frozen(), "torch"), lambda: shares(frozen().copy(), "torch"), "torch"
    ),
    "not_dense": Case(
        lambda: candle.explain(stepped(), "jax"),
        lambda: shares(stepped().contiguous(), "jax"),
        "jax",
    ),
    "alignment": Case(
        lambda: candle.explain(candle.zeros(17)[1:], "jax"),
        lambda: shares(candle.empty(16, align=256), "jax"),
        "jax",
    ),
    "conj_bit": Case(
        lambda: candle.explain(conjugate()), lambda: shares(conjugate().resolve_conj()), "torch"
    ),
    "neg_bit": Case(
        lambda: candle.explain(conjugate().imag),
        lambda: shares(conjugate().imag.resolve_neg()),
        "torch",
    ),
    "packed": Case(
        lambda: candle.explain(candle.zeros(4, dtype="int4"), "numpy"),
        lambda: shares(candle.zeros(4, dtype="int4").view("uint8"), "numpy"),
    ),
    "no_export": Case(
        lambda: candle.explain(jax().numpy.arange(4, dtype="int4")),
        lambda: shares(jax().numpy.arange(4, dtype="int4").astype("int8")),
        "jax",
    ),
    "device": Case(
        lambda: candle.explain(Producer(shape=(4,), device=(2, 0)), "numpy"),
        # The copy takes a device; that it would be made is what can be seen without one.
        lambda: candle.explain(Producer(shape=(4,), device=(2, 0)), "numpy").action == "copy",
    ),
    "python_values": Case(lambda: candle.explain([1, 2]), lambda: shares(np.array([1, 2]))),
    "bitmap": Case(
        lambda: candle.explain(pyarrow().array([True])),
        lambda: (
            shares(pyarrow().array([True]).cast("int8"))
            and len(candle.ones(3, dtype="bool").view("uint8").arrow(copy=False)) == 3
        ),
        "pyarrow",
    ),
    "permuted": Case(
        lambda: candle.explain(turned(), "arrow"),
        lambda: (
            len(turned().permute(0, 3, 1, 2).__arrow_c_array__()) == 2
            and candle.explain(turned().permute(0, 3, 1, 2), "arrow").action == "share"
        ),
    ),
    "chunks": Case(
        lambda: candle.explain(pyarrow().chunked_array([[1], [2]])),
        lambda: (
            len(candle.from_arrow(pyarrow().chunked_array([[1], [2]]), chunks="list", copy=False))
            == 2
            and shares(pyarrow().chunked_array([[1], [2]]).combine_chunks())
        ),
        "pyarrow",
    ),
    "columns": Case(
        lambda: candle.explain(pyarrow().table({"a": [1], "b": [2]})),
        lambda: (
            candle.from_arrow(pyarrow().table({"a": [1], "b": [2]}), column=0, copy=False).size == 1
        ),
        "pyarrow",
    ),
    "filled": Case(
        lambda: traced(lambda: candle.from_arrow(pyarrow().array([1, None]), nulls=0)),
        lambda: (
            candle.from_arrow(pyarrow().array([1, None]), nulls="mask", copy=False)[0].size == 2
        ),
        "pyarrow",
    ),
    "consumer_copies": Case(
        lambda: traced(
            lambda: _core.conform(candle.zeros(3), _core.Demand("c", copies=True), None)
        ),
        lambda: _core.conform(candle.zeros(3), _core.Demand("c", copies=True), None).size == 3,
    ),
    "producer_copies": Case(lambda: candle.explain(Copies()), lambda: shares(np.asarray(Copies()))),
    "dtype_unknown": Case(
        lambda: candle.explain(candle.zeros(3, dtype="float8_e3m4"), "torch"),
        lambda: shares(candle.zeros(3, dtype="float8_e3m4").to("float32"), "torch"),
        "torch",
    ),
    "would_narrow": Case(
        lambda: candle.explain(candle.zeros(3, dtype="float64"), "jax"),
        lambda: (
            shares(candle.zeros(3, dtype="float64").to("float32"), "jax")
            and shares_with_x64(candle.zeros(3, dtype="float64"))
        ),
        "jax",
    ),
    "foreign_device": Case(
        lambda: candle.explain(Producer(shape=(4,), device=(8, 0)), "numpy"),
        lambda: shares(Producer(shape=(4,))),
    ),
    "requires_grad": Case(
        lambda: candle.explain(torch().ones(3, requires_grad=True)),
        lambda: shares(torch().ones(3, requires_grad=True).detach()),
        "torch",
    ),
    "no_cast": Case(
        lambda: candle.explain(np.zeros(3, "complex64"), dtype="float32"),
        lambda: candle.asarray(np.zeros(3, "complex64").real, dtype="float32").size == 3,
    ),
    "pairs": Case(
        lambda: candle.explain(pairs(), dtype="float32"),
        lambda: (
            pairs().view("float4_e2m1fn").to("float32").size == 4
            and candle.ones(4).to("float4_e2m1fn").view("float4_e2m1fn_x2").size == 2
        ),
    ),
    "no_axes": Case(
        lambda: candle.explain(candle.asarray(1.5), "arrow"),
        lambda: candle.explain(candle.asarray(1.5).reshape(1), "arrow").action == "share",
    ),
    "long_rows": Case(
        lambda: candle.explain(candle.empty((1, 2**31), dtype="uint8"), "arrow"),
        lambda: (
            candle.explain(
                candle.empty((1, 2**31), dtype="uint8").reshape(2, 2**30), "arrow"
            ).action
            == "share"
        ),
    ),
    "axes": Case(
        lambda: traced(
            lambda: _core.conform(candle.zeros(()), _core.Demand("c", axes=(1, 4)), None)
        ),
        lambda: (
            _core.plan_out(candle.zeros(()).reshape(1), _core.Demand("c", axes=(1, 4))).action
            == "share"
        ),
    ),
    "no_dtype": Case(
        lambda: candle.explain(jax().numpy.zeros(3, "int2")),
        lambda: (
            shares(jax().numpy.zeros(3, "int2").astype("int8"))
            and shares(pyarrow().array([True]).cast("uint8"))
        ),
        "jax",
    ),
    "masked": Case(
        lambda: candle.explain(np.ma.masked_array([1.0, 2.0], [0, 1])),
        lambda: shares(np.ma.masked_array([1.0, 2.0], [0, 1]).filled(0)),
    ),
    "nulls": Case(
        lambda: candle.explain(pyarrow().array([1, None])),
        lambda: (
            shares(pyarrow().array([1, None]).fill_null(0))
            and shares(pyarrow().array([1, None]).drop_null())
            and candle.from_arrow(pyarrow().array([1, None]), nulls="mask")[1].tolist()
            == [False, True]
        ),
        "pyarrow",
    ),
    "ragged": Case(
        lambda: candle.explain(pyarrow().array([[1], [2, 3]])),
        lambda: shares(pyarrow().array([[1], [2, 3]]).flatten()),
        "pyarrow",
    ),
    "encoded": Case(
        lambda: candle.explain(pyarrow().array([1, 1]).dictionary_encode()),
        lambda: (
            shares(pyarrow().array([1, 1]).dictionary_encode().dictionary_decode())
            and shares(run_ends_decoded([2, 3], [1, 2]))
        ),
        "pyarrow",
    ),
    "mixed": Case(
        lambda: candle.explain(pyarrow().table({"a": [1], "b": [0.5]})),
        lambda: (
            candle.from_arrow(mixed(), dtype="float64").tolist() == [[1, 0.5]]
            and candle.from_arrow(mixed(), column=0).tolist() == [1]
        ),
        "pyarrow",
    ),
    "sparse": Case(
        lambda: candle.explain(torch().eye(3).to_sparse()),
        lambda: shares(torch().eye(3).to_sparse().to_dense()) and shares(jax_sparse().todense()),
        "torch",
    ),
    "no_memory": Case(
        lambda: candle.explain(torch().empty(3, device="meta")),
        lambda: shares(torch().empty_like(torch().empty(3, device="meta"), device="cpu")),
        "torch",
    ),
    "traced": Case(
        lambda: traced(lambda: jax().jit(candle.asarray)(np.zeros(3))),
        lambda: shares(jax().jit(lambda x: x + 1)(np.zeros(3))),
        "jax",
    ),
    "quantised": Case(
        lambda: candle.explain(quantised()),
        lambda: shares(quantised().dequantize()) and shares(quantised().int_repr()),
        "torch",
    ),
    "nested": Case(
        lambda: candle.explain(nested()),
        lambda: shares(torch().nested.to_padded_tensor(nested(), 0.0)),
        "torch",
    ),
    "wrapper": Case(lambda: candle.explain(wrapped()), lambda: shares(wrapped().inside), "torch"),
    "python_objects": Case(
        lambda: candle.explain(np.array([1.0, 2.0], object)),
        lambda: shares(np.array([1.0, 2.0], object).astype("float64")),
    ),
    "structured": Case(lambda: candle.explain(RECORDS), lambda: shares(RECORDS["a"])),
    "datetime": Case(
        lambda: candle.explain(np.zeros(3, "M8[s]")),
        lambda: (
            shares(np.zeros(3, "M8[s]").view("int64"))
            and candle.from_arrow(pyarrow().array(np.zeros(3, "M8[s]")), times="integers").size == 3
        ),
        "pyarrow",
    ),
    "long_double": Case(
        lambda: candle.explain(np.zeros(3, "longdouble")),
        lambda: (
            shares(np.zeros(3, "longdouble").astype("float64"))
            and shares(np.zeros(3, "clongdouble").astype("complex128"))
        ),
    ),
    "text": Case(
        lambda: candle.explain(np.array(["ab"])), lambda: shares(np.frombuffer(b"ab", "uint8"))
    ),
    "bits": Case(
        lambda: candle.explain(torch().zeros(3, dtype=torch().uint8).view(torch().bits8)),
        lambda: (
            shares(torch().zeros(3, dtype=torch().uint8).view(torch().bits8).view(torch().uint8))
            and shares(np.zeros(2, "V3").view("uint8"))
        ),
        "torch",
    ),
    "producer": Case(lambda: candle.explain(BAD), lambda: shares(Producer(shape=(4,)))),
}


def test_every_reason_has_a_case() -> None:
    assert list(CASES) == list(REMEDIES) == list(candle.ReasonCode)


def called(node: ast.AST) -> set[str]:
    """Names of what is called in an expression, and in functions of this module that it calls."""
    names = set()
    for call in ast.walk(node):
        if isinstance(call, ast.Call):
            name = getattr(call.func, "attr", None) or getattr(call.func, "id", "")
            names.add(name)
            if isinstance(call.func, ast.Name) and name in FUNCTIONS:
                names |= called(FUNCTIONS[name])
    return names


TREE = ast.parse(Path(__file__).read_text())
FUNCTIONS = {
    node.name: node
    for node in TREE.body
    if isinstance(node, ast.FunctionDef) and not node.name.startswith("test")
}
FOLLOWED = {
    key.value: called(value.args[1])  # type: ignore[attr-defined]
    for node in TREE.body
    if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "CASES"
    for key, value in zip(node.value.keys, node.value.values, strict=True)  # type: ignore[union-attr]
}


@pytest.mark.parametrize("code", CASES)
def test_all_of_the_remedy_is_followed(code: str) -> None:
    """Whatever it names is called: each of several ways."""
    named = set(re.findall(r"\b(\w+)\(", REMEDIES[code]))
    assert named <= FOLLOWED[code]


@pytest.mark.parametrize("code", CASES)
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")
@pytest.mark.filterwarnings("ignore:.*quantize_per_tensor.*")
def test_the_remedy_helps(code: str) -> None:
    case = CASES[code]
    pytest.importorskip(case.needs)
    plan = case.plan()
    reason = next(reason for reason in plan.reasons if reason.code == code)
    assert reason.fact
    assert reason.remedy == REMEDIES[code]
    assert (plan.action == "refuse") == (code in FATAL or code == "order")
    assert case.follow()


@pytest.mark.parametrize("code", [code for code in CASES if code not in FATAL])
def test_allowing_the_copy_helps(code: str) -> None:
    """The other remedy of what a copy puts right."""
    pytest.importorskip(CASES[code].needs)
    moves: dict[str, Callable[[], object]] = {
        "order": lambda: candle.zeros((2, 3)).T.reshape(6),
        "byte_order": lambda: candle.asarray(np.zeros(3, ">i4")),
        "misaligned": lambda: candle.asarray(misaligned()),
        "odd_stride": lambda: candle.asarray(np.zeros(3, "u4,u1")["f0"]),
        "negative_stride": lambda: candle.asarray(np.zeros(3)[::-1]).torch(),
        "read_only": lambda: frozen().torch(),
        "not_dense": lambda: stepped().jax(),
        "alignment": candle.zeros(17)[1:].jax,
        "conj_bit": lambda: candle.asarray(conjugate()),
        "neg_bit": lambda: candle.asarray(conjugate().imag),
        "packed": lambda: candle.zeros(4, dtype="int4").numpy(),
        "no_export": lambda: candle.asarray(jax().numpy.arange(4, dtype="int4")),
        "python_values": lambda: candle.asarray([1, 2]),
        "bitmap": lambda: candle.zeros(3, dtype="bool").__arrow_c_array__(),
        "permuted": lambda: turned().__arrow_c_array__(),
        "chunks": lambda: candle.asarray(pyarrow().chunked_array([[1], [2]])),
        "columns": lambda: candle.asarray(pyarrow().table({"a": [1], "b": [2]})),
        "producer_copies": lambda: candle.asarray(Copies()),
        "consumer_copies": lambda: _core.conform(
            candle.zeros(3), _core.Demand("c", copies=True), None
        ),
    }
    if code not in moves:
        # What was asked for by name is made; copies between devices are in gpu_fakedriver.
        assert code in ("requested", "dtype", "device", "filled")
        return
    codes = {reason.code for reason in traced(moves[code]).reasons}
    assert code in codes
    with candle.strict(allow=codes):
        moves[code]()
    if code != "python_values":
        with candle.strict(), pytest.raises(candle.CopyError, match=REMEDIES[code][:10]):
            moves[code]()
