"""The SQL that the live page offers below each view runs as it was copied."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest
from browser_tools import MISSING, Browser, browser, browser_is_there
from pyspark.sql import SparkSession

from pyspark_pravega.client import Stream
from pyspark_pravega.connector.shared import shared_client
from pyspark_pravega.connector.stream.consumption import Subscription
from pyspark_pravega.live.answers import Answers
from pyspark_pravega.live.server import LiveServer
from pyspark_pravega.settings import Settings

pytestmark = [
    pytest.mark.server,
    pytest.mark.spark,
    pytest.mark.in_turn(8),
    pytest.mark.since_spark("4.2"),
    pytest.mark.skipif(not browser_is_there(), reason=MISSING),
]

IS_SQL = "one.querySelector('summary').textContent === 'SQL'"
CODES = f"[...document.querySelectorAll('.sql')].filter((one) => {IS_SQL} && one.checkVisibility())"
STATEMENTS = f"{CODES}.map((one) => one.querySelector('code').textContent)"
WRITE = """const one = document.querySelector(arguments[0]);
one.value = arguments[1]; one.dispatchEvent(new Event(one.tagName === 'SELECT' ? 'change' : 'input'));"""
FILTERS = [
    ("", "b*", ""),
    ("my name", "it's", ""),
    ("", "", "1"),
    ("id", "1", "1"),
    ("", "b*", "{moment}"),
    ("", "", "cut_1"),
]
"""A column, a value, a moment."""


def make_tables(spark: SparkSession, namespace: str) -> None:
    """A plain table with dead letters, one with a key and a name that needs quotes, and a key-value table."""
    for statement in [
        "CREATE TABLE {0}.orders (id BIGINT, `my name` STRING)",
        "CREATE TABLE {0}.`my.table` (id BIGINT, `my name` STRING, PRIMARY KEY (id) NOT ENFORCED)",
        "CREATE TABLE {0}.rates (code STRING, rate DOUBLE, PRIMARY KEY (code) NOT ENFORCED) "
        "TBLPROPERTIES ('table-type' = 'key-value', 'key-bytes' = 'code=20')",
        "CREATE TABLE {0}.letters (source STRING NOT NULL, segment BIGINT NOT NULL, offset BIGINT NOT NULL, "
        "encoding_id INT, reason STRING, event BINARY, at TIMESTAMP, "
        "PRIMARY KEY (source, segment, offset) NOT ENFORCED)",
        "INSERT INTO {0}.orders VALUES (1, 'ann'), (2, 'it\\'s')",
        "INSERT INTO {0}.orders VALUES (3, 'bob')",
        "INSERT INTO {0}.`my.table` VALUES (1, 'ann'), (2, 'it\\'s')",
        "UPDATE {0}.`my.table` SET `my name` = 'bob' WHERE id = 1",
        "INSERT INTO {0}.rates VALUES ('EUR', 1.0)",
    ]:
        spark.sql(statement.format(namespace))
    scope = namespace.removeprefix("pravega.")
    spark.sql(f"ALTER TABLE {namespace}.orders SET TBLPROPERTIES ('bad-events' = '{scope}.letters')")
    for table in ("orders", "my.table"):
        spark.sql(f"CALL pravega.system.create_cut(table => '{scope.replace('_', '-')}/{table}', name => 'cut_1')")


def test_sql_of_each_view_runs(spark: SparkSession, settings: Settings, namespace: str, tmp_path: Path) -> None:
    make_tables(spark, namespace)
    scope = namespace.removeprefix("pravega.").replace("_", "-")
    Subscription(shared_client(settings), f"s{uuid.uuid4().hex[:8]}", (Stream(scope, "orders"),))
    seen: dict[str, str] = {}

    def take(window: Browser, view: str) -> None:
        # A panel may come behind those that were waited for, and is empty at first.
        shown = window.wait("SQL of each panel", f"const all = {STATEMENTS}; return all.every(Boolean) && {{all}}")
        for text in shown["all"]:
            seen.setdefault(text, view)

    with (
        LiveServer(Answers(settings, scope=scope)) as server,
        browser(tmp_path) as window,
    ):
        window.open(server.url)
        for view, selector in {
            "": "tr.line",
            "namespaces": "tbody tr",
            f"key-value/{scope}/rates": "table.rows tbody tr",
            f"stream/{scope}/letters": ".versions tbody tr, .empty",
        }.items():
            window.run("location.hash = arguments[0]", f"#/{view}")
            window.wait(view, "return document.querySelector(arguments[0])", f"main {selector}")
            take(window, view)
        for table in ("orders", "my.table"):
            window.run("location.hash = arguments[0]", f"#/stream/{scope}/{table}")
            window.wait(table, "return document.querySelector('h1').textContent.endsWith(arguments[0])", table)
            window.wait("commits", "return document.querySelectorAll('main .versions tbody tr').length === 2")
            window.click("[aria-label='What version 2 changed']")
            window.wait("what changed", "return document.querySelectorAll('.changed tbody tr').length > 0")
            take(window, table)
            ((at,),) = spark.sql(f"SELECT committed_at FROM {namespace}.`{table}$commits` WHERE version = 1").collect()
            for column, value, when in FILTERS:
                before = "; ".join(window.run(f"return {STATEMENTS}"))
                window.run(WRITE, "[aria-label='Column of the filter']", column)
                window.run(WRITE, "[aria-label='Filter rows by a value']", value)
                given = when.format(moment=at.astimezone().isoformat())
                window.run(WRITE, "[aria-label='Version or time']", given)
                window.wait("other SQL", f"return {STATEMENTS}.join('; ') !== arguments[0]", before)
                take(window, f"{table}, filtered by {column}, {value}, {when}")
        assert window.log() == []
    assert len(seen) > 20
    failed = []
    for text, view in seen.items():
        for statement in text.split(";\n"):
            if statement.startswith("--"):
                continue
            try:
                spark.sql(statement.rstrip(";")).collect()
            except Exception as error:
                failed.append(f"{view}: {statement}\n{str(error)[:300]}")
    assert failed == [], "\n".join(failed)
