"""The controller's calls about transactions."""

from __future__ import annotations

import uuid

from pyspark_pravega.client.controller import controller_pb2 as pb
from pyspark_pravega.client.controller import messages
from pyspark_pravega.client.controller.calls import NO_TIMESTAMP, no_stream, stream_sealed
from pyspark_pravega.client.controller.segments import ControllerSegments
from pyspark_pravega.client.names import Stream
from pyspark_pravega.client.transactions import Transaction, TransactionState
from pyspark_pravega.deadlines import Limit, Retries
from pyspark_pravega.errors import (
    ControllerUnavailableError,
    NotFoundError,
    OperationFailedError,
    TransactionError,
    UnclearAnswerError,
)

MIN_LEASE_MS = 10_000
MAX_LEASE_MS = 600_000
"""What a server with its defaults allows."""

_PING_FAILURES = {
    1: "the lease is longer than the server allows",
    2: "it has reached its longest time of execution",
    5: "it is committed",
    6: "it was aborted, or its lease ran out",
    7: "the controller doesn't know it",
}


_DISCONNECTED = 4
_UNCLEAR_S, _UNCLEAR_PAUSE_S = 0.5, 0.1
_COMMITTED = frozenset({TransactionState.COMMITTING, TransactionState.COMMITTED})


class ControllerTransactions(ControllerSegments):
    """A transaction's events appear all together with its commit, or never."""

    def begin_transaction(self, stream: Stream, *, lease_ms: int) -> Transaction:
        """Begin a transaction.

        Args:
            stream: the stream.
            lease_ms: for how long it stays open without a ping: 10,000 to 600,000 ms on a server with its defaults.

        Raises:
            StreamNotFoundError: there is no such stream.
            StreamSealedError: it is sealed.
            TransactionError: the lease isn't within the server's limits, or the server failed.
        """
        if lease_ms < 1:
            raise TransactionError(
                f'no transaction could be begun on stream "{stream}" with a lease of {lease_ms} ms: {_LIMITS}'
            )
        request = pb.CreateTxnRequest(stream_info=messages.info(stream), lease=lease_ms)
        try:
            reply = self._begin(stream, request)
        except OperationFailedError as error:
            # While a stream is being sealed it still has segments; the server has only words for that.
            if "State: SEALING" in str(error) or not self.current_segments(stream).ids:
                raise stream_sealed(stream, "written to") from None
            # Other limits may be configured: the server's word counts.
            hint = "" if MIN_LEASE_MS <= lease_ms <= MAX_LEASE_MS else f"; {_LIMITS}"
            raise TransactionError(
                f'no transaction could be begun on stream "{stream}" with a lease of {lease_ms} ms: {error}{hint}'
            ) from error
        return Transaction(
            id=messages.transaction_id(reply.txn_id),
            # Without its token: a transaction travels between processes, and each asks for tokens of its own.
            segments=messages.segments(stream, reply.active_segments, ""),
        )

    def _begin(self, stream: Stream, request: pb.CreateTxnRequest) -> pb.CreateTxnResponse:
        """Of a transaction of which nobody knows only its lease is left."""
        limit, missing = Limit(_UNCLEAR_S), no_stream(stream)
        while True:
            try:
                return self._call("createTransaction", request, pb.CreateTxnResponse, missing=missing)
            except UnclearAnswerError as error:
                if "State: SEALING" in str(error) or not limit.wait(_UNCLEAR_PAUSE_S):
                    raise

    def ping_transaction(self, stream: Stream, transaction: uuid.UUID, *, lease_ms: int) -> None:
        """Keep a transaction open for another lease.

        Args:
            stream: the stream.
            transaction: its id.
            lease_ms: from now on; the server takes any up to its limit, also a very short one.

        Raises:
            TransactionError: it can't be kept open.
            ControllerUnavailableError: no controller would say.
        """
        if lease_ms < 1:
            raise TransactionError(
                f'transaction {transaction} on stream "{stream}" can\'t be kept open for {lease_ms} ms: {_LIMITS}'
            )
        request = pb.PingTxnRequest(
            stream_info=messages.info(stream), txn_id=messages.txn_id(transaction), lease=lease_ms
        )
        retries = Retries(self._rpc.timeout)
        while (status := self._status("pingTransaction", request)) == _DISCONNECTED:
            # A controller that shuts down answers so; another one knows the transaction.
            if not retries.again():
                raise ControllerUnavailableError(
                    f'transaction {transaction} on stream "{stream}" could not be kept open: the controller is leaving'
                )
        if status != 0:
            reason = _PING_FAILURES.get(status, f"status {status}")
            hint = f" ({lease_ms} ms; {_LIMITS})" if status == 1 else ""
            raise TransactionError(
                f'transaction {transaction} on stream "{stream}" can\'t be kept open: {reason}{hint}'
            )

    def commit_transaction(
        self, stream: Stream, transaction: uuid.UUID, *, timestamp: int = NO_TIMESTAMP, writer: str = ""
    ) -> None:
        """Ask for a commit; the transaction is then committing, and committed soon after.

        To ask again is harmless, but not at the same time while the stream is scaled
        (docs/internals/controller-facts.md).

        Args:
            stream: the stream.
            transaction: its id.
            timestamp: the writer's event time, if any: it counts as noted (`note_timestamp`) when the commit is done.
            writer: the writer's id; needed with a timestamp.

        Raises:
            TransactionError: it has been aborted, its lease has run out, or the stream doesn't know it; or the
                controller fails, again and again, and it still is open.
        """
        if timestamp != NO_TIMESTAMP and not writer:
            raise TransactionError(
                f'transaction {transaction} on stream "{stream}": a timestamp needs the id of the writer that it is of'
            )
        retries = Retries(self._rpc.timeout)
        request = pb.TxnRequest(
            stream_info=messages.info(stream),
            txn_id=messages.txn_id(transaction),
            writer_id=writer,
            timestamp=timestamp,
        )
        missing, limit = _no_transaction(stream, transaction), Limit(self._rpc.timeout)
        while True:
            why = ""
            try:
                if self._status("commitTransaction", request, missing=missing) == 0:
                    return
            except OperationFailedError as error:
                why = f" ({error})"
            # The answer alone says little: the commit may be made all the same.
            state = self.transaction_state(stream, transaction)
            if state in _COMMITTED:
                return
            if state != TransactionState.OPEN:
                raise TransactionError(
                    f'transaction {transaction} on stream "{stream}" was aborted, or its lease ran out, before its '
                    f"commit; it is {state.name.lower()}"
                )
            # A call may have tried for as long already.
            if not limit.left or not retries.again():
                raise TransactionError(
                    f'transaction {transaction} on stream "{stream}" could not be committed: the controller fails, '
                    f"again and again, and it still is open{why}"
                )

    def abort_transaction(self, stream: Stream, transaction: uuid.UUID) -> bool:
        """Throw a transaction's events away.

        Returns:
            False when it couldn't be aborted because it is committing or committed, or is long gone.

        Raises:
            TransactionError: the controller says that it failed, again and again, and the transaction is still open.
        """
        request = pb.TxnRequest(
            stream_info=messages.info(stream), txn_id=messages.txn_id(transaction), timestamp=NO_TIMESTAMP
        )
        missing, limit = _no_transaction(stream, transaction), Limit(self._rpc.timeout)
        retries = Retries(self._rpc.timeout)
        while True:
            try:
                if self._status("abortTransaction", request, missing=missing) == 0:
                    return True
            except (NotFoundError, OperationFailedError):
                pass
            if self.transaction_state(stream, transaction) != TransactionState.OPEN:
                return False
            if not limit.left or not retries.again():
                raise TransactionError(
                    f'transaction {transaction} on stream "{stream}" couldn\'t be aborted: it stays open until its '
                    "lease runs out"
                )

    def transaction_state(self, stream: Stream, transaction: uuid.UUID) -> TransactionState:
        """Where a transaction is in its life; of a stream that isn't there every transaction is unknown."""
        request = pb.TxnRequest(stream_info=messages.info(stream), txn_id=messages.txn_id(transaction))
        return TransactionState(self._status("checkTransactionState", request))

    def completed_transactions(self, stream: Stream) -> dict[uuid.UUID, TransactionState]:
        """Transactions that came to their end lately. There is no such call for open ones.

        Don't rely on it: Pravega 0.13 finds none as soon as transactions of a second stream have ended, too. Ask for a
        transaction's state (`transaction_state`) instead.

        Returns:
            Id to `COMMITTED` or `ABORTED`; up to some hundreds of them.

        Raises:
            UnsupportedOperationError: the server is Pravega 0.11, which has no such call.
        """
        request = pb.ListCompletedTxnRequest(stream_info=messages.info(stream))
        reply = self._call("listCompletedTransactions", request, pb.ListCompletedTxnResponse, missing=no_stream(stream))
        states = (TransactionState.COMMITTED, TransactionState.ABORTED)
        return {messages.transaction_id(completed.txn_id): states[completed.status] for completed in reply.response}


_LIMITS = f"a server with its defaults allows leases of {MIN_LEASE_MS:,} to {MAX_LEASE_MS:,} ms"


def _no_transaction(stream: Stream, transaction: uuid.UUID) -> NotFoundError:
    return NotFoundError(f'stream "{stream}" has no transaction {transaction}')
