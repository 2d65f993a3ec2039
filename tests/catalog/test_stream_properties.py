"""Properties that are a stream's configuration: read from it, and written into it."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_pravega.catalog import foreign_properties
from pyspark_pravega.catalog.properties import known_properties
from pyspark_pravega.catalog.stream_properties import STREAM_PROPERTIES, shown, stream_configuration
from pyspark_pravega.client import RetentionPolicy, RetentionType, ScaleType, ScalingPolicy, StreamConfiguration
from pyspark_pravega.connector.table import OWN_PROPERTIES
from pyspark_pravega.errors import ConfigurationError

NEW = StreamConfiguration()

scalings = st.one_of(
    st.builds(ScalingPolicy.fixed, st.integers(1, 10_000)),
    st.builds(
        ScalingPolicy,
        scale_type=st.sampled_from([ScaleType.BY_EVENTS_PER_SECOND, ScaleType.BY_KILOBYTES_PER_SECOND]),
        target_rate=st.integers(1, 2**31 - 1),
        scale_factor=st.integers(2, 1000),
        min_segments=st.integers(1, 10_000),
    ),
)
amounts = st.integers(0, 10**14)
retentions = st.one_of(
    st.none(),
    st.builds(
        lambda kind, some, more: RetentionPolicy(retention_type=kind, minimum=some, maximum=some + more),
        st.sampled_from(RetentionType),
        amounts,
        amounts,
    ),
    st.builds(
        lambda kind, some: RetentionPolicy(retention_type=kind, minimum=some), st.sampled_from(RetentionType), amounts
    ),
)
tags = st.sets(st.from_regex(r"[a-z]{1,5}", fullmatch=True), max_size=3).map(lambda found: tuple(sorted(found)))


@given(st.builds(StreamConfiguration, scaling=scalings, retention=retentions, tags=tags, rollover_size_bytes=amounts))
def test_a_configuration_comes_back_from_its_properties(configuration: StreamConfiguration) -> None:
    assert stream_configuration(NEW, shown(configuration)) == configuration


def test_what_isn_t_named_stays() -> None:
    before = stream_configuration(NEW, {"segments": "3", "retention": "7 days", "tags": "b, a"})
    assert before.tags == ("a", "b")
    after = stream_configuration(before, {"retention-limit": "2 days", "retention": "1 day"})
    assert shown(after) == {"segments": "3", "retention": "1 days", "retention-limit": "2 days", "tags": "a, b"}
    assert shown(stream_configuration(after, {}, ["retention", "tags", "segments"])) == {"segments": "1"}


@pytest.mark.parametrize(
    ("text", "kind", "amount"),
    [
        ("7 days", RetentionType.TIME, 7 * 86_400_000),
        ("1 Day", RetentionType.TIME, 86_400_000),
        ("90minutes", RetentionType.TIME, 5_400_000),
        ("30d", RetentionType.TIME, 30 * 86_400_000),
        ("12h", RetentionType.TIME, 43_200_000),
        ("15 min", RetentionType.TIME, 900_000),
        ("2 weeks", RetentionType.TIME, 14 * 86_400_000),
        ("500ms", RetentionType.TIME, 500),
        ("10 GB", RetentionType.SIZE, 10 << 30),
        ("64 MiB", RetentionType.SIZE, 64 << 20),
        ("64g", RetentionType.SIZE, 64 << 30),
        ("512 bytes", RetentionType.SIZE, 512),
    ],
)
def test_retention_is_a_time_or_a_size(text: str, kind: RetentionType, amount: int) -> None:
    retention = stream_configuration(NEW, {"retention": text}).retention
    assert retention == RetentionPolicy(retention_type=kind, minimum=amount)


def test_scaling_is_fixed_or_a_rate() -> None:
    scaled = stream_configuration(NEW, {"scaling": "100 events/s", "scale-factor": "3", "segments": "2"})
    assert scaled.scaling == ScalingPolicy.by_events_per_second(100, factor=3, min_segments=2)
    assert stream_configuration(scaled, {"scaling": "fixed"}).scaling == ScalingPolicy.fixed(2)


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"segments": "0"}, '"segments" must be a number from 1 to 10000, not "0"'),
        ({"scaling": "fast"}, 'a rate for each segment like "1000 events/s"'),
        ({"scaling": "0 events/s"}, 'a rate for each segment like "1000 events/s"'),
        ({"scaling": "5 events/s", "scale-factor": "1"}, '"scale-factor" must be a number from 2 to 1000'),
        ({"scale-factor": "3"}, '"scale-factor" goes with a rate in "scaling"'),
        ({"scale-factor": "x", "scaling": "fixed"}, '"scale-factor" goes with a rate in "scaling"'),
        ({"retention": "7"}, '"retention" = "7" may be a time or a size: write a unit of one of them'),
        ({"retention": "15m"}, 'as in "15 min" or "15 MB"'),
        ({"retention": "-1 days"}, '"retention" must be a time or a size like 7 days, 12h or 10 GB, not "-1 days"'),
        ({"retention": "7 dayss"}, 'not "7 dayss"'),
        (
            {"retention": "7 days", "retention-limit": "1 GB"},
            '"1 GB" must both be times, or both sizes',
        ),
        ({"retention": "7 days", "retention-limit": "1 day"}, "minimum <= maximum"),
        ({"retention-limit": "1 day"}, 'limits what "retention" keeps'),
        ({"rollover-size": "big"}, '"rollover-size" must be a number of bytes like 1000000, 64m or 10 GB, not "big"'),
    ],
)
def test_malformed_values_are_refused(properties: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        stream_configuration(NEW, properties)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    "key", sorted({*foreign_properties.KAFKA, *foreign_properties.LAKES, "delta.x", "write.x.y", "hoodie.z"})
)
@pytest.mark.parametrize("spelled", [str, str.upper])
def test_properties_of_other_systems_are_refused_with_their_twins(key: str, spelled: Callable[[str], str]) -> None:
    with pytest.raises(ConfigurationError, match="and does nothing here") as refused:
        known_properties({spelled(key): "1"})
    named = set(re.findall(r"'([a-z-]+)'(?: =| says)", str(refused.value)))
    assert named <= OWN_PROPERTIES | STREAM_PROPERTIES
    assert named or re.search("leave it out|CHANGES|without 'primary-key'", str(refused.value))


@pytest.mark.parametrize(
    ("key", "value", "meant"),
    [
        ("retention.ms", "604800000", {"retention": "7 days"}),
        ("retention.ms", "1500", {"retention": "1500 ms"}),
        ("retention.bytes", "1073741824", {"retention": "1 GiB"}),
        ("log.retention.hours", "168", {"retention": "7 days"}),
        ("log.retention.minutes", "90", {"retention": "90 minutes"}),
        ("segment.bytes", "67108864", {"rollover-size": "64 MiB"}),
        ("partitions", "8", {"segments": "8"}),
        ("num.partitions", "3", {"segments": "3"}),
        ("retention.ms", "-1", {}),
        ("retention.bytes", "-1", {}),
        ("cleanup.policy", "delete", {"retention": "7 days"}),
        ("cleanup.policy", "compact", {"primary-key": "id", "compact-when": "1 GB"}),
        ("compression.type", "none", {}),
        ("compression.type", "gzip", {"compression": "gzip"}),
        ("compression.type", "snappy", {"compression": "snappy"}),
    ],
)
def test_the_value_that_was_given_is_told_in_our_words(key: str, value: str, meant: dict[str, str]) -> None:
    """What a message recommends is taken, and means the same."""
    with pytest.raises(ConfigurationError, match="and does nothing here") as refused:
        known_properties({key: value})
    said = dict(re.findall(r"'([a-z-]+)' = '([^']+)'", str(refused.value)))
    assert {name: said[name] for name in meant if name in said} == meant
    assert meant or ("leave it out" in str(refused.value) and not said)
    assert known_properties(said) == said
    stream_configuration(NEW, {name: text for name, text in said.items() if name in STREAM_PROPERTIES})


def test_properties_of_ones_own_are_kept() -> None:
    own = {"team.owner": "us", "deltas.x": "1", "team.retention.ms": "7"}
    assert known_properties(own) == own
