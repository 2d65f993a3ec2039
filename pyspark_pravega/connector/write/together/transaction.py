"""A transaction of the user: statements over several tables that become versions all together.

Each statement writes as it does alone, into a transaction of Pravega's, and is prepared when its tasks have ended. What
is kept of it travels through the JVM, so any process can commit or withdraw all of them.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial

from pyspark_pravega.client import Client, Staged, Stream, Transaction
from pyspark_pravega.client.segments import append_staged, staged_sizes
from pyspark_pravega.connector.log import (
    Intent,
    Ledger,
    Replacement,
    State,
    Together,
    create_ledger,
    make_decisions,
    open_decisions,
    open_ledger,
    take_snapshot,
)
from pyspark_pravega.connector.shared import shared_client
from pyspark_pravega.connector.table import TableDefinition
from pyspark_pravega.connector.write.commit import Guard, Look, Part, Promise, Several, Stage
from pyspark_pravega.connector.write.job import TaskMessage, WriteJob
from pyspark_pravega.connector.write.overwrite import ReadingJob
from pyspark_pravega.connector.write.plan import Epoch
from pyspark_pravega.connector.write.read_set import ReadSet, is_unchanged, is_unchanged_for_keys
from pyspark_pravega.errors import (
    AuthenticationError,
    ConflictError,
    NotFoundError,
    PravegaError,
    StreamSealedError,
    TableBeingDroppedError,
    TableChangedError,
    TransactionError,
    UnavailableError,
    WriteConflictError,
)
from pyspark_pravega.spark.datasource import WriterCommitMessage
from pyspark_pravega.together import all_together

_DROPPED = (TransactionError, NotFoundError, StreamSealedError, TableBeingDroppedError)
"""What is said of a table that was dropped, or is being dropped."""


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A statement of a transaction whose rows are written, and that no reader sees."""

    job: WriteJob
    partitions: int
    target: Transaction
    """Pravega's transaction with its rows."""
    intent: Intent
    """What is recorded of it in its table's log."""
    together: Together
    """The transaction."""
    epoch: Epoch | None = None
    sizes: Mapping[int, int] = field(default_factory=dict)
    """How many bytes that holds in each segment; of one that was `joined`, or asked by `measured`."""

    def measured(self, client: Client) -> Prepared:
        """With its sizes.

        Args:
            client: the cluster.
        """
        return replace(self, sizes=staged_sizes(client, self.target))


@dataclass(frozen=True, kw_only=True)
class TableRead:
    """What a transaction has read of a table."""

    stream: Stream
    seen: Sequence[ReadSet]
    definition: Callable[[], TableDefinition] | None = None
    """Loads what the stream is as a table, where its keys may tell that the rows are what they were."""


def prepare(
    job: WriteJob,
    messages: Sequence[WriterCommitMessage | None],
    id: uuid.UUID,
    scope: str | None = None,
    epoch: Epoch | None = None,
) -> Prepared | None:
    """Bring together what a statement has written. Doing it again is harmless.

    Args:
        job: the statement's.
        messages: see `WriteJob.commit_job`.
        id: the transaction's.
        scope: where its record is; None where this is its first statement with rows.
        epoch: what it is a part of, if anything.

    Returns:
        None where it has written no rows.
    """
    tasks_written = [message.written for message in messages if isinstance(message, TaskMessage)]
    committer = job.committer()
    partitions = max(1, len(messages))
    written = committer.prepare(tasks_written, partitions, epoch, job.kept_alive(partitions), replaces=job.replaces)
    if written is None:
        return None
    target, intent = written
    if scope is None:
        together = make_decisions(shared_client(job.plan.settings), job.plan.stream.scope).begin(id)
    else:
        together = Together(scope=scope, id=str(id))
    return Prepared(job=job, partitions=partitions, target=target, intent=intent, together=together, epoch=epoch)


def joined(client: Client, earlier: Prepared, later: Prepared) -> Prepared:
    """Make two statements on one table one. Doing it again is harmless, until the later one is forgotten.

    The later one's rows are put behind the earlier one's, and its transaction is thrown away; where it replaces all
    rows, the earlier one's is. What is joined has to be kept open as before.

    Args:
        client: the cluster.
        earlier: the first statement, or what was joined before; with its sizes.
        later: the next one, with its sizes.

    Raises:
        TransactionError: the stream was scaled between the two, or a transaction was lost. The earlier one may have
            some of the rows then.
        TableChangedError: the table isn't the one any more that the earlier one was planned for.
    """
    if later.job.replaces:
        earlier.job.abort_job([None] * earlier.partitions)
        return later
    before, now = earlier.job.plan, later.job.plan
    if (before.replaced_table, before.added_checks) != (now.replaced_table, now.added_checks):
        # The commit looks at the later plan only, which doesn't hold for the earlier rows.
        raise TableChangedError(
            f'stream "{now.stream}" was made another table, or was given a CHECK constraint or a primary key, after '
            "the transaction wrote to it: nothing was written; run the transaction again"
        )
    total = sum(later.sizes.values())
    staged = Staged(
        transaction=later.target,
        written={
            segment_id: (max(1, later.intent.rows * size // total), size) for segment_id, size in later.sizes.items()
        },
        keyless=later.job.plan.routing is None,
    )
    append_staged(client, staged, earlier.target)
    later.job.abort_job([None] * later.partitions)
    times = [one.intent.event_time for one in (earlier, later) if one.intent.event_time is not None]
    intent = replace(
        earlier.intent,
        rows=earlier.intent.rows + later.intent.rows,
        bytes=earlier.intent.bytes + later.intent.bytes,
        event_time=max(times, default=None),
        # The figures that are noted are those of the earlier rows only.
        indexed=False,
    )
    job = earlier.job
    if isinstance(later.job, ReadingJob) and not isinstance(job, ReadingJob):
        # One that knows what to compare.
        later.job.stand_for(job)
        job = later.job
    return replace(earlier, job=job, intent=intent).measured(client)


def commit_together(client: Client, prepared: Sequence[Prepared], reads: Mapping[Stream, TableRead]) -> Stage:
    """Make all statements of a transaction visible at once. Doing it again after a success is harmless.

    Args:
        client: the cluster.
        prepared: the statements, of each table one.
        reads: what all of them have read.

    Raises:
        WriteConflictError: something that was read was overtaken; nothing is visible.
        TransactionError: a transaction of Pravega's was lost; nothing is visible.
        UnclearAnswerError: no server tells how it has ended.
    """
    try:
        stage = _several(client, prepared, reads).commit(timeout=client.settings.timeout)
    except UnavailableError:
        raise
    except PravegaError:
        _end(prepared)
        forget_together(client, prepared)
        raise
    _end(prepared)
    return stage


def withdraw_together(client: Client, prepared: Sequence[Prepared]) -> None:
    """Throw all statements of a transaction away. Doing it again is harmless.

    Args:
        client: the cluster.
        prepared: the statements.
    """
    if prepared:
        _several(client, prepared, {}).withdraw(timeout=client.settings.timeout)
        _end(prepared)
        forget_together(client, prepared)


def forget_together(client: Client, prepared: Sequence[Prepared]) -> None:
    """Let the logs forget that a transaction was committed: its caller has the answer, and won't retry.

    Args:
        client: the cluster.
        prepared: its statements.
    """
    for one in prepared:
        with suppress(PravegaError):
            one.job.forget_commit()
    for one in prepared[:1]:
        with suppress(PravegaError):
            decisions = open_decisions(client, one.together.scope)
            if decisions is not None:
                decisions.forget_withdrawn(one.together)


def _several(client: Client, prepared: Sequence[Prepared], reads: Mapping[Stream, TableRead]) -> Several:
    written = {one.job.plan.stream for one in prepared}
    parts, guards, looks = list[Part](), list[Guard](), list[Look]()
    missing: PravegaError | None = None
    # A table that was dropped keeps a transaction from being committed, but not what is committed from being told so.
    for one in prepared:
        try:
            parts.append(_part(client, one, reads.get(one.job.plan.stream)))
        except _DROPPED as error:
            missing = error
    for stream, read in reads.items():
        if stream in written:
            continue
        try:
            ledger = _ledger_to_change(client, stream)
        except _DROPPED as error:
            missing = error
            continue
        if ledger is None:
            looks.append(Look(stream=stream, check=partial(check_unchanged, client, read)))
        else:
            guards.append(Guard(ledger=ledger, check=_check_of(client, read)))
    return Several(client, prepared[0].together, parts, guards, looks, missing)


def _ledger_to_change(client: Client, stream: Stream) -> Ledger | None:
    """The log of a table that was only read; None where the user may not change it.

    A table that only others have written gets one: so nobody of us writes to it meanwhile.
    """
    try:
        ledger = open_ledger(client, stream) or create_ledger(client, stream)
    except AuthenticationError:
        return None
    return ledger if ledger.may_change() else None


def _part(client: Client, one: Prepared, read: TableRead | None) -> Part:
    job = one.job
    ledger = job.ledger()
    check = None if read is None else _check_of(client, read)
    if isinstance(job, ReadingJob):
        # It compares what it has read by itself, as its isolation level says.
        job.has_read(() if read is None else read.seen)
        check = None

    def replacement(ledger: Ledger, state: State) -> Replacement | None:
        if check is not None:
            check(ledger, state)
        return job.replacement(ledger, state)

    return Part(
        ledger=ledger,
        promise=Promise(client, ledger, job.plan, job.job),
        intent=one.intent,
        replacement=replacement,
        lease_ms=job.plan.lease_ms,
        segments=one.target.segments.ids,
        epoch=one.epoch,
    )


def check_unchanged(client: Client, read: TableRead) -> None:
    """Refuse what was read and overtaken. At the commit it is looked at once more, for good.

    Args:
        client: the cluster.
        read: what was read.

    Raises:
        WriteConflictError: others have changed it since.
    """
    ledger = open_ledger(client, read.stream)
    if ledger is not None:
        _check_of(client, read)(ledger, ledger.state())
        return
    tail = take_snapshot(client, read.stream)
    if not all(is_unchanged(client, tail, State(), one) for one in read.seen):
        raise WriteConflictError(
            f'the transaction has read stream "{read.stream}", and others have written to it since. Nothing was '
            "written; run the transaction again"
        )


def _check_of(client: Client, read: TableRead) -> Callable[[Ledger, State], None]:
    def check(ledger: Ledger, state: State) -> None:
        tail = take_snapshot(client, read.stream, ledger)
        for one in read.seen:
            if is_unchanged(client, tail, state, one):
                continue
            definition = None if read.definition is None else read.definition()
            definition = None if definition is None or definition.key is None else definition
            if definition is not None and is_unchanged_for_keys(client, ledger, definition, tail, state, one):
                continue
            raise WriteConflictError(
                f'the transaction has read version {one.version} of stream "{read.stream}", and others have written to '
                f"it since (the last version is {state.version}). Nothing was written; run the transaction again"
            )

    return check


def _end(prepared: Sequence[Prepared]) -> None:
    def end(one: Prepared) -> None:
        # What isn't removed now is swept later.
        with suppress(ConflictError, PravegaError):
            one.job.committer().end(one.intent, one.partitions)

    all_together([partial(end, one) for one in prepared])
