"""A job's promise in the commit log: its intent, recorded before anything of it becomes visible.

Any process keeps it, or withdraws it: the job itself, another one that commits the same job, the next writer, a reader.
So each step here first asks how far others have brought it.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TypeAlias

from pyspark_pravega.client import Client, Stream, Transaction
from pyspark_pravega.clock import now_ms
from pyspark_pravega.connector.log import (
    Intent,
    JobCommit,
    Ledger,
    Progress,
    Replacement,
    State,
    commit_state_unknown,
    finish,
    is_any_committed,
    settle,
    take_snapshot,
    withdraw,
)
from pyspark_pravega.connector.write.commit.stages import Stage, Standing
from pyspark_pravega.connector.write.plan import WRITER, Epoch, WritePlan, check_not_numbered, fenced
from pyspark_pravega.connector.write.task import Written
from pyspark_pravega.deadlines import Retries
from pyspark_pravega.errors import (
    ConflictError,
    PravegaError,
    TableBeingDroppedError,
    TableChangedError,
    TransactionError,
    UnavailableError,
    WriteConflictError,
)
from pyspark_pravega.together import together

Replacing: TypeAlias = Callable[[Ledger, State], Replacement | None]
"""Tells what a commit replaces when it is based on a state of the log, or refuses it (`WriteConflictError`)."""


class Promise:
    """The promise of one job."""

    def __init__(self, client: Client, ledger: Ledger, plan: WritePlan, job: uuid.UUID) -> None:
        """Nothing is asked or recorded yet.

        Args:
            client: the cluster.
            ledger: the stream's commit log.
            plan: how the job writes.
            job: its id.
        """
        self._client, self._ledger, self._plan, self._job = client, ledger, plan, job
        self._log = ledger.job(job)

    def recognise(self, written: Collection[uuid.UUID], epoch: Epoch | None = None) -> Standing:
        """How far the job was brought before, where its commit is asked for again: the first answer was lost.

        Args:
            written: the transactions that tasks have written.
            epoch: what the commit is a part of, if anything.
        """

        def look() -> tuple[State, Progress | None, JobCommit | None]:
            # In this order: a version that the job becomes behind this look changes the state, on which `make` rests.
            state, progress = self._ledger.state_and_progress(None if epoch is None else epoch.query)
            return state, progress, self._log.commit()

        (state, progress, commit), taken = together(
            look, partial(is_any_committed, self._client, self._ledger, written)
        )
        if self.is_in(state):
            return Standing(Stage.PROMISED, state)
        if taken:
            # If that is only just so, its version is waited for.
            state = settle(self._client, self._ledger)
        return Standing(Stage.COMMITTED if commit is not None or taken else Stage.UNPROMISED, state, progress)

    def make(
        self, intent: Intent, epoch: Epoch | None, replacement: Replacing, standing: Standing | None = None
    ) -> Standing:
        """Record the intent, after whatever is in progress in the log.

        Args:
            intent: the commit; without a transaction it becomes a version at once.
            epoch: what it is a part of, if anything.
            replacement: tells what it replaces.
            standing: that it isn't promised, as `recognise` has found just now. Nothing is asked again then: the
                promise fails if the log has changed since.

        Returns:
            That it is promised, or committed, or repeated.

        Raises:
            TransactionError: another driver has taken the query over.
            TableChangedError: the table isn't the one that the write was planned for.
            WriteConflictError: what is to be replaced isn't what the statement has read.
        """
        client, ledger, retries = self._client, self._ledger, Retries(self._plan.settings.timeout)
        while True:
            # A driver that is fenced is told so before it waits for others.
            progress = None if epoch is None else self._progress(epoch, None if standing is None else standing.progress)
            if standing is not None and standing.state.is_settled:
                state = standing.state
            else:
                state = settle(client, ledger)
                progress = None if epoch is None else self._progress(epoch)
                if self.is_version():
                    # Another process, taken for dead, has committed this job meanwhile.
                    return Standing(Stage.REPEATED, state)
            if epoch is not None and progress is not None and epoch.is_done(progress, self._plan.stream):
                return Standing(Stage.REPEATED, state)
            _check_table(self._plan, state)
            if intent.together is not None and state.closing is not None:
                raise closed(self._plan.stream)
            try:
                intent = replace(intent, replacement=replacement(ledger, state))
            except WriteConflictError:
                # What has come since may be this very commit: the answer to it was lost, and it has arrived late.
                if self.is_version():
                    return Standing(Stage.REPEATED, state)
                raise
            try:
                if intent.transactions or intent.together is not None:
                    return Standing(Stage.PROMISED, ledger.begin(state, intent, progress))
                cut = take_snapshot(client, self._plan.stream, ledger).cut
                completed = ledger.complete(state, committed_at=now_ms(), cut=cut, without_rows=intent)
                return Standing(Stage.COMMITTED, completed)
            except ConflictError:
                pass
            except UnavailableError:
                if not retries.again():
                    raise
            # It may have been recorded all the same, or by another process that commits this job.
            now, standing = self._look(), None
            if now.stage is Stage.PROMISED:
                return now
            if now.stage is Stage.COMMITTED:
                return Standing(Stage.REPEATED, now.state)

    def keep(self, promised: Standing) -> State:
        """Commit what is promised, and make it a version; or find that another process has.

        Args:
            promised: as `make` or `recognise` has found it.

        Returns:
            The log's state behind it.

        Raises:
            TransactionError: the transaction was lost, and the promise is withdrawn.
            UnclearAnswerError: no server tells whether it is done.
        """
        standing, retries = promised, Retries(self._plan.settings.timeout)
        while standing.stage is Stage.PROMISED:
            try:
                return finish(self._client, self._ledger, standing.state)
            except ConflictError:
                # Another writer was waiting for this commit, and has completed its entry.
                standing = self._look()
            except TransactionError:
                # Unless it is being committed all the same, or another process completes it.
                with suppress(ConflictError):
                    if self._withdrawn() is Stage.UNPROMISED:
                        raise
            except PravegaError as error:
                # That it failed doesn't prove that it isn't done.
                if not retries.again():
                    raise commit_state_unknown(self._ledger, str(self._job), error) from error
                state = standing.state
                with suppress(UnavailableError):
                    state = self._ledger.state()
                standing = self._standing(state)
                if standing.stage is Stage.UNPROMISED:
                    raise
        return standing.state

    def withdraw(self, promised: State) -> Stage:
        """Take the promise back, as a whole.

        Args:
            promised: the log's state, with the intent.

        Returns:
            `UNPROMISED`, or `COMMITTING` where it can't be taken back any more.

        Raises:
            ConflictError: another process has completed it, or withdrawn it.
        """
        is_under_way = withdraw(self._client, self._ledger, promised) is None
        return Stage.COMMITTING if is_under_way else Stage.UNPROMISED

    def is_in(self, state: State) -> bool:
        """Whether it is the one that is in progress.

        Args:
            state: the log's.
        """
        return state.pending is not None and state.pending.job == str(self._job)

    def _withdrawn(self) -> Stage:
        standing = self._look()
        return self.withdraw(standing.state) if standing.stage is Stage.PROMISED else standing.stage

    def _look(self) -> Standing:
        return self._standing(self._ledger.state())

    def _standing(self, state: State) -> Standing:
        if self.is_in(state):
            return Standing(Stage.PROMISED, state)
        return Standing(Stage.COMMITTED if self.is_version() else Stage.UNPROMISED, state)

    def is_version(self) -> bool:
        """Whether the job has become a version: it is found by its own entry, however many came behind it."""
        return self._log.commit() is not None

    def _progress(self, epoch: Epoch, known: Progress | None = None) -> Progress:
        check = partial(check_not_numbered, self._plan)
        if epoch.run is None:
            progress = known or self._ledger.progress(epoch.query)
            check(progress)
            return progress
        taken = self._ledger.take_over(epoch.query, epoch.run, check=check, known=known)
        if taken is None:
            raise fenced(self._plan, epoch.query)
        return taken


def intent_of(
    job: uuid.UUID,
    target: Transaction | None,
    written: Sequence[Written],
    epoch: Epoch | None,
    *,
    indexed: bool = False,
) -> Intent:
    """A commit, as it is to be recorded.

    Args:
        job: the job's id.
        target: the transaction that holds what counts; None where there are no rows.
        written: what that is.
        epoch: what it is a part of, if anything.
        indexed: whether figures of it are noted.
    """
    times = [one.event_time for one in written if one.event_time is not None]
    return Intent(
        job=str(job),
        transactions=() if target is None else (str(target.id),),
        rows=sum(one.rows for one in written),
        bytes=sum(one.bytes for one in written),
        started_at=now_ms(),
        query=None if epoch is None else epoch.query,
        epoch=None if epoch is None else epoch.number,
        event_time=max(times, default=None),
        writer=WRITER if epoch is None or epoch.run is None else epoch.query,
        offsets=None if epoch is None else epoch.offsets,
        indexed=indexed,
    )


def closed(stream: Stream) -> TableBeingDroppedError:
    """The error of a transaction over several tables that comes too late to one of them.

    Args:
        stream: the table's stream.
    """
    return TableBeingDroppedError(
        f'stream "{stream}" is being sealed or dropped: nothing was written. If a DROP TABLE was '
        "interrupted, run it again"
    )


def _check_table(plan: WritePlan, state: State) -> None:
    if plan.staged is not None:
        # It becomes what the statement says, whatever it is by now.
        return
    if state.replaced_table != plan.replaced_table:
        raise TableChangedError(
            f'stream "{plan.stream}" was made another table (version {state.replaced_table}) after this '
            "write was planned: nothing was written; run the statement again, start the query anew"
        )
    if state.added_checks != plan.added_checks:
        raise TableChangedError(
            f'stream "{plan.stream}" was given a CHECK constraint or a primary key after this write '
            "was planned: nothing was written; run the statement again"
        )
