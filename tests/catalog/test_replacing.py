"""Tables that are made or replaced together with their rows; rows that take the place of others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest
from catalog_tools import COLUMNS, ids, insert, make, plan, rows, write
from pyspark.sql.types import LongType, StringType, StructField, StructType

from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.catalog.shown import shown_properties
from pyspark_pravega.catalog.statements.replacing import Staged
from pyspark_pravega.client import Stream
from pyspark_pravega.connector.log import take_snapshot
from pyspark_pravega.connector.table.definition import TableDefinition
from pyspark_pravega.connector.write import OverwritingJob, StagedTable
from pyspark_pravega.errors import StreamExistsError, StreamNotFoundError, UnsupportedOperationError
from pyspark_pravega.registry import SchemaRegistry

pytestmark = pytest.mark.server

OTHERS = StructType([StructField("name", LongType(), False), StructField("x", StringType())])


def overwriting(definition: TableDefinition, staged: StagedTable | None = None) -> OverwritingJob:
    return OverwritingJob(plan(definition, staged))


def stage(
    catalog: Catalog,
    scope: str,
    columns: StructType = COLUMNS,
    properties: Mapping[str, str] | None = None,
    *,
    create: bool = True,
    replace: bool = True,
) -> tuple[TableDefinition, Staged]:
    return catalog.replacing.stage([scope], "t", columns, [], properties or {}, create=create, replace=replace)


def state(catalog: Catalog, stream: Stream) -> tuple[Any, ...]:
    definition = catalog.definition(stream, age_s=0)
    return (
        definition.schema,
        shown_properties(definition),
        definition.configuration,
        definition.compatibility,
        ids(catalog, stream),
    )


@pytest.mark.parametrize("changed", [{"ini.separator": "|"}, {}])
def test_a_format_of_one_s_own_writes_what_the_table_becomes(
    catalog: Catalog, scope: str, changed: dict[str, str]
) -> None:
    """Its class makes events by the table's properties and columns: by the new ones."""
    own = {"format": "ini_format:Ini"}
    stream = catalog.tables.create([scope], "t", COLUMNS, [], own).stream
    insert(catalog, stream, 1)
    columns = COLUMNS if changed else StructType([*COLUMNS, StructField("x", LongType())])
    definition, staged = stage(catalog, scope, columns, own | changed)
    assert definition.schema == columns
    write(overwriting(definition, catalog.replacing.staged_table(staged)), 2, **({} if changed else {"x": [9]}))
    catalog.replacing.commit(staged, written=True)
    after = catalog.definition(stream, age_s=0)
    assert after.schema == columns
    assert rows(after, take_snapshot(catalog.client, stream), *columns.fieldNames()) == [
        (2, "n2") if changed else (2, "n2", 9)
    ]


# INSERT OVERWRITE, TRUNCATE


def test_new_rows_take_the_place_of_the_others(catalog: Catalog, scope: str) -> None:
    stream = make(catalog, scope, segments=2)
    insert(catalog, stream, 1, 2, 3)
    write(overwriting(catalog.definition(stream)), 4, 5)
    assert ids(catalog, stream) == [4, 5]
    insert(catalog, stream, 6)
    assert ids(catalog, stream) == [4, 5, 6]


def test_a_commit_that_is_repeated_keeps_its_own_rows(catalog: Catalog, scope: str) -> None:
    stream = make(catalog, scope)
    insert(catalog, stream, 1)
    writer = overwriting(catalog.definition(stream))
    write(writer, 2)
    writer.commit_job([])
    assert ids(catalog, stream) == [2]


def test_a_write_that_is_aborted_leaves_the_others(catalog: Catalog, scope: str) -> None:
    stream = make(catalog, scope)
    insert(catalog, stream, 1)
    writer = overwriting(catalog.definition(stream))
    writer.abort_job([])
    assert ids(catalog, stream) == [1]


def test_truncating_removes_all_rows(catalog: Catalog, scope: str) -> None:
    stream = make(catalog, scope, segments=2)
    catalog.relations.truncate([scope], "t")
    insert(catalog, stream, 1, 2, 3)
    catalog.procedures.call("scale", [f"{scope}.t", 3])
    insert(catalog, stream, 4)
    catalog.relations.truncate([scope], "t")
    assert ids(catalog, stream) == []
    insert(catalog, stream, 5)
    assert ids(catalog, stream) == [5]


# CREATE OR REPLACE, CTAS, RTAS


def test_a_new_table_is_there_or_isn_t(catalog: Catalog, scope: str) -> None:
    definition, staged = stage(catalog, scope)
    write(overwriting(definition), 1)
    catalog.replacing.commit(staged, written=True)
    assert ids(catalog, definition.stream) == [1]
    catalog.relations.drop([scope], "t")
    _, staged = stage(catalog, scope)
    catalog.relations.abort(staged)
    catalog.relations.abort(staged)
    assert catalog.relations.names([scope]) == []


def test_a_replaced_table_has_new_columns_rows_and_properties(
    catalog: Catalog, registry: SchemaRegistry, scope: str
) -> None:
    stream = make(catalog, scope, compatibility="Full", tags="old")
    insert(catalog, stream, 1, 2)
    before = state(catalog, stream)
    planned, staged = stage(catalog, scope, OTHERS, {"team.x": "y", "segments": "2"})
    assert planned.schema == OTHERS
    assert state(catalog, stream) == before, "nobody sees it yet"
    writer = overwriting(planned, catalog.replacing.staged_table(staged))
    rows = pa.record_batch({"name": pa.array([7], pa.int64()), "x": pa.array(["seven"])})
    writer.commit_job([writer.write_task(iter([rows]))])
    catalog.replacing.commit(staged, written=True)
    catalog.replacing.commit(staged, written=True)
    after = catalog.definition(stream, age_s=0)
    assert after.schema == OTHERS
    assert after.properties == {"format": "avro", "team.x": "y"}
    assert (after.configuration.tags, after.configuration.scaling.min_segments) == ((), 2)
    assert registry.group(scope, "t").compatibility == "Backward", "as of a table that is made"


@pytest.mark.parametrize(("table_format", "given", "expected"), [
    ("avro", None, "Backward"),
    ("avro", "Forward", "Forward"),
    ("json", None, "AllowAny"),
    ("protobuf", None, "AllowAny"),
])  # fmt: skip
def test_a_replaced_table_has_the_policy_of_its_statement_or_the_default(
    catalog: Catalog, registry: SchemaRegistry, scope: str, table_format: str, given: str | None, expected: str
) -> None:
    make(catalog, scope, format=table_format, compatibility="DenyAll")
    for columns in (OTHERS, OTHERS):
        registry.update_compatibility(scope, "t", "DenyAll")
        properties = {"format": table_format, **({} if given is None else {"compatibility": given})}
        _, staged = stage(catalog, scope, columns, properties)
        catalog.replacing.commit(staged, written=False)
        assert registry.group(scope, "t").compatibility == expected


def test_a_replacement_that_fails_leaves_everything_as_it_was(
    catalog: Catalog, registry: SchemaRegistry, scope: str
) -> None:
    stream = make(catalog, scope, compatibility="Full", tags="old")
    insert(catalog, stream, 1, 2)
    before = state(catalog, stream)
    planned, staged = stage(catalog, scope, OTHERS)
    overwriting(planned, catalog.replacing.staged_table(staged)).abort_job([])
    catalog.relations.abort(staged)
    assert state(catalog, stream) == before
    assert len(registry.schemas(scope, "t")) == 1
    insert(catalog, stream, 3)
    assert ids(catalog, stream) == [1, 2, 3]


def test_a_table_is_replaced_by_an_empty_one(catalog: Catalog, scope: str) -> None:
    stream = make(catalog, scope)
    insert(catalog, stream, 1)
    _, staged = stage(catalog, scope)
    catalog.replacing.commit(staged, written=False)
    assert ids(catalog, stream) == []
    assert catalog.definition(stream, age_s=0).properties == {"format": "avro"}


def test_columns_come_back(catalog: Catalog, scope: str) -> None:
    """The registry keeps one version of each schema: the first one is told from the third."""
    stream = make(catalog, scope)
    for columns in (OTHERS, COLUMNS):
        _, staged = stage(catalog, scope, columns)
        catalog.replacing.commit(staged, written=False)
        assert catalog.definition(stream, age_s=0).schema == columns
    insert(catalog, stream, 1)
    assert ids(catalog, stream) == [1]


def test_what_can_t_be_staged(catalog: Catalog, scope: str) -> None:
    with pytest.raises(StreamNotFoundError):
        stage(catalog, scope, create=False)
    make(catalog, scope)
    with pytest.raises(StreamExistsError):
        stage(catalog, scope, replace=False)
    with pytest.raises(
        UnsupportedOperationError, match="are avro, and will stay so: to make it a table of format json"
    ):
        stage(catalog, scope, properties={"format": "json"})
