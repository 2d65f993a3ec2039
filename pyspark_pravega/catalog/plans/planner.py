"""What a statement's reads and writes are planned with: its table is found, and what it is settles who plans."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from pyspark_pravega.catalog.base import PLANNED_S
from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.catalog.names import stream_of
from pyspark_pravega.catalog.plans import key_values, scans, writes
from pyspark_pravega.catalog.plans.moments import QueryMoment
from pyspark_pravega.catalog.plans.narrowing import NarrowedScan, narrow_scan
from pyspark_pravega.catalog.plans.read_request import Position, all_columns
from pyspark_pravega.catalog.plans.scans import PlannedScan, ScanRequest
from pyspark_pravega.catalog.plans.transactions import ENDS, OpenTransaction, in_transaction
from pyspark_pravega.catalog.plans.unindexed import plan_unindexed
from pyspark_pravega.catalog.statements import Staged, is_metadata
from pyspark_pravega.connector.index import Condition
from pyspark_pravega.connector.indexing import Unindexed
from pyspark_pravega.connector.key_value import KeyValueDefinition, KeyValuePlan
from pyspark_pravega.connector.log import open_ledger
from pyspark_pravega.connector.option_names import METADATA, READ_KEYS, reads_own
from pyspark_pravega.connector.options import ReadOptions, canonical, streams_of
from pyspark_pravega.connector.predicates import Predicates
from pyspark_pravega.connector.read import Extent, Moment, moment_at, moment_of, rows_at, snapshot_until
from pyspark_pravega.connector.shared import shared_client, statement_settings
from pyspark_pravega.connector.table import TableDefinition, check_planned, check_schema_is_there
from pyspark_pravega.connector.write import ReadSet, RowOrigins
from pyspark_pravega.errors import TableChangedError, UnsupportedOperationError

Definition = TypeVar("Definition", bound="TableDefinition | KeyValueDefinition")


class Planner:
    """Plans what statements read and write. Safe for use by several threads."""

    def __init__(self, catalog: Catalog) -> None:
        """Plan for a catalog.

        Args:
            catalog: finds tables.
        """
        self._catalog = catalog

    def definition(
        self, namespace: Sequence[str], table: str, options: Mapping[str, str], age_s: float = PLANNED_S
    ) -> TableDefinition:
        """What a stream is as a table, with the options of a read or a write.

        Args:
            namespace: its namespace.
            table: its name.
            options: the read's or the write's.
            age_s: how long ago it may have been looked up: a statement counts on what its analysis has found.
        """
        definition = self._catalog.load_table(namespace, table, age_s=age_s)
        check_schema_is_there(definition)
        return _with_options(definition, options)

    def check_read(self, namespace: list[str], table: str, options: dict[str, str]) -> Extent | None:
        """Refuse options of a read that are malformed, mean nothing in the table, or contradict each other.

        Args:
            namespace: the table's namespace.
            table: its name.
            options: the read's.

        Returns:
            Where the read begins and ends, as the position of its plan; see `scans.check_read`.
        """
        if is_metadata(table):
            raise UnsupportedOperationError(f'"{table}" tells how things are now: read it without {", ".join(options)}')
        definition = self._relation(namespace, table, options)
        if isinstance(definition, KeyValueDefinition):
            key_values.check_options(options)
            return None
        if definition.settings.controller_uri != self._catalog.client.settings.controller_uri:
            # What bounds mean there, the read finds out.
            ReadOptions.of_table(reads_own(options), versions=definition.is_changes)
            return None
        return scans.check_read(definition, options)

    def at(
        self, namespace: Sequence[str], table: str, version: str | None, timestamp: int | None
    ) -> tuple[TableDefinition, Moment]:
        """A table at a moment of the past, which is still there.

        Args:
            namespace: its namespace.
            table: its name.
            version: see `moment_of`; None where there is a time.
            timestamp: in microseconds since 1970.
        """
        if is_metadata(table):
            raise UnsupportedOperationError(f'"{table}" tells how things are now: read it without AS OF')
        definition = self._catalog.replacing.finish_left(self._catalog.load_table(namespace, table))
        if definition.is_changes:
            raise UnsupportedOperationError(
                f'"{table}" tells what versions have changed, so read it without AS OF: the options startingVersion, '
                "endingVersion, startingTimestamp and endingTimestamp say which ones"
            )
        client, stream = self._catalog.client, definition.stream
        if version is not None:
            moment = moment_of(client, stream, version)
        else:
            assert timestamp is not None
            moment = moment_at(client, stream, timestamp)
        # What was truncated away is found out now, not in the middle of a job.
        (snapshot_until if definition.key is None else rows_at)(client, stream, moment)
        return definition, moment

    def plan_scan(self, namespace: Sequence[str], table: str, request: ScanRequest) -> PlannedScan:
        """Plan a batch read: its ends are fixed from here on.

        Args:
            namespace: the table's namespace.
            table: its name.
            request: what is wanted.
        """
        definition = self._relation(namespace, table, request.options)
        if request.transaction is not None:
            self._check_in_transaction(definition)
        if isinstance(definition, KeyValueDefinition):
            return key_values.plan_scan(definition, request)
        if isinstance(request.position, Unindexed):
            return plan_unindexed(definition, request.position, request.columns)
        if definition.settings.controller_uri != self._catalog.client.settings.controller_uri:
            # Connection settings come with the scan only: `check_read` has asked the catalog's cluster.
            request = request.unsettled()
        try:
            return scans.plan_scan(definition, request)
        except TableChangedError:
            # It makes no difference to the query where its columns are the same.
            now = _with_options(self._catalog.load_table(namespace, table, age_s=0), request.options)
            if request.planned is None and (now.schema, now.format) != (definition.schema, definition.format):
                raise
            return scans.plan_scan(now, request.unsettled())

    def narrow_scan(
        self,
        namespace: Sequence[str],
        table: str,
        options: Mapping[str, str],
        partitions: Sequence[InputPartition],
        seen: ReadSet | None,
        predicates: Predicates,
        routing: str | None = None,
        condition: Condition = None,
    ) -> NarrowedScan | None:
        """What of a planned read further predicates leave, as of the same moment; None for all of it.

        Args:
            namespace: the table's namespace.
            table: its name.
            options: the read's.
            partitions: those of the plan.
            seen: as of the plan, as is `routing`.
            predicates: what Spark tells of their columns.
            routing: None where the plan doesn't tell.
            condition: all of them that can be told, of a table with an index.
        """
        definition = self._relation(namespace, table, options)
        if isinstance(definition, KeyValueDefinition):
            return key_values.narrow_scan(definition, partitions, predicates, routing)
        return narrow_scan(definition, partitions, seen, predicates, routing, condition, options)

    def count_rows(
        self,
        namespace: Sequence[str],
        table: str,
        options: Mapping[str, str],
        planned: StructType | None,
        moment: QueryMoment,
        position: Position | None = None,
        transaction: OpenTransaction | None = None,
    ) -> tuple[int, ReadSet | None] | None:
        """How many rows a table has, where the commit log knows; and of which version.

        Args:
            namespace: the table's namespace.
            table: its name.
            options: the read's.
            planned: see `ScanRequest`, as for the next one.
            moment: when the query reads the table.
            position: which part of it.
            transaction: the one that the query is in, if any.
        """
        relation = self._relation(namespace, table, options)
        if isinstance(relation, KeyValueDefinition):
            return None
        # A count of a column that was NOT NULL comes as one of rows.
        if planned is not None:
            check_planned(relation.stream, planned, (), all_columns(relation))
        if transaction is not None:
            self._check_in_transaction(relation)
        counted = scans.count_rows(relation, options, moment, position, transaction)
        if transaction is not None and counted is not None and counted[1] is not None:
            transaction.read(relation.stream, counted[1], fresh=moment.news is not None)
        return counted

    def plan_write(
        self,
        namespace: Sequence[str],
        table: str,
        options: Mapping[str, str],
        staged: Staged | None = None,
        trigger: str | None = None,
        *,
        checks: Sequence[str] | None = None,
        rows: StructType | None = None,
        case_sensitive: bool = False,
        origins: RowOrigins | None = None,
        transaction: OpenTransaction | None = None,
    ) -> writes.Plan:
        """Settle a write, before Spark plans its query.

        Args:
            namespace: the table's namespace.
            table: its name.
            options: the write's.
            staged: what the table becomes with its rows; None where it stays what it is.
            trigger: of a streaming query, where it isn't one of micro-batches.
            checks: the names of the constraints that Spark checks rows against; None where it does no such thing.
            rows: the columns of a streaming query's rows, which Spark doesn't hold against the table's; else None.
            case_sensitive: whether names of theirs that differ from the table's in case are different ones.
            origins: where a real-time query's rows come from, where that is known.
            transaction: the one that the statement is in, if any.
        """
        definition: TableDefinition | KeyValueDefinition
        if staged is not None:
            definition = _with_options(self._catalog.relations.staged(staged), options)
        else:
            definition = self._relation(namespace, table, options)
        if transaction is not None:
            self._check_in_transaction(definition)
        if isinstance(definition, KeyValueDefinition):
            return KeyValuePlan.of(
                definition, options, trigger=trigger, checks=checks, rows=rows, case_sensitive=case_sensitive
            )
        if rows is not None and writes.merges_schema(options):
            added = writes.written_columns(definition, options, trigger, rows)
            self._catalog.altering.merge_schema(namespace, table, added)
            definition = self.definition(namespace, table, options)
        becomes = None if staged is None else self._catalog.replacing.staged_table(staged)
        plan = writes.plan_write(
            *(definition, options, trigger),
            checks=checks,
            rows=rows,
            case_sensitive=case_sensitive,
            staged=becomes,
            origins=origins,
        )
        return plan if transaction is None else in_transaction(plan)

    def has_job(self, namespace: list[str], table: str, options: dict[str, str], job: str) -> bool:
        """Whether the log of a table that is read has the job of a write that runs: then it is the written table."""
        read = self._relation(namespace, table, options)
        if isinstance(read, KeyValueDefinition):
            return False
        ledger = open_ledger(shared_client(read.settings), read.stream)
        return ledger is not None and ledger.job(uuid.UUID(job)).is_open()

    def refuse_unknown(self, namespace: list[str], table: str, reads: list[dict[str, str]]) -> None:
        """Refuse to replace or change rows of a table that the statement reads without the catalog.

        Such a read doesn't tell what it has seen. Whose cluster's stream it is isn't asked: its credentials are its
        own.

        Args:
            namespace: the table's namespace.
            table: its name.
            reads: the options of all such reads.
        """
        written = str(stream_of(namespace, table))
        for options in reads:
            given = canonical(options, READ_KEYS, "read option")
            settings = statement_settings(given)
            if METADATA not in given and written in map(str, streams_of(given, settings)):
                raise UnsupportedOperationError(
                    f'stream "{written}" can\'t be replaced or changed by a statement that reads a stream of this name '
                    'by format("pravega"), which doesn\'t tell what it has read: read it as a table of a catalog, by '
                    "spark.table or FROM, or write the rows to another table first"
                )

    def _check_in_transaction(self, relation: TableDefinition | KeyValueDefinition) -> None:
        """Refuse what a transaction can't read or write."""
        if isinstance(relation, KeyValueDefinition):
            raise UnsupportedOperationError(
                f'"{relation.stream}" is a key-value table, which has no transactions with other tables: {ENDS}'
            )
        if relation.settings.controller_uri != self._catalog.client.settings.controller_uri:
            raise UnsupportedOperationError(
                f'stream "{relation.stream}" of {relation.settings.controller_uri} isn\'t in the cluster of the '
                f"transaction: {ENDS}"
            )

    def _relation(
        self, namespace: Sequence[str], table: str, options: Mapping[str, str]
    ) -> TableDefinition | KeyValueDefinition:
        """A table as the statement's analysis has found it, with the options of a read or a write."""
        relation = self._catalog.relation(namespace, table, age_s=PLANNED_S)
        if not isinstance(relation, KeyValueDefinition):
            check_schema_is_there(relation)
        return _with_options(relation, options)


def _with_options(definition: Definition, options: Mapping[str, str]) -> Definition:
    return replace(definition, settings=definition.settings.for_statement(options))
