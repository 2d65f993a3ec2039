"""Writes to a key-value table: INSERT puts entries, UPDATE, DELETE and MERGE change those that they have read.

What is atomic is one change of one partition. So a statement of few bytes is made at its end: its tasks hand over their
entries, and each partition gets one change that puts and one that removes. Tasks with more write by themselves.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from pyspark_pravega import settings
from pyspark_pravega.client.key_value import ANY_VERSION, NOT_EXISTS, KeyValueTable
from pyspark_pravega.connector.key_value.definition import VERSION, KeyValueDefinition
from pyspark_pravega.connector.option_names import ISOLATION_LEVEL, SERIALIZABLE, SNAPSHOT, word_of, writes_own
from pyspark_pravega.connector.options import canonical, isolation_level
from pyspark_pravega.connector.plain import told_plainly
from pyspark_pravega.connector.table import DELETED, check_enforced
from pyspark_pravega.connector.write import ChangesOfKeys, CommitReport, check_case
from pyspark_pravega.deadlines import Retries
from pyspark_pravega.errors import (
    ConflictError,
    EventEncodeError,
    SegmentStoreUnavailableError,
    WriteConflictError,
)
from pyspark_pravega.serde.codec import Codec
from pyspark_pravega.serde.types import StoredForm, arrow_safe, same_names
from pyspark_pravega.spark.arrow import NoArrowTypeError, to_arrow_schema
from pyspark_pravega.spark.datasource import TaskContext, WriterCommitMessage
from pyspark_pravega.spark.types import StructType

GATHERED_BYTES, GATHERED_ENTRIES = 8 << 20, 50_000
"""What all tasks of a statement together may hand over to its end, with `ENTRY_BYTES` for each entry. It is also what
one change has at most."""
ENTRY_BYTES = 24
"""What an entry costs beyond its key and its value."""
MAX_VALUE_BYTES = (1 << 20) - 8192
"""Pravega takes no longer ones."""
_PROCESS = uuid.uuid4()
"""What tells this process from one that has taken its place, or whose place it has taken."""
_WRITE_KEYS = frozenset({ISOLATION_LEVEL}) | settings.KEYS

Value = bytes | None
"""None where the entry is to be removed."""
Entries = dict[bytes, tuple[int, Value]]
"""By their keys: the version that is expected, and the value."""


@dataclass(frozen=True, kw_only=True)
class KeyValuePlan:
    """How rows are written. Can be pickled."""

    definition: KeyValueDefinition
    codec: Codec
    """Makes values."""
    form: StoredForm
    """In which values of columns are kept, whichever way they come."""
    is_conditional: bool
    """Whether UPDATE, DELETE and MERGE change only what nobody has changed since they read it."""

    @classmethod
    def of(
        cls,
        definition: KeyValueDefinition,
        options: Mapping[str, str],
        *,
        trigger: str | None = None,
        checks: Sequence[str] | None = None,
        rows: StructType | None = None,
        case_sensitive: bool = False,
    ) -> KeyValuePlan:
        """Settle a write.

        Args:
            definition: the table.
            options: the write's options.
            trigger: of a streaming query, where it isn't one of micro-batches.
            checks: the names of the constraints that Spark checks rows against; None where it does no such thing.
            rows: the columns of a streaming query's rows, which Spark doesn't hold against the table's; else None.
            case_sensitive: whether names of theirs that differ from the table's in case are different ones.

        Raises:
            ConfigurationError: an option is unknown or malformed.
            UnsupportedOperationError: the trigger isn't one of micro-batches.
            EventEncodeError: the rows' columns aren't the table's.
        """
        given = canonical(writes_own(options), _WRITE_KEYS, "write option of a key-value table")
        if trigger is not None:
            raise definition.refuse(
                f"A query with the {trigger} trigger into",
                "use trigger(processingTime=...) or trigger(availableNow=...)",
            )
        check_enforced(definition.properties.checks, checks, definition.stream)
        level = definition.properties.isolation_level
        if ISOLATION_LEVEL in given:
            level = isolation_level(word_of(given, ISOLATION_LEVEL), given[ISOLATION_LEVEL])
        plan = cls(
            definition=definition,
            codec=definition.values.for_writing(),
            form=StoredForm(definition.schema),
            is_conditional=level == SERIALIZABLE,
        )
        if rows is not None:
            plan._check(rows, case_sensitive=case_sensitive)
        return plan

    def _check(self, rows: StructType, *, case_sensitive: bool) -> None:
        stream, wanted = self.definition.stream, self.definition.schema.fieldNames()
        meant = same_names(rows.fieldNames(), wanted)
        missing = [name for name in wanted if name not in meant]
        unknown = [name for name, column in zip(rows.fieldNames(), meant, strict=True) if column is None]
        if missing or unknown:
            problems = [f"{name} is missing" for name in missing] + [f"{name} is unknown" for name in unknown]
            raise EventEncodeError(
                f"the query's rows can't be written to key-value table \"{stream}\": {'; '.join(problems)}"
            )
        try:
            empty = pa.RecordBatch.from_pylist([], schema=to_arrow_schema(arrow_safe(rows), timezone="UTC"))
        except NoArrowTypeError:
            # Spark says so itself, when it makes Arrow batches of them.
            return
        try:
            if case_sensitive:
                check_case(rows, self.definition.schema)
            empty = self.form.of(empty)
            self.definition.layout.encode(empty)
            self.definition.encoded(self.codec, empty)
        except EventEncodeError as error:
            raise EventEncodeError(
                f"the query's rows can't be written to key-value table \"{stream}\": {error}"
            ) from None


class EntriesMessage(WriterCommitMessage):
    """What a task tells the driver: what it has left to be written, and how much it was in all."""

    def __init__(self, entries: Entries, *, rows: int, size: int) -> None:
        self.entries, self.rows, self.size = entries, rows, size


class KeyValueJob:
    """Writes rows to a key-value table. Can be pickled: made on the driver, `write_task` runs in tasks."""

    def __init__(self, plan: KeyValuePlan, partitions: int, *, changes: bool = False, overwrite: bool = False) -> None:
        """Begin a job.

        Args:
            plan: how to write.
            partitions: how many tasks there are.
            changes: whether rows say in `ROW_OPERATION` what becomes of them; else all are put.
            overwrite: whether they are to take the place of all that are there.

        Raises:
            UnsupportedOperationError: they are to.
        """
        if overwrite:
            raise plan.definition.refuse(
                "INSERT OVERWRITE of",
                "its entries can't be replaced all at once. MERGE with WHEN NOT MATCHED BY SOURCE THEN DELETE changes "
                "and removes them one by one; TRUNCATE TABLE, and then INSERT, leaves it empty in between",
            )
        self.plan, self._are_changes = plan, changes
        self._begun_in, self._committed = _PROCESS, False
        tasks = max(1, partitions)
        self._most_bytes, self._most_entries = GATHERED_BYTES // tasks, GATHERED_ENTRIES // tasks

    @told_plainly()
    def write_task(self, batches: Iterator[pa.RecordBatch]) -> EntriesMessage:
        """Write a task's rows, or leave them to the end where they are few.

        Args:
            batches: with the table's columns, and for changes also `VERSION` and `ROW_OPERATION`.

        Returns:
            What `commit_job` needs to know.

        Raises:
            EventEncodeError: a row can't be an entry.
            WriteConflictError: an entry isn't any more what the statement has read.
        """
        definition = self.plan.definition
        table = definition.open()
        batches = map(self.plan.form.of, batches)
        if self._are_changes:
            key = definition.layout.names
            batches = ChangesOfKeys(key, f'key-value table "{definition.stream}"', kept_column=VERSION).of(batches)
        entries: Entries = {}
        context = TaskContext.get()
        again = context is not None and context.attemptNumber() > 0
        rows = size = held = done = 0
        most_bytes, most_entries, writes_itself = self._most_bytes, self._most_entries, False
        for batch in batches:
            for key_bytes, change in self._entries(batch):
                rows += 1
                of_entry = len(key_bytes) + len(change[1] or b"")
                size += of_entry
                held += of_entry + ENTRY_BYTES
                entries[key_bytes] = change
                if held > most_bytes or len(entries) > most_entries:
                    done = self._apply(table, entries, done, again=again)
                    entries, held = {}, 0
                    most_bytes, most_entries, writes_itself = GATHERED_BYTES, GATHERED_ENTRIES, True
        if writes_itself and entries:
            self._apply(table, entries, done, again=again)
            entries = {}
        return EntriesMessage(entries, rows=rows, size=size)

    def commit_job(self, messages: Sequence[WriterCommitMessage | None]) -> CommitReport:
        """Write what tasks have left to the end. Doing it again after a success is harmless.

        Args:
            messages: one for each partition, of the attempts that count.

        Raises:
            WriteConflictError: an entry isn't any more what the statement has read.
        """
        begun = time.monotonic()
        task_messages = [one for one in messages if isinstance(one, EntriesMessage)]
        entries = {key: change for one in task_messages for key, change in one.entries.items()}
        # The JVM asks again where the process has died that it had asked before.
        again, self._committed = self._committed or self._begun_in != _PROCESS, True
        if entries:
            self._apply(self.plan.definition.open(), entries, again=again)
        return CommitReport(
            rows=sum(one.rows for one in task_messages),
            bytes=sum(one.size for one in task_messages),
            milliseconds=round((time.monotonic() - begun) * 1000),
        )

    def abort_job(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Throw away what tasks have left to the end; what they have written stays.

        Args:
            messages: one for each partition; None where a task has failed.
        """

    def _entries(self, batch: pa.RecordBatch) -> Iterable[tuple[bytes, tuple[int, Value]]]:
        definition = self.plan.definition
        keys = definition.layout.encode(batch)
        if not self._are_changes:
            return ((key, (ANY_VERSION, value)) for key, value in zip(keys, self._values(batch, keys), strict=True))
        deleted = batch.column(DELETED).to_pylist()
        there = [row for row, gone in enumerate(deleted) if not gone]
        kept = batch.take(pa.array(there, pa.int64()))
        values = dict(zip(there, self._values(kept, [keys[row] for row in there]), strict=True))
        versions = batch.column(VERSION).to_pylist()
        if not self.plan.is_conditional:
            versions = [ANY_VERSION] * len(keys)
        # Of a row that is inserted Spark tells no version.
        return (
            (key, (NOT_EXISTS if version is None else version, values.get(row)))
            for row, (key, version) in enumerate(zip(keys, versions, strict=True))
        )

    def _values(self, rows: pa.RecordBatch, keys: Sequence[bytes]) -> list[bytes]:
        definition = self.plan.definition
        values: list[bytes] = definition.encoded(self.plan.codec, rows).to_pylist()
        for key, value in zip(keys, values, strict=True):
            if len(value) + len(key) > MAX_VALUE_BYTES:
                raise EventEncodeError(
                    f"the value of key {key.hex()} (hexadecimal) has {len(value)} bytes, and Pravega takes no entry of "
                    f'more than {MAX_VALUE_BYTES} in key-value table "{definition.stream}"'
                )
        return values

    def _apply(self, table: KeyValueTable, entries: Entries, done: int = 0, *, again: bool) -> int:
        """Make changes, partition by partition: each partition's puts at once, and its removals.

        Args:
            table: where.
            entries: the changes.
            done: how many the task has made before, for messages.
            again: whether they may have been made before.

        Returns:
            How many it has made now.
        """
        keys = list(entries)
        for indexes in table.placed(keys).values():
            of_partition = [keys[index] for index in indexes]
            for put in (True, False):
                some = [key for key in of_partition if (entries[key][1] is not None) == put]
                for change in _changes(some, entries):
                    self._change(table, change, done, again=again)
                    done += len(change)
        return done

    def _change(self, table: KeyValueTable, change: Entries, done: int, *, again: bool) -> None:
        """Make one change of a partition, whose entries are all put or all removed.

        Where it may have been made already, what is there is looked at: a task that is run again, a commit that is
        repeated, and a change whose answer was lost find their own entries. Nowhere else does an entry count as one's
        own because it has the value that was to be put: others may put the same.

        A server compares with changes that are under way, too: one that was sent before its answer was lost, or one of
        others. Until it can be read nobody knows which, so it is waited for.
        """
        left, retries = change, Retries(table.timeout)
        lost: SegmentStoreUnavailableError | None = None
        while True:
            try:
                _send(table, left)
                return
            except (ConflictError, SegmentStoreUnavailableError) as error:
                if isinstance(error, SegmentStoreUnavailableError):
                    again, lost = True, error
                there = table.get(list(change))
                left = {
                    key: change[key]
                    for key, entry in zip(change, there, strict=True)
                    if (None if entry is None else entry.value) != change[key][1] or not (again or entry is None)
                }
                if not left:
                    return
                changed = [
                    key
                    for key, entry in zip(change, there, strict=True)
                    if key in left and not _is_expected(change[key][0], None if entry is None else entry.version)
                ]
                if changed:
                    raise self._conflict(changed, len(change), done) from None
                if not retries.again():
                    # What was sent may still be under way.
                    raise lost or error from None

    def _conflict(self, changed: Sequence[bytes], size: int, done: int) -> WriteConflictError:
        written = (
            "nothing was written"
            if not done
            else f"{done} entries were written before that, in changes of their own, and stay"
        )
        shown = ", ".join(key.hex() for key in changed[:3]) + (", ..." if len(changed) > 3 else "")
        return WriteConflictError(
            f'entries of key-value table "{self.plan.definition.stream}" were changed by others since the statement '
            f"has read them ({len(changed)} of a change of {size}, keys {shown} in hexadecimal); {written} by this "
            f'task. Run it again, or set "{ISOLATION_LEVEL}" to {SNAPSHOT}, with which the last change of an entry wins'
        )


def truncate(definition: KeyValueDefinition) -> None:
    """Remove all entries that are there now, partition by partition. What others put meanwhile may stay.

    Args:
        definition: the table.
    """
    table = definition.open()
    for partition in table.partitions:
        keys: list[tuple[bytes, int]] = []
        for key, _ in table.iterate_keys(partition=partition):
            keys.append((key, ANY_VERSION))
            if len(keys) == GATHERED_ENTRIES // 5:
                table.remove(keys)
                keys = []
        table.remove(keys)


def _changes(keys: Sequence[bytes], entries: Entries) -> Iterator[Entries]:
    """Entries of one partition in changes that aren't too long."""
    change: Entries = {}
    size = 0
    for key in keys:
        more = ENTRY_BYTES + len(key) + len(entries[key][1] or b"")
        if change and (size + more > GATHERED_BYTES + MAX_VALUE_BYTES or len(change) >= GATHERED_ENTRIES):
            yield change
            change, size = {}, 0
        change[key] = entries[key]
        size += more
    if change:
        yield change


def _send(table: KeyValueTable, change: Entries) -> None:
    puts = [(key, version, value) for key, (version, value) in change.items() if value is not None]
    table.put(puts)
    table.remove([(key, version) for key, (version, value) in change.items() if value is None])


def _is_expected(version: int, there: int | None) -> bool:
    return version == ANY_VERSION or version == (NOT_EXISTS if there is None else there)
