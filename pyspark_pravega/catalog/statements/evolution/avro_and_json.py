"""Schemas that are JSON: Avro's, and JSON Schemas. Both have structs of named fields, as a list or as an object."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pyspark.sql.types import DataType, StructField, StructType

from pyspark_pravega.catalog.ddl import ColumnPosition
from pyspark_pravega.errors import InvalidNameError, UnsupportedOperationError, did_you_mean
from pyspark_pravega.serde.formats import AVRO, JSON, Schema, registered_schema, schema_for
from pyspark_pravega.serde.schemas import avro
from pyspark_pravega.serde.schemas import json as json_schema
from pyspark_pravega.serde.types import free_name

WIDER = ("tinyint", "smallint", "int", "bigint", "float", "double")
"""Numbers, each of which takes the place of those before it."""


class Document:
    """Changes an Avro schema or a JSON Schema: both are JSON, and records are lists or objects of named things."""

    def __init__(self, schema: Schema, stream: str, earlier: Sequence[Schema]) -> None:
        self._schema, self._stream = schema, stream
        self._document: dict[str, Any] = json.loads(schema.data)
        self._earlier = [json.loads(one.data) for one in earlier]
        fields = "fields" if schema.format == AVRO else "properties"
        if not isinstance(self._document, dict) or fields not in self._document:
            raise UnsupportedOperationError(
                f"the columns of stream \"{stream}\" can't be changed: its schema isn't one of named fields"
            )

    def made(self) -> Schema:
        """The next schema."""
        name = "Avro" if self._schema.format == AVRO else "Json"
        return registered_schema(name, self._schema.type, json.dumps(self._document).encode())

    def add(self, path: list[str], field: StructField, position: ColumnPosition | None) -> None:
        """Add a field."""
        record, where = self._record(path)
        fields = self._fields(record)
        if any(name.lower() == field.name.lower() for name, _ in fields):
            raise InvalidNameError(f'stream "{self._stream}" has a column "{where}" already')
        new_field = self._in_format(record, field)
        own = new_field["name"] if self._schema.format == AVRO else field.name
        name = free_name(own, {*names_in_events(record), *self._earlier_names(path)})
        fields.append((field.name, _named(new_field, field.name, name, self._schema.format)))
        self._store(record, _placed(fields, field.name, position), {field.name: name})

    def drop(self, path: list[str], *, if_exists: bool) -> None:
        """Drop a field."""
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
        """Give a field another type."""
        record, where = self._record(path)
        before = self._column(path)
        if self._schema.format == JSON:
            _check_wider(before.dataType, kind, where, self._stream, WIDER)
        new_field = self._in_format(record, StructField(path[-1], kind, before.nullable, dict(before.metadata or {})))
        self._replace(record, path[-1], where, new_field)

    def comment(self, path: list[str], comment: str | None) -> None:
        """Give a field a comment, or take it away."""
        record, where = self._record(path)
        value = copy.deepcopy(self._value(record, path[-1], where))
        key = "doc" if self._schema.format == AVRO else "description"
        value.pop(key, None)
        if comment:
            value[key] = comment
        self._replace(record, path[-1], where, value)

    def allow_null(self, path: list[str]) -> None:
        """Let a field be null."""
        record, where = self._record(path)
        before = self._column(path)
        new_field = self._in_format(record, StructField(path[-1], before.dataType, True, dict(before.metadata or {})))
        self._replace(record, path[-1], where, new_field)

    def move(self, path: list[str], position: ColumnPosition) -> None:
        """Put a field elsewhere."""
        record, where = self._record(path)
        self._value(record, path[-1], where)
        self._store(record, _placed(self._fields(record), path[-1], position))

    def _in_format(self, record: dict[str, Any], field: StructField) -> Any:
        """A field as a new table would have it."""
        name = record.get("name") or "column"
        new_record = json.loads(schema_for(self._schema.format, StructType([field]), name=name, namespace="").data)
        if self._schema.format == AVRO:
            return new_record["fields"][0]
        key = self._keys(record).get(field.name, field.name)
        required = set(record.get("required", ())) - {key}
        record["required"] = sorted(required | ({key} if new_record.get("required") else set()))
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
        return [(column, field) for column, _, field in fields_of(record)]

    def _keys(self, record: dict[str, Any]) -> dict[str, str]:
        """The names in events of a struct's fields."""
        return {column: name for column, name, _ in fields_of(record)}

    def _earlier_names(self, path: Sequence[str]) -> set[str]:
        """The names in events of all fields that the struct has had in which a path's last name is a field."""
        names: set[str] = set()
        way, record = [], self._document
        for column in path[:-1]:
            way.append(self._keys(record)[column])
            record = _inner(dict(self._fields(record))[column], of_avro=self._schema.format == AVRO) or {}
        for document in self._earlier:
            inner: dict[str, Any] | None = document
            for name in way:
                field = {name: field for _, name, field in fields_of(inner or {})}.get(name)
                inner = _inner(field, of_avro=self._schema.format == AVRO)
            names |= names_in_events(inner or {})
        return names

    def _store(
        self, record: dict[str, Any], fields: list[tuple[str, Any]], added: Mapping[str, str] | None = None
    ) -> None:
        if self._schema.format == AVRO:
            record["fields"] = [value for _, value in fields]
            return
        keys = {**self._keys(record), **(added or {})}
        record["properties"] = {keys[column]: value for column, value in fields}
        record["required"] = [name for name in record.get("required", ()) if name in record["properties"]]

    def _replace(self, record: dict[str, Any], name: str, where: str, value: Any) -> None:
        self._value(record, name, where)
        value = _named(value, name, self._keys(record)[name], self._schema.format)
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


def continued(new: Schema, last: Schema, earlier: Sequence[Schema]) -> Schema:
    """A schema that was made of columns, as the next one of a group: the fields of columns that the last one has keep
    their names in events, and others get names that no field has had.

    Args:
        new: the schema.
        last: the group's last one.
        earlier: all of them.
    """
    document = json.loads(new.data)
    before = [json.loads(one.data) for one in earlier]
    _continue(document, json.loads(last.data), before, new.format)
    return Schema(format=new.format, type=new.type, data=json.dumps(document).encode())


def _continue(record: dict[str, Any], last: Any, before: Sequence[Any], table_format: str) -> None:
    known = {column: (name, field) for column, name, field in fields_of(last)}
    used = {name for one in before for name in names_in_events(one)}
    fields, keys = [], {}
    for column, name, field in fields_of(record):
        there = known.get(column)
        keys[name] = free_name(name, used) if there is None else there[0]
        used.add(keys[name])
        inner = _inner(field, of_avro=table_format == AVRO)
        if inner is not None and there is not None:
            others = [dict(_named_fields(one)).get(there[0]) for one in before]
            structs = [_inner(one, of_avro=table_format == AVRO) for one in [there[1], *others]]
            _continue(inner, structs[0] or {}, [one or {} for one in structs[1:]], table_format)
        fields.append((keys[name], _named(field, column, keys[name], table_format)))
    if table_format == AVRO:
        record["fields"] = [field for _, field in fields]
        return
    record["properties"] = dict(fields)
    if "required" in record:
        record["required"] = [keys[name] for name in record["required"]]


def fields_of(record: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """The fields of a struct.

    Args:
        record: an Avro record, or an object of a JSON Schema.

    Yields:
        The column's name, the field's name in events, and the field.
    """
    for field in record.get("fields", ()):
        yield avro.column_name(field), field["name"], field
    for key, value in record.get("properties", {}).items():
        yield json_schema.column_name(key, value), key, value


def names_in_events(record: Mapping[str, Any]) -> set[str]:
    """The names in events of a struct's fields."""
    return {name for _, name, _ in fields_of(record)}


def _named_fields(record: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    return ((name, field) for _, name, field in fields_of(record))


def _named(field: Any, column: str, name: str, table_format: str) -> Any:
    """A field under its own name in events, from which the column's differs where Avro doesn't allow that, and where an
    earlier column had it."""
    if not isinstance(field, dict):
        return field
    others = {key: value for key, value in field.items() if key not in (avro.SPARK_NAME, "name")}
    if table_format == JSON:
        others = {key: value for key, value in field.items() if key != json_schema.SPARK_NAME}
        return {**others, **({json_schema.SPARK_NAME: column} if name != column else {})}
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


def _placed(fields: list[tuple[str, Any]], name: str, position: ColumnPosition | None) -> list[tuple[str, Any]]:
    if position is None:
        return fields
    moved = next(entry for entry in fields if entry[0] == name)
    others = [entry for entry in fields if entry[0] != name]
    if position.after is None:
        return [moved, *others]
    names = [entry[0].lower() for entry in others]
    if position.after.lower() not in names:
        raise InvalidNameError(
            f'there is no column "{position.after}" after which "{name}" could be{did_you_mean(position.after, names)}'
        )
    at = names.index(position.after.lower()) + 1
    return [*others[:at], moved, *others[at:]]


def _check_wider(before: DataType, after: DataType, where: str, stream: str, order: Sequence[str]) -> None:
    one, other = before.simpleString(), after.simpleString()
    if one in order and other in order and order.index(one) <= order.index(other):
        return
    raise UnsupportedOperationError(
        f'column "{where}" of stream "{stream}" can\'t become {other.upper()}: events already written hold '
        f"{one.upper()}; only wider numbers can take its place ({', '.join(order)})"
    )
