"""`make dbt-suite`: dbt's own tests for adapters, against a Thrift server with a sandbox of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO

ROOT = Path(__file__).parents[2]
SUITE = ROOT / "tests" / "entry" / "dbt_suite"


def run_suite(
    python: Path, address: tuple[str, int], folder: Path, arguments: Sequence[str], output: IO[str] | None = None
) -> int:
    """Run the suite.

    Args:
        python: of dbt's environment.
        address: the Thrift server's host and port.
        folder: for logs.
        arguments: for pytest.
        output: where pytest writes; else to this process's standard output.

    Returns:
        pytest's exit code.
    """
    host, port = address
    command = [str(python), "-m", "pytest", "-c", str(SUITE / "pytest.ini"), "--rootdir", str(folder), *arguments]
    own = {"DBT_SUITE_HOST": host, "DBT_SUITE_PORT": str(port), "NO_COLOR": "1", "PYTHONPATH": str(SUITE)}
    environment = {**os.environ, **own}
    command += [str(SUITE / name) for name in ("adapter_suite.py", "keyed_suite.py")]
    messages = None if output is None else subprocess.STDOUT
    return subprocess.run(command, env=environment, cwd=folder, stdout=output, stderr=messages, check=False).returncode


def main(arguments: Sequence[str]) -> int:
    """Start the servers, run the suite, and stop them."""
    sys.path.insert(0, str(ROOT / "tests" / "entry"))
    from entry_tools import FEW_TASKS, thrift_server

    from pyspark_pravega.sandbox import Sandbox

    with tempfile.TemporaryDirectory(prefix="dbt-suite-") as name, Sandbox() as sandbox:
        folder = Path(name)
        with thrift_server(sandbox.environment(), folder, *FEW_TASKS) as server:
            return run_suite(Path(sys.prefix) / "dbt" / "bin" / "python", server.address, folder, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
