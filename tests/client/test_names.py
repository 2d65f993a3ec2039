"""Names and policies: what can be called what, and what is refused before a server sees it."""

from __future__ import annotations

import string
import uuid
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_pravega.client import (
    RetentionPolicy,
    RetentionType,
    ScaleType,
    ScalingPolicy,
    Stream,
    StreamConfiguration,
    StreamSegments,
    Transaction,
)
from pyspark_pravega.client import controller_messages as messages
from pyspark_pravega.client.names import (
    MAX_TABLE_NAME_LENGTH,
    check_name,
    segment_epoch,
    segment_number,
    transaction_segment_name,
)
from pyspark_pravega.errors import ConfigurationError, InvalidNameError

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


scaling = st.builds(ScalingPolicy, min_segments=st.integers(1, 2**31 - 1)) | st.builds(
    ScalingPolicy,
    scale_type=st.sampled_from([ScaleType.BY_EVENTS_PER_SECOND, ScaleType.BY_KILOBYTES_PER_SECOND]),
    target_rate=st.integers(1, 2**31 - 1),
    scale_factor=st.integers(2, 2**31 - 1),
    min_segments=st.integers(1, 2**31 - 1),
)
retention = st.builds(
    RetentionPolicy,
    retention_type=st.sampled_from(RetentionType),
    minimum=st.integers(0, 2**63 - 1),
    maximum=st.integers(0, 2**63 - 1),
)
configurations = st.builds(
    StreamConfiguration,
    scaling=scaling,
    retention=st.none() | retention,
    tags=st.lists(st.text(max_size=9), max_size=5).map(tuple),
    timestamp_aggregation_timeout=st.integers(0, 2**63 - 1),
    rollover_size_bytes=st.integers(0, 2**63 - 1),
)


@given(configurations)
def test_a_configuration_survives_the_controller_s_message(configuration: StreamConfiguration) -> None:
    assert messages.configuration(messages.configuration_message(Stream("s", "t"), configuration)) == configuration


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: ScalingPolicy(min_segments=0), "at least 1 segment"),
        (lambda: ScalingPolicy(min_segments=-1), "at least 1 segment"),
        (lambda: ScalingPolicy(scale_type=ScaleType.BY_EVENTS_PER_SECOND, scale_factor=2), "target rate"),
        (lambda: ScalingPolicy(scale_type=ScaleType.BY_EVENTS_PER_SECOND, target_rate=1), "scale factor"),
        (
            lambda: ScalingPolicy(scale_type=ScaleType.BY_KILOBYTES_PER_SECOND, target_rate=1, scale_factor=1),
            "scale factor",
        ),
        (lambda: StreamConfiguration(tags=("t",) * 129), "at most 128 tags"),
        (lambda: StreamConfiguration(tags=("t" * 257,)), "at most 256 characters"),
    ],
)
def test_what_the_server_would_stumble_over_is_refused_here(make: Callable[[], object], why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        make()


def test_as_many_tags_as_the_server_takes_are_allowed() -> None:
    assert len(StreamConfiguration(tags=("t" * 256,) * 128).tags) == 128
