"""Comments, properties and views: what a namespace holds beside streams."""

from __future__ import annotations

import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from catalog_tools import COLUMNS, make
from client_tools import break_creation
from pyspark.sql.types import StructType

from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.catalog.ddl import RemoveProperty, SetProperty
from pyspark_pravega.catalog.statements import View
from pyspark_pravega.client import Client
from pyspark_pravega.client.key_value import creation
from pyspark_pravega.client.reader_groups import ReaderGroup, ReaderGroupStream
from pyspark_pravega.connector.stream.consumption import Subscription
from pyspark_pravega.errors import (
    ScopeNotEmptyError,
    ScopeNotFoundError,
    StreamExistsError,
    UnsupportedOperationError,
    ViewExistsError,
    ViewNotFoundError,
)
from pyspark_pravega.together import together

pytestmark = pytest.mark.server
VIEW = View(
    query="SELECT 1", schema="{}", properties={}, catalog=None, current=[], configuration={}, mode=None, columns=["a"]
)


def set_property(name: str, value: str) -> SetProperty:
    return SetProperty(property=name, value=value)


def store(catalog: Catalog, scope: str, name: str, definition: View = VIEW, **how: bool) -> None:
    catalog.views.store([scope], name, definition, **{"create": True, "replace": False, **how})


def test_a_namespace_keeps_its_comment_and_properties(catalog: Catalog) -> None:
    name = f"test-{uuid.uuid4().hex[:12]}"
    catalog.namespaces.create([name], {"comment": "ours", "team": "us", "owner": "me"})
    assert catalog.namespaces.properties([name]) == {"scope": name, "comment": "ours", "team": "us"}
    catalog.namespaces.alter([name], [set_property("team", "them"), RemoveProperty(property="comment")])
    assert catalog.namespaces.properties([name]) == {"scope": name, "team": "them"}
    assert catalog.namespaces.drop([name], cascade=False)
    catalog.namespaces.create([name])
    assert catalog.namespaces.properties([name]) == {"scope": name}
    catalog.namespaces.drop([name], cascade=False)


def test_a_namespace_s_properties_are_new_at_once_where_they_were_changed(catalog: Catalog, scope: str) -> None:
    """They are kept for a moment, because Spark asks for them again and again; others look at them all the time."""
    over = threading.Event()

    def look() -> None:
        while not over.is_set():
            catalog.namespaces.properties([scope])

    with ThreadPoolExecutor(2) as others:
        looking = [others.submit(look) for _ in range(2)]
        try:
            for number in range(40):
                catalog.namespaces.alter([scope], [set_property("n", str(number))])
                assert catalog.namespaces.properties([scope])["n"] == str(number)
        finally:
            over.set()
        for one in looking:
            one.result()
    catalog.namespaces.drop([scope], cascade=True)
    with pytest.raises(ScopeNotFoundError):
        catalog.namespaces.properties([scope])
    catalog.namespaces.create([scope], {"n": "new"})
    assert catalog.namespaces.properties([scope])["n"] == "new"


def test_a_namespace_has_no_location_and_no_other_name(catalog: Catalog, scope: str) -> None:
    name = f"test-{uuid.uuid4().hex[:12]}"
    with pytest.raises(UnsupportedOperationError, match="a Pravega scope has no location: leave LOCATION out"):
        catalog.namespaces.create([name], {"location": "/x"})
    assert not catalog.client.controller.scope_exists(name)
    with pytest.raises(UnsupportedOperationError, match="a scope can't be renamed"):
        catalog.namespaces.alter([scope], [set_property("scope", "x")])
    with pytest.raises(ScopeNotFoundError):
        catalog.namespaces.alter([name], [set_property("a", "b")])


def test_a_view_is_made_replaced_renamed_and_dropped(catalog: Catalog, scope: str) -> None:
    store(catalog, scope, "my_view")
    assert catalog.views.names([scope]) == ["my_view"]
    assert catalog.views.load([scope], "my-view") == VIEW
    with pytest.raises(ViewExistsError):
        store(catalog, scope, "my_view")
    store(catalog, scope, "my_view", replace(VIEW, query="SELECT 2"), replace=True)
    assert catalog.views.load([scope], "my_view").query == "SELECT 2"
    catalog.views.rename([scope], "my_view", [], "other")
    assert catalog.views.names([scope]) == ["other"]
    assert catalog.views.drop([scope], "other") is True
    assert catalog.views.drop([scope], "other") is False
    assert catalog.views.names([scope]) == []


def test_views_that_aren_t_there(catalog: Catalog, scope: str) -> None:
    for call in (
        lambda: catalog.views.load([scope], "v"),
        lambda: store(catalog, scope, "v", create=False, replace=True),
        lambda: catalog.views.rename([scope], "v", [], "w"),
    ):
        with pytest.raises(ViewNotFoundError):
            call()
    assert list(catalog.client.controller.list_key_value_tables(scope)) == [], "looking makes nothing"
    with pytest.raises(ScopeNotFoundError):
        store(catalog, "test-nowhere", "v")


def test_views_and_tables_share_their_names(catalog: Catalog, scope: str) -> None:
    make(catalog, scope)
    store(catalog, scope, "v")
    with pytest.raises(StreamExistsError, match="a view needs another name"):
        store(catalog, scope, "t")
    with pytest.raises(StreamExistsError, match="a table needs another name"):
        catalog.tables.create([scope], "v", COLUMNS, [], {})
    with pytest.raises(StreamExistsError):
        catalog.views.rename([scope], "v", [], "t")
    assert catalog.relations.names([scope]) == ["t"]


def test_a_namespace_with_views_is_dropped_only_with_cascade(catalog: Catalog, scope: str) -> None:
    store(catalog, scope, "v")
    with pytest.raises(ScopeNotEmptyError, match="still holds 1 views: drop them first"):
        catalog.namespaces.drop([scope], cascade=False)
    assert catalog.namespaces.drop([scope], cascade=True)


def test_reader_groups_and_key_value_tables_go_with_their_namespace(catalog: Catalog, scope: str) -> None:
    controller, stream = catalog.client.controller, make(catalog, scope)
    controller.create_reader_group(ReaderGroup(scope=scope, name="audit", streams=(ReaderGroupStream(stream=stream),)))
    controller.create_key_value_table(scope, "theirs", partitions=1, key_bytes=8)
    assert catalog.relations.names([scope]) == ["t", "theirs"]
    held = "still holds 1 streams and 1 key-value tables and 1 reader groups: drop them first"
    with pytest.raises(ScopeNotEmptyError, match=held):
        catalog.namespaces.drop([scope], cascade=False)
    assert catalog.namespaces.drop([scope], cascade=True)
    assert not controller.scope_exists(scope)


def test_subscriptions_end_with_their_table(catalog: Catalog, scope: str) -> None:
    controller = catalog.client.controller
    first, second = make(catalog, scope, table="first"), make(catalog, scope, table="second")
    Subscription(catalog.client, "one", (first,))
    Subscription(catalog.client, "both", (first, second))
    catalog.tables.drop_stream(first)
    assert list(controller.list_reader_groups(scope)) == ["both"]
    assert controller.subscribers(second) == (f"{scope}/both",)
    assert catalog.namespaces.drop([scope], cascade=True)
    assert not controller.scope_exists(scope)


def test_the_default_namespace_is_there_before_its_scope(catalog: Catalog) -> None:
    """Clients that name no database begin with it."""
    controller = catalog.client.controller
    assert not controller.scope_exists("default"), "another test has left it"
    assert catalog.namespaces.properties(["default"]) == {"scope": "default"}
    assert catalog.relations.names(["default"]) == []
    assert catalog.views.names(["default"]) == []
    assert not catalog.namespaces.drop(["default"], cascade=True)
    assert "default" not in catalog.namespaces.names()
    assert not controller.scope_exists("default")
    with pytest.raises(ScopeNotFoundError):
        store(catalog, "default-2", "v")
    for put in (
        lambda: make(catalog, "default"),
        lambda: store(catalog, "default", "v"),
        lambda: catalog.namespaces.alter(["default"], [set_property("team", "us")]),
    ):
        put()
        assert "default" in catalog.namespaces.names()
        assert catalog.namespaces.drop(["default"], cascade=True)


def test_a_namespace_is_dropped_though_the_controller_broke_creations_off(
    catalog: Catalog, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of their tables there are names only, of which the controller says that the scope isn't empty."""
    monkeypatch.setattr(creation, "_BARE_S", 0.7)

    def drop(*, cascade: bool) -> None:
        name = f"test-{uuid.uuid4().hex[:12]}"
        catalog.namespaces.create([name])
        make(catalog, name)
        assert catalog.relations.drop([name], "t")
        break_creation(client, name, "t.ledger", has_segment=True)
        if cascade:
            break_creation(client, name, "kv", has_segment=False)
        assert catalog.namespaces.drop([name], cascade=cascade) is True
        assert not client.controller.scope_exists(name)

    together(lambda: drop(cascade=False), lambda: drop(cascade=True))


def test_tables_are_made_where_the_controller_broke_creations_off(
    catalog: Catalog, client: Client, scope: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One with a commit log, and one that is a key-value table."""
    monkeypatch.setattr(creation, "_ASKED_AGAIN_S", 0.7)
    monkeypatch.setattr(creation, "_BARE_S", 0.7)
    break_creation(client, scope, "t.ledger", has_segment=True)
    break_creation(client, scope, "kv", has_segment=True)
    columns = StructType().add("id", "long", nullable=False).add("s", "string")
    properties = {"table-type": "key-value", "primary-key": "id"}
    together(
        lambda: catalog.tables.create([scope], "t", COLUMNS, [], {}),
        lambda: catalog.relations.create([scope], "kv", columns, [], properties),
    )
    assert sorted(catalog.relations.names([scope])) == ["kv", "t"]
    assert catalog.relations.drop([scope], "t")
    assert catalog.relations.drop([scope], "kv")
