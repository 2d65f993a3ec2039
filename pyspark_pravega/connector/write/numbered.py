"""Real-time queries that write exactly once: their rows are numbered by the events that they are made of.

A row's number is made of the offset of its event in the source, and of its index among the rows of this event. Its
writer is the query, the source and the event's segment. So a row that comes again, in whatever task and beside whatever
others, is known (`client/events/numbered.py`). This holds for queries whose rows tell event and index, the same each
time, and whose rows' routing keys are columns of the source: another key might lead the row to a segment that doesn't
know it.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_pravega.client import Client, Stream
from pyspark_pravega.client.events import NumberedWriter, settled_since
from pyspark_pravega.connector.log import Ledger, Numbered, Progress, create_ledger, open_ledger, settle
from pyspark_pravega.connector.option_names import AT_LEAST_ONCE, EVENT_TIME, WRITER_MODE, shown, spellings
from pyspark_pravega.connector.options import WriteOptions
from pyspark_pravega.connector.shared import shared_client
from pyspark_pravega.connector.table import TRUNCATE_LATER, TableDefinition
from pyspark_pravega.connector.write.job import WriteJob
from pyspark_pravega.connector.write.plan import Numbering, WritePlan, fenced
from pyspark_pravega.connector.write.task import Task, Written
from pyspark_pravega.errors import (
    DataLossError,
    EventEncodeError,
    InvalidStreamCutError,
    NotFoundError,
    PravegaError,
    SegmentNotFoundError,
    UnsupportedOperationError,
)
from pyspark_pravega.frames import framing
from pyspark_pravega.serde.types import same_names
from pyspark_pravega.settings import KEYS
from pyspark_pravega.spark.types import StructType

STREAM, SEGMENT, OFFSET, INDEX = "_stream", "_segment", "_offset", "_index"
_COORDINATES = (STREAM, SEGMENT, OFFSET, INDEX)
_INDEX_BITS = 13
MOST_ROWS = framing.HEADER_SIZE << _INDEX_BITS
"""Of one event: it has so many numbers, as the next event begins behind its frame at the earliest."""


@dataclass(frozen=True, kw_only=True)
class RowOrigins:
    """What the plan of a streaming query tells of where its rows come from."""

    query: str
    sources: Sequence[Mapping[str, Any]]
    """The tables that it reads as streams, those of a UNION in their order: the name of each, `stream`; the read's
    `options`; whether it is one of the written table's catalog, `here`; the names of its `own` columns, that aren't
    metadata; in `columns` those of the rows' columns that come from it as they are, and the names that they have there;
    `generators`, which make several rows of one; in
    `positions` the rows' columns that say which of these a row is; and whether what feeds the generators is the same
    each time, `repeats`."""
    operators: Sequence[str]
    """What else is in it than projections, filters, unions and generators, as Spark names it."""


def numbered(
    plan: WritePlan,
    definition: TableDefinition,
    options: WriteOptions,
    rows: StructType | None,
    origins: RowOrigins | None,
) -> WritePlan:
    """A real-time query's write as one that numbers its rows.

    Args:
        plan: how it writes, exactly once.
        definition: what the stream is as a table.
        options: the write's.
        rows: the columns of the query's rows.
        origins: where they come from; None where that isn't known.

    Raises:
        UnsupportedOperationError: rows might be lost, or come twice; the message says what to do.
    """
    if origins is None or rows is None:
        raise _refusal(plan, "it can't be seen where its rows come from")
    try:
        _check_sources(origins)
        needed = _check_coordinates(origins, definition.schema, rows)
        keys = _key_columns(plan, origins, rows)
    except _NotSafeError as error:
        raise _refusal(plan, str(error)) from None
    if definition.properties.truncates_later:
        raise _refusal(
            plan, f'by its property "{TRUNCATE_LATER}" a TRUNCATE TABLE would remove such rows, too: unset it'
        )
    if options.event_time is not None:
        raise _refusal(plan, f'"{EVENT_TIME}" is told with a commit, which it doesn\'t have: leave it out')
    by_name = sorted(origins.sources, key=lambda source: str(source["stream"]))
    indexed = [source["stream"] for source in by_name if source["generators"]]
    key = "" if plan.routing is None else f"{plan.routing} of {keys}, plain {plan.routing.plain}"
    numbering = Numbering(
        query=origins.query,
        sources=tuple(Stream.parse(source["stream"]) for source in by_name),
        indexed=tuple(map(Stream.parse, indexed)),
        key="; ".join(filter(None, [key, f"several rows of each event of {', '.join(indexed)}" if indexed else ""])),
        coordinates=tuple(name for name in rows.fieldNames() if name in needed or _is_extra(name, definition.schema)),
    )
    return replace(plan, numbering=numbering, event_time=None)


class _NotSafeError(Exception):
    """Why rows might be lost, or come twice."""


def _refusal(plan: WritePlan, why: str) -> UnsupportedOperationError:
    return UnsupportedOperationError(
        f'stream "{plan.stream}" can\'t be written exactly once by a query with the real-time trigger: {why}; '
        f'or take trigger(processingTime=...), or option("{shown(WRITER_MODE)}", "{AT_LEAST_ONCE}")'
    )


def _check_sources(origins: RowOrigins) -> None:
    """Refuse a plan in which an event's rows could come in another order, from several tasks, or as others."""
    only = "read tables of Pravega, with projections, filters, posexplode and unions only"
    if origins.operators or not origins.sources:
        raise _NotSafeError(f"it has {', '.join(dict.fromkeys(origins.operators)) or 'no source'}: {only}")
    for source in origins.sources:
        if not source["here"] or spellings(KEYS) & {key.lower() for key in source["options"]}:
            raise _NotSafeError("its source has connection settings of its own: read and write by one catalog")
    streams = [source["stream"] for source in origins.sources]
    for stream in streams:
        if streams.count(stream) > 1:
            raise _NotSafeError(f'it reads stream "{stream}" {streams.count(stream)} times: read it once')
    for source in origins.sources:
        generators = source["generators"]
        if len(generators) > 1:
            raise _NotSafeError(f"it has {', '.join(generators)}: take one posexplode, of one list")
        if generators and INDEX not in source["positions"]:
            raise _NotSafeError(
                f"it has {generators[0]}, and its rows don't tell which row of their event they are: take "
                f'posexplode(...).alias("{INDEX}", ...), whose position isn\'t written'
            )
        if generators and not source["repeats"]:
            raise _NotSafeError(
                f"{generators[0]} may be given another list when an event comes again: make it without functions "
                "that aren't deterministic, and without the time of day"
            )


def _check_coordinates(origins: RowOrigins, columns: StructType, rows: StructType) -> list[str]:
    """The columns that must tell of which event a row is; refuses rows without them, and tables that have them."""
    needed = [SEGMENT, OFFSET]
    if len(origins.sources) > 1:
        needed.append(STREAM)
    asked = ", ".join(f'"{name}"' for name in sorted(needed, key=_COORDINATES.index))
    for name in needed:
        if name not in rows.fieldNames() or any(source["columns"].get(name) != name for source in origins.sources):
            raise _NotSafeError(
                f'its rows don\'t tell of which events they are: add the columns, as select("*", {asked}), which '
                "aren't written"
            )
    for source in origins.sources:
        hidden = [name for name in needed if name in source["own"]]
        if hidden:
            raise _NotSafeError(
                f'its source "{source["stream"]}" has a column "{hidden[0]}" of its own, which hides where an event '
                "is: rename it"
            )
    if any(source["generators"] for source in origins.sources):
        needed.append(INDEX)
    own = [name for name in _COORDINATES if name in needed and name in columns.fieldNames()]
    if own:
        raise _NotSafeError(f'the table has a column "{own[0]}", which must tell of the source: rename it')
    return needed


def _key_columns(plan: WritePlan, origins: RowOrigins, rows: StructType) -> str:
    """Of which columns of the sources routing keys are made, in words."""
    columns = () if plan.routing is None else plan.routing.columns
    given = dict(zip(same_names(rows.fieldNames(), columns), rows.fieldNames(), strict=True))
    words = {}
    for source in origins.sources:
        keys = [source["columns"].get(given.get(column, "")) for column in columns]
        if None in keys:
            raise _NotSafeError(
                f'column "{columns[keys.index(None)]}", of which routing keys are made, isn\'t a column of the source '
                "as it is there: take one that is"
            )
        words[source["stream"]] = ", ".join(map(str, keys))
    return (
        next(iter(words.values()))
        if len(words) == 1
        else " and ".join(f"{words[name]} ({name})" for name in sorted(words))
    )


def _is_extra(name: str, columns: StructType) -> bool:
    return name in _COORDINATES and name not in columns.fieldNames()


def without_coordinates(rows: StructType, columns: StructType) -> StructType:
    """A numbered write's columns that are written.

    Args:
        rows: all of its rows' columns.
        columns: the table's.
    """
    return StructType([field for field in rows if not _is_extra(field.name, columns)])


def take_over_numbered(plan: WritePlan, run: str, epoch: int) -> None:
    """Begin, or go on with, a query that numbers its rows.

    Args:
        plan: how it writes.
        run: its driver.
        epoch: the batch with which it begins.

    Raises:
        TransactionError: another driver has taken the query over from this one.
        DataLossError: the checkpoint is older than what was written.
        UnsupportedOperationError: what was written before makes it unsafe.
    """
    client, numbering = shared_client(plan.settings), plan.numbering
    assert numbering is not None
    ledger, query = create_ledger(client, plan.stream, to_write=True), numbering.query

    def check(progress: Progress) -> None:
        if epoch > 0 and progress.run is None:
            raise DataLossError(
                f'streaming query {query} comes with batch {epoch}, and stream "{plan.stream}" knows of none before '
                "(it was dropped and made again, or the query has written at least once): begin a new checkpoint, with "
                "options that say where to begin"
            )

    if ledger.take_over(query, run, check=check) is None:
        raise fenced(plan, query)
    settle(client, ledger, taken_over=query)
    progress = ledger.progress(query)
    known = progress.numbered
    if known is None:
        if progress.epoch >= epoch:
            raise UnsupportedOperationError(
                f'streaming query {query} has written micro-batch {progress.epoch} to stream "{plan.stream}", and its '
                "checkpoint doesn't know yet that it is over: run the query once more with the trigger that it had, as "
                "trigger(availableNow=True), before it goes on in real time"
            )
        current = client.controller.current_segments(plan.stream).ids
        _note(ledger, plan, run, Numbered(since=current, epoch=epoch, key=numbering.key))
    elif known.key != numbering.key:
        raise UnsupportedOperationError(
            f'streaming query {query} makes the rows for stream "{plan.stream}" and their routing keys in another way '
            f"than before ({numbering.key or 'no keys'}; before: {known.key or 'no keys'}), so rows of its last batch "
            "might come twice: make them as before, or begin a new checkpoint, with options that say where to begin"
        )
    elif epoch < known.epoch:
        raise DataLossError(
            f'streaming query {query} has written batch {known.epoch} to stream "{plan.stream}" before, and its '
            f"checkpoint comes with batch {epoch}: it is older than what was written, as one that was restored from a "
            "backup. Use the newest checkpoint; or a new one, with options that say where to begin"
        )


class NumberedJob(WriteJob):
    """A real-time query's batch whose rows are numbered: visible as they come, and each is there once."""

    def __init__(
        self, plan: WritePlan, *, run: str, epoch: int, start: Mapping[Stream, Mapping[int, int] | None]
    ) -> None:
        """Begin a batch.

        Args:
            plan: how to write.
            run: the query's driver.
            epoch: the batch's number.
            start: where it begins in each source, as the checkpoint tells: segment id to offset in bytes; None where
                it tells nothing.

        Raises:
            TransactionError: another driver has taken the query over.
            DataLossError: a segment is gone of which has to be known what is stored.
        """
        super().__init__(plan)
        self.since = self._since(run, epoch, start)

    def _since(self, run: str, epoch: int, start: Mapping[Stream, Mapping[int, int] | None]) -> tuple[int, ...]:
        """From which segments on tasks look for what is stored: from later ones as soon as that is safe."""
        client, numbering = shared_client(self.plan.settings), self.plan.numbering
        assert numbering is not None
        ledger = open_ledger(client, self.plan.stream)
        progress = None if ledger is None else ledger.progress(numbering.query)
        if ledger is None or progress is None or progress.numbered is None or progress.run != run:
            raise fenced(self.plan, numbering.query)
        known = progress.numbered
        if {one.segment_id for one in self._segments} == set(known.since):
            return known.since
        positions: dict[uuid.UUID, int] = {}
        for source in numbering.sources:
            begin = start.get(source)
            if begin is None:
                return known.since
            try:
                # Who was killed may have read behind a scale of the source that this batch hasn't come to.
                segments = client.controller.segments_from(source, begin)
            except (InvalidStreamCutError, NotFoundError):
                # The read says what is wrong.
                return known.since
            for one in segments:
                positions[numbering.writer_id(source, one)] = (max(0, begin.get(one, 0)) << _INDEX_BITS) - 1
        try:
            since = settled_since(client, self.plan.stream, known.since, positions)
        except SegmentNotFoundError as error:
            raise _gone(self.plan, error) from None
        if since != known.since:
            _note(ledger, self.plan, run, replace(known, since=since, epoch=epoch))
        return since

    def _task(self, partition: int) -> Task:  # noqa: ARG002
        client = self._client()
        return NumberedTask(client, self.plan, self.since)


class NumberedTask:
    """Appends numbered rows to the stream."""

    def __init__(self, client: Client, plan: WritePlan, since: Sequence[int]) -> None:
        """Prepare; nothing is sent before the first row.

        Args:
            client: the cluster.
            plan: how to write.
            since: as of `NumberedWriter`.
        """
        assert plan.numbering is not None
        self._client, self._plan, self._numbering, self._since = client, plan, plan.numbering, tuple(since)
        self._writers: dict[tuple[Stream, int], NumberedWriter] = {}
        self._rows = self._bytes = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """As `Task.add`: the batch tells of which events its rows are, too."""
        if not batch.num_rows:
            return
        plan = self._plan
        rows = plan.form.of(batch.drop_columns(list(self._numbering.coordinates)))
        events = plan.codec.encode(rows)
        keys = None if plan.routing is None else plan.routing.lasting_keys(rows)
        for source, segment_id, own, numbers in self._origins(batch):
            if len(own) == len(events):
                self._write(source, segment_id, events, keys, numbers)
            else:
                their_keys = keys.take(pa.array(own)) if isinstance(keys, pa.Array) else keys
                self._write(source, segment_id, events.take(pa.array(own)), their_keys, numbers)
        self._rows += len(events)
        self._bytes += pc.sum(pc.binary_length(events)).as_py() + framing.HEADER_SIZE * len(events)

    def finish(self) -> Written:
        """As `Task.finish`."""
        for writer in self._writers.values():
            writer.close()
        return Written(rows=self._rows, bytes=self._bytes)

    def abort(self) -> None:
        """As `Task.abort`: what was sent comes again, and is known then."""
        for writer in self._writers.values():
            writer.__exit__(PravegaError)

    def _origins(
        self, batch: pa.RecordBatch
    ) -> Iterator[tuple[Stream, int, npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
        """For each segment of a source: which rows are of its events, and their numbers."""
        segments, offsets = (_integers(batch, name) for name in (SEGMENT, OFFSET))
        streams = np.zeros(len(segments), np.int64)
        names = [str(self._numbering.sources[0])]
        if len(self._numbering.sources) > 1:
            encoded = batch.column(STREAM).dictionary_encode()
            names, streams = encoded.dictionary.to_pylist(), encoded.indices.to_numpy(zero_copy_only=False)
        for index, name in enumerate(names):
            source = Stream.parse(name)
            for segment_id in dict.fromkeys(segments[streams == index].tolist()):
                own = np.flatnonzero((streams == index) & (segments == segment_id))
                numbers = offsets[own] << _INDEX_BITS
                if source in self._numbering.indexed:
                    places = _integers(batch, INDEX)[own]
                    if int(places.max()) >= MOST_ROWS:
                        raise EventEncodeError(
                            f"there are more than {MOST_ROWS} rows of one event, of segment {segment_id} of stream "
                            f'"{source}", which is as many as can be written exactly once'
                        )
                    numbers += places
                yield source, segment_id, own, numbers

    def _write(
        self,
        source: Stream,
        segment_id: int,
        events: pa.Array,
        keys: pa.Array | str | None,
        numbers: npt.NDArray[np.int64],
    ) -> None:
        plan = self._plan
        try:
            writer = self._writers.get((source, segment_id))
            if writer is None:
                # It may have come into the place of others, with keys of theirs: their rows must be there before.
                for other in self._writers.values():
                    other.flush()
                id = self._numbering.writer_id(source, segment_id)
                writer = NumberedWriter(self._client, plan.stream, id, self._since)
                self._writers[source, segment_id] = writer
            writer.write_batch(events, keys, numbers)
        except SegmentNotFoundError as error:
            raise _gone(plan, error) from None
        except ValueError as error:
            raise EventEncodeError(
                f'rows of segment {segment_id} of stream "{source}" came in another order than its events, or several '
                f"of one event, and can't be written exactly once ({error})"
            ) from None


def _integers(batch: pa.RecordBatch, name: str) -> npt.NDArray[np.int64]:
    """A column's values; of an event without a list, of which there is one row, the index is null."""
    return pc.fill_null(batch.column(name).cast(pa.int64()), 0).to_numpy(zero_copy_only=False)


def _note(ledger: Ledger, plan: WritePlan, run: str, how: Numbered) -> None:
    assert plan.numbering is not None
    if not ledger.note_numbered(plan.numbering.query, run, how):
        raise fenced(plan, plan.numbering.query)


def _gone(plan: WritePlan, error: SegmentNotFoundError) -> DataLossError:
    assert plan.numbering is not None
    return DataLossError(
        f'a segment of stream "{plan.stream}", to which streaming query {plan.numbering.query} has written before the '
        f"stream was scaled, was deleted by retention or a truncation ({error}), so it can't be told what of the last "
        "batch is stored: begin a new checkpoint, with options that say where to begin"
    )
