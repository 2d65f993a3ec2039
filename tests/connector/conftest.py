"""What several files of the connector's tests begin with."""

from __future__ import annotations

import pytest
from client_tools import make_stream
from connector_tools import raw_table

from pyspark_pravega.client import Client, Stream
from pyspark_pravega.connector.table.definition import TableDefinition
from pyspark_pravega.settings import Settings


@pytest.fixture
def stream(client: Client, scope: str) -> Stream:
    return make_stream(client, scope, "t")


@pytest.fixture
def table(client: Client, settings: Settings, scope: str) -> TableDefinition:
    """A stream of raw events."""
    return raw_table(client, settings, scope)
