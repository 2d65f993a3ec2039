"""Batch reads between bounds: what lies in a stream between two cuts."""

from __future__ import annotations

import logging

from pyspark_pravega.client import Client, StreamCut
from pyspark_pravega.client.positions import parts_between
from pyspark_pravega.client.segments import SegmentState
from pyspark_pravega.connector.bounds import Word
from pyspark_pravega.connector.log import Snapshot
from pyspark_pravega.connector.option_names import START_CUT
from pyspark_pravega.connector.options import ReadOptions
from pyspark_pravega.connector.read.extent import Extent
from pyspark_pravega.errors import ConfigurationError, DataLossError, InvalidStreamCutError

_log = logging.getLogger(__name__)


def bounded_snapshot(client: Client, snapshot: Snapshot, extent: Extent, options: ReadOptions) -> Snapshot:
    """A stream between the bounds of a batch read.

    Args:
        client: the cluster.
        snapshot: the whole stream, as it is now.
        extent: the bounds.
        options: the read's.

    Raises:
        ConfigurationError: it begins at the tail.
        InvalidStreamCutError: the end lies before the start.
        DataLossError: events between the bounds have been truncated.
    """
    if extent.start is Word.LATEST:
        raise ConfigurationError(
            f'option "{options.word(START_CUT)}" can\'t be latest in a batch read: nothing would be read'
        )
    if extent.end is Word.EARLIEST:
        return Snapshot(stream=snapshot.stream, parts=())
    start = extent.start if isinstance(extent.start, StreamCut) else None
    end = extent.end if isinstance(extent.end, StreamCut) else None
    if start is None and end is None:
        return snapshot
    return between(client, snapshot, start, end, fail_on_data_loss=options.fail_on_data_loss)


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
    try:
        ids = client.controller.segments_between(stream, head if start is None else start, end)
    except InvalidStreamCutError:
        if start is not None and end is not None:
            raise
        # An end before the head.
        ids = ()
    there = {part.segment_id: part for part in snapshot.parts}
    states = {
        # An end may lie before the head as well as a start.
        segment_id: SegmentState(start_offset=part.start, write_offset=part.end, sealed=False)
        if (part := there.get(segment_id)) is not None
        else None
        for segment_id in (*ids, *(segment_id for segment_id in end or () if segment_id not in {*ids, *there}))
    }
    until = None
    if end is not None:
        until = {s: min(offset, there[s].end) if s in there else offset for s, offset in end.items()}
    wanted = parts_between(stream, states, start, until)
    if wanted.lost:
        message = (
            f'events of stream "{stream}" between the cuts {"(head)" if start is None else start.to_json()} and '
            f"{'(tail)' if end is None else end.to_json()} are gone: segment {wanted.lost[0]} was truncated, and "
            f"the stream's head is now at {head.to_json()}"
        )
        if fail_on_data_loss:
            raise DataLossError(f"{message}. Set failOnDataLoss to false to read those that are there")
        _log.warning("%s; those that are there are read", message)
    return Snapshot(stream=stream, parts=wanted.parts)
