"""What one Spark has written, the next one reads and goes on with: tables, versions, and checkpoints of queries.

Runs with the Sparks whose environments are there: `make jars`, or `make test SPARK=4.1`, makes them.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from entry_tools import clean_environment

from pyspark_pravega.sandbox import Sandbox
from pyspark_pravega.spark import versions

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.in_turn(8)]

ROWS = 100
PROGRAM = """
import json, sys, pyspark
from pyspark.sql import SparkSession
from pyspark_pravega import configure

turn, folder, rows = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
spark = configure(SparkSession.builder.master("local[2]").config("spark.sql.shuffle.partitions", "2")).getOrCreate()
t = "pravega.in_turn"
spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {t}")
spark.sql(f"CREATE TABLE IF NOT EXISTS {t}.source (n BIGINT, d DECIMAL(10, 2), s STRUCT<a: ARRAY<INT>>, at TIMESTAMP)")
spark.sql(f"CREATE TABLE IF NOT EXISTS {t}.target (n BIGINT)")
spark.sql(f"CREATE TABLE IF NOT EXISTS {t}.told (id BIGINT, kind STRING)")
spark.sql(
    f"CREATE TABLE IF NOT EXISTS {t}.keyed (id BIGINT, turns INT, spark STRING) TBLPROPERTIES ('primary-key' = 'id')"
)
spark.sql(
    f"INSERT INTO {t}.source SELECT id, 1.25, named_struct('a', array(1, 2)), timestamp_seconds(id) "
    f"FROM range({turn * rows}, {(turn + 1) * rows})"
)
spark.sql(
    f"MERGE INTO {t}.keyed k USING (SELECT id FROM range({rows})) s ON k.id = s.id "
    f"WHEN MATCHED THEN UPDATE SET turns = turns + 1, spark = '{pyspark.__version__}' "
    f"WHEN NOT MATCHED THEN INSERT (id, turns, spark) VALUES (s.id, 1, '{pyspark.__version__}')"
)
def follow(name, frame):
    write = frame.writeStream.option("checkpointLocation", f"{folder}/{name}").trigger(availableNow=True)
    write.toTable(f"{t}.{name}").awaitTermination()

follow("target", spark.readStream.option("maxEventsPerTrigger", 60).table(f"{t}.source").select("n"))
changed = spark.readStream.option("startingVersion", 1).table(f"{t}.`keyed$changes`")
follow("told", changed.selectExpr("id", "_change_type AS kind"))
def one(query):
    return list(spark.sql(query).first())

print("SEEN", json.dumps({
    "spark": pyspark.__version__,
    "source": one(f"SELECT count(*), count(DISTINCT n), sum(d) = 1.25 * count(*), sum(s.a[1]) FROM {t}.source"),
    "first": one(f"SELECT count(*), max(n) FROM {t}.source VERSION AS OF 1"),
    "target": one(f"SELECT count(*), count(DISTINCT n) FROM {t}.target"),
    "keyed": one(f"SELECT count(*), min(turns), max(turns), count_if(spark = '{pyspark.__version__}') FROM {t}.keyed"),
    "told": one(f"SELECT count(*), count_if(kind = 'update_preimage') FROM {t}.told"),
}))
spark.stop()
"""


def _pythons() -> list[Path]:
    """The Python of each Spark that is here: this one's first, and last, as what newer ones wrote older ones read."""
    here = Path(sys.executable)
    base = here.parents[2] if here.parents[1].name.startswith("spark-") else here.parents[1]
    others = [base / f"spark-{version}" / "bin" / "python" for version in versions.SUPPORTED]
    found = [python for python in [base / "bin" / "python", *others] if (python.parents[1] / ".ready").exists()]
    return [*found, found[0]]


def test_each_goes_on_with_what_others_have_written(sandbox: Sandbox, tmp_path: Path) -> None:
    pythons = _pythons()
    if len(pythons) == 2:
        pytest.skip("no other Spark is here: make test SPARK=4.1, or make jars, brings one")
    environment = clean_environment(sandbox.environment())
    # Another test of this process may have said that workers are this Spark's.
    environment.pop("PYSPARK_PYTHON", None)
    ran = []
    for turn, python in enumerate(pythons):
        done = subprocess.run(
            [str(python), "-c", PROGRAM, str(turn), str(tmp_path), str(ROWS)],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        said = [line for line in done.stdout.splitlines() if line.startswith("SEEN ")]
        assert said, done.stdout[-2000:] + done.stderr[-6000:]
        seen: dict[str, Any] = json.loads(said[0].removeprefix("SEEN "))
        ran.append(seen.pop("spark"))
        all_rows = ROWS * (turn + 1)
        assert seen == {
            "source": [all_rows, all_rows, True, 2 * all_rows],
            "first": [ROWS, ROWS - 1],
            "target": [all_rows, all_rows],
            "keyed": [ROWS, turn + 1, turn + 1, ROWS],
            "told": [ROWS * (2 * turn + 1), ROWS * turn],
        }, ran
    assert len(set(ran)) == len(pythons) - 1
