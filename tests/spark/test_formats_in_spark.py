"""Tables of all formats in Spark SQL."""

from __future__ import annotations

import json

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from pyspark_pravega.client import Client, ScalingPolicy, Stream, StreamConfiguration
from pyspark_pravega.sandbox import Sandbox
from pyspark_pravega.settings import Settings

pytestmark = [pytest.mark.server, pytest.mark.spark]

COLUMNS = """
    id BIGINT NOT NULL, name STRING, price DECIMAL(10, 2), day DATE, at TIMESTAMP, local TIMESTAMP_NTZ, small TINYINT,
    data BINARY, tags ARRAY<STRING>, attrs MAP<STRING, INT>, point STRUCT<x: INT, label: STRING>, short VARCHAR(5)
"""
VALUES = """
    (1, 'é', 1.50, DATE'2024-02-29', TIMESTAMP'2024-02-29 12:00:00.5Z', TIMESTAMP_NTZ'1969-12-31 23:59:59', 7Y,
     X'00FF', array('a', 'b'), map('k', 1), named_struct('x', 1, 'label', CAST(NULL AS STRING)), 'abc'),
    (2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, array(), map(), NULL, NULL)
"""


@pytest.mark.parametrize("table_format", ["avro", "json", "protobuf"])
@pytest.mark.parametrize("compression", ["none", "gzip"])
@pytest.mark.in_turn
def test_what_goes_in_comes_out(spark: SparkSession, namespace: str, table_format: str, compression: str) -> None:
    table = f"{namespace}.t"
    spark.sql(
        f"CREATE TABLE {table} ({COLUMNS}) CLUSTERED BY (id) INTO 2 BUCKETS "
        f"TBLPROPERTIES ('format' = '{table_format}', 'compression' = '{compression}')"
    )
    spark.sql(f"INSERT INTO {table} VALUES {VALUES}")
    expected = spark.sql(f"SELECT * FROM VALUES {VALUES} ORDER BY 1").collect()
    found = spark.sql(f"SELECT * FROM {table} ORDER BY id").collect()
    assert [tuple(row) for row in found] == [tuple(row) for row in expected]
    assert spark.sql(f"SELECT count(*) FROM {table}").first() == (2,)
    assert spark.sql(f"SELECT point.x FROM {table} WHERE name = 'é'").first() == (1,)
    described = {row.col_name: row.data_type for row in spark.sql(f"DESCRIBE EXTENDED {table}").collect()}
    assert described["short"] == "varchar(5)"
    assert f"codec={table_format}, " in described["Table Properties"]


RARE = """
    id BIGINT, took INTERVAL DAY TO SECOND, hours INTERVAL HOUR TO MINUTE, at TIME(3), doc VARIANT,
    per_day MAP<DATE, DECIMAL(5, 2)>, deep STRUCT<docs: ARRAY<VARIANT>, waits: ARRAY<INTERVAL DAY TO SECOND>>
"""
RARE_VALUES = """
    (1L, INTERVAL '-3 04:05:06.000007' DAY TO SECOND, INTERVAL '25:01' HOUR TO MINUTE,
     CAST(TIME'12:34:56.789' AS TIME(3)),
     parse_json('{"a": 1, "b": [1.25, "x", {"c": null}]}'), map(DATE'2024-02-29', 1.50, DATE'1969-12-31', NULL),
     named_struct('docs', array(parse_json('17'), parse_json('"é"')),
        'waits', array(INTERVAL '0 00:00:01' DAY TO SECOND))),
    (2L, NULL, NULL, NULL, NULL, map(), NULL)
"""
NAMES = "id, took, hours, at, doc, per_day, deep"


@pytest.mark.since_spark("4.1")
@pytest.mark.parametrize("table_format", ["avro", "json", "protobuf"])
def test_rare_types(spark: SparkSession, namespace: str, table_format: str) -> None:
    table = f"{namespace}.rare"
    # Spark 4.3 has TIME only for who asks for it.
    spark.conf.set("spark.sql.timeType.enabled", "true")
    values = RARE_VALUES.replace("NULL)", "2.50)", 1) if table_format == "protobuf" else RARE_VALUES
    spark.sql(f"CREATE TABLE {table} ({RARE}) TBLPROPERTIES ('format' = '{table_format}')")
    spark.sql(f"INSERT INTO {table} SELECT * FROM VALUES {values}")
    columns = """id, took, hours, at, to_json(doc) AS doc, per_day, transform(deep.docs, x -> to_json(x)) AS docs,
        deep.waits AS waits, variant_get(doc, '$.a', 'int') AS a, variant_get(doc, '$.b[0]', 'double') AS b"""
    expected = spark.sql(f"SELECT {columns} FROM (SELECT * FROM VALUES {values} AS t({NAMES}))").collect()
    found = spark.sql(f"SELECT {columns} FROM {table} ORDER BY id").collect()
    assert sorted(found) == sorted(expected)
    assert (found[0].a, found[0].b) == (1, 1.25)
    described = {row.col_name: row.data_type for row in spark.sql(f"DESCRIBE {table}").collect()}
    assert described["hours"] == "interval hour to minute"
    assert described["at"] == "time(3)"
    assert described["doc"] == "variant"
    assert described["per_day"] == "map<date,decimal(5,2)>"


def test_documents_without_a_schema(spark: SparkSession, namespace: str) -> None:
    table = f"{namespace}.documents"
    spark.sql(f"CREATE TABLE {table} (doc VARIANT) TBLPROPERTIES ('format' = 'json')")
    texts = ['{"user": {"id": 7, "tags": ["a", "b"]}, "n": 1.5}', "[1, 2]", '"text"', "null"]
    values = ", ".join(f"(parse_json('{text}'))" for text in texts)
    spark.sql(f"INSERT INTO {table} VALUES {values}")
    found = spark.sql(f"SELECT to_json(doc) FROM {table}").collect()
    assert {json.dumps(json.loads(row[0]), sort_keys=True) for row in found} == {
        json.dumps(json.loads(text), sort_keys=True) for text in texts
    }
    query = f"""SELECT variant_get(doc, '$.user.id', 'int'), variant_get(doc, '$.user.tags[1]', 'string')
        FROM {table} WHERE try_variant_get(doc, '$.n', 'double') = 1.5"""
    assert spark.sql(query).collect() == [(7, "b")]
    assert spark.sql(f"SELECT count(*) FROM {table} WHERE is_variant_null(doc)").first() == (1,)
    with pytest.raises(Exception, match="holds NULL, and an event is a document"):
        spark.sql(f"INSERT INTO {table} VALUES (NULL)")


def test_json_of_others_without_a_registry(
    spark: SparkSession, namespace: str, client: Client, settings: Settings
) -> None:
    scope = namespace.removeprefix("pravega.").replace("_", "-")
    stream = Stream(scope, "texts")
    client.controller.create_stream(stream, StreamConfiguration(scaling=ScalingPolicy(min_segments=1)))
    options = {"controller-uri": settings.controller_uri, "stream": str(stream), "format": "json"}
    spark.sql("SELECT parse_json('{\"a\": [1, 2]}') AS value").write.format("pravega").options(**options).mode(
        "append"
    ).save()
    found = spark.read.format("pravega").options(**options).load()
    assert found.selectExpr("variant_get(value, '$.a[1]', 'int')").collect() == [(2,)]
    assert spark.sql(f"SELECT CAST(event AS STRING) FROM {namespace}.texts").collect() == [('{"a":[1,2]}',)]


def test_lines_of_text(spark: SparkSession, namespace: str) -> None:
    table = f"{namespace}.lines"
    spark.sql(f"CREATE TABLE {table} (event STRING NOT NULL) TBLPROPERTIES ('format' = 'string')")
    spark.sql(f"INSERT INTO {table} VALUES ('one'), ('zwei é')")
    assert {row.event for row in spark.table(table).collect()} == {"one", "zwei é"}


def test_a_format_of_one_s_own(spark: SparkSession, namespace: str, sandbox: Sandbox) -> None:
    table = f"{namespace}.ini"
    spark.sql(f"CREATE TABLE {table} (id BIGINT NOT NULL, name STRING) TBLPROPERTIES ('format' = 'ini_format:Ini')")
    spark.sql(f"INSERT INTO {table} VALUES (1, 'one'), (2, NULL)")
    assert spark.sql(f"SELECT name, id FROM {table} WHERE id < 5 ORDER BY id").collect() == [("one", 1), (None, 2)]
    assert spark.sql(f"SELECT count(*) FROM {table}").first() == (2,)
    spark.sql(f"CREATE TABLE {namespace}.raw (event BINARY) TBLPROPERTIES ('format' = 'raw')")
    scope = namespace.removeprefix("pravega.").replace("_", "-")
    options = {"controller-uri": sandbox.controller_uri, "stream": f"{scope}/raw", "format": "ini_format:Ini"}
    spark.sql("SELECT 7L AS id, 'x' AS name").write.format("pravega").options(**options).mode("append").save()
    assert spark.read.format("pravega").options(**options).load().collect() == [(7, "x")]
    assert spark.sql(f"SELECT CAST(event AS STRING) FROM {namespace}.raw").first() == ("id=7;name=x",)
    with pytest.raises(AnalysisException, match=r'"nowhere.formats:Ini" can\'t be imported by .*PYTHONPATH'):
        spark.sql(f"CREATE TABLE {namespace}.t (id INT) TBLPROPERTIES ('format' = 'nowhere.formats:Ini')")


def made_and_read(spark: SparkSession, view: str, text: str) -> None:
    """Who makes a view is told at once; where the table isn't the catalog's, it is who reads it."""
    spark.sql(f"CREATE OR REPLACE VIEW {view} AS {text}")
    spark.table(view).collect()


@pytest.mark.since_spark("4.2")
def test_a_view_s_options_neither_call_nor_open_nor_trust_anything(spark: SparkSession, namespace: str) -> None:
    """Neither where the view is the catalog's, nor over a table of Spark's own with the data source."""
    spark.sql(f"CREATE TABLE {namespace}.seen AS SELECT 1L AS id")
    stream = f"{namespace.removeprefix('pravega.').replace('_', '-')}/seen"
    own = f"looked_at_{namespace.rpartition('.')[2]}"
    spark.sql(f"CREATE TABLE spark_catalog.default.{own} (id BIGINT) USING pravega")
    kept = f"{namespace}.stored", f"spark_catalog.default.{own}_stored"
    try:
        for key, value in {"credentials-provider": "tempfile:mkdtemp", "tlsCa": "/etc/passwd"}.items():
            for view, table in zip(kept, (f"{namespace}.seen", f"spark_catalog.default.{own}"), strict=True):
                beside = "" if table.startswith(namespace) else f"'stream' = '{stream}', "
                text = f"SELECT * FROM {table} WITH ({beside}'{key}' = '{value}')"
                with pytest.raises(Exception, match=r"can't be an option of a statement.* where Spark's driver runs"):
                    made_and_read(spark, view, text)
    finally:
        spark.sql(f"DROP VIEW IF EXISTS {kept[1]}")
        spark.sql(f"DROP TABLE spark_catalog.default.{own}")


def test_bad_events_are_rows_of_nulls_where_the_table_says_so(spark: SparkSession, namespace: str) -> None:
    table = f"{namespace}.measured"
    spark.sql(f"CREATE TABLE {table} (id INT) TBLPROPERTIES ('format' = 'json', 'mode' = 'permissive')")
    spark.sql(f"INSERT INTO {table} VALUES (1)")
    assert spark.sql(f"SELECT id, _corrupt_event FROM {table}").collect() == [(1, None)]
    assert spark.sql(f"SELECT * FROM {table} WITH ('mode' = 'drop-malformed')").collect() == [(1,)]


@pytest.mark.parametrize(
    ("columns", "table_format", "words"),
    [
        ("a ARRAY<ARRAY<INT>>", "protobuf", "put it into a STRUCT"),
        ("a INTERVAL YEAR TO MONTH", "json", "INT with a number of months"),
        ("`a b` INT", "protobuf", 'name it "a_b"'),
        ("a STRUCT<b: INTERVAL MONTH>", "avro", "INT with a number of months"),
    ],
)
def test_what_a_format_can_not_hold_is_refused(
    spark: SparkSession, namespace: str, columns: str, table_format: str, words: str
) -> None:
    with pytest.raises(AnalysisException) as refused:
        spark.sql(f"CREATE TABLE {namespace}.t ({columns}) TBLPROPERTIES ('format' = '{table_format}')")
    assert words in str(refused.value)
    assert refused.value.getCondition() == "PRAVEGA_UNSUPPORTED_TYPE"


def test_protobuf_has_no_nulls_in_lists(spark: SparkSession, namespace: str) -> None:
    table = f"{namespace}.t"
    spark.sql(f"CREATE TABLE {table} (tags ARRAY<STRING>) TBLPROPERTIES ('format' = 'protobuf')")
    with pytest.raises(Exception, match="Protobuf has no nulls in arrays and maps"):
        spark.sql(f"INSERT INTO {table} VALUES (array('a', NULL))")
    assert spark.table(table).collect() == []
