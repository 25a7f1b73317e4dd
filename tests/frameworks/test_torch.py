"""What candle takes of torch's many kinds of tensors, and what it refuses, naming the remedy."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import meeting
import numpy as np
import pytest

import candle
from candle.frameworks import target

torch = pytest.importorskip("torch")

if TYPE_CHECKING:
    from collections.abc import Callable

WAYS = {
    "asarray": candle.asarray,
    "from_dlpack": candle.from_dlpack,
    "Tensor": candle.Tensor,
    "copy=True": lambda x: candle.asarray(x, copy=True),
    "copy=False": lambda x: candle.asarray(x, copy=False),
    "dtype=": lambda x: candle.asarray(x, dtype="float64"),
    "from_dlpack(dtype=)": lambda x: candle.from_dlpack(x, dtype="float64"),
    "tensor": candle.tensor,
    "in a list": lambda x: candle.asarray([x]),
    "in a list of plain ones": lambda x: candle.asarray([torch.ones(3), x]),
    "copy_": lambda x: candle.zeros(3).copy_(x),
    "assigned": lambda x: candle.zeros(3).__setitem__(..., x),
}


def _needs_grad() -> dict[str, Any]:
    leaf = torch.ones(3, requires_grad=True)
    with torch.no_grad():
        parameter = torch.nn.Parameter(torch.ones(3))
    return {
        "leaf": leaf,
        "result": leaf * 2,
        "view": (leaf * 2)[:2],
        "transposed": torch.ones(3, 2, requires_grad=True).T,
        "Parameter": parameter,
        "float64": torch.ones(3, dtype=torch.float64, requires_grad=True),
        "bfloat16": torch.ones(3, dtype=torch.bfloat16, requires_grad=True),
        "complex": torch.ones(3, dtype=torch.complex64, requires_grad=True),
        "conj": torch.ones(3, dtype=torch.complex64, requires_grad=True).conj(),
        "0-d": torch.tensor(1.0, requires_grad=True),
        "empty": torch.ones(0, requires_grad=True),
        "subclass": torch.ones(3).as_subclass(Plain).requires_grad_(),
    }


class Plain(torch.Tensor):
    """A subclass without code of its own."""


@pytest.mark.parametrize("way", WAYS)
def test_requires_grad_is_refused_by_every_way_in(way: str) -> None:
    """Never detached silently, and never a CopyError: a copy would lose the gradient too."""
    for name, x in _needs_grad().items():
        with pytest.raises(BufferError, match=r"\.detach\(\)") as caught:
            WAYS[way](x)
        assert not isinstance(caught.value, candle.CopyError), name
        del caught


@pytest.mark.parametrize("way", WAYS)
def test_no_grad_changes_nothing(way: str) -> None:
    """It is about what is recorded, not about what a tensor is."""
    for x in _needs_grad().values():
        with torch.no_grad(), pytest.raises(BufferError, match=r"\.detach\(\)"):
            WAYS[way](x)


def test_detached_and_frozen_tensors_are_shared() -> None:
    leaf = torch.ones(3, requires_grad=True)
    assert candle.asarray(leaf.detach()).data_ptr() == leaf.data_ptr()
    frozen = torch.nn.Parameter(torch.ones(3), requires_grad=False)
    t = candle.asarray(frozen, copy=False)
    assert (t.data_ptr(), t.readonly) == (frozen.data_ptr(), False)
    t[0] = 5
    assert frozen[0] == 5
    unfrozen = torch.nn.Parameter(torch.ones(3)).requires_grad_(False)
    assert candle.from_dlpack(unfrozen).data_ptr() == unfrozen.data_ptr()


@pytest.mark.parametrize("layout", [n for n in meeting.LAYOUTS if "negative" not in n])
@pytest.mark.parametrize("dtype", sorted(meeting.known("torch")))
def test_frozen_parameters_are_shared(dtype: str, layout: str) -> None:
    """They take another way in than plain tensors: by the borrowed struct."""
    x = torch.nn.Parameter(meeting.make("torch", dtype, layout), requires_grad=False)
    t = candle.asarray(x)
    came = meeting.see(t)
    assert str(t.dtype) == dtype
    assert (came.shape, came.content) == meeting.expected(dtype, layout)
    assert t.size == 0 or t.data_ptr() == x.data_ptr()
    with torch.no_grad():
        y = candle.asarray(x).torch(copy=True)
    assert y.dtype == x.dtype


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_frozen_complex_parameter_with_bits() -> None:
    base = torch.arange(6.0).view(3, 2)
    x = torch.nn.Parameter(torch.view_as_complex(base).conj(), requires_grad=False)
    t = candle.asarray(x)
    assert t.tolist() == x.detach().resolve_conj().tolist()


# --- kinds that are no plain memory ---


class Wrapper(torch.Tensor):
    """A wrapper subclass: its elements lie in another tensor, with the other sign."""

    @staticmethod
    def __new__(cls, inner: Any) -> Any:
        made = torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)
        made.inner = inner
        return made

    @classmethod
    def __torch_dispatch__(
        cls, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        raise NotImplementedError(function)


class Dispatching(torch.Tensor):
    """Memory of its own, and code that changes what every operation means."""

    @classmethod
    def __torch_dispatch__(
        cls, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        raise NotImplementedError(function)


def _quiet(call: Callable[..., Any], *arguments: Any) -> Any:
    """What torch imports when it is first used warns."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return call(*arguments)


def _fake() -> Any:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        return torch.ones(3)


def _quantised() -> Any:
    return _quiet(torch.quantize_per_tensor, torch.ones(3), 0.1, 0, torch.qint8)


def _nested(layout: Any) -> Any:
    parts = [torch.ones(2), torch.ones(3)]
    return _quiet(lambda: torch.nested.nested_tensor(parts, layout=layout))


def _csr() -> Any:
    return _quiet(torch.eye(3).to_sparse_csr)


def _emptied(see: Callable[[Any], Any] = lambda x: x, dtype: Any = torch.float32) -> Any:
    """As FSDP leaves its parameters between two passes."""
    x = torch.ones(8, dtype=dtype)
    view = see(x)
    x.untyped_storage().resize_(0)
    return view


def _masked() -> Any:
    mask = torch.tensor([True, False, True])
    return _quiet(torch.masked.masked_tensor, torch.ones(3), mask)


KINDS: dict[str, tuple[Callable[[], Any], str]] = {
    "sparse": (lambda: torch.eye(3).to_sparse(), r"to_dense\(\)"),
    "sparse csr": (_csr, r"to_dense\(\)"),
    "mkldnn": (lambda: torch.ones(3, 3).to_mkldnn(), r"to_dense\(\)"),
    "meta": (lambda: torch.empty(3, device="meta"), "memory"),
    "meta of integers": (lambda: torch.empty(3, dtype=torch.int64, device="meta"), "memory"),
    "frozen meta Parameter": (
        lambda: torch.nn.Parameter(torch.empty(3, device="meta"), requires_grad=False),
        "memory",
    ),
    "quantised": (_quantised, "dequantize"),
    "nested": (lambda: _nested(torch.strided), "to_padded_tensor"),
    "jagged": (lambda: _nested(torch.jagged), "to_padded_tensor"),
    "bits": (lambda: torch.zeros(3, dtype=torch.uint8).view(torch.bits8), "view"),
    "fake": (_fake, "FakeTensor.*memory"),
    "fake Parameter": (lambda: torch.nn.Parameter(_fake()), "FakeTensor.*memory"),
    "uninitialised": (torch.nn.parameter.UninitializedParameter, "not initialised.*memory"),
    "uninitialised buffer": (torch.nn.parameter.UninitializedBuffer, "not initialised.*memory"),
    "wrapper": (lambda: Wrapper(torch.ones(3)), "unwrap"),
    "own dispatch": (lambda: torch.ones(3).as_subclass(Dispatching), "unwrap"),
    "masked": (_masked, "unwrap|mask"),
    "zero tensor": (lambda: torch._efficientzerotensor(3), "zero tensors.*memory"),
    "emptied": (_emptied, "emptied.*memory"),
    "emptied integers": (lambda: _emptied(dtype=torch.int64), "emptied.*memory"),
    "emptied, a view": (lambda: _emptied(lambda x: x[2:]), "emptied.*memory"),
    "emptied, a transposed view": (lambda: _emptied(lambda x: x[2:6].view(2, 2).T), "emptied"),
    "emptied, a subclass": (lambda: _emptied().as_subclass(Plain), "emptied.*memory"),
    "emptied, a frozen Parameter": (
        lambda: torch.nn.Parameter(_emptied(), requires_grad=False),
        "emptied.*memory",
    ),
    "functional": (lambda: torch._to_functional_tensor(torch.ones(3)), "outside"),
}


@pytest.mark.parametrize("way", ["asarray", "from_dlpack", "copy=True", "copy=False", "in a list"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.isolated
def test_kinds_without_plain_memory_are_refused(kind: str, way: str) -> None:
    make, remedy = KINDS[kind]
    with pytest.raises(BufferError, match=remedy):
        WAYS[way](make())


@pytest.mark.parametrize("dtype", ["uint4", "int4", "uint1", "int7"])
@pytest.mark.isolated
def test_small_integers_of_torch_are_not_reinterpreted(dtype: str) -> None:
    """torch exports them as integers of 8 bits, whatever their elements are."""
    x = torch.zeros(4, dtype=torch.uint8).view(getattr(torch, dtype))
    with pytest.raises(BufferError):
        candle.asarray(x)


def _inside(transform: Callable[..., Any]) -> list[str]:
    """How a move fails inside a transform that puts wrappers in a tensor's place."""
    seen: list[str] = []

    def function(x: Any) -> Any:
        try:
            seen.append(repr(candle.asarray(x)))
        except BufferError as error:
            seen.append(f"BufferError: {error}")
        return (x * x).sum()

    transform(function)
    return seen


TRANSFORMS: dict[str, Callable[[Any], Any]] = {
    "vmap": lambda f: torch.func.vmap(f)(torch.ones(2, 3)),
    "grad": lambda f: torch.func.grad(f)(torch.ones(3)),
    "functionalize": lambda f: torch.func.functionalize(f)(torch.ones(3)),
    "jvp": lambda f: _quiet(torch.func.jvp, f, (torch.ones(3),), (torch.ones(3),)),
    "vmap of integers": lambda f: torch.func.vmap(f)(torch.ones(2, 3, dtype=torch.int64)),
}


@pytest.mark.parametrize("name", TRANSFORMS)
@pytest.mark.isolated
def test_inside_function_transforms(name: str) -> None:
    seen = _inside(TRANSFORMS[name])
    assert len(seen) == 1
    assert seen[0].startswith("BufferError: torch.Tensor cannot go to candle")
    assert "outside of the function" in seen[0]
    assert len(seen[0]) < 300


def test_empty_tensors_of_emptied_storages_are_fine() -> None:
    x = _emptied(lambda x: x[:0])
    assert candle.asarray(x).shape == (0,)


# --- subclasses whose memory is their own ---


class Loud(torch.Tensor):
    """Code of its own for every function of torch: a move calls none."""

    @classmethod
    def __torch_function__(
        cls, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        raise AssertionError(f"{function} was called")


@pytest.mark.parametrize("cls", [Plain, Loud, torch.nn.Buffer])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bfloat16, torch.bool])
def test_plain_subclasses_are_shared(cls: Any, dtype: Any) -> None:
    x = torch.ones(3, 4, dtype=dtype).T
    y = cls(x) if cls is torch.nn.Buffer else x.as_subclass(cls)
    t = candle.asarray(y, copy=False)
    assert (t.shape, t.data_ptr(), t.readonly) == ((4, 3), x.data_ptr(), False)
    assert candle.from_dlpack(y).data_ptr() == x.data_ptr()
    assert candle.asarray([y, y]).shape == (2, 4, 3)


@pytest.mark.parametrize("cls", [Plain, Loud])
def test_bits_of_subclasses(cls: Any) -> None:
    x = torch.view_as_complex(torch.arange(24.0).view(3, 4, 2))
    for view in (x.conj(), x.conj().imag, x.mH):
        y = view.as_subclass(cls)
        truth = view.resolve_conj().resolve_neg().tolist()
        assert candle.asarray(y).tolist() == truth
        codes = {r.code for r in meeting.refused(candle.asarray, y, copy=False).reasons}
        assert codes == {"conj_bit" if view.is_conj() else "neg_bit"}


def test_inference_tensors_are_shared() -> None:
    with torch.inference_mode():
        x = torch.ones(3)
        assert candle.asarray(x).data_ptr() == x.data_ptr()
    t = candle.asarray(x)
    assert (t.data_ptr(), t.readonly) == (x.data_ptr(), False)
    assert t.torch().data_ptr() == x.data_ptr()


def test_overlapping_views_are_shared() -> None:
    x = torch.arange(5.0)
    t = candle.asarray(x.unfold(0, 3, 1), copy=False)
    assert t.tolist() == [[0, 1, 2], [1, 2, 3], [2, 3, 4]]
    assert t.data_ptr() == x.data_ptr()


def test_what_goes_out_is_a_plain_tensor() -> None:
    y = candle.arange(6, dtype="float32").reshape((2, 3)).torch()
    assert type(y) is torch.Tensor
    assert not y.requires_grad
    assert y.is_leaf
    y.requires_grad_().sum().backward()
    assert y.grad.tolist() == [[1, 1, 1], [1, 1, 1]]


# --- read-only memory ---


def test_read_only_copy_warns_once_and_names_both_choices(in_child: Any) -> None:
    in_child(
        """
        import warnings
        import numpy as np, torch
        import candle

        a = np.arange(3.0)
        a.flags.writeable = False
        t = candle.asarray(a)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            assert t.torch(copy=False).data_ptr() == t.data_ptr()
            assert t.torch(copy=True).data_ptr() != t.data_ptr()
            assert torch.from_dlpack(t).data_ptr() == t.data_ptr()
            assert not said, said
            first, second = t.torch(), t.to_torch()
            assert first.data_ptr() != t.data_ptr() != second.data_ptr()
            assert first.tolist() == second.tolist() == [0, 1, 2]
        assert len(said) == 1, said
        assert said[0].category is candle.ReadOnlyCopyWarning
        assert said[0].filename == "<string>", said[0].filename
        text = str(said[0].message)
        assert "copy=False" in text and "copy=True" in text, text
        """
    ).check()


def test_read_only_warning_as_error_leaves_nothing_behind(in_child: Any) -> None:
    in_child(
        """
        import gc, warnings
        import numpy as np, torch
        import candle
        from candle.testing import live

        a = np.arange(3.0)
        a.flags.writeable = False
        before = live()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                candle.asarray(a).torch()
            except candle.ReadOnlyCopyWarning:
                pass
            else:
                raise AssertionError("no warning")
        gc.collect()
        assert live() == before, (live(), before)
        """
    ).check()


def test_a_torch_that_does_not_say_whether_memory_is_pinned() -> None:
    """Its modes may raise for any question."""

    class Silent(torch.overrides.TorchFunctionMode):  # type: ignore[misc]
        def __torch_function__(self, function: Any, *arguments: Any) -> Any:
            raise KeyError("not now")

    t = candle.from_dlpack(torch.arange(3))
    for move in (t.__dlpack_device__, lambda: t.__dlpack__(stream=1)):
        with pytest.raises(BufferError, match=r"Tensor does not .*KeyError: 'not now'"), Silent():
            move()
    assert t.__dlpack_device__() == (1, 0)


def test_negative_and_read_only_give_both_reasons() -> None:
    a = np.arange(6.0)[::-1]
    a.flags.writeable = False
    t = candle.asarray(a)
    # copy=False is the caller's word about writing, so that only the stride is left.
    codes = {reason.code for reason in meeting.refused(t.torch, copy=False).reasons}
    assert codes == {"negative_stride"}
    with pytest.raises(candle.CopyError, match="axis 0"):
        t.torch(copy=False)


@pytest.mark.parametrize("guard", ["requires_grad", "is_conj", "is_neg", "dtype", "byte_dtypes"])
def test_without_a_guard_the_table_is_not_believed(in_child: Any, guard: str) -> None:
    """Another torch may lack what has to be asked: then its own `__dlpack__` decides."""
    in_child(
        f"""
        import torch
        import candle
        from candle import frameworks
        from candle._native import _core
        from candle.frameworks import torch as known
        from candle.ledger import listening

        def lacks(cls):
            record = known.record(torch.Tensor, torch.Tensor) if cls is torch.Tensor else None
            if record is not None:
                assert getattr(record, {guard!r}) is not None
                setattr(record, {guard!r}, None)
            return record or frameworks.recognise(cls)

        _core.register(recognise=lacks)
        copies = []
        with listening(copies.append):
            assert candle.asarray(torch.ones(2), copy=True).tolist() == [1, 1]
        assert copies[0].route == "dlpack_versioned", copies
        x = torch.ones(3)
        assert candle.asarray(x, copy=False).data_ptr() == x.data_ptr()
        conjugate = torch.ones(2, dtype=torch.complex64).conj()
        for odd in (torch.ones(2, requires_grad=True), conjugate):
            try:
                t = candle.asarray(odd)
            except BufferError:
                continue
            assert {guard!r} not in ("requires_grad", "is_conj")
            assert t.tolist() == odd.resolve_conj().tolist()
        """
    ).check()


def test_dtypes_of_torchs() -> None:
    """What is given to torch's functions on devices."""
    from candle import frameworks

    assert frameworks.dtype_for("torch", candle.bfloat16) is torch.bfloat16
    with pytest.raises(BufferError, match="torch has no int4"):
        frameworks.dtype_for("torch", candle.int4)


@pytest.mark.parametrize("error", [RuntimeError, NotImplementedError])
def test_storage_that_nobody_may_ask_for(error: type[Exception]) -> None:
    """Of a kind of tensors that is to come: that they have no memory is not said of them."""
    from candle.frameworks.torch import _no_memory

    class Opaque:
        def _is_zerotensor(self) -> bool:
            return False

        def numel(self) -> int:
            return 1

        def untyped_storage(self) -> Any:
            raise error("Cannot access storage of OpaqueTensorImpl")

    assert _no_memory(Opaque()) is None


@pytest.mark.parametrize(
    "move",
    [
        lambda t: t.torch(),
        lambda t: candle.convert({"a": [t]}, "torch"),
        lambda t: candle.convert({"a": [t, t[1:]]}, "torch"),
        candle.accepts("torch")(lambda x: x),
        torch.neg,
    ],
    ids=["door", "convert", "convert together", "accepts", "torch function"],
)
def test_who_is_warned_of_read_only_copies_is_the_caller(
    move: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(target, "_told", set())
    t = candle.asarray(bytes(4))
    with pytest.warns(candle.ReadOnlyCopyWarning) as told:
        move(t)
    assert [warning.filename for warning in told] == [__file__]
