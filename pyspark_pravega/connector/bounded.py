"""Batch reads between bounds: what lies in a stream between two cuts."""

from __future__ import annotations

import logging

from pyspark_pravega.client import Client, Stream, StreamCut
from pyspark_pravega.connector.bounds import Bound, NamedCut, cut_at, resolve_bound
from pyspark_pravega.connector.ledger import Ledger
from pyspark_pravega.connector.options import END_CUT, END_TIME, START_CUT, START_TIME, ReadOptions
from pyspark_pravega.connector.snapshot import take_snapshot
from pyspark_pravega.connector.tail import SegmentSlice, Snapshot
from pyspark_pravega.errors import ConfigurationError, DataLossError, InvalidStreamCutError

_log = logging.getLogger(__name__)


def bounded_snapshot(
    client: Client,
    stream: Stream,
    options: ReadOptions,
    *,
    streams: int = 1,
    named: NamedCut | None = None,
    ledger: Ledger | None = None,
) -> Snapshot:
    """A stream between the bounds that options name, as it is now.

    Args:
        client: the cluster.
        stream: the stream.
        options: bounds; without any it is the whole stream.
        streams: how many streams the query reads.
        named: knows the names of cuts.
        ledger: the stream's commit log, where that is open already.

    Raises:
        ConfigurationError: a bound isn't one.
        InvalidStreamCutError: a cut doesn't fit the stream, or the end lies before the start.
        DataLossError: events between the bounds have been truncated.
    """

    def bound(text: str | None, time: str | None, default: Bound, keys: tuple[str, str]) -> Bound | StreamCut:
        if time is not None:
            return cut_at(client, stream, time, keys[1]) or Bound.EARLIEST
        return default if text is None else resolve_bound(client, stream, text, keys[0], streams=streams, named=named)

    start = bound(options.start, options.start_time, Bound.EARLIEST, (START_CUT, START_TIME))
    end = bound(options.end, options.end_time, Bound.LATEST, (END_CUT, END_TIME))
    snapshot = take_snapshot(client, stream, ledger)
    if start is Bound.LATEST or (end is Bound.EARLIEST and options.end_time is not None):
        return Snapshot(stream=stream, slices=())
    if end is Bound.EARLIEST:
        raise ConfigurationError(f'option "{END_CUT}" can\'t be earliest: nothing would be read')
    first = start if isinstance(start, StreamCut) else None
    last = end if isinstance(end, StreamCut) else None
    if first is None and last is None:
        return snapshot
    return between(client, snapshot, first, last, fail_on_data_loss=options.fail_on_data_loss)


def between(
    client: Client,
    snapshot: Snapshot,
    start: StreamCut | None,
    end: StreamCut | None,
    *,
    fail_on_data_loss: bool = True,
) -> Snapshot:
    """The part of a snapshot that lies between two cuts.

    Args:
        client: the cluster.
        snapshot: the whole stream.
        start: where to begin; the stream's head when None.
        end: where to end; the snapshot's tail when None.
        fail_on_data_loss: whether events that have been truncated are an error; else those that are there are read.

    Raises:
        InvalidStreamCutError: the end lies before the start.
        DataLossError: events between the cuts have been truncated.
    """
    stream = snapshot.stream
    head = client.controller.head(stream)
    slices = {part.segment_id: part for part in snapshot.slices}
    try:
        wanted = client.controller.segments_between(stream, head if start is None else start, end)
    except InvalidStreamCutError:
        if start is not None and end is not None:
            raise
        # An end before the head.
        wanted = ()
    found = []
    # An end may lie before the head as well as a start.
    lost = [
        segment_id for segment_id in {*wanted, *(end or ())} if segment_id not in slices and _reached(end, segment_id)
    ]
    for segment_id in wanted:
        part = slices.get(segment_id)
        if part is None:
            continue
        begin = max(0, start.get(segment_id, 0)) if start is not None else part.start
        until = part.end if end is None else min(part.end, max(0, end.get(segment_id, part.end)))
        if begin > until:
            raise InvalidStreamCutError(
                f'the end of a read of stream "{stream}" lies before its start in segment {segment_id}: '
                f"{until} < {begin}"
            )
        if begin < part.start and begin < until:
            lost.append(segment_id)
        begin = max(begin, part.start)
        found.append(SegmentSlice(segment_id=segment_id, start=begin, end=max(begin, until)))
    if lost:
        message = (
            f'events of stream "{stream}" between the cuts {"(head)" if start is None else start.to_json()} and '
            f"{'(tail)' if end is None else end.to_json()} are gone: segment {lost[0]} was truncated, and the stream's "
            f"head is now at {head.to_json()}"
        )
        if fail_on_data_loss:
            raise DataLossError(f"{message}. Set failOnDataLoss to false to read those that are there")
        _log.warning("%s; those that are there are read", message)
    return Snapshot(stream=stream, slices=tuple(found))


def _reached(end: StreamCut | None, segment_id: int) -> bool:
    """Whether a read wants something of a segment."""
    return end is None or end.get(segment_id, 1) > 0
