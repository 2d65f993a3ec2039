"""Statistics of columns as the commit log keeps them, and which of them hold for a table as it is now."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Any

from pyspark_pravega.client import Stream
from pyspark_pravega.connector.log import Ledger
from pyspark_pravega.connector.table import TableDefinition
from pyspark_pravega.serde.formats import REGISTERED, registered_schema

MOST_COLUMNS, MOST_BYTES = 1_000, 400_000
"""Of a table's statistics that are kept: a server keeps no more than a megabyte in an entry."""
_KNOWN = 200
"""Tables whose statistics are kept in memory."""


@dataclass(frozen=True, kw_only=True)
class ColumnStatistics:
    """What is known of a column's values. They are as JSON has them: dates as days and timestamps as microseconds since
    1970, DECIMAL, FLOAT and DOUBLE as texts, BINARY in hexadecimal, long texts and bytes cut.
    """

    version: int
    """The table's last version when they were taken; 0 for none."""
    rows: int
    """How many the table had then."""
    nulls: int
    """How many of these were null."""
    distinct: int | None = None
    """About how many different values there were; None where that isn't known."""
    least: Any = None
    """The least value; None where there is none, or values have no order here."""
    greatest: Any = None
    length: float | None = None
    """How many bytes a value of TEXT or BINARY has on average; None of other types."""
    longest: int | None = None
    """How many bytes the longest one has."""
    common: tuple[tuple[Any, float], ...] = ()
    """Values that many rows have, and the share of the table's rows that has each."""
    bounds: tuple[Any, ...] = ()
    """In their order, values between which as many of the other rows lie each time."""


@dataclass(frozen=True, kw_only=True)
class TableStatistics:
    """What is known of a table's rows."""

    version: int
    """The table's last version when its rows were counted last; 0 for none."""
    rows: int
    """How many there were then."""
    events: int | None
    """How many events they were made of, about; None where that isn't known."""
    bytes: int
    """How many bytes of the stream and of the lake these had."""
    columns: Mapping[str, ColumnStatistics]
    """By the columns' keys, as of `column_keys`; as of `of_columns` by their names."""

    def of_columns(self, keys: Mapping[str, str]) -> TableStatistics:
        """The same with the columns that a table has.

        Args:
            keys: by the columns' names.
        """
        there = {name: self.columns[key] for name, key in keys.items() if key in self.columns}
        return replace(self, columns=there)


def column_keys(definition: TableDefinition) -> dict[str, str]:
    """What statistics of a table's columns are kept under: by what events know a column, and its type. So a column that
    is renamed keeps its own, and one that comes back, or gets another type, has none.

    Args:
        definition: what the stream is as a table.
    """
    ids: Mapping[tuple[str, ...], str] = {}
    if definition.registered is not None and definition.format in REGISTERED:
        schema, _ = definition.registered
        ids = registered_schema(schema.serialization_format, schema.type, schema.schema_data).field_ids()
    return {
        field.name: f"{ids.get((field.name,), field.name)} {field.dataType.simpleString()}"
        for field in definition.schema
    }


def note_statistics(ledger: Ledger, taken: TableStatistics, there: frozenset[str]) -> None:
    """Keep statistics. Those of columns of which none were taken stay.

    Args:
        ledger: the stream's commit log.
        taken: what is new.
        there: the keys of the columns that the table has.
    """

    def changed(before: Mapping[str, Any] | None) -> dict[str, Any]:
        known = (
            _statistics(before).columns if before is not None and not _is_replaced(ledger, before["version"]) else {}
        )
        columns = {key: one for key, one in known.items() if key in there} | dict(taken.columns)
        return _content(replace(taken, columns=columns))

    ledger.statistics().change(changed)


def statistics_of(definition: TableDefinition, ledger: Ledger | None) -> TableStatistics | None:
    """The statistics of a table, with the columns that it has by now.

    Args:
        definition: what the stream is as a table.
        ledger: the stream's commit log, if it has one.

    Returns:
        None where there are none, or others have taken the place of the rows of which they were taken.
    """
    if ledger is None or definition.analyzed is None or definition.is_changes or definition.is_log:
        return None
    kept = _kept_of(definition.settings.controller_uri, definition.stream, definition.analyzed)
    statistics = kept.read(ledger)
    if statistics is None or kept.is_replaced(ledger, definition.replaced_rows):
        return None
    return statistics.of_columns(column_keys(definition))


@dataclass
class _Kept:
    """Statistics of a table. They never change: newer ones have another id."""

    controller_uri: str
    stream: Stream
    id: str
    statistics: TableStatistics | None = None
    replaced: tuple[int, bool] = (0, False)
    """Up to which replacement of all rows it is known whether their rows were replaced, and whether they were."""

    def read(self, ledger: Ledger) -> TableStatistics | None:
        if self.statistics is None:
            read = ledger.statistics().read()
            self.statistics = None if read is None else _statistics(read[1])
        return self.statistics

    def is_replaced(self, ledger: Ledger, last: int) -> bool:
        assert self.statistics is not None
        if last > self.replaced[0]:
            self.replaced = last, _is_replaced(ledger, self.statistics.version, last)
        return self.replaced[1]


_kept_of = lru_cache(maxsize=_KNOWN)(_Kept)


def _is_replaced(ledger: Ledger, version: int, last: int | None = None) -> bool:
    """Whether others have taken the place of the rows that a table had at a version.

    Args:
        ledger: the stream's commit log.
        version: the version.
        last: the last version that took the place of all rows, be it with the same ones, as a compaction does.
    """
    last = ledger.state().replaced_rows if last is None else last
    while last > version:
        commits = ledger.commits([last])
        if not commits or commits[0].base is None:
            return True
        last = commits[0].replaced
    return False


def _content(statistics: TableStatistics) -> dict[str, Any]:
    """As JSON keeps it, up to a size: of the last columns first the values go, and then all."""
    columns: dict[str, Any] = {}
    left = MOST_BYTES
    for key, one in list(statistics.columns.items())[-MOST_COLUMNS:]:
        content = {name: value for name, value in asdict(one).items() if value not in (None, (), [])}
        size = len(json.dumps(content)) + len(key)
        if size > left:
            content = {name: value for name, value in content.items() if name not in ("common", "bounds")}
            size = len(json.dumps(content)) + len(key)
        if size <= left:
            columns[key], left = content, left - size
    return {**vars(statistics), "columns": columns}


def _statistics(content: Mapping[str, Any]) -> TableStatistics:
    columns = {key: _column(one) for key, one in content["columns"].items()}
    return TableStatistics(**{**content, "columns": columns})


def _column(content: Mapping[str, Any]) -> ColumnStatistics:
    common = tuple((value, share) for value, share in content.get("common", ()))
    return ColumnStatistics(**{**content, "common": common, "bounds": tuple(content.get("bounds", ()))})
