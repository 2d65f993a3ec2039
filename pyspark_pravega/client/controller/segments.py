"""The controller's calls about segments: which there are, were, and follow each other, and where they are served."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pyspark_pravega.client.controller import controller_pb2 as pb
from pyspark_pravega.client.controller import messages
from pyspark_pravega.client.controller.calls import ControllerCalls, no_stream
from pyspark_pravega.client.names import (
    Access,
    SegmentRange,
    Stream,
    StreamSegments,
    Successor,
    segment_epoch,
)
from pyspark_pravega.client.stream_cut import StreamCut, Unbounded, offsets_of
from pyspark_pravega.errors import InvalidStreamCutError, NotFoundError, OperationFailedError


class ControllerSegments(ControllerCalls):
    """A stream's segments share the key space; each scale and some commits replace them, in a new epoch."""

    def current_segments(self, stream: Stream, access: Access = Access.NONE) -> StreamSegments:
        """The segments that take events now; none for a sealed stream.

        Args:
            stream: the stream.
            access: what the segments' delegation token is for. With any but NONE the user must be allowed to write.

        Raises:
            StreamNotFoundError: there is no such stream.
        """
        reply = self._call(
            "getCurrentSegments", messages.info(stream, access), pb.SegmentRanges, missing=no_stream(stream)
        )
        return messages.segments(stream, reply.segment_ranges, reply.delegation_token)

    def epoch_segments(self, stream: Stream, epoch: int) -> StreamSegments:
        """The segments that took events in an epoch of the stream's past, or its present one.

        Args:
            stream: the stream.
            epoch: 0 is the one in which the stream was made. A stream made again under an old name begins with 0, too.

        Raises:
            NotFoundError: the stream has had no such epoch, or there is no such stream.
        """
        missing = NotFoundError(f'stream "{stream}" has no epoch {epoch}, or does not exist')
        if not 0 <= epoch < 2**31:
            raise missing
        request = pb.GetEpochSegmentsRequest(stream_info=messages.info(stream), epoch=epoch)
        reply = self._call("getEpochSegments", request, pb.SegmentRanges, missing=missing)
        return messages.segments(stream, reply.segment_ranges, reply.delegation_token)

    def segment_ranges(self, stream: Stream, segment_ids: Iterable[int]) -> dict[int, SegmentRange]:
        """The parts of the key space that segments own or owned; one call for each epoch they were made in.

        Raises:
            NotFoundError: the stream has had no such segment, or there is no such stream.
        """
        ids = sorted(set(segment_ids))
        ranges: dict[int, SegmentRange] = {}
        for epoch in sorted({segment_epoch(segment_id) for segment_id in ids}):
            ranges |= {r.segment_id: r for r in self.epoch_segments(stream, epoch).ranges}
        for segment_id in ids:
            if segment_id not in ranges:
                raise NotFoundError(f'stream "{stream}" has no segment {segment_id}')
        return {segment_id: ranges[segment_id] for segment_id in ids}

    def covering_ranges(self, stream: Stream, segment_ids: Iterable[int]) -> dict[int, SegmentRange]:
        """Parts of the key space within which segments own or owned theirs. Who may only read a stream may ask this;
        Pravega 0.13 tells `segment_ranges` to those who may write.

        A current segment's part is its own. That of a sealed one goes from the first key of its successors to the last
        one; one call for each.

        Raises:
            StreamNotFoundError: there is no such stream.
        """
        ranges = {own.segment_id: own for own in self.current_segments(stream).ranges}
        covering: dict[int, SegmentRange] = {}
        for segment_id in sorted(set(segment_ids)):
            owned = [ranges[segment_id]] if segment_id in ranges else []
            owned = owned or [successor.segment for successor in self.successors(stream, segment_id)]
            covering[segment_id] = SegmentRange(
                segment_id=segment_id,
                min_key=min((own.min_key for own in owned), default=0.0),
                max_key=max((own.max_key for own in owned), default=1.0),
            )
        return covering

    def is_current(self, stream: Stream, segment_id: int) -> bool:
        """Whether a segment takes events now.

        Raises:
            StreamNotFoundError: there is no such stream.
        """
        request = pb.SegmentId(stream_info=messages.info(stream), segment_id=segment_id)
        return self._call("isSegmentValid", request, pb.BoolReply, missing=no_stream(stream)).value

    def head(self, stream: Stream) -> StreamCut:
        """The stream cut behind which everything has been truncated.

        This is the only cut that the controller tells. Its call (getSegments) has a time in it, but Pravega 0.13
        answers with the head whatever the time is.

        Returns:
            Segment id to offset in bytes.

        Raises:
            StreamNotFoundError: there is no such stream.
        """
        request = pb.GetSegmentsRequest(stream_info=messages.info(stream), timestamp=0)
        reply = self._call("getSegments", request, pb.SegmentsAtTime, missing=no_stream(stream))
        return StreamCut(stream, {location.segment_id.segment_id: location.offset for location in reply.segments})

    def is_stream_cut_valid(self, stream: Stream, cut: Mapping[int, int]) -> bool:
        """Whether a cut's segments can be cut at together; the server looks neither at offsets nor at truncation.

        `stream_cuts.check_cut` does, and says what is wrong.

        Raises:
            StreamNotFoundError: there is no such stream.
        """
        request = messages.cut(stream, offsets_of(stream, cut))
        try:
            return self._call("isStreamCutValid", request, pb.BoolReply, missing=no_stream(stream)).value
        except OperationFailedError:
            # So the server fails for segments that it doesn't know.
            try:
                self.segment_ranges(stream, cut)
            except NotFoundError:
                return False
            raise

    def segments_from(self, stream: Stream, cut: Mapping[int, int]) -> tuple[int, ...]:
        """All segments from a cut to the tail, sealed and current ones.

        Args:
            stream: the stream.
            cut: segment id to offset in bytes.

        Returns:
            Segment ids in ascending order.

        Raises:
            StreamNotFoundError: there is no such stream.
            InvalidStreamCutError: it is no cut of this stream.
        """
        return self.segments_between(stream, cut)

    def segments_between(
        self,
        stream: Stream,
        start: Mapping[int, int] | Unbounded | None = None,
        end: Mapping[int, int] | Unbounded | None = None,
    ) -> tuple[int, ...]:
        """All segments from one cut to another, those of both cuts included, whether events are in them or not.

        The server answers with something even where a cut doesn't fit the stream; `stream_cuts.check_cut` finds out.

        Args:
            stream: the stream.
            start: segment id to offset in bytes; None or `UNBOUNDED` for the stream's head.
            end: as `start`, not before it; None or `UNBOUNDED` for the stream's tail.

        Returns:
            Segment ids in ascending order: predecessors before successors.

        Raises:
            StreamNotFoundError: there is no such stream.
            InvalidStreamCutError: a cut names segments that the stream doesn't have, or the end lies before the start.
        """
        if start is None or isinstance(start, Unbounded):
            start = self.head(stream)
        request = pb.StreamCutRange(stream_info=messages.info(stream))
        getattr(request, "from").update(offsets_of(stream, start))
        if end is not None and not isinstance(end, Unbounded):
            request.to.update(offsets_of(stream, end))
        try:
            reply = self._call("getSegmentsBetween", request, pb.StreamCutRangeResponse, missing=no_stream(stream))
        except OperationFailedError as error:
            raise InvalidStreamCutError(
                f'the controller can\'t tell the segments of stream "{stream}" between two cuts: both must name'
                f" segments of the stream, and the end must not lie before the start ({error})"
            ) from None
        return tuple(sorted(segment.segment_id for segment in reply.segments))

    def successors(self, stream: Stream, segment_id: int) -> tuple[Successor, ...]:
        """The segments that go on where a segment ends, and all segments that each of them replaces.

        Returns:
            Successors ordered by key range; none for a current segment, the last ones of a sealed stream, and a segment
            that the stream never had.

        Raises:
            StreamNotFoundError: there is no such stream.
        """
        request = pb.SegmentId(stream_info=messages.info(stream), segment_id=segment_id)
        method = "getSegmentsImmediatelyFollowing"
        reply = self._call(method, request, pb.SuccessorResponse, missing=no_stream(stream))
        return messages.successors(reply)

    def predecessors(self, stream: Stream, segment_id: int) -> tuple[int, ...]:
        """The segments in whose place a segment came.

        Returns:
            Segment ids in ascending order; none for a segment of the stream's first epoch.

        Raises:
            NotFoundError: the stream has had no such segment, or there is no such stream.
        """
        own = self.segment_ranges(stream, (segment_id,))[segment_id]
        epoch = segment_epoch(segment_id)
        if epoch == 0:
            return ()
        before = self.epoch_segments(stream, epoch - 1).ranges
        return tuple(sorted(r.segment_id for r in before if r.overlaps(own)))

    def endpoint(self, stream: Stream, segment_id: int) -> tuple[str, int]:
        """The segment store that serves a segment; the answer is the same for segments that don't exist.

        Returns:
            Host and port.
        """
        request = pb.SegmentId(stream_info=messages.info(stream), segment_id=segment_id)
        reply = self._call("getURI", request, pb.NodeUri)
        # A server bound to every interface announces itself by the unspecified address.
        host = self._rpc.host if reply.endpoint in ("0.0.0.0", "::", "") else reply.endpoint
        return host, reply.port
