"""`pravega-spark sql` and `pravega-spark config`, as a user types them."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from sandbox_tools import WITHOUT_PRIVILEGES

from pyspark_pravega.sandbox import Sandbox

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.in_turn]

CLI = [sys.executable, "-m", "pyspark_pravega.cli"]


def run(
    *arguments: str, environment: dict[str, str], folder: Path, before: Sequence[str] = ()
) -> subprocess.CompletedProcess[str]:
    clean = {key: value for key, value in os.environ.items() if not key.startswith("PRAVEGA_")}
    return subprocess.run(
        [*before, *CLI, *arguments],
        env={**clean, **environment},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.in_turn(8)
def test_statements_of_a_user_who_may_write_nowhere_with_a_default_scope_by_rows_instead_of_columns(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    """From a file. The home folder and the current one are read-only. Where Spark's internals aren't as expected, its
    own row path takes the columnar one's place."""
    statements = """
        CREATE NAMESPACE IF NOT EXISTS pravega.my_scope;
        USE pravega;
        SELECT current_schema();
        CREATE TABLE t CLUSTERED BY (id) INTO 4 BUCKETS AS
          SELECT id, CAST(id AS DECIMAL(10,2)) / 4 AS d, IF(id % 3 = 0, NULL, concat('s', id)) AS s,
                 array(id, id + 1) AS a, named_struct('x', id) AS st FROM range(0, 1000, 1, 2);
        SELECT count(*), sum(d), count(s), max(a[1]), min(st.x), min(_offset) FROM t;
        SELECT * FROM t WHERE id IN (7, 9) ORDER BY id;
        EXPLAIN SELECT id FROM t;
        DROP NAMESPACE my_scope CASCADE"""
    switch = ["--verbose", "--", "--conf", "spark.driver.extraJavaOptions=-Dpyspark.pravega.columnar=false"]
    file = tmp_path / "statements.sql"
    file.write_text(statements)
    arguments = ["sql", "--scope", "my_scope", "-f", str(file), *switch]

    tmp_path.chmod(0o555)
    environment = {**sandbox.environment(), "HOME": str(tmp_path)}
    done = run(*arguments, environment=environment, folder=tmp_path, before=WITHOUT_PRIVILEGES)

    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if line]
    assert lines[0] == "my_scope"
    assert lines[1] == "1000\t124875.000000\t666\t1000\t0\t0"
    assert lines[2] == '7\t1.750000\ts7\t[7,8]\t{"x":7}'
    assert lines[3] == '9\t2.250000\tNULL\t[9,10]\t{"x":9}'
    assert "ColumnarToRow" not in done.stdout
    assert list(tmp_path.iterdir()) == [file], "the prompt leaves files behind"


def test_a_malformed_address_is_refused_before_spark_starts(tmp_path: Path) -> None:
    done = run("sql", "--controller", "http://x", "-e", "SELECT 1", environment={}, folder=tmp_path)

    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("pravega-spark: [PRAVEGA_INVALID_CONFIGURATION] controller-uri")


def test_the_printed_configuration_names_catalog_servers_and_shared_memory(sandbox: Sandbox, tmp_path: Path) -> None:
    """`test_sql.py` runs a program with it."""
    environment = {**sandbox.environment(), "PRAVEGA_SHARED_MEMORY": "2m"}
    arguments = ["--catalog", "streams", "--credentials-file", str(tmp_path / "credentials")]
    printed = run("config", *arguments, environment=environment, folder=tmp_path)
    assert printed.returncode == 0
    flags = shlex.split(printed.stdout)
    assert flags[::2] == ["--jars", *["--conf"] * (len(flags) // 2 - 1)]
    assert Path(flags[1]).is_file()
    conf = dict(flag.split("=", 1) for flag in flags[3::2])
    assert conf["spark.sql.catalog.streams"] == "pyspark.pravega.PravegaCatalog"
    assert conf["spark.sql.catalog.streams.controller-uri"] == sandbox.controller_uri
    assert conf["spark.sql.catalog.streams.credentials-file"] == str(tmp_path / "credentials")
    assert conf["spark.pravega.shared-memory"] == "2097152"
    assert not [key for key in conf if "catalog.pravega" in key]
