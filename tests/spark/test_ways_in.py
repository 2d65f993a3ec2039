"""A value is stored in one form, whichever way it came into the table: so what SQL takes for equal is one key."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter
from since import is_missing

from pyspark_pravega.sandbox import Sandbox

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.usefixtures("interpreted"), pytest.mark.in_turn]

COLUMNS = "k CHAR(5) NOT NULL, d DECIMAL(12,8) NOT NULL, t TIMESTAMP NOT NULL, v INT, w VARCHAR(3), l ARRAY<CHAR(2)>"
PLAIN = f"CREATE TABLE {{}} ({COLUMNS}) TBLPROPERTIES ("
KEYED = PLAIN + "'primary-key' = 'k, d, t', "
TABLES = {
    "keyed": KEYED + "'segments' = '8')",
    "pattern": KEYED + "'segments' = '8', 'format' = 'protobuf', 'routing-key' = '{k}/{d}')",
    "key_value": KEYED + "'table-type' = 'key-value', 'format' = 'json')",
    "plain": PLAIN + "'segments' = '2', 'format' = 'json', 'routing-key' = 'k')",
}
UNCHECKED = ["save", "to_table"] if is_missing("4.1") else ["save", "to_table", "start"]
"""Ways whose rows Spark doesn't hold against the table's columns."""
CHECKED = ["values", "select", "write_to", "save_as", "foreach_batch"]
WAYS = {
    "keyed": [*CHECKED, *UNCHECKED, "copy", "merge", "update"],
    "pattern": ["values", "to_table"],
    # The source "pravega" knows no key-value tables, nor does a copy.
    "key_value": ["values", "write_to", "to_table", "merge"],
    "plain": ["values", "write_to", *UNCHECKED],
}
OTHERS = "k STRING, d DECIMAL(7,7), t TIMESTAMP, v INT, w STRING, l ARRAY<STRING>"
"""Other types that hold the same values, as rows of those have them."""

SHOUTED = "ID INT, name STRING, S STRUCT<X: INT, l: ARRAY<STRUCT<y: INT>>>"


@dataclass
class Ways:
    """All ways into tables: each brings one row, or tries to."""

    spark: SparkSession
    sandbox: Sandbox
    folder: Path
    namespace: str

    def take(self, way: str, table: str, v: int, *, k: str = "ab", w: str = "x") -> None:
        """Write a row with the value `v`; the key is the same for all."""
        row = {"k": k, "d": "0.0000001", "t": "2026-01-02T03:04:05.678901Z", "v": v, "w": w, "l": ["y"]}
        name = f"{table.rpartition('.')[2]}_{v}"
        sql = f"'{k}' AS k, 0.0000001BD AS d, TIMESTAMP'{row['t']}' AS t, {v} AS v, '{w}' AS w, array('y') AS l"
        rows = self.spark.sql(f"SELECT {sql}")
        rows = rows.selectExpr(*(f"CAST({c.split(' ')[0]} AS {c.partition(' ')[2]})" for c in OTHERS.split(", ")))
        rows.createOrReplaceTempView(name)
        getattr(self, f"_{way}")(table, name, rows, row)

    def _values(self, table: str, name: str, rows: DataFrame, row: dict[str, object]) -> None:
        values = (
            f"'{row['k']}', 1e-7BD, TIMESTAMP'2026-01-02 04:04:05.678901+01:00', {row['v']}, '{row['w']}', array('y')"
        )
        self.spark.sql(f"INSERT INTO {table} VALUES ({values})")

    def _select(self, table: str, name: str, rows: DataFrame, row: dict[str, object]) -> None:
        self.spark.sql(f"INSERT INTO {table} SELECT * FROM {name}")

    def _write_to(self, table: str, name: str, rows: DataFrame, row: dict[str, object]) -> None:
        rows.writeTo(table).append()

    def _save_as(self, table: str, name: str, rows: DataFrame, row: dict[str, object]) -> None:
        rows.write.mode("append").saveAsTable(table)

    def _save(self, table: str, name: str, rows: DataFrame, row: dict[str, object]) -> None:
        rows.write.format("pravega").options(**self.options(table)).mode("append").save()

    def _to_table(self, table: str, name: str, rows: DataFrame, row: dict[str, object]) -> None:
        self.stream(name, row, OTHERS).toTable(table).awaitTermination()

    def _start(self, table: str, name: str, rows: DataFrame, row: dict[str, object]) -> None:
        self.stream(name, row, OTHERS).format("pravega").options(**self.options(table)).start().awaitTermination()

    def _foreach_batch(self, table: str, name: str, rows: DataFrame, row: dict[str, object]) -> None:
        def write(batch: DataFrame, _epoch: int) -> None:
            batch.writeTo(table).append()

        self.stream(name, row, OTHERS).foreachBatch(write).start().awaitTermination()

    def _copy(self, table: str, name: str, rows: DataFrame, row: dict[str, object]) -> None:
        source = f"{self.namespace}.from_{name}"
        self.spark.sql(
            f"CREATE TABLE {source} ({COLUMNS.replace('(12,8)', '(9,7)')}) TBLPROPERTIES ('routing-key' = 'k')"
        )
        self.spark.sql(f"INSERT INTO {source} SELECT * FROM {name}")
        within = [text.removeprefix("pravega.") for text in (source, table)]
        self.spark.sql(f"CALL pravega.system.copy('{within[0]}', '{within[1]}', '{name}')").collect()

    def _merge(self, table: str, name: str, rows: DataFrame, row: dict[str, object]) -> None:
        self.spark.sql(
            f"MERGE INTO {table} t USING {name} s ON t.k = rpad(s.k, 5, ' ') AND t.d = s.d AND t.t = s.t "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )

    def _update(self, table: str, name: str, rows: DataFrame, row: dict[str, object]) -> None:
        self.spark.sql(f"UPDATE {table} SET v = {row['v']}, w = '{row['w']}' WHERE k = '{row['k']}'")

    def options(self, table: str) -> dict[str, str]:
        _, scope, stream = table.replace("_", "-").split(".")
        return {
            "controller-uri": self.sandbox.controller_uri,
            "schema-registry-uri": self.sandbox.schema_registry_uri,
            "stream": f"{scope}/{stream}",
        }

    def stream(self, name: str, row: dict[str, object], columns: str) -> DataStreamWriter:
        """A streaming query that brings a row, and ends."""
        files = self.folder / name
        files.mkdir()
        (files / "rows.json").write_text(json.dumps(row))
        rows = self.spark.readStream.schema(columns).json(str(files))
        state = self.folder / f"{name}-state"
        return rows.writeStream.trigger(availableNow=True).option("checkpointLocation", str(state))


@contextmanager
def as_stored(spark: SparkSession) -> Iterator[None]:
    """Spark fills no CHAR up that it reads."""
    spark.conf.set("spark.sql.readSideCharPadding", "false")
    try:
        yield
    finally:
        spark.conf.unset("spark.sql.readSideCharPadding")


@pytest.mark.in_turn(8)
def test_one_form_and_one_key(spark: SparkSession, sandbox: Sandbox, namespace: str, tmp_path: Path) -> None:
    ways = Ways(spark, sandbox, tmp_path, namespace)
    tables = {name: f"{namespace}.{name}" for name in TABLES}
    with ThreadPoolExecutor(len(TABLES)) as threads:
        wrong = list(threads.map(partial(one_form, ways), tables, tables.values()))
    assert list(chain.from_iterable(wrong)) == []
    with as_stored(spark):
        stored = {
            name: spark.sql(f"SELECT DISTINCT k, CAST(d AS STRING), w, l FROM {table}").collect()
            for name, table in {**tables, "log": f"{namespace}.`keyed$log`"}.items()
        }
    for name, rows in stored.items():
        assert rows == [("ab   ", "0.00000010", "x", ["y "])], name


def one_form(ways: Ways, name: str, table: str) -> list[str]:
    """Write a row by each way; what is wrong then."""
    assert ways.spark._jvm is not None
    # Spark looks for the source "pravega" in the thread's session.
    ways.spark._jvm.SparkSession.setActiveSession(ways.spark._jsparkSession)
    ways.spark.sql(TABLES[name].replace("{}", table))
    wrong = []
    for v, way in enumerate(WAYS[name]):
        ways.take(way, table, v)
        if name == "plain":
            continue
        # The second one looks for the key's place.
        for where in ("true", "k = 'ab' AND d = 1e-7BD AND t = TIMESTAMP'2026-01-02 03:04:05.678901Z'"):
            found = [row.v for row in ways.spark.sql(f"SELECT v FROM {table} WHERE {where}").collect()]
            if found != [v]:
                wrong.append(f"{name}, {way}, WHERE {where}: {found} instead of {[v]}")
    return wrong


@pytest.mark.parametrize("name", ["keyed", "key_value"])
def test_texts_that_are_too_long_are_refused(
    spark: SparkSession, sandbox: Sandbox, namespace: str, tmp_path: Path, name: str
) -> None:
    ways, table = Ways(spark, sandbox, tmp_path, namespace), f"{namespace}.{name}_short"
    spark.sql(TABLES[name].replace("{}", table))
    ways.take("values", table, 99)
    for v, way in enumerate(UNCHECKED if name == "keyed" else ["to_table"]):
        with pytest.raises(PySparkException, match=r'column "w" is VARCHAR\(3\), and the value "wxyz" has 4'):
            ways.take(way, table, 2 * v, w="wxyz")
        with pytest.raises(PySparkException, match=r'column "k" is CHAR\(5\), and the value "abcdef" has 6'):
            ways.take(way, table, 2 * v + 1, k="abcdef")
        # Blanks that are too many are no text, as in SQL.
        ways.take(way, table, v + 50, k="ab      ", w="wx    ")
        assert spark.sql(f"SELECT v, w FROM {table}").collect() == [(v + 50, "wx ")]


@pytest.mark.parametrize("name", ["plain", "key_value"])
def test_names_are_found_whatever_their_case(
    spark: SparkSession, sandbox: Sandbox, namespace: str, tmp_path: Path, name: str
) -> None:
    ways, table = Ways(spark, sandbox, tmp_path, namespace), f"{namespace}.{name}_case"
    more = "" if name == "plain" else " TBLPROPERTIES ('table-type' = 'key-value', 'primary-key' = 'id')"
    spark.sql(f"CREATE TABLE {table} (id INT, Name STRING, s STRUCT<x: INT, L: ARRAY<STRUCT<Y: INT>>>){more}")

    def stream(number: int) -> DataStreamWriter:
        row = {"ID": number, "name": f"n{number}", "S": {"X": number, "l": [{"y": number}]}}
        return ways.stream(f"{name}_case_{number}", row, SHOUTED)

    stream(1).toTable(table).awaitTermination()
    if name == "plain":
        second = stream(2)
        if is_missing("4.1"):
            second.toTable(table).awaitTermination()
        else:
            second.format("pravega").options(**ways.options(table)).start().awaitTermination()
        rows = spark.sql("SELECT 3 AS ID, 'n3' AS name, named_struct('X', 3, 'l', array(named_struct('y', 3))) AS S")
        rows.write.format("pravega").options(**ways.options(table)).mode("append").save()
        # Of the rows' columns one is new, and not those that differ in case.
        merged = ways.stream(
            "merged", {"ID": 4, "name": "n4", "S": {"X": 4, "l": [{"y": 4}]}, "MORE": 5}, f"{SHOUTED}, MORE INT"
        )
        merged.option("merge-schema", "true").toTable(table).awaitTermination()
        spark.sql(f"ALTER TABLE {table} DROP COLUMN MORE")
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        with pytest.raises(PySparkException, match='the rows have "ID", and the table "id", which are different names'):
            stream(9).toTable(table).awaitTermination()
    finally:
        spark.conf.unset("spark.sql.caseSensitive")
    written = [(n, f"n{n}", (n, [(n,)])) for n in ((1, 2, 3, 4) if name == "plain" else (1,))]
    assert sorted(tuple(row) for row in spark.table(table).collect()) == written
