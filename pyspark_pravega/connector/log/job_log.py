"""What the commit log knows of a job that still writes: whether it is open, and the transactions of its attempts."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from enum import Enum, auto
from itertools import chain

from pyspark_pravega.client import Client, SegmentRange, Stream, StreamSegments, Transaction
from pyspark_pravega.client.connections import KnownEndpoints
from pyspark_pravega.client.key_value import ANY_VERSION, NOT_EXISTS
from pyspark_pravega.clock import now_ms
from pyspark_pravega.connector.index import BlockIndex
from pyspark_pravega.connector.log.entry_keys import (
    COMMITTED,
    FIGURES,
    FIRST_JOB,
    KEY_BYTES,
    SHARED,
    job_key,
    ledger_name,
)
from pyspark_pravega.connector.log.json_table import Change, Content, Document, JsonTable
from pyspark_pravega.errors import ConflictError

ABANDONED_MS = 2 * 86_400_000
"""After so long no transaction of a job is open: Pravega lets none live for more than a day."""
_VERSION = "version"


@dataclass(frozen=True, kw_only=True)
class JobCommit:
    """What a job has become."""

    version: int


class Joined(Enum):
    """What becomes of an attempt that would write into the transaction that the job's tasks share."""

    SHARES = auto()
    """It may."""
    ALONE = auto()
    """It isn't the first one at its partition, or another transaction is shared already."""
    OVER = auto()
    """It may write nothing: the job takes no more attempts."""


class JobLog:
    """A job's entries in the commit log of the stream that it writes to. Safe for use by several threads."""

    def __init__(self, table: JsonTable, stream: Stream, job: uuid.UUID) -> None:
        """Use an opened log; see `Ledger.job`."""
        self._table, self._stream, self._job = table, stream, job

    def open(self) -> None:
        """Allow the job's tasks to add transactions."""
        entry = (job_key(self._job, 0), ANY_VERSION, {"job": str(self._job), "at": now_ms()})
        self._table.repeated(lambda: self._table.put(entry))

    def close(self) -> None:
        """Allow no more transactions."""
        self._table.repeated(lambda: self._table.remove((job_key(self._job, 0), ANY_VERSION)))

    def add_attempt(self, partition: int, transaction: uuid.UUID, *, late: bool = False) -> bool:
        """Note a task attempt's transaction, so that the job can throw it away when another attempt wins.

        Args:
            partition: the task's partition.
            transaction: the transaction that the attempt has begun.
            late: whether a job that isn't open may have attempts, too.

        Returns:
            False when the job is over: then the transaction is the attempt's own to abort.
        """
        key = job_key(self._job, 1 + partition)

        def noted(before: Content | None) -> Content:
            # Once, also when this is the second try. Who has joined may not know of it yet, and looks for its name.
            return {**(before or {}), **_attempts(list(dict.fromkeys([*_transactions(before), str(transaction)])))}

        self._table.repeated(lambda: self._table.change(key, noted))
        if late or self.is_open():
            return True
        self._take_back(key, transaction)
        return False

    def shared(self) -> Transaction | None:
        """The transaction that the job's first attempts share; None when none of them has begun it."""
        return self._transaction(self._table.content(job_key(self._job, SHARED)))

    def _transaction(self, content: Content | None) -> Transaction | None:
        if content is None:
            return None
        ranges = tuple(SegmentRange(segment_id=id_, min_key=low, max_key=high) for id_, low, high in content["ranges"])
        segments = StreamSegments(stream=self._stream, ranges=ranges)
        return Transaction(id=uuid.UUID(content["transaction"]), segments=segments)

    def share(self, transaction: Transaction) -> bool:
        """Note a transaction that was begun for the job's tasks, before one of them has.

        Args:
            transaction: the one that they are to share.

        Returns:
            False when they share another one, or when the job is over: then it is the caller's to abort.
        """
        key = job_key(self._job, SHARED)
        try:
            self._table.repeated(lambda: self._table.put((key, NOT_EXISTS, _shared(transaction))))
        except ConflictError:
            # It may be this very change: its answer was lost, and it was made again.
            document = self._table.in_the_way(key)[0]
            if document is None or document.content["transaction"] != str(transaction.id):
                return False
        if self.is_open():
            return True
        self._table.repeated(lambda: self._table.remove((key, ANY_VERSION)))
        return False

    def join(self, partition: int, transaction: Transaction, *, begun: bool) -> Joined:
        """Note that the first attempt at a partition writes into the transaction that the job's tasks share.

        Args:
            partition: the task's partition.
            transaction: the one that is shared, or is to be.
            begun: whether it is new: then it becomes the shared one, if there is none yet.
        """
        key, shared = job_key(self._job, 1 + partition), job_key(self._job, SHARED)
        by = uuid.uuid4().hex
        changes = [(key, NOT_EXISTS, {**_attempts([str(transaction.id)]), "by": by})]
        if begun:
            changes.append((shared, NOT_EXISTS, _shared(transaction)))
        try:
            self._table.repeated(lambda: self._table.put(*changes))
        except ConflictError:
            # It may be this very change: its answer was lost, and it was made again.
            attempt, *_ = self._table.in_the_way(*(key for key, _, _ in changes))
            if attempt is None or attempt.content.get("by") != by:
                return Joined.ALONE
        if self.is_open():
            return Joined.SHARES
        self._take_back(key, transaction.id)
        if begun:
            self._table.repeated(lambda: self._table.remove((shared, ANY_VERSION)))
        return Joined.OVER

    def first(self, transaction: Transaction) -> Transaction:
        """The transaction that was the first one of a job whose attempts share none.

        Args:
            transaction: one of the job's: it is the first one, if none is noted.
        """
        key = job_key(self._job, SHARED)
        noted = self._transaction(self._table.content(key))
        if noted is None:
            try:
                self._table.repeated(lambda: self._table.put((key, NOT_EXISTS, _shared(transaction))))
            except ConflictError:
                document = self._table.in_the_way(key)[0]
                noted = self._transaction(None if document is None else document.content)
        return noted or transaction

    def attempts(self, partitions: int) -> list[uuid.UUID]:
        """The transactions of all attempts at the job's partitions, and the one that they share, each once.

        Args:
            partitions: how many partitions it has.
        """
        by_partition, shared = self.attempts_by_partition(partitions)
        return list(dict.fromkeys([*chain.from_iterable(by_partition), *shared]))

    def attempts_by_partition(self, partitions: int) -> tuple[list[list[uuid.UUID]], list[uuid.UUID]]:
        """The transactions of all attempts at each of the job's partitions, and the one that they share, if any.

        Args:
            partitions: how many partitions it has.
        """
        numbers = [*range(1, 1 + partitions), SHARED]
        *documents, shared = self._table.get(*(job_key(self._job, number) for number in numbers))
        by_partition = [
            [uuid.UUID(text) for text in _transactions(None if document is None else document.content)]
            for document in documents
        ]
        return by_partition, [] if shared is None else [uuid.UUID(shared.content["transaction"])]

    def forget_attempts(self, partitions: int, *, indexed: bool = False) -> None:
        """Remove what the job's attempts have noted.

        Args:
            partitions: how many partitions it has.
            indexed: whether figures may be noted, too.
        """
        numbers = [*range(1, 1 + partitions), SHARED, *([FIGURES] if indexed else [])]
        entries = [(job_key(self._job, number), ANY_VERSION) for number in numbers]
        self._table.repeated(lambda: self._table.remove(*entries))

    def commit(self) -> JobCommit | None:
        """What the job has become; None when it isn't committed, or its caller has the answer."""
        return _commit_of(self._table.get(job_key(self._job, COMMITTED))[0])

    def note_index(self, index: BlockIndex) -> None:
        """Note the figures of what the job's tasks have written, for whoever makes it a version.

        Args:
            index: with places in the job's transaction.
        """
        entry = (job_key(self._job, FIGURES), ANY_VERSION, {"index": index.content(), "at": now_ms()})
        self._table.repeated(lambda: self._table.put(entry))

    def forget_commit(self) -> None:
        """Remove what tells that the job was committed: its caller has the answer, and won't retry."""
        self._table.repeated(lambda: self._table.remove((job_key(self._job, COMMITTED), ANY_VERSION)))

    def is_open(self) -> bool:
        """Whether the job may still add transactions.

        Asked after an attempt was noted: a job closes first and then looks for attempts, so one sees the other.
        """
        return self._table.content(job_key(self._job, 0)) is not None

    def _take_back(self, key: bytes, transaction: uuid.UUID) -> None:
        """Forget one attempt; the job may still need to know of the others."""

        def without(before: Content | None) -> Content | None:
            others = [text for text in _transactions(before) if text != str(transaction)]
            return {**(before or {}), **_attempts(others)} if others else None

        self._table.repeated(lambda: self._table.change(key, without))


@dataclass(frozen=True, kw_only=True)
class OpenJob:
    """A job that hasn't come to its end: it writes, or its driver has died."""

    job: str | None
    """Its id; None of one that takes no more tasks: it commits, or gives up."""
    since: int
    """When it was begun or was last heard of, in ms since 1970."""
    transactions: tuple[str, ...]
    """The ids of the transactions of all its attempts."""


def open_jobs(table: JsonTable) -> list[OpenJob]:
    """The jobs that haven't come to their end, the oldest first.

    Args:
        table: the commit log.
    """
    entries_by_job: dict[bytes, list[Content]] = {}
    for key, document in table.iterate(start=FIRST_JOB):
        if _VERSION in document.content:
            continue
        entries_by_job.setdefault(key[: KEY_BYTES // 2], []).append(document.content)
    jobs = []
    for entries in entries_by_job.values():
        opened = next((entry for entry in entries if "job" in entry), None)
        transactions = [*chain.from_iterable(entry.get("transactions", ()) for entry in entries)]
        transactions += [entry["transaction"] for entry in entries if "transaction" in entry]
        times = [entry["at"] for entry in ([opened] if opened else entries)]
        job = None if opened is None else str(opened["job"])
        jobs.append(OpenJob(job=job, since=max(times), transactions=tuple(dict.fromkeys(transactions))))
    return sorted(jobs, key=lambda job: job.since)


def noted_transactions(table: JsonTable) -> set[uuid.UUID]:
    """The transactions of all attempts of all jobs that haven't come to their end.

    Args:
        table: the commit log.
    """
    contents = [document.content for _, document in table.iterate(start=FIRST_JOB)]
    return {
        *(uuid.UUID(text) for content in contents for text in content.get("transactions", ())),
        *(uuid.UUID(content["transaction"]) for content in contents if "transaction" in content),
    }


def forget_abandoned(table: JsonTable) -> None:
    """Remove what jobs have left of which nothing can be open any more. Others may do it at the same time.

    Args:
        table: the commit log.
    """
    since = now_ms() - ABANDONED_MS
    for key, document in table.iterate(start=FIRST_JOB):
        if document.content.get("at", 0) < since:
            table.remove((key, ANY_VERSION))


def known_endpoints(client: Client, stream: Stream) -> KnownEndpoints:
    """What a client knows of the endpoints of a stream's segments and of its commit log's, for other processes.

    Args:
        client: the cluster.
        stream: the stream.
    """
    table_segments = client.pool.table_segments.get((stream.scope, ledger_name(stream)))
    return client.pool.known_endpoints(stream, *([] if table_segments is None else [table_segments.stream]))


def stored_commit(job: str, commit: JobCommit) -> Change:
    """What a job has become, as a change of the log.

    Args:
        job: its id.
        commit: what it has become.
    """
    return (job_key(uuid.UUID(job), COMMITTED), ANY_VERSION, {_VERSION: commit.version, "at": now_ms()})


def _commit_of(document: Document | None) -> JobCommit | None:
    if document is None:
        return None
    return JobCommit(version=document.content[_VERSION])


def _shared(transaction: Transaction) -> Content:
    ranges = [(owner.segment_id, owner.min_key, owner.max_key) for owner in transaction.segments.ranges]
    return {"transaction": str(transaction.id), "ranges": ranges, "at": now_ms()}


def _attempts(transactions: list[str]) -> Content:
    return {"transactions": transactions, "at": now_ms()}


def _transactions(content: Content | None) -> list[str]:
    return [] if content is None else content["transactions"]
