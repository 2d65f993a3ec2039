"""Names of streams, segments and transactions: what can be called what."""

from __future__ import annotations

import string
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_pravega.client import (
    SegmentRange,
    Stream,
    StreamSegments,
    Transaction,
)
from pyspark_pravega.client.controller import messages
from pyspark_pravega.client.names import (
    MAX_TABLE_NAME_LENGTH,
    check_name,
    segment_epoch,
    segment_id_of,
    segment_number,
    transaction_segment_name,
)
from pyspark_pravega.errors import InvalidNameError

ALLOWED = string.ascii_letters + string.digits + ".-"


@given(st.text(ALLOWED, min_size=1, max_size=255))
def test_names_of_letters_digits_dots_and_dashes_are_names(name: str) -> None:
    assert check_name("stream", name) == name


@given(st.text(min_size=1).filter(lambda text: not set(text) <= set(ALLOWED)))
def test_names_with_any_other_character_are_refused(name: str) -> None:
    with pytest.raises(InvalidNameError, match="stream name"):
        check_name("stream", name)


@pytest.mark.parametrize("name", ["a\n", "a/b", "a b", "_a", "a_b", "ä", "a\0"])
def test_the_refusal_names_what_was_given(name: str) -> None:
    with pytest.raises(InvalidNameError, match=f'scope name "{name}" may hold only letters'):
        check_name("scope", name)


def test_empty_names_are_refused() -> None:
    with pytest.raises(InvalidNameError, match="must not be empty"):
        check_name("stream", "")


def test_names_end_at_255_characters() -> None:
    assert check_name("stream", "a" * 255)
    with pytest.raises(InvalidNameError, match="has 256 characters; at most 255") as refused:
        check_name("stream", "a" * 256)
    assert len(str(refused.value)) < 150
    with pytest.raises(InvalidNameError, match="has 251 characters; at most 250"):
        check_name("key-value table", "a" * 251, longest=MAX_TABLE_NAME_LENGTH)


def test_a_segment_is_named_by_its_number_and_its_epoch() -> None:
    stream = Stream("shop", "orders")
    assert str(stream) == "shop/orders"
    assert stream.segment_name(0) == "shop/orders/0.#epoch.0"
    assert stream.segment_name(5 << 32 | 17) == "shop/orders/17.#epoch.5"


@given(st.integers(0, 2**31 - 1), st.integers(0, 2**31 - 1))
def test_a_segment_id_is_its_epoch_and_its_number(epoch: int, number: int) -> None:
    segment_id = epoch << 32 | number
    assert (segment_epoch(segment_id), segment_number(segment_id)) == (epoch, number)


def test_a_transaction_s_segment_bears_both_halves_of_its_id_in_16_digits_each() -> None:
    transaction = uuid.UUID(int=3 << 96 | 0xAB)
    assert (
        transaction_segment_name("s/t/0.#epoch.3", transaction)
        == "s/t/0.#epoch.3#transaction.0000000300000000" + "00000000000000ab"
    )
    opened = Transaction(id=transaction, segments=StreamSegments(stream=Stream("s", "t"), ranges=()))
    assert opened.epoch == 3
    assert opened.segment_name(3 << 32) == transaction_segment_name("s/t/0.#epoch.3", transaction)


@given(st.uuids())
def test_a_transaction_id_survives_the_controller_s_signed_halves(transaction: uuid.UUID) -> None:
    assert messages.transaction_id(messages.txn_id(transaction)) == transaction


def test_a_delegation_token_is_not_shown() -> None:
    assert "secret" not in repr(StreamSegments(stream=Stream("s", "t"), ranges=(), token="secret"))


@given(st.text(ALLOWED, min_size=1, max_size=255), st.text(ALLOWED, min_size=1, max_size=255))
def test_a_stream_s_full_name_is_its_scope_and_its_name(scope: str, name: str) -> None:
    assert Stream.parse(f"{scope}/{name}") == Stream.parse(f"{scope}/{name}", "other") == Stream(scope, name)
    assert Stream.parse(name, scope) == Stream(scope, name)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("orders", 'stream "orders" has no scope: write it as scope/stream'),
        ("", 'stream "" has no scope'),
        ("/orders", "a scope name must not be empty"),
        ("shop/", "a stream name must not be empty"),
        ("shop/eu/orders", 'scope name "shop/eu"'),
        ("shop/_MARKorders", 'stream name "_MARKorders"'),
        ("_system/orders", 'scope name "_system"'),
        ("shop.orders", "has no scope"),
    ],
)
def test_other_names_of_streams_are_refused(text: str, why: str) -> None:
    with pytest.raises(InvalidNameError, match=why):
        Stream.parse(text)


@given(st.integers(0, 2**31 - 1), st.integers(0, 2**31 - 1))
def test_a_segment_id_can_be_made_of_its_parts(epoch: int, number: int) -> None:
    segment_id = segment_id_of(epoch=epoch, number=number)
    assert (segment_epoch(segment_id), segment_number(segment_id)) == (epoch, number)


@pytest.mark.parametrize(("epoch", "number"), [(-1, 0), (0, -1), (2**31, 0), (0, 2**31)])
def test_segments_that_can_not_be_have_no_ids(epoch: int, number: int) -> None:
    with pytest.raises(InvalidNameError, match="there can be no segment"):
        segment_id_of(epoch=epoch, number=number)


@pytest.mark.parametrize(
    ("one", "other", "overlap"),
    [((0, 0.5), (0.5, 1), False), ((0, 0.5), (0.25, 1), True), ((0, 1), (0.2, 0.3), True), ((0, 0.1), (0.2, 1), False)],
)
def test_segments_overlap_where_they_share_keys(
    one: tuple[float, float], other: tuple[float, float], overlap: bool
) -> None:
    first, second = (SegmentRange(segment_id=0, min_key=low, max_key=high) for low, high in (one, other))
    assert first.overlaps(second) is second.overlaps(first) is overlap
