"""How statistics of columns are taken: what Spark is asked in one statement, and what its answer means.

Numbers of rows, nulls and different values, the least and the greatest value are of all rows. Frequent values, and
those between which the others lie, are of some rows that are chosen by chance.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pyspark_pravega.connector.index import is_ordered, literal
from pyspark_pravega.connector.statistics.kept import ColumnStatistics
from pyspark_pravega.connector.statistics.shares import PREFIX
from pyspark_pravega.connector.table import TableDefinition
from pyspark_pravega.errors import InvalidNameError, did_you_mean
from pyspark_pravega.spark.types import (
    BinaryType,
    BooleanType,
    CharType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    StringType,
    StructField,
    TimestampNTZType,
    TimestampType,
    VarcharType,
)

MOST_CHOSEN, LEAST_CHOSEN, _MOST_VALUES = 4096, 512, 400_000
"""How many rows are chosen, about: of many columns fewer, as all of their values come in one row."""
_MOST_COMMON, _PARTS = 64, 32
"""How many frequent values are kept of a column, and into how many parts of equal numbers the others are."""
_LEAST_COUNT, _LEAST_SHARE = 8, 0.005
"""How often a value of many must be there to be a frequent one: among those chosen, and as a share of them."""
_TEXTS = (StringType, CharType, VarcharType)
_EPOCH = "TIMESTAMP_NTZ '1970-01-01 00:00:00'"


def analyzed_columns(definition: TableDefinition, names: Sequence[str] | None) -> list[StructField]:
    """The columns of which statistics are wanted.

    Args:
        definition: what the stream is as a table.
        names: as they were given; None for all.

    Raises:
        InvalidNameError: one isn't there.
    """
    if names is None:
        return list(definition.schema)
    known = {one.name.lower(): one for one in definition.schema}
    columns = []
    for name in dict.fromkeys(names):
        column = known.get(str(name).lower())
        if column is None:
            raise InvalidNameError(
                f'"{name}" is not a column of stream "{definition.stream}"'
                f"{did_you_mean(str(name), definition.schema.fieldNames())}"
            )
        columns.append(column)
    return list({one.name: one for one in columns}.values())


def question(table: str, columns: Sequence[StructField], rows: int | None) -> str:
    """What Spark is asked: a statement with one row as its answer.

    Args:
        table: its name in SQL.
        columns: those of which statistics are wanted.
        rows: about how many the table has, or more; None where that isn't known.
    """
    wanted = max(LEAST_CHOSEN, min(MOST_CHOSEN, _MOST_VALUES // max(1, len(columns))))
    share = 1.0 if not rows else min(1.0, wanted / rows)
    chosen = "true" if share == 1.0 else f"rand() < {share:.6e}D"
    inner = [f"`{one.name.replace('`', '``')}` AS c{at}" for at, one in enumerate(columns)]
    outer = ["count(1) AS total", "count_if(chosen) AS chosen"]
    for at, one in enumerate(columns):
        outer.extend(_asked(at, one.dataType))
    return f"SELECT {', '.join(outer)} FROM (SELECT {', '.join([*inner, f'{chosen} AS chosen'])} FROM {table})"


def statistics_in(
    answer: Mapping[str, Any], columns: Sequence[StructField], version: int
) -> list[tuple[ColumnStatistics, str | None, str | None]]:
    """What Spark has answered.

    Args:
        answer: the row, without fields that are null.
        columns: as of `question`.
        version: the table's last version when it was asked; 0 for none.

    Returns:
        For each column its statistics, and its least and greatest value as SQL shows them.
    """
    return [
        (
            _statistics(answer, at, one.dataType, version),
            answer.get(f"least_text{at}"),
            answer.get(f"greatest_text{at}"),
        )
        for at, one in enumerate(columns)
    ]


def _asked(at: int, kind: DataType) -> Iterable[str]:
    column = f"c{at}"
    yield f"count({column}) AS valued{at}"
    if isinstance(kind, StringType) or is_ordered(kind):
        yield f"approx_count_distinct({column}) AS distinct{at}"
    if isinstance(kind, (*_TEXTS, BinaryType)):
        yield f"avg(octet_length({column})) AS length{at}"
        yield f"max(octet_length({column})) AS longest{at}"
    if is_ordered(kind):
        for name, least in (("least", f"min({column})"), ("greatest", f"max({column})")):
            yield f"{_shown(least, kind)} AS {name}{at}"
            text = _shown(least, kind) if isinstance(kind, (*_TEXTS, BinaryType)) else f"CAST({least} AS STRING)"
            yield f"{text} AS {name}_text{at}"
        yield f"collect_list({_shown(column, kind)}) FILTER (WHERE chosen) AS values{at}"


def _shown(value: str, kind: DataType) -> str:
    """A value as `ColumnStatistics` has it, in SQL."""
    if isinstance(kind, BooleanType):
        return f"CAST({value} AS INT)"
    if isinstance(kind, DateType):
        return f"unix_date({value})"
    if isinstance(kind, TimestampType):
        return f"unix_micros({value})"
    if isinstance(kind, TimestampNTZType):
        return f"timestampdiff(MICROSECOND, {_EPOCH}, {value})"
    if isinstance(kind, DecimalType | FloatType | DoubleType):
        return f"CAST({value} AS STRING)"
    if isinstance(kind, BinaryType):
        return f"hex(substring({value}, 1, {PREFIX}))"
    return f"left({value}, {PREFIX})" if isinstance(kind, _TEXTS) else value


def _statistics(answer: Mapping[str, Any], at: int, kind: DataType, version: int) -> ColumnStatistics:
    rows, valued = answer["total"], answer[f"valued{at}"]
    distinct = answer.get(f"distinct{at}")
    least, greatest = answer.get(f"least{at}"), answer.get(f"greatest{at}")
    values = [value for value in answer.get(f"values{at}", ()) if literal(value, kind) is not None]
    if distinct is not None:
        # It is an estimate, and the values that were seen are there.
        distinct = min(valued, max(distinct, len({literal(value, kind) for value in values})))
    common, others = _split(values, answer["chosen"], distinct or 0, kind)
    return ColumnStatistics(
        version=version,
        rows=rows,
        nulls=rows - valued,
        distinct=distinct,
        least=least,
        greatest=greatest,
        length=answer.get(f"length{at}"),
        longest=answer.get(f"longest{at}"),
        common=common,
        bounds=_bounds(others, kind),
    )


def _split(
    values: Sequence[Any], chosen: int, distinct: int, kind: DataType
) -> tuple[tuple[tuple[Any, float], ...], list[Any]]:
    """Frequent values with their shares, and the others."""
    shown = {literal(value, kind): value for value in values}
    counts = Counter(literal(value, kind) for value in values).most_common()
    least = 1 if distinct <= _MOST_COMMON else max(_LEAST_COUNT, chosen * max(_LEAST_SHARE, 2 / distinct))
    common = [(value, count) for value, count in counts[:_MOST_COMMON] if count >= least]
    frequent = {value for value, _ in common}
    others = [value for value in values if literal(value, kind) not in frequent]
    return tuple((shown[value], float(f"{count / chosen:.4g}")) for value, count in common), others


def _bounds(values: Sequence[Any], kind: DataType) -> tuple[Any, ...]:
    order: dict[Any, Any] = {value: literal(value, kind) for value in values}
    ordered = sorted(values, key=order.__getitem__)
    parts = min(_PARTS, len(ordered) - 1)
    if parts < 1:
        return ()
    return tuple(ordered[math.floor(at * (len(ordered) - 1) / parts + 0.5)] for at in range(parts + 1))
