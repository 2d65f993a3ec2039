"""The type mapping: what CREATE TABLE makes of a column, and what a table shows of others' schemas."""

from __future__ import annotations

import json
from typing import Any

import fastavro
import pytest
from avro_tools import column, record
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    CalendarIntervalType,
    CharType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    VarcharType,
    YearMonthIntervalType,
)
from since import is_missing

from pyspark_pravega.errors import SchemaError, UnsupportedTypeError
from pyspark_pravega.serde.types import CHAR_VARCHAR, avro_to_spark, spark_to_avro
from pyspark_pravega.spark.types import TimeType


def table(*fields: StructField) -> StructType:
    return StructType(list(fields))


def avro_of(schema: StructType, name: str = "t", namespace: str = "s") -> Any:
    return json.loads(spark_to_avro(schema, name=name, namespace=namespace))


@pytest.mark.parametrize(
    ("kind", "avro"),
    [
        (BooleanType(), "boolean"),
        (ByteType(), {"type": "int", "spark.type": "tinyint"}),
        (ShortType(), {"type": "int", "spark.type": "smallint"}),
        (IntegerType(), "int"),
        (LongType(), "long"),
        (FloatType(), "float"),
        (DoubleType(), "double"),
        (StringType(), "string"),
        (BinaryType(), "bytes"),
        (DateType(), {"type": "int", "logicalType": "date"}),
        (TimestampType(), {"type": "long", "logicalType": "timestamp-micros"}),
        (TimestampNTZType(), {"type": "long", "logicalType": "local-timestamp-micros"}),
        (DecimalType(12, 2), {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}),
        (ArrayType(IntegerType(), True), {"type": "array", "items": ["null", "int"]}),
        (MapType(StringType(), LongType(), False), {"type": "map", "values": "long"}),
        (
            StructType([StructField("x", IntegerType(), False)]),
            {"type": "record", "name": "t_c", "fields": [{"name": "x", "type": "int"}]},
        ),
    ],
)
def test_each_type_has_its_counterpart_and_comes_back(kind: DataType, avro: Any) -> None:
    for nullable in (False, True):
        schema = table(StructField("c", kind, nullable))
        text = spark_to_avro(schema, name="t", namespace="s")
        field = json.loads(text)["fields"][0]
        assert field["type"] == (["null", avro] if nullable else avro)
        assert ("default" in field) is nullable
        assert avro_to_spark(text) == schema
        fastavro.parse_schema(json.loads(text))


def test_comments_are_docs() -> None:
    schema = table(StructField("c", LongType(), True, {"comment": "What it's for"}))
    text = spark_to_avro(schema, name="t", namespace="s")
    assert json.loads(text)["fields"][0]["doc"] == "What it's for"
    assert avro_to_spark(text) == schema


def test_char_and_varchar_come_back_as_spark_hands_them_over() -> None:
    schema = table(StructField("c", StringType(), True, {CHAR_VARCHAR: "varchar(10)"}))
    assert avro_to_spark(spark_to_avro(schema, name="t", namespace="s")) == schema
    for kind, name in ((VarcharType(10), "varchar(10)"), (CharType(3), "char(3)")):
        text = spark_to_avro(table(StructField("c", kind)), name="t", namespace="s")
        assert avro_to_spark(text).fields[0].metadata == {CHAR_VARCHAR: name}


@pytest.mark.parametrize(
    ("name", "namespace", "full"),
    [
        ("orders", "shop", ("orders", "shop")),
        ("orders-2024.eu", "shop-1.east", ("orders_2024_eu", "shop_1.east")),
        ("1st", "2nd..3rd", ("_1st", "_2nd._3rd")),
    ],
)
def test_names_of_pravega_become_names_of_avro(name: str, namespace: str, full: tuple[str, str]) -> None:
    schema = avro_of(table(StructField("c", LongType())), name, namespace)
    assert (schema["name"], schema["namespace"]) == full
    fastavro.parse_schema(schema)


def test_records_within_records_have_names_of_their_own() -> None:
    inner = StructType([StructField("b", StructType([StructField("x", LongType())]))])
    schema = table(
        StructField("a_b", StructType([StructField("x", LongType())])),
        StructField("a", inner),
        StructField("l", ArrayType(inner)),
        StructField("m", MapType(StringType(), inner)),
    )
    text = spark_to_avro(schema, name="t", namespace="s")
    fastavro.parse_schema(json.loads(text))
    assert avro_to_spark(text) == schema


@pytest.mark.parametrize(
    ("kind", "instead"),
    [
        (YearMonthIntervalType(), "INT"),
        (CalendarIntervalType(), "BIGINT"),
        *([] if is_missing("4.1") else [(TimeType(9), "TIME(6)")]),
        (NullType(), "STRING"),
        (StringType("UTF8_LCASE"), "STRING"),
        (DecimalType(4, -2), "DECIMAL"),
    ],
)
def test_what_avro_lacks_is_refused_with_its_place_and_what_to_use(kind: DataType, instead: str) -> None:
    nested = ArrayType(StructType([StructField("deep", MapType(StringType(), kind))]))
    for schema, path in (
        (table(StructField("c", kind)), "c"),
        (table(StructField("c", nested)), "c.element.deep.value"),
    ):
        with pytest.raises(UnsupportedTypeError) as caught:
            spark_to_avro(schema, name="t", namespace="s")
        assert f'"{path}"' in str(caught.value)
        assert instead in str(caught.value)


def test_column_names_that_avro_cannot_hold_are_kept_beside_legal_ones() -> None:
    names = ["a b", "a-b", "1a", "é", "a.b", "a\n", "a_b", "a_b_2", "_1a"]
    fields = StructType([StructField(name, LongType()) for name in names])
    schema = table(*fields.fields, StructField("größe", fields))
    text = spark_to_avro(schema, name="t", namespace="s")
    assert avro_to_spark(text) == schema
    fastavro.parse_schema(json.loads(text))
    outer = [field["name"] for field in json.loads(text)["fields"]]
    assert outer == ["a_b_3", "a_b_4", "_1a_2", "_", "a_b_5", "a_", "a_b", "a_b_2", "_1a", "gr__e"]


def test_columns_that_differ_only_in_case_are_refused() -> None:
    schema = table(StructField("total", LongType()), StructField("Total", LongType()))
    with pytest.raises(UnsupportedTypeError, match='"total" and "Total"'):
        spark_to_avro(schema, name="t", namespace="s")
    with pytest.raises(UnsupportedTypeError, match='"total" and "Total"'):
        avro_to_spark(record(column("total", "int"), column("Total", "int")))


def test_a_table_has_a_column() -> None:
    with pytest.raises(UnsupportedTypeError, match="at least one column"):
        spark_to_avro(StructType([]), name="t", namespace="s")


@pytest.mark.parametrize(
    ("kind", "spark", "nullable"),
    [
        ({"type": "enum", "name": "E", "symbols": ["A"]}, StringType(), False),
        ({"type": "fixed", "name": "F", "size": 4}, BinaryType(), False),
        (
            {"type": "fixed", "name": "F", "size": 4, "logicalType": "decimal", "precision": 9, "scale": 1},
            DecimalType(9, 1),
            False,
        ),
        ({"type": "fixed", "name": "F", "size": 12, "logicalType": "duration"}, BinaryType(), False),
        ({"type": "string", "logicalType": "uuid"}, StringType(), False),
        ({"type": "string", "avro.java.string": "String"}, StringType(), False),
        ({"type": "int", "logicalType": "time-millis"}, IntegerType(), False),
        ({"type": "long", "logicalType": "time-micros"}, LongType(), False),
        ({"type": "long", "logicalType": "timestamp-millis"}, TimestampType(), False),
        ({"type": "long", "logicalType": "local-timestamp-millis"}, TimestampNTZType(), False),
        ({"type": "long", "logicalType": "timestamp-nanos"}, LongType(), False),
        ({"type": "long", "logicalType": "mine"}, LongType(), False),
        ({"type": "int", "logicalType": "timestamp-millis"}, IntegerType(), False),
        ({"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 5}, BinaryType(), False),
        ({"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": -1}, BinaryType(), False),
        ({"type": "bytes", "logicalType": "decimal", "precision": 0}, BinaryType(), False),
        (["null", "int"], IntegerType(), True),
        (["int", "null"], IntegerType(), True),
        (["int"], IntegerType(), False),
        ({"type": {"type": "array", "items": ["null", "int"]}}, ArrayType(IntegerType(), True), False),
    ],
)
def test_schemas_of_others(kind: Any, spark: DataType, nullable: bool) -> None:
    assert avro_to_spark(record(column("c", kind))) == table(StructField("c", spark, nullable))


def test_a_named_type_may_be_used_again() -> None:
    point = {"type": "record", "name": "Point", "namespace": "geo", "fields": [column("x", "int")]}
    schema = avro_to_spark(record(column("a", point), column("b", "geo.Point")))
    assert schema["a"].dataType == schema["b"].dataType


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (["null"], "always null"),
        ("null", "always null"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 50}, "50 digits"),
    ],
)
def test_what_spark_lacks_is_refused_with_its_place(kind: Any, reason: str) -> None:
    with pytest.raises(UnsupportedTypeError, match=reason) as caught:
        avro_to_spark(record(column("c", kind)))
    assert '"c' in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "7",
        "null",
        '{"type": "record"}',
        '{"type": "record", "name": "R"}',
        '{"type": "record", "name": "R", "fields": [{"name": "a"}]}',
        '{"type": "record", "name": "R", "fields": [{"type": "int"}]}',
        '{"type": "record", "name": "R", "fields": 3}',
        '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "Unknown"}]}',
        '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}, {"name": "a", "type": "int"}]}',
        '{"type": "array"}',
        '{"type": "enum", "name": "E", "symbols": "A"}',
        '{"type": "fixed", "name": "F", "size": "4"}',
        "[" * 3000,
        '{"type": ' * 300 + '"int"' + "}" * 300,
    ],
)
def test_what_is_no_record_schema_is_a_schema_error(text: str) -> None:
    with pytest.raises(SchemaError):
        avro_to_spark(text)
