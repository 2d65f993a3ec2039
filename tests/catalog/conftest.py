"""A catalog and what is behind it for all tests of this folder, and a scope for each one."""

import uuid
from collections.abc import Iterator

import pytest

from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.client import Client
from pyspark_pravega.registry import SchemaRegistry
from pyspark_pravega.sandbox import Sandbox
from pyspark_pravega.settings import Settings


@pytest.fixture(scope="session")
def settings(sandbox: Sandbox) -> Settings:
    return Settings(
        controller_uri=sandbox.controller_uri, schema_registry_uri=sandbox.schema_registry_uri, timeout=30.0
    )


@pytest.fixture(scope="session")
def catalog(settings: Settings) -> Catalog:
    return Catalog(settings)


@pytest.fixture(scope="session")
def client(catalog: Catalog) -> Client:
    return catalog.client


@pytest.fixture(scope="session")
def registry(settings: Settings) -> Iterator[SchemaRegistry]:
    assert settings.schema_registry_uri
    with SchemaRegistry(settings.schema_registry_uri, timeout=30) as connected:
        yield connected


@pytest.fixture
def scope(client: Client) -> str:
    """A scope of the test's own."""
    name = f"test-{uuid.uuid4().hex[:12]}"
    client.controller.create_scope(name)
    return name
