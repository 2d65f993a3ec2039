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
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace

from pyspark_pravega.client import Client, KeyValueTable, Stream
from pyspark_pravega.client.key_value import ANY_VERSION, NOT_EXISTS
from pyspark_pravega.client.names import MAX_TABLE_NAME_LENGTH
from pyspark_pravega.clock import now_ms
from pyspark_pravega.connector.log.jobs import JobLog, forget_abandoned, noted_transactions
from pyspark_pravega.connector.log.json_table import Change, Content, Document, JsonTable
from pyspark_pravega.connector.log.keys import COMMITS, CUTS, KEY_BYTES, PROPERTIES, STATE, commit_key, query_key
from pyspark_pravega.errors import ConflictError, KeyValueTableNotFoundError

_SUFFIX = ".ledger"
KEPT_VERSIONS = 10_000
_SWEEP_EVERY = 100
_RETIRED = 16


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
    committed_at: int | None = None
    """When the last version was completed, in milliseconds since 1970; None in logs that didn't keep it here."""
    stored_as: int = NOT_EXISTS
    """The entry's version in the key-value table, to be named when it is changed."""

    def after(self, done: Intent, committed_at: int) -> State:
        """The state when a commit has become the next version."""
        return replace(
            self,
            version=self.version + 1,
            pending=None,
            committed_at=committed_at,
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
        self._table = JsonTable(table, f'the commit log of stream "{stream}"')

    def state(self) -> State:
        """The last version and the commit in progress."""
        return _state(self._table.get(STATE)[0])

    def state_and_progress(self, query: str) -> tuple[State, Progress]:
        """The log's state and a query's progress, in one look; they may be of different moments.

        Args:
            query: the query's id.
        """
        state, progress = self._table.get(STATE, query_key(query))
        return _state(state), _progress(query, progress)

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
        changes = [] if progress is None else [_stored(progress)]
        return self._change(state, replace(state, pending=intent), *changes)

    def complete(self, state: State, *, committed_at: int, cut: dict[int, int]) -> State:
        """Make the commit in progress the next version.

        Args:
            state: the state it is based on, with the commit in progress.
            committed_at: milliseconds since 1970. A version is always later than the one before, also where clocks
                differ: searches by time rest on it.
            cut: the tail that the commit reached.

        Returns:
            The new state.

        Raises:
            ConflictError: the log has changed since: somebody else completed it.
        """
        assert state.pending is not None
        done = state.pending
        before = state.committed_at
        if before is None and state.version:
            before = max((commit.committed_at for commit in self.commits([state.version])), default=0)
        committed_at = max(committed_at, 1 + (before or 0))
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
        entry = (commit_key(commit.version), NOT_EXISTS, asdict(commit))
        if done.query is None or done.epoch is None:
            completed = self._change(state, state.after(done, committed_at), entry)
        else:
            completed = self._complete_epoch(state, state.after(done, committed_at), entry, done.query, done.epoch)
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
        found = self._table.get(*map(commit_key, versions))
        return [_commit(document.content) for document in found if document is not None]

    def all_commits(self) -> Iterator[Commit]:
        """All completed versions that are still known, in their order."""
        for _, document in self._table.iterate(prefix=COMMITS):
            yield _commit(document.content)

    # Jobs

    def job(self, job: uuid.UUID) -> JobLog:
        """What the log knows of a job that still writes.

        Args:
            job: its id.
        """
        return JobLog(self._table, self.stream, job)

    def noted_transactions(self) -> set[uuid.UUID]:
        """The transactions of all attempts of all jobs that haven't come to their end."""
        return noted_transactions(self._table)

    # Queries

    def progress(self, query: str) -> Progress:
        """How far a query has come.

        Args:
            query: its id.
        """
        return _progress(query, self._table.get(query_key(query))[0])

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
                (stored_as,) = self._table.put(_stored(taken))
                return replace(taken, stored_as=stored_as)
            except ConflictError:
                continue

    # The table's properties

    def properties(self) -> dict[str, str]:
        """The table's properties; empty when none were set."""
        content = self._table.content(PROPERTIES)
        return {} if content is None else dict(content["properties"])

    def set_properties(self, properties: dict[str, str]) -> None:
        """Replace the table's properties."""
        self._table.put((PROPERTIES, ANY_VERSION, {"properties": properties}))

    def change_properties(self, change: Callable[[dict[str, str]], dict[str, str]]) -> None:
        """Change the table's properties, however many do so at once.

        Args:
            change: makes the new properties of the present ones; it may be called several times.
        """

        def changed(before: Content | None) -> Content:
            return {"properties": change({} if before is None else dict(before["properties"]))}

        self._table.change(PROPERTIES, changed)

    # Stream cuts that have names

    def cuts(self) -> dict[str, NamedCut]:
        """The stream cuts that have names, by these."""
        return _cuts(self._table.content(CUTS))

    def change_cuts(self, change: Callable[[dict[str, NamedCut]], dict[str, NamedCut]]) -> None:
        """Change the cuts that have names, however many do so at once.

        Args:
            change: makes the new ones of the present ones; it may be called several times, and what it raises ends it.
        """

        def changed(before: Content | None) -> Content:
            return {"cuts": {name: asdict(cut) for name, cut in change(_cuts(before)).items()}}

        self._table.change(CUTS, changed)

    def _complete_epoch(self, state: State, after: State, entry: Change, query: str, epoch: int) -> State:
        while True:
            progress = self.progress(query)
            reached = _stored(replace(progress, epoch=max(epoch, progress.epoch)))
            try:
                return self._change(state, after, entry, reached)
            except ConflictError:
                # Perhaps another driver has only taken the query over.
                if self.state().stored_as != state.stored_as:
                    raise

    def _sweep(self, version: int) -> None:
        """Remove what nobody needs any more. Others may do it at the same time."""
        last = version - KEPT_VERSIONS
        if last > 0:
            gone = range(max(1, last - 2 * _SWEEP_EVERY), last + 1)
            self._table.remove(*((commit_key(number), ANY_VERSION) for number in gone))
        forget_abandoned(self._table)

    def _change(self, old: State, new: State, *changes: Change) -> State:
        content = {
            "version": new.version,
            "pending": asdict(new.pending) if new.pending else None,
            "rows": new.rows,
            "bytes": new.bytes,
            "committed_at": new.committed_at,
        }
        stored_as, *_ = self._table.put((STATE, old.stored_as, content), *changes)
        return replace(new, stored_as=stored_as)


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


def _state(document: Document | None) -> State:
    if document is None:
        return State()
    content = document.content
    pending = content["pending"]
    if pending:
        pending = Intent(**{**pending, "transactions": tuple(pending["transactions"])})
    return State(
        version=content["version"],
        pending=pending,
        rows=content.get("rows"),
        bytes=content.get("bytes"),
        committed_at=content.get("committed_at"),
        stored_as=document.version,
    )


def _commit(content: Content) -> Commit:
    return Commit(
        version=content["version"],
        job=content["job"],
        transactions=tuple(content["transactions"]),
        rows=content["rows"],
        bytes=content["bytes"],
        committed_at=content["committed_at"],
        cut={int(segment): offset for segment, offset in content["cut"].items()},
        query=content.get("query"),
        epoch=content.get("epoch"),
    )


def _progress(query: str, document: Document | None) -> Progress:
    if document is None:
        return Progress(query=query)
    content = document.content
    return Progress(
        query=query,
        epoch=content["epoch"],
        run=content["run"],
        retired=tuple(content["retired"]),
        stored_as=document.version,
    )


def _stored(progress: Progress) -> Change:
    content = {key: value for key, value in asdict(progress).items() if key != "stored_as"}
    return (query_key(progress.query), progress.stored_as, {**content, "at": now_ms()})


def _cuts(content: Content | None) -> dict[str, NamedCut]:
    return {
        name: NamedCut(created_at=cut["created_at"], offsets={int(i): o for i, o in cut["offsets"].items()})
        for name, cut in (content["cuts"] if content is not None else {}).items()
    }
