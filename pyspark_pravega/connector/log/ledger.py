"""The commit log of a stream: what was committed, what is being committed, and the table's own properties.

It lies in a key-value table beside the stream and is changed only under conditions, all entries of a change at once:

| key (16 bytes: space, number) | value (JSON) |
|---|---|
| 0, 0 | the state: the last version, any commit in progress, rows and bytes of all, what a replacement has left |
| 0, 1 | the table's properties |
| 0, 2 | the stream cuts that have names |
| 0, 3 | who is adding a schema to the registry, or finishes a replacement of the table |
| 0, 4 | which versions subscribers have read that follow CHANGES of a table with a key |
| 0, 5 | there where the log was made for a stream that was just being dropped |
| 0, 6 | which entries there are of what `CALL index` has read |
| 0, 7 and 0, 8 | which statistics `CALL analyze` has kept, and these |
| 1, n | version n: when, how much, which transactions, and the stream cut that it reached |
| 2, n | figures of blocks of its rows, and where they lie, of tables with an index |
| 3, n | the same of events that `CALL index` has read, whoever has written them |
| copy (a hash, its three upper bits 001) | what `CALL copy` of that name has copied into the table |
| redelivery (a hash, its four upper bits 0001) | which dead letters `CALL redeliver` is bringing into the table |
| query (a hash, its two upper bits 01) | how far a streaming query has come, and which of its drivers may go on |
| job, 0 | there while a job may still add transactions |
| job, 1 + p | the transactions of all attempts at partition p of a job |
| job, 2^64 - 1 | the transaction that the first attempts of a job share; where they share none, the first one |
| job, 2^64 - 3 | the figures of what it has written, until it is a version |
| job, 2^64 - 2 | the version that a job has become, until the caller of the commit has the answer |

At most one commit is in progress at a time: who wants to commit first settles the one that is there.

It doesn't grow without bound: the table property `history` says which versions are kept (the last `KEPT_VERSIONS`
without it), a query has one entry, and what jobs whose driver has died have left is removed when no transaction of
theirs can be open any more. A job that was committed is found by its own entry, which is written with the version.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from functools import partial

from pyspark_pravega.client import KeyValueTable, Stream
from pyspark_pravega.client.key_value import ANY_VERSION, NOT_EXISTS
from pyspark_pravega.connector.log.analyzed import StatisticsLog, statistics_id
from pyspark_pravega.connector.log.copies import CopyLog, RedeliveryLog
from pyspark_pravega.connector.log.entries import (
    OTHERS,
    Cleaning,
    Commit,
    Intent,
    Numbered,
    Progress,
    State,
    commit_content,
    commit_of,
    progress_of,
    state_content,
    state_of,
    stored,
)
from pyspark_pravega.connector.log.entry_keys import (
    ABANDONED,
    COMMITS,
    FIRST_JOB,
    FIRST_QUERY,
    PROPERTIES,
    SCHEMAS,
    STATE,
    STATISTICS,
    commit_key,
    query_key,
)
from pyspark_pravega.connector.log.history import (
    HISTORY,
    HolderLog,
    commits_of,
    first_commit,
    sweep_versions,
)
from pyspark_pravega.connector.log.indexes import IndexLog, index_of
from pyspark_pravega.connector.log.job_log import (
    JobCommit,
    JobLog,
    OpenJob,
    forget_abandoned,
    noted_transactions,
    open_jobs,
    stored_commit,
)
from pyspark_pravega.connector.log.json_table import Change, Content, JsonTable
from pyspark_pravega.errors import ConflictError

KEPT_VERSIONS, _RETIRED = 10_000, 100
_SWEEP_EVERY, _AHEAD_MS = 100, 60_000

_log = logging.getLogger(__name__)


class Ledger:
    """A stream's commit log. Safe for use by several threads."""

    def __init__(self, table: KeyValueTable, stream: Stream) -> None:
        """Use an opened key-value table; see `opening`."""
        self.stream = stream
        self._table = JsonTable(table, f'the commit log of stream "{stream}"')

    @property
    def opened_at(self) -> State:
        """The state when the log was opened. Who has just opened it needs to ask no more."""
        return state_of(self._table.looked_up)

    def state(self) -> State:
        """The last version and the commit in progress."""
        return state_of(self._table.get(STATE)[0])

    def may_change(self) -> bool:
        """Whether the user has the right to change it."""
        return self._table.may_change()

    def abandon(self) -> None:
        """Note that the log was made too late: its stream is gone, or going. Doing it again is harmless."""
        with suppress(ConflictError):
            self._table.put((ABANDONED, NOT_EXISTS, {}))

    def is_left_over(self) -> bool:
        """Whether the log can't be that of a table which is being created."""
        state, abandoned = self._table.get(STATE, ABANDONED)
        return abandoned is not None or state_of(state).version > 0

    def begin(self, state: State, intent: Intent, progress: Progress | None = None) -> State:
        """Record a commit before it is made.

        Args:
            state: the state it is based on, with nothing in progress.
            intent: the commit.
            progress: that of the commit's query, on which it is based, too.

        Returns:
            The new state.

        Raises:
            ConflictError: the log, or the query's progress, has changed since, or a commit is in progress in it.
        """
        if state.pending is not None:
            raise ConflictError(f'a commit to stream "{self.stream}" is in progress already')
        changes = [] if progress is None else [stored(progress)]
        return self._change(state, replace(state, pending=intent), *changes)

    def complete(
        self,
        state: State,
        *,
        committed_at: int,
        cut: dict[int, int],
        without_rows: Intent | None = None,
        progress: Progress | None = None,
    ) -> State:
        """Make the commit in progress the next version, with all that it replaces.

        Args:
            state: the state it is based on, with the commit in progress.
            committed_at: milliseconds since 1970. A version is always later than the one before, also where clocks
                differ: searches by time rest on it.
            cut: the tail that the commit reached.
            without_rows: a commit that has no transactions, in place of one in progress: there must be none then.
            progress: that of the commit's query, as it was seen since the commit is in progress.

        Returns:
            The new state.

        Raises:
            ConflictError: the log has changed since: another process completed it.
        """
        done = without_rows or state.pending
        assert done is not None
        before = state.committed_at
        if before is None and state.version:
            before = max((commit.committed_at for commit in self.commits([state.version])), default=0)
        if before is not None and before > committed_at + _AHEAD_MS:
            _log.warning(
                'version %d of stream "%s" lies %d s ahead of the clock here, and so will the next one: times of '
                "versions ascend. Look at the clocks of those who write to it",
                *(state.version, self.stream, (before - committed_at) // 1000),
            )
        committed_at = max(committed_at, 1 + (before or 0))
        replacement = done.replacement
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
            replacement=None if replacement is None else replacement.id,
            begins={} if replacement is None else replacement.begins,
            base=None if replacement is None else replacement.base,
            replaced=0 if replacement is None else state.replaced_rows,
            started_at=done.started_at,
        )
        changes: list[Change] = [(commit_key(commit.version), NOT_EXISTS, commit_content(commit))]
        noted = JobCommit(version=commit.version)
        changes += [stored_commit(id, noted) for id in {done.job, commit.replacement or OTHERS} - {OTHERS}]
        changes += index_of(self._table, done, commit.version, cut) if done.indexed else []
        if replacement is not None and replacement.properties is not None:
            changes.append((PROPERTIES, ANY_VERSION, {"properties": replacement.properties}))
        after = state.after(done, committed_at, cut)
        if done.query is None or done.epoch is None:
            completed = self._change(state, after, *changes)
        else:
            completed = self._complete_epoch(state, after, changes, commit, done, progress)
        if commit.version % _SWEEP_EVERY == 0:
            self._sweep(commit.version)
        return completed

    def cleaned(self, state: State, cleaning: Cleaning) -> State:
        """Note what of a replacement is still to be done.

        Args:
            state: the state it is based on.
            cleaning: what is left.

        Raises:
            ConflictError: the log has changed since.
        """
        return self._change(state, replace(state, cleaning=None if cleaning.done else cleaning))

    def compacted(self, state: State, ranges: Mapping[int, tuple[int, int]]) -> State:
        """Note where the rows lie that the last compaction has written.

        Args:
            state: the state it is based on.
            ranges: as of `State.compacted`.

        Raises:
            ConflictError: the log has changed since.
        """
        return self._change(state, replace(state, compacted=dict(ranges)))

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
        return commits_of(self._table, versions)

    def indexes(self) -> IndexLog:
        """Of which blocks of events there are figures."""
        return IndexLog(self._table)

    def statistics(self) -> StatisticsLog:
        """What `CALL analyze` has kept of the table's columns."""
        return StatisticsLog(self._table)

    def all_commits(self) -> Iterator[Commit]:
        """All completed versions that are still known, in their order."""
        yield from (commit_of(document.content) for _, document in self._table.iterate(prefix=COMMITS))

    def first_commit(self) -> Commit | None:
        """The first version that is still known; None when there is none.

        The oldest go first, so it is searched for: a server takes a second to begin a list of a million keys.
        """
        return first_commit(self._table, self.state().version)

    def copies(self) -> CopyLog:
        """What was copied into the table, by the copies' names."""
        return CopyLog(self._table)

    def redeliveries(self) -> RedeliveryLog:
        """Which dead letters are being brought into the table."""
        return RedeliveryLog(self._table)

    def holders(self) -> HolderLog:
        """Who needs the events of old versions: named cuts, and subscribers."""
        return HolderLog(self._table)

    def job(self, job: uuid.UUID) -> JobLog:
        """What the log knows of a job that still writes.

        Args:
            job: its id.
        """
        return JobLog(self._table, self.stream, job)

    def noted_transactions(self) -> set[uuid.UUID]:
        """The transactions of all attempts of all jobs that haven't come to their end."""
        return noted_transactions(self._table)

    def open_jobs(self) -> list[OpenJob]:
        """The jobs that haven't come to their end, the oldest first."""
        return open_jobs(self._table)

    # Queries

    def queries(self) -> list[tuple[Progress, int]]:
        """How far each streaming query has come in writing to the stream, and when that was, in ms since 1970."""
        return [
            (progress_of(document.content["query"], document), document.content.get("at", 0))
            for _, document in self._table.iterate(start=FIRST_QUERY, stop=FIRST_JOB)
        ]

    def progress(self, query: str) -> Progress:
        """How far a query has come.

        Args:
            query: its id.
        """
        return progress_of(query, self._table.get(query_key(query))[0])

    def state_and_progress(self, query: str | None) -> tuple[State, Progress | None]:
        """The log's state, and how far a query has come, in one look; they may be of different moments.

        Args:
            query: the query's id; None for none.
        """
        if query is None:
            return self.state(), None
        state, document = self._table.get(STATE, query_key(query))
        return state_of(state), progress_of(query, document)

    def take_over(
        self,
        query: str,
        run: str,
        *,
        check: Callable[[Progress], None] = lambda _: None,
        known: Progress | None = None,
    ) -> Progress | None:
        """Make a driver the one that may go on with a query; all others' next commits fail.

        Args:
            query: the query's id.
            run: the driver.
            check: is shown the query's progress first; what it raises leaves the query to whose it is.
            known: the query's progress, as it was seen just now.

        Returns:
            The query's progress; None when another driver has taken it over from this one before.
        """
        while True:
            progress, known = known or self.progress(query), None
            check(progress)
            if progress.run == run:
                return progress
            if run in progress.retired:
                return None
            retired = (progress.retired if progress.run is None else (*progress.retired, progress.run))[-_RETIRED:]
            taken = replace(progress, run=run, retired=retired)
            try:
                # Where the first try was made after all the second one is a conflict, and the next look finds it.
                (stored_as,) = self._table.repeated(partial(self._table.put, stored(taken)))
                return replace(taken, stored_as=stored_as)
            except ConflictError:
                continue

    def rewind(self, query: str, epoch: int) -> None:
        """Forget that epochs of a query were committed: from one on they are others than those that were.

        Args:
            query: the query's id.
            epoch: the first of them.
        """
        while (progress := self.progress(query)).epoch >= epoch:
            try:
                before = replace(progress, epoch=epoch - 1, version=None, rows=None, offsets=None)
                self._table.repeated(partial(self._table.put, stored(before)))
            except ConflictError:
                continue

    def note_numbered(self, query: str, run: str, how: Numbered) -> bool:
        """Note how a real-time query numbers its rows.

        Args:
            query: the query's id.
            run: its driver.
            how: as of `Progress.numbered`.

        Returns:
            Whether the driver may go on: no other one has taken the query over.
        """
        while True:
            progress = self.progress(query)
            if progress.run != run:
                return False
            if progress.numbered == how:
                return True
            try:
                # Where the first try was made after all the second one is a conflict, and the next look finds it.
                self._table.repeated(partial(self._table.put, stored(replace(progress, numbered=how))))
            except ConflictError:
                continue

    # The table's properties

    def properties(self) -> dict[str, str]:
        """The table's properties; empty when none were set."""
        return self.properties_and_state()[0]

    def properties_and_state(self) -> tuple[dict[str, str], State]:
        """The table's properties and the log's state with `State.analyzed`, in one look."""
        properties, state, noted = self._table.get(PROPERTIES, STATE, STATISTICS)
        texts = {} if properties is None else dict(properties.content["properties"])
        return texts, replace(state_of(state), analyzed=statistics_id(noted))

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

    def truncate_later(self, state: State) -> State:
        """Note that the next commit takes the place of all rows.

        Args:
            state: the state it is based on.

        Raises:
            ConflictError: the log has changed since.
        """
        return self._change(state, replace(state, truncation_due=True))

    def add_check(self, state: State, change: Callable[[dict[str, str]], dict[str, str]]) -> State:
        """Change the table's properties to those with one more CHECK constraint, or another key, and count that.

        Args:
            state: the state it is based on, with nothing in progress.
            change: makes the new properties of the present ones.

        Returns:
            The new state.

        Raises:
            ConflictError: the log or the properties have changed since, or a commit is in progress.
        """
        if state.pending is not None:
            raise ConflictError(f'a commit to stream "{self.stream}" is in progress')
        (document,) = self._table.get(PROPERTIES)
        before = {} if document is None else dict(document.content["properties"])
        stored_as = NOT_EXISTS if document is None else document.version
        changed = (PROPERTIES, stored_as, {"properties": change(before)})
        return self._change(state, replace(state, added_checks=state.added_checks + 1), changed)

    def schemas_locked(self) -> AbstractContextManager[None]:
        """Be the only one who adds schemas of the table meanwhile, or finishes its replacement."""
        # The registry and the controller have no conditional changes.
        return self._table.locked(SCHEMAS)

    def _complete_epoch(
        self, old: State, new: State, changes: Sequence[Change], commit: Commit, done: Intent, known: Progress | None
    ) -> State:
        assert commit.query is not None
        assert commit.epoch is not None
        while True:
            progress, known = known or self.progress(commit.query), None
            if progress.epoch < commit.epoch:
                progress = replace(
                    progress, epoch=commit.epoch, version=commit.version, rows=commit.rows, offsets=done.offsets
                )
            try:
                return self._change(old, new, *changes, stored(progress))
            except ConflictError:
                # Perhaps another driver has only taken the query over.
                if self.state().stored_as != old.stored_as:
                    raise

    def _sweep(self, version: int) -> None:
        """Remove what isn't needed any more. Other processes may do it at the same time."""
        sweep_versions(self._table, self.stream, version, self.properties().get(HISTORY), KEPT_VERSIONS)
        forget_abandoned(self._table)

    def _change(self, old: State, new: State, *changes: Change) -> State:
        stored_as, *_ = self._table.put((STATE, old.stored_as, state_content(new)), *changes)
        return replace(new, stored_as=stored_as)
