"""What was committed between two versions of a stream, each row with its version."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampType

from pyspark_pravega.client import Client, SegmentPart, Stream
from pyspark_pravega.connector.definition import TableDefinition
from pyspark_pravega.connector.ledger import Commit, Ledger
from pyspark_pravega.connector.partitions import SlicePartition
from pyspark_pravega.connector.reader import StreamReader
from pyspark_pravega.connector.tail import SegmentSlice, Snapshot
from pyspark_pravega.connector.travel import Moment, commit_of, slices_between

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


@dataclass(frozen=True, kw_only=True)
class CommittedSlice:
    """A part of a segment that a commit has added; what others have written since the commit before is in it, too."""

    part: SegmentSlice
    version: int
    committed_at: int
    """Milliseconds since 1970."""


def committed_slices(client: Client, ledger: Ledger, first: int, last: int) -> list[CommittedSlice]:
    """What versions have added.

    Args:
        client: the cluster.
        ledger: the stream's commit log.
        first: the first version.
        last: the last one.

    Raises:
        VersionNotFoundError: one of them, or the one before the first one, isn't known any more.
        SegmentTruncatedError: a part of it was truncated away.
    """
    before = None if first == 1 else commit_of(ledger, ledger.stream, first - 1)
    slices: list[CommittedSlice] = []
    for version in range(first, last + 1):
        commit = commit_of(ledger, ledger.stream, version)
        slices += [
            CommittedSlice(part=part, version=version, committed_at=commit.committed_at)
            for part in _parts(client, ledger, before, commit)
            if part.size
        ]
        before = commit
    return slices


def _parts(client: Client, ledger: Ledger, before: Commit | None, commit: Commit) -> list[SegmentSlice]:
    start = None if before is None else Moment(offsets=before.cut, name=f"version {before.version}")
    end = Moment(offsets=commit.cut, name=f"version {commit.version}")
    return slices_between(client, ledger.stream, start, end)


class CommittedPartition(SlicePartition):
    """A part of a segment that belongs to one commit, read by one task."""

    def __init__(self, stream: Stream, committed: CommittedSlice) -> None:
        part = committed.part
        super().__init__([SegmentPart(stream=stream, segment_id=part.segment_id, start=part.start, end=part.end)])
        self.committed = committed


class ChangesReader(StreamReader):
    """Reads what commits have added."""

    def __init__(self, definition: TableDefinition, slices: Sequence[CommittedSlice], columns: Sequence[str]) -> None:
        """Plan a read.

        Args:
            definition: what the stream is as a table.
            slices: what to read.
            columns: the wanted columns in their order, those of the changes among them; none for rows only.
        """
        parts = tuple(committed.part for committed in slices)
        inner = [name for name in columns if name not in CHANGE_COLUMNS.fieldNames()]
        super().__init__(definition, Snapshot(stream=definition.stream, slices=parts), inner)
        self._committed = slices
        self._columns = list(columns)
        if columns:
            known = {field.name: field for field in (*self.schema, *CHANGE_COLUMNS)}
            self.schema = StructType([known[name] for name in columns])

    def partitions(self) -> Sequence[InputPartition]:
        """One partition for each part of a segment that a commit has added to."""
        return [CommittedPartition(self._stream, committed) for committed in self._committed]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a partition, see `StreamReader.read`.

        Args:
            partition: one of `partitions()`, or Spark's stand-in when there are none.
        """
        if not isinstance(partition, CommittedPartition):
            return
        committed = partition.committed
        values = {
            "_change_type": INSERT,
            "_commit_version": committed.version,
            "_commit_timestamp": committed.committed_at * 1000,
        }
        for batch in super().read(partition):
            if not self._columns:
                yield batch
                continue
            arrays, fields = [], []
            for name in self._columns:
                if name in values:
                    arrays.append(pa.repeat(pa.scalar(values[name], _ARROW[name]), batch.num_rows))
                    fields.append(pa.field(name, _ARROW[name], nullable=False))
                else:
                    arrays.append(batch.column(name))
                    fields.append(batch.schema.field(name))
            yield pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))
