"""Batch reads that Spark's JVM asks for: planned here, run by Spark's Python workers."""

from __future__ import annotations

import json
import uuid
from dataclasses import replace
from typing import Any, TypeVar

from pyspark.sql.types import StructType

from pyspark_pravega.catalog.base import PLANNED_S
from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.catalog.names import stream_of
from pyspark_pravega.catalog.process import key_values
from pyspark_pravega.catalog.process.jobs import ScanRequest, all_columns, count_rows, plan_scan
from pyspark_pravega.catalog.process.messages import CountedRows, NarrowedScan, PlannedScan, Text64
from pyspark_pravega.catalog.process.moments import QueryMoment
from pyspark_pravega.catalog.process.pickles import pickle, unpickle
from pyspark_pravega.catalog.process.protocol import bytes_of, text_of
from pyspark_pravega.catalog.pushdown import narrowed_chains, places_of
from pyspark_pravega.connector.key_value import KeyValueDefinition
from pyspark_pravega.connector.log import open_ledger
from pyspark_pravega.connector.options import METADATA, READ_KEYS, canonical, streams_of
from pyspark_pravega.connector.shared import shared_client
from pyspark_pravega.connector.table import TableDefinition, check_planned, check_schema_is_there
from pyspark_pravega.connector.write import Seen
from pyspark_pravega.errors import TableChangedError, UnsupportedOperationError
from pyspark_pravega.settings import Settings

Definition = TypeVar("Definition", bound="TableDefinition | KeyValueDefinition")


class BatchReads:
    """The methods of the catalog process for batch reads; `protocol.Methods` says what each does."""

    catalog: Catalog

    def count_rows(
        self,
        namespace: list[str],
        table: str,
        options: dict[str, str],
        schema: str | None = None,
        moments: list[str] | None = None,
    ) -> CountedRows:
        relation, moment = self.relation(namespace, table, options), QueryMoment(moments or ())
        if isinstance(relation, KeyValueDefinition):
            return {"rows": None, "seen": None, "moment": None}
        # A count of a column that was NOT NULL comes as one of rows.
        if schema is not None:
            check_planned(relation.stream, StructType.fromJson(json.loads(schema)), (), all_columns(relation))
        counted = count_rows(relation, options, moment)
        rows, seen = (None, None) if counted is None else (counted[0], counted[1].to_json())
        return {"rows": rows, "seen": seen, "moment": moment.news}

    def plan_scan(
        self,
        namespace: list[str],
        table: str,
        columns: list[str],
        options: dict[str, str],
        position: dict[str, Any] | None = None,
        predicates: list[dict[str, Any]] | None = None,
        limit: int | None = None,
        schema: str | None = None,
        moments: list[str] | None = None,
    ) -> PlannedScan:
        moment = QueryMoment(moments or ())
        request = ScanRequest(
            columns=columns,
            options=options,
            position=position,
            predicates=predicates or [],
            limit=limit,
            planned=None if schema is None else StructType.fromJson(json.loads(schema)),
            moment=moment,
        )
        definition = self.relation(namespace, table, options)
        if isinstance(definition, KeyValueDefinition):
            return key_values.plan_scan(definition, request)
        now = definition
        try:
            scan = plan_scan(definition, request)
        except TableChangedError:
            # It makes no difference to the query where its columns are the same.
            now = self.with_options(self.catalog.load_table(namespace, table, age_s=0), options)
            if request.planned is None and (now.schema, now.format) != (definition.schema, definition.format):
                raise
            scan = plan_scan(now, request)
        return {
            "function": text_of(scan.function),
            "partitions": [text_of(partition) for partition in scan.partitions],
            "schema": scan.schema.json(),
            "size": scan.size,
            "rows": scan.rows,
            "segments": scan.slices,
            "seen": None if scan.seen is None else scan.seen.to_json(),
            "sharedMemory": scan.shared_memory,
            "places": places_of(now),
            "moment": moment.news,
        }

    def narrow_scan(
        self,
        namespace: list[str],
        table: str,
        options: dict[str, str],
        partitions: list[Text64],
        seen: str | None,
        predicates: list[dict[str, Any]],
        places: str | None = None,
    ) -> NarrowedScan | None:
        definition = self.relation(namespace, table, options)
        if isinstance(definition, KeyValueDefinition):
            return key_values.narrow_scan(definition, partitions, predicates, places)
        if places not in (None, places_of(definition)):
            # The table has changed while the query ran: where its keys lie now says nothing of what is read.
            return None
        planned = [unpickle(bytes_of(partition)) for partition in partitions]
        read = None if seen is None else Seen.from_json(seen)
        narrowed = narrowed_chains(definition, planned, read, predicates)
        if narrowed is None:
            return None
        left, read = narrowed
        return {
            "partitions": [text_of(pickle(partition)) for partition in left],
            "segments": len({part.segment_id for partition in left for part in partition.parts}),
            "seen": None if read is None else read.to_json(),
        }

    def has_job(self, namespace: list[str], table: str, options: dict[str, str], job: str) -> bool:
        """Only the commit log of the table that a write writes to knows its job."""
        read = self.relation(namespace, table, options)
        if isinstance(read, KeyValueDefinition):
            return False
        ledger = open_ledger(shared_client(read.settings), read.stream)
        return ledger is not None and ledger.job(uuid.UUID(job)).is_open()

    def refuse_unknown(self, namespace: list[str], table: str, reads: list[dict[str, str]]) -> None:
        """A read without the catalog doesn't tell what it has seen. Whose cluster's stream it is isn't asked: its
        credentials are its own."""
        written = str(stream_of(namespace, table))
        for options in reads:
            given = canonical(options, READ_KEYS, "read option")
            settings = Settings.resolve().for_statement(given)
            if METADATA not in given and written in map(str, streams_of(given, settings)):
                raise UnsupportedOperationError(
                    f'stream "{written}" can\'t be replaced or changed by a statement that reads a stream of this name '
                    'by format("pravega"), which doesn\'t tell what it has read: read it as a table of a catalog, by '
                    "spark.table or FROM, or write the rows to another table first"
                )

    def relation(
        self, namespace: list[str], table: str, options: dict[str, str]
    ) -> TableDefinition | KeyValueDefinition:
        """A table as the statement's analysis has found it, with the options of a read or a write."""
        relation = self.catalog.relation(namespace, table, age_s=PLANNED_S)
        if not isinstance(relation, KeyValueDefinition):
            check_schema_is_there(relation)
        return self.with_options(relation, options)

    def with_options(self, definition: Definition, options: dict[str, str]) -> Definition:
        """A table with the options of a read or a write."""
        return replace(definition, settings=definition.settings.for_statement(options))
