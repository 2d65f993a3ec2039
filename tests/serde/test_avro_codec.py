"""What the Avro codec does beyond types: columns, nulls, time zones, compression, headers, pickling."""

from __future__ import annotations

import datetime
import decimal
import gzip
import pickle
import random
from typing import Any

import pyarrow as pa
import pytest
from avro_tools import Encodings, codec, column, datum, event, events, record

from pyspark_pravega.errors import ConfigurationError, EventEncodeError, UnsupportedTypeError
from pyspark_pravega.frames.bad_events import BadEventError
from pyspark_pravega.serde.avro.avro_codec import AvroCodec
from pyspark_pravega.serde.encodings import WriterSchema
from pyspark_pravega.serde.types import avro_to_spark

GZIP, SNAPPY = "application/x-gzip", "application/x-snappy-framed"
TWO = record(column("a", "long"), column("b", ["null", "string"], default=None))
MICROS = {"type": "long", "logicalType": "timestamp-micros"}


def rows(*values: dict[str, Any], **types: pa.DataType) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(list(values), schema=pa.schema(list(types.items())))


def written(kind: Any, batch: pa.RecordBatch) -> Any:
    """What is read after writing a batch with a column "a" of an Avro type."""
    table_codec = codec(record(column("a", kind)))
    return table_codec.decode(table_codec.encode(batch), ["a"]).column(0).to_pylist()


def test_no_events_make_an_empty_batch_of_the_schema() -> None:
    table_codec = codec(TWO)
    batch = table_codec.decode(events(), ["b", "a"])
    assert (batch.num_rows, batch.schema.names) == (0, ["b", "a"])
    assert len(table_codec.encode(table_codec.decode(events(), ["a", "b"]))) == 0
    assert table_codec.decode(events(), []).num_rows == 0


def test_columns_are_matched_by_name() -> None:
    table_codec = codec(TWO)
    payloads = table_codec.encode(rows({"b": "x", "a": 1}, b=pa.string(), a=pa.int64()))
    assert payloads.to_pylist() == [event(0, datum(TWO, {"a": 1, "b": "x"}))]


@pytest.mark.parametrize("names", [["a"], ["a", "b", "c"], ["a", "B"]])
def test_missing_and_unknown_columns_are_refused(names: list[str]) -> None:
    batch = pa.RecordBatch.from_pydict({name: pa.array([1]) for name in names})
    with pytest.raises(EventEncodeError, match="the table has a, b"):
        codec(TWO).encode(batch)


def test_null_in_a_column_that_is_not_nullable_is_refused_by_name() -> None:
    with pytest.raises(EventEncodeError, match='"a" holds null'):
        codec(TWO).encode(rows({"a": None, "b": None}, a=pa.int64(), b=pa.string()))
    nested = record(column("s", ["null", {"type": "record", "name": "N", "fields": [column("x", "int")]}]))
    with pytest.raises(EventEncodeError, match=r'"s\.x" holds null'):
        codec(nested).encode(rows({"s": {"x": None}}, s=pa.struct([("x", pa.int32())])))


def test_what_lies_beneath_a_null_is_not_written() -> None:
    """A struct's children may hold anything where the struct is null."""
    inner = pa.array([1, None, 3], type=pa.int32())
    struct = pa.StructArray.from_arrays([inner], ["x"], mask=pa.array([False, True, False]))
    nested = record(column("s", ["null", {"type": "record", "name": "N", "fields": [column("x", "int")]}]))
    table_codec = codec(nested)
    payloads = table_codec.encode(pa.RecordBatch.from_arrays([struct], ["s"]))
    assert table_codec.decode(payloads, ["s"]).column(0).to_pylist() == [{"x": 1}, None, {"x": 3}]
    lists = pa.ListArray.from_arrays(
        pa.array([0, 2, 4, 5], pa.int32()), pa.array([1, 2, None, None, 5]), mask=pa.array([False, True, False])
    )
    table_codec = codec(record(column("a", ["null", {"type": "array", "items": "long"}])))
    payloads = table_codec.encode(pa.RecordBatch.from_arrays([lists], ["a"]))
    assert table_codec.decode(payloads, ["a"]).column(0).to_pylist() == [[1, 2], None, [5]]


def test_null_may_be_any_branch_of_the_union() -> None:
    last = record(column("a", ["string", "null"]))
    table_codec = codec(last)
    payloads = table_codec.encode(rows({"a": "x"}, {"a": None}, a=pa.string()))
    assert payloads.to_pylist() == [event(0, datum(last, {"a": value})) for value in ("x", None)]


def test_another_time_zone_is_the_same_instant() -> None:
    instant = datetime.datetime(1969, 7, 20, 20, 17, 40, 123456, tzinfo=datetime.UTC)
    batch = rows({"a": instant}, a=pa.timestamp("us", tz="America/New_York"))
    assert written(MICROS, batch) == [instant]


@pytest.mark.parametrize(
    ("kind", "array"),
    [
        (MICROS, pa.array([0], pa.timestamp("us"))),
        ({"type": "long", "logicalType": "local-timestamp-micros"}, pa.array([0], pa.timestamp("us", tz="UTC"))),
        ("string", pa.array([1])),
        ("long", pa.array(["1"])),
        ("long", pa.array([1.0])),
        ("int", pa.array([2**31])),
        ("float", pa.array([0.1])),
        ({"type": "int", "spark.type": "tinyint"}, pa.array([128], pa.int32())),
        ("string", pa.array([b"x"])),
        ({"type": "long", "logicalType": "timestamp-millis"}, pa.array([1], pa.timestamp("us", tz="UTC"))),
        (MICROS, pa.array([1], pa.timestamp("ns", tz="UTC"))),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2},
            pa.array([decimal.Decimal("1.005")]),
        ),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2},
            pa.array([decimal.Decimal("100.00")]),
        ),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, pa.array(["B"])),
        ({"type": "fixed", "name": "F", "size": 2}, pa.array([b"abc"])),
        ({"type": "array", "items": "long"}, pa.array([1])),
        ({"type": "map", "values": "long"}, pa.array([[1]])),
        ({"type": "record", "name": "N", "fields": [column("x", "int")]}, pa.array([{"y": 1}])),
    ],
)
def test_what_would_change_a_value_is_refused_by_name(kind: Any, array: pa.Array) -> None:
    with pytest.raises(EventEncodeError, match='"a"'):
        written(kind, pa.RecordBatch.from_arrays([array], ["a"]))


@pytest.mark.parametrize(
    ("kind", "array", "expected"),
    [
        ("long", pa.array([1], pa.int8()), 1),
        ("int", pa.array([-5], pa.int64()), -5),
        ("double", pa.array([1.5], pa.float32()), 1.5),
        ("string", pa.array(["x"]).dictionary_encode(), "x"),
        ("string", pa.array(["x"], pa.large_string()), "x"),
        ("bytes", pa.array([b"x"], pa.large_binary()), b"x"),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, pa.array(["B"]), "B"),
        ({"type": "fixed", "name": "F", "size": 2}, pa.array([b"ab"]), b"ab"),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 3},
            pa.array([decimal.Decimal("-1.25")]),
            decimal.Decimal("-1.250"),
        ),
        (
            {"type": "fixed", "name": "F", "size": 20, "logicalType": "decimal", "precision": 38, "scale": 1},
            pa.array([decimal.Decimal("-999999999999999999.9")]),
            decimal.Decimal("-999999999999999999.9"),
        ),
        (
            {"type": "long", "logicalType": "timestamp-millis"},
            pa.array([-1000], pa.timestamp("us", tz="UTC")),
            datetime.datetime(1969, 12, 31, 23, 59, 59, 999000, tzinfo=datetime.UTC),
        ),
    ],
)
def test_what_keeps_the_value_is_taken(kind: Any, array: pa.Array, expected: Any) -> None:
    assert written(kind, pa.RecordBatch.from_arrays([array], ["a"])) == [expected]


@pytest.mark.parametrize("compression", [GZIP, SNAPPY])
def test_compressed_events_are_read_and_written(compression: str) -> None:
    table_codec = codec(TWO, compression=compression)
    batch = rows(*({"a": i, "b": "x" * i if i % 3 else None} for i in range(50)), a=pa.int64(), b=pa.string())
    payloads = table_codec.encode(batch)
    assert payloads[40].as_py()[:5] == event(0, b"")
    assert len(payloads[40].as_py()) < 45
    assert table_codec.decode(payloads, ["a", "b"]).to_pylist() == batch.to_pylist()


@pytest.mark.parametrize("compression", [GZIP, SNAPPY])
def test_the_official_serializers_leave_zeros_behind_a_compressed_datum(compression: str) -> None:
    table_codec = codec(TWO, compression=compression)
    body = datum(TWO, {"a": 5, "b": "x"})

    def compressed(plain: bytes) -> bytes:
        if compression == GZIP:
            return event(0, gzip.compress(plain))
        return event(0, pa.compress(plain, codec="snappy", asbytes=True))

    good = compressed(body.ljust(128, b"\0"))
    assert table_codec.decode(events(good, good), ["a"]).to_pylist() == [{"a": 5}, {"a": 5}]
    with pytest.raises(BadEventError) as caught:
        table_codec.decode(events(good, compressed(body + b"\0\1")), ["a"])
    assert caught.value.index == 1


@pytest.mark.parametrize("compression", [GZIP, SNAPPY])
def test_broken_compression_is_a_bad_event(compression: str) -> None:
    table_codec = codec(TWO, compression=compression)
    good = table_codec.encode(rows({"a": 1, "b": "x"}, a=pa.int64(), b=pa.string()))[0].as_py()
    some = random.Random(1)
    junk = [b"", b"\0", good[5:-1], good[5:8], b"\xff" * 10, b"\xff\xff\xff\xff\x0f" + b"a" * 9]
    junk += [some.randbytes(20) for _ in range(50)]
    for body in junk:
        with pytest.raises(BadEventError) as caught:
            table_codec.decode(events(good, event(0, body), good), ["a"])
        assert (caught.value.index, caught.value.encoding_id) == (1, 0)


def test_an_unknown_compression_is_refused() -> None:
    table_codec = codec(TWO, compression="application/x-secret")
    with pytest.raises(BadEventError, match="x-secret"):
        table_codec.decode(events(event(0, b"")), ["a"])
    with pytest.raises(UnsupportedTypeError, match="x-secret"):
        table_codec.encode(rows({"a": 1, "b": None}, a=pa.int64(), b=pa.string()))


def test_without_headers_events_are_bare_datums() -> None:
    table_codec = AvroCodec(TWO, avro_to_spark(TWO), Encodings(), header=False)
    batch = rows({"a": 1, "b": "x"}, {"a": 2, "b": None}, a=pa.int64(), b=pa.string())
    payloads = table_codec.encode(batch)
    assert payloads.to_pylist() == [datum(TWO, row) for row in batch.to_pylist()]
    assert table_codec.decode(payloads, ["a", "b"]).to_pylist() == batch.to_pylist()


def test_a_codec_for_reading_does_not_write() -> None:
    with pytest.raises(ConfigurationError, match="reading only"):
        codec(TWO, write=None).encode(rows({"a": 1, "b": "x"}, a=pa.int64(), b=pa.string()))


def test_a_codec_travels() -> None:
    table_codec = codec(TWO)
    batch = rows({"a": 1, "b": "x"}, a=pa.int64(), b=pa.string())
    payloads = table_codec.encode(batch)
    table_codec.decode(payloads, ["a"])
    again = pickle.loads(pickle.dumps(table_codec))
    assert again.encode(batch).equals(payloads)
    assert again.decode(payloads, ["a", "b"]).to_pylist() == batch.to_pylist()


def test_a_table_may_show_some_of_its_schemas_columns() -> None:
    table_codec = AvroCodec(
        TWO, avro_to_spark(record(column("b", ["null", "string"]))), Encodings({0: WriterSchema(schema_text=TWO)})
    )
    assert table_codec.decode(events(event(0, datum(TWO, {"a": 1, "b": "x"}))), ["b"]).to_pylist() == [{"b": "x"}]


def test_slices_of_payloads_are_decoded_like_arrays_of_their_own() -> None:
    table_codec = codec(TWO)
    payloads = events(*(event(0, datum(TWO, {"a": i, "b": str(i)})) for i in range(10)))
    assert table_codec.decode(payloads.slice(3, 4), ["a"]).column(0).to_pylist() == [3, 4, 5, 6]
    assert table_codec.decode(payloads.cast(pa.large_binary()), ["a"]).column(0).to_pylist() == list(range(10))
