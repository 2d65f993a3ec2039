"""Statements that change a table with a key, made from a seed, and what a Python dict makes of them."""

from __future__ import annotations

import random
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest
from changes_tools import changes_in
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from since import is_missing

from pyspark_pravega.client import Client, Stream
from pyspark_pravega.connector.log import open_ledger, take_snapshot
from pyspark_pravega.connector.options import ReadOptions
from pyspark_pravega.connector.read import CHANGE_COLUMNS, ChangesRange, RowChangesReader, snapshot_reader
from pyspark_pravega.connector.stream.changes import ChangesOffset, ChangesSource
from pyspark_pravega.connector.table import load_definition
from pyspark_pravega.errors import DataLossError, SegmentTruncatedError
from pyspark_pravega.settings import Settings

Row = tuple[Any, ...]
FORMATS = ("avro", "json", "protobuf")
_WORDS = ("gold", "silver", "iron", "a'b", "", "Ä🎈")


@dataclass
class KeyedRun:
    """A table, and the dict that it is to be like."""

    spark: SparkSession
    client: Client
    settings: Settings
    namespace: str
    seed: int
    rows: dict[Row, Row] = field(default_factory=dict)
    """Key to the other columns: amount, word, and a struct's two fields."""
    versions: dict[int, dict[Row, Row]] = field(default_factory=dict)
    statements: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random, self._last_replaced = random.Random(self.seed), 0
        self.table = f"{self.namespace}.keyed_{self.seed}"
        self.stream = Stream(self.namespace.split(".")[1].replace("_", "-"), f"keyed-{self.seed}")
        by_words = self.random.random() < 0.7 and not is_missing("4.1")
        self._clause = "PRIMARY KEY (id, region) NOT ENFORCED" if by_words else ""
        more = "" if self._clause else ", 'primary-key' = 'id, region'"
        # All rows of an id lie in one segment then.
        more += ", 'routing-key' = 'id'" if self.seed % 3 == 0 else ""
        self.run(
            f"CREATE TABLE {self.table} (id BIGINT NOT NULL, amount INT, region STRING NOT NULL, word STRING NOT NULL, "
            f"place STRUCT<x: INT, y: STRING>{', ' + self._clause if self._clause else ''}) TBLPROPERTIES ("
            f"'format' = '{self.random.choice(FORMATS)}', 'segments' = '{self.random.choice((1, 3))}'{more})"
        )
        self.follower = Follower(self)

    def run(self, statement: str) -> None:
        """Run a statement, and remember it."""
        self.statements.append(statement)
        self.spark.sql(statement)

    def steps(self, count: int) -> None:
        """Run some statements; after each one the table holds what the dict holds."""
        for _ in range(count):
            step = self.random.choice(
                [
                    *(self.insert, self.insert, self.update, self.delete, self.merge, self.merge),
                    *(self.overwrite, self.compact, self.scale),
                ]
            )
            before = dict(self.rows)
            step()
            version = self._version()
            assert self.now() == self.rows, self.story()
            if step in (self.overwrite, self.compact):
                self._last_replaced = version
            if step == self.overwrite:
                self.follower.expect_loss(version)
            if self.random.random() < 0.6:
                self.follower.catch_up(version, self.rows, self.random.choice((None, 1, 30)))
            if before != self.rows:
                self.versions[version] = dict(self.rows)
        for version, rows in self.versions.items():
            self._check_version(version, rows)
        self.follower.catch_up(self._version(), self.rows, None)
        self._check_changes()

    def story(self) -> str:
        """What has happened."""
        return f"seed {self.seed}:\n" + ";\n".join(self.statements)

    def insert(self) -> None:
        """Rows of new keys and old ones."""
        rows = self._some_rows(self.random.choice((1, 5, 40)))
        self.run(f"INSERT INTO {self.table} {self._values(rows)}")
        self.rows.update(rows)

    def update(self) -> None:
        """Other values for some rows."""
        low, step = self.random.randrange(10), self.random.choice((2, 3))
        self.run(
            f"UPDATE {self.table} SET amount = coalesce(amount, 0) + 1, place = NULL "
            f"WHERE id % {step} = 0 AND id >= {low}"
        )
        for key, (amount, word, _) in list(self.rows.items()):
            if key[0] % step == 0 and key[0] >= low:
                self.rows[key] = ((amount or 0) + 1, word, None)

    def delete(self) -> None:
        """Fewer rows."""
        if self.random.random() < 0.5:
            id = self.random.randrange(20)
            self.run(f"DELETE FROM {self.table} WHERE id = {id}")
            gone = {key for key in self.rows if key[0] == id}
        else:
            word = self.random.choice(_WORDS)
            self.run(f"DELETE FROM {self.table} WHERE word = '{_quoted(word)}' AND id < 12")
            gone = {key for key, row in self.rows.items() if row[1] == word and key[0] < 12}
        for key in gone:
            del self.rows[key]

    def merge(self) -> None:
        """Rows that are deleted, changed and new, by one statement."""
        rows = self._some_rows(self.random.choice((3, 30)))
        self.run(
            f"MERGE INTO {self.table} t "
            f"USING (SELECT * FROM {self._values(rows)} AS v(id, amount, region, word, place)) s "
            "ON t.id = s.id AND t.region = s.region "
            "WHEN MATCHED AND s.word = 'iron' THEN DELETE "
            "WHEN MATCHED AND s.amount IS NOT NULL THEN UPDATE SET amount = s.amount + t.amount, word = s.word "
            "WHEN NOT MATCHED AND s.id < 15 THEN INSERT * "
            "WHEN NOT MATCHED BY SOURCE AND t.id = 3 THEN DELETE"
        )
        for key in [key for key in self.rows if key[0] == 3 and key not in rows]:
            del self.rows[key]
        for key, (amount, word, place) in rows.items():
            known = self.rows.get(key)
            if known is None:
                if key[0] < 15:
                    self.rows[key] = (amount, word, place)
            elif word == "iron":
                del self.rows[key]
            elif amount is not None:
                total = None if known[0] is None else amount + known[0]
                self.rows[key] = (total, word, known[2])

    def overwrite(self) -> None:
        """Some of the rows instead of all."""
        if self.random.random() < 0.3:
            self.run(f"TRUNCATE TABLE {self.table}")
            self.rows = {}
            return
        self.run(f"INSERT OVERWRITE {self.table} SELECT * FROM {self.table} WHERE id % 5 <> 1")
        self.rows = {key: row for key, row in self.rows.items() if key[0] % 5 != 1}

    def compact(self) -> None:
        """The same rows, in as many events."""
        # Of no events none are lost.
        if self._events() and not self.follower.keeps and self.follower.version < self._version():
            self.follower.expect_loss(self._version() + 1)
        table = self.table.removeprefix("pravega.")
        self.run(f"CALL pravega.system.compact(table => '{table}', remove_now => true)")
        assert self._events() == len(self.rows), self.story()

    def scale(self) -> None:
        """Split a segment, or bring two together."""
        controller = self.client.controller
        ranges = controller.current_segments(self.stream).ranges
        index = self.random.randrange(len(ranges))
        one = ranges[index]
        if index + 1 < len(ranges) > 3 and self.random.random() < 0.5:
            other = ranges[index + 1]
            sealed, parts = [one.segment_id, other.segment_id], [(one.min_key, other.max_key)]
        else:
            middle = (one.min_key + one.max_key) / 2
            sealed, parts = [one.segment_id], [(one.min_key, middle), (middle, one.max_key)]
        self.statements.append(f"-- scale {sealed} to {parts}")
        controller.scale_stream(self.stream, sealed, parts)

    def now(self) -> dict[Row, Row]:
        """The table as it is, read in this process; with few keys in memory at a time."""
        definition = load_definition(self.client, self.settings, self.stream)
        snapshot = take_snapshot(self.client, self.stream)
        options = ReadOptions(max_keys=self.random.choice((None, 5)))
        reader = snapshot_reader(definition, snapshot, definition.schema.fieldNames(), options)
        read: dict[Row, Row] = {}
        for partition in reader.partitions():
            for batch in reader.read(partition):
                for row in batch.to_pylist():
                    key = (row["id"], row["region"])
                    assert key not in read, f"{key} twice; {self.story()}"
                    place = row["place"]
                    read[key] = (row["amount"], row["word"], place and (place["x"], place["y"]))
        return read

    def in_spark(self, suffix: str = "") -> dict[Row, Row]:
        """The table as Spark reads it."""
        rows = self.spark.sql(f"SELECT id, region, amount, word, place FROM {self.table} {suffix}").collect()
        found = {(r.id, r.region): (r.amount, r.word, r.place and (r.place.x, r.place.y)) for r in rows}
        assert len(found) == len(rows), self.story()
        return found

    def _check_changes(self) -> None:
        """What has changed between two versions, done to the rows of the first one, gives those of the second one."""
        known = {0: {}, **self.versions} if not self._last_replaced else self.versions
        numbers = [number for number in sorted(known) if number >= self._last_replaced]
        pairs = [(one, other) for one in numbers for other in numbers if one < other]
        for first, last in self.random.sample(pairs, min(3, len(pairs))):
            rows = dict(known[first])
            found = self.spark.sql(
                f"SELECT * FROM {changes_in(self.table, first + 1, last)} ORDER BY _commit_version"
            ).collect()
            told = [change_of(row.asDict(recursive=True)) for row in found]
            apply(rows, told, f"{first} to {last}; {self.story()}")
            assert rows == known[last], f"{first} to {last}; {self.story()}"
            if first >= self.follower.since:
                # A stream over the same versions gives the same.
                streamed = [change for change in self.follower.changes if first < change[0] <= last]
                assert sorted(streamed, key=repr) == sorted(told, key=repr), f"{first} to {last}; {self.story()}"

    def _check_version(self, version: int, rows: dict[Row, Row]) -> None:
        if version >= self._last_replaced:
            assert self.in_spark(f"VERSION AS OF {version}") == rows, f"version {version}; {self.story()}"
            return
        if self.follower.keeps or not rows:
            # It may be there still: of no events none are gone.
            with suppress(AnalysisException):
                assert self.in_spark(f"VERSION AS OF {version}") == rows, f"version {version}; {self.story()}"
            return
        with pytest.raises(AnalysisException, match=f"version {version} of .* is gone"):
            self.in_spark(f"VERSION AS OF {version}")

    def _events(self) -> int:
        log = load_definition(self.client, self.settings, self.stream).as_log()
        reader = snapshot_reader(log, take_snapshot(self.client, self.stream), [], ReadOptions())
        return sum(batch.num_rows for one in reader.partitions() for batch in reader.read(one))

    def _version(self) -> int:
        return take_snapshot(self.client, self.stream).version

    def _some_rows(self, count: int) -> dict[Row, Row]:
        keys = {(self.random.randrange(20), self.random.choice(("eu", "us"))) for _ in range(count)}
        return {
            key: (
                self.random.choice((None, 1, 7)),
                self.random.choice(_WORDS),
                self.random.choice((None, (1, "y"), (None, None))),
            )
            for key in sorted(keys)
        }

    def _values(self, rows: dict[Row, Row]) -> str:
        def place(value: Row | None) -> str:
            if value is None:
                return "CAST(NULL AS STRUCT<x: INT, y: STRING>)"
            x, y = ("NULL" if one is None else repr(one) for one in value)
            return f"named_struct('x', CAST({x} AS INT), 'y', CAST({y} AS STRING))"

        texts = [
            f"({id}L, {'CAST(NULL AS INT)' if amount is None else amount}, '{region}', '{_quoted(word)}', {place(xy)})"
            for (id, region), (amount, word, xy) in rows.items()
        ]
        return "VALUES " + ", ".join(texts)


Change = tuple[int, str, Row, Row]
"""Version, what happened, key, and the other columns."""


def change_of(row: dict[str, Any]) -> Change:
    """A row of CHANGES."""
    place = row["place"]
    values = (row["amount"], row["word"], place and (place["x"], place["y"]))
    return row["_commit_version"], row["_change_type"], (row["id"], row["region"]), values


def apply(rows: dict[Row, Row], changes: list[Change], story: str) -> None:
    """Do to rows what changes say, which must fit them.

    Args:
        rows: the rows before.
        changes: in the order of their versions.
        story: for messages.
    """
    befores: dict[tuple[int, Row], Row] = {}
    for change in changes:
        version, kind, key, row = change
        match kind:
            case "insert":
                assert key not in rows, f"{change}; {story}"
                rows[key] = row
            case "delete":
                assert rows.pop(key) == row, f"{change}; {story}"
            case "update_preimage":
                assert befores.setdefault((version, key), row) == row, f"{change}; {story}"
            case "update_postimage":
                befores[version, key] = befores.get((version, key), rows[key])
                assert rows[key] == befores[version, key], f"{change}; {story}"
                rows[key] = row
            case _:
                raise AssertionError(change)


class Follower:
    """Follows a table by a stream of CHANGES, each micro-batch planned and read anew, as after a restart."""

    def __init__(self, run: KeyedRun) -> None:
        self._run = run
        self.rows: dict[Row, Row] = {}
        self.changes: list[Change] = []
        self.keeps = run.seed % 2 == 1
        """Whether a subscriber keeps events from being removed by compactions."""
        self.since = 0
        """Of later versions all changes were seen."""
        self._offset: str | None = None
        self._lost_with = 0
        if self.keeps:
            self._source(ReadOptions(subscriber=f"follower-{run.seed}")).subscribe()

    @property
    def version(self) -> int:
        """The last one that was read."""
        return 0 if self._offset is None else ChangesOffset.from_json(self._offset).commit

    def expect_loss(self, version: int) -> None:
        """The version takes away what lies before it."""
        self._lost_with = version

    def catch_up(self, version: int, rows: dict[Row, Row], max_events: int | None) -> None:
        """Read all that is there; then the rows are the table's.

        Args:
            version: the table's last version.
            rows: its rows.
            max_events: of a micro-batch.
        """
        run = self._run
        if self._lost_with > self.version:
            with pytest.raises((DataLossError, SegmentTruncatedError), match=r"is gone|truncated away|took the place"):
                self._read(max_events)
            ledger = open_ledger(run.client, run.stream)
            assert ledger is not None
            at = ledger.commits([version])[0].committed_at
            self._offset = ChangesOffset(stream=run.stream, commit=version, at=at).to_json()
            self.rows, self.since = dict(rows), version
            return
        self._read(max_events)
        assert self.version == version, run.story()
        assert self.rows == rows, run.story()

    def _source(self, options: ReadOptions) -> ChangesSource:
        run = self._run
        return ChangesSource(run.client, run.stream, ChangesRange(from_version="1"), options, keyed=True)

    def _read(self, max_events: int | None) -> None:
        run = self._run
        options = ReadOptions(
            max_events=max_events,
            max_keys=run.random.choice((None, 3)),
            subscriber=f"follower-{run.seed}" if self.keeps else None,
        )
        definition = load_definition(run.client, run.settings, run.stream)
        columns = [*definition.schema.fieldNames(), *CHANGE_COLUMNS.fieldNames()]
        while True:
            source = self._source(options)
            source.subscribe()
            start = source.initial_offset() if self._offset is None else ChangesOffset.from_json(self._offset)
            end = source.latest_offset(start)
            if end == start:
                return
            reader = RowChangesReader(definition, None, columns, max_keys=options.max_keys)
            changes = [
                change_of(row)
                for one in source.partitions(start, ChangesOffset.from_json(end.to_json()))
                for batch in reader.read(one)
                for row in batch.to_pylist()
            ]
            changes.sort(key=lambda change: change[0])
            apply(self.rows, changes, run.story())
            self.changes += changes
            self._offset = end.to_json()
            if run.random.random() < 0.7:
                # Else it dies before.
                source.commit(end)


def _quoted(word: str) -> str:
    return word.replace("'", "\\'")
