"""How tensors print: values as in numpy, at most 4 decimals, then shape, dtype and device."""

from __future__ import annotations

import math
import re

import pytest
from labels import label

import candle
from candle import asarray


def shown(data, dtype=None) -> str:
    """What stands between ``tensor(`` and ``, dtype=``."""
    text, _, _ = re.split(r"(,\s+dtype=)", repr(asarray(data, dtype=dtype)))
    assert text.startswith("tensor(")
    return text.removeprefix("tensor(")


def test_the_whole_text():
    t = asarray([[0.0, 1.0], [2.0, 3.0]])
    assert repr(t) == "tensor([[0., 1.],\n        [2., 3.]], dtype=float32)"
    assert str(t) == repr(t)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (3.5, "3.5"),
        (7, "7"),
        (True, "True"),
        (1 - 2j, "1.-2.j"),
        ([1, 20, -3], "[ 1, 20, -3]"),
        ([True, False], "[ True, False]"),
        ([0.5, 0.25], "[0.5 , 0.25]"),
        ([1.0, 2.0], "[1., 2.]"),
        ([0.1, -2.5, 100.0], "[  0.1,  -2.5, 100. ]"),
        ([1 / 3], "[0.3333]"),
        ([-0.0], "[-0.]"),
        ([1.0, 5000.0], "[   1., 5000.]"),
        ([1.5, 5000.0], "[1.5e+00, 5.0e+03]"),
        ([1e-5, 1.0], "[1.e-05, 1.e+00]"),
        ([1e10, 1.5e8], "[1.0e+10, 1.5e+08]"),
        ([123456.79], "[123456.79]"),
        ([math.nan, 1.0, math.inf, -math.inf], "[ nan,   1.,  inf, -inf]"),
        ([math.nan], "[nan]"),
        ([1 + 2j, 10 - 20.5j], "[ 1. +2.j , 10.-20.5j]"),
        ([complex(math.nan, math.inf)], "[nan+infj]"),
        ([], "[]"),
        ([[1], [2]], "[[1],\n        [2]]"),
        ([[[1, 2]], [[3, 4]]], "[[[1, 2]],\n\n        [[3, 4]]]"),
    ],
    ids=label,
)
def test_values(data, text):
    assert shown(data) == text


@pytest.mark.parametrize(
    ("dtype", "text"),
    [
        ("float64", "[0.1, 0.3]"),
        ("float32", "[0.1, 0.3]"),
        ("float16", "[0.1, 0.3]"),
        ("bfloat16", "[0.1001, 0.3008]"),
        ("float8_e4m3fn", "[0.1016, 0.3125]"),
        ("float8_e5m2", "[0.0938, 0.3125]"),
        ("float8_e8m0fnu", "[0.125, 0.25 ]"),
        ("float4_e2m1fn", "[0. , 0.5]"),
    ],
)
def test_floats_of_every_width(dtype, text):
    assert repr(asarray([0.1, 0.3], dtype=dtype)) == f"tensor({text}, dtype={dtype})"


def test_shortest_digits_are_those_of_the_dtype():
    assert shown([123456.789, 1000.25], "float32") == "[123456.79,   1000.25]"
    assert shown([123456.789, 1000.25], "float64") == "[123456.789,   1000.25 ]"
    assert shown([0.1 + 0.2], "float64") == "[0.3]"
    # It takes nine digits: 1006.4748 and 1006.4749 are other floats.
    assert shown([1006.474853515625], "float32") == "[1006.4749]"


@pytest.mark.parametrize("dtype", ["int4", "uint4"])
def test_packed_elements(dtype):
    assert shown([[1, 2, 3], [4, 5, 6]], dtype) == "[[1, 2, 3],\n        [4, 5, 6]]"


def test_pairs_are_shown_as_bytes():
    t = asarray([[0x21, 0xF0]], dtype="uint8").view("float4_e2m1fn_x2")
    assert repr(t) == "tensor([[0x21, 0xf0]], dtype=float4_e2m1fn_x2)"


@pytest.mark.parametrize(
    ("shape", "text"),
    [
        ((0,), "tensor([], dtype=float32)"),
        ((0, 3), "tensor([], shape=(0, 3), dtype=float32)"),
        ((3, 0), "tensor([], shape=(3, 0), dtype=float32)"),
        ((), "tensor(0., dtype=float32)"),
    ],
)
def test_empty_and_without_axes(shape, text):
    assert repr(candle.zeros(shape)) == text


def test_long_rows_are_wrapped():
    lines = repr(candle.arange(100)).splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0].startswith("tensor([ 0,  1,  2, ")
    assert all(line.startswith(" " * 8) for line in lines[1:])
    assert lines[-1].endswith("99], dtype=int64)")


def test_the_ending_goes_on_a_line_of_its_own_where_it_does_not_fit():
    lines = repr(candle.arange(23)).splitlines()
    assert lines == [
        "tensor([ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11, 12, 13, 14, 15, 16, 17,",
        "        18, 19, 20, 21, 22], dtype=int64)",
    ]
    assert repr(candle.arange(18)).splitlines()[1] == "       dtype=int64)"


def test_of_a_large_tensor_the_edges_are_shown():
    assert repr(candle.arange(1000)).count(",") > 999
    text = "tensor([   0,    1,    2, ...,  998,  999, 1000], shape=(1001,), dtype=int64)"
    assert repr(candle.arange(1001)) == text
    t = candle.arange(2 * 1000).reshape((2, 1000))
    assert repr(t) == (
        "tensor([[   0,    1,    2, ...,  997,  998,  999],\n"
        "        [1000, 1001, 1002, ..., 1997, 1998, 1999]],\n"
        "       shape=(2, 1000), dtype=int64)"
    )
    t = candle.arange(1000 * 3).reshape((1000, 3))
    assert repr(t) == (
        "tensor([[   0,    1,    2],\n        [   3,    4,    5],\n        [   6,    7,    8],\n"
        "        ...,\n        [2991, 2992, 2993],\n        [2994, 2995, 2996],\n"
        "        [2997, 2998, 2999]], shape=(1000, 3), dtype=int64)"
    )
    t = candle.arange(2 * 1000).reshape((1000, 2)).permute(1, 0)[:, ::-1]
    assert repr(t).startswith("tensor([[1998, 1996, 1994, ...,    4,    2,    0],\n")


def test_what_is_not_shown_does_not_shape_the_columns():
    t = candle.zeros(2000)
    t[1000] = 1.5e20
    assert repr(t) == "tensor([0., 0., 0., ..., 0., 0., 0.], shape=(2000,), dtype=float32)"


def test_packed_elements_of_a_large_tensor():
    values = [n % 8 for n in range(1001 * 3)]
    t = asarray(values, dtype="int4").reshape((1001, 3))
    assert repr(t) == (
        "tensor([[0, 1, 2],\n        [3, 4, 5],\n        [6, 7, 0],\n        ...,\n"
        "        [2, 3, 4],\n        [5, 6, 7],\n        [0, 1, 2]], shape=(1001, 3), dtype=int4)"
    )
    t = asarray(values, dtype="float6_e2m3fn")
    assert repr(t).startswith("tensor([0., 1., 2., ..., 0., 1., 2.], shape=(3003,)")


@pytest.mark.parametrize("axes", range(1, 6))
def test_broadcast_views_of_any_size_show_few_elements(axes):
    t = asarray([7]).broadcast_to((2000,) * axes)
    assert repr(t).count("7") <= 1000
    assert f"shape={t.shape}" in repr(t)


def test_too_many_axes_show_no_elements():
    t = asarray(7).broadcast_to((2,) * 40)
    assert repr(t).startswith("tensor(...,\n       shape=(2, 2, 2,")
    assert repr(t[(0,) * 38]) == "tensor([[7, 7],\n        [7, 7]], dtype=int64)"


def test_html():
    t = asarray([[1, 2], [3, 4]])
    facts = "<b>Tensor</b> shape (2, 2) · int64 · cpu · 32 bytes"
    assert t._repr_html_() == f"<div>{facts}<pre>[[1, 2],\n [3, 4]]</pre></div>"
    assert "read-only" in asarray(b"ab")._repr_html_()


def test_read_only_is_not_shown():
    assert repr(asarray(b"ab")) == "tensor([97, 98], dtype=uint8)"


@pytest.mark.parametrize("seed", range(40))
def test_values_look_as_in_numpy(seed):
    np = pytest.importorskip("numpy")
    rng = np.random.default_rng(seed)
    dtype = ["float32", "float64", "float16", "complex64", "complex128", "int16", "bool"][seed % 7]
    shape = [(7,), (3, 4), (2, 3, 2), (), (1, 1)][seed % 5]
    if dtype == "bool":
        a = rng.random((9,)) < 0.5
    elif dtype == "int16":
        a = rng.integers(-999, 999, shape)
    else:
        a = rng.uniform(0.5, 99.0, shape).round(int(rng.integers(1, 7)))
        a = a * (1 if rng.random() < 0.6 else 1e-9)
        if dtype.startswith("complex"):
            a = a - 1j * a * 0.5
    a = np.asarray(a).astype(dtype)
    if dtype == "float16":
        a = np.abs(a) + np.float16(0.5)
    theirs = np.array2string(a, precision=4, separator=", ", prefix="tensor(", max_line_width=80)
    assert shown(a) == theirs


def test_needs_no_numpy(in_child):
    code = """
        import sys
        import candle
        repr(candle.asarray([[1.5, 2], [3, 4]])), candle.ones(2000)._repr_html_()
        assert "numpy" not in sys.modules
    """
    in_child(code).check()
