"""ALTER TABLE's changes of columns: from a schema in the registry to the next one.

The registered schema itself is changed, not made anew of the columns: what others have put into it stays there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from google.protobuf import descriptor_pb2
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from pyspark_pravega.catalog.statements.evolution.documents import Document
from pyspark_pravega.catalog.statements.evolution.messages import Message
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

Change = Mapping[str, Any]


def rule(policy: str) -> str:
    """What a compatibility policy allows, for messages.

    Args:
        policy: the registry's name for it.
    """
    if policy.endswith("Transitive"):
        text = rule(policy.removesuffix("Transitive"))
        return f"{text}; and that with all earlier schemas"
    return RULES.get(policy, "what its own rules say")


def evolved(schema: Schema, changes: Sequence[Change], *, stream: str, earlier: Sequence[Schema] = ()) -> Schema:
    """The next schema.

    Args:
        schema: the present one.
        changes: changes of columns: `kind` is the name of Spark's class, `column` the column's path, and so on.
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
        kind, path = change["kind"], list(change["column"])
        if kind == "AddColumn":
            _check_addition(change, path, stream)
            editor.add(path, _field(change, path), change.get("position"))
        elif kind == "DeleteColumn":
            editor.drop(path, if_exists=bool(change.get("if_exists")))
        elif kind == "UpdateColumnType":
            editor.retype(path, _data_type(change["type"]))
        elif kind == "UpdateColumnComment":
            editor.comment(path, change["comment"])
        elif kind == "UpdateColumnNullability":
            editor.allow_null(path)
        elif kind == "UpdateColumnPosition":
            editor.move(path, change["position"])
        elif kind == "RenameColumn":
            raise UnsupportedOperationError(
                f'column "{".".join(path)}" of stream "{stream}" can\'t be renamed: events already written hold the '
                "old name. Add a column of the new name, or make a view"
            )
        else:
            raise UnsupportedOperationError(
                f'column "{".".join(path)}" of stream "{stream}" can\'t be changed so ({kind})'
            )
    return editor.made()


def widening(before: StructType, rows: StructType, path: Sequence[str] = ()) -> list[Change]:
    """The changes after which a table might take rows.

    Args:
        before: its columns.
        rows: the rows' columns.
        path: of the struct whose fields both are.

    Returns:
        Columns and fields of structs that are new, and those of another type, which may be a narrower one.
    """
    changes: list[Change] = []
    there = {field.name.lower(): field for field in before}
    for field in rows:
        known = there.get(field.name.lower())
        if known is None:
            kind = field.dataType.json()
            addition = {"kind": "AddColumn", "column": [*path, field.name], "type": kind, "nullable": True}
            changes.append({**addition, "comment": (field.metadata or {}).get("comment")})
        elif isinstance(known.dataType, StructType) and isinstance(field.dataType, StructType):
            changes += widening(known.dataType, field.dataType, [*path, known.name])
        elif (wanted := _as_known(field.dataType, known.dataType)) != known.dataType:
            changes.append({"kind": "UpdateColumnType", "column": [*path, known.name], "type": wanted.json()})
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


def due(columns: StructType, changes: Sequence[Change]) -> list[Change]:
    """Those of some changes that somebody else hasn't made meanwhile. Spark adds no column that it knows to be there.

    Args:
        columns: the fields of the events, as they are.
        changes: see `evolved`.
    """
    return [change for change in changes if not _is_made(columns, change)]


def _is_made(columns: StructType, change: Change) -> bool:
    if change["kind"] not in ("AddColumn", "UpdateColumnType") or change.get("position"):
        return False
    there: DataType | None = columns
    for name in change["column"]:
        fields = {field.name.lower(): field.dataType for field in there} if isinstance(there, StructType) else {}
        there = fields.get(name.lower())
    return there == _data_type(change["type"])


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


def _check_addition(change: Change, path: Sequence[str], stream: str) -> None:
    name = ".".join(path)
    if (change.get("default") or "null").strip().lower() != "null":
        raise UnsupportedOperationError(
            f'column "{name}" can\'t be added to stream "{stream}" with a DEFAULT, which earlier rows don\'t hold: add '
            "it without, then ALTER COLUMN ... SET DEFAULT for rows to come"
        )
    if not change["nullable"]:
        raise UnsupportedOperationError(
            f'column "{name}" can\'t be added to stream "{stream}" as NOT NULL: events already written don\'t have it; '
            "leave NOT NULL out"
        )


def _field(change: Change, path: Sequence[str]) -> StructField:
    metadata = {"comment": change["comment"]} if change.get("comment") else {}
    return StructField(path[-1], _data_type(change["type"]), change["nullable"], metadata)


def _data_type(text: str) -> DataType:
    (field,) = StructType.fromJson(
        {"type": "struct", "fields": [{"name": "x", "type": json.loads(text), "nullable": True, "metadata": {}}]}
    )
    return field.dataType
