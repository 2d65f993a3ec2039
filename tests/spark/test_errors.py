"""What is wrong is said in one sentence, in Spark's style, before anything is made."""

from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from since import is_missing

from pyspark_pravega.client import Client, KeyValueTable, Stream
from pyspark_pravega.client.connections import Connection
from pyspark_pravega.client.wire import commands as wire
from pyspark_pravega.connector.log.entry_keys import ledger_name
from pyspark_pravega.errors import (
    AuthenticationError,
    ConflictError,
    ControllerUnavailableError,
    NoAnswerError,
    PravegaError,
    RegistryUnavailableError,
    TableChangedError,
    TokenExpiredError,
    UnsupportedOperationError,
    WriteConflictError,
)
from pyspark_pravega.registry import SchemaRegistry
from pyspark_pravega.sandbox import Sandbox

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.usefixtures("interpreted")]

LONG = "x" * 256


@pytest.fixture(scope="module")
def empty(spark: SparkSession) -> str:
    """A namespace in which no test makes anything."""
    spark.sql("CREATE NAMESPACE pravega.errors_empty")
    return "pravega.errors_empty"


@pytest.fixture(scope="module")
def with_table(spark: SparkSession) -> str:
    """A namespace with a table `t`, into which no test writes anything."""
    spark.sql("CREATE NAMESPACE pravega.errors_with_table")
    spark.sql("CREATE TABLE pravega.errors_with_table.t (id INT)")
    return "pravega.errors_with_table"


REFUSED_TABLES = [
    ("`a/b` (id INT)", "PRAVEGA_INVALID_NAME", '"a/b" may hold only letters, digits'),
    ("`` (id INT)", "PRAVEGA_INVALID_NAME", "must not be empty"),
    (f"{LONG} (id INT)", "PRAVEGA_INVALID_NAME", "has 256 characters; at most 255"),
    ("t (id INTERVAL MONTH)", "PRAVEGA_UNSUPPORTED_TYPE", 'column "id" is of type INTERVAL MONTH'),
    ("t (s STRUCT<v: INTERVAL YEAR>)", "PRAVEGA_UNSUPPORTED_TYPE", 'column "s.v" is of type INTERVAL YEAR'),
    ("t (`a b` INT) TBLPROPERTIES ('format' = 'protobuf')", "PRAVEGA_UNSUPPORTED_TYPE", 'name it "a_b"'),
    ("t (id INT) TBLPROPERTIES ('fromat' = 'avro')", "PRAVEGA_INVALID_CONFIGURATION", 'did you mean "format"?'),
    ("t (id INT) TBLPROPERTIES ('format' = 'arvo')", "PRAVEGA_INVALID_CONFIGURATION", 'did you mean "avro"?'),
    ("t (id INT) TBLPROPERTIES ('format' = 'raw')", "PRAVEGA_INVALID_CONFIGURATION", "exactly one column"),
    ("t (id INT) TBLPROPERTIES ('segments' = '0')", "PRAVEGA_INVALID_CONFIGURATION", "a number from 1 to"),
    ("t (id INT) TBLPROPERTIES ('compatibility' = 'Bakward')", "PRAVEGA_INVALID_CONFIGURATION", '"Backward"?'),
    ("t (id INT) TBLPROPERTIES ('routing-key' = 'idd')", "PRAVEGA_INVALID_NAME", 'did you mean "id"?'),
    ("t (d DOUBLE) CLUSTERED BY (d) INTO 2 BUCKETS", "PRAVEGA_UNSUPPORTED_TYPE", "can't be the routing key"),
    ("t (a INT, b INT) CLUSTERED BY (a, b) INTO 2 BUCKETS", "PRAVEGA_UNSUPPORTED_OPERATION", "is one column"),
    ("t (id INT) PARTITIONED BY (id)", "PRAVEGA_UNSUPPORTED_OPERATION", "CLUSTERED BY (column) INTO n BUCKETS"),
    ("t (id INT) USING orc", "PRAVEGA_UNSUPPORTED_OPERATION", "USING pravega"),
    ("t (id INT) USING pravega LOCATION '/somewhere'", "PRAVEGA_UNSUPPORTED_OPERATION", "leave LOCATION out"),
]


@pytest.mark.parametrize(("definition", "condition", "words"), REFUSED_TABLES)
def test_a_table_that_cannot_be_is_refused_and_leaves_nothing(
    spark: SparkSession, client: Client, sandbox: Sandbox, empty: str, definition: str, condition: str, words: str
) -> None:
    with pytest.raises(AnalysisException) as refused:
        spark.sql(f"CREATE TABLE {empty}.{definition}")

    assert refused.value.getCondition() == condition
    message = str(refused.value)
    assert message.startswith(f"[{condition}] ")
    assert words in message
    assert "Traceback" not in message
    assert "\n" not in message
    scope = empty.removeprefix("pravega.").replace("_", "-")
    assert list(client.controller.list_streams(scope)) == []
    assert list(client.controller.list_key_value_tables(scope)) == []
    with SchemaRegistry(sandbox.schema_registry_uri) as registry:
        assert list(registry.groups(scope)) == []


STATEMENTS = [
    ("SELECT * FROM {ns}.nope", "TABLE_OR_VIEW_NOT_FOUND", "`nope`"),
    ("SELECT * FROM pravega.no_such_scope.t", "TABLE_OR_VIEW_NOT_FOUND", "`no_such_scope`"),
    ("SHOW TABLES IN pravega.no_such_scope", "SCHEMA_NOT_FOUND", "`no_such_scope`"),
    ("CREATE TABLE pravega.no_such_scope.t (id INT)", "SCHEMA_NOT_FOUND", "`no_such_scope`"),
    ("CREATE NAMESPACE {ns}", "SCHEMA_ALREADY_EXISTS", ""),
    ("CREATE NAMESPACE pravega.`a/b`", "PRAVEGA_INVALID_NAME", '"a/b"'),
    ("CREATE NAMESPACE pravega.a.b", "PRAVEGA_INVALID_NAME", "has 2 parts"),
    (f"CREATE NAMESPACE pravega.{LONG}", "PRAVEGA_INVALID_NAME", "256 characters"),
    ("CREATE TABLE {ns}.t (id INT)", "TABLE_OR_VIEW_ALREADY_EXISTS", "`t`"),
    ("SELECT * FROM {ns}.t WITH ('timeotu' = '1')", "PRAVEGA_INVALID_CONFIGURATION", 'did you mean "timeout"?'),
    ("INSERT INTO {ns}.t WITH ('routing' = 'id') VALUES (1)", "PRAVEGA_INVALID_CONFIGURATION", '"routingKey"?'),
    (
        "INSERT INTO {ns}.t WITH ('transaction-timeout-ms' = '5') VALUES (1)",
        "PRAVEGA_INVALID_CONFIGURATION",
        "from 10000 to 600000",
    ),
    ("SELECT * FROM {ns}.t VERSION AS OF 1", "PRAVEGA_VERSION_NOT_FOUND", "it has no commits yet"),
    ("ALTER TABLE {ns}.t ADD COLUMN x INT NOT NULL", "PRAVEGA_UNSUPPORTED_OPERATION", "leave NOT NULL out"),
    ("ALTER TABLE {ns}.t RENAME TO {ns}.u", "PRAVEGA_UNSUPPORTED_OPERATION", "can't be renamed"),
    ("INSERT INTO {ns}.t VALUES ('x')", "INCOMPATIBLE_DATA_FOR_TABLE.CANNOT_SAFELY_CAST", "`id`"),
]


@pytest.mark.parametrize(("statement", "condition", "words"), STATEMENTS)
def test_a_statement_that_cannot_be_done_says_why(
    spark: SparkSession, with_table: str, statement: str, condition: str, words: str
) -> None:
    with pytest.raises(AnalysisException) as refused:
        spark.sql(statement.format(ns=with_table)).collect()

    assert refused.value.getCondition() == condition
    assert words in str(refused.value)
    assert "Traceback" not in str(refused.value)
    assert spark.table(f"{with_table}.t").collect() == []


def test_options_that_mean_nothing_are_refused_when_a_read_is_defined(spark: SparkSession, with_table: str) -> None:
    """No query is run, and no start() is needed. Options of other sources are taken, or tell their twins."""
    table = f"{with_table}.t"
    for is_stream in (False, True):
        for option, words in (
            ("maxEventPerTrigger", 'did you mean "max'),
            ("startingTimestamp", "must be a time like"),
            ("ignoreDeletes", "is Delta Lake's, and means nothing here: "),
            ("subscribe", "is Kafka's, and means nothing here: the table is named already: leave it out"),
            ("nothingKnown", "known are: "),
        ):
            with pytest.raises(AnalysisException, match=rf"\[PRAVEGA_INVALID_CONFIGURATION\].*{words}") as refused:
                (spark.readStream if is_stream else spark.read).option(option, "x").table(table)
            assert (refused.value.getSqlState(), "\n" in str(refused.value)) == ("42616", False)
    taken = spark.readStream.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", 5).table(table)
    assert taken.select("id", "_corrupt_record").columns == ["id", "_corrupt_record"]


def test_what_a_key_forbids_is_refused_when_a_statement_is_analysed(spark: SparkSession, namespace: str) -> None:
    """No job runs, no start() is needed, and Spark's plan isn't told behind our sentence."""
    spark.sql(f"CREATE TABLE {namespace}.k (id INT, v INT) TBLPROPERTIES ('primary-key' = 'id')")
    spark.sql(f"CREATE TABLE {namespace}.two (id INT, v INT, w INT) TBLPROPERTIES ('primary-key' = 'id, v')")
    key_value = "TBLPROPERTIES ('table-type' = 'key-value', 'primary-key' = 'id')"
    spark.sql(f"CREATE TABLE {namespace}.kv (id INT, v INT) {key_value}")
    other, k = "would change the primary key of rows of .* .column", f"{namespace}.k"
    refused = {
        f"UPDATE {k} SET id = 7": other,
        f"UPDATE {k} SET v = 1, id = 1 + id WHERE v = 0": other,
        f"UPDATE {k} SET id = CAST(NULL AS INT)": other,
        f"UPDATE {namespace}.two SET v = v * 2": other,
        f"MERGE INTO {k} USING (SELECT 1 AS a) ON id = a WHEN MATCHED THEN UPDATE SET id = 7": other,
        f"MERGE INTO {k} USING (SELECT 1 AS a) ON id = a WHEN NOT MATCHED BY SOURCE THEN UPDATE SET id = id + 1": other,
    }
    if not is_missing("4.1"):
        refused |= {
            f"SELECT * FROM STREAM {k}": r"has a primary key, so its rows change.*`k\$log`",
            f"SELECT count(*) FROM STREAM {namespace}.kv": "is a key-value table.*streaming reads",
        }
    for statement, words in refused.items():
        with pytest.raises(AnalysisException, match=rf"\[PRAVEGA_UNSUPPORTED_OPERATION\].*{words}") as failed:
            spark.sql(statement)
        assert (failed.value.getSqlState(), "\n" in str(failed.value)) == ("0A000", False), statement
    for table in ("k", "kv"):
        with pytest.raises(AnalysisException, match=r"\[PRAVEGA_UNSUPPORTED_OPERATION\]"):
            spark.readStream.table(f"{namespace}.{table}")
    for table, columns in (("k$log", ["id", "v"]), ("k$changes", ["id", "v", "_change_type"])):
        assert spark.readStream.table(f"{namespace}.`{table}`").select(*columns).isStreaming


@pytest.mark.parametrize(
    ("statement", "state"),
    [
        ("ALTER TABLE {ns}.t RENAME TO {ns}.u", "0A000"),
        ("CREATE TABLE {ns}.u (id INT) TBLPROPERTIES ('format' = 'arvo')", "42616"),
        pytest.param("CREATE TABLE {ns}.u (id INT, UNIQUE (id))", "0A000", marks=pytest.mark.since_spark("4.1")),
        ("SELECT * FROM {ns}.t VERSION AS OF 1", "42704"),
        ("CREATE NAMESPACE pravega.`a/b`", "42602"),
        ("CREATE TABLE {ns}.u (id INTERVAL MONTH)", "0A000"),
    ],
)
def test_clients_learn_the_kind_of_an_error(spark: SparkSession, with_table: str, statement: str, state: str) -> None:
    with pytest.raises(AnalysisException) as refused:
        spark.sql(statement.format(ns=with_table)).collect()
    assert refused.value.getSqlState() == state
    assert (refused.value.getCondition() or "").startswith("PRAVEGA_")


def test_each_error_has_a_state_that_clients_know() -> None:
    classes, wanted = [PravegaError], {"40001": [ConflictError, WriteConflictError, TableChangedError]}
    for cls in classes:
        classes += [sub for sub in cls.__subclasses__() if sub.__module__ == PravegaError.__module__]
        assert len(cls.sqlstate) == 5
        assert cls.sqlstate.isalnum()
    wanted |= {"0A000": [UnsupportedOperationError], "28000": [AuthenticationError, TokenExpiredError]}
    wanted |= {"08001": [ControllerUnavailableError, RegistryUnavailableError, NoAnswerError]}
    assert {state: [cls for cls in known if cls.sqlstate == state] for state, known in wanted.items()} == wanted


def test_null_in_a_column_that_takes_none_is_refused_and_nothing_is_written(
    spark: SparkSession, namespace: str
) -> None:
    spark.sql(f"CREATE TABLE {namespace}.strict (id BIGINT NOT NULL)")
    with pytest.raises(Exception, match="NOT_NULL_ASSERT_VIOLATION"):
        spark.sql(f"INSERT INTO {namespace}.strict SELECT IF(id = 7, NULL, id) FROM range(10)")
    assert spark.table(f"{namespace}.strict").count() == 0


@pytest.mark.parametrize(
    ("key", "value", "condition", "words"),
    [
        ("controller-uri", "tcp://127.0.0.1:1", "PRAVEGA_CONTROLLER_UNAVAILABLE", "no Pravega controller answers"),
        ("controller-uri", "nonsense://x", "PRAVEGA_INVALID_CONFIGURATION", "tcp://localhost:9090"),
        ("controler-uri", "tcp://127.0.0.1:1", "PRAVEGA_INVALID_CONFIGURATION", 'did you mean "controller-uri"?'),
        ("schema-registry-uri", "http://127.0.0.1:1", "PRAVEGA_SCHEMA_REGISTRY_UNAVAILABLE", "127.0.0.1:1"),
    ],
)
def test_a_catalog_that_cannot_be_reached_says_so_soon(
    spark: SparkSession, sandbox: Sandbox, namespace: str, key: str, value: str, condition: str, words: str
) -> None:
    catalog = f"broken_{key}_{abs(hash(value))}".replace("-", "_")
    # Soon, and not after some time-out: the test's own comes before this one.
    conf = {
        "controller-uri": sandbox.controller_uri,
        "schema-registry-uri": sandbox.schema_registry_uri,
        "timeout": "3000",
        key: value,
    }
    spark.conf.set(f"spark.sql.catalog.{catalog}", "pyspark.pravega.PravegaCatalog")
    for name, setting in conf.items():
        spark.conf.set(f"spark.sql.catalog.{catalog}.{name}", setting)
    place = f"{catalog}.{namespace.removeprefix('pravega.')}"
    # A catalog process that refuses its configuration ends, and a CREATE TABLE asks for the catalog seven times.
    refuses = condition == "PRAVEGA_INVALID_CONFIGURATION"

    with pytest.raises(AnalysisException) as refused:
        spark.sql(f"SHOW TABLES IN {place}" if refuses else f"CREATE TABLE {place}.t (id INT)")

    assert refused.value.getCondition() == condition
    assert words in str(refused.value)
    assert spark.sql(f"SHOW TABLES IN {namespace}").collect() == []


def test_a_table_dropped_while_it_is_written_is_not_made_anew(
    spark: SparkSession, client: Client, namespace: str
) -> None:
    scope = namespace.removeprefix("pravega.").replace("_", "-")
    spark.sql(f"CREATE TABLE {namespace}.gone AS SELECT 1 AS id")
    spark.sql(f"DROP TABLE {namespace}.gone")

    assert ledger_name(Stream(scope, "gone")) not in list(client.controller.list_key_value_tables(scope))


def delete_log_segment(client: Client, table: Stream) -> None:
    """What a controller leaves that dies while it deletes a table's commit log: its name, and no segment."""
    log = KeyValueTable(client.pool, table.scope, ledger_name(table)).segments

    def delete(connection: Connection) -> wire.SegmentDeleted:
        name = log.stream.segment_name(log.ids[0])
        request = wire.DeleteTableSegment(
            request_id=connection.next_id(), segment=name, must_be_empty=False, token=log.token
        )
        return connection.call(request, wire.SegmentDeleted)

    client.pool.call(log.stream, log.ids[0], delete)


def test_a_drop_that_was_broken_off_at_the_commit_log_is_completed_by_another(
    spark: SparkSession, client: Client, namespace: str
) -> None:
    scope = namespace.split(".")[1].replace("_", "-")
    half = [f"half_{number}" for number in range(3)]
    for name in half:
        spark.sql(f"CREATE TABLE {namespace}.{name} (id INT)")
        spark.sql(f"INSERT INTO {namespace}.{name} VALUES (1)")
        delete_log_segment(client, Stream(scope, name.replace("_", "-")))
    for statement in ("SELECT * FROM {}", "INSERT INTO {} VALUES (2)", "DESCRIBE {}", "TRUNCATE TABLE {}"):
        for session in (spark, spark.newSession()):
            with pytest.raises(AnalysisException, match=r"\[PRAVEGA_TABLE_BEING_DROPPED\] the table .* run DROP TABLE"):
                session.sql(statement.format(f"{namespace}.{half[0]}")).collect()
    assert [row.tableName for row in spark.sql(f"SHOW TABLES IN {namespace}").collect()] == half
    spark.sql(f"DROP TABLE {namespace}.{half[0]}")
    spark.newSession().sql(f"DROP TABLE IF EXISTS {namespace}.{half[1]}")
    assert [row.tableName for row in spark.sql(f"SHOW TABLES IN {namespace}").collect()] == half[2:]
    spark.sql(f"CREATE TABLE {namespace}.{half[0]} (id INT)")
    spark.sql(f"INSERT INTO {namespace}.{half[0]} VALUES (3)")
    assert [row.id for row in spark.table(f"{namespace}.{half[0]}").collect()] == [3]
    spark.sql(f"DROP NAMESPACE {namespace} CASCADE")
    assert scope not in list(client.controller.list_scopes())
