"""`pravega-spark streams` and `pravega-spark schema`: what there is, without Spark."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pyspark_pravega.catalog.names import scope_of, stream_of, to_sql
from pyspark_pravega.catalog.properties import shown_properties
from pyspark_pravega.catalog.pushdown import counted_rows
from pyspark_pravega.client import Client, Stream
from pyspark_pravega.connector.log import open_ledger, take_snapshot
from pyspark_pravega.connector.shared import shared_client, shared_registry
from pyspark_pravega.connector.table import check_schema_is_there, load_definition
from pyspark_pravega.errors import ConfigurationError, ScopeNotFoundError, StreamNotFoundError
from pyspark_pravega.sql.commands import add_connection, resolve_settings
from pyspark_pravega.sql.completion import completes_namespaces, completes_tables

if TYPE_CHECKING:
    from argparse import _SubParsersAction

_AT_ONCE = 8


@dataclass(frozen=True, kw_only=True)
class StreamLine:
    """What `streams` tells of one."""

    table: str
    """Its name in SQL."""
    segments: int
    """That take events now; 0 of a sealed stream."""
    bytes: int
    """From head to tail, frames included."""
    rows: int | None
    """As the commit log has counted them; None where they would have to be counted."""
    version: int
    """The commit log's last one; 0 when there is none."""
    committed_at: str | None
    """When that was, in UTC."""


def register(subparsers: _SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the commands.

    Args:
        subparsers: where to add them.
    """
    streams = subparsers.add_parser(
        "streams",
        description="Lists streams by their names in SQL. Example: pravega-spark streams shop --json",
    )
    completes_namespaces(
        streams.add_argument("namespace", nargs="?", metavar="NAMESPACE", help="of this one only"),
    )
    streams.add_argument("--json", action="store_true", help="as JSON, a line for each stream")
    add_connection(streams)
    streams.set_defaults(run=run_streams)
    schema = subparsers.add_parser(
        "schema",
        description="Shows what a stream is as a table. Example: pravega-spark schema shop.orders",
    )
    completes_tables(schema.add_argument("table", metavar="TABLE", help="namespace.table, or scope/stream"))
    schema.add_argument("--json", action="store_true", help="as one JSON object; columns as Spark's JSON has them")
    add_connection(schema)
    schema.set_defaults(run=run_schema)


def run_streams(arguments: argparse.Namespace) -> int:
    """List the streams."""
    client = shared_client(resolve_settings(arguments))
    if arguments.namespace is not None:
        scopes = [scope_of([arguments.namespace])]
        if not client.controller.scope_exists(scopes[0]):
            raise ScopeNotFoundError(f'scope "{scopes[0]}" does not exist')
    else:
        scopes = sorted(client.controller.list_scopes())
    streams = [Stream(scope, name) for scope in scopes for name in sorted(client.controller.list_streams(scope))]
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        lines = [line for line in threads.map(lambda stream: _line(client, stream), streams) if line is not None]
    if arguments.json:
        for line in lines:
            print(json.dumps(asdict(line)))
        return 0
    heads = ["TABLE", "SEGMENTS", "BYTES", "ROWS", "VERSION", "COMMITTED"]
    cells = [heads, *(_cells(line) for line in lines)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(heads))]
    for row in cells:
        aligned = (
            f"{cell:{'<' if column in (0, 5) else '>'}{width}}"
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        print("  ".join(aligned).rstrip())
    return 0


def run_schema(arguments: argparse.Namespace) -> int:
    """Show a table's columns."""
    settings = resolve_settings(arguments)
    stream = named_stream(arguments.table, settings.scope, arguments.catalog)
    definition = load_definition(shared_client(settings), settings, stream)
    check_schema_is_there(definition)
    versions = []
    registry = shared_registry(settings)
    if registry is not None and definition.registered is not None:
        versions = [
            {"version": version.version, "type": info.type, "added_at": _time(added)}
            for info, version, added in registry.history(stream.scope, stream.name)
        ]
    properties = shown_properties(definition)
    if arguments.json:
        content = {
            "table": _name(stream),
            "columns": definition.schema.jsonValue()["fields"],
            "properties": properties,
            "versions": versions,
        }
        print(json.dumps(content, indent=2))
        return 0
    print(_name(stream))
    names = [field.name for field in definition.schema]
    kinds = [field.dataType.simpleString() + ("" if field.nullable else " NOT NULL") for field in definition.schema]
    for field, kind in zip(definition.schema, kinds, strict=True):
        comment = (field.metadata or {}).get("comment", "")
        print(f"  {field.name:{max(map(len, names))}}  {kind:{max(map(len, kinds))}}  {comment}".rstrip())
    for what, pairs in (("properties", properties.items()), ("schema versions", _version_lines(versions))):
        if pairs:
            print(f"{what}:")
            for key, value in pairs:
                print(f"  {key}: {value}")
    return 0


def named_stream(table: str, scope: str | None, catalog: str) -> Stream:
    """The stream that a command line names.

    Args:
        table: `table`, `namespace.table`, `catalog.namespace.table`, or `scope/stream`.
        scope: the default scope.
        catalog: the catalog's name in SQL.

    Raises:
        ConfigurationError: it names no table.
        InvalidNameError: one of the names can't be Pravega's.
    """
    scope_part, slash, name = table.partition("/")
    if slash:
        return stream_of([scope_part], name)
    parts = table.split(".")
    if len(parts) == 3 and parts[0] == catalog:
        parts = parts[1:]
    if len(parts) == 1 and scope is not None:
        parts = [scope, *parts]
    if len(parts) != 2 or not all(parts):
        raise ConfigurationError(
            f'"{table}" names no table: write namespace.table, or scope/stream where a name holds a dot'
            + ("" if scope else "; with --scope the table alone is enough")
        )
    return stream_of(parts[:1], parts[1])


def _line(client: Client, stream: Stream) -> StreamLine | None:
    """None for one that is dropped meanwhile."""
    try:
        ledger = open_ledger(client, stream)
        snapshot = take_snapshot(client, stream, ledger)
        commits = [] if ledger is None or not snapshot.version else ledger.commits([snapshot.version])
        return StreamLine(
            table=_name(stream),
            segments=len(snapshot.current),
            bytes=snapshot.size,
            rows=counted_rows(snapshot, ledger),
            version=snapshot.version,
            committed_at=_time(commits[0].committed_at) if commits else None,
        )
    except StreamNotFoundError:
        return None


def _cells(line: StreamLine) -> list[str]:
    rows = "?" if line.rows is None else f"{line.rows:,}"
    return [line.table, str(line.segments), f"{line.bytes:,}", rows, str(line.version), line.committed_at or "-"]


def _version_lines(versions: Sequence[dict[str, object]]) -> list[tuple[str, str]]:
    return [(str(one["version"]), f"{one['type']}, {one['added_at']}") for one in versions]


def _time(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def _name(stream: Stream) -> str:
    return f"{to_sql(stream.scope)}.{to_sql(stream.name)}"
