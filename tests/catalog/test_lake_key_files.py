"""Which files may hold some keys, by Iceberg's figures; held against what Python knows of each file."""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog import load_catalog

from pyspark_pravega.lake import FileWriter, LaidOutWriter, LakeConfiguration, LakeSnapshot, Layout, SortedBy, iceberg
from pyspark_pravega.lake.layout import PartitionedBy

MOMENT = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
KINDS: dict[str, tuple[pa.DataType, Callable[[int], Any]]] = {
    "long": (pa.int64(), lambda n: (n - 200) * 2**40),
    "int": (pa.int32(), lambda n: n - 200),
    "text": (pa.string(), lambda n: f"n{n}"),
    "text with a common begin": (pa.string(), lambda n: f"customer-of-the-shop-{n:06d}"),
    "text of any letters": (pa.string(), lambda n: chr(0xD000 + 40 * n if n < 50 else 0xFF00 + n) + "\U0010ffff" * 3),
    "text of very many letters": (pa.string(), lambda n: f"{n:04d}" if n % 7 else f"{n:04d}" + "x" * 5000),
    "date": (pa.date32(), lambda n: MOMENT.date() + dt.timedelta(days=n - 200)),
    "timestamp": (pa.timestamp("us", "UTC"), lambda n: MOMENT + dt.timedelta(microseconds=(n - 200) * 10**9 + n)),
    "decimal": (pa.decimal128(9, 2), lambda n: Decimal(n - 200).scaleb(-2)),
    "wide decimal": (pa.decimal128(38, 4), lambda n: Decimal((n - 200) * 10**30).scaleb(-4)),
    "boolean": (pa.bool_(), lambda n: bool(n % 2)),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("layout", ["sorted", "unsorted", "bucket", "none"])
def test_no_file_that_holds_a_key_is_left_out(tmp_path: Path, kind: str, layout: str) -> None:
    """And of sorted files, or those of a hash, others are."""
    arrow, value = KINDS[kind]
    dice = random.Random(f"{kind} {layout}")
    order = {"sorted": ("id",), "bucket": ("id",), "unsorted": ("more",), "none": ()}[layout]
    how = Layout(
        partitions=(PartitionedBy(column="id", transform="bucket", number=8),)
        if layout == "bucket" and kind != "boolean"
        else (),
        order=tuple(SortedBy(column=name) for name in order),
    )
    numbers = dice.sample(range(400), 300)
    schema = pa.schema([pa.field("id", arrow), pa.field("more", pa.int64())])
    rows = pa.table({"id": pa.array(map(value, numbers), arrow), "more": [n * 7 % 400 for n in numbers]}, schema)
    snapshot, paths = written(tmp_path, schema, how, rows)
    store = iceberg.store_of(())
    held: dict[str, set[Any]] = {}
    for path in paths:
        held[path] = {row["id"] for row in pq.read_table(path).to_pylist()}
    assert sum(map(len, held.values())) >= len(rows) or kind == "boolean"
    counts: Counter[bool] = Counter()
    for size in (1, 1, 1, 1, 3, 3, 40, 400):
        some = sorted({value(number) for number in dice.sample(range(400), size)})
        keys = pa.table({"id": pa.array(some, arrow)}).sort_by("id")
        files = iceberg.key_files(store, snapshot.metadata, snapshot.id, keys)
        assert {file.path: file.rows for file in files}.keys() == held.keys()
        for file in files:
            may = (
                set(keys["id"].slice(file.first, file.behind - file.first).to_pylist()) if file.may_hold_some else set()
            )
            assert held[file.path] & set(some) <= may, file
            if size < 40:
                counts[file.may_hold_some] += 1
    if layout in ("sorted", "bucket") and kind not in ("boolean", "text of very many letters"):
        assert counts[False] > counts[True], counts


def written(folder: Path, schema: pa.Schema, layout: Layout, rows: pa.Table) -> tuple[LakeSnapshot, list[str]]:
    """A table of some rows, and its files."""
    configuration = LakeConfiguration.of({"warehouse": str(folder)})
    table: Any = iceberg.make_table(configuration, ("s", "t"), schema, {})
    change = table.change(schema, layout, exact=["id"])
    files = FileWriter(table.store, table.folder, "a", change.schema, 600, 300)
    writer = LaidOutWriter(files, change.partitioned_by, layout.order) if layout else files
    for batch in rows.to_batches(50):
        writer.write(pa.RecordBatch.from_arrays(batch.columns, schema=change.schema), 0)
    writer.close()
    assert len(writer.paths) > 1
    return change.commit(writer.paths, {}, writer.partitions), list(writer.paths)


def test_others_stay_and_their_lists_are_few(tmp_path: Path) -> None:
    """However many snapshots follow each other; what pyiceberg reads is what Python knows."""
    schema = pa.schema([pa.field("id", pa.int64()), pa.field("more", pa.int64())])
    layout = Layout(order=(SortedBy(column="id"),))
    rows = pa.table({"id": range(200), "more": range(200)}, schema)
    written(tmp_path, schema, layout, rows)
    known, dice = dict(zip(range(200), range(200), strict=True)), random.Random(5)
    catalog = load_catalog("pravega", type="sql", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=tmp_path.as_uri())
    configuration = LakeConfiguration.of({"warehouse": str(tmp_path)})
    store = iceberg.store_of(())
    for turn in range(24):
        table: Any = iceberg.find_table(configuration, ("s", "t"))
        assert table is not None
        id = dice.randrange(250)
        keys = pa.table({"id": pa.array([id], pa.int64())})
        before = iceberg.key_files(store, table.snapshot.metadata, table.snapshot.id, keys)
        gone = {file.path for file in before if file.may_hold_some}
        some = {row["id"]: row["more"] for path in gone for row in pq.read_table(path).to_pylist()}
        change = table.change(schema, layout, gone=gone, exact=["id"])
        known[id] = some[id] = 1000 + turn
        if turn % 3 == 0:
            del known[id], some[id]
        writer = FileWriter(table.store, table.folder, f"b{turn}", change.schema, 600, 300)
        if some:
            batch = pa.table({"id": list(some), "more": list(some.values())}).to_batches()[0]
            writer.write(pa.RecordBatch.from_arrays(batch.columns, schema=change.schema), 0)
        writer.close()
        snapshot = change.commit(writer.paths, {}, writer.partitions)
        there = catalog.load_table(("s", "t"))
        assert {row["id"]: row["more"] for row in there.scan().to_arrow().to_pylist()} == known
        assert snapshot.rows == len(known)
        current = there.current_snapshot()
        assert current is not None
        assert len(current.manifests(there.io)) <= 11
        now = {file.path for file in iceberg.key_files(store, snapshot.metadata, snapshot.id, keys)}
        assert now == {file.path for file in before} - gone | set(writer.paths)
