"""`pravega-spark tier`: rows of tables with a lake go there, once or every so often."""

from __future__ import annotations

import argparse
import json
import signal
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from pyspark_pravega.catalog.names import to_sql
from pyspark_pravega.client import Client, Stream
from pyspark_pravega.connector.lake import TierReport, tier
from pyspark_pravega.connector.log import open_ledger
from pyspark_pravega.connector.shared import shared_client
from pyspark_pravega.connector.table import LAKE
from pyspark_pravega.errors import ConfigurationError, PravegaError, StreamNotFoundError, UnavailableError
from pyspark_pravega.lake import PREFIX, LakeConfiguration, load_iceberg
from pyspark_pravega.settings import Settings
from pyspark_pravega.sql.commands import add_connection, resolve_settings, tell
from pyspark_pravega.sql.completion import completes_tables
from pyspark_pravega.sql.streams import named_stream, not_there
from pyspark_pravega.values import duration

if TYPE_CHECKING:
    from argparse import _SubParsersAction


def register(subparsers: _SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command.

    Args:
        subparsers: where to add it.
    """
    parser = subparsers.add_parser(
        "tier",
        description="Puts the rows of older versions into the lake, as CALL tier does, of all tables that have one or "
        "of some. Example: pravega-spark tier --every 1m --lake warehouse=/data/lake",
    )
    completes_tables(
        parser.add_argument(
            "table", nargs="*", metavar="TABLE", help="namespace.table, or scope/stream (default: all with a lake)"
        )
    )
    parser.add_argument("--every", metavar="TIME", help="goes on, so often, until SIGTERM or Ctrl-C (default: once)")
    parser.add_argument(
        "--lake",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="where the lake is: what spark.sql.catalog.pravega.lake.NAME is in Spark; repeatable",
    )
    parser.add_argument("--json", action="store_true", help="a line of JSON for each table whose rows went there")
    add_connection(parser)
    parser.set_defaults(run=run_tier)


def run_tier(arguments: argparse.Namespace) -> int:
    """Tier tables; 1 where one can't be, unless it goes on."""
    every_s = None if arguments.every is None else duration("--every", arguments.every)
    if every_s is not None and every_s < 1:
        raise ConfigurationError(f"--every must be 1s or more, not {arguments.every}")
    configuration = LakeConfiguration.of(_options(arguments.lake))
    load_iceberg()
    settings = resolve_settings(arguments)
    client, ended = shared_client(settings), threading.Event()
    named = [named_stream(table, settings.scope, arguments.catalog) for table in arguments.table]
    for stream in named:
        if not client.controller.stream_exists(stream):
            raise not_there(client, stream, StreamNotFoundError(f'stream "{stream}" does not exist'))
    before = [(number, signal.signal(number, lambda *_: ended.set())) for number in (signal.SIGTERM, signal.SIGINT)]
    try:
        while True:
            begun = time.monotonic()
            is_well = _round(settings, configuration, named, ended, as_json=arguments.json)
            if ended.is_set():
                return 0
            if every_s is None:
                return 0 if is_well else 1
            if ended.wait(max(0.0, every_s - (time.monotonic() - begun))):
                return 0
    finally:
        for number, handler in before:
            signal.signal(number, handler)


def _round(
    settings: Settings,
    configuration: LakeConfiguration,
    named: Sequence[Stream],
    ended: threading.Event,
    *,
    as_json: bool,
) -> bool:
    """Tier each table once; whether all could be."""
    is_well = True
    try:
        streams, failures = (named, []) if named else _with_lake(shared_client(settings))
    except PravegaError as error:
        tell(error)
        return False
    for failure in failures:
        tell(failure)
        is_well = False
    for stream in streams:
        if ended.is_set():
            break
        try:
            report = tier(settings, configuration, stream, ended.is_set)
        except StreamNotFoundError as error:
            if named:
                tell(error)
                is_well = False
        except PravegaError as error:
            tell(error)
            is_well = False
        else:
            if report.files or report.rows:
                _show(stream, report, as_json=as_json)
    return is_well


def _with_lake(client: Client) -> tuple[list[Stream], list[PravegaError]]:
    """All tables whose property `lake` is set, and what is wrong with those of which that can't be told."""
    streams, failures = [], []
    for scope in sorted(client.controller.list_scopes()):
        for name in sorted(client.controller.list_streams(scope)):
            try:
                ledger = open_ledger(client, Stream(scope, name))
                # One may be dropped meanwhile.
                if ledger is not None and LAKE in ledger.properties():
                    streams.append(ledger.stream)
            except UnavailableError:
                raise
            except PravegaError as error:
                failures.append(error)
    return streams, failures


def _show(stream: Stream, report: TierReport, *, as_json: bool) -> None:
    name = f"{to_sql(stream.scope)}.{to_sql(stream.name)}"
    if as_json:
        print(json.dumps({"table": name, **asdict(report)}), flush=True)
    else:
        print(
            f"{name}: up to version {report.version} in the lake, {report.rows:,} rows more in {report.files} files "
            f"at {report.location}; the stream has the events from version {report.kept_from} on",
            flush=True,
        )


def _options(texts: Sequence[str]) -> Mapping[str, str]:
    options = {}
    for text in texts:
        name, mark, value = text.partition("=")
        if not mark or not name.strip():
            raise ConfigurationError(f'--lake must be NAME=VALUE, as in --lake warehouse=/data/lake, not "{text}"')
        options[name.strip().removeprefix(PREFIX)] = value
    return options
