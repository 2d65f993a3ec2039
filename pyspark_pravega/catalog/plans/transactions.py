"""Transactions of users: what their statements have read and written, until all of it is committed or thrown away.

A transaction lives in one catalog process. When that dies nothing of it stays: nobody renews its leases any more. What
is committed travels through the JVM, so the commit itself goes on in another process.

It is serializable by optimism. What a statement has read is noted. Whenever the transaction reads, and when it is
committed, all of that must still be so. So its reads are of one moment, and its writes of the same.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial

from pyspark.sql.datasource import WriterCommitMessage

from pyspark_pravega.client import Client, SegmentPart, Stream
from pyspark_pravega.connector.log import Snapshot
from pyspark_pravega.connector.option_names import SERIALIZABLE
from pyspark_pravega.connector.shared import shared_client
from pyspark_pravega.connector.table import load_definition
from pyspark_pravega.connector.write import (
    Epoch,
    Prepared,
    ReadSet,
    Stage,
    TableRead,
    WriteJob,
    WritePlan,
    check_unchanged,
    commit_together,
    joined,
    prepare,
    withdraw_together,
)
from pyspark_pravega.errors import (
    ConfigurationError,
    PravegaError,
    TransactionError,
    UnsupportedOperationError,
    WriteConflictError,
)
from pyspark_pravega.settings import Settings
from pyspark_pravega.together import all_together

IDLE_S = 3600.0
"""After so long without a statement a transaction is rolled back: its session may be gone."""
_LOOK_EVERY_S = 30.0
ENDS = "commit or roll the transaction back first (CALL system.commit() or CALL system.rollback())"
"""What to do about a statement that can't be in a transaction."""

Reads = Mapping[Stream, Sequence[ReadSet]]


@dataclass(frozen=True, kw_only=True)
class OwnRows:
    """What a transaction has written to a table."""

    parts: tuple[SegmentPart, ...]
    """Where it lies: behind all else."""
    replaces: bool
    """Whether it takes the place of all else."""
    segments: frozenset[int]
    """Those of the stream when it was begun."""

    def before(self, snapshot: Snapshot) -> Snapshot:
        """What of a table's snapshot is still there beside these rows."""
        none = replace(snapshot, parts=(), lake=None, tiered=None, base=None, counted=None)
        return none if self.replaces else snapshot


@dataclass
class OpenTransaction:
    """A transaction that takes statements. Safe for use by several threads."""

    id: uuid.UUID
    settings: Settings
    epoch: Epoch | None = None
    """The batch of a streaming query that it is, if any."""
    written: dict[Stream, Prepared] = field(default_factory=dict)
    reads: dict[Stream, list[ReadSet]] = field(default_factory=dict)
    used_at: float = field(default_factory=time.monotonic)
    _ended: dict[uuid.UUID, bool] = field(default_factory=dict)
    """The jobs of its statements, and whether they were taken in; else they were thrown away."""
    _failure: str | None = None
    _is_ending: bool = False
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def check(self) -> None:
        """Refuse further statements where it can only be rolled back.

        Raises:
            TransactionError: so it is.
        """
        self.used_at = time.monotonic()
        if self._failure is not None:
            raise TransactionError(
                f"transaction {self.id} can't go on: {self._failure}. Nothing of it was written: CALL "
                "system.rollback(), and run all of its statements again"
            )
        if self._is_ending:
            raise TransactionError(
                f"transaction {self.id} is being committed: this statement came too late, and nothing of it was written"
            )

    def end(self) -> tuple[list[Prepared], Reads]:
        """What it commits, behind the statement that is just taken in: none comes any more. Doing it again is harmless.

        Raises:
            TransactionError: it can only be rolled back.
        """
        with self._lock:
            self._is_ending = False
            self.check()
            self._is_ending = True
            return list(self.written.values()), {stream: list(sets) for stream, sets in self.reads.items()}

    def throw_away(self) -> list[Prepared]:
        """Throw away what it has written, that of the statement that is just taken in, too: none comes any more.

        Returns:
            What it had written.
        """
        with self._lock:
            self.fail("it was rolled back")
            return list(self.written.values())

    def own(self, stream: Stream) -> OwnRows | None:
        """What it has written to a table; None for nothing.

        Args:
            stream: the table's.
        """
        with self._lock:
            self.check()
            prepared = self.written.get(stream)
        if prepared is None:
            return None
        parts = tuple(
            SegmentPart(stream=stream, segment_id=segment_id, start=0, end=size, transaction=prepared.target.id)
            for segment_id, size in sorted(prepared.sizes.items())
        )
        return OwnRows(parts=parts, replaces=prepared.job.replaces, segments=frozenset(prepared.target.segments.ids))

    def check_order(self, snapshot: Snapshot, own: OwnRows) -> None:
        """Refuse to read a table by key whose stream was scaled since the transaction wrote to it: what it has written
        would lie before rows that are older.

        Raises:
            WriteConflictError: it was.
        """
        if own.parts and snapshot.current and snapshot.current != own.segments:
            reason = f'stream "{snapshot.stream}" was scaled since it was written in this transaction'
            with self._lock:
                self.fail(reason)
            raise WriteConflictError(f"{reason}: nothing was written; run the transaction again")

    def read(self, stream: Stream, seen: ReadSet, *, fresh: bool = True) -> None:
        """Note what a statement reads; all that was read before must still be so.

        Args:
            stream: the table's.
            seen: what is read of it.
            fresh: whether that is what the table is now; else it must still be so, too.

        Raises:
            WriteConflictError: others have changed something: nothing of the transaction stays.
        """
        with self._lock:
            self.check()
            before = {one: list(sets) for one, sets in self.reads.items()}
            sets = self.reads.setdefault(stream, [])
            if seen not in sets:
                sets.append(seen)
            if not fresh:
                before[stream] = list(sets)
            try:
                client = shared_client(self.settings)
                reads = table_reads(self.settings, before)
                all_together([partial(check_unchanged, client, read) for read in reads.values()])
            except WriteConflictError as error:
                self.fail(str(error))
                raise

    def note_cached(self, stream: Stream, seen: ReadSet) -> None:
        """Note what a statement that writes has read, though it wasn't planned in this transaction: cached rows.

        Raises:
            UnsupportedOperationError: the transaction has written to that table, which these rows don't know.
        """
        with self._lock:
            self.check()
            if stream in self.written:
                raise UnsupportedOperationError(
                    f'the statement reads rows of stream "{stream}" that were cached, or planned, before the '
                    "transaction wrote to it: read the table itself, without CACHE TABLE or DataFrame.cache"
                )
            sets = self.reads.setdefault(stream, [])
            if seen not in sets:
                sets.append(seen)

    def write(
        self, job: WriteJob, messages: Sequence[WriterCommitMessage | None], stop: Callable[[uuid.UUID], None]
    ) -> Prepared | None:
        """Take a statement's rows in. A statement that fails here leaves the transaction as it was.

        Args:
            job: the statement's.
            messages: those of its tasks.
            stop: ends to renew the leases of a job that has this id.

        Returns:
            None where it has written no rows.

        Raises:
            TransactionError: a transaction of Pravega's was lost.
        """
        client, own_id = shared_client(job.plan.settings), job.job
        with self._lock:
            self.check()
            if not self._ended.setdefault(own_id, True):
                raise TransactionError("the statement was cancelled: nothing of it was written")
            try:
                return self._take_in(client, job, messages, stop)
            except BaseException:
                self._ended[own_id] = False
                raise

    def _take_in(
        self,
        client: Client,
        job: WriteJob,
        messages: Sequence[WriterCommitMessage | None],
        stop: Callable[[uuid.UUID], None],
    ) -> Prepared | None:
        stream, own_id = job.plan.stream, job.job
        scope = next((one.together.scope for one in self.written.values()), None)
        prepared = prepare(job, messages, self.id, scope, self.epoch)
        if prepared is None:
            stop(own_id)
            return None
        prepared = prepared.measured(client)
        earlier = self.written.get(stream)
        if earlier is None:
            self.written[stream] = prepared
            return prepared
        gone = earlier.job.job if job.replaces else own_id
        try:
            self.written[stream] = joined(client, earlier, prepared)
        except PravegaError as error:
            # Some of its rows may lie behind the earlier ones.
            self.fail(str(error))
            raise
        stop(gone)
        return prepared

    def cancel(self, job: WriteJob) -> bool:
        """A statement is thrown away, perhaps while it is taken in: then it waits for that, and all else goes, too.

        Args:
            job: the statement's.

        Returns:
            Whether it hadn't been taken in.
        """
        with self._lock:
            is_taken = self._ended.setdefault(job.job, False)
            if is_taken:
                self.fail("a statement was cancelled that it had taken in")
            return not is_taken

    def fail(self, reason: str) -> None:
        """From here on it can only be rolled back. What it has written goes."""
        if self._failure is None:
            self._failure = reason
            # What can't be thrown away now goes when its leases run out.
            with suppress(PravegaError):
                withdraw_together(shared_client(self.settings), list(self.written.values()))


class Transactions:
    """The open transactions of a catalog process. Safe for use by several threads."""

    def __init__(self, stop: Callable[[uuid.UUID], None]) -> None:
        """None is open.

        Args:
            stop: as of `OpenTransaction.write`.
        """
        self._stop = stop
        self._open: dict[str, OpenTransaction] = {}
        self._watched = False
        self._lock = threading.Lock()

    def begin(self, settings: Settings, query: str | None = None, epoch: int | None = None) -> str:
        """Begin a transaction.

        Args:
            settings: where the cluster is.
            query: of which streaming query it is a batch, if it is one.
            epoch: the batch's number.

        Returns:
            Its id.

        Raises:
            ConfigurationError: of query and epoch one is missing.
        """
        if (query is None) != (epoch is None) or query == "" or (epoch is not None and epoch < 0):
            raise ConfigurationError(
                "a transaction that is a batch of a streaming query needs both: query, a name that stays the same, and "
                "epoch, the batch's number, from 0"
            )
        batch = None if query is None or epoch is None else Epoch(query=query, number=epoch)
        begun = OpenTransaction(id=uuid.uuid4(), settings=settings, epoch=batch)
        with self._lock:
            self._open[str(begun.id)] = begun
            if not self._watched:
                self._watched = True
                threading.Thread(target=self._end_idle_ones, name="idle-transactions", daemon=True).start()
        return str(begun.id)

    def of(self, id: str | None) -> OpenTransaction | None:
        """A transaction that takes statements; None where there is no id.

        Args:
            id: its id.

        Raises:
            TransactionError: it is gone, or can only be rolled back.
        """
        if id is None:
            return None
        begun = self._begun(id)
        begun.check()
        return begun

    def cancel(self, id: str | None, job: object) -> bool:
        """As of `OpenTransaction.cancel`; True where there is no such transaction.

        Args:
            id: the transaction's id; None for none.
            job: a statement's.
        """
        begun = None if id is None else self._open.get(id)
        return begun is None or not isinstance(job, WriteJob) or begun.cancel(job)

    def _begun(self, id: str) -> OpenTransaction:
        begun = self._open.get(id)
        if begun is None:
            raise TransactionError(
                f"transaction {id} is gone, as the catalog process in which it lived has ended, or it had no statement "
                f"for {IDLE_S / 60:.0f} minutes: nothing of it was written, CALL system.rollback(), and run all of its "
                "statements again"
            )
        return begun

    def to_commit(self, id: str) -> tuple[list[Prepared], Reads]:
        """What a transaction commits: no statement comes any more.

        Args:
            id: its id.

        Returns:
            What `commit` takes, here or in another process. Leases are renewed until then.
        """
        return self._begun(id).end()

    def commit(self, client: Client, id: str, prepared: Sequence[Prepared], reads: Reads) -> Stage:
        """Commit a transaction. Doing it again is harmless, until `forget_together`.

        Args:
            client: the cluster.
            id: its id.
            prepared: as `to_commit` has given it.
            reads: likewise.

        Raises:
            WriteConflictError: something that was read was overtaken; nothing is visible.
            TransactionError: a transaction of Pravega's was lost; nothing is visible.
            UnclearAnswerError: no server tells how it has ended.
        """
        try:
            # From here on the commit itself keeps them open, for longer.
            self._stop_all(prepared)
            if not prepared:
                return Stage.EMPTY
            return commit_together(client, prepared, table_reads(client.settings, reads))
        finally:
            self._open.pop(id, None)

    def roll_back(self, id: str) -> None:
        """Throw a transaction away; one that isn't there any more is no error.

        Args:
            id: its id.
        """
        begun = self._open.pop(id, None)
        if begun is not None:
            self._stop_all(begun.throw_away())

    def _stop_all(self, prepared: Sequence[Prepared]) -> None:
        for one in prepared:
            self._stop(one.job.job)

    def _end_idle_ones(self) -> None:
        while True:
            time.sleep(_LOOK_EVERY_S)
            for id, begun in list(self._open.items()):
                if time.monotonic() - begun.used_at > IDLE_S:
                    self.roll_back(id)


def table_reads(settings: Settings, reads: Reads) -> dict[Stream, TableRead]:
    """What was read, as it is compared.

    Args:
        settings: where the cluster is.
        reads: what was read of each table.
    """
    client = shared_client(settings)
    return {
        stream: TableRead(stream=stream, seen=sets, definition=partial(load_definition, client, settings, stream))
        for stream, sets in reads.items()
    }


def in_transaction(plan: WritePlan) -> WritePlan:
    """A write as a statement of a transaction.

    Args:
        plan: how it writes alone.

    Raises:
        UnsupportedOperationError: its rows aren't committed together.
        ConfigurationError: it is a batch of a query by itself.
    """
    if not plan.transacts:
        raise UnsupportedOperationError(
            f'stream "{plan.stream}" is written in mode {plan.mode}, which commits nothing: write it exactly-once, or '
            f"{ENDS}"
        )
    if plan.query is not None:
        raise ConfigurationError(
            "options query and epoch make an INSERT a batch by itself: give them to the transaction, as CALL "
            "system.begin(query => '...', epoch => ...)"
        )
    # What it reads is compared as the transaction does it.
    return replace(plan, isolation=SERIALIZABLE)
