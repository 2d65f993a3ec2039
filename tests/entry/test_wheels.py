"""The wheels of `make dist`, in an empty environment on a machine without javac and cargo.

They are made in a copy of the sources. What they depend on comes from this environment, by links: so nothing is
fetched. `make matrix` installs from requirements.lock.
"""

from __future__ import annotations

import json
import os
import shutil
import site
import subprocess
import sys
from pathlib import Path

import pytest

from pyspark_pravega.sandbox import Sandbox
from pyspark_pravega.spark import versions

# The environment of another Spark has nothing that builds.
pytestmark = [
    pytest.mark.server,
    pytest.mark.spark,
    pytest.mark.since_spark(versions.SUPPORTED[-1]),
    pytest.mark.in_turn(8, whole=True),
]

ROOT = Path(__file__).parents[2]
SOURCES = ("Makefile", "setup.py", "pyproject.toml", "README.md", "LICENSE", "NOTICE", "requirements.lock", "jvm")
BUILDERS = {"javac", "jar", "cargo", "rustc", "maturin", "make"}
OURS = "pyspark_pravega"


def link_all(source: Path, target: Path) -> None:
    """Link what a folder has into another one: not what is there already, and nothing that builds."""
    for path in source.iterdir():
        link = target / path.name
        if path.name not in BUILDERS and not link.is_symlink() and not link.exists():
            link.symlink_to(path)


class Machine:
    """A machine on which only the wheels were installed."""

    def __init__(self, folder: Path, wheels: list[Path], *, without: tuple[str, ...] = ()) -> None:
        """Install them.

        Args:
            folder: of the machine.
            wheels: what is installed.
            without: how those other packages begin that aren't there.
        """
        self.wheels = wheels
        self.bin = folder / "environment" / "bin"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", self.bin.parent], check=True)
        others = folder / "others"
        others.mkdir()
        for package in (path for packages in site.getsitepackages() for path in Path(packages).iterdir()):
            if not package.name.startswith((OURS, "pip", "__editable__", *without)) and package.suffix != ".pth":
                (others / package.name).symlink_to(package)
        (own_packages,) = (self.bin.parent / "lib").glob("python*/site-packages")
        (own_packages / "others.pth").write_text(f"{others}\n")
        tools = folder / "tools"
        tools.mkdir()
        for places in (Path("/usr/bin"), Path("/bin")):
            link_all(places, tools)
        left_out = ("PRAVEGA_", "PYTHONPATH", "SPARK_HOME", "JAVA_HOME", "CARGO", "RUST", "PYSPARK")
        self._environment = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
        self._environment["PATH"] = os.pathsep.join([str(self.bin), f"{folder}/java/bin", str(tools)])
        if java := os.environ.get("JAVA_HOME"):
            # Where JAVA_HOME isn't set, Spark passes over the tests' own `java`, whose JVMs begin sooner.
            (folder / "java" / "bin").mkdir(parents=True)
            link_all(Path(java), folder / "java")
            link_all(Path(java) / "bin", folder / "java" / "bin")
            self._environment["JAVA_HOME"] = f"{folder}/java"
        assert [name for name in BUILDERS if shutil.which(name, path=self._environment["PATH"])] == []
        # The pip of this environment, for the other one: to install one takes 5 s.
        pip = [sys.executable, "-m", "pip", "--python", str(self.bin / "python"), "install", "--no-compile"]
        # Not beside the sources, where pip would take the package for installed.
        installed = self.run(*pip, "--quiet", "--no-deps", "--no-index", *wheels, folder=self.bin)
        assert installed.returncode == 0, installed.stderr

    def run(
        self, *command: object, folder: Path, given: str = "", **variables: str
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(word) for word in command],
            env={**self._environment, **variables},
            cwd=folder,
            input=given,
            capture_output=True,
            text=True,
            timeout=500,
            check=False,
        )


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    copy = tmp_path_factory.mktemp("wheels")
    for name in SOURCES:
        copier = shutil.copytree if (ROOT / name).is_dir() else shutil.copy2
        copier(ROOT / name, copy / name)
    shutil.copytree(ROOT / OURS, copy / OURS, ignore=shutil.ignore_patterns("__pycache__", "*.jar"))
    # By a link, so that cargo takes what it has compiled for this environment, unless a source has changed since.
    (copy / "native").symlink_to(ROOT / "native")
    (copy / ".venv").symlink_to(sys.prefix)
    # With -o make takes the shared environment for ready, and leaves it as it is.
    command = ["make", "--no-print-directory", "dist", "SPARKS=", "-o", ".venv/.ready"]
    build = subprocess.run(command, cwd=copy, capture_output=True, text=True, timeout=1200, check=False)
    assert build.returncode == 0, build.stdout + build.stderr
    return sorted((copy / "dist").glob("*.whl"))


@pytest.fixture(scope="module")
def machine(wheels: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Machine:
    return Machine(tmp_path_factory.mktemp("machine"), wheels)


@pytest.fixture(scope="module")
def without_spark(wheels: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Machine:
    return Machine(tmp_path_factory.mktemp("without-spark"), wheels, without=("pyspark", "py4j", "pandas"))


def test_the_demo_answers_rightly_and_stops_its_servers(machine: Machine, tmp_path: Path) -> None:
    """What `make demo` runs, here with nothing but the wheels."""
    done = machine.run("python", ROOT / "examples" / "nyc_flights.py", folder=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "\n    336776\n" in done.stdout
    assert "United Air Lines Inc." in done.stdout
    assert "2013-11-27" in done.stdout
    assert "Checked: the answers equal those computed from the files" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_the_native_codec_is_used(machine: Machine, tmp_path: Path) -> None:
    if shutil.which("cargo") is None:
        pytest.skip("no Rust (cargo) here: the native codec's wheel wasn't made, so the demo ran with the plain codec")
    assert len(machine.wheels) == 2
    program = "import pyspark_pravega as own, pyspark_pravega_native as native; print(own.__file__, native.__file__)"
    imported = machine.run("python", "-c", program, folder=tmp_path).stdout.split()
    assert [file for file in imported if not file.startswith(str(machine.bin.parent))] == []
    report = machine.run("pravega-spark", "doctor", "--json", folder=tmp_path)
    (codec,) = [finding for finding in json.loads(report.stdout) if finding["what"] == "codec"]
    assert codec["level"] == "ok", codec


def test_a_worker_without_the_package_says_so_in_a_sentence(machine: Machine, sandbox: Sandbox, tmp_path: Path) -> None:
    """Also where the wheel was given by --py-files."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True)
    statements = (
        "CREATE NAMESPACE pravega.bare; CREATE TABLE pravega.bare.t (id INT); INSERT INTO pravega.bare.t VALUES (1)"
    )
    done = machine.run(
        *("pravega-spark", "sql", "-e", statements, "--", "--master", "local[1]"),
        *("--py-files", ",".join(str(wheel) for wheel in machine.wheels)),
        *("--conf", f"spark.pyspark.python={tmp_path}/bare/bin/python"),
        *("--conf", f"spark.pyspark.driver.python={machine.bin}/python"),
        folder=tmp_path,
        **sandbox.environment(),
    )
    assert done.returncode != 0
    sentences = {
        line.partition("ModuleNotFoundError: ")[2]
        for line in done.stderr.splitlines()
        if "tasks of pyspark-pravega need" in line
    }
    assert len(sentences) == 1, done.stderr[-5000:]
    (sentence,) = sentences
    assert f"{tmp_path}/bare/bin/python" in sentence
    assert "has no pyspark_pravega, numpy, pyarrow, grpc, google.protobuf, httpx, which" in sentence
    assert "`pravega-spark pack`" in sentence
    assert "--py-files can't bring it" in sentence
    assert "Traceback" not in done.stderr


def test_without_spark_there_is_the_client(without_spark: Machine, tmp_path: Path) -> None:
    program = (
        "from pyspark_pravega.client import Client; import sys; "
        "print({'pyspark', 'py4j', 'pyspark_pravega'} & sys.modules.keys())"
    )
    assert without_spark.run("python", "-c", program, folder=tmp_path).stdout.strip() == "{'pyspark_pravega'}"
    missing = without_spark.run("python", "-c", "import pyspark", folder=tmp_path).stderr
    assert missing.splitlines()[-1] == "ModuleNotFoundError: No module named 'pyspark'"
    for command in (["--version"], ["sandbox", "--help"], ["sandbox", "status"], ["tail", "--help"]):
        ran = without_spark.run("pravega-spark", *command, folder=tmp_path, XDG_STATE_HOME=str(tmp_path))
        assert ran.returncode == (3 if command[-1] == "status" else 0), ran.stderr


@pytest.mark.parametrize("command", ["sql", "thriftserver", "connect"])
def test_without_spark_a_command_that_needs_it_says_so_in_a_line(
    without_spark: Machine, tmp_path: Path, command: str
) -> None:
    ran = without_spark.run("pravega-spark", command, folder=tmp_path)
    assert ran.returncode == 1
    (line,) = ran.stderr.splitlines()
    assert f"pravega-spark {command} needs Spark, and there is none here: pip install 'pyspark-pravega[spark]'" in line
    assert "or activate the environment that has Spark" in line


def test_without_spark_rows_go_in_and_out(
    machine: Machine, without_spark: Machine, sandbox: Sandbox, tmp_path: Path
) -> None:
    """Spark makes a table of many types and puts a row in; the other machine reads it, adds one, and shows both."""
    columns = (
        "id BIGINT NOT NULL, name VARCHAR(9), price DECIMAL(10,2), day DATE, at TIMESTAMP, local TIMESTAMP_NTZ, "
        "clock TIME(6), tags ARRAY<STRING>, sizes MAP<STRING, INT>, place STRUCT<x: DOUBLE, raw: BINARY>"
    )
    values = (
        "1, 'ann', 12.5, DATE'2026-01-02', TIMESTAMP'2026-01-02 03:04:05Z', TIMESTAMP_NTZ'2026-01-02 03:04:05', "
        "TIME'03:04:05', array('a'), map('m', 1), named_struct('x', 1.5D, 'raw', X'00ff')"
    )
    statements = "CREATE NAMESPACE pravega.no_spark; " + "; ".join(
        f"CREATE TABLE pravega.no_spark.{name} ({columns}) TBLPROPERTIES ('format' = '{name}'); "
        f"INSERT INTO pravega.no_spark.{name} VALUES ({values})"
        for name in ("avro", "json", "protobuf")
    )
    made = machine.run(
        *("pravega-spark", "sql", "-e", statements, "--", "--conf", "spark.sql.timeType.enabled=true"),
        folder=tmp_path,
        **sandbox.environment(),
    )
    assert made.returncode == 0, made.stderr

    def run(*command: str, given: str = "") -> str:
        ran = without_spark.run("pravega-spark", *command, folder=tmp_path, given=given, **sandbox.environment())
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    listed = [json.loads(line)["table"] for line in run("streams", "no_spark", "--json").splitlines()]
    assert listed == ["no_spark.avro", "no_spark.json", "no_spark.protobuf"]
    for name in ("avro", "json", "protobuf"):
        (first,) = run("tail", f"no_spark.{name}", "--json").splitlines()
        row = json.loads(first)
        assert row["name"] == "ann"
        assert row["tags"] == ["a"]
        run("put", f"no_spark.{name}", given=json.dumps(row | {"id": 2, "name": "bob"}))
        assert [json.loads(line)["id"] for line in run("tail", f"no_spark.{name}", "--json").splitlines()] == [1, 2]
        shown, with_spark = (
            json.loads(text)
            for text in (
                run("schema", f"no_spark.{name}", "--json"),
                machine.run(
                    "pravega-spark", "schema", f"no_spark.{name}", "--json", folder=tmp_path, **sandbox.environment()
                ).stdout,
            )
        )
        assert shown == with_spark
    report = {finding["what"]: finding for finding in json.loads(run("doctor", "--json"))}
    assert report["spark"]["level"] == "none"
    assert "pip install 'pyspark-pravega[spark]'" in report["spark"]["text"]
