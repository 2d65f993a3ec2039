"""Every type, nested in every other, read and written in every way: the rows are those of a Parquet file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest
from changes_tools import changes_in
from crossed_types import columns
from pyspark import TaskContext
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.functions import broadcast, col, concat, lit, struct, udf, when
from pyspark.sql.types import LongType
from since import is_missing

from pyspark_pravega.frames.native_module import SWITCH

pytestmark = [pytest.mark.server, pytest.mark.spark]

FIRST, SECOND, THIRD = 160, 240, 280
"""The ids of the three INSERTs end here."""

SEGMENTS = 8
"""Of the large table. Each holds a few hundred kilobytes, so that tasks read several: each is a batch of its own."""

Digests = dict[int, str]

SETTINGS = {
    "spark.sql.timeType.enabled": "true",
    "spark.sql.binaryOutputStyle": "HEX",
    # What isn't made for a whole stage would be compiled anew for each plan, which takes most of the time.
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
WHOLE_STAGES = {"spark.sql.codegen.factoryMode": "FALLBACK", "spark.sql.codegen.maxFields": "2000"}
"""Spark makes code of whole stages, as it does by default for rows of up to 100 fields. It closes batches early."""
PLAIN = os.environ.get(SWITCH) == "0"
"""Whether this is the second run, with the plain codec: what Spark does with batches was crossed in the first one."""
STREAMING = {"spark.sql.preserveCharVarcharTypeInfo": "true"}
"""Without it Spark 4.3 refuses to stream from a table, of any catalog, that has CHAR or VARCHAR columns."""
UNPADDED = {"spark.sql.readSideCharPadding": "false"}
"""With padding Spark 4.1 puts a projection before tables with CHAR columns, which hides their metadata columns."""


@contextmanager
def configured(spark: SparkSession, settings: dict[str, str]) -> Iterator[None]:
    """Settings of the session for a while."""
    before = {key: spark.conf.get(key, None) for key in settings}
    for key, value in settings.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, earlier in before.items():
            if earlier is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, earlier)


def digests(rows: DataFrame) -> Digests:
    """Of each row its id and a digest of the text of all its columns.

    Raises:
        AssertionError: two rows have one id.
    """
    collected = rows.selectExpr("id", "md5(CAST(struct(*) AS STRING)) AS d").collect()
    by_id = {row.id: row.d for row in collected}
    assert len(by_id) == len(collected), f"{len(collected)} rows have only {len(by_id)} ids: some came twice"
    return by_id


def same() -> Callable[[str], Column]:
    """A function that gives what it takes: Arrow batches as they come. Spark keeps each until it has answered."""

    from pyspark.sql.pandas.functions import arrow_udf

    # Within a function, so that workers get it as it is: they can't import tests.
    def unchanged(number: pa.Array) -> pa.Array:
        return number

    make: Callable[..., Callable[[str], Column]] = arrow_udf
    return make(unchanged, LongType())


@udf(LongType(), useArrow=False)
def unlucky(number: int) -> int:
    """The number. First attempts at some partitions fail with their last rows, when others are written already."""
    context = TaskContext.get()
    assert context is not None
    if context.attemptNumber() == 0 and context.partitionId() in (1, 3) and number % 160 > 150:
        raise RuntimeError("this attempt is meant to fail")
    return number


@dataclass
class Truth:
    """All rows in Parquet, and what queries have answered of those that are in the table: once for all formats."""

    rows: DataFrame
    answers: dict[Callable[[DataFrame], DataFrame], Digests] = field(default_factory=dict)

    def answer(self, read: Callable[[DataFrame], DataFrame]) -> Digests:
        if read not in self.answers:
            self.answers[read] = digests(read(self.rows.where(f"id < {SECOND}")))
        return self.answers[read]


@dataclass
class Crossing:
    """A table of two INSERTs in several segments, and the same rows in Parquet."""

    spark: SparkSession
    table: str
    truth: Truth
    wrong: dict[str, str] = field(default_factory=dict)

    @property
    def rows(self) -> DataFrame:
        return self.spark.table(self.table)

    def compare(self, way: str, rows: Digests, expected: Digests) -> None:
        """Notes what differs, so that one run tells all of it."""
        differing = sorted(
            number for number in rows.keys() | expected.keys() if rows.get(number) != expected.get(number)
        )
        if differing:
            self.wrong[way] = f"{len(differing)} of {len(expected)} rows differ, the first with id {differing[0]}"

    def check(self, way: str, read: Callable[[DataFrame], DataFrame]) -> None:
        """Whether a query answers as it does of the Parquet file."""
        self._note_errors(way, lambda: self.compare(way, digests(read(self.rows)), self.truth.answer(read)))

    def check_rows(self, way: str, read: Callable[[], Digests], ids: range = range(SECOND)) -> None:
        """Whether a way to read gives whole rows: those with such ids."""
        expected = {number: digest for number, digest in self.truth.answer(whole).items() if number in ids}
        self._note_errors(way, lambda: self.compare(way, read(), expected))

    def _note_errors(self, way: str, compare: Callable[[], None]) -> None:
        try:
            compare()
        except Exception as error:
            self.wrong[way] = str(error)[:2000]


def streamed(rows: DataFrame, checkpoint: Path) -> Digests:
    collected: Digests = {}

    def collect(batch: DataFrame, _: int) -> None:
        rows = digests(batch)
        assert rows.keys().isdisjoint(collected), "rows of an earlier micro-batch came again"
        collected.update(rows)

    query = rows.writeStream.foreachBatch(collect).option("checkpointLocation", str(checkpoint))
    query.trigger(availableNow=True).start().awaitTermination()
    return collected


def whole(rows: DataFrame) -> DataFrame:
    return rows


def filtered(rows: DataFrame) -> DataFrame:
    return rows.where("n_i32 > 0 AND s IS NOT NULL AND deep.a.b.d > 0")


def projected(rows: DataFrame) -> DataFrame:
    return rows.selectExpr(
        "id", "deep.a.b.hu", "deep.a.b.va", "deep.y", "sure.a.b.s", "sure.a.b.iv", "rows.bi", "get(rows, 0).inner.q",
        "named['one'].ts", "element_at(named['one'].m, 'a')", "map_keys(maps.s)", "maps.va",
        "k_da[DATE'2024-02-29'].y.z",
    )  # fmt: skip


def summed(rows: DataFrame) -> DataFrame:
    """Aggregates hold values of one batch while they read others."""
    return rows.selectExpr(
        "0 AS id", "sum(deep.a.b.i32)", "max(deep.a.b.s)", "min(sure.a.b.bi)", "max(sure.a.b.hu)", "max(deep.a.x)",
        "max(named['one'].da)", "max_by(deep.y, id)", "max_by(deep.a, id)", "min_by(rows, id)",
        "max(struct(deep.y, id))", "count(va)", "bit_xor(xxhash64(sure.a.b.s, deep.a.b.hu, rows.ts, k_de[1.50BD].x))",
    )  # fmt: skip


@pytest.fixture(scope="module")
def truths() -> dict[str, Truth]:
    """By their columns' values: Avro and JSON have the same ones."""
    return {}


@pytest.fixture
def settled(spark: SparkSession) -> Iterator[None]:
    with configured(spark, SETTINGS):
        yield


@pytest.mark.since_spark("4.1")
@pytest.mark.usefixtures("settled")
@pytest.mark.parametrize("table_format", ["avro", "json", "protobuf"])
@pytest.mark.in_turn(8)
def test_every_type_in_every_way(
    spark: SparkSession,
    namespace: str,
    truths: dict[str, Truth],
    tmp_path_factory: pytest.TempPathFactory,
    tmp_path: Path,
    table_format: str,
) -> None:
    made = columns(table_format)
    values = [f"{column.value} AS {column.name}" for column in made]
    if (truth := truths.get(str(values))) is None:
        folder = str(tmp_path_factory.mktemp("truth") / "rows")
        with configured(spark, {"spark.sql.codegen.wholeStage": "false"}):
            spark.range(0, THIRD, 1, 2).selectExpr(*values).write.parquet(folder)
        truth = truths[str(values)] = Truth(spark.read.parquet(folder))
    every_row = truth.rows
    names = ", ".join(f"{column.name} {column.type}" for column in made)
    for table, segments in (("crossed", SEGMENTS), ("small", 1)):
        spark.sql(
            f"CREATE TABLE {namespace}.{table} ({names}) CLUSTERED BY (id) INTO {segments} BUCKETS "
            f"TBLPROPERTIES ('format' = '{table_format}')"
        )
    crossing = Crossing(spark, f"{namespace}.crossed", truth)
    first = every_row.where(f"id < {FIRST}").repartitionByRange(4, "id")
    first.withColumn("id", unlucky("id")).writeTo(crossing.table).append()
    every_row.where(f"id >= {FIRST} AND id < {SECOND}").writeTo(crossing.table).append()
    every_row.where("id < 30").coalesce(1).writeTo(f"{namespace}.small").append()
    assert crossing.rows.rdd.getNumPartitions() < SEGMENTS, "each task reads one batch only"

    crossing.check("fields projected", projected)
    crossing.check("aggregates", summed)
    crossing.check("filter pushed", filtered)
    ways: dict[str, Callable[[DataFrame], DataFrame]] = {"many batches": lambda rows: rows, "with _offset": with_offset}
    if not PLAIN and not is_missing("4.1"):
        ways["kept for a Python function"] = lambda rows: rows.withColumn("id", same()("id"))
    if table_format == "avro" and not PLAIN:
        # Here Spark makes rows of its own of the batches, and the formats have no part in it.
        ways["cached"] = lambda rows: rows.cache()
        ways["broadcast"] = lambda rows: spark.range(300).join(broadcast(rows), "id")
        ways["sorted"] = lambda rows: rows.sort("s", "id")
    for way, read in ways.items():
        with configured(spark, UNPADDED if way == "with _offset" and is_missing("4.2") else {}):
            crossing.check_rows(way, lambda read=read: digests(read(crossing.rows)))  # type: ignore[misc]
    if not PLAIN:
        with configured(spark, WHOLE_STAGES):
            crossing.check_rows("many batches, in made code", lambda: digests(crossing.rows))
            crossing.check("fields projected, in made code", projected)
            crossing.check("aggregates, in made code", summed)
    assert "ColumnarToRow" in plan_of(spark.table(crossing.table))
    with columnar_off(spark):
        assert "ColumnarToRow" not in plan_of(spark.table(crossing.table))
        crossing.check_rows("columnar off", lambda: digests(spark.table(crossing.table)))
    first_version = spark.sql(f"SELECT * FROM {crossing.table} VERSION AS OF 1")
    crossing.check_rows("time travel", lambda: digests(first_version), range(FIRST))
    told = spark.sql(f"SELECT * FROM {changes_in(crossing.table, 2, 2)}")
    bare = told.drop("_change_type", "_commit_version", "_commit_timestamp")
    crossing.check_rows("CHANGES", lambda: digests(bare), range(FIRST, SECOND))
    crossing.check_rows("one batch", lambda: digests(spark.table(f"{namespace}.small")), range(30))
    with configured(spark, STREAMING):
        limited = spark.readStream.option("maxBytesPerTrigger", "400k").table(crossing.table)
        crossing.check_rows("stream", lambda: streamed(limited, tmp_path / "reading"))
    add_column(crossing, every_row, tmp_path, table_format)
    spark.catalog.clearCache()
    assert not crossing.wrong, "\n".join(f"{way}: {how}" for way, how in crossing.wrong.items())


def plan_of(rows: DataFrame) -> str:
    return str(rows._jdf.queryExecution().executedPlan().toString())


@contextmanager
def columnar_off(spark: SparkSession) -> Iterator[None]:
    jvm = spark._jvm
    assert jvm is not None
    jvm.java.lang.System.setProperty("pyspark.pravega.columnar", "false")
    try:
        yield
    finally:
        jvm.java.lang.System.clearProperty("pyspark.pravega.columnar")


def with_offset(rows: DataFrame) -> DataFrame:
    """The rows, if no two of them have one position."""
    positions = rows.select("*", "_segment", "_offset")
    counted = positions.selectExpr("count(DISTINCT _segment, _offset)", "count(*)", "count(sure)").first()
    assert counted is not None
    assert counted[0] == counted[1] == counted[2] == SECOND
    return positions.drop("_segment", "_offset")


def add_column(crossing: Crossing, every_row: DataFrame, tmp_path: Path, table_format: str) -> None:
    """A new field within a struct (in Protobuf of the row): rows of before, and rows of a streaming query after it."""
    spark = crossing.spark
    path = "fresh" if table_format == "protobuf" else "deep.a.b.fresh"
    spark.sql(f"ALTER TABLE {crossing.table} ADD COLUMN {path} STRUCT<n: BIGINT, s: STRING>")
    fresh = when(
        col("id") >= SECOND, struct(col("id").alias("n"), concat(lit("f"), col("id").cast("string")).alias("s"))
    )
    if table_format == "protobuf":
        changed = every_row.withColumn("fresh", fresh)
    else:
        changed = every_row.withColumn("deep", col("deep").withField("a.b.fresh", fresh))
    changed.where(f"id >= {SECOND}").write.parquet(str(tmp_path / "arriving"))
    arriving = spark.readStream.schema(changed.schema).parquet(str(tmp_path / "arriving"))
    writing = arriving.writeStream.option("checkpointLocation", str(tmp_path / "writing")).trigger(availableNow=True)
    writing.toTable(crossing.table).awaitTermination()
    expected = digests(changed)
    crossing.compare("after ADD COLUMN", digests(crossing.rows), expected)
    with configured(spark, STREAMING):
        again = streamed(spark.readStream.table(crossing.table), tmp_path / "reading again")
    crossing.compare("after ADD COLUMN, as a stream", again, expected)


def test_structs_of_several_batches_in_one_task(spark: SparkSession, namespace: str) -> None:
    """Two small segments share a task, which reads a batch of each. The stage is made code, as it is by default."""
    assert spark.conf.get("spark.sql.codegen.factoryMode") == "FALLBACK"
    spark.sql(f"CREATE TABLE {namespace}.two (k STRING, st STRUCT<x: INT>) CLUSTERED BY (k) INTO 2 BUCKETS")
    spark.sql(f"INSERT INTO {namespace}.two SELECT concat('k', id), named_struct('x', int(id)) FROM range(10)")
    assert spark.sql(f"SELECT sum(st.x), count(*) FROM {namespace}.two").first() == (45, 10)
    assert "ColumnarToRow" in str(spark.sql(f"EXPLAIN SELECT k FROM {namespace}.two").first())
