"""Bounds that are none, or contradict each other: told when a query is defined, in the same words everywhere."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from pyspark_pravega.client import Client, StreamCut
from pyspark_pravega.client.names import Stream
from pyspark_pravega.settings import Settings

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.in_turn]

Options = dict[str, str]


def definitions(
    spark: SparkSession, table: str, stream: Stream, settings: Settings
) -> dict[str, Callable[[Options], DataFrame]]:
    """Each way to define a read of the same stream."""

    def source(options: Options) -> Options:
        return {"stream": str(stream), **settings.to_options(), **options}

    return {
        "batch": lambda options: spark.read.format("pravega").options(**source(options)).load(),
        "stream": lambda options: spark.readStream.format("pravega").options(**source(options)).load(),
        "batch of a table": lambda options: spark.read.options(**options).table(table),
        "stream of a table": lambda options: spark.readStream.options(**options).table(table),
    }


def sentence_of(error: PySparkException) -> str:
    """The sentence, without what Python or the JVM puts before it, and Spark behind it."""
    sentences = re.findall(r"(?:pyspark_pravega\.errors\.\w+: |\[PRAVEGA_\w+\] )(.*)", str(error))
    assert sentences, str(error)
    return str(sentences[-1]).partition(" SQLSTATE")[0].strip()


@pytest.mark.since_spark("4.3")
def test_bad_bounds_fail_where_a_query_is_defined(spark: SparkSession, namespace: str, client: Client) -> None:
    table = f"{namespace}.bounded"
    spark.sql(f"CREATE TABLE {table} (k STRING, v INT) CLUSTERED BY (k) INTO 2 BUCKETS")
    spark.sql(f"INSERT INTO {table} SELECT concat('k', id), int(id) FROM range(100)")
    stream = Stream(namespace.rpartition(".")[2].replace("_", "-"), "bounded")
    head, tail = client.controller.head(stream), client.tail(stream)
    spark.sql(f"CALL {namespace.partition('.')[0]}.system.create_cut('{table}', 'before_load')")
    wrong: dict[str, tuple[Options, str]] = {
        "a name of nothing": ({"startStreamCut": "nonsense"}, 'option "startStreamCut" must be earliest, latest'),
        "a misspelt name": (
            {"startStreamCut": "before_laod"},
            'no cut is called "before_laod"; did you mean "before_load"?',
        ),
        "a cut's text cut short": (
            {"startStreamCut": head.to_text()[:-8]},
            "is no stream cut: its gzip is cut short",
        ),
        "no JSON": ({"startStreamCut": '{"0":'}, 'option "startStreamCut" begins like JSON'),
        "no offset": ({"endStreamCut": '{"0":"x"}'}, "the offset of segment 0 must be a whole number"),
        "no such segment": ({"startStreamCut": '{"77":5}'}, "77"),
        "another stream's cut": (
            {"endStreamCut": StreamCut(Stream("else", "where"), {0: 0}).to_text()},
            'a cut of stream "else/where" can\'t bound a read of stream',
        ),
        "no time": ({"endTimestamp": "tomorrow"}, 'option "endTimestamp" must be a time like'),
        "a start and a start": (
            {"startStreamCut": "earliest", "startTimestamp": "2026-01-01"},
            'options "startStreamCut" and "startTimestamp" can\'t be given together',
        ),
        "an end time before the start's": (
            {"startTimestamp": "2026-01-02", "endTimestamp": "2026-01-01"},
            'option "endTimestamp" (2026-01-01) lies before "startTimestamp" (2026-01-02)',
        ),
        "an end time before the start's cut": (
            {"startStreamCut": tail.to_json(), "endTimestamp": "2020-01-01"},
            "lies before its start in segment 0",
        ),
        "an end, and a start behind all ends": (
            {"startStreamCut": "latest", "endStreamCut": tail.to_json()},
            'option "startStreamCut" can\'t be latest where the end is given: nothing would be read',
        ),
        "another stream's bound": (
            {"startStreamCut": json.dumps({str(stream): "earliest", f"{stream}s": "earliest"})},
            f'option "startStreamCut" names stream "{stream}s", which isn\'t read; did you mean "{stream}"?',
        ),
        "an end at the head": ({"endStreamCut": "earliest"}, "can't be earliest: nothing would be read"),
        "an end before the start": (
            {"startStreamCut": tail.to_json(), "end_stream_cut": head.to_json()},
            "lies before its start in segment 0",
        ),
        "another option": ({"failOnDataLoss": "perhaps"}, '"failOnDataLoss" must be true or false'),
        "an amount": ({"maxBytesPerTrigger": "many"}, '"maxBytesPerTrigger" must be a number of bytes'),
    }
    ways = definitions(spark, table, stream, client.settings)

    def said(case: tuple[Options, str]) -> str:
        options, way = case
        with pytest.raises(PySparkException) as caught:
            ways[way](options)
        return sentence_of(caught.value)

    # Four at a time: those without the catalog mostly wait for a process that Spark asks.
    with ThreadPoolExecutor(4) as threads:
        for what, (options, words) in wrong.items():
            sentences = dict(zip(ways, threads.map(said, [(options, way) for way in ways]), strict=True))
            assert all(words in sentence for sentence in sentences.values()), (what, sentences)
            assert len(set(sentences.values())) == 1, (what, sentences)
    for way, define in ways.items():
        right = define({"startStreamCut": head.to_json(), "endStreamCut": tail.to_json(), "minPartitions": "3"})
        assert right.schema.fieldNames() == ["k", "v"], way
        if not right.isStreaming:
            assert right.count() == 100
    with pytest.raises(PySparkException, match="can't be latest in a batch read: nothing would be read"):
        ways["batch of a table"]({"startStreamCut": "latest"}).collect()


@pytest.mark.since_spark("4.3")
def test_a_cut_is_looked_up_once(spark: SparkSession, namespace: str) -> None:
    """A DataFrame reads from where its bounds were when it was defined, also when their names are gone."""
    table, catalog = f"{namespace}.marked", namespace.partition(".")[0]
    spark.sql(f"CREATE TABLE {table} (v INT)")
    spark.sql(f"INSERT INTO {table} VALUES (1)")
    spark.sql(f"CALL {catalog}.system.create_cut('{table}', 'mark')")
    spark.sql(f"INSERT INTO {table} VALUES (2)")
    rows = spark.read.option("startStreamCut", "mark").table(table)
    rows.createOrReplaceTempView("marked_rows")
    spark.sql(f"CALL {catalog}.system.drop_cut('{table}', 'mark')")
    spark.sql(f"INSERT INTO {table} VALUES (3)")
    assert sorted(row.v for row in rows.collect()) == [2, 3]
    assert (rows.count(), rows.join(rows.select("v"), "v").count()) == (2, 2)
    # A view is analysed with each query.
    for query in ("marked_rows", f"{table} WITH (`startStreamCut` = 'mark')"):
        with pytest.raises(PySparkException, match='no cut is called "mark"'):
            spark.sql(f"SELECT * FROM {query}")
