"""A commit from the last task's end to the version, or to nothing; any process may have done a step before."""

from __future__ import annotations

import uuid
from collections.abc import Sequence, Set
from contextlib import AbstractContextManager, suppress

from pyspark_pravega.client import Client, Transaction
from pyspark_pravega.client.names import SegmentRange
from pyspark_pravega.connector.log import Intent, Ledger, State, clean
from pyspark_pravega.connector.write.commit.attempts import Attempts, transactions_of
from pyspark_pravega.connector.write.commit.promise import Promise, Replacing, intent_of
from pyspark_pravega.connector.write.commit.stages import Stage, Standing
from pyspark_pravega.connector.write.leases import explaining_expired_leases
from pyspark_pravega.connector.write.plan import Epoch, WritePlan, check_stream
from pyspark_pravega.connector.write.task import Written
from pyspark_pravega.errors import ConflictError, PravegaError
from pyspark_pravega.together import Begun


class Committer:
    """Makes what a job's tasks have written one version, or throws it away."""

    def __init__(self, client: Client, ledger: Ledger, plan: WritePlan, job: uuid.UUID, *, opened: bool) -> None:
        """Nothing is asked yet.

        Args:
            client: the cluster.
            ledger: the stream's commit log.
            plan: how the job writes.
            job: its id.
            opened: whether the log notes that it takes attempts.
        """
        self._client, self._ledger, self._plan, self._job = client, ledger, plan, job
        self._opened = opened
        self._log, self._promise = ledger.job(job), Promise(client, ledger, plan, job)

    def commit(
        self,
        tasks_written: Sequence[Written],
        partitions: int,
        epoch: Epoch | None,
        *,
        replaces: bool,
        replacement: Replacing,
        kept_alive: AbstractContextManager[None],
    ) -> Stage:
        """Make everything visible at once. Doing it again after a success is harmless.

        Args:
            tasks_written: what the attempts that count have written.
            partitions: how many partitions the job has.
            epoch: what it is a part of, if anything.
            replaces: whether it is a version without rows, too.
            replacement: tells what it replaces.
            kept_alive: keeps its transactions open until the intent is recorded.

        Returns:
            `COMMITTED`, `REPEATED` or `EMPTY`.

        Raises:
            TransactionError: a transaction was lost, or another driver has taken the query over; nothing is visible.
            TableChangedError: the table isn't the one that the write was planned for.
            WriteConflictError: what is to be replaced isn't what the statement has read.
        """
        # Asked of the controller meanwhile. A stream that is dropped from now on takes this very log with it.
        checked = Begun(lambda: check_stream(self._client, self._plan))
        recognised = Begun(lambda: self._promise.recognise(transactions_of(tasks_written), epoch))
        self._close()
        attempts = Attempts(self._client, self._log, self._plan, partitions, tasks_written)
        standing = recognised.result()
        state = standing.state
        if standing.stage is Stage.PROMISED:
            state = self._promise.keep(standing)
        if standing.stage in (Stage.PROMISED, Stage.COMMITTED):
            stage, left = Stage.COMMITTED, attempts.noted - attempts.winners
        elif attempts.written or replaces or state.truncation_due:
            stage, state, left = self._commit(attempts, epoch, replacement, kept_alive, checked, standing)
        else:
            stage, left = Stage.EMPTY, attempts.noted
        if state.cleaning is not None:
            clean(self._client, self._ledger, state)
        attempts.abort(left)
        attempts.forget()
        return stage

    def prepare(
        self,
        tasks_written: Sequence[Written],
        partitions: int,
        epoch: Epoch | None,
        kept_alive: AbstractContextManager[None],
        *,
        replaces: bool = False,
    ) -> tuple[Transaction, Intent] | None:
        """Bring together what counts, for a commit of several tables that comes later. Doing it again is harmless.

        Args:
            tasks_written: see `commit`, as are the others.
            partitions: likewise.
            epoch: likewise.
            kept_alive: likewise; who asks keeps its transactions open from then on.
            replaces: likewise: then it has a transaction without rows, too.

        Returns:
            The transaction with the rows, and what that commit records; None where there are no rows.

        Raises:
            TransactionError: a transaction was lost.
        """
        checked = Begun(lambda: check_stream(self._client, self._plan))
        self._close()
        attempts = Attempts(self._client, self._log, self._plan, partitions, tasks_written)
        attempts.abort(attempts.noted - attempts.winners)
        if attempts.written:
            target, intent = self._gathered(attempts, epoch, kept_alive, checked)
            assert target is not None
            return target, intent
        if not replaces:
            attempts.forget()
            return None
        checked.result()
        plan = self._plan
        target = self._client.controller.begin_transaction(plan.stream, lease_ms=plan.lease_ms)
        self._log.add_attempt(0, target.id, late=True)
        return target, intent_of(self._job, target, (), epoch)

    def end(self, intent: Intent, partitions: int) -> None:
        """Remove what is left of a job that was prepared, when it is a version or withdrawn.

        Args:
            intent: what `prepare` gave.
            partitions: how many partitions the job has.
        """
        attempts = Attempts(self._client, self._log, self._plan, partitions)
        attempts.abort(attempts.noted - {*intent.transaction_ids()})
        attempts.forget()

    def abort(self, partitions: int) -> None:
        """Throw everything away, unless it is being committed.

        Args:
            partitions: how many partitions the job has.
        """
        self._close()
        state = self._ledger.state()
        if self._promise.is_in(state):
            # A commit that was promised, and then failed: it is taken back as a whole, or goes on as a whole.
            with suppress(ConflictError):
                if self._promise.withdraw(state) is Stage.COMMITTING:
                    return
        attempts = Attempts(self._client, self._log, self._plan, partitions)
        attempts.abort(attempts.noted)
        attempts.forget()

    def _commit(
        self,
        attempts: Attempts,
        epoch: Epoch | None,
        replacement: Replacing,
        kept_alive: AbstractContextManager[None],
        checked: Begun[tuple[SegmentRange, ...]],
        standing: Standing,
    ) -> tuple[Stage, State, Set[uuid.UUID]]:
        """The first try, as far as this process knows.

        What it came to, the log's state behind it, and which transactions it leaves over.
        """
        attempts.abort(attempts.noted - attempts.winners)
        with explaining_expired_leases(self._plan, attempts.written):
            try:
                with kept_alive:
                    target, intent = self._gather(attempts, epoch, checked)
                    standing = self._promise.make(intent, epoch, replacement, standing)
            except PravegaError:
                attempts.abort(attempts.winners)
                raise
            state = self._promise.keep(standing) if standing.stage is Stage.PROMISED else standing.state
        left = attempts.noted | attempts.winners
        if standing.stage is Stage.REPEATED:
            return Stage.REPEATED, state, left
        return Stage.COMMITTED, state, left - ({target.id} if target is not None else set())

    def _gathered(
        self,
        attempts: Attempts,
        epoch: Epoch | None,
        kept_alive: AbstractContextManager[None],
        checked: Begun[tuple[SegmentRange, ...]],
    ) -> tuple[Transaction | None, Intent]:
        with explaining_expired_leases(self._plan, attempts.written):
            try:
                with kept_alive:
                    return self._gather(attempts, epoch, checked)
            except PravegaError:
                attempts.abort(attempts.winners)
                raise

    def _gather(
        self, attempts: Attempts, epoch: Epoch | None, checked: Begun[tuple[SegmentRange, ...]]
    ) -> tuple[Transaction | None, Intent]:
        target = attempts.gather()
        checked.result()
        index = attempts.index(target)
        if index is not None:
            self._log.note_index(index)
        return target, intent_of(self._job, target, attempts.written, epoch, indexed=index is not None)

    def _close(self) -> None:
        """From here on an attempt that comes is told that the job is over."""
        if self._opened:
            self._log.close()
