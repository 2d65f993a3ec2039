"""Routing keys have the texts of CAST; tables whose events have other ones go on with these."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from streaming_tools import scope_of

from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.client import Client, EventWriter, Stream
from pyspark_pravega.client.routing import key_fractions
from pyspark_pravega.connector.log import open_ledger
from pyspark_pravega.connector.table import KEY_TEXTS

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.usefixtures("interpreted"), pytest.mark.in_turn]

KEYS = [("0.00000001BD", "DATE'2026-01-02'"), ("0BD", "DATE'+10000-01-01'"), ("1.5BD", "DATE'-0044-03-15'"),
        ("-0.00000012BD", "DATE'+12345-06-07'")]  # fmt: skip


COLUMNS = "k DECIMAL(10,8) NOT NULL, d DATE NOT NULL, v INT"
CASTED = "concat(CAST(k AS STRING), ',', CAST(d AS STRING))"


def make(spark: SparkSession, client: Client, table: str, stream: Stream, *, old: bool) -> None:
    spark.sql(f"CREATE TABLE {table} ({COLUMNS}) TBLPROPERTIES ('primary-key' = 'k, d', 'segments' = '16')")
    if old:
        forget_texts(spark, client, table, stream)


def forget_texts(spark: SparkSession, client: Client, table: str, stream: Stream) -> None:
    """Make a table what those are that were made before their properties told the texts."""
    ledger = open_ledger(client, stream)
    assert ledger is not None
    ledger.change_properties(lambda before: {key: text for key, text in before.items() if key != KEY_TEXTS})
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('team.name' = 'old')")


@pytest.mark.parametrize("name", ["made", "old", "theirs"])
def test_a_key_s_text_is_that_of_cast(
    spark: SparkSession, client: Client, catalog: Catalog, namespace: str, name: str
) -> None:
    table, stream = f"{namespace}.{name}", Stream(scope_of(namespace), name)
    make(spark, client, table, stream, old=name != "made")
    values = ", ".join(f"(CAST({k} AS DECIMAL(10,8)), {d}, {v})" for v, (k, d) in enumerate(KEYS))
    if name == "theirs":
        # Another program's events, keyed as the pages say; the table doesn't know.
        answer = spark.sql(f"SELECT *, {CASTED} AS key FROM VALUES {values} t(k, d, v)").toArrow()
        rows = answer.combine_chunks().to_batches()[0]
        with EventWriter(client, stream) as writer:
            events = catalog.definition(stream, age_s=0).for_writing().encode(rows.drop_columns(["key"]))
            writer.write_batch(events, rows.column("key"))
    else:
        spark.sql(f"INSERT INTO {table} VALUES {values}")
    ranges = client.controller.current_segments(stream).ranges
    at_cast = []
    for row in spark.sql(f"SELECT {CASTED} AS key, _segment AS segment FROM {namespace}.`{name}$log`").collect():
        (place,) = key_fractions(pa.array([row.key]))
        at_cast.append(row.segment == next(one.segment_id for one in ranges if one.min_key <= place < one.max_key))
    assert (at_cast == [True] * len(KEYS)) == (name != "old")
    for v, (k, d) in enumerate(KEYS):
        assert spark.sql(f"SELECT v FROM {table} WHERE k = {k} AND d = {d}").collect() == [(v,)]
    if name != "theirs":
        # Each event of a key lies where the earlier ones are.
        spark.sql(f"INSERT INTO {table} VALUES {values}")
        spark.sql(f"UPDATE {table} SET v = v + 10 WHERE k IN (0, 0.00000001)")
        spark.sql(f"DELETE FROM {table} WHERE k = {KEYS[1][0]} AND d = {KEYS[1][1]}")
        assert sorted(row.v for row in spark.sql(f"SELECT v FROM {table}").collect()) == [2, 3, 10]


def test_a_key_that_is_given_later_is_in_the_texts_of_the_events(
    spark: SparkSession, client: Client, namespace: str
) -> None:
    table, stream = f"{namespace}.given", Stream(scope_of(namespace), "given")
    values = ", ".join(f"(CAST({k} AS DECIMAL(10,8)), {d}, {v})" for v, (k, d) in enumerate(KEYS))
    spark.sql(f"CREATE TABLE {table} ({COLUMNS}) TBLPROPERTIES ('segments' = '16', 'routing-key' = 'k,d')")
    forget_texts(spark, client, table, stream)
    spark.sql(f"INSERT INTO {table} VALUES {values}")
    # In another spelling it is the table's own one, and has its texts.
    spark.sql(f"INSERT INTO {table} WITH ('routing-key' = ' K, D') VALUES {values}")
    # A routing key that is new has the texts of CAST; the events that are there have others.
    spark.sql(f"ALTER TABLE {table} UNSET TBLPROPERTIES ('routing-key')")
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('primary-key' = 'k, d')")
    spark.sql(f"INSERT INTO {table} VALUES {values}")
    assert sorted(row.v for row in spark.sql(f"SELECT v FROM {table}").collect()) == list(range(len(KEYS)))
