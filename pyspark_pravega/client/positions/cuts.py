"""What can be done with stream cuts on a cluster: find the tail, check, compare, truncate."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Set
from concurrent.futures import wait
from enum import Enum

from pyspark_pravega.client.connections import Cluster, ConnectionPool
from pyspark_pravega.client.controller import Controller
from pyspark_pravega.client.names import SegmentRange, Stream, StreamSegments, segment_epoch
from pyspark_pravega.client.segments import segment_states
from pyspark_pravega.client.stream_cut import StreamCut
from pyspark_pravega.deadlines import POLL_S, Limit
from pyspark_pravega.errors import (
    InvalidStreamCutError,
    NotFoundError,
    OperationFailedError,
    PravegaError,
    SegmentTruncatedError,
    StreamNotFoundError,
)
from pyspark_pravega.together import Begun

_SAME = 1e-9


class CutOrder(Enum):
    """How one cut lies to another one of the same stream."""

    SAME = "same"
    BEFORE = "before"
    """Nowhere after it, and somewhere before."""
    AFTER = "after"
    """Nowhere before it, and somewhere after."""
    MIXED = "mixed"
    """For some routing keys before it, for others after: the cuts cross."""


def tail_cut(pool: ConnectionPool, stream: Stream) -> StreamCut:
    """The cut behind the last event: the current segments at their ends, in a sealed stream its last segments.

    A commit that is under way may be in it with a part only; `connector.snapshot` knows a way around that.

    Args:
        pool: connections to the segment stores; its controller is asked as well.
        stream: the stream.

    Raises:
        StreamNotFoundError: there is no such stream.
        OperationFailedError: the stream was scaled again and again meanwhile.
    """
    controller = pool.controller
    deadline = Limit(pool.timeout)
    while True:
        current = controller.current_segments(stream)
        last = current if current.ids else _last_segments(controller, stream)
        states = segment_states(pool, last.stream, last.ids)
        # A current segment that is sealed by now has successors that this list doesn't know.
        if not any(state is None or (state.sealed and current.ids) for state in states.values()):
            return StreamCut(stream, {i: state.write_offset for i, state in states.items() if state})
        if not deadline.wait():
            raise OperationFailedError(
                f'the tail of stream "{stream}" could not be taken within {pool.timeout:g} s: it is scaled all the time'
            )


def check_cut(pool: ConnectionPool, cut: StreamCut) -> None:
    """Find out whether a cut cuts its stream, and what is wrong where it doesn't.

    The controller is asked, and each segment for its offsets, which the controller doesn't know.

    Args:
        pool: connections to the segment stores; its controller is asked as well.
        cut: the cut.

    Raises:
        StreamNotFoundError: there is no such stream.
        SegmentTruncatedError: the cut lies before the stream's head: events behind it are gone.
        InvalidStreamCutError: it names segments that the stream doesn't have, cuts some routing keys twice or not at
            all, or lies beyond a segment's end.
    """
    error = _problem(pool, cut)
    if error is not None:
        raise error


def compare_cuts(controller: Controller, one: StreamCut, other: StreamCut) -> CutOrder:
    """How one cut lies to another one of the same stream, wherever their segments' epochs are.

    The end of a segment and the begin of its successors are the same position, but segments are compared before
    offsets: a cut at the one is `BEFORE` a cut at the other. Offsets aren't looked up.

    Args:
        controller: knows the segments; asked once for each epoch of the cuts' segments.
        one: a cut.
        other: a cut.

    Raises:
        InvalidStreamCutError: the cuts are of different streams, or name segments that the stream doesn't have.
    """
    if one.stream != other.stream:
        raise InvalidStreamCutError(f'cuts of streams "{one.stream}" and "{other.stream}" can\'t be compared')
    ranges = _ranges(controller, one.stream, {*one, *other})
    before = after = False
    for (first, first_offset), (second, second_offset) in itertools.product(one.items(), other.items()):
        if first == second:
            before, after = before or first_offset < second_offset, after or first_offset > second_offset
        elif ranges[first].overlaps(ranges[second]):
            # Of two segments that shared keys the one of the higher epoch came later.
            before, after = before or first < second, after or first > second
    if before and after:
        return CutOrder.MIXED
    return CutOrder.BEFORE if before else CutOrder.AFTER if after else CutOrder.SAME


class SegmentRanges:
    """The parts of the key space that a stream's segments own; each epoch is asked for once.

    For one statement: a stream that is made again has others.
    """

    def __init__(self, client: Cluster, stream: Stream) -> None:
        """Ask nothing yet.

        Args:
            client: the cluster.
            stream: the stream.
        """
        self._client, self._stream = client, stream
        self._ranges: dict[int, SegmentRange] = {}
        self._epochs: set[int] = set()

    def of(self, segment_ids: Iterable[int]) -> dict[int, SegmentRange]:
        """The ranges of some segments.

        Raises:
            NotFoundError: the stream has had no such segment, or there is no such stream.
        """
        ids = list(segment_ids)
        for epoch in sorted({segment_epoch(segment_id) for segment_id in ids if segment_id not in self._ranges}):
            if epoch not in self._epochs:
                ranges = self._client.controller.epoch_segments(self._stream, epoch).ranges
                self._ranges |= {one.segment_id: one for one in ranges}
                self._epochs.add(epoch)
        for segment_id in ids:
            if segment_id not in self._ranges:
                raise NotFoundError(f'stream "{self._stream}" has no segment {segment_id}')
        return {segment_id: self._ranges[segment_id] for segment_id in ids}


def proper_cut(
    client: Cluster, stream: Stream, offsets: Mapping[int, int], segments: SegmentRanges | None = None
) -> StreamCut:
    """The stream cut among the positions in a stream's segments: those of which none has a successor among them.

    Args:
        client: the cluster.
        stream: the stream.
        offsets: segment id to offset in bytes.
        segments: what is known already of the stream's segments.

    Raises:
        InvalidStreamCutError: the stream has no such segments.
    """
    if len(offsets) < 2 or len({segment_id >> 32 for segment_id in offsets}) == 1:
        return StreamCut(stream, offsets)
    try:
        ranges = (segments or SegmentRanges(client, stream)).of(offsets)
    except NotFoundError as error:
        raise InvalidStreamCutError(f'positions in stream "{stream}" don\'t fit it: {error}') from None
    return StreamCut(
        stream,
        {
            segment_id: offset
            for segment_id, offset in offsets.items()
            if not any(other > segment_id and ranges[other].overlaps(ranges[segment_id]) for other in offsets)
        },
    )


def later_cut(controller: Controller, one: StreamCut, other: StreamCut) -> StreamCut:
    """The cut that for each routing key is the later one of two.

    Args:
        controller: knows the segments; asked once for each epoch of the cuts' segments.
        one: a cut.
        other: a cut of the same stream.

    Raises:
        InvalidStreamCutError: the cuts are of different streams, or name segments that the stream doesn't have.
    """
    if one.stream != other.stream:
        raise InvalidStreamCutError(f'cuts of streams "{one.stream}" and "{other.stream}" can\'t be compared')
    ranges = _ranges(controller, one.stream, {*one, *other})

    def not_overtaken(cut: StreamCut, against: StreamCut) -> dict[int, int]:
        return {
            segment_id: max(offset, against.get(segment_id, offset))
            for segment_id, offset in cut.items()
            # Of two segments that shared keys the one of the higher epoch came later.
            if not any(newer > segment_id and ranges[newer].overlaps(ranges[segment_id]) for newer in against)
        }

    return StreamCut(one.stream, not_overtaken(one, other) | not_overtaken(other, one))


def truncate_stream(pool: ConnectionPool, cut: StreamCut) -> None:
    """Remove all events before a cut, for ever, after `check_cut` has found it sound.

    Pravega's controller looks whether it is done a second after it was asked, and answers then. It is done within a
    fifth of that. So this looks itself, and doesn't wait for the answer, unless others may be truncating there.

    Args:
        pool: connections to the segment stores; its controller is asked as well.
        cut: at a border between events, which isn't checked.

    Raises:
        StreamNotFoundError: there is no such stream.
        StreamSealedError: it is sealed.
        SegmentTruncatedError: the cut lies before the stream's head.
        InvalidStreamCutError: it isn't a cut of the stream.
    """
    check_cut(pool, cut)
    before = _before(pool.controller, cut)
    answer = Begun(lambda: pool.controller.truncate_stream(cut.stream, cut))
    try:
        while before is not None and not wait([answer], POLL_S).done:
            if _is_truncated(pool, cut, before):
                return
    except PravegaError:
        # Then the answer tells.
        pass
    answer.result()


def _before(controller: Controller, cut: StreamCut) -> set[int] | None:
    """The segments that a truncation is to delete; None where others have begun it, so that nobody tells them."""
    head = controller.head(cut.stream)
    if dict(head) == dict(cut):
        return None if any(map(segment_epoch, cut)) else set()
    return set(controller.segments_between(cut.stream, head, cut)) - cut.keys()


def _is_truncated(pool: ConnectionPool, cut: StreamCut, before: Set[int]) -> bool:
    """Whether a stream begins at a cut: the controller says so, and so do the cut's segments; those before are gone.

    The controller says so before any segment has changed, and changes the segments of the cut first.
    """
    if dict(pool.controller.head(cut.stream)) != dict(cut):
        return False
    states = segment_states(pool, cut.stream, [*before, *(segment for segment, offset in cut.items() if offset >= 0)])
    return all(
        state is None or (segment not in before and state.start_offset >= cut[segment])
        for segment, state in states.items()
    )


def _last_segments(controller: Controller, stream: Stream) -> StreamSegments:
    """The segments of a sealed stream's last epoch. Every epoch has a segment that was made in it."""
    newest = max(controller.segments_between(stream))
    return controller.epoch_segments(stream, segment_epoch(newest))


def _problem(pool: ConnectionPool, cut: StreamCut) -> PravegaError | None:
    controller, stream = pool.controller, cut.stream
    current = controller.current_segments(stream)
    try:
        ranges = _ranges(controller, stream, cut)
    except InvalidStreamCutError as error:
        return error
    wrong = _gap_or_overlap([ranges[i] for i, offset in cut.items() if offset >= 0])
    later = [ranges[i] for i, offset in cut.items() if offset < 0]
    if wrong and not (later and wrong.startswith("no segment")):
        return InvalidStreamCutError(f"{cut} isn't a cut of its stream: {wrong}")
    if not controller.is_stream_cut_valid(stream, cut):
        return InvalidStreamCutError(f"{cut} isn't a cut of its stream: nobody can have read just up to it")
    reached = [segment_id for segment_id, offset in cut.items() if offset >= 0]
    for segment_id, state in segment_states(pool, current.stream, reached).items():
        offset = cut[segment_id]
        if state is None or offset < state.start_offset:
            where = "is gone" if state is None else f"begins at {state.start_offset}"
            return SegmentTruncatedError(
                f'offset {offset} of segment "{stream.segment_name(segment_id)}" was truncated away: it {where}'
            )
        if offset > state.write_offset:
            return InvalidStreamCutError(
                f'offset {offset} of segment "{stream.segment_name(segment_id)}" lies beyond its end, '
                f"{state.write_offset}"
            )
    return None


def _gap_or_overlap(ranges: Iterable[SegmentRange]) -> str:
    """What is wrong with segments that should share the key space; nothing when they do."""
    end, last = 0.0, None
    for r in sorted(ranges, key=lambda r: (r.min_key, r.segment_id)):
        if r.min_key < end - _SAME:
            return f"segments {last} and {r.segment_id} both own keys from {r.min_key:g}"
        if r.min_key > end + _SAME:
            return f"no segment owns keys from {end:g} to {r.min_key:g}"
        end, last = r.max_key, r.segment_id
    return "" if end > 1.0 - _SAME else f"no segment owns keys from {end:g} to 1"


def _ranges(controller: Controller, stream: Stream, segment_ids: Iterable[int]) -> Mapping[int, SegmentRange]:
    try:
        return controller.segment_ranges(stream, segment_ids)
    except NotFoundError as error:
        if not controller.stream_exists(stream):
            raise StreamNotFoundError(f'stream "{stream}" does not exist') from None
        raise InvalidStreamCutError(f'a cut of stream "{stream}" doesn\'t fit it: {error}') from None
