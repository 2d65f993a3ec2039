"""From Arrow arrays to JSON texts, value by value."""

from __future__ import annotations

import binascii
import json
import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from pyspark_pravega.errors import EventEncodeError
from pyspark_pravega.serde.json.days import day_text, moment_text
from pyspark_pravega.serde.schemas.json import Entries, Items, JsonType, Object, Scalar
from pyspark_pravega.serde.types import as_numbers

Text: TypeAlias = Callable[[Any], str]


def texts(schema: Object, batch: pa.RecordBatch) -> list[bytes]:
    """The rows as JSON objects.

    Args:
        schema: what they are.
        batch: rows of exactly its columns.

    Returns:
        UTF-8 texts.

    Raises:
        EventEncodeError: a value has no JSON, such as a map with a key twice.
    """
    columns = []
    for one in schema.properties:
        values = as_numbers(batch.column(one.name)).to_pylist()
        columns.append([f"{_name(one.key)}:{text}" for text in map(_nullable(_writer(one.type, one.name)), values)])
    return [f"{{{','.join(row)}}}".encode() for row in zip(*columns, strict=True)]


def twice(path: str, key: str) -> EventEncodeError:
    """The error for a map that has a key more than once."""
    return EventEncodeError(f'a map in column "{path}" has the key "{key}" twice, which JSON can\'t tell')


def _name(name: str) -> str:
    return json.dumps(name, ensure_ascii=False)


def _nullable(write: Text) -> Text:
    return lambda value: "null" if value is None else write(value)


def _writer(kind: JsonType, path: str) -> Text:
    if isinstance(kind, Items):
        item = _nullable(_writer(kind.item, f"{path}.element"))
        return lambda value: f"[{','.join(map(item, value))}]"
    if isinstance(kind, Entries):
        return _map(_nullable(_writer(kind.value, f"{path}.value")), path)
    if isinstance(kind, Object):
        fields = [
            (one.name, _name(one.key), _nullable(_writer(one.type, f"{path}.{one.name}"))) for one in kind.properties
        ]
        return lambda value: f"{{{','.join(f'{name}:{write(value[key])}' for key, name, write in fields)}}}"
    return _SCALARS.get(kind.kind) or _scalar(kind, path)


def _map(write: Text, path: str) -> Text:
    def of_map(value: list[tuple[str, Any]]) -> str:
        keys = set()
        for key, _ in value:
            if key in keys:
                raise twice(path, key)
            keys.add(key)
        return f"{{{','.join(f'{_name(key)}:{write(one)}' for key, one in value)}}}"

    return of_map


def _scalar(kind: Scalar, path: str) -> Text:
    if kind.kind == "json":

        def checked(value: str) -> str:
            try:
                json.loads(value, parse_constant=_refuse)
            except (ValueError, RecursionError):
                raise EventEncodeError(f'a value in column "{path}" isn\'t JSON text, as it must be') from None
            return value

        return checked

    def millis(value: int) -> str:
        if value % 1000:
            raise EventEncodeError(
                f'a value in column "{path}" has microseconds, and the stream\'s schema has milliseconds; '
                "date_trunc('MILLISECOND', ...) makes them fit"
            )
        return str(value // 1000)

    assert kind.kind == "timestamp_millis", kind
    return millis


def _refuse(name: str) -> Any:
    raise ValueError(name)


def _float(value: float) -> str:
    if math.isfinite(value):
        return repr(value)
    return '"NaN"' if math.isnan(value) else '"Infinity"' if value > 0 else '"-Infinity"'


def _single(value: float) -> str:
    return str(np.float32(value)) if math.isfinite(value) else _float(value)


_SCALARS: dict[str, Text] = {
    "boolean": lambda value: "true" if value else "false",
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), str),
    "double": _float,
    "float": _single,
    "decimal": lambda value: format(value, "f"),
    "string": _name,
    "binary": lambda value: f'"{binascii.b2a_base64(value, newline=False).decode()}"',
    "date": lambda value: f'"{day_text(value)}"',
    "timestamp": lambda value: f'"{moment_text(value)}Z"',
    "timestamp_ntz": lambda value: f'"{moment_text(value)}"',
}
