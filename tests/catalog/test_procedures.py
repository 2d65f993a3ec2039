"""CALL: what Pravega can do with a stream and SQL has no statement for."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest
from catalog_tools import COLUMNS, ids, insert, make

from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.catalog.statements.procedures import PROCEDURES
from pyspark_pravega.client import Client, ScalingPolicy, Stream, StreamConfiguration, StreamCut
from pyspark_pravega.client.reader_groups import ReaderGroup, ReaderGroupRetention, ReaderGroupStream
from pyspark_pravega.errors import (
    ConfigurationError,
    InvalidNameError,
    PravegaError,
    StreamNotFoundError,
    TransactionError,
    UnsupportedOperationError,
)
from pyspark_pravega.registry import SchemaRegistry

pytestmark = pytest.mark.server


def call(catalog: Catalog, name: str, *arguments: Any) -> list[list[Any]]:
    """A call with the defaults that Spark would fill in."""
    given = list(arguments)
    for parameter in PROCEDURES[name].parameters[len(given) :]:
        assert parameter.default is not None
        given.append(None if parameter.default == "NULL" else parameter.default.strip("'"))
    return catalog.procedures.call(name, given)


def test_scale_gives_a_stream_another_number_of_segments(catalog: Catalog, client: Client, scope: str) -> None:
    stream = make(catalog, scope, segments=2)
    rows = call(catalog, "scale", f"{scope}.t", 4)
    assert [(low, high) for _, low, high in rows] == [(0.0, 0.25), (0.25, 0.5), (0.5, 0.75), (0.75, 1.0)]
    assert client.controller.stream_configuration(stream).scaling == ScalingPolicy.fixed(4)
    assert call(catalog, "scale", f"{scope}.t", 4) == rows
    assert len(call(catalog, "scale", f"{scope}.t", 1)) == 1


def test_scale_leaves_an_automatic_policy_as_it_is(catalog: Catalog, client: Client, scope: str) -> None:
    stream = make(catalog, scope, scaling="1000 events/s")
    assert len(call(catalog, "scale", f"{scope}.t", 3)) == 3
    assert client.controller.stream_configuration(stream).scaling == ScalingPolicy.by_events_per_second(1000)


def test_seal_ends_a_stream(catalog: Catalog, client: Client, scope: str) -> None:
    stream = make(catalog, scope)
    insert(catalog, stream, 1)
    tail = client.tail(stream)
    ((text, _),) = call(catalog, "seal", f"{scope}.t")
    assert StreamCut.from_text(text) == tail
    assert client.controller.is_sealed(stream)
    assert ids(catalog, stream) == [1]


def test_truncate_removes_what_is_older(catalog: Catalog, scope: str) -> None:
    stream = make(catalog, scope)
    insert(catalog, stream, 1)
    call(catalog, "create_cut", f"{scope}.t", "cut")
    insert(catalog, stream, 2)
    call(catalog, "truncate", f"{scope}.t", "cut")
    assert ids(catalog, stream) == [2]


def test_transactions_are_committed_and_aborted(catalog: Catalog, client: Client, scope: str) -> None:
    stream = make(catalog, scope)
    first, second = (client.controller.begin_transaction(stream, lease_ms=30_000).id for _ in range(2))
    assert call(catalog, "commit", f"{scope}.t", str(first)) == [[str(first), "COMMITTED"]]
    assert call(catalog, "abort", f"{scope}.t", str(second)) == [[str(second), "ABORTED"]]
    with pytest.raises(TransactionError, match="isn't open: it is COMMITTED"):
        call(catalog, "commit", f"{scope}.t", str(first))
    with pytest.raises(TransactionError, match="isn't open: it is UNKNOWN"):
        call(catalog, "abort", f"{scope}.t", str(uuid.uuid4()))
    with pytest.raises(ConfigurationError, match='"x" is no transaction\'s id'):
        call(catalog, "abort", f"{scope}.t", "x")


def test_register_schema_makes_a_table_of_a_stream(catalog: Catalog, registry: SchemaRegistry, scope: str) -> None:
    stream = Stream(scope, "theirs")
    catalog.client.controller.create_stream(stream, StreamConfiguration())
    ((number, kind, version),) = call(catalog, "register_schema", f"{scope}.theirs", COLUMNS.json())
    assert (number, version) == (0, 0)
    assert registry.schemas(scope, "theirs")[0][0].type == kind
    assert catalog.load_table([scope], "theirs", age_s=0).schema == COLUMNS
    insert(catalog, stream, 1)
    assert ids(catalog, stream) == [1]
    text = json.loads(registry.schemas(scope, "theirs")[0][0].text)
    text["fields"].append({"name": "more", "type": ["null", "long"], "default": None})
    assert call(catalog, "register_schema", f"{scope}.theirs", None, json.dumps(text))[0][0] == 1
    assert catalog.load_table([scope], "theirs", age_s=0).schema.fieldNames() == ["id", "name", "more"]


def test_set_compatibility(catalog: Catalog, registry: SchemaRegistry, scope: str) -> None:
    make(catalog, scope)
    assert call(catalog, "set_compatibility", f"{scope}.t", "Full") == [["Backward", "Full"]]
    assert registry.group(scope, "t").compatibility == "Full"


def test_watermark_notes_a_writer_s_time(catalog: Catalog, client: Client, scope: str) -> None:
    stream = make(catalog, scope)
    insert(catalog, stream, 1)
    ((writer, at, text, _),) = call(catalog, "watermark", f"{scope}.t", 1000)
    assert (writer, at, StreamCut.from_text(text)) == ("sql", 1000, client.tail(stream))
    with pytest.raises(ConfigurationError, match="can't go back to time 999"):
        call(catalog, "watermark", f"{scope}.t", 999)


def test_subscribers(catalog: Catalog, scope: str) -> None:
    make(catalog, scope)
    assert call(catalog, "subscribers", f"{scope}.t") == []


def test_a_subscriber_is_dropped(catalog: Catalog, client: Client, scope: str) -> None:
    """From the table that is named, not from others; reader groups whose readers release events are left alone."""
    streams = [make(catalog, scope, table) for table in ("t", "u")]
    parts = tuple(ReaderGroupStream(stream=stream) for stream in streams)
    for name, retention in (("both", ReaderGroupRetention.MANUAL), ("java", ReaderGroupRetention.AUTOMATIC)):
        client.controller.create_reader_group(ReaderGroup(scope=scope, name=name, streams=parts, retention=retention))
    assert call(catalog, "drop_subscriber", f"{scope}.t", f"{scope}/both") == [[True]]
    assert call(catalog, "subscribers", f"{scope}.t") == [[f"{scope}/java"]]
    assert call(catalog, "subscribers", f"{scope}.u") == [[f"{scope}/both"], [f"{scope}/java"]]
    assert call(catalog, "drop_subscriber", f"{scope}.t", "both") == [[False]]
    with pytest.raises(UnsupportedOperationError, match="its own readers tell how far they are"):
        call(catalog, "drop_subscriber", f"{scope}.t", "java")
    assert call(catalog, "drop_subscriber", f"{scope}.u", "both") == [[True]]
    assert list(client.controller.list_reader_groups(scope)) == ["java"]


def test_a_table_is_named_as_in_sql(catalog: Catalog, scope: str) -> None:
    make(catalog, scope, "with.dot")
    underscored = scope.replace("-", "_")
    for name in (
        f"{scope}.`with.dot`",
        f"`{scope}`.`with.dot`",
        f"pravega.{underscored}.`with.dot`",
        f"{scope}/with.dot",
    ):
        assert call(catalog, "subscribers", name) == []


@pytest.mark.parametrize(
    ("name", "arguments", "error", "message"),
    [
        ("scale", ["{0}.t", 0], ConfigurationError, '"segments" must be a number from 1 to 10000, not 0'),
        ("scale", ["{0}.t", None], ConfigurationError, 'argument "segments" of procedure "scale" must not be null'),
        ("scale", ["t", 2], InvalidNameError, '"t" names no table: write namespace.table'),
        ("scale", ["{0}.nope", 2], StreamNotFoundError, "nope"),
        ("create_cut", ["{0}.t", "1st"], InvalidNameError, '"1st" can\'t be the name of a cut'),
        ("register_schema", ["{0}.t"], ConfigurationError, "by its text or by columns, one of them"),
        ("set_compatibility", ["{0}.t", "Ful"], ConfigurationError, 'did you mean "Full"?'),
    ],
)
def test_wrong_arguments(
    catalog: Catalog, scope: str, name: str, arguments: list[Any], error: type[PravegaError], message: str
) -> None:
    make(catalog, scope)
    given = [argument.format(scope) if isinstance(argument, str) else argument for argument in arguments]
    with pytest.raises(error) as refused:
        call(catalog, name, *given)
    assert message in str(refused.value)


def test_procedures_are_found_by_name(catalog: Catalog) -> None:
    assert catalog.procedures.names(["system"]) == catalog.procedures.names([]) == sorted(PROCEDURES)
    assert catalog.procedures.names(["shop"]) == []
    assert catalog.procedures.named(["system"], "SCALE").name == "scale"
    for namespace, name in ((["system"], "scal"), (["shop"], "scale")):
        with pytest.raises(InvalidNameError, match='all are in the namespace "system"; did you mean "scale"'):
            catalog.procedures.named(namespace, name)
