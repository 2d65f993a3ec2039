"""Real-time queries that write exactly once: whatever is killed or scaled, each row is there once, keys in order."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import array, col, explode, udf, upper
from streaming_tools import TIMEOUT_S, idle, kill_workers, real_time_batches, scope_of
from waiting import eventually

from pyspark_pravega.client import Client, Stream

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.since_spark("4.3")]

WITHIN_S = 250.0
BATCH_MS = 2000
COLUMNS = "id BIGINT NOT NULL, who STRING, text STRING"


@pytest.fixture(autouse=True)
def real_time(spark: SparkSession) -> Iterator[None]:
    with real_time_batches(spark, BATCH_MS):
        yield


def begun(rows: DataFrame, checkpoint: Path, table: str, **options: str) -> Any:
    writer: Any = rows.writeStream.option("checkpointLocation", str(checkpoint)).outputMode("update").options(**options)
    return writer.trigger(realTime=f"{BATCH_MS} milliseconds").toTable(table)


def test_each_row_once_and_each_key_in_order(
    spark: SparkSession, client: Client, namespace: str, tmp_path: Path
) -> None:
    """The query is killed and begun anew, stopped in a batch's midst, and both streams are scaled."""
    spark.sql(f"CREATE TABLE {namespace}.s ({COLUMNS}) CLUSTERED BY (who) INTO 2 BUCKETS")
    spark.sql(f"CREATE TABLE {namespace}.t (number BIGINT, who STRING, other STRING) CLUSTERED BY (who) INTO 2 BUCKETS")
    source, sink = (Stream(scope_of(namespace), name) for name in "st")
    chance, expected, count = random.Random(47), dict[str, list[tuple[int, str]]](), 0

    louder = udf(lambda text: text.upper(), "string")
    table = spark.readStream.table(f"{namespace}.s").where("id % 10 <> 3")
    rows = table.select(col("id").alias("number"), "who", louder("text").alias("other"), "_segment", "_offset")

    def more(some: int) -> None:
        nonlocal count
        new = [(count + one, f"w{chance.randrange(7)}", f"t{count + one}") for one in range(some)]
        count += some
        spark.createDataFrame(new, COLUMNS).coalesce(1).writeTo(f"{namespace}.s").append()
        for id, who, text in new:
            if id % 10 != 3:
                expected.setdefault(who, []).append((id, text.upper()))

    def there() -> int:
        return sum(len(batch) for batch in client.read(sink))

    def all_there() -> bool:
        assert query.exception() is None, query.exception()
        return there() >= sum(map(len, expected.values()))

    controller = client.controller
    steps: list[Callable[[tuple[int, ...]], object]] = [
        lambda _: None,
        lambda _: kill_workers(spark),
        lambda ids: controller.split_segment(sink, ids[0], 3),
        lambda ids: controller.merge_segments(sink, ids[1:3]),
        lambda _: controller.scale_to(source, 3),
        lambda _: controller.scale_to(sink, 1),
    ]
    more(20)
    query = begun(rows, tmp_path, f"{namespace}.t")
    try:
        for number, step in enumerate(steps):
            more(10)
            step(controller.current_segments(sink).ids)
            more(10)
            eventually(all_there, within_s=WITHIN_S)
            if number % 2:
                # What was written since the last batch's end comes again.
                query.stop()
                eventually(lambda: idle(spark), within_s=WITHIN_S)
                controller.split_segment(sink, controller.current_segments(sink).ids[0], 2)
                query = begun(rows, tmp_path, f"{namespace}.t")
    finally:
        query.stop()
    found = dict[str, list[tuple[int, str]]]()
    for row in spark.table(f"{namespace}.t").orderBy("_segment", "_offset").collect():
        found.setdefault(row.who, []).append((row.number, row.other))
    assert found == expected

    # What would bring rows twice is refused, as soon as there is something to write.
    before = there()
    more(10)
    plain = rows.drop("_segment", "_offset")
    micro = plain.writeStream.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True)
    with pytest.raises(StreamingQueryException, match="go on with the real-time trigger"):
        micro.toTable(f"{namespace}.t").awaitTermination(TIMEOUT_S)
    places = ["_segment", "_offset"]
    others = table.select(col("id").alias("number"), col("text").alias("who"), col("text").alias("other"), *places)
    with pytest.raises(StreamingQueryException, match="in another way than before"):
        begun(others, tmp_path, f"{namespace}.t").awaitTermination(TIMEOUT_S)
    assert there() == before


def test_what_is_not_safe_is_refused_before_the_first_row(
    spark: SparkSession, client: Client, namespace: str, tmp_path: Path
) -> None:
    spark.sql(f"CREATE TABLE {namespace}.s (id BIGINT, who STRING) CLUSTERED BY (who) INTO 1 BUCKETS")
    spark.sql(f"CREATE TABLE {namespace}.o (id BIGINT, who STRING)")
    spark.sql(f"CREATE TABLE {namespace}.t (id BIGINT, who STRING) CLUSTERED BY (who) INTO 1 BUCKETS")
    spark.sql(f"CREATE TABLE {namespace}.own (id BIGINT, who STRING, _offset BIGINT)")
    spark.sql(f"INSERT INTO {namespace}.s VALUES (1, 'ann')")
    coordinates = ["_segment", "_offset"]
    s, o = (spark.readStream.table(f"{namespace}.{name}").select("*", *coordinates) for name in "so")
    here = spark.readStream.option("controllerUri", client.settings.controller_uri).table(f"{namespace}.s")
    refused: list[tuple[DataFrame, str, str]] = [
        (s.drop("_offset"), "t", "don't tell of which events"),
        (s.withColumn("_offset", col("_offset") + 1), "t", "don't tell of which events"),
        (s.withColumn("who", upper("who")), "t", 'column "who", of which routing keys are made'),
        (s.select("id", *coordinates), "t", 'column "who", of which routing keys are made'),
        (s.withColumn("id", explode(array("id", "id"))), "t", "it has Generate"),
        (s.unionByName(o), "t", "it has Union"),
        (s.join(spark.table(f"{namespace}.o").select("id"), "id"), "t", "it has Join"),
        (s.repartition(2), "t", "it has Repartition"),
        (s.dropDuplicates(["id"]), "t", "it has Deduplicate"),
        (s.mapInArrow(lambda batches: batches, s.schema), "t", "it has MapInArrow"),
        (here.select("*", *coordinates), "t", "connection settings of its own"),
        (s.drop(*coordinates), "own", 'a column "_offset"'),
    ]
    queries = [
        begun(rows, tmp_path / str(number), f"{namespace}.{table}") for number, (rows, table, _) in enumerate(refused)
    ]
    for query, (_, _, why) in zip(queries, refused, strict=True):
        with pytest.raises(StreamingQueryException, match=why):
            query.awaitTermination(TIMEOUT_S)
    assert all(not list(client.read(Stream(scope_of(namespace), name))) for name in ("t", "own"))
