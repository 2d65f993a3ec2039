"""`pravega-spark streams` and `pravega-spark schema`: what there is, without Spark."""

from __future__ import annotations

import argparse
import difflib
import itertools
import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pyspark_pravega.catalog.base import CatalogBase
from pyspark_pravega.catalog.names import scope_of, to_sql
from pyspark_pravega.catalog.pushdown import counted_rows, counted_with_lake
from pyspark_pravega.catalog.shown import shown_properties
from pyspark_pravega.client import Client, Stream
from pyspark_pravega.connector.key_value import KeyValueDefinition
from pyspark_pravega.connector.lake import behind_lake
from pyspark_pravega.connector.log import Ledger, Snapshot, open_ledger, take_snapshot
from pyspark_pravega.connector.read import KeyedReader
from pyspark_pravega.connector.shared import shared_client, shared_registry
from pyspark_pravega.connector.store import is_internal
from pyspark_pravega.connector.table import PRIMARY_KEY, TableDefinition, check_schema_is_there, load_definition
from pyspark_pravega.connector.table_names import stream_of_table
from pyspark_pravega.errors import (
    InvalidNameError,
    PravegaError,
    ScopeNotFoundError,
    StreamNotFoundError,
    UnavailableError,
)
from pyspark_pravega.settings import Settings
from pyspark_pravega.sql.commands import add_connection, resolve_settings, tell
from pyspark_pravega.sql.completion import completes_namespaces, completes_tables
from pyspark_pravega.values import listed

if TYPE_CHECKING:
    from argparse import _SubParsersAction

_AT_ONCE = 8
_COUNTED_BYTES, _COUNTED_ENTRIES = 16 << 20, 100_000
"""So much of a table is read at most to count its rows."""


@dataclass(frozen=True, kw_only=True)
class StreamLine:
    """What `streams` tells of one."""

    table: str
    """Its name in SQL."""
    kind: str
    """`stream`, `keyed` of a table with a key, or `key-value`."""
    segments: int
    """That take events now; 0 of a sealed stream. Of a key-value table its partitions."""
    bytes: int | None
    """From head to tail, frames included; None of a key-value table."""
    rows: int | None
    """As the commit log has counted them; of a table with a key, and of a key-value table, counted now where they are
    few. None where they would have to be counted."""
    version: int
    """The commit log's last one; 0 when there is none."""
    committed_at: str | None
    """When that was, in UTC."""
    in_lake: int = 0
    """The version up to which rows lie in the lake; 0 for none."""
    rows_in_lake: int = 0


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
    settings = resolve_settings(arguments)
    client = shared_client(settings)
    if arguments.namespace is not None:
        scopes = [scope_of([arguments.namespace])]
        if not client.controller.scope_exists(scopes[0]):
            near = difflib.get_close_matches(scopes[0], client.controller.list_scopes(), n=1)
            hint = f'; did you mean "{to_sql(near[0])}"?' if near else ""
            raise ScopeNotFoundError(f'scope "{scopes[0]}" does not exist{hint}')
    else:
        scopes = sorted(client.controller.list_scopes())
    streams = [Stream(scope, name) for scope in scopes for name in _names_in(client, scope)]
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        answers = list(threads.map(lambda stream: _line_or_error(settings, stream), streams))
    lines = [answer for answer in answers if isinstance(answer, StreamLine)]
    failures = [answer for answer in answers if isinstance(answer, PravegaError)]
    _show(lines, as_json=arguments.json)
    for failure in failures:
        tell(failure)
    return 1 if failures else 0


def _line_or_error(settings: Settings, stream: Stream) -> StreamLine | PravegaError | None:
    """None for one that is dropped meanwhile. What is wrong with one doesn't hide the others."""
    try:
        return _line(settings, stream)
    except UnavailableError:
        raise
    except PravegaError as error:
        return error


def _show(lines: Sequence[StreamLine], *, as_json: bool) -> None:
    if as_json:
        for line in lines:
            print(json.dumps(asdict(line)))
        return
    heads = ["TABLE", "SEGMENTS", "BYTES", "ROWS", "VERSION", "COMMITTED"]
    cells = [heads, *(_cells(line) for line in lines)]
    if any(line.in_lake for line in lines):
        for row, cell in zip(cells, ["IN LAKE", *(str(line.in_lake or "-") for line in lines)], strict=True):
            row.insert(-1, cell)
    widths = [max(len(row[column]) for row in cells) for column in range(len(heads))]
    for row in cells:
        aligned = (
            f"{cell:{'<' if column in (0, len(row) - 1) else '>'}{width}}"
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        print("  ".join(aligned).rstrip())


def run_schema(arguments: argparse.Namespace) -> int:
    """Show a table's columns."""
    settings = resolve_settings(arguments)
    stream = named_stream(arguments.table, settings.scope, arguments.catalog)
    definition = relation_of(settings, stream)
    versions = []
    registry = shared_registry(settings)
    of_values = definition.values if isinstance(definition, KeyValueDefinition) else definition
    if registry is not None and of_values.registered is not None:
        versions = [
            {"version": version.version, "type": info.type, "added_at": _time(added)}
            for info, version, added in registry.history(stream.scope, stream.name)
        ]
    if isinstance(definition, KeyValueDefinition):
        properties = _key_value_properties(definition)
    else:
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
        InvalidNameError: it names no table, or one of the names can't be Pravega's.
    """
    try:
        return stream_of_table(table, scope=scope, catalog=catalog)
    except InvalidNameError as error:
        hint = "" if scope or "names no table" not in str(error) else "; with --scope the table alone is enough"
        raise InvalidNameError(f"{error}{hint}") from None


def relation_of(settings: Settings, stream: Stream) -> TableDefinition | KeyValueDefinition:
    """A table that a command line names, be it a stream or a key-value table.

    Args:
        settings: the connection.
        stream: its name.

    Raises:
        StreamNotFoundError: there is neither; the message has the nearest name.
        ConfigurationError: a property that is kept with the table means nothing here.
    """
    catalog = CatalogBase(settings)
    try:
        relation = catalog.relation([stream.scope], stream.name)
    except StreamNotFoundError as error:
        raise not_there(catalog.client, stream, error) from None
    if isinstance(relation, TableDefinition):
        check_schema_is_there(relation)
    return relation


def not_there(client: Client, stream: Stream, error: StreamNotFoundError) -> StreamNotFoundError:
    """The error about a table that isn't there, with the nearest name.

    Args:
        client: the cluster.
        stream: the name that was given.
        error: what is missing.
    """
    controller = client.controller
    scopes = [stream.scope]
    if not controller.scope_exists(stream.scope):
        scopes = difflib.get_close_matches(stream.scope, controller.list_scopes(), n=3)
    # Of the nearest namespace that has a table of a like name: the names as a whole may be alike in their beginnings.
    for scope in scopes:
        for name in difflib.get_close_matches(stream.name, _names_in(client, scope), n=1):
            return StreamNotFoundError(f'{error}; did you mean "{_name(Stream(scope, name))}"?')
    return error


def _names_in(client: Client, scope: str) -> list[str]:
    """The names of a scope's streams, and of the key-value tables that SQL shows."""
    tables = (name for name in client.controller.list_key_value_tables(scope) if not is_internal(name))
    return sorted([*client.controller.list_streams(scope), *tables])


def _line(settings: Settings, stream: Stream) -> StreamLine | None:
    """None for one that is dropped meanwhile."""
    client = shared_client(settings)
    try:
        ledger = open_ledger(client, stream)
        snapshot = take_snapshot(client, stream, ledger)
    except StreamNotFoundError:
        return _key_value_line(settings, stream)
    try:
        commits = [] if ledger is None or not snapshot.version else ledger.commits([snapshot.version])
        is_keyed = ledger is not None and PRIMARY_KEY in ledger.properties()
        lake = ledger.state().lake if is_keyed and ledger is not None else snapshot.tiered
        return StreamLine(
            table=_name(stream),
            kind="keyed" if is_keyed else "stream",
            segments=len(snapshot.current),
            bytes=snapshot.size,
            rows=rows_of_keys(settings, stream, snapshot) if is_keyed else _counted(snapshot, ledger),
            version=snapshot.version,
            committed_at=_time(commits[0].committed_at) if commits else None,
            in_lake=0 if lake is None else lake.version,
            rows_in_lake=0 if lake is None else lake.rows,
        )
    except StreamNotFoundError:
        return None


def _counted(snapshot: Snapshot, ledger: Ledger | None) -> int | None:
    if snapshot.tiered is None:
        return counted_rows(snapshot, ledger)
    return counted_with_lake(behind_lake(snapshot), ledger, snapshot.version)


def rows_of_keys(settings: Settings, stream: Stream, snapshot: Snapshot | None = None) -> int | None:
    """How many rows a table with a key has, if few events have to be read for that.

    Args:
        settings: the connection.
        stream: the table's.
        snapshot: its bytes; taken now when None.
    """
    try:
        client = shared_client(settings)
        snapshot = snapshot or take_snapshot(client, stream, open_ledger(client, stream))
        if snapshot.size > _COUNTED_BYTES or (snapshot.base is not None and snapshot.base.rows > _COUNTED_ENTRIES):
            return None
        definition = load_definition(client, settings, stream)
        check_schema_is_there(definition)
        if definition.key is None:
            return None
        reader = KeyedReader(definition, snapshot, [], fail_on_data_loss=False)
        return sum(batch.num_rows for part in reader.partitions() for batch in reader.read(part))
    except PravegaError:
        # What is wrong with it, whoever reads it is told.
        return None


def _key_value_line(settings: Settings, stream: Stream) -> StreamLine | None:
    try:
        definition = CatalogBase(settings).key_value(stream)
        if definition is None:
            return None
        table, rows = definition.open(), 0
        for partition in table.partitions:
            rows += sum(1 for _ in itertools.islice(table.iterate_keys(partition=partition), _COUNTED_ENTRIES + 1))
            if rows > _COUNTED_ENTRIES:
                break
    except PravegaError:
        return None
    return StreamLine(
        table=_name(stream),
        kind="key-value",
        segments=definition.configuration.partitions,
        bytes=None,
        rows=rows if rows <= _COUNTED_ENTRIES else None,
        version=0,
        committed_at=None,
    )


def _key_value_properties(definition: KeyValueDefinition) -> dict[str, str]:
    return {
        "table-type": "key-value",
        "format": definition.values.format,
        PRIMARY_KEY: listed(definition.layout.names),
        "partitions": str(definition.configuration.partitions),
    }


def _cells(line: StreamLine) -> list[str]:
    octets, rows = ("?" if number is None else f"{number:,}" for number in (line.bytes, line.rows))
    return [line.table, str(line.segments), octets, rows, str(line.version), line.committed_at or "-"]


def _version_lines(versions: Sequence[dict[str, object]]) -> list[tuple[str, str]]:
    return [(str(one["version"]), f"{one['type']}, {one['added_at']}") for one in versions]


def _time(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def _name(stream: Stream) -> str:
    return f"{to_sql(stream.scope)}.{to_sql(stream.name)}"
