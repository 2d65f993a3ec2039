"""The methods of the catalog process: they ask the catalog and its plans, and make an answer of what comes."""

from __future__ import annotations

import inspect
import json
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from pyspark.sql.types import StructType

from pyspark_pravega.catalog.base import PLANNED_S
from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.catalog.ddl import TableChange, Transform
from pyspark_pravega.catalog.plans import (
    ChangesBounds,
    ExtentText,
    Planner,
    PositionText,
    QueryMoment,
    Sampling,
    ScanRequest,
    Source,
    StreamReads,
    position_of,
    text_of_extent,
    text_of_moment,
)
from pyspark_pravega.catalog.process import answers
from pyspark_pravega.catalog.process.messages import (
    CountedRows,
    Followed,
    MetadataPage,
    MetadataTable,
    NarrowedScan,
    OpenedRealTime,
    OpenedStream,
    PlannedScan,
    Procedure,
    ProcedureResult,
    Table,
    View,
)
from pyspark_pravega.catalog.process.pickles import (
    Text64,
    pickled_follow,
    pickled_read,
    text_of,
    value_of,
)
from pyspark_pravega.catalog.process.protocol import Method, wire_name
from pyspark_pravega.catalog.process.writing import WriteMethods, seen_of
from pyspark_pravega.catalog.statements import PROCEDURES, Caller, Reading, Staged, Statement, is_metadata
from pyspark_pravega.client import Stream
from pyspark_pravega.connector.key_value import KeyValueDefinition
from pyspark_pravega.connector.predicates import Predicate
from pyspark_pravega.connector.table import Check
from pyspark_pravega.connector.write import ReadSet
from pyspark_pravega.errors import (
    InvalidNameError,
    PravegaError,
    StreamNotFoundError,
    UnsupportedOperationError,
    ViewNotFoundError,
)
from pyspark_pravega.settings import Settings


class CatalogMethods:
    """What Spark's JVM asks of a catalog. Safe for use by several threads.

    Each public method is one of the protocol, but for `answered`. Beside them are those that `by_name` passes on.
    """

    def __init__(self, settings: Settings, lake: Mapping[str, str] | None = None) -> None:
        """Serve a catalog.

        Args:
            settings: where the cluster and the registry are; and `lake`, as of `LakeConfiguration.of`.
        """
        self.catalog = Catalog(settings, lake)
        self.planner = Planner(self.catalog)
        self.streams = StreamReads(self.planner.definition)
        self.writes = WriteMethods(self.catalog, self.planner, self._when_answered)
        self._sampling = Sampling()
        self._left = threading.local()
        self.by_name = self._by_name()
        """All methods, by their names on the wire."""

    def _by_name(self) -> dict[str, Method]:
        catalog, planner, streams = self.catalog, self.planner, self.streams
        return {
            **{name: method for name, method in methods_of(self).items() if name != "answered"},
            **methods_of(self.writes),
            "listNamespaces": catalog.namespaces.names,
            "loadNamespace": catalog.namespaces.properties,
            "createNamespace": catalog.namespaces.create,
            "alterNamespace": catalog.namespaces.alter,
            "dropNamespace": catalog.namespaces.drop,
            "listTables": catalog.relations.names,
            "supportsChange": catalog.relations.supports_change,
            "renameTable": catalog.relations.rename,
            "refuseRowLevel": catalog.append_only.refuse_row_level,
            "refuseOtherKey": catalog.append_only.refuse_other_key,
            "listViews": catalog.views.names,
            "storeView": catalog.views.store,
            "dropView": catalog.views.drop,
            "renameView": catalog.views.rename,
            "listProcedures": catalog.procedures.names,
            "hasJob": planner.has_job,
            "refuseUnknown": planner.refuse_unknown,
            "checkStream": streams.check,
            "streamInitial": streams.initial,
            "streamLatest": streams.latest,
            "streamTarget": streams.target,
            "streamTail": streams.tail,
            "streamMerge": streams.merge,
            "streamCommit": streams.commit,
            "streamMetrics": streams.metrics,
            "stopStream": streams.stop,
        }

    def answered(self) -> None:
        """Do what the thread's last call has left until its answer is sent, so that nobody waits for it.

        What is in the pipe arrives also when this process dies: then nobody asks for that call again.
        """
        left, self._left.calls = getattr(self._left, "calls", ()), ()
        for call in left:
            # What isn't forgotten now is swept later.
            with suppress(PravegaError):
                call()

    def _when_answered(self, call: Callable[[], object]) -> None:
        self._left.calls = (call,)

    # Tables
    def load_relation(self, namespace: list[str], table: str) -> Table | MetadataTable | View:
        """A table, facts about one (`orders$commits`), or a view as `View`."""
        if is_metadata(table):
            stream, schema = self.catalog.metadata.schema(namespace, table)
            return {"rows_of": table, "stream": str(stream), "schema": schema.json()}
        try:
            relation = self.catalog.relation(namespace, table)
            if not isinstance(relation, KeyValueDefinition):
                relation = self.catalog.replacing.finish_left(relation)
                self._sampling.consider(relation)
            return answers.table(relation)
        except StreamNotFoundError:
            # Streams are more frequent, so views are looked for behind them.
            try:
                return answers.view(self.catalog.views.load(namespace, table))
            except (ViewNotFoundError, InvalidNameError):
                pass
            raise

    def table_properties(self, namespace: list[str], table: str) -> dict[str, str]:
        """All properties of a table, also those that others keep: the controller, and the registry."""
        return answers.properties(self.catalog.relation(namespace, table, age_s=PLANNED_S))

    def load_table_at(
        self, namespace: list[str], table: str, version: str | None = None, timestamp: int | None = None
    ) -> Table:
        """A table as it was at a version (its number, or a name) or a time (microseconds since 1970)."""
        definition, moment = self.planner.at(namespace, table, version, timestamp)
        return answers.table(definition) | {"position": text_of_moment(moment)}

    def check_read(self, namespace: list[str], table: str, options: dict[str, str]) -> ExtentText | None:
        """Refuse options of a read that are wrong; else where it begins and ends, as the position of the table."""
        extent = self.planner.check_read(namespace, table, options)
        return None if extent is None else text_of_extent(extent)

    def load_changelog(self, namespace: list[str], table: str, bounds: ChangesBounds) -> Table:
        """A table of what versions have added; the bounds are those of `ChangesRange`."""
        definition = self.catalog.replacing.finish_left(self.catalog.load_table(namespace, table))
        schema = answers.with_changes(definition.schema)
        return answers.table(definition) | {"schema": schema.json(), "position": {"changes": bounds}}

    def create_table(
        self,
        namespace: list[str],
        table: str,
        schema: StructType,
        transforms: list[Transform],
        properties: dict[str, str],
        checks: list[Check],
    ) -> Table:
        """Create a table: its columns, its clauses, its properties, its CHECK constraints."""
        definition = self.catalog.relations.create(namespace, table, schema, transforms, properties, checks=checks)
        return answers.table(definition)

    def alter_table(
        self, namespace: list[str], table: str, changes: list[TableChange], seen: list[str] | None = None
    ) -> Table:
        """Change a table; `seen` is what the statement has read of it."""
        return answers.table(self.catalog.relations.alter(namespace, table, changes, seen_of(seen)))

    def drop_table(self, namespace: list[str], table: str, purge: bool = False) -> bool:
        """Drop a table, with its Iceberg table where that is to go, too. Returns whether it was there."""
        if self.catalog.relations.drop(namespace, table, purge=purge):
            return True
        if self.catalog.views.has(namespace, table):
            raise UnsupportedOperationError(f'"{table}" is a view: use DROP VIEW')
        return False

    def metadata_rows(
        self,
        namespace: list[str],
        table: str,
        columns: list[str],
        predicates: list[Predicate] | None = None,
        limit: int | None = None,
        newestFirst: bool = False,  # noqa: N803
        page: int = 0,
        moments: list[str] | None = None,
    ) -> MetadataPage:
        """A page of the rows of a table of facts; `moments` as of `plan_scan`, of its stream."""
        moment = QueryMoment(moments or ())
        metadata_page = self.catalog.metadata.rows(
            *(namespace, table, columns, predicates or []),
            limit=limit,
            newest_first=newestFirst,
            page=page,
            last_version=moment.last_version,
        )
        return {"rows": metadata_page.rows, "next": metadata_page.next, "moment": moment.news}

    # Tables that are made or replaced together with their rows
    def stage_table(
        self,
        namespace: list[str],
        table: str,
        schema: StructType,
        transforms: list[Transform],
        properties: dict[str, str],
        checks: list[Check],
        create: bool,
        replace: bool,
    ) -> Table:
        """Prepare a table for its rows; `staged` of the answer goes into the write, and into its end."""
        definition, staged = self.catalog.relations.stage(
            namespace,
            table,
            schema,
            transforms,
            properties,
            checks=checks,
            create=create,
            replace=replace,
        )
        message = answers.table(definition) | {"properties": answers.properties(definition), "whole": True}
        message["staged"] = answers.staged(staged)
        return message

    def commit_staged(self, staged: Staged, written: bool) -> None:
        """Make a staged table what it is to be. May be done twice."""
        self.catalog.replacing.commit(staged, written=written)
        self._when_answered(partial(self.catalog.replacing.forget, staged))

    def abort_staged(self, staged: Staged) -> None:
        """Leave things as they were before. May be done twice."""
        self.catalog.relations.abort(staged)
        self._when_answered(partial(self.catalog.replacing.forget, staged))

    # Procedures
    def describe_procedure(self, namespace: list[str], name: str) -> Procedure:
        """A procedure, for the analysis of CALL."""
        procedure = self.catalog.procedures.named(namespace, name)
        parameters = [answers.parameter(parameter) for parameter in procedure.parameters]
        return {"name": procedure.name, "description": procedure.description, "parameters": parameters}

    def call_procedure(
        self,
        name: str,
        arguments: list[Any],
        catalog: str,
        after: dict[str, Any] | None = None,
        rows: list[str] | None = None,
    ) -> ProcedureResult:
        """Do what a procedure does, in the catalog of that name.

        `after` is that of the statement that was done just now, and `rows` are its rows as JSON, where they are wanted.
        """
        caller = Caller(catalog=catalog, after=after or {}, rows=[json.loads(row) for row in rows or ()])
        step = self.catalog.procedures.step(caller, name, arguments)
        if isinstance(step, Statement):
            return {"statement": {"text": step.text, "kind": step.kind, "after": dict(step.after)}}
        if isinstance(step, Reading):
            return {"statement": answers.reading(step)}
        return {"columns": PROCEDURES[name].columns, "rows": step}

    # Batch reads
    def plan_scan(
        self,
        namespace: list[str],
        table: str,
        columns: list[str],
        options: dict[str, str],
        position: PositionText | None = None,
        predicates: list[Predicate] | None = None,
        condition: dict[str, Any] | None = None,
        skips: bool = True,
        limit: int | None = None,
        schema: StructType | None = None,
        moments: list[str] | None = None,
        beside: list[str] | None = None,
        transaction: str | None = None,
    ) -> PlannedScan:
        """Plan a batch read: its ends are fixed from here on. Predicates are those of `Predicates.java`, the
        condition of `Conditions.java`, by which blocks may be passed over only where it `skips`. The schema has the
        columns as the query was planned with them. `moments` is what earlier calls for the query have told of this
        stream (`PlannedScan.moment`). `beside` are the other streams that it reads, whose moments are told with this
        one's. `transaction` is the session's.
        """
        request = ScanRequest(
            columns=columns,
            options=options,
            position=position_of(position),
            predicates=predicates or [],
            condition=condition,
            skips=skips,
            limit=limit,
            planned=schema,
            moment=_moment(moments, beside),
            transaction=self.writes.transactions.of(transaction),
        )
        return answers.scan(self.planner.plan_scan(namespace, table, request), request.moment)

    def narrow_scan(
        self,
        namespace: list[str],
        table: str,
        options: dict[str, str],
        partitions: list[Text64],
        seen: str | None,
        predicates: list[Predicate],
        routing: str | None = None,
        condition: dict[str, Any] | None = None,
    ) -> NarrowedScan | None:
        """What of a planned read further predicates leave, as of the same moment; None for all of it."""
        planned = [value_of(partition) for partition in partitions]
        read = None if seen is None else ReadSet.from_json(seen)
        left = self.planner.narrow_scan(namespace, table, options, planned, read, predicates, routing, condition)
        return None if left is None else answers.narrowed_scan(left)

    def count_rows(
        self,
        namespace: list[str],
        table: str,
        options: dict[str, str],
        schema: StructType | None = None,
        moments: list[str] | None = None,
        position: PositionText | None = None,
        beside: list[str] | None = None,
        transaction: str | None = None,
    ) -> CountedRows:
        """How many rows a table has, where the commit log knows. What is given is as of `plan_scan`."""
        moment = _moment(moments, beside)
        within = self.writes.transactions.of(transaction)
        counted = self.planner.count_rows(namespace, table, options, schema, moment, position_of(position), within)
        rows, seen = (None, None) if counted is None else counted
        text = None if seen is None else seen.to_json()
        return {"rows": rows, "seen": text, "moment": moment.news, "beside": moment.news_beside}

    # Streaming reads
    def open_stream(self, source: Source) -> OpenedStream:
        """Begin a streaming read, or go on with it in another process."""
        read = self.streams.open(source)
        # The partitions are planned with each micro-batch; the one that stands for none isn't needed.
        function, _ = pickled_read(read.reader, read.reader.schema)
        options = read.options
        return {
            "function": function,
            "schema": read.reader.schema.json(),
            "maxEvents": options.max_events,
            "maxBytes": options.max_bytes,
            "minEvents": options.min_events,
            "maxDelayMs": round(options.max_delay_s * 1000),
            "sharedMemory": read.shared_memory,
        }

    def stream_plan(self, source: Source, start: str, end: str) -> list[Text64]:
        """The pickled partitions of a micro-batch."""
        return [text_of(partition) for partition in self.streams.plan(source, start, end)]

    def open_real_time(self, source: Source) -> OpenedRealTime:
        """Begin to read as a query with the real-time trigger does.

        The function takes the pickled partition, and ends when its input does. Its batches have the columns of the
        schema: those that are wanted, perhaps another one, and in the last three where each row's event ends (a segment
        and an offset; below 0 when the segment has given way to others) and whether there is a row at all.
        """
        reader = self.streams.open_real_time(source)
        return {"function": pickled_follow(reader), "schema": reader.schema.json()}

    def stream_follow(self, source: Source, start: str, cores: int) -> list[Followed]:
        """The partitions of a real-time batch; `cores` is how many tasks can run at a time."""
        return [
            {"partition": text_of(one), "start": {str(segment_id): at for segment_id, at in one.start.items()}}
            for one in self.streams.follow(source, start, cores)
        ]


def _moment(moments: list[str] | None, beside: list[str] | None) -> QueryMoment:
    return QueryMoment(moments or (), beside=[Stream.parse(name) for name in beside or ()])


def methods_of(served: object) -> dict[str, Method]:
    """The public methods of an object, by their names on the wire."""
    names = [name for name, _ in inspect.getmembers(type(served), inspect.isfunction) if not name.startswith("_")]
    return {wire_name(name): getattr(served, name) for name in names}
