"""Which types hold all values of others, compared with the values themselves."""

from __future__ import annotations

import itertools
import struct
from decimal import Decimal, localcontext

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
    VarcharType,
)

from pyspark_pravega.connector.table.lossless import holds

BITS: dict[DataType, int] = {ByteType(): 8, ShortType(): 16, IntegerType(): 32, LongType(): 64}
DECIMALS = [DecimalType(p, s) for p, s in ((3, 0), (5, 2), (10, 0), (10, 4), (19, 0), (20, 4), (38, 18))]
NUMBERS: list[DataType] = [*BITS, *DECIMALS, FloatType(), DoubleType()]


def extremes(kind: DataType) -> list[Decimal]:
    """Values of a type, among them those that others have the least room for."""
    if kind in BITS:
        return [Decimal(-(2 ** (BITS[kind] - 1))), Decimal(2 ** (BITS[kind] - 1) - 1)]
    if isinstance(kind, DecimalType):
        return [sign * Decimal(10**kind.precision - 1).scaleb(-kind.scale) for sign in (1, -1)]
    code = "f" if isinstance(kind, FloatType) else "d"
    return [Decimal(struct.unpack(code, struct.pack(code, value))[0]) for value in (0.1, 3e38)]


def has(kind: DataType, value: Decimal) -> bool:
    """Whether a value is one of a type."""
    if kind in BITS:
        return bool(value == int(value)) and -(2 ** (BITS[kind] - 1)) <= value < 2 ** (BITS[kind] - 1)
    if isinstance(kind, DecimalType):
        digits = value * 10**kind.scale
        return bool(digits == int(digits)) and abs(digits) < 10**kind.precision
    code = "f" if isinstance(kind, FloatType) else "d"
    try:
        return bool(Decimal(struct.unpack(code, struct.pack(code, float(value)))[0]) == value)
    except OverflowError:
        return False


def test_a_number_is_held_if_all_its_values_are() -> None:
    for kind, other in itertools.product(NUMBERS, repeat=2):
        with localcontext(prec=100):
            expected = all(has(kind, value) for value in extremes(other))
        if isinstance(other, DecimalType) and not isinstance(kind, DecimalType):
            # Some would fit, as two digits into a byte: Spark has no such cast without a look at each value.
            expected = False
        assert holds(kind, other) == expected, (kind, other)


@pytest.mark.parametrize(
    ("kind", "other", "expected"),
    [
        (StringType(), LongType(), True),
        (StringType(), VarcharType(3), True),
        (VarcharType(3), VarcharType(4), False),
        (VarcharType(3), StringType(), False),
        (StringType(), BinaryType(), False),
        (TimestampType(), DateType(), False),
        (TimestampType(), TimestampNTZType(), False),
        (BooleanType(), ByteType(), False),
        (ArrayType(LongType()), ArrayType(IntegerType()), True),
        (ArrayType(IntegerType()), ArrayType(LongType()), False),
        (MapType(StringType(), LongType()), MapType(StringType(), IntegerType()), True),
        (MapType(StringType(), LongType()), MapType(StringType(), DoubleType()), False),
        (StructType().add("a", LongType()).add("b", LongType()), StructType().add("A", IntegerType()), True),
        (StructType().add("a", LongType()), StructType().add("a", LongType()).add("b", LongType()), False),
        (StructType().add("a", LongType()), LongType(), False),
    ],
)
def test_other_types(kind: DataType, other: DataType, expected: bool) -> None:
    assert holds(kind, other) is expected
