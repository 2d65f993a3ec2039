"""`pravega-spark lag`: how far a streaming query is behind, from its checkpoint."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from pyspark_pravega.client import Client
from pyspark_pravega.connector.log import open_ledger
from pyspark_pravega.connector.stream import SegmentLag, StreamFrontier, lag_of, summary, versions_behind
from pyspark_pravega.sql.checkpoints import Folder, read_checkpoint
from pyspark_pravega.sql.commands import add_connection, resolve_settings

if TYPE_CHECKING:
    from argparse import _SubParsersAction


def register(subparsers: _SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command.

    Args:
        subparsers: where to add it.
    """
    lag = subparsers.add_parser(
        "lag",
        description="Reads a streaming query's checkpoint, and tells what of its streams it hasn't committed yet. "
        "Example: pravega-spark lag /data/checkpoints/orders --json",
    )
    lag.add_argument(
        "checkpoint",
        metavar="CHECKPOINT",
        help="a query's checkpointLocation: a folder of this machine, or s3a://..., hdfs://...",
    )
    lag.add_argument("--json", action="store_true", help="as JSON, a line for each stream")
    add_connection(lag)
    lag.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the lag of each stream that a checkpoint is about."""
    committed = read_checkpoint(Folder.parse(arguments.checkpoint))
    with Client(resolve_settings(arguments).at_a_glance) as client:
        lags_by_stream = []
        for offset in committed.offsets:
            for stream, position in offset.items():
                parts = StreamFrontier(client, stream).behind(position)
                lags_by_stream.append((str(stream), lag_of(client, parts.values())))
        ledgers = [(offset, open_ledger(client, offset.stream)) for offset in committed.changes]
        behind = [(offset, versions_behind(ledger, offset.commit)) for offset, ledger in ledgers if ledger is not None]
    for name, lags in lags_by_stream:
        figures = summary(lags)
        if arguments.json:
            numbers = {key: float(value) for key, value in figures.items()}
            print(json.dumps({"stream": name, "batch": committed.batch, **numbers}))
        else:
            print(_table(name, committed.batch, lags, figures))
    for one, changes in behind:
        if arguments.json:
            numbers = {name: float(number) for name, number in changes.figures().items()}
            print(json.dumps({"stream": str(one.stream), "batch": committed.batch, **numbers}))
        else:
            print(f"CHANGES of {one.stream}, after micro-batch {committed.batch}, which has read version {one.commit}:")
            counts = {"version": changes.versions, "byte": changes.bytes, "event": changes.events}
            words = [f"{count:,} {what}{'' if count == 1 else 's'}" for what, count in counts.items()]
            print(f"  {', '.join(words)} behind")
    return 0


def _table(name: str, batch: int, lags: list[SegmentLag], figures: dict[str, str]) -> str:
    lines = [f"{name}, after micro-batch {batch}:", f"  {'':10}{'total':>14}{'min':>14}{'avg':>14}{'max':>14}"]
    for what in ("Bytes", "Events"):
        cells = [_number(figures[f"{kind}{what}BehindLatest"]) for kind in ("total", "min", "avg", "max")]
        lines.append(f"  {what.lower():10}" + "".join(f"{cell:>14}" for cell in cells))
    lines.append(f"  over {len(lags)} segment{'' if len(lags) == 1 else 's'}; events are estimated beyond 64 KiB")
    return "\n".join(lines)


def _number(text: str) -> str:
    return f"{float(text):,.1f}" if "." in text else f"{int(text):,}"
