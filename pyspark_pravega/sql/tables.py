"""`pravega-spark create` and `pravega-spark scale`."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from pyspark_pravega.catalog.names import to_sql
from pyspark_pravega.connector.shared import shared_client
from pyspark_pravega.errors import ConfigurationError, StreamNotFoundError
from pyspark_pravega.spark import needed
from pyspark_pravega.sql.columns import parse_columns
from pyspark_pravega.sql.commands import add_connection, resolve_settings
from pyspark_pravega.sql.completion import completes_tables
from pyspark_pravega.sql.streams import named_stream, not_there

if TYPE_CHECKING:
    from argparse import _SubParsersAction


def register(subparsers: _SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the commands.

    Args:
        subparsers: where to add them.
    """
    create = subparsers.add_parser(
        "create",
        description="Makes a table. Example: pravega-spark create shop.orders 'id BIGINT, customer STRING' "
        "--segments 4 --routing-key customer --property retention='7 days'",
    )
    create.add_argument("table", metavar="TABLE", help="namespace.table, or scope/stream")
    create.add_argument("columns", metavar="COLUMNS", help="as in CREATE TABLE, with types, NOT NULL and COMMENT")
    create.add_argument("--segments", metavar="NUMBER", help="how many segments the stream has (default: 1)")
    create.add_argument("--format", metavar="FORMAT", help="how events hold rows (default: avro)")
    create.add_argument("--primary-key", metavar="COLUMNS", help="the key of which there is one row")
    create.add_argument("--routing-key", metavar="COLUMN", help="rows of one value of it keep their order")
    create.add_argument(
        "--property",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a table property, as in TBLPROPERTIES; repeatable",
    )
    add_connection(create)
    create.set_defaults(run=run_create)
    scale = subparsers.add_parser(
        "scale",
        description="Gives a stream another number of segments, while it is written and read. "
        "Example: pravega-spark scale shop.orders 8",
    )
    completes_tables(scale.add_argument("table", metavar="TABLE", help="namespace.table, or scope/stream"))
    scale.add_argument("segments", metavar="SEGMENTS", type=int, help="how many")
    scale.add_argument("--json", action="store_true", help="as one JSON object: the segments and their parts of keys")
    add_connection(scale)
    scale.set_defaults(run=run_scale)


def run_create(arguments: argparse.Namespace) -> int:
    """Make a table."""
    needed("pravega-spark create")
    from pyspark_pravega.catalog.catalog import Catalog

    settings = resolve_settings(arguments)
    stream = named_stream(arguments.table, settings.scope, arguments.catalog)
    columns, properties = parse_columns(arguments.columns), _properties(arguments)
    catalog = Catalog(settings)
    is_new = not catalog.client.controller.scope_exists(stream.scope)
    if is_new:
        catalog.namespaces.create([to_sql(stream.scope)], {})
    catalog.relations.create([stream.scope], stream.name, columns, [], properties)
    namespace = f", and its namespace {to_sql(stream.scope)}, which was not there" if is_new else ""
    print(f"{to_sql(stream.scope)}.{to_sql(stream.name)} is made{namespace}")
    return 0


def run_scale(arguments: argparse.Namespace) -> int:
    """Scale a stream."""
    settings = resolve_settings(arguments)
    stream = named_stream(arguments.table, settings.scope, arguments.catalog)
    client = shared_client(settings)
    try:
        before = len(client.controller.current_segments(stream).ids)
        after = client.controller.scale_to(stream, arguments.segments)
    except StreamNotFoundError as error:
        raise not_there(client, stream, error) from None
    name = f"{to_sql(stream.scope)}.{to_sql(stream.name)}"
    if arguments.json:
        ranges = [{"segment": one.segment_id, "min_key": one.min_key, "max_key": one.max_key} for one in after.ranges]
        print(json.dumps({"table": name, "before": before, "segments": ranges}))
    else:
        print(f"{name}: {before} -> {len(after.ids)} segments")
    return 0


def _properties(arguments: argparse.Namespace) -> dict[str, str]:
    properties = {}
    for text in arguments.property:
        name, mark, value = text.partition("=")
        if not mark or not name.strip():
            raise ConfigurationError(
                f"--property must be NAME=VALUE, as in --property retention='7 days', not \"{text}\""
            )
        properties[name.strip()] = value.strip()
    for name in ("segments", "format", "primary-key", "routing-key"):
        value = getattr(arguments, name.replace("-", "_"))
        if value is not None:
            properties[name] = value
    return properties
