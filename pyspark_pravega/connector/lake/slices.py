"""What lies in the lake, read in the order of its events: between versions, behind one cut and before another one.

A task gets segments with all those that have come in their place, so that a routing key's rows come in their order.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pyspark_pravega.client import Client, Stream
from pyspark_pravega.client.positions import SegmentRanges
from pyspark_pravega.connector.base import check_base, check_in_lake, lake_store
from pyspark_pravega.connector.lake.once import families, tasks_of, whole_end
from pyspark_pravega.connector.log import Tiered, comes_after
from pyspark_pravega.connector.read import CHANGE_COLUMNS, INSERT, ROW_MARKER, ChainPartition
from pyspark_pravega.connector.table import TableDefinition
from pyspark_pravega.connector.wanted import check_wanted
from pyspark_pravega.lake import (
    NO_END,
    VERSION,
    GroupOfRows,
    LakeFile,
    Span,
    Store,
    by_events,
    groups_in,
    load_iceberg,
    made_by,
    read_span,
    rows_of_versions,
)
from pyspark_pravega.settings import Settings
from pyspark_pravega.spark.arrow import to_arrow_schema
from pyspark_pravega.spark.datasource import InputPartition
from pyspark_pravega.spark.types import StructType

Cut = Mapping[int, int]


@dataclass(frozen=True, kw_only=True)
class LakeSpan:
    """Which rows of the lake are read."""

    metadata: str
    snapshot: int
    """Iceberg's, and the metadata that show it."""
    after: int = 0
    """The last version whose rows aren't."""
    last: int
    """The last one whose rows are."""
    behind: Cut | None = None
    """The cut before which none are; None for all."""
    until: Cut | None = None
    """The cut behind which none are; None for all."""

    @classmethod
    def of(
        cls,
        tiered: Tiered,
        *,
        after: int = 0,
        last: int | None = None,
        behind: Cut | None = None,
        until: Cut | None = None,
    ) -> LakeSpan:
        """Rows of what lies in the lake; see the attributes.

        Args:
            tiered: what lies there.
            last: None for all that is there.
        """
        assert tiered.snapshot is not None
        until_version = tiered.version if last is None else last
        return cls(
            metadata=tiered.metadata,
            snapshot=tiered.snapshot,
            after=after,
            last=until_version,
            behind=behind,
            until=until,
        )


class LakeSlice(InputPartition):
    """Row groups of files, read by one task one after another."""

    parts = ()
    """Of the stream: none."""

    def __init__(
        self,
        store: Store,
        stream: Stream,
        files: Sequence[tuple[str, tuple[int, ...]]],
        span: Span,
        shown: LakeSpan,
        size: int,
        laid_out: frozenset[str] = frozenset(),
    ) -> None:
        super().__init__(files[0][0])
        self.store, self.stream, self.bytes = store, stream, size
        self.laid_out = laid_out
        """Files whose rows don't stand in the order of their events."""
        self.files, self.span = tuple(files), span
        self.metadata, self.snapshot = shown.metadata, shown.snapshot
        self.times: Mapping[int, int] = {}
        """When each version was committed, in ms since 1970, where that is wanted."""

    def __repr__(self) -> str:
        return f"LakeSlice({len(self.files)} files, versions {self.span.after + 1} to {self.span.last})"


def lake_slices(client: Client, stream: Stream, wanted: LakeSpan, minimum: int | None = None) -> list[LakeSlice]:
    """Share rows of the lake out among tasks, each of which gives those of a routing key in their order.

    Args:
        client: tells the keys of segments.
        stream: the table's.
        wanted: which rows.
        minimum: how many tasks there shall be at least, if keys can be shared out so.

    Raises:
        ConfigurationError: pyiceberg isn't installed.
    """
    if wanted.last <= wanted.after:
        return []
    store = lake_store(client.settings)
    files = _files(store, wanted)
    groups = [group for file in files for group in groups_in(store, file.path, wanted.after, wanted.last)]
    segments = {segment for group in groups for segment in group.segments}
    ranges = SegmentRanges(client, stream)
    bounds = segment_bounds(ranges, segments, wanted.behind, wanted.until)
    laid_out = frozenset(file.path for file in files if file.is_laid_out)
    return [
        _slice(store, stream, groups, {segment: bounds[segment] for segment in family}, wanted, laid_out)
        for family in tasks_of(families(ranges, bounds), groups, laid_out, minimum)
    ]


def end_in_lake(settings: Settings, wanted: LakeSpan, most: int) -> int:
    """The version with which a micro-batch ends that is to end with another one, or before it: so that few files are
    read again by the next one. Where there is none, it is a later version.

    Args:
        settings: say how files are reached.
        wanted: all rows behind where it begins.
        most: the version with which it is to end.

    Raises:
        ConfigurationError: pyiceberg isn't installed.
    """
    if most >= wanted.last:
        return most
    store = lake_store(settings)
    groups: list[GroupOfRows] = []
    reached = wanted.after
    for file in sorted(_files(store, wanted), key=lambda file: file.first):
        if file.first > max(reached, most):
            # There it may end.
            break
        if file.is_laid_out:
            groups += groups_in(store, file.path, wanted.after, wanted.last)
            reached = max(reached, file.last)
    return whole_end(groups, wanted.after, most, wanted.last)


def rows_behind(settings: Settings, wanted: LakeSpan) -> Iterator[tuple[int, int, int]]:
    """How many rows each version has in the lake, and about how many bytes they have there. Files are looked at as they
    are needed.

    Args:
        settings: say how its files are reached.
        wanted: the versions, whatever its cuts are.

    Yields:
        Versions in their order, each with its rows and bytes.
    """
    rows: dict[int, int] = {}
    size: dict[int, int] = {}
    store = lake_store(settings)
    files = sorted(_files(store, wanted), key=lambda file: file.first)
    for file, later in itertools.zip_longest(files, files[1:]):
        for version, count in rows_of_versions(store, file.path):
            if wanted.after < version <= wanted.last:
                rows[version] = rows.get(version, 0) + count
                size[version] = size.get(version, 0) + file.size * count // max(1, file.rows)
        for version in sorted(version for version in rows if later is None or version < later.first):
            yield version, rows.pop(version), size.pop(version)


def segment_bounds(
    ranges: SegmentRanges, segments: set[int], behind: Cut | None, until: Cut | None
) -> dict[int, tuple[int, int]]:
    """From where to where segments are wanted, of which something is.

    Args:
        ranges: the keys of segments.
        segments: which ones.
        behind: the cut at which it begins; None for all.
        until: the cut at which it ends; None for all.
    """
    bounds = {}
    for segment in segments:
        start, end = 0, NO_END
        if behind is not None:
            if segment not in behind and not comes_after(ranges, segment, behind):
                continue
            start = max(0, behind.get(segment, 0))
        if until is not None:
            if segment not in until and comes_after(ranges, segment, until):
                continue
            end = until.get(segment, NO_END)
        if start < end:
            bounds[segment] = start, end
    return bounds


def check_columns(definition: TableDefinition, columns: Sequence[str], metadata: str, snapshot: int) -> StructType:
    """Refuse to read what the lake doesn't hold.

    Args:
        definition: what the stream is as a table.
        columns: the wanted columns, those of changes among them.
        metadata: where the metadata lie that show a snapshot.
        snapshot: its id.

    Returns:
        The table's columns as of that snapshot.

    Raises:
        UnsupportedOperationError: the lake doesn't hold it.
        ConfigurationError: pyiceberg isn't installed.
    """
    return check_in_lake(definition, columns, metadata, snapshot, CHANGE_COLUMNS.names)


def check_slices(
    definitions: Sequence[TableDefinition], columns: Sequence[str], partitions: Sequence[InputPartition]
) -> None:
    """Refuse to read what the lake doesn't hold.

    Args:
        definitions: what the streams are as tables.
        columns: the wanted columns.
        partitions: those of the streams, and of the lake.

    Raises:
        UnsupportedOperationError: the lake doesn't hold it.
    """
    known = {definition.stream: definition for definition in definitions}
    snapshots = {(one.stream, one.metadata, one.snapshot) for one in partitions if isinstance(one, LakeSlice)}
    for stream, metadata, snapshot in snapshots:
        check_columns(known[stream], columns, metadata, snapshot)
    own = [name for name in columns if name not in CHANGE_COLUMNS.names]
    bases = [one.lake for one in partitions if isinstance(one, ChainPartition) and one.lake is not None]
    for base in {one.base.snapshot: one for one in bases}.values():
        check_base(known[base.stream], base.base, own)


def slice_batches(partition: LakeSlice, schema: StructType, *, changes: bool = False) -> Iterator[pa.RecordBatch]:
    """The rows of a slice.

    Args:
        partition: the slice.
        schema: what the batches hold.
        changes: whether columns of changes are among that.
    """
    wanted = to_arrow_schema(schema, timezone="UTC")
    of_changes = CHANGE_COLUMNS.fieldNames() if changes else []
    names = [] if schema == ROW_MARKER else [name for name in wanted.names if name not in of_changes]
    for batch in _in_order(partition, names):
        check_wanted()
        if schema == ROW_MARKER:
            yield pa.record_batch([pa.array(np.zeros(batch.num_rows, np.int32))], schema=wanted)
        else:
            arrays = [
                _column_of_changes(partition, batch, field) if field.name in of_changes else _column(batch, field)
                for field in wanted
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=wanted)


def _in_order(partition: LakeSlice, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The rows, those of a segment in the order of their events."""

    def of_files(files: Iterable[tuple[str, tuple[int, ...]]]) -> Iterator[pa.RecordBatch]:
        for path, groups in files:
            yield from read_span(partition.store, path, groups, names, partition.span)

    def tiering(file: tuple[str, tuple[int, ...]]) -> str:
        # All files of one are laid out, or none is.
        return made_by(file[0]) if file[0] in partition.laid_out else ""

    for name, files in itertools.groupby(partition.files, key=tiering):
        rows = of_files(files)
        yield from by_events(rows) if name else rows


def _column_of_changes(partition: LakeSlice, batch: pa.RecordBatch, field: pa.Field) -> pa.Array:
    """A column of changes."""
    if field.name == "_change_type":
        return pa.repeat(INSERT, batch.num_rows)
    if field.name == "_commit_version":
        return batch.column(VERSION)
    versions, inverse = np.unique(batch.column(VERSION).to_numpy(), return_inverse=True)
    times = [partition.times[version] for version in versions.tolist()]
    return pa.array(np.array(times, np.int64)[inverse] * 1000).cast(field.type)


def _column(batch: pa.RecordBatch, field: pa.Field) -> pa.Array:
    index = batch.schema.get_field_index(field.name)
    array = pa.nulls(batch.num_rows, field.type) if index < 0 else batch.column(index)
    return array if array.type == field.type else array.cast(field.type)


def _slice(
    store: Store,
    stream: Stream,
    groups: Sequence[GroupOfRows],
    bounds: Mapping[int, tuple[int, int]],
    wanted: LakeSpan,
    laid_out: frozenset[str],
) -> LakeSlice:
    numbers: dict[str, list[int]] = {}
    size = 0
    for group in groups:
        if not group.segments.isdisjoint(bounds):
            size += group.bytes
            numbers.setdefault(group.path, []).append(group.number)
    span = Span(after=wanted.after, last=wanted.last, segments=dict(bounds))
    files = [(path, tuple(some)) for path, some in numbers.items()]
    return LakeSlice(store, stream, files, span, wanted, size, laid_out.intersection(numbers))


def _files(store: Store, wanted: LakeSpan) -> list[LakeFile]:
    """Files that may hold wanted versions: those of each tiering together, in the order in which it has written them,
    and the tierings in the order of their versions."""
    # Manifests are read once for all micro-batches.
    everything: list[LakeFile] = load_iceberg().files_of(store, wanted.metadata, wanted.snapshot)
    files = [file for file in everything if file.first <= wanted.last and file.last > wanted.after]
    first: dict[str, int] = {}
    for file in files:
        tiering = made_by(file.path)
        first[tiering] = min(first.get(tiering, file.first), file.first)
    return sorted(files, key=lambda file: (first[made_by(file.path)], file.path))
