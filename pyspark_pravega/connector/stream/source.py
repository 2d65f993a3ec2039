"""A streaming query's source: plans its micro-batches, for Spark's JVM and for Spark's Python data sources alike."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from pyspark_pravega.client import Client, SegmentPart, Stream, StreamCut
from pyspark_pravega.connector.bounds import Word
from pyspark_pravega.connector.lake import LakeSlice
from pyspark_pravega.connector.log import Ledger, only_in_lake, open_ledger, take_snapshot
from pyspark_pravega.connector.options import ReadOptions
from pyspark_pravega.connector.read import SlicePartition, arrange, between, check_order, resolve_end, resolve_start
from pyspark_pravega.connector.stream.admission import Admission, Limits
from pyspark_pravega.connector.stream.consumption import Subscription
from pyspark_pravega.connector.stream.following import FollowedPartition, share
from pyspark_pravega.connector.stream.frontier import Look, OnlyInLakeError, StreamFrontier
from pyspark_pravega.connector.stream.lag import SegmentLag, lag_of, summary
from pyspark_pravega.connector.stream.offsets import SourceOffset, StreamPosition
from pyspark_pravega.connector.stream.steps import Step, all_that_is_left, versions_of
from pyspark_pravega.connector.stream.through_lake import LakeWay
from pyspark_pravega.errors import ConfigurationError, SegmentNotFoundError, SegmentTruncatedError

_RECENT_S = 1.0
"""How old the tail and a query's lag may be when they are told again: Spark asks with each micro-batch."""


class StreamSource:
    """The offsets and partitions of one streaming query. Used by one thread at a time.

    It keeps nothing that isn't in the offsets but what makes it faster: another one can go on with them.
    """

    def __init__(self, client: Client, streams: Sequence[Stream], options: ReadOptions) -> None:
        """Make a source; the cluster is asked when it is used.

        Args:
            client: the cluster.
            streams: the query's streams.
            options: where to begin and end, and how much a micro-batch may take.
        """
        self.streams = tuple(streams)
        self._client, self._options = client, options
        self._frontiers = {
            stream: StreamFrontier(client, stream, fail_on_data_loss=options.fail_on_data_loss) for stream in streams
        }
        self._ways = {
            stream: LakeWay(client, stream, frontier, options.min_partitions)
            for stream, frontier in self._frontiers.items()
        }
        self._admission = Admission(client)
        self._ledgers: dict[Stream, Ledger | None] = {}
        self._limits = Limits(
            max_events=options.max_events,
            max_bytes=options.max_bytes,
            min_events=options.min_events,
            max_delay_s=options.max_delay_s,
        )
        self._ends: dict[Stream, StreamCut | Word] | None = None
        self._first_tails: dict[Stream, StreamCut] = {}
        self._subscription: Subscription | None = None
        self._tail: tuple[float, SourceOffset] | None = None
        self._last_lag: tuple[float, SourceOffset, dict[str, str]] | None = None

    @staticmethod
    def offset(text: str) -> SourceOffset:
        """An offset from its text; errors as `SourceOffset.from_json`."""
        return SourceOffset.from_json(text)

    def initial_offset(self) -> SourceOffset:
        """Where a query without a checkpoint begins.

        Raises:
            ConfigurationError: the start that the options name isn't one.
            StreamNotFoundError: a stream doesn't exist.
        """
        self._option_ends()
        return SourceOffset({stream: self._start(stream) for stream in self.streams})

    def latest_offset(
        self, start: SourceOffset, *, limited: bool = True, target: SourceOffset | None = None
    ) -> SourceOffset:
        """Where the next micro-batch ends.

        Args:
            start: where it begins.
            limited: whether the options' limits hold.
            target: where the query is to end, as `target` gave it; None for a query without end.

        Returns:
            `start` itself when there is nothing to read.

        Raises:
            ConfigurationError: `start` is of other streams.
            DataLossError: events behind `start` are gone.
        """
        self._check_streams(start)
        looks: dict[Stream, Look] = {}
        for stream in self.streams:
            look = self._look_or_lake(stream, start[stream], target)
            if isinstance(look, Look):
                looks[stream] = look
            elif look is not None:
                # Others wait until this one is through.
                admitted = self._ways[stream].admitted(look, self._limits if limited else Limits())
                return SourceOffset({**start, stream: admitted})
        if len(looks) == len(self.streams) and all(look.at_tail for look in looks.values()):
            ends = {stream: StreamCut(stream, look.ends) for stream, look in looks.items()}
            tail = {stream: StreamPosition(cut=end, made_ms=looks[stream].made_ms) for stream, end in ends.items()}
            self._tail = time.monotonic(), SourceOffset(tail)
        available = {
            (stream, segment_id): (look.position[segment_id], end)
            for stream, look in looks.items()
            for segment_id, end in look.ends.items()
        }
        limits = self._limits if limited else Limits()
        if target is not None:
            limits = Limits(max_events=limits.max_events, max_bytes=limits.max_bytes)
        try:
            taken = self._admission.admit(available, limits, lambda: self._steps(looks))
        except (SegmentTruncatedError, SegmentNotFoundError):
            # It is told, or passed over, as everywhere.
            return self.latest_offset(start, limited=limited, target=target)
        if all(taken[segment] == begin for segment, (begin, _) in available.items()):
            return start
        positions = dict(start)
        for stream, look in looks.items():
            offsets = {segment_id: taken[stream, segment_id] for segment_id in look.ends}
            positions[stream] = StreamPosition(
                cut=StreamCut(stream, offsets), made_ms=look.made_ms, end=self._kept_end(stream, start[stream])
            )
        return SourceOffset(positions)

    def target(self) -> SourceOffset:
        """The streams' tails now: where a query ends that reads what is there (Trigger.AvailableNow)."""
        ends = self._option_ends()
        positions = {}
        for stream in self.streams:
            tail, end = self._frontiers[stream].tail(), ends[stream]
            # An end at a tail is in the offsets, which `latest_offset` looks at, too.
            if isinstance(end, StreamCut):
                # In segments of both the nearer one holds. Those of the tail that come after the end aren't reached.
                cut = {**tail.cut, **end, **{s: min(tail.cut[s], end[s]) for s in end if s in tail.cut}}
                tail = StreamPosition(cut=StreamCut(stream, cut), made_ms=tail.made_ms)
            positions[stream] = tail
        return SourceOffset(positions)

    def tail(self) -> SourceOffset:
        """The streams' tails, as of the last second."""
        now = time.monotonic()
        if self._tail is None or self._tail[0] + _RECENT_S < now:
            self._tail = now, SourceOffset({stream: self._frontiers[stream].tail() for stream in self.streams})
        return self._tail[1]

    def partitions(
        self, start: SourceOffset, end: SourceOffset, *, spanning: bool = False
    ) -> list[SlicePartition | LakeSlice]:
        """What a micro-batch reads.

        Args:
            start: where it begins.
            end: where it ends.
            spanning: whether segments may lie between the two: `end` wasn't found by `latest_offset` from `start`.

        Raises:
            DataLossError: some of it is gone.
        """
        self._check_streams(start)
        self._check_streams(end)
        slices: list[SlicePartition | LakeSlice] = []
        for stream in self.streams:
            if end[stream].lake is not None:
                slices += self._ways[stream].slices(end[stream]) if end[stream] != start[stream] else []
                continue
            in_lake, parts = self._parts(stream, start[stream], end[stream])
            slices += in_lake
            begin, until = start[stream].cut, end[stream].cut
            if spanning and not begin.keys() <= until.keys():
                whole, lossless = take_snapshot(self._client, stream), self._options.fail_on_data_loss
                bounded = between(self._client, whole, begin, until, fail_on_data_loss=lossless)
                parts = [part for part in bounded.parts if part.size]
            slices += arrange(self._client, parts, minimum=self._options.min_partitions)
        return slices

    def follow(self, start: SourceOffset, cores: int) -> list[FollowedPartition]:
        """What the tasks of a real-time batch follow.

        Args:
            start: where it begins.
            cores: how many tasks Spark can run at a time. Each of these holds a core, so half of them are left to
                others, as is the rest of the query; an option may say another number.

        Raises:
            DataLossError: events behind `start` are gone.
        """
        self._check_streams(start)
        tasks = self._options.most_tasks or max(1, cores // 2)
        partitions = []
        for stream in self.streams:
            look = self._look_or_lake(stream, start[stream], None)
            if not isinstance(look, Look):
                last = 0 if look is None or look.lake is None else look.lake.last
                raise only_in_lake(stream, last, "a query with the real-time trigger")
            partitions += share(self._client, stream, look.position, tasks)
        return partitions

    def merge(self, start: SourceOffset, positions: Mapping[Stream, Mapping[int, int]]) -> SourceOffset:
        """Where a real-time batch has ended.

        Args:
            start: where it began.
            positions: where its tasks have ended in each stream, together.
        """
        merged = {}
        for stream in self.streams:
            at = self._frontiers[stream].at(StreamCut(stream, positions[stream]))
            merged[stream] = replace(at, made_ms=max(at.made_ms, start[stream].made_ms))
        return SourceOffset(merged)

    def commit(self, end: SourceOffset) -> None:
        """Take note that a query has committed everything up to an offset: a subscriber tells it to Pravega."""
        if self._options.subscriber is None:
            return
        if self._subscription is None:
            self._subscription = Subscription(self._client, self._options.subscriber, self.streams)
        self._subscription.tell(end)

    def subscribe(self) -> None:
        """Make the query's subscriber, where the options name one, so that nothing is removed before the first commit.

        Raises:
            ConfigurationError: its name is that of another reader group.
        """
        if self._options.subscriber is not None and self._subscription is None:
            self._subscription = Subscription(self._client, self._options.subscriber, self.streams)

    def behind(self, offset: SourceOffset) -> list[SegmentPart]:
        """What lies between an offset and the streams' tails."""
        return [
            part for stream, position in offset.items() for part in self._frontiers[stream].behind(position).values()
        ]

    def metrics(self, consumed: SourceOffset) -> dict[str, str]:
        """How far a query is behind.

        Args:
            consumed: what it has read.
        """
        now = time.monotonic()
        if self._last_lag is None or self._last_lag[1] != consumed or self._last_lag[0] + _RECENT_S < now:
            # Spark asks before a micro-batch's tasks begin, and waits: one that has all there was needs no look.
            lags = self._nothing_behind(consumed) or lag_of(self._client, self.behind(consumed))
            self._last_lag = now, consumed, summary(lags)
        return self._last_lag[2]

    def _nothing_behind(self, consumed: SourceOffset) -> list[SegmentLag]:
        """The lags, where the offset is the tail as of the last second; else none."""
        if self._tail is None or self._tail[0] + _RECENT_S < time.monotonic():
            return []
        tail = self._tail[1]
        if any(position.lake is not None or tail[stream].cut != position.cut for stream, position in consumed.items()):
            return []
        return [
            SegmentLag(stream=stream, segment_id=segment_id, bytes=0, events=0)
            for stream, position in consumed.items()
            for segment_id in position.cut
        ]

    def _steps(self, looks: Mapping[Stream, Look]) -> Iterable[Step]:
        for stream in self.streams:
            if self._ledgers.get(stream) is None:
                # A log may be begun at any time.
                self._ledgers[stream] = open_ledger(self._client, stream)
        versions = versions_of(self._client, self._ledgers, looks)
        if versions is not None:
            return versions
        positions = {
            stream: StreamPosition(cut=StreamCut(stream, look.position), made_ms=look.made_ms)
            for stream, look in looks.items()
        }
        return [all_that_is_left(self._client, self._frontiers, positions, looks)]

    def _parts(
        self, stream: Stream, start: StreamPosition, end: StreamPosition
    ) -> tuple[list[LakeSlice], list[SegmentPart]]:
        """What a micro-batch was planned to read in a stream, of which some may lie in the lake only by now."""
        frontier, behind = self._frontiers[stream], start
        in_lake: list[LakeSlice] = []
        while True:
            try:
                return in_lake, frontier.parts(behind, end)
            except OnlyInLakeError as ahead:
                in_lake, behind = self._ways[stream].between(start, end, ahead.position)

    def _look_or_lake(
        self, stream: Stream, start: StreamPosition, target: SourceOffset | None
    ) -> Look | StreamPosition | None:
        """What there is for the query in a stream; where it goes on in the lake; or None where that is at its end
        there."""
        limit, way = self._limit(stream, start, target), self._ways[stream]
        position = way.settled(start, limit)
        if position.lake is None or (position.lake.is_read and position.lake.until is None):
            try:
                return self._frontiers[stream].look(position, limit)
            except OnlyInLakeError as ahead:
                position = way.bounded(replace(ahead.position, end=start.end), limit)
        assert position.lake is not None
        return None if position.lake.is_read else position

    def _limit(self, stream: Stream, start: StreamPosition, target: SourceOffset | None) -> Mapping[int, int]:
        """The cut at which the query is to end; empty for none."""
        limit: Mapping[int, int] = {} if target is None else target[stream].cut
        option = self._option_ends()[stream]
        end = option if isinstance(option, StreamCut) else self._kept_end(stream, start)
        if end is not None:
            # In segments of both the nearer one holds.
            limit = {**limit, **end, **{s: min(end[s], limit[s]) for s in end if s in limit}}
        return limit

    def _option_ends(self) -> dict[Stream, StreamCut | Word]:
        """Where the options say that the query ends: a cut, LATEST or UNBOUNDED."""
        if self._ends is None:
            self._ends = {stream: self._option_end(stream) for stream in self.streams}
        return self._ends

    def _kept_end(self, stream: Stream, start: StreamPosition | None = None) -> StreamCut | None:
        """The end of a query that ends at the tail as of its start: its offsets tell, not this process.

        Args:
            stream: one of the query's.
            start: an offset's position; None, or one without an end, where the query begins now.
        """
        if self._option_ends()[stream] is not Word.LATEST:
            return None
        if start is not None and start.end is not None:
            return start.end
        if stream not in self._first_tails:
            self._first_tails[stream] = self._frontiers[stream].tail().cut
        return self._first_tails[stream]

    def _start(self, stream: Stream) -> StreamPosition:
        frontier = self._frontiers[stream]
        start = resolve_start(self._client, stream, self._options, streams=len(self.streams))
        if start is Word.LATEST:
            return frontier.tail()
        option, kept = self._option_ends()[stream], self._kept_end(stream)
        if isinstance(start, Word):
            return replace(frontier.head(), end=kept)
        end = option if isinstance(option, StreamCut) else kept
        if end is not None:
            check_order(start, end)
        return replace(frontier.at(start), end=kept)

    def _option_end(self, stream: Stream) -> StreamCut | Word:
        end = resolve_end(self._client, stream, self._options, streams=len(self.streams))
        if end is Word.EARLIEST:
            return self._client.controller.head(stream)
        if isinstance(end, Word):
            return end
        return StreamCut(stream, {segment_id: max(0, offset) for segment_id, offset in end.items()})

    def _check_streams(self, offset: SourceOffset) -> None:
        if set(offset) != set(self.streams):
            raise ConfigurationError(
                f"the checkpoint is of a query that reads {', '.join(map(str, offset))}, and this one reads "
                f"{', '.join(map(str, self.streams))}: use another checkpointLocation"
            )
