"""Batch writes: however many tasks, one transaction."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from pyspark_pravega.client import Transaction
from pyspark_pravega.client.gathering import Staged, gather
from pyspark_pravega.client.transaction_writer import abort_quietly
from pyspark_pravega.connector.definition import TableDefinition
from pyspark_pravega.connector.ledger import Intent, Ledger, State, create_ledger, open_ledger
from pyspark_pravega.connector.options import WriteOptions
from pyspark_pravega.connector.recovery import finish, settle
from pyspark_pravega.connector.shared import shared_client
from pyspark_pravega.connector.task import TaskWriter
from pyspark_pravega.errors import ConflictError, PravegaError, TransactionError

_RECENT_COMMITS = 16
_log = logging.getLogger(__name__)


class TaskMessage(WriterCommitMessage):
    """What a task tells the driver."""

    def __init__(self, staged: Staged | None) -> None:
        self.staged = staged


class StreamWriter(DataSourceArrowWriter):
    """Writes rows to a stream: every task into a transaction of its own, and at the end all of them as one.

    Made on the driver; `write` runs in tasks, `commit` or `abort` on the driver again.
    """

    def __init__(self, definition: TableDefinition, options: WriteOptions) -> None:
        """Open a job.

        Args:
            definition: what the stream is as a table.
            options: how to write.

        Raises:
            PravegaError: the stream can't be written.
        """
        self._settings, self._stream = definition.settings, definition.stream
        self._codec = definition.for_writing()
        self._routing_key = options.routing_key or definition.routing_key
        self._lease_ms = options.transaction_timeout_ms
        self.job = uuid.uuid4()
        create_ledger(shared_client(self._settings), self._stream).open_job(self.job)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write a task's rows.

        Args:
            iterator: batches with the table's columns.

        Returns:
            What `commit` needs to know.
        """
        context = TaskContext.get()
        client = shared_client(self._settings)
        task = TaskWriter(
            client,
            self._ledger(),
            self._codec,
            stream=self._stream,
            job=self.job,
            partition=context.partitionId() if context else 0,
            routing_key=self._routing_key,
            lease_ms=self._lease_ms,
        )
        try:
            for batch in iterator:
                task.add(batch)
            return TaskMessage(task.finish())
        except BaseException:
            task.abort()
            raise

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Make everything visible at once. Doing it again after a success is harmless.

        Args:
            messages: one for each partition, of the attempts that count.

        Raises:
            TransactionError: a transaction was lost; nothing is visible.
        """
        ledger = self._ledger()
        written = [m.staged for m in messages if isinstance(m, TaskMessage) and m.staged is not None]
        keep = {staged.transaction.id for staged in written}
        ledger.close_job(self.job)
        if not self._is_committed(ledger):
            self._abort_attempts(ledger, len(messages), keep=keep)
            if written:
                try:
                    with self.kept_alive(len(messages)):
                        target = gather(shared_client(self._settings), written)
                        state = self._promise(ledger, target, written)
                except PravegaError:
                    self._abort_attempts(ledger, len(messages), keep=set())
                    raise
                self._keep_promise(ledger, state)
        # The committed one among them stays so: the controller aborts nothing that is committed.
        self._abort_attempts(ledger, len(messages), keep=set())
        ledger.forget_attempts(self.job, len(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Throw everything away.

        Args:
            messages: one for each partition; None where a task has failed.
        """
        ledger = open_ledger(shared_client(self._settings), self._stream)
        if ledger is None:
            # The stream was dropped, and its transactions with it.
            return
        ledger.close_job(self.job)
        self._abort_attempts(ledger, len(messages), keep=set())
        ledger.forget_attempts(self.job, len(messages))

    @contextmanager
    def kept_alive(self, partitions: int) -> Iterator[None]:
        """Keep the transactions of all attempts open meanwhile, from a thread.

        Args:
            partitions: number of the job's partitions.
        """
        ended = threading.Event()

        def run() -> None:
            while not ended.wait(self._lease_ms / 3000):
                try:
                    self.keep_alive(partitions)
                except PravegaError as error:
                    _log.warning("transactions of job %s could not be kept open, trying again: %s", self.job, error)

        threading.Thread(target=run, name=f"job-{self.job}", daemon=True).start()
        try:
            yield
        finally:
            ended.set()

    def keep_alive(self, partitions: int) -> None:
        """Renew the leases of all attempts' transactions once.

        Args:
            partitions: number of the job's partitions.
        """
        controller = shared_client(self._settings).controller
        for transaction in self._ledger().attempts(self.job, partitions):
            try:
                controller.ping_transaction(self._stream, transaction, lease_ms=self._lease_ms)
            except PravegaError:
                # A lost attempt isn't the job's end: another one may win, and commit finds out.
                continue

    def _is_committed(self, ledger: Ledger) -> bool:
        """Whether the log knows this job already: then this is a second try after the first one's answer was lost."""
        state = ledger.state()
        if state.pending is not None and state.pending.job == str(self.job):
            self._keep_promise(ledger, state)
            return True
        recent = range(state.version, max(0, state.version - _RECENT_COMMITS), -1)
        return any(commit.job == str(self.job) for commit in ledger.commits(recent))

    def _promise(self, ledger: Ledger, target: Transaction, written: list[Staged]) -> State:
        """Record the commit in the log, after whatever is in progress there."""
        client = shared_client(self._settings)
        intent = Intent(
            job=str(self.job),
            transactions=(str(target.id),),
            rows=sum(staged.events for staged in written),
            bytes=sum(staged.bytes for staged in written),
            started_at=time.time_ns() // 1_000_000,
        )
        while True:
            state = settle(client, ledger)
            client.controller.ping_transaction(self._stream, target.id, lease_ms=self._lease_ms)
            try:
                return ledger.begin(state, intent)
            except ConflictError:
                continue

    def _keep_promise(self, ledger: Ledger, state: State) -> None:
        try:
            finish(shared_client(self._settings), ledger, state)
        except ConflictError:
            # Another writer was waiting for this commit, and has completed its entry.
            return
        except TransactionError:
            self._withdraw(ledger)
            raise

    def _withdraw(self, ledger: Ledger) -> None:
        state = ledger.state()
        if state.pending is not None and state.pending.job == str(self.job):
            try:
                ledger.withdraw(state)
            except ConflictError:
                return

    def _abort_attempts(self, ledger: Ledger, partitions: int, *, keep: set[uuid.UUID]) -> None:
        client = shared_client(self._settings)
        for transaction in ledger.attempts(self.job, partitions):
            if transaction not in keep:
                abort_quietly(client, self._stream, transaction)

    def _ledger(self) -> Ledger:
        ledger = open_ledger(shared_client(self._settings), self._stream)
        if ledger is None:
            # Making it anew here would leave it behind: its stream is gone, or going.
            raise TransactionError(f'stream "{self._stream}" was dropped while a job wrote to it: nothing was written')
        return ledger
