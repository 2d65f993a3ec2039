"""Statements that a stream refuses answer with what `refused_statements.txt` says; docs/sql.md names them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from since import is_missing

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.usefixtures("interpreted")]

SINCE = {"4.1": r"CONSTRAINT|UNIQUE|TABLE c\b|INTO c\b", "4.2": r"VIEW|TABLE v\b|CHANGES|SCHEMA EVOLUTION"}
"""What Spark has only since then, and tables and views that are made by it."""
STATEMENTS = Path(__file__).with_name("refused_statements.txt")
PAGE = Path(__file__).parents[2] / "docs" / "sql.md"


def refused() -> list[tuple[str, str]]:
    """The statements of the list and the words of their answers."""
    _, _, statements = STATEMENTS.read_text().partition("\n\n")
    items = re.findall(r"^(\S.*)\n((?:  .+\n)+)", statements, flags=re.MULTILINE)
    return [(statement, " ".join(answer.replace("`", "").split())) for statement, answer in items]


@pytest.fixture(scope="module")
def shop(spark: SparkSession) -> Iterator[SparkSession]:
    """A session in the namespace that the statements are about, with a table of one commit, another one and a view."""
    own = spark.newSession()
    own.sql("CREATE NAMESPACE pravega.refused")
    own.sql("USE pravega.refused")
    own.sql("CREATE TABLE t (id BIGINT NOT NULL, name STRING) CLUSTERED BY (id) INTO 1 BUCKETS")
    own.sql("CREATE TABLE u (id BIGINT, name STRING)")
    own.sql("CREATE TABLE d (id BIGINT) TBLPROPERTIES ('compatibility' = 'DenyAll')")
    if not is_missing("4.1"):
        own.sql("CREATE TABLE c (id BIGINT, CONSTRAINT positive CHECK (id > 0))")
    if not is_missing("4.2"):
        own.sql("CREATE VIEW v AS SELECT id FROM t")
    own.sql("INSERT INTO t VALUES (1, 'one')")
    yield own
    spark.sql("DROP NAMESPACE pravega.refused CASCADE")


def test_the_page_names_only_statements_that_are_tried() -> None:
    tried = {statement for statement, _ in refused()}
    table = PAGE.read_text().partition("\n## What is refused\n")[2].partition("\n## ")[0]
    first_cells = re.findall(r"^\| (`.+?`) \|", table, flags=re.MULTILINE)
    named = {statement for cell in first_cells for statement in re.findall(r"`([^`]+)`", cell)}
    assert len(tried) > 40
    assert len(first_cells) > 10
    assert named <= tried


def marks(statement: str) -> list[pytest.MarkDecorator]:
    return [pytest.mark.since_spark(since) for since, words in SINCE.items() if re.search(words, statement)]


@pytest.mark.parametrize(
    ("statement", "answer"),
    [pytest.param(statement, answer, marks=marks(statement), id=statement) for statement, answer in refused()],
)
def test_a_refused_statement_answers_as_the_docs_say(shop: SparkSession, statement: str, answer: str) -> None:
    with pytest.raises(Exception) as error:
        shop.sql(statement).collect()
    told = str(error.value).replace("`", "")
    assert "Traceback" not in told
    words = [part.strip() for part in answer.split("...")]
    position = 0
    for word in words:
        assert word in told[position:], told[:600]
        position = told.index(word, position) + len(word)
