"""MERGE from whatever can be selected: the source alone is the answer."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.usefixtures("interpreted"), pytest.mark.in_turn]

GROUP_FILTER = "spark.sql.optimizer.runtime.rowLevelOperationGroupFilter.enabled"
SOURCES = {
    "exists": "SELECT * FROM news a WHERE EXISTS (SELECT 1 FROM allowed c WHERE c.id = a.id)",
    "not exists": "SELECT * FROM news a WHERE NOT EXISTS (SELECT 1 FROM allowed c WHERE c.id = a.id)",
    "exists or": "SELECT * FROM news a WHERE v > 30 OR EXISTS (SELECT 1 FROM allowed c WHERE c.id = a.id)",
    "correlated in": "SELECT * FROM news a WHERE a.id IN (SELECT id FROM allowed c WHERE c.id = a.id)",
    "what isn't there": "SELECT * FROM news a WHERE NOT EXISTS (SELECT 1 FROM {target} t WHERE t.id = a.id)",
    "in or": "SELECT * FROM news WHERE v > 30 OR id IN (SELECT id FROM allowed)",
    "scalar": "SELECT id, (SELECT max(v) FROM news b WHERE b.id = a.id) AS v FROM news a",
}
METADATA = {
    "all and offset": "SELECT *, _offset FROM {source}",
    "alias": "SELECT id, v, _segment AS s, _event_size AS e FROM {source}",
    "cte": "WITH x AS (SELECT *, _offset AS o FROM {source}) SELECT * FROM x",
}
THERE = {1: 1, 2: 2}


@pytest.fixture
def session(spark: SparkSession) -> SparkSession:
    session = spark.newSession()
    session.sql("CREATE TEMP VIEW news AS SELECT * FROM VALUES (1L, 10L), (3L, 30L), (4L, 40L) AS v(id, v)")
    session.sql("CREATE TEMP VIEW allowed AS SELECT * FROM VALUES (1L), (2L) AS v(id)")
    return session


@pytest.mark.parametrize("kind", ["keyed", "key-value"])
def test_a_merge_takes_any_source(session: SparkSession, namespace: str, kind: str) -> None:
    """With Spark's own filter of groups switched on, as it is without `configure`, and off for metadata columns."""
    of_kind = ", 'table-type' = 'key-value'" if kind == "key-value" else ""
    target, source = f"{namespace}.t", f"{namespace}.s"
    session.sql(f"CREATE TABLE {target} (id BIGINT NOT NULL, v BIGINT) TBLPROPERTIES ('primary-key' = 'id'{of_kind})")
    session.sql(f"CREATE TABLE {source} AS SELECT * FROM news")
    assert session.conf.get(GROUP_FILTER) == "false", "as configure says it"
    for name, query in (SOURCES | METADATA).items():
        if kind == "key-value" and name not in ("exists", "what isn't there", "alias"):
            continue
        session.conf.set(GROUP_FILTER, str(name in SOURCES).lower())
        session.sql(f"DELETE FROM {target} WHERE true")
        session.sql(f"INSERT INTO {target} VALUES (1, 1), (2, 2)")
        text = query.format(target=target, source=source)
        rows = {row.id: row.v for row in session.sql(text).collect()}
        session.sql(
            f"MERGE INTO {target} t USING ({text}) s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, s.v)"
        )
        assert {row.id: row.v for row in session.table(target).collect()} == THERE | rows, name
