"""The commit log of a stream: what was committed, what is being committed, and the table's own properties.

It lies in a key-value table beside the stream and is changed only under conditions, all entries of a change at once:

| key (16 bytes: space, number) | value (JSON) |
|---|---|
| 0, 0 | the state: the last version, the commit in progress, if any, and the rows and bytes of all versions together |
| 0, 1 | the table's properties |
| 0, 2 | the stream cuts that have names |
| 1, n | version n: when, how much, which transactions, and the stream cut that it reached |
| query (a hash, its two upper bits 01) | how far a streaming query has come, and which of its drivers may go on |
| 2, job | where a job that replaces all rows truncates the stream when it has committed its own |
| job, 0 | there while a job may still add transactions |
| job, 1 + p | the transactions of all attempts at partition p of a job |
| job, 2^64 - 1 | the transaction that the first attempts of a job share |

At most one commit is in progress at a time: who wants to commit first settles the one that is there.

It doesn't grow without bound: the last `KEPT_VERSIONS` versions are kept, a query has one entry, and what jobs whose
driver has died have left is removed when no transaction of theirs can be open any more.
"""

from __future__ import annotations

import hashlib
import json
import struct
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from typing import Any

from pyspark_pravega.client import Client, SegmentRange, Stream, StreamSegments, Transaction
from pyspark_pravega.client.deadlines import Limit
from pyspark_pravega.client.names import MAX_TABLE_NAME_LENGTH
from pyspark_pravega.client.tables import ANY_VERSION, NOT_EXISTS, Entry, KeyValueTable
from pyspark_pravega.errors import ConflictError, KeyValueTableNotFoundError, PravegaError

KEY_BYTES = 16
FORMAT = 1
_STATE, _PROPERTIES, _CUTS = (0, 0), (0, 1), (0, 2)
_COMMITS, _OVERWRITES = 1, 2
_SUFFIX = ".ledger"
_SHARED = (1 << 64) - 1
_JOBS, _QUERIES = 1 << 63, 1 << 62
"""What the first half of a job's keys and of a query's key has beside the hash or id."""
KEPT_VERSIONS = 10_000
_SWEEP_EVERY = 100
_RETIRED = 16
_READABLE_S, _POLL_S = 2.0, 0.002
ABANDONED_MS = 2 * 86_400_000
"""After so long no transaction of a job is open: Pravega lets none live for more than a day."""


def ledger_name(stream: Stream) -> str:
    """The name of the key-value table beside a stream.

    Args:
        stream: the stream.

    Returns:
        The stream's name with a suffix, shortened by a hash where that would be too long.
    """
    name = stream.name + _SUFFIX
    if len(name) <= MAX_TABLE_NAME_LENGTH:
        return name
    digest = hashlib.blake2b(stream.name.encode(), digest_size=16).hexdigest()
    return f"{stream.name[: MAX_TABLE_NAME_LENGTH - len(_SUFFIX) - len(digest) - 1]}.{digest}{_SUFFIX}"


@dataclass(frozen=True, kw_only=True)
class Intent:
    """A commit in progress: recorded before its first transaction is committed."""

    job: str
    """The writing job's id, a UUID."""
    transactions: tuple[str, ...]
    """Ids of the transactions that together are this commit: one, or one per epoch of the stream."""
    rows: int
    bytes: int
    started_at: int
    """Milliseconds since 1970."""
    query: str | None = None
    """The streaming query whose epoch this is, if it is one's."""
    epoch: int | None = None
    event_time: int | None = None
    """What the stream's watermark may advance to with this commit, in the unit that its writers use."""
    writer: str = ""
    """Whose event time it is."""

    def transaction_ids(self) -> tuple[uuid.UUID, ...]:
        """The transactions' ids."""
        return tuple(uuid.UUID(text) for text in self.transactions)


@dataclass(frozen=True, kw_only=True)
class State:
    """The log's first entry."""

    version: int = 0
    """The last completed version; 0 when there is none."""
    pending: Intent | None = None
    rows: int | None = 0
    """Of all completed versions together; None in logs that were begun before they were counted."""
    bytes: int | None = 0
    """Likewise, frames included."""
    stored_as: int = NOT_EXISTS
    """The entry's version in the key-value table, to be named when it is changed."""

    def after(self, done: Intent) -> State:
        """The state when a commit has become the next version."""
        return replace(
            self,
            version=self.version + 1,
            pending=None,
            rows=None if self.rows is None else self.rows + done.rows,
            bytes=None if self.bytes is None else self.bytes + done.bytes,
        )


@dataclass(frozen=True, kw_only=True)
class Commit:
    """A completed version."""

    version: int
    job: str
    transactions: tuple[str, ...]
    rows: int
    bytes: int
    committed_at: int
    """Milliseconds since 1970."""
    cut: dict[int, int] = field(default_factory=dict)
    """Segment id to offset in bytes: the stream's tail right after this commit."""
    query: str | None = None
    """The streaming query, or the option `query`, of whoever wrote it."""
    epoch: int | None = None


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far a streaming query has come in writing to the stream."""

    query: str
    epoch: int = -1
    """The last epoch that was committed; -1 when there is none."""
    run: str | None = None
    """The driver that may go on."""
    retired: tuple[str, ...] = ()
    """Drivers that another one has taken the query over from, the last ones."""
    stored_as: int = NOT_EXISTS
    """The entry's version in the key-value table, to be named when it is changed."""


@dataclass(frozen=True, kw_only=True)
class NamedCut:
    """A stream cut that was given a name."""

    created_at: int
    """Milliseconds since 1970."""
    offsets: dict[int, int]
    """Segment id to offset in bytes."""


class Ledger:
    """A stream's commit log. Safe for use by several threads."""

    def __init__(self, table: KeyValueTable, stream: Stream) -> None:
        """Use an opened key-value table; see `open_ledger` and `create_ledger`."""
        self.stream = stream
        self._table = table

    def state(self) -> State:
        """The last version and the commit in progress."""
        return self._state(self._table.get([_key(*_STATE)])[0])

    def state_and_progress(self, query: str) -> tuple[State, Progress]:
        """The log's state and a query's progress, in one look; they may be of different moments.

        Args:
            query: the query's id.
        """
        state, progress = self._table.get([_key(*_STATE), _query_key(query)])
        return self._state(state), self._progress(query, progress)

    def begin(self, state: State, intent: Intent, progress: Progress | None = None) -> State:
        """Record a commit before it is made.

        Args:
            state: the state it is based on, with nothing in progress.
            intent: the commit.
            progress: that of the commit's query, on which it is based, too.

        Returns:
            The new state.

        Raises:
            ConflictError: the log, or the query's progress, has changed since.
        """
        entries = [] if progress is None else [self._stored(progress)]
        return self._change(state, replace(state, pending=intent), *entries)

    def complete(self, state: State, *, committed_at: int, cut: dict[int, int]) -> State:
        """Make the commit in progress the next version.

        Args:
            state: the state it is based on, with the commit in progress.
            committed_at: milliseconds since 1970.
            cut: the tail that the commit reached.

        Returns:
            The new state.

        Raises:
            ConflictError: the log has changed since: somebody else completed it.
        """
        assert state.pending is not None
        done = state.pending
        commit = Commit(
            version=state.version + 1,
            job=done.job,
            transactions=done.transactions,
            rows=done.rows,
            bytes=done.bytes,
            committed_at=committed_at,
            cut=cut,
            query=done.query,
            epoch=done.epoch,
        )
        entries = [(_key(_COMMITS, commit.version), NOT_EXISTS, _dump(asdict(commit)))]
        if done.query is None or done.epoch is None:
            completed = self._change(state, state.after(done), *entries)
        else:
            completed = self._complete_epoch(state, state.after(done), entries, done.query, done.epoch)
        if commit.version % _SWEEP_EVERY == 0:
            self._sweep(commit.version)
        return completed

    def withdraw(self, state: State) -> State:
        """Take back the commit in progress, of which nothing became visible.

        Raises:
            ConflictError: the log has changed since.
        """
        return self._change(state, replace(state, pending=None))

    def commits(self, versions: Iterable[int]) -> list[Commit]:
        """Completed versions.

        Args:
            versions: which ones; those that aren't there are left out.

        Returns:
            The commits in the order asked for.
        """
        found = self._table.get([_key(_COMMITS, version) for version in versions])
        return [self._commit(entry) for entry in found if entry is not None]

    def all_commits(self) -> Iterator[Commit]:
        """All completed versions that are still known, in their order."""
        for _, entry in self._table.iterate_entries(prefix=struct.pack(">Q", _COMMITS)):
            yield self._commit(entry)

    def _commit(self, entry: Entry) -> Commit:
        d = _load(entry, self.stream)
        return Commit(
            version=d["version"],
            job=d["job"],
            transactions=tuple(d["transactions"]),
            rows=d["rows"],
            bytes=d["bytes"],
            committed_at=d["committed_at"],
            cut={int(segment): offset for segment, offset in d["cut"].items()},
            query=d.get("query"),
            epoch=d.get("epoch"),
        )

    # Queries

    def progress(self, query: str) -> Progress:
        """How far a query has come.

        Args:
            query: its id.
        """
        return self._progress(query, self._table.get([_query_key(query)])[0])

    def take_over(self, query: str, run: str) -> Progress | None:
        """Make a driver the one that may go on with a query; all others' next commits fail.

        Args:
            query: the query's id.
            run: the driver.

        Returns:
            The query's progress; None when another driver has taken it over from this one before.
        """
        while True:
            progress = self.progress(query)
            if progress.run == run:
                return progress
            if run in progress.retired:
                return None
            retired = (progress.retired if progress.run is None else (*progress.retired, progress.run))[-_RETIRED:]
            taken = replace(progress, run=run, retired=retired)
            try:
                (stored_as,) = self._table.put([self._stored(taken)])
                return replace(taken, stored_as=stored_as)
            except ConflictError:
                continue

    # The table's properties

    def properties(self) -> dict[str, str]:
        """The table's properties; empty when none were set."""
        entry = self._table.get([_key(*_PROPERTIES)])[0]
        return {} if entry is None else dict(_load(entry, self.stream)["properties"])

    def set_properties(self, properties: dict[str, str]) -> None:
        """Replace the table's properties."""
        self._table.put([(_key(*_PROPERTIES), ANY_VERSION, _dump({"properties": properties}))])

    def change_properties(self, change: Callable[[dict[str, str]], dict[str, str]]) -> dict[str, str]:
        """Change the table's properties, however many do so at once.

        Args:
            change: makes the new properties of the present ones; it may be called several times.

        Returns:
            The new properties.
        """
        document = self._change_document(_PROPERTIES, "properties", change)
        return dict(document)

    # Stream cuts that have names

    def cuts(self) -> dict[str, NamedCut]:
        """The stream cuts that have names, by these."""
        entry = self._table.get([_key(*_CUTS)])[0]
        found = {} if entry is None else _load(entry, self.stream)["cuts"]
        return {
            name: NamedCut(created_at=cut["created_at"], offsets={int(i): o for i, o in cut["offsets"].items()})
            for name, cut in found.items()
        }

    def change_cuts(self, change: Callable[[dict[str, NamedCut]], dict[str, NamedCut]]) -> None:
        """Change the cuts that have names, however many do so at once.

        Args:
            change: makes the new ones of the present ones; it may be called several times, and what it raises ends it.
        """

        def changed(found: dict[str, Any]) -> dict[str, Any]:
            cuts = {
                name: NamedCut(created_at=cut["created_at"], offsets={int(i): o for i, o in cut["offsets"].items()})
                for name, cut in found.items()
            }
            return {name: asdict(cut) for name, cut in change(cuts).items()}

        self._change_document(_CUTS, "cuts", changed)

    # Jobs that replace all rows

    def note_overwrite(self, job: uuid.UUID, cut: Mapping[int, int]) -> dict[int, int]:
        """Note where a job is to truncate the stream, unless that has been noted already.

        Args:
            job: the job.
            cut: the stream's tail before the job's own rows.

        Returns:
            What is noted: a second try must not truncate what the first one has written.
        """
        key = _key(_OVERWRITES, job.int >> 64)
        document = {"cut": {str(segment): offset for segment, offset in cut.items()}}
        try:
            self._table.put([(key, NOT_EXISTS, _dump(document))])
            return dict(cut)
        except ConflictError:
            self._in_the_way(key)
            return self.overwrite(job) or dict(cut)

    def overwrite(self, job: uuid.UUID) -> dict[int, int] | None:
        """What `note_overwrite` has noted for a job."""
        entry = self._table.get([_key(_OVERWRITES, job.int >> 64)])[0]
        if entry is None:
            return None
        return {int(segment): offset for segment, offset in _load(entry, self.stream)["cut"].items()}

    def forget_overwrite(self, job: uuid.UUID) -> None:
        """Remove what `note_overwrite` has noted."""
        self._table.remove([(_key(_OVERWRITES, job.int >> 64), ANY_VERSION)])

    # Jobs and their attempts

    def noted_transactions(self) -> set[uuid.UUID]:
        """The transactions of all attempts of all jobs that haven't come to their end."""
        return {
            uuid.UUID(text)
            for _, entry in self._table.iterate_entries(start=_key(_JOBS, 0))
            for text in _load(entry, self.stream).get("transactions", ())
        }

    def open_job(self, job: uuid.UUID) -> None:
        """Allow a job's tasks to add transactions."""
        self._table.put([(_job_key(job, 0), ANY_VERSION, _dump({"job": str(job), "at": _now_ms()}))])

    def add_attempt(self, job: uuid.UUID, partition: int, transaction: uuid.UUID, *, late: bool = False) -> bool:
        """Note a task attempt's transaction, so that the job can throw it away when another attempt wins.

        Args:
            job: the job.
            partition: the task's partition.
            transaction: the transaction that the attempt has begun.
            late: whether a job that isn't open may have attempts, too.

        Returns:
            False when the job is over: then the transaction is the attempt's own to abort.
        """
        key = _job_key(job, 1 + partition)
        while True:
            entry = self._table.get([key])[0]
            known = [] if entry is None else _load(entry, self.stream)["transactions"]
            document = _dump({"transactions": [*known, str(transaction)], "at": _now_ms()})
            try:
                self._table.put([(key, NOT_EXISTS if entry is None else entry.version, document)])
                break
            except ConflictError:
                continue
        if late or self._is_open(job):
            return True
        self._take_back(key, transaction)
        return False

    def shared(self, job: uuid.UUID) -> Transaction | None:
        """The transaction that a job's first attempts share; None when none of them has begun it.

        Args:
            job: the job.
        """
        entry = self._table.get([_job_key(job, _SHARED)])[0]
        if entry is None:
            return None
        document = _load(entry, self.stream)
        ranges = tuple(SegmentRange(segment_id=id_, min_key=low, max_key=high) for id_, low, high in document["ranges"])
        segments = StreamSegments(stream=self.stream, ranges=ranges)
        return Transaction(id=uuid.UUID(document["transaction"]), segments=segments)

    def join(self, job: uuid.UUID, partition: int, transaction: Transaction, *, begun: bool) -> bool | None:
        """Note that the first attempt at a partition writes into the transaction that the job's tasks share.

        Args:
            job: the job.
            partition: the task's partition.
            transaction: the one that is shared, or is to be.
            begun: whether it is new: then it becomes the shared one, if there is none yet.

        Returns:
            Whether it may. False when it isn't the first attempt, or another transaction is shared already; None when
            the job is over.
        """
        key, shared = _job_key(job, 1 + partition), _job_key(job, _SHARED)
        by = uuid.uuid4().hex
        attempt = {"transactions": [str(transaction.id)], "by": by, "at": _now_ms()}
        entries = [(key, NOT_EXISTS, _dump(attempt))]
        if begun:
            ranges = [(owner.segment_id, owner.min_key, owner.max_key) for owner in transaction.segments.ranges]
            document = {"transaction": str(transaction.id), "ranges": ranges, "at": _now_ms()}
            entries.append((shared, NOT_EXISTS, _dump(document)))
        try:
            self._table.put(entries)
        except ConflictError:
            # It may be this very change, whose answer was lost.
            entry, *_ = self._in_the_way(*(key for key, _, _ in entries))
            if entry is None or _load(entry, self.stream).get("by") != by:
                return False
        if self._is_open(job):
            return True
        self._take_back(key, transaction.id)
        if begun:
            self._table.remove([(shared, ANY_VERSION)])
        return None

    def close_job(self, job: uuid.UUID) -> None:
        """Allow no more transactions."""
        self._table.remove([(_job_key(job, 0), ANY_VERSION)])

    def attempts(self, job: uuid.UUID, partitions: int) -> list[uuid.UUID]:
        """The transactions of all attempts at a job's partitions, each once."""
        return list(dict.fromkeys(chain.from_iterable(self.attempts_by_partition(job, partitions))))

    def attempts_by_partition(self, job: uuid.UUID, partitions: int) -> list[list[uuid.UUID]]:
        """The transactions of all attempts at each of a job's partitions."""
        found = self._table.get([_job_key(job, 1 + partition) for partition in range(partitions)])
        return [
            [] if entry is None else [uuid.UUID(text) for text in _load(entry, self.stream)["transactions"]]
            for entry in found
        ]

    def forget_attempts(self, job: uuid.UUID, partitions: int) -> None:
        """Remove what a job's attempts have noted."""
        numbers = [*range(1, 1 + partitions), _SHARED]
        self._table.remove([(_job_key(job, number), ANY_VERSION) for number in numbers])

    def _is_open(self, job: uuid.UUID) -> bool:
        """Asked after an attempt was noted: a job closes first and then looks for attempts, so one sees the other."""
        return self._table.get([_job_key(job, 0)])[0] is not None

    def _take_back(self, key: bytes, transaction: uuid.UUID) -> None:
        """Forget one attempt; the job may still need to know of the others."""
        while (entry := self._table.get([key])[0]) is not None:
            others = [text for text in _load(entry, self.stream)["transactions"] if text != str(transaction)]
            try:
                if others:
                    self._table.put([(key, entry.version, _dump({"transactions": others, "at": _now_ms()}))])
                else:
                    self._table.remove([(key, entry.version)])
                return
            except ConflictError:
                continue

    def _complete_epoch(
        self, state: State, after: State, entries: list[tuple[bytes, int, bytes]], query: str, epoch: int
    ) -> State:
        while True:
            progress = self.progress(query)
            reached = self._stored(replace(progress, epoch=max(epoch, progress.epoch)))
            try:
                return self._change(state, after, *entries, reached)
            except ConflictError:
                # Perhaps another driver has only taken the query over.
                if self.state().stored_as != state.stored_as:
                    raise

    def _sweep(self, version: int) -> None:
        """Remove what nobody needs any more. Others may do it at the same time."""
        last = version - KEPT_VERSIONS
        if last > 0:
            gone = [_key(_COMMITS, number) for number in range(max(1, last - 2 * _SWEEP_EVERY), last + 1)]
            self._table.remove([(key, ANY_VERSION) for key in gone])
        since = _now_ms() - ABANDONED_MS
        for key, entry in self._table.iterate_entries(start=_key(_JOBS, 0)):
            if _load(entry, self.stream).get("at", 0) < since:
                self._table.remove([(key, ANY_VERSION)])

    def _state(self, entry: Entry | None) -> State:
        if entry is None:
            return State()
        document = _load(entry, self.stream)
        pending = document["pending"]
        if pending:
            pending = Intent(**{**pending, "transactions": tuple(pending["transactions"])})
        return State(
            version=document["version"],
            pending=pending,
            rows=document.get("rows"),
            bytes=document.get("bytes"),
            stored_as=entry.version,
        )

    def _progress(self, query: str, entry: Entry | None) -> Progress:
        if entry is None:
            return Progress(query=query)
        document = _load(entry, self.stream)
        return Progress(
            query=query,
            epoch=document["epoch"],
            run=document["run"],
            retired=tuple(document["retired"]),
            stored_as=entry.version,
        )

    def _stored(self, progress: Progress) -> tuple[bytes, int, bytes]:
        document = {key: value for key, value in asdict(progress).items() if key != "stored_as"}
        return (_query_key(progress.query), progress.stored_as, _dump({**document, "at": _now_ms()}))

    def _change_document(
        self, key: tuple[int, int], name: str, change: Callable[[dict[str, Any]], dict[str, Any]]
    ) -> dict[str, Any]:
        while True:
            entry = self._table.get([_key(*key)])[0]
            document = change({} if entry is None else dict(_load(entry, self.stream)[name]))
            try:
                self._table.put([(_key(*key), NOT_EXISTS if entry is None else entry.version, _dump({name: document}))])
                return document
            except ConflictError:
                continue

    def _in_the_way(self, *keys: bytes) -> list[Entry | None]:
        """The entries of these keys, one of which has kept a change from being made.

        A server compares a change with those that are under way, too; these can be read only a moment later.
        """
        limit = Limit(_READABLE_S)
        while True:
            found = self._table.get(keys)
            if any(entry is not None for entry in found) or not limit.wait(_POLL_S):
                return found

    def _change(self, old: State, new: State, *entries: tuple[bytes, int, bytes]) -> State:
        document = {
            "version": new.version,
            "pending": asdict(new.pending) if new.pending else None,
            "rows": new.rows,
            "bytes": new.bytes,
        }
        stored = self._table.put([(_key(*_STATE), old.stored_as, _dump(document)), *entries])
        return replace(new, stored_as=stored[0])


def open_ledger(client: Client, stream: Stream) -> Ledger | None:
    """A stream's commit log.

    Returns:
        None when it has none: then nobody has written to the stream through this package.
    """
    try:
        return Ledger(KeyValueTable(client.pool, stream.scope, ledger_name(stream)), stream)
    except KeyValueTableNotFoundError:
        return None


def create_ledger(client: Client, stream: Stream) -> Ledger:
    """A stream's commit log, made when it isn't there."""
    found = open_ledger(client, stream)
    if found is not None:
        return found
    client.controller.create_key_value_table(stream.scope, ledger_name(stream), partitions=1, key_bytes=KEY_BYTES)
    return Ledger(KeyValueTable(client.pool, stream.scope, ledger_name(stream)), stream)


def claim_ledger(client: Client, stream: Stream) -> Ledger | None:
    """Make a stream's commit log; of several who try at once only one does.

    Returns:
        None when it was there.
    """
    name = ledger_name(stream)
    if not client.controller.create_key_value_table(stream.scope, name, partitions=1, key_bytes=KEY_BYTES):
        return None
    return Ledger(KeyValueTable(client.pool, stream.scope, name), stream)


def delete_ledger(client: Client, stream: Stream) -> bool:
    """Delete a stream's commit log.

    Returns:
        False when it had none.
    """
    return client.controller.delete_key_value_table(stream.scope, ledger_name(stream))


def is_ledger_name(table: str) -> bool:
    """Whether a key-value table of this name is a stream's commit log."""
    return table.endswith(_SUFFIX)


def _key(space: int, number: int) -> bytes:
    return struct.pack(">QQ", space, number)


def _job_key(job: uuid.UUID, number: int) -> bytes:
    # The upper bit keeps jobs apart from the log's own spaces.
    return _key(job.int >> 64 | _JOBS, number)


def _query_key(query: str) -> bytes:
    digest = int.from_bytes(hashlib.blake2b(query.encode(), digest_size=KEY_BYTES).digest())
    return _key(digest >> 64 & _QUERIES - 1 | _QUERIES, digest & (1 << 64) - 1)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _dump(document: dict[str, Any]) -> bytes:
    return json.dumps({"format": FORMAT, **document}, separators=(",", ":")).encode()


def _load(entry: Entry, stream: Stream) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(entry.value)
    if document.get("format") != FORMAT:
        raise PravegaError(
            f'the commit log of stream "{stream}" was written by another version of pyspark-pravega '
            f"(format {document.get('format')}, known is {FORMAT}): upgrade this one"
        )
    return document
