"""ALTER TABLE: columns become new versions of the schema, properties change what they are about."""

from __future__ import annotations

import json
from typing import Any

import pytest
from catalog_tools import COLUMNS, ids, insert, make, rows
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.catalog.ddl import (
    AddColumn,
    ClusterBy,
    DeleteColumn,
    RemoveProperty,
    SetProperty,
    TableChange,
    UpdateColumnType,
)
from pyspark_pravega.client import Client, ScalingPolicy, Stream, StreamConfiguration
from pyspark_pravega.connector.key_value import KEY_VALUE_PROPERTIES
from pyspark_pravega.connector.log.snapshot import take_snapshot
from pyspark_pravega.errors import (
    ConfigurationError,
    IncompatibleSchemaError,
    InvalidNameError,
    PravegaError,
    StreamSealedError,
    UnsupportedOperationError,
)
from pyspark_pravega.registry import SchemaRegistry

pytestmark = pytest.mark.server

AVRO_TEXT = json.dumps({"type": "record", "name": "E", "namespace": "x", "fields": [{"name": "id", "type": "long"}]})


def add(name: str, kind: Any = None, *, nullable: bool = True) -> AddColumn:
    return AddColumn(column=(name,), type=kind or StringType(), nullable=nullable)


def drop(name: str) -> DeleteColumn:
    return DeleteColumn(column=(name,))


def setting(**properties: str) -> list[SetProperty]:
    return [SetProperty(property=key.replace("_", "-"), value=value) for key, value in properties.items()]


def unsetting(*properties: str) -> list[RemoveProperty]:
    return [RemoveProperty(property=key.replace("_", "-")) for key in properties]


# Columns


def test_a_new_column_is_a_new_version_of_the_schema(catalog: Catalog, registry: SchemaRegistry, scope: str) -> None:
    stream = make(catalog, scope)
    insert(catalog, stream, 1)
    altered = catalog.altering.alter([scope], "t", [add("n", LongType())])
    assert altered.schema.fieldNames() == ["id", "name", "n"]
    insert(catalog, stream, 2, n=[20])
    assert rows(altered, take_snapshot(catalog.client, stream), "id", "n") == [(1, None), (2, 20)]
    assert [version.id for _, version in registry.schemas(scope, "t")] == [0, 1]


def test_columns_come_and_go_and_come_again(catalog: Catalog, registry: SchemaRegistry, scope: str) -> None:
    """The registry keeps one version of each schema, so the one that was there before is told from it."""
    make(catalog, scope)
    assert catalog.altering.alter([scope], "t", [add("n")]).schema.fieldNames() == ["id", "name", "n"]
    assert catalog.altering.alter([scope], "t", [drop("n")]).schema == COLUMNS
    assert catalog.altering.alter([scope], "t", [add("n")]).schema.fieldNames() == ["id", "name", "n"]
    assert len(registry.schemas(scope, "t")) == 4


@pytest.mark.parametrize(
    ("policy", "change", "what"),
    [
        ("DenyAll", add("n"), "no change at all"),
        ("Forward", drop("id"), "what lets the last schema read new events"),
        ("Full", drop("id"), "adding and dropping nullable columns"),
        ("ForwardTransitive", drop("id"), "and that with all earlier schemas"),
    ],
)
def test_a_refusal_says_which_rule(
    catalog: Catalog, registry: SchemaRegistry, scope: str, policy: str, change: TableChange, what: str
) -> None:
    columns = StructType([*COLUMNS, StructField("more", LongType())])
    catalog.tables.create([scope], "t", columns, [], {"compatibility": policy})
    with pytest.raises(IncompatibleSchemaError) as refused:
        catalog.altering.alter([scope], "t", [change])
    assert f"is {policy}, which forbids this change: it allows " in str(refused.value)
    assert what in str(refused.value)
    assert catalog.load_table([scope], "t", age_s=0).schema == columns
    assert len(registry.schemas(scope, "t")) == 1


def test_events_that_are_there_stay_readable_under_any_policy(catalog: Catalog, scope: str) -> None:
    make(catalog, scope, compatibility="AllowAny")
    change = UpdateColumnType(column=("name",), type=IntegerType())
    with pytest.raises(UnsupportedOperationError, match="couldn't be read any more"):
        catalog.altering.alter([scope], "t", [change])


def test_the_routing_key_stays(catalog: Catalog, scope: str) -> None:
    make(catalog, scope)
    with pytest.raises(UnsupportedOperationError, match='"id" is the routing key'):
        catalog.altering.alter([scope], "t", [drop("id")])
    catalog.altering.alter([scope], "t", setting(routing_key="name"))
    assert catalog.altering.alter([scope], "t", [drop("id")]).schema.fieldNames() == ["name"]


@pytest.mark.parametrize("table_format", ["json", "protobuf"])
def test_columns_of_other_formats(catalog: Catalog, scope: str, table_format: str) -> None:
    stream = make(catalog, scope, format=table_format)
    insert(catalog, stream, 1)
    altered = catalog.altering.alter([scope], "t", [add("n", LongType()), drop("name")])
    assert altered.schema.fieldNames() == ["id", "n"]
    assert rows(altered, take_snapshot(catalog.client, stream), "id", "n") == [(1, None)]


# Properties


def test_properties_of_the_stream_change_its_configuration(catalog: Catalog, client: Client, scope: str) -> None:
    stream = make(catalog, scope)
    catalog.altering.alter([scope], "t", setting(segments="3", retention="7 days", tags="b, a"))
    configuration = client.controller.stream_configuration(stream)
    assert len(client.controller.current_segments(stream).ids) == 3
    assert configuration.tags == ("a", "b")
    assert configuration.retention is not None
    assert configuration.retention.minimum == 7 * 86_400_000
    catalog.altering.alter([scope], "t", setting(scaling="100 events/s"))
    policy = client.controller.stream_configuration(stream).scaling
    assert policy == ScalingPolicy.by_events_per_second(100, min_segments=3)
    altered = catalog.altering.alter([scope], "t", unsetting("retention", "tags", "scaling"))
    assert altered.configuration.retention is None
    assert altered.configuration.tags == ()
    assert altered.configuration.scaling == ScalingPolicy.fixed(3)


def test_properties_of_the_table_are_kept_beside_the_stream(catalog: Catalog, scope: str) -> None:
    make(catalog, scope)
    changes = [
        SetProperty(property="team.owner", value="us"),
        SetProperty(property="comment", value="all of it"),
        *setting(compression="gzip", mode="permissive"),
    ]
    altered = catalog.altering.alter([scope], "t", changes)
    assert altered.mode == "permissive"
    kept = {"team.owner": "us", "comment": "all of it", "compression": "gzip", "mode": "permissive"}
    assert altered.properties == {"format": "avro", "routing-key": "id", **kept}
    altered = catalog.altering.alter([scope], "t", unsetting("team.owner", "comment", "compression", "mode"))
    assert altered.properties == {"format": "avro", "routing-key": "id"}


@pytest.mark.parametrize("name", ["routing.key", "Routing_Key", "routing-key"])
def test_a_name_is_removed_in_each_spelling_in_which_it_can_be_set(catalog: Catalog, scope: str, name: str) -> None:
    catalog.tables.create([scope], "t", COLUMNS, [], {})
    assert catalog.altering.alter([scope], "t", [SetProperty(property=name, value="id")]).routing_key == "id"
    assert catalog.altering.alter([scope], "t", [RemoveProperty(property=name)]).routing_key is None


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"operation_column": "op", "delete_values": " , "}, '"delete-values" .* must name texts'),
        ({"operation_column": "op", "upsert_value": "delete"}, '"upsert-value" .* can\'t be "delete"'),
        ({"operation_column": "op", "delete_values": "d, r", "upsert_value": "r"}, '"upsert-value" .* can\'t be "r"'),
        ({"operation_column": "before"}, '"delete-values" .* can\'t be "delete": .* is struct'),
        ({"operation_column": "n", "delete_values": "1,d"}, '"delete-values" .* can\'t be "d": field "n",.* is int'),
        ({"operation_column": "n", "delete_values": "1", "upsert_value": "u"}, '"upsert-value" .* can\'t be "u"'),
        ({"deleted_row_column": "before"}, 'goes with "row-column"'),
    ],
)
def test_properties_of_a_key_without_a_meaning_are_refused(
    catalog: Catalog, scope: str, properties: dict[str, str], message: str
) -> None:
    others = [StructField("op", StringType()), StructField("n", IntegerType()), StructField("before", COLUMNS)]
    columns = StructType([*COLUMNS, *others])
    catalog.tables.create([scope], "t", columns, [], {"routing-key": "id"})
    before = catalog.load_table([scope], "t", age_s=0)
    with pytest.raises(ConfigurationError, match=message):
        catalog.altering.alter([scope], "t", setting(primary_key="id", **properties))
    after = catalog.load_table([scope], "t", age_s=0)
    assert (after.properties, after.schema) == (before.properties, before.schema)


def test_the_policy_is_the_group_s(catalog: Catalog, registry: SchemaRegistry, scope: str) -> None:
    make(catalog, scope)
    assert catalog.altering.alter([scope], "t", setting(compatibility="Full")).compatibility == "Full"
    assert registry.group(scope, "t").compatibility == "Full"
    catalog.altering.alter([scope], "t", unsetting("compatibility"))
    assert registry.group(scope, "t").compatibility == "Backward"


def test_cluster_by_sets_the_routing_key(catalog: Catalog, scope: str) -> None:
    make(catalog, scope)
    assert catalog.altering.alter([scope], "t", [ClusterBy(columns=("name",))]).routing_key == "name"
    assert catalog.altering.alter([scope], "t", [ClusterBy(columns=())]).routing_key is None


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        (setting(retenton="1 day"), ConfigurationError, 'unknown table property "retenton"; did you mean "retention"?'),
        (setting(retention="soon"), ConfigurationError, '"retention" must be a time or a size'),
        (setting(routing_key="nam"), InvalidNameError, '"nam" is not a column; did you mean "name"?'),
        (setting(compatibility="Ful"), ConfigurationError, 'can\'t be "Ful"; did you mean "Full"?'),
        (setting(mode="lazy"), ConfigurationError, '"mode" must be one of'),
        (setting(schema_type="no.such"), ConfigurationError, 'no events of type "no.such"'),
        (setting(schema_type=""), ConfigurationError, 'no events of type ""'),
        (setting(format="json"), UnsupportedOperationError, "are avro, and will stay so"),
        (setting(schema=AVRO_TEXT), ConfigurationError, "has a schema already"),
        (setting(codec="x"), ConfigurationError, "it can't be set"),
        (setting(location="/x"), UnsupportedOperationError, "has no location"),
        ([ClusterBy(columns=("id", "name"))], UnsupportedOperationError, "a routing key is one column"),
    ],
)
def test_what_is_wrong_is_refused_and_changes_nothing(
    catalog: Catalog, scope: str, changes: list[TableChange], error: type[PravegaError], message: str
) -> None:
    make(catalog, scope)
    before = catalog.load_table([scope], "t", age_s=0)
    # A definition asks for these when they are wanted.
    known = (before.properties, before.configuration, before.compatibility)
    with pytest.raises(error) as refused:
        catalog.altering.alter([scope], "t", [*setting(tags="x"), *changes])
    assert message in str(refused.value)
    after = catalog.load_table([scope], "t", age_s=0)
    assert (after.properties, after.configuration, after.compatibility) == known


def test_what_a_sealed_stream_refuses_changes_nothing(catalog: Catalog, scope: str) -> None:
    stream = make(catalog, scope)
    catalog.client.controller.seal_stream(stream)
    changes = [*setting(compatibility="Full", retention="1 day"), SetProperty(property="team.owner", value="us")]
    with pytest.raises(StreamSealedError, match="it can't be updated any more"):
        catalog.altering.alter([scope], "t", changes)
    after = catalog.load_table([scope], "t", age_s=0)
    assert after.compatibility == "Backward"
    assert after.properties == {"format": "avro", "routing-key": "id"}


@pytest.mark.parametrize("header", ["true", "false"])
def test_what_create_table_settles_of_a_key_value_table_stays(catalog: Catalog, scope: str, header: str) -> None:
    made = {"table-type": "key-value", "primary-key": "id", "format": "json", "encoding-header": header}
    catalog.relations.create([scope], "kv", COLUMNS, [], made)
    before = catalog.relation([scope], "kv", age_s=0)
    for name in KEY_VALUE_PROPERTIES - {"isolation-level"}:
        with pytest.raises(ConfigurationError, match=f'"{name}" of key-value table .* is settled by CREATE TABLE'):
            catalog.relations.alter([scope], "kv", [RemoveProperty(property=name)])
    after = catalog.relation([scope], "kv", age_s=0)
    assert (after.properties, after.schema) == (before.properties, before.schema)


def test_a_table_isn_t_renamed(catalog: Catalog, scope: str) -> None:
    make(catalog, scope)
    with pytest.raises(UnsupportedOperationError, match="can't be renamed: create a new table AS SELECT"):
        catalog.relations.rename([scope], "t")


# Streams that others have made


def others(catalog: Catalog, scope: str) -> Stream:
    stream = Stream(scope, "theirs")
    catalog.client.controller.create_stream(stream, StreamConfiguration())
    return stream


def test_a_stream_of_others_is_raw_and_can_be_text(catalog: Catalog, scope: str) -> None:
    others(catalog, scope)
    assert catalog.load_table([scope], "theirs").format == "raw"
    assert catalog.altering.alter([scope], "theirs", setting(format="string")).schema["event"].dataType == StringType()
    assert catalog.altering.alter([scope], "theirs", unsetting("format")).format == "raw"
    with pytest.raises(UnsupportedOperationError, match="give it a schema with CALL register_schema"):
        catalog.altering.alter([scope], "theirs", [add("x")])


def test_a_property_gives_a_stream_its_schema(catalog: Catalog, registry: SchemaRegistry, scope: str) -> None:
    stream = others(catalog, scope)
    with pytest.raises(ConfigurationError, match="has no schema yet, and format avro needs one: CALL register_schema"):
        catalog.altering.alter([scope], "theirs", setting(format="avro"))
    altered = catalog.altering.alter([scope], "theirs", setting(format="avro", schema=AVRO_TEXT, compatibility="Full"))
    assert altered.schema == StructType([StructField("id", LongType(), False)])
    assert registry.group(scope, "theirs").compatibility == "Full"
    assert registry.schemas(scope, "theirs")[0][0].type == "x.E"
    assert catalog.load_table([scope], "theirs", age_s=0).properties == {"format": "avro"}
    assert ids(catalog, stream) == []


def test_a_schema_that_can_t_be_a_table_s_leaves_nothing_behind(catalog: Catalog, scope: str) -> None:
    stream = others(catalog, scope)
    for wrong in (
        '{"type": "nope"}',
        "{",
        '{"type": "record", "name": "x", "fields": [{"name": "a", "type": "nope"}]}',
    ):
        with pytest.raises(PravegaError):
            catalog.schemas.register(stream, table_format="avro", text=wrong)
    assert catalog.load_table([scope], "theirs", age_s=0).format == "raw"
