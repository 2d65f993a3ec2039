"""The catalog process: answers Spark's JVM over pipes, one JSON document a line.

The first line configures it. Each request is `{"id": n, "method": "...", "params": {...}}` and its answer
`{"id": n, "result": ...}` or `{"id": n, "error": {"kind": ..., "condition": ..., "message": ...}}`, in any order. The
process ends with its standard input.
"""

from __future__ import annotations

import base64
import json
import logging
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from typing import Any, TextIO

from pyspark.sql.types import StructType

from pyspark_pravega.catalog.base import PLANNED_S
from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.catalog.jobs import (
    ScanRequest,
    WriteJobs,
    begin_write,
    count_rows,
    plan_scan,
    plan_write,
    take_over_query,
)
from pyspark_pravega.catalog.metadata_tables import is_metadata
from pyspark_pravega.catalog.procedures import PROCEDURES
from pyspark_pravega.catalog.properties import shown_properties
from pyspark_pravega.catalog.streams import StreamReads
from pyspark_pravega.connector.changes import CHANGE_COLUMNS
from pyspark_pravega.connector.definition import METADATA_COLUMNS, TableDefinition
from pyspark_pravega.connector.job import Epoch
from pyspark_pravega.connector.travel import moment_at, moment_of, snapshot_until
from pyspark_pravega.errors import (
    ConfigurationError,
    PravegaError,
    ScopeExistsError,
    ScopeNotEmptyError,
    ScopeNotFoundError,
    StreamExistsError,
    StreamNotFoundError,
    UnsupportedOperationError,
    ViewExistsError,
    ViewNotFoundError,
    did_you_mean,
)
from pyspark_pravega.settings import KEYS, Settings, canonical_key

THREADS = 32

_KINDS: list[tuple[type[PravegaError], str]] = [
    (ScopeNotFoundError, "no-such-namespace"),
    (StreamNotFoundError, "no-such-table"),
    (ScopeExistsError, "namespace-exists"),
    (StreamExistsError, "table-exists"),
    (ScopeNotEmptyError, "namespace-not-empty"),
    (ViewNotFoundError, "no-such-view"),
    (ViewExistsError, "view-exists"),
]
_log = logging.getLogger(__name__)


class CatalogService:
    """The methods that the JVM calls. Safe for use by several threads."""

    def __init__(self, settings: Settings) -> None:
        """Serve a catalog.

        Args:
            settings: where the cluster and the registry are.
        """
        self.catalog = Catalog(settings)
        self._writes = WriteJobs()
        catalog = self.catalog
        self._methods: dict[str, Callable[..., Any]] = {
            "ping": lambda: os.getpid(),
            "listNamespaces": catalog.list_namespaces,
            "loadNamespace": catalog.namespace_properties,
            "createNamespace": catalog.create_namespace,
            "alterNamespace": catalog.alter_namespace,
            "dropNamespace": catalog.drop_namespace,
            "listTables": catalog.list_tables,
            "loadRelation": self._load_relation,
            "loadTableAt": self._load_table_at,
            "loadChangelog": self._load_changelog,
            "createTable": self._create_table,
            "alterTable": self._alter_table,
            "renameTable": catalog.rename_table,
            "truncateTable": catalog.truncate_table,
            "refuseRowLevel": catalog.refuse_row_level,
            "dropTable": self._drop_table,
            "stageTable": self._stage_table,
            "commitStaged": catalog.commit_staged,
            "abortStaged": catalog.abort_staged,
            "listViews": catalog.list_views,
            "storeView": catalog.store_view,
            "dropView": catalog.drop_view,
            "renameView": catalog.rename_view,
            "listProcedures": catalog.list_procedures,
            "describeProcedure": self._describe_procedure,
            "callProcedure": self._call_procedure,
            "metadataRows": catalog.metadata_rows,
            "planScan": self._plan_scan,
            "countRows": self._count_rows,
            "planWrite": self._plan_write,
            "takeOverQuery": self._take_over_query,
            **StreamReads(self._definition).methods(),
            "beginWrite": self._begin_write,
            "startWrite": self._start_write,
            "commitWrite": self._commit_write,
            "abortWrite": self._abort_write,
        }

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer a request.

        Args:
            request: id, method and params.

        Returns:
            id and result, or id and error.
        """
        try:
            result = self._methods[request["method"]](**request["params"])
            return {"id": request["id"], "result": result}
        except PravegaError as error:
            return {"id": request["id"], "error": describe(error)}
        except Exception as error:
            _log.exception("%s failed", request["method"])
            return {"id": request["id"], "error": describe(error)}

    def _load_relation(self, namespace: list[str], table: str) -> dict[str, Any]:
        if is_metadata(table):
            return {"rows_of": table, "schema": self.catalog.metadata_schema(namespace, table).json()}
        try:
            return _table(self.catalog.load_table(namespace, table))
        except StreamNotFoundError:
            # Streams are more frequent, so views are looked for behind them.
            try:
                return self.catalog.load_view(namespace, table)
            except ViewNotFoundError:
                pass
            raise

    def _load_table_at(
        self, namespace: list[str], table: str, version: str | None = None, timestamp: int | None = None
    ) -> dict[str, Any]:
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
        snapshot_until(client, stream, moment)
        return {**_table(definition), "position": {"offsets": moment.offsets, "name": moment.name}}

    def _load_changelog(self, namespace: list[str], table: str, bounds: dict[str, Any]) -> dict[str, Any]:
        definition = self.catalog.load_table(namespace, table)
        schema = StructType([*definition.schema, *CHANGE_COLUMNS])
        loaded = _table(definition)
        return {**loaded, "schema": schema.json(), "position": {"changes": bounds}}

    def _create_table(
        self,
        namespace: list[str],
        table: str,
        schema: dict[str, Any],
        transforms: list[dict[str, Any]],
        properties: dict[str, str],
    ) -> dict[str, Any]:
        columns = StructType.fromJson(schema)
        return _table(self.catalog.create_table(namespace, table, columns, transforms, properties))

    def _alter_table(self, namespace: list[str], table: str, changes: list[dict[str, Any]]) -> dict[str, Any]:
        return _table(self.catalog.alter_table(namespace, table, changes))

    def _drop_table(self, namespace: list[str], table: str) -> bool:
        if self.catalog.drop_table(namespace, table):
            return True
        if self.catalog.has_view(namespace, table):
            raise UnsupportedOperationError(f'"{table}" is a view: use DROP VIEW')
        return False

    def _stage_table(
        self,
        namespace: list[str],
        table: str,
        schema: dict[str, Any],
        transforms: list[dict[str, Any]],
        properties: dict[str, str],
        create: bool,
        replace: bool,
    ) -> dict[str, Any]:
        definition, staged = self.catalog.stage_table(
            namespace, table, StructType.fromJson(schema), transforms, properties, create=create, replace=replace
        )
        return {**_table(definition), "staged": staged}

    def _describe_procedure(self, namespace: list[str], name: str) -> dict[str, Any]:
        return asdict(self.catalog.procedure(namespace, name))

    def _call_procedure(self, name: str, arguments: list[Any]) -> dict[str, Any]:
        return {"columns": PROCEDURES[name].columns, "rows": self.catalog.call_procedure(name, arguments)}

    def _count_rows(self, namespace: list[str], table: str, options: dict[str, str]) -> int | None:
        return count_rows(self._definition(namespace, table, options), options)

    def _plan_scan(
        self,
        namespace: list[str],
        table: str,
        columns: list[str],
        options: dict[str, str],
        position: dict[str, Any] | None = None,
        predicates: list[dict[str, Any]] | None = None,
        limit: int | None = None,
    ) -> dict[str, Any]:
        request = ScanRequest(
            columns=columns, options=options, position=position, predicates=predicates or [], limit=limit
        )
        scan = plan_scan(self._definition(namespace, table, options), request)
        return {
            "function": _text(scan.function),
            "partitions": [_text(partition) for partition in scan.partitions],
            "schema": scan.schema.json(),
            "size": scan.size,
            "rows": scan.rows,
            "segments": scan.slices,
        }

    def _plan_write(
        self, namespace: list[str], table: str, options: dict[str, str], staged: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        if staged is not None:
            definition = self._with_options(self.catalog.staged_definition(staged), options)
        else:
            definition = self._definition(namespace, table, options)
        planned = plan_write(definition, options)
        return {"plan": _text(planned.plan), "clusterBy": list(planned.cluster_by), "orderBy": planned.order_by}

    def _take_over_query(self, plan: str, query: str, run: str) -> None:
        take_over_query(_bytes(plan), query, run)

    def _begin_write(self, plan: str, packed: str | None, overwrite: bool = False) -> dict[str, Any]:
        columns = None if packed is None else StructType.fromJson(json.loads(packed))
        write = begin_write(_bytes(plan), columns, overwrite=overwrite)
        return {"writer": _text(write.writer), "function": _text(write.function), "packed": write.packed}

    def _start_write(self, writer: str, partitions: int) -> None:
        self._writes.start(_bytes(writer), partitions)

    def _commit_write(
        self,
        writer: str,
        messages: list[str | None],
        query: str | None = None,
        run: str | None = None,
        epoch: int | None = None,
    ) -> dict[str, Any]:
        of_query = None if query is None or epoch is None else Epoch(query=query, run=run, number=epoch)
        told = [None if message is None else _bytes(message) for message in messages]
        return asdict(self._writes.commit(_bytes(writer), told, of_query))

    def _abort_write(self, writer: str, messages: list[str | None]) -> None:
        self._writes.abort(_bytes(writer), [None if message is None else _bytes(message) for message in messages])

    def _definition(self, namespace: list[str], table: str, options: dict[str, str]) -> TableDefinition:
        # The statement's analysis has just looked it up, and counts on what it has found.
        return self._with_options(self.catalog.load_table(namespace, table, age_s=PLANNED_S), options)

    def _with_options(self, definition: TableDefinition, options: dict[str, str]) -> TableDefinition:
        return replace(definition, settings=Settings.resolve(options, catalog=definition.settings.to_options()))


def serve(requests: TextIO, answers: TextIO) -> None:
    """Answer requests until there are no more; what hasn't been answered by then isn't waited for.

    Args:
        requests: lines of JSON, the first one the configuration: `{"options": {...}, "session": {...}}`.
        answers: lines of JSON.
    """
    lock = threading.Lock()

    def send(answer: dict[str, Any]) -> None:
        line = json.dumps(answer, separators=(",", ":"))
        with lock:
            answers.write(line + "\n")
            answers.flush()

    configuration = json.loads(requests.readline())
    try:
        service = CatalogService(settle_settings(configuration["options"], configuration["session"]))
    except PravegaError as error:
        send({"id": 0, "error": describe(error)})
        return
    greeting = {
        "metadata": METADATA_COLUMNS.json(),
        "scope": service.catalog.settings.scope,
        "python": f"{sys.version_info.major}.{sys.version_info.minor}",
    }
    send({"id": 0, "result": greeting})
    threads = ThreadPoolExecutor(THREADS, thread_name_prefix="catalog")
    for line in requests:
        threads.submit(lambda request: send(service.answer(request)), json.loads(line))
    # Threads may wait for a server: nobody is there to hear their answer any more.
    threads.shutdown(wait=False, cancel_futures=True)


def settle_settings(options: dict[str, str], session: dict[str, str]) -> Settings:
    """The connection from a catalog's configuration and the session's.

    Args:
        options: `spark.sql.catalog.<name>.*` without that prefix.
        session: `spark.pravega.*`.

    Raises:
        ConfigurationError: a key is unknown, or a value malformed.
    """
    for key in options:
        name = canonical_key(key)
        if name not in KEYS:
            raise ConfigurationError(f'unknown catalog configuration "{key}"{did_you_mean(name, KEYS)}')
    return Settings.resolve(catalog=options, session=session)


def describe(error: Exception) -> dict[str, str]:
    """An error as the JVM takes it.

    Args:
        error: what was raised; of anything unexpected only its kind and text are told, never a trace.
    """
    if isinstance(error, PravegaError):
        kind = next((kind for cls, kind in _KINDS if isinstance(error, cls)), "other")
        return {"kind": kind, "condition": error.condition, "message": str(error)}
    return {
        "kind": "other",
        "condition": PravegaError.condition,
        "message": f"unexpected {type(error).__name__}: {error}; the catalog process's log tells more",
    }


def main() -> None:
    """Serve standard input and output; whatever else is printed goes to standard error."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="pravega catalog: %(levelname)s %(message)s")
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    serve(sys.stdin, answers)
    # Not sys.exit, which waits for the threads.
    os._exit(0)


def _table(definition: TableDefinition) -> dict[str, Any]:
    return {
        "schema": definition.schema.json(),
        "properties": shown_properties(definition),
        "stream": str(definition.stream),
    }


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _bytes(text: str) -> bytes:
    return base64.b64decode(text)


if __name__ == "__main__":
    main()
