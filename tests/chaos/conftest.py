"""Servers for each module, a connected client, and a scope for each test."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from server_tools import checked_sandbox

from pyspark_pravega.client import Client
from pyspark_pravega.sandbox import Sandbox
from pyspark_pravega.settings import Settings


# Of a module: all that is written stays in a server's heap, and here much is written.
@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with checked_sandbox("4g") as running:
        yield running


@pytest.fixture(scope="module")
def settings(sandbox: Sandbox) -> Settings:
    return Settings.resolve({"controller": sandbox.controller_uri, "timeout": "30"}, environ={})


@pytest.fixture(scope="module")
def client(settings: Settings) -> Iterator[Client]:
    with Client(settings) as connected:
        yield connected


@pytest.fixture
def scope(client: Client) -> str:
    name = f"chaos-{uuid.uuid4().hex[:12]}"
    client.controller.create_scope(name)
    return name
