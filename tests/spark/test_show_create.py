"""SHOW CREATE TABLE's text, run again, makes an equal table, whatever its columns are called."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from pyspark.sql import SparkSession

from pyspark_pravega.values import listed, quoted

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.usefixtures("interpreted")]

NAMES = [" lead", "tail ", "my id", "a,b", "x.y", "b`q", "it's", 'd"q', "{w}", "日付"]
PLAIN = "n INT DEFAULT 7, CHECK ({one} <> 'x' OR {two} IS NULL)"
KINDS = {
    "key": "({one} STRING NOT NULL, {two} STRING NOT NULL, n INT, PRIMARY KEY ({one}, {two}) NOT ENFORCED)",
    "one_key": "({one} STRING NOT NULL, {two} STRING, n INT DEFAULT 7, PRIMARY KEY ({one}) NOT ENFORCED)",
    "entries": "({one} STRING NOT NULL, {two} STRING NOT NULL, n INT, PRIMARY KEY ({one}, {two}) NOT ENFORCED) "
    "CLUSTERED BY ({one}) INTO 2 BUCKETS TBLPROPERTIES ('table-type' = 'key-value', 'key-bytes' = '{bytes}')",
    "clustered": f"({{one}} STRING, {{two}} STRING, {PLAIN}) CLUSTER BY ({{one}})",
    "several": f"({{one}} STRING, {{two}} STRING, {PLAIN}) TBLPROPERTIES ('routing-key' = '{{both}}')",
    "pattern": f"({{one}} STRING, {{two}} STRING, {PLAIN}) TBLPROPERTIES ('routing-key' = '<{{braced}}>')",
    "timed": "({one} TIMESTAMP, {two} STRING DEFAULT 'it''s', n INT) TBLPROPERTIES ('event-time' = '{name}')",
}


CASES = [(kind, number) for turn, kind in enumerate(KINDS) for number in range(turn % 3, len(NAMES), 3)]
"""Of each kind some names, each name in some kinds: a table of each would take a minute."""


def statement(kind: str, table: str, one: str, two: str) -> str:
    def text(of: str) -> str:
        return of.replace("'", "''")

    words = {
        "one": quoted(one),
        "two": quoted(two),
        "both": text(listed([one, two])),
        "braced": text(f"{{{listed([one])}}}/{{{listed([two])}}}"),
        "bytes": text(f"{listed([one])}=20"),
        "name": text(one),
    }
    return f"CREATE TABLE {table} {KINDS[kind].format(**words)}"


def wrong(spark: SparkSession, namespace: str, case: tuple[str, int]) -> str | None:
    """What is wrong with a table of a kind, one of whose columns has one of the names; None where nothing is."""
    kind, number = case
    one, two = NAMES[number], NAMES[(number + 3) % len(NAMES)]
    table, again = f"{namespace}.{kind}_{number}", f"{namespace}.{kind}_{number}_again"
    try:
        spark.sql(statement(kind, table, one, two))
        ((shown,),) = spark.sql(f"SHOW CREATE TABLE {table}").collect()
        spark.sql(shown.replace(f"{kind}_{number}", f"{kind}_{number}_again"))
        ((shown_again,),) = spark.sql(f"SHOW CREATE TABLE {again}").collect()
        assert shown_again.replace(f"{kind}_{number}_again", f"{kind}_{number}") == shown
        assert spark.table(again).schema == spark.table(table).schema
        if kind in ("key", "entries"):
            assert "PRIMARY KEY" in shown
            for n in (1, 2):
                spark.sql(f"INSERT INTO {again} VALUES ('k', 'l', {n})")
            where = f"{quoted(one)} = 'k' AND {quoted(two)} = 'l'"
            assert spark.sql(f"SELECT n FROM {again} WHERE {where}").collect() == [(2,)]
    except Exception as error:
        return f"{kind}, {one!r} and {two!r}: {str(error)[:300]}"
    return None


def test_what_show_create_table_says_makes_the_table_again(spark: SparkSession, namespace: str) -> None:
    with ThreadPoolExecutor(4) as threads:
        found = threads.map(partial(wrong, spark, namespace), CASES)
        assert [one for one in found if one is not None] == []
