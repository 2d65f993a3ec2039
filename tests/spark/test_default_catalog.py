"""Names without the catalog's: `spark.sql.defaultCatalog`, USE, and how cases count."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import Row, SparkSession

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.usefixtures("interpreted"), pytest.mark.in_turn]


@pytest.fixture
def own(spark: SparkSession) -> Iterator[SparkSession]:
    """A session whose default catalog is Pravega's."""
    session = spark.newSession()
    session.conf.set("spark.sql.defaultCatalog", "pravega")
    yield session
    session.conf.unset("spark.sql.defaultCatalog")


def where(session: SparkSession) -> tuple[str, str]:
    """The current catalog and namespace."""
    row = session.sql("SELECT current_catalog(), current_schema()").first()
    assert row is not None
    return row[0], row[1]


def test_names_of_two_parts_are_the_default_catalogs(own: SparkSession, namespace: str) -> None:
    short = namespace.removeprefix("pravega.")
    own.sql(f"CREATE TABLE {short}.t AS SELECT 1 AS id")
    assert own.table(f"{short}.t").collect() == own.table(f"{namespace}.t").collect() == [Row(id=1)]
    assert where(own)[0] == "pravega"
    assert own.sql(f"SHOW TABLES IN {short}").collect() == [Row(namespace=short, tableName="t", isTemporary=False)]


def test_use_goes_in_and_out(own: SparkSession, spark: SparkSession, namespace: str) -> None:
    short = namespace.removeprefix("pravega.")
    dashed = f"`{short.replace('_', '-')}`"
    for statement, place in (
        (f"USE {short}", ("pravega", short)),
        ("USE default", ("pravega", "default")),
        (f"USE NAMESPACE {short}", ("pravega", short)),
        ("USE spark_catalog.default", ("spark_catalog", "default")),
        (f"USE {namespace}", ("pravega", short)),
        (f"USE pravega.{dashed}", ("pravega", dashed)),
    ):
        own.sql(statement)
        assert where(own) == place
    own.sql("CREATE TABLE t (id INT)")
    assert where(spark)[0] == "spark_catalog"
    with pytest.raises(AnalysisException) as error:
        own.sql("USE no_such_namespace")
    assert error.value.getCondition() == "SCHEMA_NOT_FOUND"
    assert where(own) == ("pravega", dashed)
    assert [row.tableName for row in spark.sql(f"SHOW TABLES IN {namespace}").collect()] == ["t"]


def test_a_session_begins_in_a_namespace_to_which_programs_come_back(own: SparkSession, namespace: str) -> None:
    short = namespace.removeprefix("pravega.")
    assert own.catalog.currentDatabase() == "default"
    before = own.sql("SHOW TABLES").collect()
    own.sql(f"USE {short}")
    # As ibis makes a table: PySpark sends its parameter as an option.
    own.catalog.createTable("t", schema=own.range(1).schema, format="parquet")
    assert [row.tableName for row in own.sql("SHOW TABLES").collect()] == ["t"]
    own.catalog.setCurrentDatabase("default")
    assert own.sql("SHOW TABLES").collect() == before
    assert own.table(f"{short}.t").collect() == []
    with pytest.raises(AnalysisException, match=r"PRAVEGA_INVALID_CONFIGURATION.*parquet"):
        own.sql(f"CREATE TABLE {short}.u (id INT) TBLPROPERTIES ('format' = 'parquet')")


def test_tables_differ_by_case_and_columns_do_not(own: SparkSession, namespace: str) -> None:
    """Pravega's names are what they are; columns go by spark.sql.caseSensitive."""
    own.sql(f"USE {namespace}")
    own.sql("CREATE TABLE Orders (Id BIGINT, customer STRING) CLUSTERED BY (customer) INTO 2 BUCKETS")
    own.sql("INSERT INTO Orders (ID, Customer) VALUES (1, 'ann')")
    assert own.sql("SELECT id, CUSTOMER FROM Orders WHERE iD = 1").collect() == [(1, "ann")]
    assert own.table("Orders").columns == ["Id", "customer"]
    with pytest.raises(AnalysisException) as error:
        own.table("orders").collect()
    assert error.value.getCondition() == "TABLE_OR_VIEW_NOT_FOUND"
    own.sql("CREATE TABLE orders (id INT)")
    assert own.sql("SELECT count(*) FROM orders").first() == (0,)
    assert own.sql("SELECT count(*) FROM Orders").first() == (1,)
    own.sql("ALTER TABLE Orders ADD COLUMN Note STRING")
    assert own.sql("SELECT note FROM Orders").collect() == [(None,)]
    with pytest.raises(AnalysisException):
        own.sql("ALTER TABLE Orders ADD COLUMN NOTE STRING")
    own.conf.set("spark.sql.caseSensitive", "true")
    try:
        with pytest.raises(AnalysisException) as error:
            own.sql("SELECT id FROM Orders")
        assert error.value.getCondition() == "UNRESOLVED_COLUMN.WITH_SUGGESTION"
        assert own.sql("SELECT Id FROM Orders").first() == (1,)
    finally:
        own.conf.unset("spark.sql.caseSensitive")


def test_the_default_namespace_gets_its_scope_with_the_first_table(own: SparkSession) -> None:
    own.sql("USE default")
    assert own.sql("SHOW TABLES").collect() == []
    own.sql("CREATE TABLE first AS SELECT 1 AS id")
    try:
        assert own.sql("SELECT * FROM default.first").collect() == [Row(id=1)]
        assert Row(namespace="default") in own.sql("SHOW NAMESPACES").collect()
    finally:
        own.sql("USE spark_catalog.default")
        own.sql("DROP NAMESPACE pravega.default CASCADE")
