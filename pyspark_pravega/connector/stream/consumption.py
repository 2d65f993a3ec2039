"""Telling Pravega how far a query has consumed a stream, so that retention by consumption keeps what it has to read."""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import replace

from pyspark_pravega.client import Client, Stream
from pyspark_pravega.client.reader_groups import ReaderGroup, ReaderGroupRetention, ReaderGroupStream
from pyspark_pravega.connector.log import open_ledger
from pyspark_pravega.connector.stream.offsets import SourceOffset
from pyspark_pravega.errors import (
    AuthenticationError,
    ConfigurationError,
    ConflictError,
    InvalidStreamCutError,
    ReaderGroupNotFoundError,
    UnsupportedOperationError,
)

_log = logging.getLogger(__name__)


class Subscription:
    """A subscriber of a query's streams: a reader group of Pravega's in each of their scopes, without readers."""

    def __init__(self, client: Client, name: str, streams: tuple[Stream, ...]) -> None:
        """Subscribe to streams, where that isn't done yet.

        Args:
            client: the cluster.
            name: the subscriber's name: a reader group's.
            streams: the streams.

        Raises:
            ConfigurationError: there is a reader group of this name that isn't one like ours.
            InvalidNameError: Pravega can't hold the name.
        """
        self._client, self._name = client, name
        for scope in sorted({stream.scope for stream in streams}):
            self._join(scope, [stream for stream in streams if stream.scope == scope])

    def of(self, stream: Stream) -> str:
        """The subscriber's name as `Controller.subscribers` tells it.

        Args:
            stream: one of the streams.
        """
        return f"{stream.scope}/{self._name}"

    def tell(self, offset: SourceOffset) -> None:
        """Tell how far the query has come; retention may remove what lies before.

        Args:
            offset: what the query has committed.
        """
        for stream, position in offset.items():
            subscriber = self.of(stream)
            try:
                self._client.controller.update_subscriber(stream, subscriber, position.cut)
            except ReaderGroupNotFoundError:
                self._join(stream.scope, [stream])
            except (InvalidStreamCutError, ConflictError) as error:
                # It was told more already, by the run before or by another query: the next commit will be beyond.
                _log.warning("subscriber %s of stream %s stays where it is: %s", subscriber, stream, error)

    def _join(self, scope: str, streams: list[Stream]) -> None:
        controller = self._client.controller
        wanted = tuple(ReaderGroupStream(stream=stream) for stream in streams)
        group = controller.create_reader_group(
            ReaderGroup(scope=scope, name=self._name, streams=wanted, retention=ReaderGroupRetention.MANUAL)
        )
        if group.retention is not ReaderGroupRetention.MANUAL:
            raise ConfigurationError(
                f'reader group "{group}" is no subscriber that a query can speak for (its retention is '
                f'{group.retention.name.lower()}): choose another name for option "subscriber"'
            )
        missing = {stream.stream for stream in wanted} - {stream.stream for stream in group.streams}
        if missing:

            def with_missing(joined: ReaderGroup) -> ReaderGroup:
                new = missing - {stream.stream for stream in joined.streams}
                return replace(
                    joined, streams=(*joined.streams, *(ReaderGroupStream(stream=s) for s in sorted(new, key=str)))
                )

            controller.update_reader_group(scope, self._name, with_missing)
        for stream in streams:
            # A compaction may be removing events, and have looked for subscribers before. Who may not write to the log
            # can't tell them.
            with suppress(AuthenticationError):
                ledger = open_ledger(self._client, stream)
                if ledger is not None:
                    ledger.holders().note_joined()


def unsubscribe(client: Client, subscriber: str, stream: Stream) -> bool:
    """End the subscription of a query that no longer runs; one that runs subscribes again.

    Args:
        client: the cluster.
        subscriber: one of `Controller.subscribers`, `scope/group`.
        stream: the stream; the group stays a subscriber of its others.

    Returns:
        False when it was no subscriber of the stream.

    Raises:
        UnsupportedOperationError: it is a reader group whose readers release events themselves.
        ConflictError: the group was changed meanwhile: try again.
    """
    controller = client.controller
    if subscriber not in controller.subscribers(stream):
        return False
    scope, _, name = subscriber.partition("/")
    group = controller.reader_group(scope, name)
    if group.retention is not ReaderGroupRetention.MANUAL:
        raise UnsupportedOperationError(
            f'reader group "{subscriber}" is no subscriber of a query: its own readers tell how far they are '
            f"(its retention is {group.retention.name.lower()}). Delete it, or change its retention, where it was made"
        )
    if {part.stream for part in group.streams} == {stream}:
        return controller.delete_reader_group(scope, name)

    def without(left: ReaderGroup) -> ReaderGroup:
        return replace(left, streams=tuple(part for part in left.streams if part.stream != stream))

    controller.update_reader_group(scope, name, without)
    return True
