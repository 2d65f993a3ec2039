"""A streaming query's way through the lake: what its stream doesn't hold any more is read there, then it goes on in the
stream.

A micro-batch in the lake is of whole versions, so its end is a version's number. Whichever snapshot of Iceberg's holds
these versions holds the same rows of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pyspark_pravega.client import Client, Stream, StreamCut
from pyspark_pravega.client.positions import SegmentRanges
from pyspark_pravega.connector.lake import LakeSlice, LakeSpan, end_in_lake, lake_slices, rows_behind
from pyspark_pravega.connector.log import State, comes_after, open_ledger
from pyspark_pravega.connector.stream.admission import Limits
from pyspark_pravega.connector.stream.frontier import StreamFrontier
from pyspark_pravega.connector.stream.offsets import LakePosition, StreamPosition


class LakeWay:
    """Knows how a query goes on in one table's lake. Used by one thread at a time."""

    def __init__(
        self, client: Client, stream: Stream, frontier: StreamFrontier, min_partitions: int | None = None
    ) -> None:
        """Begin to watch a table.

        Args:
            client: the cluster.
            stream: the table's stream.
            frontier: how the query goes on in it.
            min_partitions: how many tasks there shall be at least.
        """
        self._client, self._stream, self._frontier = client, stream, frontier
        self._minimum = min_partitions

    def settled(self, position: StreamPosition, limit: Mapping[int, int]) -> StreamPosition:
        """A position by what lies in the lake now.

        Args:
            position: where the query is.
            limit: the cut at which it is to end, as of `StreamFrontier.look`; empty for none.

        Returns:
            The position itself where it isn't in the lake, or is through; else one in which something is to be read,
            or one whose `until` says that nothing is.

        Raises:
            DataLossError: events behind the position are gone.
        """
        place = position.lake
        if place is None or (place.is_read and place.until is None):
            return position
        state = self._state()
        if state is None or state.lake is None or state.lake.id != place.id:
            self._frontier.made_again(position)
            return self.bounded(replace(self._frontier.head(), end=position.end), limit)
        if state.tiered is None or state.replaced_rows != place.since:
            self._frontier.lost(
                position.cut, f"rows behind version {place.version} were to be read, and others have taken their place"
            )
            return self.bounded(replace(self._frontier.head(), end=position.end), limit)
        if place.is_read:
            assert place.until is not None
            if self._ends(limit, place.until):
                return position
            # The query was to end there, and is to go on now.
            behind = place.until if place.behind is None else _later(place.until, place.behind)
            begun = self._frontier.in_lake(state, behind, whole=place.whole)
            return self.bounded(replace(begun, end=position.end), limit)
        if state.tiered.version > place.last:
            newer = self._frontier.in_lake(state)
            assert newer.lake is not None
            lake = replace(place, last=newer.lake.last, snapshot=newer.lake.snapshot, metadata=newer.lake.metadata)
            position = replace(newer, lake=lake, end=position.end)
        return self.bounded(position, limit)

    def admitted(self, position: StreamPosition, limits: Limits) -> StreamPosition:
        """Where a micro-batch ends that begins at a position in the lake: with a version, and where files are laid out
        with one behind which few of them are needed.

        Args:
            position: as of `settled`.
            limits: how much it may be; it has one version at least.
        """
        place = position.lake
        assert place is not None
        version = place.last
        if limits.max_events is not None or limits.max_bytes is not None:
            events = size = 0
            version = place.version
            wanted = _span(place, after=place.version, last=place.last)
            for number, rows, octets in rows_behind(self._client.settings, wanted):
                events, size = events + rows, size + octets
                if version > place.version and not _fits(events, size, limits):
                    break
                version = number
            else:
                version = place.last
            version = end_in_lake(self._client.settings, wanted, version)
        return replace(position, lake=replace(place, after=place.version, version=version))

    def slices(self, end: StreamPosition) -> list[LakeSlice]:
        """What a micro-batch reads in the lake.

        Args:
            end: where it ends.
        """
        place = end.lake
        assert place is not None
        wanted = _span(place, after=place.after, last=place.version)
        state = self._state()
        tiered = None if state is None else state.tiered
        if (
            state is not None
            and tiered is not None
            and tiered.snapshot is not None
            and (tiered.id, state.replaced_rows) == (place.id, place.since)
        ):
            # The metadata that the offset names may be gone by now.
            wanted = replace(wanted, snapshot=tiered.snapshot, metadata=tiered.metadata)
        return lake_slices(self._client, self._stream, wanted, self._minimum)

    def between(
        self, start: StreamPosition, end: StreamPosition, lake: StreamPosition
    ) -> tuple[list[LakeSlice], StreamPosition]:
        """What a micro-batch was planned to read in the stream, which doesn't hold all of it any more.

        Args:
            start: where it begins.
            end: where it ends.
            lake: the lake behind the start.

        Returns:
            What is read in the lake, and where it begins in the stream.
        """
        place = lake.lake
        assert place is not None
        wanted = replace(_span(place, after=0, last=place.last), behind=start.cut, until=end.cut)
        begins = _behind(SegmentRanges(self._client, self._stream), start.cut, end.cut, lake.cut)
        slices = lake_slices(self._client, self._stream, wanted, self._minimum)
        return slices, replace(start, cut=StreamCut(self._stream, begins))

    def bounded(self, position: StreamPosition, limit: Mapping[int, int]) -> StreamPosition:
        """A position in the lake, with the end of the query where that comes before the lake's.

        Args:
            position: the position.
            limit: as of `settled`.
        """
        place = position.lake
        if place is None or place.until is not None:
            # What was begun with one end is brought to it.
            return position
        until = self._until(limit, position.cut)
        if until is None:
            return position
        return replace(position, lake=replace(place, until=until, whole=place.version))

    def _state(self) -> State | None:
        ledger = open_ledger(self._client, self._stream)
        return None if ledger is None else ledger.state()

    def _ends(self, limit: Mapping[int, int], cut: StreamCut) -> bool:
        """Whether a limit lets nothing through behind a cut."""
        ranges = SegmentRanges(self._client, self._stream)
        return bool(limit) and all(
            offset <= cut[s] if s in cut else not comes_after(ranges, s, cut) for s, offset in limit.items()
        )

    def _until(self, limit: Mapping[int, int], cut: StreamCut) -> StreamCut | None:
        """The limit, where it ends before a cut in some segment."""
        ranges = SegmentRanges(self._client, self._stream)
        if not any(
            offset > limit[s] if s in limit else bool(limit) and comes_after(ranges, s, limit)
            for s, offset in cut.items()
        ):
            return None
        return StreamCut(self._stream, dict(limit))


def _span(place: LakePosition, *, after: int, last: int) -> LakeSpan:
    return LakeSpan(
        metadata=place.metadata,
        snapshot=place.snapshot,
        after=after,
        last=last,
        behind=place.behind,
        until=place.until,
    )


def _fits(events: int, size: int, limits: Limits) -> bool:
    return (limits.max_events is None or events <= limits.max_events) and (
        limits.max_bytes is None or size <= limits.max_bytes
    )


def _later(one: StreamCut, other: StreamCut) -> StreamCut:
    """One cut, but where another one has come further in a segment of both."""
    return StreamCut(one.stream, {s: max(offset, other.get(s, offset)) for s, offset in one.items()})


def _behind(
    ranges: SegmentRanges, start: Mapping[int, int], end: Mapping[int, int], lake: Mapping[int, int]
) -> dict[int, int]:
    """Where a micro-batch begins in its segments, so that what lies in the lake isn't read from the stream."""
    begins = {}
    for segment, until in end.items():
        begin = max(0, start.get(segment, 0))
        if segment in lake:
            begins[segment] = min(until, max(begin, lake[segment]))
        else:
            begins[segment] = begin if comes_after(ranges, segment, lake) else until
    return begins
