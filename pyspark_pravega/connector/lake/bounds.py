"""Batch reads between cuts of tables whose older rows lie in the lake."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pyspark_pravega.client import Client, SegmentPart, Stream, StreamCut
from pyspark_pravega.client.positions import SegmentRanges, proper_cut
from pyspark_pravega.connector.bounds import Word
from pyspark_pravega.connector.lake.reading import behind_lake
from pyspark_pravega.connector.lake.slices import segment_bounds
from pyspark_pravega.connector.log import (
    LakePart,
    Ledger,
    Snapshot,
    State,
    lies_behind,
    only_in_lake,
    open_ledger,
    visible_begin,
)
from pyspark_pravega.connector.read import Extent


def lake_between(client: Client, whole: Snapshot, extent: Extent) -> Snapshot | None:
    """A table between bounds, of which rows that the stream doesn't hold any more are read from the lake.

    Args:
        client: the cluster.
        whole: the whole table, as `take_snapshot` has found it.
        extent: the bounds.

    Returns:
        None where the stream holds all of it, or the lake doesn't hold what it lacks.
    """
    tiered = whole.tiered
    if tiered is None or not tiered.kept or extent.end is Word.EARLIEST or extent.start is Word.LATEST:
        return None
    start = extent.start if isinstance(extent.start, StreamCut) else None
    end = extent.end if isinstance(extent.end, StreamCut) else None
    if start is None and end is None:
        return behind_lake(whole)
    ranges = SegmentRanges(client, whole.stream)
    if start is not None:
        ledger = open_ledger(client, whole.stream)
        state = None if ledger is None else ledger.state()
        is_there = lies_behind(ranges, start, tiered.kept_cut)
        if is_there or ledger is None or state is None or not holds_behind(ranges, ledger, state, start):
            return None
    rest = behind_lake(whole)
    bounds = segment_bounds(ranges, {part.segment_id for part in rest.parts}, start, end)
    parts = [_clipped(part, bounds) for part in rest.parts]
    return replace(rest, parts=tuple(parts), lake=LakePart(tiered=tiered, last=tiered.version, behind=start, until=end))


def holds_behind(ranges: SegmentRanges, ledger: Ledger, state: State, cut: Mapping[int, int]) -> bool:
    """Whether all rows behind a cut are still the table's, so that those that the stream lacks lie in the lake.

    Args:
        ranges: the keys of segments.
        ledger: the commit log.
        state: the log's.
        cut: the cut.
    """
    if not state.replaced_rows:
        return True
    # Of an earlier release's log that has forgotten that version it isn't known where its own rows began.
    begins = _own_begin(ledger, state) or state.reached
    return lies_behind(ranges, cut, begins)


def table_begin(client: Client, stream: Stream) -> StreamCut:
    """The cut before a table's first row, wherever that lies.

    Args:
        client: the cluster.
        stream: the table's stream.

    Raises:
        UnsupportedOperationError: the commit log has forgotten where the rows begin that took the place of all.
    """
    cut, state = visible_begin(client, stream)
    if state is None:
        return cut
    ledger = open_ledger(client, stream)
    assert ledger is not None
    if not state.replaced_rows:
        return StreamCut(stream, dict.fromkeys(client.controller.epoch_segments(stream, 0).ids, 0))
    begins = _own_begin(ledger, state)
    if not begins:
        raise only_in_lake(stream, state.replaced_rows, "who begins with the first row of the stream")
    return proper_cut(client, stream, begins)


def _own_begin(ledger: Ledger, state: State) -> Mapping[int, int]:
    """Where the rows begin that took the place of all; empty where the log has forgotten that version, and an earlier
    release has written it."""
    return state.began or next((commit.begins for commit in ledger.commits([state.replaced_rows])), {})


def _clipped(part: SegmentPart, bounds: Mapping[int, tuple[int, int]]) -> SegmentPart:
    begin, end = bounds.get(part.segment_id, (0, 0))
    start = min(part.end, max(part.start, begin))
    return replace(part, start=start, end=max(start, min(part.end, end)))
