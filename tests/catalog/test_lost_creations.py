"""CREATE TABLE of a key-value table, whose creation isn't answered: it tells what it has made from what others have."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import grpc
import pytest
from answering_proxy import AnsweringProxy
from catalog_tools import COLUMNS

from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.client import Client
from pyspark_pravega.client.key_value import NOT_EXISTS
from pyspark_pravega.connector.key_value import KeyValueDefinition
from pyspark_pravega.errors import StreamExistsError
from pyspark_pravega.settings import Settings

pytestmark = pytest.mark.server

LOST = (grpc.StatusCode.INTERNAL, grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.UNKNOWN)
ENTRY = b"\0" * 8
METHOD = "createKeyValueTable"


def create(catalog: Catalog, scope: str, name: str, **more: str) -> KeyValueDefinition:
    properties = {"table-type": "key-value", "primary-key": "id", "encoding-header": "false", **more}
    definition = catalog.relations.create([scope], name, COLUMNS, [], properties)
    assert isinstance(definition, KeyValueDefinition)
    return definition


def owner(catalog: Catalog, scope: str, name: str) -> str | None:
    """Whose CREATE TABLE has made a table."""
    relation = catalog.relation([scope], name)
    assert isinstance(relation, KeyValueDefinition)
    return relation.properties.texts.get("owner.name")


def test_a_statement_whose_answer_is_lost_knows_its_own_table(
    settings: Settings, catalog: Catalog, client: Client, scope: str
) -> None:
    def theirs(name: str, partitions: int) -> None:
        assert client.create_key_value_table(scope, name, partitions=partitions, key_bytes=8)

    def used(name: str) -> None:
        theirs(name, 1)
        client.key_value_table(scope, name).put([(ENTRY, NOT_EXISTS, b"theirs")])

    def statement(name: str) -> None:
        create(catalog, scope, name, **{"owner.name": "another statement"})

    others: dict[str, Callable[[str], object]] = {
        "of-another-statement": statement,
        "with-other-partitions": partial(theirs, partitions=3),
        "with-entries": used,
    }
    with AnsweringProxy(settings.controllers[0]) as proxy:
        lossy = Catalog(replace(settings, controller_uri=proxy.uri, timeout=20.0))
        # The store of the scope is made with the first table.
        create(lossy, scope, "first")
        mine = {"owner.name": "mine"}
        for number, code in enumerate(LOST):
            proxy.substitute(METHOD, code)
            assert create(lossy, scope, f"own-{number}", **mine).properties.texts["owner.name"] == "mine"
            assert owner(catalog, scope, f"own-{number}") == "mine"
            with pytest.raises(StreamExistsError, match="exists already"):
                create(lossy, scope, f"own-{number}")
        for name, make in others.items():
            proxy.substitute(METHOD, LOST[0], done=False, then=partial(make, name))
            with pytest.raises(StreamExistsError, match=f'key-value table "{scope}/{name}" exists already'):
                create(lossy, scope, name, **mine)
        assert proxy.substituted == [METHOD] * (len(LOST) + len(others))
        assert owner(catalog, scope, "of-another-statement") == "another statement"
        assert [entry and entry.value for entry in client.key_value_table(scope, "with-entries").get([ENTRY])] == [
            b"theirs"
        ]


def test_of_statements_whose_answers_are_all_lost_one_makes_the_table(
    settings: Settings, catalog: Catalog, scope: str
) -> None:
    create(catalog, scope, "first")
    with AnsweringProxy(settings.controllers[0]) as proxy:
        lossy = [Catalog(replace(settings, controller_uri=proxy.uri, timeout=20.0)) for _ in range(3)]

        def make(number: int) -> str | None:
            try:
                create(lossy[number], scope, "t", **{"owner.name": str(number)})
            except StreamExistsError:
                return None
            return str(number)

        proxy.substitute(METHOD, LOST[0], times=3)
        with ThreadPoolExecutor(3) as threads:
            makers = list(threads.map(make, range(3)))
    assert [one for one in makers if one is not None] == [owner(catalog, scope, "t")]
