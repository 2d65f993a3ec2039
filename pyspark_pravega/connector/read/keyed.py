"""Reads of tables with keys: one row for each key, its last one.

All events of a key lie in one segment and in those that took its part of the key space over when the stream was scaled.
So a partition is such a chain of segments, and no task needs to know of another one's keys. It goes through its events
twice: first for their keys only, which gives a pointer to each key's last event; then for the rows of those events.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_pravega.client import SegmentPart
from pyspark_pravega.connector.base import BaseRows, check_base
from pyspark_pravega.connector.log import Snapshot
from pyspark_pravega.connector.options import ReadOptions
from pyspark_pravega.connector.plain import told_plainly
from pyspark_pravega.connector.read.chains import ChainPartition, arrange_chains
from pyspark_pravega.connector.read.event_pointers import (
    MOST_BYTES,
    MOST_PARTS,
    POINTER,
    EventPointers,
    Kept,
    Last,
    Range,
    are,
    offsets_in,
    within,
)
from pyspark_pravega.connector.read.partitions import SlicePartition
from pyspark_pravega.connector.read.reader import ROW_MARKER, BatchReader, pieces, some_frames
from pyspark_pravega.connector.read.small_parts import groups, merged
from pyspark_pravega.connector.shared import shared_client
from pyspark_pravega.connector.table import COMPACTED, TableDefinition, flat_fields, flat_key, shown_key, whole_key
from pyspark_pravega.errors import ConfigurationError, EventDecodeError, UnsupportedOperationError
from pyspark_pravega.frames import framing
from pyspark_pravega.frames.ragged import Ints
from pyspark_pravega.lake import Between
from pyspark_pravega.serde.codec import Batch
from pyspark_pravega.spark.datasource import InputPartition

MOST_KEYS = 2_000_000
"""How many keys a task holds in memory at a time, where nobody says so. With 16 letters they take 28 bytes each, and at
the most 180, while they are merged (measured with 4 million)."""
_KEPT_BYTES = 64 << 20
"""How much of a task's events is kept from the first pass to the second one; the rest is read again."""
MERGED_ROWS = 1 << 20
_BATCH_BYTES, _BATCH_EVENTS = 1 << 20, 64 << 10
_INDEX = "\x1findex"


def check_bounds(definition: TableDefinition, options: ReadOptions) -> None:
    """Refuse options that say where in a stream to begin or end, where rows are made of all its events.

    Args:
        definition: what the stream is as a table.
        options: a batch read's options.

    Raises:
        ConfigurationError: the table has a key, and there are some.
    """
    if definition.key is not None and options.has_bounds:
        raise ConfigurationError(
            f'stream "{definition.stream}" has a primary key, and its rows are made of all events: a read of them has '
            "no start or end. Read a VERSION or TIMESTAMP AS OF, CHANGES between versions, or the events themselves "
            f"from `{definition.log_name}`"
        )


def snapshot_reader(
    definition: TableDefinition, snapshot: Snapshot | None, columns: Sequence[str], options: ReadOptions
) -> BatchReader:
    """A batch read of a table, by its key if it has one.

    Args:
        definition: what the stream is as a table.
        snapshot: which of its bytes to read; None for one that is told with each partition.
        columns: the wanted columns in their order, metadata columns among them; none for rows only.
        options: the read's options.

    Raises:
        ConfigurationError: as `check_bounds`.
    """
    check_bounds(definition, options)
    if definition.key is None:
        return BatchReader(
            definition,
            snapshot,
            columns,
            min_partitions=options.min_partitions,
            fail_on_data_loss=options.fail_on_data_loss,
        )
    return KeyedReader(
        definition, snapshot, columns, fail_on_data_loss=options.fail_on_data_loss, max_keys=options.max_keys
    )


class KeyedReader(BatchReader):
    """Reads the rows of a table with a key."""

    def __init__(
        self,
        definition: TableDefinition,
        snapshot: Snapshot | None,
        columns: Sequence[str],
        *,
        fail_on_data_loss: bool = True,
        max_keys: int | None = None,
    ) -> None:
        """Plan a read.

        Args:
            definition: what the stream is as a table; it has a key.
            snapshot: which of its bytes to read; None for one that is told with each partition.
            columns: as of `BatchReader`.
            fail_on_data_loss: likewise.
            max_keys: how many keys a task may hold in memory at a time; the events are read again for more.
        """
        super().__init__(definition, snapshot, columns, fail_on_data_loss=fail_on_data_loss)
        assert definition.key is not None
        self._key = definition.key
        self._max_keys = max_keys or MOST_KEYS
        self._counts = self.schema == ROW_MARKER
        self._definition: TableDefinition | None = definition
        self.wanted: tuple[Between, ...] = ()
        """Which values are wanted of rows in the lake; others may come all the same."""
        self._only_keys = not [c for c in self.schema.fieldNames() if c not in (*self._key.columns, "_row")]

    def arranged(self, snapshot: Snapshot) -> Sequence[SlicePartition]:
        """A partition for each chain of segments with many events, and for several with few."""
        if snapshot.base is not None and self._definition is not None:
            check_base(self._definition, snapshot.base, [] if self._counts else self.schema.names)
        return arrange_chains(shared_client(self._settings), snapshot, wanted=self.wanted)

    def __getstate__(self) -> dict[str, Any]:
        # Only who plans asks what the table is.
        return {**super().__getstate__(), "_definition": None}

    def batches(self, partition: InputPartition) -> Iterator[Batch]:
        """The rows of a partition.

        Args:
            partition: one of `partitions()`, or Spark's stand-in when there are none.

        Yields:
            Batches of the schema; a row for each key that isn't deleted.

        Raises:
            EventDecodeError: an event can't be decoded, or has no key; the message says where it is.
            DataLossError: events have been truncated since the read was planned.
        """
        if not isinstance(partition, ChainPartition):
            return
        parts = partition.parts
        self._check_parts(parts)
        changed = [number for number, compacted in enumerate(partition.compacted) if not compacted]
        with told_plainly():
            kept = Kept(frames=[[] for _ in parts], up_to=[part.start for part in parts])
            begin, width = 0.0, 1.0
            while begin < 1.0:
                last = self._last_events(parts, changed, (begin, min(1.0, begin + width)), kept)
                begin, width = last.range[1], last.range[1] - begin
                if partition.lake is not None:
                    yield from self._base_rows(partition.lake, last)
                for part, compacted in zip(parts, partition.compacted, strict=True):
                    if compacted:
                        yield from self._unchanged(part, last)
                rows = last.table.filter(pa.array(~EventPointers.column(last.table).deletes))
                if self._only_keys:
                    yield from self._key_rows(rows)
                else:
                    batches = self._rows_at(parts, np.sort(EventPointers.column(rows).locations), kept)
                    yield from merged(batches, self._most_rows)

    def _check_parts(self, parts: Sequence[SegmentPart]) -> None:
        if len(parts) > MOST_PARTS or any(part.end >= MOST_BYTES for part in parts):
            raise UnsupportedOperationError(
                f'stream "{self._stream}" was scaled so often, or holds so much, that a read by key can\'t tell its '
                f"events apart: {len(parts)} parts of segments follow each other, and there may be {MOST_PARTS}, of "
                f"{MOST_BYTES >> 40} TiB each. CALL compact makes them fewer"
            )

    def written_keys(self, parts: Sequence[SegmentPart]) -> Iterator[pa.RecordBatch]:
        """The keys of events, without those of rows that a compaction has only written once more.

        Args:
            parts: where the events lie.

        Yields:
            The key's columns, flat.
        """
        for part in parts:
            for events in self._frames(part):
                keys = self._keys(events.frames, part.segment_id, events.start, 0, (0.0, 1.0))
                keys = keys.filter(pa.array(~EventPointers.column(keys).compacted)).drop_columns([POINTER])
                yield from keys.combine_chunks().to_batches()

    def placed_keys(self, part: SegmentPart) -> Iterator[tuple[pa.RecordBatch, Ints]]:
        """The keys of events, and where in their segment each lies.

        Args:
            part: where the events lie.

        Yields:
            The key's columns, flat, with nulls where an event has none, and offsets in bytes.

        Raises:
            EventDecodeError: an event can't be decoded; the message says where it is.
        """
        for events in self._frames(part):
            frames, decoded = self._decode(events.frames, part.segment_id, events.start, self._key.fields)
            if len(frames):
                yield pa.record_batch(dict(self._flat_keys(decoded.batch))), frames.starts + events.start

    # First pass: keys

    def _last_events(self, parts: Sequence[SegmentPart], changed: Sequence[int], range: Range, kept: Kept) -> Last:
        """Where the last events of keys are: of all keys in a part of the key space, which is made smaller until they
        are few enough.

        Args:
            parts: all parts.
            changed: the numbers of those that are looked at.
            range: the part of the key space.
            kept: keeps frames for the second pass.
        """
        schema = pa.schema([*self._flat_key(), pa.field(POINTER, pa.int64())])
        last = Last(range=range, table=schema.empty_table())
        numbers, is_kept = iter(changed), any(kept.frames)
        for group in groups([parts[number] for number in changed]):
            # What is kept of the first pass needn't be asked for again.
            self._read_ahead([] if is_kept else group)
            for part in group:
                number = next(numbers)
                for frames, position in self._kept_frames(number, part, kept):
                    last.more.append(self._keys(frames, part.segment_id, position, number, last.range))
                    if last.rows_to_merge >= max(MERGED_ROWS, last.table.num_rows):
                        self._merge(last)
        self._merge(last)
        return last

    def _kept_frames(self, number: int, part: SegmentPart, kept: Kept) -> Iterator[tuple[framing.Frames, int]]:
        """A part's frames, of which as many as there is room for are kept."""
        yield from kept.frames[number]
        position = kept.up_to[number]
        if position >= part.end:
            return
        for events in self._frames(replace(part, start=position)):
            if kept.up_to[number] == events.start and kept.bytes < _KEPT_BYTES:
                # Without what else was received with them: others of their buffer may not be kept.
                events.frames.let_go()
                kept.frames[number].append((events.frames, events.start))
                kept.bytes += events.frames.consumed
                kept.up_to[number] = events.end
            yield events.frames, events.start

    def _flat_key(self) -> list[pa.Field]:
        """The key's columns, flat."""
        return [flat for name in self._key.columns for flat in flat_fields(name, self._key_type(name))]

    def _key_type(self, name: str) -> pa.DataType:
        if self._key.row is None:
            return self._codec.schema.field(name).type
        of_row = self._codec.schema.field(self._key.row).type
        assert pa.types.is_struct(of_row)
        return of_row.field(name).type

    def _keys(self, frames: framing.Frames, segment_id: int, position: int, number: int, range: Range) -> pa.Table:
        """The keys of some events, and pointers to these."""
        frames, decoded = self._decode(frames, segment_id, position, self._key.fields)
        batch = decoded.batch
        keys = self._flat_keys(batch)
        for name, values in keys:
            if values.null_count:
                first = int(np.argmax(values.is_null().to_numpy(zero_copy_only=False)))
                raise EventDecodeError(
                    f'an event of stream "{self._stream}" has no value in column "{shown_key(name)}", which is in the '
                    f"primary key (segment {segment_id}, offset {position + int(frames.starts[first])})"
                )
        operations = None
        if self._key.operation is not None:
            operations = batch.column(batch.schema.get_field_index(self._key.operation)).cast(pa.string())
        deletes = compacted = None
        if operations is not None and operations.null_count < len(operations):
            deletes, compacted = are(operations, self._key.deletes), are(operations, (COMPACTED,))
        pointers = EventPointers.of(number, position, frames.starts, deletes=deletes, compacted=compacted)
        table = pa.table({**dict(keys), POINTER: pa.array(pointers.values)})
        return table if range == (0.0, 1.0) else within(table, [name for name, _ in keys], range)

    def _flat_keys(self, batch: pa.RecordBatch) -> list[tuple[str, pa.Array]]:
        """The key's columns of some events, flat."""
        return [flat for name in self._key.columns for flat in flat_key(name, self._key_column(batch, name))]

    def _key_column(self, batch: pa.RecordBatch, name: str) -> pa.Array:
        if self._key.row is None:
            return batch.column(batch.schema.get_field_index(name))
        sources = [source for source in (self._key.row, self._key.deleted_row) if source is not None]
        first, *others = (pc.struct_field(batch.column(batch.schema.get_field_index(one)), name) for one in sources)
        return pc.coalesce(first, *others) if others else first

    def _merge(self, last: Last, each: Sequence[str] | None = None) -> None:
        """Keep the last event of each key; of a smaller part of the key space, where they are too many.

        Args:
            last: the keys.
            each: columns of whose combinations each has a last event; None for those of the key, flat.
        """
        keys = [flat.name for flat in self._flat_key()]
        if last.more:
            names = keys if each is None else list(each)
            both = pa.concat_tables([last.table, *last.more])
            last.more = []
            grouped = both.group_by(names, use_threads=False).aggregate([(POINTER, "max")])
            last.table = grouped.rename_columns([POINTER if n == f"{POINTER}_max" else n for n in grouped.column_names])
            last.table = last.table.select([*names, POINTER])
        while last.table.num_rows > self._max_keys:
            low, high = last.range
            middle = (low + high) / 2
            if not low < middle < high:
                # Keys whose hashes are all the same can't be told apart.
                return
            last.range = (low, middle)
            last.table = within(last.table, keys, last.range)

    def _key_rows(self, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        """Rows of which only columns of the key are wanted, or none."""
        for batch in rows.to_batches(max_chunksize=self._most_rows):
            arrays = [
                whole_key(one.name, one.type, batch)
                if one.name in self._key.columns
                else pa.array(np.zeros(batch.num_rows, np.int32))
                for one in self._arrow_schema
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=self._arrow_schema)

    # What a compaction has written: each key once, and older than all other events

    def _unchanged(self, part: SegmentPart, last: Last) -> Iterator[Batch]:
        """The rows of a part of which nothing else is known."""
        some: list[tuple[framing.Frames, int, pa.Table]] = []
        for events in self._frames(part):
            for frames in pieces(events.frames, self._most_rows):
                if not last.table.num_rows and last.range == (0.0, 1.0):
                    yield self._batch(frames, part.segment_id, events.start)
                    continue
                some.append((frames, events.start, self._keys(frames, part.segment_id, events.start, 0, (0.0, 1.0))))
            if sum(keys.num_rows for _, _, keys in some) >= MERGED_ROWS:
                yield from self._others(some, part.segment_id, last)
                some = []
        yield from self._others(some, part.segment_id, last)

    def _others(
        self, some: Sequence[tuple[framing.Frames, int, pa.Table]], segment_id: int, last: Last
    ) -> Iterator[Batch]:
        """The rows of frames with other keys than those in a table; the keys of each are given."""
        if not some:
            return
        rows, first = self._without(pa.concat_tables([table for _, _, table in some]), last), 0
        for frames, position, table in some:
            one, other = np.searchsorted(rows, [first, first + table.num_rows])
            if one < other:
                yield self._batch(some_frames(frames, rows[one:other] - first), segment_id, position)
            first += table.num_rows

    def _without(self, keys: pa.Table, last: Last) -> Ints:
        """The indexes, ascending, of those keys of a table that aren't in another one, and are looked at."""
        names = [flat.name for flat in self._flat_key()]
        keys = keys.select(names).append_column(_INDEX, pa.array(np.arange(keys.num_rows)))
        keys = within(keys, names, last.range)
        if last.table.num_rows:
            keys = keys.join(last.table.select(names), names, join_type="left anti", use_threads=False)
        return np.sort(keys[_INDEX].to_numpy())

    # What the lake has: likewise

    def _base_rows(self, base: BaseRows, last: Last) -> Iterator[Batch]:
        """The rows in the lake of which nothing else is known."""
        is_all = not last.table.num_rows and last.range == (0.0, 1.0)
        some: list[pa.RecordBatch] = []
        for batch in base.batches(self._base_schema(with_keys=not is_all)):
            if is_all:
                yield self._of_base(batch)
                continue
            some.append(batch)
            if sum(one.num_rows for one in some) >= MERGED_ROWS:
                yield from self._base_others(some, last)
                some = []
        yield from self._base_others(some, last)

    def _base_others(self, some: Sequence[pa.RecordBatch], last: Last) -> Iterator[Batch]:
        if not some:
            return
        rows, first = self._without(pa.concat_tables([self._base_keys(batch) for batch in some]), last), 0
        for batch in some:
            one, other = np.searchsorted(rows, [first, first + batch.num_rows])
            if one < other:
                yield self._of_base(batch.take(pa.array(rows[one:other] - first)))
            first += batch.num_rows

    def _base_schema(self, *, with_keys: bool) -> pa.Schema:
        """What is read of rows in the lake."""
        columns = {field.name: field for field in self._arrow_schema if not self._counts}
        keys = [pa.field(name, self._key_type(name)) for name in self._key.columns if name not in columns]
        return pa.schema([*columns.values(), *(keys if with_keys else [])])

    def _base_keys(self, batch: pa.RecordBatch) -> pa.Table:
        """The keys of rows in the lake, flat."""
        whole = {name: batch.column(name).cast(self._key_type(name)) for name in self._key.columns}
        return pa.table(dict(flat for name, values in whole.items() for flat in flat_key(name, values)))

    def _of_base(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Rows in the lake as rows of this read."""
        if self._counts:
            return pa.record_batch([pa.array(np.zeros(batch.num_rows, np.int32))], schema=self._arrow_schema)
        return pa.RecordBatch.from_arrays(
            [batch.column(name) for name in self._arrow_schema.names], schema=self._arrow_schema
        )

    # Second pass: rows

    def _rows_at(self, parts: Sequence[SegmentPart], locations: Ints, kept: Kept) -> Iterator[Batch]:
        """The rows of events.

        Args:
            parts: the parts of segments.
            locations: where they lie, ascending: see `EventPointers.locations`.
            kept: what needn't be read again.
        """
        for number, part in enumerate(parts):
            offsets = offsets_in(number, locations)
            if not len(offsets):
                continue
            some: list[framing.Frames] = []
            for frames, position in self._frames_of(number, part, kept, int(offsets[-1])):
                starts = frames.starts + position
                one, other = np.searchsorted(offsets, [starts[0], starts[-1] + 1])
                if one == other:
                    continue
                which = np.searchsorted(starts, offsets[one:other])
                some.append(replace(some_frames(replace(frames, starts=starts), which), consumed=0))
                if _is_enough(some):
                    yield self._joined(some, part.segment_id)
                    some = []
            if some:
                yield self._joined(some, part.segment_id)

    def _frames_of(self, number: int, part: SegmentPart, kept: Kept, last: int) -> Iterator[tuple[framing.Frames, int]]:
        yield from kept.frames[number]
        if kept.up_to[number] > last:
            return
        for events in self._frames(replace(part, start=kept.up_to[number])):
            yield events.frames, events.start
            if events.end > last:
                return

    def _joined(self, some: Sequence[framing.Frames], segment_id: int) -> Batch:
        whole = some[0]
        if len(some) > 1:
            whole = framing.Frames(
                events=pa.concat_arrays([frames.payloads for frames in some]),
                starts=np.concatenate([frames.starts for frames in some]),
                sizes=np.concatenate([frames.sizes for frames in some]),
                consumed=0,
            )
        return self._batch(whole, segment_id, 0)

    def _wanted_fields(self) -> list[str]:
        return self._data_columns if self._key.row is None else [self._key.row]

    def _columns_of(self, batch: pa.RecordBatch) -> dict[str, pa.Array]:
        if self._key.row is None:
            return super()._columns_of(batch)
        row = batch.column(0)
        return {name: pc.struct_field(row, name) for name in self._data_columns}


def _is_enough(some: Sequence[framing.Frames]) -> bool:
    events = sum(len(frames) for frames in some)
    return events >= _BATCH_EVENTS or sum(int(frames.sizes.sum()) for frames in some) >= _BATCH_BYTES
