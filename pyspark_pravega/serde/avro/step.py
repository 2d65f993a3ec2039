"""Steppers: over one value of one datum at a time, in plain Python.

Reading all datums at once pays when there are many; a few datums with long arrays are walked through like this, only
to find where their items begin.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TypeAlias

from pyspark_pravega.serde.schemas import avro

Step: TypeAlias = Callable[[memoryview, int], int]

_MAX_EMPTY_ITEMS = 65536


class StepError(Exception):
    """The bytes aren't of the type."""


def stepper(schema: avro.AvroType, steppers: dict[str, Step] | None = None) -> Step:
    """The stepper over a type.

    Args:
        schema: the type the value was written as.
        steppers: steppers over records that hold themselves, by name.

    Returns:
        A function from the bytes and a value's position in them to the position behind it, which may lie behind
        the bytes' end; it raises StepError or IndexError when there's no such value.
    """
    steppers = {} if steppers is None else steppers
    if isinstance(schema, avro.Record):
        return _all_of([stepper(field.type, steppers) for field in schema.fields])
    if isinstance(schema, avro.Union):
        return _one_of([stepper(branch, steppers) for branch in schema.branches])
    if isinstance(schema, avro.Array):
        return _blocks(stepper(schema.items, steppers))
    if isinstance(schema, avro.Map):
        return _blocks(entry_stepper(schema, steppers))
    if isinstance(schema, avro.Fixed):
        return _over(schema.size)
    if isinstance(schema, avro.Recursive):
        return _recursive(schema, steppers)
    if isinstance(schema, avro.Enum) or schema.kind in ("int", "long"):
        return _number
    if schema.kind in ("bytes", "string"):
        return _sized
    return _over({"null": 0, "boolean": 1, "float": 4, "double": 8}[schema.kind])


def entry_stepper(schema: avro.Map, steppers: dict[str, Step] | None = None) -> Step:
    """The stepper over a map's entry, a key and a value; see `stepper`."""
    return _all_of([_sized, stepper(schema.values, steppers)])


def _recursive(schema: avro.Recursive, steppers: dict[str, Step]) -> Step:
    def step(data: memoryview, position: int) -> int:
        over = steppers.get(schema.name)
        if over is None:
            over = steppers[schema.name] = stepper(schema.definition, steppers)
        try:
            return over(data, position)
        except RecursionError:
            raise StepError("a record is nested too deeply within itself") from None

    return step


def sized(data: memoryview, position: int, size: int | None = None) -> tuple[memoryview, int]:
    """Bytes, of a size that is told before them unless it is given, and the position behind them."""
    if size is None:
        size, position = read_number(data, position)
    if not 0 <= size <= len(data) - position:
        raise StepError("a length is negative, or longer than the rest of the event")
    return data[position : position + size], position + size


def read_float(data: memoryview, position: int, size: int) -> tuple[float, int]:
    """A float of 4 or 8 bytes, and the position behind it."""
    raw, position = sized(data, position, size)
    number: float = struct.unpack("<f" if size == 4 else "<d", raw)[0]
    return number, position


def read_count(data: memoryview, position: int) -> tuple[int, int]:
    """How many items a block has, and the position of the first one."""
    count, position = read_number(data, position)
    if count < 0:
        _, position = read_number(data, position)
        count = -count
    if count > max(len(data) - position, _MAX_EMPTY_ITEMS):
        raise StepError("an array has more items than the event has room for")
    return count, position


def read_number(data: memoryview, position: int) -> tuple[int, int]:
    """An int, long, length or index, and the position behind it."""
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
    size, position = read_number(data, position)
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
        index, position = read_number(data, position)
        if not 0 <= index < len(steps):
            raise StepError("a union has no branch of that number")
        return steps[index](data, position)

    return step


def _blocks(over_item: Step) -> Step:
    def step(data: memoryview, position: int) -> int:
        while True:
            count, position = read_count(data, position)
            if count == 0:
                return position
            for _ in range(count):
                position = over_item(data, position)

    return step
