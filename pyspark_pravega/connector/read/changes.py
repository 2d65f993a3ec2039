"""What was committed between versions of a stream, each row with its version."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

import pyarrow as pa

from pyspark_pravega.client import SegmentPart, Stream
from pyspark_pravega.client.events import EventBatch
from pyspark_pravega.connector.bounds import VersionBounds
from pyspark_pravega.connector.log import Ledger
from pyspark_pravega.connector.read.committed import CommittedPartition, CommittedRange, committed_partitions
from pyspark_pravega.connector.read.partitions import SlicePartition
from pyspark_pravega.connector.read.reader import BatchReader, output_schema
from pyspark_pravega.connector.read.versions import commit_of, commit_until
from pyspark_pravega.connector.table import TableDefinition
from pyspark_pravega.errors import ConfigurationError, VersionNotFoundError
from pyspark_pravega.frames import framing
from pyspark_pravega.serde.codec import Batch
from pyspark_pravega.spark.arrow import to_arrow_schema
from pyspark_pravega.spark.datasource import InputPartition
from pyspark_pravega.spark.types import LongType, StringType, StructField, StructType, TimestampType

CHANGE_COLUMNS = StructType(
    [
        StructField("_change_type", StringType(), False),
        StructField("_commit_version", LongType(), False),
        StructField("_commit_timestamp", TimestampType(), False),
    ]
)
"""What Spark wants to know of each change."""
INSERT = "insert"


class ChangesRange(VersionBounds):
    """Which versions a statement or a query wants."""

    @classmethod
    def within(cls, bounds: VersionBounds) -> ChangesRange:
        """The versions between bounds.

        Args:
            bounds: as the read's options say them.
        """
        return cls(**asdict(bounds))

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
        oldest = ledger.first_commit()
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


class ChangesReader(BatchReader):
    """Reads what commits have added."""

    def __init__(
        self,
        definition: TableDefinition,
        ranges: Sequence[CommittedRange],
        columns: Sequence[str],
        *,
        fail_on_data_loss: bool = True,
    ) -> None:
        """Plan a read.

        Args:
            definition: what the stream is as a table.
            ranges: what to read; none for what is told with each partition.
            columns: the wanted columns in their order, those of the changes among them; none for rows only.
            fail_on_data_loss: as of `BatchReader`.
        """
        inner = [name for name in columns if name not in CHANGE_COLUMNS.fieldNames()]
        super().__init__(definition, None, inner, fail_on_data_loss=fail_on_data_loss)
        self._ranges = ranges
        self._of_parts: dict[SegmentPart, CommittedRange] = {}
        self._range: CommittedRange | None = None
        if columns:
            known = {field.name: field for field in (*output_schema(definition, inner), *CHANGE_COLUMNS)}
            self.schema = StructType([known[name] for name in columns])
            self._arrow_schema = to_arrow_schema(self.schema, timezone="UTC")

    def __getstate__(self) -> dict[str, Any]:
        # Each task is told its own ranges: the plan of all of them stays here.
        return {**super().__getstate__(), "_ranges": ()}

    def partitions(self) -> Sequence[InputPartition]:
        """See `committed_partitions`."""
        return committed_partitions(self._ranges)

    def batches(self, partition: InputPartition) -> Iterator[Batch]:
        """The rows of a partition, see `BatchReader.batches`.

        Args:
            partition: one of `partitions()`, or Spark's stand-in when there are none.
        """
        if not isinstance(partition, CommittedPartition):
            return
        self._of_parts = {one.part: one for one in partition.ranges}
        yield from super().batches(SlicePartition(list(self._of_parts)))

    def _frames(self, part: SegmentPart) -> Iterator[EventBatch]:
        self._range = self._of_parts[part]
        yield from super()._frames(part)

    def _metadata(self, field: pa.Field, frames: framing.Frames, segment_id: int, position: int) -> pa.Array:
        if field.name not in CHANGE_COLUMNS.fieldNames():
            return super()._metadata(field, frames, segment_id, position)
        if field.name == "_change_type":
            return pa.repeat(INSERT, len(frames))
        assert self._range is not None
        indexes = self._range.indexes(frames.starts + position)
        if field.name == "_commit_version":
            return pa.array(self._range.versions[indexes])
        return pa.array(self._range.times[indexes] * 1000).cast(field.type)


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
