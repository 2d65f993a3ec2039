"""What somebody should look at: rules over what is known, each of them a sentence. Nothing is asked here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from statistics import median

from pyspark_pravega.client import RetentionPolicy, RetentionType, Stream
from pyspark_pravega.client.policies import UNLIMITED
from pyspark_pravega.connector.log import State
from pyspark_pravega.live.pictures import JobPicture
from pyspark_pravega.live.progress import Outlook, Trend, table_name
from pyspark_pravega.live.queries import QueryLine, SourceLag
from pyspark_pravega.live.rates import SILENT_INTERVALS, rhythm
from pyspark_pravega.live.watched import Growth

STEADY_S = 300.0
"""Jobs that wrote at about equal intervals for less were a burst, of which an end is to be expected."""
IDLE_S, DAY_S = 3600.0, 86_400.0
"""After that silence is how a table is: of jobs, of streaming queries."""
LEASE_S = 600.0
"""The longest lease: a transaction that nobody renews ends then."""
EXPIRES_SOON_S, DIES_SOON_S = 480.0, 0.9 * DAY_S
"""From then on a transaction is about to end: for want of renewals; because Pravega lets none live for a day."""
COMMIT_S = 30.0
"""A commit that takes longer has lost its driver, or its servers."""
RETENTION_PART = 0.8
"""From this part of what is kept on a query is near the end of it."""
GROWS_BYTES = 65_536
"""A smaller lag that grows is none."""
_LEAST_GROWTHS = 5


class Level(StrEnum):
    """How bad it is."""

    WARN = "warn"
    BAD = "bad"


@dataclass(frozen=True, kw_only=True)
class Alert:
    """Something that somebody should look at."""

    level: Level
    kind: str
    """`lag`, `query`, `writer`, `transaction`, `commit`, `retention`, `server` or `stream`."""
    what: str
    """A query's or a table's name, or a server's kind."""
    text: str
    """What is so, and what that means."""
    stream: str | None = None
    """`scope/stream`, where it is about one."""
    since: int | None = None
    """In ms since 1970."""


def about_lag(line: QueryLine, source: SourceLag, goes: Outlook, now: float) -> list[Alert]:
    """A lag that grows, or a query that does nothing about it.

    Args:
        line: the query.
        source: what it reads.
        goes: how its lag goes.
        now: seconds since 1970.
    """
    table = table_name(Stream.parse(source.stream))
    silent_s = 0.0 if line.committed_at is None else now - line.committed_at / 1000
    waits = f"{size(source.bytes_behind)} of {table} wait"
    if source.bytes_behind and line.silence_ms is not None and silent_s > line.silence_ms / 1000:
        if line.interval_ms is None:
            text = f"its only micro-batch was {span(silent_s)} ago, and {waits}: is it to run again?"
            return [_of_query(line, source, Level.WARN, "query", text)]
        text = f"no micro-batch for {span(silent_s)}, and {waits}: has it stopped?"
        return [_of_query(line, source, Level.BAD, "query", text)]
    if goes.trend is Trend.FALLING_BEHIND and source.bytes_behind > GROWS_BYTES and goes.change is not None:
        text = f"falls behind {table} by {size(goes.change)} a second; {size(source.bytes_behind)} wait"
        return [_of_query(line, source, Level.WARN, "lag", text)]
    return []


def about_retention(
    line: QueryLine, source: SourceLag, policy: RetentionPolicy | None, since: float | None, now: float
) -> list[Alert]:
    """That retention is about to take what a query has still to read.

    Args:
        line: the query.
        source: what it reads.
        policy: the stream's retention; None where everything is kept.
        since: when the oldest of what it has to read was written, in seconds since 1970; None where that isn't known.
        now: likewise.
    """
    if policy is None or not source.bytes_behind:
        return []
    table = table_name(Stream.parse(source.stream))
    unless = ", unless it is a subscriber that retention waits for"
    for kept, otherwise in ((policy.maximum, ""), (policy.minimum, unless)):
        soon = _taken(policy, kept, source.bytes_behind, since, now)
        if soon is not None:
            text = f"retention of {table} takes what it hasn't read yet {soon}{otherwise}"
            return [_of_query(line, source, Level.BAD, "retention", text)]
    return []


def about_subscribers(
    stream: Stream, names: Sequence[str], policy: RetentionPolicy, stored: int, since: float | None, now: float
) -> list[Alert]:
    """That retention is about to take what subscribers haven't read: it has waited for them, and waits no longer.

    Args:
        stream: the stream.
        names: its subscribers.
        policy: its retention.
        stored: bytes that it holds.
        since: when the oldest of what it holds was written, in seconds since 1970; None where that isn't known.
        now: likewise.
    """
    # Until then it takes what all have read, and looks for that twice an hour.
    waits = policy.minimum + (policy.maximum - policy.minimum) / 2
    amount = stored if policy.retention_type is RetentionType.SIZE else 0 if since is None else (now - since) * 1000
    soon = _taken(policy, policy.maximum, stored, since, now)
    if not names or soon is None or amount < waits:
        return []
    who = f"subscriber {names[0]} needs" if len(names) == 1 else f"one of its {len(names)} subscribers needs"
    text = f"retention takes {soon} what {who}: it waits no longer for who hasn't read that"
    return [_of_stream(stream, Level.BAD, "retention", text, since=now if since is None else since)]


def _taken(policy: RetentionPolicy, kept: int, waiting: int, since: float | None, now: float) -> str | None:
    """When retention takes what waits, in words; None where that is far off."""
    if not 0 < kept < UNLIMITED:
        return None
    if policy.retention_type is RetentionType.SIZE:
        part, soon = waiting / kept, f"when {size(max(0, kept - waiting))} more are written"
    elif since is None:
        return None
    else:
        age_ms = (now - since) * 1000
        part, soon = age_ms / kept, f"in {span(max(0.0, (kept - age_ms) / 1000))}"
    return None if part < RETENTION_PART else soon if part < 1 else "now"


def about_writers(stream: Stream, growths: Sequence[Growth], names: dict[str, str], now: float) -> list[Alert]:
    """Writers that wrote at about equal intervals and are silent now.

    Args:
        stream: the stream.
        growths: what was written lately, the oldest first.
        names: of queries, by their ids.
        now: seconds since 1970.
    """
    alerts = []
    for query in dict.fromkeys(one.query for one in growths):
        times = [one.at for one in growths if one.query == query]
        gaps = [after - before for before, after in pairwise(times)]
        if len(times) < _LEAST_GROWTHS:
            continue
        comes, silent_s = rhythm(times), now - times[-1]
        goes_on = times[-1] - times[0] >= STEADY_S and max(gaps) <= SILENT_INTERVALS * median(gaps)
        is_steady, limit = (goes_on, IDLE_S) if query is None else (True, DAY_S)
        if not is_steady or not comes.silence_s < silent_s < limit:
            continue
        who = "nobody" if query is None else f"query {names.get(query, query[:8])} no longer"
        usual = span(comes.interval_s or 0.0)
        text = f"{who} writes to it for {span(silent_s)} now; before that something came every {usual}"
        alerts.append(_of_stream(stream, Level.WARN, "writer", text, since=times[-1]))
    return alerts


def about_jobs(stream: Stream, jobs: Iterable[JobPicture], state: State, now: float) -> list[Alert]:
    """Transactions that are about to end, or have ended before their job; commits that don't come to their end.

    Args:
        stream: the stream.
        jobs: those that are open.
        state: the commit log's state.
        now: seconds since 1970.
    """
    alerts = []
    for job in jobs:
        age_s, states = now - job.since / 1000, {state for _, state in job.transactions}
        name = f"job {(job.job or 'that ends')[:8]}"
        if "OPEN" in states and EXPIRES_SOON_S <= age_s < LEASE_S:
            text = f"the transaction of {name} ends in {span(LEASE_S - age_s)}, unless its driver renews it"
            alerts.append(_of_stream(stream, Level.WARN, "transaction", text, since=job.since / 1000))
        elif "OPEN" in states and age_s >= DIES_SOON_S:
            text = f"the transaction of {name} ends in {span(max(0.0, DAY_S - age_s))}: Pravega lets none live a day"
            alerts.append(_of_stream(stream, Level.BAD, "transaction", text, since=job.since / 1000))
        elif states & {"ABORTED", "ABORTING", "UNKNOWN"} and "OPEN" not in states and not job.committing:
            text = f"the transaction of {name} is over, and the job isn't: it was aborted, or its driver has died"
            alerts.append(_of_stream(stream, Level.WARN, "transaction", text, since=job.since / 1000))
    pending = state.pending
    if pending is not None and now - pending.started_at / 1000 > COMMIT_S:
        text = f"a commit is in progress for {span(now - pending.started_at / 1000)}: the next writer or reader ends it"
        alerts.append(_of_stream(stream, Level.BAD, "commit", text, since=pending.started_at / 1000))
    return alerts


def span(seconds: float) -> str:
    """A length of time as people say it."""
    for unit, length in (("days", DAY_S), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 1.5 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s" if seconds >= 1 else f"{seconds * 1000:.0f} ms"


def size(number: float) -> str:
    """A number of bytes as people say it."""
    for unit in ("B", "kB", "MB", "GB"):
        if number < 999.5:
            return f"{number:.3g} {unit}"
        number /= 1000
    return f"{number:.3g} TB"


def _of_query(line: QueryLine, source: SourceLag, level: Level, kind: str, text: str) -> Alert:
    return Alert(level=level, kind=kind, what=line.name, text=text, stream=source.stream)


def _of_stream(stream: Stream, level: Level, kind: str, text: str, *, since: float) -> Alert:
    what = table_name(stream)
    return Alert(level=level, kind=kind, what=what, text=text, stream=str(stream), since=round(since * 1000))
