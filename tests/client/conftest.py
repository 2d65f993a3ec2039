"""A connected client for all tests of this folder, and a scope for each one."""

import os
import uuid
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings

from pyspark_pravega.client import Client
from pyspark_pravega.sandbox import Sandbox
from pyspark_pravega.settings import Settings

hypothesis_settings.register_profile(
    "patient",
    deadline=None,
    max_examples=int(os.environ.get("HYPOTHESIS_EXAMPLES", "100")),
    suppress_health_check=[HealthCheck.too_slow],
)
hypothesis_settings.load_profile("patient")


@pytest.fixture(scope="session")
def settings(sandbox: Sandbox) -> Settings:
    return Settings.resolve({"controller": sandbox.controller_uri, "timeout": "30"}, environ={})


@pytest.fixture(scope="session")
def client(settings: Settings) -> Iterator[Client]:
    with Client(settings) as connected:
        yield connected


@pytest.fixture
def scope(client: Client) -> str:
    """A scope of the test's own."""
    name = f"test-{uuid.uuid4().hex[:12]}"
    client.controller.create_scope(name)
    return name
