"""The methods of the catalog process, as `protocol` declares them."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from typing import Any

from pyspark.sql.types import StructType

from pyspark_pravega.catalog import statements
from pyspark_pravega.catalog.base import PLANNED_S
from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.catalog.process import key_values
from pyspark_pravega.catalog.process.batch_reads import BatchReads
from pyspark_pravega.catalog.process.jobs import (
    WriteJobs,
    check_read,
    merges_schema,
    plan_write,
)
from pyspark_pravega.catalog.process.messages import (
    BegunWrite,
    CheckConstraint,
    CommitReport,
    MetadataPage,
    MetadataTable,
    Parameter,
    PlannedWrite,
    Procedure,
    ProcedureResult,
    Table,
    Text64,
    View,
)
from pyspark_pravega.catalog.process.moments import QueryMoment
from pyspark_pravega.catalog.process.pickles import unpickle
from pyspark_pravega.catalog.process.protocol import bytes_of, text_of
from pyspark_pravega.catalog.process.sampling import Sampling
from pyspark_pravega.catalog.process.stream_reads import StreamReads
from pyspark_pravega.catalog.properties import shown_properties
from pyspark_pravega.catalog.pushdown import routing_columns
from pyspark_pravega.catalog.statements import PROCEDURES, Caller, Statement, is_metadata
from pyspark_pravega.connector.key_value import KeyValueDefinition, KeyValuePlan
from pyspark_pravega.connector.read import CHANGE_COLUMNS, moment_at, moment_of, rows_at, snapshot_until
from pyspark_pravega.connector.table import (
    Check,
    TableDefinition,
    avro_defaults,
    check_schema_is_there,
    checks_of,
    defaults_of,
    with_defaults,
)
from pyspark_pravega.connector.write import DeltaJob, Epoch, OverwritingJob, Seen, WriteJob, take_over
from pyspark_pravega.errors import (
    PravegaError,
    StreamNotFoundError,
    UnsupportedOperationError,
    ViewNotFoundError,
)
from pyspark_pravega.settings import Settings


class CatalogMethods(BatchReads, StreamReads):
    """What Spark's JVM asks of a catalog. Safe for use by several threads.

    `protocol.Methods` says what each method does.
    """

    def __init__(self, settings: Settings) -> None:
        """Serve a catalog.

        Args:
            settings: where the cluster and the registry are.
        """
        super().__init__(self._definition)
        self.catalog = Catalog(settings)
        self._writes = WriteJobs()
        self._sampling = Sampling()
        self._left = threading.local()

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

    def list_namespaces(self) -> list[str]:
        return self.catalog.list_namespaces()

    def load_namespace(self, namespace: list[str]) -> dict[str, str]:
        return self.catalog.namespace_properties(namespace)

    def create_namespace(self, namespace: list[str], properties: dict[str, str]) -> None:
        self.catalog.create_namespace(namespace, properties)

    def alter_namespace(self, namespace: list[str], changes: list[dict[str, Any]]) -> None:
        self.catalog.alter_namespace(namespace, changes)

    def drop_namespace(self, namespace: list[str], cascade: bool) -> bool:
        return self.catalog.drop_namespace(namespace, cascade=cascade)

    def list_tables(self, namespace: list[str]) -> list[str]:
        return self.catalog.list_tables(namespace)

    def rename_table(self, namespace: list[str], table: str) -> None:
        self.catalog.rename_table(namespace, table)

    def truncate_table(self, namespace: list[str], table: str) -> None:
        self.catalog.truncate_table(namespace, table)

    def refuse_row_level(self, namespace: list[str], table: str, command: str) -> None:
        self.catalog.refuse_row_level(namespace, table, command)

    def metadata_rows(
        self,
        namespace: list[str],
        table: str,
        columns: list[str],
        predicates: list[dict[str, Any]] | None = None,
        limit: int | None = None,
        newestFirst: bool = False,  # noqa: N803
        page: int = 0,
        moments: list[str] | None = None,
    ) -> MetadataPage:
        moment = QueryMoment(moments or ())
        metadata_page = self.catalog.metadata_rows(
            *(namespace, table, columns, predicates or []),
            limit=limit,
            newest_first=newestFirst,
            page=page,
            last_version=moment.last_version,
        )
        return {"rows": metadata_page.rows, "next": metadata_page.next, "moment": moment.news}

    def commit_staged(self, staged: dict[str, Any], written: bool) -> None:
        self.catalog.commit_staged(staged, written=written)
        self._when_answered(partial(self.catalog.forget_staged, staged))

    def abort_staged(self, staged: dict[str, Any]) -> None:
        self.catalog.abort_staged(staged)
        self._when_answered(partial(self.catalog.forget_staged, staged))

    def list_views(self, namespace: list[str]) -> list[str]:
        return self.catalog.list_views(namespace)

    def store_view(self, namespace: list[str], table: str, definition: View, create: bool, replace: bool) -> None:
        self.catalog.store_view(namespace, table, dict(definition), create=create, replace=replace)

    def drop_view(self, namespace: list[str], table: str) -> bool:
        return self.catalog.drop_view(namespace, table)

    def rename_view(self, namespace: list[str], table: str, to_namespace: list[str], to: str) -> None:
        self.catalog.rename_view(namespace, table, to_namespace, to)

    def list_procedures(self, namespace: list[str]) -> list[str]:
        return self.catalog.list_procedures(namespace)

    def load_relation(self, namespace: list[str], table: str) -> Table | MetadataTable | Mapping[str, Any]:
        if is_metadata(table):
            stream, schema = self.catalog.metadata_schema(namespace, table)
            return {"rows_of": table, "stream": str(stream), "schema": schema.json()}
        try:
            relation = self.catalog.relation(namespace, table)
            if not isinstance(relation, KeyValueDefinition):
                self._sampling.consider(relation)
            return _table(relation)
        except StreamNotFoundError:
            # Streams are more frequent, so views are looked for behind them.
            try:
                return self.catalog.load_view(namespace, table)
            except ViewNotFoundError:
                pass
            raise

    def load_table_at(
        self, namespace: list[str], table: str, version: str | None = None, timestamp: int | None = None
    ) -> Table:
        if is_metadata(table):
            raise UnsupportedOperationError(f'"{table}" tells how things are now: read it without AS OF')
        definition = self.catalog.load_table(namespace, table)
        client, stream = self.catalog.client, definition.stream
        if version is not None:
            moment = moment_of(client, stream, version)
        else:
            assert timestamp is not None
            moment = moment_at(client, stream, timestamp)
        # What was truncated away is found out now, not in the middle of a job.
        (snapshot_until if definition.key is None else rows_at)(client, stream, moment)
        position: dict[str, Any] = asdict(moment)
        table_at = _table(definition)
        table_at["position"] = position
        return table_at

    def check_read(self, namespace: list[str], table: str, options: dict[str, str]) -> None:
        if is_metadata(table):
            raise UnsupportedOperationError(f'"{table}" tells how things are now: read it without {", ".join(options)}')
        relation = self.catalog.relation(namespace, table, age_s=PLANNED_S)
        if isinstance(relation, KeyValueDefinition):
            key_values.check_options(options)
        else:
            check_read(self._definition(namespace, table, options), options)

    def load_changelog(self, namespace: list[str], table: str, bounds: dict[str, Any]) -> Table:
        definition = self.catalog.load_table(namespace, table)
        schema = StructType([*definition.schema, *CHANGE_COLUMNS])
        return _table(definition) | {"schema": schema.json(), "position": {"changes": bounds}}

    def create_table(
        self,
        namespace: list[str],
        table: str,
        schema: dict[str, Any],
        transforms: list[dict[str, Any]],
        properties: dict[str, str],
        checks: list[CheckConstraint],
    ) -> Table:
        columns = StructType.fromJson(schema)
        given = [Check(**check) for check in checks]
        return _table(self.catalog.create_relation(namespace, table, columns, transforms, properties, checks=given))

    def alter_table(
        self, namespace: list[str], table: str, changes: list[dict[str, Any]], seen: list[str] | None = None
    ) -> Table:
        reads = [Seen.from_json(text) for text in seen or ()]
        return _table(self.catalog.alter_relation(namespace, table, changes, reads))

    def supports_change(self, namespace: list[str], table: str, change: dict[str, Any]) -> bool:
        return self.catalog.supports_change(namespace, table, change)

    def drop_table(self, namespace: list[str], table: str) -> bool:
        if self.catalog.drop_table(namespace, table):
            return True
        if self.catalog.has_view(namespace, table):
            raise UnsupportedOperationError(f'"{table}" is a view: use DROP VIEW')
        return False

    def stage_table(
        self,
        namespace: list[str],
        table: str,
        schema: dict[str, Any],
        transforms: list[dict[str, Any]],
        properties: dict[str, str],
        checks: list[CheckConstraint],
        create: bool,
        replace: bool,
    ) -> Table:
        definition, staged = self.catalog.stage_relation(
            namespace,
            table,
            StructType.fromJson(schema),
            transforms,
            properties,
            checks=[Check(**check) for check in checks],
            create=create,
            replace=replace,
        )
        return _table(definition) | {"staged": staged}

    def describe_procedure(self, namespace: list[str], name: str) -> Procedure:
        procedure = self.catalog.procedure(namespace, name)
        parameters = [_parameter(parameter) for parameter in procedure.parameters]
        return {"name": procedure.name, "description": procedure.description, "parameters": parameters}

    def call_procedure(
        self,
        name: str,
        arguments: list[Any],
        catalog: str,
        after: dict[str, Any] | None = None,
        rows: list[str] | None = None,
    ) -> ProcedureResult:
        caller = Caller(catalog=catalog, after=after or {}, rows=[json.loads(row) for row in rows or ()])
        step = self.catalog.procedure_step(caller, name, arguments)
        if isinstance(step, Statement):
            return {"statement": {"text": step.text, "kind": step.kind, "after": dict(step.after)}}
        return {"columns": PROCEDURES[name].columns, "rows": step}

    def plan_write(
        self,
        namespace: list[str],
        table: str,
        options: dict[str, str],
        staged: dict[str, Any] | None = None,
        trigger: str | None = None,
        checks: list[str] | None = None,
        rows: str | None = None,
        case_sensitive: bool = False,
    ) -> PlannedWrite:
        columns = None if rows is None else StructType.fromJson(json.loads(rows))
        definition: TableDefinition | KeyValueDefinition
        if staged is not None:
            definition = self.with_options(self.catalog.staged_relation(staged), options)
        else:
            definition = self.relation(namespace, table, options)
        if isinstance(definition, KeyValueDefinition):
            return key_values.plan_write(
                KeyValuePlan.of(
                    definition, options, trigger=trigger, checks=checks, rows=columns, case_sensitive=case_sensitive
                )
            )
        if columns is not None and merges_schema(options):
            self.catalog.merge_schema(namespace, table, columns)
            definition = self._definition(namespace, table, options)
        becomes = None if staged is None else self.catalog.staged_table(staged)
        planned = plan_write(
            definition, options, trigger, checks=checks, rows=columns, case_sensitive=case_sensitive, staged=becomes
        )
        return {
            "plan": text_of(planned.plan),
            "clusterBy": list(planned.cluster_by),
            "orderBy": planned.order_by,
            "atOnce": planned.at_once,
        }

    def take_over_query(self, plan: Text64, query: str, run: str, epoch: int | None = None) -> None:
        settled = unpickle(bytes_of(plan))
        if not isinstance(settled, KeyValuePlan):
            # A micro-batch of key-value tables that is repeated puts the same entries again.
            take_over(settled, query, run, epoch=epoch)

    def begin_write(
        self, plan: Text64, partitions: int, packed: str | None = None, overwrite: bool = False, changes: bool = False
    ) -> BegunWrite:
        columns = None if packed is None else StructType.fromJson(json.loads(packed))
        kind = DeltaJob if changes else OverwritingJob if overwrite else WriteJob
        write = self._writes.begin(bytes_of(plan), partitions, packed=columns, kind=kind)
        return {
            "writer": text_of(write.writer),
            "function": text_of(write.function),
            "packed": write.packed,
            "job": write.job,
        }

    def resume_write(self, writer: Text64, partitions: int) -> None:
        self._writes.resume(bytes_of(writer), partitions)

    def commit_write(
        self,
        writer: Text64,
        messages: list[Text64 | None],
        query: str | None = None,
        run: str | None = None,
        epoch: int | None = None,
        seen: list[str] | None = None,
        offsets: list[str | None] | None = None,
    ) -> CommitReport:
        ends = None if offsets is None else hashlib.sha256(json.dumps(offsets).encode()).hexdigest()[:32]
        of_query = None if query is None or epoch is None else Epoch(query=query, run=run, number=epoch, offsets=ends)
        reads = [Seen.from_json(text) for text in seen or ()]
        report = self._writes.commit(bytes_of(writer), _messages(messages), of_query, reads)
        self._when_answered(partial(self._writes.forget, bytes_of(writer)))
        return {
            "rows": report.rows,
            "bytes": report.bytes,
            "transactions": report.transactions,
            "milliseconds": report.milliseconds,
            "repeated": report.repeated,
        }

    def abort_write(self, writer: Text64, messages: list[Text64 | None]) -> None:
        self._writes.abort(bytes_of(writer), _messages(messages))

    def _definition(
        self, namespace: list[str], table: str, options: dict[str, str], age_s: float = PLANNED_S
    ) -> TableDefinition:
        # The statement's analysis has just looked it up, and counts on what it has found.
        definition = self.catalog.load_table(namespace, table, age_s=age_s)
        check_schema_is_there(definition)
        return self.with_options(definition, options)


def _parameter(parameter: statements.Parameter) -> Parameter:
    return {
        "name": parameter.name,
        "type": parameter.type,
        "comment": parameter.comment,
        "default": parameter.default,
        "columns": parameter.columns,
        "condition": parameter.condition,
    }


def _messages(messages: list[Text64 | None]) -> list[bytes | None]:
    return [None if message is None else bytes_of(message) for message in messages]


def _row_id(definition: TableDefinition) -> list[str]:
    """The columns of an event that deletes a row: its key, and what no event can be without."""
    if definition.key is None:
        return []
    needed = [field.name for field in definition.schema if not field.nullable]
    return [*definition.key.columns, *(name for name in needed if name not in definition.key.columns)]


def _table(definition: TableDefinition | KeyValueDefinition) -> Table:
    if isinstance(definition, KeyValueDefinition):
        return key_values.table_of(definition)
    defaults = defaults_of(definition.properties)
    if definition.registered is not None:
        # Of a schema that others have made, its own ones.
        schema = definition.registered[0]
        defaults = {**avro_defaults(schema.serialization_format, schema.schema_data), **defaults}
    return {
        "schema": with_defaults(definition.schema, defaults).json(),
        "checks": [
            {"name": check.name, "condition": check.condition, "enforced": check.enforced}
            for check in checks_of(definition.properties)
        ],
        "properties": shown_properties(definition),
        "stream": str(definition.stream),
        "id": f"{definition.stream} {definition.group_made}" if definition.group_made else None,
        "primaryKey": [] if definition.key is None else list(definition.key.columns),
        "rowId": _row_id(definition),
        "lookup": list(routing_columns(definition)),
    }
