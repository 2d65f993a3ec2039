"""Routing keys of columns, patterns and fixed texts."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_pravega.connector.write.routing import Routing
from pyspark_pravega.errors import InvalidNameError

COLUMNS = ["id", "Customer", "region", "a,b"]
ROWS = pa.record_batch(
    {"id": pa.array([1, 2, None]), "Customer": ["ann", None, "ümit"], "region": ["x", "y", "z"], "a,b": ["c", "d", "e"]}
)


@pytest.mark.parametrize(
    ("text", "columns", "keys"),
    [
        ("customer", ("Customer",), ["ann", "", "ümit"]),
        (" id ", ("id",), ["1", "2", ""]),
        ("id,CUSTOMER", ("id", "Customer"), ["1,ann", "2,", ",ümit"]),
        ("id , region", ("id", "region"), ["1,x", "2,y", ",z"]),
        ("a,b", ("a,b",), ["c", "d", "e"]),
        ("{region}/{ID}!", ("region", "id"), ["x/1!", "y/2!", "z/!"]),
        ("eu-{region}", ("region",), ["eu-x", "eu-y", "eu-z"]),
    ],
)
def test_keys_are_made_of_columns(text: str, columns: tuple[str, ...], keys: list[str]) -> None:
    routing = Routing.parse(text, COLUMNS)
    assert routing.columns == columns
    routing_keys = routing.keys(ROWS)
    assert isinstance(routing_keys, pa.Array)
    assert routing_keys.to_pylist() == keys
    assert Routing.parse(str(routing), COLUMNS) == routing


@pytest.mark.parametrize(("text", "key"), [("'all'", "all"), ("'it''s'", "it's"), ("''", ""), ("'id'", "id")])
def test_a_key_may_be_one_for_all_rows(text: str, key: str) -> None:
    routing = Routing.parse(text, COLUMNS)
    assert (routing.columns, routing.keys(ROWS), str(routing)) == ((), key, text)


@pytest.mark.parametrize("text", ["custmer", "id,custmer", "{custmer}", "", "id,"])
def test_names_that_are_no_columns_are_refused(text: str) -> None:
    with pytest.raises(InvalidNameError, match="is not a column"):
        Routing.parse(text, COLUMNS)


def test_a_time_s_key_does_not_depend_on_the_session_s_zone() -> None:
    times = pa.array([1_700_000_000_000_000, None], pa.timestamp("us", "UTC"))
    routing = Routing.parse("at", ["at"])
    keys = [
        routing.keys(pa.record_batch({"at": times.cast(pa.timestamp("us", zone))})) for zone in ("UTC", "Asia/Tokyo")
    ]
    assert keys[0] == keys[1]
    assert isinstance(keys[0], pa.Array)
    assert keys[0].to_pylist() == ["2023-11-14 22:13:20.000000Z", ""]


@given(
    st.lists(st.sampled_from(COLUMNS[:3]), min_size=1, max_size=4), st.lists(st.text("ab/ -"), min_size=5, max_size=5)
)
def test_a_pattern_is_written_as_it_is_read(names: list[str], texts: list[str]) -> None:
    pattern = texts[0] + "".join("{" + name + "}" + text for name, text in zip(names, texts[1:], strict=False))
    routing = Routing.parse(pattern, COLUMNS)
    assert Routing.parse(str(routing), COLUMNS).keys(ROWS) == routing.keys(ROWS)
