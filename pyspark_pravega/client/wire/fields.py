"""How single values lie in a command's payload: big-endian, strings and blocks with their length in front."""

from __future__ import annotations

import struct
import uuid
from typing import Any, NamedTuple, Protocol

from pyspark_pravega.errors import WireError

Buffer = bytes | bytearray | memoryview

_I32 = struct.Struct(">i")
_I64 = struct.Struct(">q")
_U16 = struct.Struct(">H")


class Cursor:
    """Reads values one after another from a payload, without copying it."""

    __slots__ = ("_data", "_position")

    def __init__(self, data: Buffer) -> None:
        self._data = memoryview(data)
        self._position = 0

    def take(self, count: int) -> memoryview:
        """The next `count` bytes.

        Raises:
            WireError: fewer are left, or the count is negative.
        """
        end = self._position + count
        if count < 0:
            raise WireError(f"a command announces a value of {count} bytes")
        if end > len(self._data):
            raise WireError(f"a command's payload ends {end - len(self._data)} bytes too early")
        data = self._data[self._position : end]
        self._position = end
        return data

    def at_end(self) -> bool:
        """Whether all bytes have been taken."""
        return self._position == len(self._data)

    def take_rest(self) -> memoryview:
        """All bytes that haven't been taken."""
        return self.take(len(self._data) - self._position)

    def take_count(self, size: int) -> int:
        """The number of values in a list; checked before anything is made of it.

        Args:
            size: bytes that a value takes at least.

        Raises:
            WireError: that many can't follow, or the number is negative.
        """
        (count,) = _I32.unpack(self.take(4))
        size_left = len(self._data) - self._position
        if count < 0 or count * size > size_left:
            raise WireError(f"a command announces a list of {count} values in {size_left} bytes")
        return int(count)


class AttributeUpdate(NamedTuple):
    """A change of a segment's attribute that is made together with something else."""

    attribute: uuid.UUID
    kind: int
    """1 replace, 4 replace if equal to `old_value`."""
    new_value: int
    old_value: int


class FieldType(Protocol):
    """How one kind of value is written and read."""

    def put(self, value: Any, out: list[Buffer]) -> None:
        """Append the value's bytes to `out`."""

    def get(self, cursor: Cursor) -> Any:
        """Read the value."""


class _Number:
    def __init__(self, layout: str) -> None:
        self._layout = struct.Struct(layout)

    def put(self, value: int, out: list[Buffer]) -> None:
        out.append(self._layout.pack(value))

    def get(self, cursor: Cursor) -> int:
        number: int = self._layout.unpack(cursor.take(self._layout.size))[0]
        return number


class _LaterNumber(_Number):
    """The last field of a command that older servers send without it."""

    def get(self, cursor: Cursor) -> int:
        return _MISSING if cursor.at_end() else super().get(cursor)


class _Flag:
    def put(self, value: bool, out: list[Buffer]) -> None:
        out.append(b"\x01" if value else b"\x00")

    def get(self, cursor: Cursor) -> bool:
        return cursor.take(1)[0] != 0


class _Text:
    """Java's "modified UTF-8": a zero takes two bytes, and characters beyond the first 65,536 are two surrogates."""

    def put(self, value: str, out: list[Buffer]) -> None:
        encoded = value.encode() if value.isascii() and "\0" not in value else _modified_utf8(value)
        out.append(_U16.pack(len(encoded)))
        out.append(encoded)

    def get(self, cursor: Cursor) -> str:
        (length,) = _U16.unpack(cursor.take(2))
        data = bytes(cursor.take(length))
        if data.isascii():
            return data.decode()
        try:
            halves = data.replace(b"\xc0\x80", b"\0").decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            # A server's stack trace may be cut in the middle of a character.
            return data.decode("utf-8", "replace")
        return halves.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def _modified_utf8(value: str) -> bytes:
    units = value.encode("utf-16-le", "surrogatepass")
    each = (units[i : i + 2].decode("utf-16-le", "surrogatepass") for i in range(0, len(units), 2))
    return "".join(each).encode("utf-8", "surrogatepass").replace(b"\0", b"\xc0\x80")


class _Uuid:
    def put(self, value: uuid.UUID, out: list[Buffer]) -> None:
        out.append(value.bytes)

    def get(self, cursor: Cursor) -> uuid.UUID:
        return uuid.UUID(bytes=bytes(cursor.take(16)))


class _Block:
    def put(self, value: Buffer, out: list[Buffer]) -> None:
        out.append(_I32.pack(len(value)))
        out.append(value)

    def get(self, cursor: Cursor) -> memoryview:
        (length,) = _I32.unpack(cursor.take(4))
        return cursor.take(length)


class _Rest:
    """Everything up to the payload's end."""

    def put(self, value: Buffer, out: list[Buffer]) -> None:
        out.append(value)

    def get(self, cursor: Cursor) -> memoryview:
        return cursor.take_rest()


class _Event:
    """An event within another command: with its own frame, of type 0."""

    def put(self, value: Buffer, out: list[Buffer]) -> None:
        out.append(struct.pack(">ii", 0, len(value)))
        out.append(value)

    def get(self, cursor: Cursor) -> memoryview:
        kind, length = struct.unpack(">ii", cursor.take(8))
        if kind != 0:
            raise WireError(f"a command holds a frame of type {kind} where an event was expected")
        return cursor.take(length)


class _TableEntries:
    """A list of (key, version, value); value None where only keys travel. An empty key has no version."""

    def __init__(self, *, values: bool) -> None:
        self._values = values

    def put(self, value: tuple[tuple[Buffer, int, Buffer | None], ...], out: list[Buffer]) -> None:
        out.append(_I32.pack(len(value)))
        for key, version, data in value:
            out.append(struct.pack(">ii", 4 + len(key) + 8, len(key)))
            if len(key):
                out.append(key)
                out.append(_I64.pack(version))
            if self._values:
                data = b"" if data is None else data
                out.append(struct.pack(">ii", 4 + len(data), len(data)))
                out.append(data)

    def get(self, cursor: Cursor) -> tuple[tuple[bytes, int, bytes | None], ...]:
        return tuple(self._entry(cursor) for _ in range(cursor.take_count(16 if self._values else 8)))

    def _entry(self, cursor: Cursor) -> tuple[bytes, int, bytes | None]:
        _, length = struct.unpack(">ii", cursor.take(8))
        key, version, data = bytes(cursor.take(length)), _NO_VERSION, None
        if key:
            (version,) = _I64.unpack(cursor.take(8))
        if self._values:
            _, length = struct.unpack(">ii", cursor.take(8))
            data = bytes(cursor.take(length))
        return key, version, data


class _AttributeUpdates:
    _UPDATE = struct.Struct(">16sbqq")

    def put(self, value: tuple[AttributeUpdate, ...], out: list[Buffer]) -> None:
        out.append(_I32.pack(len(value)))
        for attribute, *rest in value:
            out.append(self._UPDATE.pack(attribute.bytes, *rest))

    def get(self, cursor: Cursor) -> tuple[AttributeUpdate, ...]:
        size = self._UPDATE.size
        rows = (self._UPDATE.unpack(cursor.take(size)) for _ in range(cursor.take_count(size)))
        return tuple(AttributeUpdate(uuid.UUID(bytes=attribute), *rest) for attribute, *rest in rows)


class _Versions:
    def put(self, value: tuple[int, ...], out: list[Buffer]) -> None:
        out.append(struct.pack(f">i{len(value)}q", len(value), *value))

    def get(self, cursor: Cursor) -> tuple[int, ...]:
        count = cursor.take_count(8)
        return struct.unpack(f">{count}q", cursor.take(8 * count))


_NO_VERSION = -(2**63)
_MISSING = -1

INT = _Number(">i")
LONG = _Number(">q")
LATER_LONG = _LaterNumber(">q")
"""-1 where the server is older than the field."""
FLAG = _Flag()
TEXT = _Text()
TOKEN = _Text()
"""A delegation token: a text that isn't shown."""
UUID = _Uuid()
BLOCK = _Block()
REST = _Rest()
EVENT = _Event()
TABLE_ENTRIES = _TableEntries(values=True)
TABLE_KEYS = _TableEntries(values=False)
VERSIONS = _Versions()
ATTRIBUTE_UPDATES = _AttributeUpdates()
