"""Rates and outlooks of what was sampled, beside what one computes by hand."""

from __future__ import annotations

import time
from typing import Any

import pytest
from catalog_tools import insert, make

from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.client import Client, ScalingPolicy, Stream, StreamConfiguration
from pyspark_pravega.client.segments import surveying
from pyspark_pravega.connector.log import Commit, Ledger
from pyspark_pravega.live import sampling, watched
from pyspark_pravega.live.answers import Answers
from pyspark_pravega.live.progress import Measure, Trend, outlook
from pyspark_pravega.live.rates import Points, curve_of, recent_rate
from pyspark_pravega.live.watched import Sample


@pytest.mark.parametrize(
    ("points", "rate"),
    [
        ([], None),
        ([(0, 100)], None),
        ([(0, 0), (1, 100)], 100),
        # The last 5 s, where there are more.
        ([(0, 0), (5, 1000), (10, 1500)], 100),
        # Not all of the time since the sample before.
        ([(0, 0), (20, 2000)], 100),
        ([(0, 0), (8, 800), (10, 800)], 60),
        # What is committed each 20 s isn't nothing 6 s after a commit.
        ([(0, 0), (20, 1000), (40, 2000), (46, 2000)], 2000 / 46),
        # A minute later it is.
        ([(0, 0), (20, 1000), (85, 1000)], 0),
    ],
)
def test_rates_are_means_over_the_last_seconds(points: Points, rate: float | None) -> None:
    assert recent_rate(points) == (None if rate is None else pytest.approx(rate))


def test_what_a_commit_has_written_came_at_once() -> None:
    """Not evenly since the commit before, which was long ago."""
    now = time.time()

    def commit(version: int, age_s: float, size: int) -> Commit:
        at = round((now - age_s) * 1000)
        return Commit(version=version, job="j", transactions=(), rows=6, bytes=size, committed_at=at, cut={0: 700})

    samples = watched._samples([commit(1, 1200, 100), commit(2, 30, 600)], 700, 12)
    rate = recent_rate([(one.at, one.bytes) for one in [*samples, Sample(at=now, bytes=700, events=12)]])
    assert rate == pytest.approx(10, rel=0.05)


def test_a_curve_has_a_hole_where_nobody_looked() -> None:
    points = [(0, 0), (100, 50), (102, 70), (140, 90), (141, 100)]
    assert curve_of(points, 142) == [(42, None), (40, 10), (2, None), (1, 10)]


def measures(*bytes_behind: int, every_s: float = 2.0) -> list[Measure]:
    return [Measure(at=number * every_s, bytes=size, events=0, read=0) for number, size in enumerate(bytes_behind)]


@pytest.mark.parametrize(
    ("history", "trend"),
    [
        (measures(), Trend.UNKNOWN),
        (measures(5000, 6000), Trend.UNKNOWN),
        (measures(0), Trend.KEEPING_UP),
        # Between its micro-batches a query is behind.
        (measures(20_000, 50_000, 0, 20_000, 50_000, 0, 20_000), Trend.KEEPING_UP),
        (measures(*range(900_000, 400_000, -50_000)), Trend.CATCHING_UP),
        (measures(*range(400_000, 900_000, 50_000)), Trend.FALLING_BEHIND),
        (measures(500_000, 501_000, 500_000, 502_000, 500_000, 501_000), Trend.STEADY),
    ],
)
def test_how_a_lag_goes(history: list[Measure], trend: Trend) -> None:
    assert outlook(history).trend is trend


def test_who_is_behind_by_a_micro_batch_keeps_up() -> None:
    history = [
        Measure(at=2.0 * number, bytes=20_000 + 30_000 * (number % 3), events=0, read=40_000 * number)
        for number in range(20)
    ]
    assert outlook(history, interval_s=6.0).trend is Trend.KEEPING_UP
    assert outlook(history, interval_s=0.2).trend is Trend.STEADY


def test_when_a_query_is_caught_up() -> None:
    goes = outlook(measures(*range(900_000, 400_000, -50_000)))
    assert goes.change == pytest.approx(-25_000)
    assert goes.caught_up_s == pytest.approx(450_000 / 25_000)
    assert outlook(measures(*range(400_000, 900_000, 50_000))).caught_up_s is None


@pytest.mark.server
@pytest.mark.usefixtures("no_sample_is_young")
def test_bytes_and_events_of_a_sample_are_of_one_moment(
    catalog: Catalog, client: Client, scope: str, answers: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else one of two samples has the bytes of what came in between, the other one its events, and each a rate of 0."""
    raw, survey, complete = Stream(scope, "raw"), surveying.survey, Ledger.complete
    client.controller.create_stream(raw, StreamConfiguration(scaling=ScalingPolicy.fixed(2)))
    table = make(catalog, scope, "orders", segments=2)
    insert(catalog, table, *range(10))
    answers.streams()

    def writing(*args: Any) -> Any:
        states = survey(*args)
        with client.writer(raw) as writer:
            writer.write_batch([b"x" * 10] * 7, [str(number) for number in range(7)])
        return states

    with monkeypatch.context() as busy:
        busy.setattr(sampling, "survey", writing)
        for _ in range(4):
            answers.streams()
    samples = [(size, events) for _, size, events in answers.sampler.samples(raw)]
    assert samples == [(18 * events, events) for _, events in samples]
    assert samples[-1][1] > 14

    def looked_at(*args: Any, **more: Any) -> Any:
        answers.streams()
        return complete(*args, **more)

    with monkeypatch.context() as in_progress:
        in_progress.setattr(Ledger, "complete", looked_at)
        insert(catalog, table, *range(10, 30))
    assert answers.sampler.logs()[table][1].pending is not None
    _, size, events = answers.sampler.samples(table)[-1]
    assert (size, events) == (sum(part.size for part in client.plan(table)), 30)
    answers.streams()
    assert answers.sampler.samples(table)[-1][1:] == (size, events)
