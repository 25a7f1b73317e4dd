"""torch's gradients and its conjugate and negative bits are seen before the memory is taken."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest

import candle
from candle.ledger import listening

if TYPE_CHECKING:
    from collections.abc import Callable

torch: Any = pytest.importorskip("torch")


def _nothing(x: Any) -> Any:
    return x


class Subclass(torch.Tensor):
    pass


WAYS_IN: dict[str, Callable[[Any], Any]] = {
    "from_dlpack": candle.from_dlpack,
    "asarray": candle.asarray,
    "Tensor": candle.Tensor,
    "tensor": candle.tensor,
    "copy=True": lambda x: candle.asarray(x, copy=True),
    "copy=False": lambda x: candle.from_dlpack(x, copy=False),
    "dtype": lambda x: candle.asarray(x, dtype="float64"),
    "list": lambda x: candle.asarray([x, x]),
    "nested": lambda x: candle.asarray([[x], [x]]),
    "stack": lambda x: candle.stack([candle.zeros(tuple(x.shape)), x]),
    "cat": lambda x: candle.cat([x, x], 0),
    "convert": lambda x: candle.convert({"a": [x]}, "numpy"),
    "assignment": lambda x: candle.zeros(tuple(x.shape)).copy_(x),
    "accepts": candle.accepts("numpy")(_nothing),
    "zeros_like": lambda x: candle.asarray(candle.from_dlpack(x)),
}


def with_gradients() -> dict[str, Any]:
    parameter = torch.nn.Parameter(torch.ones(4))
    half = torch.ones(2, 3, dtype=torch.bfloat16, requires_grad=True)
    with torch.no_grad():
        view = parameter[1:]
    return {
        "Parameter": parameter,
        "result": parameter * 2,
        "view": parameter.view(2, 2).T,
        "narrow": half,
        "complex": torch.ones(3, dtype=torch.complex64, requires_grad=True),
        "complex result": torch.ones(3, dtype=torch.complex64, requires_grad=True).conj(),
        "0-d": torch.tensor(1.0, requires_grad=True),
        "empty": torch.ones(0, 3, requires_grad=True),
        "subclass": torch.ones(3).as_subclass(Subclass).requires_grad_(),
        "no_grad view": view.requires_grad_() if not view.requires_grad else view,
    }


@pytest.mark.parametrize("way", WAYS_IN)
def test_gradients_are_never_dropped(way: str) -> None:
    # Case 66: ROCm/FlyDSL#1099, ROCm/aiter#5327, vllm-project/vllm#56161,
    # NVIDIA/TensorRT-Incubator#72
    for name, x in with_gradients().items():
        for context in (torch.enable_grad, torch.no_grad, torch.inference_mode):
            with context(), pytest.raises(BufferError, match=r"\.detach\(\)"):
                WAYS_IN[way](x)
            assert x.requires_grad, name
        assert candle.asarray(x.detach()).tolist() == x.tolist(), name


def test_frozen_parameters_keep_their_memory() -> None:
    # Case 66: vllm-project/vllm#56161. module.half() re-seats them in place.
    for change in (lambda m: m.half(), lambda m: m.double(), lambda m: m.to(torch.bfloat16)):
        module = torch.nn.Linear(64, 3)
        for parameter in module.parameters():
            parameter.requires_grad = False
        wanted = module.weight.tolist()
        held = candle.from_dlpack(module.weight)
        view = candle.from_dlpack(module.weight.T)[5:]
        assert held.data_ptr() == module.weight.data_ptr()
        change(module)
        mess = [torch.full((64, 3), -1.0) for _ in range(8)]
        assert held.tolist() == wanted
        assert view.T.tolist() == [row[5:] for row in wanted]
        del mess


def bits() -> dict[str, Any]:
    x = torch.arange(24, dtype=torch.float64).reshape(4, 6)
    z = torch.complex(x, x - 7)
    return {
        "conj": z.conj(),
        "conj, transposed": z.conj().T,
        "adjoint": z.mH,
        "conj, sliced": z[1:, ::2].conj(),
        "imag of conj": z.conj().imag,
        "row of it": z.conj().imag[2],
        "columns of it": z.conj().imag[:, 1::3],
        "transposed of it": z.conj().imag.T,
        "complex64": z.to(torch.complex64).conj(),
        "imag of complex64": z.to(torch.complex64).conj().imag,
        "subclass": z.as_subclass(Subclass).conj(),
        "frozen": torch.nn.Parameter(z, requires_grad=False).conj(),
        "0-d": z[2, 3].conj(),
        "one element": z.conj().imag[1:2, 1:2],
    }


READS: dict[str, Callable[[Any], candle.Tensor]] = {
    "from_dlpack": candle.from_dlpack,
    "asarray": candle.asarray,
    "copy": lambda x: candle.asarray(x, copy=True),
    "cast": lambda x: candle.asarray(x, dtype="complex128"),
    "convert": lambda x: candle.asarray(candle.convert([x], "numpy")[0]),
    "assignment": lambda x: candle.zeros(tuple(x.shape), dtype="complex128").copy_(x),
}


@pytest.mark.parametrize("read", READS)
def test_bits_are_resolved_before_the_memory_is_taken(read: str) -> None:
    # Case 67: pytorch/pytorch#57110
    for name, x in bits().items():
        assert x.is_conj() or x.is_neg(), name
        truth = x.resolve_conj().resolve_neg()
        t = READS[read](x)
        assert t.tolist() == truth.tolist(), name
        assert candle.asarray([x, x]).tolist() == [truth.tolist()] * 2
        plans: list[candle.Plan] = []
        with listening(plans.append):
            candle.from_dlpack(x)
        codes = {str(reason.code) for plan in plans for reason in plan.reasons}
        assert codes == {"conj_bit" if x.is_conj() else "neg_bit"}, name
        with pytest.raises(candle.CopyError, match=r"resolve_(conj|neg)"):
            candle.from_dlpack(x, copy=False)
        assert candle.from_dlpack(truth, copy=False).data_ptr() == truth.data_ptr()


def test_the_known_hole_is_as_large_as_documented() -> None:
    # Case 67: pytorch/pytorch#57110. A contiguous negative view; everything else is seen.
    z = torch.complex(torch.ones(3), torch.ones(3) * 2)
    hole = torch._neg_view(torch.ones(4))
    assert (hole.is_neg(), hole.is_contiguous()) == (True, True)
    assert candle.from_dlpack(hole).tolist() == [1.0] * 4  # the memory: its values are -1
    for seen in (
        torch._neg_view(torch.ones(4))[::2],
        torch._neg_view(torch.ones(1)),
        z.conj().imag,
    ):
        assert candle.from_dlpack(seen).tolist() == seen.resolve_neg().tolist()


@pytest.mark.filterwarnings("ignore::UserWarning")  # torch's, of what it will not have much longer
def test_torchs_other_tensors_are_refused_by_name() -> None:
    # Traps 15, 16: what torch's exchange table does not look at.
    from torch._subclasses.fake_tensor import FakeTensorMode

    odd = {
        "sparse": torch.eye(3).to_sparse(),
        "CSR": torch.eye(3).to_sparse_csr(),
        "meta": torch.ones(3, device="meta"),
        "fake": FakeTensorMode().from_tensor(torch.ones(3)),
        "quantised": torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8),
        "nested": torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
    }
    for (name, x), copy in itertools.product(odd.items(), (None, False, True)):
        for take in (candle.from_dlpack, candle.asarray):
            with pytest.raises(BufferError) as caught:
                take(x, copy=copy)
            assert len(str(caught.value)) > 20, name
