"""Which JSON Schemas and Protobuf messages Spark's types are written as, and what those of others are read as."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from format_tools import file_set
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from hypothesis import given
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    CalendarIntervalType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
    TimestampType,
    VarcharType,
    YearMonthIntervalType,
)
from random_tables import structs, types
from since import is_missing

from pyspark_pravega.errors import SchemaError, UnsupportedTypeError
from pyspark_pravega.serde.types import (
    CHAR_VARCHAR,
    arrow_safe,
    avro_to_spark,
    json_to_spark,
    protobuf_to_spark,
    spark_to_avro,
    spark_to_json,
    spark_to_protobuf,
)
from pyspark_pravega.spark.types import TimeType


def one(kind: DataType, nullable: bool = True) -> StructType:
    return StructType([StructField("a", kind, nullable)])


def of_json(schema: Any, *required: str, **more: Any) -> StructField:
    text = json.dumps({"type": "object", "properties": {"a": schema}, "required": list(required), **more})
    return json_to_spark(text)["a"]


DERIVED = ("a", "_a", "__a", "X_a", "A", "AEntry", "aEntry", "_AEntry", "AType", "a_type", "Timestamp", "T", "x", "key")
"""Names of which formats make those of messages, entries and oneofs, and such names."""
OF_NAMES: tuple[DataType, ...] = (
    *(LongType(), TimestampType()),
    StructType([StructField("a", LongType()), StructField("_a", StructType([StructField("a", TimestampType())]))]),
    MapType(LongType(), StructType([StructField("a", LongType()), StructField("_a", LongType())])),
)


def test_a_column_may_be_called_as_what_a_format_makes_of_another_one_s_name() -> None:
    for x, y in itertools.combinations(DERIVED, 2):
        for kinds in itertools.product(OF_NAMES, repeat=2):
            if x.lower() == y.lower():
                continue
            fields = [StructField(name, kind) for name, kind in zip((x, y), kinds, strict=True)]
            table = StructType([*fields, StructField("nested", StructType(fields))])
            assert avro_to_spark(spark_to_avro(table, name="T", namespace="s")) == table
            assert json_to_spark(spark_to_json(table, name="T")) == table
            maps = [entry_of(name) for name, kind in zip((x, y), kinds, strict=True) if isinstance(kind, MapType)]
            if len({*maps}) < len(maps) or {*maps} & {x, y}:
                with pytest.raises(UnsupportedTypeError, match=f'"({x}|{y})" and "({x}|{y})".*rename'):
                    spark_to_protobuf(table, name="T", namespace="s")
                with pytest.raises(UnsupportedTypeError, match=f'"nested.({x}|{y})" and "nested.({x}|{y})".*rename'):
                    spark_to_protobuf(StructType(table.fields[2:]), name="T", namespace="s")
            else:
                name, data = spark_to_protobuf(table, name="T", namespace="s")
                # Repeated fields are never null.
                assert protobuf_to_spark(data, name).simpleString() == table.simpleString()


def entry_of(name: str) -> str:
    """What protoc calls the entries of a map."""
    return "".join(part[:1].upper() + part[1:] for part in name.split("_")) + "Entry"


@given(structs(types))
def test_a_table_s_json_schema_says_all_of_its_types(table: StructType) -> None:
    assert json_to_spark(spark_to_json(table, name="t")) == table


def test_lengths_and_comments_are_kept() -> None:
    table = StructType([StructField("a", VarcharType(7), True, {"comment": "short"})])
    expected = StructType([StructField("a", StringType(), True, {"comment": "short", CHAR_VARCHAR: "varchar(7)"})])
    assert json_to_spark(spark_to_json(table, name="t")) == expected
    message, descriptors = spark_to_protobuf(table, name="t", namespace="s")
    columns = protobuf_to_spark(descriptors, message)
    assert columns == arrow_safe(one(VarcharType(7)))


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        ({"type": "integer"}, LongType()),
        ({"type": "integer", "format": "utc-millisec"}, TimestampType()),
        ({"type": "integer", "format": "int32"}, IntegerType()),
        ({"type": ["integer", "number"]}, DoubleType()),
        ({"type": "string", "format": "date-time"}, TimestampType()),
        ({"type": "string", "contentEncoding": "base64"}, BinaryType()),
        ({"type": ["string", "null"], "format": "date"}, DateType()),
        ({"enum": ["a", "b"]}, StringType()),
        ({"const": "a"}, StringType()),
        ({}, StringType()),
        (True, StringType()),
        ({"type": ["string", "integer"]}, StringType()),
        ({"type": "object"}, StringType()),
        ({"type": "array", "items": [{"type": "string"}]}, StringType()),
        ({"anyOf": [{"type": "null"}, {"type": "boolean"}]}, BooleanType()),
        ({"allOf": [{"$ref": "#/definitions/N"}]}, StructType([StructField("x", LongType())])),
        ({"$ref": "#/definitions/N"}, StructType([StructField("x", LongType())])),
        ({"type": "array", "items": {"type": "string"}}, ArrayType(StringType(), True)),
        ({"type": "object", "additionalProperties": {"type": "number"}}, MapType(StringType(), DoubleType(), True)),
        ({"properties": {"x": {"type": "string"}}}, StructType([StructField("x", StringType())])),
    ],
)
def test_json_schemas_of_others(schema: Any, kind: DataType) -> None:
    definitions = {"N": {"type": "object", "properties": {"x": {"type": "integer"}}}}
    assert of_json(schema, definitions=definitions).dataType == kind


@pytest.mark.parametrize(
    ("field", "nullable"),
    [
        (of_json({"type": "string"}), True),
        (of_json({"type": "string"}, "a"), False),
        (of_json({"type": ["string", "null"]}, "a"), True),
        (of_json({"oneOf": [{"type": "null"}, {"type": "string"}]}, "a"), True),
        (of_json({"type": "string", "required": True}), False),
    ],
)
def test_a_property_may_be_null_unless_it_is_required_and_has_no_null(field: StructField, nullable: bool) -> None:
    assert field.nullable is nullable


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[]", "is an object"),
        ("{", "isn't JSON"),
        ('{"properties": {"a": {"$ref": "other.json"}}}', "another document"),
        ('{"properties": {"a": {"$ref": "#/definitions/X"}}}', "has no #/definitions/X"),
        ('{"properties": {"a": {"type": "null"}}}', "always null"),
        ('{"properties": {"a": {"type": "string"}, "A": {"type": "string"}}}', "differ at most in case"),
    ],
)
def test_json_schemas_that_are_no_tables(text: str, words: str) -> None:
    with pytest.raises(SchemaError, match=words):
        json_to_spark(text)


NO_FORMAT = [YearMonthIntervalType(), CalendarIntervalType(), NullType(), StringType("UTF8_LCASE")]
if not is_missing("4.1"):
    NO_FORMAT.append(TimeType(9))


@pytest.mark.parametrize("kind", [*NO_FORMAT, MapType(NullType(), LongType()), ArrayType(NullType())])
def test_what_json_can_not_hold_is_refused_by_its_column(kind: DataType) -> None:
    with pytest.raises(UnsupportedTypeError, match='column "a'):
        spark_to_json(one(kind), name="t")


@pytest.mark.parametrize(
    "kind",
    [
        *NO_FORMAT,
        MapType(NullType(), LongType()),
        ArrayType(ArrayType(LongType())),
        MapType(StringType(), ArrayType(LongType())),
        StructType([StructField("b", ArrayType(MapType(StringType(), LongType())))]),
    ],
)
def test_what_protobuf_can_not_hold_is_refused_by_its_column(kind: DataType) -> None:
    with pytest.raises(UnsupportedTypeError, match='column "a'):
        spark_to_protobuf(one(kind), name="t", namespace="s")


def test_nullable_columns_are_optional_and_lists_are_never_null() -> None:
    table = StructType(
        [
            StructField("a", LongType()),
            StructField("b", LongType(), False),
            StructField("c", ArrayType(LongType())),
            StructField("d", one(LongType())),
            StructField("e", TimestampType(), False),
            StructField("f", one(LongType()), False),
            StructField("g", MapType(IntegerType(), one(TimestampType()))),
        ]
    )
    name, data = spark_to_protobuf(table, name="my-table", namespace="my-scope")
    columns = protobuf_to_spark(data, name)
    assert name == "my_scope.my_table"
    assert [field.dataType for field in columns] == [field.dataType for field in table]
    assert {field.name: field.nullable for field in columns} == {
        "a": True, "b": False, "c": False, "d": True, "e": False, "f": False, "g": False,
    }  # fmt: skip


MESSAGE = """
name: "x.proto" package: "p" syntax: "proto3" dependency: "google/protobuf/wrappers.proto"
message_type {
  name: "M"
  field { name: "u32" number: 1 type: TYPE_UINT32 label: LABEL_OPTIONAL }
  field { name: "u64" number: 2 type: TYPE_FIXED64 label: LABEL_OPTIONAL }
  field { name: "w" number: 3 type: TYPE_MESSAGE type_name: ".google.protobuf.Int64Value" label: LABEL_OPTIONAL }
  field { name: "e" number: 4 type: TYPE_ENUM type_name: ".p.E" label: LABEL_OPTIONAL }
  field { name: "x" number: 5 type: TYPE_STRING label: LABEL_OPTIONAL oneof_index: 0 }
  field { name: "y" number: 6 type: TYPE_INT64 label: LABEL_OPTIONAL oneof_index: 0 }
  oneof_decl { name: "one" }
}
enum_type { name: "E" value { name: "ZERO" number: 0 } }
"""


def test_messages_of_others() -> None:
    columns = protobuf_to_spark(file_set(MESSAGE), "p.M")
    assert [(field.name, field.dataType, field.nullable) for field in columns] == [
        ("u32", LongType(), False),
        ("u64", DecimalType(20, 0), False),
        ("w", LongType(), True),
        ("e", StringType(), False),
        ("x", StringType(), True),
        ("y", LongType(), True),
    ]
    assert protobuf_to_spark(file_set(MESSAGE), "") == columns, "the first message"


@pytest.mark.parametrize(
    ("data", "name", "words"),
    [
        (b"\xff", "p.M", "isn't a FileDescriptorSet"),
        (file_set(MESSAGE), "p.N", 'no message "p.N"'),
        (file_set('name: "x" dependency: "y.proto"'), "p.M", 'lacks the file "y.proto", which "x" imports'),
        (
            file_set(
                'name: "x" syntax: "proto3" message_type { name: "M" field { name: "m" number: 1 type: TYPE_MESSAGE '
                'type_name: ".M" label: LABEL_REPEATED } }'
            ),
            "M",
            "within itself",
        ),
    ],
)
def test_sets_that_are_no_tables(data: bytes, name: str, words: str) -> None:
    with pytest.raises(SchemaError, match=words):
        protobuf_to_spark(data, name)


def test_a_file_is_copied_once_however_many_columns_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """To copy it for each field took most of the time of whoever looked at a wide table."""
    wide = StructType([StructField(f"c{number}", StringType()) for number in range(50)])
    name, data = spark_to_protobuf(wide, name="t", namespace="s")
    copies, make = list[FileDescriptorProto](), FileDescriptorProto

    def counted() -> FileDescriptorProto:
        copies.append(make())
        return copies[-1]

    monkeypatch.setattr("google.protobuf.descriptor_pb2.FileDescriptorProto", counted)
    assert len(protobuf_to_spark(data, name)) == 50
    assert len(copies) == 1
