"""What `pravega-spark pack` refuses, and what its starter says; tests/entry/test_clusters.py uses an archive."""

from __future__ import annotations

import py_compile
import subprocess
import sysconfig
from pathlib import Path

import pytest

from pyspark_pravega.errors import ConfigurationError
from pyspark_pravega.sql import pack


def test_a_package_that_is_not_installed_is_named_and_nothing_is_left(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no-such-package isn't installed in "):
        pack.pack(tmp_path / "pravega.tar.gz", added=["No_Such.Package"])
    assert list(tmp_path.iterdir()) == []


def test_an_archive_that_can_not_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"nowhere/pravega\.tar\.gz can't be written: "):
        pack.pack(tmp_path / "nowhere" / "pravega.tar.gz")


def test_a_module_is_packed_compiled_only_if_that_is_of_its_source(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text("answer = 42")
    assert pack.compiled(module) is None
    file = py_compile.compile(str(module))
    assert str(pack.compiled(module)) == file
    module.write_text("answer = 4_2")
    assert pack.compiled(module) is None


@pytest.mark.parametrize(
    ("place", "left_out"),
    [
        ("pyspark_pravega/live/page/page.js", True),
        ("pyspark_pravega/sandbox/__init__.py", True),
        ("pyspark_pravega/client/state/synchronizer.py", False),
        ("pyspark_pravega/jars/pyspark-pravega-spark-4.3.jar", False),
        ("pyspark_pravega/live.py", False),
        ("pyarrow/include/arrow/api.h", True),
        ("pyarrow/tests/test_array.py", True),
        ("numpy/_core/tests/test_umath.py", True),
        ("numpy/testing/__init__.py", False),
        ("somebody/tests/helpers.py", False),
    ],
)
def test_what_no_task_needs_is_left_out(place: str, left_out: bool) -> None:
    assert pack.is_left_out(place) == left_out


@pytest.mark.parametrize(
    ("version", "platform"), [("9.9", sysconfig.get_platform()), (pack.this_version(), "linux-of-another-kind")]
)
def test_a_machine_without_the_right_python_says_so(tmp_path: Path, version: str, platform: str) -> None:
    starter = tmp_path / "python"
    starter.write_text(pack.starter(version, platform))
    done = subprocess.run(["sh", starter, "-c", "print('started')"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stdout == ""
    (sentence,) = done.stderr.splitlines()
    assert f"has no Python {version} for {platform}, for which the archive was packed: install one" in sentence
