"""A connected client, and a scope for each test."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from pyspark_pravega.client import Client
from pyspark_pravega.sandbox import Sandbox
from pyspark_pravega.settings import Settings


@pytest.fixture(scope="session")
def settings(sandbox: Sandbox) -> Settings:
    return Settings.resolve({"controller": sandbox.controller_uri, "timeout": "30"}, environ={})


@pytest.fixture(scope="session")
def client(settings: Settings) -> Iterator[Client]:
    with Client(settings) as connected:
        yield connected


@pytest.fixture
def scope(client: Client) -> str:
    name = f"chaos-{uuid.uuid4().hex[:12]}"
    client.controller.create_scope(name)
    return name
