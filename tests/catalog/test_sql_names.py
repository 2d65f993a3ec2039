"""Names between SQL and Pravega."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_pravega.catalog.names import scope_of, stream_of, to_pravega, to_sql
from pyspark_pravega.client import Stream
from pyspark_pravega.errors import InvalidNameError

ALPHANUMERIC = string.ascii_letters + string.digits + "."
in_pravega = st.text(ALPHANUMERIC + "-", min_size=1, max_size=255)


@given(in_pravega)
def test_every_name_of_pravega_has_one_in_sql_and_back(name: str) -> None:
    assert to_pravega("stream", to_sql(name)) == name
    assert "-" not in to_sql(name)


@given(st.text(ALPHANUMERIC + "_", min_size=1, max_size=255))
def test_every_name_of_sql_has_one_in_pravega_and_back(name: str) -> None:
    assert to_sql(to_pravega("stream", name)) == name


@given(in_pravega, in_pravega)
def test_different_names_stay_different(one: str, two: str) -> None:
    assert (to_sql(one) == to_sql(two)) == (one == two)


@given(st.text(ALPHANUMERIC + "-_", min_size=1, max_size=255))
def test_both_spellings_mean_one_object(name: str) -> None:
    assert to_pravega("stream", name) == to_pravega("stream", name.replace("_", "-"))


def test_pravegas_own_names_are_nobodys_in_sql() -> None:
    assert to_pravega("scope", "_system") == "-system"
    assert to_pravega("stream", "__spark_autocdc_aux_state_t") == "--spark-autocdc-aux-state-t"


@pytest.mark.parametrize("name", ["", "a b", "a/b", "ü", "a$commits", "x" * 256])
def test_names_that_pravega_can_not_hold_are_refused(name: str) -> None:
    with pytest.raises(InvalidNameError):
        to_pravega("stream", name)


def test_a_namespace_is_one_scope() -> None:
    assert scope_of(["my_shop"]) == "my-shop"
    assert scope_of(["my.shop"]) == "my.shop"
    assert stream_of(["my_shop"], "all_orders") == Stream("my-shop", "all-orders")
    with pytest.raises(InvalidNameError, match=r'"a\.b" has 2 parts: a Pravega scope has one'):
        scope_of(["a", "b"])
    with pytest.raises(InvalidNameError, match="has 0 parts"):
        scope_of([])
