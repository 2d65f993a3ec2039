"""The lake in a bucket, in SQL: workers read and write there, and no credential shows anywhere."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from object_store import ObjectStore, object_store
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from test_secure import CLI, LOG_MUCH, run

from pyspark_pravega.sandbox import Sandbox

pytestmark = [pytest.mark.server, pytest.mark.spark]


@pytest.fixture(scope="module")
def objects() -> Iterator[ObjectStore]:
    with object_store() as store:
        yield store


@pytest.fixture
def lakes(spark: SparkSession, sandbox: Sandbox, objects: ObjectStore, tmp_path: Path) -> Iterator[str]:
    """A catalog whose lake is in a bucket."""
    name = f"objects_{uuid.uuid4().hex[:8]}"
    prefix = f"spark.sql.catalog.{name}"
    lake = objects.options(name, tmp_path / "catalog.db")
    given = {
        "": "pyspark.pravega.PravegaCatalog",
        ".controller-uri": sandbox.controller_uri,
        ".schema-registry-uri": sandbox.schema_registry_uri,
        **{f".lake.{key}": text for key, text in lake.items()},
    }
    for key, value in given.items():
        spark.conf.set(prefix + key, str(value))
    yield name
    for key in given:
        spark.conf.unset(prefix + key)


def variables(lake: dict[str, str]) -> dict[str, str]:
    """pyiceberg's own, for what may be secret, and for where that is."""
    names = {name: name.upper().replace(".", "__").replace("-", "_") for name in lake if name.startswith("s3.")}
    return {f"PYICEBERG_CATALOG__PRAVEGA__{variable}": lake[name] for name, variable in names.items()}


def assert_none_shows(objects: ObjectStore, *texts: str) -> None:
    for text in texts:
        at = text.find(objects.secret)
        assert at < 0, f"the secret shows after: {text[max(0, at - 200) : at]}"


@pytest.mark.in_turn(8)
def test_a_table_in_a_bucket_is_what_it_would_be_in_a_folder(
    spark: SparkSession, namespace: str, lakes: str, sandbox: Sandbox, objects: ObjectStore, tmp_path: Path
) -> None:
    """SELECT, AS OF, CHANGES, streaming queries with and without a limit, `t$lake`, `tier` as a command, clean_lake."""
    scope = namespace.rpartition(".")[2]
    t, plain = f"{lakes}.{scope}.t", f"{lakes}.{scope}.plain"
    lake = "TBLPROPERTIES ('lake' = 'iceberg', 'lake.keep-in-stream' = '0 ms', 'lake-row-group-size' = '8 KiB')"
    spark.sql(f"CREATE TABLE {t} (id BIGINT NOT NULL, name STRING) CLUSTERED BY (id) INTO 2 BUCKETS {lake}")
    spark.sql(f"CREATE TABLE {plain} (id BIGINT NOT NULL, name STRING)")

    def insert(first: int) -> None:
        for table in (t, plain):
            spark.sql(f"INSERT INTO {table} SELECT id, concat('n', id) FROM range({first}, {first + 1000})")

    def rows(frame: DataFrame) -> list[str]:
        return sorted(map(str, frame.select("id", "name").collect()))

    def stream(name: str, **options: str) -> list[str]:
        query = (
            spark.readStream.options(**options)
            .table(t)
            .writeStream.format("parquet")
            .option("path", str(tmp_path / f"{name}-rows"))
            .option("checkpointLocation", str(tmp_path / f"{name}-checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return rows(spark.read.parquet(str(tmp_path / f"{name}-rows")))

    insert(0)
    assert stream("early") == rows(spark.table(plain))
    insert(1000)
    done = spark.sql(f"CALL {lakes}.system.tier(table => '{scope}.t')").first()
    assert done is not None
    assert (done.version, done["rows"]) == (2, 2000)
    insert(2000)
    options = objects.options(lakes, tmp_path / "catalog.db")
    command = [*CLI, "tier", f"{scope.replace('_', '-')}/t", "--json"]
    command += [f"--lake={name}={options[name]}" for name in ("warehouse", "uri")]
    environment = {**os.environ, **sandbox.environment(), **variables(options)}
    said = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stderr
    assert json.loads(said.stdout)["rows"] == 1000
    insert(3000)
    expected = rows(spark.table(plain))
    assert rows(spark.table(t)) == expected
    assert stream("early") == stream("late", maxEventsPerTrigger="700") == expected
    assert rows(spark.sql(f"SELECT * FROM {lakes}.{scope}.`t$changes`")) == expected
    assert spark.sql(f"SELECT count(*), sum(id) FROM {t} VERSION AS OF 2").collect()[0][:] == (2000, 1999000)
    assert spark.sql(f"SELECT id FROM {t} WHERE id = 1500").collect()[0].id == 1500
    (shown,) = spark.sql(f"SELECT * FROM {lakes}.{scope}.`t$lake`").collect()
    assert (shown["rows"], shown.files, shown.metadata.startswith("s3://")) == (3000, 2, True)
    stray = f"{shown.metadata.removeprefix('s3://').rpartition('/metadata/')[0]}/data/stray.parquet"
    with objects.file_system().open_output_stream(stray) as file:
        file.write(b"left")
    (cleaned,) = spark.sql(f"CALL {lakes}.system.clean_lake(table => '{scope}.t', older_than => '0 ms')").collect()
    assert cleaned[:] == (1, 4)
    assert rows(spark.table(t)) == expected
    texts = [said.stdout, said.stderr, str(shown)]
    for statement in (
        f"EXPLAIN EXTENDED SELECT * FROM {t} WHERE id > 5",
        f"EXPLAIN FORMATTED SELECT * FROM {t}",
        f"EXPLAIN CODEGEN SELECT * FROM {t}",
        f"DESCRIBE EXTENDED {t}",
        f"SHOW TBLPROPERTIES {t}",
        f"SHOW CREATE TABLE {t}",
        f"SELECT * FROM {lakes}.{scope}.`t$commits`",
        "SET -v",
        "SET",
    ):
        texts += map(str, spark.sql(statement).collect())
    with pytest.raises(PySparkException) as refused:
        spark.sql(f"CALL {lakes}.system.clean_lake(table => '{scope}.plain')").collect()
    texts.append(str(refused.value))
    assert_none_shows(objects, *texts)


@pytest.mark.in_turn(8)
def test_no_credential_shows_in_logs_events_and_processes(
    sandbox: Sandbox, namespace: str, objects: ObjectStore, tmp_path: Path
) -> None:
    """As a program has it: where the lake is by Spark's configuration, credentials by pyiceberg's variables."""
    scope = namespace.rpartition(".")[2]
    events, spark_log, logging = tmp_path / "events", tmp_path / "log", tmp_path / "log4j2.properties"
    events.mkdir()
    logging.write_text(LOG_MUCH)
    lake = objects.options(scope, tmp_path / "catalog.db")
    t = f"pravega.{scope}.secret"
    statements = f"""
        CREATE TABLE {t} TBLPROPERTIES ('lake' = 'iceberg') AS SELECT id FROM range(100);
        CALL pravega.system.tier(table => '{scope}.secret');
        SELECT 'rows', count(*), sum(id) FROM {t} WHERE id >= 0;
        EXPLAIN EXTENDED SELECT id FROM {t};
        DESCRIBE EXTENDED {t};
        SET -v;
        SELECT 'of nobody', count(*) FROM wrong.{scope}.secret WHERE id >= 0;"""
    conf = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": f"file://{events}",
        **{f"spark.sql.catalog.pravega.lake.{name}": lake[name] for name in ("warehouse", "uri")},
        "spark.sql.catalog.wrong": "pyspark.pravega.PravegaCatalog",
        "spark.sql.catalog.wrong.controller-uri": sandbox.controller_uri,
        "spark.sql.catalog.wrong.schema-registry-uri": sandbox.schema_registry_uri,
        "spark.sql.catalog.wrong.lake.s3.access-key-id": "AKIASOMEBODY",
    }
    flags = [flag for key, value in conf.items() for flag in ("--conf", f"{key}={value}")]
    flags += ["--driver-java-options", f"-Dlog4j2.configurationFile={logging}"]
    command = [*CLI, "sql", "--verbose", "-e", statements, "--", *flags]
    environment = {**sandbox.environment(), **variables(lake), "LOG_FILE": str(spark_log)}

    done, commands = run(command, environment, tmp_path)

    assert "rows\t100\t4950\n" in done.stdout, done.stderr
    assert done.returncode != 0
    assert "[PRAVEGA_UNAUTHENTICATED] the lake s3://lakes" in done.stderr
    assert "set lake.s3.access-key-id" in done.stderr
    (log,) = events.glob("*/events_*")
    assert f"{sys.executable}" in commands
    assert_none_shows(objects, done.stdout, done.stderr, spark_log.read_text(), log.read_text(), commands)
