"""How single values lie in a command's payload: big-endian, strings and blocks with their length in front."""

from __future__ import annotations

import struct
import uuid
from typing import Any, Protocol

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
        if count < 0 or end > len(self._data):
            raise WireError(f"a command's payload ends {end - len(self._data)} bytes too early")
        taken = self._data[self._position : end]
        self._position = end
        return taken

    @property
    def left(self) -> int:
        """Bytes that haven't been read."""
        return len(self._data) - self._position


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


class _Flag:
    def put(self, value: bool, out: list[Buffer]) -> None:
        out.append(b"\x01" if value else b"\x00")

    def get(self, cursor: Cursor) -> bool:
        return cursor.take(1)[0] != 0


class _Text:
    def put(self, value: str, out: list[Buffer]) -> None:
        encoded = value.encode()
        out.append(_U16.pack(len(encoded)))
        out.append(encoded)

    def get(self, cursor: Cursor) -> str:
        (length,) = _U16.unpack(cursor.take(2))
        # A server's stack trace may be cut in the middle of a character.
        return str(cursor.take(length), "utf-8", "replace")


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


class _TableEntries:
    """A list of (key, version, value); value None where only keys travel."""

    def __init__(self, *, values: bool) -> None:
        self._values = values

    def put(self, value: tuple[tuple[Buffer, int, Buffer | None], ...], out: list[Buffer]) -> None:
        out.append(_I32.pack(len(value)))
        for key, version, data in value:
            out.append(struct.pack(">ii", 4 + len(key) + 8, len(key)))
            out.append(key)
            out.append(_I64.pack(version))
            if self._values:
                data = b"" if data is None else data
                out.append(struct.pack(">ii", 4 + len(data), len(data)))
                out.append(data)

    def get(self, cursor: Cursor) -> tuple[tuple[bytes, int, bytes | None], ...]:
        (count,) = _I32.unpack(cursor.take(4))
        if count < 0 or count > cursor.left:
            raise WireError(f"a table reply announces {count} entries in {cursor.left} bytes")
        entries = []
        for _ in range(count):
            _, length = struct.unpack(">ii", cursor.take(8))
            key = bytes(cursor.take(length))
            (version,) = _I64.unpack(cursor.take(8))
            data = None
            if self._values:
                _, length = struct.unpack(">ii", cursor.take(8))
                data = bytes(cursor.take(length))
            entries.append((key, version, data))
        return tuple(entries)


class _Versions:
    def put(self, value: tuple[int, ...], out: list[Buffer]) -> None:
        out.append(struct.pack(f">i{len(value)}q", len(value), *value))

    def get(self, cursor: Cursor) -> tuple[int, ...]:
        (count,) = _I32.unpack(cursor.take(4))
        return struct.unpack(f">{count}q", cursor.take(8 * count)) if count > 0 else ()


INT = _Number(">i")
LONG = _Number(">q")
FLAG = _Flag()
TEXT = _Text()
UUID = _Uuid()
BLOCK = _Block()
TABLE_ENTRIES = _TableEntries(values=True)
TABLE_KEYS = _TableEntries(values=False)
VERSIONS = _Versions()
