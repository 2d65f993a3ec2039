"""Spark's view of writes: batches, and the epochs of streaming queries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import pyarrow as pa

from pyspark_pravega.connector.log import create_ledger, open_ledger, settle
from pyspark_pravega.connector.option_names import EXACTLY_ONCE
from pyspark_pravega.connector.options import WriteOptions
from pyspark_pravega.connector.plain import told_plainly
from pyspark_pravega.connector.shared import shared_client
from pyspark_pravega.connector.table import TableDefinition
from pyspark_pravega.connector.write.job import TaskMessage, WriteJob
from pyspark_pravega.connector.write.numbered import take_over_numbered
from pyspark_pravega.connector.write.plan import CONTINUOUS, Epoch, WritePlan, check_not_numbered, check_trigger, fenced
from pyspark_pravega.spark.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

__all__ = ["BatchWriter", "EpochWriter", "TaskMessage", "take_over"]


class BatchWriter(WriteJob, DataSourceArrowWriter):
    """A batch write: `write` runs in tasks, `commit` or `abort` on the driver."""

    def __init__(self, definition: TableDefinition, options: WriteOptions) -> None:
        """Begin a job.

        Args:
            definition: what the stream is as a table.
            options: how to write.

        Raises:
            PravegaError: the stream can't be written.
        """
        super().__init__(WritePlan.of(definition, options))

    # Spark's own class of Arrow's batches takes other ones than the class above it.
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:  # type: ignore[override]
        """As `WriteJob.write_task`."""
        return self.write_task(iterator)

    @told_plainly()
    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """As `WriteJob.commit_job`."""
        # Nobody says here when the answer has come; what tells of the commit goes with what dead drivers leave.
        self.commit_job(messages)

    @told_plainly()
    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """As `WriteJob.abort_job`."""
        self.abort_job(messages)


class EpochWriter(DataSourceStreamArrowWriter):
    """The write of one micro-batch of a streaming query without the catalog.

    Spark makes one for the tasks of each micro-batch and another one for its commit, each in a process of its own; so
    the tasks tell which job and query they are of.
    """

    def __init__(self, definition: TableDefinition, options: WriteOptions) -> None:
        """Prepare.

        Args:
            definition: what the stream is as a table.
            options: how to write.

        Raises:
            PravegaError: the stream can't be written.
        """
        self._job = WriteJob(WritePlan.of(definition, options), opened=False)
        if self._job.plan.mode == EXACTLY_ONCE:
            create_ledger(shared_client(definition.settings), definition.stream, to_write=True)

    # Spark's own class of Arrow's batches takes other ones than the class above it.
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:  # type: ignore[override]
        """As `WriteJob.write_task`."""
        return self._job.write_task(iterator)

    @told_plainly()
    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Commit an epoch, unless it is committed already.

        Args:
            messages: one for each partition.
            batchId: the epoch's number.

        Raises:
            TransactionError: a transaction was lost, or another driver has taken the query over.
            UnsupportedOperationError: the query has the continuous trigger.
        """
        if None in messages:
            # Then Spark 4.3 throws the rows away without a call of `write`, and this is the first to be asked.
            check_trigger(self._job.plan, CONTINUOUS)
        task_messages = [message for message in messages if isinstance(message, TaskMessage)]
        if not task_messages:
            return
        self._take_job(task_messages)
        query = task_messages[0].query
        self._job.commit_job(
            messages, None if query is None else Epoch(query=query, number=batchId, run=task_messages[0].run)
        )
        self._job.forget_commit()

    @told_plainly()
    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803
        """Throw an epoch away.

        Args:
            messages: one for each partition; None where a task has failed.
            batchId: the epoch's number.
        """
        task_messages = [message for message in messages if isinstance(message, TaskMessage)]
        if task_messages:
            self._take_job(task_messages)
            self._job.abort_job(messages)

    def _take_job(self, task_messages: Sequence[TaskMessage]) -> None:
        assert task_messages[0].job is not None
        self._job.job = task_messages[0].job


def take_over(plan: WritePlan, query: str, run: str, *, epoch: int | None = None) -> None:
    """Begin, or go on with, a streaming query: from now on other drivers of it can't commit.

    What the last driver has left half done is brought to its end.

    Args:
        plan: how the query writes.
        query: its id, which stays the same when it is restarted from its checkpoint.
        run: this driver.
        epoch: with which it begins, where that is known.

    Raises:
        TransactionError: another driver has taken the query over from this one.
    """
    client = shared_client(plan.settings)
    if plan.numbering is not None:
        if epoch is None:
            raise fenced(plan, query)
        take_over_numbered(plan, run, epoch)
    elif plan.mode == EXACTLY_ONCE:
        ledger = create_ledger(client, plan.stream, to_write=True)
        if ledger.take_over(query, run, check=partial(check_not_numbered, plan)) is None:
            raise fenced(plan, query)
        settle(client, ledger, taken_over=query)
    elif plan.at_once and epoch is not None:
        opened = open_ledger(client, plan.stream)
        if opened is None or opened.progress(query).run is None:
            # It has never written exactly once.
            return
        # With this trigger Spark forgets the end of a micro-batch of which it hadn't noted that it was committed. A
        # batch of its number has other rows from now on, and must not be taken for the one that is there.
        opened.take_over(query, run)
        settle(client, opened, taken_over=query)
        opened.rewind(query, epoch)
