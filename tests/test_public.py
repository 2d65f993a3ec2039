"""The public face: what the packages offer, and what importing them costs."""

from __future__ import annotations

import importlib
import inspect
import re
import subprocess
import sys

import pytest

import pyspark_pravega
from pyspark_pravega import errors
from pyspark_pravega.cli import main

PUBLIC = {
    "pyspark_pravega": {"DefaultSource", "__version__", "configure", "transaction"},
    "pyspark_pravega.client": {
        "Access",
        "Client",
        "ConnectionPool",
        "Controller",
        "EventBatch",
        "EventTail",
        "EventWriter",
        "KeyValueTable",
        "OwnTransaction",
        "RetentionPolicy",
        "RetentionType",
        "RevisionedStream",
        "ScaleType",
        "ScalingPolicy",
        "SegmentPart",
        "SegmentRange",
        "Staged",
        "StateSynchronizer",
        "Stream",
        "StreamConfiguration",
        "StreamCut",
        "StreamSegments",
        "Transaction",
        "TransactionState",
        "TransactionWriter",
        "UNBOUNDED",
        "deadline",
    },
    "pyspark_pravega.registry": {"EncodingInfo", "GroupProperties", "SchemaInfo", "SchemaRegistry", "VersionInfo"},
    "pyspark_pravega.sandbox": {
        "PRAVEGA",
        "SCHEMA_REGISTRY",
        "Account",
        "Bundle",
        "Cluster",
        "Sandbox",
        "fetch",
        "pin",
    },
}


@pytest.mark.parametrize("package", PUBLIC)
def test_a_package_offers_what_it_promises(package: str) -> None:
    module = importlib.import_module(package)
    assert set(module.__all__) == PUBLIC[package]
    assert len(module.__all__) == len(set(module.__all__))
    assert all(getattr(module, name) is not None for name in module.__all__)


@pytest.mark.parametrize("package", ["pyspark_pravega", "pyspark_pravega.sandbox"])
def test_a_name_that_a_package_does_not_offer_is_an_attribute_error(package: str) -> None:
    with pytest.raises(AttributeError, match=rf"module '{package}' has no attribute 'nothing'"):
        _ = importlib.import_module(package).nothing


def loaded_by(statement: str) -> set[str]:
    """The modules that a fresh interpreter has after a statement."""
    program = f"{statement}\nimport sys\nprint(*sys.modules, sep='\\n')"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    return set(done.stdout.split())


def test_importing_the_package_loads_nothing_heavy() -> None:
    modules = loaded_by("import pyspark_pravega")
    assert "pyspark_pravega" in modules
    assert not modules & {"grpc", "google.protobuf", "pyspark", "pyarrow", "numpy", "httpx"}
    assert {name for name in modules if name.startswith("pyspark_pravega.")} == {"pyspark_pravega._version"}


def test_the_script_that_each_new_shell_asks_for_loads_nothing_heavy() -> None:
    modules = loaded_by("from pyspark_pravega import cli; cli.main(['completion', 'bash'])")
    assert "argcomplete" in modules
    assert not modules & {"grpc", "google.protobuf", "pyspark", "pyarrow", "numpy", "httpx"}


def test_the_client_and_the_registry_know_nothing_of_spark() -> None:
    modules = loaded_by("import pyspark_pravega.client, pyspark_pravega.registry")
    assert "grpc" in modules
    assert "pyspark" not in modules


def test_spark_finds_the_data_source_by_the_package_s_name() -> None:
    assert pyspark_pravega.DefaultSource.name() == "pravega"
    assert pyspark_pravega.__name__.startswith("pyspark_")


def test_every_error_is_in_the_one_tree_with_a_condition_of_its_own() -> None:
    classes = [cls for _, cls in inspect.getmembers(errors, inspect.isclass) if cls.__module__ == errors.__name__]
    assert len(classes) > 25
    ours = [cls for cls in classes if issubclass(cls, errors.PravegaError)]
    assert ours == classes
    conditions = [cls.condition for cls in ours if cls is not errors.PravegaError]
    assert len(set(conditions)) == len(conditions)
    assert all(condition.startswith("PRAVEGA_") for condition in conditions)


def test_the_tree_s_drawing_names_every_error() -> None:
    assert errors.__doc__
    for name, cls in inspect.getmembers(errors, inspect.isclass):
        if cls.__module__ == errors.__name__:
            assert name in errors.__doc__


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("controler", '; did you mean "controller"?'),
        ("CONTROLLER", '; did you mean "controller"?'),
        ("CONTROLER", '; did you mean "controller"?'),
        ("xyz", "; known are: controller, scope"),
    ],
)
def test_a_hint_names_the_nearest_word_or_all(word: str, hint: str) -> None:
    assert errors.did_you_mean(word, {"scope", "controller"}) == hint


def test_a_hint_keeps_the_right_word_s_own_spelling() -> None:
    assert errors.did_you_mean("nme", ["Name", "id"]) == '; did you mean "Name"?'


def test_the_version_tells_the_commit(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    version = re.escape(pyspark_pravega.__version__)
    # A copy without git knows none.
    assert re.fullmatch(rf"pyspark-pravega {version}( \(commit [0-9a-f]{{7,40}}\))?\n", capsys.readouterr().out)
