"""ALTER TABLE's changes of columns: from a schema in the registry to the next one.

The registered schema itself is changed, not made anew of the columns: what others have put into it stays there.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import assert_never

from google.protobuf import descriptor_pb2
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from pyspark_pravega.catalog.ddl import (
    AddColumn,
    DeleteColumn,
    RenameColumn,
    SchemaChange,
    UpdateColumnComment,
    UpdateColumnNullability,
    UpdateColumnPosition,
    UpdateColumnType,
)
from pyspark_pravega.catalog.statements.evolution.avro_and_json import Document
from pyspark_pravega.catalog.statements.evolution.protobuf_messages import Message
from pyspark_pravega.errors import UnsupportedOperationError
from pyspark_pravega.serde.formats import AVRO, PROTOBUF, Schema, registered_schema
from pyspark_pravega.serde.types import same_names

REVISION = "pyspark-pravega.revision"
"""Tells a schema from an earlier one that is otherwise the same: the registry keeps one version of each."""
RULES = {
    "AllowAny": "anything",
    "DenyAll": "no change at all",
    "Backward": "what lets the new schema read events of the last one: adding nullable columns, dropping columns, "
    "allowing nulls, widening types",
    "Forward": "what lets the last schema read new events: adding columns, dropping nullable columns",
    "Full": "what lets both the last and the new schema read events of the other: adding and dropping nullable columns",
}
_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_WIDER = (*_INTEGERS, "float", "double")


def rule(policy: str) -> str:
    """What a compatibility policy allows, for messages.

    Args:
        policy: the registry's name for it.
    """
    if policy.endswith("Transitive"):
        text = rule(policy.removesuffix("Transitive"))
        return f"{text}; and that with all earlier schemas"
    return RULES.get(policy, "what its own rules say")


def evolved(schema: Schema, changes: Sequence[SchemaChange], *, stream: str, earlier: Sequence[Schema] = ()) -> Schema:
    """The next schema.

    Args:
        schema: the present one.
        changes: of columns.
        stream: the stream, for messages.
        earlier: all schemas of the group; a column that is added gets a field that none of them has, whatever its own
            name is: events that are there already hold nothing of it.

    Raises:
        InvalidNameError: there is no such column, or there is one of that name already.
        UnsupportedOperationError: a change that the events already written rule out, or that the format can't do.
        UnsupportedTypeError: the format has no such type.
    """
    editor: Document | Message
    editor = Message(schema, stream, earlier) if schema.format == PROTOBUF else Document(schema, stream, earlier)
    for change in changes:
        path = list(change.column)
        match change:
            case AddColumn():
                _check_addition(change, stream)
                editor.add(path, _field(change), change.position)
            case DeleteColumn():
                editor.drop(path, if_exists=change.if_exists)
            case UpdateColumnType():
                editor.retype(path, change.type)
            case UpdateColumnComment():
                editor.comment(path, change.comment)
            case UpdateColumnNullability():
                editor.allow_null(path)
            case UpdateColumnPosition():
                editor.move(path, change.position)
            case RenameColumn():
                raise UnsupportedOperationError(
                    f'column "{change.path}" of stream "{stream}" can\'t be renamed: events already written hold the '
                    "old name. Add a column of the new name, or make a view"
                )
            case _:
                assert_never(change)
    return editor.made()


def widening(before: StructType, rows: StructType, path: tuple[str, ...] = ()) -> list[AddColumn | UpdateColumnType]:
    """The changes after which a table might take rows.

    Args:
        before: its columns.
        rows: the rows' columns.
        path: of the struct whose fields both are.

    Returns:
        Columns and fields of structs that are new, and those of another type, which may be a narrower one.
    """
    changes: list[AddColumn | UpdateColumnType] = []
    there = {field.name.lower(): field for field in before}
    for field in rows:
        known = there.get(field.name.lower())
        if known is None:
            comment = (field.metadata or {}).get("comment")
            changes.append(AddColumn(column=(*path, field.name), type=field.dataType, comment=comment))
        elif isinstance(known.dataType, StructType) and isinstance(field.dataType, StructType):
            changes += widening(known.dataType, field.dataType, (*path, known.name))
        elif (wanted := _as_known(field.dataType, known.dataType)) != known.dataType:
            changes.append(UpdateColumnType(column=(*path, known.name), type=wanted))
    return changes


def _as_known(kind: DataType, known: DataType) -> DataType:
    """The type of rows' values, with the table's own fields where it has them: those may be called otherwise in the
    rows, in another case, and know their lengths, and which of them can't be null.

    Args:
        kind: the type.
        known: the table's.
    """
    if isinstance(kind, ArrayType) and isinstance(known, ArrayType):
        return ArrayType(_as_known(kind.elementType, known.elementType), known.containsNull)
    if isinstance(kind, MapType) and isinstance(known, MapType):
        key, value = _as_known(kind.keyType, known.keyType), _as_known(kind.valueType, known.valueType)
        return MapType(key, value, known.valueContainsNull)
    if not isinstance(kind, StructType) or not isinstance(known, StructType):
        return kind
    names = same_names(kind.fieldNames(), known.fieldNames())
    meant = {name: field.dataType for name, field in zip(names, kind, strict=True)}
    own = [
        StructField(f.name, _as_known(meant[f.name], f.dataType), f.nullable, f.metadata)
        for f in known
        if f.name in meant
    ]
    return StructType([*own, *(field for name, field in zip(names, kind, strict=True) if name is None)])


def due(columns: StructType, changes: Sequence[SchemaChange]) -> list[SchemaChange]:
    """Those of some changes that no other statement has made meanwhile. Spark adds no column that it knows to be there.

    Args:
        columns: the fields of the events, as they are.
        changes: see `evolved`.
    """
    return [change for change in changes if not _is_made(columns, change)]


def _is_made(columns: StructType, change: SchemaChange) -> bool:
    if not isinstance(change, AddColumn | UpdateColumnType):
        return False
    if isinstance(change, AddColumn) and change.position is not None:
        return False
    there: DataType | None = columns
    for name in change.column:
        fields = {field.name.lower(): field.dataType for field in there} if isinstance(there, StructType) else {}
        there = fields.get(name.lower())
    return there == change.type


def revised(schema: Schema, number: int) -> Schema:
    """The same schema, told from an earlier one by a number.

    Args:
        schema: the schema.
        number: one that no version of it has.
    """
    if schema.format == PROTOBUF:
        files = descriptor_pb2.FileDescriptorSet.FromString(schema.data)
        stem = files.file[0].name.removesuffix(".proto").split(".r")[0]
        files.file[0].name = f"{stem}.r{number}.proto"
        return registered_schema("Protobuf", schema.type, files.SerializeToString(deterministic=True))
    document = {**json.loads(schema.data), REVISION: number}
    name = "Avro" if schema.format == AVRO else "Json"
    return registered_schema(name, schema.type, json.dumps(document).encode())


def _check_addition(change: AddColumn, stream: str) -> None:
    if (change.default or "null").strip().lower() != "null":
        raise UnsupportedOperationError(
            f'column "{change.path}" can\'t be added to stream "{stream}" with a DEFAULT, which earlier rows don\'t '
            "hold: add it without, then ALTER COLUMN ... SET DEFAULT for rows to come"
        )
    if not change.nullable:
        raise UnsupportedOperationError(
            f'column "{change.path}" can\'t be added to stream "{stream}" as NOT NULL: events already written don\'t '
            "have it; leave NOT NULL out"
        )


def _field(change: AddColumn) -> StructField:
    metadata = {"comment": change.comment} if change.comment else {}
    return StructField(change.column[-1], change.type, change.nullable, metadata)
