"""`make matrix`: the wheels with each Python and each JDK that this machine has, and with each Spark; prints a table.

Each row has an environment of its own, from requirements.lock, in build/matrix. There it runs the demo and some of the
tests, beside which no sources lie.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).parents[2]
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
JDKS = ("17", "21")
TESTS = ("tests/serde/test_avro_round_trip.py", "tests/spark/test_tables.py")
CORE = ("tests/spark/test_each_spark.py",)
"""What is run with an older Spark."""
DEMO = "examples/nyc_flights.py"
SHARED = ("tests", "examples", "pyproject.toml")


@dataclass(frozen=True)
class Row:
    """A Python, a JDK, and a Spark."""

    version: str
    python: Path
    jdk_version: str
    jdk: Path
    spark: str = ""
    """An older Spark's version; empty for the one of requirements.lock."""

    @property
    def name(self) -> str:
        """Such as `python-3.12-jdk-17-spark-4.1`."""
        return f"python-{self.version}-jdk-{self.jdk_version}" + (f"-spark-{self.spark}" if self.spark else "")


def pythons() -> dict[str, Path]:
    """Version to executable, of those that run: on the PATH, of pyenv, of uv."""
    homes = [Path(folder) for folder in os.get_exec_path()]
    homes += sorted((Path.home() / ".pyenv" / "versions").glob("*/bin"))
    homes += sorted((Path.home() / ".local/share/uv/python").glob("*/bin"))
    executables: dict[str, Path] = {}
    for version in PYTHONS:
        for home in homes:
            python = home / f"python{version}"
            if python.exists() and _answer([str(python), "-c", "import sys, venv, ensurepip; print(sys.version)"]):
                executables.setdefault(version, python)
    return executables


def jdks() -> dict[str, Path]:
    """Major version to folder, of those that have a compiler: in JAVA_HOME and under /usr/lib/jvm."""
    homes = [Path(os.environ["JAVA_HOME"])] if os.environ.get("JAVA_HOME") else []
    homes += sorted(Path("/usr/lib/jvm").glob("*"))
    folders: dict[str, Path] = {}
    for home in homes:
        version = re.match(r"javac (\d+)", _answer([str(home / "bin" / "javac"), "-version"]))
        if version:
            folders.setdefault(version[1], home)
    return folders


def rows_of(executables: dict[str, Path], folders: dict[str, Path]) -> list[Row]:
    """Each Python once and each JDK once, in as few rows as that takes."""
    versions = list(executables)
    kinds = [jdk for jdk in JDKS if jdk in folders]
    if not versions or not kinds:
        return []
    count = max(len(versions), len(kinds))
    chosen = [(versions[i % len(versions)], kinds[i % len(kinds)]) for i in range(count)]
    return [Row(version, executables[version], jdk, folders[jdk]) for version, jdk in chosen]


def with_sparks(executables: dict[str, Path], folders: dict[str, Path]) -> list[Row]:
    """Each older Spark once, with the first Python and the first JDK."""
    sparks = sorted(path.parent.name.removeprefix("spark-") for path in ROOT.glob("jvm/spark-*/requirements.txt"))
    first = rows_of(executables, folders)[:1]
    return [replace(row, spark=spark) for row in first for spark in sparks]


def try_out(row: Row, wheels: list[Path], folder: Path) -> list[tuple[str, str]]:
    """What was run, and what became of it."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name in SHARED:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy2
        copy(ROOT / name, folder / name)
    python = folder / "environment" / "bin" / "python"
    spark = ROOT / "jvm" / f"spark-{row.spark}" / "requirements.txt"
    uv = Path(sys.executable).with_name("uv")
    # uv puts links into its cache in place of unpacking 430 MB of Spark for each row.
    of_uv = [str(uv), "pip", "install", "--quiet", "--python", str(python)]
    pip = of_uv if uv.exists() else [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    steps = {
        "install": [
            [str(row.python), "-m", "venv", str(folder / "environment")],
            [*pip, "--require-hashes", "-r", str(ROOT / "requirements.lock")],
            [*pip, "--no-deps", *map(str, wheels)],
            *([[*pip, "--no-deps", "--require-hashes", "-r", str(spark)]] if row.spark else []),
        ],
        "demo": [[str(python), str(folder / DEMO)]],
        "tests": [[str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", *(CORE if row.spark else TESTS)]],
    }
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    environment["HYPOTHESIS_EXAMPLES"] = "20"
    environment |= {"JAVA_HOME": str(row.jdk), "PATH": f"{row.jdk / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    outcomes = []
    for step, commands in steps.items():
        begun = time.monotonic()
        log = folder / f"{step}.log"
        with log.open("w") as output:
            codes = []
            for command in commands:
                ran = subprocess.run(
                    command, cwd=folder, env=environment, stdout=output, stderr=subprocess.STDOUT, check=False
                )
                codes.append(ran.returncode)
                if ran.returncode:
                    break
        counted = (
            re.findall(r"\d+ (?:passed|failed|skipped|errors?)", log.read_text()[-500:]) if step == "tests" else []
        )
        outcome = f"FAILED, see {log}" if any(codes) else ", ".join(counted) or "ok"
        outcomes.append((step, f"{outcome} ({time.monotonic() - begun:.0f} s)"))
        print(f"{row.name}: {step}: {outcomes[-1][1]}", file=sys.stderr, flush=True)
        if any(codes) and step == "install":
            break
    return outcomes


def main() -> int:
    """Run them; 0 when nothing has failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", metavar="TEXT", default="", help="rows whose name holds this")
    arguments = parser.parse_args()
    wheels = sorted((ROOT / "dist").glob("*.whl"))
    if not wheels:
        sys.exit("there are no wheels in dist: run `make dist` first")
    executables, folders = pythons(), jdks()
    rows = []
    for row in [*rows_of(executables, folders), *with_sparks(executables, folders)]:
        if arguments.only in row.name:
            outcomes = try_out(row, wheels, ROOT / "build" / "matrix" / row.name)
            rows.append((row, dict(outcomes)))
    print("| Python | JDK | Spark | install | demo | tests |\n|---|---|---|---|---|---|")
    for row, steps in rows:
        told = " | ".join(steps.get(step, "not run") for step in ("install", "demo", "tests"))
        print(f"| {row.version} | {row.jdk_version} | {row.spark or 'newest'} | {told} |")
    missing = [f"Python {version}" for version in PYTHONS if version not in executables]
    missing += [f"JDK {jdk}" for jdk in JDKS if jdk not in folders]
    print(f"This machine lacks: {', '.join(missing) or 'nothing'}.")
    return 1 if any("FAILED" in outcome for _, steps in rows for outcome in steps.values()) or not rows else 0


def _answer(command: list[str]) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return ""


if __name__ == "__main__":
    sys.exit(main())
