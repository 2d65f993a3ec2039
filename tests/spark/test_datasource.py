"""`spark.read.format("pravega")` and its writing twin, without the catalog."""

from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import Row, SparkSession

from pyspark_pravega.client import Client, ScalingPolicy, Stream, StreamConfiguration
from pyspark_pravega.sandbox import Sandbox

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.usefixtures("interpreted")]


@pytest.fixture
def options(sandbox: Sandbox) -> dict[str, str]:
    return {"controller": sandbox.controller_uri, "schema-registry-uri": sandbox.schema_registry_uri}


def test_a_table_is_read_and_written_by_options(spark: SparkSession, namespace: str, options: dict[str, str]) -> None:
    spark.sql(f"CREATE TABLE {namespace}.by_options (id BIGINT, s STRING)")
    scope = namespace.removeprefix("pravega.").replace("_", "-")
    rows = spark.createDataFrame([Row(id=1, s="a"), Row(id=2, s=None)])

    rows.write.format("pravega").options(**options).option("stream", f"{scope}/by-options").mode("append").save()

    read = spark.read.format("pravega").options(**options).option("scope", scope).option("stream", "by-options").load()
    assert sorted(read.collect()) == [Row(id=1, s="a"), Row(id=2, s=None)]
    assert spark.table(f"{namespace}.by_options").count() == 2


def test_raw_events_have_the_columns_of_the_official_connector(
    spark: SparkSession, client: Client, namespace: str, options: dict[str, str]
) -> None:
    scope = namespace.removeprefix("pravega.").replace("_", "-")
    client.controller.create_stream(Stream(scope, "raw"), StreamConfiguration(scaling=ScalingPolicy(min_segments=2)))
    events = spark.createDataFrame([(b"one",), (b"",)], "event BINARY")

    events.write.format("pravega").options(**options).option("stream", f"{scope}/raw").mode("append").save()

    read = spark.read.format("pravega").options(**options).option("stream", f"{scope}/raw").load()
    assert read.columns == ["event", "scope", "stream", "segment_id", "offset"]
    assert {(bytes(row.event), row.scope, row.stream) for row in read.collect()} == {
        (b"one", scope, "raw"),
        (b"", scope, "raw"),
    }
    assert spark.table(f"{namespace}.raw").count() == 2


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, 'option "stream" is missing'),
        ({"stream": "no-scope"}, "named without a scope"),
        ({"stream": "a/b", "strem": "x"}, 'unknown read option "strem"; did you mean "stream"?'),
        (
            {"stream": "no-such-scope/s", "allow_create_scope": "false", "allow_create_stream": "false"},
            'stream "no-such-scope/s" does not exist',
        ),
        ({"stream": "no-such-scope/s", "allow_create_scope": "false"}, 'scope "no-such-scope" does not exist'),
        ({"stream": "a b/c"}, "may hold only letters"),
        ({"stream": "a/b", "format": "csv"}, "must be one of avro, json, protobuf, raw, string"),
    ],
)
def test_wrong_options_are_named(
    spark: SparkSession, options: dict[str, str], given: dict[str, str], words: str
) -> None:
    with pytest.raises(AnalysisException) as refused:
        spark.read.format("pravega").options(**options, **given).load()
    assert words in str(refused.value)


def test_overwriting_is_refused(spark: SparkSession, namespace: str, options: dict[str, str]) -> None:
    spark.sql(f"CREATE TABLE {namespace}.kept AS SELECT 1 AS id")
    scope = namespace.removeprefix("pravega.").replace("_", "-")
    with pytest.raises(AnalysisException, match="can't be overwritten"):
        spark.range(5).write.format("pravega").options(**options).option("stream", f"{scope}/kept").mode(
            "overwrite"
        ).save()
    assert spark.table(f"{namespace}.kept").count() == 1
