"""From Arrow values to Protobuf messages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any, TypeAlias

import pyarrow as pa

from pyspark_pravega.errors import EventEncodeError
from pyspark_pravega.serde.schemas.protobuf import Field, Message
from pyspark_pravega.serde.types import as_numbers, field_type
from pyspark_pravega.spark.types import DecimalType

Put: TypeAlias = Callable[[Any, Any], None]
"""Takes a message and a value, and sets a field."""


def messages(message: Message, make: Callable[[], Any], batch: pa.RecordBatch) -> list[bytes]:
    """The rows as messages.

    Args:
        message: their type.
        make: makes an empty one.
        batch: rows of exactly its columns.

    Raises:
        EventEncodeError: a value doesn't fit its field.
    """
    columns = [as_numbers(batch.column(field.name)).to_pylist() for field in message.fields]
    put = _putters(message, "")
    out = []
    for row in zip(*columns, strict=True):
        target = make()
        put(target, dict(zip((field.name for field in message.fields), row, strict=True)))
        out.append(target.SerializeToString(deterministic=True))
    return out


def _putters(message: Message, path: str) -> Put:
    fields = [(field.name, _put(field, f"{path}{field.name}")) for field in message.fields]
    oneofs: dict[str, list[str]] = defaultdict(list)
    for field in message.fields:
        if field.oneof:
            oneofs[field.oneof].append(field.name)

    def put(target: Any, value: dict[str, Any]) -> None:
        for oneof, names in oneofs.items():
            if sum(value[name] is not None for name in names) > 1:
                raise one_of_several(path, oneof, names)
        for name, put_field in fields:
            if value[name] is not None:
                put_field(target, value[name])

    return put


def one_of_several(path: str, oneof: str, names: list[str]) -> EventEncodeError:
    """The error for a oneof of which more than one member has a value."""
    return EventEncodeError(
        f"of the columns {', '.join(path + name for name in names)} more than one has a value, and they share the "
        f'place "{oneof}": all but one must be null'
    )


def null_inside(path: str) -> EventEncodeError:
    """The error for a null in an array or map."""
    return EventEncodeError(
        f'column "{path}" holds null, and Protobuf has no nulls in arrays and maps: filter them out, '
        "as filter(column, x -> x IS NOT NULL) does"
    )


def _put(field: Field, path: str) -> Put:
    name = field.name
    if field.label == "map":
        return _put_map(field, path)
    inner = path if field.label == "one" else f"{path}.element"
    if field.kind in ("message", "wrapper", "timestamp"):
        fill = _filler(field, inner)
        if field.label == "one":

            def put_message(target: Any, value: Any) -> None:
                submessage = getattr(target, name)
                submessage.SetInParent()
                fill(submessage, value)

            return put_message

        def put_messages(target: Any, values: Any) -> None:
            for value in values:
                if value is None:
                    raise null_inside(inner)
                fill(getattr(target, name).add(), value)

        return put_messages
    convert = _converter(field, inner)
    if field.label == "many":

        def put_many(target: Any, values: Any) -> None:
            if any(value is None for value in values):
                raise null_inside(inner)
            getattr(target, name).extend(convert(value) for value in values)

        return put_many

    def put(target: Any, value: Any) -> None:
        setattr(target, name, convert(value))

    return put


def _put_map(field: Field, path: str) -> Put:
    assert field.message is not None
    key, value = field.message.fields
    convert_key = _converter(key, f"{path}.key")
    of_message = value.kind in ("message", "wrapper", "timestamp")
    fill = _filler(value, f"{path}.value") if of_message else None
    convert = _converter(value, f"{path}.value")

    def put(target: Any, entries: Any) -> None:
        map_field = getattr(target, field.name)
        for one, of in entries:
            if of is None:
                raise null_inside(f"{path}.value")
            at = convert_key(one)
            if at in map_field:
                raise EventEncodeError(f'a map in column "{path}" has the key "{one}" twice')
            if fill is not None:
                fill(map_field[at], of)
            else:
                map_field[at] = convert(of)

    return put


def _filler(field: Field, path: str) -> Put:
    assert field.message is not None
    if field.kind == "message":
        return _putters(field.message, f"{path}.")
    if field.kind == "wrapper":
        convert = _converter(field.message.fields[0], path)

        def wrap(target: Any, value: Any) -> None:
            target.value = convert(value)

        return wrap

    def timestamp(target: Any, value: Any) -> None:
        target.seconds, rest = divmod(value, 10**6)
        target.nanos = rest * 1000

    return timestamp


def _converter(field: Field, path: str) -> Callable[[Any], Any]:
    if field.kind == "enum":
        numbers = {name: number for number, name in field.enum}

        def number_of(value: str) -> int:
            if value not in numbers:
                raise EventEncodeError(
                    f'the value "{value}" in column "{path}" is none of the enum\'s names: {", ".join(numbers)}'
                )
            return numbers[value]

        return number_of
    if field.kind in ("message", "wrapper", "timestamp"):
        return lambda value: value
    kind = field_type(field, path)
    if field.label == "many":
        kind = kind.elementType  # type: ignore[attr-defined]
    if field.kind in ("uint64", "fixed64"):
        return lambda value: _unsigned(int(value), 64, path)
    if field.kind in ("uint32", "fixed32"):
        return lambda value: _unsigned(value, 32, path)
    if isinstance(kind, DecimalType):
        return lambda value: format(value, "f")
    return lambda value: value


def _unsigned(value: int, bits: int, path: str) -> int:
    if not 0 <= value < 2**bits:
        raise EventEncodeError(
            f'a value in column "{path}", {value}, is out of the range of an unsigned {bits} bit number'
        )
    return value
