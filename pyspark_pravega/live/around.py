"""What stands beside streams: namespaces, key-value tables, who needs old events, and where bad ones go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from pyspark_pravega.catalog.base import CatalogBase
from pyspark_pravega.catalog.names import to_sql
from pyspark_pravega.client import Client, Stream
from pyspark_pravega.connector.key_value import KeyValueDefinition, KeyValueReader, Wanted, partitions_of
from pyspark_pravega.connector.log import Ledger, open_ledger
from pyspark_pravega.connector.store import is_internal
from pyspark_pravega.errors import AuthenticationError, KeyValueTableNotFoundError, NotFoundError, PravegaError
from pyspark_pravega.live.progress import table_name
from pyspark_pravega.live.rows import COLUMNS as LETTERS
from pyspark_pravega.live.rows import Cells, LetterCounts, definition_of, shown_rows
from pyspark_pravega.live.sampling import Sampler
from pyspark_pravega.settings import Settings

MOST_ENTRIES = 200


def namespaces(client: Client, sampler: Sampler) -> list[dict[str, Any]]:
    """The namespaces, with what is in each.

    Args:
        client: the cluster.
        sampler: knows the streams.

    Returns:
        Of each `name`, `scope`, `streams`, `bytes`, `bytes_in` (of those that were looked at) and `key_values`, the
        names of its key-value tables.
    """
    sampler.streams()
    sampler.sample(())
    lines = sampler.lines()
    scopes = sorted(client.controller.list_scopes()) if sampler.scope is None else [sampler.scope]
    return [
        {
            "name": to_sql(scope),
            "scope": scope,
            "streams": len(own := [line for line in lines if line.stream.partition("/")[0] == scope]),
            "bytes": sum(line.bytes for line in own),
            "bytes_in": sum(line.bytes_in or 0 for line in own),
            "key_values": [{"name": f"{scope}/{name}", "table": f"{to_sql(scope)}.{to_sql(name)}"} for name in names],
        }
        for scope in scopes
        for names in [_key_values(client, scope)]
    ]


def entries(settings: Settings, table: Stream, count: int) -> dict[str, Any]:
    """Some entries of a key-value table.

    Args:
        settings: the connection.
        table: its scope and name.
        count: how many.

    Returns:
        `table`, `columns` (name, type, and whether it is of the key), `partitions`, `key_bytes`, `rows`, and `error`
        where they can't be shown.

    Raises:
        KeyValueTableNotFoundError: there is no such table.
    """
    definition = CatalogBase(settings).key_value(table)
    if definition is None:
        raise KeyValueTableNotFoundError(f'key-value table "{table}" does not exist')
    answer: dict[str, Any] = {
        "table": table_name(table),
        "columns": [
            {"name": one.name, "type": one.dataType.simpleString(), "key": one.name in definition.layout.names}
            for one in definition.schema
        ],
        "partitions": definition.configuration.partitions,
        "key_bytes": definition.configuration.key_bytes + definition.configuration.secondary_key_bytes,
        "rows": [],
        "error": None,
    }
    try:
        answer["rows"] = _entries(definition, max(1, min(count, MOST_ENTRIES)))
    except PravegaError as error:
        answer["error"] = str(error)
    return answer


def around(settings: Settings, client: Client, stream: Stream, counts: LetterCounts) -> dict[str, Any]:
    """Who needs a stream's old events, and where its bad ones go.

    Args:
        settings: the connection.
        client: the cluster.
        stream: the stream.
        counts: counts dead letters.

    Returns:
        `subscribers` (`name`; `version`, the last one that it has read, where it has said so, how many are `behind`
        that, and since when the first of them waits, `waits_since`, in ms since 1970), `cuts` (`name`, `created_at`),
        `letters` (the table of its dead letters: `stream`, `table`), `is_letters`, `waiting` (the dead letters that
        wait in it, or of it: `source`, `letters`, `since`), `waiting_error` (why they can't be counted) and `key`.
    """
    ledger = open_ledger(client, stream)
    holders = None if ledger is None else ledger.holders().look()
    versions = {} if holders is None else dict(holders.subscribers)
    names = sorted({*client.controller.subscribers(stream), *versions})
    cuts = {} if holders is None else holders.cuts
    answer: dict[str, Any] = {
        "subscribers": _subscribers(ledger, names, versions),
        "cuts": [{"name": name, "created_at": cut.created_at} for name, cut in sorted(cuts.items())],
        "letters": None,
        "is_letters": False,
        "waiting": [],
        "waiting_error": None,
        "key": [],
    }
    try:
        definition = definition_of(settings, stream)
    except PravegaError:
        return answer
    letters = definition.properties.bad_events
    if letters is not None:
        answer["letters"] = {"stream": str(letters), "table": table_name(letters)}
    answer["is_letters"] = set(definition.schema.fieldNames()) >= LETTERS
    answer["key"] = [] if definition.key is None else list(definition.key.columns)
    table = stream if answer["is_letters"] else letters
    try:
        waiting = {} if table is None else counts.waiting(table)
    except PravegaError as error:
        waiting, answer["waiting_error"] = {}, str(error)
    answer["waiting"] = [
        {"source": source, **asdict(some)}
        for source, some in sorted(waiting.items())
        if answer["is_letters"] or source == str(stream)
    ]
    return answer


def _subscribers(ledger: Ledger | None, names: Sequence[str], versions: Mapping[str, int]) -> list[dict[str, Any]]:
    last, times = 0, dict[int, int]()
    if ledger is not None and versions:
        last = ledger.state().version
        following = {version + 1 for version in versions.values()}
        times = {commit.version: commit.committed_at for commit in ledger.commits(sorted(following))}
    return [
        {
            "name": name,
            "version": version,
            "behind": None if version is None else max(0, last - version),
            "waits_since": None if version is None else times.get(version + 1),
        }
        for name in names
        for version in [versions.get(name)]
    ]


def _key_values(client: Client, scope: str) -> list[str]:
    try:
        return sorted(name for name in client.controller.list_key_value_tables(scope) if not is_internal(name))
    except (AuthenticationError, NotFoundError):
        return []


def _entries(definition: KeyValueDefinition, count: int) -> list[Cells]:
    rows: list[Cells] = []
    reader = KeyValueReader(definition, definition.schema.fieldNames(), Wanted(), limit=count)
    for partition in partitions_of(definition, Wanted()):
        for batch in reader.read(partition):
            rows += shown_rows(definition, batch.slice(0, count - len(rows)))
            if len(rows) >= count:
                return rows
    return rows
