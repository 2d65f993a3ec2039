"""Streaming queries over lakes whose files are sorted or have partitions read each file about once: by the bytes that a
real server has answered.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from object_store import ObjectStore, Relay, object_store, relayed
from test_lake_streams import Keyed, Query

from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.connector.lake import LakeSlice, added_between, once
from pyspark_pravega.connector.options import ReadOptions
from pyspark_pravega.connector.read import ChangesRange
from pyspark_pravega.connector.stream import ChangesSource
from pyspark_pravega.lake import spans

pytestmark = pytest.mark.server

LAYOUTS = {
    "sorted": {"lake-sorted-by": "id"},
    "partitioned": {"lake-partitioned-by": "bucket(3, id)"},
    "both": {"lake-sorted-by": "name DESC", "lake-partitioned-by": "bucket(2, id)"},
}
VERSIONS, ROWS = 6, 60


@pytest.fixture(scope="module")
def objects() -> Iterator[ObjectStore]:
    with object_store() as store:
        yield store


@pytest.fixture
def relay(objects: ObjectStore) -> Iterator[Relay]:
    with relayed(objects) as way:
        yield way


class Wide(Keyed):
    """Its rows are long, and can't be compressed, so that footers of files are little beside them."""

    def next(self, rows: int) -> tuple[list[int], list[str]]:
        """The next rows."""
        ids, names = super().next(rows)
        return ids, [f"{name}{random.Random(name).randbytes(2000).hex()}" for name in names]

    @property
    def all(self) -> list[str]:
        """The names of all rows."""
        return [name for _, name in self.versions[max(self.versions)]]


@pytest.mark.in_turn(8)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_stream_reads_each_file_about_once(
    catalog: Catalog,
    scope: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    objects: ObjectStore,
    relay: Relay,
    layout: str,
) -> None:
    """With and without limits, from the first row and on after a kill. Limits are kept as far as tierings let them."""
    monkeypatch.setattr(Wide, "where", objects.options(scope, tmp_path / "catalog.db", relay.endpoint))
    # So that small segments don't share a task anyway.
    monkeypatch.setattr(once, "TASK_BYTES", 1)
    lake = {"lake-keep-in-stream": "0 ms", **LAYOUTS[layout]}
    table = Wide(catalog, scope, tmp_path, **lake)
    table.scale(4)
    for _ in range(4):
        for _ in range(VERSIONS):
            table.insert(ROWS)
        table.tier()
    files = {f"/{path}" for path in objects.files(scope) if path.endswith(".parquet")}
    system = objects.file_system()
    size = sum(system.get_file_info(path.removeprefix("/")).size for path in files)
    # Who opens a file reads its end, which for files as small as these is much.
    allowed = 1.1 * size + 4 * len(files) * (64 << 10)
    tiering, version = VERSIONS * ROWS, ROWS

    def read_bytes() -> int:
        return sum(number for path, number in relay.read.items() if path in files)

    wrong = []
    for options, most in (
        ({}, 4 * tiering),
        ({"maxEventsPerTrigger": str(version)}, tiering),
        ({"maxEventsPerTrigger": str(tiering + 2 * version)}, tiering),
        ({"maxEventsPerTrigger": str(2 * tiering + version)}, 2 * tiering),
        ({"maxBytesPerTrigger": "1"}, tiering),
    ):
        spans._groups.cache_clear()
        spans.rows_of_versions.cache_clear()
        relay.read.clear()
        query = Query(table, **options)
        assert query.step()
        query.restart()
        query.run()
        assert query.numbers == sorted(table.all)
        sizes = [sum(map(len, tasks)) for tasks in query.batches]
        if max(sizes) > most or len(sizes) > 4 or read_bytes() > allowed:
            wrong.append((options, sizes, read_bytes() / size))
        print(layout, options, sizes, f"{read_bytes() / size:.2f} times {size} bytes")
    assert not wrong
    # CHANGES, as a stream.
    relay.read.clear()
    single = ReadOptions.of_table({"maxEventsPerTrigger": "1"})
    source = ChangesSource(table.catalog.client, table.stream, ChangesRange(from_version="1"), single)
    offset, numbers = source.initial_offset(), []
    while (end := source.latest_offset(offset)) != offset:
        numbers.append(end.commit)
        assert added_between(table.catalog.client, table.ledger, offset.commit + 1, end.commit).slices
        offset = end
    assert numbers == [VERSIONS * number for number in range(1, 5)]
    # Who wants more tasks gets them, and they read files that they have in common.
    many = Query(table, minPartitions="3")
    assert many.plan()
    assert len(many.read()) >= 3
    few = Query(table)
    assert few.plan()
    assert few.offset is not None
    assert few.planned is not None
    planned = few.source.partitions(few.source.offset(few.offset), few.source.offset(few.planned))
    tasks = [one for one in planned if isinstance(one, LakeSlice)]
    read = [(path, number) for one in tasks for path, numbers in one.files for number in numbers]
    assert len(read) == len(set(read))
