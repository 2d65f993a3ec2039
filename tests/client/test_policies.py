"""Policies: what can be configured, and what is refused before a server sees it."""

from __future__ import annotations

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
)
from pyspark_pravega.client.controller import messages
from pyspark_pravega.client.policies import MAX_TABLE_KEY_BYTES, UNLIMITED, KeyValueTableConfiguration
from pyspark_pravega.errors import ConfigurationError

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
    checked=st.just(False),
)
configurations = st.builds(
    StreamConfiguration,
    scaling=scaling,
    retention=st.none() | retention,
    tags=st.sets(st.text(min_size=1, max_size=9), max_size=5).map(lambda tags: tuple(sorted(tags))),
    timestamp_aggregation_timeout=st.integers(0, 2**63 - 1),
    rollover_size_bytes=st.integers(0, 2**63 - 1),
)


@given(configurations)
def test_a_configuration_survives_the_controller_s_message(configuration: StreamConfiguration) -> None:
    assert messages.configuration(messages.configuration_message(Stream("s", "t"), configuration)) == configuration


def table(
    partitions: int = 1, key_bytes: int = 8, secondary_key_bytes: int = 0, rollover_size_bytes: int = 0
) -> KeyValueTableConfiguration:
    return KeyValueTableConfiguration(
        partitions=partitions,
        key_bytes=key_bytes,
        secondary_key_bytes=secondary_key_bytes,
        rollover_size_bytes=rollover_size_bytes,
    )


@given(
    st.builds(
        table,
        partitions=st.integers(1, 2**31 - 1),
        key_bytes=st.integers(1, MAX_TABLE_KEY_BYTES // 2),
        secondary_key_bytes=st.integers(0, MAX_TABLE_KEY_BYTES // 2),
        rollover_size_bytes=st.integers(0, UNLIMITED),
    )
)
def test_a_table_s_configuration_survives_the_controller_s_message(configuration: KeyValueTableConfiguration) -> None:
    message = messages.table_message("s", "kv", configuration)
    assert (message.scope, message.kvt_name) == ("s", "kv")
    assert messages.table_configuration(message) == configuration


@pytest.mark.parametrize(
    ("short", "long"),
    [
        (ScalingPolicy.fixed(3), ScalingPolicy(min_segments=3)),
        (
            ScalingPolicy.by_events_per_second(100, factor=3, min_segments=2),
            ScalingPolicy(scale_type=ScaleType.BY_EVENTS_PER_SECOND, target_rate=100, scale_factor=3, min_segments=2),
        ),
        (
            ScalingPolicy.by_kilobytes_per_second(9),
            ScalingPolicy(scale_type=ScaleType.BY_KILOBYTES_PER_SECOND, target_rate=9, scale_factor=2),
        ),
        (
            RetentionPolicy.by_time(60_000),
            RetentionPolicy(retention_type=RetentionType.TIME, minimum=60_000, maximum=UNLIMITED),
        ),
        (RetentionPolicy.by_size(1, 2), RetentionPolicy(retention_type=RetentionType.SIZE, minimum=1, maximum=2)),
    ],
)
def test_policies_can_be_written_shortly(short: object, long: object) -> None:
    assert short == long


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
        (lambda: StreamConfiguration(tags=("a", "")), "must not be empty"),
        (lambda: StreamConfiguration(rollover_size_bytes=-1), "rollover_size_bytes must be 0 or more, not -1"),
        (lambda: StreamConfiguration(timestamp_aggregation_timeout=-1), "timestamp_aggregation_timeout must be 0 or"),
        (lambda: ScalingPolicy.fixed(0), "at least 1 segment"),
        (lambda: ScalingPolicy.fixed(2**31), "end at 2147483647"),
        (lambda: ScalingPolicy.by_events_per_second(0), "target rate"),
        (lambda: RetentionPolicy.by_time(-1), "0 <= minimum <= maximum, not -1 and"),
        (lambda: RetentionPolicy.by_time(2, 1), "0 <= minimum <= maximum, not 2 and 1"),
        (lambda: RetentionPolicy.by_size(0, 2**63), "0 <= minimum <= maximum"),
        (lambda: table(partitions=0), "at least 1 partition, not 0"),
        (lambda: table(key_bytes=0), "not 0 and 0"),
        (lambda: table(secondary_key_bytes=-1), "not 8 and -1"),
        (lambda: table(key_bytes=256, secondary_key_bytes=1), "at most 256 bytes, not 257"),
        (lambda: table(rollover_size_bytes=-1), "rollover_size_bytes must be 0 or more"),
    ],
)
def test_what_the_server_would_stumble_over_is_refused_here(make: Callable[[], object], why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        make()


def test_as_many_tags_as_the_server_takes_are_allowed() -> None:
    assert len(StreamConfiguration(tags=("t" * 256,) * 128).tags) == 128
