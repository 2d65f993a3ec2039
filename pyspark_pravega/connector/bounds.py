"""Where a read begins and ends, as users write it: read and checked before any server is asked.

What a bound means in a stream, `connector.read.extent` finds out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from pyspark_pravega.client import Stream, StreamCut
from pyspark_pravega.connector.option_names import word_of
from pyspark_pravega.errors import ConfigurationError
from pyspark_pravega.values import time_ms


class Word(Enum):
    """The bounds that have words of their own."""

    EARLIEST = "earliest"
    """The stream's head."""
    LATEST = "latest"
    """The stream's tail when the query begins."""
    UNBOUNDED = "unbounded"
    """As a start the head; as an end none, which is the tail for a batch."""


@dataclass(frozen=True)
class Offsets:
    """A cut without the name of its stream: JSON, as `{"0":120}`."""

    text: str

    def of(self, stream: Stream) -> StreamCut:
        """The cut, of a stream."""
        return StreamCut.from_json(stream, self.text)


@dataclass(frozen=True)
class CutName:
    """The name that somebody has given a cut."""

    name: str
    refusal: str | None
    """What is wrong with it where it looks like the Java client's text of a cut, for the message where there is no such
    name."""


@dataclass(frozen=True)
class Time:
    """A moment: everything that was committed from then on lies behind it."""

    milliseconds: int
    """Since 1970."""


@dataclass(frozen=True, kw_only=True)
class VersionBounds:
    """Between which versions changes are told: by number, by time, or all of them."""

    from_version: str | None = None
    to_version: str | None = None
    from_timestamp: int | None = None
    """Microseconds since 1970, as is the next one."""
    to_timestamp: int | None = None
    from_inclusive: bool = True
    to_inclusive: bool = True


@dataclass(frozen=True)
class PerStream:
    """A bound for each of several streams."""

    bounds: Mapping[str, Bound]
    """By `scope/stream`."""


Bound: TypeAlias = Word | StreamCut | Offsets | CutName | Time | PerStream
"""A start or an end."""


def bound_of(given: Mapping[str, str], cut: str, time: str) -> Bound:
    """A bound from the option that says it.

    Args:
        given: canonical options.
        cut: the key of the one that holds a cut.
        time: the key of the one that holds a time.

    Raises:
        ConfigurationError: as of `parse_bound` and `parse_time`.
    """
    if cut in given:
        return parse_bound(word_of(given, cut), given[cut])
    return parse_time(word_of(given, time), given[time]) if time in given else Word.UNBOUNDED


def parse_bound(option: str, text: str) -> Bound:
    """A bound from an option's text.

    Args:
        option: the option's key, for messages.
        text: `earliest`, `latest`, `unbounded`; a cut as JSON (`{"0":120}`) or as the Java client writes it (base64);
            the name of a cut; or a JSON object of all these for several streams (`{"shop/orders":"earliest"}`).

    Raises:
        ConfigurationError: it can't be any of these.
    """
    text = text.strip()
    if text.lower() in {word.value for word in Word}:
        return Word(text.lower())
    if text.startswith("{"):
        return _parse_json(option, text)
    try:
        cut = StreamCut.from_text(text)
    except ConfigurationError as error:
        return CutName(text, str(error) if text.startswith(_GZIP_IN_BASE64) else None)
    return cut if isinstance(cut, StreamCut) else Word.UNBOUNDED


def parse_time(option: str, text: str) -> Time:
    """A bound from an option that holds a time: ISO 8601 (UTC where it names no zone), or milliseconds since 1970.

    Raises:
        ConfigurationError: it is neither.
    """
    return Time(time_ms(option, text))


def _parse_json(option: str, text: str) -> Bound:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f'option "{option}" begins like JSON, but isn\'t: {error}') from None
    if not any("/" in key for key in document):
        offsets = Offsets(text)
        try:
            offsets.of(_ANY_STREAM)
        except ConfigurationError as error:
            reason = str(error).partition(f'"{_ANY_STREAM}": ')[2] or str(error)
            raise ConfigurationError(f'option "{option}" holds no stream cut: {reason}') from None
        return offsets
    parts = {
        name: parse_bound(option, own if isinstance(own, str) else json.dumps(own)) for name, own in document.items()
    }
    if nested := [name for name, own in parts.items() if isinstance(own, PerStream)]:
        raise ConfigurationError(f'option "{option}" must hold one bound for stream "{nested[0]}", not several')
    return PerStream(parts)


_GZIP_IN_BASE64 = "H4sI"
_ANY_STREAM = Stream("scope", "stream")
"""Stands in where only the form of a cut is looked at."""
