"""Pravega's controller over gRPC: scopes, streams, segments, transactions and key-value tables.

Every call has a deadline. Status numbers are the server's (Pravega 0.13).
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from typing import Self

from pyspark_pravega.client import controller_messages as messages
from pyspark_pravega.client import controller_pb2 as pb
from pyspark_pravega.client.controller_rpc import ControllerRpc
from pyspark_pravega.client.names import MAX_TABLE_NAME_LENGTH, Stream, StreamSegments, check_name
from pyspark_pravega.client.policies import (
    StreamConfiguration,
)
from pyspark_pravega.client.transactions import Transaction, TransactionState
from pyspark_pravega.errors import (
    KeyValueTableNotFoundError,
    NotFoundError,
    OperationFailedError,
    ScopeNotEmptyError,
    ScopeNotFoundError,
    StreamNotFoundError,
    TransactionError,
)
from pyspark_pravega.security import Credentials, Tls

_POLL_S = 0.02
_READ, _READ_WRITE = 3, 5
_NO_TIMESTAMP = -(2**63)


class Controller:
    """A connection to the controller. Safe for use by several threads; a context manager."""

    def __init__(
        self, uri: str, *, timeout: float = 10.0, credentials: Credentials | None = None, tls: Tls | None = None
    ) -> None:
        """Connect lazily: the first call finds out whether the controller is there.

        Args:
            uri: `tcp://host:port` or `tls://host:port`; several controllers as `tcp://a:9090,b:9090`.
            timeout: deadline of each call, in seconds.
            credentials: who asks, if authentication is on.
            tls: which servers to believe, for `tls:`.
        """
        self._rpc = ControllerRpc(uri, timeout=timeout, credentials=credentials, tls=tls)
        self._call, self._status = self._rpc.call, self._rpc.status

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._rpc.close()

    # Scopes

    def create_scope(self, scope: str) -> bool:
        """Create a scope.

        Args:
            scope: its name.

        Returns:
            True when it was made by this call, False when it was there.
        """
        check_name("scope", scope)
        status = self._status("createScope", pb.ScopeInfo(scope=scope))
        if status not in (0, 2):
            raise OperationFailedError(f'the controller refused to create scope "{scope}" (status {status})')
        return status == 0

    def scope_exists(self, scope: str) -> bool:
        """Whether there is such a scope."""
        return self._call("checkScopeExists", pb.ScopeInfo(scope=scope), pb.BoolReply).value

    def list_scopes(self) -> Iterator[str]:
        """The scopes users have made, page by page."""
        token = ""
        while True:
            request = pb.ScopesRequest(continuation_token=pb.ContinuationToken(token=token))
            page = self._call("listScopes", request, pb.ScopesResponse)
            if not page.scopes:
                return
            yield from (scope for scope in page.scopes if not scope.startswith("_"))
            token = page.continuation_token.token

    def delete_scope(self, scope: str) -> bool:
        """Delete an empty scope.

        Returns:
            False when there was none.

        Raises:
            ScopeNotEmptyError: it holds streams or key-value tables.
        """
        # Asked to delete a scope that holds streams, the server says no, but from then on can't make key-value tables
        # in it: look first.
        if self.scope_exists(scope) and (
            any(True for _ in self._streams(scope)) or any(True for _ in self.list_key_value_tables(scope))
        ):
            raise _scope_not_empty(scope)
        status = self._status("deleteScope", pb.ScopeInfo(scope=scope))
        if status == 3:
            raise _scope_not_empty(scope)
        if status not in (0, 2):
            raise OperationFailedError(f'the controller could not delete scope "{scope}" (status {status})')
        return status == 0

    # Streams

    def create_stream(self, stream: Stream, configuration: StreamConfiguration) -> bool:
        """Create a stream.

        Returns:
            True when it was made by this call, False when it was there.

        Raises:
            ScopeNotFoundError: there is no such scope.
        """
        check_name("scope", stream.scope)
        check_name("stream", stream.name)
        status = self._status("createStream", messages.configuration_message(stream, configuration))
        if status == 3:
            raise ScopeNotFoundError(f'scope "{stream.scope}" does not exist: create it first')
        if status not in (0, 2):
            raise OperationFailedError(f'the controller could not create stream "{stream}" (status {status})')
        return status == 0

    def list_streams(self, scope: str) -> Iterator[str]:
        """The streams users have made in a scope, page by page.

        Raises:
            ScopeNotFoundError: there is no such scope.
        """
        return (stream for stream in self._streams(scope) if not stream.startswith("_"))

    def _streams(self, scope: str) -> Iterator[str]:
        token = ""
        while True:
            request = pb.StreamsInScopeRequest(
                scope=pb.ScopeInfo(scope=scope), continuation_token=pb.ContinuationToken(token=token)
            )
            page = self._call("listStreamsInScope", request, pb.StreamsInScopeResponse)
            if page.status != 0:
                raise ScopeNotFoundError(f'scope "{scope}" does not exist')
            if not page.streams:
                return
            yield from (info.stream for info in page.streams)
            token = page.continuation_token.token

    def stream_configuration(self, stream: Stream) -> StreamConfiguration:
        """A stream's configuration.

        Raises:
            StreamNotFoundError: there is no such stream.
        """
        message = self._call(
            "getStreamConfiguration", messages.info(stream), pb.StreamConfig, missing=_no_stream(stream)
        )
        return messages.configuration(message)

    def seal_stream(self, stream: Stream) -> None:
        """Make a stream read-only.

        Raises:
            StreamNotFoundError: there is no such stream.
        """
        status = self._status("sealStream", messages.info(stream), missing=_no_stream(stream))
        if status in (2, 3):
            raise _no_stream(stream)
        if status not in (0, 4):
            raise OperationFailedError(f'the controller could not seal stream "{stream}" (status {status})')

    def delete_stream(self, stream: Stream) -> bool:
        """Delete a sealed stream with all its events.

        Returns:
            False when there was none.
        """
        status = self._status("deleteStream", messages.info(stream))
        if status == 3:
            raise OperationFailedError(f'stream "{stream}" must be sealed before it is deleted')
        if status not in (0, 2):
            raise OperationFailedError(f'the controller could not delete stream "{stream}" (status {status})')
        return status == 0

    # Segments

    def current_segments(self, stream: Stream) -> StreamSegments:
        """The segments that take events now; none for a sealed stream.

        Raises:
            StreamNotFoundError: there is no such stream.
        """
        reply = self._call(
            "getCurrentSegments", messages.info(stream, _READ_WRITE), pb.SegmentRanges, missing=_no_stream(stream)
        )
        return messages.segments(stream, reply.segment_ranges, reply.delegation_token)

    def head(self, stream: Stream) -> dict[int, int]:
        """The stream cut behind which everything has been truncated.

        Returns:
            Segment id to offset in bytes.

        Raises:
            StreamNotFoundError: there is no such stream.
        """
        request = pb.GetSegmentsRequest(stream_info=messages.info(stream), timestamp=0)
        reply = self._call("getSegments", request, pb.SegmentsAtTime, missing=_no_stream(stream))
        return {location.segment_id.segment_id: location.offset for location in reply.segments}

    def segments_from(self, stream: Stream, cut: dict[int, int]) -> tuple[int, ...]:
        """All segments from a cut to the tail, sealed and current ones.

        Args:
            stream: the stream.
            cut: segment id to offset in bytes.

        Returns:
            Segment ids in ascending order.

        Raises:
            StreamNotFoundError: there is no such stream.
        """
        request = pb.StreamCutRange(stream_info=messages.info(stream))
        getattr(request, "from").update(cut)
        reply = self._call("getSegmentsBetween", request, pb.StreamCutRangeResponse, missing=_no_stream(stream))
        return tuple(sorted(segment.segment_id for segment in reply.segments))

    def delegation_token(self, stream: Stream, *, write: bool) -> str:
        """A token that the segment stores believe.

        Args:
            stream: what it is for.
            write: for reading and writing, not for reading alone.

        Returns:
            The token, for a while; empty when authentication is off.

        Raises:
            StreamNotFoundError: there is no such stream.
            AuthenticationError: the user may not do this.
        """
        request = messages.info(stream, _READ_WRITE if write else _READ)
        return self._call("getDelegationToken", request, pb.DelegationToken, missing=_no_stream(stream)).token

    def endpoint(self, stream: Stream, segment_id: int) -> tuple[str, int]:
        """The segment store that serves a segment.

        Returns:
            Host and port.
        """
        request = pb.SegmentId(stream_info=messages.info(stream), segment_id=segment_id)
        reply = self._call("getURI", request, pb.NodeUri)
        # A server bound to every interface announces itself by the unspecified address.
        host = self._rpc.host if reply.endpoint in ("0.0.0.0", "::", "") else reply.endpoint
        return host, reply.port

    def scale(self, stream: Stream, sealed: list[int], new_ranges: list[tuple[float, float]], *, now_ms: int) -> int:
        """Start replacing segments by others that cover the same part of the key space.

        Args:
            stream: the stream.
            sealed: ids of current segments.
            new_ranges: (minimum, maximum) key of each new segment, each in [0, 1].
            now_ms: milliseconds since 1970.

        Returns:
            The epoch to ask `is_scaled` about.

        Raises:
            StreamNotFoundError: there is no such stream.
            OperationFailedError: the ranges don't fit, or the stream would fall below its minimum of segments.
        """
        ranges = [pb.ScaleRequest.KeyRangeEntry(start=start, end=end) for start, end in new_ranges]
        request = pb.ScaleRequest(
            stream_info=messages.info(stream), sealed_segments=sealed, new_key_ranges=ranges, scale_timestamp=now_ms
        )
        reply = self._call("scale", request, pb.ScaleResponse, missing=_no_stream(stream))
        if reply.status != 0:
            # A stream that isn't there is refused like any other.
            self.stream_configuration(stream)
            raise OperationFailedError(
                f'the controller refused to scale stream "{stream}" (status {reply.status}): the new ranges must cover'
                " the old segments, and the stream keeps its minimum number of segments"
            )
        return reply.epoch

    def is_scaled(self, stream: Stream, epoch: int) -> bool:
        """Whether a scale has come to its end.

        Args:
            stream: the stream.
            epoch: what `scale` returned.
        """
        return self._status("checkScale", pb.ScaleStatusRequest(stream_info=messages.info(stream), epoch=epoch)) == 1

    # Transactions

    def begin_transaction(self, stream: Stream, *, lease_ms: int) -> Transaction:
        """Begin a transaction.

        Args:
            stream: the stream.
            lease_ms: for how long it stays open without a ping: 10,000 to 600,000 ms on a server with its defaults.

        Raises:
            StreamNotFoundError: there is no such stream.
            TransactionError: the stream is sealed, or the lease isn't within the server's limits.
        """
        request = pb.CreateTxnRequest(stream_info=messages.info(stream), lease=lease_ms)
        try:
            reply = self._call("createTransaction", request, pb.CreateTxnResponse, missing=_no_stream(stream))
        except OperationFailedError as error:
            raise TransactionError(
                f'no transaction could be begun on stream "{stream}" with a lease of {lease_ms} ms: {error}'
            ) from error
        return Transaction(
            id=messages.transaction_id(reply.txn_id),
            segments=messages.segments(stream, reply.active_segments, reply.delegation_token),
        )

    def ping_transaction(self, stream: Stream, transaction: uuid.UUID, *, lease_ms: int) -> None:
        """Keep a transaction open for another lease.

        Raises:
            TransactionError: it can't be kept open.
        """
        request = pb.PingTxnRequest(
            stream_info=messages.info(stream), txn_id=messages.txn_id(transaction), lease=lease_ms
        )
        status = self._status("pingTransaction", request)
        if status != 0:
            reason = _PING_FAILURES.get(status, f"status {status}")
            raise TransactionError(f'transaction {transaction} on stream "{stream}" can\'t be kept open: {reason}')

    def commit_transaction(self, stream: Stream, transaction: uuid.UUID, *, timestamp: int = _NO_TIMESTAMP) -> None:
        """Ask for a commit; the transaction is then committing, and committed soon after. Committing twice is harmless.

        Args:
            stream: the stream.
            transaction: its id.
            timestamp: the writer's event time, if any.

        Raises:
            TransactionError: it has been aborted, or its lease has run out.
        """
        request = pb.TxnRequest(
            stream_info=messages.info(stream), txn_id=messages.txn_id(transaction), writer_id="", timestamp=timestamp
        )
        status = self._status("commitTransaction", request, missing=_no_transaction(stream, transaction))
        if status != 0:
            raise TransactionError(
                f'transaction {transaction} on stream "{stream}" was aborted, or its lease ran out, before its commit'
            )

    def abort_transaction(self, stream: Stream, transaction: uuid.UUID) -> bool:
        """Throw a transaction's events away.

        Returns:
            False when it couldn't be aborted because it is committing or committed, or is long gone.
        """
        request = pb.TxnRequest(
            stream_info=messages.info(stream), txn_id=messages.txn_id(transaction), timestamp=_NO_TIMESTAMP
        )
        try:
            return self._status("abortTransaction", request, missing=_no_transaction(stream, transaction)) == 0
        except (NotFoundError, OperationFailedError):
            return False

    def transaction_state(self, stream: Stream, transaction: uuid.UUID) -> TransactionState:
        """Where a transaction is in its life."""
        request = pb.TxnRequest(stream_info=messages.info(stream), txn_id=messages.txn_id(transaction))
        return TransactionState(self._status("checkTransactionState", request))

    # Key-value tables

    def create_key_value_table(self, scope: str, table: str, *, partitions: int, key_bytes: int) -> bool:
        """Create a key-value table.

        Args:
            scope: its scope.
            table: its name.
            partitions: number of table segments.
            key_bytes: length of every key.

        Returns:
            True when it was made by this call, False when it was there.

        Raises:
            ScopeNotFoundError: there is no such scope.
        """
        check_name("key-value table", table, longest=MAX_TABLE_NAME_LENGTH)
        config = pb.KeyValueTableConfig(
            scope=scope, kvt_name=table, partition_count=partitions, primary_key_length=key_bytes
        )
        status = self._status("createKeyValueTable", config)
        if status == 3:
            raise ScopeNotFoundError(f'scope "{scope}" does not exist: create it first')
        if status not in (0, 2):
            raise OperationFailedError(
                f'the controller could not create key-value table "{scope}/{table}" (status {status})'
            )
        return status == 0

    def key_value_table_segments(self, scope: str, table: str) -> StreamSegments:
        """A key-value table's segments; waits for a table that is being created.

        Raises:
            KeyValueTableNotFoundError: there is no such table.
        """
        missing = KeyValueTableNotFoundError(f'key-value table "{scope}/{table}" does not exist')
        info = pb.KeyValueTableInfo(scope=scope, kvt_name=table)
        deadline = time.monotonic() + self._rpc.timeout
        while True:
            try:
                reply = self._call("getCurrentSegmentsKeyValueTable", info, pb.SegmentRanges, missing=missing)
                break
            except OperationFailedError as error:
                # The controller has no status for this, only words.
                if "State: CREATING" not in str(error) or time.monotonic() > deadline:
                    raise
                time.sleep(_POLL_S)
        return messages.segments(Stream(scope, f"{table}_kvtable"), reply.segment_ranges, reply.delegation_token)

    def delete_key_value_table(self, scope: str, table: str) -> bool:
        """Delete a key-value table with all its entries.

        Returns:
            False when there was none.
        """
        status = self._status("deleteKeyValueTable", pb.KeyValueTableInfo(scope=scope, kvt_name=table))
        if status not in (0, 2):
            raise OperationFailedError(
                f'the controller could not delete key-value table "{scope}/{table}" (status {status})'
            )
        return status == 0

    def list_key_value_tables(self, scope: str) -> Iterator[str]:
        """A scope's key-value tables, page by page."""
        token = ""
        while True:
            request = pb.KeyValueTablesInScopeRequest(
                scope=pb.ScopeInfo(scope=scope), continuation_token=pb.ContinuationToken(token=token)
            )
            page = self._call("listKeyValueTablesInScope", request, pb.KeyValueTablesInScopeResponse)
            if not page.kvtables:
                return
            yield from (info.kvt_name for info in page.kvtables)
            token = page.continuation_token.token


_PING_FAILURES = {
    1: "the lease is longer than the server allows",
    2: "it has reached its longest time of execution",
    4: "the controller has lost it",
    5: "it is committed",
    6: "it was aborted, or its lease ran out",
    7: "the controller doesn't know it",
}


def _no_stream(stream: Stream) -> StreamNotFoundError:
    return StreamNotFoundError(f'stream "{stream}" does not exist')


def _scope_not_empty(scope: str) -> ScopeNotEmptyError:
    return ScopeNotEmptyError(f'scope "{scope}" is not empty: delete its streams and key-value tables first')


def _no_transaction(stream: Stream, transaction: uuid.UUID) -> NotFoundError:
    return NotFoundError(f'stream "{stream}" has no transaction {transaction}')
