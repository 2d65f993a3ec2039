"""Compaction of a table with a key: its rows are written once more, and the events before that are removed.

The rows are those of one moment, the base. From the compaction's version on, the table begins at the base, so what came
between the base and the version's own events stays. It lies before them and is newer: that is why they are marked
(`COMPACTED`). So writers go on meanwhile, and needn't know.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from pyspark_pravega.client import Stream
from pyspark_pravega.client.names import segment_number
from pyspark_pravega.client.positions import proper_cut
from pyspark_pravega.connector.log import (
    Ledger,
    Replacement,
    Snapshot,
    State,
    create_ledger,
    open_ledger,
    settle,
    take_snapshot,
)
from pyspark_pravega.connector.option_names import EXACTLY_ONCE
from pyspark_pravega.connector.options import ReadOptions, WriteOptions
from pyspark_pravega.connector.read import snapshot_reader
from pyspark_pravega.connector.shared import shared_client
from pyspark_pravega.connector.table import ChangeCodec, load_definition
from pyspark_pravega.connector.write.job import TaskMessage, WriteJob
from pyspark_pravega.connector.write.plan import WritePlan
from pyspark_pravega.connector.write.read_set import parts_since
from pyspark_pravega.connector.write.retention import release
from pyspark_pravega.errors import ConflictError, TableChangedError, UnsupportedOperationError, WriteConflictError
from pyspark_pravega.settings import Settings

_THREADS = 2


@dataclass(frozen=True, kw_only=True)
class Compacted:
    """What a compaction came to."""

    version: int
    rows: int
    bytes_before: int
    """Of the events that were there, frames included."""
    bytes_after: int
    """Of those that were written instead."""


class CompactingJob(WriteJob):
    """Writes the rows of a moment once more, in place of all events until then."""

    replaces = True

    def __init__(self, plan: WritePlan, base: Snapshot) -> None:
        """Begin a job.

        Args:
            plan: how to write; the table has a key.
            base: the stream when its rows were read.
        """
        assert isinstance(plan.codec, ChangeCodec)
        self._base = base
        self._before: Mapping[int, int] = {}
        super().__init__(replace(plan, codec=plan.codec.compacting()))
        client = shared_client(plan.settings)
        ledger = create_ledger(client, plan.stream, to_write=True)
        last = [commit.cut for commit in ledger.commits([base.version] if base.version else [])]
        since = parts_since(client, base, last[0]) if last else list(base.parts)
        # What others have written since belongs to the next version.
        is_whole = since is not None and not any(part.size for part in since)
        self._first_whole = base.version + (1 if is_whole else 2)

    def replacement(self, ledger: Ledger, state: State) -> Replacement:
        """As `WriteJob.replacement`."""
        client, stream = shared_client(self.plan.settings), self.plan.stream
        if state.replaced_rows > self._base.version or state.truncation_due:
            raise WriteConflictError(
                f'stream "{stream}" was not compacted: another statement has replaced all its rows meanwhile'
            )
        if state.lake is not None and state.lake.by_key and state.lake.kept > self._base.version:
            raise WriteConflictError(
                f'stream "{stream}" was not compacted: events that were written meanwhile have been removed, as they '
                f"are in the lake, up to version {state.lake.kept}; run it again"
            )
        self._before = take_snapshot(client, stream, ledger).cut
        return Replacement(begins=dict(proper_cut(client, stream, self._base.cut)), keeps=True, base=self._first_whole)

    def note_ranges(self, ledger: Ledger, messages: Sequence[TaskMessage]) -> None:
        """Note where the rows lie that were written, if nothing of others came between: then reads needn't look for
        the last event of each key among them.

        Args:
            ledger: the stream's commit log, in which the job is committed.
            messages: those that were committed.
        """
        written: Counter[int] = Counter()
        for message in messages:
            if message.staged is not None:
                # When a stream has scaled within a transaction, others name its segments by another epoch.
                written.update({segment_number(id): size for id, (_, size) in message.staged.written.items()})
        while True:
            state = ledger.state()
            commits = ledger.commits([state.replaced_rows])
            if not commits or commits[0].job != str(self.job):
                # Another statement has replaced all rows meanwhile.
                return
            begins, ends = self._before, commits[0].cut
            ranges = {
                segment_id: (begins.get(segment_id, 0), end)
                for segment_id, end in ends.items()
                if end == begins.get(segment_id, 0) + written[segment_number(segment_id)]
            }
            try:
                ledger.compacted(state, ranges)
            except ConflictError:
                continue
            return


def compact(settings: Settings, stream: Stream, *, one_more: bool = False, threads: int = _THREADS) -> Compacted:
    """Write a table's rows once more, and remove the events before that no named cut or subscriber needs.

    Args:
        settings: the cluster, and the schema registry.
        stream: the table's stream.
        one_more: as of `release`.
        threads: how many read and write.

    Returns:
        What it came to.

    Raises:
        UnsupportedOperationError: the table has no key, or its next write takes the place of all rows.
        WriteConflictError: all rows were replaced meanwhile; nothing was done.
    """
    client = shared_client(settings)
    ledger = open_ledger(client, stream)
    if ledger is None:
        # The log has the property that names the key.
        raise _without_key(stream)
    if settle(client, ledger).truncation_due:
        raise UnsupportedOperationError(
            f'stream "{stream}" can\'t be compacted now: its next write takes the place of all rows'
        )
    snapshot = take_snapshot(client, stream, ledger)
    # Looked up behind the snapshot, it has each column that an event in it was written with.
    definition = load_definition(client, settings, stream)
    if definition.key is None:
        raise _without_key(stream)
    if snapshot.replaced_table != definition.replaced_table:
        raise TableChangedError(f'stream "{stream}" was made another table just now: run it again')
    names = [check.name for check in definition.properties.checks]
    plan = WritePlan.of(definition, WriteOptions(writer_mode=EXACTLY_ONCE), checks=names)
    job = CompactingJob(replace(plan, event_time=None), snapshot)
    reader = snapshot_reader(definition, snapshot, definition.schema.fieldNames(), ReadOptions())
    partitions = list(enumerate(reader.partitions()))
    try:
        with job.kept_alive(len(partitions)), ThreadPoolExecutor(threads) as pool:
            messages = list(pool.map(lambda one: job.write_partition(one[0], reader.read(one[1])), partitions))
        report = job.commit_job(messages)
    except BaseException:
        job.abort_job([None] * len(partitions))
        raise
    job.note_ranges(ledger, messages)
    job.forget_commit()
    release(client, ledger, one_more=one_more)
    return Compacted(
        version=ledger.state().version, rows=report.rows, bytes_before=snapshot.size, bytes_after=report.bytes
    )


def compact_if_due(settings: Settings, stream: Stream, size: int) -> Compacted | None:
    """Compact a table to which enough was written since the last compaction: more than some bytes, and more than its
    rows were then. So no row is written more than about twice.

    Args:
        settings: the cluster, and the schema registry.
        stream: the table's stream.
        size: how many bytes of events, frames included.

    Returns:
        What it came to; None when it isn't due.

    Raises:
        WriteConflictError: all rows were replaced meanwhile; nothing was done.
        UnsupportedOperationError: the next write takes the place of all rows.
    """
    client = shared_client(settings)
    ledger = open_ledger(client, stream)
    if ledger is None:
        return None
    snapshot = take_snapshot(client, stream, ledger)
    replaced = ledger.state().replaced_rows
    # The log forgets old versions, and knows ranges only where nothing of others lies between.
    versions = ledger.commits([replaced] if replaced else [])
    rows = versions[0].bytes if versions else sum(end - start for start, end in snapshot.compacted.values())
    if snapshot.size - rows <= max(size, rows):
        return None
    return compact(settings, stream, one_more=True, threads=1)


def _without_key(stream: Stream) -> UnsupportedOperationError:
    return UnsupportedOperationError(
        f'stream "{stream}" has no primary key: all its events are rows, so there is nothing to compact'
    )
