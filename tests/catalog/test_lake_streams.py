"""Streaming queries through the lake: each row once and those of a key in their order, whoever dies meanwhile."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest
from catalog_tools import insert
from lake_tools import Table, turns
from test_lake import STEPS, Died

from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.catalog.process.pickles import pickle, unpickle
from pyspark_pravega.connector.lake import LakeSlice, check_slices
from pyspark_pravega.connector.options import ReadOptions
from pyspark_pravega.connector.stream import SeveralStreamsReader, SnapshotReader, SourceOffset, StreamSource
from pyspark_pravega.errors import DataLossError, UnsupportedOperationError

pytestmark = pytest.mark.server

KEYS = 6


class Keyed(Table):
    """A table with a lake whose routing keys come again and again, with numbers that rise."""

    number = 0

    def insert(self, rows: int = 3) -> None:
        """Commit rows of some keys."""
        ids, names = self.next(rows)
        last = max(self.versions)
        more = {name: [0] * rows for name in self.columns[2:]}
        insert(self.catalog, self.stream, *ids, name=names, **more)
        self.versions[last + 1] = [*self.versions[last], *zip(ids, names, strict=True)]

    def next(self, rows: int) -> tuple[list[int], list[str]]:
        """The next rows."""
        numbers = range(self.number, self.number + rows)
        self.number += rows
        return [number % KEYS for number in numbers], [f"{number:06}" for number in numbers]

    @property
    def all(self) -> list[str]:
        """The numbers of all rows."""
        return [f"{number:06}" for number in range(self.number)]


class Query:
    """A streaming query's driver, which may die at any time; its checkpoint stays."""

    def __init__(self, table: Table, *others: Table, **options: str) -> None:
        self.table, self.others, self.options = table, others, ReadOptions.of_table(options)
        self.offset: str | None = None
        self.planned: str | None = None
        self.batches: list[list[list[tuple[int, str]]]] = []
        """Rows by micro-batch and task."""
        self.from_lake = 0
        """How many tasks have read in the lake."""
        self.restart()

    def restart(self) -> None:
        """Another driver goes on with the checkpoint."""
        streams = [table.stream for table in (self.table, *self.others)]
        self.source = StreamSource(self.table.catalog.client, streams, self.options)

    def plan(self, target: SourceOffset | None = None) -> bool:
        """Note where the next micro-batch ends; whether there is one."""
        if self.offset is None:
            self.offset = self.source.initial_offset().to_json()
        if self.planned is None:
            start = self.source.offset(self.offset)
            end = self.source.latest_offset(start, target=target)
            self.planned = None if end == start else end.to_json()
        return self.planned is not None

    def read(self) -> list[list[tuple[int, str]]]:
        """What the micro-batch that is planned reads."""
        assert self.offset is not None
        assert self.planned is not None
        definitions = [table.catalog.definition(table.stream, age_s=0) for table in (self.table, *self.others)]
        partitions = self.source.partitions(self.source.offset(self.offset), self.source.offset(self.planned))
        check_slices(definitions, ["id", "name"], partitions)
        reader = SeveralStreamsReader(definitions, ["id", "name", "_segment", "_offset"], self.options)
        tasks = []
        for partition in partitions:
            self.from_lake += isinstance(partition, LakeSlice)
            rows = [row for batch in reader.read(unpickle(pickle(partition))) for row in batch.to_pylist()]
            tasks.append([(row["id"], row["name"]) for row in rows])
        return tasks

    def step(self, target: SourceOffset | None = None) -> bool:
        """A micro-batch; whether there was one."""
        if not self.plan(target):
            return False
        self.batches.append(self.read())
        self.offset, self.planned = self.planned, None
        return True

    def run(self, target: SourceOffset | None = None) -> None:
        """All that is there."""
        for _ in range(200):
            if not self.step(target):
                return
        raise AssertionError

    @property
    def numbers(self) -> list[str]:
        """Those of all rows that were read, sorted; and each key's have come in their order."""
        last: dict[int, str] = {}
        for tasks in self.batches:
            keys = [{key for key, _ in rows} for rows in tasks]
            assert sum(map(len, keys)) == len(set().union(*keys)), "a key's rows are in several tasks"
            for rows in tasks:
                for key, number in rows:
                    assert number > last.get(key, ""), (key, number, last)
                    last[key] = number
        return sorted(number for tasks in self.batches for rows in tasks for _, number in rows)

    @property
    def numbers_unordered(self) -> list[str]:
        """Those of all rows that were read."""
        return [number for tasks in self.batches for rows in tasks for _, number in rows]


@pytest.mark.parametrize("seed", range(int(os.environ.get("LAKE_SEEDS", "6"))))
@pytest.mark.in_turn
def test_random_histories_are_streamed_once_in_order(
    catalog: Catalog, scope: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Three queries: one goes on all the time, one is killed again and again, one comes now and then."""
    dice = random.Random(seed)
    turns(monkeypatch, 50 << seed % 5)
    sizes = {"lake-row-group-size": "512", "lake-file-size": "2 KiB"} if seed % 3 else {}
    table = Keyed(catalog, scope, tmp_path, **{"lake-keep-in-stream": "0 ms"}, **sizes)
    limits: dict[str, str] = {"maxEventsPerTrigger": str(dice.randrange(3, 30))} if seed % 2 else {}
    steady, killed, late = Query(table), Query(table, **limits), Query(table, **limits)
    table.insert()
    columns = 0
    for _ in range(14):
        step = dice.choice(["insert", "insert", "tier", "tier", "dies", "scale", "column", "batch", "batch", "late"])
        if step == "insert":
            table.insert(dice.randrange(1, 40))
        elif step == "tier":
            table.tier()
        elif step == "dies":
            with pytest.MonkeyPatch.context() as broken:
                broken.setattr(*STEPS[dice.choice(list(STEPS))]())
                try:
                    table.tier()
                except Died:
                    pass
        elif step == "scale":
            table.scale(dice.randrange(1, 4))
        elif step == "column" and columns < 2:
            table.add_column()
            columns += 1
        elif step == "batch":
            steady.run()
            assert steady.numbers == table.all
            if killed.plan():
                # It is planned, and read, and dies before that is noted.
                killed.read()
            killed.restart()
        elif step == "late" and killed.planned is not None:
            killed.step()
    for query in (steady, killed, late, Query(table), Query(table, maxEventsPerTrigger="1")):
        query.restart()
        query.run()
        assert query.numbers == table.all
    table.tier()
    again = Query(table)
    again.run()
    assert again.numbers == table.all
    assert again.from_lake
    table.insert()
    for query in (steady, again):
        query.run()
        assert query.numbers == table.all


def test_a_query_that_ends_at_what_is_there_ends_there(catalog: Catalog, scope: str, tmp_path: Path) -> None:
    """Though more has come to the lake meanwhile; the next run goes on there."""
    table = Keyed(catalog, scope, tmp_path, **{"lake-keep-in-stream": "0 ms"})
    for _ in range(3):
        table.insert(10)
    table.tier()
    for first in ("from the start", "behind a batch"):
        query = Query(table)
        if first == "behind a batch":
            query.run()
            table.insert(4)
        seen = len(table.all)
        target = query.source.target()
        query.plan()
        query.planned = None
        table.scale(3 if first == "from the start" else 1)
        table.insert(10)
        table.tier()
        query.run(target)
        assert query.numbers == table.all[:seen]
        query.restart()
        assert not query.step(target)
        table.insert(5)
        seen = len(table.all)
        target = query.source.target()
        table.insert(5)
        table.tier()
        query.run(target)
        assert query.numbers == table.all[:seen]
        query.restart()
        query.run()
        assert query.numbers == table.all


def test_an_end_before_what_lies_in_the_lake(catalog: Catalog, scope: str, tmp_path: Path) -> None:
    table = Keyed(catalog, scope, tmp_path, **{"lake-keep-in-stream": "0 ms"})
    cuts = []
    for number in range(4):
        table.insert(10)
        cuts.append(catalog.client.tail(table.stream))
        if number == 1:
            table.scale(3)
    table.tier()
    for begin in range(4):
        for end in range(begin, 4):
            query = Query(table, startStreamCut=cuts[begin].to_json(), endStreamCut=cuts[end].to_json())
            query.run()
            assert query.numbers == table.all[10 * (begin + 1) : 10 * (end + 1)]


def test_rows_that_were_replaced_before_they_were_read_are_lost(catalog: Catalog, scope: str, tmp_path: Path) -> None:
    """As in the stream: an error, or the query goes on with what has taken their place."""
    table = Table(catalog, scope, tmp_path, **{"lake-keep-in-stream": "0 ms"})
    for _ in range(3):
        table.insert(10)
    table.tier()
    strict, lenient = (Query(table, maxEventsPerTrigger="10", failOnDataLoss=text) for text in ("true", "false"))
    for query in (strict, lenient):
        assert query.step()
    through = Query(table)
    through.run()
    table.overwrite(4)
    new = [name for _, name, *_ in table.versions[4]]
    for tiered in (False, True):
        if tiered:
            table.tier()
        with pytest.raises(DataLossError, match="others have taken their place"):
            strict.plan()
        other = Query(table)
        other.run()
        assert sorted(other.numbers_unordered) == sorted(new)
    through.run()
    assert sorted(through.numbers_unordered) == sorted([name for _, name, *_ in table.versions[3]] + new)
    lenient.run()
    assert sorted(lenient.numbers_unordered[10:]) == sorted(new)


@pytest.mark.parametrize("seed", range(int(os.environ.get("LAKE_SEEDS", "3"))))
@pytest.mark.in_turn
def test_several_streams_of_which_some_have_a_lake(catalog: Catalog, scope: str, tmp_path: Path, seed: int) -> None:
    """By queries over all of them, one of which is killed again and again, and by batches."""
    dice = random.Random(seed)
    lake = {"lake-keep-in-stream": "0 ms", "lake-row-group-size": "512"}
    tables = [
        Keyed(catalog, scope, tmp_path / "a", "first", **lake),
        Keyed(catalog, scope, tmp_path / "b", "plain", lake="", **lake),
        Keyed(catalog, scope, tmp_path / "c", "second", **lake),
    ]
    dice.shuffle(tables)
    limits = {"maxEventsPerTrigger": str(dice.randrange(5, 30))} if seed % 2 else {}
    steady, killed = Query(*tables), Query(tables[0], *tables[1:], **limits)

    def check(*queries: Query) -> None:
        expected = sorted(number for table in tables for number in table.all)
        for query in queries:
            query.run()
            assert sorted(query.numbers_unordered) == expected
        definitions = [table.catalog.definition(table.stream, age_s=0) for table in tables]
        reader = SnapshotReader(definitions, ["id", "name"], ReadOptions())
        batches = [batch for part in reader.partitions() for batch in reader.read(unpickle(pickle(part)))]
        assert sorted(row["name"] for batch in batches for row in batch.to_pylist()) == expected

    for _ in range(14):
        table = dice.choice(tables)
        match dice.choice(["insert", "insert", "tier", "scale", "column", "batch", "kill"]):
            case "insert":
                table.insert(dice.randrange(1, 20))
            case "tier" if table.properties["lake"]:
                table.tier()
            case "scale":
                table.scale(dice.randrange(1, 4))
            case "column" if len(table.columns) < 4:
                for one in tables:
                    one.add_column()
            case "batch":
                check(steady)
            case "kill":
                if killed.plan():
                    killed.read()
                killed.restart()
    check(steady, killed, Query(*tables), Query(*tables, maxEventsPerTrigger="1"))


def test_what_a_stream_through_the_lake_refuses(catalog: Catalog, scope: str, tmp_path: Path) -> None:
    table = Keyed(catalog, scope, tmp_path, **{"lake-keep-in-stream": "0 ms"})
    table.insert()
    table.tier()
    query = Query(table)
    query.plan()
    assert query.planned is not None
    partitions: Any = query.source.partitions(
        query.source.offset(str(query.offset)), query.source.offset(query.planned)
    )
    definition = catalog.definition(table.stream, age_s=0)
    with pytest.raises(UnsupportedOperationError, match=r"_event_size.*isn't known there"):
        check_slices([definition], ["id", "_event_size"], partitions)
    with pytest.raises(UnsupportedOperationError, match="real-time trigger"):
        query.source.follow(query.source.offset(str(query.offset)), 2)
