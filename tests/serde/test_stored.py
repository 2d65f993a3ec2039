"""Types that a format has no place for: intervals, times, VARIANT, maps with keys that aren't strings."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from format_tools import Encodings
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    VarcharType,
    VariantType,
)
from random_tables import decimals, rows_of, scalars, structs, values
from since import is_missing

from pyspark_pravega.errors import EventEncodeError, UnsupportedTypeError
from pyspark_pravega.frames.bad_events import BadEventError
from pyspark_pravega.frames.native_module import module
from pyspark_pravega.serde import lenient
from pyspark_pravega.serde.codec import Codec
from pyspark_pravega.serde.encodings import WriterSchema, header
from pyspark_pravega.serde.formats import Schema, schema_for
from pyspark_pravega.serde.native.native_codec import describe
from pyspark_pravega.spark.types import TimeType

TIMES = [] if is_missing("4.1") else [TimeType(6), TimeType(0)]
FORMATS = ["avro", "json", "protobuf"]
KEYS = [IntegerType(), LongType(), DateType(), TimestampType(), TimestampNTZType(), BinaryType(), DecimalType(20, 3)]
stored_kinds = st.one_of(
    scalars,
    decimals,
    st.sampled_from([DayTimeIntervalType(), DayTimeIntervalType(1, 2), *TIMES, VariantType()]),
)
wide: st.SearchStrategy[DataType] = st.recursive(
    stored_kinds,
    lambda inner: st.one_of(
        st.builds(ArrayType, inner, st.booleans()),
        st.builds(MapType, st.sampled_from([*KEYS, StringType(), DayTimeIntervalType()]), inner, st.booleans()),
        structs(inner),
    ),
    max_leaves=2,
)
tables = st.lists(st.tuples(wide, st.booleans()), min_size=1, max_size=2).map(
    lambda kinds: StructType([StructField(f"f{i}", kind, null) for i, (kind, null) in enumerate(kinds)])
)


def codecs(table_format: str, table: StructType) -> tuple[Codec, Codec]:
    schema = schema_for(table_format, table, name="t", namespace="s")
    return codecs_of(schema, table)


def codecs_of(schema: Schema, table: StructType | None = None) -> tuple[Codec, Codec]:
    text = "" if schema.format == "protobuf" else schema.data.decode()
    schemas = {7: WriterSchema(schema_text=text, schema_data=schema.data, type=schema.type)}
    columns = schema.columns()
    if table is not None:
        assert columns == table
    return (
        schema.plain_codec(columns, Encodings(schemas), write_id=7),
        schema.codec(columns, Encodings(schemas), write_id=7),
    )


def in_protobuf(kind: DataType, *, listed: bool = False) -> DataType:
    """The nearest type that Protobuf has: no null and no list within lists, no null lists."""
    if isinstance(kind, StructType):
        fields = []
        for f in kind.fields:
            nearest = in_protobuf(f.dataType)
            fields.append(StructField(f.name, nearest, f.nullable and not isinstance(nearest, (ArrayType, MapType))))
        return StructType(fields)
    if isinstance(kind, (ArrayType, MapType)) and listed:
        return StructType([StructField("inner", in_protobuf(kind), False)])
    if isinstance(kind, ArrayType):
        return ArrayType(in_protobuf(kind.elementType, listed=True), True)
    if isinstance(kind, MapType):
        key, value = kind.keyType, in_protobuf(kind.valueType, listed=True)
        return MapType(key, value, True)
    return kind


def without_nulls(kind: DataType) -> DataType:
    """The same, with lists and maps whose values never have nulls, for making values."""
    if isinstance(kind, StructType):
        return StructType([StructField(f.name, without_nulls(f.dataType), f.nullable) for f in kind.fields])
    if isinstance(kind, ArrayType):
        return ArrayType(without_nulls(kind.elementType), False)
    if isinstance(kind, MapType):
        return MapType(kind.keyType, without_nulls(kind.valueType), False)
    return kind


@pytest.mark.parametrize("table_format", FORMATS)
@given(tables, st.data())
def test_rows_are_the_same_whoever_writes_and_reads(table_format: str, table: StructType, data: st.DataObject) -> None:
    made_of = table
    if table_format == "protobuf":
        table = in_protobuf(table)  # type: ignore[assignment]
        made_of = without_nulls(table)  # type: ignore[assignment]
    if table_format == "json" and len(table) == 1:
        table = made_of = StructType([*table.fields, StructField("other", LongType(), True)])
    plain, native = codecs(table_format, table)
    rows = data.draw(st.lists(values(made_of, False), max_size=2))
    batch = rows_of(plain.schema, rows)
    columns = plain.schema.names
    written = [plain.encode(batch), native.encode(batch)]
    for payloads in written:
        for codec in (plain, native):
            decoded = codec.decode(payloads, columns)
            decoded.validate(full=True)
            assert decoded.schema.equals(plain.schema, check_metadata=True)
            assert_same(decoded, batch)
    assert native.encode(batch.slice(1)).to_pylist() == written[1].to_pylist()[1:]
    some = data.draw(st.lists(st.sampled_from(columns), unique=True))
    assert_same(plain.decode(written[0], some), native.decode(written[0], some))


def assert_same(rows: pa.RecordBatch, expected: pa.RecordBatch) -> None:
    for name in expected.schema.names:
        one, other = (unordered(batch.column(name)) for batch in (rows, expected))
        assert repr(one) == repr(other)


def unordered(column: pa.Array) -> list[Any]:
    """Values; the entries of maps have no order, and JSON keeps no types within a VARIANT but its own."""
    from pyspark_pravega.serde import variant

    def one(kind: pa.DataType, scalar: Any) -> Any:
        if not scalar.is_valid:
            return None
        if pa.types.is_map(kind):
            entries = scalar.values.flatten() if scalar.values is not None else []
            pairs = [(one(kind.key_type, k), one(kind.item_type, v)) for k, v in zip(*entries, strict=True)]
            return sorted(pairs, key=repr)
        if pa.types.is_list(kind):
            return [one(kind.value_type, item) for item in scalar.values]
        if pa.types.is_struct(kind):
            names = [kind.field(i).name for i in range(kind.num_fields)]
            if names == ["value", "metadata"]:
                return variant.to_json(scalar["value"].as_py(), scalar["metadata"].as_py())
            return [one(kind.field(name).type, scalar[name]) for name in names]
        if pa.types.is_temporal(kind):
            return scalar.value
        return scalar.as_py()

    return [one(column.type, scalar) for scalar in column]


@pytest.mark.since_spark("4.1")
def test_they_are_told_in_the_schemas() -> None:
    table = StructType(
        [
            StructField("took", DayTimeIntervalType(1, 3), False),
            StructField("at", TimeType(3)),
            StructField("doc", VariantType()),
            StructField("days", MapType(DateType(), VariantType(), True)),
        ]
    )
    avro = json.loads(schema_for("avro", table, name="t", namespace="s").data)
    assert [field["type"] for field in avro["fields"]] == [
        {"type": "long", "spark.type": "interval hour to second"},
        ["null", {"type": "long", "logicalType": "time-micros", "spark.type": "time(3)"}],
        ["null", variant_record("t_doc")],
        [
            "null",
            {
                "type": "array",
                "logicalType": "map",
                "items": {
                    "type": "record",
                    "name": "t_days_entry",
                    "fields": [
                        {"name": "key", "type": {"type": "int", "logicalType": "date"}},
                        {"name": "value", "type": ["null", variant_record("t_days_entry_value")], "default": None},
                    ],
                },
            },
        ],
    ]
    of_json = json.loads(schema_for("json", table, name="t", namespace="s").data)["properties"]
    assert of_json["took"] == {"type": "integer", "spark.type": "interval hour to second"}
    assert of_json["doc"] == {"spark.type": "variant"}
    assert of_json["days"]["type"] == ["array", "null"]
    assert of_json["days"]["items"]["required"] == ["key"]


def variant_record(name: str) -> dict[str, Any]:
    fields = [{"name": part, "type": "bytes"} for part in ("metadata", "value")]
    return {"type": "record", "name": name, "logicalType": "variant", "fields": fields}


@pytest.mark.parametrize("table_format", FORMATS)
def test_the_codec_is_told(table_format: str) -> None:
    table = StructType([StructField("took", DayTimeIntervalType()), StructField("m", MapType(DateType(), LongType()))])
    if table_format == "protobuf":
        table = in_protobuf(table)  # type: ignore[assignment]
    plain, native = codecs(table_format, table)
    assert describe(plain) == f"{table_format}, plain"
    assert describe(native).startswith(f"{table_format}, {'native' if module() else 'plain'}")


def test_char_keys_are_strings() -> None:
    table = StructType([StructField("m", MapType(VarcharType(3), LongType()))])
    for table_format in ("avro", "json"):
        (column,) = schema_for(table_format, table, name="t", namespace="s").columns()
        assert column.dataType == MapType(StringType(), LongType())


class TestDocuments:
    """JSON whose only column is a VARIANT: each event is one document."""

    TABLE = StructType([StructField("doc", VariantType(), True, {"comment": "any"})])
    TEXTS = (b'{"a": 1, "b": [true, null]}', b"[1.5]", b'"text"', b"17", b"null", b' {"a": 2}\n\0\0')

    def test_they_are_whole_events(self) -> None:
        plain, native = codecs("json", self.TABLE)
        payloads = pa.array([*self.TEXTS, header(7) + b"{}"], pa.binary())
        for codec in (plain, native):
            batch = codec.decode(payloads, ["doc"])
            assert batch.schema.equals(codec.schema, check_metadata=True)
            assert [json.loads(one) for one in unordered(batch.column(0))] == [
                *({"a": 1, "b": [True, None]}, [1.5], "text", 17, None, {"a": 2}, {})
            ]
            assert codec.decode(codec.encode(batch), ["doc"]).equals(batch)
            assert codec.decode(payloads, []).num_rows == 7
            assert describe(codec) == "json, plain"
        written = plain.encode(plain.decode(payloads.slice(0, 1), ["doc"]))
        assert written.to_pylist() == [header(7) + b'{"a":1,"b":[true,null]}']

    def test_what_is_no_json_is_bad(self) -> None:
        plain, _ = codecs("json", self.TABLE)
        payloads = pa.array([b"1", b"{", header(7) + b"1e999"], pa.binary())
        with pytest.raises(BadEventError, match="it isn't JSON") as error:
            plain.decode(payloads, ["doc"])
        assert error.value.index == 1
        with pytest.raises(BadEventError, match="out of the range of DOUBLE") as error:
            plain.decode(payloads.slice(2), ["doc"])
        assert error.value.encoding_id == 7
        assert lenient.decode(plain, payloads, ["doc"], lenient.PERMISSIVE).bad.tolist() == [1, 2]

    def test_no_document_is_no_event(self) -> None:
        plain, _ = codecs("json", self.TABLE)
        with pytest.raises(EventEncodeError, match=r"holds NULL, .* parse_json\('null'\)"):
            plain.encode(pa.RecordBatch.from_pylist([{"doc": None}], schema=plain.schema))

    @pytest.mark.parametrize("text", ["{}", "true", '{"type": "array"}', '{"type": "object"}', '{"oneOf": [{}, {}]}'])
    def test_documents_of_others(self, text: str) -> None:
        schema = Schema(format="json", type="x", data=text.encode())
        assert schema.columns() == StructType([StructField("value", VariantType(), True)])
        plain, _ = codecs_of(schema)
        assert unordered(plain.decode(pa.array([b"[1]"], pa.binary()), ["value"]).column(0)) == ["[1]"]


@pytest.mark.since_spark("4.1")
class TestRefused:
    def json(self) -> Codec:
        return codecs("json", StructType([StructField("v", VariantType()), StructField("t", TimeType(6))]))[1]

    def test_a_variant_null_is_not_null(self) -> None:
        codec = self.json()
        rows = [{"v": {"value": b"\x00", "metadata": b"\x01\x00\x00"}, "t": None}]
        with pytest.raises(EventEncodeError, match='column "v" holds a VARIANT null'):
            codec.encode(pa.RecordBatch.from_pylist(rows, schema=codec.schema))

    def test_bytes_that_are_no_variant(self) -> None:
        codec = self.json()
        rows = [{"v": {"value": b"\x02\xff", "metadata": b""}, "t": None}]
        with pytest.raises(EventEncodeError, match='"v" can\'t be written as JSON: its bytes'):
            codec.encode(pa.RecordBatch.from_pylist(rows, schema=codec.schema))

    def test_a_time_that_is_too_fine(self) -> None:
        codec = self.json()
        batch = pa.RecordBatch.from_arrays(
            [pa.nulls(1, codec.schema.field(0).type), pa.array([1], pa.time64("ns"))], schema=codec.schema
        )
        with pytest.raises(EventEncodeError, match='"t" is finer than a microsecond'):
            codec.encode(batch)

    @pytest.mark.parametrize(
        ("number", "good"), [(0, True), (86_399_999_999, True), (-1, False), (86_400_000_000, False)]
    )
    def test_a_time_out_of_the_day(self, number: int, good: bool) -> None:
        codec = self.json()
        payloads = pa.array([b"{}", f'{{"t": {number}}}'.encode()], pa.binary())
        if good:
            assert codec.decode(payloads, ["t"]).column(0).cast(pa.int64()).to_pylist() == [None, number * 1000]
            return
        with pytest.raises(BadEventError, match="out of the range of TIME") as error:
            codec.decode(payloads, ["v", "t"])
        assert error.value.index == 1

    def test_the_first_bad_event_is_named(self) -> None:
        codec = self.json()
        payloads = pa.array([b"{}", b'{"t": -1}', b'{"v": 1e999}', b"{"], pa.binary())
        with pytest.raises(BadEventError, match='"t"') as error:
            codec.decode(payloads, ["v", "t"])
        assert error.value.index == 1
        with pytest.raises(BadEventError, match="can't be a VARIANT") as error:
            codec.decode(payloads, ["v"])
        assert error.value.index == 2
        assert lenient.decode(codec, payloads, ["v"], lenient.DROP_MALFORMED).bad.tolist() == [1, 2, 3]

    @pytest.mark.parametrize("table_format", FORMATS)
    def test_times_finer_than_the_formats(self, table_format: str) -> None:
        table = StructType([StructField("t", TimeType(9))])
        with pytest.raises(UnsupportedTypeError, match=r"TIME\(6\)"):
            schema_for(table_format, table, name="t", namespace="s")
