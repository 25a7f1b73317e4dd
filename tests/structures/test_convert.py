"""`convert`: values, memory, identity, and what is copied how often."""

from __future__ import annotations

import gc
import itertools
import random
import sys
import threading
import weakref
from collections import OrderedDict
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import candle
from candle.ledger import listening
from candle.testing import Producer, live, shares_memory

if TYPE_CHECKING:
    from collections.abc import Callable

MODULE = sys.modules["candle.copies"]


def frozen(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    view = array.view()
    view.flags.writeable = False
    return view


def copies_of(do: Callable[[], Any]) -> tuple[Any, list[candle.Plan]]:
    copies: list[candle.Plan] = []
    with listening(copies.append):
        return do(), copies


# Sharing.


def test_mixed_frameworks_to_each() -> None:
    torch = pytest.importorskip("torch")
    jax = pytest.importorskip("jax")
    aligned = candle.zeros((4, 4)).numpy()
    tree = {
        "torch": torch.arange(3),
        "numpy": aligned,
        "jax": jax.numpy.ones(2),
        "candle": candle.arange(5, dtype="int32"),
        "struct": Producer(shape=(2, 3)),
        "none": None,
    }
    for to, kind in (
        ("numpy", np.ndarray),
        ("candle", candle.Tensor),
        (np, np.ndarray),
    ):
        new, copies = copies_of(lambda to=to: candle.convert(tree, to))
        assert copies == []
        assert all(isinstance(new[name], kind) for name in tree if name != "none")
        assert new["none"] is None
        assert new["torch"].tolist() == [0, 1, 2]
        for name in ("torch", "numpy", "jax", "candle"):
            assert shares_memory(new[name], tree[name])
    given = candle.convert({**tree, "torch": tree["torch"].int()}, jax.numpy)
    assert all(isinstance(given[name], jax.Array) for name in tree if name != "none")
    assert given["struct"].tolist() == [[0, 1, 2], [3, 4, 5]]


def test_to_torch_and_tvm_ffi() -> None:
    torch = pytest.importorskip("torch")
    tvm_ffi = pytest.importorskip("tvm_ffi")
    array = np.arange(6.0).reshape(2, 3)
    for to, kind in ((torch, torch.Tensor), ("tvm-ffi", tvm_ffi.Tensor)):
        new = candle.convert([array, array.T], to)
        assert all(isinstance(x, kind) for x in new)
        assert all(shares_memory(x, array) for x in new)


def test_one_tensor() -> None:
    array = np.arange(3)
    assert shares_memory(candle.convert(array, "candle"), array)


def test_what_is_there_already_stays() -> None:
    array = np.ma.masked_array([1, 2], [True, False])
    tree = {"a": [array, np.array(["text"]), np.float32(1)]}
    assert candle.convert(tree, "numpy") is tree
    t = candle.zeros(2)
    assert candle.convert(t, candle) is t
    torch = pytest.importorskip("torch")
    parameter = torch.nn.Parameter(torch.ones(2))
    assert candle.convert([parameter], "torch")[0] is parameter


def test_numbers_stay() -> None:
    tree = [1, 2.0, True, "a", b"bytes", bytearray(2), np.float32(3), np.bool_(True), {1}, range(2)]
    assert candle.convert(tree, "candle") is tree


def test_types_do_not_pile_up() -> None:
    """Of the types it has met, tensors or not, it keeps a number."""
    tree = [type(f"Kind{i}", (), {"x": i})() for i in range(1000)]
    types = weakref.WeakSet(map(type, tree))
    array = np.zeros(2)
    new = candle.convert([*tree, array], "candle")
    assert new[:-1] == tree
    assert shares_memory(new[-1], array)
    del tree, new
    gc.collect()
    assert len(types) <= 256


def test_same_object_same_result() -> None:
    array = np.zeros(2)
    new = candle.convert([array, {"again": array}], "candle")
    assert new[0] is new[1]["again"]


def test_state_dict_keeps_its_metadata() -> None:
    torch = pytest.importorskip("torch")
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
    state = model.state_dict()
    new = candle.convert(state, "numpy")
    assert type(new) is OrderedDict
    assert new._metadata == state._metadata
    assert list(new) == list(state)
    assert all(shares_memory(new[name], state[name]) for name in state)
    back = candle.convert(new, "torch")
    assert model.load_state_dict(back) is not None
    assert back["0.weight"].data_ptr() == model[0].weight.data_ptr()


# Gradients.


def test_requires_grad_is_refused_and_detach_named() -> None:
    torch = pytest.importorskip("torch")
    tree = {"layers": [{"w": torch.ones(2, requires_grad=True)}]}
    for copy in (None, False, True):
        with pytest.raises(BufferError, match=r"requires grad.*detach=True") as caught:
            candle.convert(tree, "numpy", copy=copy)
        assert caught.value.__notes__ == ["this tensor is at tree['layers'][0]['w']"]


def test_detach_is_named_only_where_it_helps() -> None:
    torch = pytest.importorskip("torch")

    def inside(x: Any) -> Any:
        with pytest.raises(BufferError, match="inside a transform") as caught:
            candle.convert([x], "numpy")
        assert "detach" not in str(caught.value)
        return (x * x).sum()

    torch.func.grad(inside)(torch.ones(2))


def test_uninitialised_parameters() -> None:
    torch = pytest.importorskip("torch")
    state = torch.nn.LazyLinear(3).state_dict()
    assert candle.convert(state, "torch") is state
    for detach in (False, True):
        with pytest.raises(BufferError, match="not initialised") as caught:
            candle.convert(state, "numpy", detach=detach)
        assert caught.value.plan.reasons[0].code == "no_memory"  # type: ignore[attr-defined]


def test_many_leaves() -> None:
    """Tens of thousands, each sharing or copied, and each overlapping the next."""
    base = np.zeros(30_003)
    tree = [base[i : i + 4] for i in range(30_000)]
    shared = candle.convert(tree, "candle")
    assert shared[-1].data_ptr() == tree[-1].ctypes.data
    copied, copies = copies_of(lambda: candle.convert(tree, "candle", copy=True))
    assert len(copies) == 1
    copied[0][1] = 7
    assert copied[1][0].item() == 7
    assert base[1] == 0


def test_deep_trees_raise_as_python_does() -> None:
    tree: Any = [np.zeros(2)]
    for _ in range(100):
        tree = [tree]
    assert candle.convert(tree, "candle") is not tree
    for _ in range(100_000):
        tree = [tree]
    with pytest.raises(RecursionError):
        candle.convert(tree, "candle")


@pytest.mark.parametrize("to", ["numpy", "candle", "torch"])
@pytest.mark.parametrize("copy", [None, False, True])
@pytest.mark.parametrize("make", ["leaf", "parameter", "result", "subclass", "conj"])
def test_detach(to: str, copy: bool | None, make: str) -> None:
    torch = pytest.importorskip("torch")
    x = torch.ones(2, 3, requires_grad=True)
    if make == "parameter":
        x = torch.nn.Parameter(torch.ones(2, 3))
    elif make == "result":
        x = x * 1
    elif make == "subclass":
        x = torch.ones(2, 3).as_subclass(type("Mine", (torch.Tensor,), {})).requires_grad_()
    elif make == "conj":
        x = torch.ones(2, 3, dtype=torch.complex64, requires_grad=True).conj()
        if copy is False and to != "torch":
            with pytest.raises(candle.CopyError):
                candle.convert([x], to, copy=copy, detach=True)
            return
    new = candle.convert([x], to, copy=copy, detach=True)[0]
    if to == "torch":
        assert not new.requires_grad
    assert np.asarray(new.resolve_conj() if to == "torch" else new).tolist() == [[1] * 3] * 2
    if make != "conj":
        assert shares_memory(new, x.detach()) == (not copy)


def test_detached_result_lets_its_graph_go() -> None:
    torch = pytest.importorskip("torch")
    gone = []

    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(context: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(context: Any, grad: Any) -> Any:
            return grad

    import weakref

    x = torch.ones(2, requires_grad=True)
    y = Doubled.apply(x)
    weakref.finalize(y.grad_fn, gone.append, True)
    new = candle.convert(y, "numpy", detach=True)
    del y
    assert gone
    assert new.tolist() == [2, 2]


def test_parameter_may_be_reseated() -> None:
    torch = pytest.importorskip("torch")
    layer = torch.nn.Linear(64, 64)
    expected = layer.weight.detach().clone().numpy()
    new = candle.convert(dict(layer.named_parameters()), "numpy", detach=True)
    layer.half()
    torch.zeros(64, 64).fill_(7)
    assert np.array_equal(new["weight"], expected)


# Copies.


def test_copy_true_copies_everything() -> None:
    array = np.arange(3)
    t = candle.zeros(2)
    new = candle.convert([array, t, frozen(array)], "candle", copy=True)
    assert not any(shares_memory(a, b) for a, b in zip(new, [array, t, array], strict=True))
    assert not any(t.readonly for t in new)
    assert new[0].tolist() == [0, 1, 2]


def test_copy_false_names_the_place() -> None:
    with pytest.raises(candle.CopyError, match="byte order") as caught:
        candle.convert({"a": (1, np.zeros(2, ">f4"))}, "candle", copy=False)
    assert caught.value.__notes__ == ["this tensor is at tree['a'][1]"]
    with pytest.raises(candle.CopyError, match="float32"):
        candle.convert([np.zeros(2)], "candle", copy=False, dtype="float32")
    assert candle.convert([np.zeros(2)], "candle", copy=False, dtype="float64")[0].size == 2


def test_refusal_names_the_place() -> None:
    for copy in (None, True):
        with pytest.raises(BufferError, match="Python objects") as caught:
            candle.convert([np.zeros(2), [np.array([None])]], "candle", copy=copy)
        assert caught.value.__notes__ == ["this tensor is at tree[1][0]"]
    with pytest.raises(BufferError, match="Python objects") as caught:
        candle.convert(np.array([None]), "candle")
    assert not hasattr(caught.value, "__notes__")


def alias_tree(array: np.ndarray[Any, Any]) -> dict[str, Any]:
    return {
        "whole": array,
        "row": array[1],
        "columns": array[:, 1:3],
        "transposed": array.T,
        "again": array.view(),
        "bytes": array.reshape(-1)[4:].view(np.uint8),
        "else": np.ones(3, array.dtype),
    }


@pytest.mark.filterwarnings("ignore::candle.ReadOnlyCopyWarning")
@pytest.mark.parametrize("to", ["numpy", "candle", "torch"])
@pytest.mark.parametrize("why", ["copy", "dtype", "frozen", "dtypes"])
def test_aliases_stay_aliases(to: str, why: str) -> None:
    if to == "torch":
        pytest.importorskip("torch")
    array = np.arange(20, dtype=np.float32).reshape(4, 5)
    tree = alias_tree(array)
    arguments: dict[str, Any] = {"copy": {"copy": True}}.get(why, {})
    if why == "dtype":
        arguments = {"dtype": "float64"}
        del tree["bytes"]
    elif why == "dtypes":
        arguments = {"dtype": {"float32": "float16", "int8": "int16"}}
        del tree["bytes"]
    elif why == "frozen":
        if to != "torch":
            pytest.skip("it takes read-only memory")
        tree["row"] = frozen(tree["row"])
    new, copies = copies_of(lambda: candle.convert(tree, to, **arguments))
    # The array, and what is apart from it. A plan's bytes are those that are read.
    assert sorted(plan.nbytes for plan in copies) == (
        [80]
        if why == "frozen"
        else sorted([n * {"dtype": 8, "dtypes": 2}.get(why, 4) for n in (20, 3)])
    )
    assert not shares_memory(new["whole"], array)
    for name, x in tree.items():
        assert np.array_equal(np.asarray(new[name]), x), name
    new["whole"][1, 2] = 99
    assert new["row"][2] == new["columns"][1, 1] == new["transposed"][2, 1] == 99
    assert new["again"][1, 2] == 99
    if "bytes" in new:
        assert bytes(np.asarray(new["bytes"])[12:16]) == np.float32(99).tobytes()
    assert new["else"].tolist() == [1, 1, 1]
    assert array[1, 2] == 7


@pytest.mark.filterwarnings("ignore::candle.ReadOnlyCopyWarning")
def test_reason_of_a_copy_by_block() -> None:
    pytest.importorskip("torch")
    array = frozen(np.arange(20.0))
    _, copies = copies_of(lambda: candle.convert([array, array[3:]], "torch", copy=None))
    assert [(plan.nbytes, plan.reasons[0].code) for plan in copies] == [(160, "read_only")]


def test_views_with_no_whole_share_again() -> None:
    """Each is copied, and what lies between and nobody shows is 0."""
    array = np.arange(1.0, 41.0).reshape(4, 10)
    tree = [array[:, 2:6], array[:, 4:8]]
    new, copies = copies_of(lambda: candle.convert(tree, "numpy", copy=True))
    assert [plan.nbytes for plan in copies] == [128, 128]
    assert all(np.array_equal(a, b) for a, b in zip(new, tree, strict=True))
    new[0][1, 2] = -1
    assert new[1][1, 0] == -1
    rows = np.lib.stride_tricks.as_strided(new[0], (3, 10), (80, 8))
    assert rows[:, 6:].tolist() == [[0.0] * 4] * 3


def test_read_only_views_with_no_whole_share_again() -> None:
    """The consumer would be free to write: what is copied is what is shown."""
    pytest.importorskip("tvm_ffi")
    array = frozen(np.arange(1.0, 41.0).reshape(4, 10))
    tree = [array[:, 2:6], array[:, 4:8]]
    new, copies = copies_of(lambda: candle.convert(tree, "tvm_ffi"))
    assert {reason.code for plan in copies for reason in plan.reasons} == {"read_only"}
    assert [candle.asarray(x).tolist() for x in new] == [x.tolist() for x in tree]
    assert candle.shares_memory(*new)
    assert not candle.shares_memory(new[0], array)


def test_dtypes_of_what_comes_in_as_a_copy_only() -> None:
    x = np.arange(3, dtype=">f8")
    for dtypes, wanted in (({"float64": "float32"}, "float32"), ({"int8": "int16"}, "float64")):
        [found] = candle.convert([x], "candle", dtype=dtypes)
        assert (str(found.dtype), found.tolist()) == (wanted, [0, 1, 2])


@pytest.mark.parametrize("why", ["copy", "frozen", "dtype"])
def test_little_of_much_memory_is_copied_apart(why: str) -> None:
    """Bytes that no tensor shows are neither read nor kept."""
    to = "tvm_ffi" if why == "frozen" else "numpy"
    pytest.importorskip(to)
    array = np.arange(100_000.0)
    if why == "frozen":
        array = frozen(array)
    tree = [array[::50_000], array[5:7], array[5:7]]
    arguments: dict[str, Any] = {"copy": {"copy": True}, "dtype": {"dtype": "float32"}}.get(why, {})
    new, copies = copies_of(lambda: candle.convert(tree, to, **arguments))
    assert sum(plan.nbytes for plan in copies) == (16 if why == "dtype" else 32)
    assert [candle.asarray(x).tolist() for x in new] == [x.tolist() for x in tree]
    assert new[1] is new[2]


def test_what_is_shown_many_times_is_shown_once() -> None:
    """Neither the same view again nor an axis of stride 0 makes much of little."""
    array = np.arange(1000.0)
    rows = np.lib.stride_tricks.as_strided(array, (500, 2), (0, 3992))
    tree = [array[::499], *[array[:4] for _ in range(200)], rows]
    new, copies = copies_of(lambda: candle.convert(tree, "numpy", copy=True))
    assert all(np.array_equal(x, old) for x, old in zip(new, tree, strict=True))
    assert not np.shares_memory(new[0], new[1])
    near = [array[:4], array[1:5], np.broadcast_to(array[4:6], (300, 2)), array[:4]]
    [*_, last], copies = copies_of(lambda: candle.convert(near, "numpy", copy=True))
    assert last.tolist() == [0.0, 1.0, 2.0, 3.0]
    assert sum(plan.nbytes for plan in copies) <= 10 * 8


def test_memory_that_nobody_shows_is_not_read(in_child: Any) -> None:
    """It may not be there at all: pages that end the process lie between the elements."""
    in_child(
        """
        import ctypes, itertools, mmap
        import numpy as np
        import candle
        libc = ctypes.CDLL(None, use_errno=True)
        libc.mmap.restype = ctypes.c_void_p
        sizes = [ctypes.c_void_p, ctypes.c_size_t]
        libc.mmap.argtypes = [*sizes, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
        libc.mprotect.argtypes = [*sizes, ctypes.c_int]
        page = mmap.PAGESIZE
        start = libc.mmap(None, 5 * page, 3, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
        memory = np.ctypeslib.as_array((ctypes.c_double * (5 * page // 8)).from_address(start))
        memory[:] = np.arange(memory.size)
        pages = memory.reshape(5, -1)[::2]  # three that are there, of five
        views = [pages, pages[:2], pages[:, 3:], pages[::-1], pages[1:, ::2], pages[:, :1]]
        wanted = [view.tolist() for view in views]
        for gap in (1, 3):
            assert libc.mprotect(start + gap * page, page, 0) == 0
        frozen = [view.view() for view in views]
        for view in frozen:
            view.flags.writeable = False
        for n in (2, 3):
            for chosen in itertools.permutations(range(len(views)), n):
                for of, to, arguments in (
                    (views, "numpy", {"copy": True}),
                    (views, "candle", {"dtype": "float32"}),
                    (frozen, "candle", {"copy": True}),
                ):
                    new = candle.convert([of[i] for i in chosen], to, **arguments)
                    assert [candle.asarray(x).tolist() for x in new] == [wanted[i] for i in chosen]
        """
    ).check()


def some_view(rng: random.Random, array: Any) -> Any:
    """Any part of an array, in any order, some axes repeated."""
    view = array
    for axis, extent in enumerate(view.shape):
        begin = rng.randrange(extent)
        step = rng.choice([1, 1, 1, 2, 3, -1])
        index = [slice(None)] * view.ndim
        index[axis] = slice(begin, None, step)
        view = view[tuple(index)]
    if rng.random() < 0.3:
        view = view.transpose(rng.sample(range(view.ndim), view.ndim))
    if rng.random() < 0.2:
        view = np.broadcast_to(view, (2, *view.shape))
        view.flags.writeable = True
    return view


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # numpy's, of broadcast_to
@pytest.mark.filterwarnings("ignore::candle.ReadOnlyCopyWarning")
def test_any_views_of_one_array() -> None:
    """Values, bytes that are read, and elements that are shared as before where much is shown."""
    rng = random.Random(5)
    for _ in range(400):
        shape = [rng.randint(1, 7) for _ in range(rng.randint(1, 3))]
        array = np.arange(np.prod(shape), dtype="float32").reshape(shape)
        views = [some_view(rng, array) for _ in range(rng.randint(2, 4))]
        arguments = {"copy": True, "dtype": rng.choice([None, "float64"])}
        new, copies = copies_of(lambda v=views, a=arguments: candle.convert(v, "numpy", **a))
        for old, x in zip(views, new, strict=True):
            assert x.tolist() == old.tolist()
            assert not np.shares_memory(x, array)
        most = max(array.size, sum(v.size for v in views))
        assert sum(plan.nbytes for plan in copies) <= most * new[0].itemsize
        low = min(np.lib.array_utils.byte_bounds(v)[0] for v in views)
        high = max(np.lib.array_utils.byte_bounds(v)[1] for v in views)
        shown = len({i for v in views for i in v.ravel().tolist()}) * 4
        if shown < (high - low) / 4:
            continue
        for i, j in itertools.combinations(range(len(views)), 2):
            if np.shares_memory(views[i], views[j]):
                assert np.shares_memory(new[i], new[j]), (views[i].strides, views[j].strides)


def test_read_only_views_for_who_would_write() -> None:
    """One copy for all; of the one framework's there is a warning, of the other's none."""
    pytest.importorskip("tvm_ffi")
    table = frozen(np.arange(4.0))
    (a, b), copies = copies_of(lambda: candle.convert([table, table[1:]], "tvm_ffi"))
    assert [plan.nbytes for plan in copies] == [32]
    assert candle.asarray(a).tolist() == table.tolist()
    assert b.data_ptr() == a.data_ptr() + 8 != table.ctypes.data + 8


def test_cast_views_whose_elements_lie_across_each_other() -> None:
    """They share bytes but no element, and are cast apart."""
    torch = pytest.importorskip("torch")
    data = np.arange(8, dtype="float32")
    x, y = data[:6].view("complex64"), data[1:7].view("complex64")
    (a, b), copies = copies_of(lambda: candle.convert([x, y], "torch", dtype="complex128"))
    assert a.tolist() == [1j, 2 + 3j, 4 + 5j]
    assert b.tolist() == [1 + 2j, 3 + 4j, 5 + 6j]
    assert a.dtype == b.dtype == torch.complex128
    assert not shares_memory(a, b)
    assert [plan.nbytes for plan in copies] == [48, 48]


def test_reversed_view_is_kept_where_there_are_such() -> None:
    array = np.arange(6)
    new = candle.convert([array, array[::-1], array[::-2]], "numpy", copy=True)
    assert [x.tolist() for x in new] == [[0, 1, 2, 3, 4, 5], [5, 4, 3, 2, 1, 0], [5, 3, 1]]
    new[0][5] = 50
    assert new[1][0] == new[2][0] == 50


def test_reversed_view_for_torch_is_copied_alone() -> None:
    pytest.importorskip("torch")
    array = np.arange(6)
    new, copies = copies_of(lambda: candle.convert([array, array[::-1]], "torch"))
    assert shares_memory(new[0], array)
    assert new[1].tolist() == [5, 4, 3, 2, 1, 0]
    assert [plan.reasons[0].code for plan in copies] == ["negative_stride"]
    new = candle.convert([array, array[::-1], array[1:]], "torch", copy=True)
    assert new[1].tolist() == [5, 4, 3, 2, 1, 0]
    assert shares_memory(new[0], new[2])


def test_jax_gets_equal_views_as_one_array() -> None:
    pytest.importorskip("jax")
    array = np.arange(8, dtype=np.float32)[1:]
    new, copies = copies_of(lambda: candle.convert([array, array.view(), array[2:]], "jax"))
    assert new[0] is new[1]
    assert new[2].tolist() == [3, 4, 5, 6, 7]
    assert len(copies) == 2


def test_swapped_and_conjugate_are_copied() -> None:
    torch = pytest.importorskip("torch")
    tree = [np.arange(3, dtype=">i4"), torch.tensor([1 + 2j]).conj(), np.arange(3)]
    new, copies = copies_of(lambda: candle.convert(tree, "candle"))
    assert [t.tolist() for t in new] == [[0, 1, 2], [1 - 2j], [0, 1, 2]]
    assert shares_memory(new[2], tree[2])
    assert {plan.reasons[0].code for plan in copies} == {"byte_order", "conj_bit"}


def test_empty_and_scalar_tensors() -> None:
    tree = [np.zeros((0, 3)), np.array(5), np.zeros((2, 0))]
    new = candle.convert(tree, "candle", copy=True)
    assert [t.shape for t in new] == [(0, 3), (), (2, 0)]
    assert new[1].item() == 5


def test_small_elements() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    bfloat = np.ones(4, ml_dtypes.bfloat16)
    int4 = np.ones(4, ml_dtypes.int4)
    new = candle.convert([bfloat, bfloat[1:], int4, int4[1:]], "candle", copy=True)
    assert [t.tolist() for t in new] == [[1] * 4, [1] * 3] * 2
    new[0][1] = 3
    assert new[1][0].item() == 3


@pytest.mark.parametrize("dtype", ["float16", {"float32": "float16"}])
def test_dtype(dtype: Any) -> None:
    tree = {"x": np.ones(2, np.float32), "i": np.ones(2, np.int64), "h": np.ones(2, np.float16)}
    new = candle.convert(tree, "numpy", dtype=dtype)
    assert new["x"].dtype == np.float16
    assert new["h"] is tree["h"]
    assert new["i"].dtype == (np.float16 if dtype == "float16" else np.int64)
    assert (new["i"] is tree["i"]) == (dtype != "float16")


def test_device() -> None:
    array = np.ones(2)
    assert shares_memory(candle.convert([array], "candle", device="cpu")[0], array)
    with pytest.raises(ValueError, match="numpy has no memory on cuda:0"):
        candle.convert([array], "numpy", device="cuda")


def test_unknown_framework() -> None:
    with pytest.raises(ValueError, match="none of torch, numpy"):
        candle.convert([], "pandas")
    with pytest.raises(TypeError, match="named by a str or its module"):
        candle.convert([], 3)


def test_read_only_for_torch_is_told_once() -> None:
    torch = pytest.importorskip("torch")
    array = np.arange(3)
    new = candle.convert([frozen(array)], torch, copy=False)
    assert shares_memory(new[0], array)
    new = candle.convert([frozen(array)], torch, copy=True)
    assert not shares_memory(new[0], array)


def test_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[int] = []

    class Bar:
        def __init__(self, total: int, **how: Any) -> None:
            told.append(total)

        def update(self, size: int) -> None:
            told.append(size)

        def close(self) -> None:
            told.append(-1)

    fake = ModuleType("tqdm.auto")
    fake.tqdm = Bar  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "tqdm", ModuleType("tqdm"))
    monkeypatch.setitem(sys.modules, "tqdm.auto", fake)
    tree = [np.zeros(4), np.zeros(2), np.zeros(3)[::-1]]
    candle.convert(tree, "candle", copy=True)
    assert told == []
    monkeypatch.setattr(MODULE, "PROGRESS_BYTES", 70)
    candle.convert(tree, "candle", copy=True)
    assert told[0] == 72
    assert sorted(told[1:-1]) == [16, 24, 32]
    assert told[-1] == -1
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    assert len(candle.convert(tree, "candle", copy=True)) == 3


def test_mapping_that_makes_its_members_anew() -> None:
    from collections.abc import Iterator, Mapping

    class Fresh(Mapping):  # type: ignore[type-arg]
        def __init__(self, members: dict[str, Any] | None = None) -> None:
            self.members = members

        def __len__(self) -> int:
            return 20

        def __iter__(self) -> Iterator[int]:
            return iter(range(20))

        def __getitem__(self, key: int) -> Any:
            return np.full(3, key) if self.members is None else self.members[key]

    for arguments in ({}, {"copy": True}, {"dtype": "float32"}):
        new = candle.convert(Fresh(), "candle", **arguments)
        assert [new[i].tolist() for i in range(20)] == [[i] * 3 for i in range(20)]


def test_threads() -> None:
    array = np.arange(1000.0)
    tree = {f"k{i}": array[i:] for i in range(50)}
    wrong: list[object] = []

    def run() -> None:
        for _ in range(20):
            new = candle.convert(tree, "candle")
            block = candle.convert(tree, "numpy", copy=True)
            block["k0"][:] = 0
            if new["k7"][0].item() != 7 or block["k49"].any():
                wrong.append(new)

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert array[999] == 999


# What a trace has of it.

CAME, WENT = ("numpy.ndarray", "candle", "share"), ("candle", "torch", "share")
COPIED = ("candle", "torch", "copy")


def told(do: Callable[[], Any]) -> list[tuple[str, str, str]]:
    """The moves of a call: who had the memory, who got it, what became of it."""
    with candle.trace() as moves:
        do()
    return [(move.producer, move.consumer, move.action) for move in moves]


def test_each_tensor_comes_in_and_goes_out() -> None:
    pytest.importorskip("torch")
    array = np.zeros(3)
    assert told(lambda: candle.convert({"a": array, "b": [array]}, "candle")) == [CAME]
    assert told(lambda: candle.convert([array, array], "torch")) == [CAME, WENT]


@pytest.mark.filterwarnings("ignore::candle.ReadOnlyCopyWarning")
def test_tries_are_not_told() -> None:
    """What cannot be shared has been tried; only the copy that follows is a move."""
    torch = pytest.importorskip("torch")
    array = np.arange(6.0)
    apart = [frozen(array), np.arange(3.0)[::-1]]
    assert told(lambda: candle.convert(apart, "torch")) == [CAME, CAME, COPIED, COPIED]
    together = [frozen(array)[:4], frozen(array)[2:]]
    moves = told(lambda: candle.convert(together, "torch"))
    assert moves == [CAME, CAME, COPIED, WENT, WENT]
    moves = told(lambda: candle.convert(together, "torch", dtype="float32"))
    assert moves == [CAME, CAME, ("candle", "candle", "copy"), WENT, WENT]
    conjugate = torch.zeros(3, dtype=torch.complex64).conj()
    moves = told(lambda: candle.convert([conjugate], "numpy"))
    assert moves == [("torch.Tensor", "candle", "copy"), ("candle", "numpy", "share")]
    learnt = torch.ones(3, requires_grad=True)
    moves = told(lambda: candle.convert([learnt], "numpy", detach=True))
    assert moves == [("torch.Tensor", "candle", "share"), ("candle", "numpy", "share")]


def test_what_is_raised_is_told_once() -> None:
    torch = pytest.importorskip("torch")
    cases: list[tuple[Any, str, bool | None]] = [
        (np.arange(3.0)[::-1], "torch", False),
        (torch.ones(3, requires_grad=True), "numpy", None),
        (torch.ones(3, requires_grad=True), "numpy", True),
        (torch.eye(3).to_sparse(), "numpy", None),
    ]
    for x, to, copy in cases:
        with candle.trace() as moves, pytest.raises(BufferError) as caught:
            candle.convert([x], to, copy=copy)
        assert moves[-1] == caught.value.plan  # type: ignore[attr-defined]
        assert [move.action for move in moves].count("refuse") == 1


@pytest.mark.filterwarnings("ignore::candle.ReadOnlyCopyWarning")
def test_strict_forbids_the_copy_of_a_range() -> None:
    pytest.importorskip("torch")
    array = np.arange(6.0)
    tree = [frozen(array)[:4], frozen(array)[2:]]
    with candle.strict(), pytest.raises(candle.CopyError, match="strict"):
        candle.convert(tree, "torch")
    with candle.strict(allow="read_only"):
        candle.convert(tree, "torch")
    with candle.strict():
        candle.convert(tree, "torch", copy=True)


@pytest.mark.parametrize("framework", ["torch", "numpy", "jax", "tvm_ffi", "candle"])
@pytest.mark.parametrize("copy", [None, True])
def test_nothing_is_kept(framework: str, copy: bool | None) -> None:
    """Memory goes with the last tensor over it, not when the garbage collector comes."""
    pytest.importorskip(framework)
    source = candle.zeros((4, 6)).numpy()
    candle.convert([source], framework, copy=copy)  # what is loaded once stays
    gc.collect()
    before = live()
    gc.disable()
    try:
        given = candle.convert({"a": [source], "b": source}, framework, copy=copy)
        del given
        assert live() == before
    finally:
        gc.enable()
