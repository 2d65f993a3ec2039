"""What docs/sql.md says about refused statements is what they answer."""

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
DOCS = Path(__file__).parents[2] / "docs" / "sql.md"


def refused() -> list[tuple[str, str]]:
    """The statements of the list and the words of their answers."""
    section = DOCS.read_text().partition("\n## What is refused\n")[2].partition("\n## ")[0]
    items = re.findall(r"^- `{1,2} ?(.+?) ?`{1,2}:\n((?:  .+\n)+)", section, flags=re.MULTILINE)
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


def test_the_table_is_found() -> None:
    assert len(refused()) > 20


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
