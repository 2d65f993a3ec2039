"""Whether events that were written with an earlier schema can be read with another one."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from pyspark_pravega.catalog.statements.evolution.avro_and_json import WIDER
from pyspark_pravega.errors import SchemaError, UnsupportedOperationError
from pyspark_pravega.serde.avro import Resolver
from pyspark_pravega.serde.avro import read as avro_read
from pyspark_pravega.serde.formats import JSON, PROTOBUF, Schema
from pyspark_pravega.serde.protobuf import check_readable as check_messages
from pyspark_pravega.serde.schemas import avro, protobuf
from pyspark_pravega.serde.schemas import json as json_schema
from pyspark_pravega.serde.types import avro_to_spark
from pyspark_pravega.spark.arrow import to_arrow_schema

_TEXTS = ("string", "binary", "date", "timestamp", "timestamp_ntz")
_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}


def check_still_readable(earlier: Iterable[Schema], now: Schema | None, new: Schema, *, stream: str) -> None:
    """Refuse a schema with which events can't be read that can be read without it.

    Args:
        earlier: the schemas that events may have been written with.
        now: the one that they are read with.
        new: the next one.
        stream: the stream, for messages.

    Raises:
        UnsupportedOperationError: some couldn't be read any more.
    """
    for old in earlier:
        try:
            check_readable(old, new, stream=stream)
        except UnsupportedOperationError:
            # Those of a table that this one has replaced aren't read any more.
            if now is None or is_readable(old, now):
                raise


def is_readable(old: Schema, new: Schema) -> bool:
    """As `check_readable`."""
    try:
        check_readable(old, new, stream="")
    except UnsupportedOperationError:
        return False
    return True


def check_readable(old: Schema, new: Schema, *, stream: str) -> None:
    """Whether events of an old schema can be read by a new one.

    Args:
        old: the schema they were written with.
        new: the next schema.
        stream: the stream, for messages.

    Raises:
        UnsupportedOperationError: they can't.
    """
    try:
        if new.format == PROTOBUF:
            check_messages(protobuf.parse(old.data, old.type), protobuf.parse(new.data, new.type), "")
            return
        if new.format == JSON:
            documents = json_schema.parse(old.data.decode()), json_schema.parse(new.data.decode())
            if all(isinstance(one, json_schema.Object) for one in documents):
                _check_documents(*documents, "")
            return
        whole = (json.loads(old.data), json.loads(new.data))
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


def _check_documents(writer: json_schema.JsonType, reader: json_schema.JsonType, path: str) -> None:
    """Raise SchemaError unless values of one type are values of the other, whatever they are."""
    if isinstance(writer, json_schema.Object) and isinstance(reader, json_schema.Object):
        written = {one.key: one for one in writer.properties}
        for one in reader.properties:
            if one.key in written:
                _check_documents(written[one.key].type, one.type, f"{path}.{one.name}" if path else one.name)
    elif isinstance(writer, json_schema.Items) and isinstance(reader, json_schema.Items):
        _check_documents(writer.item, reader.item, f"{path}.element")
    elif isinstance(writer, json_schema.Entries) and isinstance(reader, json_schema.Entries):
        _check_documents(writer.value, reader.value, f"{path}.value")
    elif not _takes(writer, reader):
        raise SchemaError(f'"{path}" was written as {_named(writer)}, and can\'t be read as {_named(reader)}')


def _takes(writer: json_schema.JsonType, reader: json_schema.JsonType) -> bool:
    if not isinstance(reader, json_schema.Scalar):
        # What the schema left open may be of any type.
        return isinstance(writer, json_schema.Scalar) and writer.kind == "json"
    if reader.kind == "json" or not isinstance(writer, json_schema.Scalar):
        return reader.kind == "json"
    one, other = writer.kind, reader.kind
    if one == other == "decimal":
        digits = (writer.precision - writer.scale, reader.precision - reader.scale)
        return digits[0] <= digits[1] and writer.scale <= reader.scale
    if other == "decimal":
        return one in _DIGITS and _DIGITS[one] <= reader.precision - reader.scale
    if one in WIDER and other in WIDER:
        return WIDER.index(one) <= WIDER.index(other)
    return one in (other, "json") or (one in _TEXTS and other == "string")


def _named(kind: json_schema.JsonType) -> str:
    if isinstance(kind, json_schema.Scalar):
        return kind.spark or kind.kind
    return {json_schema.Object: "an object", json_schema.Items: "an array"}.get(type(kind), "a map")
