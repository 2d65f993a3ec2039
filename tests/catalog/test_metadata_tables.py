"""Metadata tables: what is known about a stream, as rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from catalog_tools import insert, make
from client_tools import scale

from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.catalog.statements import metadata_tables
from pyspark_pravega.catalog.statements.metadata_tables import SCHEMAS
from pyspark_pravega.client import Stream, StreamConfiguration, StreamCut, StreamSegments
from pyspark_pravega.connector.predicates import Predicate
from pyspark_pravega.errors import InvalidNameError, StreamNotFoundError

pytestmark = pytest.mark.server


def table(catalog: Catalog, stream: Stream, kind: str) -> list[dict[str, Any]]:
    names = catalog.metadata.schema([stream.scope], f"{stream.name}${kind}")[1].fieldNames()
    rows = catalog.metadata.rows([stream.scope], f"{stream.name}${kind}", names).rows
    return [dict(zip(names, row, strict=True)) for row in rows]


def test_commits(catalog: Catalog, scope: str) -> None:
    stream = make(catalog, scope, segments=2)
    insert(catalog, stream, 1, 2)
    first = catalog.client.tail(stream)
    insert(catalog, stream, 3)
    one, two = table(catalog, stream, "commits")
    assert [(row["version"], row["rows"]) for row in (one, two)] == [(1, 2), (2, 1)]
    assert one["committed_at"] <= two["committed_at"]
    assert one["bytes"] == sum(first.values())
    assert StreamCut.from_text(one["cut"]) == first
    assert dict(one["offsets"]) == first
    assert len(one["transactions"]) == 1


def test_the_cut_of_a_commit_after_a_scale_is_one(catalog: Catalog, scope: str) -> None:
    stream = make(catalog, scope, segments=2)
    insert(catalog, stream, 1, 2)
    catalog.procedures.call("scale", [f"{scope}.t", 3])
    insert(catalog, stream, 3)
    assert StreamCut.from_text(table(catalog, stream, "commits")[1]["cut"]) == catalog.client.tail(stream)


def test_commits_of_some_versions_ask_for_no_others(
    catalog: Catalog, scope: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The servers are asked as often for many versions as for few, and not at all where no cut is wanted."""
    stream = make(catalog, scope, segments=2)
    controller = catalog.client.controller
    scale(catalog.client, stream, [1], [(0.5, 0.75), (0.75, 1.0)])
    for number in range(6):
        insert(catalog, stream, number)
    asked: list[int] = []
    epoch_segments = type(controller).epoch_segments

    def counting(own: Any, stream: Stream, epoch: int) -> StreamSegments:
        asked.append(epoch)
        return epoch_segments(own, stream, epoch)

    monkeypatch.setattr(type(controller), "epoch_segments", counting)

    def versions(*predicates: tuple[str, list[int]], columns: Sequence[str] = ("version", "cut")) -> list[Any]:
        given = [
            Predicate(column="version", comparison=comparison, values=tuple(values))
            for comparison, values in predicates
        ]
        rows = catalog.metadata.rows([scope], "t$commits", columns, given).rows
        assert not any(row[-1] is None for row in rows)
        return [row[0] for row in rows]

    assert versions() == [1, 2, 3, 4, 5, 6]
    assert sorted(asked) == [0, 1]
    asked.clear()
    assert versions(columns=["version", "rows"]) == [1, 2, 3, 4, 5, 6]
    assert asked == []
    assert versions(("=", [3])) == [3]
    assert versions((">", [2]), ("<=", [4])) == [3, 4]
    assert versions(("IN", [2, 4])) == [2, 3, 4]
    assert versions((">=", [6]), ("<", [2**62])) == [6]
    assert versions((">", [6])) == versions(("=", [0])) == versions(("<", [1])) == []


def test_commits_come_in_pages_and_no_more_than_are_wanted(
    catalog: Catalog, scope: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = make(catalog, scope)
    for number in range(10):
        insert(catalog, stream, number)
    times = [row["committed_at"] for row in table(catalog, stream, "commits")]
    monkeypatch.setattr(metadata_tables, "_PAGE", 3)

    def paged(
        *predicates: tuple[str, str, int], limit: int | None = None, newest_first: bool = False
    ) -> list[list[int]]:
        given = [Predicate(column=column, comparison=sign, values=(value,)) for column, sign, value in predicates]
        pages: list[list[int]] = []
        page = 0
        while not pages or page:
            left = None if limit is None else limit - sum(len(rows) for rows in pages)
            metadata_page = catalog.metadata.rows(
                [scope], "t$commits", ["version"], given, limit=left, newest_first=newest_first, page=page
            )
            pages.append([version for (version,) in metadata_page.rows])
            page = metadata_page.next
        return pages

    assert paged() == [[1, 2, 3], [4, 5, 6], [7, 8, 9], [10]]
    assert paged(newest_first=True) == [[8, 9, 10], [5, 6, 7], [2, 3, 4], [1]]
    assert paged(limit=2) == [[1, 2]]
    assert paged(limit=5) == [[1, 2, 3], [4, 5]]
    assert paged(limit=4, newest_first=True) == [[8, 9, 10], [7]]
    assert paged(limit=99) == paged()
    assert paged(("version", ">", 5), ("version", "<=", 7), newest_first=True, limit=2) == [[6, 7]]
    # By time: nothing that is wanted is missing, and nothing that lies outside is asked for.
    assert paged(("committed_at", ">=", times[6])) == [[7, 8, 9], [10]]
    assert paged(("committed_at", "<=", times[1])) == [[1, 2]]
    assert paged(("committed_at", ">=", times[3]), ("committed_at", "<=", times[4])) == [[4, 5]]
    assert paged(("committed_at", ">", times[9] + 1000)) == paged(("committed_at", "<", times[0] - 1000)) == [[]]


def test_segments_and_epochs(catalog: Catalog, scope: str) -> None:
    stream = make(catalog, scope)
    insert(catalog, stream, 1)
    catalog.procedures.call("scale", [f"{scope}.t", 2])
    old, *new = table(catalog, stream, "segments")
    assert (old["segment"], old["sealed"], old["current"], old["start_offset"]) == (0, True, False, 0)
    assert old["bytes"] == old["end_offset"] > 0
    assert old["successors"] == [row["segment"] for row in new]
    assert [(row["min_key"], row["max_key"], row["epoch"], row["current"]) for row in new] == [
        (0.0, 0.5, 1, True), (0.5, 1.0, 1, True),
    ]  # fmt: skip
    assert table(catalog, stream, "epochs") == [
        {"epoch": 0, "segments": [0], "current": False},
        {"epoch": 1, "segments": old["successors"], "current": True},
    ]


def test_transactions(catalog: Catalog, scope: str) -> None:
    stream = make(catalog, scope)
    insert(catalog, stream, 1)
    (commit,) = table(catalog, stream, "commits")
    by_transaction = {row["transaction"]: row for row in table(catalog, stream, "transactions")}
    (done,) = commit["transactions"]
    assert (by_transaction[done]["state"], by_transaction[done]["version"], by_transaction[done]["job"]) == (
        "COMMITTED",
        1,
        commit["job"],
    )


def test_schemas(catalog: Catalog, scope: str) -> None:
    stream = make(catalog, scope)
    insert(catalog, stream, 1)
    (schema,) = table(catalog, stream, "schemas")
    assert (schema["id"], schema["version"], schema["format"], schema["encoding_ids"]) == (0, 0, "Avro", [0])
    assert '"fields"' in schema["schema"]
    protobuf = make(catalog, scope, "p", format="protobuf")
    assert table(catalog, protobuf, "schemas")[0]["encoding_ids"] == []


def test_cuts_and_properties(catalog: Catalog, scope: str) -> None:
    stream = make(catalog, scope, compatibility="Full")
    insert(catalog, stream, 1)
    catalog.procedures.call("create_cut", [f"{scope}.t", "here", None])
    (cut,) = table(catalog, stream, "cuts")
    assert (cut["name"], StreamCut.from_text(cut["cut"])) == ("here", catalog.client.tail(stream))
    properties = {row["key"]: row["value"] for row in table(catalog, stream, "properties")}
    assert (properties["compatibility"], properties["segments"], properties["routing-key"]) == ("Full", "1", "id")


def test_a_stream_of_others_has_metadata_tables_too(catalog: Catalog, scope: str) -> None:
    stream = Stream(scope, "theirs")
    catalog.client.controller.create_stream(stream, StreamConfiguration())
    rows = {kind: len(table(catalog, stream, kind)) for kind in SCHEMAS}
    assert rows.pop("properties") > 0
    assert {kind: count for kind, count in rows.items() if count} == {"segments": 1, "epochs": 1}


def test_columns_are_given_as_they_are_asked_for(catalog: Catalog, scope: str) -> None:
    make(catalog, scope)
    assert catalog.metadata.rows([scope], "t$epochs", ["current", "epoch"]).rows == [[True, 0]]
    assert catalog.metadata.rows([scope], "t$EPOCHS", []).rows == [[]]


def test_what_isn_t_there(catalog: Catalog, scope: str) -> None:
    make(catalog, scope)
    with pytest.raises(InvalidNameError, match='no metadata table "commit"; did you mean "commits"'):
        catalog.metadata.schema([scope], "t$commit")
    with pytest.raises(StreamNotFoundError):
        catalog.metadata.schema([scope], "nope$commits")
