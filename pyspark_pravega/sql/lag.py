"""`pravega-spark lag`: how far a streaming query is behind, from its checkpoint."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from pyspark_pravega.client import Client
from pyspark_pravega.connector.stream import SegmentLag, SourceOffset, StreamFrontier, lag_of, summary
from pyspark_pravega.errors import ConfigurationError
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
    lag.add_argument("checkpoint", metavar="CHECKPOINT", help="a query's checkpointLocation, on this machine")
    lag.add_argument("--json", action="store_true", help="as JSON, a line for each stream")
    add_connection(lag)
    lag.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the lag of each stream that a checkpoint is about."""
    batch, offsets = read_checkpoint(_folder(arguments.checkpoint))
    with Client(resolve_settings(arguments).at_a_glance) as client:
        lags_by_stream = []
        for offset in offsets:
            for stream, position in offset.items():
                parts = StreamFrontier(client, stream).behind(position)
                lags_by_stream.append((str(stream), lag_of(client, parts.values())))
    for name, lags in lags_by_stream:
        figures = summary(lags)
        if arguments.json:
            print(json.dumps({"stream": name, "batch": batch, **{key: float(value) for key, value in figures.items()}}))
        else:
            print(_table(name, batch, lags, figures))
    return 0


def read_checkpoint(folder: Path) -> tuple[int, list[SourceOffset]]:
    """What a streaming query has committed of Pravega's streams.

    Args:
        folder: the query's checkpoint.

    Returns:
        The number of the last micro-batch that the query has committed, and its end in each of its Pravega sources.

    Raises:
        ConfigurationError: it is no checkpoint, no batch has been committed, or no Pravega stream is in it.
    """
    if not (folder / "offsets").is_dir():
        raise ConfigurationError(f"{folder} is no checkpoint of a streaming query: it has no folder offsets")
    committed = _batches(folder / "commits")
    if not committed:
        raise ConfigurationError(f"the query of checkpoint {folder} has committed no micro-batch yet")
    batch = max(committed & _batches(folder / "offsets"), default=-1)
    if batch < 0:
        raise ConfigurationError(f"checkpoint {folder} lacks the offsets of the micro-batches that it has committed")
    # A version, a line of Spark's own, and then a line for each source.
    lines = (folder / "offsets" / str(batch)).read_text().splitlines()[2:]
    offsets = [SourceOffset.from_json(line) for line in lines if _is_ours(line)]
    if not offsets:
        raise ConfigurationError(f"the query of checkpoint {folder} reads no Pravega stream")
    return batch, offsets


def _folder(text: str) -> Path:
    url = urlsplit(text)
    if url.scheme not in ("", "file"):
        raise ConfigurationError(f"the checkpoint must be a folder on this machine, not {text}: copy it here first")
    return Path(unquote(url.path) if url.scheme else text)


def _batches(folder: Path) -> set[int]:
    return {int(file.name) for file in folder.iterdir() if file.name.isdecimal()} if folder.is_dir() else set()


def _is_ours(line: str) -> bool:
    try:
        content = json.loads(line)
    except ValueError:
        return False
    return isinstance(content, dict) and {"version", "streams"} <= content.keys()


def _table(name: str, batch: int, lags: list[SegmentLag], figures: dict[str, str]) -> str:
    lines = [f"{name}, after micro-batch {batch}:", f"  {'':10}{'total':>14}{'min':>14}{'avg':>14}{'max':>14}"]
    for what in ("Bytes", "Events"):
        cells = [_number(figures[f"{kind}{what}BehindLatest"]) for kind in ("total", "min", "avg", "max")]
        lines.append(f"  {what.lower():10}" + "".join(f"{cell:>14}" for cell in cells))
    lines.append(f"  over {len(lags)} segment{'' if len(lags) == 1 else 's'}; events are estimated beyond 64 KiB")
    return "\n".join(lines)


def _number(text: str) -> str:
    return f"{float(text):,.1f}" if "." in text else f"{int(text):,}"
