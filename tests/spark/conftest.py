"""One Spark session for all tests of this folder, with the catalog configured as a user would do it."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import pyspark_pravega
from pyspark_pravega.client import Client
from pyspark_pravega.sandbox import Sandbox
from pyspark_pravega.settings import Settings

_numbers = itertools.count(1)
_FORMATS = str(Path(__file__).parent.parent / "serde")


@pytest.fixture(scope="session")
def settings(sandbox: Sandbox) -> Settings:
    return Settings.resolve(
        {"controller-uri": sandbox.controller_uri, "schema-registry-uri": sandbox.schema_registry_uri}
    )


@pytest.fixture(scope="session")
def client(settings: Settings) -> Iterator[Client]:
    with Client(settings) as connected:
        yield connected


@pytest.fixture(scope="session")
def spark(sandbox: Sandbox) -> Iterator[SparkSession]:
    """Four task slots; a task may fail twice before its job does."""
    # Where the catalog's process and the workers find a user's formats.
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [_FORMATS, os.environ.get("PYTHONPATH")]))
    builder = SparkSession.builder.master("local[4,3]").appName("tests")
    builder = pyspark_pravega.configure(
        builder, controller=sandbox.controller_uri, schema_registry=sandbox.schema_registry_uri
    )
    session = (
        builder.config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.driver.memory", "2g")
        .config("spark.driver.host", "localhost")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture
def namespace(spark: SparkSession) -> Iterator[str]:
    """A namespace of the test's own, dropped afterwards with all that is in it."""
    name = f"pravega.spark_test_{next(_numbers)}"
    spark.sql(f"CREATE NAMESPACE {name}")
    yield name
    spark.sql(f"DROP NAMESPACE {name} CASCADE")
