"""Rows that take the place of all that a table held: as one version, whatever others write meanwhile.

The log's entry of the version says at which stream cut the table's rows begin from then on. So readers see the old rows
or the new ones, never both, and truncating the stream is only cleaning up.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import replace

from pyspark_pravega.client import Client
from pyspark_pravega.client.positions import proper_cut
from pyspark_pravega.clock import now_ms
from pyspark_pravega.connector.log import (
    Intent,
    Ledger,
    Replacement,
    Snapshot,
    State,
    clean,
    settle,
    take_snapshot,
)
from pyspark_pravega.connector.option_names import EXACTLY_ONCE, ISOLATION_LEVEL, SERIALIZABLE, SNAPSHOT
from pyspark_pravega.connector.options import EventOptions
from pyspark_pravega.connector.shared import shared_client
from pyspark_pravega.connector.table import ChangeCodec, load_definition
from pyspark_pravega.connector.write.job import CommitReport, WriteJob
from pyspark_pravega.connector.write.plan import Epoch, StagedTable, WritePlan
from pyspark_pravega.connector.write.read_set import ReadSet, is_unchanged, is_unchanged_for_keys
from pyspark_pravega.errors import ConflictError, UnsupportedOperationError, WriteConflictError
from pyspark_pravega.spark.datasource import WriterCommitMessage


class ReadingJob(WriteJob):
    """Writes what depends on what its statement has read of the table: all of it is committed at once."""

    _done = "changed"
    """What becomes of rows, for messages."""

    def __init__(self, plan: WritePlan) -> None:
        """Begin a job.

        Args:
            plan: how to write.

        Raises:
            UnsupportedOperationError: its rows aren't committed together.
        """
        if plan.mode != EXACTLY_ONCE:
            raise UnsupportedOperationError(
                f'the rows of stream "{plan.stream}" can only be {self._done} at once: writer mode {plan.mode} '
                f"doesn't commit them together, take {EXACTLY_ONCE}"
            )
        self._seen: Sequence[ReadSet] = ()
        super().__init__(plan)

    def commit_job(
        self,
        messages: Sequence[WriterCommitMessage | None],
        epoch: Epoch | None = None,
        seen: Sequence[ReadSet] = (),
    ) -> CommitReport:
        """Make the rows visible. Doing it again after a success is harmless.

        Args:
            messages: see `WriteJob.commit_job`.
            epoch: likewise.
            seen: what the statement has read of this table, for each of its reads; none when it hasn't read it.

        Raises:
            WriteConflictError: it has read what isn't the table's last version any more; nothing is visible.
        """
        self._seen = seen
        return super().commit_job(messages, epoch)

    def has_read(self, seen: Sequence[ReadSet]) -> None:
        """Tell what was read of this table, where it isn't committed by `commit_job`.

        Args:
            seen: as there.
        """
        self._seen = seen

    def _check_columns(self) -> None:
        """Refuse to write what was read with other columns than the table has by now: values in new ones, which others
        may have written before it was read, would be lost.

        Raises:
            WriteConflictError: it has others.
        """
        client, stream = shared_client(self.plan.settings), self.plan.stream
        for name in sorted({one.schema for one in self._seen if one.schema}):
            kind, _, _ = name.rpartition(" ")
            if load_definition(client, self.plan.settings, stream, EventOptions(schema_type=kind)).schema_name != name:
                raise WriteConflictError(
                    f'the rows of stream "{stream}" were not {self._done}: the statement has read them with the '
                    "columns that the table had before an ALTER TABLE. Nothing was written; run it again"
                )

    def _is_same(self, ledger: Ledger, tail: Snapshot, state: State, seen: ReadSet) -> bool:
        """Whether what the statement has read still is so; of a table with a key, for the keys that it has named."""
        client, stream = shared_client(self.plan.settings), self.plan.stream
        if is_unchanged(client, tail, state, seen):
            return True
        if not isinstance(self.plan.codec, ChangeCodec):
            return False
        definition = load_definition(client, self.plan.settings, stream)
        return is_unchanged_for_keys(client, ledger, definition, tail, state, seen)


class OverwritingJob(ReadingJob):
    """Writes rows that take the place of all that are there."""

    replaces = True
    _done = "replaced"

    def __init__(self, plan: WritePlan) -> None:
        """Begin a job.

        Args:
            plan: how to write.

        Raises:
            UnsupportedOperationError: its rows aren't committed together.
        """
        codec = plan.codec
        if plan.isolation == SNAPSHOT and plan.staged is None and isinstance(codec, ChangeCodec) and codec.may_mark:
            # What comes since will lie before these rows, and is newer.
            plan = replace(plan, codec=codec.compacting())
        super().__init__(plan)

    def replacement(self, ledger: Ledger, state: State) -> Replacement:
        """As `WriteJob.replacement`."""
        self._check_columns()
        client, stream, staged = shared_client(self.plan.settings), self.plan.stream, self.plan.staged
        tail = take_snapshot(client, stream, ledger)
        begins = dict(proper_cut(client, stream, tail.cut))
        keeps = False
        # What lies before the cut isn't asked about: it was read, or it is replaced all the same.
        news = [one for one in self._seen if not self._is_same(ledger, tail, state, replace(one, keys=None))]
        if news:
            # What came since may be in the lake already, which is replaced as a whole.
            if self.plan.isolation == SERIALIZABLE or staged is not None or state.has_lake:
                raise self._conflict(state, news[0])
            if isinstance(self.plan.codec, ChangeCodec) and not self.plan.codec.marks:
                raise self._conflict(state, news[0])
            if state.replaced_rows > news[0].version or any(not one.is_of(self._seen[0]) for one in self._seen):
                raise self._conflict(state, news[0])
            if not state.truncation_due:
                begins, keeps = dict(proper_cut(client, stream, self._seen[0].offsets)), True
        if staged is None:
            return Replacement(begins=begins, keeps=keeps)
        return staged.replacement(begins)

    def _conflict(self, state: State, seen: ReadSet) -> WriteConflictError:
        since = (
            f"another version was committed since, the last one is {state.version}"
            if state.version > seen.version
            else "events of another version of its rows, which others have written, came since"
        )
        hint = ""
        if self.plan.staged is None and self.plan.isolation == SERIALIZABLE:
            hint = f', or set "{ISOLATION_LEVEL}" to {SNAPSHOT}, which keeps the rows that came since'
        return WriteConflictError(
            f'the rows of stream "{self.plan.stream}" were not replaced: the statement has read version {seen.version} '
            f"of them, and {since}. Nothing was written; run it again{hint}"
        )


def replace_all(client: Client, ledger: Ledger, staged: StagedTable | None = None) -> None:
    """Make a version without rows, in place of all that a table holds. Doing it again is harmless.

    Args:
        client: the cluster.
        ledger: the table's commit log.
        staged: what becomes of the table; None where only its rows go.
    """
    job = uuid.uuid4() if staged is None else uuid.UUID(staged.id)
    while True:
        state = settle(client, ledger)
        if staged is not None and is_replaced(ledger, state, staged.id):
            return
        tail = take_snapshot(client, ledger.stream, ledger)
        begins = dict(proper_cut(client, ledger.stream, tail.cut))
        replacement = Replacement(begins=begins) if staged is None else staged.replacement(begins)
        intent = Intent(job=str(job), transactions=(), rows=0, bytes=0, started_at=now_ms(), replacement=replacement)
        try:
            completed = ledger.complete(state, committed_at=now_ms(), cut=tail.cut, without_rows=intent)
        except ConflictError:
            continue
        clean(client, ledger, completed)
        if staged is None:
            # A statement that only removes rows isn't asked for again.
            ledger.job(job).forget_commit()
        return


def is_replaced(ledger: Ledger, state: State, id: str) -> bool:
    """Whether a statement has made a table another one already, or is just doing so.

    Args:
        ledger: the table's commit log.
        state: its state.
        id: the statement, `Replacement.id`.
    """
    pending = None if state.pending is None else state.pending.replacement
    if pending is not None and pending.id == id:
        return True
    if not state.replaced_table:
        return False
    # An earlier release makes no entry for it.
    return ledger.job(uuid.UUID(id)).commit() is not None or any(
        commit.replacement == id for commit in ledger.commits([state.replaced_table])
    )


def forget_replacement(ledger: Ledger, id: str) -> None:
    """Let the log forget that a statement has made a table another one: it won't be asked for again.

    Args:
        ledger: the table's commit log.
        id: the statement, `Replacement.id`.
    """
    ledger.job(uuid.UUID(id)).forget_commit()
