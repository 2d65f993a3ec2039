"""DEFAULT values and CHECK constraints in the catalog: who adds one, and who writes meanwhile."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from catalog_tools import COLUMNS, ids, insert, make, plan, write
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.catalog.ddl import (
    AddColumn,
    AddConstraint,
    ColumnChange,
    DeleteColumn,
    DropConstraint,
    RemoveProperty,
    SetProperty,
    UpdateColumnDefaultValue,
)
from pyspark_pravega.catalog.statements import Altering
from pyspark_pravega.connector.log import Ledger, open_ledger
from pyspark_pravega.connector.log.snapshot import take_snapshot
from pyspark_pravega.connector.options import WriteOptions
from pyspark_pravega.connector.table import Check, avro_defaults
from pyspark_pravega.connector.write import ReadSet, WriteJob, WritePlan
from pyspark_pravega.errors import (
    ConfigurationError,
    TableChangedError,
    UnsupportedOperationError,
    WriteConflictError,
)

POSITIVE = AddConstraint(check=Check(name="positive", condition="id > 0"))
SMALL = AddConstraint(check=Check(name="small", condition="id < 100"))


def seen(catalog: Catalog, stream: Any) -> list[ReadSet]:
    """What a statement that reads the table now has read of it."""
    return [ReadSet.of(take_snapshot(catalog.client, stream))]


def knowing(catalog: Catalog, stream: Any, *checks: str) -> WritePlan:
    """A write whose rows Spark holds against constraints."""
    options = WriteOptions(transaction_timeout_ms=60_000)
    return WritePlan.of(catalog.definition(stream, age_s=0), options, checks=checks)


@pytest.mark.server
def test_a_key_is_given_beside_others_who_write(catalog: Catalog, scope: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write that was planned without the key has routing keys of its own: two rows of one key would be there."""
    key = SetProperty(property="primary-key", value="id")
    tables = [catalog.tables.create([scope], name, COLUMNS, [], {"segments": "4"}).stream for name in ("t", "u", "v")]
    planned = [WriteJob(plan(catalog.definition(stream, age_s=0))) for stream in tables]

    # It ends behind the ALTER TABLE: nothing is written.
    catalog.altering.alter([scope], "t", [key])
    with pytest.raises(TableChangedError, match="or a primary key after this write was planned"):
        write(planned[0], *range(100))
    assert ids(catalog, tables[0]) == []
    insert(catalog, tables[0], *range(100))

    # It ends between the ALTER TABLE's look at the log and its change.
    alter_columns, late = Altering._alter_columns, [True]

    def after_a_write(self: Altering, *given: Any) -> None:
        alter_columns(self, *given)
        if late.pop() if late else False:
            write(planned[1], *range(100))

    monkeypatch.setattr(Altering, "_alter_columns", after_a_write)
    with pytest.raises(UnsupportedOperationError, match="written with another routing key than that of"):
        catalog.altering.alter([scope], "u", [key])
    assert catalog.definition(tables[1], age_s=0).key is None
    assert catalog.definition(tables[1], age_s=0).schema == COLUMNS
    monkeypatch.undo()

    # What was planned for rows with a key, and ends when it is none any more.
    catalog.altering.alter([scope], "v", [key])
    upsert = WriteJob(plan(catalog.definition(tables[2], age_s=0)))
    catalog.altering.alter([scope], "v", [RemoveProperty(property="primary-key")])
    assert catalog.definition(tables[2], age_s=0).schema == COLUMNS
    with pytest.raises(TableChangedError, match="primary key after"):
        write(upsert, 1)


@pytest.mark.server
def test_a_constraint_is_added_beside_others_who_write(
    catalog: Catalog, scope: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = make(catalog, scope, segments=2)
    insert(catalog, stream, 1, 2)

    # Rows that came after the statement had looked at them: nothing is added.
    read = seen(catalog, stream)
    insert(catalog, stream, -3)
    with pytest.raises(WriteConflictError, match="rows came while"):
        catalog.altering.alter([scope], "t", [POSITIVE], read)
    assert catalog.definition(stream, age_s=0).properties.checks == ()

    # A write that was planned before, and ends behind it: nothing is written.
    catalog.relations.truncate([scope], "t")
    planned = WriteJob(plan(catalog.definition(stream, age_s=0)))
    catalog.altering.alter([scope], "t", [POSITIVE], seen(catalog, stream))
    with pytest.raises(TableChangedError, match="CHECK constraint or a primary key after this write"):
        write(planned, -4)
    assert ids(catalog, stream) == []

    # Who commits between the look at the rows and the change of the log: the change is refused, then seen again.
    write(WriteJob(knowing(catalog, stream, "positive")), 5)
    add_check, late = Ledger.add_check, [True]

    def committed_before(log: Ledger, *arguments: Any) -> Any:
        if late.pop() if late else False:
            write(WriteJob(knowing(catalog, stream, "positive")), 500)
        return add_check(log, *arguments)

    monkeypatch.setattr(Ledger, "add_check", committed_before)
    with pytest.raises(WriteConflictError, match="rows came while"):
        catalog.altering.alter([scope], "t", [SMALL], seen(catalog, stream))
    assert ids(catalog, stream) == [5, 500]
    monkeypatch.undo()

    # Two that are added at once both stay, and one name is there once.
    catalog.relations.truncate([scope], "t")
    read = seen(catalog, stream)
    for change in (SMALL, AddConstraint(check=Check(name="not_seven", condition="id <> 7"))):
        catalog.altering.alter([scope], "t", [change], read)
    with pytest.raises(ConfigurationError, match='constraint "Small" already'):
        catalog.altering.alter([scope], "t", [AddConstraint(check=replace(SMALL.check, name="Small"))], read)
    names = [check.name for check in catalog.definition(stream, age_s=0).properties.checks]
    assert names == ["positive", "small", "not_seven"]

    # Nobody writes whose rows aren't held against all of them.
    with pytest.raises(TableChangedError, match="not_seven"):
        knowing(catalog, stream, "positive", "small")
    with pytest.raises(UnsupportedOperationError, match=r"positive, small, not_seven.*foreachBatch"):
        plan(catalog.definition(stream, age_s=0))
    write(WriteJob(knowing(catalog, stream, *names)), 9)

    # What is dropped holds nobody up; what only documents is asked of nobody.
    for name in ("SMALL", "not_seven", "positive"):
        catalog.altering.alter([scope], "t", [DropConstraint(name=name, if_exists=False)])
    with pytest.raises(ConfigurationError, match='no constraint "small"'):
        catalog.altering.alter([scope], "t", [DropConstraint(name="small", if_exists=False)])
    catalog.altering.alter([scope], "t", [DropConstraint(name="small", if_exists=True)])
    catalog.altering.alter([scope], "t", [AddConstraint(check=replace(SMALL.check, enforced=False))])
    insert(catalog, stream, 700)
    assert ids(catalog, stream) == [9, 700]


@pytest.mark.server
@pytest.mark.parametrize("table_format", ["avro", "json", "protobuf"])
@pytest.mark.in_turn
def test_rules_follow_their_columns(catalog: Catalog, scope: str, table_format: str) -> None:
    columns = StructType(
        [
            StructField("id", LongType(), False),
            StructField("n", IntegerType(), True, {"CURRENT_DEFAULT": "1 + 2", "EXISTS_DEFAULT": "3"}),
            StructField("größe", StringType(), True, {"CURRENT_DEFAULT": "'x'"}),
        ]
        if table_format == "json"
        else [
            StructField("id", LongType(), False),
            StructField("n", IntegerType(), True, {"CURRENT_DEFAULT": "1 + 2", "EXISTS_DEFAULT": "3"}),
        ]
    )
    check = Check(name="positive", condition="ID > 0 AND note <> 'n'")
    properties = {"format": table_format, "team.owner": "us"}
    stream = catalog.tables.create([scope], "t", columns, [], properties, checks=[check]).stream
    assert catalog.definition(stream, age_s=0).properties.defaults["n"] == "1 + 2"

    def change(kind: type[ColumnChange], *column: str, **more: Any) -> None:
        catalog.altering.alter([scope], "t", [kind(column=column, **more)])

    with pytest.raises(UnsupportedOperationError, match=r"ALTER COLUMN \.\.\. SET DEFAULT"):
        change(AddColumn, "m", type=IntegerType(), default="4")
    change(AddColumn, "m", type=IntegerType())
    change(UpdateColumnDefaultValue, "m", default="id + 1")
    change(UpdateColumnDefaultValue, "n", default="7")
    catalog.altering.alter([scope], "t", [SetProperty(property="retention", value="3 days")])
    assert catalog.definition(stream, age_s=0).properties.defaults == {
        "n": "7",
        "m": "id + 1",
        **({"größe": "'x'"} if table_format == "json" else {}),
    }
    with pytest.raises(UnsupportedOperationError, match="DROP CONSTRAINT positive"):
        change(DeleteColumn, "id")

    # A column of that name that comes again has none; a table that takes this one's place has its own.
    change(DeleteColumn, "n")
    change(AddColumn, "n", type=IntegerType())
    change(UpdateColumnDefaultValue, "m", default=None)
    definition = catalog.definition(stream, age_s=0)
    assert "n" not in definition.properties.defaults
    assert "m" not in definition.properties.defaults
    assert definition.properties.checks == (check,)
    assert definition.properties["team.owner"] == "us"

    own = StructType([StructField("id", LongType(), False, {"CURRENT_DEFAULT": "0"}), COLUMNS["name"]])
    _, staged = catalog.replacing.stage([scope], "t", own, [], {"format": table_format}, create=True, replace=True)
    catalog.replacing.commit(staged, written=False)
    definition = catalog.definition(stream, age_s=0)
    assert definition.properties.defaults == {"id": "0"}
    assert definition.properties.checks == ()
    ledger = open_ledger(catalog.client, stream)
    assert ledger is not None
    assert "_checks" not in ledger.properties()


def test_defaults_of_others_schemas_are_sql() -> None:
    fields = [
        {"name": "a", "type": "int", "default": 5},
        {"name": "b", "type": ["string", "null"], "default": "it's \\ so"},
        {"name": "c", "type": ["null", "string"], "default": None},
        {"name": "d", "type": "boolean", "default": False},
        {"name": "e", "type": "double", "default": 1e-5},
        {"name": "f", "type": {"type": "enum", "name": "E", "symbols": ["X", "Y"]}, "default": "Y"},
        {"name": "g", "type": {"type": "int", "logicalType": "date"}, "default": 1},
        {"name": "h", "type": "bytes", "default": "ÿ"},
        {"name": "i", "type": {"type": "array", "items": "int"}, "default": []},
        {"name": "j", "type": "long"},
    ]
    schema = json.dumps({"type": "record", "name": "r", "fields": fields}).encode()
    assert avro_defaults("Avro", schema) == {
        "a": "5",
        "b": "'it\\'s \\\\ so'",
        "d": "FALSE",
        "e": "1e-05",
        "f": "'Y'",
    }
    assert avro_defaults("Avro", b'"int"') == {}
    assert avro_defaults("Json", b"{}") == {}
