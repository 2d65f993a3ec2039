"""From Protobuf messages, as the runtime has parsed them, to values that Arrow takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from pyspark_pravega.serde.json import read as json_read
from pyspark_pravega.serde.one_by_one import UnfitError
from pyspark_pravega.serde.schemas.protobuf import Field, Message
from pyspark_pravega.serde.types import field_type, is_nullable
from pyspark_pravega.spark.types import DataType, DecimalType

Convert: TypeAlias = Callable[[Any], Any]

_NARROW = {"tinyint": 2**7, "smallint": 2**15}
_WIRE_FIXED = {1: 8, 5: 4}


def columns(message: Message, names: Sequence[str]) -> list[Convert]:
    """What takes columns from a message: functions of it, which raise UnfitError.

    Args:
        message: its type.
        names: the wanted fields.
    """
    by_name = {field.name: field for field in message.fields}
    return [getter(by_name[name], name) for name in names]


def getter(field: Field, path: str) -> Convert:
    """What takes a field's value from its message.

    Args:
        field: the field.
        path: the column, for messages.
    """
    name = field.name
    if field.label == "map":
        assert field.message is not None
        key, value = (_converter(part, f"{path}.{part.name}") for part in field.message.fields)

        def entries(message: Any) -> Any:
            map_field = getattr(message, name)
            # Not items(): of messages it would make copies.
            return [(key(one), value(map_field[one])) for one in map_field]

        return entries
    convert = _converter(field, path if field.label == "one" else f"{path}.element")
    if field.label == "many":
        return lambda message: [convert(one) for one in getattr(message, name)]
    if not field.presence:
        return lambda message: convert(getattr(message, name))
    nullable = is_nullable(field)

    def single(message: Any) -> Any:
        if message.HasField(name):
            return convert(getattr(message, name))
        if not nullable:
            raise UnfitError(f'"{path}" is missing, and the table\'s column is NOT NULL')
        return None

    return single


def _converter(field: Field, path: str) -> Convert:
    if field.kind == "message":
        assert field.message is not None
        fields = [(one.name, getter(one, f"{path}.{one.name}")) for one in field.message.fields]
        return lambda message: {name: get(message) for name, get in fields}
    if field.kind == "wrapper":
        assert field.message is not None
        inner = _converter(field.message.fields[0], path)
        return lambda message: inner(message.value)
    if field.kind == "timestamp":
        return lambda message: micros(message.seconds, message.nanos, path)
    if field.kind == "enum":
        names = dict(reversed(field.enum))
        return lambda number: names.get(number, str(number))
    if field.kind == "string" and isinstance(kind := _plain(field), DecimalType):
        return lambda text: json_read.decimal_of(text or "0", kind.precision, kind.scale, path)
    top = _NARROW.get(field.spark or "") if field.kind == "int32" else None
    if top is not None:

        def narrow(number: int) -> int:
            if not -top <= number < top:
                raise UnfitError(f'the number in "{path}", {number}, is out of the range of {field.spark}')
            return number

        return narrow
    return lambda value: value


def _plain(field: Field) -> DataType:
    kind = field_type(field, field.name)
    return kind.elementType if field.label == "many" else kind  # type: ignore[attr-defined]


def micros(seconds: int, nanos: int, path: str) -> int:
    """A Timestamp as microseconds since 1970; what is finer is cut off.

    Args:
        seconds: since 1970.
        nanos: nanoseconds to be added.
        path: the column, for messages.

    Raises:
        UnfitError: it is out of range.
    """
    value = seconds * 10**6 + nanos // 1000
    if not -(2**63) <= value < 2**63:
        raise UnfitError(f'the time in "{path}" is out of the range of TIMESTAMP')
    return value


def cut(body: bytes) -> bytes:
    """A message without the zeros that the official serializers leave behind it when they compress.

    Args:
        body: fields, and what follows them from a tag 0 on.
    """
    position = 0
    while position < len(body):
        tag, after = _varint(body, position)
        if tag == 0:
            return body[:position] if not body[position:].strip(b"\0") else body
        wire = tag & 7
        if wire == 0:
            _, after = _varint(body, after)
        elif wire == 2:
            size, after = _varint(body, after)
            after += size
        elif wire in _WIRE_FIXED:
            after += _WIRE_FIXED[wire]
        elif wire not in (3, 4):
            return body
        position = after
    return body


def _varint(body: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while position < len(body):
        byte = body[position]
        value |= (byte & 0x7F) << shift
        shift, position = shift + 7, position + 1
        if byte < 0x80:
            break
    return value, position
