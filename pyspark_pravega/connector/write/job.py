"""A write from its first task to its commit: however many tasks, one commit."""

from __future__ import annotations

import time
import uuid
from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from pyspark_pravega.client import Staged, Transaction
from pyspark_pravega.client.connections import Places
from pyspark_pravega.client.events import abort_quietly
from pyspark_pravega.client.positions import proper_cut
from pyspark_pravega.client.segments import gather_by_epoch
from pyspark_pravega.clock import now_ms
from pyspark_pravega.connector.log import (
    Intent,
    Ledger,
    Progress,
    Replacement,
    State,
    clean,
    create_ledger,
    finish,
    is_any_taken,
    is_whole,
    not_known_yet,
    open_ledger,
    places,
    settle,
    take_snapshot,
    withdraw,
)
from pyspark_pravega.connector.option_names import EXACTLY_ONCE
from pyspark_pravega.connector.options import MAX_LEASE_MS
from pyspark_pravega.connector.plain import told_plainly
from pyspark_pravega.connector.shared import shared_client
from pyspark_pravega.connector.write.leases import renewed, told_of_leases
from pyspark_pravega.connector.write.plan import WRITER, Epoch, WritePlan, check_stream, fenced
from pyspark_pravega.connector.write.task import DirectTask, Task, TransactionTask, Written
from pyspark_pravega.deadlines import Retries
from pyspark_pravega.errors import (
    ConflictError,
    EventEncodeError,
    PravegaError,
    StreamNotFoundError,
    StreamSealedError,
    TableChangedError,
    TransactionError,
    UnavailableError,
    WriteConflictError,
)
from pyspark_pravega.together import Begun, together

_QUERY_ID, _RUN_ID = "sql.streaming.queryId", "spark.jobGroup.id"
"""Spark tells a streaming query's tasks under these names whose they are."""


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
        self._opened = opened
        self._places: Places | None = None
        if opened:
            client = shared_client(plan.settings)
            ledger = open_ledger(client, plan.stream) if plan.mode == EXACTLY_ONCE else None
            if ledger is not None:
                together(lambda: check_stream(client, plan), ledger.job(self.job).open)
            else:
                check_stream(client, plan)
                if plan.mode == EXACTLY_ONCE:
                    try:
                        ledger = create_ledger(client, plan.stream, to_write=True)
                    except (StreamNotFoundError, StreamSealedError):
                        check_stream(client, plan)
                        raise
                    ledger.job(self.job).open()
            self._places = places(client, plan.stream)

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
                task.add(self.plan.form.of(batch))
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
        repeated = self.plan.mode == EXACTLY_ONCE and self._commit(
            tasks_written, len(messages), epoch or self._own_epoch()
        )
        return CommitReport(
            rows=sum(written.rows for written in tasks_written),
            bytes=sum(written.bytes for written in tasks_written),
            transactions=len({one.staged.transaction.id for one in tasks_written if one.staged is not None}),
            milliseconds=round((time.monotonic() - begun) * 1000),
            repeated=repeated,
        )

    def abort_job(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Throw everything away.

        Args:
            messages: one for each partition; None where a task has failed.
        """
        ledger = None
        if self.plan.mode == EXACTLY_ONCE:
            ledger = open_ledger(shared_client(self.plan.settings), self.plan.stream)
        if ledger is None:
            # The stream was dropped, and its transactions with it; or there are none.
            return
        self._close(ledger)
        state = ledger.state()
        if state.pending is not None and state.pending.job == str(self.job):
            # A commit that was promised, and then failed: it is taken back as a whole, or goes on as a whole.
            with suppress(ConflictError):
                if withdraw(shared_client(self.plan.settings), ledger, state) is None:
                    return
        log = ledger.job(self.job)
        self._abort(log.attempts(len(messages)))
        log.forget_attempts(len(messages))

    def forget_commit(self) -> None:
        """Let the log forget that the job was committed: whoever asked for that has the answer, and won't ask again."""
        if self.plan.mode != EXACTLY_ONCE:
            return
        ledger = open_ledger(shared_client(self.plan.settings), self.plan.stream)
        if ledger is not None:
            ledger.job(self.job).forget_commit()

    def kept_alive(self, partitions: int) -> AbstractContextManager[None]:
        """Keep the transactions of all attempts open meanwhile, from a thread.

        Args:
            partitions: number of the job's partitions.
        """
        return renewed(partial(self.keep_alive, partitions), self.plan.lease_ms / 3000, self.job)

    def keep_alive(self, partitions: int) -> None:
        """Renew the leases of all attempts' transactions once.

        Args:
            partitions: number of the job's partitions.
        """
        if self.plan.mode != EXACTLY_ONCE:
            return
        controller = shared_client(self.plan.settings).controller
        for transaction in self._ledger().job(self.job).attempts(partitions):
            try:
                controller.ping_transaction(self.plan.stream, transaction, lease_ms=self.plan.lease_ms)
            except PravegaError:
                # A lost attempt isn't the job's end: another one may win, and commit finds out.
                continue

    def _task(self, partition: int) -> Task:
        client = shared_client(self.plan.settings)
        if self._places is not None:
            client.pool.believe(self._places)
        if self.plan.mode != EXACTLY_ONCE:
            return DirectTask(client, self.plan)
        return TransactionTask(
            client, self._ledger().job(self.job), self.plan, partition=partition, late=not self._opened
        )

    def _own_epoch(self) -> Epoch | None:
        if self.plan.query is None or self.plan.epoch is None:
            return None
        return Epoch(query=self.plan.query, number=self.plan.epoch)

    def _commit(self, tasks_written: list[Written], partitions: int, epoch: Epoch | None) -> bool:
        """Whether the epoch had been committed before, so that this is thrown away."""
        ledger, written = self._ledger(), [one for one in tasks_written if one.staged is not None]
        # Asked of the controller meanwhile. A stream that is dropped from now on takes this very log with it.
        checked = Begun(lambda: check_stream(shared_client(self.plan.settings), self.plan))
        staged = [one.staged for one in written if one.staged is not None]
        self._close(ledger)
        attempts = ledger.job(self.job).attempts_by_partition(partitions)
        winners = {one.transaction.id for one in staged}
        left, repeated = {transaction for noted in attempts for transaction in noted}, False
        if self._is_committed(ledger, winners):
            left -= winners
        elif staged or self._replaces(ledger):
            self._abort(left - winners)
            with told_of_leases(self.plan, written):
                try:
                    with self.kept_alive(partitions):
                        targets = self._gather(ledger, written, attempts) if staged else ()
                        checked.result()
                        state = self._promise(ledger, targets, written, epoch)
                except PravegaError:
                    self._abort(winners)
                    raise
                if state is None:
                    repeated = True
                elif targets:
                    self._keep_promise(ledger, state)
                    left -= {target.id for target in targets}
        state = ledger.state()
        if state.cleaning is not None:
            clean(shared_client(self.plan.settings), ledger, state)
        # Of those that are committed the controller aborts nothing.
        self._abort(left | winners if repeated else left)
        ledger.job(self.job).forget_attempts(partitions)
        return repeated

    def _gather(
        self, ledger: Ledger, written: Sequence[Written], attempts: Sequence[Sequence[uuid.UUID]]
    ) -> tuple[Transaction, ...]:
        """The transactions that hold what counts, and nothing else: usually the shared one, as it is."""
        client = shared_client(self.plan.settings)
        staged = [one.staged for one in written if one.staged is not None]
        shared = next((one.transaction for one in staged if one.parts is not None), None)
        if shared is None:
            return gather_by_epoch(client, staged)
        counted = {one.partition for one in written if one.staged is not None and one.staged.parts is not None}
        if all(shared.id not in noted or number in counted for number, noted in enumerate(attempts)):
            return gather_by_epoch(client, staged)
        # An attempt that doesn't count has written into it as well.
        if not any(one.parts is None and one.transaction.segments.ids == shared.segments.ids for one in staged):
            other = client.controller.begin_transaction(self.plan.stream, lease_ms=self.plan.lease_ms)
            ledger.job(self.job).add_attempt(0, other.id, late=True)
            staged.append(Staged(transaction=other, written={}))
        return gather_by_epoch(client, staged, spoiled={shared.id})

    def _is_committed(self, ledger: Ledger, written: Collection[uuid.UUID]) -> bool:
        """Whether this job is a version already: then this is a second try after the first one's answer was lost.

        Args:
            ledger: the stream's commit log.
            written: the transactions that tasks have written.
        """
        client, log = shared_client(self.plan.settings), ledger.job(self.job)
        (state, commit), taken = together(log.state_and_commit, partial(is_any_taken, client, ledger, written))
        if state.pending is not None and state.pending.job == str(self.job):
            self._keep_promise(ledger, state)
            return True
        if taken:
            # If that is only just so, its version is waited for.
            settle(client, ledger)
        return is_whole(ledger, self.job, commit) or taken

    def _is_version(self, ledger: Ledger) -> bool:
        """Whether the job has become a version: it is found by its own entry, however many came behind it."""
        return is_whole(ledger, self.job, ledger.job(self.job).commit())

    def _promise(
        self, ledger: Ledger, targets: Sequence[Transaction], written: list[Written], epoch: Epoch | None
    ) -> State | None:
        """Record the commit in the log, after whatever is in progress there; None if the epoch is there already."""
        client, retries = shared_client(self.plan.settings), Retries(self.plan.settings.timeout)
        times = [one.event_time for one in written if one.event_time is not None]
        intent = Intent(
            job=str(self.job),
            transactions=tuple(str(target.id) for target in targets),
            rows=sum(one.rows for one in written),
            bytes=sum(one.bytes for one in written),
            started_at=now_ms(),
            query=None if epoch is None else epoch.query,
            epoch=None if epoch is None else epoch.number,
            event_time=max(times, default=None),
            writer=WRITER if epoch is None or epoch.run is None else epoch.query,
            offsets=None if epoch is None else epoch.offsets,
        )
        while True:
            progress = None if epoch is None else self._progress(ledger, epoch)
            state = settle(client, ledger)
            if epoch is not None:
                progress = self._progress(ledger, epoch)
                if epoch.is_done(progress, self.plan.stream):
                    return None
            if self._is_version(ledger):
                # Another process, taken for dead, has committed this job meanwhile.
                return None
            if state.replaced_table != self.plan.replaced_table and self.plan.staged is None:
                raise TableChangedError(
                    f'stream "{self.plan.stream}" was made another table (version {state.replaced_table}) after this '
                    "write was planned: nothing was written; run the statement again, start the query anew"
                )
            if state.added_checks != self.plan.added_checks and self.plan.staged is None:
                raise TableChangedError(
                    f'stream "{self.plan.stream}" was given a CHECK constraint or a primary key after this write '
                    "was planned: nothing was written; run the statement again"
                )
            try:
                intent = replace(intent, replacement=self._replacement(ledger, state))
            except WriteConflictError:
                # What has come since may be this very commit: the answer to it was lost, and it has arrived late.
                if self._is_version(ledger):
                    return None
                raise
            if len(targets) > 1:
                # Once the first of them is committed the others have to be, even if it takes somebody else to do it.
                for target in targets:
                    client.controller.ping_transaction(self.plan.stream, target.id, lease_ms=MAX_LEASE_MS)
            try:
                if targets:
                    return ledger.begin(state, intent, progress)
                cut = take_snapshot(client, self.plan.stream, ledger).cut
                return ledger.complete(state, committed_at=now_ms(), cut=cut, without_rows=intent)
            except ConflictError:
                pass
            except UnavailableError:
                if not retries.again():
                    raise
            # It may have been recorded all the same, or by another process that commits this job.
            state = ledger.state()
            if state.pending is not None and state.pending.job == str(self.job):
                return state
            if self._is_version(ledger):
                return None

    def _replaces(self, ledger: Ledger) -> bool:
        return self.replaces or ledger.state().truncation_due

    def _replacement(self, ledger: Ledger, state: State) -> Replacement | None:
        """What the job's rows replace.

        Args:
            ledger: the stream's commit log.
            state: its state, on which the commit will be based.
        """
        if not state.truncation_due:
            return None
        client, stream = shared_client(self.plan.settings), self.plan.stream
        return Replacement(begins=dict(proper_cut(client, stream, take_snapshot(client, stream, ledger).cut)))

    def _progress(self, ledger: Ledger, epoch: Epoch) -> Progress:
        if epoch.run is None:
            return ledger.progress(epoch.query)
        progress = ledger.take_over(epoch.query, epoch.run)
        if progress is None:
            raise fenced(self.plan, epoch.query)
        return progress

    def _keep_promise(self, ledger: Ledger, state: State) -> None:
        retries = Retries(self.plan.settings.timeout)
        while True:
            try:
                finish(shared_client(self.plan.settings), ledger, state)
                return
            except ConflictError:
                state = ledger.state()
                if state.pending is None or state.pending.job != str(self.job):
                    # Another writer was waiting for this commit, and has completed its entry.
                    self._is_version(ledger)
                    return
            except TransactionError:
                if self._is_withdrawn(ledger):
                    raise
            except PravegaError as error:
                # That it failed doesn't prove that it isn't done.
                if not retries.again():
                    raise not_known_yet(ledger, str(self.job), error) from error
                with suppress(UnavailableError):
                    state = ledger.state()
                if state.pending is None or state.pending.job != str(self.job):
                    if self._is_version(ledger):
                        return
                    raise

    def _is_withdrawn(self, ledger: Ledger) -> bool:
        """Take the promise back, unless its transactions are being committed all the same."""
        state = ledger.state()
        if state.pending is None or state.pending.job != str(self.job):
            return not self._is_version(ledger)
        try:
            return withdraw(shared_client(self.plan.settings), ledger, state) is not None
        except ConflictError:
            return False

    def _close(self, ledger: Ledger) -> None:
        if self._opened:
            ledger.job(self.job).close()

    def _abort(self, transactions: Iterator[uuid.UUID] | Sequence[uuid.UUID] | set[uuid.UUID]) -> None:
        client = shared_client(self.plan.settings)
        for transaction in transactions:
            abort_quietly(client, self.plan.stream, transaction)

    def _ledger(self) -> Ledger:
        ledger = open_ledger(shared_client(self.plan.settings), self.plan.stream)
        if ledger is None:
            # Making it anew here would leave it behind: its stream is gone, or going.
            raise TransactionError(
                f'stream "{self.plan.stream}" was dropped while a job wrote to it: nothing was written'
            )
        return ledger
