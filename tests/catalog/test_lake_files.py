"""Files of the lake: what lies in their row groups, and which of them a query passes over."""

from __future__ import annotations

import datetime as dt
import math
import operator
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from catalog_tools import plan
from lake_tools import Table, turns
from pyspark.sql import types as t

from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.catalog.ddl import Bucket
from pyspark_pravega.catalog.plans.scans import ScanRequest, plan_scan
from pyspark_pravega.connector.predicates import Predicate
from pyspark_pravega.connector.write import WriteJob
from pyspark_pravega.spark.arrow import to_arrow_schema

pytestmark = pytest.mark.server

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
MICROSECOND = dt.timedelta(microseconds=1)
TYPES: dict[str, tuple[t.DataType, Callable[[int], Any], Callable[[Any], Any]]] = {
    "truth": (t.BooleanType(), lambda n: n >= 300, lambda v: v),
    "tiny": (t.ByteType(), lambda n: n // 5 - 60, int),
    "short": (t.ShortType(), lambda n: 10 * n - 3000, int),
    "int": (t.IntegerType(), lambda n: 1000 * n - 300_000, int),
    "long": (t.LongType(), lambda n: (n - 300) << 50, int),
    "float": (t.FloatType(), lambda n: math.nan if n % 50 == 7 else (n - 300) / 4, float),
    "double": (t.DoubleType(), lambda n: math.nan if n == 7 else (n - 300) / 8, float),
    "decimal": (t.DecimalType(9, 2), lambda n: Decimal(n - 300).quantize(Decimal("0.01")), str),
    "wide": (t.DecimalType(38, 6), lambda n: Decimal(f"{n - 300}{'1' * 26}.000001"), str),
    "text": (t.StringType(), lambda n: f"{'tö' * 20}{n:05}", str),
    "word": (t.VarcharType(9), lambda n: f"{n:05}\U0001f600", str),
    "bytes": (t.BinaryType(), lambda n: n.to_bytes(4, "big"), bytes.hex),
    "day": (t.DateType(), lambda n: dt.date(1970, 1, 1) + dt.timedelta(n - 300), lambda v: (v - EPOCH.date()).days),
    "at": (t.TimestampType(), lambda n: EPOCH + dt.timedelta(hours=n - 300), lambda v: (v - EPOCH) // MICROSECOND),
    "local": (
        t.TimestampNTZType(),
        lambda n: EPOCH.replace(tzinfo=None) + dt.timedelta(hours=n - 300),
        lambda v: (v - EPOCH.replace(tzinfo=None)) // MICROSECOND,
    ),
}
"""By column: its type, its value by a number with which it rises, and a value as a predicate tells it."""
COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class Typed(Table):
    """A table with a column of each type."""

    def __init__(self, catalog: Catalog, scope: str, folder: Path, **properties: str) -> None:
        super().__init__(catalog, scope, folder, **properties)
        fields = [t.StructField("id", t.LongType(), False)]
        fields += [t.StructField(name, kind, True) for name, (kind, *_) in TYPES.items()]
        buckets = [Bucket(columns=("id",), buckets=2)]
        self.stream = self.catalog.tables.create(
            [scope], "typed", t.StructType(fields), buckets, self.properties
        ).stream

    def put(self, first: int, last: int) -> None:
        """Commit the rows of some numbers; some have nulls."""
        definition = self.catalog.definition(self.stream, age_s=0)
        kinds = {field.name: field for field in to_arrow_schema(definition.schema, timezone="UTC")}
        columns: dict[str, Any] = {"id": list(range(first, last))}
        for name in TYPES:
            columns[name] = [self.value(name, number) for number in range(first, last)]
        arrays = {name: pa.array(values, kinds[name].type) for name, values in columns.items()}
        job = WriteJob(plan(definition))
        job.commit_job([job.write_task(iter([pa.record_batch(arrays)]))])

    def value(self, name: str, number: int) -> Any:
        """A column's value."""
        return None if number % 40 == 11 else TYPES[name][1](number)

    def ids(self, *predicates: Predicate) -> list[int]:
        """Those of the rows that are read."""
        definition = self.catalog.definition(self.stream, age_s=600)
        reader: Any = plan_scan(definition, ScanRequest(columns=("id",), predicates=predicates)).reader
        return sorted(
            row["id"] for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()
        )


def holds(comparison: str, value: Any, other: Any) -> bool:
    """A comparison as Spark makes it: NaN equals itself, and is greater than all other numbers."""
    if value is None:
        return False
    if isinstance(value, float):
        value, other = ((math.isnan(one), 0 if math.isnan(one) else one) for one in (value, other))
    return COMPARISONS[comparison](value, other)


@pytest.mark.in_turn
def test_what_is_passed_over_has_no_wanted_rows_of_any_type(
    catalog: Catalog, scope: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what is wanted is most of what is read, by files and by row groups."""
    turns(monkeypatch, 4000)
    table = Typed(catalog, scope, tmp_path, **{"lake-row-group-size": "4 KiB"})
    total = 600
    for first in range(0, total, 60):
        table.put(first, first + 60)
        if first in (180, 540):
            table.tier()
    assert table.ids() == list(range(total))
    wrong, slow = [], []
    for name, (_, of, told) in TYPES.items():
        for comparison in COMPARISONS:
            for number in (0, 7, 299, 420, 601):
                other = of(number) if name != "bytes" or number >= 0 else b""
                predicate = Predicate(column=name, comparison=comparison, values=(told(other),))
                read = table.ids(predicate)
                wanted = {id for id in range(total) if holds(comparison, table.value(name, id), other)}
                if len(set(read)) < len(read) or not wanted <= set(read):
                    wrong.append((name, comparison, number))
                is_sharp = name != "truth" and not (isinstance(other, float) and math.isnan(other))
                is_sharp = is_sharp and not (comparison in (">", ">=") and isinstance(other, float))
                if is_sharp and len(read) > len(wanted) + 180:
                    slow.append((name, comparison, number, len(wanted), len(read)))
        values = tuple(told(of(number)) for number in (121, 122, 135))
        assert set(table.ids(Predicate(column=name, comparison="IN", values=values))) >= {121, 122, 135}
    assert not wrong
    assert not slow


def test_row_groups_are_narrow_in_time(
    catalog: Catalog, scope: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many little versions, and one large one, of several segments; a scale in between."""
    turns(monkeypatch, 400)
    table = Table(catalog, scope, tmp_path, **{"lake-row-group-size": "2 KiB", "lake-file-size": "4 KiB"})
    for step in range(12):
        table.insert(1500 if step == 6 else 40)
        if step == 8:
            table.scale(3)
    table.tier()
    table.check()
    groups, files = [], []
    for path in sorted(table.folder.rglob("*.parquet")):
        ids = pq.read_table(path, columns=["id"])["id"].to_pylist()
        files.append(max(ids) - min(ids))
        with pq.ParquetFile(path) as file:
            for number in range(file.metadata.num_row_groups):
                ids = file.read_row_group(number, columns=["id"])["id"].to_pylist()
                groups.append(max(ids) - min(ids))
    rows = len(table.read())
    assert len(files) > 3
    assert len(groups) > 20
    assert sum(groups) / len(groups) < rows / 6, groups
    assert sum(files) / len(files) < rows / 2, files
