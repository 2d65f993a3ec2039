"""What is wrong is told by a sentence where a Python worker of Spark's finds it, too: no traceback stands before it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import udf
from since import is_missing

from pyspark_pravega.client import Client, EventWriter, Stream
from pyspark_pravega.sandbox import Sandbox

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.usefixtures("interpreted"), pytest.mark.in_turn]


def test_the_sentence_comes_without_a_traceback(
    spark: SparkSession, sandbox: Sandbox, client: Client, namespace: str, tmp_path: Path
) -> None:
    scope = namespace.removeprefix("pravega.").replace("_", "-")
    table, numbers = f"{namespace}.t", iter(range(100))
    spark.sql(f"CREATE TABLE {table} (id INT, s STRING)")
    spark.sql(f"CREATE TABLE {namespace}.small AS SELECT 1 AS id, repeat('x', 9000) AS s")
    with EventWriter(client, Stream(scope, "t")) as writer:
        writer.write(b"nonsense")
    options = {"controller": sandbox.controller_uri, "schema-registry-uri": sandbox.schema_registry_uri}
    options["stream"] = f"{scope}/t"
    large = spark.sql("SELECT 1 AS id, repeat('x', 9000000) AS s")
    grown = spark.readStream.table(f"{namespace}.small").selectExpr("id", "repeat(s, 1000) AS s")

    def read(**more: str) -> DataFrame:
        return spark.read.format("pravega").options(**options).options(**more).load()

    def save(rows: DataFrame, mode: str, **more: str) -> None:
        rows.write.format("pravega").options(**options).options(**more).mode(mode).save()

    def run(rows: DataFrame, **sink: str) -> None:
        writer = rows.writeStream.option("checkpointLocation", str(tmp_path / str(next(numbers))))
        writer = writer.trigger(availableNow=True)
        if table_of_sink := sink.pop("table", ""):
            writer.options(**sink).toTable(table_of_sink).awaitTermination()
        else:
            writer.format(sink.pop("format", "pravega")).options(**sink).start().awaitTermination()

    stream = spark.readStream.format("pravega").options(**options)
    undecodable = f'an event of stream "{scope}/t" can\'t be decoded (segment 0, offset 0)'
    too_large = f'rows can\'t be written to stream "{scope}/t": row 0 of the batch: an event of 9,000,012 bytes'
    misspelt = 'unknown write option "routingKye"; did you mean "routingKey"?'
    wrong: list[tuple[Callable[[], Any], str]] = [
        (lambda: read(strem="x"), 'unknown read option "strem"; did you mean "stream"?'),
        (lambda: read(stream=f"{scope}/nope", allow_create_stream="false"), f'stream "{scope}/nope" does not exist'),
        (lambda: read(start_stream_cut="nonsense"), 'option "startStreamCut" must be earliest'),
        (lambda: read().collect(), undecodable),
        (lambda: spark.table(table).collect(), undecodable),
        (lambda: save(large, "append"), too_large),
        (lambda: large.writeTo(table).append(), too_large),
        (lambda: save(large, "overwrite"), "can't be overwritten"),
        (lambda: save(large, "append", writer_mode="never"), '"writerMode" must be one of'),
        (lambda: run(stream.load(), format="noop"), undecodable),
        (lambda: run(spark.readStream.table(table), format="noop"), undecodable),
        (lambda: run(stream.option("metadata", "StreamInfo").load(), format="noop"), "is for batch reads"),
        (
            lambda: spark.readStream.format("pravega").options(**options, strem="x").load(),
            'unknown read option "strem"; did you mean "stream"?',
        ),
        (lambda: spark.readStream.option("maxEvents", "1").table(table), 'unknown read option "maxEvents"'),
        # Spark tells those of writes when the first micro-batch is planned.
        (lambda: run(grown, table=table, routingKye="id"), misspelt),
        (lambda: run(grown, table=table), too_large),
    ]
    if not is_missing("4.1"):
        # Before that Spark writes streams by a catalog only.
        missing = {**options, "stream": f"{scope}/nope"}
        wrong += [
            # Spark tells a data source the names of options in small letters.
            (lambda: run(grown, **options, routingKye="id"), misspelt.replace("Kye", "kye")),
            (lambda: run(grown, **options), too_large),
            (lambda: run(grown, **missing), f'stream "{scope}/nope" does not exist'),
        ]
    if is_missing("4.2"):
        # There Spark makes no reader in Python before the query has begun.
        wrong = [case for case in wrong if case[1] != "is for batch reads"]
    for number, (fails, words) in enumerate(wrong):
        with pytest.raises(Exception) as failed:
            fails()
        told = str(failed.value)
        assert words in told, (number, told)
        assert "Traceback" not in told, (number, told)
        # Spark's own words come before it, which name no line of a program.
        assert told[: told.index(words)].count("\n") <= 2, (number, told)

    # A program's own functions keep theirs, in the same workers.
    with pytest.raises(Exception, match="Traceback") as own:
        spark.range(1).select(udf(lambda number: 1 // number, "int")("id")).collect()
    assert "ZeroDivisionError" in str(own.value)
