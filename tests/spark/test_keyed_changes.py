"""Tables with keys and time: streams that write them, their changes as rows, and compactions that start themselves."""

from __future__ import annotations

from pathlib import Path

import pytest
from changes_tools import changes_by, changes_in
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from since import is_missing
from streaming_tools import run_available
from waiting import eventually

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.usefixtures("interpreted"), pytest.mark.in_turn]


def test_streams_write_into_a_table_with_a_key(spark: SparkSession, namespace: str, tmp_path: Path) -> None:
    """Append, update mode, and MERGE in foreachBatch; each micro-batch once over a restart."""
    source, counts, merged, appended = (f"{namespace}.{name}" for name in ("source", "counts", "merged", "appended"))
    spark.sql(f"CREATE TABLE {source} (word STRING, n BIGINT) TBLPROPERTIES ('segments' = '2')")
    for name in (counts, merged, appended):
        spark.sql(
            f"CREATE TABLE {name} (word STRING NOT NULL, n BIGINT) "
            "TBLPROPERTIES ('primary-key' = 'word', 'segments' = '3')"
        )

    def merge(batch: DataFrame, epoch: int) -> None:
        batch.groupBy("word").sum("n").toDF("word", "n").createOrReplaceTempView("batch_rows")
        batch.sparkSession.sql(
            f"MERGE INTO {merged} t USING batch_rows s ON t.word = s.word "
            "WHEN MATCHED AND t.n + s.n = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET n = t.n + s.n "
            "WHEN NOT MATCHED THEN INSERT *"
        )

    rows = [("a", 1), ("b", 2), ("a", 3), ("c", 5), ("b", -2), ("d", 1)]
    for first in (0, 3):
        some = ", ".join(f"('{word}', {n})" for word, n in rows[first : first + 3])
        spark.sql(f"INSERT INTO {source} VALUES {some}")
        sums = spark.readStream.table(source).groupBy("word").sum("n").toDF("word", "n")
        sums.writeStream.outputMode("update").option("checkpointLocation", str(tmp_path / "counts")).trigger(
            availableNow=True
        ).toTable(counts).awaitTermination()
        some_words = spark.readStream.table(source).where("word IN ('b', 'd')")
        some_words.writeStream.option("checkpointLocation", str(tmp_path / "appended")).trigger(
            availableNow=True
        ).toTable(appended).awaitTermination()
        spark.readStream.table(source).writeStream.foreachBatch(merge).option(
            "checkpointLocation", str(tmp_path / "merged")
        ).trigger(availableNow=True).start().awaitTermination()
    assert {row.word: row.n for row in spark.table(counts).collect()} == {"a": 4, "b": 0, "c": 5, "d": 1}
    assert {row.word: row.n for row in spark.table(merged).collect()} == {"a": 4, "c": 5, "d": 1}
    assert {row.word: row.n for row in spark.table(appended).collect()} == {"b": -2, "d": 1}
    spark.sql(f"TRUNCATE TABLE {appended}")
    assert spark.table(appended).count() == 0
    spark.sql(f"MERGE INTO {appended} t USING {counts} s ON t.word = s.word WHEN NOT MATCHED THEN INSERT *")
    assert {row.word: row.n for row in spark.table(appended).collect()} == {"a": 4, "b": 0, "c": 5, "d": 1}
    # The log is read as a stream of changes.
    log = spark.readStream.table(f"{namespace}.`merged$log`").selectExpr("word", "_operation")
    log.writeStream.format("memory").queryName("seen_changes").trigger(availableNow=True).start().awaitTermination()
    assert [row.word for row in spark.table("seen_changes").where("_operation = 'delete'").collect()] == ["b"]


def test_changes_of_rows_as_a_stream(spark: SparkSession, namespace: str, tmp_path: Path) -> None:
    """The same as a batch tells, over restarts and compactions; a replacement of all rows is told, or passed over."""
    t = f"{namespace}.t"
    name = t.removeprefix("pravega.")
    spark.sql(f"CREATE TABLE {t} (id INT NOT NULL, v STRING) TBLPROPERTIES ('primary-key' = 'id')")
    frame = changes_by(spark.readStream.option("startingVersion", 1).option("maxEventsPerTrigger", 3), t)
    assert frame.isStreaming

    def told(checkpoint: str = "all", changes: DataFrame = frame) -> list[list[tuple[object, ...]]]:
        sink = run_available(changes, tmp_path / checkpoint)
        batches = [sink.rows[number] for number in sorted(sink.rows)]
        order = ("_commit_version", "_change_type", "id", "v")
        return [sorted(tuple(row[name] for name in order) for row in rows) for rows in batches if rows]

    spark.sql(f"INSERT INTO {t} VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    spark.sql(f"UPDATE {t} SET v = 'x' WHERE id = 1")
    first, second = (
        [(1, "insert", 1, "a"), (1, "insert", 2, "b"), (1, "insert", 3, "c")],
        [
            (2, "update_postimage", 1, "x"),
            (2, "update_preimage", 1, "a"),
        ],
    )
    assert told() == [first, second]
    spark.sql(f"CALL pravega.system.compact('{name}', remove_now => true)")
    spark.sql(f"DELETE FROM {t} WHERE id = 2")
    spark.sql(f"INSERT INTO {t} VALUES (2, 'again'), (3, 'c2')")
    third = [(4, "delete", 2, "b")]
    fourth = [(5, "insert", 2, "again"), (5, "update_postimage", 3, "c2"), (5, "update_preimage", 3, "c")]
    assert [row for batch in told() for row in batch] == [*third, *fourth]
    assert told("later", changes_by(spark.readStream.option("startingVersion", 4), t)) == [[*third, *fourth]]
    assert told("whole", changes_by(spark.readStream, t)) == [[*third, *fourth]]
    # Which rows there were isn't known any more.
    with pytest.raises(StreamingQueryException, match="is a compaction, and what the rows were before is gone"):
        told("gone", changes_by(spark.readStream.option("startingVersion", 1), t))
    spark.sql(f"INSERT OVERWRITE {t} VALUES (7, 'new')")
    spark.sql(f"UPDATE {t} SET v = 'newer'")
    with pytest.raises(StreamingQueryException, match=r"version 6 took the place of all rows.*failOnDataLoss"):
        told()
    seventh = [(7, "update_postimage", 7, "newer"), (7, "update_preimage", 7, "new")]
    assert told("all", changes_by(frame.sparkSession.readStream.option("failOnDataLoss", "false"), t)) == [seventh]


def test_changes_of_rows(spark: SparkSession, namespace: str) -> None:
    """Each change with what was before; net ones; and none before all rows were replaced."""
    t = f"{namespace}.t"
    spark.sql(f"CREATE TABLE {t} (id INT NOT NULL, v STRING) TBLPROPERTIES ('primary-key' = 'id')")
    for statement in (
        f"INSERT INTO {t} VALUES (1, 'a'), (2, 'b'), (3, 'c')",
        f"INSERT INTO {t} VALUES (1, 'a2'), (4, 'd')",
        f"UPDATE {t} SET v = 'x' WHERE id = 1",
        f"DELETE FROM {t} WHERE id IN (2, 4)",
        f"INSERT INTO {t} VALUES (2, 'again')",
    ):
        spark.sql(statement)

    def told(those: str) -> list[tuple[object, ...]]:
        rows = spark.sql(f"SELECT _commit_version AS n, _change_type AS type, id, v FROM {those}")
        return sorted(tuple(row) for row in rows.collect())

    assert told(changes_in(t, 2)) == [
        (2, "insert", 4, "d"),
        (2, "update_postimage", 1, "a2"),
        (2, "update_preimage", 1, "a"),
        (3, "update_postimage", 1, "x"),
        (3, "update_preimage", 1, "a2"),
        (4, "delete", 2, "b"),
        (4, "delete", 4, "d"),
        (5, "insert", 2, "again"),
    ]
    if not is_missing("4.2"):
        net = f"{changes_in(t, 2)} WITH (deduplicationMode = 'netChanges', computeUpdates = 'true')"
        assert told(net) == [
            (2, "update_preimage", 1, "a"),
            (3, "update_postimage", 1, "x"),
            (4, "update_preimage", 2, "b"),
            (5, "update_postimage", 2, "again"),
        ]
    counted = spark.sql(f"SELECT count(*), count(DISTINCT _commit_timestamp) FROM {changes_in(t, 1)}").first()
    assert counted is not None
    assert tuple(counted) == (11, 5)
    spark.sql(f"CALL pravega.system.compact('{t.removeprefix('pravega.')}', remove_now => true)")
    with pytest.raises(PySparkException, match=r"version 6 is a compaction, and what the rows were.*begin with 6"):
        told(changes_in(t, 5))
    assert told(changes_in(t, 6)) == []
    spark.sql(f"DELETE FROM {t} WHERE id = 3")
    assert told(changes_in(t, 7)) == [(7, "delete", 3, "c")]


def test_a_table_compacts_itself(spark: SparkSession, namespace: str, tmp_path: Path) -> None:
    """Commits start it; a query over CHANGES with a subscriber misses nothing."""
    t = f"{namespace}.t"
    spark.sql(
        f"CREATE TABLE {t} (id INT NOT NULL, v INT) TBLPROPERTIES ('primary-key' = 'id', 'compact-when' = '1 KiB')"
    )
    frame = changes_by(spark.readStream.options(startingVersion=1, subscriber="follower"), t)
    followed: dict[int, int] = {}
    for number in range(4):
        spark.sql(f"INSERT INTO {t} SELECT CAST(id AS INT), {number} FROM range({50 + number})")
        sink = run_available(frame, tmp_path / "follower")
        for row in sorted((row for rows in sink.rows.values() for row in rows), key=lambda row: row._commit_version):
            if row._change_type != "update_preimage":
                assert (row.id in followed) == (row._change_type == "update_postimage")
                followed[row.id] = row.v

    def versions() -> int:
        return int(spark.sql(f"SELECT max(version) FROM {namespace}.`t$commits`").first()[0])  # type: ignore[index]

    eventually(lambda: versions() > 4)
    assert followed == {row.id: row.v for row in spark.table(t).collect()} == dict.fromkeys(range(53), 3)
