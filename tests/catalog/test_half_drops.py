"""A DROP that is interrupted can be done again, and a CREATE isn't kept by what is left of another table."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from catalog_tools import insert, make
from pyspark.sql.types import StringType, StructField, StructType

from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.catalog.statements import tables
from pyspark_pravega.client import Client
from pyspark_pravega.connector.log import delete_ledger, open_ledger
from pyspark_pravega.errors import GroupNotFoundError, RegistryUnavailableError
from pyspark_pravega.registry import SchemaRegistry
from pyspark_pravega.settings import Settings

pytestmark = pytest.mark.server

OTHER = StructType([StructField("id", StringType(), False)])


def registry_process(settings: Settings) -> int:
    """The process that listens where the registry is."""
    assert settings.schema_registry_uri
    port = f":{int(settings.schema_registry_uri.rpartition(':')[2]):04X}"
    lines = [line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()]
    (inode,) = {line[9] for line in lines if line[1].endswith(port) and line[3] == "0A"}
    for descriptor in Path("/proc").glob("[0-9]*/fd/*"):
        try:
            if os.readlink(descriptor) == f"socket:[{inode}]":
                return int(descriptor.parts[2])
        except OSError:
            continue
    raise AssertionError("nobody listens there")


def test_a_drop_without_an_answer_of_the_registry_is_done_again(
    settings: Settings, client: Client, registry: SchemaRegistry, scope: str
) -> None:
    """The stream was gone, SQL couldn't drop the rest, and a CREATE with other types failed each time."""
    patient, catalog = Catalog(settings), Catalog(replace(settings, timeout=2.0))
    stream = make(patient, scope)
    insert(patient, stream, 1, 2)
    process = registry_process(settings)
    os.kill(process, signal.SIGSTOP)
    try:
        with pytest.raises(RegistryUnavailableError):
            catalog.drop_table([scope], "t")
        assert stream.name in client.controller.list_streams(scope)
        assert open_ledger(client, stream) is not None
    finally:
        os.kill(process, signal.SIGCONT)
    assert patient.drop_table([scope], "t") is True
    assert stream.name not in client.controller.list_streams(scope)
    assert open_ledger(client, stream) is None
    with pytest.raises(GroupNotFoundError):
        registry.group(scope, "t")
    assert patient.create_table([scope], "t", OTHER, [], {}).schema == OTHER


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_a_drop_goes_on_where_another_one_has_died(
    catalog: Catalog, client: Client, registry: SchemaRegistry, scope: str, steps: int
) -> None:
    stream = make(catalog, scope)
    insert(catalog, stream, 1, 2)
    done: list[Callable[[], object]] = [
        lambda: registry.delete_group(scope, "t"),
        lambda: client.controller.seal_stream(stream),
        lambda: delete_ledger(client, stream),
    ]
    for step in done[:steps]:
        step()
    catalog.forget(stream)
    assert catalog.list_tables([scope]) == ["t"]
    assert catalog.drop_table([scope], "t") is True
    assert catalog.create_table([scope], "t", OTHER, [], {}).schema == OTHER


def test_what_is_left_of_a_table_whose_stream_is_gone_keeps_no_other_from_being_made(
    catalog: Catalog, client: Client, scope: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Longer than a test may take: versions show that nobody is making the table just now.
    monkeypatch.setattr(tables, "CLAIM_S", 3000.0)
    stream = make(catalog, scope)
    insert(catalog, stream, 1, 2)
    client.controller.delete_stream(stream, seal=True)
    catalog.forget(stream)
    assert catalog.create_table([scope], "t", OTHER, [], {}).schema == OTHER
    ledger = open_ledger(client, stream)
    assert ledger is not None
    assert ledger.state().version == 0
