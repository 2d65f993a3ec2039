"""Streaming queries write each epoch once: with the catalog, without it, and from foreachBatch."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from transactions import open_transactions

from pyspark_pravega.client import Client, Stream
from pyspark_pravega.connector.log import Ledger, open_ledger
from pyspark_pravega.sandbox import Sandbox

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.usefixtures("interpreted"), pytest.mark.in_turn]
BY_OPTIONS = pytest.param("options", marks=pytest.mark.since_spark("4.1"))

ROWS_PER_FILE = 50


class Pipeline:
    """A folder of files, and a query that writes them to a table, one file an epoch."""

    def __init__(self, spark: SparkSession, folder: Path, table: str) -> None:
        self.spark, self.table = spark, table
        self.files, self.checkpoint = folder / "files", folder / "checkpoint"
        self.files.mkdir()
        self._made = 0
        spark.sql(f"CREATE TABLE {table} (id BIGINT) CLUSTERED BY (id) INTO 4 BUCKETS")

    def add_files(self, count: int) -> None:
        for _ in range(count):
            first = self._made * ROWS_PER_FILE
            lines = "".join(f'{{"id": {number}}}\n' for number in range(first, first + ROWS_PER_FILE))
            staged = self.files.parent / "staged"
            staged.write_text(lines)
            staged.rename(self.files / f"{self._made:04d}.json")
            self._made += 1

    def rows(self) -> DataFrame:
        return self.spark.readStream.schema("id BIGINT").option("maxFilesPerTrigger", 1).json(str(self.files))

    def run(self, start: Callable[[DataFrame, str], StreamingQuery]) -> StreamingQuery:
        """Run a query until it has written all files."""
        query = start(self.rows(), str(self.checkpoint))
        query.awaitTermination()
        return query

    def forget_last_commit(self) -> None:
        """As if the driver had died right before Spark's own note that the last epoch is done."""
        commits = self.checkpoint / "commits"
        last = max(
            commits.iterdir(), key=lambda file: (file.name.isdigit(), int(file.name) if file.name.isdigit() else 0)
        )
        last.unlink()
        (commits / f".{last.name}.crc").unlink(missing_ok=True)

    def check(self, client: Client) -> Ledger:
        """Every row is there once; returns the table's log."""
        expected = self._made * ROWS_PER_FILE
        counted = self.spark.sql(f"SELECT count(*), count(DISTINCT id), min(id), max(id) FROM {self.table}").first()
        assert counted == (expected, expected, 0, expected - 1)
        stream = stream_of(self.table)
        assert open_transactions(client, stream) == []
        ledger = open_ledger(client, stream)
        assert ledger is not None
        return ledger


def stream_of(table: str) -> Stream:
    _, scope, name = table.split(".")
    return Stream(scope.replace("_", "-"), name.replace("_", "-"))


def to_table(table: str) -> Callable[[DataFrame, str], StreamingQuery]:
    def start(rows: DataFrame, checkpoint: str) -> StreamingQuery:
        writer = rows.writeStream.option("checkpointLocation", checkpoint).trigger(availableNow=True)
        return writer.toTable(table)

    return start


def by_options(sandbox: Sandbox, table: str) -> Callable[[DataFrame, str], StreamingQuery]:
    def start(rows: DataFrame, checkpoint: str) -> StreamingQuery:
        return (
            rows.writeStream.format("pravega")
            .option("controller-uri", sandbox.controller_uri)
            .option("schema-registry-uri", sandbox.schema_registry_uri)
            .option("stream", str(stream_of(table)))
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start()
        )

    return start


def in_foreach_batch(table: str) -> Callable[[DataFrame, str], StreamingQuery]:
    def write(rows: DataFrame, epoch: int) -> None:
        rows.writeTo(table).option("query", "of the test").option("epoch", str(epoch)).append()

    def start(rows: DataFrame, checkpoint: str) -> StreamingQuery:
        writer = rows.writeStream.option("checkpointLocation", checkpoint).trigger(availableNow=True)
        return writer.foreachBatch(write).start()

    return start


@pytest.mark.parametrize("way", ["catalog", BY_OPTIONS, "foreachBatch"])
@pytest.mark.in_turn(8)
def test_an_epoch_that_spark_repeats_is_written_once(
    spark: SparkSession, sandbox: Sandbox, client: Client, namespace: str, tmp_path: Path, way: str
) -> None:
    table = f"{namespace}.once"
    start = {"catalog": to_table(table), "options": by_options(sandbox, table), "foreachBatch": in_foreach_batch(table)}
    pipeline = Pipeline(spark, tmp_path, table)
    pipeline.add_files(2)
    pipeline.run(start[way])
    ledger = pipeline.check(client)
    assert [commit.epoch for commit in ledger.commits([1, 2, 3])] == [0, 1]

    pipeline.forget_last_commit()
    pipeline.add_files(1)
    query = pipeline.run(start[way])

    ledger = pipeline.check(client)
    first, *others = ledger.commits(range(1, 9))
    assert [commit.epoch for commit in others] == [1, 2]
    assert {commit.query for commit in others} == {first.query}
    assert first.query == ("of the test" if way == "foreachBatch" else str(query.id))
    assert first.query is not None
    assert ledger.progress(first.query).epoch == 2
    if way == "catalog":
        repeated, written = [progress.sink.metrics for progress in query.recentProgress if progress.numInputRows]
        assert (repeated["repeated"], repeated["rows"]) == ("true", str(ROWS_PER_FILE))
        assert (written["repeated"], written["rows"]) == ("false", str(ROWS_PER_FILE))
        assert int(written["bytes"]) == ledger.commits([3])[0].bytes
        assert int(written["transactions"]) >= 1
        assert int(written["milliseconds"]) > 0


@pytest.mark.parametrize("way", ["catalog", BY_OPTIONS])
def test_a_driver_whose_query_was_taken_over_stops_with_a_sentence(
    spark: SparkSession, sandbox: Sandbox, client: Client, namespace: str, tmp_path: Path, way: str
) -> None:
    table = f"{namespace}.fenced"
    pipeline = Pipeline(spark, tmp_path, table)
    pipeline.add_files(1)

    endless = pipeline.rows().writeStream.trigger(processingTime="300 milliseconds")
    endless = endless.option("checkpointLocation", str(pipeline.checkpoint))
    if way == "catalog":
        query = endless.toTable(table)
    else:
        named = {"controller-uri": sandbox.controller_uri, "schema-registry-uri": sandbox.schema_registry_uri}
        query = endless.format("pravega").options(**named).option("stream", str(stream_of(table))).start()
    query.processAllAvailable()
    ledger = pipeline.check(client)
    assert ledger.take_over(str(query.id), "another driver") is not None
    pipeline.add_files(1)
    with pytest.raises(StreamingQueryException) as refused:
        query.awaitTermination()

    assert f"another driver has taken over streaming query {query.id}" in str(refused.value)
    assert "Only one driver may run from a checkpoint at a time" in str(refused.value)
    assert spark.table(table).count() == ROWS_PER_FILE
    assert open_transactions(client, stream_of(table)) == []
    # A restart is a driver of its own, and takes over in turn.
    pipeline.run(to_table(table) if way == "catalog" else by_options(sandbox, table))
    pipeline.check(client)


def test_a_checkpoint_that_is_older_than_what_was_written_is_refused(
    spark: SparkSession, namespace: str, tmp_path: Path
) -> None:
    """Restored from a backup: an epoch comes again with other rows, which mustn't be taken for those that were written.
    Once with the number of the last one, once with an older one."""
    source, checkpoint, backup = f"{namespace}.source", tmp_path / "checkpoint", tmp_path / "backup"
    spark.sql(f"CREATE TABLE {source} (id BIGINT)")
    for name, epochs in {"last": 1, "older": 3}.items():
        target = f"{namespace}.into_{name}"
        spark.sql(f"CREATE TABLE {target} (id BIGINT)")

        def run(target: str = target) -> None:
            writer = spark.readStream.table(source).writeStream.option("checkpointLocation", str(checkpoint))
            writer.trigger(availableNow=True).toTable(target).awaitTermination()

        def add() -> None:
            spark.sql(f"INSERT INTO {source} SELECT count(*) FROM {source}")

        add()
        run()
        shutil.copytree(checkpoint, backup)
        for _ in range(epochs):
            add()
            run()
        newest = checkpoint.rename(tmp_path / f"newest-{name}")
        backup.rename(checkpoint)
        add()
        with pytest.raises(StreamingQueryException, match=rf"has written epoch {epochs} .* restored from a backup"):
            run()
        # With the newest one it goes on, also where Spark repeats its last epoch.
        shutil.rmtree(checkpoint)
        newest.rename(checkpoint)
        for file in (f"{epochs}", f".{epochs}.crc"):
            (checkpoint / "commits" / file).unlink(missing_ok=True)
        run()
        assert sorted(row.id for row in spark.table(target).collect()) == [
            row.id for row in spark.table(source).orderBy("id").collect()
        ]
        shutil.rmtree(checkpoint)


def test_updates_are_appended_and_complete_output_is_refused(
    spark: SparkSession, namespace: str, tmp_path: Path
) -> None:
    table = f"{namespace}.counts"
    pipeline = Pipeline(spark, tmp_path, f"{namespace}.unused")
    pipeline.add_files(2)
    spark.sql(f"CREATE TABLE {table} (parity BIGINT, rows BIGINT)")
    rows = pipeline.rows()
    counts = rows.groupBy((rows.id % 2).alias("parity")).count()
    counts = counts.withColumnRenamed("count", "rows")
    writer = counts.writeStream.option("checkpointLocation", str(pipeline.checkpoint)).trigger(availableNow=True)
    writer.outputMode("update").toTable(table).awaitTermination()
    assert sorted(spark.table(table).collect()) == [(0, 25), (0, 50), (1, 25), (1, 50)]

    writer = counts.writeStream.option("checkpointLocation", str(tmp_path / "other")).trigger(availableNow=True)
    with pytest.raises(Exception, match=r"(?i)complete|truncate"):
        writer.outputMode("complete").toTable(table).awaitTermination()


@pytest.mark.parametrize("mode", ["at-least-once", "best-effort"])
def test_direct_writes_are_visible_and_make_no_version(
    spark: SparkSession, client: Client, namespace: str, tmp_path: Path, mode: str
) -> None:
    table = f"{namespace}.direct"
    pipeline = Pipeline(spark, tmp_path, table)
    pipeline.add_files(2)

    def start(rows: DataFrame, checkpoint: str) -> StreamingQuery:
        writer = rows.writeStream.option("checkpointLocation", checkpoint).option("writer-mode", mode)
        return writer.trigger(availableNow=True).toTable(table)

    query = pipeline.run(start)
    ledger = pipeline.check(client)
    assert ledger.state().version == 0
    assert [p.sink.metrics["transactions"] for p in query.recentProgress if p.numInputRows] == ["0", "0"]
    # Repeated, an epoch is there twice: this is what exactly-once is for.
    pipeline.forget_last_commit()
    pipeline.run(start)
    assert spark.table(table).count() == 3 * ROWS_PER_FILE
