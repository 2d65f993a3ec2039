"""What the daemon of Spark's Python workers loads before it forks them, and what the command line doesn't load."""

from __future__ import annotations

import os
import select
import socket
import struct
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pyspark
import pytest
from since import is_missing

ARCHIVES = sorted((Path(pyspark.__file__).parent / "python" / "lib").glob("*.zip"))
"""Of pyspark's and py4j's sources, as Spark puts them first on the path of its Python processes."""
(JAR,) = (Path(pyspark.__file__).parent / "jars").glob("spark-core_*.jar")
"""Comes behind them there."""
LOAD = """
import os, sys
from pyspark_pravega.spark import daemon
before = dict(os.environ)
with daemon._without_threads():
    assert daemon.load(), "threads were begun"
assert dict(os.environ) == before
missing = {"numpy", "pyarrow", "grpc", "pyspark.worker", "pyspark_pravega.connector.read"} - set(sys.modules)
assert not missing, missing
if os.fork() == 0:
    import numpy as np, pyarrow as pa, pyarrow.compute as pc
    # In the child threads are welcome, and work.
    assert pc.sum(pa.table({"x": np.arange(1_000_000)}).group_by([]).aggregate([("x", "sum")])["x_sum"]).as_py() > 0
    os._exit(0)
assert os.waitstatus_to_exitcode(os.wait()[1]) == 0
"""


def test_nothing_that_is_loaded_begins_a_thread() -> None:
    # Not as the tests' processes have it, which know of a variable by which numpy begins none.
    environment = {key: value for key, value in os.environ.items() if key != "OPENBLAS_NUM_THREADS"}
    subprocess.run([sys.executable, "-c", LOAD], env=environment, check=True, timeout=600)


@pytest.mark.parametrize("archives", ["as they are", "of another version", "broken"])
def test_what_is_installed_is_loaded_unless_spark_s_archives_are_of_another_version(
    tmp_path: Path, archives: str
) -> None:
    places = [tmp_path / archive.name for archive in ARCHIVES]
    for original, place in zip(ARCHIVES, places, strict=True):
        with ZipFile(original) as sources, ZipFile(place, "w") as copy:
            for name in sources.namelist():
                content = sources.read(name)
                if archives == "of another version" and name.endswith(("pyspark/version.py", "py4j/version.py")):
                    content += b"# of somebody's own\n"
                copy.writestr(name, content)
        if archives == "broken":
            place.write_bytes(place.read_bytes()[:5000])
    code = (
        "import sys; from pyspark_pravega.spark import daemon; daemon.leave_archives(); daemon.load(); "
        "import pyspark, py4j; print(pyspark.__file__, py4j.__file__, *sys.path_importer_cache)"
    )
    # Without what leaves the archives of all processes of the tests (tests/tools/sitecustomize.py).
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, [*places, JAR]))}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, check=True, timeout=600, stdout=subprocess.PIPE, text=True
    )
    *modules, importers = done.stdout.split(maxsplit=2)
    assert [str(tmp_path) in file for file in modules] == [archives == "of another version"] * 2
    # Each worker would read their lists of files again.
    assert (str(tmp_path) in importers) == (archives != "as they are")
    assert str(JAR) not in importers


def test_spark_s_jar_has_no_python() -> None:
    with ZipFile(JAR) as jar:
        assert [name for name in jar.namelist() if name.endswith((".py", ".pyc"))] == []


OF_PANDAS = """
import sys
import pyarrow as pa
if sys.argv[1] == "later":
    from pyspark_pravega.frames.pandas_later import load_pandas_later
    load_pandas_later()
    load_pandas_later()
    print([pa.array(["a", None]).fill_null("b").to_pylist(), pa.scalar(1).as_py()], file=sys.stderr)
    assert "pandas" not in sys.modules
import pandas as pd
numbers = pd.Series([1.5, float("nan"), None])
for values in (
    numbers, numbers.to_numpy(), numbers.astype(object), pd.Series(["a", None, "a"], dtype="category"),
    pd.Series(pd.date_range("2026-11-27", periods=2, tz="UTC")), pd.Index([1, 2]), pd.DataFrame({"x": [1, None]}),
):
    for convert in (pa.array, pa.Array.from_pandas, pa.Table.from_pandas):
        try:
            values_of_arrow = convert(values)
            print(getattr(values_of_arrow, "type", None) or values_of_arrow.schema, values_of_arrow.to_pylist())
        except Exception as error:
            print(type(error), error)
"""


def test_pyarrow_knows_pandas_once_somebody_loads_it() -> None:
    """What becomes of pandas' objects, among them missing values, is what becomes of them in any program."""

    def printed(when: str) -> str:
        command = [sys.executable, "-c", OF_PANDAS, when]
        return subprocess.run(command, check=True, timeout=600, stdout=subprocess.PIPE, text=True).stdout

    assert printed("later") == printed("at once")


def traces_of_a_cancelled_task(module: str) -> str:
    """What a daemon tells on standard error of a worker that its JVM leaves in the midst of its task."""
    environment = {
        **os.environ,
        "PYTHON_WORKER_FACTORY_SECRET": "secret",
        "PYTHON_DAEMON_KILL_WORKER_ON_FLUSH_FAILURE": "1",
    }
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    command = [sys.executable, "-m", module, "pyspark.worker"]
    with subprocess.Popen(command, env=environment, **pipes) as daemon:  # type: ignore[call-overload]
        (port,) = struct.unpack("!i", daemon.stdout.read(4))
        with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
            (worker,) = struct.unpack("!i", connection.recv(4))
            ended = os.pidfd_open(worker)
            connection.sendall(struct.pack("!i", 6) + b"secret")
            assert connection.recv(6)[4:] == b"ok"
            # As a socket is closed while there is something in it: at once, and the worker can't speak any more.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        assert select.select([ended], [], [], 60)[0], "the worker doesn't end"
        os.close(ended)
        _, errors = daemon.communicate(timeout=60)
    return str(errors.decode())


def test_a_cancelled_task_leaves_no_trace() -> None:
    # As of each real-time query that was stopped.
    if not is_missing("4.1"):
        assert "BrokenPipeError" in traces_of_a_cancelled_task("pyspark.daemon")
    assert traces_of_a_cancelled_task("pyspark_pravega.spark.daemon") == ""


@pytest.mark.parametrize("words", [["sql", "--help"], ["--help"], ["--version"], ["no-such-command"]])
def test_the_prompt_and_what_runs_no_command_load_neither_spark_nor_arrow(words: list[str]) -> None:
    code = (
        "import sys; from pyspark_pravega import cli\n"
        f"try: cli.main({words})\n"
        "except SystemExit: pass\n"
        "assert not {'pyspark', 'pyarrow', 'grpc', 'numpy'} & set(sys.modules), sorted(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=600)
