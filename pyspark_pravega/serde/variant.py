"""VARIANT values: their binary form, from JSON and to JSON.

A value is two byte strings: metadata with the names of all fields, and the value itself. Source: the Parquet project's
VariantEncoding.md, and Spark's common/variant, whose `parse_json` and `to_json`
decide where the format leaves a choice.
"""

from __future__ import annotations

import datetime
import itertools
import json
import math
import re
import struct
from collections.abc import Callable, Sequence
from decimal import Context, Decimal
from typing import Any, TypeAlias

from pyspark_pravega.serde.json import MAX_DEPTH, Number
from pyspark_pravega.serde.one_by_one import UnfitError

Put: TypeAlias = Callable[[bytearray, "Names"], None]
"""Appends a value."""

MAX_SIZE = 16 * 2**20
"""Spark takes no larger values (bytes)."""

NULL, TRUE, FALSE = b"\x00", b"\x04", b"\x08"
_INT1, _INT2, _INT4, _INT8, _DOUBLE, _DECIMAL4, _DECIMAL8, _DECIMAL16 = 3, 4, 5, 6, 7, 8, 9, 10
_DATE, _TIMESTAMP, _TIMESTAMP_NTZ, _FLOAT, _BINARY, _LONG_STRING = 11, 12, 13, 14, 15, 16
_PRIMITIVE, _SHORT_STRING, _OBJECT, _ARRAY = range(4)
_MAX_SHORT = 63
_SMALL = 255
_PLAIN_DECIMAL = re.compile(r"-?\d+(?:\.\d*)?", re.ASCII)
_EXACT = Context(prec=100)
_EPOCH = datetime.datetime(1970, 1, 1)
_VERSION = 1


class MalformedVariantError(Exception):
    """Bytes that aren't a VARIANT, or one that JSON can't tell; its argument is the reason."""


class Names:
    """The names of a value's fields, each with its number."""

    def __init__(self) -> None:
        self._ids: dict[str, int] = {}

    def id_of(self, name: str) -> int:
        """The number of a name, which is added where it is new."""
        return self._ids.setdefault(name, len(self._ids))

    def metadata(self) -> bytes:
        """The names as a VARIANT's metadata."""
        if not self._ids:
            return b"\x01\x00\x00"
        texts = [name.encode() for name in self._ids]
        total = sum(map(len, texts))
        width = _width(max(total, len(texts)))
        out = bytearray([_VERSION | (width - 1) << 6])
        out += len(texts).to_bytes(width, "little")
        offset = 0
        for text in texts:
            out += offset.to_bytes(width, "little")
            offset += len(text)
        out += offset.to_bytes(width, "little")
        return bytes(out + b"".join(texts))


def of_json(value: Any) -> tuple[bytes, bytes]:
    """A VARIANT of a JSON value, as Spark's `parse_json` makes it.

    Args:
        value: what `json_read.parse` returned.

    Returns:
        Value and metadata.

    Raises:
        UnfitError: a number is out of the range of DOUBLE, a string isn't Unicode, or it is too large.
    """
    names = Names()
    out = bytearray()
    try:
        _put_json(out, value, names)
        metadata = names.metadata()
    except UnicodeEncodeError:
        raise UnfitError("a string in it holds half of a surrogate pair") from None
    if len(out) > MAX_SIZE or len(metadata) > MAX_SIZE:
        raise UnfitError(f"it needs more than {MAX_SIZE} bytes as a VARIANT, which is the most that Spark takes")
    return bytes(out), metadata


def _put_json(out: bytearray, value: Any, names: Names) -> None:
    if isinstance(value, Number):
        _put_number(out, value)
    elif isinstance(value, str):
        put_string(out, value)
    elif isinstance(value, dict):
        put_object(out, names, [(key, _putter(one)) for key, one in value.items()])
    elif isinstance(value, list):
        put_array(out, names, [_putter(one) for one in value])
    else:
        out += NULL if value is None else TRUE if value else FALSE


def _putter(value: Any) -> Put:
    return lambda out, names: _put_json(out, value, names)


def _put_number(out: bytearray, text: str) -> None:
    if len(text) < 20 and text.lstrip("-").isdecimal():
        number = int(text)
        if -(2**63) <= number < 2**63:
            return put_integer(out, number)
    if len(text) <= 80 and _PLAIN_DECIMAL.fullmatch(text):
        decimal = Decimal(text)
        digits, exponent = decimal.as_tuple().digits, decimal.as_tuple().exponent
        assert isinstance(exponent, int)
        if exponent == 0 and -(2**63) <= int(decimal) < 2**63:
            return put_integer(out, int(decimal))
        if len(digits) <= 38 and 0 <= -exponent <= 38:
            return put_decimal(out, int(decimal.scaleb(-exponent, _EXACT)), -exponent)
    double = float(text)
    if math.isinf(double):
        raise UnfitError(f"the number {text[:60]} is out of the range of DOUBLE")
    return put_double(out, double)


def put_integer(out: bytearray, number: int) -> None:
    """Append a whole number in the fewest bytes."""
    for kind, size in ((_INT1, 1), (_INT2, 2), (_INT4, 4), (_INT8, 8)):
        if -(1 << (8 * size - 1)) <= number < 1 << (8 * size - 1):
            out.append(kind << 2)
            out += number.to_bytes(size, "little", signed=True)
            return
    raise UnfitError(f"the number {number} has more than 64 bits")


def put_decimal(out: bytearray, unscaled: int, scale: int) -> None:
    """Append a decimal of up to 38 digits.

    Args:
        out: where to.
        unscaled: its digits.
        scale: how many of them are behind the point, 0 to 38.
    """
    magnitude = abs(unscaled)
    for kind, size, top in ((_DECIMAL4, 4, 9), (_DECIMAL8, 8, 18), (_DECIMAL16, 16, 38)):
        if magnitude < 10**top and scale <= top:
            out += bytes([kind << 2, scale]) + unscaled.to_bytes(size, "little", signed=True)
            return
    raise UnfitError(f"the decimal {unscaled}e-{scale} has more than 38 digits")


def put_double(out: bytearray, number: float) -> None:
    """Append a DOUBLE."""
    out += struct.pack("<Bd", _DOUBLE << 2, number)


def put_float(out: bytearray, number: float) -> None:
    """Append a FLOAT."""
    out += struct.pack("<Bf", _FLOAT << 2, number)


def put_boolean(out: bytearray, value: bool) -> None:
    """Append a BOOLEAN."""
    out += TRUE if value else FALSE


def put_string(out: bytearray, text: str) -> None:
    """Append a STRING."""
    raw = text.encode()
    if len(raw) <= _MAX_SHORT:
        out.append(len(raw) << 2 | _SHORT_STRING)
    else:
        out += struct.pack("<BI", _LONG_STRING << 2, len(raw))
    out += raw


def put_binary(out: bytearray, raw: bytes) -> None:
    """Append a BINARY."""
    out += struct.pack("<BI", _BINARY << 2, len(raw)) + raw


def put_date(out: bytearray, days: int) -> None:
    """Append a DATE, in days since 1970."""
    out += struct.pack("<Bi", _DATE << 2, days)


def put_timestamp(out: bytearray, micros: int, *, zoned: bool) -> None:
    """Append a TIMESTAMP, or one without zone, in microseconds since 1970."""
    out += struct.pack("<Bq", (_TIMESTAMP if zoned else _TIMESTAMP_NTZ) << 2, micros)


def put_array(out: bytearray, names: Names, items: Sequence[Put]) -> None:
    """Append an ARRAY.

    Args:
        out: where to.
        names: the names of the value's fields.
        items: what append its items.
    """
    body = bytearray()
    offsets = []
    for put in items:
        offsets.append(len(body))
        put(body, names)
    offsets.append(len(body))
    large = len(items) > _SMALL
    width = _width(len(body))
    out.append((large << 2 | (width - 1)) << 2 | _ARRAY)
    out += len(items).to_bytes(4 if large else 1, "little")
    for offset in offsets:
        out += offset.to_bytes(width, "little")
    out += body


def put_object(out: bytearray, names: Names, fields: Sequence[tuple[str, Put]]) -> None:
    """Append an OBJECT.

    Args:
        out: where to.
        names: the names of the value's fields.
        fields: names, each once, and what append their values.
    """
    body = bytearray()
    entries = []
    for name, put in fields:
        entries.append((name, names.id_of(name), len(body)))
        put(body, names)
    # Spark looks names up by bisection, in the order of Java's strings.
    entries.sort(key=lambda one: one[0].encode("utf-16-be", "surrogatepass"))
    large = len(entries) > _SMALL
    id_width = _width(max((number for _, number, _ in entries), default=0))
    width = _width(len(body))
    out.append((large << 4 | (id_width - 1) << 2 | (width - 1)) << 2 | _OBJECT)
    out += len(entries).to_bytes(4 if large else 1, "little")
    for _, number, _ in entries:
        out += number.to_bytes(id_width, "little")
    for _, _, offset in entries:
        out += offset.to_bytes(width, "little")
    out += len(body).to_bytes(width, "little") + body


def _width(number: int) -> int:
    return max(1, (number.bit_length() + 7) // 8)


def to_json(value: bytes, metadata: bytes) -> str:
    """A VARIANT as JSON, as Spark's `to_json` writes it in the time zone UTC.

    Args:
        value: its value.
        metadata: its metadata.

    Returns:
        The text. What JSON has no type for (dates, times, binaries, NaN) becomes a string.

    Raises:
        MalformedVariantError: the bytes aren't a VARIANT, or it is nested too deeply.
    """
    try:
        return _json(value, 0, _names(metadata), 0)
    except (IndexError, struct.error, UnicodeDecodeError, OverflowError, ValueError):
        raise MalformedVariantError("its bytes aren't those of a VARIANT") from None


def _names(metadata: bytes) -> list[str]:
    if metadata[0] & 0x0F != _VERSION:
        raise ValueError(metadata)
    width = (metadata[0] >> 6 & 3) + 1
    count = _unsigned(metadata, 1, width)
    first = 1 + width * (count + 2)
    offsets = [_unsigned(metadata, 1 + width * (1 + i), width) for i in range(count + 1)]
    return [metadata[first + start : first + end].decode() for start, end in itertools.pairwise(offsets)]


def _unsigned(data: bytes, position: int, width: int) -> int:
    if position + width > len(data):
        raise IndexError(position)
    return int.from_bytes(data[position : position + width], "little")


def _json(data: bytes, position: int, names: list[str], depth: int) -> str:
    if depth > MAX_DEPTH:
        raise MalformedVariantError(f"it is nested more than {MAX_DEPTH} levels deep")
    head, kind = data[position] >> 2, data[position] & 3
    if kind == _SHORT_STRING:
        return _quoted(_sized(data, position + 1, head).decode())
    if kind == _PRIMITIVE:
        return _primitive(data, position + 1, head)
    large = head >> (4 if kind == _OBJECT else 2) & 1
    count_width, width, id_width = 4 if large else 1, (head & 3) + 1, (head >> 2 & 3) + 1
    count = _unsigned(data, position + 1, count_width)
    at = position + 1 + count_width
    if kind == _ARRAY:
        first = at + width * (count + 1)
        starts = [first + _unsigned(data, at + width * i, width) for i in range(count)]
        return "[" + ",".join(_json(data, start, names, depth + 1) for start in starts) + "]"
    first = at + id_width * count + width * (count + 1)
    parts = []
    for i in range(count):
        name = names[_unsigned(data, at + id_width * i, id_width)]
        start = first + _unsigned(data, at + id_width * count + width * i, width)
        parts.append(f"{_quoted(name)}:{_json(data, start, names, depth + 1)}")
    return "{" + ",".join(parts) + "}"


def _primitive(data: bytes, at: int, kind: int) -> str:
    if kind <= 2:
        return ("null", "true", "false")[kind]
    if _INT1 <= kind <= _INT8:
        return str(_signed(data, at, 1 << (kind - _INT1)))
    if _DECIMAL4 <= kind <= _DECIMAL16:
        # As to_json does: without zeros at the end, and without an exponent.
        scale, unscaled = data[at], _signed(data, at + 1, 4 << (kind - _DECIMAL4))
        text = format(Decimal(unscaled).scaleb(-scale, _EXACT), "f")
        return text.rstrip("0").rstrip(".") if "." in text else text
    if kind in (_DOUBLE, _FLOAT):
        return _floating(data, at, kind)
    if kind == _DATE:
        return _quoted((_EPOCH.date() + datetime.timedelta(days=_signed(data, at, 4))).isoformat())
    if kind in (_TIMESTAMP, _TIMESTAMP_NTZ):
        moment = _EPOCH + datetime.timedelta(microseconds=_signed(data, at, 8))
        fraction = f".{moment.microsecond:06}".rstrip("0") if moment.microsecond else ""
        zone = "+00:00" if kind == _TIMESTAMP else ""
        return _quoted(f"{moment.replace(microsecond=0).isoformat(' ')}{fraction}{zone}")
    if kind in (_BINARY, _LONG_STRING):
        raw = _sized(data, at + 4, _unsigned(data, at, 4))
        if kind == _LONG_STRING:
            return _quoted(raw.decode())
        import binascii

        return f'"{binascii.b2a_base64(raw, newline=False).decode()}"'
    raise MalformedVariantError(f"it holds a value of the primitive type {kind}, which has no JSON")


def _floating(data: bytes, at: int, kind: int) -> str:
    if kind == _FLOAT:
        import numpy as np

        number = np.float32(struct.unpack_from("<f", data, at)[0])
        if np.isfinite(number):
            return str(number)
    else:
        number = struct.unpack_from("<d", data, at)[0]
        if math.isfinite(number):
            return repr(number)
    return '"NaN"' if math.isnan(number) else '"Infinity"' if number > 0 else '"-Infinity"'


def _signed(data: bytes, position: int, width: int) -> int:
    if position + width > len(data):
        raise IndexError(position)
    return int.from_bytes(data[position : position + width], "little", signed=True)


def _sized(data: bytes, position: int, size: int) -> bytes:
    if position + size > len(data):
        raise IndexError(position)
    return data[position : position + size]


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
