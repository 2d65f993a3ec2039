"""Many kinds of queries over tables of several batches a task, each against Parquet with the same rows.

And beside a writer, where what a query reads twice has to be the same both times.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from changes_tools import changes_in
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSourceReader
from since import is_missing

from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.client import Client, Stream
from pyspark_pravega.connector.key_value import KeyValueDefinition, KeyValueReader, Wanted
from pyspark_pravega.connector.log import take_snapshot
from pyspark_pravega.connector.options import ReadOptions, WriteOptions
from pyspark_pravega.connector.read import snapshot_reader
from pyspark_pravega.connector.table import load_definition
from pyspark_pravega.connector.write import WriteJob, WritePlan
from pyspark_pravega.settings import Settings

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.usefixtures("interpreted"), pytest.mark.in_turn(8)]

ROWS = 41_000
"""In one segment, so that a task has five batches: of entries 8,192 each, of events two megabytes of bytes."""
VALUES = (
    "id, CAST(id % 97 AS INT) k, IF(id % 11 = 0, NULL, concat('g', id % 13)) g, id * 0.5D v, "
    "repeat(hex(id), 60 + CAST(id % 9 AS INT)) s"
)
COLUMNS = "id BIGINT NOT NULL, k INT, g STRING, v DOUBLE, s STRING"
SHARED, BY_SOCKET = "16m", "0"
MANNERS = [(SHARED, SHARED), (BY_SOCKET, BY_SOCKET), (SHARED, BY_SOCKET)]
"""What `shared-memory` is, of the table that a query names {t}, and {u}."""
KINDS = {"plain": 1, "keyed": 4, "raw": 12, "view": 8, "key_value": 14}
"""Of each so many queries one is asked of a kind, and of all kinds `LIMITED`."""

LIMITED = "SELECT count(*), count(DISTINCT id), min(length(s)) > 0 FROM (SELECT * FROM {t} LIMIT 30000)"
QUERIES = [
    "SELECT count(*), sum(id), sum(v), max(s), min(g), count(g) FROM {t}",
    "SELECT sum(xxhash64(id, k, g, v, s) % 65537) FROM {t}",
    # LIMIT: met in the first batch, behind it, in the last one, and not at all.
    "SELECT count(*), count(DISTINCT id), min(length(s)) > 0 FROM (SELECT * FROM {t} LIMIT 100)",
    LIMITED,
    "SELECT count(*), count(DISTINCT id) FROM (SELECT id, g, s FROM {t} LIMIT 40999)",
    "SELECT count(*), sum(v) FROM (SELECT * FROM {t} LIMIT 99999)",
    "SELECT count(*) FROM (SELECT id, s FROM {t} LIMIT 35000 OFFSET 3000)",
    "SELECT count(*), count(s) FROM (SELECT * FROM {t} WHERE k % 2 = 0 LIMIT 15000)",
    "SELECT count(*) FROM (SELECT * FROM {t} LIMIT 25000) a JOIN (SELECT * FROM {u} LIMIT 33000) b "
    "ON a.id = b.id + 50000",
    "SELECT id, s FROM {t} ORDER BY id LIMIT 5 OFFSET 33000",
    "SELECT id, v FROM {t} ORDER BY v DESC, s LIMIT 3",
    "SELECT count(*), count(DISTINCT id) FROM {t} TABLESAMPLE (30000 ROWS)",
    "SELECT count(*) BETWEEN 1 AND 40999 FROM {t} TABLESAMPLE (50 PERCENT)",
    # Joins of a table with itself.
    "SELECT count(*), sum(a.v + b.v), max(b.s) FROM {t} a JOIN {u} b ON a.id = b.id",
    "SELECT count(*) FROM {t} a FULL JOIN {u} b ON a.id = b.id + 1 WHERE a.id IS NULL OR b.id IS NULL",
    "SELECT count(*), count(b.g) FROM {t} a LEFT JOIN {u} b ON a.id = b.id * 2",
    "SELECT count(*) FROM {t} a LEFT ANTI JOIN (SELECT * FROM {u} WHERE k < 50) b ON a.id = b.id",
    "SELECT count(*), sum(id) FROM {t} a LEFT SEMI JOIN (SELECT id FROM {u} WHERE k = 5) b USING (id)",
    "SELECT count(*) FROM (SELECT id FROM {t} WHERE id < 100) a CROSS JOIN (SELECT k FROM {u} WHERE k < 2) b",
    # Subqueries.
    "SELECT (SELECT count(*) FROM {t}) - (SELECT count(id) FROM {u}), (SELECT max(v) FROM {t}), "
    "(SELECT min(v) FROM {t})",
    "SELECT (SELECT sum(v) FROM {t} WHERE g = 'g1'), (SELECT max(s) FROM {t} WHERE g = 'g2' AND id < 30000), "
    "(SELECT count(*) FROM {t} WHERE id BETWEEN 100 AND 200)",
    "SELECT count(*) FROM {t} a WHERE v > (SELECT avg(v) FROM {u} b WHERE b.k = a.k)",
    "SELECT count(*) FROM {t} WHERE id IN (SELECT id * 3 FROM {u} WHERE g = 'g7')",
    "SELECT count(*) FROM {t} a WHERE NOT EXISTS (SELECT 1 FROM {u} b WHERE b.id = a.id * 2)",
    # One thing twice.
    "WITH c AS (SELECT k, count(*) n FROM {t} GROUP BY k) SELECT sum(a.n * b.n) FROM c a JOIN c b ON a.k = b.k",
    "WITH c AS (SELECT * FROM {t} WHERE k = 3) SELECT (SELECT max(id) FROM c), (SELECT count(*) FROM c), min(v) FROM c",
    "SELECT count(*), sum(id) FROM (SELECT id, s FROM {t} UNION ALL SELECT id, s FROM {u})",
    "SELECT count(*) FROM (SELECT k, g FROM {t} UNION SELECT k + 1, g FROM {u})",
    "SELECT count(*) FROM (SELECT id, s FROM {t} INTERSECT SELECT id * 2, repeat('0', 60) FROM {u})",
    "SELECT count(*) FROM (SELECT id, s FROM {t} EXCEPT SELECT id, s FROM {u} WHERE k < 90)",
    # Windows, groups.
    "SELECT sum(n), max(p) FROM (SELECT row_number() OVER (PARTITION BY k ORDER BY id) n, "
    "lag(s) OVER (PARTITION BY k ORDER BY id) p FROM {t})",
    "SELECT max(r), min(d) FROM (SELECT sum(v) OVER (PARTITION BY g ORDER BY id) r, "
    "dense_rank() OVER (PARTITION BY g ORDER BY k) d FROM {t})",
    "SELECT g, k % 2, count(*), sum(v) FROM {t} GROUP BY ROLLUP (g, k % 2)",
    "SELECT g, max_by(s, id), count(DISTINCT k) FROM {t} GROUP BY g HAVING count(*) > 3000",
    "SELECT count(*) FROM (SELECT DISTINCT k, g FROM {t})",
    "SELECT * FROM (SELECT k % 3 p, g, v FROM {t} WHERE k < 9) PIVOT (sum(v) FOR p IN (0, 1, 2))",
    "SELECT count(*), sum(e) FROM {t} LATERAL VIEW explode(sequence(1, k % 3 + 1)) x AS e",
    # Predicates.
    "SELECT count(*), max(id) FROM {t} WHERE s LIKE '%F0F0%' AND id BETWEEN 100 AND 39000",
    "SELECT count(*), min(s) FROM {t} WHERE g IS NULL OR g IN ('g1', 'g2')",
    "SELECT id, k, g, v FROM {t} WHERE id IN (7, 40000, 50000) OR id <=> 12",
    "SELECT count(*) FROM {t} WHERE k % 97 > 95 AND NOT (v < 100)",
    "SELECT count(*) FROM {t}",
]


VIEW = "OR REPLACE TEMPORARY VIEW" if is_missing("4.2") else "VIEW"


def view_of(name: str) -> str:
    """The name of a view: one of the catalog where Spark can make it, else one of the session."""
    return name.rpartition(".")[2] if is_missing("4.2") else name


class Tables:
    """The same rows in a table of each kind, and in Parquet."""

    def __init__(self, spark: SparkSession, namespace: str, folder: Path) -> None:
        self.spark, self.namespace = spark, namespace
        self.scope = namespace.split(".")[1].replace("_", "-")
        spark.sql(f"SELECT {VALUES} FROM range(0, {ROWS}, 1, 1)").write.parquet(str(folder / "rows"))
        spark.read.parquet(str(folder / "rows")).createOrReplaceTempView("crossing_rows")
        one = "'segments' = '1'"
        spark.sql(f"CREATE TABLE {namespace}.plain ({COLUMNS}) TBLPROPERTIES ({one})")
        spark.sql(f"CREATE TABLE {namespace}.keyed ({COLUMNS}) TBLPROPERTIES ({one}, 'primary-key' = 'id')")
        spark.sql(f"CREATE TABLE {namespace}.raw (event BINARY) TBLPROPERTIES ('segments' = '1', 'format' = 'raw')")
        spark.sql(
            f"CREATE TABLE {namespace}.key_value ({COLUMNS}) "
            "TBLPROPERTIES ('primary-key' = 'id', 'table-type' = 'key-value', 'partitions' = '1')"
        )
        # Rows of a key that others take the place of.
        spark.sql(f"INSERT INTO {namespace}.keyed SELECT id, 0, 'old', 0, 'old' FROM range(0, {ROWS}, 5, 1)")
        texts = "concat_ws('|', id, k, ifnull(g, ''), v, s)"
        for name in ("plain", "keyed", "key_value"):
            spark.sql(f"INSERT INTO {namespace}.{name} SELECT * FROM crossing_rows")
        spark.sql(f"INSERT INTO {namespace}.raw SELECT CAST({texts} AS BINARY) FROM crossing_rows")
        for manner in (SHARED, BY_SOCKET):
            plain = self.named("plain", manner)
            spark.sql(f"CREATE {VIEW} {self.named('view', manner)} AS SELECT * FROM {plain}")

    def named(self, kind: str, manner: str) -> str:
        """A table as a query names it."""
        if kind == "view":
            return view_of(f"{self.namespace}.view_{manner}")
        table = f"{self.namespace}.{kind} WITH ('shared-memory' = '{manner}')"
        if kind != "raw":
            return table
        parts = "CAST(p[0] AS BIGINT) id, CAST(p[1] AS INT) k, nullif(p[2], '') g, CAST(p[3] AS DOUBLE) v, p[4] s"
        return f"(SELECT {parts} FROM (SELECT split(CAST(event AS STRING), '[|]') p FROM {table}))"

    def query(self, text: str, kind: str, manners: tuple[str, str]) -> str:
        """A query of a kind's tables."""
        return text.format(t=self.named(kind, manners[0]), u=self.named(kind, manners[1]))


def answer(rows: DataFrame) -> list[str]:
    return sorted(map(str, rows.collect()))


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tables]:
    namespace = "pravega.query_crossing"
    spark.sql(f"CREATE NAMESPACE {namespace}")
    yield Tables(spark, namespace, tmp_path_factory.mktemp("crossing"))
    spark.sql(f"DROP NAMESPACE {namespace} CASCADE")


@pytest.fixture(scope="module")
def expected(spark: SparkSession, tables: Tables) -> dict[str, list[str]]:
    """What Parquet answers."""
    with ThreadPoolExecutor(4) as threads:
        texts = [query.format(t="crossing_rows", u="crossing_rows") for query in QUERIES]
        return dict(zip(QUERIES, threads.map(lambda text: answer(spark.sql(text)), texts), strict=True))


def test_a_task_has_many_batches(client: Client, settings: Settings, tables: Tables) -> None:
    """Else the others prove little."""
    catalog = Catalog(settings)
    for name in ("plain", "keyed", "raw", "key_value"):
        relation = catalog.relation([tables.scope], name)
        columns = relation.schema.fieldNames()
        reader: DataSourceReader
        if isinstance(relation, KeyValueDefinition):
            reader = KeyValueReader(relation, columns, Wanted())
        else:
            reader = snapshot_reader(relation, take_snapshot(client, relation.stream), columns, ReadOptions())
        (partition,) = reader.partitions()
        assert sum(1 for _ in reader.read(partition)) >= 5, name


@pytest.mark.parametrize("kind", KINDS)
def test_queries_answer_as_over_parquet(
    spark: SparkSession, tables: Tables, expected: dict[str, list[str]], kind: str
) -> None:
    first = list(KINDS).index(kind)
    asked = {
        query: tables.query(query, kind, MANNERS[number % len(MANNERS) if query != LIMITED else 0])
        for number, query in enumerate(QUERIES, first)
        if number % KINDS[kind] == 0 or query == LIMITED
    }
    with ThreadPoolExecutor(4) as threads:
        answers = threads.map(lambda text: answer(spark.sql(text)), asked.values())
        assert dict(zip(asked, answers, strict=True)) == {query: expected[query] for query in asked}


def test_metadata_columns_beside_a_limit(spark: SparkSession, tables: Tables) -> None:
    last = spark.sql(f"SELECT max(_offset) FROM {tables.namespace}.plain").collect()[0][0]
    for manner in (SHARED, BY_SOCKET):
        table = tables.named("plain", manner)
        query = (
            f"SELECT count(*), count(DISTINCT _offset), max(_segment) FROM (SELECT *, _offset, _segment FROM {table}"
        )
        assert spark.sql(f"{query} LIMIT 30000)").collect() == [(30_000, 30_000, 0)]
        assert spark.sql(f"{query} WHERE _offset < {last})").collect() == [(ROWS - 1, ROWS - 1, 0)]
        assert spark.sql(f"SELECT count(*) FROM {table} WHERE _offset <= {last // 2}").collect()[0][0] < ROWS - 1


def test_programs_that_take_some_rows(spark: SparkSession, tables: Tables) -> None:
    """Arrow and pandas, rows of a table that is made of some, and a cache of some."""
    for number, kind in enumerate(("plain", "keyed")):
        some = spark.sql(f"SELECT * FROM {tables.named(kind, SHARED)} LIMIT 30000")
        arrow = some.toArrow()
        frame: Any = some.toPandas()
        assert arrow.num_rows == len(frame) == len(set(frame["id"])) == 30_000
        assert arrow["s"][29_999].as_py() == frame["s"][29_999]
        made = f"{tables.namespace}.made_{number}"
        spark.sql(f"CREATE TABLE {made} AS SELECT * FROM {tables.named(kind, SHARED)} LIMIT 30000")
        kept = some.cache()
        for rows in (kept, spark.table(made)):
            assert rows.selectExpr("count(*)", "count(DISTINCT id)").collect() == [(30_000, 30_000)]
        kept.unpersist()


REUSED = (
    "SELECT a.k, a.n, b.n FROM (SELECT k, count(*) n FROM {t} GROUP BY k) a "
    "JOIN (SELECT k, count(*) n FROM {t} GROUP BY k) b ON a.k = b.k",
    "WITH c AS (SELECT k, sum(v) n FROM {t} GROUP BY k) SELECT a.k, a.n FROM c a JOIN c b ON a.k = b.k AND a.n = b.n",
    # Spark finds the conditions equal; what it pushes down has them in another order.
    "SELECT count(*) FROM (SELECT k, id FROM {t} WHERE g = 'g1' OR g = 'g2') a "
    "JOIN (SELECT k, id FROM {t} WHERE g = 'g2' OR g = 'g1') b ON a.k = b.k",
    "SELECT (SELECT max(v) FROM {t}), (SELECT max(v) FROM {t}) + 1",
    "SELECT (SELECT max(v) FROM {t}), (SELECT min(v) FROM {t})",
)
MERGED = (
    "SELECT (SELECT max(v) FROM {t}), (SELECT min(k) FROM {t}), (SELECT count(DISTINCT g) FROM {t})",
    "SELECT (SELECT count(*) FROM {t} WHERE g = 'g1'), (SELECT sum(v) FROM {t} WHERE g = 'g1')",
    "SELECT (SELECT sum(v) FROM {t} WHERE g = 'g1'), (SELECT min(k) FROM {t} WHERE g = 'g2')",
)
"""Subqueries that want other columns and other rows of one table."""


@pytest.fixture
def exchanges_shown(spark: SparkSession) -> Iterator[None]:
    """Plans as they are before they run, in which all joins have shuffles."""
    given = {"spark.sql.adaptive.enabled": "false", "spark.sql.autoBroadcastJoinThreshold": "-1"}
    before = {key: spark.conf.get(key) for key in given}
    for key, value in given.items():
        spark.conf.set(key, value)
    yield
    for key, earlier in before.items():
        assert earlier is not None
        spark.conf.set(key, earlier)


@pytest.mark.usefixtures("exchanges_shown")
def test_what_a_query_reads_twice_is_read_once(spark: SparkSession, tables: Tables) -> None:
    def plan(query: str, table: str) -> list[int]:
        """How often the plan reads the table, and how often it takes what it has already."""
        plan = spark.sql(query.format(t=table))._jdf.queryExecution().executedPlan().toString()
        return [len(re.findall(word, plan)) for word in ("(Batch|File)Scan", "ReusedExchange", "ReusedSubquery")]

    # Spark 4.0 makes one subquery of two over files only.
    queries = REUSED[:-1] if is_missing("4.1") else REUSED if is_missing("4.3") else (*REUSED, *MERGED)
    parquet = {query: plan(query, "crossing_rows") for query in queries}
    assert parquet[REUSED[0]][1] > 0
    for kind in ("plain", "keyed", "key_value"):
        assert {query: plan(query, f"{tables.namespace}.{kind}") for query in queries} == parquet, kind


DIFFERENCES = (
    "SELECT (SELECT count(v) FROM {t}) - (SELECT sum(v) FROM {t} WHERE v = 1)",
    "SELECT (SELECT count(*) FROM {t}) - (SELECT count(id) FROM {t})",
    "SELECT (SELECT count(id) FROM {t}) - (SELECT count(*) FROM {t})",
    "SELECT count(*) FROM {t} a FULL JOIN {t} b ON a.id = b.id WHERE a.id IS NULL OR b.id IS NULL",
    "SELECT (SELECT count(v) FROM {t}) - (SELECT count(id) FROM {t} WITH ('shared-memory' = '0'))",
    "SELECT (SELECT count(v) FROM {t}) - (SELECT count(id) FROM {alias})",
    "SELECT (SELECT count(id) FROM {view}) - (SELECT count(*) FROM {t})",
    "SELECT (SELECT count(id) FROM moving_view) - (SELECT count(v) FROM {view})",
    "SELECT sum(n) FROM (SELECT count(id) n FROM {t} UNION ALL SELECT -count(v) FROM {t})",
    "SELECT count(*) FROM ((SELECT id FROM {t} EXCEPT SELECT id FROM {t} WHERE v = 1) UNION ALL "
    "(SELECT id FROM {t} WHERE v = 1 EXCEPT SELECT id FROM {t}))",
    "WITH c AS (SELECT id, v FROM {t}) SELECT (SELECT max(id) FROM c) - (SELECT max(id) FROM c WHERE v = 1)",
    "SELECT max(id) - (SELECT max(id) FROM {t} WHERE v = 1) FROM {t}",
    "SELECT count(*) FROM {t} WHERE id > (SELECT max(id) FROM {t} WHERE v = 1) OR id NOT IN (SELECT id FROM {t})",
    "SELECT (SELECT count(*) FROM {log}) - (SELECT count(id) FROM {t})",
    "SELECT (SELECT max(version) FROM {commits}) - (SELECT count(id) FROM {t})",
    "SELECT (SELECT count(id) FROM {t}) - (SELECT max(version) FROM {commits})",
    "SELECT (SELECT count(*) FROM {changes}) - (SELECT count(id) FROM {t})",
    "SELECT (SELECT count(id) FROM {t}) - (SELECT count(*) FROM {changes})",
)
"""Each is 0, however many rows with another id and v = 1 come meanwhile, each as a version of its own."""


@contextmanager
def committing(client: Client, settings: Settings, stream: Stream) -> Iterator[Callable[[], int]]:
    """Commit one row after another while a block runs; the function tells how many there are."""
    definition, over, done = load_definition(client, settings, stream), threading.Event(), count(1)
    plan, last = WritePlan.of(definition, WriteOptions(transaction_timeout_ms=60_000)), [0]

    def commit() -> None:
        while not over.is_set():
            row = pa.record_batch({"id": pa.array([next(done)]), "v": pa.array([1], pa.int32())})
            job = WriteJob(plan)
            job.commit_job([job.write_task(iter([row]))])
            last[0] += 1

    with ThreadPoolExecutor(1) as threads:
        writing = threads.submit(commit)
        try:
            yield lambda: last[0]
        finally:
            over.set()
            writing.result()


@pytest.fixture
def alias(spark: SparkSession) -> str:
    """Another name for the catalog, which has another name for the controller."""
    for key, value in spark.sparkContext.getConf().getAll():
        if key.startswith("spark.sql.catalog.pravega"):
            named = value.replace("//127.0.0.1:", "//localhost:")
            spark.conf.set(key.replace("pravega", "crossing_alias", 1), named)
    return "crossing_alias"


@pytest.mark.parametrize("key", ["", "'primary-key' = 'id', "])
def test_a_query_reads_a_table_at_one_moment(
    spark: SparkSession, client: Client, settings: Settings, namespace: str, alias: str, key: str
) -> None:
    table = f"{namespace}.moving"
    spark.sql(f"CREATE TABLE {table} (id BIGINT NOT NULL, v INT) TBLPROPERTIES ({key}'segments' = '2')")
    spark.sql(f"CREATE {VIEW} {view_of(table + '_view')} AS SELECT * FROM {table} WHERE id > 0")
    spark.table(table).createOrReplaceTempView("moving_view")
    names = {
        "t": table,
        "view": view_of(f"{table}_view"),
        "alias": table.replace("pravega", alias, 1),
        "log": f"{namespace}.`moving$log`" if key else table,
        "commits": f"{namespace}.`moving$commits`",
        "changes": changes_in(table, 1),
    }
    queries = [query.format(**names) for query in DIFFERENCES]
    stream = Stream(namespace.split(".")[1].replace("_", "-"), "moving")
    with committing(client, settings, stream) as committed, ThreadPoolExecutor(2) as threads:
        while committed() < 3:
            threading.Event().wait(0.02)
        before = committed()
        asked = queries * 2
        answers = list(threads.map(lambda text: spark.sql(text).collect()[0][0], asked))
        table_itself = spark.table(table)
        joined = table_itself.alias("a").join(table_itself.alias("b"), "id", "full")
        assert joined.where("a.v IS NULL OR b.v IS NULL").count() == 0
        assert committed() - before >= len(asked) // 2, "nothing moved meanwhile"
    assert [(query, found) for query, found in zip(asked, answers, strict=True) if found != 0] == []


def test_each_execution_reads_anew(spark: SparkSession, namespace: str) -> None:
    """Also of a DataFrame, and of a view, that was made before."""
    table = f"{namespace}.growing"
    spark.sql(f"CREATE TABLE {table} (id BIGINT) TBLPROPERTIES ('segments' = '1')")
    rows = spark.table(table)
    derived, grouped = rows.where("id >= 0"), rows.groupBy("id").count()
    derived.createOrReplaceTempView("growing_view")
    for number in range(3):
        assert [rows.count(), derived.count(), grouped.count(), rows.join(derived, "id").count()] == [number] * 4
        assert len(derived.select("id").collect()) == number
        assert spark.sql("SELECT count(*), (SELECT count(id) FROM growing_view) FROM growing_view").collect() == [
            (number, number)
        ]
        derived.explain()
        spark.sql(f"INSERT INTO {table} SELECT count(*) + {number} - (SELECT count(id) FROM {table}) FROM {table}")
    assert [row.id for row in rows.orderBy("id").collect()] == [0, 1, 2]
    kept = derived.cache()
    assert kept.count() == 3
    spark.sql(f"INSERT INTO {table} VALUES (3)")
    # Spark makes a cache anew behind its own writes.
    assert kept.count() == derived.count() == rows.count() == 4
    kept.unpersist()
