"""What the catalog and its plans answer, as the messages that the JVM gets."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from pyspark.sql.types import StructType

from pyspark_pravega.catalog import statements
from pyspark_pravega.catalog.names import to_sql
from pyspark_pravega.catalog.plans import NarrowedScan, Plan, PlannedScan, QueryMoment, text_of_unindexed
from pyspark_pravega.catalog.process import messages
from pyspark_pravega.catalog.process.parameters import KIND
from pyspark_pravega.catalog.process.pickles import pickled_read, text_of
from pyspark_pravega.catalog.shown import loaded_properties, shown_properties
from pyspark_pravega.connector.indexing import BLOCK_COLUMNS
from pyspark_pravega.connector.key_value import METADATA_COLUMNS, VERSION, KeyValueDefinition, KeyValuePlan, made_as
from pyspark_pravega.connector.read import CHANGE_COLUMNS
from pyspark_pravega.connector.table import (
    CHECKS,
    DEFAULTS,
    Check,
    TableDefinition,
    avro_defaults,
    with_defaults,
)


def properties(definition: TableDefinition | KeyValueDefinition) -> dict[str, str]:
    """All properties of a table.

    Args:
        definition: what it is.
    """
    if isinstance(definition, KeyValueDefinition):
        return statements.shown_key_value_properties(definition)
    return shown_properties(definition)


def table(definition: TableDefinition | KeyValueDefinition) -> messages.Table:
    """A table, for Spark's analysis.

    Args:
        definition: what it is.
    """
    return _key_value_table(definition) if isinstance(definition, KeyValueDefinition) else _stream_table(definition)


def _stream_table(definition: TableDefinition) -> messages.Table:
    # Where a later release has written them, the table can be shown and altered all the same: who writes is told.
    not_parsed = definition.properties.not_parsed()
    defaults = {} if DEFAULTS in not_parsed else definition.properties.defaults
    if definition.registered is not None:
        # Of a schema that others have made, its own ones.
        schema = definition.registered[0]
        defaults = {**avro_defaults(schema.serialization_format, schema.schema_data), **defaults}
    message: messages.Table = {
        "schema": with_defaults(definition.schema, defaults).json(),
        "checks": [] if CHECKS in not_parsed else _checks(definition.properties.checks),
        "properties": loaded_properties(definition),
        "stream": str(definition.stream),
        "id": f"{definition.stream} {definition.group_made}" if definition.group_made else None,
        "primaryKey": [] if definition.key is None else list(definition.key.columns),
        "rowId": _row_id(definition),
    }
    if definition.is_changes:
        message |= {"schema": with_changes(definition.schema).json(), "checks": [], "primaryKey": [], "rowId": []}
    return message


def with_changes(schema: StructType) -> StructType:
    """The columns of what a table's versions have changed.

    Args:
        schema: the table's.
    """
    return StructType([*schema, *CHANGE_COLUMNS])


def _row_id(definition: TableDefinition) -> list[str]:
    """The columns of an event that deletes a row: its key, and what no event can be without."""
    if definition.key is None:
        return []
    needed = [field.name for field in definition.schema if not field.nullable]
    return [*definition.key.columns, *(name for name in needed if name not in definition.key.columns)]


def _key_value_table(definition: KeyValueDefinition) -> messages.Table:
    names, defaults = definition.layout.names, definition.properties.defaults
    if definition.values.registered is not None:
        schema = definition.values.registered[0]
        of_values = avro_defaults(schema.serialization_format, schema.schema_data)
        defaults = {**{name: value for name, value in of_values.items() if name not in names}, **defaults}
    return {
        "schema": with_defaults(definition.schema, defaults).json(),
        "checks": _checks(definition.properties.checks),
        "properties": statements.loaded_key_value_properties(definition),
        "stream": str(definition.stream),
        "id": made_as(definition.segments),
        "primaryKey": names,
        "rowId": [*names, VERSION],
        "metadata": METADATA_COLUMNS.json(),
    }


def _checks(checks: Iterable[Check]) -> list[messages.CheckConstraint]:
    return [{"name": check.name, "condition": check.condition, "enforced": check.enforced} for check in checks]


def staged(staged: statements.Staged) -> dict[str, Any]:
    """What becomes of a table with its rows, for the JVM to hand back.

    Args:
        staged: what that is.
    """
    return {KIND: type(staged).__name__, **asdict(staged)}


def view(view: statements.View) -> messages.View:
    """A view, as it is stored and as Spark made it.

    Args:
        view: its parts.
    """
    return {
        "query": view.query,
        "schema": view.schema,
        "properties": view.properties,
        "catalog": view.catalog,
        "current": view.current,
        "configuration": view.configuration,
        "mode": view.mode,
        "columns": view.columns,
    }


def parameter(parameter: statements.Parameter) -> messages.Parameter:
    """A parameter of a procedure.

    Args:
        parameter: what it is.
    """
    return {
        "name": parameter.name,
        "type": parameter.type,
        "comment": parameter.comment,
        "default": parameter.default,
        "columns": parameter.columns,
        "condition": parameter.condition,
    }


def reading(step: statements.Reading) -> messages.ProcedureStatement:
    """What tasks are to read for a procedure.

    Args:
        step: what that is.
    """
    bare: messages.Table = {
        "schema": BLOCK_COLUMNS.json(),
        "checks": [],
        "properties": {},
        "stream": str(step.definition.stream),
        "id": None,
        "primaryKey": [],
        "rowId": [],
        "position": text_of_unindexed(step.wanted),
    }
    stream = step.definition.stream
    name = ".".join(statements.quoted(to_sql(part)) for part in (stream.scope, stream.name))
    return {"kind": "read", "text": name, "table": bare, "after": dict(step.after)}


def scan(planned: PlannedScan, moment: QueryMoment) -> messages.PlannedScan:
    """A batch read.

    Args:
        planned: the plan.
        moment: when the query reads the table, and what is new of that.
    """
    function, partitions = pickled_read(planned.reader, planned.schema)
    message: messages.PlannedScan = {
        "function": function,
        "partitions": partitions,
        "schema": planned.schema.json(),
        "size": planned.size,
        "rows": planned.rows,
        "memory": planned.memory,
        "segments": planned.slices,
        "seen": None if planned.seen is None else planned.seen.to_json(),
        "skipped": planned.skipped,
        "sharedMemory": planned.shared_memory,
        "routing": planned.routing,
        "filters": list(planned.filters),
        "moment": moment.news,
        "beside": moment.news_beside,
    }
    if planned.extent is not None:
        message["extent"] = planned.extent
    if planned.analyzed is not None:
        of_all = planned.analyzed
        message["analyzed"] = {"rows": of_all.rows, "memory": of_all.memory, "columns": of_all.columns}
    return message


def narrowed_scan(left: NarrowedScan) -> messages.NarrowedScan:
    """What is left of a batch read.

    Args:
        left: of its plan.
    """
    message: messages.NarrowedScan = {
        "partitions": [text_of(partition) for partition in left.partitions],
        "segments": left.slices,
        "seen": None if left.seen is None else left.seen.to_json(),
        "skipped": left.skipped,
    }
    if left.extent is not None:
        message["extent"] = left.extent
    return message


def planned_write(plan: Plan) -> messages.PlannedWrite:
    """A write that has been settled.

    Args:
        plan: how it writes.
    """
    text = text_of(plan)
    if isinstance(plan, KeyValuePlan):
        return {"plan": text, "clusterBy": [], "orderBy": None, "atOnce": False}
    return {"plan": text, "clusterBy": list(plan.cluster_by), "orderBy": plan.event_time, "atOnce": plan.at_once}
