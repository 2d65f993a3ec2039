"""Steppers: over one value of one datum at a time, in plain Python.

Reading all datums at once pays when there are many; a few datums with long arrays are walked through like this, only
to find where their items begin.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from pyspark_pravega.errors import UnsupportedTypeError
from pyspark_pravega.serde import avro_schema as avro

Step: TypeAlias = Callable[[memoryview, int], int]

_MAX_EMPTY_ITEMS = 65536


class StepError(Exception):
    """The bytes aren't of the type."""


def stepper(schema: avro.AvroType) -> Step:
    """The stepper over a type.

    Args:
        schema: the type the value was written as.

    Returns:
        A function from the bytes and a value's position in them to the position behind it, which may lie behind
        the bytes' end; it raises StepError or IndexError when there's no such value.

    Raises:
        UnsupportedTypeError: the type is recursive.
    """
    if isinstance(schema, avro.Record):
        return _all_of([stepper(field.type) for field in schema.fields])
    if isinstance(schema, avro.Union):
        return _one_of([stepper(branch) for branch in schema.branches])
    if isinstance(schema, avro.Array):
        return _blocks(stepper(schema.items))
    if isinstance(schema, avro.Map):
        return _blocks(entry_stepper(schema))
    if isinstance(schema, avro.Fixed):
        return _over(schema.size)
    if isinstance(schema, avro.Recursive):
        raise UnsupportedTypeError(f"the record {schema.name} holds itself")
    if isinstance(schema, avro.Enum) or schema.kind in ("int", "long"):
        return _number
    if schema.kind in ("bytes", "string"):
        return _sized
    return _over({"null": 0, "boolean": 1, "float": 4, "double": 8}[schema.kind])


def entry_stepper(schema: avro.Map) -> Step:
    """The stepper over a map's entry, a key and a value; see `stepper`."""
    return _all_of([_sized, stepper(schema.values)])


def _varint(data: memoryview, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), position
        shift += 7
        if shift > 63:
            raise StepError("a number has more than 64 bits")


def _number(data: memoryview, position: int) -> int:
    while data[position] >= 0x80:
        position += 1
    return position + 1


def _sized(data: memoryview, position: int) -> int:
    size, position = _varint(data, position)
    if size < 0:
        raise StepError("a length is negative")
    return position + size


def _over(size: int) -> Step:
    return lambda _, position: position + size


def _all_of(steps: list[Step]) -> Step:
    def step(data: memoryview, position: int) -> int:
        for one in steps:
            position = one(data, position)
        return position

    return step


def _one_of(steps: list[Step]) -> Step:
    def step(data: memoryview, position: int) -> int:
        index, position = _varint(data, position)
        if not 0 <= index < len(steps):
            raise StepError("a union has no branch of that number")
        return steps[index](data, position)

    return step


def _blocks(over_item: Step) -> Step:
    def step(data: memoryview, position: int) -> int:
        while True:
            count, position = _varint(data, position)
            if count == 0:
                return position
            if count < 0:
                _, position = _varint(data, position)
                count = -count
            if count > max(len(data) - position, _MAX_EMPTY_ITEMS):
                raise StepError("an array has more items than the event has room for")
            for _ in range(count):
                position = over_item(data, position)

    return step
