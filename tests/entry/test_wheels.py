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

pytestmark = [pytest.mark.server, pytest.mark.spark]

ROOT = Path(__file__).parents[2]
SOURCES = ("Makefile", "setup.py", "pyproject.toml", "README.md", "LICENSE", "requirements.lock", "jvm", "native")
LESS_OPTIMIZED = "".join(
    f"[profile.release.package.{name}]\nopt-level = 0\ncodegen-units = 16\n"
    for name in ("pyspark-pravega-native", "pyo3", "pyo3-ffi", "arrow-pyarrow")
)
"""For cargo: what it compiles anew in a copy of the sources. Optimized as usual that takes 18 s of CPU, and 7 s so."""
BUILDERS = {"javac", "jar", "cargo", "rustc", "maturin", "make"}
OURS = "pyspark_pravega"


class Machine:
    """A machine on which only the wheels were installed."""

    def __init__(self, folder: Path, wheels: list[Path]) -> None:
        self.wheels = wheels
        self.bin = folder / "environment" / "bin"
        subprocess.run([sys.executable, "-m", "venv", self.bin.parent], check=True)
        others = folder / "others"
        others.mkdir()
        for package in (path for packages in site.getsitepackages() for path in Path(packages).iterdir()):
            if not package.name.startswith((OURS, "pip", "__editable__")) and package.suffix != ".pth":
                (others / package.name).symlink_to(package)
        (own_packages,) = (self.bin.parent / "lib").glob("python*/site-packages")
        (own_packages / "others.pth").write_text(f"{others}\n")
        tools = folder / "tools"
        tools.mkdir()
        java = os.environ.get("JAVA_HOME")
        for places in ([Path(java) / "bin"] if java else []) + [Path("/usr/bin"), Path("/bin")]:
            for tool in places.iterdir():
                if tool.name not in BUILDERS and not (tools / tool.name).is_symlink():
                    (tools / tool.name).symlink_to(tool)
        left_out = ("PRAVEGA_", "PYTHONPATH", "JAVA_HOME", "CARGO", "RUST", "PYSPARK")
        self._environment = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
        self._environment["PATH"] = f"{self.bin}{os.pathsep}{tools}"
        assert [name for name in BUILDERS if shutil.which(name, path=self._environment["PATH"])] == []
        pip = [str(self.bin / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        # Not beside the sources, where pip would take the package for installed.
        installed = self.run(*pip, "--no-deps", "--no-index", *wheels, folder=self.bin)
        assert installed.returncode == 0, installed.stderr

    def run(self, *command: object, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(word) for word in command],
            env={**self._environment, **variables},
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=500,
            check=False,
        )


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    copy = tmp_path_factory.mktemp("wheels")
    for name in SOURCES:
        copier = shutil.copytree if (ROOT / name).is_dir() else shutil.copy2
        copier(ROOT / name, copy / name)  # with what cargo has compiled of others' code
    shutil.copytree(ROOT / OURS, copy / OURS, ignore=shutil.ignore_patterns("__pycache__", "*.jar"))
    (copy / ".cargo").mkdir()
    (copy / ".cargo" / "config.toml").write_text(LESS_OPTIMIZED)
    (copy / ".venv").symlink_to(sys.prefix)
    # With -o make takes the shared environment for ready, and leaves it as it is.
    command = ["make", "--no-print-directory", "dist", "-o", ".venv/.ready"]
    build = subprocess.run(command, cwd=copy, capture_output=True, text=True, timeout=1200, check=False)
    assert build.returncode == 0, build.stdout + build.stderr
    return Machine(copy, sorted((copy / "dist").glob("*.whl")))


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
