"""Stand-ins for Spark's types of columns, where there is no pyspark.

They have the names of pyspark's classes, and of those what this package uses. What they say of themselves is the same
text, letter for letter, as tables keep some of it: `tests/test_without_spark.py` holds them against pyspark.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Self

_DECIMAL = re.compile(r"decimal\(\s*(\d+)\s*,\s*(-?\d+)\s*\)")
_WITH_NUMBER = re.compile(r"(char|varchar|time)\(\s*(\d+)\s*\)")
_UNITS = ("day", "hour", "minute", "second")
_INTERVAL = re.compile(rf"interval ({'|'.join(_UNITS)})(?: to ({'|'.join(_UNITS)}))?")


class DataType:
    """A column's type."""

    _NAME: ClassVar[str]
    _IN_SQL: ClassVar[str | None] = None
    """Where SQL has another name for it."""

    @classmethod
    def typeName(cls) -> str:
        """Its name, without what it consists of."""
        return cls._NAME

    def simpleString(self) -> str:
        """The type as SQL's `DESCRIBE` has it."""
        return self._IN_SQL or self._NAME

    def jsonValue(self) -> Any:
        """The type as Spark's JSON has it."""
        return self._NAME

    def json(self) -> str:
        """Spark's JSON."""
        return json.dumps(self.jsonValue(), separators=(",", ":"), sort_keys=True)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, self.__class__) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash(str(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class BinaryType(DataType):
    """Bytes."""

    _NAME = "binary"


class BooleanType(DataType):
    """True or false."""

    _NAME = "boolean"


class ByteType(DataType):
    """An integer of 8 bits."""

    _NAME, _IN_SQL = "byte", "tinyint"


class ShortType(DataType):
    """An integer of 16 bits."""

    _NAME, _IN_SQL = "short", "smallint"


class IntegerType(DataType):
    """An integer of 32 bits."""

    _NAME, _IN_SQL = "integer", "int"


class LongType(DataType):
    """An integer of 64 bits."""

    _NAME, _IN_SQL = "long", "bigint"


class FloatType(DataType):
    """A number of 32 bits."""

    _NAME = "float"


class DoubleType(DataType):
    """A number of 64 bits."""

    _NAME = "double"


class DateType(DataType):
    """A day."""

    _NAME = "date"


class TimestampType(DataType):
    """An instant."""

    _NAME = "timestamp"


class TimestampNTZType(DataType):
    """A day and a time, in no time zone."""

    _NAME = "timestamp_ntz"


class VariantType(DataType):
    """A value that brings its type."""

    _NAME = "variant"


class StringType(DataType):
    """A text."""

    _NAME = "string"
    collation: str | None = None


class _Parametrised(DataType):
    """A type with numbers behind its name, which are part of all its texts."""

    def jsonValue(self) -> str:
        return self.simpleString()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({','.join(map(str, self.__dict__.values()))})"


class CharType(_Parametrised):
    """A text of that many letters."""

    _NAME = "char"

    def __init__(self, length: int) -> None:
        self.length = length

    def simpleString(self) -> str:
        return f"{self._NAME}({self.length})"


class VarcharType(CharType):
    """A text of at most that many letters."""

    _NAME = "varchar"


class TimeType(_Parametrised):
    """A time of the day, with that many digits behind the second."""

    _NAME = "time"

    def __init__(self, precision: int = 6) -> None:
        self.precision = precision

    def simpleString(self) -> str:
        return f"time({self.precision})"


class DecimalType(_Parametrised):
    """A decimal number."""

    _NAME = "decimal"

    def __init__(self, precision: int = 10, scale: int = 0) -> None:
        self.precision, self.scale = precision, scale

    def simpleString(self) -> str:
        return f"decimal({self.precision},{self.scale})"


class DayTimeIntervalType(_Parametrised):
    """A span of time, from one unit to another."""

    _NAME = "daytimeinterval"

    def __init__(self, startField: int | None = None, endField: int | None = None) -> None:
        last = len(_UNITS) - 1 if startField is None else startField
        self.startField = startField or 0
        self.endField = last if endField is None else endField

    def simpleString(self) -> str:
        first, last = _UNITS[self.startField], _UNITS[self.endField]
        return f"interval {first}" if first == last else f"interval {first} to {last}"

    def __repr__(self) -> str:
        return f"DayTimeIntervalType({self.startField}, {self.endField})"


class ArrayType(DataType):
    """A list of values of one type."""

    _NAME = "array"

    def __init__(self, elementType: DataType, containsNull: bool = True) -> None:
        self.elementType, self.containsNull = elementType, containsNull

    def simpleString(self) -> str:
        return f"array<{self.elementType.simpleString()}>"

    def jsonValue(self) -> dict[str, Any]:
        return {"type": "array", "elementType": self.elementType.jsonValue(), "containsNull": self.containsNull}

    def __repr__(self) -> str:
        return f"ArrayType({self.elementType}, {self.containsNull})"


class MapType(DataType):
    """Values by keys."""

    _NAME = "map"

    def __init__(self, keyType: DataType, valueType: DataType, valueContainsNull: bool = True) -> None:
        self.keyType, self.valueType, self.valueContainsNull = keyType, valueType, valueContainsNull

    def simpleString(self) -> str:
        return f"map<{self.keyType.simpleString()},{self.valueType.simpleString()}>"

    def jsonValue(self) -> dict[str, Any]:
        return {
            "type": "map",
            "keyType": self.keyType.jsonValue(),
            "valueType": self.valueType.jsonValue(),
            "valueContainsNull": self.valueContainsNull,
        }

    def __repr__(self) -> str:
        return f"MapType({self.keyType}, {self.valueType}, {self.valueContainsNull})"


class StructField(DataType):
    """A column, or a field within one."""

    def __init__(
        self,
        name: str,
        dataType: DataType,
        nullable: bool = True,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        self.name, self.dataType, self.nullable, self.metadata = name, dataType, nullable, dict(metadata or {})

    def simpleString(self) -> str:
        return f"{self.name}:{self.dataType.simpleString()}"

    def jsonValue(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "type": self.dataType.jsonValue(),
            "nullable": self.nullable,
            "metadata": self.metadata,
        }

    def __repr__(self) -> str:
        return f"StructField('{self.name}', {self.dataType}, {self.nullable})"


class StructType(DataType):
    """A table's columns, or the fields of a column."""

    _NAME = "struct"

    def __init__(self, fields: list[StructField] | None = None) -> None:
        self.fields = list(fields or [])

    @property
    def names(self) -> list[str]:
        """Their names."""
        return [field.name for field in self.fields]

    def fieldNames(self) -> list[str]:
        """Their names."""
        return self.names

    def add(
        self,
        field: str | StructField,
        data_type: str | DataType | None = None,
        nullable: bool = True,
        metadata: Mapping[str, Any] | None = None,
    ) -> Self:
        """Add a field behind the others, here; returns the same object."""
        if not isinstance(field, StructField):
            if data_type is None:
                raise ValueError(f'field "{field}" has no type')
            kind = data_type if isinstance(data_type, DataType) else of_json(data_type)
            field = StructField(field, kind, nullable, metadata)
        self.fields.append(field)
        return self

    def __iter__(self) -> Iterator[StructField]:
        return iter(self.fields)

    def __len__(self) -> int:
        return len(self.fields)

    def __getitem__(self, key: str | int | slice) -> Any:
        if isinstance(key, str):
            for field in self.fields:
                if field.name == key:
                    return field
            raise KeyError(key)
        return StructType(self.fields[key]) if isinstance(key, slice) else self.fields[key]

    def simpleString(self) -> str:
        return f"struct<{','.join(field.simpleString() for field in self.fields)}>"

    def jsonValue(self) -> dict[str, Any]:
        return {"type": "struct", "fields": [field.jsonValue() for field in self.fields]}

    @classmethod
    def fromJson(cls, content: Mapping[str, Any]) -> Self:
        """Columns of Spark's JSON, parsed.

        Raises:
            ValueError: it has a type that isn't here.
        """
        return cls(
            [
                StructField(field["name"], of_json(field["type"]), field.get("nullable", True), field.get("metadata"))
                for field in content["fields"]
            ]
        )

    def __repr__(self) -> str:
        return f"StructType([{', '.join(map(str, self.fields))}])"


_BY_NAME: dict[str, type[DataType]] = {
    kind.typeName(): kind
    for kind in (
        *(BinaryType, BooleanType, ByteType, ShortType, IntegerType, LongType, FloatType, DoubleType),
        *(DateType, TimestampType, TimestampNTZType, VariantType, StringType, DecimalType),
    )
}
_NUMBERED: dict[str, type[CharType | TimeType]] = {"char": CharType, "varchar": VarcharType, "time": TimeType}


def of_json(content: Any) -> DataType:
    """A type of what Spark's JSON says of it.

    Args:
        content: a name, or the object of a type that consists of others.

    Raises:
        ValueError: it isn't here.
    """
    match content:
        case {"type": "struct"}:
            return StructType.fromJson(content)
        case {"type": "array"}:
            return ArrayType(of_json(content["elementType"]), content["containsNull"])
        case {"type": "map"}:
            return MapType(of_json(content["keyType"]), of_json(content["valueType"]), content["valueContainsNull"])
        case str():
            if content in _BY_NAME:
                return _BY_NAME[content]()
            if numbers := _DECIMAL.fullmatch(content):
                return DecimalType(int(numbers[1]), int(numbers[2]))
            if number := _WITH_NUMBER.fullmatch(content):
                return _NUMBERED[number[1]](int(number[2]))
            if units := _INTERVAL.fullmatch(content):
                return DayTimeIntervalType(_UNITS.index(units[1]), _UNITS.index(units[2]) if units[2] else None)
    raise ValueError(f"type {content} needs Spark")
