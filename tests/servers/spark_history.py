"""What a Spark session does while servers fail, and whether all is there afterwards: rows once, keys as in a dict.

One session has statements of each kind, a micro-batch query that is a subscriber, and a real-time one. Others come by
Spark Connect and by the Thrift server. Nobody starts any of them again.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException
from server_cluster import ServerCluster
from server_history import UNCERTAIN, Judged, Worker
from session_actors import ConnectClient, Inserts, ThriftClient, servers_conf

import pyspark_pravega

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

ROWS = 5
"""Of each INSERT."""
KEYS = 6
SLOTS = 10
"""More than there is work: a task that waits for a server holds one."""
CATCH_UP_S = 180.0
"""How long the queries may take behind the last INSERT."""
_CONF = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "localhost",
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "1",
    "spark.default.parallelism": "1",
    "spark.sql.streaming.realTimeMode.allowlistCheck": "false",
    "spark.sql.streaming.realTimeMode.asyncProgressTrackingByDefault.enabled": "false",
}


def session_on(cluster: ServerCluster) -> SparkSession:
    """A session as a user would configure it; a task that fails isn't tried again.

    Args:
        cluster: the servers.
    """
    from pyspark.sql import SparkSession

    settings = cluster.settings
    builder = pyspark_pravega.configure(
        SparkSession.builder.master(f"local[{SLOTS}]").appName("failing servers"),
        controller=settings.controller_uri,
        schema_registry=settings.schema_registry_uri,
        username=settings.username,
        password=settings.password,
        tls_ca=settings.tls_ca,
    )
    for key, value in {**_CONF, **servers_conf()}.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


class SparkHistory(Judged):
    """INSERTs, changes of keys, a key-value table, catalog statements, SELECTs and two queries, each in a thread."""

    def __init__(self, spark: SparkSession, name: str, folder: Path, chance: random.Random) -> None:
        """Make what is written to.

        Args:
            spark: the session.
            name: a namespace of the history's own.
            folder: where checkpoints go.
            chance: which keys are changed, and how.
        """
        super().__init__()
        self._spark, self._folder, self._chance = spark, folder, chance
        self._namespace = f"pravega.`{name}`"
        self._inserted: set[int] = set()
        self._next, self._made = 0, 0
        self._rows: dict[int, int] = {}
        self._values: dict[int, int] = {}
        self._told: list[str] = []
        """What has become of each change of the key-value table."""
        for statement in (
            "CREATE NAMESPACE {}",
            "CREATE TABLE {}.numbers (id BIGINT, number BIGINT) CLUSTERED BY (id) INTO 2 BUCKETS",
            "CREATE TABLE {0}.copies LIKE {0}.numbers",
            "CREATE TABLE {0}.seen LIKE {0}.numbers",
            "CREATE TABLE {}.rows (id BIGINT NOT NULL, value BIGINT, PRIMARY KEY (id) NOT ENFORCED)",
            "CREATE TABLE {}.entries (id BIGINT, value BIGINT, PRIMARY KEY (id) NOT ENFORCED) "
            "TBLPROPERTIES ('table-type' = 'key-value')",
        ):
            spark.sql(statement.format(self._namespace))
        self._clients: list[ConnectClient | ThriftClient] = [ConnectClient(spark), ThriftClient(spark)]
        self._others = [
            Inserts(f"by {way}", f"{self._namespace}.by_{way.lower()}", client.run)
            for way, client in zip(("Connect", "Thrift"), self._clients, strict=True)
        ]
        self._queries = [self._start("copies", exactly_once=True), self._start("seen", exactly_once=False)]
        self.workers = [
            Worker("INSERT", self._insert),
            Worker("keys", self._change_rows),
            Worker("key-value table", self._change_entries),
            Worker("catalog", self._use_catalog),
            Worker("SELECT", self._select),
            Worker("query", self._progress_of(self._queries[0])),
            Worker("real-time query", self._progress_of(self._queries[1])),
            *(one.worker for one in self._others),
        ]
        # The first ones take long.
        for worker in self.workers:
            while worker.step() is False:
                pass

    def _let_go(self) -> None:
        for query in self._queries:
            query.stop()
        for client in self._clients:
            client.close()

    # What they do

    def _insert(self) -> None:
        first, self._next = self._next, self._next + ROWS
        self._sql(f"INSERT INTO {{}}.numbers SELECT id, {first} FROM range({first}, {self._next})")
        self._inserted.update(range(first, self._next))

    def _change_rows(self) -> None:
        rows, key, value = dict(self._rows), self._chance.randrange(KEYS), self._chance.randrange(1000)
        match self._chance.choice(["MERGE", "UPDATE", "DELETE", "INSERT"]):
            case "MERGE":
                statement = (
                    f"MERGE INTO {{}}.rows t USING (SELECT id, {value}L AS value FROM range({key}, {key + 2})) s "
                    "ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
                )
                rows |= {key: value, key + 1: value}
            case "UPDATE":
                statement = f"UPDATE {{}}.rows SET value = value + 1 WHERE id >= {key}"
                rows = {one: old + (one >= key) for one, old in rows.items()}
            case "DELETE":
                statement = f"DELETE FROM {{}}.rows WHERE id = {key}"
                rows.pop(key, None)
            case _:
                statement = f"INSERT INTO {{}}.rows VALUES ({key}, {value})"
                rows[key] = value
        self._sql(statement)
        self._rows = rows

    def _change_entries(self) -> None:
        key, value, values = self._chance.randrange(KEYS), self._chance.randrange(1000), self._values
        before, after = values.get(key), values.get(key, 0) + value
        change = f"UPDATE {{}}.entries SET value = value + {value} WHERE id = {key}"
        try:
            self._sql(change if key in values else f"INSERT INTO {{}}.entries VALUES ({key}, {value})")
            values[key] = after
            self._told.append(f"{datetime.now():%H:%M:%S} key {key}: {before} is {after}")
        except PySparkException as error:
            self._told.append(f"{datetime.now():%H:%M:%S} key {key}: {before} isn't {after}: {error}")
            if UNCERTAIN not in str(error):
                raise
            found = [row.value for row in self._sql(f"SELECT value FROM {{}}.entries WHERE id = {key}")]
            self._told.append(f"{datetime.now():%H:%M:%S} key {key}: there is {found}")
            assert found in ([after], [] if before is None else [before])
            values |= dict.fromkeys([key], found[0]) if found else {}

    def _use_catalog(self) -> None:
        self._made += 1
        table = f"made_{self._made}"
        self._sql(f"CREATE TABLE {{}}.{table} (id BIGINT)")
        assert table in {row.tableName for row in self._sql("SHOW TABLES IN {}")}
        self._sql(f"ALTER TABLE {{}}.{table} ADD COLUMN more STRING")
        assert [row.col_name for row in self._sql(f"DESCRIBE {{}}.{table}")][:2] == ["id", "more"]
        self._sql(f"DROP TABLE {{}}.{table}")
        assert table not in {row.tableName for row in self._sql("SHOW TABLES IN {}")}

    def _select(self) -> None:
        before = len(self._inserted)
        (row,) = self._sql("SELECT count(*) AS n, count(DISTINCT id) AS ids FROM {}.numbers")
        assert row.n == row.ids >= before, f"{row.n} rows with {row.ids} ids, when {before} were there"

    def _progress_of(self, query: StreamingQuery) -> Callable[[], bool | None]:
        last: list[int] = [-1]

        def look() -> bool | None:
            if not query.isActive:
                self._ends.wait(60)
                raise AssertionError(f"the query has ended: {query.exception()}")
            progress: Any = query.lastProgress
            if progress is None or progress["batchId"] == last[0]:
                time.sleep(0.2)
                return False
            last[0] = progress["batchId"]
            return None

        return look

    def _sql(self, statement: str) -> list[Any]:
        return self._spark.sql(statement.format(self._namespace)).collect()

    def _start(self, sink: str, *, exactly_once: bool) -> StreamingQuery:
        reader = self._spark.readStream.option("maxPartitions", "1")
        reader = reader.option("subscriber", sink) if exactly_once else reader
        rows = reader.table(f"{self._namespace}.numbers")
        writer: Any = rows.writeStream
        writer = writer.outputMode("append" if exactly_once else "update").queryName(f"{self._folder.name} {sink}")
        writer = writer.option("checkpointLocation", str(self._folder / sink))
        if exactly_once:
            writer = writer.trigger(processingTime="1 second")
        else:
            writer = writer.option("writer-mode", "at-least-once").trigger(realTime="5 seconds")
        query: StreamingQuery = writer.toTable(f"{self._namespace}.{sink}")
        return query

    # What must be there

    def _judge(self) -> None:
        assert Counter(self._ids("numbers")) == Counter(self._inserted), "rows are lost, doubled, or of a failed INSERT"
        rows = {row.id: row.value for row in self._sql("SELECT * FROM {}.rows")}
        assert rows == self._rows, "the table with a key isn't what its statements have made"
        entries = {row.id: row.value for row in self._sql("SELECT * FROM {}.entries")}
        others = "\n".join(self._told[-30:])
        assert entries == self._values, f"the key-value table isn't what its statements have made:\n{others}"
        for other in self._others:
            other.judge()
        limit = time.monotonic() + CATCH_UP_S
        while not (set(self._ids("copies")) >= self._inserted <= set(self._ids("seen"))):
            ended = [query.exception() for query in self._queries if not query.isActive]
            assert not ended, f"a query has ended: {ended}"
            assert time.monotonic() < limit, "a query doesn't catch up"
            time.sleep(1)
        assert Counter(self._ids("copies")) == Counter(self._inserted), "the query has doubled rows, or made some up"
        assert set(self._ids("seen")) == self._inserted, "the real-time query has made rows up"

    def _ids(self, table: str) -> list[int]:
        return [row.id for row in self._sql(f"SELECT id FROM {{}}.{table}")]
