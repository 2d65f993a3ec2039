"""What names a column or a field keeps it: ALTER TABLE refuses, or the table can be written and read from then on."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest
from catalog_tools import rows
from pyspark.sql.types import DoubleType, FloatType, IntegerType, LongType, StringType, StructField, StructType

from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.catalog.ddl import AddColumn, DeleteColumn, SetProperty, TableChange, UpdateColumnType
from pyspark_pravega.connector.log.snapshot import take_snapshot
from pyspark_pravega.connector.options import WriteOptions
from pyspark_pravega.connector.table import Check
from pyspark_pravega.connector.write.job import WriteJob
from pyspark_pravega.connector.write.plan import WritePlan
from pyspark_pravega.errors import PravegaError, UnsupportedOperationError

pytestmark = pytest.mark.server

COLUMNS = StructType(
    [
        StructField("id", IntegerType(), False),
        StructField("a", IntegerType()),
        StructField("b", IntegerType()),
        StructField("t", LongType()),
        StructField("s", StructType([StructField("x", IntegerType()), StructField("y", IntegerType())])),
    ]
)
VALUES: dict[str, Any] = {"id": [1], "a": [2], "b": [3], "t": [6], "s": [{"x": 4, "y": 5}]}
NAMED: dict[str, tuple[dict[str, str], str | None, str]] = {
    # properties, the condition of a CHECK, and what it names
    "routing": ({"routing-key": "a"}, None, "a"),
    "composite": ({"routing-key": "b,a"}, None, "a"),
    "pattern": ({"routing-key": "{b}/{A}"}, None, "a"),
    "time": ({"event-time": "t"}, None, "t"),
    "check": ({}, "a > 0", "a"),
    "typed": ({}, "typeof(`a`) = 'int'", "a"),
    "field": ({}, "s . x > 0", "s.x"),
    "quoted": ({}, "`S`.`X` > 0 AND s IS NOT NULL", "s.x"),
    "whole": ({}, "to_json(s) <> ''", "s.x"),
    "of_field": ({}, "s.x > 0", "s"),
    "key": ({"primary-key": "a,id"}, None, "a"),
    "operation": ({"primary-key": "id", "routing-key": "id"}, None, "_operation"),
}
FREE: dict[str, tuple[dict[str, str], str | None, str]] = {
    "nothing": ({}, None, "a"),
    "another": ({"routing-key": "b", "event-time": "t"}, "b > 0", "a"),
    "texts": ({"routing-key": "'a'"}, "b <> 'a'", "a"),
    "other_field": ({}, "s.y > 0 AND s.x1 IS NULL AND s IS NOT NULL", "s.x"),
}
"""What seems to name it, and doesn't."""
FORMATS = ("avro", "json", "protobuf")
KINDS = {"long": LongType(), "double": DoubleType(), "float": FloatType()}


def change(kind: str, path: str) -> DeleteColumn | UpdateColumnType:
    if kind == "drop":
        return DeleteColumn(column=tuple(path.split(".")))
    return UpdateColumnType(column=tuple(path.split(".")), type=KINDS[kind])


def write_and_read(catalog: Catalog, scope: str, table: str, checks: list[str]) -> list[Any]:
    definition = catalog.load_table([scope], table, age_s=0)
    arrays = {}
    for field in definition.for_writing().schema:
        if field.name in VALUES:
            given = VALUES[field.name]
            if pa.types.is_struct(field.type):
                kept = [field.type.field(i).name for i in range(field.type.num_fields)]
                given = [{name: value[name] for name in kept} for value in given]
            arrays[field.name] = pa.array(given, field.type)
    job = WriteJob(WritePlan.of(definition, WriteOptions(transaction_timeout_ms=60_000), checks=checks))
    job.commit_job([job.write_task(iter([pa.record_batch(arrays)]))])
    return rows(definition, take_snapshot(catalog.client, definition.stream), "id")


@pytest.mark.in_turn
def test_a_column_that_is_named_stays(catalog: Catalog, scope: str) -> None:
    """Each way to name one, each change of it, in each format: what is refused says why, and changes nothing."""

    def run(case: tuple[str, str, str]) -> str:
        name, kind, table_format = case
        properties, condition, path = {**NAMED, **FREE}[name]
        table = f"{name}_{kind}_{table_format}"
        checks = [] if condition is None else [Check(name="held", condition=condition)]
        made = catalog.tables.create([scope], table, COLUMNS, [], {**properties, "format": table_format}, checks=checks)
        try:
            catalog.altering.alter([scope], table, [change(kind, path)])
        except UnsupportedOperationError as error:
            result = f"refused: {error}"
            assert catalog.load_table([scope], table, age_s=0).event_schema == made.event_schema, case
        else:
            result = "accepted"
        # What was accepted, or refused: from then on the table is as good as before.
        try:
            assert write_and_read(catalog, scope, table, [check.name for check in checks]) == [1], case
            other = [SetProperty(property="tags", value="x")]
            catalog.altering.alter([scope], table, other)
        except PravegaError as error:
            return f"{result}, and then: {error}"
        return result

    # Protobuf changes no types, and no fields of messages within messages.
    named = [("routing", kind, "json") for kind in KINDS] + list(
        itertools.product(NAMED, ("drop", "double"), ("avro",))
    )
    named += [
        (name, kind, "json") for name, kind in itertools.product(NAMED, ("drop", "double")) if "." in NAMED[name][2]
    ]
    named += [(name, "drop", "protobuf") for name in NAMED if "." not in NAMED[name][2]]
    free = [*itertools.product(FREE, ("drop",), ("json",)), *itertools.product(FREE, ("long",), ("avro",))]
    with ThreadPoolExecutor(4) as pool:
        found = dict(zip([*named, *free], pool.map(run, [*named, *free]), strict=True))
    wrong = {}
    for case, result in found.items():
        name, kind, _ = case
        # Texts of whole numbers stay what they are; and times may be of any.
        may = name in FREE or (kind == "long" and name in ("routing",))
        expected = "accepted" if may else "refused: "
        if not (result == expected if may else result.startswith(expected) and ", and then: " not in result):
            wrong[case] = result
    assert wrong == {}


def test_a_schema_that_is_registered_keeps_what_is_named(catalog: Catalog, scope: str) -> None:
    for name in ("composite", "time", "check", "field", "of_field"):
        properties, condition, path = NAMED[name]
        checks = [] if condition is None else [Check(name="held", condition=condition)]
        made = catalog.tables.create([scope], name, COLUMNS, [], {**properties, "format": "json"}, checks=checks)
        left = StructType([field for field in COLUMNS if field.name != path.split(".")[0]])
        with pytest.raises(PravegaError, match=path.split(".", maxsplit=1)[0]):
            catalog.schemas.register(made.stream, table_format="json", columns=left)
        assert catalog.load_table([scope], name, age_s=0).properties == made.properties
        more = StructType([*COLUMNS, StructField("more", StringType())])
        catalog.schemas.register(made.stream, table_format="json", columns=more)
        after = catalog.load_table([scope], name, age_s=0)
        assert (after.properties, after.schema) == (made.properties, more)


@pytest.mark.parametrize("table_format", FORMATS)
def test_a_schema_that_is_registered_reads_what_is_there(catalog: Catalog, scope: str, table_format: str) -> None:
    """Types that don't go together are refused under any policy; a name that comes back is another column."""
    made = catalog.tables.create([scope], "t", COLUMNS, [], {"format": table_format, "compatibility": "AllowAny"})
    assert write_and_read(catalog, scope, "t", []) == [1]

    def register(*columns: StructField) -> None:
        catalog.schemas.register(made.stream, table_format=table_format, columns=StructType(list(columns)))

    def found(*names: str) -> list[Any]:
        definition = catalog.load_table([scope], "t", age_s=0)
        return rows(definition, take_snapshot(catalog.client, made.stream), *names)

    fields = list(COLUMNS)
    with pytest.raises(UnsupportedOperationError, match="couldn't be read any more"):
        register(*fields[:2], StructField("b", StringType()), *fields[3:])
    assert found("id", "a", "b") == [(1, 2, 3)]
    register(fields[0], *fields[2:])
    register(fields[0], StructField("a", StringType()), *fields[2:])
    assert found("id", "a", "b") == [(1, None, 3)]
    register(StructField("b", IntegerType()), fields[0], StructField("a", StringType()), *fields[3:])
    assert found("id", "a", "b") == [(1, None, 3)]


def test_several_sessions_bring_the_same_column(catalog: Catalog, scope: str) -> None:
    """As INSERT WITH SCHEMA EVOLUTION and `merge-schema` do: all of them go on, and the column is there once."""
    catalog.tables.create([scope], "t", COLUMNS, [], {})
    wider = StructType([StructField("a", LongType()), StructField("s", StructType([StructField("z", StringType())]))])
    many = range(6)
    for turn in range(3):
        new = StructType([*wider, StructField(f"c{turn}", IntegerType())])

        def bring(number: int, new: StructType = new) -> None:
            if number % 2:
                catalog.altering.merge_schema([scope], "t", new)
                return
            changes: list[TableChange] = [AddColumn(column=(new.names[-1],), type=IntegerType())]
            if new.names[-1] == "c0":
                changes += [
                    AddColumn(column=("s", "z"), type=StringType()),
                    UpdateColumnType(column=("a",), type=LongType()),
                ]
            catalog.altering.alter([scope], "t", changes)

        with ThreadPoolExecutor(len(many)) as pool:
            list(pool.map(bring, many))
    schema = catalog.load_table([scope], "t", age_s=0).schema
    assert schema.names == [*COLUMNS.names, "c0", "c1", "c2"]
    assert schema["s"].dataType.simpleString() == "struct<x:int,y:int,z:string>"
    assert schema["a"].dataType == LongType()
    # Another type is another column: it isn't there.
    with pytest.raises(PravegaError, match='a column "c0" already'):
        catalog.altering.alter([scope], "t", [AddColumn(column=("c0",), type=LongType())])
