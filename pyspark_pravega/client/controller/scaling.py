"""Scaling a stream: replacing segments by others that own the same routing keys."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import replace

from pyspark_pravega import clock
from pyspark_pravega.client.controller import controller_pb2 as pb
from pyspark_pravega.client.controller import messages
from pyspark_pravega.client.controller.calls import no_stream, stream_sealed
from pyspark_pravega.client.controller.streams import ControllerStreams
from pyspark_pravega.client.names import SegmentRange, Stream, StreamSegments
from pyspark_pravega.client.policies import ScaleType, StreamConfiguration
from pyspark_pravega.deadlines import Limit
from pyspark_pravega.errors import (
    ConfigurationError,
    OperationFailedError,
    PravegaError,
    ScaleRefusedError,
    UnclearAnswerError,
)

KeyRange = tuple[float, float]
"""Minimum and maximum routing key, each in [0, 1]."""

_POLL_S = 0.01
_BUSY_POLL_S = 0.1
_STARTED, _FAILED = 0, 1
_IN_PROGRESS, _DONE, _UNKNOWN_EPOCH = 0, 1, 2
_SAME = 1e-9
"""Borders nearer than this are one: no stream has that many segments."""


class ControllerScaling(ControllerStreams):
    """A scale seals segments and makes others in a new epoch; readers come to those when they have read the old ones.

    The server doesn't change the stream's configuration with a scale: `update_stream` tells what comes of that.
    """

    def scale(
        self, stream: Stream, sealed: Iterable[int], new_ranges: Iterable[KeyRange], *, now_ms: int | None = None
    ) -> int:
        """Start replacing segments by others that cover the same part of the key space.

        Args:
            stream: the stream.
            sealed: ids of current segments.
            new_ranges: (minimum, maximum) key of each new segment, each in [0, 1].
            now_ms: milliseconds since 1970; now when None.

        Returns:
            The epoch to ask `is_scaled` about.

        Raises:
            StreamNotFoundError: there is no such stream.
            StreamSealedError: it is sealed.
            ScaleRefusedError: the ranges don't fit, the stream would fall below its minimum of segments, or another
                scale is under way.
        """
        ids, ranges = tuple(sealed), tuple(new_ranges)
        reply = self._scale(stream, ids, ranges, now_ms)
        if reply.status != _STARTED:
            raise self._refusal(stream, ids, ranges, reply.status)[0]
        return reply.epoch

    def is_scaled(self, stream: Stream, epoch: int) -> bool:
        """Whether a scale has come to its end.

        Args:
            stream: the stream.
            epoch: what `scale` returned. Of one that was refused this is never true.

        Raises:
            StreamNotFoundError: there is no such stream.
        """
        status = self._status("checkScale", pb.ScaleStatusRequest(stream_info=messages.info(stream), epoch=epoch))
        if status == _UNKNOWN_EPOCH and not self.stream_exists(stream):
            raise no_stream(stream)
        return status == _DONE

    def scale_stream(
        self,
        stream: Stream,
        sealed: Iterable[int],
        new_ranges: Iterable[KeyRange],
        *,
        timeout: float | None = None,
    ) -> StreamSegments:
        """Replace segments by others, and wait until that is done. Done already, it isn't done again.

        Args:
            stream: the stream.
            sealed: ids of current segments.
            new_ranges: (minimum, maximum) key of each new segment, each in [0, 1].
            timeout: how long to wait, also for the end of other scales, in seconds; as long as for a call when None.
                One takes 0.1 s mostly.

        Returns:
            The stream's segments afterwards.

        Raises:
            StreamNotFoundError: there is no such stream.
            StreamSealedError: it is sealed.
            ScaleRefusedError: the ranges don't fit, or the stream would fall below its minimum of segments.
            OperationFailedError: the scale began, but didn't end in time; it may still.
        """
        ids, ranges = tuple(sealed), tuple(new_ranges)
        timeout = self._rpc.timeout if timeout is None else timeout
        deadline = Limit(timeout)
        while True:
            try:
                reply = self._scale(stream, ids, ranges, None)
            except UnclearAnswerError:
                if not deadline.wait(_BUSY_POLL_S):
                    raise
                if self._is_done(stream, ids, ranges):
                    return self.current_segments(stream)
                continue
            if reply.status == _STARTED:
                break
            if self._is_done(stream, ids, ranges):
                return self.current_segments(stream)
            refusal, is_busy = self._refusal(stream, ids, ranges, reply.status)
            if not is_busy or not deadline.wait(_BUSY_POLL_S):
                raise refusal
        while not self.is_scaled(stream, reply.epoch):
            if not deadline.wait(_POLL_S):
                raise OperationFailedError(
                    f'a scale of stream "{stream}" did not end within {timeout:g} s: ask for its current segments later'
                )
        return self.current_segments(stream)

    def split_segment(
        self, stream: Stream, segment_id: int, parts: int = 2, *, timeout: float | None = None
    ) -> StreamSegments:
        """Replace a current segment by several that share its keys evenly; results and errors as `scale_stream`."""
        (own,) = self._current(stream, [segment_id])
        ranges = even_ranges(parts, own.min_key, own.max_key)
        return self.scale_stream(stream, [segment_id], ranges, timeout=timeout)

    def merge_segments(
        self, stream: Stream, segment_ids: Iterable[int], *, timeout: float | None = None
    ) -> StreamSegments:
        """Replace neighbouring current segments by one; results and errors as `scale_stream`."""
        own = sorted(self._current(stream, segment_ids), key=lambda r: r.min_key)
        if not own or any(abs(a.max_key - b.min_key) > _SAME for a, b in itertools.pairwise(own)):
            raise ScaleRefusedError(
                f'segments {[r.segment_id for r in own]} of stream "{stream}" can\'t be merged: they are no neighbours'
            )
        return self.scale_stream(
            stream, [r.segment_id for r in own], [(own[0].min_key, own[-1].max_key)], timeout=timeout
        )

    def scale_to(self, stream: Stream, segments: int, *, timeout: float | None = None) -> StreamSegments:
        """Give a stream a number of segments, all of the same size.

        The configuration follows: a fixed number becomes this one, a minimum above it falls to it. With an automatic
        policy the stream goes on to scale by its load afterwards. A stream that has as many segments keeps them.

        Args:
            stream: the stream.
            segments: how many it shall have.
            timeout: how long to wait, in seconds; as long as for a call when None.

        Returns:
            The stream's segments afterwards.

        Raises:
            PravegaError: as `scale_stream` and `update_stream`.
        """
        if segments < 1:
            raise ConfigurationError(f"a stream needs at least 1 segment, not {segments}")

        def follow(configuration: StreamConfiguration) -> StreamConfiguration:
            scaling = configuration.scaling
            if scaling.scale_type is ScaleType.FIXED or scaling.min_segments > segments:
                scaling = replace(scaling, min_segments=segments)
            return replace(configuration, scaling=scaling)

        self.update_stream(stream, follow)
        current = self.current_segments(stream)
        if not current.ids:
            raise stream_sealed(stream, "scaled")
        if len(current.ids) == segments:
            return current
        borders = sorted({border for r in current.ranges for border in (r.min_key, r.max_key)})
        new_ranges = [(_snap(low, borders), _snap(high, borders)) for low, high in even_ranges(segments)]
        unchanged = {(r.min_key, r.max_key) for r in current.ranges} & set(new_ranges)
        sealed = [r.segment_id for r in current.ranges if (r.min_key, r.max_key) not in unchanged]
        return self.scale_stream(stream, sealed, [r for r in new_ranges if r not in unchanged], timeout=timeout)

    def _scale(
        self, stream: Stream, sealed: Sequence[int], ranges: Sequence[KeyRange], now_ms: int | None
    ) -> pb.ScaleResponse:
        request = pb.ScaleRequest(
            stream_info=messages.info(stream),
            sealed_segments=sealed,
            new_key_ranges=[pb.ScaleRequest.KeyRangeEntry(start=low, end=high) for low, high in ranges],
            scale_timestamp=clock.now_ms() if now_ms is None else now_ms,
        )
        if len({low for low, _ in ranges}) != len(ranges):
            # The server would take them for one range.
            raise ScaleRefusedError(
                f'two new segments of stream "{stream}" begin at the same key: ranges must not overlap'
            )
        return self._call("scale", request, pb.ScaleResponse, missing=no_stream(stream))

    def _current(self, stream: Stream, segment_ids: Iterable[int]) -> list[SegmentRange]:
        ids = set(segment_ids)
        current = self.current_segments(stream)
        if not ids <= set(current.ids):
            raise self._refusal(stream, tuple(ids), (), _FAILED)[0]
        return [r for r in current.ranges if r.segment_id in ids]

    def _refusal(
        self, stream: Stream, sealed: Sequence[int], ranges: Sequence[KeyRange], status: int
    ) -> tuple[PravegaError, bool]:
        """Why a scale was refused, and whether it may be taken later: the server has one status for several reasons.

        A stream that isn't there is refused like any other.
        """
        current = self.current_segments(stream)
        if not current.ids:
            return stream_sealed(stream, "scaled"), False
        is_busy = False
        count = len(current.ids) - len(set(sealed)) + len(ranges)
        minimum = self.stream_configuration(stream).scaling.min_segments
        if not set(sealed) <= set(current.ids):
            why = f"of the segments {sorted(sealed)} to be replaced only {sorted(set(sealed) & set(current.ids))} are"
            why += f" current: it may have been scaled already; all current ones are {sorted(current.ids)}"
        elif not _cover(ranges, [(r.min_key, r.max_key) for r in current.ranges if r.segment_id in sealed]):
            why = "the new ranges must cover exactly the keys of the segments that they replace"
        elif count < minimum:
            why = f"it would be left with {count} segments, and its configuration says {minimum} at least: `scale_to`"
            why += " or `update_stream` change that"
        else:
            why, is_busy = "another scale or update may be under way: try again", True
        refusal = f'the controller refused to scale stream "{stream}" (status {status}): {why}'
        return ScaleRefusedError(refusal), is_busy

    def _is_done(self, stream: Stream, sealed: Sequence[int], ranges: Sequence[KeyRange]) -> bool:
        """Whether current segments are the successors of those to be replaced, and are as they should be."""
        there = {
            r.segment_id
            for r in self.current_segments(stream).ranges
            for low, high in ranges
            if abs(low - r.min_key) <= _SAME and abs(high - r.max_key) <= _SAME
        }
        return len(there) == len(ranges) > 0 and there == {
            successor.segment.segment_id for segment_id in sealed for successor in self.successors(stream, segment_id)
        }


def even_ranges(parts: int, low: float = 0.0, high: float = 1.0) -> list[KeyRange]:
    """A part of the key space in equal pieces that touch each other.

    Args:
        parts: how many.
        low: where the part begins.
        high: where it ends.
    """
    if parts < 1:
        raise ConfigurationError(f"there must be at least 1 segment, not {parts}")
    borders = [low + (high - low) * i / parts for i in range(parts)] + [high]
    return list(itertools.pairwise(borders))


def _snap(border: float, borders: Sequence[float]) -> float:
    """A border, or the one that is there already and differs from it only by rounding."""
    nearest = min(borders, key=lambda candidate: abs(candidate - border))
    return nearest if abs(nearest - border) <= _SAME else border


def _cover(some: Iterable[KeyRange], others: Iterable[KeyRange]) -> bool:
    """Whether both cover the same keys, and the first ones each of them once."""
    first = sorted(some)
    if any(low >= high for low, high in first) or any(a[1] > b[0] + _SAME for a, b in itertools.pairwise(first)):
        return False
    one, other = _joined(first), _joined(sorted(others))
    return len(one) == len(other) and all(
        abs(x - y) <= _SAME for a, b in zip(one, other, strict=True) for x, y in zip(a, b, strict=True)
    )


def _joined(ranges: Sequence[KeyRange]) -> list[KeyRange]:
    joined: list[KeyRange] = []
    for low, high in ranges:
        if joined and low - joined[-1][1] <= _SAME:
            joined[-1] = (joined[-1][0], max(high, joined[-1][1]))
        else:
            joined.append((low, high))
    return joined
