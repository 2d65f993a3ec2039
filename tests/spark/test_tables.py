"""CREATE TABLE, INSERT and SELECT through Spark, on real servers."""

from __future__ import annotations

import datetime as dt
import itertools
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal

import pytest
from pyspark.sql import Row, SparkSession
from since import is_missing
from streaming_tools import scope_of

from pyspark_pravega.client import Client, Stream, StreamConfiguration

pytestmark = [pytest.mark.server, pytest.mark.spark]

ALL_TYPES = """
  b BOOLEAN, i8 TINYINT, i16 SMALLINT, i32 INT, i64 BIGINT NOT NULL COMMENT 'the number', f FLOAT, d DOUBLE,
  s STRING, bin BINARY, c CHAR(3), vc VARCHAR(5), dec DECIMAL(12,2), day DATE, at TIMESTAMP, wall TIMESTAMP_NTZ,
  a ARRAY<STRING>, m MAP<STRING, BIGINT>, st STRUCT<x: INT, y: STRUCT<z: STRING>>"""


def test_every_type_comes_back_as_it_went_in(spark: SparkSession, namespace: str) -> None:
    table = f"{namespace}.every_type"
    spark.sql(f"CREATE TABLE {table} ({ALL_TYPES})")
    spark.sql(f"""INSERT INTO {table} VALUES
        (true, 1Y, 2S, 3, 4, 1.5F, 2.5D, 'ü€😀', X'00FF', 'abc', 'vwxyz', 12.34, DATE '1969-12-31',
         TIMESTAMP '1969-12-31 23:59:59.999999Z', TIMESTAMP_NTZ '2020-02-29 12:00:00', array('p', NULL),
         map('k', 7), named_struct('x', 1, 'y', named_struct('z', 'deep'))),
        (NULL, NULL, NULL, NULL, 5, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)""")

    rows = spark.table(table).orderBy("i64").collect()

    assert rows[0] == Row(
        b=True, i8=1, i16=2, i32=3, i64=4, f=1.5, d=2.5, s="ü€😀", bin=bytearray(b"\x00\xff"), c="abc", vc="vwxyz",
        dec=Decimal("12.34"), day=dt.date(1969, 12, 31), at=rows[0].at, wall=dt.datetime(2020, 2, 29, 12),
        a=["p", None], m={"k": 7}, st=Row(x=1, y=Row(z="deep")),
    )  # fmt: skip
    assert rows[0].at.astimezone(dt.UTC) == dt.datetime(1969, 12, 31, 23, 59, 59, 999999, dt.UTC)
    assert [value for name, value in rows[1].asDict().items() if name != "i64"] == [None] * 17


def test_a_table_keeps_its_definition(spark: SparkSession, namespace: str) -> None:
    table = f"{namespace}.defined"
    spark.sql(
        f"CREATE TABLE {table} ({ALL_TYPES}) CLUSTERED BY (s) INTO 3 BUCKETS COMMENT 'all of it' "
        "TBLPROPERTIES ('team.owner' = 'ours')"
    )

    described = {row.col_name: row for row in spark.sql(f"DESCRIBE EXTENDED {table}").collect()}

    assert described["i8"].data_type == "tinyint"
    assert described["c"].data_type == "char(3)"
    assert described["vc"].data_type == "varchar(5)"
    assert described["i64"].comment == "the number"
    assert described["Comment"].data_type == "all of it"
    assert described["_offset"].data_type == "bigint"
    properties = {row.key: row.value for row in spark.sql(f"SHOW TBLPROPERTIES {table}").collect()}
    assert properties["routing-key"] == "s"
    assert properties["segments"] == "3"
    assert properties["team.owner"] == "ours"
    assert not spark.table(table).schema["i64"].nullable


def test_show_create_table_can_be_run_again(spark: SparkSession, namespace: str) -> None:
    spark.sql(f"CREATE TABLE {namespace}.first_one (a INT, b STRING) CLUSTERED BY (b) INTO 2 BUCKETS COMMENT 'c'")
    statement = spark.sql(f"SHOW CREATE TABLE {namespace}.first_one").first()
    assert statement is not None

    spark.sql(statement[0].replace("first_one", "second_one"))

    again = spark.sql(f"SHOW CREATE TABLE {namespace}.second_one").first()
    assert again is not None
    assert again[0].replace("second_one", "first_one") == statement[0]


def test_both_spellings_of_a_name_mean_one_table(spark: SparkSession, namespace: str) -> None:
    spark.sql(f"CREATE TABLE {namespace}.my_table AS SELECT 1 AS id")
    scope = namespace.removeprefix("pravega.").replace("_", "-")

    assert spark.sql(f"SELECT id FROM pravega.`{scope}`.`my-table`").collect() == [Row(id=1)]
    assert [row.tableName for row in spark.sql(f"SHOW TABLES IN {namespace}").collect()] == ["my_table"]
    assert namespace.removeprefix("pravega.") in [
        row.namespace for row in spark.sql("SHOW NAMESPACES IN pravega").collect()
    ]


def test_create_table_as_select_and_drop(spark: SparkSession, namespace: str) -> None:
    spark.sql(f"CREATE TABLE {namespace}.copied AS SELECT id, id * 2 AS twice FROM range(1000)")

    assert spark.sql(f"SELECT count(*), sum(twice) FROM {namespace}.copied").first() == (1000, 999000)
    spark.sql(f"DROP TABLE {namespace}.copied")
    assert spark.sql(f"SHOW TABLES IN {namespace}").collect() == []
    spark.sql(f"CREATE TABLE {namespace}.copied (other STRING)")
    assert spark.table(f"{namespace}.copied").collect() == []


def test_a_failed_create_table_as_select_leaves_nothing(spark: SparkSession, namespace: str) -> None:
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        spark.sql(f"CREATE TABLE {namespace}.failed AS SELECT 1 / (id - 5) AS x FROM range(10)")

    assert spark.sql(f"SHOW TABLES IN {namespace}").collect() == []


def test_create_if_not_exists_keeps_what_is_there(spark: SparkSession, namespace: str) -> None:
    spark.sql(f"CREATE TABLE {namespace}.kept AS SELECT 1 AS id")
    spark.sql(f"CREATE TABLE IF NOT EXISTS {namespace}.kept (other STRING)")

    assert spark.table(f"{namespace}.kept").collect() == [Row(id=1)]


def test_only_the_wanted_columns_are_read(spark: SparkSession, namespace: str) -> None:
    table = f"{namespace}.pruned"
    spark.sql(
        f"CREATE TABLE {table} AS SELECT id, 'x' AS a, 'y' AS b, named_struct('p', id, 'q', 0) AS s FROM range(9)"
    )

    plan = spark.sql(f"SELECT sum(id) FROM {table}")._jdf.queryExecution().executedPlan().toString()
    assert "[id#" in plan.split("BatchScan")[1].split("Pravega")[0]
    assert "a#" not in plan.split("BatchScan")[1].split("Pravega")[0]
    assert spark.sql(f"SELECT b, id FROM {table} WHERE id = 3").collect() == [Row(b="y", id=3)]
    assert spark.sql(f"SELECT sum(s.p) FROM {table}").first() == (36,)
    assert spark.sql(f"SELECT count(*) FROM {table}").first() == (9,)
    assert spark.sql(f"SELECT 1 FROM {table}").count() == 9


def test_metadata_columns_tell_where_an_event_lies(spark: SparkSession, namespace: str) -> None:
    table = f"{namespace}.located"
    spark.sql(f"CREATE TABLE {table} (k STRING, n BIGINT) CLUSTERED BY (k) INTO 4 BUCKETS")
    spark.sql(f"INSERT INTO {table} SELECT concat('key', id % 20), id FROM range(0, 400, 1, 4)")

    rows = spark.sql(f"SELECT k, _stream, _segment, _offset, _encoding_id, _event_size FROM {table}").collect()

    (stream,) = {row._stream for row in rows}
    assert stream == f"{scope_of(namespace)}/located"
    assert spark.sql(f"SELECT count(*) FROM {table} WHERE _stream = '{stream}' AND _offset >= 0").first() == (400,)
    assert spark.sql(f"SELECT count(*) FROM {table} WHERE _stream <> '{stream}'").first() == (0,)
    assert len({row._segment for row in rows}) == 4
    assert len({(row.k, row._segment) for row in rows}) == 20
    assert {row._encoding_id for row in rows} == {0}
    for segment in {row._segment for row in rows}:
        events = sorted((row._offset, row._event_size) for row in rows if row._segment == segment)
        assert events[0][0] == 0
        assert all(a[0] + 8 + a[1] == b[0] for a, b in itertools.pairwise(events))
    assert "_offset" not in spark.table(table).columns


def test_rows_of_a_key_keep_their_order(spark: SparkSession, namespace: str) -> None:
    table = f"{namespace}.ordered"
    spark.sql(f"CREATE TABLE {table} (k INT, n BIGINT) CLUSTERED BY (k) INTO 4 BUCKETS")
    spark.sql(f"INSERT INTO {table} SELECT id % 7, id FROM range(0, 50000, 1, 1)")

    rows = spark.sql(f"SELECT k, n, _offset FROM {table}").collect()

    for key in range(7):
        by_offset = sorted((row._offset, row.n) for row in rows if row.k == key)
        assert [n for _, n in by_offset] == list(range(key, 50000, 7))


def test_timestamps_are_moments_in_every_session_time_zone(spark: SparkSession, namespace: str) -> None:
    table = f"{namespace}.moments"
    spark.sql(f"CREATE TABLE {table} (at TIMESTAMP)")
    before = spark.conf.get("spark.sql.session.timeZone")
    try:
        spark.conf.set("spark.sql.session.timeZone", "America/New_York")
        spark.sql(f"INSERT INTO {table} VALUES (TIMESTAMP '2013-07-01 12:00:00')")
        spark.conf.set("spark.sql.session.timeZone", "UTC")
        assert spark.sql(f"SELECT CAST(at AS STRING) FROM {table}").first() == ("2013-07-01 16:00:00",)
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(before))


def test_an_empty_insert_and_an_empty_table(spark: SparkSession, namespace: str) -> None:
    table = f"{namespace}.empty"
    spark.sql(f"CREATE TABLE {table} (id BIGINT)")
    spark.sql(f"INSERT INTO {table} SELECT id FROM range(10) WHERE id > 100")

    assert spark.table(table).collect() == []
    assert spark.sql(f"SELECT count(*), max(id) FROM {table}").first() == (0, None)


def test_raw_events_in_and_out(spark: SparkSession, namespace: str) -> None:
    table = f"{namespace}.raw_events"
    spark.sql(f"CREATE TABLE {table} (event BINARY NOT NULL) TBLPROPERTIES ('format' = 'raw')")
    spark.sql(f"INSERT INTO {table} VALUES (X''), (X'00'), (CAST('text' AS BINARY))")

    assert sorted(bytes(row.event) for row in spark.table(table).collect()) == [b"", b"\x00", b"text"]


def test_events_larger_than_a_block_and_a_read(spark: SparkSession, namespace: str) -> None:
    table = f"{namespace}.large"
    spark.sql(f"CREATE TABLE {table} (id INT, s STRING)")
    spark.sql(f"INSERT INTO {table} SELECT id, repeat(CAST(id AS STRING), 3000000) FROM range(0, 6, 1, 2)")

    rows = spark.sql(f"SELECT id, length(s), substr(s, -3) FROM {table} ORDER BY id").collect()

    assert rows == [(id, 3000000, str(id) * 3) for id in range(6)]


def test_an_event_that_pravega_cannot_take_is_refused(spark: SparkSession, namespace: str) -> None:
    table = f"{namespace}.too_large"
    spark.sql(f"CREATE TABLE {table} (s STRING)")

    with pytest.raises(Exception, match=r"larger than Pravega takes \(8,388,608 bytes\)"):
        spark.sql(f"INSERT INTO {table} SELECT repeat('x', 9000000)")
    assert spark.table(table).count() == 0


def test_a_table_is_read_as_it_was_when_the_query_was_planned(spark: SparkSession, namespace: str) -> None:
    table = f"{namespace}.planned"
    spark.sql(f"CREATE TABLE {table} AS SELECT id FROM range(10)")
    planned = spark.table(table)
    planned._jdf.queryExecution().executedPlan()
    spark.sql(f"INSERT INTO {table} SELECT id FROM range(5)")

    assert len(planned.collect()) == 10
    assert spark.table(table).count() == 15
    spark.sql(f"INSERT INTO {table} SELECT id FROM {table}")
    assert spark.table(table).count() == 30


def test_dropping_a_namespace_with_tables_needs_cascade(spark: SparkSession) -> None:
    spark.sql("CREATE NAMESPACE pravega.full_one")
    spark.sql("CREATE TABLE pravega.full_one.t AS SELECT 1 AS id")
    with pytest.raises(Exception, match="SCHEMA_NOT_EMPTY"):
        spark.sql("DROP NAMESPACE pravega.full_one")
    spark.sql("CREATE TABLE pravega.full_one.u AS SELECT 2 AS id")
    spark.sql("DROP NAMESPACE pravega.full_one CASCADE")
    with pytest.raises(Exception, match="SCHEMA_NOT_FOUND"):
        spark.sql("DROP NAMESPACE pravega.full_one")


ODD_NAMES = ["größe", "Ключ", "a b", "a.b", "a`b", 'a"b', "日付"]


@pytest.mark.parametrize(
    ("table_format", "name"), [*(("json", name) for name in ODD_NAMES), ("avro", "größe"), ("avro", "a.b")]
)
@pytest.mark.in_turn
def test_a_routing_key_may_be_called_as_it_likes(
    spark: SparkSession, namespace: str, table_format: str, name: str
) -> None:
    table, quoted = f"{namespace}.odd", "`" + name.replace("`", "``") + "`"
    spark.sql(
        f"CREATE TABLE {table} ({quoted} STRING, v INT) CLUSTERED BY ({quoted}) INTO 2 BUCKETS "
        f"TBLPROPERTIES ('format' = '{table_format}')"
    )
    spark.sql(f"INSERT INTO {table} SELECT concat('k', id % 7), int(id) FROM range(70)")
    spark.sql(f"INSERT INTO {table} ({quoted}, v) VALUES ('k1', 100)")
    spark.createDataFrame([("k2", 200)], f"{quoted} STRING, v INT").writeTo(table).append()
    rows = spark.sql(f"SELECT {quoted}, count(*), sum(v), count(DISTINCT _segment) FROM {table} GROUP BY {quoted}")
    answers = {row[0]: (row[1], row[2], row[3]) for row in rows.collect()}
    expected = {f"k{key}": [10, sum(range(key, 70, 7))] for key in range(7)}
    for key, value in (("k1", 100), ("k2", 200)):
        expected[key] = [expected[key][0] + 1, expected[key][1] + value]
    # The rows of one key lie in one segment.
    assert answers == {key: (count, total, 1) for key, (count, total) in expected.items()}
    if not is_missing("4.2"):
        spark.sql(f"CREATE TABLE {namespace}.alike LIKE {table}")
        spark.sql(f"INSERT INTO {namespace}.alike SELECT * FROM {table}")
        assert spark.table(f"{namespace}.alike").count() == 72


@pytest.mark.parametrize("kind", ["", ", 'table-type' = 'key-value'"], ids=["stream", "key-value"])
def test_properties_that_sessions_set_at_once_are_all_kept(spark: SparkSession, namespace: str, kind: str) -> None:
    table = f"{namespace}.together"
    spark.sql(f"CREATE TABLE {table} (id INT NOT NULL, v INT) TBLPROPERTIES ('primary-key' = 'id'{kind})")
    with ThreadPoolExecutor(6) as threads:
        statements = [f"ALTER TABLE {table} SET TBLPROPERTIES ('own.{number}' = 'v{number}')" for number in range(30)]
        for done in [threads.submit(spark.sql, statement) for statement in statements]:
            done.result()
    shown = {row.key: row.value for row in spark.sql(f"SHOW TBLPROPERTIES {table}").collect()}
    assert {key: value for key, value in shown.items() if key.startswith("own.")} == {
        f"own.{number}": f"v{number}" for number in range(30)
    }


def test_names_may_begin_with_an_underscore(spark: SparkSession, client: Client) -> None:
    """In Pravega they begin with `-`; a stream of another program that is called so is found, too."""
    spark.sql("CREATE NAMESPACE pravega._names")
    try:
        for table_format in ("avro", "json", "protobuf"):
            t = f"pravega._names.__state_{table_format}"
            spark.sql(
                f"CREATE TABLE {t} (id BIGINT, name STRING) "
                f"TBLPROPERTIES ('primary-key' = 'id', 'format' = '{table_format}')"
            )
            spark.sql(f"INSERT INTO {t} VALUES (1, 'a'), (2, 'b')")
            spark.sql(f"UPDATE {t} SET name = 'c' WHERE id = 2")
            assert {row.id: row.name for row in spark.table(t).collect()} == {1: "a", 2: "c"}
        spark.sql(
            "CREATE TABLE pravega._names._entries (id BIGINT, name STRING) "
            "TBLPROPERTIES ('primary-key' = 'id', 'table-type' = 'key-value')"
        )
        spark.sql("INSERT INTO pravega._names._entries VALUES (1, 'a')")
        assert spark.table("pravega._names._entries").count() == 1
        client.controller.create_stream(Stream("-names", "-theirs"), StreamConfiguration())
        assert spark.table("pravega._names._theirs").count() == 0
        shown = [row.tableName for row in spark.sql("SHOW TABLES IN pravega._names").collect()]
        assert sorted(shown) == ["__state_avro", "__state_json", "__state_protobuf", "_entries", "_theirs"]
        assert "--state-avro" in client.controller.list_streams("-names")
        assert "_names" in [row.namespace for row in spark.sql("SHOW NAMESPACES IN pravega").collect()]
    finally:
        spark.sql("DROP NAMESPACE pravega._names CASCADE")
    assert not client.controller.scope_exists("-names")
