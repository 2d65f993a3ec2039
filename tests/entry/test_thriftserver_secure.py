"""`pravega-spark thriftserver` with authentication and TLS."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from entry_tools import ask, descendants, thrift_server, wait_until_gone

from pyspark_pravega.sandbox import Sandbox

pytestmark = [pytest.mark.server, pytest.mark.spark]


@pytest.mark.in_turn(8)
def test_credentials_are_not_to_be_seen_and_ctrl_c_stops_all(secure_sandbox: Sandbox, tmp_path: Path) -> None:
    """Beside it: a user may have tables of Hive's in Spark's own catalog."""
    password = secure_sandbox.password_of("admin")
    # Other tests have servers in the folder that all share.
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    environment = {**secure_sandbox.environment(), "PRAVEGA_SCOPE": "secure_thrift", "TMPDIR": str(temporary)}
    settings_of_server = {
        "spark.sql.shuffle.partitions": "5",
        "spark.sql.catalogImplementation": "hive",
        "spark.hadoop.javax.jdo.option.ConnectionURL": "jdbc:derby:memory:metastore;create=true",
        "spark.sql.warehouse.dir": str(tmp_path / "warehouse"),
    }
    flags = [word for key, value in settings_of_server.items() for word in ("--conf", f"{key}={value}")]
    with thrift_server(environment, tmp_path, "--", *flags) as running:
        assert running.url.endswith("/secure_thrift")
        with running.connect("ann") as connection, connection.cursor() as cursor:
            for statement in (
                "CREATE NAMESPACE secure_thrift",
                "CREATE TABLE secure_thrift.t AS SELECT 1 AS id",
                "INSERT INTO secure_thrift.t VALUES (2)",
            ):
                cursor.execute(statement)
            assert ask(cursor, "SELECT sum(id) FROM secure_thrift.t") == ["3"]
            cursor.execute("CREATE TABLE spark_catalog.default.h STORED AS PARQUET AS SELECT 4 AS id")
            assert ask(cursor, "SELECT sum(h.id) FROM spark_catalog.default.h h JOIN secure_thrift.t ON true") == ["8"]
            settings = ask(cursor, "SET -v") + ask(cursor, "SET") + ask(cursor, "DESCRIBE EXTENDED secure_thrift.t")
            assert "spark.sql.shuffle.partitions\t5" in settings
            cursor.execute("DROP NAMESPACE secure_thrift CASCADE")
        processes = descendants(running.process.pid)
        assert any("thrift.ThriftServer" in command for command in processes.values())
        for text in (*processes.values(), *settings, running.url, running.log.read_text()):
            assert password not in text
        assert running.stop(signal.SIGINT) == 0
    wait_until_gone(processes)
    assert list((tmp_path / "home").iterdir()) == []
    assert list(temporary.glob("pravega-server-*")) == []
