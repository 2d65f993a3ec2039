"""The lake in SQL: each type there and back, and reads of files and stream as one table, compared with a plain one."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyiceberg.catalog import load_catalog
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from since import is_missing

from pyspark_pravega.sandbox import Sandbox

pytestmark = [pytest.mark.server, pytest.mark.spark]

ROWS = """
SELECT id, CAST(id % 100 AS TINYINT) AS b, CAST(id AS SMALLINT) AS s, CAST(id AS INT) AS i, id % 2 = 0 AS even,
  CAST(id AS FLOAT) AS f, CAST(id AS DOUBLE) AS d, CAST(id AS DECIMAL(12, 3)) AS n, concat('t', id) AS t,
  CAST(concat('b', id) AS BINARY) AS y, date_add(DATE'2026-01-01', CAST(id AS INT)) AS day,
  timestamp_micros(id * 1000000007) AS at, CAST(timestamp_micros(id * 1000000007) AS TIMESTAMP_NTZ) AS local,
  array(id, NULL) AS a, map(concat('k', id), id) AS m, named_struct('x', id, 'y', array(concat('z', id))) AS r,
  IF(id % 3 = 0, NULL, id) AS nothing
FROM range({first}, {last})
"""


def catalog_in(spark: SparkSession, sandbox: Sandbox, folder: Path) -> Iterator[str]:
    """The name of a catalog whose lake is in a folder; it is there until the iterator goes on."""
    name = f"lakes_{uuid.uuid4().hex[:8]}"
    prefix = f"spark.sql.catalog.{name}"
    given = {
        "": "pyspark.pravega.PravegaCatalog",
        ".controller-uri": sandbox.controller_uri,
        ".schema-registry-uri": sandbox.schema_registry_uri,
        ".lake.warehouse": str(folder),
    }
    for key, value in given.items():
        spark.conf.set(prefix + key, value)
    yield name
    for key in given:
        spark.conf.unset(prefix + key)


@pytest.fixture
def lakes(spark: SparkSession, sandbox: Sandbox, tmp_path: Path) -> Iterator[str]:
    """A catalog whose lake is in a folder of the test's."""
    yield from catalog_in(spark, sandbox, tmp_path)


@pytest.mark.in_turn(8)
def test_rows_of_each_type_are_what_they_would_be_without_a_lake(
    spark: SparkSession, namespace: str, lakes: str, tmp_path: Path
) -> None:
    scope = namespace.rpartition(".")[2]
    t, plain = f"{lakes}.{scope}.t", f"{lakes}.{scope}.plain"
    for table, properties in ((t, "TBLPROPERTIES ('lake' = 'iceberg', 'lake.keep-in-stream' = '0 ms')"), (plain, "")):
        spark.sql(f"CREATE TABLE {table} {properties} AS {ROWS.format(first=0, last=500)}")
    for first in (500, 600):
        for table in (t, plain):
            spark.sql(f"INSERT INTO {table} {ROWS.format(first=first, last=first + 100)}")
        done = spark.sql(f"CALL {lakes}.system.tier(table => '{scope}.t')").first()
        assert done is not None
        assert (done.files, done.kept_from) == (1, done.version + 1)
    for table in (t, plain):
        spark.sql(f"ALTER TABLE {table} ADD COLUMN more STRING")
        spark.sql(f"INSERT INTO {table} SELECT *, 'more' FROM ({ROWS.format(first=700, last=710)})")

    def same(query: str) -> None:
        ours, theirs = (sorted(map(str, spark.sql(query.format(t=table)).collect())) for table in (t, plain))
        assert ours == theirs, query

    same("SELECT * FROM {t}")
    same("SELECT r.x, more, a[0] FROM {t} WHERE id >= 690")
    same("SELECT t FROM {t} WHERE day = DATE'2026-01-08' OR day > DATE'2027-12-01'")
    same("SELECT id FROM {t} WHERE at BETWEEN timestamp_micros(500000003500) AND timestamp_micros(650000004550)")
    same("SELECT count(*) FROM {t}")
    same("SELECT count(*), sum(id) FROM {t} VERSION AS OF 2")
    same("SELECT count(*) FROM {t} VERSION AS OF 1")
    same("SELECT sum(x.id + y.id) FROM {t} x JOIN {t} y ON x.id = y.id + 400")
    assert spark.sql(f"SELECT id FROM {t} WHERE nothing IS NULL LIMIT 7").count() == 7
    iceberg = load_catalog("pravega", type="sql", uri=f"sqlite:///{tmp_path}/catalog.db").load_table((scope, "t"))
    there = iceberg.scan(selected_fields=("id", "t", "_version")).to_arrow().to_pylist()
    rows = spark.sql(f"SELECT id, t FROM {plain} WHERE id < 700").collect()
    assert sorted((row["id"], row["t"]) for row in there) == sorted((row.id, row.t) for row in rows)
    assert {row["_version"] for row in there} == {1, 2, 3}
    for statement in (
        f"ALTER TABLE {t} DROP COLUMN t",
        f"CALL {lakes}.system.truncate(table => '{scope}.t', version => '3')",
    ):
        with pytest.raises(PySparkException, match="lake"):
            spark.sql(statement).collect()


@pytest.mark.in_turn(8)
def test_other_engines_read_the_rows_of_a_table_with_a_key(
    spark: SparkSession, namespace: str, lakes: str, tmp_path: Path
) -> None:
    """Of each type, behind UPDATE, DELETE, MERGE and a compaction; SQL reads what it would read without a lake."""
    scope = namespace.rpartition(".")[2]
    t, plain = f"{lakes}.{scope}.t", f"{lakes}.{scope}.plain"
    for table, properties in ((t, ", 'lake' = 'iceberg'"), (plain, "")):
        spark.sql(
            f"CREATE TABLE {table} TBLPROPERTIES ('primary-key' = 'id, t'{properties}) AS "
            f"SELECT * EXCEPT (id, t), ifnull(id, 0) AS id, ifnull(t, '') AS t FROM ({ROWS.format(first=0, last=200)})"
        )
    statements = (
        "UPDATE {t} SET n = n + 1, t = t WHERE id BETWEEN 20 AND 40",
        "DELETE FROM {t} WHERE id % 10 = 3",
        "MERGE INTO {t} x USING (SELECT id + 150 AS id, concat('t', id + 150) AS t, id % 3 AS way FROM range(100)) y "
        "ON x.id = y.id AND x.t = y.t WHEN MATCHED AND way = 0 THEN DELETE "
        "WHEN MATCHED THEN UPDATE SET nothing = way "
        "WHEN NOT MATCHED AND way = 1 THEN INSERT (id, t) VALUES (y.id, y.t)",
        "ALTER TABLE {t} DROP COLUMN a",
        "INSERT OVERWRITE {t} SELECT * FROM {t} WHERE id > 5",
    )
    for number, statement in enumerate(statements):
        for table in (t, plain):
            spark.sql(statement.format(t=table))
        if number == 2:
            spark.sql(f"CALL {lakes}.system.compact(table => '{scope}.t')").collect()
            spark.sql(f"UPDATE {t} SET even = false WHERE id = 7")
            spark.sql(f"UPDATE {plain} SET even = false WHERE id = 7")
        if statement.startswith("ALTER"):
            # It is no version.
            continue
        done = spark.sql(f"CALL {lakes}.system.tier(table => '{scope}.t')").first()
        assert done is not None
        columns = ["CAST(b AS INT) b", "CAST(s AS INT) s", *(c for c in spark.table(t).columns if c not in ("b", "s"))]
        theirs = spark.table(plain).selectExpr(*columns)
        assert sorted(map(str, spark.table(t).selectExpr(*columns).collect())) == sorted(map(str, theirs.collect()))
        files = load_catalog("pravega", type="sql", uri=f"sqlite:///{tmp_path}/catalog.db").load_table((scope, "t"))
        paths = [task.file.file_path for task in files.scan().plan_files()]
        there = spark.read.parquet(*paths)
        assert there.count() == done.rows
        same = there.selectExpr(*columns)
        assert sorted(map(str, same.collect())) == sorted(map(str, theirs.collect())), statement
        assert done.kept_from == done.version or not statement.startswith("INSERT")


@pytest.mark.in_turn(8)
def test_history_is_read_on_through_the_lake(spark: SparkSession, namespace: str, lakes: str, tmp_path: Path) -> None:
    """By streaming queries, also of changes, by CALL copy, and without the catalog; two of the queries are ended and go
    on when what they would have read next is in the lake only."""
    scope = namespace.rpartition(".")[2]
    t, plain, copied = (f"{lakes}.{scope}.{name}" for name in ("t", "plain", "copied"))
    lake = "TBLPROPERTIES ('lake' = 'iceberg', 'lake.keep-in-stream' = '0 ms')"
    spark.sql(f"CREATE TABLE {t} (id BIGINT NOT NULL, name STRING) CLUSTERED BY (id) INTO 2 BUCKETS {lake}")
    spark.sql(f"CREATE TABLE {plain} (id BIGINT NOT NULL, name STRING)")
    spark.sql(f"CREATE TABLE {copied} (id BIGINT NOT NULL, name STRING) TBLPROPERTIES ('primary-key' = 'id')")
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {lakes}.{scope}")

    def insert(first: int) -> None:
        for table in (t, plain):
            spark.sql(f"INSERT INTO {table} SELECT id % 100, concat('n', id) FROM range({first}, {first + 100})")

    def tier() -> None:
        spark.sql(f"CALL {lakes}.system.tier(table => '{scope}.t')").collect()

    def stream(name: str, **options: str) -> list[str]:
        """What a query with a checkpoint has read so far."""
        source = f"{t}$changes" if name == "changes" else t
        parts = [f"`{part}`" for part in source.split(".")]
        query = (
            spark.readStream.options(**options)
            .table(".".join(parts))
            .select("id", "name")
            .writeStream.format("parquet")
            .option("path", str(tmp_path / f"{name}-rows"))
            .option("checkpointLocation", str(tmp_path / f"{name}-checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return rows(spark.read.parquet(str(tmp_path / f"{name}-rows")))

    def rows(frame: DataFrame) -> list[str]:
        return sorted(map(str, frame.select("id", "name").collect()))

    insert(0)
    assert stream("early") == rows(spark.table(plain))
    insert(100)
    spark.sql(f"CALL {lakes}.system.scale(table => '{scope}.t', segments => 3)").collect()
    insert(200)
    tier()
    assert stream("early") == stream("late", maxEventsPerTrigger="70") == rows(spark.table(plain))
    assert stream("changes") == rows(spark.table(plain))
    insert(300)
    tier()
    insert(400)
    expected = rows(spark.table(plain))
    for name in ("early", "late", "changes", "latest"):
        assert stream(name) == expected, name
    changes = spark.sql(f"SELECT * FROM {lakes}.{scope}.`t$changes`")
    assert rows(changes) == expected
    versions = changes.selectExpr("_commit_version v", "name").groupBy("v").count().orderBy("v").collect()
    assert [(row.v, row["count"]) for row in versions] == [(version, 100) for version in range(1, 6)]
    assert changes.where("_commit_timestamp IS NULL OR _change_type <> 'insert'").count() == 0
    without = spark.read.format("pravega").options(**_places(spark, lakes), scope=scope.replace("_", "-"), stream="t")
    assert rows(without.load()) == expected
    assert without.load().count() == 500
    for _ in range(2):
        spark.sql(
            f"CALL {lakes}.system.copy(source => '{scope}.t', target => '{scope}.copied', name => 'all', "
            "bytes_per_commit => '2 KiB')"
        ).collect()
    last = spark.sql(f"SELECT id, max_by(name, CAST(substr(name, 2) AS INT)) AS name FROM {plain} GROUP BY id")
    assert rows(spark.table(copied)) == rows(last)
    with pytest.raises(PySparkException, match="_event_size"):
        spark.readStream.table(t).select("_event_size").writeStream.format("noop").trigger(
            availableNow=True
        ).start().awaitTermination()


@pytest.mark.in_turn
def test_a_query_whose_rows_clean_lake_has_removed_is_told_to_run_again(
    spark: SparkSession, namespace: str, lakes: str
) -> None:
    scope = namespace.rpartition(".")[2]
    t = f"{lakes}.{scope}.t"
    given = "'lake' = 'iceberg', 'lake-keep-in-stream' = '0 ms', 'primary-key' = 'id'"
    spark.sql(f"CREATE TABLE {t} (id BIGINT NOT NULL, name STRING) TBLPROPERTIES ({given})")

    def tier(last: int) -> None:
        # Files without changed keys would stay.
        spark.sql(f"INSERT INTO {t} SELECT id, 'n' FROM range({last})")
        spark.sql(f"CALL {lakes}.system.tier(table => '{scope}.t')").collect()

    tier(10)
    planned = spark.table(t)
    planned._jdf.queryExecution().executedPlan()
    for last in (20, 30, 40):
        tier(last)
    spark.sql(f"CALL {lakes}.system.clean_lake(table => '{scope}.t', older_than => '0 ms')").collect()
    with pytest.raises(PySparkException, match=r"were removed from the lake after this .*: run it again"):
        planned.collect()
    assert spark.table(t).count() == 40


@pytest.mark.in_turn
def test_a_table_like_it_has_a_lake_of_its_own_and_purge_removes_it(
    spark: SparkSession, namespace: str, lakes: str, tmp_path: Path
) -> None:
    scope = namespace.rpartition(".")[2]
    t, like = f"{lakes}.{scope}.t", f"{lakes}.{scope}.alike"
    lake = "TBLPROPERTIES ('lake' = 'iceberg', 'lake-keep-in-stream' = '0 ms', 'lake-sorted-by' = 'name')"
    spark.sql(f"CREATE TABLE {t} (id BIGINT, name STRING) {lake}")
    made_like = f"LIKE {t}" if not is_missing("4.2") else f"(id BIGINT, name STRING) {lake}"
    spark.sql(f"CREATE TABLE {like} {made_like}")
    for table, name in ((t, "t"), (like, "alike")):
        assert spark.sql(f"SHOW TBLPROPERTIES {table} ('lake-sorted-by')").first()[1] == "name"  # type: ignore[index]
        spark.sql(f"INSERT INTO {table} SELECT id, '{name}' FROM range(20)")
        spark.sql(f"CALL {lakes}.system.tier(table => '{scope}.{name}')").collect()
    folder = tmp_path / scope.replace("-", "_")
    assert all(list((folder / name / "data").iterdir()) for name in ("t", "alike"))
    with pytest.raises(PySparkException, match="can't be unset: reads take rows up to version 1 from the lake"):
        spark.sql(f"ALTER TABLE {t} UNSET TBLPROPERTIES ('lake')")
    spark.sql(f"DROP TABLE {t} PURGE")
    assert not (folder / "t").exists()
    assert spark.table(like).where("name = 'alike'").count() == 20
    spark.sql(f"DROP TABLE {like}")
    assert list((folder / "alike" / "data").iterdir())
    there = load_catalog("pravega", type="sql", uri=f"sqlite:///{tmp_path}/catalog.db")
    assert [name for _, name in there.list_tables(scope.replace("-", "_"))] == ["alike"]


def _places(spark: SparkSession, catalog: str) -> dict[str, str]:
    names = ("controller-uri", "schema-registry-uri")
    return {name: str(spark.conf.get(f"spark.sql.catalog.{catalog}.{name}")) for name in names}
