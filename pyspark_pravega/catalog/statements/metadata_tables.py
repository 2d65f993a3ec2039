"""Metadata tables: what is known about a stream, as rows. `orders$commits` is one of the stream `orders`."""

from __future__ import annotations

import base64
import itertools
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from pyspark_pravega.catalog.base import CatalogBase
from pyspark_pravega.catalog.names import stream_of
from pyspark_pravega.catalog.pushdown import MOST, interval_of
from pyspark_pravega.catalog.shown import shown_properties
from pyspark_pravega.catalog.statements.replacing import Replacing
from pyspark_pravega.client import Client, Stream
from pyspark_pravega.client.names import segment_epoch, segment_number
from pyspark_pravega.client.positions import SegmentRanges, proper_cut
from pyspark_pravega.client.segments import segment_states
from pyspark_pravega.connector.lake import lake_figures
from pyspark_pravega.connector.log import Ledger, open_ledger
from pyspark_pravega.connector.predicates import Predicates
from pyspark_pravega.connector.read import commits_between, last_commit
from pyspark_pravega.connector.table import CHANGES, LOG
from pyspark_pravega.errors import (
    GroupNotFoundError,
    InvalidNameError,
    NotFoundError,
    PravegaError,
    SchemaNotFoundError,
    StreamNotFoundError,
    UnsupportedOperationError,
    did_you_mean,
)

Row = dict[str, Any]
_OFFSETS = MapType(LongType(), LongType())
_OF_CUT = {"cut", "offsets"}


def _columns(**kinds: DataType) -> StructType:
    return StructType([StructField(name, kind, True) for name, kind in kinds.items()])


SCHEMAS: dict[str, StructType] = {
    "commits": _columns(
        version=LongType(),
        committed_at=TimestampType(),
        rows=LongType(),
        bytes=LongType(),
        job=StringType(),
        transactions=ArrayType(StringType()),
        cut=StringType(),
        offsets=_OFFSETS,
    ),
    "segments": _columns(
        segment=LongType(),
        epoch=IntegerType(),
        number=IntegerType(),
        min_key=DoubleType(),
        max_key=DoubleType(),
        start_offset=LongType(),
        end_offset=LongType(),
        bytes=LongType(),
        sealed=BooleanType(),
        current=BooleanType(),
        successors=ArrayType(LongType()),
    ),
    "epochs": _columns(epoch=IntegerType(), segments=ArrayType(LongType()), current=BooleanType()),
    "transactions": _columns(
        transaction=StringType(), state=StringType(), epoch=IntegerType(), job=StringType(), version=LongType()
    ),
    "schemas": _columns(
        id=IntegerType(),
        type=StringType(),
        format=StringType(),
        version=IntegerType(),
        added_at=TimestampType(),
        encoding_ids=ArrayType(IntegerType()),
        schema=StringType(),
    ),
    "copies": _columns(
        name=StringType(),
        source=StringType(),
        from_version=StringType(),
        to_version=StringType(),
        where=StringType(),
        commits=LongType(),
        rows=LongType(),
        bytes=LongType(),
        version=LongType(),
        begun_at=TimestampType(),
        done_at=TimestampType(),
    ),
    "cuts": _columns(name=StringType(), created_at=TimestampType(), cut=StringType(), offsets=_OFFSETS),
    "lake": _columns(
        version=LongType(),
        cut=StringType(),
        offsets=_OFFSETS,
        snapshot=LongType(),
        metadata=StringType(),
        files=LongType(),
        rows=LongType(),
        bytes=LongType(),
        kept_from=LongType(),
        current=BooleanType(),
    ),
    "properties": _columns(key=StringType(), value=StringType()),
}
"""The metadata tables and their columns."""


_MEANT = {
    word: ours
    for ours, words in {
        "commits": "versions history snapshots timeline log_entries metadata_log_entries table_history",
        "segments": "files data_files all_files all_data_files partitions manifests all_manifests entries buckets",
        "epochs": "scaling scalings",
        "cuts": "refs tags branches savepoints checkpoints",
        "properties": "options config detail details tblproperties table_properties",
        "changes": "cdf cdc change_data change_data_feed changelog table_changes audit_log",
        "log": "events",
    }.items()
    for word in words.split()
}
"""What Delta, Iceberg, Hudi, Paimon and Kafka call what ours tell."""

_PAGE = 4_000
"""Versions in a page: some megabytes of JSON."""


LastVersion = Callable[[Client, Ledger], int]


def _last_version(_: Client, ledger: Ledger) -> int:
    return ledger.state().version


@dataclass(frozen=True, kw_only=True)
class MetadataPage:
    """Some rows of a metadata table."""

    rows: list[list[Any]]
    """Their values; timestamps in microseconds, maps as lists of pairs."""
    next: int
    """What to ask for the next page with; 0 when this is the last one."""


def is_metadata(table: str) -> bool:
    """Whether a table's name is one of a metadata table: streams have no `$`, and their logs and changes are read as
    tables are."""
    return "$" in table and not table.endswith((LOG, CHANGES))


class MetadataTables:
    """Looks into streams, commit logs and the registry; each row is of the moment when it was asked for."""

    def __init__(self, base: CatalogBase, replacing: Replacing) -> None:
        """Serve a catalog.

        Args:
            base: the cluster, the registry, and what was looked up.
            replacing: finishes what a replacement has left.
        """
        self._base, self._replacing = base, replacing

    def schema(self, namespace: Sequence[str], table: str) -> tuple[Stream, StructType]:
        """The stream and the columns of a metadata table.

        Args:
            namespace: the stream's namespace.
            table: the stream's name, `$` and what is asked for.

        Raises:
            StreamNotFoundError: there is no such stream, or no such metadata table.
        """
        stream, kind = _named(namespace, table)
        if not self._base.exists(stream):
            self._base.check_no_key_value(stream)
            raise StreamNotFoundError(f'stream "{stream}" does not exist')
        return stream, SCHEMAS[kind]

    def rows(
        self,
        namespace: Sequence[str],
        table: str,
        columns: Sequence[str],
        predicates: Predicates = (),
        *,
        limit: int | None = None,
        newest_first: bool = False,
        page: int = 0,
        last_version: LastVersion = _last_version,
    ) -> MetadataPage:
        """Rows of a metadata table, a page of them.

        Args:
            namespace: the stream's namespace.
            table: the stream's name, `$` and what is asked for.
            columns: the wanted columns.
            predicates: what wanted rows fulfil, see `Bounds.of`; others may be among them.
            limit: how many rows are enough, in all pages together.
            newest_first: whether those are the rows with the greatest `version` and `committed_at`.
            page: what the page before said of the next one; 0 for the first.
            last_version: tells the last version that there is.

        Raises:
            StreamNotFoundError: there is no such stream, or no such metadata table.
        """
        stream, kind = _named(namespace, table)
        if kind == "commits":
            oldest, newest = self._versions(stream, predicates, last_version)
            if page and newest_first:
                newest = page
            elif page:
                oldest = page
            count = min(_PAGE, newest - oldest + 1 if limit is None else limit)
            first = max(oldest, newest - count + 1) if newest_first else oldest
            last = newest if newest_first else min(newest, oldest + count - 1)
            rows = [[row[column] for column in columns] for row in self._commits(stream, columns, first, last)]
            following = first - 1 if newest_first else last + 1
            is_last = not oldest <= following <= newest or (limit is not None and len(rows) >= limit)
            return MetadataPage(rows=rows, next=0 if is_last else following)
        makers: dict[str, Callable[[Stream], Iterator[Row]]] = {
            "segments": lambda stream: self._segments(stream, columns),
            "epochs": self._epochs,
            "transactions": self._transactions,
            "schemas": self._schemas,
            "copies": self._copies,
            "cuts": self._cuts,
            "lake": lambda stream: self._lake(stream, columns),
            "properties": self._properties,
        }
        return MetadataPage(rows=[[row[column] for column in columns] for row in makers[kind](stream)], next=0)

    def _versions(self, stream: Stream, predicates: Predicates, last_version: LastVersion) -> tuple[int, int]:
        """The first and the last version that is known and that predicates let through."""
        ledger = open_ledger(self._base.client, stream)
        first, last = interval_of("version", predicates)
        times = interval_of("committed_at", predicates)
        oldest = None if ledger is None else ledger.first_commit()
        if ledger is None or oldest is None:
            return 1, 0
        if times[0] > 0:
            before = last_commit(ledger, times[0] // 1000 - 1)
            first = max(first, 0 if before is None else before.version + 1)
        if times[1] < MOST:
            until = last_commit(ledger, times[1] // 1000)
            last = min(last, 0 if until is None else until.version)
        return max(first, oldest.version), min(last, last_version(self._base.client, ledger))

    def _commits(self, stream: Stream, columns: Sequence[str], first: int, last: int) -> Iterator[Row]:
        ledger = open_ledger(self._base.client, stream)
        if ledger is None:
            return
        segments = SegmentRanges(self._base.client, stream)
        for commit in commits_between(ledger, first, last):
            yield {
                "version": commit.version,
                "committed_at": commit.committed_at * 1000,
                "rows": None if commit.of_others else commit.rows,
                "bytes": commit.bytes,
                "job": commit.job,
                "transactions": list(commit.transactions),
                **(_cut(self._base.client, stream, commit.cut, segments) if _OF_CUT & set(columns) else {}),
            }

    def _segments(self, stream: Stream, columns: Sequence[str]) -> Iterator[Row]:
        controller = self._base.client.controller
        current = controller.current_segments(stream).ids
        ids = sorted({*controller.segments_between(stream), *current})
        ranges = controller.segment_ranges(stream, ids)
        states = segment_states(self._base.client.pool, stream, ids)
        for segment in ids:
            state = states[segment]
            if state is None:
                continue
            yield {
                "segment": segment,
                "epoch": segment_epoch(segment),
                "number": segment_number(segment),
                "min_key": ranges[segment].min_key,
                "max_key": ranges[segment].max_key,
                "start_offset": state.start_offset,
                "end_offset": state.write_offset,
                "bytes": state.write_offset - state.start_offset,
                "sealed": state.sealed,
                "current": segment in current,
                # A call for each segment.
                "successors": [one.segment.segment_id for one in controller.successors(stream, segment)]
                if "successors" in columns
                else [],
            }

    def _epochs(self, stream: Stream) -> Iterator[Row]:
        rows: list[Row] = []
        for epoch in itertools.count():
            try:
                segments = self._base.client.controller.epoch_segments(stream, epoch).ids
            except NotFoundError:
                break
            rows.append({"epoch": epoch, "segments": list(segments), "current": False})
        if rows and self._base.client.controller.current_segments(stream).ids:
            rows[-1]["current"] = True
        yield from rows

    def _transactions(self, stream: Stream) -> Iterator[Row]:
        controller = self._base.client.controller
        ledger = open_ledger(self._base.client, stream)
        known: dict[uuid.UUID, tuple[str | None, int | None]] = {}
        if ledger is not None:
            for commit in ledger.all_commits():
                known |= {uuid.UUID(text): (commit.job, commit.version) for text in commit.transactions}
            pending = ledger.state().pending
            if pending is not None:
                known |= dict.fromkeys(pending.transaction_ids(), (pending.job, None))
            for transaction in ledger.noted_transactions():
                known.setdefault(transaction, (None, None))
        with suppress(UnsupportedOperationError):  # Pravega 0.11 doesn't list those that others have ended.
            for transaction in controller.completed_transactions(stream):
                known.setdefault(transaction, (None, None))
        for transaction, (job, version) in known.items():
            state = "COMMITTED" if version is not None else controller.transaction_state(stream, transaction).name
            yield {
                "transaction": str(transaction),
                "state": state,
                "epoch": transaction.int >> 96,
                "job": job,
                "version": version,
            }

    def _schemas(self, stream: Stream) -> Iterator[Row]:
        registry = self._base.registry
        try:
            history = [] if registry is None else registry.history(stream.scope, stream.name)
        except GroupNotFoundError:
            return
        encodings: dict[int, list[int]] = {}
        for encoding in itertools.count() if history and registry is not None else ():
            try:
                info = registry.encoding(stream.scope, stream.name, encoding)  # type: ignore[union-attr]
            except SchemaNotFoundError:
                break
            encodings.setdefault(info.version.id, []).append(encoding)
        for schema, version, added_at in history:
            is_text = schema.serialization_format in ("Avro", "Json")
            yield {
                "id": version.id,
                "type": schema.type,
                "format": schema.serialization_format,
                "version": version.version,
                "added_at": added_at * 1000,
                "encoding_ids": encodings.get(version.id, []),
                "schema": schema.text if is_text else base64.b64encode(schema.schema_data).decode(),
            }

    def _cuts(self, stream: Stream) -> Iterator[Row]:
        ledger = open_ledger(self._base.client, stream)
        segments = SegmentRanges(self._base.client, stream)
        for name, cut in sorted(ledger.holders().cuts().items()) if ledger is not None else ():
            shown = _cut(self._base.client, stream, cut.offsets, segments)
            yield {"name": name, "created_at": cut.created_at * 1000, **shown}

    def _lake(self, stream: Stream, columns: Sequence[str]) -> Iterator[Row]:
        ledger = open_ledger(self._base.client, stream)
        state = None if ledger is None else ledger.state()
        lake = None if state is None else state.lake
        if state is None or lake is None or lake.snapshot is None:
            return
        files, size = lake_figures(self._base.settings, lake) if {"files", "bytes"} & set(columns) else (None, None)
        yield {
            "version": lake.version,
            **_cut(self._base.client, stream, lake.cut, SegmentRanges(self._base.client, stream)),
            "snapshot": lake.snapshot,
            "metadata": lake.metadata,
            "files": files,
            "rows": lake.rows,
            "bytes": size,
            "kept_from": state.kept_from,
            "current": lake.version == state.version if lake.by_key else state.tiered is not None,
        }

    def _copies(self, stream: Stream) -> Iterator[Row]:
        ledger = open_ledger(self._base.client, stream)
        for copy in sorted([] if ledger is None else ledger.copies().all(), key=lambda copy: copy.begun_at):
            yield {
                "name": copy.name,
                "source": copy.arguments["source"],
                "from_version": copy.from_version,
                "to_version": copy.to_version,
                "where": copy.arguments["where"],
                "commits": copy.commits,
                "rows": copy.rows,
                "bytes": copy.bytes,
                "version": copy.version,
                "begun_at": copy.begun_at * 1000,
                "done_at": None if copy.done_at is None else copy.done_at * 1000,
            }

    def _properties(self, stream: Stream) -> Iterator[Row]:
        definition = self._replacing.finish_left(self._base.definition(stream))
        for key, value in sorted(shown_properties(definition).items()):
            yield {"key": key, "value": value}


def _named(namespace: Sequence[str], table: str) -> tuple[Stream, str]:
    name, _, kind = table.rpartition("$")
    try:
        stream = stream_of(namespace, name)
    except InvalidNameError as error:
        raise StreamNotFoundError(str(error)) from None
    if kind.lower() not in SCHEMAS:
        known = [*SCHEMAS, *(mark.removeprefix("$") for mark in (LOG, CHANGES))]
        meant = _MEANT.get(kind.lower().replace("-", "_"))
        hint = did_you_mean(kind, known) if meant is None else f'; did you mean "{meant}"?'
        there = "" if "known are" in hint else f" There are {', '.join(sorted(known))}"
        raise InvalidNameError(f'stream "{stream}" has no metadata table "{kind}"{hint}{there}')
    return stream, kind.lower()


def _cut(client: Client, stream: Stream, offsets: Mapping[int, int], segments: SegmentRanges) -> Row:
    try:
        text = proper_cut(client, stream, offsets, segments).to_text()
    except PravegaError:
        text = None
    return {"cut": text, "offsets": [[segment, offset] for segment, offset in sorted(offsets.items())]}
