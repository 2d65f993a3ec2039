"""The controller's calls about streams: creation, listing, configuration, truncation, sealing, deletion."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from pyspark_pravega.client.controller import controller_pb2 as pb
from pyspark_pravega.client.controller import messages
from pyspark_pravega.client.controller.calls import FAILED, Ending, known, no_scope, no_stream, stream_sealed
from pyspark_pravega.client.controller.segments import ControllerSegments
from pyspark_pravega.client.names import Access, Stream, check_name, segment_epoch
from pyspark_pravega.client.policies import ScaleType, StreamConfiguration
from pyspark_pravega.client.stream_cut import offsets_of
from pyspark_pravega.deadlines import Limit, Retries
from pyspark_pravega.errors import (
    ConfigurationError,
    ConflictError,
    InvalidStreamCutError,
    OperationFailedError,
    StreamNotFoundError,
    StreamNotSealedError,
    UnclearAnswerError,
)

_CREATE_PATIENCE_S = 10.0
_NO_SCOPE = 3
"""The controller says so also when somebody's look at the stream has made it break the creation off, as that of a
key-value table (`client/key_value/creation.py`). When it is called again it goes on with it."""
_INTERNAL_ERROR = 3
"""What the controller says instead of FAILURE where it is told of writers."""
_UPDATES = tuple(threading.Lock() for _ in range(16))


class ControllerStreams(ControllerSegments):
    """A stream has a configuration, a head that truncation moves on, and an end when it is sealed."""

    def create_stream(self, stream: Stream, configuration: StreamConfiguration) -> bool:
        """Create a stream.

        Returns:
            True when it was made by this call, False when it was there.

        Raises:
            InvalidNameError: it can't be called so.
            ScopeNotFoundError: there is no such scope.
            OperationFailedError: the controller fails to make it, again and again, or somebody is deleting the scope.
        """
        check_name("scope", stream.scope)
        check_name("stream", stream.name)
        request = messages.configuration_message(stream, configuration)
        retries, is_unclear = Retries(_CREATE_PATIENCE_S), False
        while True:
            status, unclear = self._create("createStream", request)
            is_unclear |= unclear
            if status != _NO_SCOPE:
                break
            if not self.scope_exists(stream.scope):
                raise no_scope(stream.scope)
            if not retries.again():
                break
        if status == _NO_SCOPE:
            raise OperationFailedError(
                f'the controller could not create stream "{stream}": it says that scope "{stream.scope}" is not there, '
                "and lists it all the same. Perhaps the scope is being deleted; else try again"
            )
        if status not in (0, 2):
            raise OperationFailedError(f'the controller could not create stream "{stream}" (status {status})')
        # One that failed may have made it after all.
        return status == 0 or is_unclear or retries.failures > 0

    def stream_exists(self, stream: Stream) -> bool:
        """Whether there is such a stream, sealed or not."""
        return self._call("checkStreamExists", messages.info(stream), pb.BoolReply).value

    def list_streams(self, scope: str, *, tag: str | None = None) -> Iterator[str]:
        """The streams users have made in a scope, page by page (a page holds up to 1,000).

        Args:
            scope: the scope.
            tag: only those with this tag. This asks the server about 5 ms a stream: pages are as short as one stream.

        Yields:
            Names, in no particular order. What is made or deleted meanwhile may be there or not.

        Raises:
            ScopeNotFoundError: there is no such scope.
        """
        if tag == "":
            raise ConfigurationError("a stream's tags are never empty: leave the tag out to list all streams")
        streams = self._streams(scope) if tag is None else self._tagged_streams(scope, tag)
        return (stream for stream in streams if not stream.startswith("_"))

    def _streams(self, scope: str) -> Iterator[str]:
        def request(token: str) -> pb.StreamsInScopeRequest:
            return pb.StreamsInScopeRequest(
                scope=pb.ScopeInfo(scope=scope), continuation_token=pb.ContinuationToken(token=token)
            )

        return self._stream_pages(scope, "listStreamsInScope", request)

    def _tagged_streams(self, scope: str, tag: str) -> Iterator[str]:
        def request(token: str) -> pb.StreamsInScopeWithTagRequest:
            return pb.StreamsInScopeWithTagRequest(
                scope=pb.ScopeInfo(scope=scope), tag=tag, continuation_token=pb.ContinuationToken(token=token)
            )

        return self._stream_pages(scope, "listStreamsInScopeForTag", request)

    def _stream_pages(
        self,
        scope: str,
        method: str,
        request: Callable[[str], pb.StreamsInScopeRequest | pb.StreamsInScopeWithTagRequest],
    ) -> Iterator[str]:
        for page in self._pages(method, request, pb.StreamsInScopeResponse, "streams"):
            if page.status == 2:
                raise no_scope(scope)
            if page.status != 0:
                raise OperationFailedError(
                    f'the controller could not list the streams of scope "{scope}" (status {page.status})'
                )
            yield from (info.stream for info in page.streams)

    def stream_configuration(self, stream: Stream) -> StreamConfiguration:
        """A stream's configuration.

        Raises:
            StreamNotFoundError: there is no such stream.
        """
        message = self._call(
            "getStreamConfiguration", messages.info(stream), pb.StreamConfig, missing=no_stream(stream)
        )
        return messages.configuration(message)

    def stream_tags(self, stream: Stream) -> tuple[str, ...]:
        """A stream's tags, sorted.

        Raises:
            StreamNotFoundError: there is no such stream.
        """
        return self.stream_configuration(stream).tags

    def update_stream(
        self, stream: Stream, change: Callable[[StreamConfiguration], StreamConfiguration]
    ) -> StreamConfiguration:
        """Change a stream's configuration.

        The server replaces the whole configuration and knows no versions, so this reads, changes, writes, and reads
        again. Updates from one process come one after another. Those of several processes at the same time are tried
        again when the server has another one under way, and reported when another one is found in the place of this
        one; but one that another process completes between this one's read and write is lost unnoticed.

        A new fixed number of segments scales the stream at once, and so does a minimum above the number there is:
        into segments of the same size. While the scaling policy stays, so do the segments: a fixed number is corrected
        to the number there is first, because the server would undo whatever `scale_stream` has done.

        Args:
            stream: the stream.
            change: makes the new configuration of the present one; it may be called several times.

        Returns:
            The configuration as it is now.

        Raises:
            StreamNotFoundError: there is no such stream.
            StreamSealedError: it is sealed.
            ConflictError: somebody else has changed it at the same time: look at it and try again.
        """
        deadline = Limit(self._rpc.timeout)
        with _UPDATES[hash(stream) % len(_UPDATES)]:
            while True:
                before = self.stream_configuration(stream)
                target = change(before)
                target = replace(target, tags=tuple(sorted(set(target.tags))))
                if target == before:
                    return before
                if target.scaling == before.scaling and target.scaling.scale_type is ScaleType.FIXED:
                    present = len(self.current_segments(stream).ids) or target.scaling.min_segments
                    target = replace(target, scaling=replace(target.scaling, min_segments=present))
                try:
                    status = self._status("updateStream", messages.configuration_message(stream, target))
                except UnclearAnswerError:
                    if self.stream_configuration(stream) != target:
                        raise
                    status = 0
                if status != 1 or not deadline.wait():
                    break
            if status in (2, 3):
                raise no_stream(stream)
            if status == 4:
                raise stream_sealed(stream, "updated")
            if status == 1:
                raise ConflictError(
                    f'stream "{stream}" could not be updated within {self._rpc.timeout:g} s: other updates or scales'
                    " are under way; try again later"
                )
            if status != 0:
                raise OperationFailedError(f'the controller could not update stream "{stream}" (status {status})')
            after = self.stream_configuration(stream)
        if after != target:
            raise ConflictError(
                f'stream "{stream}" was updated by somebody else at the same time: look at its configuration, try again'
            )
        return after

    def truncate_stream(self, stream: Stream, cut: Mapping[int, int]) -> None:
        """Remove all events before a cut, for ever. The answer takes about a second.

        The server doesn't look whether the cut's offsets lie within its segments, and a stream that is truncated beyond
        its tail is broken: use `stream_cuts.truncate_stream`, which does.

        Args:
            stream: the stream.
            cut: segment id to offset in bytes, not before the stream's head.

        Raises:
            StreamNotFoundError: there is no such stream.
            StreamSealedError: it is sealed.
            InvalidStreamCutError: it is no cut of this stream, or lies before its head.
        """
        request = messages.cut(stream, offsets_of(stream, cut))

        def ask() -> int:
            status = self._status("truncateStream", request, missing=no_stream(stream))
            if status == FAILED and not self._may_begin_at(stream, cut):
                raise InvalidStreamCutError(
                    f'stream "{stream}" can\'t be truncated: the cut must be one of the stream, and not lie before its'
                    " head"
                )
            return status

        status, _ = self._unless_failed("truncateStream", ask)
        if status in (2, 3):
            raise no_stream(stream)
        if status == 4:
            raise stream_sealed(stream, "truncated")
        if status != 0:
            raise OperationFailedError(f'the controller could not truncate stream "{stream}" (status {status})')

    def _may_begin_at(self, stream: Stream, cut: Mapping[int, int]) -> bool:
        """Whether a cut is one of the stream, and doesn't lie before its head."""
        head = self.head(stream)
        first = min(map(segment_epoch, head), default=0)
        return self.is_stream_cut_valid(stream, cut) and all(
            offset < 0 or (offset >= head[segment_id] if segment_id in head else segment_epoch(segment_id) > first)
            for segment_id, offset in cut.items()
        )

    def seal_stream(self, stream: Stream) -> None:
        """Make a stream read-only, for ever. Open transactions are aborted; sealing again changes nothing.

        Raises:
            StreamNotFoundError: there is no such stream, or another one of that name by now.
        """
        self.sealing(stream)()

    def identity(self, stream: Stream) -> tuple[int, ...] | None:
        """What tells a stream from another one that is made again under its name: segments are counted on.

        Args:
            stream: the stream.

        Returns:
            Its first segments; None where it is gone, half gone, or can't be told.
        """
        return known(lambda: self.epoch_segments(stream, 0).ids)

    def sealing(self, stream: Stream) -> Callable[[], tuple[int, ...] | None]:
        """What seals a stream as `seal_stream` does, for who calls it again and again: another stream that somebody has
        made meanwhile under that name stays as it is.

        Args:
            stream: the stream.

        Returns:
            What seals it, and returns the `identity` of what it has sealed.
        """
        seen: list[tuple[int, ...] | None] = []

        def identity() -> tuple[int, ...] | None:
            seen.append(self.identity(stream))
            return seen[-1]

        end = self._ending("sealStream", messages.info(stream), identity, missing=no_stream(stream))

        def seal() -> tuple[int, ...] | None:
            try:
                status, _ = self._unless_failed("sealStream", end)
            except UnclearAnswerError:
                if not self.is_sealed(stream):
                    raise
                status = 0
            if status in (2, 3):
                raise no_stream(stream)
            if status not in (0, 4):
                raise UnclearAnswerError(
                    f'the controller could not seal stream "{stream}" (status {status}): try again'
                )
            return seen[0]

        return seal

    def delete_stream(self, stream: Stream, *, seal: bool = False) -> bool:
        """Delete a stream with all its events.

        Args:
            stream: the stream.
            seal: seal it first.

        Returns:
            False when there was none. Another stream that somebody has made meanwhile under that name stays.

        Raises:
            StreamNotSealedError: it isn't sealed.
        """
        delete = self._ending_of(stream, "deleteStream")
        if seal:
            try:
                status, _ = self._unless_failed("sealStream", self._ending_of(stream, "sealStream"))
            except StreamNotFoundError:
                return False
            if status in (2, 3):
                return False
        try:
            status, _ = self._unless_failed("deleteStream", delete)
        except UnclearAnswerError:
            if self.stream_exists(stream):
                raise
            status = 0
        # Who has sealed a stream, and finds one that isn't, finds another one.
        if status == 3 and not seal:
            raise StreamNotSealedError(f'stream "{stream}" must be sealed before it is deleted')
        if status not in (0, 2, 3):
            raise OperationFailedError(f'the controller could not delete stream "{stream}" (status {status})')
        # It was there when it was sealed: a call whose answer was lost may have deleted it, or somebody else.
        return status == 0 or seal or delete.may_be_done

    def _ending_of(self, stream: Stream, method: str) -> Ending:
        return self._ending(method, messages.info(stream), lambda: self.identity(stream), missing=no_stream(stream))

    def delegation_token(self, stream: Stream, access: Access = Access.READ_WRITE) -> str:
        """A token that lets its holder use a stream's segments for some time (10 minutes by default).

        Args:
            stream: the stream, which needn't exist.
            access: what it is for.

        Returns:
            A JSON web token; empty where the server doesn't ask for credentials.

        Raises:
            AuthenticationError: the user isn't allowed this.
        """
        reply = self._call("getDelegationToken", messages.info(stream, access), pb.DelegationToken)
        return reply.delegation_token

    def note_timestamp(self, stream: Stream, writer: str, timestamp: int, position: Mapping[int, int]) -> None:
        """Tell how far a writer has come in event time; watermarks are made of what all its writers tell.

        Args:
            stream: the stream.
            writer: the writer's id.
            timestamp: all its later events have at least this time; in a unit of the writers' own.
            position: the writer's position: segment id to offset in bytes, for the segments that it has written to.

        Raises:
            StreamNotFoundError: there is no such stream.
            ConfigurationError: time or position lie before what the writer has told already.
        """
        request = pb.TimestampFromWriter(
            writer=writer, position=messages.cut(stream, offsets_of(stream, position)), timestamp=timestamp
        )
        method = "noteTimestampFromWriter"

        def ask() -> int:
            try:
                return self._status(method, request, missing=no_stream(stream))
            except StreamNotFoundError:
                # The controller may miss the writer's mark, which others make just now, and says the same of it.
                if self.stream_exists(stream):
                    return _INTERNAL_ERROR
                raise

        status, _ = self._unless_failed(method, ask, failed=_INTERNAL_ERROR)
        if status in (1, 2):
            what = f"time {timestamp}" if status == 1 else "position"
            raise ConfigurationError(f'writer "{writer}" of stream "{stream}" can\'t go back to {what}')
        if status != 0:
            raise OperationFailedError(
                f'the controller could not note the time of writer "{writer}" of stream "{stream}" (status {status})'
            )

    def remove_writer(self, stream: Stream, writer: str) -> bool:
        """Tell that a writer won't note any more times, so that it holds no watermark back.

        Returns:
            False when no such writer is known.
        """
        request = pb.RemoveWriterRequest(writer=writer, stream=messages.info(stream))
        method = "removeWriter"
        status, repeated = self._unless_failed(
            method, lambda: self._status(method, request, missing=no_stream(stream)), failed=_INTERNAL_ERROR
        )
        if status == 2:
            raise no_stream(stream)
        if status not in (0, 1):
            raise OperationFailedError(
                f'the controller could not remove writer "{writer}" of stream "{stream}" (status {status})'
            )
        return status == 0 or repeated

    def is_sealed(self, stream: Stream) -> bool:
        """Whether a stream is sealed.

        Raises:
            StreamNotFoundError: there is no such stream.
        """
        return not self.current_segments(stream).ids
