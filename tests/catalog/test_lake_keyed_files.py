"""Tables with a key in the lake: a tiering writes files anew that hold changed keys, and no others."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from lake_tools import Table
from pyiceberg.catalog import load_catalog
from pyspark.sql import types as t
from test_lake_keyed import Keyed

from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.catalog.ddl import RemoveProperty
from pyspark_pravega.connector.lake import iceberg_name
from pyspark_pravega.connector.lake.last_rows import LastRowsReader
from pyspark_pravega.connector.table import DELETED
from pyspark_pravega.connector.write import WriteJob
from pyspark_pravega.lake import laid_out

pytestmark = [pytest.mark.server, pytest.mark.in_turn]

SIZES = {"lake-file-size": "2 KiB", "lake-row-group-size": "1 KiB"}
ROWS = 1200


class Many(Keyed):
    """One with so many rows that they take many files."""

    def put(self, *ids: int, deletes: bool = False) -> None:
        """A version with rows of some keys, or without them."""
        self._next += 1
        rows = {id: {name: self._value(name, id) for name in self.columns[1:]} for id in ids}
        job = WriteJob(self.plan())
        job.commit_job([job.write_partition(0, iter([self.batch(rows, **{DELETED: [deletes] * len(ids)})]))])
        self.committed(dict.fromkeys(ids) if deletes else dict(rows))

    def live(self) -> dict[str, int]:
        """The files of the last snapshot, and their sizes."""
        table = load_catalog("pravega", type="sql", **self.alone()).load_table(iceberg_name(self.stream))
        return {task.file.file_path: task.file.file_size_in_bytes for task in table.scan().plan_files()}

    def tiered(self) -> tuple[float, int]:
        """Tier it, and hold what is there against what Python knows; gives the share of bytes that were
        written, and how many files stayed."""
        before = self.live() if self.state().lake else {}
        report = self.tier()
        after, rows = self.live(), self.rows[self.last]
        new = after.keys() - before.keys()
        assert report[2] == len(new)
        version, there = self.iceberg_rows(*self.columns)
        assert (version, there) == (self.last, self.flat(rows))
        assert self.check_iceberg() == self.last
        assert self.read() == self.flat(rows)
        return sum(after[path] for path in new) / sum(before.values() or [1]), len(after.keys() & before.keys())


LAYOUTS: dict[str, tuple[dict[str, str], float]] = {
    "none": ({}, 0.2),
    "none, from the lake": ({}, 0.2),
    "hash": ({"lake-partitioned-by": "bucket(8, id)"}, 0.7),
    "range": ({"lake-partitioned-by": "truncate(100, id)"}, 0.2),
    "by what isn't in the key": ({"lake-partitioned-by": "truncate(2, name)", "lake-sorted-by": "name DESC"}, 0.2),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.in_turn(8)
def test_few_changed_keys_write_few_files(catalog: Catalog, scope: str, tmp_path: Path, layout: str) -> None:
    """Also where columns were added; all are written anew where the layout is another one, or rows have been compacted.
    Files without rows go."""
    given, most = LAYOUTS[layout]
    keeps = {} if layout in ("none", "range") else {"lake-keep-in-stream": "0 ms"}
    table = Many(catalog, scope, tmp_path, random.Random(1), **SIZES, **given, **keeps)
    ids = list(range(ROWS))
    random.Random(2).shuffle(ids)
    table.put(*ids)
    table.tiered()
    files = len(table.live())
    assert files > 12

    def is_little(*, stays: bool = True) -> None:
        share, kept = table.tiered()
        assert (share < most and kept > files // 4) if stays else kept == 0, (share, kept, files)

    table.put(*range(300, 306))
    is_little()
    table.put(*range(40, 44), deletes=True)
    table.put(*range(ROWS, ROWS + 5))
    is_little()
    table.add_column()
    table.put(*range(7, 9))
    is_little()
    table.put(*range(2000, 2003), deletes=True)
    assert table.tiered()[0] == 0, "they weren't there"
    before = table.live()
    table.put(*range(100, 400), deletes=True)
    table.tiered()
    after = table.live()
    assert sum(after.values()) < sum(before.values())
    assert len(after) < len(before) or layout == "hash", "those without rows go"
    table.scale(3)
    table.put(*range(900, 904))
    is_little()
    if not keeps:
        table.drop_column()
        table.put(1)
        is_little(stays=False)
        table.add_column()
        table.put(1)
        is_little()
        table.drop_column()
        table.add_column()
        table.put(1)
        is_little(stays=False)
    table.set(lake_sorted_by="id DESC")
    table.put(1)
    is_little(stays=False)
    table.put(700, 701)
    is_little()
    table.compact()
    is_little(stays=False)
    table.put(800, 801)
    is_little()
    table.alter(RemoveProperty(property="lake-sorted-by"))
    table.overwrite()
    is_little(stays=False)
    table.check()


def test_small_files_are_put_together(catalog: Catalog, scope: str, tmp_path: Path) -> None:
    """So that new keys, a few at a time, don't leave more and more files; and lists of files don't become more."""
    table = Many(catalog, scope, tmp_path, random.Random(1), **SIZES)
    table.put(*range(400))
    table.tiered()
    shares = []
    for turn in range(14):
        table.put(*range(400 + 4 * turn, 404 + 4 * turn))
        shares.append(table.tiered()[0])
        assert len(table.live()) < 32
    assert sum(shares) < 2
    there = load_catalog("pravega", type="sql", **table.alone()).load_table(iceberg_name(table.stream))
    snapshot = there.current_snapshot()
    assert snapshot is not None
    assert len(snapshot.manifests(there.io)) < 12
    table.catalog.procedures.call("clean_lake", [table.name, "0 ms"])
    assert len(table.files) == len(table.live())
    table.check()


UTC = dt.UTC
KEYS: dict[str, tuple[Mapping[str, t.DataType], Callable[[int], tuple[Any, ...]]]] = {
    "text": ({"k": t.StringType()}, lambda n: (f"customer-of-a-shop-in-town-{n:05d}",)),
    "unicode": ({"k": t.StringType()}, lambda n: (chr(0xE000 + n if n % 2 else 0x1F600 + n) * 20,)),
    "two": ({"a": t.IntegerType(), "b": t.StringType()}, lambda n: (n // 200, f"{n:05d}")),
    "date": ({"k": t.DateType()}, lambda n: (dt.date(1960, 1, 1) + dt.timedelta(days=9 * n),)),
    "timestamp": (
        {"k": t.TimestampType()},
        lambda n: (dt.datetime(1969, 1, 1, tzinfo=UTC) + n * dt.timedelta(days=1),),
    ),
    "decimal": ({"k": t.DecimalType(20, 3)}, lambda n: (Decimal(n - 300) / 8,)),
    "short": ({"k": t.ShortType()}, lambda n: (n - 300,)),
    "boolean": ({"a": t.BooleanType(), "b": t.ShortType()}, lambda n: (n % 2 > 0, n)),
    "struct": (
        {"k": t.StructType([t.StructField("x", t.LongType(), False)]), "b": t.LongType()},
        lambda n: ({"x": n % 7}, n),
    ),
}


@pytest.mark.parametrize("kind", KEYS)
@pytest.mark.in_turn(8)
def test_keys_of_each_type(catalog: Catalog, scope: str, tmp_path: Path, kind: str) -> None:
    """Rows are what a dict says after each tiering, and most files stay when a few keys change."""
    kinds, key = KEYS[kind]
    names, dice = list(kinds), random.Random(kind)
    schema = t.StructType(
        [*(t.StructField(name, one, False) for name, one in kinds.items()), t.StructField("v", t.LongType())]
    )
    table = Typed(catalog, scope, tmp_path, schema, {"primary-key": ", ".join(names), **SIZES})
    known: dict[Any, int] = {}

    def put(numbers: list[int], value: int, *, deletes: bool = False) -> None:
        rows = [dict(zip(names, key(number), strict=True)) | {"v": value} for number in numbers]
        table.put(rows, deletes=deletes)
        for number in numbers:
            known.pop(number, None) if deletes else known.update({number: value})

    def check() -> None:
        expected = sorted(((*key(number), value) for number, value in known.items()), key=str)
        assert sorted(table.unsorted(None, *names, "v"), key=str) == expected
        there = load_catalog("pravega", type="sql", **table.alone()).load_table(iceberg_name(table.stream))
        rows = there.scan(selected_fields=(*names, "v")).to_arrow().select([*names, "v"]).to_pylist()
        assert sorted((tuple(row.values()) for row in rows), key=str) == expected

    numbers = list(range(600))
    dice.shuffle(numbers)
    put(numbers, 0)
    files = table.tier()[2]
    check()
    assert files > 8
    for turn in range(1, 6):
        first = dice.randrange(590)
        put(list(range(first, first + 3)), turn)
        put([dice.randrange(first, first + 3)], turn, deletes=True)
        put([600 + turn], turn)
        written = table.tier()[2]
        check()
        assert written <= files / 2, (written, files)


class Typed(Table):
    """A table with a key of other types."""

    def __init__(
        self, catalog: Catalog, scope: str, folder: Path, schema: t.StructType, properties: Mapping[str, str]
    ) -> None:
        self.folder, self.columns = folder, schema.names
        self.catalog = Catalog(catalog.settings, {"warehouse": str(folder)})
        given = {"lake": "iceberg", "lake-keep-in-stream": "0 ms", "segments": "2", **properties}
        self.stream = self.catalog.tables.create([scope], "t", schema, [], given).stream
        self.has_died = False

    def put(self, rows: list[dict[str, Any]], *, deletes: bool) -> None:
        """A version with some rows, or without them."""
        plan = Keyed.plan(self)  # type: ignore[arg-type]
        fields = [plan.codec.schema.field(name) for name in self.columns]
        arrays = [pa.array([row[field.name] for row in rows], field.type) for field in fields]
        batch = pa.RecordBatch.from_arrays([*arrays, pa.array([deletes] * len(rows))], names=[*self.columns, DELETED])
        job = WriteJob(plan)
        job.commit_job([job.write_partition(0, iter([batch]))])


def test_more_changed_keys_than_a_read_holds_write_all(
    catalog: Catalog, scope: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And rows that wait in files of this machine are sorted as others."""
    monkeypatch.setattr(laid_out, "_SPILLED_BYTES", 20_000)
    table = Many(catalog, scope, tmp_path, random.Random(1), **SIZES)
    table.put(*range(0, 900, 2))
    table.tiered()
    table.put(*range(1, 900, 2))
    monkeypatch.setattr(LastRowsReader, "changed_keys", lambda self: None)
    assert table.tiered()[1] == 0
    monkeypatch.undo()
    table.put(5, 6, 7)
    assert table.tiered()[1] > 5
    table.check()
