"""Real-time queries that write exactly once: whatever is killed or scaled, each row is there once, keys in order."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import Column, DataFrame, SparkSession, functions
from pyspark.sql.functions import (
    array,
    col,
    current_timestamp,
    explode,
    inline,
    lit,
    posexplode,
    rand,
    shuffle,
    split,
    stack,
    struct,
    udf,
    udtf,
    upper,
    window,
)
from streaming_tools import TIMEOUT_S, idle, kill_workers, real_time_batches, scope_of
from waiting import eventually

from pyspark_pravega.client import Client, Stream
from pyspark_pravega.connector.log import open_ledger

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.since_spark("4.3"), pytest.mark.in_turn]

WITHIN_S = 250.0
BATCH_MS = 2000
vectorized: Any = getattr(functions, "pandas_udf")  # noqa: B009
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
    another = spark.readStream.table(f"{namespace}.t").select("*", *places)
    with pytest.raises(StreamingQueryException, match="the checkpoint is of a query that reads"):
        begun(another, tmp_path, f"{namespace}.t").awaitTermination(TIMEOUT_S)
    assert there() == before


def test_rows_of_lists_and_of_several_tables_come_once(
    spark: SparkSession, client: Client, namespace: str, tmp_path: Path
) -> None:
    """A UNION of two tables, whose events become a row for each word, by functions of Arrow and pandas; killed and
    begun anew, in the midst of events, too."""
    for name in "ab":
        spark.sql(f"CREATE TABLE {namespace}.{name} ({COLUMNS}) CLUSTERED BY (who) INTO 1 BUCKETS")
    spark.sql(f"CREATE TABLE {namespace}.t (id BIGINT, who STRING, word STRING) CLUSTERED BY (who) INTO 1 BUCKETS")
    target = Stream(scope_of(namespace), "t")
    expected, count = dict[str, list[tuple[int, str]]](), 0

    @vectorized("string")  # type: ignore[untyped-decorator]
    def louder(texts: pd.Series) -> pd.Series:
        return texts.str.upper()

    def words(table: str) -> DataFrame:
        rows = spark.readStream.option("maxPartitions", 1).table(f"{namespace}.{table}").where("id % 10 <> 3")
        places = ["_stream", "_segment", "_offset"]
        listed = rows.select("id", "who", *places, posexplode(split("text", " ")).alias("_index", "word"))
        return listed.where("word <> 'no'").withColumn("word", louder("word"))

    def more(some: int) -> None:
        nonlocal count
        for table in "ab":
            # Events of the same places in both.
            new = [(count + one, f"{table}{one % 3}", "x no y" + " z" * (one % 4)) for one in range(some)]
            spark.createDataFrame(new, COLUMNS).coalesce(1).writeTo(f"{namespace}.{table}").append()
            for id, who, text in new:
                if id % 10 != 3:
                    some_words = [word.upper() for word in text.split(" ") if word != "no"]
                    expected.setdefault(who, []).extend((id, word) for word in some_words)
        count += some

    def all_there() -> bool:
        assert query.exception() is None, query.exception()
        return sum(len(batch) for batch in client.read(target)) >= sum(map(len, expected.values()))

    rows = words("a").unionByName(words("b"))
    query = begun(rows, tmp_path, f"{namespace}.t")
    try:
        for step in range(3):
            more(40)
            if step == 1:
                kill_workers(spark)
            eventually(all_there, within_s=WITHIN_S)
            query.stop()
            eventually(lambda: idle(spark), within_s=WITHIN_S)
            client.controller.scale_to(target, 2 + step)
            query = begun(rows, tmp_path, f"{namespace}.t")
        more(5)
        eventually(all_there, within_s=WITHIN_S)
    finally:
        query.stop()
    found = dict[str, list[tuple[int, str]]]()
    for row in spark.table(f"{namespace}.t").orderBy("_segment", "_offset").collect():
        found.setdefault(row.who, []).append((row.id, row.word))
    assert found == expected


class Doubled:
    """A table function of Python."""

    def eval(self, who: str) -> Iterator[tuple[str]]:
        yield (who,)
        yield (who,)


def _rate(spark: SparkSession) -> DataFrame:
    names = {"timestamp": "who", "value": "id"}
    rows = spark.readStream.format("rate").load().withColumnsRenamed(names).withColumn("who", col("who").cast("string"))
    return rows.select("id", "who", lit("a").alias("_stream"), lit(0).alias("_segment"), lit(0).alias("_offset"))


def _unsafe(spark: SparkSession, namespace: str) -> dict[str, tuple[Callable[[DataFrame], DataFrame], str]]:
    """What may become of rows, and why it is refused."""
    places = ["_stream", "_segment", "_offset"]
    same = udf(lambda text: [text], "array<string>").asNondeterministic()

    def listed(what: Column, *names: str) -> Callable[[DataFrame], DataFrame]:
        return lambda s: s.select("id", "who", *places, what.alias(*names) if names else what)

    both = array("who", "who")
    other = spark.readStream.table(f"{namespace}.o")

    def twice(s: DataFrame) -> DataFrame:
        s.createOrReplaceTempView("seen")
        return spark.sql("SELECT * FROM seen WHERE id < 1 UNION ALL SELECT * FROM seen WHERE id > 0")

    def common(s: DataFrame) -> DataFrame:
        s.createOrReplaceTempView("seen")
        return spark.sql("WITH some AS (SELECT * FROM seen) SELECT * FROM some UNION ALL SELECT * FROM some")

    def doubled(s: DataFrame) -> DataFrame:
        function: Any = udtf(Doubled, returnType="again STRING")
        spark.udtf.register("doubled", function)
        s.createOrReplaceTempView("seen")
        return spark.sql("SELECT seen.* FROM seen, LATERAL doubled(who)")

    return {
        "shuffle": (lambda s: s.repartition(2), "it has Repartition"),
        "shuffle by a column": (lambda s: s.repartition(2, "id"), "it has RepartitionByExpression"),
        "fewer tasks": (lambda s: s.coalesce(1), "it has Repartition"),
        "no duplicates": (lambda s: s.dropDuplicates(["id"]), "it has Deduplicate"),
        "aggregation": (lambda s: s.groupBy("id", "who", *places).count().drop("count"), "it has Aggregate"),
        "limit": (lambda s: s.limit(1), "Limits are not supported on streaming DataFrames"),
        "sample": (lambda s: s.sample(0.5), "Sampling is not supported on streaming DataFrames"),
        "watermark": (
            lambda s: s.withColumn("at", current_timestamp()).withWatermark("at", "1 second"),
            "EventTimeWatermark",
        ),
        "mapInArrow": (lambda s: s.mapInArrow(lambda batches: batches, s.schema), "it has MapInArrow"),
        "mapInPandas": (lambda s: s.mapInPandas(lambda batches: batches, s.schema), "it has MapInPandas"),
        "join": (lambda s: s.join(spark.table(f"{namespace}.o").select("id"), "id"), "it has Join"),
        "subquery": (lambda s: s.where(f"id IN (SELECT id FROM {namespace}.o)"), "it has a subquery"),
        "scalar subquery": (lambda s: s.where(f"id < (SELECT max(id) FROM {namespace}.o)"), "it has a subquery"),
        "explode": (listed(explode(both), "word"), "it has explode, and its rows don't tell which"),
        "no index": (listed(posexplode(both), "place", "word"), "it has posexplode, and its rows don't tell which"),
        "inline": (listed(inline(array(struct("who")))), "it has inline, and its rows don't tell which"),
        "two lists": (
            lambda s: listed(posexplode(both), "_index", "a")(listed(explode(both), "b")(s)),
            "take one posexplode",
        ),
        "shuffled list": (listed(posexplode(shuffle(both)), "_index", "a"), "may be given another list"),
        "any list": (listed(posexplode(same("who")), "_index", "a"), "may be given another list"),
        "a list of some": (
            lambda s: listed(posexplode(both), "_index", "a")(s.where(rand() < 0.5)),
            "may be given another list",
        ),
        "a list of now": (listed(posexplode(array(current_timestamp())), "_index", "a"), "may be given another list"),
        "no offset": (lambda s: s.drop("_offset"), "don't tell of which events"),
        "another offset": (lambda s: s.withColumn("_offset", col("_offset") + 1), "don't tell of which events"),
        "another key": (lambda s: s.withColumn("who", upper("who")), 'column "who", of which routing keys are made'),
        "any key": (lambda s: s.withColumn("who", rand().cast("string")), 'column "who", of which routing keys'),
        "no key": (lambda s: s.drop("who"), 'column "who", of which routing keys are made'),
        "sort": (lambda s: s.sort("id"), "Sorting is not supported on streaming DataFrames"),
        "distinct": (lambda s: s.distinct(), "it has Deduplicate"),
        "groups in pandas": (
            lambda s: s.groupBy("who").applyInPandas(lambda rows: rows, s.schema),
            "it has FlatMapGroupsInPandas",
        ),
        "sort of tasks": (lambda s: s.sortWithinPartitions("id"), "Sorting is not supported on streaming DataFrames"),
        "join of streams": (
            lambda s: s.join(s.select(col("id").alias("other")), col("id") == col("other")),
            "IDENTICAL_SOURCES",
        ),
        "windows": (
            lambda s: s.withColumn("at", window(current_timestamp(), "2 seconds", "1 second")).drop("at"),
            "it has Expand",
        ),
        "rebalance": (lambda s: s.hint("rebalance"), "it has RebalancePartitions"),
        "range": (lambda s: s.repartitionByRange(2, "id"), "it has RepartitionByExpression"),
        "a view twice": (twice, "IDENTICAL_SOURCES_IN_UNION_NOT_SUPPORTED"),
        "table function": (doubled, "it has LateralJoin"),
        "lateral": (
            lambda s: s.lateralJoin(spark.tvf.explode(array(col("who").outer(), lit("b")))),
            "it has LateralJoin",
        ),
        "a CTE twice": (common, "it has WithCTE"),
        "stack": (listed(stack(lit(2), "who", lit("b")), "a"), "it has stack, and its rows don't tell which"),
        "other index": (
            lambda s: listed(posexplode(both), "_index", "a")(s).withColumn("_index", col("_index") % 1),
            "its rows don't tell which",
        ),
        "places in another order": (
            lambda s: s.union(other.select("id", "who", "_stream", "_offset", "_segment")),
            "don't tell of which events",
        ),
        "other source": (lambda s: s.unionByName(_rate(spark)), "INPUT_STREAM_NOT_SUPPORTED"),
    }


def test_what_is_not_safe_is_refused_before_the_first_row(
    spark: SparkSession, client: Client, namespace: str, tmp_path: Path
) -> None:
    """Each operator as it is, under a projection and a filter, or in a branch of a UNION, by turns; in one sentence."""
    for name in "sto":
        spark.sql(f"CREATE TABLE {namespace}.{name} (id BIGINT, who STRING) CLUSTERED BY (who) INTO 1 BUCKETS")
        spark.sql(f"INSERT INTO {namespace}.{name} VALUES (1, 'ann')")
    spark.sql(f"CREATE TABLE {namespace}.own (id BIGINT, who STRING, _offset BIGINT)")
    places = ["_stream", "_segment", "_offset"]
    s, o = (spark.readStream.table(f"{namespace}.{name}").select("*", *places) for name in "so")
    here = spark.readStream.option("controllerUri", client.settings.controller_uri).table(f"{namespace}.s")

    mine = spark.readStream.table(f"{namespace}.own")
    again = spark.readStream.option("maxPartitions", 1).table(f"{namespace}.s").select("*", *places)

    wraps: list[Callable[[DataFrame], DataFrame]] = [
        lambda rows: rows,
        lambda rows: rows.where("id > -1").select("*"),
        lambda rows: rows.unionByName(o, allowMissingColumns=True),
    ]
    refused: list[tuple[DataFrame, str, str]] = [
        (s.drop("_stream").unionByName(o.drop("_stream")), "t", "don't tell of which events"),
        (s.unionByName(again), "t", "2 times: read it once"),
        (here.select("*", *places), "t", "connection settings of its own"),
        (s.drop(*places), "own", "don't tell of which events"),
        (mine.select("id", "who", *places), "t", 'a column "_offset" of its own'),
        (s, "own", 'a column "_offset"'),
    ]
    for number, (unsafe, why) in enumerate(_unsafe(spark, namespace).values()):
        refused.append((wraps[number % 3](unsafe(s)), "t", why))
    streams = [Stream(scope_of(namespace), name) for name in ("t", "own")]
    before = [sum(map(len, client.read(stream))) for stream in streams]
    queries = dict[str, Any]()
    for number, (rows, target, why) in enumerate(refused):
        try:
            queries[f"{number}: {why}"] = begun(rows, tmp_path / str(number), f"{namespace}.{target}")
        except AnalysisException as error:
            # Spark's own refusal.
            if "STREAMING_REAL_TIME_MODE" not in str(error) and ("on streaming" not in why or why not in str(error)):
                raise
    others = dict[str, str]()
    for asked, query in queries.items():
        with pytest.raises(StreamingQueryException) as ended:
            query.awaitTermination(TIMEOUT_S)
        if "STREAMING_REAL_TIME_MODE" in str(ended.value) and asked.partition(": ")[2] in str(ended.value):
            # Spark's own refusal.
            continue
        sentences = set(re.findall(r'stream "[^"]*" can\'t be written exactly once .*', str(ended.value)))
        said = "\n".join(sentences or [str(ended.value)])
        is_advice = re.search(r"or take trigger\(processingTime=\.\.\.\), or option\(", said)
        if asked.partition(": ")[2] not in said or len(sentences) != 1 or not is_advice or ". " in said:
            others[asked] = said
    assert not others, "\n\n".join(f"{asked}: {said[:700]}" for asked, said in others.items())
    assert [sum(map(len, client.read(stream))) for stream in streams] == before


@pytest.mark.in_turn(8)
def test_streams_that_were_made_again_or_truncated_and_drivers_that_were_replaced(
    spark: SparkSession, client: Client, namespace: str, tmp_path: Path
) -> None:
    """What was noted of a query is gone, or another one's: it ends with what to do, and no row comes twice."""
    for name in ("s", "made", "again", "cut", "gone", "taken"):
        spark.sql(f"CREATE TABLE {namespace}.{name} (id BIGINT)")
    sources = {"again": "made"}
    targets = ("again", "cut", "gone", "taken")
    scope, controller = scope_of(namespace), client.controller

    def rows(target: str) -> DataFrame:
        table = spark.readStream.option("maxPartitions", 1).table(f"{namespace}.{sources.get(target, 's')}")
        return table.select("id", "_segment", "_offset")

    def ids(target: str) -> list[int]:
        return sorted(row.id for row in spark.table(f"{namespace}.{target}").collect())

    def run(target: str, *expected: int) -> Any:
        query = begun(rows(target), tmp_path / target, f"{namespace}.{target}")

        def there() -> bool:
            assert query.exception() is None, query.exception()
            progress = query.lastProgress
            return ids(target) == list(expected) and progress is not None and progress.batchId >= 1

        eventually(there, within_s=WITHIN_S)
        return query

    def refused(target: str, why: str) -> None:
        before = ids(target)
        with pytest.raises(StreamingQueryException, match=why):
            begun(rows(target), tmp_path / target, f"{namespace}.{target}").awaitTermination(TIMEOUT_S)
        assert ids(target) == before

    for name in ("s", "made"):
        spark.sql(f"INSERT INTO {namespace}.{name} VALUES (1), (2)")
    for target in targets:
        query = run(target, 1, 2)
        if target == "taken":
            ledger = open_ledger(client, Stream(scope, target))
            assert ledger is not None
            ledger.take_over(query.id, "another driver")
            with pytest.raises(StreamingQueryException, match="Only one driver may run from a checkpoint at a time"):
                query.awaitTermination(TIMEOUT_S)
        query.stop()
    eventually(lambda: idle(spark), within_s=WITHIN_S)
    for name in ("made", "gone"):
        spark.sql(f"DROP TABLE {namespace}.{name}")
        spark.sql(f"CREATE TABLE {namespace}.{name} (id BIGINT)")
    for name in ("s", "made"):
        spark.sql(f"INSERT INTO {namespace}.{name} VALUES (3)")
    refused("again", "made again|dropped")
    refused("gone", "knows of none before")
    spark.sql(f"TRUNCATE TABLE {namespace}.cut")
    # Its segments tell what was written, though that is gone.
    run("cut", 3).stop()
    eventually(lambda: idle(spark), within_s=WITHIN_S)
    controller.scale_to(Stream(scope, "cut"), 2)
    spark.sql(f"TRUNCATE TABLE {namespace}.cut")
    eventually(lambda: not set(range(1)) & controller.head(Stream(scope, "cut")).keys(), within_s=WITHIN_S)
    spark.sql(f"INSERT INTO {namespace}.s VALUES (4)")
    refused("cut", "deleted by retention or a truncation")
