"""What was committed between versions of a stream, each row with its version."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampType

from pyspark_pravega.client import Client, SegmentPart, Stream
from pyspark_pravega.client.positions import parts_between
from pyspark_pravega.client.segments import SegmentState, segment_states
from pyspark_pravega.connector.log import Commit, Ledger
from pyspark_pravega.connector.read.partitions import SlicePartition, pack
from pyspark_pravega.connector.read.reader import BatchReader
from pyspark_pravega.connector.read.versions import Moment, commit_of, commit_until, parts_until
from pyspark_pravega.connector.table import TableDefinition
from pyspark_pravega.errors import ConfigurationError, SegmentTruncatedError, VersionNotFoundError

CHANGE_COLUMNS = StructType(
    [
        StructField("_change_type", StringType(), False),
        StructField("_commit_version", LongType(), False),
        StructField("_commit_timestamp", TimestampType(), False),
    ]
)
"""What Spark wants to know of each change."""
INSERT = "insert"
_ARROW = {
    "_change_type": pa.string(),
    "_commit_version": pa.int64(),
    "_commit_timestamp": pa.timestamp("us", tz="UTC"),
}
_AT_ONCE = 200
"""How many commits are asked for in one look."""


@dataclass(frozen=True, kw_only=True)
class ChangesRange:
    """Which versions a statement or a query wants: by number, by time, or all of them."""

    from_version: str | None = None
    to_version: str | None = None
    from_timestamp: int | None = None
    """Microseconds since 1970, as is the next one."""
    to_timestamp: int | None = None
    from_inclusive: bool = True
    to_inclusive: bool = True

    @classmethod
    def of(cls, bounds: Mapping[str, Any]) -> ChangesRange:
        """A range as the JVM says it: some of the fields."""
        return cls(**bounds)

    def versions(self, ledger: Ledger | None, stream: Stream) -> tuple[int, int]:
        """The versions between the bounds that are there now.

        Args:
            ledger: the stream's commit log, if it has one.
            stream: the stream.

        Returns:
            The first version and the last one; the last one is less where there are none between.

        Raises:
            VersionNotFoundError: a version was never there, or isn't known any more.
            ConfigurationError: a version isn't a commit's number, or the end lies before the start.
        """
        if ledger is None or not ledger.state().version:
            raise VersionNotFoundError(
                f'stream "{stream}" has no changes to tell: nothing was committed to it through this package'
            )
        if self.from_version is not None:
            _existing(ledger, stream, self.from_version)
        if self.to_version is not None:
            _existing(ledger, stream, self.to_version)
        return self.before(ledger, stream) + 1, self.last(ledger, stream)

    def before(self, ledger: Ledger | None, stream: Stream) -> int:
        """The version before the first one that is wanted; it may be the last one that there is.

        Args:
            ledger: the stream's commit log, if it has one.
            stream: the stream.

        Raises:
            VersionNotFoundError: the first version lies beyond the next one.
            ConfigurationError: a version isn't a commit's number, or the end lies before the start.
        """
        if self.from_version is not None:
            start = _number(stream, self.from_version)
            if self.to_version is not None and _number(stream, self.to_version) < start:
                raise ConfigurationError(
                    f'version {self.to_version} of stream "{stream}" comes before version {self.from_version}'
                )
            before = start - 1 if self.from_inclusive and start else start
            last = 0 if ledger is None else ledger.state().version
            if before > last:
                raise VersionNotFoundError(
                    f'stream "{stream}" has no version {start} yet: its last one is {last}, so begin with {last + 1} '
                    "or an earlier one"
                )
            return before
        if ledger is None:
            return 0
        if self.from_timestamp is not None:
            return _count_until(ledger, self.from_timestamp, inclusive=not self.from_inclusive)
        # What the oldest version that is known has added can't be told without the one before it.
        oldest = next(ledger.all_commits(), None)
        return 0 if oldest is None or oldest.version == 1 else oldest.version

    def last(self, ledger: Ledger, stream: Stream) -> int:
        """The last version that is wanted, of those that are there now.

        Args:
            ledger: the stream's commit log.
            stream: the stream.

        Raises:
            ConfigurationError: a version isn't a commit's number.
        """
        if self.to_version is not None:
            end = _number(stream, self.to_version) - (not self.to_inclusive)
            return min(end, ledger.state().version)
        if self.to_timestamp is not None:
            return _count_until(ledger, self.to_timestamp, inclusive=self.to_inclusive)
        return ledger.state().version


@dataclass(frozen=True, kw_only=True)
class CommittedSlice:
    """A part of a segment that a commit has added; what others have written since the commit before is in it, too."""

    part: SegmentPart
    version: int
    committed_at: int
    """Milliseconds since 1970."""


def committed_slices(
    client: Client, ledger: Ledger, first: int, last: int, *, fail_on_data_loss: bool = True
) -> list[CommittedSlice]:
    """What versions have added.

    Args:
        client: the cluster.
        ledger: the stream's commit log.
        first: the first version.
        last: the last one.
        fail_on_data_loss: whether what isn't there any more is an error, or left out.

    Raises:
        VersionNotFoundError: one of them, or the one before the first one, isn't known any more.
        SegmentTruncatedError: a part of it was truncated away.
    """
    slices: list[CommittedSlice] = []
    before: Commit | None = None
    expected = max(1, first - 1)
    for commit in commits_between(ledger, expected, last):
        if commit.version > expected and fail_on_data_loss:
            # It says why it isn't there.
            commit_of(ledger, ledger.stream, expected)
        expected = commit.version + 1
        if commit.version >= first and (before is not None or commit.version == 1):
            try:
                parts = _parts(client, ledger, before, commit)
            except SegmentTruncatedError:
                if fail_on_data_loss:
                    raise
                parts = []
            slices += [
                CommittedSlice(part=part, version=commit.version, committed_at=commit.committed_at)
                for part in parts
                if part.size
            ]
        before = commit
    if expected <= last and fail_on_data_loss:
        commit_of(ledger, ledger.stream, expected)
    return _still_there(client, ledger.stream, slices, fail_on_data_loss=fail_on_data_loss)


def first_whole_version(client: Client, ledger: Ledger, first: int, last: int) -> int:
    """The first of some versions that no truncation has taken anything from.

    Args:
        client: the cluster.
        ledger: the stream's commit log.
        first: the first version.
        last: the last one.

    Returns:
        One more than `last` where there is none.
    """
    # Truncation takes from the front: behind a whole version all are whole.
    low, high = first, last + 1
    while low < high:
        middle = (low + high) // 2
        try:
            committed_slices(client, ledger, middle, middle)
        except (SegmentTruncatedError, VersionNotFoundError):
            low = middle + 1
        else:
            high = middle
    return low


def commits_between(ledger: Ledger, first: int, last: int) -> Iterator[Commit]:
    """Versions in their order, asked for some at a time; those that aren't there are left out.

    Args:
        ledger: the stream's commit log.
        first: the first version.
        last: the last one.
    """
    for begin in range(first, last + 1, _AT_ONCE):
        yield from ledger.commits(range(begin, min(last + 1, begin + _AT_ONCE)))


def _parts(client: Client, ledger: Ledger, before: Commit | None, commit: Commit) -> list[SegmentPart]:
    if before is not None and before.cut.keys() == commit.cut.keys():
        # The stream wasn't scaled in between: nobody has to be asked.
        states: dict[int, SegmentState | None] = {
            segment_id: SegmentState(start_offset=0, write_offset=end, sealed=False)
            for segment_id, end in sorted(commit.cut.items())
        }
        return list(parts_between(ledger.stream, states, before.cut, commit.cut).parts)
    start = None if before is None else Moment(offsets=before.cut, name=f"version {before.version}")
    end = Moment(offsets=commit.cut, name=f"version {commit.version}")
    return parts_until(client, ledger.stream, start, end)


def _still_there(
    client: Client, stream: Stream, slices: list[CommittedSlice], *, fail_on_data_loss: bool
) -> list[CommittedSlice]:
    states = segment_states(client.pool, stream, {one.part.segment_id for one in slices})
    found = []
    for one in slices:
        state = states[one.part.segment_id]
        if state is not None and state.start_offset <= one.part.start:
            found.append(one)
        elif fail_on_data_loss:
            raise SegmentTruncatedError(
                f'a part of version {one.version} of stream "{stream}" was truncated away: events that belong to it '
                "are gone; begin with a later one"
            )
        elif state is not None and state.start_offset < one.part.end:
            part = replace(one.part, start=state.start_offset)
            found.append(CommittedSlice(part=part, version=one.version, committed_at=one.committed_at))
    return found


class CommittedPartition(SlicePartition):
    """Parts of a segment that belong to a commit each, read by one task."""

    def __init__(self, committed: Sequence[CommittedSlice]) -> None:
        super().__init__([one.part for one in committed])
        self.committed = tuple(committed)


def committed_partitions(slices: Sequence[CommittedSlice]) -> list[CommittedPartition]:
    """Share what commits have added out among tasks: small commits to a segment share one, in their order.

    Args:
        slices: what commits have added.
    """
    ordered = sorted(slices, key=lambda one: (one.part.segment_id, one.version))
    by_segment = groupby(ordered, key=lambda one: one.part.segment_id)
    return [CommittedPartition(some) for _, own in by_segment for some in pack(own, lambda one: one.part.size)]


class ChangesReader(BatchReader):
    """Reads what commits have added."""

    def __init__(
        self,
        definition: TableDefinition,
        slices: Sequence[CommittedSlice],
        columns: Sequence[str],
        *,
        fail_on_data_loss: bool = True,
    ) -> None:
        """Plan a read.

        Args:
            definition: what the stream is as a table.
            slices: what to read.
            columns: the wanted columns in their order, those of the changes among them; none for rows only.
            fail_on_data_loss: as of `BatchReader`.
        """
        inner = [name for name in columns if name not in CHANGE_COLUMNS.fieldNames()]
        super().__init__(definition, None, inner, fail_on_data_loss=fail_on_data_loss)
        self._committed = slices
        self._columns = list(columns)
        if columns:
            known = {field.name: field for field in (*self.schema, *CHANGE_COLUMNS)}
            self.schema = StructType([known[name] for name in columns])

    def partitions(self) -> Sequence[InputPartition]:
        """See `committed_partitions`."""
        return committed_partitions(self._committed)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a partition, see `BatchReader.read`.

        Args:
            partition: one of `partitions()`, or Spark's stand-in when there are none.
        """
        if not isinstance(partition, CommittedPartition):
            return
        for part, committed in zip(partition.parts, partition.committed, strict=True):
            for batch in super().read(SlicePartition([part])):
                yield self._with_changes(batch, committed) if self._columns else batch

    def _with_changes(self, batch: pa.RecordBatch, committed: CommittedSlice) -> pa.RecordBatch:
        values = {
            "_change_type": INSERT,
            "_commit_version": committed.version,
            "_commit_timestamp": committed.committed_at * 1000,
        }
        arrays, fields = [], []
        for name in self._columns:
            if name in values:
                arrays.append(pa.repeat(pa.scalar(values[name], _ARROW[name]), batch.num_rows))
                fields.append(pa.field(name, _ARROW[name], nullable=False))
            else:
                arrays.append(batch.column(name))
                fields.append(batch.schema.field(name))
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def _existing(ledger: Ledger, stream: Stream, text: str) -> None:
    number = _number(stream, text)
    if number:
        commit_of(ledger, stream, number)


def _number(stream: Stream, text: str) -> int:
    if not (text.strip().isascii() and text.strip().isdigit()):
        raise ConfigurationError(
            f'CHANGES of stream "{stream}" are told between commits: "{text[:60]}" isn\'t the number of one'
        )
    return int(text)


def _count_until(ledger: Ledger, microseconds: int, *, inclusive: bool) -> int:
    """How many versions there were at a time."""
    # Commits know their time in milliseconds.
    milliseconds = microseconds // 1000
    if not inclusive and microseconds % 1000 == 0:
        milliseconds -= 1
    commit = commit_until(ledger, milliseconds)
    return 0 if commit is None else commit.version
