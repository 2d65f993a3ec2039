"""ALTER TABLE's changes of columns: from a schema in the registry to the next one.

The registered schema itself is changed, not made anew of the columns: what others have put into it stays there.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from typing import Any

from google.protobuf import descriptor_pb2
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import DataType, StructField, StructType

from pyspark_pravega.errors import InvalidNameError, SchemaError, UnsupportedOperationError, did_you_mean
from pyspark_pravega.serde.avro import Resolver
from pyspark_pravega.serde.avro import read as avro_read
from pyspark_pravega.serde.formats import AVRO, JSON, PROTOBUF, Schema, registered_schema, schema_for
from pyspark_pravega.serde.schemas import avro
from pyspark_pravega.serde.types import avro_to_spark, free_name

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


def evolved(schema: Schema, changes: Sequence[Change], *, stream: str) -> Schema:
    """The next schema.

    Args:
        schema: the present one.
        changes: changes of columns: `kind` is the name of Spark's class, `column` the column's path, and so on.
        stream: the stream, for messages.

    Raises:
        InvalidNameError: there is no such column, or there is one of that name already.
        UnsupportedOperationError: a change that the events already written rule out, or that the format can't do.
        UnsupportedTypeError: the format has no such type.
    """
    editor: _Json | _Protobuf
    editor = _Protobuf(schema, stream) if schema.format == PROTOBUF else _Json(schema, stream)
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
        elif known.dataType != field.dataType:
            changes.append({"kind": "UpdateColumnType", "column": [*path, known.name], "type": field.dataType.json()})
    return changes


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


def check_readable(old: Schema, new: Schema, *, stream: str) -> None:
    """Whether events of an old schema can be read by a new one.

    Args:
        old: the schema they were written with.
        new: the next schema.
        stream: the stream, for messages.

    Raises:
        UnsupportedOperationError: they can't.
    """
    if new.format != AVRO:
        return
    whole = (json.loads(old.data), json.loads(new.data))
    try:
        # Of unions only the branch that an event has is resolved, when it is read: so values are looked at, too.
        for writer, reader in (whole, _values(*whole)):
            columns = to_arrow_schema(new.stored_columns(avro_to_spark(json.dumps(reader))), timezone="UTC")
            kinds = avro.parse(json.dumps(writer)), avro.parse(json.dumps(reader))
            Resolver(avro_read).resolve_record(*kinds, columns)
    except SchemaError as error:
        raise UnsupportedOperationError(
            f'events that are in stream "{stream}" already couldn\'t be read any more: {error}'
        ) from None


def _values(writer: Any, reader: Any) -> tuple[Any, Any]:
    """Both schemas without nulls, and with the fields that both have."""
    writer, reader = _without_null(writer), _without_null(reader)
    if not isinstance(writer, dict) or not isinstance(reader, dict) or writer.get("type") != reader.get("type"):
        return writer, reader
    if writer["type"] == "record":
        pairs = []
        written = {field["name"]: field for field in writer["fields"]}
        for field in reader["fields"]:
            if field["name"] in written:
                one, other = _values(written[field["name"]]["type"], field["type"])
                pairs.append(({"name": field["name"], "type": one}, {"name": field["name"], "type": other}))
        return (
            {**writer, "fields": [one for one, _ in pairs]},
            {**reader, "fields": [other for _, other in pairs]},
        )
    for key in ("items", "values"):
        if key in writer and key in reader:
            one, other = _values(writer[key], reader[key])
            return {**writer, key: one}, {**reader, key: other}
    return writer, reader


def _without_null(kind: Any) -> Any:
    if isinstance(kind, list):
        others = [branch for branch in kind if branch != "null"]
        return others[0] if len(others) == 1 else kind
    return kind


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


class _Json:
    """Changes an Avro schema or a JSON Schema: both are JSON, and records are lists or objects of named things."""

    def __init__(self, schema: Schema, stream: str) -> None:
        self._schema, self._stream = schema, stream
        self._document: dict[str, Any] = json.loads(schema.data)
        fields = "fields" if schema.format == AVRO else "properties"
        if not isinstance(self._document, dict) or fields not in self._document:
            raise UnsupportedOperationError(
                f"the columns of stream \"{stream}\" can't be changed: its schema isn't one of named fields"
            )

    def made(self) -> Schema:
        name = "Avro" if self._schema.format == AVRO else "Json"
        return registered_schema(name, self._schema.type, json.dumps(self._document).encode())

    def add(self, path: list[str], field: StructField, position: Sequence[str] | None) -> None:
        record, where = self._record(path)
        fields = self._fields(record)
        if any(name.lower() == field.name.lower() for name, _ in fields):
            raise InvalidNameError(f'stream "{self._stream}" has a column "{where}" already')
        new_field = self._in_format(record, field)
        if self._schema.format == AVRO:
            new_field = _named(
                new_field, field.name, free_name(new_field["name"], [value["name"] for _, value in fields])
            )
        fields.append((field.name, new_field))
        self._store(record, _placed(fields, field.name, position))

    def drop(self, path: list[str], *, if_exists: bool) -> None:
        record, where = self._record(path)
        fields = self._fields(record)
        kept = [(name, value) for name, value in fields if name != path[-1]]
        if len(kept) == len(fields):
            if if_exists:
                return
            raise self._missing(where, fields)
        if not kept:
            raise UnsupportedOperationError(
                f'column "{where}" is the only one of stream "{self._stream}": it must stay'
            )
        self._store(record, kept)

    def retype(self, path: list[str], kind: DataType) -> None:
        record, where = self._record(path)
        before = self._column(path)
        if self._schema.format == JSON:
            _check_wider(before.dataType, kind, where, self._stream, _WIDER)
        new_field = self._in_format(record, StructField(path[-1], kind, before.nullable, dict(before.metadata or {})))
        self._replace(record, path[-1], where, new_field)

    def comment(self, path: list[str], comment: str | None) -> None:
        record, where = self._record(path)
        value = copy.deepcopy(self._value(record, path[-1], where))
        key = "doc" if self._schema.format == AVRO else "description"
        value.pop(key, None)
        if comment:
            value[key] = comment
        self._replace(record, path[-1], where, value)

    def allow_null(self, path: list[str]) -> None:
        record, where = self._record(path)
        before = self._column(path)
        new_field = self._in_format(record, StructField(path[-1], before.dataType, True, dict(before.metadata or {})))
        self._replace(record, path[-1], where, new_field)

    def move(self, path: list[str], position: Sequence[str] | None) -> None:
        record, where = self._record(path)
        self._value(record, path[-1], where)
        self._store(record, _placed(self._fields(record), path[-1], position))

    def _in_format(self, record: dict[str, Any], field: StructField) -> Any:
        """A field as a new table would have it."""
        name = record.get("name") or "column"
        new_record = json.loads(schema_for(self._schema.format, StructType([field]), name=name, namespace="").data)
        if self._schema.format == AVRO:
            return new_record["fields"][0]
        required = set(record.get("required", ())) - {field.name}
        record["required"] = sorted(required | set(new_record.get("required", ())))
        return new_record["properties"][field.name]

    def _record(self, path: Sequence[str]) -> tuple[dict[str, Any], str]:
        """The record in which a path's last name is a field, and the path for messages."""
        record, where = self._document, ".".join(path)
        for name in path[:-1]:
            value = dict(self._fields(record)).get(name)
            inner = _inner(value, of_avro=self._schema.format == AVRO)
            if inner is None:
                raise UnsupportedOperationError(
                    f'column "{where}" of stream "{self._stream}" can\'t be changed: "{name}" isn\'t a struct that is '
                    "defined there"
                )
            record = inner
        return record, where

    def _fields(self, record: dict[str, Any]) -> list[tuple[str, Any]]:
        if self._schema.format == AVRO:
            return [(avro.column_name(field), field) for field in record["fields"]]
        return list(record["properties"].items())

    def _store(self, record: dict[str, Any], fields: list[tuple[str, Any]]) -> None:
        if self._schema.format == AVRO:
            record["fields"] = [value for _, value in fields]
            return
        record["properties"] = dict(fields)
        record["required"] = [name for name in record.get("required", ()) if name in record["properties"]]

    def _replace(self, record: dict[str, Any], name: str, where: str, value: Any) -> None:
        before = self._value(record, name, where)
        if self._schema.format == AVRO:
            value = _named(value, name, before["name"])
        self._store(record, [(known, value if known == name else old) for known, old in self._fields(record)])

    def _value(self, record: dict[str, Any], name: str, where: str) -> Any:
        fields = self._fields(record)
        if name not in dict(fields):
            raise self._missing(where, fields)
        return dict(fields)[name]

    def _column(self, path: Sequence[str]) -> StructField:
        columns: Any = self.made().columns()
        for name in path[:-1]:
            columns = columns[name].dataType
        if path[-1] not in columns.fieldNames():
            raise self._missing(".".join(path), [(name, None) for name in columns.fieldNames()])
        column: StructField = columns[path[-1]]
        return column

    def _missing(self, where: str, fields: Sequence[tuple[str, Any]]) -> InvalidNameError:
        known = did_you_mean(where, [name for name, _ in fields])
        return InvalidNameError(f'stream "{self._stream}" has no column "{where}"{known}')


class _Protobuf:
    """Changes a message: numbers of fields stay as they are, and are never used again."""

    def __init__(self, schema: Schema, stream: str) -> None:
        self._schema, self._stream = schema, stream
        self._files = descriptor_pb2.FileDescriptorSet.FromString(schema.data)
        self._file, self._message = self._find()

    def made(self) -> Schema:
        return registered_schema("Protobuf", self._schema.type, self._files.SerializeToString(deterministic=True))

    def add(self, path: list[str], field: StructField, position: Sequence[str] | None) -> None:
        if len(path) > 1 or position:
            raise self._unable(path, "a column can only be added to the message itself, as its last one")
        if any(known.name.lower() == field.name.lower() for known in self._message.field):
            raise InvalidNameError(f'stream "{self._stream}" has a column "{field.name}" already')
        single = schema_for(PROTOBUF, StructType([field]), name=self._message.name, namespace=self._file.package)
        message = descriptor_pb2.FileDescriptorSet.FromString(single.data).file[0].message_type[0]
        there = {nested.name: nested for nested in self._message.nested_type}
        for nested in message.nested_type:
            if nested.name not in there:
                self._message.nested_type.add().CopyFrom(nested)
            elif there[nested.name] != nested:
                raise self._unable(path, f"the message has another type {nested.name} already")
        one = self._message.field.add()
        one.CopyFrom(message.field[0])
        used = [known.number for known in self._message.field[:-1]]
        used += [reserved.end - 1 for reserved in self._message.reserved_range]
        number = max(used, default=0) + 1
        one.number = number + 1000 if 19000 <= number < 20000 else number
        if one.proto3_optional:
            one.oneof_index = len(self._message.oneof_decl)
            self._message.oneof_decl.add(name=f"_{one.name}")

    def drop(self, path: list[str], *, if_exists: bool) -> None:
        place = next((i for i, known in enumerate(self._message.field) if [known.name] == path), None)
        if place is None:
            if if_exists:
                return
            raise InvalidNameError(f'stream "{self._stream}" has no column "{".".join(path)}" to drop')
        if len(self._message.field) == 1:
            raise UnsupportedOperationError(f'column "{path[0]}" is the only one of stream "{self._stream}"')
        gone = self._message.field[place]
        self._message.reserved_range.add(start=gone.number, end=gone.number + 1)
        if gone.HasField("oneof_index"):
            if not gone.proto3_optional:
                raise self._unable(path, "it is one of several alternatives (oneof)")
            index = gone.oneof_index
            del self._message.oneof_decl[index]
            for known in self._message.field:
                if known.HasField("oneof_index") and known.oneof_index > index:
                    known.oneof_index -= 1
        del self._message.field[place]

    def retype(self, path: list[str], kind: DataType) -> None:
        raise self._unable(path, f"its type can't become {kind.simpleString()}: add a column of the new type")

    def comment(self, path: list[str], comment: str | None) -> None:
        raise self._unable(path, f'a message\'s fields keep no comments, such as "{comment or ""}"')

    def allow_null(self, path: list[str]) -> None:
        raise self._unable(path, "whether a field may be missing is fixed when it is made")

    def move(self, path: list[str], position: Sequence[str] | None) -> None:
        raise self._unable(path, f"a message's fields stay where they are, not {' '.join(position or ())}")

    def _unable(self, path: Sequence[str], why: str) -> UnsupportedOperationError:
        return UnsupportedOperationError(
            f'column "{".".join(path)}" of stream "{self._stream}", whose events are Protobuf, can\'t be changed so: '
            f"{why}"
        )

    def _find(self) -> tuple[descriptor_pb2.FileDescriptorProto, descriptor_pb2.DescriptorProto]:
        for file in self._files.file:
            for message in file.message_type:
                name = f"{file.package}.{message.name}" if file.package else message.name
                if name == self._schema.type or not self._schema.type:
                    return file, message
        raise SchemaError(f'the schema of stream "{self._stream}" doesn\'t hold its message {self._schema.type}')


def _named(field: dict[str, Any], column: str, name: str) -> dict[str, Any]:
    """A field of an Avro record under its own name, which the column's differs from where Avro doesn't allow that."""
    others = {key: value for key, value in field.items() if key not in ("name", avro.SPARK_NAME)}
    return {"name": name, **others, **({avro.SPARK_NAME: column} if name != column else {})}


def _inner(value: Any, *, of_avro: bool) -> dict[str, Any] | None:
    """The struct that a field is of."""
    if value is None:
        return None
    if not of_avro:
        options = value.get("anyOf") or [value]
        return next((option for option in options if "properties" in option), None)
    kinds = value["type"] if isinstance(value["type"], list) else [value["type"]]
    return next((kind for kind in kinds if isinstance(kind, dict) and kind.get("type") == "record"), None)


def _placed(fields: list[tuple[str, Any]], name: str, position: Sequence[str] | None) -> list[tuple[str, Any]]:
    if not position:
        return fields
    moved = next(entry for entry in fields if entry[0] == name)
    others = [entry for entry in fields if entry[0] != name]
    if position[0] == "FIRST":
        return [moved, *others]
    names = [entry[0].lower() for entry in others]
    if position[1].lower() not in names:
        raise InvalidNameError(
            f'there is no column "{position[1]}" after which "{name}" could be{did_you_mean(position[1], names)}'
        )
    at = names.index(position[1].lower()) + 1
    return [*others[:at], moved, *others[at:]]


def _check_wider(before: DataType, after: DataType, where: str, stream: str, order: Sequence[str]) -> None:
    one, other = before.simpleString(), after.simpleString()
    if one in order and other in order and order.index(one) <= order.index(other):
        return
    raise UnsupportedOperationError(
        f'column "{where}" of stream "{stream}" can\'t become {other.upper()}: events already written hold '
        f"{one.upper()}; only wider numbers can take its place ({', '.join(order)})"
    )
