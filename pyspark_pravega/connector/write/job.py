"""A write and its tasks, from the first one to the commit: however many tasks, one commit."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from pyspark_pravega.client import Client, Staged
from pyspark_pravega.client.connections import KnownEndpoints
from pyspark_pravega.client.events import abort_quietly
from pyspark_pravega.client.names import SegmentRange
from pyspark_pravega.client.positions import proper_cut
from pyspark_pravega.clock import now_ms
from pyspark_pravega.connector.log import (
    Ledger,
    Replacement,
    State,
    create_ledger,
    known_endpoints,
    open_ledger,
    take_snapshot,
)
from pyspark_pravega.connector.plain import told_plainly
from pyspark_pravega.connector.shared import shared_client
from pyspark_pravega.connector.write.commit import Committer, Stage
from pyspark_pravega.connector.write.leases import renewed
from pyspark_pravega.connector.write.plan import Epoch, WritePlan, check_stream
from pyspark_pravega.connector.write.task import DirectTask, Task, TransactionTask, Written
from pyspark_pravega.errors import (
    EventEncodeError,
    PravegaError,
    StreamNotFoundError,
    StreamSealedError,
    TransactionError,
)
from pyspark_pravega.spark.datasource import TaskContext, WriterCommitMessage
from pyspark_pravega.together import Begun, together

_QUERY_ID, _RUN_ID = "sql.streaming.queryId", "spark.jobGroup.id"
"""Spark tells a streaming query's tasks under these names whose they are."""
_KNOWN_MS = 10_000
"""For how long tasks believe which segments take events. One that was sealed by then says so; later it may be gone."""


class TaskMessage(WriterCommitMessage):
    """What a task tells the driver."""

    def __init__(self, written: Written, *, job: uuid.UUID | None = None) -> None:
        self.written, self.job = written, job
        self.query: str | None = None
        """The streaming query, and below its driver, where Spark tells the task."""
        self.run: str | None = None

    @property
    def staged(self) -> Staged | None:
        """The transaction with what the task has written."""
        return self.written.staged


@dataclass(frozen=True, kw_only=True)
class CommitReport:
    """What a commit came to."""

    rows: int = 0
    bytes: int = 0
    """Frames included."""
    transactions: int = 0
    """That tasks have written."""
    milliseconds: int = 0
    """From the last task's end to the commit's."""
    repeated: bool = False
    """Whether all of it had been committed before, so that nothing was written again."""


class WriteJob:
    """Writes rows to a stream: all tasks into one transaction, or some into others, which are made one at the end.

    Made on the driver; `write_task` runs in tasks, `commit_job` or `abort_job` on the driver again, perhaps in another
    process: it can be pickled.
    """

    replaces = False
    """Whether the rows take the place of all that are there."""

    def __init__(self, plan: WritePlan, *, opened: bool = True) -> None:
        """Begin a job.

        Args:
            plan: how to write.
            opened: whether it is noted in the commit log, so that attempts that come when it is over are refused.
        """
        self.plan, self.job = plan, uuid.uuid4()
        self._opened, self._ahead = opened, False
        self._endpoints: KnownEndpoints | None = None
        self._segments: tuple[SegmentRange, ...] = ()
        """What takes events, as of `_looked_ms`."""
        self._looked_ms = now_ms()
        if opened:
            client = shared_client(plan.settings)
            ledger = open_ledger(client, plan.stream) if plan.transacts else None
            if ledger is not None:
                together(lambda: check_stream(client, plan), ledger.job(self.job).open)
            elif plan.transacts:
                check_stream(client, plan)
                try:
                    ledger = create_ledger(client, plan.stream, to_write=True)
                except (StreamNotFoundError, StreamSealedError):
                    check_stream(client, plan)
                    raise
                ledger.job(self.job).open()
            else:
                # Else each task would ask for the segments.
                self._segments = check_stream(client, plan)
            self._endpoints = known_endpoints(client, plan.stream)

    def begin_ahead(self) -> None:
        """Begin the transaction that its tasks share, while they are being started; nothing is waited for.

        For jobs whose first rows come at once: a transaction that was begun long before them may have been overtaken by
        a scale. Asked for before the job is pickled.
        """
        if self._opened and self.plan.transacts:
            self._ahead = True
            Begun(self._share)

    def _share(self) -> None:
        client, stream = shared_client(self.plan.settings), self.plan.stream
        # Where it fails a task begins one, and is told why that fails.
        with suppress(PravegaError):
            transaction = client.controller.begin_transaction(stream, lease_ms=self.plan.lease_ms)
            if not self.ledger().job(self.job).share(transaction):
                abort_quietly(client, stream, transaction.id)

    @told_plainly()
    def write_task(self, batches: Iterator[pa.RecordBatch]) -> TaskMessage:
        """Write a task's rows.

        Args:
            batches: with the table's columns.

        Returns:
            What `commit_job` needs to know.

        Raises:
            PravegaError: they can't be written.
        """
        context = TaskContext.get()
        if context is None:
            return self.write_partition(0, batches)
        message = self.write_partition(context.partitionId(), batches)
        message.query, message.run = context.getLocalProperty(_QUERY_ID), context.getLocalProperty(_RUN_ID)
        return message

    def write_partition(self, partition: int, batches: Iterator[pa.RecordBatch]) -> TaskMessage:
        """As `write_task`, wherever it runs.

        Args:
            partition: which of the job's partitions it is, from 0.
            batches: with the table's columns.
        """
        task = self._task(partition)
        try:
            for batch in batches:
                task.add(batch)
            return TaskMessage(task.finish(), job=self.job)
        except EventEncodeError as error:
            task.abort()
            raise EventEncodeError(f'rows can\'t be written to stream "{self.plan.stream}": {error}') from error
        except BaseException:
            task.abort()
            raise

    def commit_job(self, messages: Sequence[WriterCommitMessage | None], epoch: Epoch | None = None) -> CommitReport:
        """Make everything visible at once. Doing it again after a success is harmless, until `forget_commit`.

        Args:
            messages: one for each partition, of the attempts that count.
            epoch: what the job is a part of, if anything.

        Raises:
            TransactionError: a transaction was lost, or another driver has taken the query over; nothing is visible.
        """
        begun = time.monotonic()
        tasks_written = [m.written for m in messages if isinstance(m, TaskMessage)]
        stage = Stage.COMMITTED
        if self.plan.transacts:
            stage = self.committer().commit(
                tasks_written,
                len(messages),
                epoch or self._own_epoch(),
                replaces=self.replaces,
                replacement=self.replacement,
                kept_alive=self.kept_alive(len(messages)),
            )
        return CommitReport(
            rows=sum(written.rows for written in tasks_written),
            bytes=sum(written.bytes for written in tasks_written),
            transactions=len({one.staged.transaction.id for one in tasks_written if one.staged is not None}),
            milliseconds=round((time.monotonic() - begun) * 1000),
            repeated=stage is Stage.REPEATED,
        )

    def abort_job(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Throw everything away.

        Args:
            messages: one for each partition; None where a task has failed.
        """
        ledger = self._log_if_any()
        if ledger is not None:
            self._committer(ledger).abort(len(messages))

    def forget_commit(self) -> None:
        """Let the log forget that the job was committed: its caller has the answer, and won't retry."""
        ledger = self._log_if_any()
        if ledger is not None:
            ledger.job(self.job).forget_commit()

    def kept_alive(self, partitions: int) -> AbstractContextManager[None]:
        """Keep the transactions of all attempts open meanwhile, from a thread.

        Args:
            partitions: number of the job's partitions.
        """
        return renewed(partial(self.keep_alive, partitions), self.plan.lease_ms / 3000, self.job)

    def stand_for(self, other: WriteJob) -> None:
        """Take another job's place in the log: its entries are this one's from here on.

        Args:
            other: a job on the same table.
        """
        self.job = other.job

    def keep_alive(self, partitions: int) -> None:
        """Renew the leases of all attempts' transactions once.

        Args:
            partitions: number of the job's partitions.
        """
        if not self.plan.transacts:
            return
        controller = shared_client(self.plan.settings).controller
        for transaction in self.ledger().job(self.job).attempts(partitions):
            try:
                controller.ping_transaction(self.plan.stream, transaction, lease_ms=self.plan.lease_ms)
            except PravegaError:
                # A lost attempt isn't the job's end: another one may win, and commit finds out.
                continue

    def _task(self, partition: int) -> Task:
        client = self._client()
        if not self.plan.transacts:
            is_known = abs(now_ms() - self._looked_ms) < _KNOWN_MS
            return DirectTask(client, self.plan, self._segments if is_known else ())
        return TransactionTask(
            client,
            self.ledger().job(self.job),
            self.plan,
            partition=partition,
            late=not self._opened,
            ahead=self._ahead,
        )

    def _client(self) -> Client:
        """The cluster, in a task."""
        client = shared_client(self.plan.settings)
        if self._endpoints is not None:
            client.pool.believe(self._endpoints)
        return client

    def _own_epoch(self) -> Epoch | None:
        if self.plan.query is None or self.plan.epoch is None:
            return None
        return Epoch(query=self.plan.query, number=self.plan.epoch)

    def committer(self) -> Committer:
        """What makes its rows a version, or a part of a commit of several tables."""
        return self._committer(self.ledger())

    def _committer(self, ledger: Ledger) -> Committer:
        return Committer(shared_client(self.plan.settings), ledger, self.plan, self.job, opened=self._opened)

    def replacement(self, ledger: Ledger, state: State) -> Replacement | None:
        """What the job's rows replace.

        Args:
            ledger: the stream's commit log.
            state: its state, on which the commit will be based.
        """
        if not state.truncation_due:
            return None
        client, stream = shared_client(self.plan.settings), self.plan.stream
        return Replacement(begins=dict(proper_cut(client, stream, take_snapshot(client, stream, ledger).cut)))

    def _log_if_any(self) -> Ledger | None:
        """None where the stream was dropped, and its transactions with it; or where the mode needs none."""
        if not self.plan.transacts:
            return None
        return open_ledger(shared_client(self.plan.settings), self.plan.stream)

    def ledger(self) -> Ledger:
        """The commit log of the stream that it writes to.

        Raises:
            TransactionError: the stream was dropped.
        """
        ledger = self._log_if_any()
        if ledger is None:
            # Making it anew here would leave it behind: its stream is gone, or going.
            raise TransactionError(
                f'stream "{self.plan.stream}" was dropped while a job wrote to it: nothing was written'
            )
        return ledger
