"""Real-time queries that write exactly once: their rows are numbered by the events that they are made of.

A row's number is the offset of its event in the source, and its writer the query and the event's segment. So a row that
comes again, in whatever task and beside whatever others, is known (`client/events/numbered.py`). This holds for queries
that make at most one row of an event, whose rows tell segment and offset, and whose rows' routing keys are
columns of the source: another key might lead the row to a segment that doesn't know it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_pravega.client import Client, Stream
from pyspark_pravega.client.events import NumberedWriter, settled_since
from pyspark_pravega.connector.log import Ledger, Numbered, create_ledger, open_ledger, settle
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

SEGMENT, OFFSET = "_segment", "_offset"


@dataclass(frozen=True, kw_only=True)
class RowOrigins:
    """What the plan of a streaming query tells of where its rows come from."""

    query: str
    sources: Sequence[Mapping[str, Any]]
    """The tables that it reads as streams: the name of each, `stream`; the read's `options`; and whether it is one of
    the written table's catalog, `here`."""
    operators: Sequence[str]
    """What else is in it than projections and filters, as Spark names it."""
    columns: Mapping[str, str]
    """Of the rows' columns those that come from the source as they are, and the names that they have there."""


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

    def refuse(why: str) -> UnsupportedOperationError:
        return UnsupportedOperationError(
            f'stream "{plan.stream}" can\'t be written exactly once by a query with the real-time trigger: {why}; '
            f'or take trigger(processingTime=...), or option("{shown(WRITER_MODE)}", "{AT_LEAST_ONCE}")'
        )

    if origins is None or rows is None:
        raise refuse("it can't be seen where its rows come from")
    if origins.operators or len(origins.sources) != 1:
        what = ", ".join(dict.fromkeys(origins.operators)) or f"{len(origins.sources)} sources"
        raise refuse(f"it has {what}: read one table of Pravega, with projections and filters only")
    (source,) = origins.sources
    if not source["here"] or spellings(KEYS) & {key.lower() for key in source["options"]}:
        raise refuse("its source has connection settings of its own: read and write by one catalog")
    own = set(definition.schema.fieldNames())
    if own & {SEGMENT, OFFSET}:
        raise refuse(
            f'the table has a column "{min(own & {SEGMENT, OFFSET})}", which must tell of the source: rename it'
        )
    if any(origins.columns.get(name) != name or name not in rows.fieldNames() for name in (SEGMENT, OFFSET)):
        raise refuse(
            f'its rows don\'t tell of which events they are: add the columns, as select("*", "{SEGMENT}", "{OFFSET}"), '
            "which aren't written"
        )
    columns = () if plan.routing is None else plan.routing.columns
    given = dict(zip(same_names(rows.fieldNames(), columns), rows.fieldNames(), strict=True))
    keys = [origins.columns.get(given.get(column, "")) for column in columns]
    if None in keys:
        raise refuse(
            f'column "{columns[keys.index(None)]}", of which routing keys are made, isn\'t a column of the source as '
            "it is there: take one that is"
        )
    if definition.properties.truncates_later:
        raise refuse(f'by its property "{TRUNCATE_LATER}" a TRUNCATE TABLE would remove such rows, too: unset it')
    if options.event_time is not None:
        raise refuse(f'"{EVENT_TIME}" is told with a commit, which it doesn\'t have: leave it out')
    key = "" if plan.routing is None else f"{plan.routing} of {', '.join(map(str, keys))}, plain {plan.routing.plain}"
    numbering = Numbering(query=origins.query, source=Stream.parse(source["stream"]), key=key)
    return replace(plan, numbering=numbering, event_time=None)


def without_coordinates(rows: StructType) -> StructType:
    """A numbered write's columns that are written.

    Args:
        rows: all of its rows' columns.
    """
    return StructType([field for field in rows if field.name not in (SEGMENT, OFFSET)])


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
    if ledger.take_over(query, run) is None:
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
            f'streaming query {query} makes the routing keys of its rows for stream "{plan.stream}" in another way '
            f"than before ({numbering.key or 'none'}; before: {known.key or 'none'}), so rows of its last batch might "
            "come twice: make them as before, or begin a new checkpoint, with options that say where to begin"
        )
    elif epoch < known.epoch:
        raise DataLossError(
            f'streaming query {query} has written batch {known.epoch} to stream "{plan.stream}" before, and its '
            f"checkpoint comes with batch {epoch}: it is older than what was written, as one that was restored from a "
            "backup. Use the newest checkpoint; or a new one, with options that say where to begin"
        )


class NumberedJob(WriteJob):
    """A real-time query's batch whose rows are numbered: visible as they come, and each is there once."""

    def __init__(self, plan: WritePlan, *, run: str, epoch: int, start: Mapping[int, int] | None) -> None:
        """Begin a batch.

        Args:
            plan: how to write.
            run: the query's driver.
            epoch: the batch's number.
            start: where it begins in the source, as the checkpoint tells: segment id to offset in bytes; None where it
                tells nothing.

        Raises:
            TransactionError: another driver has taken the query over.
            DataLossError: a segment is gone of which has to be known what is stored.
        """
        super().__init__(plan)
        self.since = self._since(run, epoch, start)

    def _since(self, run: str, epoch: int, start: Mapping[int, int] | None) -> tuple[int, ...]:
        """From which segments on tasks look for what is stored: from later ones as soon as that is safe."""
        client, numbering = shared_client(self.plan.settings), self.plan.numbering
        assert numbering is not None
        ledger = open_ledger(client, self.plan.stream)
        progress = None if ledger is None else ledger.progress(numbering.query)
        if ledger is None or progress is None or progress.numbered is None or progress.run != run:
            raise fenced(self.plan, numbering.query)
        known = progress.numbered
        if start is None or set(client.controller.current_segments(self.plan.stream).ids) == set(known.since):
            return known.since
        try:
            # Who was killed may have read behind a scale of the source that this batch hasn't come to.
            sources = client.controller.segments_from(numbering.source, start)
        except (InvalidStreamCutError, NotFoundError):
            # The read says what is wrong.
            return known.since
        positions = {numbering.writer_id(one): max(0, start.get(one, 0)) - 1 for one in sources}
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
        self._writers: dict[int, NumberedWriter] = {}
        self._rows = self._bytes = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """As `Task.add`: the batch has `SEGMENT` and `OFFSET`, too."""
        segments, offsets = batch.column(SEGMENT), batch.column(OFFSET)
        rows = batch.drop_columns([SEGMENT, OFFSET])
        for segment_id in segments.unique().to_pylist():
            own = pc.equal(segments, segment_id)
            self._add(int(segment_id), rows.filter(own), offsets.filter(own))

    def finish(self) -> Written:
        """As `Task.finish`."""
        for writer in self._writers.values():
            writer.close()
        return Written(rows=self._rows, bytes=self._bytes)

    def abort(self) -> None:
        """As `Task.abort`: what was sent comes again, and is known then."""
        for writer in self._writers.values():
            writer.__exit__(PravegaError)

    def _add(self, segment_id: int, rows: pa.RecordBatch, offsets: pa.Array) -> None:
        plan = self._plan
        formed = plan.form.of(rows)
        events = plan.codec.encode(formed)
        keys = None if plan.routing is None else plan.routing.lasting_keys(formed)
        try:
            writer = self._writers.get(segment_id)
            if writer is None:
                # It may have come into the place of others, with keys of theirs: their rows must be there before.
                for other in self._writers.values():
                    other.flush()
                id = self._numbering.writer_id(segment_id)
                writer = self._writers[segment_id] = NumberedWriter(self._client, plan.stream, id, self._since)
            writer.write_batch(events, keys, np.asarray(offsets.cast(pa.int64())))
        except SegmentNotFoundError as error:
            raise _gone(plan, error) from None
        except ValueError as error:
            raise EventEncodeError(
                f"rows of segment {segment_id} of the source came in another order than its events, or several of one "
                f"event, and can't be written exactly once ({error})"
            ) from None
        self._rows += len(events)
        self._bytes += pc.sum(pc.binary_length(events)).as_py() + framing.HEADER_SIZE * len(events)


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
