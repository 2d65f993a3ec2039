"""The controller's calls about reader groups and subscribers: who keeps retention from removing events."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from pyspark_pravega.client.controller import controller_pb2 as pb
from pyspark_pravega.client.controller import messages
from pyspark_pravega.client.controller.calls import FAILED, no_scope, no_stream
from pyspark_pravega.client.controller.streams import ControllerStreams
from pyspark_pravega.client.names import Stream
from pyspark_pravega.client.reader_groups import PREFIX, ReaderGroup
from pyspark_pravega.client.stream_cut import offsets_of
from pyspark_pravega.deadlines import Limit, deadline
from pyspark_pravega.errors import (
    ConflictError,
    InvalidNameError,
    InvalidStreamCutError,
    OperationFailedError,
    ReaderGroupNotFoundError,
    UnavailableError,
)

_ASKED_AGAIN_S = 8.0
"""After so long a creation is asked for again."""


class ControllerReaderGroups(ControllerStreams):
    """A reader group whose retention isn't "none" is a subscriber of its streams.

    The Java client keeps the state of a group's readers in the group's own stream; these calls don't touch it. So a
    group that is made here is fit for telling how far something has consumed a stream, but for Java's readers it isn't
    complete: let Java make those.
    """

    def create_reader_group(self, group: ReaderGroup) -> ReaderGroup:
        """Create a reader group; where there is one of this name nothing changes.

        Args:
            group: what it shall be; its id and generation are made anew.

        Returns:
            The group that is there now.

        Raises:
            ScopeNotFoundError: there is no such scope.
            StreamNotFoundError: one of its streams doesn't exist.
            ControllerUnavailableError: no controller answers in time.
        """
        for part in group.streams:
            # The server would look for it until the deadline, and leave half a group that keeps its scope for ever.
            if not self.stream_exists(part.stream):
                raise no_stream(part.stream)
        fresh_group = replace(group, id=uuid.uuid4(), generation=0)
        request, limit = messages.reader_group_message(fresh_group), Limit(self._rpc.timeout)
        while True:
            asked_at = time.monotonic()
            try:
                with deadline(_ASKED_AGAIN_S):
                    reply = self._call(
                        "createReaderGroup", request, pb.CreateReaderGroupResponse, missing=no_scope(group.scope)
                    )
                if reply.status != FAILED or not limit.wait():
                    break
            except UnavailableError:
                # It may have broken the creation off, as those of key-value tables (`client/key_value/creation.py`).
                # With the same id it goes on with it.
                if time.monotonic() - asked_at < _ASKED_AGAIN_S or not limit.wait():
                    raise
        if reply.status == 2:
            raise no_scope(group.scope)
        if reply.status == 3:
            raise InvalidNameError(f'the controller can\'t hold a reader group called "{group}"')
        if reply.status != 0:
            raise OperationFailedError(
                f'the controller could not create reader group "{group}" (status {reply.status})'
            )
        return messages.reader_group(reply.config)

    def reader_group(self, scope: str, name: str) -> ReaderGroup:
        """A reader group's configuration.

        Raises:
            ReaderGroupNotFoundError: there is no such group.
        """
        info = pb.ReaderGroupInfo(scope=scope, reader_group=name)
        missing = _no_group(scope, name)
        reply, _ = self._reply_unless_failed(
            "getReaderGroupConfig", info, pb.ReaderGroupConfigResponse, missing=missing
        )
        if reply.status == 2:
            raise missing
        if reply.status != 0:
            raise OperationFailedError(
                f'the controller could not tell of reader group "{scope}/{name}" (status {reply.status})'
            )
        return messages.reader_group(reply.config)

    def list_reader_groups(self, scope: str) -> Iterator[str]:
        """A scope's reader groups, page by page, in no particular order.

        Raises:
            ScopeNotFoundError: there is no such scope.
        """
        return (name[len(PREFIX) :] for name in self._streams(scope) if name.startswith(PREFIX))

    def update_reader_group(self, scope: str, name: str, change: Callable[[ReaderGroup], ReaderGroup]) -> ReaderGroup:
        """Change a reader group's configuration; readers of the Java client notice it, and begin at its starts.

        Args:
            scope: the group's scope.
            name: its name.
            change: makes the new configuration of the present one; of several changes at the same time one wins.

        Returns:
            The group as it is now.

        Raises:
            ReaderGroupNotFoundError: there is no such group.
            StreamNotFoundError: one of its new streams doesn't exist.
            ConflictError: it was changed by somebody else meanwhile: try again.
        """
        before = self.reader_group(scope, name)
        after = replace(change(before), scope=scope, name=name, id=before.id, generation=before.generation)
        if after == before:
            return before
        for part in after.streams:
            if not self.stream_exists(part.stream):
                raise no_stream(part.stream)
        request = messages.reader_group_message(after)
        missing = _no_group(scope, name)
        reply, repeated = self._reply_unless_failed(
            "updateReaderGroup", request, pb.UpdateReaderGroupResponse, missing=missing
        )
        if reply.status == 2:
            raise missing
        if reply.status == 3 and repeated:
            # A call before may have done it.
            now = self.reader_group(scope, name)
            if replace(now, generation=after.generation) == after:
                return now
        if reply.status == 3:
            raise ConflictError(
                f'reader group "{after}" was changed by somebody else meanwhile, or can\'t be as asked: try again'
            )
        if reply.status != 0:
            raise OperationFailedError(
                f'the controller could not update reader group "{after}" (status {reply.status})'
            )
        return replace(after, generation=reply.generation)

    def delete_reader_group(self, scope: str, name: str) -> bool:
        """Delete a reader group; it no longer keeps retention from anything.

        Returns:
            False when there was none.
        """
        try:
            group = self.reader_group(scope, name)
        except ReaderGroupNotFoundError:
            return False
        info = pb.ReaderGroupInfo(
            scope=scope, reader_group=name, reader_group_id=str(group.id), generation=group.generation
        )
        status, repeated = self._unless_failed("deleteReaderGroup", lambda: self._status("deleteReaderGroup", info))
        if status not in (0, 2):
            raise OperationFailedError(
                f'the controller could not delete reader group "{scope}/{name}" (status {status})'
            )
        return status == 0 or repeated

    def subscribers(self, stream: Stream) -> tuple[str, ...]:
        """The reader groups that keep a stream's retention from removing what they haven't consumed.

        Returns:
            Their names as `scope/group`, sorted.

        Raises:
            StreamNotFoundError: there is no such stream.
        """
        reply, _ = self._reply_unless_failed(
            "listSubscribers", messages.info(stream), pb.SubscribersResponse, missing=no_stream(stream)
        )
        if reply.status == 2:
            raise no_stream(stream)
        if reply.status != 0:
            raise OperationFailedError(
                f'the controller could not list the subscribers of stream "{stream}" (status {reply.status})'
            )
        return tuple(sorted(reply.subscribers))

    def update_subscriber(self, stream: Stream, subscriber: str, cut: Mapping[int, int]) -> None:
        """Tell how far a subscriber has consumed a stream: retention may remove what all of them have.

        Args:
            stream: the stream.
            subscriber: one of `subscribers`, as `scope/group`.
            cut: segment id to offset in bytes; not before the one told last.

        Raises:
            StreamNotFoundError: there is no such stream.
            ReaderGroupNotFoundError: there is no such group, or it isn't a subscriber of the stream.
            InvalidStreamCutError: it is no cut of the stream, or lies before the one told last.
            ConflictError: the group was changed meanwhile: try again.
        """
        scope, _, name = subscriber.partition("/")
        group = self.reader_group(scope, name)
        request = pb.SubscriberStreamCut(
            subscriber=subscriber,
            generation=group.generation,
            reader_group_id=str(group.id),
            stream_cut=messages.cut(stream, offsets_of(stream, cut)),
        )
        method = "updateSubscriberStreamCut"

        def ask() -> int:
            status = self._status(method, request, missing=no_stream(stream))
            # So the server fails for segments that it doesn't know, too.
            return 4 if status == FAILED and not self.is_stream_cut_valid(stream, cut) else status

        status, _ = self._unless_failed(method, ask)
        failures = {
            2: no_stream(stream),
            3: ReaderGroupNotFoundError(f'reader group "{subscriber}" is no subscriber of stream "{stream}"'),
            4: InvalidStreamCutError(
                f'subscriber "{subscriber}" of stream "{stream}" can\'t be at this cut: it must be one of the stream'
                " and not lie before the cut that was told last"
            ),
            5: ConflictError(f'reader group "{subscriber}" was changed meanwhile: try again'),
        }
        if status in failures:
            raise failures[status]
        if status != 0:
            raise OperationFailedError(
                f'the controller could not update subscriber "{subscriber}" of stream "{stream}" (status {status})'
            )


def _no_group(scope: str, name: str) -> ReaderGroupNotFoundError:
    return ReaderGroupNotFoundError(f'reader group "{scope}/{name}" does not exist')
