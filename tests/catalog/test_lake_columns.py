"""Tables with a lake whose columns change, and which become others, while their log forgets; held against a dict."""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from catalog_tools import plan
from lake_tools import Table, forgets, turns
from pyiceberg.catalog import load_catalog
from pyspark.sql import types as t
from test_lake import STEPS, Died
from test_lake_streams import Query

from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.catalog.ddl import (
    AddColumn,
    ColumnPosition,
    DeleteColumn,
    RenameColumn,
    TableChange,
    UpdateColumnPosition,
    UpdateColumnType,
)
from pyspark_pravega.catalog.process.pickles import pickle, unpickle
from pyspark_pravega.connector.lake import Additions, LakeChangesReader, check_slices, iceberg_name, tiering
from pyspark_pravega.connector.log import take_snapshot
from pyspark_pravega.connector.options import ReadOptions
from pyspark_pravega.connector.read import ChangesRange
from pyspark_pravega.connector.stream import ChangesSource, SeveralStreamsReader
from pyspark_pravega.connector.write import OverwritingJob, ReadSet, StagedTable, WriteJob
from pyspark_pravega.errors import (
    PravegaError,
    SegmentTruncatedError,
    UnsupportedOperationError,
    VersionNotFoundError,
)
from pyspark_pravega.lake import iceberg
from pyspark_pravega.spark.arrow import to_arrow_schema

pytestmark = pytest.mark.server

Row = dict[str, Any]
PAIR = t.StructType([t.StructField("x", t.LongType()), t.StructField("y", t.StringType())])
OTHER_PAIR = t.StructType([t.StructField("x", t.StringType()), t.StructField("z", t.StringType())])
TYPES: list[tuple[t.DataType, Callable[[int], Any]]] = [
    (t.LongType(), lambda n: 7 * n),
    (t.IntegerType(), lambda n: 5 * n),
    (t.ShortType(), lambda n: 3 * n),
    (t.StringType(), lambda n: f"s{n}"),
    (t.DoubleType(), lambda n: n / 4),
    (t.BooleanType(), lambda n: n % 2 == 0),
    (t.DateType(), lambda n: dt.date(2020, 1, 1) + dt.timedelta(n)),
    (t.DecimalType(9, 2), lambda n: Decimal(n).quantize(Decimal("0.01"))),
    (t.DecimalType(12, 3), lambda n: Decimal(n).quantize(Decimal("0.001"))),
    (t.ArrayType(t.LongType()), lambda n: [n, n + 1]),
    (t.ArrayType(t.StringType()), lambda n: [f"a{n}"]),
    (t.MapType(t.StringType(), t.LongType()), lambda n: [("k", n)]),
    (PAIR, lambda n: {"x": n, "y": f"y{n}"}),
    (OTHER_PAIR, lambda n: {"x": f"x{n}", "z": f"z{n}"}),
]
"""Types, and values of theirs."""
NAMES = "name", "a", "b"
"""What columns of other tables are called, whatever their types are."""


def ordered(rows: Sequence[Row], columns: Sequence[str]) -> list[str]:
    """Rows as text, sorted."""
    return sorted(repr([row.get(name) for name in columns]) for row in rows)


class Everything(Query):
    """A streaming query over all columns."""

    def read(self) -> Any:
        """The rows of the micro-batch that is planned."""
        assert self.offset is not None
        assert self.planned is not None
        definition = self.table.catalog.definition(self.table.stream, age_s=0)
        partitions = self.source.partitions(self.source.offset(self.offset), self.source.offset(self.planned))
        names = definition.schema.fieldNames()
        check_slices([definition], names, partitions)
        reader = SeveralStreamsReader([definition], names, self.options)
        return [row for one in partitions for batch in reader.read(unpickle(pickle(one))) for row in batch.to_pylist()]

    @property
    def rows(self) -> list[Row]:
        """All that were read."""
        rows: Any = [row for batch in self.batches for row in batch]
        return list(rows)


class Changing(Table):
    """A table with a lake, and what Python knows of it."""

    def __init__(self, catalog: Catalog, scope: str, folder: Path, dice: random.Random, **properties: str) -> None:
        super().__init__(catalog, scope, folder, **properties)
        self.dice = dice
        self.schema = t.StructType([t.StructField("id", t.LongType(), False), t.StructField("name", t.StringType())])
        self.rows: dict[int, list[Row]] = {0: []}
        self.new: dict[int, list[Row]] = {}
        self.replaced = 0
        self.tried: dict[int, list[list[str]]] = {}
        """By version: the columns with which it was tiered, or that was begun."""
        self.in_lake: tuple[int | None, list[list[str]], list[Row]] = None, [], []
        """The snapshot, what its columns may be, and the rows there, as last noted."""

    @property
    def last(self) -> int:
        return max(self.rows)

    @property
    def names(self) -> list[str]:
        names: list[str] = self.schema.fieldNames()
        return names

    def next_rows(self, count: int) -> list[Row]:
        values = {str(kind): value for kind, value in TYPES}
        rows = []
        for number in range(self._next, self._next + count):
            row = {field.name: values[str(field.dataType)](number) for field in self.schema}
            nulls = [name for name in self.names if name != "id" and self.dice.random() < 0.1]
            rows.append({**row, "id": number, **dict.fromkeys(nulls)})
        self._next += count
        return rows

    def put(self, job: WriteJob, rows: Sequence[Row], *, replaces: bool, before: Sequence[Row] = ()) -> None:
        """Commit rows by a job."""
        arrow = to_arrow_schema(self.schema, timezone="UTC")
        batch = pa.RecordBatch.from_pylist(list(rows), schema=arrow)
        batches = [batch] if rows else []
        job.commit_job([job.write_task(iter(batches))])
        self.note(rows, replaces=replaces, before=before)

    def note(self, rows: Sequence[Row], *, replaces: bool, before: Sequence[Row] = ()) -> None:
        last = self.last
        self.new[last + 1] = list(rows)
        self.rows[last + 1] = [*before, *rows] if replaces else [*self.rows[last], *rows]
        if replaces:
            self.replaced = last + 1

    def plain(self, count: int) -> None:
        self.put(WriteJob(plan(self.definition)), self.next_rows(count), replaces=False)

    @property
    def definition(self) -> Any:
        return self.catalog.definition(self.stream, age_s=0)

    def over(self, count: int, *, beside: bool) -> None:
        """INSERT OVERWRITE; perhaps one that keeps what has come since it has read."""
        job = OverwritingJob(plan(self.definition))
        if not beside:
            self.put(job, self.next_rows(count), replaces=True)
            return
        seen = ReadSet.of(take_snapshot(self.catalog.client, self.stream))
        self.plain(3)
        batch = pa.RecordBatch.from_pylist(
            rows := self.next_rows(count), schema=to_arrow_schema(self.schema, timezone="UTC")
        )
        job.commit_job([job.write_task(iter([batch]))], seen=[seen])
        self.note(rows, replaces=True, before=self.new[self.last])

    def become(self, count: int | None, **properties: str) -> None:
        """CREATE OR REPLACE TABLE with other columns; None for one without AS SELECT."""
        names = self.dice.sample(NAMES, self.dice.randrange(1, len(NAMES) + 1))
        fields = [t.StructField(name, self.dice.choice(TYPES)[0]) for name in names]
        schema = t.StructType([t.StructField("id", t.LongType(), False), *fields])
        given = {**self.properties, **properties}
        if not given["lake"]:
            given = {name: text for name, text in given.items() if not name.startswith("lake")}
        definition, staged = self.catalog.replacing.stage(
            [self.stream.scope], self.stream.name, schema, [], given, create=True, replace=True
        )
        self.schema = schema
        table: StagedTable | None = self.catalog.replacing.staged_table(staged)
        if count is None:
            self.note([], replaces=True)
        else:
            self.put(OverwritingJob(plan(definition, table)), self.next_rows(count), replaces=True)
        self.catalog.replacing.commit(staged, written=count is not None)

    def change(self) -> str:
        """ALTER a column; gives what was done."""
        kind = self.dice.choice(["add", "add", "drop", "widen", "move", "rename"])
        fields = list(self.schema)
        number = self.dice.randrange(1, len(fields)) if len(fields) > 1 else 0
        old = fields[number]
        free = [name for name in (*NAMES, f"n{self._next}", f"more{self._next}") if name not in self.names]
        new = self.dice.choice(free)
        type = self.dice.choice(TYPES)[0] if kind == "add" else t.LongType()
        change: TableChange
        if kind == "add":
            change = AddColumn(column=(new,), type=type)
            fields.append(t.StructField(new, type))
        elif not number or (kind == "widen" and old.dataType != t.IntegerType()):
            return "nothing"
        elif kind == "drop":
            change = DeleteColumn(column=(old.name,))
            del fields[number]
        elif kind == "widen":
            change = UpdateColumnType(column=(old.name,), type=type)
            fields[number] = t.StructField(old.name, type)
        elif kind == "move":
            change = UpdateColumnPosition(column=(old.name,), position=ColumnPosition(after=None))
            fields.insert(0, fields.pop(number))
        else:
            change = RenameColumn(column=(old.name,))
        if kind == "rename" or (kind in ("drop", "widen") and self.state().lake is not None):
            with pytest.raises(UnsupportedOperationError, match=r"lake|renamed"):
                self.alter(change)
            return "refused"
        self.alter(change)
        self.schema = t.StructType(fields)
        if kind == "drop":
            for rows in (*self.rows.values(), *self.new.values()):
                rows[:] = [{name: value for name, value in row.items() if name != old.name} for row in rows]
        return kind

    def noted(self) -> None:
        """Know what the log says of the lake now."""
        lake = self.state().lake
        if lake is not None and lake.snapshot != self.in_lake[0]:
            self.in_lake = lake.snapshot, self.tried[lake.version], list(self.rows[lake.version])

    def all(self, position: Any = None, **request: Any) -> list[str]:
        """Rows as text, sorted."""
        return sorted(repr(list(row)) for row in self.unsorted(position, *self.names, **request))

    def check(self) -> None:
        last, names = self.last, self.names
        state = self.state()
        assert state.version == last
        assert self.definition.schema.fieldNames() == names
        now = ordered(self.rows[last], names)
        assert self.all() == now
        assert self.count()[0] == len(now)
        first = self.ledger.first_commit()
        known = last + 1 if first is None else first.version
        for version in range(1, last + 1):
            try:
                moment = self.as_of(str(version))
            except VersionNotFoundError:
                assert version < known, "the log knows it"
                continue
            if version < self.replaced:
                with pytest.raises(SegmentTruncatedError, match=f"version {self.replaced} took the place of all"):
                    self.read(moment)
                continue
            assert self.all(moment) == ordered(self.rows[version], names), version
        for version in range(max(known, self.replaced), last + 1):
            wanted = ordered(self.new[version], names)
            told = self.changes_of(version)
            assert told == wanted or (told is None and version in (known, self.replaced) and version > 1), self.refusal
        for options in ({}, {"failOnDataLoss": "false"}):
            self.check_stream_of_changes(max(known if known > 1 else 0, self.replaced), options)
        query = Everything(self)
        query.run()
        assert ordered(query.rows, names) == now
        snapshot, tried, rows = self.in_lake
        if snapshot is not None:
            columns, there = self.by_pyiceberg(snapshot)
            assert sorted(columns) in map(sorted, tried)
            assert ordered(there, columns) == ordered(rows, columns)

    def check_stream_of_changes(self, before: int, options: dict[str, str]) -> None:
        """By a query that begins with the first version that is there, and by one that has begun long ago: each tells
        all versions behind `before`, and others as a whole or not at all."""
        source = ChangesSource(self.catalog.client, self.stream, ChangesRange(), ReadOptions.of_table(options))
        start, end = source.initial_offset(), source.tail()
        assert start.commit <= before
        begins = [start]
        if options:
            begins.append(replace(start, commit=0))
        definition = self.definition
        reader = LakeChangesReader(
            definition, Additions(), [*self.names, "_commit_version"], fail_on_data_loss=not options
        )
        for begin in begins:
            partitions = source.partitions(begin, end) if begin != end else []
            check_slices([definition], self.names, partitions)
            batches = [batch for one in partitions for batch in reader.read(unpickle(pickle(one)))]
            told: dict[int, list[Row]] = {}
            for row in (row for batch in batches for row in batch.to_pylist()):
                told.setdefault(row.pop("_commit_version"), []).append(row)
            for version in range(begin.commit + 1, end.commit + 1):
                rows = told.get(version, [])
                if rows or version > before or begin == start:
                    assert ordered(rows, self.names) == ordered(self.new[version], self.names), (version, begin)

    def changes_of(self, version: int) -> list[str] | None:
        try:
            return self.all(ChangesRange(from_version=str(version), to_version=str(version)))
        except PravegaError as error:
            self.refusal = str(error)
            return None

    def by_pyiceberg(self, snapshot: int) -> tuple[list[str], list[Row]]:
        """The table's columns in Iceberg, and the rows."""
        uri = f"sqlite:///{self.folder}/catalog.db"
        catalog = load_catalog("pravega", type="sql", uri=uri, warehouse=self.folder.as_uri())
        table = catalog.load_table(iceberg_name(self.stream))
        rows = table.scan(snapshot_id=snapshot).to_arrow()
        current = table.current_snapshot()
        if current is not None and current.snapshot_id == snapshot:
            assert sorted(field.name for field in table.schema().fields) == sorted(rows.column_names)
        columns = [name for name in rows.column_names if name not in ("_segment", "_offset", "_version")]
        assert len(rows.column_names) == len(columns) + 3
        return columns, rows.to_pylist()

    def tier(self) -> list[Any]:
        self.tried.setdefault(self.last, []).append(self.names)
        return super().tier()


@pytest.mark.parametrize("seed", range(int(os.environ.get("LAKE_SEEDS", "6"))))
@pytest.mark.in_turn
def test_columns_and_tables_change_before_and_behind_the_lake(
    catalog: Catalog, scope: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Each step is followed by all reads that are promised, and by pyiceberg alone."""
    dice = random.Random(seed)
    turns(monkeypatch, 50 << seed % 5)
    if seed % 3:
        forgets(monkeypatch, 2 + seed % 3)
    given = {"lake-keep-in-stream": "0 ms"} if seed % 2 else {}
    table = Changing(catalog, scope, tmp_path, dice, **given, **{"isolation-level": "snapshot"})
    table.plain(3)
    steps = ["insert"] * 4 + ["tier"] * 3 + ["dies", "overwrite", "beside", "become", "become", "empty", "truncate"]
    steps += ["column"] * 3 + ["scale", "without"]
    done = []
    for _ in range(12):
        step = dice.choice(steps)
        done.append(step)
        print(seed, done)
        if step == "insert":
            table.plain(dice.randrange(1, 20))
        elif step == "tier":
            assert table.tier()[0] == table.last
            table.noted()
        elif step == "dies":
            with pytest.MonkeyPatch.context() as broken, contextlib.suppress(Died):
                broken.setattr(*STEPS[dice.choice(list(STEPS))]())
                table.tier()
            table.noted()
        elif step == "overwrite":
            table.over(dice.randrange(1, 5), beside=False)
        elif step == "beside":
            table.over(dice.randrange(1, 5), beside=table.state().lake is None)
        elif step == "become":
            table.become(dice.randrange(1, 5))
        elif step == "empty":
            table.become(None)
        elif step == "truncate":
            table.catalog.relations.truncate([scope], "t")
            table.note([], replaces=True)
        elif step == "column":
            done[-1] = table.change()
        elif step == "scale":
            table.scale(dice.randrange(1, 4))
        elif step == "without":
            table.become(2, lake="")
            with pytest.raises(UnsupportedOperationError, match="has no lake"):
                table.tier()
            table.check()
            table.set(lake="iceberg")
        table.check()
    table.plain(2)
    table.tier()
    table.noted()
    table.check()


@pytest.mark.parametrize("change", ["overwrite", "become", "empty"])
@pytest.mark.in_turn
def test_rows_are_replaced_while_they_are_tiered(
    catalog: Catalog, scope: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    """At each step; one call of `tier` looks again, or ends with what it has begun with."""
    steps: list[tuple[Any, str]] = [
        (tiering, "load_definition"),
        (tiering._Tiering, "_wanted"),
        (tiering, "_batches"),
        (iceberg.Change, "commit"),
        (tiering._Tiering, "_note"),
    ]
    turns(monkeypatch, 50)
    table = Changing(catalog, scope, tmp_path, random.Random(change), **{"lake-keep-in-stream": "0 ms"})

    def beside(patched: pytest.MonkeyPatch, call: Any) -> Any:
        def called(*given: Any, **named: Any) -> Any:
            patched.undo()
            if change == "overwrite":
                table.over(2, beside=False)
            else:
                table.become(2 if change == "become" else None)
            table.tried.setdefault(table.last, []).append(table.names)
            return call(*given, **named)

        return called

    for place, name in steps:
        table.plain(9)
        before = table.last
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(place, name, beside(patched, getattr(place, name)))
            assert table.tier()[0] in (before, table.last), name
        assert table.last == before + 1
        table.noted()
        table.check()
        assert table.tier()[0] == table.last, name
        table.noted()
        table.check()
