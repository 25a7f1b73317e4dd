"""Headers that break the format, one clause at a time, and headers made at random."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from model_files import DTYPES, descriptors, entry, mappings, whole

import candle
from candle.testing import assert_no_leak

if TYPE_CHECKING:
    from pathlib import Path

DATA = bytes(16)
GOOD = {"x": entry("F32", [2], 0, 8), "y": entry("U8", [2, 4], 8, 16)}


def changed(**fields: Any) -> dict[str, Any]:
    """The good header with other fields in its first tensor."""
    return {**GOOD, "x": {**GOOD["x"], **fields}}


def without(field: str) -> dict[str, Any]:
    return {**GOOD, "x": {k: v for k, v in GOOD["x"].items() if k != field}}


def raw(text: str) -> bytes:
    return whole(text.encode("utf-8", "surrogatepass"), DATA)


X = json.dumps(GOOD["x"])
Y = json.dumps(GOOD["y"])
DEEP = '{"__metadata__":' + "[" * 100_000 + "]" * 100_000 + "}"

BROKEN: dict[str, tuple[bytes, str]] = {
    # The length.
    "no bytes": (b"", "this has 0 bytes; download or write it again"),
    "seven bytes": (b"\0" * 7, "this has 7 bytes"),
    "no header": (b"\2" + b"\0" * 7, "has 2 bytes, and only 0 follow"),
    "half a header": (whole(GOOD)[:30], "and only 22 follow: the file was cut short"),
    "a header of one byte less": (b"\3" + b"\0" * 7 + b"{}", "3 bytes, and only 2 follow"),
    "beyond the limit": ((100_000_001).to_bytes(8, "little") + b"{}", "allows 100000000"),
    "a length of 64 bits": (b"\xff" * 8 + b"{}", "18446744073709551615 bytes"),
    "a header of no bytes": (b"\0" * 8, "begins with b'' and not with"),
    # The JSON.
    "a zip file": (whole(b"PK\3\4"), "begins with b'P'"),
    "a space first": (whole(b" {}"), "begins with b' '"),
    "a byte order mark": (whole(b"\xef\xbb\xbf{}"), "begins with"),
    "a list": (whole(b"[]"), r"begins with b'\['"),
    "no UTF-8": (raw("{}").replace(b"}", b"\xff"), "not UTF-8: invalid start byte at byte 1"),
    "a surrogate in UTF-8": (raw(f'{{"\ud800":{X}}}'), "not UTF-8"),
    "a surrogate, escaped": (raw(f'{{"\\ud800":{X},"y":{Y}}}'), "half a character"),
    "a surrogate in metadata": (raw('{"__metadata__":{"a":"\\udc00"}}'), "half a character"),
    "a surrogate in a key of metadata": (raw('{"__metadata__":{"\\udc00":""}}'), "half a char"),
    "unfinished": (raw('{"x":'), "not JSON: Expecting value"),
    "more behind": (raw(f'{{"x":{X},"y":{Y}}}{{}}'), "not JSON: Extra data"),
    "a zero behind": (raw(f'{{"x":{X},"y":{Y}}}\0'), "not JSON: Extra data"),
    "single quotes": (raw("{'x':1}"), "not JSON"),
    "a comma at the end": (raw(f'{{"x":{X},"y":{Y},}}'), "not JSON"),
    "a control character": (raw('{"a\n":1}'), "not JSON: Invalid control character"),
    "an int of 5000 digits": (raw('{"x":' + "1" * 5000 + "}"), "not JSON: Exceeds the limit"),
    "nested deeply": (whole(DEEP.encode()), "nested too deeply"),
    # Names.
    "a name twice": (raw(f'{{"x":{X},"x":{Y}}}'), "the key 'x' twice"),
    "a name twice, escaped": (raw(f'{{"x":{X},"\\u0078":{Y}}}'), "the key 'x' twice"),
    "a field twice": (raw('{"x":{"dtype":"U8","dtype":"U8"}}'), "the key 'dtype' twice"),
    "metadata twice": (raw('{"__metadata__":{},"__metadata__":{}}'), "'__metadata__' twice"),
    "metadata's key twice": (raw('{"__metadata__":{"a":"","a":""}}'), "the key 'a' twice"),
    # Metadata.
    "metadata null": (whole({"__metadata__": None}), "and this is null"),
    "metadata a list": (whole({"__metadata__": []}), "and this is a list"),
    "metadata a text": (whole({"__metadata__": "a"}), "and this is a text"),
    "metadata of numbers": (whole({"__metadata__": {"a": 1}}), "'a' is 1"),
    "metadata of objects": (whole({"__metadata__": {"a": {}}}), "'a' is an object"),
    "metadata of null": (whole({"__metadata__": {"a": None}}), "'a' is null"),
    # Entries.
    "an entry that is null": (whole({"x": None}), "and this is null"),
    "an entry that is a list": (whole({"x": [1]}), "and this is a list"),
    "no dtype": (whole(without("dtype"), DATA), "lacks 'dtype'"),
    "no shape": (whole(without("shape"), DATA), "lacks 'shape'"),
    "no offsets": (whole(without("data_offsets"), DATA), "lacks 'data_offsets'"),
    "one field more": (whole(changed(strides=[1]), DATA), "has 'strides' besides"),
    # Dtypes.
    "an unknown dtype": (whole(changed(dtype="F128"), DATA), "the dtype 'F128'; those of"),
    "a dtype in small letters": (whole(changed(dtype="f32"), DATA), "the dtype 'f32'"),
    "another's name for a dtype": (whole(changed(dtype="float32"), DATA), "'float32'"),
    "a dtype that is a number": (whole(changed(dtype=4), DATA), "the dtype 4"),
    "a dtype that is a list": (whole(changed(dtype=["F32"]), DATA), r"the dtype \['F32'\]"),
    "no dtype but null": (whole(changed(dtype=None), DATA), "the dtype None"),
    # Shapes.
    "a shape that is a number": (whole(changed(shape=2), DATA), "is 2, not a list of sizes"),
    "a shape that is null": (whole(changed(shape=None), DATA), "not a list of sizes"),
    "a negative size": (whole(changed(shape=[-2]), DATA), r"is \[-2\], not a list of sizes"),
    "two negative sizes": (whole(changed(shape=[-1, -2]), DATA), "not a list of sizes"),
    "a size with a point": (whole(changed(shape=[2.0]), DATA), r"\[2.0\], not a list of sizes"),
    "a size that is true": (whole(changed(shape=[True, 2]), DATA), "not a list of sizes"),
    "a size that is text": (whole(changed(shape=["2"]), DATA), "not a list of sizes"),
    "a size that is no number": (whole(changed(shape=[float("nan")]), DATA), "of sizes"),
    "a size of 64 bits": (whole(changed(shape=[2**63]), DATA), "not a list of sizes"),
    "an overflow": (whole(changed(shape=[2**62, 2**62]), DATA), "63 bits can count the bits of"),
    "an overflow to 0": (whole(changed(shape=[2**32, 2**32]), DATA), "63 bits can"),
    "an overflow to what is there": (whole(changed(shape=[2**61 + 1, 8]), DATA), "63 bits can"),
    "an overflow beside 0": (whole(changed(shape=[2**62, 2**62, 0]), DATA), "63 bits can"),
    "65 axes": (whole(changed(shape=[1] * 64 + [2]), DATA), "65 axes; candle holds up to 64"),
    "half a byte": (whole({"x": entry("F4", [3], 0, 1)}, b"\0"), "has 12 bits: no whole bytes"),
    "bits beyond bytes": (whole({"x": entry("F6_E2M3", [2], 0, 2)}, b"\0\0"), "has 12 bits"),
    # Offsets.
    "one offset": (whole(changed(data_offsets=[0]), DATA), "not two offsets"),
    "three offsets": (whole(changed(data_offsets=[0, 8, 16]), DATA), "not two offsets"),
    "offsets null": (whole(changed(data_offsets=None), DATA), "not two offsets"),
    "negative offsets": (whole(changed(data_offsets=[-8, 0]), DATA), "not two offsets"),
    "offsets with a point": (whole(changed(data_offsets=[0.0, 8]), DATA), "not two offsets"),
    "offsets that are true": (whole(changed(data_offsets=[False, 8]), DATA), "not two offsets"),
    "offsets of 64 bits": (whole(changed(data_offsets=[2**64, 2**64 + 8]), DATA), "not two offs"),
    "backward offsets": (whole(changed(data_offsets=[8, 0]), DATA), "go backwards"),
    "too few bytes": (whole(changed(data_offsets=[0, 7]), DATA), "takes 8 .* give it 7"),
    "too many bytes": (whole(changed(shape=[1]), DATA), "takes 4 bytes, and .* give it 8"),
    "bytes of an empty one": (whole(changed(shape=[0]), DATA), "takes 0 bytes, and .* give it 8"),
    # What is covered.
    "an overlap": (
        whole({"x": GOOD["x"], "y": entry("U8", [12], 4, 16)}, DATA),
        "'y' begins 4 bytes before the end of tensor 'x': they overlap",
    ),
    "one inside another": (whole({**GOOD, "z": entry("U8", [1], 9, 10)}, DATA), "'z' begins 7 byt"),
    "the same place twice": (whole({**GOOD, "z": GOOD["x"]}, DATA), "8 bytes before the end"),
    "a gap": (whole({"x": GOOD["x"], "y": entry("U8", [7], 9, 16)}, DATA), "1 bytes between"),
    "a gap first": (whole({"y": GOOD["y"]}, DATA), "8 bytes between the header and tensor 'y'"),
    "a gap before an empty one": (
        whole({"x": GOOD["x"], "e": entry("U8", [0], 9, 9)}, DATA),
        "1 bytes between tensor 'x' and tensor 'e'",
    ),
    "an empty one inside another": (
        whole({**GOOD, "e": entry("U8", [0], 4, 4)}, DATA),
        "'e' begins 4 bytes before the end of tensor 'x'",
    ),
    "beyond the end": (whole(GOOD, DATA[:-1]), "reach to byte .*: it was cut short"),
    "no data": (whole(GOOD), "reach to byte .*: it was cut short"),
    "bytes at the end": (whole(GOOD, DATA + b"\0"), "1 bytes follow after tensor 'y'"),
    "bytes of nobody": (whole({}, b"\0"), "1 bytes follow after the header"),
    "an empty one beyond the end": (
        whole({**GOOD, "e": entry("U8", [0], 2**62, 2**62)}, DATA),
        "between tensor 'y' and tensor 'e'",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BROKEN)
def test_broken_files_say_what_is_wrong(tmp_path: Path, case: str) -> None:
    content, told = BROKEN[case]
    path = tmp_path / "broken.safetensors"
    path.write_bytes(content)
    before = descriptors()
    for load in (
        candle.load_safetensors,
        candle.safetensors_metadata,
        lambda path: candle.load_safetensors(path, mmap=False),
    ):
        with pytest.raises(ValueError, match=told) as refused:
            load(path)
        assert str(path) in str(refused.value)
        assert type(refused.value) is ValueError
    del refused
    assert mappings(path) == 0
    assert descriptors() <= before


ACCEPTED = {
    "spaces at the end": whole(GOOD, DATA, pad=1000),
    "other whitespace": raw(json.dumps(GOOD, indent=4) + "\n\t\r "),
    "escapes": raw(f'{{"\\u0078":{X},"\\ud83d\\ude00":{Y}}}'),
    "any order": whole({"y": GOOD["y"], "x": GOOD["x"]}, DATA),
    "empty metadata": whole({"__metadata__": {}, **GOOD}, DATA),
    "metadata last": whole({**GOOD, "__metadata__": {"a": ""}}, DATA),
    "64 axes": whole(changed(shape=[1] * 63 + [2]), DATA),
    "empty ones anywhere": whole(
        {**GOOD, "a": entry("F64", [0], 0, 0), "b": entry("I8", [0, 9], 8, 8),
         "c": entry("F4", [0], 16, 16)}, DATA
    ),
    "an empty one of many": whole({**GOOD, "e": entry("F64", [2**62, 0], 16, 16)}, DATA),
}  # fmt: skip


@pytest.mark.parametrize("case", ACCEPTED)
def test_odd_files_that_are_right(tmp_path: Path, case: str) -> None:
    path = tmp_path / "odd.safetensors"
    path.write_bytes(ACCEPTED[case])
    given = candle.load_safetensors(path)
    assert sum(t.nbytes for t in given.values()) == len(DATA)


sizes = st.one_of(
    st.integers(0, 5), st.integers(-2, 2**65), st.booleans(), st.floats(), st.none(), st.just("1")
)
entries = st.one_of(
    st.fixed_dictionaries(
        {
            "dtype": st.one_of(st.sampled_from([row[0] for row in DTYPES]), st.text(max_size=4)),
            "shape": st.lists(st.one_of(st.integers(0, 4), sizes), max_size=3),
            "data_offsets": st.lists(st.one_of(st.integers(0, 40), sizes), max_size=3),
        }
    ),
    st.recursive(sizes, lambda x: st.lists(x) | st.dictionaries(st.text(), x), max_leaves=4),
)
headers = st.dictionaries(
    st.one_of(st.text(max_size=3), st.just("__metadata__"), st.just("x")), entries, max_size=4
)


def load_or_refuse(path: Path, content: bytes) -> None:
    """Either tensors that cover the data, or a ValueError; nothing is left of either."""
    path.write_bytes(content)
    with assert_no_leak():
        tensors = None
        with contextlib.suppress(ValueError):
            tensors = candle.load_safetensors(path)
        if tensors is not None:
            length = int.from_bytes(content[:8], "little")
            assert sum(t.nbytes for t in tensors.values()) == len(content) - 8 - length
            for t in tensors.values():
                t.tolist()
        t = tensors = None
    assert mappings(path) == 0


@settings(max_examples=100)
@given(headers, st.binary(max_size=40))
def test_headers_at_random(
    tmp_path_factory: pytest.TempPathFactory, header: Any, data: bytes
) -> None:
    load_or_refuse(tmp_path_factory.getbasetemp() / "random.safetensors", whole(header, data))


@settings(max_examples=100)
@given(st.data())
def test_good_files_with_bytes_changed(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    content = bytearray(whole({**GOOD, "__metadata__": {"a": "b"}}, DATA))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content) - 1))
        how = data.draw(st.sampled_from(["set", "digit", "drop", "add", "cut"]))
        if how == "set":
            content[at] = data.draw(st.integers(0, 255))
        elif how == "digit":
            digits = [i for i, byte in enumerate(content) if 48 <= byte <= 57]
            if digits:
                content[data.draw(st.sampled_from(digits))] = data.draw(st.integers(48, 57))
        elif how == "drop":
            del content[at]
        elif how == "add":
            content.insert(at, data.draw(st.integers(0, 255)))
        else:
            del content[at:]
        if not content:
            break
    load_or_refuse(tmp_path_factory.getbasetemp() / "changed.safetensors", bytes(content))


@settings(max_examples=100)
@given(st.binary(max_size=64))
def test_any_bytes(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    load_or_refuse(tmp_path_factory.getbasetemp() / "bytes.safetensors", content)


LONG = "n" * 1_000_000
NUMBERS = list(range(100_000))
TALKATIVE = {
    "a name": {LONG: 0},
    "a dtype": changed(dtype=LONG),
    "a shape that is none": changed(shape=[*NUMBERS, 1.5]),
    "too many axes": changed(shape=NUMBERS),
    "offsets": changed(data_offsets=NUMBERS),
    "a field": changed(**{LONG: 1}),
    "metadata's name": {"__metadata__": {LONG: 1}},
    "metadata's value": {"__metadata__": {"a": NUMBERS}},
    "a name with a gap": {LONG: entry("F32", [2], 2, 10)},
    "half a character": {"\ud800" + LONG: GOOD["x"]},
}


@pytest.mark.parametrize("case", TALKATIVE)
def test_messages_are_short_whatever_the_file_says(tmp_path: Path, case: str) -> None:
    path = tmp_path / "a.safetensors"
    path.write_bytes(whole(TALKATIVE[case], DATA))
    with pytest.raises(ValueError, match=r"a\.safetensors: ") as refused:
        candle.load_safetensors(path)
    assert len(str(refused.value)) < 1500


def test_a_name_twice_is_found_at_once(tmp_path: Path) -> None:
    """Among as many as there may be: comparing each with each would take days."""
    path = tmp_path / "a.safetensors"
    names = ",".join(f'"{i}":0' for i in [*range(100_000), 99_998, 7])
    path.write_bytes(raw("{" + names + "}"))
    with pytest.raises(ValueError, match="has the key '99998' twice"):
        candle.load_safetensors(path)
