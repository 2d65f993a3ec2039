"""Sessions of other programs in the JVM of the harness: one by Spark Connect, one by the Thrift server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pyhive import hive
from server_history import Worker

from pyspark_pravega.sandbox.ports import free_ports

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 5
_THRIFT_PORT = "hive.server2.thrift.port"
_CONNECT_PORT = "spark.connect.grpc.binding.port"
_CLIENT = """
import json, sys
from pyspark.sql import SparkSession

spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
for statement in sys.stdin:
    try:
        answer = {"rows": [list(row) for row in spark.sql(json.loads(statement)).collect()]}
    except Exception as error:
        answer = {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps(answer), flush=True)
"""


def servers_conf() -> dict[str, str]:
    """What a Spark session needs so that others can connect to it."""
    thrift, connect = free_ports(2)
    return {
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        _CONNECT_PORT: str(connect),
        f"spark.hadoop.{_THRIFT_PORT}": str(thrift),
        "spark.hadoop.hive.server2.thrift.bind.host": "127.0.0.1",
    }


class ConnectClient:
    """A Python process without a JVM, which is given statements."""

    def __init__(self, spark: SparkSession) -> None:
        """Connect.

        Args:
            spark: the session whose JVM listens.
        """
        address = f"sc://127.0.0.1:{spark.conf.get(_CONNECT_PORT)}"
        environment = {key: value for key, value in os.environ.items() if not key.startswith("PYSPARK_GATEWAY")}
        self._process = subprocess.Popen(
            [sys.executable, "-c", _CLIENT, address],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment,
        )  # fmt: skip

    def run(self, statement: str) -> list[Any]:
        """Run a statement; returns its rows."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(statement) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline() or '{"error": "the client has ended"}')
        if "error" in answer:
            raise RuntimeError(answer["error"])
        rows: list[Any] = answer["rows"]
        return rows

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.communicate()


class ThriftClient:
    """A PyHive connection."""

    def __init__(self, spark: SparkSession) -> None:
        """Connect.

        Args:
            spark: the session in whose JVM the server is started.
        """
        jvm: Any = spark._jvm
        spark_session: Any = spark._jsparkSession
        self._server = jvm.org.apache.spark.sql.hive.thriftserver.HiveThriftServer2.startWithSparkSession(
            spark_session, False
        )
        port = int(spark.sparkContext.getConf().get(f"spark.hadoop.{_THRIFT_PORT}", "0"))
        self._connection = hive.connect("127.0.0.1", port, username="ann")

    def run(self, statement: str) -> list[Any]:
        """Run a statement; returns its rows."""
        with self._connection.cursor() as cursor:
            cursor.execute(statement)
            return list(cursor.fetchall()) if cursor.description else []

    def close(self) -> None:
        """End connection and server."""
        self._connection.close()
        self._server.stop()


class Inserts:
    """INSERTs into a table of its own, and a look at it behind each."""

    def __init__(self, name: str, table: str, run: Callable[[str], list[Any]]) -> None:
        """Make the table.

        Args:
            name: of the worker.
            table: its name in SQL.
            run: runs a statement, and returns its rows.
        """
        self._table, self._run, self._next = table, run, 0
        self._inserted: set[int] = set()
        run(f"CREATE TABLE {table} (id BIGINT)")
        self.worker = Worker(name, self._insert)

    def _insert(self) -> None:
        first, self._next = self._next, self._next + ROWS
        self._run(f"INSERT INTO {self._table} SELECT id FROM range({first}, {self._next})")
        self._inserted.update(range(first, self._next))
        ((count,),) = self._run(f"SELECT count(*) FROM {self._table}")
        assert count == len(self._inserted), f"{count} rows, when {len(self._inserted)} were inserted"

    def judge(self) -> None:
        """Compare what is there with what was inserted."""
        ids = Counter(row[0] for row in self._run(f"SELECT id FROM {self._table}"))
        assert ids == Counter(self._inserted), f"{self.worker.name}: rows are lost, doubled, or of a failed INSERT"
