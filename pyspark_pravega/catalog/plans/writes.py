"""Writes: settled before Spark plans their query, kept alive while their tasks run, committed or thrown away."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace

from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StructType

from pyspark_pravega.catalog.plans.compactions import Compactions
from pyspark_pravega.catalog.plans.transactions import OpenTransaction
from pyspark_pravega.client import Stream, StreamCut
from pyspark_pravega.connector.key_value import KeyValueJob, KeyValuePlan
from pyspark_pravega.connector.option_names import CATALOG_WRITE_KEYS, EXACTLY_ONCE
from pyspark_pravega.connector.options import WriteOptions, kept_lease_ms
from pyspark_pravega.connector.stream import SourceOffset
from pyspark_pravega.connector.table import TableDefinition
from pyspark_pravega.connector.write import (
    REAL_TIME,
    CommitReport,
    DeltaJob,
    Epoch,
    NumberedJob,
    OverwritingJob,
    ReadingJob,
    ReadSet,
    RowOrigins,
    StagedTable,
    WriteJob,
    WritePlan,
    check_rows,
    check_trigger,
    numbered,
    without_coordinates,
)
from pyspark_pravega.errors import ConfigurationError

Plan = WritePlan | KeyValuePlan
Job = WriteJob | KeyValueJob


def merges_schema(options: Mapping[str, str]) -> bool:
    """Whether a write may add its rows' columns to the table.

    Args:
        options: the write's options.

    Raises:
        ConfigurationError: an option is unknown or malformed.
    """
    return WriteOptions.parse(options, known=CATALOG_WRITE_KEYS).merge_schema


def written_columns(
    definition: TableDefinition, options: Mapping[str, str], trigger: str | None, rows: StructType
) -> StructType:
    """A streaming query's columns, without those that only tell where its rows come from.

    Args:
        definition: what the stream is as a table.
        options: the write's options.
        trigger: as of `plan_write`.
        rows: all of its columns.
    """
    mode = WriteOptions.parse(options, known=CATALOG_WRITE_KEYS).writer_mode or definition.properties.writer_mode
    return without_coordinates(rows, definition.schema) if trigger == REAL_TIME and mode == EXACTLY_ONCE else rows


def plan_write(
    definition: TableDefinition,
    options: Mapping[str, str],
    trigger: str | None = None,
    *,
    checks: Sequence[str] | None = None,
    rows: StructType | None = None,
    case_sensitive: bool = False,
    staged: StagedTable | None = None,
    origins: RowOrigins | None = None,
) -> WritePlan:
    """Settle a write to a stream, before Spark plans its query.

    Args:
        definition: what the stream is as a table.
        options: the write's options.
        trigger: of a streaming query, where it isn't one of micro-batches; see `check_trigger`.
        checks: see `WritePlan.of`.
        rows: the columns of a streaming query's rows, which Spark doesn't hold against the table's; else None.
        case_sensitive: whether names of theirs that differ from the table's in case are different ones.
        staged: what the table is to become with the rows, if that is something else.
        origins: where a real-time query's rows come from, where that is known.

    Raises:
        ConfigurationError: an option is unknown, malformed, or contradicts others.
        UnsupportedOperationError: the trigger can't be had with them, or with this query.
        EventEncodeError: the rows' columns aren't the table's.
    """
    lease_ms = kept_lease_ms(definition.settings.timeout)
    parsed = WriteOptions.parse(options, known=CATALOG_WRITE_KEYS, lease_ms=lease_ms)
    plan = replace(WritePlan.of(definition, parsed, checks=checks, staged=staged), at_once=trigger == REAL_TIME)
    check_trigger(plan, trigger)
    if trigger == REAL_TIME and plan.mode == EXACTLY_ONCE:
        plan = numbered(plan, definition, parsed, rows, origins)
    if rows is not None:
        if plan.numbering is not None:
            rows = without_coordinates(rows, definition.schema)
        check_rows(plan, rows, definition.schema, case_sensitive=case_sensitive)
    return plan


@dataclass(frozen=True, kw_only=True)
class RealTimeBatch:
    """A batch of a real-time query."""

    run: str
    """The query's driver."""
    epoch: int
    """Its number."""
    start: Sequence[str | None]
    """Where it begins in each of the query's sources, as the checkpoint tells; empty where it tells nothing."""

    def position(self, stream: Stream) -> StreamCut | None:
        """Where it begins in a stream, if it is known."""
        for text in self.start:
            with suppress(ConfigurationError):
                offset = None if text is None else SourceOffset.from_json(text)
                if offset is not None and stream in offset:
                    return offset[stream].cut
        return None


def begin_job(
    plan: Plan,
    partitions: int,
    *,
    overwrite: bool = False,
    changes: bool = False,
    batch: RealTimeBatch | None = None,
    streaming: bool = False,
) -> Job:
    """Begin a write, or a micro-batch of a streaming query. `WriteJobs.keep_alive` comes next.

    Args:
        plan: how to write.
        partitions: how many partitions the write has.
        overwrite: whether its rows take the place of those that are there.
        changes: whether its rows say what is to become of them.
        batch: which one of a real-time query it is.
        streaming: whether it is a micro-batch, whose rows come as soon as its tasks run.

    Raises:
        UnsupportedOperationError: it can't be done in this writer mode.
    """
    if isinstance(plan, KeyValuePlan):
        return KeyValueJob(plan, partitions, changes=changes, overwrite=overwrite and not changes)
    if plan.numbering is not None:
        assert batch is not None
        start = {source: batch.position(source) for source in plan.numbering.sources}
        return NumberedJob(plan, run=batch.run, epoch=batch.epoch, start=start)
    kind = DeltaJob if changes else OverwritingJob if overwrite else WriteJob
    job = kind(plan)
    if streaming:
        job.begin_ahead()
    return job


def id_in_log(job: Job) -> str | None:
    """Under which id the written table's commit log knows a write that replaces or changes rows; None for others."""
    return str(job.job) if isinstance(job, ReadingJob) else None


class WriteJobs:
    """Keeps the transactions of writes open until they end. Safe for use by several threads.

    Nothing of a write is known only here: another process that has its job can resume it.
    """

    def __init__(self) -> None:
        self._running: dict[uuid.UUID, ExitStack] = {}
        self._compactions = Compactions()

    def keep_alive(self, job: Job, partitions: int) -> None:
        """Keep the transactions of a write open from now on, whichever process has begun it.

        Args:
            job: the write.
            partitions: how many partitions it has.
        """
        if isinstance(job, KeyValueJob) or not job.plan.transacts:
            return
        running = self._running[job.job] = ExitStack()
        running.enter_context(job.kept_alive(partitions))

    def commit(
        self,
        job: Job,
        messages: Sequence[WriterCommitMessage | None],
        epoch: Epoch | None = None,
        seen: Sequence[ReadSet] = (),
    ) -> CommitReport:
        """Make a write visible. Doing it again is harmless.

        Args:
            job: the write.
            messages: those of the tasks that count.
            epoch: the streaming query's micro-batch that it is.
            seen: where rows are replaced or changed, what the statement has read of them.

        Raises:
            TransactionError: a transaction was lost, or another driver has taken the query over; nothing is visible.
            WriteConflictError: what is to be replaced isn't what the statement has read; nothing is visible.
        """
        if isinstance(job, KeyValueJob):
            return job.commit_job(messages)
        # From here on the commit itself keeps them open.
        self.stop(job.job)
        if isinstance(job, ReadingJob):
            report = job.commit_job(messages, epoch, seen)
        else:
            report = job.commit_job(messages, epoch)
        self._compactions.consider(job.plan)
        return report

    def take_in(
        self,
        transaction: OpenTransaction,
        job: Job,
        messages: Sequence[WriterCommitMessage | None],
        cached: Mapping[Stream, Sequence[ReadSet]],
    ) -> CommitReport:
        """Make a write a part of a transaction: its transactions stay open until that ends.

        Args:
            transaction: the transaction.
            job: the write.
            messages: as of `commit`.
            cached: what the statement has read that wasn't planned in the transaction.

        Raises:
            TransactionError: a transaction was lost.
            UnsupportedOperationError: the statement doesn't know what the transaction has written before.
        """
        assert isinstance(job, WriteJob)
        for stream, sets in cached.items():
            for seen in sets:
                transaction.note_cached(stream, seen)
        begun = time.monotonic()
        prepared = transaction.write(job, messages, self.stop)
        return CommitReport(
            rows=0 if prepared is None else prepared.intent.rows,
            bytes=0 if prepared is None else prepared.intent.bytes,
            transactions=int(prepared is not None),
            milliseconds=round((time.monotonic() - begun) * 1000),
        )

    def consider(self, plan: WritePlan) -> None:
        """Look whether a commit was the one after which a table is compacted.

        Args:
            plan: how it was written.
        """
        self._compactions.consider(plan)

    def abort(self, job: Job, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Throw a write away.

        Args:
            job: the write.
            messages: those of its tasks; None where one has failed.
        """
        if not isinstance(job, KeyValueJob):
            self.stop(job.job)
        job.abort_job(messages)

    def stop(self, id: uuid.UUID) -> None:
        """Renew the leases of a write no more.

        Args:
            id: the job's.
        """
        running = self._running.pop(id, None)
        if running is not None:
            running.close()


def forget_commit(job: Job) -> None:
    """Let the commit log forget that a write was committed: its caller has the answer.

    Args:
        job: the write.
    """
    if not isinstance(job, KeyValueJob):
        job.forget_commit()
