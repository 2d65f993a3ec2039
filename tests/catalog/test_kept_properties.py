"""Properties that are kept with a value which means nothing here: a later release has set them, or another program."""

from __future__ import annotations

import re
from typing import Any

import pytest
from catalog_tools import COLUMNS, insert, make

from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.catalog.ddl import RemoveProperty, SetProperty
from pyspark_pravega.catalog.process.methods import CatalogMethods
from pyspark_pravega.client import Stream
from pyspark_pravega.connector.log import create_ledger
from pyspark_pravega.connector.table import OWN_PROPERTIES, PINNED_SCHEMA
from pyspark_pravega.errors import PravegaError
from pyspark_pravega.settings import Settings

pytestmark = pytest.mark.server

TOLD_AT = {
    "mode": "read",
    "bad-events": "read",
    "schema-type": "both",
    "format": "both",
    "primary-key": "both",
    "row-column": "both",
    "operation-column": "both",
    "routing-key": "write",
    "event-time": "write",
    "writer-mode": "write",
    "cluster-by-key": "write",
    "isolation-level": "write",
    "compression": "write",
    "encoding-header": "write",
    "compact-when": "write",
    "index-columns": "",
    "truncate-with-next-write": "",
    "spark.columns": "",
    "_defaults": "write",
    "_checks": "write",
    "_schema": "both",
    "history": "",
    "version-every": "",
    "lake": "both",
    "lake-after": "",
    "lake-keep-in-stream": "",
    "lake-file-size": "",
    "lake-row-group-size": "",
    "lake-partitioned-by": "",
    "lake-sorted-by": "",
}
"""Of each property who is told of a value that means nothing: who reads the table, who writes to it, or both."""
TEXTS = {"compatibility", "deleted-row-column", "delete-values", "upsert-value"}
"""Properties that mean something with any text, or nothing alone."""


def keep(catalog: Catalog, stream: Stream, **texts: str) -> None:
    """Put texts beside a table's properties, as nobody can by SQL."""
    create_ledger(catalog.client, stream).change_properties(lambda before: {**before, **texts})
    catalog.forget(stream)


def test_each_property_is_looked_at() -> None:
    assert {name for name in TOLD_AT if not name.startswith(("_", "spark."))} | TEXTS == OWN_PROPERTIES


@pytest.mark.parametrize("name", TOLD_AT)
def test_a_value_that_means_nothing_is_told_where_it_is_needed(settings: Settings, scope: str, name: str) -> None:
    methods = CatalogMethods(settings)
    catalog = methods.catalog
    stream = make(catalog, scope)
    insert(catalog, stream, 1)
    more = {"primary-key": "id"} if name in ("row-column", "operation-column") else {}
    keep(catalog, stream, **more, **{name: "of tomorrow"})

    def read() -> None:
        methods.plan_scan([scope], "t", ["id"], {})

    def write() -> None:
        methods.writes.plan_write([scope], "t", {}, checks=[])

    def loaded() -> dict[str, str]:
        relation: Any = methods.load_relation([scope], "t")
        return dict(relation["properties"])

    own = name in OWN_PROPERTIES
    assert not own or loaded()[name] == "of tomorrow", "SHOW TBLPROPERTIES"
    for kind, call in (("read", read), ("write", write)):
        if TOLD_AT[name] not in (kind, "both"):
            call()
            continue
        with pytest.raises(PravegaError) as told:
            call()
        assert name in str(told.value)
        assert "of tomorrow" in str(told.value)
        assert "elease that has set it" in str(told.value)
        assert re.search(rf"UNSET TBLPROPERTIES \(.*'{name}'", str(told.value)) or not own
    methods.alter_table([scope], "t", [SetProperty(property="team.owner", value="us")])
    assert loaded()["team.owner"] == "us"
    assert not own or loaded()[name] == "of tomorrow"
    if own:
        methods.alter_table([scope], "t", [RemoveProperty(property=key) for key in (name, *more)])
        assert loaded().get(name) != "of tomorrow"
        read()
        write()
    assert methods.drop_table([scope], "t")


def test_such_a_value_can_be_set_anew_and_the_table_replaced(settings: Settings, scope: str) -> None:
    methods = CatalogMethods(settings)
    stream = make(methods.catalog, scope)
    keep(methods.catalog, stream, **{"mode": "lazy", "bad-events": "nowhere"})
    with pytest.raises(PravegaError, match='"mode" must be one of'):
        methods.alter_table([scope], "t", [SetProperty(property="mode", value="lazier")])
    methods.alter_table([scope], "t", [SetProperty(property="bad-events", value="stream:a.b")])
    methods.alter_table([scope], "t", [SetProperty(property="mode", value="drop-malformed")])
    methods.plan_scan([scope], "t", ["id"], {})
    keep(methods.catalog, stream, mode="lazy")
    methods.plan_scan([scope], "t", ["id"], {"mode": "fail-fast"})
    _, staged = methods.catalog.replacing.stage([scope], "t", COLUMNS, [], {}, create=True, replace=True)
    methods.catalog.replacing.commit(staged, written=False)
    methods.plan_scan([scope], "t", ["id"], {})


def test_versions_stay_where_history_means_nothing(catalog: Catalog, scope: str) -> None:
    stream = make(catalog, scope)
    keep(catalog, stream, history="of tomorrow")
    ledger = create_ledger(catalog.client, stream)
    for _ in range(2):
        ledger._sweep(100)
        insert(catalog, stream, 1)
    assert PINNED_SCHEMA not in ledger.properties()
    assert len(list(ledger.all_commits())) == 2
