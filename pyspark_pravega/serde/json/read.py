"""From JSON texts to Arrow arrays, value by value.

What isn't as the schema says raises UnfitError.
"""

from __future__ import annotations

import binascii
import json
import math
import re
from collections.abc import Callable, Iterable
from decimal import Context, Decimal
from typing import Any, TypeAlias

from pyspark_pravega.serde.json.days import YEAR, days_of
from pyspark_pravega.serde.one_by_one import UnfitError
from pyspark_pravega.serde.schemas import json as json_schema
from pyspark_pravega.serde.schemas.json import Entries, Items, JsonType, Object, Scalar

Convert: TypeAlias = Callable[[Any], Any]

MAX_DEPTH = 200
"""How deeply an event's objects and arrays may be nested."""

_RANGES = {"tinyint": 7, "smallint": 15, "int": 31, "bigint": 63}
_NAMES = {"bigint": "BIGINT", "int": "INT", "smallint": "SMALLINT", "tinyint": "TINYINT"}
_NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?", re.ASCII)
_MOMENT = re.compile(
    rf"({YEAR}-\d\d-\d\d)[Tt ](\d\d):(\d\d)(?::(\d\d)(?:\.(\d{{1,9}}))?)?([Zz]|[+-]\d\d(?::?\d\d)?)?", re.ASCII
)
_DATE = re.compile(rf"{YEAR}-\d\d-\d\d", re.ASCII)
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_EXACT = Context(prec=80)


class Number(str):
    """A number as it is written."""


def _no_constant(name: str) -> Any:
    raise UnfitError(f"it isn't JSON: {name} is no value")


_decode = json.JSONDecoder(parse_int=Number, parse_float=Number, parse_constant=_no_constant).raw_decode


def parse(body: bytes) -> Any:
    """The value that a body holds; zeros may follow it, as the official serializers leave them.

    Args:
        body: UTF-8 text.

    Returns:
        Its value, with numbers as `Number`.

    Raises:
        UnfitError: it isn't one JSON value.
    """
    try:
        text = body.decode()
    except UnicodeDecodeError:
        raise UnfitError("it isn't UTF-8") from None
    if text.count("[") + text.count("{") > MAX_DEPTH and _depth(text) > MAX_DEPTH:
        raise UnfitError(f"it is nested more than {MAX_DEPTH} levels deep")
    start = len(text) - len(text.lstrip(" \t\n\r"))
    try:
        value, end = _decode(text, start)
    except (ValueError, RecursionError) as error:
        raise UnfitError(f"it isn't JSON: {error}") from None
    if text[end:].strip(" \t\n\r\0"):
        raise UnfitError("there are bytes behind its value")
    return value


def columns(schema: Object, names: Iterable[str]) -> list[tuple[str, Convert]]:
    """Converters for some of an object's properties.

    Args:
        schema: the object.
        names: which of them.

    Returns:
        Names in the object, and converters, which take a property's value, None when it is missing.
    """
    by_name = {one.name: one for one in schema.properties}
    wanted = [by_name[name] for name in names]
    return [(one.key, _nullable(converter(one.type, one.name), one.nullable, one.name)) for one in wanted]


def converter(kind: JsonType, path: str) -> Convert:
    """What makes a value that isn't null one that Arrow takes.

    Args:
        kind: its type.
        path: the column, for messages.

    Returns:
        A function that raises UnfitError.
    """
    if isinstance(kind, Items):
        return _array(kind, path)
    if isinstance(kind, Entries):
        return _map(kind, path)
    if isinstance(kind, Object):
        return _struct(kind, path)
    return _scalar(kind, path)


def _nullable(convert: Convert, nullable: bool, path: str) -> Convert:
    def read(value: Any) -> Any:
        if value is None:
            if not nullable:
                raise UnfitError(f'"{path}" is null or missing, and the table\'s column is NOT NULL')
            return None
        return convert(value)

    return read


def _array(kind: Items, path: str) -> Convert:
    item = _nullable(converter(kind.item, f"{path}.element"), kind.nullable, f"{path}.element")
    of_bytes = isinstance(kind.item, Scalar) and kind.item.kind == "bigint"

    def read(value: Any) -> Any:
        if isinstance(value, list):
            return [item(one) for one in value]
        if of_bytes and _is_text(value):
            # Java derives "array of integer" for byte[], and writes base64.
            return list(_base64(value, path))
        raise _mismatch(value, "an array", path)

    return read


def _map(kind: Entries, path: str) -> Convert:
    convert = _nullable(converter(kind.value, f"{path}.value"), kind.nullable, f"{path}.value")

    def read(value: Any) -> Any:
        if not isinstance(value, dict):
            raise _mismatch(value, "an object", path)
        return [(_text(key, path), convert(one)) for key, one in value.items()]

    return read


def _struct(kind: Object, path: str) -> Convert:
    fields = [
        (one.key, one.name, _nullable(converter(one.type, f"{path}.{one.name}"), one.nullable, f"{path}.{one.name}"))
        for one in kind.properties
    ]

    def read(value: Any) -> Any:
        if not isinstance(value, dict):
            raise _mismatch(value, "an object", path)
        return {name: convert(value.get(key)) for key, name, convert in fields}

    return read


def _scalar(kind: Scalar, path: str) -> Convert:
    if kind.kind in _RANGES:
        top = 2 ** _RANGES[kind.kind]
        return lambda value: _integer(value, -top, top - 1, _NAMES[kind.kind], path)
    if kind.kind == "decimal":
        return lambda value: decimal_of(value, kind.precision, kind.scale, path)
    if kind.kind == "timestamp_millis":
        top = 2**63 // 1000
        return lambda value: _integer(value, -top, top, "TIMESTAMP", path) * 1000
    return {
        "boolean": lambda value: _boolean(value, path),
        "double": lambda value: _float(value, path),
        "float": lambda value: _single(value, path),
        "string": lambda value: _text(value, path),
        "json": lambda value: _text(dumps(value), path),
        "binary": lambda value: _base64(value, path),
        "date": lambda value: _date(value, path),
        "timestamp": lambda value: _moment(value, True, path),
        "timestamp_ntz": lambda value: _moment(value, False, path),
    }[kind.kind]


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and not isinstance(value, Number)


def _mismatch(value: Any, expectation: str, path: str) -> UnfitError:
    text = dumps(value)
    return UnfitError(f'"{path}" is {text if len(text) <= 60 else text[:60] + "..."}, not {expectation}')


def _boolean(value: Any, path: str) -> bool:
    if not isinstance(value, bool):
        raise _mismatch(value, "true or false", path)
    return value


def _integer(value: Any, low: int, high: int, name: str, path: str) -> int:
    if not isinstance(value, Number):
        raise _mismatch(value, "a whole number", path)
    if value.lstrip("-").isdecimal():
        number = int(value) if len(value) <= 40 else high + 1
    else:
        unscaled, exponent = _digits(value)
        if exponent < 0:
            raise _mismatch(value, "a whole number", path)
        number = unscaled * 10**exponent if exponent <= 40 else high + 1
    if not low <= number <= high:
        raise UnfitError(f'the number in "{path}", {value[:60]}, is out of the range of {name}')
    return number


def _digits(literal: str) -> tuple[int, int]:
    """The number as n * 10^e, n without zeros at its end; (0, 0) for zero."""
    mantissa, _, exponent = literal.lower().partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).rstrip("0")
    if not digits.lstrip("-0"):
        return 0, 0
    dropped = len(whole + fraction) - len(digits)
    # A number this long fits no column; that it is too long is all that matters then.
    if len(digits) > 4000 or len(exponent) > 9:
        return 1, -(10**9) if len(digits) > 4000 or exponent.startswith("-") else 10**9
    return int(digits), int(exponent or 0) - len(fraction) + dropped


def decimal_of(value: Any, precision: int, scale: int, path: str) -> Decimal:
    """A number, or a string that is one, as a decimal.

    Args:
        value: a Number or str.
        precision: how many digits it may have.
        scale: how many of them behind the point.
        path: the column, for messages.

    Raises:
        UnfitError: it isn't a number, or doesn't fit without being rounded.
    """
    literal = str(value) if isinstance(value, str) else ""
    if not _NUMBER.fullmatch(literal):
        raise _mismatch(value, "a number", path)
    unscaled, exponent = _digits(literal)
    shift = exponent + scale
    if shift < 0 or shift > 80 or abs(unscaled := unscaled * 10**shift) >= 10**precision:
        raise UnfitError(f'the number in "{path}", {literal[:60]}, doesn\'t fit DECIMAL({precision},{scale})')
    return Decimal(unscaled).scaleb(-scale, _EXACT)


def _float(value: Any, path: str) -> float:
    if isinstance(value, Number):
        number = float(value)
        if math.isinf(number):
            raise UnfitError(f'the number in "{path}", {value[:60]}, is out of the range of DOUBLE')
        return number
    if isinstance(value, str) and value in _NOT_FINITE:
        return _NOT_FINITE[value]
    raise _mismatch(value, "a number", path)


def _single(value: Any, path: str) -> float:
    number = _float(value, path)
    # What lies half-way between the largest float and the next power of two is rounded up, to infinity.
    if abs(number) >= 2.0**128 - 2.0**103 and not math.isinf(number):
        raise UnfitError(f'the number in "{path}", {value[:60]}, is out of the range of FLOAT')
    return number


def _text(value: Any, path: str) -> str:
    if not _is_text(value):
        raise _mismatch(value, "a string", path)
    try:
        value.encode()
    except UnicodeEncodeError:
        raise UnfitError(f'the string in "{path}" holds half of a surrogate pair') from None
    return str(value)


def _base64(value: Any, path: str) -> bytes:
    if not _is_text(value):
        raise _mismatch(value, "a base64 string", path)
    try:
        return binascii.a2b_base64(value, strict_mode=True)
    except ValueError:
        raise _mismatch(value, "base64", path) from None


def _day(text: str, value: str, path: str) -> int:
    days = days_of(text)
    if days is None:
        raise _mismatch(value, "a day of the calendar", path)
    return days


def _date(value: Any, path: str) -> int:
    if not _is_text(value) or not _DATE.fullmatch(value):
        raise _mismatch(value, "a date like 2024-01-31", path)
    return _within(_day(value, value, path), 31, "DATE", value, path)


def _within(number: int, bits: int, name: str, value: Any, path: str) -> int:
    if not -(2**bits) <= number < 2**bits:
        raise UnfitError(f'the text in "{path}", {value[:60]}, is out of the range of {name}')
    return number


def _moment(value: Any, zoned: bool, path: str) -> int:
    """Microseconds since 1970; what is finer is cut off."""
    expectation = "a time like 2024-01-31T12:00:00" + ("Z, with a zone" if zoned else ", without a zone")
    match = _MOMENT.fullmatch(value) if _is_text(value) else None
    if match is None or bool(match[6]) != zoned:
        raise _mismatch(value, expectation, path)
    hours, minutes, seconds = int(match[2]), int(match[3]), int(match[4] or 0)
    offset = 0
    if match[6] and match[6] not in "Zz":
        digits = match[6][1:].replace(":", "")
        offset_hours, offset_minutes = int(digits[:2]), int(digits[2:] or 0)
        if offset_hours > 23 or offset_minutes > 59:
            raise _mismatch(value, expectation, path)
        offset = (offset_hours * 60 + offset_minutes) * (-1 if match[6][0] == "-" else 1)
    if hours > 23 or minutes > 59 or seconds > 59:
        raise _mismatch(value, expectation, path)
    minutes_since = (_day(match[1], value, path) * 24 + hours) * 60 + minutes - offset
    micros = (minutes_since * 60 + seconds) * 10**6 + int((match[5] or "").ljust(6, "0")[:6])
    return _within(micros, 63, "TIMESTAMP", value, path)


def dumps(value: Any) -> str:
    """A parsed value as text again, numbers as they were written, without blanks.

    Args:
        value: what `parse` returned.
    """
    if isinstance(value, Number):
        return str(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{dumps(key)}:{dumps(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(dumps, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def _depth(text: str) -> int:
    depth = deepest = 0
    for character in re.findall(r"[\[\]{}]", _STRING.sub("", text)):
        depth += 1 if character in "[{" else -1
        deepest = max(deepest, depth)
    return deepest


def table_of(schema: JsonType) -> Object:
    """The object that a table's schema is; what else it could be was refused before."""
    assert isinstance(schema, json_schema.Object)
    return schema
