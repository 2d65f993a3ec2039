"""Scopes as namespaces and streams as tables: made whole or not at all, and gone without a trace."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from pyspark.sql.types import BinaryType, CalendarIntervalType, LongType, StringType, StructField, StructType

from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.catalog.ddl import Bucket
from pyspark_pravega.catalog.statements import tables
from pyspark_pravega.client import Client, Stream, StreamConfiguration
from pyspark_pravega.connector.log import claim_ledger, open_ledger
from pyspark_pravega.errors import (
    ConfigurationError,
    ControllerUnavailableError,
    GroupNotFoundError,
    InvalidNameError,
    PravegaError,
    RegistryUnavailableError,
    SchemaError,
    ScopeExistsError,
    ScopeNotEmptyError,
    ScopeNotFoundError,
    StreamExistsError,
    StreamNotFoundError,
    UnsupportedTypeError,
)
from pyspark_pravega.registry import SchemaInfo, SchemaRegistry
from pyspark_pravega.settings import Settings

pytestmark = pytest.mark.server

COLUMNS = StructType([StructField("id", LongType(), False), StructField("name", StringType(), True)])
EVENT = StructType([StructField("event", BinaryType(), False)])


def group_exists(registry: SchemaRegistry, stream: Stream) -> bool:
    try:
        registry.group(stream.scope, stream.name)
    except GroupNotFoundError:
        return False
    return True


def traces(client: Client, registry: SchemaRegistry, stream: Stream) -> list[str]:
    """What there is of a table."""
    left = []
    if stream.name in client.controller.list_streams(stream.scope):
        left.append("stream")
    if open_ledger(client, stream) is not None:
        left.append("ledger")
    if group_exists(registry, stream):
        left.append("group")
    return left


# Namespaces


def test_a_namespace_is_made_listed_and_dropped(catalog: Catalog) -> None:
    name = f"test_{uuid.uuid4().hex[:12]}"
    catalog.namespaces.create([name])
    assert name in catalog.namespaces.names()
    assert catalog.namespaces.names() == sorted(catalog.namespaces.names())
    assert catalog.namespaces.properties([name]) == {"scope": name.replace("_", "-")}
    with pytest.raises(ScopeExistsError, match="exists already"):
        catalog.namespaces.create([name.replace("_", "-")])
    assert catalog.namespaces.drop([name], cascade=False) is True
    assert catalog.namespaces.drop([name], cascade=False) is False
    with pytest.raises(ScopeNotFoundError):
        catalog.namespaces.properties([name])


def test_a_namespace_with_tables_is_dropped_only_with_cascade(catalog: Catalog, scope: str) -> None:
    for table in ("a", "b"):
        catalog.tables.create([scope], table, COLUMNS, [], {})
    with pytest.raises(ScopeNotEmptyError, match="still holds 2 streams: drop them first, or use CASCADE"):
        catalog.namespaces.drop([scope], cascade=False)
    assert catalog.relations.names([scope]) == ["a", "b"]
    assert catalog.namespaces.drop([scope], cascade=True) is True
    assert not catalog.client.controller.scope_exists(scope)


def test_cascade_drops_streams_that_others_made_too(catalog: Catalog, client: Client, scope: str) -> None:
    client.controller.create_stream(Stream(scope, "theirs"), StreamConfiguration())
    sealed = Stream(scope, "sealed")
    client.controller.create_stream(sealed, StreamConfiguration())
    client.controller.seal_stream(sealed)
    assert catalog.namespaces.drop([scope], cascade=True) is True


def test_a_namespace_whose_tables_were_deleted_by_other_means_can_be_dropped(
    catalog: Catalog, client: Client, scope: str
) -> None:
    catalog.tables.create([scope], "t", COLUMNS, [], {})
    client.controller.seal_stream(Stream(scope, "t"))
    client.controller.delete_stream(Stream(scope, "t"))
    assert catalog.namespaces.drop([scope], cascade=True) is True


# Tables


def test_a_table_is_made_of_a_stream_a_group_and_a_log(
    catalog: Catalog, client: Client, registry: SchemaRegistry, scope: str
) -> None:
    definition = catalog.tables.create(
        [scope], "all_orders", COLUMNS, [Bucket(columns=("id",), buckets=3)], {"compatibility": "Full"}
    )
    stream = Stream(scope, "all-orders")
    assert definition.stream == stream
    assert traces(client, registry, stream) == ["stream", "ledger", "group"]
    assert registry.group(scope, "all-orders").compatibility == "Full"
    assert len(client.controller.current_segments(stream).ids) == 3
    assert catalog.relations.names([scope]) == ["all_orders"]
    for spelling in ("all_orders", "all-orders"):
        assert catalog.load_table([scope.replace("-", "_")], spelling).schema == COLUMNS


def test_a_raw_table_has_no_group(catalog: Catalog, client: Client, registry: SchemaRegistry, scope: str) -> None:
    catalog.tables.create([scope], "t", EVENT, [], {"format": "raw"})
    assert traces(client, registry, Stream(scope, "t")) == ["stream", "ledger"]
    assert catalog.load_table([scope], "t").schema == EVENT


def test_a_dropped_table_leaves_no_trace(
    catalog: Catalog, client: Client, registry: SchemaRegistry, scope: str
) -> None:
    catalog.tables.create([scope], "t", COLUMNS, [], {})
    assert catalog.relations.drop([scope], "t") is True
    assert traces(client, registry, Stream(scope, "t")) == []
    assert catalog.relations.drop([scope], "t") is False
    with pytest.raises(StreamNotFoundError):
        catalog.load_table([scope], "t")
    assert catalog.tables.create([scope], "t", EVENT, [], {"format": "raw"}).schema == EVENT


def test_a_table_that_is_there_is_not_made_again(
    catalog: Catalog, client: Client, registry: SchemaRegistry, scope: str
) -> None:
    catalog.tables.create([scope], "t", COLUMNS, [], {"team.owner": "us"})
    with pytest.raises(StreamExistsError, match=f'stream "{scope}/t" exists already'):
        catalog.tables.create([scope], "t", EVENT, [], {"format": "raw"})
    assert catalog.load_table([scope], "t").schema == COLUMNS
    assert catalog.load_table([scope], "t").properties["team.owner"] == "us"
    assert traces(client, registry, Stream(scope, "t")) == ["stream", "ledger", "group"]


def test_of_many_who_create_a_table_at_once_one_has_made_it_and_it_is_whole(
    catalog: Catalog, client: Client, registry: SchemaRegistry, scope: str
) -> None:
    def create(number: int) -> bool:
        try:
            catalog.tables.create([scope], "t", COLUMNS, [], {"team.number": str(number)})
        except PravegaError:
            return False
        return True

    with ThreadPoolExecutor(4) as threads:
        successes = list(threads.map(create, range(4)))
    assert successes.count(True) == 1
    assert traces(client, registry, Stream(scope, "t")) == ["stream", "ledger", "group"]
    table = catalog.load_table([scope], "t")
    assert table.schema == COLUMNS
    assert table.properties["team.number"] == str(successes.index(True))


def test_a_table_is_made_over_the_log_of_a_stream_that_others_deleted(
    catalog: Catalog, client: Client, scope: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It could be that of a table that is just being made: that is waited for, for half a minute and here less."""
    monkeypatch.setattr(tables, "CLAIM_S", 1.0)
    stream = Stream(scope, "t")
    ledger = claim_ledger(client, stream)
    assert ledger is not None
    ledger.set_properties({"format": "raw", "routing-key": "old"})
    definition = catalog.tables.create([scope], "t", COLUMNS, [], {})
    assert definition.properties == {"format": "avro"}
    assert definition.routing_key is None


# Failures leave nothing


def test_in_a_scope_that_is_not_there_nothing_is_made(catalog: Catalog, registry: SchemaRegistry) -> None:
    stream = Stream(f"test-{uuid.uuid4().hex[:12]}", "t")
    with pytest.raises(ScopeNotFoundError, match=f'scope "{stream.scope}" does not exist'):
        catalog.tables.create([stream.scope], "t", COLUMNS, [], {})
    assert not group_exists(registry, stream)
    with pytest.raises(ScopeNotFoundError):
        catalog.relations.names([stream.scope])


@pytest.mark.parametrize(
    ("schema", "properties", "kind"),
    [
        (StructType([StructField("ä", LongType())]), {"format": "protobuf"}, UnsupportedTypeError),
        (COLUMNS, {"routing-key": "missing"}, InvalidNameError),
        (COLUMNS, {"format": "raw"}, ConfigurationError),
    ],
)
def test_a_request_that_is_refused_leaves_nothing(
    catalog: Catalog,
    client: Client,
    registry: SchemaRegistry,
    scope: str,
    schema: StructType,
    properties: dict[str, str],
    kind: type[PravegaError],
) -> None:
    with pytest.raises(kind):
        catalog.tables.create([scope], "t", schema, [], properties)
    assert traces(client, registry, Stream(scope, "t")) == []


def test_a_type_that_events_can_not_hold_leaves_nothing(
    catalog: Catalog, client: Client, registry: SchemaRegistry, scope: str
) -> None:
    with pytest.raises(UnsupportedTypeError):
        catalog.tables.create([scope], "t", StructType([StructField("i", CalendarIntervalType())]), [], {})
    assert traces(client, registry, Stream(scope, "t")) == []


def test_a_group_that_refuses_the_schema_stays_and_nothing_else_is_left(
    catalog: Catalog, client: Client, registry: SchemaRegistry, scope: str
) -> None:
    registry.create_group(scope, "t", compatibility="DenyAll")
    text = '{"type": "record", "name": "Other", "fields": []}'
    registry.add_schema(scope, "t", SchemaInfo(type="Other", serialization_format="Avro", schema_data=text.encode()))
    with pytest.raises(SchemaError):
        catalog.tables.create([scope], "t", COLUMNS, [], {})
    assert traces(client, registry, Stream(scope, "t")) == ["group"]


def test_a_group_of_another_format_refuses_the_table(
    catalog: Catalog, client: Client, registry: SchemaRegistry, scope: str
) -> None:
    registry.create_group(scope, "t", serialization_format="Json", compatibility="AllowAny")
    with pytest.raises(PravegaError):
        catalog.tables.create([scope], "t", COLUMNS, [], {})
    assert traces(client, registry, Stream(scope, "t")) == ["group"]


def test_a_registry_that_does_not_answer_leaves_nothing(
    settings: Settings, client: Client, registry: SchemaRegistry, scope: str
) -> None:
    away = Catalog(replace(settings, schema_registry_uri="http://127.0.0.1:1"))
    with pytest.raises(RegistryUnavailableError):
        away.tables.create([scope], "t", COLUMNS, [], {})
    assert traces(client, registry, Stream(scope, "t")) == []


def test_without_a_registry_only_raw_tables_can_be_made(settings: Settings, client: Client, scope: str) -> None:
    alone = Catalog(replace(settings, schema_registry_uri=None))
    with pytest.raises(ConfigurationError, match="a table with columns needs a schema registry: set schema-registry-u"):
        alone.tables.create([scope], "t", COLUMNS, [], {})
    assert list(client.controller.list_streams(scope)) == []
    assert alone.tables.create([scope], "t", EVENT, [], {"format": "raw"}).format == "raw"
    assert alone.relations.drop([scope], "t") is True


def test_a_cluster_that_does_not_answer_is_named(settings: Settings) -> None:
    away = Catalog(replace(settings, controller_uri="tcp://127.0.0.1:1", timeout=5.0))
    with pytest.raises(ControllerUnavailableError, match=r"no Pravega controller answers at tcp://127\.0\.0\.1:1"):
        away.namespaces.names()
