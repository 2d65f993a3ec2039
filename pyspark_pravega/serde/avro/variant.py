"""Avro values of any shape as VARIANT: for records within themselves, for which Spark has no type.

Values are walked through one by one, in plain Python.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from pyspark_pravega.serde import variant
from pyspark_pravega.serde.avro.step import StepError, read_count, read_float, read_number, sized
from pyspark_pravega.serde.json import MAX_DEPTH
from pyspark_pravega.serde.schemas import avro
from pyspark_pravega.serde.variant import Names, Put

Read: TypeAlias = Callable[[memoryview, int, int], tuple[Put, int]]
"""From bytes, a position in them and how deep it lies to what appends the value, and the position behind it."""

_FRACTIONS = {"millis": 1000, "micros": 1}


def reader(schema: avro.AvroType, readers: dict[str, Read] | None = None) -> Read:
    """What reads values of a type.

    Args:
        schema: the type they were written as.
        readers: readers of records that hold themselves, by name.

    Returns:
        A function that raises StepError, IndexError or UnicodeDecodeError when there's no such value.
    """
    readers = {} if readers is None else readers
    if isinstance(schema, avro.Recursive):
        return _recursive(schema, readers)
    if isinstance(schema, avro.Record):
        return _record([(field.name, reader(field.type, readers)) for field in schema.fields])
    if isinstance(schema, avro.Union):
        return _union([reader(branch, readers) for branch in schema.branches])
    if isinstance(schema, avro.Array):
        return _array(reader(schema.items, readers))
    if isinstance(schema, avro.Map):
        return _map(reader(schema.values, readers))
    if isinstance(schema, avro.Enum):
        return _enum(schema.symbols)
    if isinstance(schema, avro.Fixed) or schema.kind in ("bytes", "string"):
        return _bytes(schema)
    return _primitive(schema)


def of_value(read: Read, data: memoryview, position: int) -> tuple[bytes, bytes, int]:
    """A value as a VARIANT.

    Args:
        read: reads it.
        data: the event, up to its end.
        position: where it begins.

    Returns:
        The VARIANT's value and metadata, and the position behind the Avro value.
    """
    put, position = read(data, position, 0)
    out, names = bytearray(), Names()
    put(out, names)
    return bytes(out), names.metadata(), position


def _recursive(schema: avro.Recursive, readers: dict[str, Read]) -> Read:
    def read(data: memoryview, position: int, depth: int) -> tuple[Put, int]:
        read_record = readers.get(schema.name)
        if read_record is None:
            read_record = readers[schema.name] = reader(schema.definition, readers)
        return read_record(data, position, depth)

    return read


def _deeper(depth: int) -> int:
    if depth >= MAX_DEPTH:
        raise StepError(f"it is nested more than {MAX_DEPTH} levels deep")
    return depth + 1


def _record(fields: Sequence[tuple[str, Read]]) -> Read:
    def read(data: memoryview, position: int, depth: int) -> tuple[Put, int]:
        depth = _deeper(depth)
        puts = []
        for name, read_field in fields:
            put, position = read_field(data, position, depth)
            puts.append((name, put))
        return lambda out, names: variant.put_object(out, names, puts), position

    return read


def _union(branches: Sequence[Read]) -> Read:
    def read(data: memoryview, position: int, depth: int) -> tuple[Put, int]:
        index, position = read_number(data, position)
        if not 0 <= index < len(branches):
            raise StepError("a union has no branch of that number")
        return branches[index](data, position, depth)

    return read


def _array(read_item: Read) -> Read:
    def read(data: memoryview, position: int, depth: int) -> tuple[Put, int]:
        depth = _deeper(depth)
        puts: list[Put] = []
        while True:
            count, position = read_count(data, position)
            if not count:
                return lambda out, names: variant.put_array(out, names, puts), position
            for _ in range(count):
                put, position = read_item(data, position, depth)
                puts.append(put)

    return read


def _map(read_value: Read) -> Read:
    def read(data: memoryview, position: int, depth: int) -> tuple[Put, int]:
        depth = _deeper(depth)
        puts: dict[str, Put] = {}
        while True:
            count, position = read_count(data, position)
            if not count:
                return lambda out, names: variant.put_object(out, names, list(puts.items())), position
            for _ in range(count):
                raw, position = sized(data, position)
                puts[str(raw, "utf-8")], position = read_value(data, position, depth)

    return read


def _enum(symbols: Sequence[str]) -> Read:
    def read(data: memoryview, position: int, depth: int) -> tuple[Put, int]:
        del depth
        index, position = read_number(data, position)
        if not 0 <= index < len(symbols):
            raise StepError("an enum has no symbol of that number")
        return lambda out, _: variant.put_string(out, symbols[index]), position

    return read


def _bytes(schema: avro.Primitive | avro.Fixed) -> Read:
    size = schema.size if isinstance(schema, avro.Fixed) else None
    is_text = isinstance(schema, avro.Primitive) and schema.kind == "string"
    is_decimal = schema.logical == "decimal" and schema.precision <= 38

    def read(data: memoryview, position: int, depth: int) -> tuple[Put, int]:
        del depth
        raw, position = sized(data, position, size)
        if is_text:
            text = str(raw, "utf-8")
            return lambda out, _: variant.put_string(out, text), position
        if is_decimal:
            unscaled = int.from_bytes(raw, "big", signed=True)
            if abs(unscaled) >= 10**schema.precision:
                raise StepError(f"a decimal has more than {schema.precision} digits")
            return lambda out, _: variant.put_decimal(out, unscaled, schema.scale), position
        content = bytes(raw)
        return lambda out, _: variant.put_binary(out, content), position

    return read


def _primitive(schema: avro.Primitive) -> Read:
    def read(data: memoryview, position: int, depth: int) -> tuple[Put, int]:
        del depth
        if schema.kind == "null":
            return lambda out, _: out.extend(variant.NULL), position
        if schema.kind == "boolean":
            if data[position] > 1:
                raise StepError("a boolean is neither 0 nor 1")
            value = data[position] == 1
            return lambda out, _: variant.put_boolean(out, value), position + 1
        if schema.kind == "float":
            single, position = read_float(data, position, 4)
            return lambda out, _: variant.put_float(out, single), position
        if schema.kind == "double":
            double, position = read_float(data, position, 8)
            return lambda out, _: variant.put_double(out, double), position
        number, position = read_number(data, position)
        return _number(schema, number), position

    return read


def _number(schema: avro.Primitive, number: int) -> Put:
    bits = 31 if schema.kind == "int" else 63
    if not -(2**bits) <= number < 2**bits:
        raise StepError(f"a number is out of the range of {schema.kind}")
    if schema.logical == "date":
        return lambda out, _: variant.put_date(out, number)
    kind, _, unit = (schema.logical or "").rpartition("-")
    if kind in ("timestamp", "local-timestamp") and unit in _FRACTIONS:
        micros = number * _FRACTIONS[unit]
        if not -(2**63) <= micros < 2**63:
            raise StepError("a timestamp is out of range")
        return lambda out, _: variant.put_timestamp(out, micros, zoned=kind == "timestamp")
    return lambda out, _: variant.put_integer(out, number)
