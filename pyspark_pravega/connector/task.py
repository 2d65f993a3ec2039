"""What a writing task does: its rows become events in a transaction of its own."""

from __future__ import annotations

import uuid

import pyarrow as pa

from pyspark_pravega.client import Client, Stream, Transaction
from pyspark_pravega.client.gathering import Staged
from pyspark_pravega.client.transaction_writer import LeaseKeeper, TransactionWriter, abort_quietly
from pyspark_pravega.connector.ledger import Ledger
from pyspark_pravega.errors import TransactionError
from pyspark_pravega.serde.codec import Codec


class TaskWriter:
    """Writes one task attempt's rows. Used by one thread."""

    def __init__(
        self,
        client: Client,
        ledger: Ledger,
        codec: Codec,
        *,
        stream: Stream,
        job: uuid.UUID,
        partition: int,
        routing_key: str | None,
        lease_ms: int,
    ) -> None:
        """Prepare; nothing is sent before the first row.

        Args:
            client: the cluster.
            ledger: the stream's commit log.
            codec: encodes rows.
            stream: where to write.
            job: the job's id.
            partition: the task's partition.
            routing_key: the column with the events' routing keys, if any.
            lease_ms: the transaction's lease.
        """
        self._client, self._ledger, self._codec, self._stream = client, ledger, codec, stream
        self._job, self._partition, self._routing_key, self._lease_ms = job, partition, routing_key, lease_ms
        self._transaction: Transaction | None = None
        self._keeper: LeaseKeeper | None = None
        self._writer: TransactionWriter | None = None

    def add(self, batch: pa.RecordBatch) -> None:
        """Write a batch.

        Args:
            batch: rows with the table's columns.

        Raises:
            EventEncodeError: a row can't be an event.
            TransactionError: the transaction was lost.
        """
        if not batch.num_rows:
            return
        writer = self._writer or self._begin()
        assert self._keeper is not None
        self._keeper.check()
        keys = None if self._routing_key is None else batch.column(self._routing_key).cast(pa.string()).fill_null("")
        writer.write_batch(self._codec.encode(batch), keys)

    def finish(self) -> Staged | None:
        """Wait until everything is stored.

        Returns:
            What was written, none of it visible yet; None when there were no rows.

        Raises:
            PravegaError: something couldn't be stored.
        """
        if self._transaction is None:
            return None
        assert self._keeper is not None
        assert self._writer is not None
        self._writer.flush()
        self._writer.close()
        self._keeper.stop()
        # From here on the job keeps it alive.
        self._client.controller.ping_transaction(self._stream, self._transaction.id, lease_ms=self._lease_ms)
        return Staged(transaction=self._transaction, written=self._writer.written)

    def abort(self) -> None:
        """Throw away what was written, as far as that can be done from here."""
        if self._writer is not None:
            self._writer.close()
        if self._keeper is not None:
            self._keeper.stop()
        if self._transaction is not None:
            abort_quietly(self._client, self._stream, self._transaction.id)

    def _begin(self) -> TransactionWriter:
        transaction = self._client.controller.begin_transaction(self._stream, lease_ms=self._lease_ms)
        self._transaction = transaction
        self._keeper = LeaseKeeper(self._client, self._stream, transaction.id, self._lease_ms)
        if not self._ledger.add_attempt(self._job, self._partition, transaction.id):
            raise TransactionError(
                f'the job that writes to stream "{self._stream}" is over: this attempt at partition '
                f"{self._partition} came too late, and what it wrote is thrown away"
            )
        # Without keys whole batches are spread over the segments, each task beginning at another one.
        self._writer = TransactionWriter(self._client, transaction, first_segment=self._partition)
        return self._writer
