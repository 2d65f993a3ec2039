"""Queries that were planned before their table has changed: right rows, or an error before any row; never others."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from changes_tools import changes_by, changes_in
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from since import is_missing
from streaming_tools import Batches, read_stream, run_available, scope_of, start

from pyspark_pravega.sandbox import Sandbox

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.usefixtures("interpreted"), pytest.mark.in_turn(8)]

CHANGED = ("PRAVEGA_TABLE_CHANGED", "TableChangedError")
"""As the catalog process says it, and a task that finds out."""
SPARKS = ("INCOMPATIBLE", "UNRESOLVED_COLUMN", "PRAVEGA_VERSION_NOT_FOUND")
"""What Spark says of a view or a table that doesn't fit any more, and this package of a version that isn't there."""
BIG = 5_000_000_000
COLUMNS = "id BIGINT NOT NULL, v INT NOT NULL, w INT, s STRUCT<x: INT, y: STRING>"
FIRST = "SELECT 1, 10, 100, named_struct('x', 1000, 'y', 'a')"
TIME = "TIMESTAMP '2026-01-01 00:00:00Z'"
LETTERS = (
    "source STRING NOT NULL, segment BIGINT NOT NULL, offset BIGINT NOT NULL, encoding_id INT, reason STRING, "
    "event BINARY, at TIMESTAMP"
)
LETTERS_KEY = "'primary-key' = 'source, segment, offset'"
Rows = list[tuple[Any, ...]]

CHANGES: dict[str, tuple[list[str], str]] = {
    "null": (["ALTER TABLE {t} ALTER COLUMN v DROP NOT NULL"], "2, NULL, 200, named_struct('x', 2000, 'y', 'b')"),
    "type": (["ALTER TABLE {t} ALTER COLUMN w TYPE BIGINT"], f"2, 20, {BIG}, named_struct('x', 2000, 'y', 'b')"),
    "field": (["ALTER TABLE {t} ALTER COLUMN s.x TYPE BIGINT"], f"2, 20, 200, named_struct('x', {BIG}, 'y', 'b')"),
    "add": (["ALTER TABLE {t} ADD COLUMN z STRING FIRST"], "'z', 2, 20, 200, named_struct('x', 2000, 'y', 'b')"),
    "deep": (["ALTER TABLE {t} ADD COLUMN s.z INT FIRST"], "2, 20, 200, named_struct('z', 7, 'x', 2000, 'y', 'b')"),
    "drop": (["ALTER TABLE {t} DROP COLUMN w"], "2, 20, named_struct('x', 2000, 'y', 'b')"),
    "again": (
        ["DROP TABLE {t}", "CREATE TABLE {t} (id BIGINT NOT NULL, v INT NOT NULL, w TIMESTAMP, s STRING) {how}"],
        f"2, 20, {TIME}, 's'",
    ),
    "replace": (
        ["CREATE OR REPLACE TABLE {t} (id BIGINT NOT NULL, v BIGINT NOT NULL, w TIMESTAMP, s STRING) {how}"],
        f"2, {BIG}, {TIME}, 's'",
    ),
}
"""What another session does, and the values of a row that comes then."""
HOWS = {
    "avro": "",
    "keyed": "TBLPROPERTIES ('primary-key' = 'id')",
    "key-value": "TBLPROPERTIES ('primary-key' = 'id', 'table-type' = 'key-value')",
    "json": "TBLPROPERTIES ('format' = 'json')",
    "headerless": "TBLPROPERTIES ('format' = 'json', 'encoding-header' = 'false')",
    "protobuf": "TBLPROPERTIES ('format' = 'protobuf')",
}
CASES = [
    *(("avro", change) for change in CHANGES),
    ("keyed", "null"),
    ("key-value", "again"),
    ("json", "type"),
    ("headerless", "replace"),
    ("protobuf", "drop"),
]
"""Kinds of tables, and changes that they know."""


def plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, tuple) else value


def rows_of(frame: DataFrame) -> Rows:
    return sorted((tuple(map(plain, row)) for row in frame.collect()), key=repr)


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as pool:
        yield pool


def planned(own: SparkSession, name: str, kind: str, sandbox: Sandbox) -> dict[str, tuple[DataFrame, str]]:
    """A DataFrame for each way to read a table, and the statement that asks for its rows anew."""
    columns, plainly = "id, v, w, s", f"SELECT id, v, w, s FROM {name}"
    view, cached = (f"{prefix}_{name.rpartition('.')[2].replace('-', '_')}" for prefix in ("view", "cached"))
    own.table(name).createOrReplaceTempView(view)
    found = {
        "*": (own.table(name), plainly),
        "id": (own.table(name).select("id"), f"SELECT id FROM {name}"),
        "v": (own.table(name).selectExpr("id", "v + 1", "v IS NULL"), f"SELECT id, v + 1, v IS NULL FROM {name}"),
        "sum": (own.table(name).selectExpr("count(v)", "sum(w)"), f"SELECT count(v), sum(w) FROM {name}"),
        "count": (own.table(name).selectExpr("count(v)"), f"SELECT count(v) FROM {name}"),
        "s.x": (own.table(name).selectExpr("s.x"), f"SELECT s.x FROM {name}"),
        "view": (own.table(view), plainly),
    }
    if kind == "key-value":
        return found
    at = f"SELECT {columns} FROM {name} VERSION AS OF 1"
    changes = f"SELECT {columns} FROM {changes_in(name, 1)}"
    found |= {
        "drop-malformed": (own.read.option("mode", "drop-malformed").table(name), plainly),
        "version": (own.sql(at), at),
        "changes": (own.sql(changes), changes),
    }
    if kind == "avro" and not is_missing("4.1"):
        own.sql(f"CACHE LAZY TABLE {cached} AS SELECT id, v + 1 AS v FROM {name}")
        found["cached"] = (own.table(cached), f"SELECT id, v + 1 FROM {name}")
        stream = f"{scope_of(name.rpartition('.')[0])}/{name.rpartition('.')[2].replace('_', '-')}"
        by_options = own.read.format("pravega").option("controller", sandbox.controller_uri).option("stream", stream)
        registry = by_options.option("schema-registry-uri", sandbox.schema_registry_uri)
        found["by options"] = (registry.load(), plainly)
    return found


def crossed(spark: SparkSession, name: str, kind: str, change: str, sandbox: Sandbox) -> list[str]:
    """What is wrong with DataFrames that were made before another session has changed their table."""
    spark.sql(f"CREATE TABLE {name} ({COLUMNS}) {HOWS[kind]}")
    spark.sql(f"INSERT INTO {name} {FIRST}")
    own, other = spark.newSession(), spark.newSession()
    frames = planned(own, name, kind, sandbox)
    statements, values = CHANGES[change]
    for statement in statements:
        other.sql(statement.format(t=name, how=HOWS[kind]))
    other.sql(f"INSERT INTO {name} SELECT {values}")
    wrong, refused = [], 0
    for way, (old, anew) in frames.items():
        try:
            found: Any = rows_of(old)
        except Exception as error:
            if any(word in str(error) for word in (*CHANGED, *SPARKS)):
                refused += 1
                continue
            found = str(error)[:200]
        try:
            right: Any = rows_of(own.sql(anew))
        except Exception as error:
            right = str(error)[:200]
        if found != right:
            wrong.append(f"{kind}, {change}, {way}: {found}, and not {right}")
    if (refused == 0) != (change == "add"):
        wrong.append(f"{kind}, {change}: {refused} of {len(frames)} were refused")
    return wrong


def test_a_dataframe_of_an_older_table_is_read_rightly_or_not_at_all(
    spark: SparkSession, namespace: str, threads: ThreadPoolExecutor, sandbox: Sandbox
) -> None:
    def one(case: tuple[str, str]) -> list[str]:
        kind, change = case
        return crossed(spark, f"{namespace}.{kind.replace('-', '_')}_{change}", kind, change, sandbox)

    wrong = [text for texts in threads.map(one, CASES) for text in texts]
    assert not wrong, "\n".join(wrong)


MODES = ("fail-fast", "drop-malformed", "permissive", "bad-events", "changes")
FIRST_STREAMED = "1, 10, named_struct('x', 100, 'y', 'a')"
STREAMED: dict[str, tuple[list[str], str]] = {
    "null": (["ALTER TABLE {t} ALTER COLUMN v DROP NOT NULL"], "2, NULL, named_struct('x', 200, 'y', 'b')"),
    "type": (["ALTER TABLE {t} ALTER COLUMN v TYPE BIGINT"], f"2, {BIG}, named_struct('x', 200, 'y', 'b')"),
    "field": (["ALTER TABLE {t} ALTER COLUMN s.x TYPE BIGINT"], f"2, 20, named_struct('x', {BIG}, 'y', 'b')"),
    "drop": (["ALTER TABLE {t} DROP COLUMN v"], "2, named_struct('x', 200, 'y', 'b')"),
    "back": (
        ["ALTER TABLE {t} DROP COLUMN v", "ALTER TABLE {t} ADD COLUMN v INT AFTER id"],
        "2, 20, named_struct('x', 200, 'y', 'b')",
    ),
    "replace": (
        ["CREATE OR REPLACE TABLE {t} (id BIGINT, v TIMESTAMP, s STRING) {how}"],
        f"2, {TIME}, 's'",
    ),
    "deep": (["ALTER TABLE {t} ADD COLUMN s.z INT"], "2, 20, named_struct('x', 200, 'y', 'b', 'z', 7)"),
    "add": (["ALTER TABLE {t} ADD COLUMN z STRING"], "2, 20, named_struct('x', 200, 'y', 'b'), 'z'"),
}
"""What another session does while queries run, and the values of the next row; the last two are nothing to them."""
HARMLESS = {"deep", "add"}
STREAMED_CASES = [
    *(("avro", change) for change in STREAMED),
    ("json", "type"),
    *(("headerless", change) for change in ("drop", "back")),
]


class Running:
    """A table, and queries that read it in all modes while another session changes it."""

    def __init__(self, spark: SparkSession, name: str, kind: str, change: str, folder: Path) -> None:
        self.spark, self.name, self.change, self.folder = spark, name, change, folder
        self._how = HOWS[kind]
        strict = "" if change != "null" else " NOT NULL"
        spark.sql(f"CREATE TABLE {name} (id BIGINT, v INT{strict}, s STRUCT<x: INT, y: STRING>) {self._how}")
        spark.sql(f"INSERT INTO {name} SELECT {FIRST_STREAMED}")
        # What no mode makes bad differs by formats only. And NULLs for bad events don't go where it says NOT NULL.
        modes = [mode for mode in MODES if change == "type" or mode in ("drop-malformed", "changes")]
        self.sinks = {mode: Batches() for mode in modes}
        self.queries = {mode: start(self.frame(mode), folder / mode, self.sinks[mode]) for mode in modes}

    @property
    def letters(self) -> str:
        """Where bad events go, of all tables."""
        return f"{self.name.rpartition('.')[0]}.letters"

    def frame(self, mode: str) -> DataFrame:
        """What a query reads."""
        options = {"failOnDataLoss": "false"}
        if mode == "bad-events":
            options["bad-events"] = f"stream:{self.letters.removeprefix('pravega.')}"
        elif mode == "changes":
            rows = changes_by(self.spark.readStream.options(**options), self.name)
            return rows.selectExpr("id", "CAST(v AS STRING) AS v", "s")
        elif mode != "fail-fast":
            options["mode"] = mode
        return read_stream(self.spark, self.name, **options).selectExpr("id", "CAST(v AS STRING) AS v", "s")

    def wrong(self) -> list[str]:
        """Change it, and say what was wrong with what came of that."""
        first = [(1, "10", (100, "a"))]
        for mode, query in self.queries.items():
            query.processAllAvailable()
            assert self.rows(mode) == first
        other = self.spark.newSession()
        statements, values = STREAMED[self.change]
        for statement in statements:
            other.sql(statement.format(t=self.name, how=self._how))
        other.sql(f"INSERT INTO {self.name} SELECT {values}")
        harmless = self.change in HARMLESS
        expected = [*first, (2, "20", (200, "b"))] if harmless else first
        wrong = []
        for mode, query in self.queries.items():
            told = ended(query)
            query.stop()
            if self.rows(mode) != expected:
                wrong.append(f"{mode}: rows {self.rows(mode)} ({told[:100]})")
            elif any(word in told for word in CHANGED) == harmless:
                wrong.append(f"{mode}: {told[:700]}")
        for mode in self.queries if self.change in ("null", "type") else ():
            # Started again it reads the row that came.
            again = run_available(self.frame(mode), self.folder / mode)
            now = [tuple(map(plain, row)) for rows in again.rows.values() for row in rows]
            right = rows_of(self.spark.sql(f"SELECT id, CAST(v AS STRING), s FROM {self.name} WHERE id = 2"))
            if now != right:
                wrong.append(f"{mode}, started again: {now}, and not {right}")
        return [f"{self.name}, {text}" for text in wrong]

    def rows(self, mode: str) -> Rows:
        """What a query has read."""
        return sorted((tuple(map(plain, row)) for rows in self.sinks[mode].rows.values() for row in rows), key=repr)


def ended(query: StreamingQuery) -> str:
    """Why a query stopped; an empty text when it has read all and goes on."""
    try:
        query.processAllAvailable()
    except StreamingQueryException as error:
        return str(error)
    return ""


def test_running_queries_stop_before_rows_that_they_were_not_planned_for(
    spark: SparkSession, namespace: str, threads: ThreadPoolExecutor, tmp_path: Path
) -> None:
    spark.sql(f"CREATE TABLE {namespace}.letters ({LETTERS}) TBLPROPERTIES ({LETTERS_KEY})")

    def one(case: tuple[str, str]) -> list[str]:
        kind, change = case
        return Running(spark, f"{namespace}.{kind}_{change}", kind, change, tmp_path / f"{kind}_{change}").wrong()

    wrong = [text for texts in threads.map(one, STREAMED_CASES) for text in texts]
    assert not wrong, "\n".join(wrong)
    assert spark.table(f"{namespace}.letters").collect() == []


def test_bad_events_stay_bad_behind_a_change(
    spark: SparkSession, namespace: str, tmp_path: Path, sandbox: Sandbox
) -> None:
    """An event that no schema of the table reads is dropped as ever, before a change and behind it."""
    name = f"{namespace}.t"
    spark.sql(f"CREATE TABLE {name} (id BIGINT, v INT) {HOWS['headerless']}")
    sink = Batches()
    query = start(read_stream(spark, name, mode="drop-malformed").select("id"), tmp_path, sink)
    try:
        events = spark.createDataFrame([(b'{"id": "x"}',)], "event BINARY")
        stream = f"{scope_of(namespace)}/t"
        for number in range(2):
            spark.sql(f"INSERT INTO {name} VALUES ({number}, {number}{', DEFAULT' * number})")
            raw = events.write.format("pravega").option("format", "raw").option("stream", stream).mode("append")
            raw.option("controller", sandbox.controller_uri).save()
            if number == 0:
                query.processAllAvailable()
                spark.newSession().sql(f"ALTER TABLE {name} ADD COLUMN z STRING")
        assert ended(query) == ""
    finally:
        query.stop()
    assert [row.id for rows in sink.rows.values() for row in rows] == [0, 1]
