"""Where a read begins and ends: cuts, names and times as users write them."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Mapping
from enum import Enum

from pyspark_pravega.client import Client, Stream, StreamCut
from pyspark_pravega.client.stream_cut import UNBOUNDED
from pyspark_pravega.client.stream_cuts import check_cut
from pyspark_pravega.connector.ledger import Commit, Ledger, open_ledger
from pyspark_pravega.errors import ConfigurationError, SegmentTruncatedError


class Bound(Enum):
    """The bounds that have names of their own."""

    EARLIEST = "earliest"
    """The stream's head."""
    LATEST = "latest"
    """The stream's tail when the query begins."""
    UNBOUNDED = "unbounded"
    """As a start the head, as an end none."""


NamedCut = Callable[[Client, Stream, str], StreamCut | None]
"""Finds a cut by the name that somebody has given it; None when there is none of that name."""


def resolve_bound(
    client: Client, stream: Stream, text: str, option: str, *, streams: int = 1, named: NamedCut | None = None
) -> Bound | StreamCut:
    """A bound from an option's text.

    Args:
        client: the cluster.
        stream: the stream.
        text: `earliest`, `latest`, `unbounded`; a cut as JSON (`{"0":120}`) or as the Java client writes it (base64);
            the name of a cut; or a JSON object of all these for several streams (`{"shop/orders":"earliest"}`).
        option: the option's key, for messages.
        streams: how many streams the query has.
        named: knows the names of cuts.

    Raises:
        ConfigurationError: it is none of these, or says nothing about this stream.
        InvalidStreamCutError: it isn't a cut of the stream.
    """
    text = text.strip()
    if text.lower() in {bound.value for bound in Bound}:
        return Bound(text.lower())
    if text.startswith("{"):
        return _from_json(client, stream, text, option, streams, named)
    if streams > 1:
        raise ConfigurationError(
            f'option "{option}" gives one cut for {streams} streams: write a JSON object, as in '
            '{"scope/one":"earliest","scope/two":{"0":120}}'
        )
    known = named(client, stream, text) if named is not None else None
    found = _from_text(text, option) if known is None else known
    return found if isinstance(found, Bound) else _checked(client, stream, found)


def cut_at(client: Client, stream: Stream, text: str, option: str) -> StreamCut | None:
    """The cut behind which everything lies that this package has committed at a time or later.

    Pravega 0.13 itself can't tell a cut at a time, so the commit log does.

    Args:
        client: the cluster.
        stream: the stream.
        text: ISO 8601 (UTC where it names no zone), or milliseconds since 1970.
        option: the option's key, for messages.

    Returns:
        None where no commit was earlier: everything lies behind.

    Raises:
        ConfigurationError: it is no time, or the stream has no commit log.
    """
    time_ms = parse_time(text, option)
    ledger = open_ledger(client, stream)
    if ledger is None:
        raise ConfigurationError(
            f'option "{option}" needs a commit log, and stream "{stream}" has none, as nothing was written to it '
            'through this package; Pravega itself can\'t tell a cut at a time: give a cut or "earliest"'
        )
    before = _last_before(ledger, time_ms)
    return None if before is None else StreamCut(stream, _without_past(client, stream, before.cut))


def parse_time(text: str, option: str) -> int:
    """A time in ms since 1970.

    Args:
        text: ISO 8601 (UTC where it names no zone), or milliseconds since 1970.
        option: the option's key, for messages.

    Raises:
        ConfigurationError: it is neither.
    """
    text = text.strip()
    if text.isdecimal():
        return int(text)
    try:
        moment = dt.datetime.fromisoformat(text)
    except ValueError:
        raise ConfigurationError(
            f'option "{option}" must be a time like 2026-11-21T10:00:00Z, or milliseconds since 1970, not "{text}"'
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=dt.UTC)
    return round(moment.timestamp() * 1000)


def _from_json(
    client: Client, stream: Stream, text: str, option: str, streams: int, named: NamedCut | None
) -> Bound | StreamCut:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise ConfigurationError(f'option "{option}" begins like JSON, but isn\'t: {error}') from None
    if not any("/" in key for key in found):
        if streams > 1:
            raise ConfigurationError(
                f'option "{option}" must name a cut for each stream, as in {{"{stream}":"earliest",...}}'
            )
        return _checked(client, stream, StreamCut.from_json(stream, text))
    if str(stream) not in found:
        raise ConfigurationError(f'option "{option}" says nothing about stream "{stream}"')
    own = found[str(stream)]
    return resolve_bound(client, stream, own if isinstance(own, str) else json.dumps(own), option, named=named)


def _from_text(text: str, option: str) -> StreamCut | Bound:
    try:
        cut = StreamCut.from_text(text)
    except ConfigurationError as error:
        raise ConfigurationError(
            f'option "{option}" must be earliest, latest, unbounded, a cut as JSON like {{"0":120}}, one in the Java '
            f"client's base64, or a cut's name: {error}"
        ) from None
    return Bound.UNBOUNDED if cut is UNBOUNDED or not isinstance(cut, StreamCut) else cut


def _checked(client: Client, stream: Stream, cut: StreamCut) -> StreamCut:
    if cut.stream != stream:
        raise ConfigurationError(f'a cut of stream "{cut.stream}" can\'t bound a read of stream "{stream}"')
    try:
        check_cut(client.pool, cut)
    except SegmentTruncatedError:
        # Whether that matters is failOnDataLoss's to say.
        pass
    return cut


def _last_before(ledger: Ledger, time_ms: int) -> Commit | None:
    """The last commit before a time, found in a few steps, as times ascend with versions."""
    low, high, found = 1, ledger.state().version, None
    while low <= high:
        middle = (low + high) // 2
        commits = ledger.commits([middle])
        # Old entries are removed some day.
        if commits and commits[0].committed_at >= time_ms:
            high = middle - 1
        else:
            found = commits[0] if commits else found
            low = middle + 1
    return found


def _without_past(client: Client, stream: Stream, cut: Mapping[int, int]) -> dict[int, int]:
    """A commit's cut names all segments up to its tail; of these the last ones are a stream cut."""
    ranges = client.controller.segment_ranges(stream, cut)
    return {
        segment_id: offset
        for segment_id, offset in cut.items()
        if not any(later > segment_id and ranges[later].overlaps(ranges[segment_id]) for later in cut)
    }
