"""The table properties that are a stream's configuration: how it scales, what it retains, its tags."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from pyspark_pravega.client import RetentionPolicy, RetentionType, ScaleType, ScalingPolicy, StreamConfiguration
from pyspark_pravega.client.policies import UNLIMITED
from pyspark_pravega.declared import Properties, Property
from pyspark_pravega.errors import ConfigurationError
from pyspark_pravega.values import duration_text, number, size, size_text, time_or_size

SEGMENTS = "segments"
SCALING = "scaling"
SCALE_FACTOR = "scale-factor"
RETENTION = "retention"
RETENTION_LIMIT = "retention-limit"
TAGS = "tags"
ROLLOVER_SIZE = "rollover-size"
MAX_SEGMENTS = 10_000

_RATES = {"events/s": ScaleType.BY_EVENTS_PER_SECOND, "KB/s": ScaleType.BY_KILOBYTES_PER_SECOND}
_RATE = re.compile(r"([0-9]{1,15})\s*([A-Za-z/]+)")


def _tags(_: str, text: str) -> tuple[str, ...]:
    return tuple(sorted({tag.strip() for tag in text.split(",") if tag.strip()}))


def _rate(_: str, text: str) -> tuple[int, ScaleType] | None:
    if text.strip().lower() == "fixed":
        return None
    match = _RATE.fullmatch(text.strip())
    kind = match and next((kind for unit, kind in _RATES.items() if unit.lower() == match[2].lower()), None)
    if match is None or kind is None or not int(match[1]):
        raise ConfigurationError(
            f'table property "{SCALING}" must be fixed, or a rate for each segment like "1000 events/s" or '
            f'"500 KB/s", not "{text.strip()}"'
        )
    return int(match[1]), kind


class StreamProperties(Properties):
    """What is read from and written to the stream's configuration, and nowhere else."""

    segments = Property(
        name=SEGMENTS,
        value=f"1 to {MAX_SEGMENTS}",
        unset="1",
        about="how many segments the stream has; with `scaling` at least",
        parse=lambda name, text: number(name, text, least=1, most=MAX_SEGMENTS),
        default=1,
    )
    scaling = Property[tuple[int, ScaleType] | None](
        name=SCALING,
        value="`fixed`, or a rate: `1000 events/s`, `500 KB/s`",
        unset="`fixed`",
        about="the rate that one segment should take",
        parse=_rate,
        default=None,
    )
    scale_factor = Property(
        name=SCALE_FACTOR,
        value="2 to 1000",
        unset="2",
        about="into how many a busy segment splits; with `scaling`",
        parse=lambda name, text: number(name, text, least=2, most=1000),
        default=2,
    )
    retention = Property[str | None](
        name=RETENTION,
        value="`none`, a time (`7 days`, `12h`) or a size (`10 GiB`)",
        unset="`none`: everything is kept",
        about="what is kept at least",
        parse=lambda _, text: None if text.strip().lower() == "none" else text.strip(),
        default=None,
    )
    retention_limit = Property[str | None](
        name=RETENTION_LIMIT,
        value="as `retention`",
        unset="none",
        about="what is kept at most, while subscribers lag",
        parse=lambda _, text: text,
        default=None,
    )
    tags = Property[tuple[str, ...]](
        name=TAGS,
        value="words with commas between",
        unset="none",
        about="the stream's tags",
        parse=_tags,
        default=(),
    )
    rollover_size = Property(
        name=ROLLOVER_SIZE,
        value="a size, `64 MiB`",
        unset="the server's",
        about="the size of a segment's files in long-term storage",
        parse=size,
        default=0,
    )


STREAM_PROPERTIES = StreamProperties.names()
"""Their names."""


def stream_configuration(
    before: StreamConfiguration, given: Mapping[str, str], unset: Iterable[str] = ()
) -> StreamConfiguration:
    """A stream's configuration with some properties changed.

    Args:
        before: the configuration so far.
        given: properties with new values; others than those of a stream are passed over.
        unset: properties that get their defaults again.

    Raises:
        ConfigurationError: a value is malformed, or values contradict each other.
    """
    properties = {
        **{key: value for key, value in shown(before).items() if key not in set(unset)},
        **{key: value for key, value in given.items() if key in STREAM_PROPERTIES},
    }
    if RETENTION not in properties and RETENTION_LIMIT in properties and RETENTION_LIMIT not in given:
        del properties[RETENTION_LIMIT]
    texts = StreamProperties(properties)
    return replace(
        before,
        scaling=_scaling(texts, given),
        retention=_retention(texts, given),
        tags=texts.tags,
        rollover_size_bytes=texts.rollover_size,
    )


def shown(configuration: StreamConfiguration) -> dict[str, str]:
    """A stream's configuration as properties; those that have their defaults are left out.

    Args:
        configuration: the configuration.
    """
    scaling, retention = configuration.scaling, configuration.retention
    properties = {SEGMENTS: str(scaling.min_segments)}
    if scaling.scale_type is not ScaleType.FIXED:
        unit = next(unit for unit, kind in _RATES.items() if kind is scaling.scale_type)
        properties[SCALING] = f"{scaling.target_rate} {unit}"
        properties[SCALE_FACTOR] = str(scaling.scale_factor)
    if retention is not None:
        text = duration_text if retention.retention_type is RetentionType.TIME else size_text
        properties[RETENTION] = text(retention.minimum)
        if retention.maximum < UNLIMITED:
            properties[RETENTION_LIMIT] = text(retention.maximum)
    if configuration.tags:
        properties[TAGS] = ", ".join(configuration.tags)
    if configuration.rollover_size_bytes:
        properties[ROLLOVER_SIZE] = size_text(configuration.rollover_size_bytes)
    return properties


def _scaling(properties: StreamProperties, given: Mapping[str, str]) -> ScalingPolicy:
    if properties.scaling is None:
        if SCALE_FACTOR in given:
            raise ConfigurationError(
                f'table property "{SCALE_FACTOR}" goes with a rate in "{SCALING}", at which segments split: set both, '
                'as in "1000 events/s" and "2"'
            )
        return ScalingPolicy.fixed(properties.segments)
    rate, kind = properties.scaling
    return ScalingPolicy(
        scale_type=kind, target_rate=rate, scale_factor=properties.scale_factor, min_segments=properties.segments
    )


def _retention(properties: StreamProperties, given: Mapping[str, str]) -> RetentionPolicy | None:
    text = properties.retention
    if text is None:
        if RETENTION_LIMIT in given:
            raise ConfigurationError(
                f'table property "{RETENTION_LIMIT}" limits what "{RETENTION}" keeps: set both, as in "7 days" and '
                '"30 days"'
            )
        return None
    milliseconds, octets = time_or_size(RETENTION, text)
    limit = properties.get(RETENTION_LIMIT)
    limit_ms, limit_octets = (None, None) if limit is None else time_or_size(RETENTION_LIMIT, limit)
    if limit is not None and (milliseconds is None) != (limit_ms is None):
        if RETENTION_LIMIT in given:
            raise ConfigurationError(
                f'table properties "{RETENTION}" = "{text}" and "{RETENTION_LIMIT}" = "{limit}" must both be times, '
                "or both sizes"
            )
        # It belongs to what was there before.
        limit_ms = limit_octets = None
    if milliseconds is not None:
        return RetentionPolicy.by_time(milliseconds, UNLIMITED if limit_ms is None else limit_ms)
    assert octets is not None
    return RetentionPolicy.by_size(octets, UNLIMITED if limit_octets is None else limit_octets)
