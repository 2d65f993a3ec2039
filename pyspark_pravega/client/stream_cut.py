"""A stream cut as a value, and its two texts: the Java client's, and JSON."""

from __future__ import annotations

import base64
import binascii
import enum
import json
import re
import zlib
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

from pyspark_pravega.client.names import Stream, segment_epoch, segment_id_of, segment_number
from pyspark_pravega.errors import ConfigurationError, InvalidNameError, InvalidStreamCutError

NOT_REACHED = -1
"""The offset of a segment that comes later: the cut lies before the end of one of its predecessors."""
_MAX_TEXT_BYTES = 64 << 20
_MAX_OFFSET = 2**63 - 1
_NUMBER = re.compile(r"-?[0-9]{1,19}")
_STREAM = re.compile(r"(_?[A-Za-z0-9.\-]+)/(_?[A-Za-z0-9.\-]+)")
_GZIP = 16 + zlib.MAX_WBITS


class Unbounded(enum.Enum):
    """A stream's head where a start is asked for, its tail where an end is."""

    UNBOUNDED = "UNBOUNDED"


UNBOUNDED = Unbounded.UNBOUNDED


class StreamCut(Mapping[int, int]):
    """A position in a stream: segment id to offset in bytes, in the order of the ids.

    A cut names segments that together own every routing key once. Immutable; cuts of one stream with the same offsets
    are equal, and a cut equals a plain mapping of the same offsets.
    """

    __slots__ = ("_offsets", "stream")

    stream: Stream

    def __init__(self, stream: Stream, offsets: Mapping[int, int]) -> None:
        """Make a cut; whether it fits its stream is found out by `stream_cuts.check_cut`.

        Args:
            stream: the stream that is cut.
            offsets: segment id to offset in bytes, which is `NOT_REACHED` for a segment that comes later.

        Raises:
            InvalidStreamCutError: it can't be a cut of any stream.
        """
        if not offsets:
            raise InvalidStreamCutError(f'a cut of stream "{stream}" needs at least one segment')
        for segment_id, offset in offsets.items():
            if segment_id < 0 or segment_epoch(segment_id) >= 2**31 or segment_number(segment_id) >= 2**31:
                raise InvalidStreamCutError(f'a cut of stream "{stream}" names segment {segment_id}, which can\'t be')
            if not NOT_REACHED <= offset <= _MAX_OFFSET:
                raise InvalidStreamCutError(
                    f'a cut of stream "{stream}" has offset {offset} in segment {segment_id}: it must be 0 or more'
                )
        object.__setattr__(self, "stream", stream)
        object.__setattr__(self, "_offsets", dict(sorted(offsets.items())))

    _offsets: dict[int, int]

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a stream cut can't be changed: make another one ({name})")

    def __getitem__(self, segment_id: int) -> int:
        return self._offsets[segment_id]

    def __iter__(self) -> Iterator[int]:
        return iter(self._offsets)

    def __len__(self) -> int:
        return len(self._offsets)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, StreamCut):
            return self.stream == other.stream and self._offsets == other._offsets
        if isinstance(other, Mapping):
            return self._offsets == dict(other)
        return NotImplemented

    def __hash__(self) -> int:
        return hash((self.stream, tuple(self._offsets.items())))

    def __reduce__(self) -> tuple[Any, ...]:
        return StreamCut, (self.stream, self._offsets)

    def __repr__(self) -> str:
        return f"StreamCut({str(self.stream)!r}, {self._offsets})"

    @property
    def epochs(self) -> tuple[int, ...]:
        """The epochs in which its segments were made, ascending, each once."""
        return tuple(sorted({segment_epoch(segment_id) for segment_id in self}))

    def to_json(self) -> str:
        """A JSON object of segment ids and offsets, always the same for the same cut; without the stream."""
        return json.dumps({str(segment_id): offset for segment_id, offset in self.items()}, separators=(",", ":"))

    @classmethod
    def from_json(cls, stream: Stream, text: str) -> StreamCut:
        """A cut from what `to_json` has made.

        Raises:
            ConfigurationError: it isn't that; the message says what is wrong.
        """

        def refuse(why: str) -> NoReturn:
            raise ConfigurationError(f'"{text[:80]}" is no cut of stream "{stream}": {why}')

        def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
            if len(dict(items)) != len(items):
                refuse("a segment is named twice")
            return dict(items)

        try:
            offsets = json.loads(text, object_pairs_hook=pairs)
        except (ValueError, RecursionError) as error:
            refuse(f"it isn't JSON ({error})")
        if not isinstance(offsets, dict):
            refuse('it must be an object like {"0":12}')
        for key, offset in offsets.items():
            if not (key.isascii() and key.isdigit() and len(key) < 20 and str(int(key)) == key):
                refuse(f'"{key[:40]}" is no segment id')
            if type(offset) is not int:
                refuse(f"the offset of segment {key} must be a whole number")
        try:
            return cls(stream, {int(key): offset for key, offset in offsets.items()})
        except InvalidStreamCutError as error:
            refuse(str(error))

    def to_text(self) -> str:
        """The text that the Java client's `StreamCut.from` reads; its `asText` makes such ones.

        It is the base64 of the gzip of `0:scope/stream:numbers:epochs:offsets`, lists with commas between.
        """
        numbers = ",".join(str(segment_number(segment_id)) for segment_id in self)
        epochs = ",".join(str(segment_epoch(segment_id)) for segment_id in self)
        offsets = ",".join(map(str, self.values()))
        packer = zlib.compressobj(wbits=_GZIP)
        packed = packer.compress(f"0:{self.stream}:{numbers}:{epochs}:{offsets}".encode()) + packer.flush()
        return base64.b64encode(packed).decode()

    @classmethod
    def from_text(cls, text: str) -> StreamCut | Unbounded:
        """A cut from a text of the Java client's `asText` or of `to_text`.

        Returns:
            `UNBOUNDED` for the word "UNBOUNDED".

        Raises:
            ConfigurationError: it isn't such a text; the message says what is wrong.
        """

        def refuse(why: str) -> NoReturn:
            raise ConfigurationError(f'"{text[:40]}{"..." if len(text) > 40 else ""}" is no stream cut: {why}')

        if text == UNBOUNDED.value:
            return UNBOUNDED
        try:
            packed = base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            refuse('it must be base64, or "UNBOUNDED"')
        unpacker = zlib.decompressobj(wbits=_GZIP)
        try:
            plain = unpacker.decompress(packed, _MAX_TEXT_BYTES + 1)
        except zlib.error:
            refuse("its base64 holds no gzip")
        if len(plain) > _MAX_TEXT_BYTES:
            refuse(f"its gzip holds more than {_MAX_TEXT_BYTES >> 20} MiB")
        if not unpacker.eof:
            refuse("its gzip is cut short")
        if unpacker.unused_data:
            refuse(f"{len(unpacker.unused_data)} bytes follow its gzip")
        parts = plain.decode("utf-8", "replace").split(":")
        if len(parts) != 5:
            refuse(f"it has {len(parts)} parts instead of version, stream, segment numbers, epochs and offsets")
        if parts[0] != "0":
            refuse(f'its version is "{parts[0][:20]}", only 0 is known')
        match = _STREAM.fullmatch(parts[1])
        if match is None:
            refuse(f'"{parts[1][:80]}" is no stream')
        if parts[2:] == ["", "", ""]:
            refuse(f"it names no segment of stream {parts[1]}; the Java client makes such a tail of a sealed stream")
        lists = [[item.strip() for item in part.split(",")] for part in parts[2:]]
        for item in (item for items in lists for item in items):
            if not _NUMBER.fullmatch(item):
                refuse(f'"{item[:40]}" is no number')
        numbers, epochs, offsets = ([int(item) for item in items] for items in lists)
        if not len(numbers) == len(epochs) == len(offsets):
            refuse(f"it has {len(numbers)} segment numbers, {len(epochs)} epochs and {len(offsets)} offsets")
        try:
            ids = [segment_id_of(epoch=e, number=n) for e, n in zip(epochs, numbers, strict=True)]
            if len(set(ids)) != len(ids):
                refuse("a segment is named twice")
            return cls(Stream(*match.groups()), dict(zip(ids, offsets, strict=True)))
        except (InvalidNameError, InvalidStreamCutError) as error:
            refuse(str(error))


def offsets_of(stream: Stream, cut: Mapping[int, int]) -> dict[int, int]:
    """A cut's offsets, where it is one of this stream.

    Raises:
        InvalidStreamCutError: it is a cut of another stream.
    """
    if isinstance(cut, StreamCut) and cut.stream != stream:
        raise InvalidStreamCutError(f'a cut of stream "{cut.stream}" can\'t be used for stream "{stream}"')
    return dict(cut)
