"""CALL analyze: what Spark is told of rows that a condition leaves, beside how many there are; and what it plans."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import test_lake_in_spark
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.functions import col, count_if, lit
from pyspark.sql.types import StructField

from pyspark_pravega.sandbox import Sandbox

pytestmark = [pytest.mark.server, pytest.mark.spark]

ROWS = 6000
COLUMNS = {
    "tiny": "CAST(pmod(xxhash64(id, 'tiny'), 7) AS TINYINT)",
    "small": "CAST(pmod(xxhash64(id, 'small'), 300) AS SMALLINT)",
    # Most are small, a few are very large.
    "amount": "CAST(pow(2, pmod(xxhash64(id, 'amount'), 2500) / 100) AS INT)",
    "twin": "id DIV 2",
    "share": "CAST(pmod(xxhash64(id, 'share'), 1000) / 999 AS FLOAT)",
    "price": "IF(id % 50 = 0, CAST('Infinity' AS DOUBLE), IF(id % 50 = 1, CAST('NaN' AS DOUBLE), id * 1.5))",
    "cost": "CAST(pmod(xxhash64(id, 'cost'), 100000) / 100 AS DECIMAL(12, 2))",
    "day": "IF(id % 10 = 0, DATE'2026-02-01', date_add(DATE'2026-01-01', CAST(pmod(xxhash64(id, 'day'), 365) AS INT)))",
    "at": "timestamp_seconds(1700000000 + pmod(xxhash64(id, 'at'), 1000000))",
    "wall": "CAST(timestamp_seconds(pmod(xxhash64(id, 'wall'), 1000)) AS TIMESTAMP_NTZ)",
    "flag": "pmod(xxhash64(id, 'flag'), 20) = 0",
    "bytes": "CAST(concat('b', pmod(xxhash64(id, 'bytes'), 90)) AS BINARY)",
    "status": "CASE WHEN pmod(xxhash64(id, 'status'), 100) < 90 THEN 'done' "
    "WHEN pmod(xxhash64(id, 'status'), 100) < 98 THEN 'open' ELSE 'lost' END",
    "name": "concat('customer#', lpad(id, 9, '0'))",
    "code": "CAST(concat('c', pmod(xxhash64(id, 'code'), 5)) AS CHAR(4))",
    "nothing": "CAST(NULL AS INT)",
}
NULLS = {"small": 3, "twin": 10, "cost": 4, "at": 6, "bytes": 2, "status": 20}
"""Columns of which one value of so many is null."""
OF_ROWS = ", ".join(
    f"{f'IF(pmod(xxhash64(id, 1), {NULLS[name]}) = 0, NULL, {sql})' if name in NULLS else sql} AS {name}"
    for name, sql in COLUMNS.items()
)
QUERY = f"SELECT id, {OF_ROWS}, array(id) AS list FROM range({{first}}, {{last}})"
LAKE = "'lake' = 'iceberg', 'lake-keep-in-stream' = '0 ms'"
WAYS = {
    "avro": "'format' = 'avro'",
    "json": "'format' = 'json', 'segments' = '3'",
    "protobuf": "'format' = 'protobuf'",
    "keyed": "'primary-key' = 'id'",
    "indexed": "'index-columns' = 'twin, day', 'segments' = '1'",
    "lake": LAKE,
    "keyed lake": f"{LAKE}, 'primary-key' = 'id'",
    "uncounted": "'format' = 'avro'",
}
"""Properties of tables; of the last one the commit log has counted no rows."""
UNDER, OVER, BESIDE = 0.25, 4.0, 0.05
"""An estimate is at least that share of the true number, and at most so many times it, but for a share of all rows."""


@pytest.fixture
def lakes(spark: SparkSession, sandbox: Sandbox, tmp_path: Path) -> Iterator[str]:
    """A catalog whose lake is in a folder of the test's."""
    yield from test_lake_in_spark.catalog_in(spark, sandbox, tmp_path / "lake")


@contextmanager
def configured(spark: SparkSession, **given: str) -> Iterator[None]:
    keys = {key.replace("__", "."): value for key, value in given.items()}
    before = {key: spark.conf.get(key, None) for key in keys}
    for key, value in keys.items():
        spark.conf.set(key, value)
    yield
    for key, past in before.items():
        if past is None:
            spark.conf.unset(key)
        else:
            spark.conf.set(key, past)


def analyzed(spark: SparkSession, table: str, columns: Sequence[str] | None = None) -> dict[str, dict[str, Any]]:
    catalog, name = table.split(".", 1)
    given = "" if columns is None else f", columns => array({', '.join(map(repr, columns))})"
    rows = spark.sql(f"CALL {catalog}.system.analyze(table => '{name}'{given})").collect()
    return {row.column: row.asDict() for row in rows}


def about(frame: DataFrame) -> int | None:
    """How many rows Spark is told that the scan of a plan gives; 0 where it needs none."""
    leaf = frame._jdf.queryExecution().optimizedPlan().collectLeaves().head()
    if leaf.toString().startswith("LocalRelation <empty>"):
        # The condition is false whatever the rows are.
        return 0
    told = re.search(r"numRows=OptionalLong\[(\d+)\]", leaf.scan().estimateStatistics().toString())
    return None if told is None else int(told[1])


def is_broadcast(frame: DataFrame) -> bool:
    return "BroadcastHashJoin" in frame._jdf.queryExecution().sparkPlan().toString()


def values_of(rows: Sequence[Any], field: StructField) -> list[Column]:
    """Some values of a column: the most frequent one, the least, some between, and one beside all."""
    values = (row[field.name] for row in rows if row[field.name] is not None)
    there = sorted(bytes(value) if isinstance(value, bytearray) else value for value in values)
    if not there:
        return [lit(5)]
    most = max(set(there), key=there.count) if len(set(there)) < 500 else there[0]
    picked = dict.fromkeys(str(there[len(there) * part // 10]) for part in (1, 3, 5, 9))
    by_text = {str(value): value for value in [*there, most]}
    return [lit(by_text[text]).cast(field.dataType) for text in dict.fromkeys([str(most), str(there[0]), *picked])]


def conditions(rows: Sequence[Any], fields: Sequence[StructField]) -> dict[str, Column]:
    """Each comparison of each type with some values, and some conditions of several columns."""
    all_of: dict[str, Column] = {}
    comparisons: dict[str, Callable[[Column, Column], Column]] = {
        "=": lambda of, value: of == value,
        "<=>": lambda of, value: of.eqNullSafe(value),
        "<>": lambda of, value: of != value,
        "<": lambda of, value: of < value,
        "<=": lambda of, value: of <= value,
        ">": lambda of, value: of > value,
        "not >=": lambda of, value: ~(of >= value),
        "mirrored": lambda of, value: value <= of,
        "in": lambda of, value: of.isin([value]),
    }
    for field in fields:
        of, values = col(field.name), values_of(rows, field)
        for (name, compare), (at, value) in itertools.product(comparisons.items(), enumerate(values)):
            if not (field.name == "flag" and name not in ("=", "<>", "<=>")):
                all_of[f"{field.name} {name} {at}"] = compare(of, value)
        all_of[f"{field.name} null"], all_of[f"{field.name} not null"] = of.isNull(), of.isNotNull()
        all_of[f"{field.name} in several"] = of.isin(values)
        all_of[f"{field.name} not in"] = ~of.isin(values[:2])
        if field.name != "flag":
            all_of[f"{field.name} between"] = of.between(values[-1], values[len(values) // 2]) | of.between(
                values[1 % len(values)], values[-1]
            )
    for prefix in ("customer#0000001", "customer#00000123", "customer", "d", "x", "customer#000005999"):
        all_of[f"like {prefix}"] = col("name").startswith(prefix)
    singles = [one for name, one in all_of.items() if name.split()[1] in ("=", "<", ">", "null")]
    for at, (one, two) in enumerate(zip(singles[::3], singles[40::3], strict=False)):
        all_of[f"and {at}"], all_of[f"or {at}"] = one & two, one | two
        all_of[f"not {at}"] = ~(one | two)
    return all_of


@pytest.mark.in_turn(8)
@pytest.mark.parametrize("way", WAYS)
def test_estimates_are_near_true_numbers(
    spark: SparkSession, namespace: str, lakes: str, tmp_path: Path, way: str
) -> None:
    table = f"{namespace if 'lake' not in way else lakes + '.' + namespace.partition('.')[2]}.t"
    source = spark.sql(QUERY.format(first=0, last=ROWS)).coalesce(2)
    source.write.parquet(str(tmp_path / "rows"))
    parquet = spark.read.parquet(str(tmp_path / "rows"))
    columns = ", ".join(f"{one.name} {one.dataType.simpleString()}" for one in parquet.schema)
    columns = columns.replace("id bigint", "id bigint NOT NULL").replace("code string", "code CHAR(4)")
    spark.sql(f"CREATE TABLE {table} ({columns}) TBLPROPERTIES ({WAYS[way]})")
    if way == "uncounted":
        parquet.writeTo(table).option("writer-mode", "at-least-once").append()
    else:
        for half in (0, 1):
            parquet.where(f"id % 2 = {half}").writeTo(table).append()
    if "lake" in way:
        spark.sql(f"CALL {lakes}.system.tier(table => '{table.partition('.')[2]}')").collect()
    own = spark.table(table)
    if way == "uncounted":
        assert about(own) is None
    # Without statistics conditions leave a quarter of the rows at least.
    for some in ("status = 'lost'", "status = 'lost' AND tiny = 1 AND small = 17 AND id < 5", "name LIKE 'x%'"):
        assert way == "uncounted" or ROWS // 4 <= (about(own.where(some)) or 0) <= ROWS // 2 + 1, some
    for some in ("status IS NOT NULL", "tiny <> 3", "true"):
        assert way == "uncounted" or about(own.where(some)) == ROWS, some
    answer = analyzed(spark, table)
    rows = parquet.collect()
    check_answer(answer, rows, parquet.schema.fields, way)
    # Of CHAR Spark compares values that it has padded, and tells nothing of that.
    fields = [one for one in parquet.schema if one.name not in ("list", "code")]
    wanted = conditions(rows, fields)
    true = parquet.agg(*(count_if(one).alias(f"n{at}") for at, one in enumerate(wanted.values()))).collect()[0]
    wrong = {}
    for (name, condition), number in zip(wanted.items(), true, strict=True):
        told = about(own.where(condition)) or 0
        if not number * UNDER - ROWS * BESIDE <= told <= number * OVER + ROWS * BESIDE:
            wrong[name] = (told, number)
    assert wrong == {}, (len(wrong), len(wanted))


def check_answer(
    answer: dict[str, dict[str, Any]], rows: Sequence[Any], fields: Sequence[StructField], way: str
) -> None:
    assert list(answer) == [one.name for one in fields]
    for field in fields:
        told, values = answer[field.name], [row[field.name] for row in rows]
        there = [value for value in values if value is not None]
        assert (told["rows"], told["nulls"]) == (ROWS, ROWS - len(there)), (way, field.name)
        if field.name == "list":
            assert told["distinct_count"] is None
            continue
        distinct = len({str(value) for value in there})
        assert abs(told["distinct_count"] - distinct) <= 0.15 * distinct, (way, field.name, told)
        if field.name in ("id", "tiny", "small", "amount", "day", "status", "cost"):
            assert (told["min"], told["max"]) == (str(min(there)), str(max(there))), (way, field.name, told)
        is_text = field.name in ("bytes", "status", "name", "code")
        assert (told["avg_length"] is not None) == is_text, (way, field.name)
        if is_text:
            length = 4 if field.name == "code" else sum(map(len, there)) / len(there)
            assert told["avg_length"] == pytest.approx(length)


def test_statistics_go_with_what_they_tell_of(spark: SparkSession, namespace: str) -> None:
    table = f"{namespace}.t"
    spark.sql(f"CREATE TABLE {table} (id BIGINT, kind INT, word STRING) TBLPROPERTIES ('compatibility' = 'AllowAny')")
    fill = f"INSERT INTO {table} SELECT id, id % 100, concat('w', id % 50) FROM range({{}}, {{}})"
    spark.sql(fill.format(0, 1000))

    def estimated(condition: str) -> int:
        rows = about(spark.table(table).where(condition))
        assert rows is not None
        return rows

    assert estimated("kind = 3") == 500
    analyzed(spark, table, ["KIND"])
    assert 8 <= estimated("kind = 3") <= 12
    # Of other columns nothing is known yet, and what is known stays when there is more.
    assert estimated("word = 'w3'") == 500
    analyzed(spark, table, ["word", "id"])
    assert (8 <= estimated("kind = 3") <= 12, 17 <= estimated("word = 'w3'") <= 23) == (True, True)
    # What came later is like what was there, or has values that weren't.
    for commit in range(1, 5):
        spark.sql(fill.format(commit * 1000, commit * 1000 + 1000))
    assert 40 <= estimated("kind = 3") <= 60
    assert 4000 <= estimated("id >= 1000") <= 4100
    assert estimated("kind = 777") >= 1000
    assert estimated("id = 4567") <= 50
    # A column that comes back, or gets another type, is another one.
    spark.sql(f"ALTER TABLE {table} ALTER COLUMN kind TYPE BIGINT")
    assert estimated("kind = 3") == 2500
    spark.sql(f"ALTER TABLE {table} DROP COLUMN word")
    spark.sql(f"ALTER TABLE {table} ADD COLUMN word STRING")
    assert estimated("word = 'w3'") == 2500
    assert estimated("id < 10") <= 100
    # Rows that took the place of all others may be anything.
    analyzed(spark, table)
    spark.sql(f"INSERT OVERWRITE {table} SELECT id, id % 2, 'x' FROM range(1000)")
    assert estimated("kind = 3") == 500
    analyzed(spark, table)
    assert 450 <= estimated("kind = 1") <= 550
    assert estimated("kind = 3") == 1
    spark.sql(f"TRUNCATE TABLE {table}")
    spark.sql(f"INSERT INTO {table} SELECT id, id % 3, 'x' FROM range(1000)")
    assert estimated("kind = 3") == 500
    spark.sql(f"CREATE OR REPLACE TABLE {table} AS SELECT id, CAST(id AS INT) AS kind FROM range(1000)")
    assert estimated("kind = 3") == 500
    analyzed(spark, table)
    spark.sql(f"DROP TABLE {table}")
    spark.sql(f"CREATE TABLE {table} AS SELECT id, CAST(id AS INT) AS kind FROM range(1000)")
    assert estimated("kind = 3") == 500


def test_a_table_with_a_key_has_fewer_rows_than_events(spark: SparkSession, namespace: str) -> None:
    table = f"{namespace}.t"
    spark.sql(f"CREATE TABLE {table} (id BIGINT NOT NULL, kind INT) TBLPROPERTIES ('primary-key' = 'id')")
    for kind in range(4):
        spark.sql(f"INSERT INTO {table} SELECT id, {kind} FROM range(1000)")
    assert about(spark.table(table)) == 4000
    assert analyzed(spark, table)["kind"]["distinct_count"] == 1
    assert about(spark.table(table)) == 1000
    assert about(spark.table(table).where("kind = 3")) == 1000
    assert about(spark.table(table).where("id = 77")) == 1
    spark.sql(f"INSERT INTO {table} SELECT id, 5 FROM range(500)")
    assert about(spark.table(table)) == 1500
    spark.sql(f"CALL pravega.system.compact('{table.partition('.')[2]}', true)")
    # A compaction changes no row.
    assert about(spark.table(table)) == 1000
    assert 300 <= (about(spark.table(table).where("kind < 5")) or 0) <= 1000
    spark.sql(f"DELETE FROM {table} WHERE id >= 100")
    spark.sql(f"CALL pravega.system.compact('{table.partition('.')[2]}', true)")
    assert about(spark.table(table)) == 100


@pytest.mark.parametrize("cbo", ["false", "true"])
@pytest.mark.parametrize("properties", ["'format' = 'avro'", "'primary-key' = 'sk'"])
def test_a_join_broadcasts_the_side_of_which_few_rows_are_wanted(
    spark: SparkSession, namespace: str, properties: str, cbo: str
) -> None:
    """As of TPC-DS's customer_demographics: three conditions leave a seventieth of it."""
    demographics, sales = f"{namespace}.demographics", f"{namespace}.sales"
    spark.sql(
        f"CREATE TABLE {demographics} (sk BIGINT NOT NULL, gender STRING, marital STRING, education STRING) "
        f"TBLPROPERTIES ({properties})"
    )
    spark.sql(
        f"INSERT INTO {demographics} SELECT id, element_at(array('M', 'F'), CAST(id % 2 + 1 AS INT)), "
        "element_at(array('S', 'M', 'W', 'D', 'U'), CAST(id DIV 2 % 5 + 1 AS INT)), "
        "element_at(array('Primary', 'Secondary', 'College', '2 yr Degree', '4 yr Degree', 'Advanced Degree', "
        "'Unknown'), CAST(id DIV 10 % 7 + 1 AS INT)) FROM range(19600)"
    )
    spark.sql(f"CREATE TABLE {sales} (demo BIGINT, price DOUBLE)")
    spark.sql(f"INSERT INTO {sales} SELECT id * 7 % 19600, id * 0.5 FROM range(40000)")
    query = (
        f"SELECT education, count(*), sum(price) FROM {sales} JOIN {demographics} ON demo = sk "
        "WHERE gender = 'M' AND marital = 'S' AND education = 'College' GROUP BY education"
    )
    with configured(
        spark,
        spark__sql__autoBroadcastJoinThreshold="100KB",
        spark__sql__cbo__enabled=cbo,
        spark__sql__adaptive__enabled="false",
    ):
        before = spark.sql(query)
        assert not is_broadcast(before)
        for table in (demographics, sales):
            analyzed(spark, table)
        behind = spark.sql(query)
        assert is_broadcast(behind)
        assert behind.collect() == before.collect()
        # All of it would be too large.
        assert not is_broadcast(spark.sql(f"SELECT * FROM {sales} JOIN {demographics} ON demo = sk"))


def test_what_is_known_of_a_column_is_described(spark: SparkSession, namespace: str) -> None:
    table = f"{namespace}.t"
    spark.sql(
        f"CREATE TABLE {table} AS SELECT IF(id % 4 = 0, NULL, CAST(id AS INT)) AS number, concat('n', id) AS word, "
        "DATE'2026-01-01' AS day, CAST(id / 4 AS DECIMAL(10, 2)) AS price FROM range(100)"
    )
    for described in (False, True):
        shown = {
            # Some Sparks show where a value is in.
            name: {
                row.info_name: re.sub(r"^Optional\[(.*)\]$", r"\1", row.info_value)
                for row in spark.sql(f"DESCRIBE EXTENDED {table} {name}").collect()
            }
            for name in ("number", "word", "price")
        }
        if not described:
            assert "distinct_count" not in shown["number"]
            analyzed(spark, table)
    assert [shown["number"][name] for name in ("min", "max", "num_nulls")] == ["1", "99", "25"]
    assert [shown["price"][name] for name in ("min", "max", "num_nulls", "avg_col_len")] == ["0.00", "24.75", "0", "8"]
    assert [shown["word"][name] for name in ("min", "avg_col_len", "max_col_len")] == ["NULL", "3", "3"], shown
    spark.sql(f"CREATE VIEW {namespace}.v AS SELECT 1 AS one")
    spark.sql(
        f"CREATE TABLE {namespace}.lookup (id INT NOT NULL, word STRING) TBLPROPERTIES ('table-type' = 'key-value', "
        "'primary-key' = 'id')"
    )
    name = namespace.partition(".")[2]
    for arguments, said in (
        (f"'{name}.t', array('numer')", 'did you mean "number"'),
        (f"'{name}.t', array('number', NULL)", '"null" is not a column'),
        (f"'{name}.none'", "does not exist"),
        (f"'{name}.v'", "is a view"),
        (f"'{name}.lookup'", "key-value table"),
    ):
        with pytest.raises(PySparkException, match=said):
            spark.sql(f"CALL pravega.system.analyze({arguments})")
