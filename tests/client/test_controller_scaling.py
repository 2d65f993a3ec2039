"""Scaling on a real controller."""

from __future__ import annotations

import itertools
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from client_tools import append, content, framed, make_stream
from hypothesis import given
from hypothesis import strategies as st

from pyspark_pravega.client import Client, Controller, ScalingPolicy, Stream, StreamConfiguration, StreamSegments
from pyspark_pravega.client.controller.scaling import even_ranges
from pyspark_pravega.errors import ConfigurationError, ScaleRefusedError
from pyspark_pravega.settings import Settings

server = pytest.mark.server


@pytest.fixture
def controller(client: Client) -> Controller:
    return client.controller


def borders(segments: StreamSegments) -> list[float]:
    return [r.max_key for r in segments.ranges]


@pytest.fixture
def stream(client: Client, scope: str) -> Stream:
    return make_stream(client, scope, "t")


@server
@pytest.mark.parametrize(
    ("sealed", "ranges"), [([0], [(0.0, 1.0)]), ([0], [(0.0, 0.4)]), ([99], [(0.0, 0.5)]), ([0, 1], [(0.0, 1.0)])]
)
def test_a_scale_that_does_not_fit_is_refused(
    client: Client, scope: str, sealed: list[int], ranges: list[tuple[float, float]]
) -> None:
    stream = make_stream(client, scope, "t", segments=2)
    with pytest.raises(ScaleRefusedError, match=f'refused to scale stream "{stream}"'):
        client.controller.scale(stream, sealed, ranges, now_ms=time.time_ns() // 1_000_000)
    assert client.controller.current_segments(stream).ids == (0, 1)


@server
def test_a_scale_waits_until_it_is_done(client: Client, scope: str) -> None:
    stream = make_stream(client, scope, "t", segments=2)
    after = client.controller.scale_stream(stream, [1], [(0.5, 0.75), (0.75, 1.0)])
    assert after == client.controller.current_segments(stream)
    assert [(r.min_key, r.max_key) for r in after.ranges] == [(0.0, 0.5), (0.5, 0.75), (0.75, 1.0)]
    assert after.ids == (0, 1 << 32 | 2, 1 << 32 | 3)


@server
def test_a_scale_that_is_done_already_is_not_done_again(client: Client, scope: str) -> None:
    stream = make_stream(client, scope, "t", segments=2)
    once = client.controller.scale_stream(stream, [1], [(0.5, 0.75), (0.75, 1.0)])
    assert client.controller.scale_stream(stream, [1], [(0.5, 0.75), (0.75, 1.0)]) == once


@server
def test_scales_at_the_same_time_come_one_after_another(client: Client, scope: str) -> None:
    controller, stream = client.controller, make_stream(client, scope, "t", segments=4)
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda segment_id: controller.split_segment(stream, segment_id), range(4)))
    assert [(r.min_key, r.max_key) for r in controller.current_segments(stream).ranges] == even_ranges(8)


@server
def test_of_several_who_scale_a_segment_differently_one_does(client: Client, stream: Stream) -> None:
    def split(parts: int) -> str:
        try:
            client.controller.split_segment(stream, 0, parts)
        except ScaleRefusedError as error:
            return str(error)
        return ""

    with ThreadPoolExecutor(3) as threads:
        refused = [why for why in threads.map(split, (2, 3, 4)) if why]
    assert len(refused) == 2
    assert all(f'stream "{stream}"' in why and "current" in why for why in refused)


@server
def test_segments_are_split_and_merged_with_all_their_events(client: Client, stream: Stream) -> None:
    controller = client.controller
    append(client, stream, 0, framed(b"first"))
    parts = controller.split_segment(stream, 0, 3)
    assert [(r.min_key, r.max_key) for r in parts.ranges] == even_ranges(3)
    for segment_id in parts.ids:
        append(client, stream, segment_id, framed(b"second"))
    with pytest.raises(ScaleRefusedError, match="they are no neighbours"):
        controller.merge_segments(stream, [parts.ids[0], parts.ids[2]])
    merged = controller.merge_segments(stream, reversed(parts.ids[1:]))
    assert [(r.min_key, r.max_key) for r in merged.ranges] == [even_ranges(3)[0], (even_ranges(3)[1][0], 1.0)]
    append(client, stream, merged.ids[1], framed(b"third"))
    events = b"".join(content(client.pool, stream, i) for i in controller.segments_between(stream))
    assert events == framed(b"first") + 3 * framed(b"second") + framed(b"third")


@server
def test_a_stream_gets_any_number_of_segments_and_its_configuration_follows(client: Client, stream: Stream) -> None:
    controller = client.controller
    for segments in (5, 2, 7, 1):
        after = controller.scale_to(stream, segments)
        assert borders(after) == pytest.approx([high for _, high in even_ranges(segments)])
        assert controller.stream_configuration(stream).scaling == ScalingPolicy.fixed(segments)
    before = controller.split_segment(stream, after.ids[0], 3)
    assert controller.scale_to(stream, 3) == before
    assert controller.scale_to(stream, 2).ids != before.ids
    with pytest.raises(ConfigurationError, match="at least 1 segment, not 0"):
        controller.scale_to(stream, 0)


@server
def test_a_stream_that_scales_by_itself_is_scaled_by_hand_as_far_as_needed(client: Client, scope: str) -> None:
    controller, stream = client.controller, Stream(scope, "t")
    policy = ScalingPolicy.by_events_per_second(100_000, min_segments=4)
    controller.create_stream(stream, StreamConfiguration(scaling=policy))
    four = controller.current_segments(stream)
    six = controller.scale_to(stream, 6)
    assert borders(six) == pytest.approx([high for _, high in even_ranges(6)])
    assert controller.stream_configuration(stream).scaling == policy
    two = controller.scale_to(stream, 2)
    assert len(two.ids) == 2
    assert controller.stream_configuration(stream).scaling == replace(policy, min_segments=2)
    # Only what must be replaced is.
    three = controller.split_segment(stream, two.ids[0])
    assert controller.scale_to(stream, 4).ids[2:] != three.ids[1:]
    assert set(four.ids).isdisjoint(controller.current_segments(stream).ids)


@server
@pytest.mark.parametrize(
    ("sealed", "ranges", "why"),
    [
        ([0, 1], [(0.0, 1.0)], "left with 1 segments, and its configuration says 2 at least"),
        ([0], [(0.0, 0.4)], "must cover exactly the keys"),
        ([0], [(0.0, 0.3), (0.2, 0.5)], "must cover exactly the keys"),
        ([0], [(0.5, 0.0)], "must cover exactly the keys"),
        ([0], [], "must cover exactly the keys"),
        ([0], [(0.0, 0.5), (0.0, 0.5)], "begin at the same key"),
        ([99], [(0.0, 0.5)], r"of the segments \[99\] to be replaced only \[\] are current"),
        ([0, 99], [(0.0, 0.5)], r"only \[0\] are current: it may have been scaled already; all current .* \[0, 1\]"),
        ([1 << 40], [(0.0, 0.5)], "are current"),
    ],
)
def test_a_refusal_says_why(
    client: Client, settings: Settings, scope: str, sealed: list[int], ranges: list[tuple[float, float]], why: str
) -> None:
    stream = make_stream(client, scope, "t", segments=2)
    # What can't be is refused at once, without waiting for other scales to end: the test's own time is over before.
    with Controller(settings.controller_uri, timeout=3000) as patient:
        for call in (patient.scale, patient.scale_stream):
            with pytest.raises(ScaleRefusedError, match=why):
                call(stream, sealed, ranges)
    assert client.controller.current_segments(stream).ids == (0, 1)


@server
def test_a_scale_nobody_began_never_ends(controller: Controller, stream: Stream) -> None:
    assert controller.is_scaled(stream, 0) is False
    assert controller.is_scaled(stream, 99) is False


@given(st.integers(1, 500), st.floats(0, 0.5), st.floats(0.6, 1))
def test_even_ranges_touch_each_other_and_cover_all(parts: int, low: float, high: float) -> None:
    ranges = even_ranges(parts, low, high)
    assert len(ranges) == parts
    assert (ranges[0][0], ranges[-1][1]) == (low, high)
    assert all(a[1] == b[0] for a, b in itertools.pairwise(ranges))
    assert max(b - a for a, b in ranges) - min(b - a for a, b in ranges) < 1e-9


def test_there_are_no_even_ranges_of_nothing() -> None:
    with pytest.raises(ConfigurationError, match="at least 1 segment, not 0"):
        even_ranges(0)
