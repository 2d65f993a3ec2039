"""What stands on the pages runs, block after block, on real servers; each page has a namespace of its own.

README.md is run as a stranger would (`test_readme.py`). A block that can't run has a comment right above it,
`<!-- not run: why -->`. Summaries of a run say how many ran.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from page_tools import PAGES, ROOT, RUNNABLE, Snippet, snippets
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from spark_tools import Sessions

from pyspark_pravega.client import Client
from pyspark_pravega.sandbox import Sandbox

NAMESPACES = "shop|market|store|crm|bank"
"""What pages call their namespaces and scopes: each page gets others."""
ORDERS = """
CREATE NAMESPACE pravega.shop;
CREATE TABLE pravega.shop.orders (id BIGINT NOT NULL, customer STRING, amount DECIMAL(10,2), at TIMESTAMP)
  CLUSTERED BY (customer) INTO 4 BUCKETS;
INSERT INTO pravega.shop.orders VALUES (1, 'ann', 12.50, now()), (2, 'bob', 7.20, now());
"""
"""The table of README.md, which other pages begin with."""
TOPIC = """
CREATE NAMESPACE pravega.shop;
CREATE TABLE pravega.shop.topic (key BINARY, value BINARY, timestamp TIMESTAMP);
INSERT INTO pravega.shop.topic VALUES (CAST('ann' AS BINARY),
  CAST('{"id": 1, "customer": "ann", "amount": 12.50, "at": "2026-11-28T12:00:00Z"}' AS BINARY), now());
"""
"""Stands in for a topic: there is no Kafka in the tests."""
MADE_BEFORE = {
    "docs/formats.md": "CREATE NAMESPACE pravega.shop",
    "docs/from-kafka.md": TOPIC,
    "docs/ingestion.md": ORDERS,
    "docs/keyed-tables.md": ORDERS,
    "docs/procedures.md": ORDERS,
    "docs/realtime.md": ORDERS,
    "docs/sql.md": ORDERS,
    "docs/streaming.md": ORDERS,
    "docs/time-travel.md": ORDERS,
    "docs/writing.md": ORDERS,
}
STAND_INS = {"docs/from-kafka.md": 'topic = spark.readStream.table("pravega.shop.topic")'}
"""Python in place of a page's snippet that can't run."""
SINCE = {
    "docs/bad-events.md": "4.2",
    "docs/cdc.md": "4.2",
    "docs/dashboards.md": "4.2",
    "docs/formats.md": "4.1",
    "docs/key-value-tables.md": "4.1",
    "docs/keyed-tables.md": "4.2",
    "docs/procedures.md": "4.2",
    "docs/realtime.md": "4.3",
    "docs/sql.md": "4.2",
    "docs/streaming.md": "4.3",
    "docs/tables.md": "4.2",
    "docs/time-travel.md": "4.2",
    "docs/transactions.md": "4.1",
    "docs/undo.md": "4.2",
    "docs/writing.md": "4.2",
}
"""Which Spark has all that a page shows."""
_ANSWER = re.compile(r"^--.*\bgives (.+)\n([^;]+);", re.MULTILINE)
"""What a page says of the statement below: its rows in their order, with commas between."""
_FILE = re.compile(r"# (\w+\.py)\n")
_TOKEN = re.compile(r"'(?:[^']|'')*'|`[^`]*`|--[^\n]*|;|[^'`;-]+|-")


def runs(page: str) -> list[Snippet]:
    return [snippet for snippet in snippets(page) if snippet.language in RUNNABLE and snippet.marker is None]


def statements(text: str) -> list[str]:
    """The statements of a text, without its comments.

    Args:
        text: SQL with semicolons between.
    """
    parts = [""]
    for token in _TOKEN.findall(text):
        if token == ";":
            parts.append("")
        elif not token.startswith("--"):
            parts[-1] += token
    return [part.strip() for part in parts if part.strip()]


class Reader:
    """Somebody who tries all that a page shows."""

    def __init__(self, spark: SparkSession, sandbox: Sandbox, folder: Path, modules: Path) -> None:
        self._spark, self._folder, self._modules = spark, folder, modules
        self._suffix = uuid.uuid4().hex[:8]
        self._addresses = {
            "tcp://localhost:9090": sandbox.controller_uri,
            "http://localhost:9092": str(sandbox.schema_registry_uri),
        }
        self._names: dict[str, object] = {"__name__": "page", "spark": spark}
        self._environment = {
            **os.environ,
            **sandbox.environment(),
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "XDG_STATE_HOME": str(folder),
        }

    def own(self, text: str) -> str:
        """A text with this reader's own names, folders and servers in place of the page's."""
        for address, real in self._addresses.items():
            text = text.replace(address, real)
        text = re.sub(rf"\b({NAMESPACES})\b", rf"\g<1>{self._suffix}", text)
        return re.sub(r"(?<![\w.])/data/", f"{self._folder}/", text)

    def try_out(self, snippet: Snippet) -> None:
        getattr(self, f"_{snippet.language}")(snippet)

    def define(self, text: str) -> None:
        """Run Python whose names the page's snippets see."""
        exec(self.own(text), self._names)

    def sql(self, text: str) -> None:
        text = self.own(text)
        answers = {statement: rows for rows, statement in _ANSWER.findall(text)}
        for statement in statements(text):
            rows = self._spark.sql(statement).collect()
            if statement in answers:
                assert sorted(" ".join(map(str, row)) for row in rows) == answers[statement].split(", "), statement

    def _sql(self, snippet: Snippet) -> None:
        self.sql(snippet.text)

    def _python(self, snippet: Snippet) -> None:
        text = self.own(snippet.text)
        if named := _FILE.match(text):
            (self._modules / named[1]).write_text(text)
        # Tracebacks tell the page's lines.
        exec(compile("\n" * (snippet.line - 1) + text, snippet.page, "exec"), self._names)
        for query in self._active():
            query.processAllAvailable()
            query.stop()

    def _active(self) -> list[StreamingQuery]:
        """The running queries, also of a session that the page has asked for: one that writes into a table while it is
        dropped makes its commit log anew, and the drop waits for 10 s."""
        sessions = [self._spark, *(value for value in self._names.values() if isinstance(value, SparkSession))]
        return list({query.runId: query for session in sessions for query in session.streams.active}.values())

    def _sh(self, snippet: Snippet) -> None:
        self._told(snippet.text, snippet)

    def _console(self, snippet: Snippet) -> None:
        """A command stands behind `$`, and below what it says: that is so, figures aside."""
        command, _, answer = snippet.text.removeprefix("$ ").partition("\n")
        said = [_without_figures(line) for line in self._told(command, snippet).splitlines()]
        assert said == [_without_figures(line) for line in self.own(answer).splitlines()], snippet.place

    def _told(self, command: str, snippet: Snippet) -> str:
        ran = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", self.own(command)],
            cwd=ROOT,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 0, f"{snippet.place}: {ran.stdout}{ran.stderr}"
        return ran.stdout

    def leave(self) -> None:
        """Stop what still runs. Namespaces stay: to drop one takes as long as to make its tables."""
        for value in self._names.values():
            if isinstance(value, Client):
                value.close()
        for query in self._active():
            query.stop()


def _without_figures(line: str) -> str:
    return re.sub(r"[\d,.]*\d", "0", " ".join(line.split()))


@pytest.fixture
def reader(
    spark: SparkSession,
    sessions: Sessions,
    sandbox: Sandbox,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Reader]:
    for name, value in sandbox.environment().items():
        monkeypatch.setenv(name, value)
    coming = Reader(spark.newSession(), sandbox, tmp_path, sessions.modules)
    try:
        yield coming
    finally:
        coming.leave()


def test_statements_are_told_apart() -> None:
    text = "SELECT 'a;b--c' -- first; of two\n  AS x; SELECT `a;b`, 1 - 2;\n-- none\n"
    assert statements(text) == ["SELECT 'a;b--c' \n  AS x", "SELECT `a;b`, 1 - 2"]


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=pytest.mark.since_spark(SINCE[page]) if page in SINCE else ())
        for page in PAGES
        if page != "README.md" and runs(page)
    ],
)
@pytest.mark.in_turn
def test_what_a_page_shows_runs(page: str, reader: Reader, record_property: Callable[[str, object], None]) -> None:
    reader.sql(MADE_BEFORE.get(page, ""))
    reader.define(STAND_INS.get(page, ""))
    ran = 0
    for snippet in runs(page):
        try:
            reader.try_out(snippet)
        except Exception as error:
            error.add_note(snippet.place)
            raise
        ran += 1
    record_property("snippets run", ran)
