"""A streaming query's offset: a stream cut for each of its streams, as a value with a stable JSON text.

    {"version":1,"streams":{"shop/orders":{"made":1795278750762,"cut":{"0":33060,"1":30740}}}}

Beside `cut` stands `end`, another cut, where the query ends at what was the tail when it began. A query that reads rows
in the lake has them in `lake`, and `version` is 2: whoever knows 1 only would pass them over.

Spark keeps such texts in checkpoints, so what a released version has written must be read for ever
(`tests/connector/checkpoints`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from pyspark_pravega.client import Stream, StreamCut
from pyspark_pravega.errors import ConfigurationError, InvalidNameError

VERSION, IN_LAKE_VERSION = 1, 2
"""Of the layout; raised when a reader of the present one couldn't understand it any more."""


@dataclass(frozen=True, kw_only=True)
class LakePosition:
    """How far a query has come in what of a stream lies in the lake. Behind that it goes on in the stream."""

    id: str
    """As of `Tiered`."""
    since: int
    """The last version that took the place of all rows, when the query came to the lake."""
    snapshot: int
    metadata: str
    """Iceberg's snapshot, and where the metadata lie that show it."""
    last: int
    """The last version that it holds, whose cut is that of the position."""
    version: int = 0
    """The last version that was read."""
    after: int = 0
    """The last version that was read before the micro-batch that ends here."""
    whole: int = 0
    """Up to this version all rows were read, wherever `until` is."""
    behind: StreamCut | None = None
    """Only rows behind this cut are read: those before it came from the stream."""
    until: StreamCut | None = None
    """Only rows before this cut are read: there the query is to end."""

    @property
    def is_read(self) -> bool:
        """Whether nothing is left to be read there."""
        return self.version >= self.last

    def to_dict(self) -> dict[str, Any]:
        """It as JSON's own types."""
        content: dict[str, Any] = {name: value for name, value in vars(self).items() if value is not None}
        return {name: _numbers(one) if isinstance(one, StreamCut) else one for name, one in content.items()}

    @classmethod
    def from_dict(cls, stream: Stream, content: Mapping[str, Any]) -> LakePosition:
        """One from what `to_dict` has made."""
        cuts = {
            key: StreamCut.from_json(stream, json.dumps(content[key])) for key in ("behind", "until") if key in content
        }
        return cls(**{**content, **cuts})


@dataclass(frozen=True, kw_only=True)
class StreamPosition:
    """How far one stream has been read."""

    cut: StreamCut
    made_ms: int = 0
    """When the youngest of the cut's segments was made, in ms since 1970; 0 where that isn't known. It tells a stream
    from another one that was made later under its name."""
    end: StreamCut | None = None
    """Where the query ends, where only its offsets tell: it is to end at the tail as of its start."""
    lake: LakePosition | None = None
    """Where it is in the lake, while it reads there."""


class SourceOffset(Mapping[Stream, StreamPosition]):
    """How far a query has read each of its streams. Immutable; the streams are in the order of their names."""

    __slots__ = ("_positions",)

    def __init__(self, positions: Mapping[Stream, StreamPosition]) -> None:
        """Make an offset.

        Args:
            positions: the position of each stream.
        """
        self._positions = dict(sorted(positions.items(), key=lambda item: str(item[0])))

    def __getitem__(self, stream: Stream) -> StreamPosition:
        return self._positions[stream]

    def __iter__(self) -> Iterator[Stream]:
        return iter(self._positions)

    def __len__(self) -> int:
        return len(self._positions)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SourceOffset) and self._positions == other._positions

    def __hash__(self) -> int:
        return hash(self.to_json())

    def __repr__(self) -> str:
        return f"SourceOffset({self.to_json()})"

    def to_dict(self) -> dict[str, Any]:
        """The offset as JSON's own types."""
        streams = {
            str(stream): {
                "made": position.made_ms,
                "cut": _numbers(position.cut),
                **({} if position.end is None else {"end": _numbers(position.end)}),
                **({} if position.lake is None else {"lake": position.lake.to_dict()}),
            }
            for stream, position in self._positions.items()
        }
        in_lake = any(position.lake is not None for position in self._positions.values())
        return {"version": IN_LAKE_VERSION if in_lake else VERSION, "streams": streams}

    def to_json(self) -> str:
        """The offset as text: always the same for the same offset."""
        return json.dumps(self.to_dict(), separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> SourceOffset:
        """An offset from what `to_json` has made, in this version or an earlier one.

        Raises:
            ConfigurationError: it isn't that; the message says what is wrong.
        """
        try:
            return cls.from_dict(json.loads(text))
        except (ValueError, RecursionError) as error:
            raise ConfigurationError(f'"{text[:80]}" is no offset of a Pravega source: {error}') from None

    @classmethod
    def from_dict(cls, document: Any) -> SourceOffset:
        """An offset from what `to_dict` has made; errors as `from_json`."""

        def refuse(why: str) -> NoReturn:
            raise ConfigurationError(f'"{json.dumps(document)[:80]}" is no offset of a Pravega source: {why}')

        if not isinstance(document, dict) or not isinstance(document.get("streams"), dict):
            refuse('it must be an object with "version" and "streams"')
        if type(document.get("version")) is not int:
            refuse("its version is no number")
        if document["version"] > IN_LAKE_VERSION:
            refuse(
                f"it was written by a later version of pyspark-pravega (version {document['version']}, known is "
                f"{IN_LAKE_VERSION}): upgrade this one"
            )
        positions = {}
        for name, position in document["streams"].items():
            try:
                stream = Stream.parse(name)
            except InvalidNameError as error:
                refuse(str(error))
            if not isinstance(position, dict) or not isinstance(position.get("cut"), dict):
                refuse(f'stream "{name}" has no cut')
            if type(position.get("made")) is not int:
                refuse(f'"made" of stream "{name}" is no number')
            if not isinstance(position.get("end", {}), dict):
                refuse(f'the end of stream "{name}" is no cut')
            try:
                lake = LakePosition.from_dict(stream, position["lake"]) if "lake" in position else None
            except (TypeError, ValueError) as error:
                refuse(f'the place of stream "{name}" in the lake is none: {error}')
            positions[stream] = StreamPosition(
                cut=StreamCut.from_json(stream, json.dumps(position["cut"])),
                made_ms=position["made"],
                end=StreamCut.from_json(stream, json.dumps(position["end"])) if "end" in position else None,
                lake=lake,
            )
        return cls(positions)


def _numbers(cut: StreamCut) -> dict[str, int]:
    return {str(segment_id): offset for segment_id, offset in cut.items()}
