"""ALTER TABLE when a server fails in the middle: what queries see changes last, and the statement can be run again."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NoReturn

import grpc
import pytest
from answering_proxy import AnsweringProxy
from catalog_tools import insert, make
from pyspark.sql.types import LongType

from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.catalog.ddl import AddColumn, DeleteColumn, SetProperty, TableChange, UpdateColumnDefaultValue
from pyspark_pravega.client import Stream, StreamConfiguration
from pyspark_pravega.connector.log import Ledger
from pyspark_pravega.errors import PravegaError, SegmentStoreUnavailableError
from pyspark_pravega.registry import SchemaRegistry
from pyspark_pravega.settings import Settings

pytestmark = pytest.mark.server

AVRO_TEXT = json.dumps({"type": "record", "name": "E", "namespace": "x", "fields": [{"name": "id", "type": "long"}]})


def setting(**properties: str) -> list[SetProperty]:
    return [SetProperty(property=key.replace("__", ".").replace("_", "-"), value=properties[key]) for key in properties]


def failing(of: type, name: str, patch: pytest.MonkeyPatch, *, behind: int = 0) -> None:
    """Let all calls of a method fail but for the first ones."""
    calls, real = 0, getattr(of, name)

    def fail(*arguments: object, **more: object) -> object:
        nonlocal calls
        calls += 1
        return real(*arguments, **more) if calls <= behind else down()

    patch.setattr(of, name, fail)


def down() -> NoReturn:
    raise SegmentStoreUnavailableError("it is down")


def fails(catalog: Catalog, scope: str, table: str, changes: Sequence[TableChange]) -> None:
    with pytest.raises(PravegaError):
        catalog.altering.alter([scope], table, changes)


PROPERTIES = setting(tags="new", compatibility="Full", team__owner="us", mode="permissive")


@pytest.mark.parametrize("step", ["controller", "registry", "log"])
def test_properties_change_from_the_stream_to_what_queries_see(
    settings: Settings, scope: str, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    with AnsweringProxy(settings.controllers[0]) as proxy:
        catalog = Catalog(replace(settings, controller_uri=proxy.uri, timeout=3.0))
        stream = make(catalog, scope, tags="old")
        before = catalog.definition(stream, age_s=0)
        with monkeypatch.context() as broken:
            if step == "controller":
                proxy.substitute("updateStream", grpc.StatusCode.UNAVAILABLE, times=1 << 30, done=False)
            elif step == "registry":
                failing(SchemaRegistry, "update_compatibility", broken)
            else:
                failing(Ledger, "change_properties", broken)
            fails(catalog, scope, "t", PROPERTIES)
            proxy.substitute("updateStream", grpc.StatusCode.UNAVAILABLE, times=0)
        seen = catalog.definition(stream, age_s=0)
        assert (seen.properties, seen.schema, seen.mode) == (before.properties, before.schema, before.mode)
        assert seen.compatibility == ("Full" if step == "log" else "Backward")
        assert seen.configuration.tags == (("old",) if step == "controller" else ("new",))
        after = catalog.altering.alter([scope], "t", PROPERTIES)
        assert (after.configuration.tags, after.compatibility, after.mode) == (("new",), "Full", "permissive")
        assert after.properties["team.owner"] == "us"


FIRST = setting(tags="new", format="avro", schema=AVRO_TEXT, compatibility="Full", team__owner="us", routing_key="id")


def _no_group(patch: pytest.MonkeyPatch) -> None:
    failing(SchemaRegistry, "create_group", patch)


def _no_schema(patch: pytest.MonkeyPatch) -> None:
    failing(SchemaRegistry, "add_schema", patch)


def _no_format(patch: pytest.MonkeyPatch) -> None:
    failing(Ledger, "change_properties", patch)


def _no_properties(patch: pytest.MonkeyPatch) -> None:
    failing(Ledger, "change_properties", patch, behind=1)


@pytest.mark.parametrize("breaks", [_no_group, _no_schema, _no_format, _no_properties])
@pytest.mark.parametrize("before", [None, "string"])
@pytest.mark.in_turn
def test_a_first_schema_is_given_by_the_statement_that_is_run_again(
    catalog: Catalog,
    scope: str,
    monkeypatch: pytest.MonkeyPatch,
    breaks: Callable[[pytest.MonkeyPatch], None],
    before: str | None,
) -> None:
    stream = Stream(scope, "theirs")
    catalog.client.controller.create_stream(stream, StreamConfiguration())
    if before is not None:
        catalog.altering.alter([scope], "theirs", setting(format=before))
    with monkeypatch.context() as broken:
        breaks(broken)
        fails(catalog, scope, "theirs", FIRST)
    assert catalog.definition(stream, age_s=0).routing_key is None
    after = catalog.altering.alter([scope], "theirs", FIRST)
    assert (after.configuration.tags, after.format, after.compatibility) == (("new",), "avro", "Full")
    assert (after.schema.names, after.routing_key, after.properties["team.owner"]) == (["id"], "id", "us")
    assert after.properties.get("format", "avro") == "avro"
    altered = catalog.altering.alter([scope], "theirs", [AddColumn(column=("n",), type=LongType())])
    assert altered.schema.names == ["id", "n"]


@pytest.mark.parametrize("step", ["registry", "log"])
def test_a_column_is_added_by_the_statement_that_is_run_again(
    catalog: Catalog, scope: str, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    stream = make(catalog, scope)
    insert(catalog, stream, 1)
    change = AddColumn(column=("n",), type=LongType())
    with monkeypatch.context() as broken:
        if step == "registry":
            failing(SchemaRegistry, "add_schema", broken)
        else:
            failing(Ledger, "change_properties", broken)
        fails(catalog, scope, "t", [change])
    assert catalog.altering.alter([scope], "t", [change]).schema.names == ["id", "name", "n"]
    insert(catalog, stream, 2, n=[20])


def test_a_default_goes_with_its_column_also_when_the_log_fails(
    catalog: Catalog, scope: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(catalog, scope)
    catalog.altering.alter([scope], "t", [UpdateColumnDefaultValue(column=("name",), default="'x'")])
    with monkeypatch.context() as broken:
        failing(Ledger, "change_properties", broken, behind=2)
        fails(catalog, scope, "t", [DeleteColumn(column=("name",))])
    assert catalog.load_table([scope], "t", age_s=0).schema.names == ["id"]
    again = catalog.altering.alter([scope], "t", [AddColumn(column=("name",), type=LongType())])
    assert again.schema.names == ["id", "name"]
    assert again.properties.defaults == {}
