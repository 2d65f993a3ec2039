"""The native codec and the plain one give the same answers, to good events and to bad ones."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pyarrow as pa
import pytest
from format_tools import Encodings
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)
from random_tables import rows_of, structs, types, values

from pyspark_pravega.errors import EventEncodeError
from pyspark_pravega.frames import framing
from pyspark_pravega.frames.bad_events import BadEventError
from pyspark_pravega.frames.native_module import SWITCH, module
from pyspark_pravega.serde.codec import Codec, arrow_batch, decode_to_views, takes_views
from pyspark_pravega.serde.encodings import WriterSchema, header
from pyspark_pravega.serde.formats import Schema, schema_for
from pyspark_pravega.serde.native import native_codec
from pyspark_pravega.serde.native.native_codec import NativeCodec, faster

pytestmark = [
    pytest.mark.skipif(module() is None, reason="the native wheel isn't installed, or switched off"),
    pytest.mark.in_turn,
]

GZIP = "application/x-gzip"
COMPACT = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}
FORMATS = ["avro", "json", "protobuf"]
MANY = settings(max_examples=max(200, settings().max_examples))


def for_protobuf(kind: DataType) -> DataType:
    """The type without what Protobuf can't hold: nulls in lists, and lists in lists."""
    if isinstance(kind, StructType):
        return StructType(
            [
                StructField(
                    field.name, for_protobuf(field.dataType), is_single(for_protobuf(field.dataType)) and field.nullable
                )
                for field in kind.fields
            ]
        )
    if isinstance(kind, ArrayType):
        return ArrayType(in_list(kind.elementType), False)
    if isinstance(kind, MapType):
        return MapType(StringType(), in_list(kind.valueType), False)
    return kind


def in_list(kind: DataType) -> DataType:
    nearest = for_protobuf(kind)
    return nearest if is_single(nearest) else StructType([StructField("inner", nearest, False)])


def is_single(kind: DataType) -> bool:
    return not isinstance(kind, (ArrayType, MapType))


def twins(table_format: str, table: StructType, codec: str = "") -> tuple[Codec, NativeCodec]:
    schema = schema_for(table_format, table, name="t", namespace="s")
    return twins_of(schema, codec)


def twins_of(schema: Schema, codec: str = "", *older: Schema) -> tuple[Codec, NativeCodec]:
    schemas = {7: writer(schema, codec), **{i: writer(one, "") for i, one in enumerate(older)}}
    plain = schema.plain_codec(schema.columns(), Encodings(schemas), write_id=7)
    native = faster(plain)
    assert isinstance(native, NativeCodec)
    return plain, native


def writer(schema: Schema, codec: str) -> WriterSchema:
    text = "" if schema.format == "protobuf" else schema.data.decode()
    return WriterSchema(schema_text=text, schema_data=schema.data, type=schema.type, codec=codec)


def answer(codec: Codec, payloads: pa.Array, columns: list[str]) -> Any:
    """Rows, or which event is bad. The entries of maps have no order. Views of the events get the same answer."""
    to_copies = answer_to(codec.decode, payloads, columns)
    if takes_views(codec):
        assert answer_to(codec.decode, views_of(payloads), columns) == to_copies
        for events in (payloads, views_of(payloads)):
            assert answer_to(partial(with_views, codec), events, columns) == to_copies
    return to_copies


@pytest.fixture(autouse=True)
def views_of_short_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_codec, "VIEWS_FROM_BYTES", 0)


def views_of(payloads: pa.Array) -> pa.Array:
    """Events as they are found in received bytes: the first one began in another buffer."""
    frames = [framing.join(payloads.slice(row, 1)).to_pybytes() for row in range(len(payloads))]
    events = framing.split(b"".join(frames[1:]), first=b"".join(frames[:1])).events
    assert events.type == pa.binary_view()
    return events


def with_views(codec: Codec, payloads: pa.Array, columns: list[str]) -> pa.RecordBatch:
    return arrow_batch(decode_to_views(codec, payloads, columns))


def answer_to(decode: Callable[[pa.Array, list[str]], pa.RecordBatch], payloads: pa.Array, columns: list[str]) -> Any:
    try:
        batch = decode(payloads, columns)
    except BadEventError as error:
        return error.index, error.encoding_id, error.reason
    batch.validate(full=True)
    assert batch.num_rows == len(payloads)
    return comparable(batch, columns)


def comparable(batch: pa.RecordBatch, columns: list[str]) -> list[tuple[str, str]]:
    # Broken events may hold days and times that Python has none for.
    plain = [batch.column(name).cast(timeless(batch.column(name).type)) for name in columns]
    return [(name, repr(ordered(values.type, values.to_pylist()))) for name, values in zip(columns, plain, strict=True)]


def timeless(kind: pa.DataType) -> pa.DataType:
    if kind in COMPACT:
        return COMPACT[kind]
    if pa.types.is_timestamp(kind):
        return pa.int64()
    if pa.types.is_date32(kind):
        return pa.int32()
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(timeless(kind.value_type)))
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, kind.item_field.with_type(timeless(kind.item_type)))
    if pa.types.is_struct(kind):
        fields = [kind.field(i) for i in range(kind.num_fields)]
        return pa.struct([field.with_type(timeless(field.type)).with_nullable(True) for field in fields])
    return kind


def ordered(kind: pa.DataType, rows: list[Any]) -> list[Any]:
    def one(kind: pa.DataType, value: Any) -> Any:
        if value is None:
            return None
        if pa.types.is_map(kind):
            return sorted(((key, repr(one(kind.item_type, of))) for key, of in value), key=repr)
        if pa.types.is_list(kind):
            return [one(kind.value_type, of) for of in value]
        if pa.types.is_struct(kind):
            return [one(kind.field(i).type, value[kind.field(i).name]) for i in range(kind.num_fields)]
        return value

    return [one(kind, value) for value in rows]


@pytest.mark.parametrize("table_format", FORMATS)
@MANY
@given(structs(types), st.sampled_from(["", GZIP]), st.data())
def test_rows_are_the_same_whoever_writes_and_reads(
    table_format: str, table: StructType, codec: str, data: st.DataObject
) -> None:
    if table_format == "protobuf":
        table = for_protobuf(table)  # type: ignore[assignment]
    plain, native = twins(table_format, table, codec)
    batch = rows_of(plain.schema, data.draw(st.lists(values(table, False), max_size=8)))
    columns = plain.schema.names
    by_plain, by_native = plain.encode(batch), native.encode(batch)
    by_native.validate(full=True)
    if table_format == "avro":
        assert by_native.equals(by_plain)
    expected = comparable(batch, columns)
    for payloads in (by_plain, by_native):
        assert answer(native, payloads, columns) == expected
        assert answer(plain, payloads, columns) == expected
    assert native.decode(by_native, columns).schema.equals(plain.schema, check_metadata=True)
    # A slice is written as if it were an array of its own.
    assert native.encode(batch.slice(1)).to_pylist() == by_native.to_pylist()[1:]
    # Any selection of columns, in any order, holds the same.
    some = data.draw(st.lists(st.sampled_from(columns), unique=True))
    assert answer(native, by_plain, some) == answer(plain, by_plain, some)


@pytest.mark.parametrize("table_format", FORMATS)
@MANY
@given(structs(types), st.data())
def test_of_broken_events_the_same_one_is_named(table_format: str, table: StructType, data: st.DataObject) -> None:
    if table_format == "protobuf":
        table = for_protobuf(table)  # type: ignore[assignment]
    plain, native = twins(table_format, table)
    rows = data.draw(st.lists(values(table, False), min_size=1, max_size=4))
    events = plain.encode(rows_of(plain.schema, rows)).to_pylist()
    broken = bytearray(data.draw(st.sampled_from(events)))
    for _ in range(data.draw(st.integers(1, 3))):
        change = data.draw(st.sampled_from(["set", "cut", "add"]))
        at = data.draw(st.integers(0, len(broken)))
        if change == "set" and at < len(broken):
            broken[at] = data.draw(st.integers(0, 255))
        elif change == "cut":
            del broken[at : at + data.draw(st.integers(1, 4))]
        else:
            broken[at:at] = data.draw(st.binary(max_size=4))
    events.insert(data.draw(st.integers(0, len(events))), bytes(broken))
    payloads = pa.array(events, pa.binary())
    columns = plain.schema.names
    assert answer(native, payloads, columns) == answer(plain, payloads, columns)
    some = data.draw(st.lists(st.sampled_from(columns), unique=True, min_size=1))
    assert answer(native, payloads, some) == answer(plain, payloads, some)


def test_what_follows_an_event_does_not_decide_what_is_said_of_it() -> None:
    table = StructType([StructField("f0", ArrayType(ArrayType(BooleanType(), False), True), True)])
    plain, native = twins("avro", table)
    broken = b"\x01\x00\x00\x00\x07\x02\x11\x02\x02\x02\x00\x00\x00\x00\x00\x02\x00"
    (other,) = plain.encode(rows_of(plain.schema, [{"f0": [[True], [False] * 20]}])).to_pylist()
    alone = answer(plain, pa.array([broken]), ["f0"])
    assert alone[0] == 0
    for events in [broken], [broken, other], [broken, b"\xff" * 20]:
        assert answer(plain, pa.array(events), ["f0"]) == alone
        assert answer(native, pa.array(events), ["f0"]) == alone


@pytest.mark.parametrize("table_format", FORMATS)
@given(structs(types), st.lists(st.binary(max_size=40), max_size=5))
def test_any_bytes_get_the_same_answer(table_format: str, table: StructType, bodies: list[bytes]) -> None:
    if table_format == "protobuf":
        table = for_protobuf(table)  # type: ignore[assignment]
    plain, native = twins(table_format, table)
    payloads = pa.array([header(7) + body for body in bodies], pa.binary())
    assert answer(native, payloads, plain.schema.names) == answer(plain, payloads, plain.schema.names)


@given(structs(types), structs(types), st.data())
def test_events_of_older_avro_schemas(table: StructType, other: StructType, data: st.DataObject) -> None:
    """The writer's columns and the table's have names in common, and any types."""
    older, newer = (schema_for("avro", one, name="t", namespace="s") for one in (other, table))
    plain, native = twins_of(newer, "", older)
    write = older.codec(older.columns(), Encodings({0: writer(older, "")}), write_id=0)
    rows = data.draw(st.lists(values(other, False), min_size=1, max_size=5))
    events = write.encode(rows_of(write.schema, rows)).to_pylist()
    new = data.draw(st.lists(values(table, False), max_size=3))
    events += plain.encode(rows_of(plain.schema, new)).to_pylist()
    payloads = pa.array(data.draw(st.permutations(events)), pa.binary())
    some = data.draw(st.lists(st.sampled_from(plain.schema.names), unique=True, min_size=1))
    assert answer(native, payloads, some) == answer(plain, payloads, some)


@pytest.mark.parametrize("table_format", FORMATS)
@given(st.lists(st.booleans(), min_size=1, max_size=12))
def test_good_events_among_bad_ones_are_found(table_format: str, good: list[bool]) -> None:
    table = StructType([StructField("a", StringType(), False), StructField("b", ArrayType(StringType()), False)])
    _, native = twins(table_format, table)
    rows = [{"a": f"{i}", "b": [f"{i}"] * (i % 3)} for i in range(len(good))]
    events = native.encode(rows_of(native.schema, rows)).to_pylist()
    payloads = pa.array(
        [e if fine else e[:-1] + b"\xff\xff" for e, fine in zip(events, good, strict=True)], pa.binary()
    )
    for events_given in (payloads, views_of(payloads)):
        good_and_bad = native.decode_good(events_given, ["b", "a"])
        assert good_and_bad is not None
        batch, bad = good_and_bad
        batch.validate(full=True)
        assert bad.tolist() == [i for i, fine in enumerate(good) if not fine]
        assert batch.to_pylist() == [row for row, fine in zip(rows, good, strict=True) if fine]


@pytest.mark.parametrize("table_format", ["avro", "json", "protobuf"])
def test_a_value_that_does_not_fit_is_refused_in_the_plain_codec_s_words(table_format: str) -> None:
    table = StructType([StructField("a", StringType(), False)])
    plain, native = twins(table_format, table)
    batch = pa.RecordBatch.from_arrays([pa.array(["x", None])], names=["a"])
    with pytest.raises(EventEncodeError) as by_native:
        native.encode(batch)
    with pytest.raises(EventEncodeError) as by_plain:
        plain.encode(batch)
    assert str(by_native.value) == str(by_plain.value)
    assert '"a"' in str(by_native.value)


def test_threads_may_share_a_codec() -> None:
    table = StructType([StructField("id", LongType()), StructField("s", StringType())])
    _, codec = twins("avro", table)
    rows = [{"id": number, "s": str(number)} for number in range(200)]
    payloads = codec.encode(pa.RecordBatch.from_pylist(rows, codec.schema))
    # A codec learns how to decode in its first call: there the threads get into each other's way.
    codecs = [pickle.loads(pickle.dumps(codec)) for _ in range(100)]
    patient = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as threads:
            batches = list(threads.map(lambda n: codecs[n // 8].decode(payloads, ["id", "s"]).to_pylist(), range(800)))
    finally:
        sys.setswitchinterval(patient)
    assert all(batch == rows for batch in batches)


def test_it_travels_to_executors_and_does_without_the_wheel_there(tmp_path: Any) -> None:
    table = StructType([StructField("a", StringType(), False)])
    schema = schema_for("json", table, name="t", namespace="s")
    native = faster(schema.plain_codec(schema.columns(), Encodings()))
    assert isinstance(native, NativeCodec)
    assert pickle.loads(pickle.dumps(native)).is_native
    (tmp_path / "codec").write_bytes(pickle.dumps(native))
    program = (
        "import pickle, sys, pyarrow as pa\n"
        "codec = pickle.load(open(sys.argv[1], 'rb'))\n"
        'rows = codec.decode(pa.array([b\'{"a": "b"}\'], pa.binary()), ["a"]).to_pylist()\n'
        "print(codec.is_native, rows)"
    )
    environment = {**os.environ, SWITCH: "0", "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", program, str(tmp_path / "codec")]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "False [{'a': 'b'}]"


@pytest.mark.parametrize("table_format", FORMATS)
def test_long_texts_and_bytes_are_views_of_what_was_received(
    table_format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    kinds = {
        "long": StringType(),
        "short": StringType(),
        "bytes": BinaryType(),
        "inner": ArrayType(StringType(), False),
    }
    table = StructType([StructField(name, kind, True) for name, kind in kinds.items()])
    _, native = twins(table_format, table)
    values: list[dict[str, Any]] = [
        {"long": "ü" * 100, "short": "s", "bytes": b"\\0" * 200, "inner": ["i" * 300]},
        {"long": None, "short": None, "bytes": None, "inner": []},
        {"long": 'a "quoted" one' * 20, "short": "", "bytes": b"b" * 12, "inner": []},
    ]
    rows = rows_of(native.schema, values)
    events = views_of(native.encode(rows))
    names = list(kinds)
    assert with_views(native, events, names) == rows
    batch = with_views(native, events, names)
    assert [field.type for field in batch.schema] == [pa.string_view(), pa.string(), pa.binary_view(), rows[3].type]
    assert batch.cast(rows.schema) == rows
    received = {buffer.address for buffer in events.buffers()[2:] if buffer}
    for name in ("long", "bytes"):
        assert received & {buffer.address for buffer in batch.column(name).buffers()[2:] if buffer}
    # All events' values together are short again: of the next ones there are copies.
    few = events.slice(1, 1)
    with_views(native, few, names)
    assert with_views(native, few, names).schema == rows.schema
    assert with_views(native, events, names) == rows
