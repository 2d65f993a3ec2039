"""Which Sparks there is a jar for, and what others are told."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import jars
import pytest
import since
from since import is_missing
from sql_scripts import statements

from pyspark_pravega.errors import ConfigurationError
from pyspark_pravega.spark import here, versions
from pyspark_pravega.spark import jars as fitting

ROOT = Path(__file__).parents[1]


def test_python_and_java_know_the_same_sparks() -> None:
    assert list(versions.SUPPORTED) == jars.versions()
    since = (ROOT / "jvm/common/pyspark/pravega/bridge/Since.java").read_text()
    assert f'SUPPORTED = "{versions.named()}"' in since
    page = (ROOT / "docs" / "versions.md").read_text()
    assert f"runs on Spark {versions.named()}, and this is" in page


@pytest.mark.parametrize("version", ["3.5.6", "5.0.0", "4.4.0", "2.4.8"])
def test_another_spark_gets_one_sentence(version: str) -> None:
    with pytest.raises(ConfigurationError, match=f"runs on Spark 4.0 to 4.3, and this is Spark {version}$"):
        fitting.jar(version)


def test_patches_and_builds_of_others_share_a_jar() -> None:
    assert versions.minor("4.1.0") == versions.minor("4.1.4") == versions.minor("4.1.0.dev1+vendor") == "4.1"


def test_a_jar_that_was_not_built_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fitting, "JARS", tmp_path)
    with pytest.raises(ConfigurationError, match=r"pyspark-pravega-spark-4.2.jar is missing: .* for Spark 4.2"):
        fitting.jar("4.2.0")
    (tmp_path / "pyspark-pravega-spark-4.2.jar").touch()
    assert fitting.jar("4.2.0").exists()


def test_the_installed_spark_is_known_without_importing_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "pyspark"
    package.mkdir()
    (package / "__init__.py").write_text("raise AssertionError('it is imported')")
    (package / "version.py").write_text('__version__: str = "4.1.7"\n')
    monkeypatch.delitem(sys.modules, "pyspark", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    assert here.package_version() == "4.1.7"


def test_the_newest_file_that_is_not_newer_counts() -> None:
    """And no class lies both in `common` and in a version's folder."""
    for spark in jars.versions():
        compiled = jars.sources(spark)
        assert len({path.relative_to(_root(path)) for path in compiled}) == len(compiled)
        newer = [path for path in compiled if _version(path) > _numbers(spark)]
        assert newer == []
    common = {path.relative_to(ROOT / "jvm" / "common") for path in (ROOT / "jvm" / "common").rglob("*.java")}
    for folder in (ROOT / "jvm").glob("spark-*"):
        assert common.isdisjoint({path.relative_to(folder) for path in folder.rglob("*.java")})


def test_no_class_is_copied() -> None:
    """A file of a version says something else than those of all others."""
    texts = [
        re.sub(r"/\*\*.*?\*/", "", path.read_text(), flags=re.S) for path in (ROOT / "jvm").glob("spark-*/**/*.java")
    ]
    copies = len(texts) - len(set(texts))
    # The constructor of Spark's Arrow runner is in 4.2 again what it was in 4.0.
    assert copies == 1


def _root(path: Path) -> Path:
    return ROOT / "jvm" / path.relative_to(ROOT / "jvm").parts[0]


def _version(path: Path) -> list[int]:
    name = _root(path).name
    return [0] if name == "common" else _numbers(name.removeprefix("spark-"))


def _numbers(version: str) -> list[int]:
    return [int(number) for number in version.split(".")]


def test_what_a_test_needs_is_a_spark_that_there_is() -> None:
    assert not is_missing("4.0")
    with pytest.raises(ValueError, match=r"since Spark '4\.9': this package runs on 4\.0, 4\.1"):
        is_missing("4.9")


def test_a_script_leaves_out_what_a_newer_spark_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(since, "SPARK", (4, 1))
    script = "SELECT 1;\n--> 1\n\n-- since 4.1\nSELECT 2;\n-- since 4.2\nSELECT 3;\n--> 3\nSELECT 4;\n\nSELECT 5;"
    found = [(one.text, one.line, one.answer) for one in statements(script)]
    assert found == [("SELECT 1;", 1, ["1"]), ("SELECT 2;", 5, []), ("SELECT 5;", 11, [])]
