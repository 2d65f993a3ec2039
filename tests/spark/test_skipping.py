"""Blocks of events that a query passes over by a table's index: the rows are those of a Parquet file all the same."""

from __future__ import annotations

import math
import os
import random
import re
import time
from collections import Counter
from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, lit
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.connector.options import WriteOptions
from pyspark_pravega.connector.write.job import WriteJob
from pyspark_pravega.connector.write.plan import WritePlan

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.in_turn(8)]

PREDICATES = int(os.environ.get("SKIPPING_PREDICATES", "500"))
MIXTURES = int(os.environ.get("SKIPPING_MIXTURES", "20"))
SEED = int(os.environ.get("SKIPPING_SEED", "7"))
VERSIONS, NOTE = int(os.environ.get("SKIPPING_VERSIONS", "100")), int(os.environ.get("SKIPPING_NOTE", "50"))
COMMITS, ROWS = 24, 40
_EPOCH = datetime(2026, 1, 1)
_LONG = "ü" * 20
_FLOATS = [0.0, -0.0, math.nan, math.inf, -math.inf, 0.1, -1.5e-300, 3.5]


def _integers(bits: int) -> Callable[[random.Random, int], int]:
    top = 2 ** (bits - 1)
    edges = [top - 1, -top, 0]
    return lambda at, n: at.choice(edges) if at.random() < 0.03 else (n * 5 + at.randrange(5)) % top


def _text(at: random.Random, n: int) -> str:
    odd = ["", "\U0010ffff" * 20, _LONG + "a", _LONG + "é", "\x00", "~", "A"]
    return at.choice(odd) if at.random() < 0.05 else f"{_LONG if n % 2 else ''}{n:04d}-{at.randrange(9)}é"


def _float(at: random.Random, n: int) -> float:
    return at.choice(_FLOATS) if at.random() < (0.2 if n % 4 == 0 else 0.0) else n + at.randrange(64) / 64


COLUMNS: dict[str, tuple[DataType, Callable[[random.Random, int], Any]]] = {
    "i8": (ByteType(), _integers(8)),
    "i16": (ShortType(), _integers(16)),
    "i32": (IntegerType(), _integers(32)),
    "i64": (LongType(), _integers(64)),
    "f32": (FloatType(), lambda at, n: _float(at, n) if at.random() < 0.9 else 0.1),
    "f64": (DoubleType(), _float),
    "dec": (DecimalType(20, 4), lambda at, n: Decimal(n * 10_000 + at.randrange(-5, 5000)).scaleb(-4)),
    "day": (DateType(), lambda at, n: date(1960, 1, 1) + timedelta(n * 30 + at.randrange(30))),
    "at": (TimestampType(), lambda at, n: _EPOCH + timedelta(seconds=n * 60, microseconds=at.randrange(60_000_000))),
    "wall": (TimestampNTZType(), lambda at, n: datetime(1969, 12, 31) + timedelta(hours=n, microseconds=n)),
    "flag": (BooleanType(), lambda at, n: n % 3 == 0 if n % 5 else at.random() < 0.5),
    "bin": (
        BinaryType(),
        lambda at, n: b"\xff" * 40 if at.random() < 0.03 else bytes([n % 256, at.randrange(256)]) * 30,
    ),
    "note": (StringType(), _text),
}
SCHEMA = StructType([StructField("id", LongType()), *(StructField(name, kind) for name, (kind, _) in COLUMNS.items())])


def rows_of(at: random.Random, commit: int) -> list[tuple[Any, ...]]:
    """A commit's rows: of each commit other ones of each column, some of them null, in some commits all."""
    return [
        (
            commit * ROWS + number,
            *(None if at.random() < 0.04 or (commit + i) % 11 == 0 else make(at, commit) for i, (_, make) in parts),
        )
        for number in range(ROWS)
        for parts in [list(enumerate(COLUMNS.values()))]
    ]


def literal(at: random.Random, name: str, kind: DataType, rows: list[tuple[Any, ...]]) -> Any:
    """A value that is there, or one beside it."""
    value = at.choice(rows)[1 + list(COLUMNS).index(name)]
    if value is None or at.random() < 0.2:
        value = COLUMNS[name][1](at, at.randrange(-2, COMMITS + 2) % 120)
    return lit(value).cast(kind)


def leaf(at: random.Random, rows: list[tuple[Any, ...]]) -> Any:
    name, (kind, _) = at.choice(list(COLUMNS.items()))
    of = col(name)

    def one() -> Any:
        return literal(at, name, kind, rows)

    ways: list[Callable[[], Any]] = [
        lambda: of == one(),
        lambda: of != one(),
        lambda: of < one(),
        lambda: of <= one(),
        lambda: of > one(),
        lambda: of >= one(),
        lambda: one() < of,
        lambda: of.eqNullSafe(one()),
        lambda: of.between(one(), one()),
        lambda: of.isin([one() for _ in range(at.randrange(1, 5))]),
        lambda: of.isin([one() for _ in range(30)]),
        of.isNull,
        of.isNotNull,
        lambda: col("note").startswith((at.choice(rows)[-1] or "")[: at.randrange(1, 26)]),
    ]
    return at.choice(ways)()


def condition(at: random.Random, rows: list[tuple[Any, ...]], depth: int = 0) -> Any:
    kind = at.random()
    if depth < 3 and kind < 0.45:
        one, two = condition(at, rows, depth + 1), condition(at, rows, depth + 1)
        return one & two if kind < 0.25 else one | two
    return ~condition(at, rows, depth + 1) if depth < 3 and kind < 0.6 else leaf(at, rows)


def planned_bytes(frame: DataFrame) -> tuple[int, int]:
    """What the plan says that it reads and skips."""
    text = frame._jdf.queryExecution().executedPlan().toString()
    sizes = re.search(r"(\d+) bytes(?:, (\d+) bytes skipped)?\]", text)
    # Spark needs no scan for a condition that is false whatever the rows are.
    assert sizes is not None or "LocalTableScan <empty>" in text, text
    return (0, 0) if sizes is None else (int(sizes[1]), int(sizes[2] or 0))


def skipped_bytes(frame: DataFrame) -> int:
    """What the plan says is skipped."""
    return planned_bytes(frame)[1]


def answers(frame: DataFrame) -> Counter[int]:
    return Counter(row.id for row in frame.select("id").collect())


@pytest.mark.in_turn(8)
@pytest.mark.parametrize("table_format", ["avro", "json", "protobuf"])
def test_any_condition_gives_the_rows_that_parquet_gives(
    spark: SparkSession, namespace: str, tmp_path: Path, table_format: str
) -> None:
    at = random.Random(f"{SEED} {table_format}")
    table, columns = f"{namespace}.t", ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in SCHEMA)
    names = ", ".join(COLUMNS)
    spark.sql(
        f"CREATE TABLE {table} ({columns}) TBLPROPERTIES ('format' = '{table_format}', 'segments' = '2', "
        f"'routing-key' = 'id', 'index-columns' = '{names}')"
    )
    everything: list[tuple[Any, ...]] = []
    for commit in range(COMMITS):
        rows = rows_of(at, commit)
        everything += rows
        frame = spark.createDataFrame(rows, SCHEMA).repartition(1 + commit % 3)
        if commit % 6 == 5:
            # Nobody knows figures of these.
            frame.writeTo(table).option("writer-mode", "at-least-once").append()
        else:
            frame.writeTo(table).append()
    spark.createDataFrame(everything, SCHEMA).write.parquet(str(tmp_path / "rows"))
    parquet, own = spark.read.parquet(str(tmp_path / "rows")), spark.table(table)
    saved = 0
    for number in range(PREDICATES // 3 + 1):
        wanted = condition(at, everything)
        filtered = own.where(wanted)
        assert answers(filtered) == answers(parquet.where(wanted)), (SEED, table_format, number, str(wanted))
        saved += skipped_bytes(filtered) > 0
    assert saved > PREDICATES // 30, "hardly any condition saves anything"


def test_a_hundredth_of_the_time_reads_a_hundredth_of_the_bytes(
    spark: SparkSession, namespace: str, catalog: Catalog, capsys: pytest.CaptureFixture[str]
) -> None:
    table = f"{namespace}.long"
    spark.sql(
        f"CREATE TABLE {table} (at TIMESTAMP, value DOUBLE, note STRING) TBLPROPERTIES ('index-columns' = 'at', "
        "'segments' = '2')"
    )
    definition = catalog.load_table([namespace.split(".")[-1]], "long", age_s=0)
    count, begin = 1000, 1_767_225_600_000_000
    for version in range(VERSIONS):
        numbers = np.arange(version * count, version * count + count)
        at = pa.array(numbers * 1000 + begin).cast(pa.timestamp("us", "UTC"))
        note = pa.array(["x" * NOTE]).take(pa.array(np.zeros(count, np.int64)))
        job = WriteJob(WritePlan.of(definition, WriteOptions(transaction_timeout_ms=60_000)))
        batch = pa.record_batch({"at": at, "value": pa.array(numbers * 0.5), "note": note})
        job.commit_job([job.write_task(iter([batch]))])
    first = VERSIONS // 2 * count
    asked = f"SELECT sum(value) FROM {table} WHERE at BETWEEN %s AND %s"
    between = [f"timestamp_micros({begin + number * 1000})" for number in (first, first + VERSIONS * count // 100 - 1)]
    seconds: dict[str, list[float]] = {}
    of_all, of_some = (f"SELECT sum(value) FROM {table} WHERE value >= 0", asked % tuple(between))
    for query, numbers in (
        (of_all, np.arange(VERSIONS * count)),
        (of_some, np.arange(first, first + VERSIONS * count // 100)),
    ):
        for _ in range(3):
            begun = time.monotonic()
            frame = spark.sql(query)
            assert frame.collect()[0][0] == (numbers * 0.5).sum()
            seconds.setdefault(query, []).append(round(time.monotonic() - begun, 3))
    read, skipped = planned_bytes(frame)
    assert read <= 0.03 * (read + skipped), (read, skipped)
    with capsys.disabled():
        print(f"\n{VERSIONS} versions, {read + skipped} bytes, {read} read; seconds: {list(seconds.values())}")


def inserted(spark: SparkSession, table: str, *numbers: int, columns: str = "id, repeat(hex(id), 2000)") -> None:
    for number in numbers:
        spark.sql(f"INSERT INTO {table} SELECT {columns} FROM range({number * 100}, {number * 100 + 100})")


def test_what_changes_a_table_changes_no_answer(spark: SparkSession, namespace: str) -> None:
    table = f"{namespace}.changed"
    spark.sql(f"CREATE TABLE {table} (id BIGINT, s STRING) TBLPROPERTIES ('index-columns' = 'ID, s', 'segments' = '1')")
    inserted(spark, table, 0, 1, 2)

    def check(expected: dict[str, int], suffix: str = "") -> None:
        for where, count in expected.items():
            assert spark.sql(f"SELECT id FROM {table} {suffix} WHERE {where}").count() == count, (where, suffix)

    def saves(where: str, suffix: str = "") -> bool:
        return skipped_bytes(spark.sql(f"SELECT id FROM {table} {suffix} WHERE {where}")) > 0

    check({"id < 100": 100, "id = 150": 1, "id > 1000": 0, "NOT id >= 100": 100, "id IS NULL": 0})
    assert saves("id < 100")
    assert saves("id < 100", "VERSION AS OF 2")
    assert not saves("id % 2 = 0")
    check({"id >= 100": 100, "id >= 200": 0}, "VERSION AS OF 2")
    # Splits and merges: what was written before and after is skipped and read.
    for factor in (2, 1):
        spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('segments' = '{factor}')")
        inserted(spark, table, 2 + factor)
    check({"id BETWEEN 100 AND 199": 100, "id >= 300": 200, "id = 450": 1})
    assert saves("id >= 300")
    # A column that comes back has other values, whatever its type.
    for kind, value in (("BIGINT", "id + 1000000"), ("STRING", "'x'")):
        spark.sql(f"ALTER TABLE {table} ADD COLUMN more {kind}")
        spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('index-columns' = 'id, more')")
        inserted(spark, table, 5, columns=f"id, 's', {value}")
        check({"more IS NULL": spark.table(table).count() - 100, "more IS NOT NULL": 100})
        check({"more = '1000500'": kind == "BIGINT"})
        with pytest.raises(Exception, match="is indexed: take it out"):
            spark.sql(f"ALTER TABLE {table} DROP COLUMN more")
        spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('index-columns' = 'id')")
        spark.sql(f"ALTER TABLE {table} DROP COLUMN more")
    spark.sql(f"INSERT OVERWRITE {table} SELECT id, 'new' FROM range(5000, 5100)")
    inserted(spark, table, 0)
    check({"id < 100": 100, "id BETWEEN 100 AND 4999": 0, "id >= 5000": 100})
    spark.sql(f"TRUNCATE TABLE {table}")
    inserted(spark, table, 7, 8)
    check({"id < 700": 0, "id < 800": 100, "true": 200})
    assert saves("id < 800")
    spark.sql(f"DROP TABLE {table}")
    spark.sql(f"CREATE TABLE {table} (id BIGINT, s STRING) TBLPROPERTIES ('index-columns' = 'id', 'segments' = '1')")
    inserted(spark, table, 0, 1)
    check({"id < 100": 100, "id >= 100": 100, "id >= 200": 0})
    assert saves("id < 100")


LITERALS = """5;150;300L;3000000000;150.5D;149.99BD;12.5;12.50000;1e30;-0.0D;double('NaN');true;NULL;'k0002';'';'c1'
'v1 ';'5';'2000-01-01';X'6231';X'FF';CAST(X'FF' AS STRING);CAST(X'C0' AS STRING);DATE'2000-01-01';DATE'1970-01-05'
TIMESTAMP'2000-01-01 12:00:00';TIMESTAMP_NTZ'1970-01-05 00:00:00';timestamp_micros(18000000005);id;big;tiny;s;v;flag
'k0002' COLLATE UTF8_LCASE""".replace("\n", ";")
MIXED = """id INT, big BIGINT, tiny TINYINT, f FLOAT, d DOUBLE, dec DECIMAL(10,2), day DATE, at TIMESTAMP,
    wall TIMESTAMP_NTZ, s STRING, c CHAR(5), v VARCHAR(5), b BINARY, flag BOOLEAN, `a.b` INT, `q"u``o` INT,
    MiXed INT, st STRUCT<id: INT>"""
MIXED_ROWS = """SELECT id, id * 10000000000, CAST(id % 100 AS TINYINT), CAST(id AS FLOAT) / 3,
    if(id % 50 = 49, double('NaN'), id / 7), CAST(id AS DECIMAL(10,2)) / 4,
    date_add(DATE'1999-12-20', CAST(id / 10 AS INT)), timestamp_micros(id * 3600000000 + id),
    CAST(date_add(DATE'1969-12-20', CAST(id / 10 AS INT)) AS TIMESTAMP_NTZ),
    CASE WHEN id % 17 = 0 THEN NULL WHEN id >= 300 THEN concat('\\U0010FFFF', id) WHEN id >= 200 THEN concat('é', id)
    ELSE concat(if(id % 2 = 0, 'k', 'K'), lpad(id, 4, '0')) END, concat('c', id % 100), concat('v', id DIV 100, ' '),
    CAST(concat('b', id) AS BINARY), CASE WHEN id < 150 THEN true WHEN id >= 250 THEN false END, id,
    id, id, named_struct('id', 1000 - id) FROM
    (SELECT CAST(id AS INT) AS id FROM range({0} * 50, {0} * 50 + 50, 1, 1))"""
INDEXED = ["id", "big", "tiny", "f", "d", "dec", "day", "at", "wall", "s", "c", "v", "b", "flag", "`a.b`", "MiXed"]
ALWAYS = """tiny = id
NOT id = `a.b`
id <=> tiny AND id < 20
s = v OR id = 7
s < CAST(X'FF' AS STRING)
s > CAST(X'C0' AS STRING) AND s < CAST(X'F0' AS STRING)
startswith(s, CAST(X'C3' AS STRING))
NOT (id IN (1, 2, NULL) OR s IS NULL)
NOT (s > 'k' OR flag)
NOT (flag <=> true)
id IN (1, NULL)
st.id > 990
`q"u``o` > 390 AND mixed < 395
(id < 5) <=> flag
NOT d IN (-0.0D, 1.0D)
CAST(at AS DATE) > DATE'1970-01-05'"""


@pytest.mark.in_turn(8)
def test_values_of_other_types_and_other_columns_give_what_parquet_gives(
    spark: SparkSession, namespace: str, tmp_path: Path
) -> None:
    at, table = random.Random(SEED), f"{namespace}.mixed"
    spark.sql(
        f"CREATE TABLE {table} ({MIXED}) TBLPROPERTIES ('segments' = '1', 'index-columns' = "
        f"'{', '.join(name.strip('`') for name in INDEXED)}')"
    )
    for number in range(8):
        spark.sql(f"INSERT INTO {table} {MIXED_ROWS.format(number)}")
    spark.table(table).coalesce(1).write.parquet(str(tmp_path / "rows"))
    spark.read.parquet(str(tmp_path / "rows")).createOrReplaceTempView("mixed_rows")
    made = [
        f"{'NOT ' if at.random() < 0.3 else ''}({name} {comparison} {value})"
        for name in INDEXED
        for comparison in ("=", "<", ">=", "<=>", "<>", "> ")
        for value in LITERALS.split(";")
    ]
    saved, zone = 0, str(spark.conf.get("spark.sql.session.timeZone"))
    for condition in [*ALWAYS.splitlines(), *at.sample(made, MIXTURES)]:
        spark.conf.set("spark.sql.session.timeZone", at.choice(["UTC", "America/New_York", "Asia/Kolkata"]))
        own, skipped = outcome(spark, f"{table} WHERE {condition}")
        assert own == outcome(spark, f"mixed_rows WHERE {condition}")[0], condition
        saved += skipped > 0
    spark.conf.set("spark.sql.session.timeZone", zone)
    assert saved


def outcome(spark: SparkSession, source: str) -> tuple[Counter[int] | str | None, int]:
    """The rows, or why there are none; and how many bytes were skipped."""
    try:
        frame = spark.sql(f"SELECT id FROM {source}")
        return answers(frame), skipped_bytes(frame) if "mixed_rows" not in source else 0
    except PySparkException as error:
        return error.getCondition(), 0


def test_what_can_t_be_indexed_is_refused_by_name(spark: SparkSession, namespace: str) -> None:
    def made(columns: str, more: str) -> None:
        spark.sql(f"CREATE TABLE {namespace}.refused ({columns}) TBLPROPERTIES ({more})")

    for columns, more, words in (
        ("id BIGINT, a ARRAY<INT>", "'index-columns' = 'id, a'", 'column "a" of type array<int> has no order'),
        ("id BIGINT", "'index-columns' = 'idd'", '"idd" is not a column'),
        ("id BIGINT NOT NULL", "'index-columns' = 'id', 'primary-key' = 'id'", "without a primary key"),
        ("event BINARY", "'index-columns' = 'event', 'format' = 'raw'", "of format avro, json or protobuf"),
    ):
        with pytest.raises(Exception, match=re.escape(words)):
            made(columns, more)


def test_a_condition_of_any_shape_is_told_or_left(spark: SparkSession, namespace: str) -> None:
    table = f"{namespace}.shapes"
    spark.sql(f"CREATE TABLE {table} (a BIGINT, b BIGINT) TBLPROPERTIES ('index-columns' = 'a, b', 'segments' = '1')")
    for first in (0, 100):
        spark.sql(f"INSERT INTO {table} SELECT id, id % 7 FROM range({first}, {first} + 100)")
    deep = "a < 50"
    for at in range(60):
        deep = f"({deep} {'OR b = 9' if at % 2 else 'AND a > -9'})"
    for where, wanted, skips in (
        ("a = b", [n for n in range(200) if n == n % 7], False),
        ("b >= a AND 120 <= a", [], True),
        (" OR ".join(f"(a = {n} AND b >= 0)" for n in range(0, 90, 3)), [*range(0, 90, 3)], True),
        (deep, [*range(50)], False),
    ):
        rows = spark.sql(f"SELECT a FROM {table} WHERE {where}")
        assert sorted(row.a for row in rows.collect()) == wanted, where
        assert (skipped_bytes(rows) > 0) == skips, where
