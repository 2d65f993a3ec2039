"""Pravega without Spark: the controller, the segment store's wire protocol, and what is built on both."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pyspark_pravega.client.connections import Cluster
from pyspark_pravega.client.events import (
    DEFAULT_LEASE_MS,
    EventBatch,
    EventTail,
    EventWriter,
    OwnTransaction,
    TransactionWriter,
    plan,
    read_part,
)
from pyspark_pravega.client.key_value import KeyValueTable, create_table
from pyspark_pravega.client.names import Stream
from pyspark_pravega.client.policies import KeyValueTableConfiguration
from pyspark_pravega.client.positions import SegmentPart, tail_cut, truncate_stream
from pyspark_pravega.client.segments import Staged, gather
from pyspark_pravega.client.stream_cut import StreamCut
from pyspark_pravega.client.transactions import Transaction
from pyspark_pravega.found import running_sandbox
from pyspark_pravega.settings import Settings


class Client(Cluster):
    """A Pravega cluster, and what can be done with it. Safe for use by several threads; a context manager.

    It is made of settings, and connects when it is used.
    """

    def __init__(self, settings: Settings | None = None, *, presumed: bool = False) -> None:
        """Connect lazily: when something is asked.

        Args:
            settings: where the cluster is, and who asks; when None what the environment says, else the running sandbox.
            presumed: whether the addresses are right for sure, because another process has reached them. A server that
                has never answered is given up after a minute otherwise, or at once (`outages.Contact`).

        Raises:
            ConfigurationError: the environment's settings are malformed.
        """
        super().__init__(
            Settings.resolve(otherwise=running_sandbox) if settings is None else settings, presumed=presumed
        )

    def plan(
        self, stream: Stream | str, *, start: Mapping[int, int] | None = None, end: Mapping[int, int] | None = None
    ) -> list[SegmentPart]:
        """What lies between two cuts of a stream, as parts that workers can read one by one with `read_part`.

        Args:
            stream: the stream, or `scope/stream`.
            start: where to begin: a cut; the stream's head when None.
            end: where to end: a cut; the stream's tail at this moment when None.

        Returns:
            The parts that hold bytes, predecessors before their successors.

        Raises:
            StreamNotFoundError: there is no such stream.
        """
        return plan(self, self._stream(stream), start, end)

    def read_part(self, part: SegmentPart) -> Iterator[EventBatch]:
        """The events of a part of a segment, about a megabyte at a time.

        Args:
            part: one of those that `plan` gave.

        Raises:
            SegmentTruncatedError: the part's start has been truncated.
            SegmentNotFoundError: the segment doesn't exist any more.
            EventDecodeError: no event begins at the part's start.
            SegmentStoreUnavailableError: the segment store can't be reached.
        """
        return read_part(self, part)

    def read(
        self, stream: Stream | str, *, start: Mapping[int, int] | None = None, end: Mapping[int, int] | None = None
    ) -> Iterator[EventBatch]:
        """The events between two cuts, each routing key's in their order, about a megabyte at a time.

        Arguments and errors are those of `plan` and `read_part`.
        """
        for part in self.plan(stream, start=start, end=end):
            yield from self.read_part(part)

    def follow(self, stream: Stream | str, *, start: Mapping[int, int] | None = None) -> EventTail:
        """The events from a cut on, and then those that are appended; see `EventTail`.

        Args:
            stream: the stream, or `scope/stream`.
            start: where to begin: a cut; the stream's tail when None.

        Raises:
            StreamNotFoundError: there is no such stream.
        """
        return EventTail(self, self._stream(stream), start)

    def writer(self, stream: Stream | str) -> EventWriter:
        """Write events to a stream directly; see `EventWriter`.

        Args:
            stream: the stream, or `scope/stream`.

        Raises:
            StreamNotFoundError: there is no such stream.
            StreamSealedError: it takes no more events.
        """
        return EventWriter(self, self._stream(stream))

    def transaction(self, stream: Stream | str, *, lease_ms: int = DEFAULT_LEASE_MS) -> OwnTransaction:
        """Begin a transaction; see `OwnTransaction`.

        Args:
            stream: the stream, or `scope/stream`.
            lease_ms: how long it outlives this process, in milliseconds.

        Raises:
            StreamNotFoundError: there is no such stream.
            TransactionError: the stream is sealed, or the lease isn't within the server's limits.
        """
        return OwnTransaction(self, self._stream(stream), lease_ms=lease_ms)

    def join(self, transaction: Transaction) -> TransactionWriter:
        """Write into a transaction that was begun elsewhere; see `TransactionWriter`.

        Args:
            transaction: the one that was begun: `OwnTransaction.transaction`, which can be pickled.
        """
        return TransactionWriter(self, transaction)

    def gather(self, staged: Sequence[Staged]) -> Transaction:
        """Make many transactions one, by copying; see `gathering`.

        Args:
            staged: what writers have put into transactions of their own.

        Returns:
            The transaction among them that holds all of it: commit it, and abort the others.

        Raises:
            TransactionError: a transaction was lost, or the stream was scaled between their beginnings and none of them
                has segments into which whole blocks of all the others fit.
        """
        return gather(self, staged)

    def create_key_value_table(
        self,
        scope: str,
        name: str,
        *,
        partitions: int,
        key_bytes: int,
        secondary_key_bytes: int = 0,
        rollover_size_bytes: int = 0,
    ) -> bool | None:
        """Create a key-value table, also where a controller broke off an earlier creation; see `creation`.

        Args:
            scope: its scope.
            name: its name.
            partitions: number of table segments.
            key_bytes: length of every primary key; of every key, where there are no secondary ones.
            secondary_key_bytes: length of every secondary key.
            rollover_size_bytes: how large a segment's files in long-term storage get; 0 for the server's default.

        Returns:
            True when it was made by this call, False when it was there. None where nobody tells: an answer was lost,
            and then it was there.

        Raises:
            InvalidNameError: it can't be called so.
            ConfigurationError: there are no such tables.
            ScopeNotFoundError: there is no such scope.
            ControllerUnavailableError: no controller answers in time.
        """
        configuration = KeyValueTableConfiguration(
            partitions=partitions,
            key_bytes=key_bytes,
            secondary_key_bytes=secondary_key_bytes,
            rollover_size_bytes=rollover_size_bytes,
        )
        return create_table(self, scope, name, configuration)

    def key_value_table(self, scope: str, name: str) -> KeyValueTable:
        """Open a key-value table; see `KeyValueTable`.

        Args:
            scope: its scope.
            name: its name.

        Raises:
            KeyValueTableNotFoundError: there is no such table.
        """
        return KeyValueTable(self.pool, scope, name)

    def tail(self, stream: Stream | str) -> StreamCut:
        """The cut behind a stream's last event.

        Args:
            stream: the stream, or `scope/stream`.

        Raises:
            StreamNotFoundError: there is no such stream.
        """
        return tail_cut(self.pool, self._stream(stream))

    def truncate(self, cut: StreamCut) -> None:
        """Remove all events before a cut, for ever; see `stream_cuts.truncate_stream`.

        Args:
            cut: at a border between events.

        Raises:
            InvalidStreamCutError: it isn't a cut of its stream, or lies before its head or behind its tail.
        """
        truncate_stream(self.pool, cut)

    def _stream(self, stream: Stream | str) -> Stream:
        return stream if isinstance(stream, Stream) else Stream.parse(stream, self.settings.scope)
