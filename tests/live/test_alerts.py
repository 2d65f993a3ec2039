"""What is an alert, and what isn't one."""

from __future__ import annotations

import pytest

from pyspark_pravega.client import RetentionPolicy, Stream
from pyspark_pravega.connector.log import Intent, State
from pyspark_pravega.live.health.alerts import (
    Alert,
    Level,
    about_jobs,
    about_lag,
    about_retention,
    about_subscribers,
    about_writers,
    size,
    span,
)
from pyspark_pravega.live.pictures import JobPicture
from pyspark_pravega.live.progress import Outlook, Trend
from pyspark_pravega.live.queries import QueryLine, SourceLag
from pyspark_pravega.live.rates import rhythm
from pyspark_pravega.live.watched import Growth

NOW = 1_800_000_000.0
STREAM = Stream("shop", "large-orders")
QUERY = "0c3e5a7b-1d2e-4f60-8a9b-0c1d2e3f4a5b"


def source(behind: int) -> SourceLag:
    return SourceLag(stream=str(STREAM), bytes_behind=behind, events_behind=behind // 100, segments=1, unread={0: 0})


def query(
    one: SourceLag, *, silent_s: float = 1.0, interval_ms: int | None = 4000, silence_ms: int = 60_000
) -> QueryLine:
    return QueryLine(
        checkpoint="/data/fraud",
        name="fraud",
        query=QUERY,
        batch=7,
        committed_at=round((NOW - silent_s) * 1000),
        interval_ms=interval_ms,
        silence_ms=silence_ms,
        sources=(one,),
        error=None,
    )


def told(alerts: list[Alert]) -> list[tuple[Level, str]]:
    return [(alert.level, alert.kind) for alert in alerts]


def test_a_lag_that_grows_and_a_query_that_has_stopped() -> None:
    behind, steady = source(3_000_000), Outlook(Trend.STEADY)
    grows = Outlook(Trend.FALLING_BEHIND, 12_500.0)
    assert about_lag(query(behind), behind, steady, NOW) == []
    (alert,) = about_lag(query(behind), behind, grows, NOW)
    assert told([alert]) == [(Level.WARN, "lag")]
    assert (alert.what, alert.text) == ("fraud", "falls behind shop.large_orders by 12.5 kB a second; 3 MB wait")
    (alert,) = about_lag(query(behind, silent_s=300), behind, grows, NOW)
    assert told([alert]) == [(Level.BAD, "query")]
    assert alert.text == "no micro-batch for 5 min, and 3 MB of shop.large_orders wait: has it stopped?"
    # It runs once an hour, or nothing waits.
    assert about_lag(query(behind, silent_s=300, silence_ms=36_000_000), behind, steady, NOW) == []
    assert about_lag(query(source(0), silent_s=300), source(0), steady, NOW) == []


def test_a_query_that_runs_now_and_then_hasn_t_stopped() -> None:
    behind, steady = source(3_000_000), Outlook(Trend.STEADY)
    (alert,) = about_lag(query(behind, silent_s=300, interval_ms=None), behind, steady, NOW)
    assert told([alert]) == [(Level.WARN, "query")]
    assert alert.text == "its only micro-batch was 5 min ago, and 3 MB of shop.large_orders wait: is it to run again?"


@pytest.mark.parametrize("batches", [1, 2, 5, 30])
def test_what_runs_each_hour_may_be_silent_for_two(batches: int) -> None:
    """Of the runs all micro-batches are known, or those of the last ones."""
    times = [3600.0 * run + batch for run in range(10) for batch in range(batches)]
    for known in (times, times[batches // 2 :]):
        comes = rhythm(known)
        assert 7000 <= comes.silence_s <= 36_000
        assert batches == 2 or comes.interval_s == (3600 if batches == 1 else 1)
    # After its first run nothing tells that there will be others; and one pause may have been a fault.
    assert rhythm(times[:batches]).silence_s == 60
    assert batches == 1 or rhythm(times[: 2 * batches]).silence_s == 60


def test_what_retention_is_about_to_take() -> None:
    hour, kilobyte = RetentionPolicy.by_time(3_600_000), RetentionPolicy.by_size(1000)
    unless, hours = ", unless it is a subscriber", RetentionPolicy.by_time(3_600_000, 7_200_000)
    for policy, behind, age_s, expected in [
        (None, 200, 3000, None),
        (hour, 0, 3000, None),
        (hour, 200, 2000, None),
        (hour, 200, None, None),
        (hour, 300, 3000, f"in 10 min{unless}"),
        (hours, 300, 5000, f"now{unless}"),
        # So long it waits for nobody.
        (hours, 300, 6600, "in 10 min"),
        (RetentionPolicy.by_time(1_000_000), 300, 3000, f"now{unless}"),
        (kilobyte, 700, None, None),
        (kilobyte, 900, None, f"when 100 B more are written{unless}"),
        (kilobyte, 1100, None, f"now{unless}"),
        (RetentionPolicy.by_size(100, 1000), 1100, None, "now"),
    ]:
        one = source(behind)
        alerts = about_retention(query(one), one, policy, None if age_s is None else NOW - age_s, NOW)
        assert told(alerts) == ([] if expected is None else [(Level.BAD, "retention")]), (policy, behind)
        if expected is not None:
            words = f"what it hasn't read yet {expected}"
            assert words in alerts[0].text if "unless" in expected else alerts[0].text.endswith(words)


def test_what_retention_no_longer_keeps_for_subscribers() -> None:
    days = RetentionPolicy.by_time(86_400_000, 864_000_000)
    sizes = RetentionPolicy.by_size(1000, 10_000)
    names = ["shop/nightly", "shop/fraud"]
    for policy, stored, age_s, who, expected in [
        (days, 5000, 86_400 * 7, names, None),
        (days, 5000, 86_400 * 9, names, "in 24 h what one of its 2 subscribers needs"),
        (days, 5000, 86_400 * 11, names[:1], "now what subscriber shop/nightly needs"),
        (days, 5000, 86_400 * 11, [], None),
        (days, 5000, None, names, None),
        (sizes, 7000, None, names, None),
        (sizes, 9000, None, names[:1], "when 1 kB more are written what subscriber shop/nightly needs"),
        # It takes this with the next look, whoever subscribes.
        (RetentionPolicy.by_size(9000, 10_000), 9100, None, names, None),
        (RetentionPolicy.by_size(1000), 9100, None, names, None),
    ]:
        alerts = about_subscribers(STREAM, who, policy, stored, None if age_s is None else NOW - age_s, NOW)
        assert told(alerts) == ([] if expected is None else [(Level.BAD, "retention")]), (policy, stored, age_s)
        assert expected is None or f"retention takes {expected}" in alerts[0].text


def growths(every_s: float, count: int, silent_s: float, by: str | None = None) -> list[Growth]:
    return [Growth(NOW - silent_s - every_s * number, by) for number in reversed(range(count))]


@pytest.mark.parametrize(
    ("some", "is_silent"),
    [
        (growths(4, 20, 10, QUERY), False),
        (growths(4, 20, 90, QUERY), True),
        (growths(4, 20, 200_000, QUERY), False),
        # It writes every 20 s, so 90 s are no silence yet.
        (growths(20, 20, 90, QUERY), False),
        # Ten statements one after another, and then none, are a job that is done.
        (growths(1, 10, 90), False),
        (growths(20, 20, 600), True),
        (growths(20, 20, 7200), False),
        (growths(20, 3, 600), False),
    ],
)
def test_who_is_silent(some: list[Growth], is_silent: bool) -> None:
    alerts = about_writers(STREAM, some, {QUERY: "fraud"}, NOW)
    assert told(alerts) == ([(Level.WARN, "writer")] if is_silent else [])
    if is_silent:
        assert ("query fraud no longer writes" in alerts[0].text) == (some[0].query is not None)


def job(age_s: float, state: str, *, committing: bool = False) -> JobPicture:
    since = round((NOW - age_s) * 1000)
    return JobPicture(job="5f0e", since=since, transactions=(("t", state),), committing=committing)


@pytest.mark.parametrize(
    ("one", "words"),
    [
        (job(100, "OPEN"), None),
        (job(500, "OPEN"), "ends in 2 min, unless its driver renews it"),
        # It was renewed.
        (job(3000, "OPEN"), None),
        (job(80_000, "OPEN"), "ends in 2 h: Pravega lets none live a day"),
        (job(100, "ABORTED"), "is over, and the job isn't"),
        (job(100, "COMMITTED", committing=True), None),
    ],
)
def test_transactions_that_are_about_to_end(one: JobPicture, words: str | None) -> None:
    alerts = about_jobs(STREAM, [one], State(), NOW)
    assert told(alerts) == ([] if words is None else [(alerts[0].level, "transaction")])
    assert words is None or words in alerts[0].text


def test_a_commit_that_does_not_come_to_its_end() -> None:
    for age_s, expected in ((5, []), (120, [(Level.BAD, "commit")])):
        pending = Intent(job="j", transactions=(), rows=1, bytes=1, started_at=round((NOW - age_s) * 1000))
        assert told(about_jobs(STREAM, [], State(pending=pending), NOW)) == expected


def test_times_and_sizes_as_people_say_them() -> None:
    assert [span(seconds) for seconds in (0.25, 5, 89, 90, 7200, 604_800)] == [
        *("250 ms", "5 s", "89 s", "2 min", "2 h", "7 days"),
    ]
    assert [size(number) for number in (0, 999, 1000, 12_345_678, 2.5e12)] == [
        "0 B",
        "999 B",
        "1 kB",
        "12.3 MB",
        "2.5 TB",
    ]
