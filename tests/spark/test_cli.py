"""`pravega-spark sql` and `pravega-spark config`, as a user types them."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from pyspark_pravega.sandbox import Sandbox

pytestmark = [pytest.mark.server, pytest.mark.spark]

CLI = [sys.executable, "-m", "pyspark_pravega.cli"]


def run(*arguments: str, environment: dict[str, str], folder: Path) -> subprocess.CompletedProcess[str]:
    clean = {key: value for key, value in os.environ.items() if not key.startswith("PRAVEGA_")}
    return subprocess.run(
        [*CLI, *arguments],
        env={**clean, **environment},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_statements_from_the_command_line(sandbox: Sandbox, tmp_path: Path) -> None:
    statements = """
        CREATE NAMESPACE pravega.from_cli;
        CREATE TABLE pravega.from_cli.t CLUSTERED BY (s) INTO 4 BUCKETS AS SELECT id, 'x' AS s FROM range(10);
        SELECT count(*), max(id) FROM pravega.from_cli.t;
        DROP NAMESPACE pravega.from_cli CASCADE"""

    done = run("sql", "-e", statements, environment=sandbox.environment(), folder=tmp_path)

    assert done.returncode == 0, done.stderr
    assert done.stdout == "10\t9\n"
    assert list(tmp_path.iterdir()) == [], "the prompt leaves files behind"


def test_statements_from_a_file_with_a_default_scope(sandbox: Sandbox, tmp_path: Path) -> None:
    script = tmp_path / "script.sql"
    script.write_text("CREATE NAMESPACE IF NOT EXISTS pravega.my_scope; USE pravega; SELECT current_schema();")

    done = run("sql", "--scope", "my_scope", "-f", str(script), environment=sandbox.environment(), folder=tmp_path)

    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "my_scope"


def test_an_error_is_one_line_and_an_exit_code(tmp_path: Path) -> None:
    arguments = ["sql", "--controller", "tcp://127.0.0.1:1", "-e", "SHOW NAMESPACES IN pravega"]

    done = run(*arguments, environment={}, folder=tmp_path)

    assert done.returncode != 0
    assert done.stdout == ""
    (line,) = [line for line in done.stderr.splitlines() if "PRAVEGA_" in line]
    assert line.startswith("[PRAVEGA_CONTROLLER_UNAVAILABLE] no Pravega controller answers at tcp://127.0.0.1:1")
    assert "Traceback" not in done.stderr


def test_a_malformed_address_is_refused_before_spark_starts(tmp_path: Path) -> None:
    done = run("sql", "--controller", "http://x", "-e", "SELECT 1", environment={}, folder=tmp_path)

    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("pravega-spark: [PRAVEGA_INVALID_CONFIGURATION] controller-uri")


def test_the_printed_configuration_serves_any_spark_program(sandbox: Sandbox, tmp_path: Path) -> None:
    printed = run("config", "--catalog", "streams", environment=sandbox.environment(), folder=tmp_path)
    assert printed.returncode == 0
    home = Path(pyspark.__file__).parent

    done = subprocess.run(
        [str(home / "bin" / "spark-sql"), *shlex.split(printed.stdout), "-e", "SHOW NAMESPACES IN streams"],
        env={**os.environ, "SPARK_HOME": str(home)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    assert done.returncode == 0, done.stderr
