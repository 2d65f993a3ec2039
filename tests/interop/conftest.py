"""The official Java programs, and a scope for each test."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.sandbox import Sandbox
from pyspark_pravega.settings import Settings
from tests.jars.java_client import JavaPrograms, compile_java


@pytest.fixture(scope="session")
def settings(sandbox: Sandbox) -> Settings:
    return Settings.resolve(
        {"controller-uri": sandbox.controller_uri, "schema-registry-uri": sandbox.schema_registry_uri}
    )


@pytest.fixture(scope="session")
def java(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> JavaPrograms:
    """The programs of the folder `java`, compiled."""
    assert settings.schema_registry_uri
    return compile_java(
        Path(__file__).parent / "java",
        tmp_path_factory.mktemp("classes"),
        controller_uri=settings.controller_uri,
        schema_registry_uri=settings.schema_registry_uri,
    )


@pytest.fixture
def catalog(settings: Settings) -> Catalog:
    return Catalog(settings)


@pytest.fixture
def scope(catalog: Catalog) -> Iterator[str]:
    """A scope of this test alone."""
    name = f"interop-{uuid.uuid4().hex[:12]}"
    catalog.create_namespace([name])
    yield name
    catalog.drop_namespace([name], cascade=True)
