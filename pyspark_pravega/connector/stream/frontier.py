"""One stream as a query reads it: where it is, how far it could go, and what has been lost meanwhile.

Segments that came out of a scale enter when all those whose place they took have been read to their ends: they are in
no micro-batch with them. So a routing key's events never go back from one batch to the next.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from pyspark_pravega.client import Client, SegmentPart, Stream, StreamCut
from pyspark_pravega.client.names import Successor
from pyspark_pravega.client.positions import SegmentRanges, later_cut, parts_between, proper_cut, replacement, tail_cut
from pyspark_pravega.client.segments import SegmentState, segment_states
from pyspark_pravega.connector.lake import holds_behind
from pyspark_pravega.connector.log import State, consistently, open_ledger, visible_begin
from pyspark_pravega.connector.stream.offsets import LakePosition, StreamPosition
from pyspark_pravega.errors import (
    DataLossError,
    NotFoundError,
    SegmentTruncatedError,
    StreamNotFoundError,
)

_log = logging.getLogger(__name__)
_LOOKS = 100
"""How often a stream's head may run away before a query gives up to follow it."""


@dataclass(frozen=True, kw_only=True)
class Look:
    """What a stream has for a query at one moment."""

    position: dict[int, int]
    """Where the query is: segment id to offset in bytes. Segments that are read to their ends have given way to their
    successors."""
    ends: dict[int, int]
    """How far each of these segments can be read."""
    made_ms: int
    """As `StreamPosition.made_ms`, of `position`."""
    at_tail: bool
    """Whether the ends are the stream's tail: none is a limit, and none of these segments has successors."""

    @property
    def bytes(self) -> int:
        """How much there is to read."""
        return sum(end - self.position[segment_id] for segment_id, end in self.ends.items())


class OnlyInLakeError(Exception):
    """A query's next events lie in the lake only."""

    def __init__(self, position: StreamPosition) -> None:
        """Tell where.

        Args:
            position: where the query is in the lake.
        """
        super().__init__(str(position.cut.stream))
        self.position = position


class StreamFrontier:
    """Knows how a query goes on in one stream. Used by one thread at a time."""

    def __init__(self, client: Client, stream: Stream, *, fail_on_data_loss: bool = True) -> None:
        """Begin to watch a stream.

        Args:
            client: the cluster.
            stream: the stream.
            fail_on_data_loss: whether events that are gone before they were read are an error; else the query goes on
                behind them, and a warning is logged.
        """
        self.stream = stream
        self._client, self._fail = client, fail_on_data_loss
        self._successors: dict[int, tuple[Successor, ...]] = {}
        self._waits = True
        """Whether the last look has found nothing to read."""

    def head(self) -> StreamPosition:
        """The table's first events: what a replacement has left to be truncated isn't among them. Where the stream
        doesn't hold them any more they are in the lake."""
        cut, state = visible_begin(self._client, self.stream)
        return self.at(cut) if state is None else self.in_lake(state)

    def in_lake(self, state: State, behind: StreamCut | None = None, *, whole: int = 0) -> StreamPosition:
        """The first events that lie in the lake, before which none was read.

        Args:
            state: the commit log's, with what lies there.
            behind: the cut up to which all were read; None for none.
            whole: the version up to which all were read.
        """
        tiered = state.tiered
        assert tiered is not None
        assert tiered.snapshot is not None
        place = LakePosition(
            id=tiered.id,
            since=state.replaced_rows,
            snapshot=tiered.snapshot,
            metadata=tiered.metadata,
            last=tiered.version,
            version=whole,
            after=whole,
            whole=whole,
            behind=behind,
        )
        return replace(self.at(proper_cut(self._client, self.stream, tiered.cut)), lake=place)

    def in_lake_behind(self, cut: StreamCut) -> StreamPosition | None:
        """The events behind a cut that the stream doesn't hold any more, where they lie in the lake.

        Args:
            cut: the cut.

        Returns:
            None where they don't.
        """
        ledger = open_ledger(self._client, self.stream)
        state = None if ledger is None else ledger.state()
        if ledger is None or state is None or state.tiered is None or not state.tiered.kept:
            return None
        ranges = SegmentRanges(self._client, self.stream)
        if not holds_behind(ranges, ledger, state, cut):
            # Rows that others have taken the place of.
            return None
        return self.in_lake(state, cut)

    def tail(self) -> StreamPosition:
        """Behind the stream's last events, each commit of this package whole or not at all."""
        return self.at(
            consistently(self._client, self.stream, lambda _: tail_cut(self._client.pool, self.stream)),
        )

    def at(self, cut: StreamCut) -> StreamPosition:
        """A cut as a position.

        Args:
            cut: the cut; segments that it hasn't reached are left out of the position.
        """
        offsets = dict(cut)
        for segment_id in [s for s, offset in cut.items() if offset < 0]:
            del offsets[segment_id]
            # Those of its predecessors that the cut doesn't name have been read to their ends.
            done = [s for s in self._client.controller.predecessors(self.stream, segment_id) if s not in cut]
            for predecessor, state in self._states(done).items():
                if state is not None:
                    offsets[predecessor] = state.write_offset
        created_ms = max((state.created_ms for state in self._states(offsets).values() if state is not None), default=0)
        return StreamPosition(cut=StreamCut(self.stream, offsets), made_ms=created_ms)

    def look(self, position: StreamPosition, limit: Mapping[int, int] | None = None) -> Look:
        """How far the stream can be read now.

        Args:
            position: where the query is.
            limit: the cut at which it is to end: segments of it aren't read beyond, nor followed by their successors.

        Raises:
            DataLossError: events behind `position` are gone.
            OnlyInLakeError: the next ones lie in the lake only.
        """
        look = partial(self._look, position, limit or {})
        # A query that waits at the tail asks a hundred times a second: what is empty needs no second look.
        if self._waits:
            first = look()
            if not first.bytes:
                return first
        seen = consistently(self._client, self.stream, lambda _: look())
        self._waits = not seen.bytes
        return seen

    def parts(self, start: StreamPosition, end: StreamPosition) -> list[SegmentPart]:
        """The bytes between two positions.

        Args:
            start: where a micro-batch begins.
            end: where it ends, as made from `look`.

        Returns:
            The parts that hold bytes, in the order of the segments' ids.

        Raises:
            DataLossError: some of them are gone.
            OnlyInLakeError: some of them lie in the lake only.
        """
        begins = {segment_id: start.cut.get(segment_id, 0) for segment_id in end.cut}
        wanted = {segment_id: begin for segment_id, begin in begins.items() if begin < end.cut[segment_id]}
        states = self._states(wanted)
        self._check_identity(end, states)
        between = parts_between(self.stream, states, begins, end.cut)
        in_lake = self.in_lake_behind(start.cut) if between.lost else None
        if in_lake is not None:
            raise OnlyInLakeError(in_lake)
        for segment_id in between.lost:
            self.lost(start.cut, f"segment {segment_id} was to be read from offset {begins[segment_id]}")
        return [part for part in between.parts if part.size]

    def behind(self, position: StreamPosition) -> dict[int, SegmentPart]:
        """What lies between a position and the tail, segments that haven't begun yet among it.

        Args:
            position: where a query is.

        Returns:
            The part of each segment that is still to be read, empty ones among them.
        """
        ids = self._client.controller.segments_between(self.stream, position.cut)
        states = {s: state for s, state in self._states(ids, created=False).items() if state is not None}
        parts = parts_between(self.stream, states, position.cut, None).parts
        return {part.segment_id: part for part in parts}

    def made_again(self, position: StreamPosition, *, always: bool = False) -> None:
        """Tell that the stream is another one than it was.

        Args:
            position: where the query was.
            always: whether that is an error, also where the query may go on without what is gone.

        Raises:
            DataLossError: the query isn't to go on.
        """
        message = (
            f'stream "{self.stream}" isn\'t the one that this query has read up to the cut {position.cut.to_json()}: '
            "it was deleted and made again, or a cut of another stream was given."
        )
        if self._fail or always:
            raise DataLossError(
                f"{message} Begin with a new checkpoint"
                + ("" if always else ", or set failOnDataLoss to false to go on at the new stream's head")
            )
        _log.warning("%s The query goes on at its head", message)

    def lost(self, cut: StreamCut, where: str) -> None:
        """Tell that events are gone.

        Args:
            cut: where the query is.
            where: what was to be read.

        Raises:
            DataLossError: the query isn't to go on without them.
        """
        head = self._client.controller.head(self.stream)
        message = (
            f'events of stream "{self.stream}" that this query has still to read are gone: {where}, the query is at '
            f"the cut {cut.to_json()}, and the stream's head is now at {head.to_json()}. Retention or a truncation was "
            "faster than the query."
        )
        if self._fail:
            raise DataLossError(
                f"{message} Set failOnDataLoss to false to go on at the head without them; longer retention, or the "
                "option subscriber with consumption-based retention, prevents it"
            )
        _log.warning("%s The query goes on at the head", message)

    def _look(self, start: StreamPosition, limit: Mapping[int, int]) -> Look:
        position = dict(start.cut)
        states: dict[int, SegmentState | None] = {}
        for _ in range(_LOOKS):
            states = self._states(position)
            if position == start.cut and not self._is_same(start, states):
                self.made_again(start)
                start = self.head()
                if start.lake is not None:
                    raise OnlyInLakeError(start)
                position = dict(start.cut)
                continue
            gone = [s for s, state in states.items() if state is None or state.start_offset > position[s]]
            if gone:
                in_lake = self.in_lake_behind(StreamCut(self.stream, position))
                if in_lake is not None:
                    raise OnlyInLakeError(in_lake)
                segment_id = gone[0]
                self.lost(
                    StreamCut(self.stream, position),
                    f"segment {segment_id} was to be read from offset {position[segment_id]}",
                )
                position = dict(self._behind_the_loss(position, states))
                continue
            if not self._succeed(position, states, limit):
                break
        ends = {}
        for segment_id, offset in position.items():
            state = states[segment_id]
            if state is None:
                raise SegmentTruncatedError(
                    f'the head of stream "{self.stream}" moves faster than it can be followed: give it longer retention'
                )
            ends[segment_id] = max(offset, min(state.write_offset, limit.get(segment_id, state.write_offset)))
        at_tail = not limit and not any(state is not None and state.sealed for state in states.values())
        return Look(position=position, ends=ends, made_ms=_youngest(states), at_tail=at_tail)

    def _succeed(
        self, position: dict[int, int], states: Mapping[int, SegmentState | None], limit: Mapping[int, int]
    ) -> bool:
        """Let segments that are read to their ends give way; returns whether there was one."""
        done = {
            segment_id
            for segment_id, offset in position.items()
            if segment_id not in limit
            and (state := states[segment_id]) is not None
            and state.sealed
            and offset >= state.write_offset
        }
        changed = False
        for segment_id in sorted(done):
            if segment_id in position:
                old, new = replacement(segment_id, self._after)
                # A cut holds a segment until all that come after it are in the cut.
                if new and old <= done:
                    for replaced in old:
                        del position[replaced]
                    position.update(dict.fromkeys(sorted(new), 0))
                    changed = True
        return changed

    def _after(self, segment_id: int) -> tuple[Successor, ...]:
        if segment_id not in self._successors:
            successors = self._client.controller.successors(self.stream, segment_id)
            if not successors:
                # Sealed, and what comes after it isn't known yet; or the stream is sealed.
                return ()
            self._successors[segment_id] = successors
        return self._successors[segment_id]

    def _states(self, segment_ids: Iterable[int], *, created: bool = True) -> dict[int, SegmentState | None]:
        return segment_states(self._client.pool, self.stream, segment_ids, created=created)

    # What is gone

    def _is_same(self, position: StreamPosition, states: Mapping[int, SegmentState | None]) -> bool:
        """Whether this is still the stream that the position is of."""
        for segment_id, state in states.items():
            if state is None:
                continue
            if position.made_ms and state.created_ms > position.made_ms:
                return False
            if state.write_offset < position.cut[segment_id]:
                return False
        if position.made_ms and None not in states.values():
            return _youngest(states) == position.made_ms
        try:
            # A stream that is made again begins with epoch 0, but goes on counting segments.
            self._client.controller.segment_ranges(self.stream, [s for s, state in states.items() if state is None])
        except NotFoundError:
            if not self._client.controller.stream_exists(self.stream):
                raise StreamNotFoundError(f'stream "{self.stream}" does not exist any more') from None
            return False
        return True

    def _check_identity(self, end: StreamPosition, states: Mapping[int, SegmentState | None]) -> None:
        for segment_id, state in states.items():
            if state is not None and (
                (end.made_ms and state.created_ms > end.made_ms) or state.write_offset < end.cut[segment_id]
            ):
                # A micro-batch that was begun before must hold what it held.
                self.made_again(end, always=True)

    def _behind_the_loss(
        self, position: dict[int, int], states: Mapping[int, SegmentState | None]
    ) -> Mapping[int, int]:
        """The first position behind what was lost."""
        moved = {
            segment_id: offset if (state := states[segment_id]) is None else max(offset, state.start_offset)
            for segment_id, offset in position.items()
        }
        cut = StreamCut(self.stream, moved)
        if None not in states.values():
            return cut
        controller = self._client.controller
        later = later_cut(controller, cut, controller.head(self.stream))
        if later == cut:
            # Segments are deleted shortly before the controller tells of a new head.
            time.sleep(0.1)
        return later


def _youngest(states: Mapping[int, SegmentState | None]) -> int:
    return max((state.created_ms for state in states.values() if state is not None), default=0)
