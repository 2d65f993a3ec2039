"""Statements that replace or change rows, and all the ways in which they may have read them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial
from itertools import product
from pathlib import Path

import pyarrow as pa
import pytest
from pauses import Pause
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import expr, lit

import pyspark_pravega
from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.connector.options import WriteOptions
from pyspark_pravega.connector.write import WriteJob, WritePlan
from pyspark_pravega.sandbox import Sandbox
from pyspark_pravega.settings import Settings

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.usefixtures("interpreted"), pytest.mark.in_turn(8)]

Way = Callable[[SparkSession, str], DataFrame]
Statement = Callable[[DataFrame, str], object]


def _filled(rows: DataFrame) -> DataFrame:
    """Its rows are read here and now, and kept."""
    rows.count()
    return rows


def _sums(rows: DataFrame) -> DataFrame:
    return rows.groupBy("id").sum("v").toDF("id", "v")


def _counted(session: SparkSession, table: str) -> DataFrame:
    """The commit log tells it: nothing is read."""
    count = _filled(session.sql(f"SELECT count(*) AS v FROM {table}").cache())
    return session.range(1, 3).join(count)


def _by_rdd(rows: DataFrame) -> DataFrame:
    return rows.sparkSession.createDataFrame(rows.rdd.map(tuple), rows.schema)


KEPT: dict[str, Way] = {
    "cached": lambda session, t: _filled(session.table(t).where("id >= 0").cache()),
    "behind a shuffle": lambda session, t: _filled(_sums(session.table(t)).cache()),
    "on disk": lambda session, t: _filled(_sums(session.table(t)).persist(StorageLevel.DISK_ONLY)),
    "from what is cached": lambda session, t: _filled(_sums(_filled(_sums(session.table(t)).cache())).cache()),
    "a subquery": lambda session, t: _filled(
        session.sql(f"SELECT id, (SELECT max(v) FROM {t}) AS v FROM range(1, 3)").cache()
    ),
    "a join with itself": lambda session, t: _filled(
        session.sql(f"SELECT a.id, b.v FROM {t} a JOIN {t} b ON a.id = b.id").cache()
    ),
    "a count": _counted,
}
"""Ways to read rows and keep them, until others have written."""

RUNNING: dict[str, Way] = {
    "a table": lambda session, t: session.table(t),
    "a cte": lambda session, t: session.sql(f"WITH r AS (SELECT * FROM {t}) SELECT a.* FROM r a JOIN r b USING (id)"),
    "an rdd": lambda session, t: _by_rdd(session.table(t)),
    "an rdd behind a shuffle": lambda session, t: _by_rdd(_sums(session.table(t))),
    "a checkpoint to be": lambda session, t: session.table(t).localCheckpoint(eager=False),
    "a cache to be": lambda session, t: _sums(session.table(t)).cache(),
}
"""Ways to read rows while the statement runs."""


def _by_view(statement: str) -> Statement:
    def run(rows: DataFrame, table: str) -> None:
        rows.createOrReplaceTempView("read_rows")
        rows.sparkSession.sql(statement.format(table=table))

    return run


def _merge(rows: DataFrame, table: str) -> None:
    target = table.split(".")[-1]
    merge = rows.alias("s").mergeInto(table, expr(f"{target}.id = s.id"))
    merge.whenMatched().update({"v": expr("s.v + 1")}).whenNotMatched().insertAll().merge()


OVERWRITE, REPLACE, MERGE, UPDATE = "overwrite", "replace", "merge", "update"
DONE: dict[str, Statement] = {
    OVERWRITE: lambda rows, t: rows.select("id", "v").writeTo(t).overwrite(lit(True)),
    REPLACE: lambda rows, t: rows.select("id", "v").writeTo(t).createOrReplace(),
    MERGE: _merge,
    UPDATE: _by_view("UPDATE {table} SET v = v + 1 WHERE id IN (SELECT id FROM read_rows)"),
    "insert overwrite": _by_view("INSERT OVERWRITE {table} SELECT id, v FROM read_rows"),
}


class Shared:
    """A table that two programs write to: this session, and one that refreshes nothing of this one's."""

    def __init__(self, spark: SparkSession, catalog: Catalog, sandbox: Sandbox, namespace: str, *, keyed: bool) -> None:
        self.session, self._catalog, self.table = spark.newSession(), catalog, f"{namespace}.t"
        key = "TBLPROPERTIES ('primary-key' = 'id')" if keyed else ""
        self.session.sql(f"CREATE TABLE {self.table} (id BIGINT NOT NULL, v BIGINT) {key}")
        self.session.sql(f"INSERT INTO {self.table} VALUES (1, 3), (2, 5)")
        self.rows = {1: 3, 2: 5}
        # The same cluster, whose controller has another address.
        for key, value in {
            "": "pyspark.pravega.PravegaCatalog",
            ".controller-uri": sandbox.controller_uri.replace("127.0.0.1", "localhost"),
            ".schema-registry-uri": sandbox.schema_registry_uri,
        }.items():
            self.session.conf.set(f"spark.sql.catalog.respelled{key}", value)
        assert self.session.conf.get("spark.sql.catalog.respelled.controller-uri") != sandbox.controller_uri
        self.respelled = self.table.replace("pravega.", "respelled.")

    def write(self) -> None:
        """A row of the other program's."""
        _, namespace, name = self.table.split(".")
        definition = self._catalog.load_table([namespace], name, age_s=0)
        job = WriteJob(WritePlan.of(definition, WriteOptions(transaction_timeout_ms=60_000)))
        number = 100 + len(self.rows)
        row = pa.record_batch([pa.array([number], pa.int64())] * 2, names=["id", "v"])
        job.commit_job([job.write_partition(0, iter([row]))])
        self.rows[number] = number

    def check(self) -> None:
        """All rows are there, and nothing else."""
        self.session.catalog.refreshTable(self.table)
        assert {row.id: row.v for row in self.session.table(self.table).collect()} == self.rows


@pytest.fixture(params=[False, True], ids=["plain", "keyed"])
def shared(
    request: pytest.FixtureRequest, spark: SparkSession, catalog: Catalog, sandbox: Sandbox, namespace: str
) -> Iterator[Shared]:
    made = Shared(spark, catalog, sandbox, namespace, keyed=request.param)
    yield made
    made.session.catalog.clearCache()


def test_rows_that_were_kept_are_held_against_what_came_since(request: pytest.FixtureRequest, shared: Shared) -> None:
    keyed = request.node.callspec.params["shared"]
    ways = [(MERGE if keyed else OVERWRITE, KEPT[way], shared.table) for way in KEPT]
    ways += [(MERGE if keyed else REPLACE, KEPT["behind a shuffle"], shared.respelled)]
    for statement, way, read in ways:
        rows = way(shared.session, read)
        shared.write()
        with pytest.raises(Exception, match="PRAVEGA_WRITE_CONFLICT"):
            DONE[statement](rows, shared.table)
        shared.check()
    # Read again, they are what is there.
    shared.session.catalog.clearCache()
    DONE[ways[0][0]](shared.session.table(shared.table), shared.table)


def test_rows_that_are_read_meanwhile_are_held_against_what_comes(
    request: pytest.FixtureRequest, shared: Shared, tmp_path: Path
) -> None:
    keyed = request.node.callspec.params["shared"]
    ways = [("insert overwrite", "a table", shared.table), (REPLACE, "a table", shared.respelled)]
    ways += [(OVERWRITE, way, shared.table) for way in RUNNING]
    if keyed:
        ways = [
            (MERGE, "a table", shared.respelled),
            (UPDATE, "a table", shared.respelled),
            (MERGE, "an rdd", shared.table),
        ]
    with ThreadPoolExecutor(1) as pool:
        for number, (statement, way, read) in enumerate(ways):
            (folder := tmp_path / str(number)).mkdir()
            pause = Pause(folder)
            pause.register(shared.session)
            rows = RUNNING[way](shared.session, read).selectExpr("held(id) AS id", "v")
            with pytest.raises(Exception, match="PRAVEGA_WRITE_CONFLICT"):
                pause.around(pool, partial(DONE[statement], rows, shared.table), shared.write)
            shared.check()


def test_rows_that_are_read_without_the_catalog_are_refused(
    request: pytest.FixtureRequest, settings: Settings, namespace: str, shared: Shared
) -> None:
    """Such a read doesn't tell what it has seen. Of another stream it may be."""
    keyed, session = request.node.callspec.params["shared"], shared.session
    scope = namespace.removeprefix("pravega.").replace("_", "-")
    session.sql(f"CREATE TABLE {namespace}.others AS SELECT 7L AS id, 7L AS v")

    def rows(stream: str, **more: str) -> DataFrame:
        given = settings.to_options()
        options = {key: given[key] for key in ("controller-uri", "schema-registry-uri")} | {"stream": stream, **more}
        return session.read.format("pravega").options(**options).load()

    for statement in (MERGE, UPDATE) if keyed else (OVERWRITE, REPLACE):
        for own in (rows(f"{scope}/t"), rows("t", scope=scope), _filled(_sums(rows(f"{scope}/t")).cache())):
            with pytest.raises(Exception, match=r"PRAVEGA_UNSUPPORTED_OPERATION.*spark\.table"):
                DONE[statement](own, shared.table)
        shared.check()
    DONE[MERGE if keyed else OVERWRITE](rows(f"{scope}/others"), shared.table)


def test_other_tables_that_a_statement_reads_may_change_meanwhile_unless_it_is_in_a_transaction(
    request: pytest.FixtureRequest, namespace: str, shared: Shared, tmp_path: Path
) -> None:
    """It reads them at one moment; in a transaction they must still be so at its end."""
    keyed, session, other = request.node.callspec.params["shared"], shared.session, f"{namespace}.source"
    session.sql(f"CREATE TABLE {other} AS SELECT 7L AS id, 7L AS v")
    statements = [MERGE, UPDATE] if keyed else [OVERWRITE, "insert overwrite"]
    with ThreadPoolExecutor(1) as pool:
        for number, (statement, transacts) in enumerate(product(statements, [False, True])):
            (folder := tmp_path / str(number)).mkdir()
            pause = Pause(folder)
            pause.register(session)

            def run(statement: str = statement, *, transacts: bool = transacts) -> None:
                with pyspark_pravega.transaction(session, "pravega") if transacts else nullcontext():
                    DONE[statement](session.table(other).selectExpr("held(id) AS id", "v"), shared.table)

            def meanwhile(number: int = number) -> None:
                session.newSession().sql(f"INSERT INTO {other} VALUES ({number + 10}, 7)")

            before = session.table(other).collect()
            if transacts:
                with pytest.raises(Exception, match="PRAVEGA_WRITE_CONFLICT"):
                    pause.around(pool, run, meanwhile)
            else:
                pause.around(pool, run, meanwhile)
                there = shared.rows
                match statement:
                    case "merge":
                        shared.rows = there | {row.id: row.v + (row.id in there) for row in before}
                    case "update":
                        shared.rows = there | {row.id: there[row.id] + 1 for row in before if row.id in there}
                    case _:
                        shared.rows = {row.id: row.v for row in before}
            shared.check()
