"""CHANGES in a Spark's own words, and by the table `t$changes` where it has none."""

from __future__ import annotations

from pyspark.sql import DataFrame, DataFrameReader
from pyspark.sql.streaming.readwriter import DataStreamReader
from since import is_missing

_WORDS = not is_missing("4.2")


def changes_in(table: str, first: int, last: int | None = None) -> str:
    """What a FROM says.

    Args:
        table: its name in SQL.
        first: the first version.
        last: the last one; None for all that there are.
    """
    if _WORDS:
        return f"{table} CHANGES FROM VERSION {first}" + ("" if last is None else f" TO VERSION {last}")
    end = "" if last is None else f", endingVersion = {last}"
    return f"{_named(table)} WITH (startingVersion = {first}{end})"


def changes_by(reader: DataFrameReader | DataStreamReader, table: str) -> DataFrame:
    """The same by the DataFrame API, in a batch or as a stream.

    Args:
        reader: with its options, which are the same both ways.
        table: its name in SQL.
    """
    return reader.changes(table) if _WORDS else reader.table(_named(table))


def _named(table: str) -> str:
    namespace, _, name = table.rpartition(".")
    return f"{namespace}.`{name.strip('`')}$changes`"
