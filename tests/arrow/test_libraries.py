"""Libraries that speak Arrow: their memory comes in, and candle's goes to them, each as it can."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import candle

if TYPE_CHECKING:
    from collections.abc import Callable


def counted(*shape: int, dtype: str = "float32") -> candle.Tensor:
    return candle.arange(int(np.prod(shape)), dtype=dtype).reshape(shape)


def codes(x: Any) -> list[str]:
    return [reason.code for reason in candle.explain(x).reasons]


class TestPolars:
    @pytest.fixture
    def pl(self) -> Any:
        return pytest.importorskip("polars")

    @pytest.mark.parametrize(
        "name", ["Int8", "Int16", "Int32", "Int64", "UInt8", "UInt64", "Float32", "Float64"]
    )
    def test_series_are_shared_read_only(self, pl: Any, name: str) -> None:
        s = pl.Series([1, 2, 3, 4], dtype=getattr(pl, name))
        for series in (s, s[1:3]):
            t = candle.asarray(series, copy=False)
            assert (t.tolist(), t.readonly) == (series.to_list(), True)
            assert t.data_ptr() == series.to_numpy(allow_copy=False).ctypes.data

    def test_arrays_and_lists_are_shared(self, pl: Any) -> None:
        rows = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]
        for kind in (pl.Array(pl.Float64, 2), pl.List(pl.Float64)):
            s = pl.Series(rows, dtype=kind)
            t = candle.from_arrow(s[1:], copy=False)
            assert t.tolist() == rows[1:]
            leaf = s.explode() if kind == pl.List(pl.Float64) else s.arr.explode()
            assert leaf.to_list() == [number for row in rows for number in row]

    def test_what_is_no_block_says_why(self, pl: Any) -> None:
        appended = pl.Series([1, 2]).append(pl.Series([3]))
        assert candle.asarray(appended).tolist() == [1, 2, 3]
        assert codes(appended) == ["chunks"]
        assert [t.tolist() for t in candle.from_arrow(appended, chunks="list")] == [[1, 2], [3]]
        bits = pl.Series([True, False, True, True])
        assert candle.asarray(bits[1:]).tolist() == [False, True, True]
        assert codes(bits) == ["bitmap"]

    def test_nulls_text_and_times(self, pl: Any) -> None:
        values, mask = candle.from_arrow(pl.Series([1, None, 3]), nulls="mask")
        assert (values[::2].tolist(), mask.tolist()) == ([1, 3], [False, True, False])
        for series, words in (
            (pl.Series([1, None]), "null"),
            (pl.Series(["a"]), "text"),
            (pl.Series(["a"], dtype=pl.Categorical), "dictionary"),
            (pl.Series([1]).cast(pl.Datetime("us")), "times"),
            (pl.Series([1]).cast(pl.Decimal(10, 2)), "decimals"),
        ):
            with pytest.raises(BufferError, match=words):
                candle.asarray(series)
        days = pl.Series([1, 2], dtype=pl.Int32).cast(pl.Date)
        assert candle.from_arrow(days, times="integers", copy=False).tolist() == [1, 2]

    def test_frames(self, pl: Any) -> None:
        frame = pl.DataFrame({"a": [1, 2], "b": [3, 4]})
        assert candle.asarray(frame).tolist() == [[1, 3], [2, 4]]
        b = candle.from_arrow(frame, column="b", copy=False)
        assert b.data_ptr() == frame["b"].to_numpy(allow_copy=False).ctypes.data

    def test_out(self, pl: Any) -> None:
        t = counted(6)
        s = pl.Series("x", t)
        assert (s.dtype, s.to_list()) == (pl.Float32, t.tolist())
        assert s.to_numpy(allow_copy=False).ctypes.data == t.data_ptr()
        m = counted(4, 2, 3)
        kept = pl.Series(m)
        back = candle.from_arrow(kept)
        assert (back.shape, back.tolist()) == (m.shape, m.tolist())
        assert pl.Series(candle.asarray([True, False])).to_list() == [True, False]

    def test_moves_are_told_at_the_callers_line(self, pl: Any) -> None:
        with candle.trace() as moves:
            pl.Series(counted(3))
        assert [move.where.split(":")[0] for move in moves] == [__file__]

    def test_out_as_arrays(self, pl: Any) -> None:
        pytest.importorskip("pyarrow")
        m = counted(4, 3)
        s = pl.Series(m.arrow(layout="list"))
        assert s.dtype == pl.Array(pl.Float32, 3)
        assert s.to_numpy(allow_copy=False).ctypes.data == m.data_ptr()


class TestPandas:
    @pytest.fixture
    def pd(self) -> Any:
        return pytest.importorskip("pandas")

    def test_columns_of_numpy_are_shared_by_numpy(
        self, pd: Any, in_child: Callable[..., Any]
    ) -> None:
        s = pd.Series([1.0, float("nan"), 3.0])
        t = candle.asarray(s, copy=False)
        assert (t.data_ptr(), t.readonly) == (s.to_numpy().ctypes.data, True)
        assert np.isnan(t.tolist()[1]), "NaN is a number to numpy, and no null"
        assert candle.asarray(pd.Series([True, False])).tolist() == [True, False]
        frame = pd.DataFrame(np.arange(6.0).reshape(3, 2), columns=["a", "b"])
        t = candle.asarray(frame, copy=False)
        assert (t.tolist(), t.data_ptr()) == (
            frame.to_numpy().tolist(),
            frame.to_numpy().ctypes.data,
        )
        with pytest.raises(BufferError, match=r"view\("):
            candle.asarray(pd.Series(pd.to_datetime(["2026-01-01"])))
        code = "import sys; sys.modules['pyarrow'] = None; import candle, pandas; "
        said = in_child(code + "print(candle.asarray(pandas.Series([1.5, None])).tolist())")
        assert said.check(quiet=False).strip() == "[1.5, nan]"

    def test_by_arrow_when_asked(self, pd: Any) -> None:
        pytest.importorskip("pyarrow")
        s = pd.Series([1.0, 2.0])
        t = candle.from_arrow(s, copy=False)
        assert (t.tolist(), t.data_ptr()) == ([1, 2], s.to_numpy().ctypes.data)
        values, mask = candle.from_arrow(pd.Series([1.0, float("nan")]), nulls="mask")
        assert (values.tolist()[0], mask.tolist()) == (1.0, [False, True])

    @pytest.mark.parametrize("index", [None, [5, 6], ["x", "y"], [[1, 1], [2, 3]]])
    def test_labels_of_rows_are_no_column(self, pd: Any, index: Any) -> None:
        """Of one dtype or of several: what pandas' own Arrow export has of them is not taken."""
        pytest.importorskip("pyarrow")
        for b in ([3, 4], [3.5, 4.5], [True, False]):
            frame = pd.DataFrame({"a": [1, 2], "b": b}, index=index)
            t = candle.asarray(frame, dtype="float64")
            assert t.tolist() == frame.to_numpy(dtype="float64").tolist()
        columns = 2 + (0 if index is None else 2 if isinstance(index[0], list) else 1)
        if index != ["x", "y"]:  # from_arrow takes what pandas exports
            frame = pd.DataFrame({"a": [1, 2], "b": [3, 4]}, index=index)
            assert candle.from_arrow(frame).shape == (2, columns)
            assert candle.from_arrow(frame.reset_index(drop=True)).shape == (2, 2)

    def test_other_columns_go_by_arrow(self, pd: Any) -> None:
        pa = pytest.importorskip("pyarrow")
        s = pd.Series(pa.array([1, 2, 3]), dtype=pd.ArrowDtype(pa.int64()))
        t = candle.asarray(s, copy=False)
        assert (t.tolist(), candle.explain(s).route) == ([1, 2, 3], "arrow_stream")
        with pytest.raises(BufferError, match="null"):
            candle.asarray(pd.Series([1, None], dtype="Int64"))
        with pytest.raises(BufferError, match="text"):
            candle.asarray(pd.Series(["a"]))
        frame = pd.DataFrame({"a": [1, 2], "b": [0.5, 1.5]})
        with pytest.raises(BufferError, match="column 1 is float64"):
            candle.asarray(frame)
        assert candle.from_arrow(frame, dtype="float64").tolist() == [[1, 0.5], [2, 1.5]]
        assert candle.from_arrow(frame, column="b", copy=False).tolist() == [0.5, 1.5]

    def test_out(self, pd: Any) -> None:
        pytest.importorskip("pyarrow")
        t = counted(3, dtype="int64")
        assert pd.Series.from_arrow(t).tolist() == [0, 1, 2]


class TestDuckDB:
    @pytest.fixture
    def duckdb(self) -> Any:
        return pytest.importorskip("duckdb")

    def test_relations_come_in(self, duckdb: Any) -> None:
        x = duckdb.sql("select range::float as a, (2 * range)::float as b from range(5)")
        assert candle.from_arrow(x, column="b").tolist() == [0, 2, 4, 6, 8]
        assert candle.asarray(x).tolist() == [[n, 2 * n] for n in range(5)]
        one = candle.from_arrow(duckdb.sql("select range as a from range(5)"), copy=False)
        assert (one.tolist(), one.readonly) == ([[n] for n in range(5)], True)

    def test_many_rows_come_in_chunks(self, duckdb: Any) -> None:
        """There is a validity buffer, and it has no nulls."""
        x = "select range as a from range(300000)"
        chunks = candle.from_arrow(duckdb.sql(x), column="a", chunks="list", copy=False)
        assert len(chunks) > 1
        whole = candle.from_arrow(duckdb.sql(x), column="a")
        assert whole.shape == (300_000,)
        assert (whole.numpy() == np.arange(300_000)).all()
        with pytest.raises(BufferError, match="null"):
            candle.from_arrow(duckdb.sql("select null::int as a"))

    def test_query_over_tensors(self, duckdb: Any) -> None:
        t = counted(6)
        assert t.shape  # the query finds it by its name
        assert duckdb.sql("select sum(value), count(*) from t").fetchall() == [(15.0, 6)]

    def test_query_behind_a_stream_may_need_python(self, duckdb: Any) -> None:
        """The GIL is let go while a stream is read: a function of the query waits for it."""
        db = duckdb.connect()
        db.create_function("twice", lambda x: 2 * x, ["BIGINT"], "BIGINT")
        x = db.sql("select twice(range) as a from range(20000)")
        assert candle.from_arrow(x, column="a").tolist() == [2 * n for n in range(20000)]

    def test_error_of_a_query_is_told(self, duckdb: Any) -> None:
        x = duckdb.sql("select cast(if(range = 4, 'x', '1') as int) as a from range(5)")
        with pytest.raises(BufferError, match="Conversion Error"):
            candle.from_arrow(x)


class TestNanoarrow:
    @pytest.fixture
    def na(self) -> Any:
        return pytest.importorskip("nanoarrow")

    def test_in(self, na: Any) -> None:
        x = na.c_array([1, 2, 3], na.int32())
        t = candle.from_arrow(x, copy=False)
        assert (t.tolist(), t.dtype, t.readonly) == ([1, 2, 3], candle.int32, True)
        assert t.data_ptr() == x.buffers[1]
        assert candle.asarray(na.Array([1.5, 2.5], na.float64())).tolist() == [1.5, 2.5]

    def test_out(self, na: Any) -> None:
        t = counted(3)
        x = na.c_array(t)
        assert (x.buffers[1], list(na.Array(t).iter_py())) == (t.data_ptr(), t.tolist())
        schema = na.c_schema(counted(2, 2, 3))
        assert (schema.format, dict(schema.metadata.items())) == (
            "+w:6",
            {
                b"ARROW:extension:name": b"arrow.fixed_shape_tensor",
                b"ARROW:extension:metadata": b'{"shape":[2,3]}',
            },
        )

    def test_device_arrays(self, na: Any) -> None:
        from nanoarrow import device

        t = counted(3)
        x = device.c_device_array(t)
        assert (x.device_type_id, x.device_id, x.array.buffers[1]) == (1, -1, t.data_ptr())


class TestPillow:
    @pytest.fixture
    def image(self) -> Any:
        return pytest.importorskip("PIL.Image")

    @pytest.mark.parametrize(("mode", "bands"), [("RGB", 4), ("RGBA", 4), ("L", 1), ("F", 1)])
    def test_images_come_in_as_they_lie(self, image: Any, mode: str, bands: int) -> None:
        """RGB has a fourth byte for each pixel; the picture is the first three."""
        picture = image.effect_noise((5, 4), 50).convert(mode)
        t = candle.from_arrow(picture, copy=False)
        assert t.readonly
        seen = t.view(4, 5, bands)[..., : len(picture.getbands())]
        assert np.array_equal(seen.numpy().squeeze(), np.asarray(picture))

    def test_out(self, image: Any) -> None:
        pixels = counted(12, 4, dtype="uint8")
        picture = image.fromarrow(_Lists(pixels), "RGBA", (4, 3))
        assert np.asarray(picture).tolist() == pixels.view(3, 4, 4).tolist()


class _Lists:
    """A tensor in plain lists, for those who take no extension, without pyarrow."""

    def __init__(self, t: candle.Tensor) -> None:
        self.t = t

    def __arrow_c_array__(self, requested_schema: object = None) -> Any:
        from candle._native import _core

        return _core.arrow_capsules(self.t, requested_schema, True, None)

    def __arrow_c_schema__(self) -> Any:
        return self.__arrow_c_array__()[0]


class TestArro3:
    @pytest.fixture
    def core(self) -> Any:
        return pytest.importorskip("arro3.core")

    def test_both_ways(self, core: Any) -> None:
        t = counted(4)
        x = core.Array.from_arrow(t)
        assert candle.from_arrow(x, copy=False).data_ptr() == t.data_ptr()
        table = core.Table.from_pydict({"a": t, "b": t})
        assert candle.from_arrow(table, column="b", copy=False).data_ptr() == t.data_ptr()


def test_no_library_is_imported(in_child: Callable[..., Any]) -> None:
    code = """
        import sys, candle
        t = candle.arange(6).reshape(2, 3)
        t.__arrow_c_array__(); t.__arrow_c_schema__(); t.__arrow_c_device_array__()
        assert candle.from_arrow(t).tolist() == t.tolist()
        assert candle.from_arrow(candle.ones(3).to("bfloat16")).tolist() == [1, 1, 1]
        print(sorted({"numpy", "pyarrow", "json", "typing"} & set(sys.modules)))
    """
    assert in_child(code).check().strip() == "[]"
    assert "candle" in sys.modules


def test_what_is_read_once_is_not_used_up_by_being_explained() -> None:
    pa = pytest.importorskip("pyarrow")
    reader = pa.table({"a": [1, 2, 3]}).to_reader()
    for ask in (candle.explain, lambda x: candle.shares_memory(x, x)):
        with pytest.raises(TypeError, match=r"read once.*x\.read_all\(\)"):
            ask(reader)
    assert candle.from_arrow(reader).tolist() == [[1], [2], [3]]
