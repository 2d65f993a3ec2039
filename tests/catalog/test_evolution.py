"""ALTER TABLE's changes of columns, for each format, without any server."""

from __future__ import annotations

import json
from typing import Any, TypeVar

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DecimalType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from pyspark_pravega.catalog.ddl import (
    AddColumn,
    ColumnPosition,
    DeleteColumn,
    RenameColumn,
    SchemaChange,
    UpdateColumnComment,
    UpdateColumnNullability,
    UpdateColumnPosition,
    UpdateColumnType,
)
from pyspark_pravega.catalog.statements.evolution import (
    REVISION,
    check_readable,
    continued,
    evolved,
    revised,
    rule,
)
from pyspark_pravega.catalog.statements.evolution.avro_and_json import fields_of
from pyspark_pravega.errors import InvalidNameError, PravegaError, UnsupportedOperationError
from pyspark_pravega.serde.encodings import WriterSchema
from pyspark_pravega.serde.formats import AVRO, JSON, PROTOBUF, Schema, schema_for

Kind = TypeVar("Kind", bound=SchemaChange)
FIRST = ColumnPosition(after=None)
COLUMNS = StructType(
    [
        StructField("id", LongType(), False, {"comment": "the id"}),
        StructField("n", IntegerType()),
        StructField("st", StructType([StructField("x", IntegerType())])),
    ]
)


def schema(table_format: str = AVRO) -> Schema:
    return schema_for(table_format, COLUMNS, name="orders", namespace="shop")


def add(name: str, kind: DataType | None = None, **more: Any) -> AddColumn:
    return change(AddColumn, name, type=kind or StringType(), **more)


def change(kind: type[Kind], name: str, **more: Any) -> Kind:
    return kind(column=tuple(name.split(".")), **more)


def after(table_format: str, *changes: SchemaChange) -> StructType:
    new_schema = evolved(schema(table_format), changes, stream="shop/orders")
    assert new_schema.type == schema(table_format).type
    return new_schema.columns()


@pytest.mark.parametrize("table_format", [AVRO, JSON, PROTOBUF])
@pytest.mark.parametrize(
    "kind", [StringType(), DecimalType(12, 2), TimestampType(), ArrayType(StringType()), COLUMNS["st"].dataType]
)
def test_a_column_is_added_as_a_new_table_would_have_it(table_format: str, kind: DataType) -> None:
    before = schema(table_format).columns()
    new = after(table_format, add("new", kind))
    # Rows that are there have no other default.
    assert after(table_format, add("new", kind, default="null")) == new
    assert new.fieldNames() == ["id", "n", "st", "new"]
    assert new.fields[:3] == before.fields[:3]
    alone = StructType([StructField("new", kind)])
    assert new["new"] == schema_for(table_format, alone, name="t", namespace="s").columns()["new"]


@pytest.mark.parametrize("table_format", [AVRO, JSON])
def test_a_column_has_a_place_and_a_comment(table_format: str) -> None:
    new = after(table_format, add("a", position=FIRST, comment="why"), add("b", position=ColumnPosition(after="ID")))
    assert new.fieldNames() == ["a", "id", "b", "n", "st"]
    assert new["a"].metadata == {"comment": "why"}


@pytest.mark.parametrize("table_format", [AVRO, JSON, PROTOBUF])
def test_a_column_is_dropped(table_format: str) -> None:
    assert after(table_format, change(DeleteColumn, "n")).fieldNames() == ["id", "st"]
    assert after(table_format, change(DeleteColumn, "zz", if_exists=True)).fieldNames() == ["id", "n", "st"]


@pytest.mark.parametrize("table_format", [AVRO, JSON])
def test_a_column_is_changed_in_its_place(table_format: str) -> None:
    new = after(
        table_format,
        change(UpdateColumnType, "n", type=LongType()),
        change(UpdateColumnComment, "n", comment="more"),
        change(UpdateColumnNullability, "id", nullable=True),
        change(UpdateColumnPosition, "st", position=FIRST),
    )
    assert new.fieldNames() == ["st", "id", "n"]
    assert new["n"] == StructField("n", LongType(), True, {"comment": "more"})
    assert new["id"] == StructField("id", LongType(), True, {"comment": "the id"})


@pytest.mark.parametrize("table_format", [AVRO, JSON])
def test_a_struct_has_columns_of_its_own(table_format: str) -> None:
    new = after(table_format, add("st.y"), change(DeleteColumn, "st.x"))
    assert new["st"].dataType == StructType([StructField("y", StringType())])


@pytest.mark.parametrize("table_format", [AVRO, JSON])
def test_a_column_that_comes_back_has_a_field_of_its_own(table_format: str) -> None:
    """In the events of both codecs; the schema that was there in between needn't be known."""
    before = schema(table_format)
    drops: list[SchemaChange] = [change(DeleteColumn, "n"), add("st.y"), change(DeleteColumn, "st.x")]
    dropped = evolved(before, drops, stream="s/t", earlier=[before])
    new = evolved(dropped, [add("n"), add("st.x"), add("n_2")], stream="s/t", earlier=[before, dropped])
    kinds = [("id", LongType()), ("st", StructType([StructField(name, StringType()) for name in "yx"]))]
    assert [(field.name, field.dataType) for field in new.columns()][:2] == kinds
    assert new.columns().fieldNames() == ["id", "st", "n", "n_2"]
    given = [{"id": 1, "st": {"y": "in", "x": "side"}, "n": "text", "n_2": None}]
    for codec in (new.codec, new.plain_codec):
        coded = codec(new.columns(), NoEncodings(), header=False)
        events = coded.encode(pa.RecordBatch.from_pylist(given, coded.schema))
        if table_format == JSON:
            inner = {"y": "in", "x_2": "side"}
            assert json.loads(events[0].as_py()) == {"id": 1, "st": inner, "n_2": "text", "n_2_2": None}
        assert coded.decode(events, coded.schema.names).to_pylist() == given
    # Whatever is changed in it, it stays that field.
    moved: list[SchemaChange] = [
        change(UpdateColumnPosition, "n", position=FIRST),
        change(UpdateColumnComment, "n", comment="x"),
    ]
    again = evolved(new, [*moved, change(UpdateColumnNullability, "n", nullable=True)], stream="s/t", earlier=[new])
    assert fields(again)["n"] == "n_2"
    assert again.columns().fieldNames()[0] == "n"
    # So it is for columns that are given anew, and for messages by their numbers.
    columns = StructType([StructField("n", StringType()), COLUMNS["id"], COLUMNS["st"]])
    wanted = schema_for(table_format, columns, name="orders", namespace="shop")
    assert fields(continued(wanted, [before, dropped, new])) == {"n": "n_2", "id": "id", "st": "st"}
    assert fields(continued(wanted, [before, dropped])) == {"n": "n_2", "id": "id", "st": "st"}
    assert continued(wanted, [before]).columns() == wanted.columns()


def fields(of: Schema) -> dict[str, str]:
    """The names in events of a schema's columns."""
    return {column: name for column, name, _ in fields_of(json.loads(of.data))}


class NoEncodings:
    """Of events without headers."""

    def writer_schema(self, encoding_id: int) -> WriterSchema:
        raise AssertionError(encoding_id)


def test_a_message_s_numbers_are_never_used_again() -> None:
    new_schema = evolved(schema(PROTOBUF), [change(DeleteColumn, "st"), add("new")], stream="s/t")
    message = descriptor_pb2.FileDescriptorSet.FromString(new_schema.data).file[0].message_type[0]
    assert [(field.name, field.number) for field in message.field] == [("id", 1), ("n", 2), ("new", 4)]
    optional = {
        field.name: message.oneof_decl[field.oneof_index].name for field in message.field if field.proto3_optional
    }
    assert optional == {"n": "_n", "new": "_new"}


def test_what_others_have_put_into_a_schema_stays_there() -> None:
    enum = {"type": "enum", "name": "K", "symbols": ["A"]}
    fields = [{"name": "id", "type": "long", "custom": 1}, {"name": "kind", "type": enum}]
    text = {"type": "record", "name": "Order", "namespace": "com.shop", "aliases": ["Old"], "fields": fields}
    before = Schema(format=AVRO, type="com.shop.Order", data=json.dumps(text).encode())
    record = json.loads(evolved(before, [add("x")], stream="s/t").data)
    assert record["aliases"] == ["Old"]
    assert record["fields"][:2] == text["fields"]


@pytest.mark.parametrize("table_format", [AVRO, JSON, PROTOBUF])
def test_a_revision_differs_and_has_the_same_columns(table_format: str) -> None:
    once = revised(schema(table_format), 7)
    assert once.data != schema(table_format).data
    assert revised(once, 8).data not in (once.data, schema(table_format).data)
    assert (
        once.columns() == COLUMNS if table_format != PROTOBUF else once.columns().fieldNames() == COLUMNS.fieldNames()
    )
    assert table_format == PROTOBUF or json.loads(once.data)[REVISION] == 7


REFUSED: list[tuple[str, SchemaChange, type[PravegaError], str]] = [
    (AVRO, add("N"), InvalidNameError, 'has a column "N" already'),
    (AVRO, add("x", position=ColumnPosition(after="idd")), InvalidNameError, 'no column "idd" after which "x"'),
    (AVRO, add("x", nullable=False), UnsupportedOperationError, "as NOT NULL: events already written don't have it"),
    (AVRO, add("x", default="3"), UnsupportedOperationError, "with a DEFAULT, which earlier rows don't hold"),
    (AVRO, add("n.x"), UnsupportedOperationError, '"n" isn\'t a struct'),
    (AVRO, change(DeleteColumn, "nn"), InvalidNameError, 'has no column "nn"; did you mean "n"'),
    (AVRO, change(RenameColumn, "n"), UnsupportedOperationError, "hold the old name. Add a column"),
    (JSON, change(UpdateColumnType, "n", type=StringType()), UnsupportedOperationError, "can't become STRING"),
    (JSON, add("id"), InvalidNameError, "already"),
    (PROTOBUF, add("id"), InvalidNameError, "already"),
    (PROTOBUF, add("st.y"), UnsupportedOperationError, "to the message itself, as its last one"),
    (PROTOBUF, change(UpdateColumnType, "n", type=LongType()), UnsupportedOperationError, "can't become bigint"),
    (PROTOBUF, change(UpdateColumnPosition, "n", position=FIRST), UnsupportedOperationError, "stay where"),
    (PROTOBUF, change(UpdateColumnComment, "n", comment="x"), UnsupportedOperationError, "keep no comments"),
    (PROTOBUF, change(UpdateColumnNullability, "n", nullable=True), UnsupportedOperationError, "is fixed when"),
    (PROTOBUF, change(DeleteColumn, "nn"), InvalidNameError, 'no column "nn" to drop'),
]  # fmt: skip


@pytest.mark.parametrize(("table_format", "wrong", "error", "message"), REFUSED)
def test_what_can_t_be_done_is_refused(
    table_format: str, wrong: SchemaChange, error: type[PravegaError], message: str
) -> None:
    with pytest.raises(error) as refused:
        after(table_format, wrong)
    assert message in str(refused.value)


def test_the_last_column_stays() -> None:
    drops = [change(DeleteColumn, name) for name in ("id", "n", "st")]
    for table_format in (AVRO, JSON, PROTOBUF):
        with pytest.raises(UnsupportedOperationError, match="the only one"):
            after(table_format, *drops)


def test_events_that_are_there_must_stay_readable() -> None:
    wider = evolved(schema(), [change(UpdateColumnType, "n", type=LongType())], stream="s/t")
    check_readable(schema(), wider, stream="s/t")
    with pytest.raises(UnsupportedOperationError, match='are in stream "s/t" already'):
        check_readable(wider, schema(), stream="s/t")


def test_a_rule_says_what_a_policy_allows() -> None:
    assert rule("Full") == "what lets both the last and the new schema read events of the other: " + (
        "adding and dropping nullable columns"
    )
    assert rule("BackwardTransitive") == rule("Backward") + "; and that with all earlier schemas"
    assert rule("Advanced") == "what its own rules say"
