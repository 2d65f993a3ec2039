"""The commit log of a stream: what was committed, what is being committed, and the table's own properties.

It lies in a key-value table beside the stream and is changed only under conditions, all entries of a change at once:

| key (16 bytes: space, number) | value (JSON) |
|---|---|
| 0, 0 | the state: the last version, and the commit in progress, if any |
| 0, 1 | the table's properties |
| 1, n | version n: when, how much, which transactions, and the stream cut that it reached |
| job, 0 | there while a job may still add transactions |
| job, 1 + p | the transactions of all attempts at partition p of a job |

At most one commit is in progress at a time: who wants to commit first settles the one that is there.
"""

from __future__ import annotations

import hashlib
import json
import struct
import uuid
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from pyspark_pravega.client import Client, Stream
from pyspark_pravega.client.names import MAX_TABLE_NAME_LENGTH
from pyspark_pravega.client.tables import ANY_VERSION, NOT_EXISTS, Entry, KeyValueTable
from pyspark_pravega.errors import ConflictError, KeyValueTableNotFoundError, PravegaError

KEY_BYTES = 16
FORMAT = 1
_STATE, _PROPERTIES = (0, 0), (0, 1)
_COMMITS = 1
_SUFFIX = ".ledger"


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

    def transaction_ids(self) -> tuple[uuid.UUID, ...]:
        """The transactions' ids."""
        return tuple(uuid.UUID(text) for text in self.transactions)


@dataclass(frozen=True, kw_only=True)
class State:
    """The log's first entry."""

    version: int = 0
    """The last completed version; 0 when there is none."""
    pending: Intent | None = None
    stored_as: int = NOT_EXISTS
    """The entry's version in the key-value table, to be named when it is changed."""


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


class Ledger:
    """A stream's commit log. Safe for use by several threads."""

    def __init__(self, table: KeyValueTable, stream: Stream) -> None:
        """Use an opened key-value table; see `open_ledger` and `create_ledger`."""
        self.stream = stream
        self._table = table

    def state(self) -> State:
        """The last version and the commit in progress."""
        entry = self._table.get([_key(*_STATE)])[0]
        if entry is None:
            return State()
        document = _load(entry, self.stream)
        pending = document["pending"]
        if pending:
            pending = Intent(**{**pending, "transactions": tuple(pending["transactions"])})
        return State(version=document["version"], pending=pending, stored_as=entry.version)

    def begin(self, state: State, intent: Intent) -> State:
        """Record a commit before it is made.

        Args:
            state: the state it is based on, with nothing in progress.
            intent: the commit.

        Returns:
            The new state.

        Raises:
            ConflictError: the log has changed since.
        """
        return self._change(state, State(version=state.version, pending=intent))

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
        )
        entry = (_key(_COMMITS, commit.version), NOT_EXISTS, _dump(asdict(commit)))
        return self._change(state, State(version=commit.version), entry)

    def withdraw(self, state: State) -> State:
        """Take back the commit in progress, of which nothing became visible.

        Raises:
            ConflictError: the log has changed since.
        """
        return self._change(state, State(version=state.version))

    def commits(self, versions: Iterable[int]) -> list[Commit]:
        """Completed versions.

        Args:
            versions: which ones; those that aren't there are left out.

        Returns:
            The commits in the order asked for.
        """
        found = self._table.get([_key(_COMMITS, version) for version in versions])
        documents = [_load(entry, self.stream) for entry in found if entry is not None]
        return [
            Commit(
                version=d["version"],
                job=d["job"],
                transactions=tuple(d["transactions"]),
                rows=d["rows"],
                bytes=d["bytes"],
                committed_at=d["committed_at"],
                cut={int(segment): offset for segment, offset in d["cut"].items()},
            )
            for d in documents
        ]

    # The table's properties

    def properties(self) -> dict[str, str]:
        """The table's properties; empty when none were set."""
        entry = self._table.get([_key(*_PROPERTIES)])[0]
        return {} if entry is None else dict(_load(entry, self.stream)["properties"])

    def set_properties(self, properties: dict[str, str]) -> None:
        """Replace the table's properties."""
        self._table.put([(_key(*_PROPERTIES), ANY_VERSION, _dump({"properties": properties}))])

    # Jobs and their attempts

    def open_job(self, job: uuid.UUID) -> None:
        """Allow a job's tasks to add transactions."""
        self._table.put([(_job_key(job, 0), ANY_VERSION, _dump({"job": str(job)}))])

    def add_attempt(self, job: uuid.UUID, partition: int, transaction: uuid.UUID) -> bool:
        """Note a task attempt's transaction, so that the job can throw it away when another attempt wins.

        Args:
            job: the job.
            partition: the task's partition.
            transaction: the transaction that the attempt has begun.

        Returns:
            False when the job is over: then the transaction is the attempt's own to abort.
        """
        key = _job_key(job, 1 + partition)
        while True:
            entry = self._table.get([key])[0]
            known = [] if entry is None else _load(entry, self.stream)["transactions"]
            document = _dump({"transactions": [*known, str(transaction)]})
            try:
                self._table.put([(key, NOT_EXISTS if entry is None else entry.version, document)])
                break
            except ConflictError:
                continue
        # The job closes first and looks for attempts afterwards, so one of the two sees the other.
        if self._table.get([_job_key(job, 0)])[0] is not None:
            return True
        self._take_back(key, transaction)
        return False

    def close_job(self, job: uuid.UUID) -> None:
        """Allow no more transactions."""
        self._table.remove([(_job_key(job, 0), ANY_VERSION)])

    def attempts(self, job: uuid.UUID, partitions: int) -> list[uuid.UUID]:
        """The transactions of all attempts at a job's partitions."""
        found = self._table.get([_job_key(job, 1 + partition) for partition in range(partitions)])
        return [
            uuid.UUID(text)
            for entry in found
            if entry is not None
            for text in _load(entry, self.stream)["transactions"]
        ]

    def forget_attempts(self, job: uuid.UUID, partitions: int) -> None:
        """Remove what a job's attempts have noted."""
        self._table.remove([(_job_key(job, 1 + partition), ANY_VERSION) for partition in range(partitions)])

    def _take_back(self, key: bytes, transaction: uuid.UUID) -> None:
        """Forget one attempt; the job may still need to know of the others."""
        while (entry := self._table.get([key])[0]) is not None:
            others = [text for text in _load(entry, self.stream)["transactions"] if text != str(transaction)]
            try:
                if others:
                    self._table.put([(key, entry.version, _dump({"transactions": others}))])
                else:
                    self._table.remove([(key, entry.version)])
                return
            except ConflictError:
                continue

    def _change(self, old: State, new: State, *entries: tuple[bytes, int, bytes]) -> State:
        document = {"version": new.version, "pending": asdict(new.pending) if new.pending else None}
        stored = self._table.put([(_key(*_STATE), old.stored_as, _dump(document)), *entries])
        return State(version=new.version, pending=new.pending, stored_as=stored[0])


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
    return _key(job.int >> 64 | 1 << 63, number)


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
