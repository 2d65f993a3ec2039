"""A client for all tests of this folder, and a scope for each one."""

import uuid

import pytest

from pyspark_pravega.client import Client
from pyspark_pravega.connector.shared import shared_client
from pyspark_pravega.sandbox import Sandbox
from pyspark_pravega.settings import Settings


@pytest.fixture(scope="session")
def settings(sandbox: Sandbox) -> Settings:
    return Settings(
        controller_uri=sandbox.controller_uri, schema_registry_uri=sandbox.schema_registry_uri, timeout=30.0
    )


@pytest.fixture(scope="session")
def client(settings: Settings) -> Client:
    return shared_client(settings)


@pytest.fixture
def scope(client: Client) -> str:
    """A scope of the test's own."""
    name = f"test-{uuid.uuid4().hex[:12]}"
    client.controller.create_scope(name)
    return name
