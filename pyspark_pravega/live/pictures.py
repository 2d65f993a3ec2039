"""A stream as pictures show it: key ranges over time, commits, and what is still open."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark_pravega.client import Client, RetentionPolicy, RetentionType, SegmentRange, Stream
from pyspark_pravega.client.names import segment_epoch, segment_number
from pyspark_pravega.client.policies import UNLIMITED
from pyspark_pravega.client.segments import SegmentState, segment_states
from pyspark_pravega.clock import now_ms
from pyspark_pravega.connector.log import Commit, Ledger, State, open_ledger
from pyspark_pravega.values import duration_text, size_text

MOST_SEGMENTS = 400
MOST_COMMITS = 200
_MOST_TRANSACTIONS = 50
Tails = Mapping[int, list[tuple[float, int]]]


@dataclass(frozen=True, kw_only=True)
class SegmentPicture:
    """A segment: the keys that it owns, from when to when, and how fast it was written."""

    segment: int
    epoch: int
    number: int
    min_key: float
    max_key: float
    made_at: int
    """In ms since 1970."""
    ended_at: int | None
    """When its successors were made; None of one that takes events, or of a sealed stream's last ones."""
    start_offset: int
    end_offset: int
    sealed: bool
    successors: tuple[int, ...]
    points: tuple[tuple[int, int], ...]
    """When, in ms since 1970, its tail was where: at its begin, at commits, at samples, and now."""


@dataclass(frozen=True, kw_only=True)
class CommitPicture:
    """A version of the table."""

    version: int
    committed_at: int
    """In ms since 1970."""
    rows: int
    bytes: int
    writer: str
    """Who wrote it: a streaming query and its epoch, or a job."""
    query: str | None
    epoch: int | None
    transactions: int
    milliseconds: int | None
    """From the commit's intent to its end; None of versions of before this was kept."""
    replaces: bool
    """Whether it made the table another one."""


@dataclass(frozen=True, kw_only=True)
class JobPicture:
    """A job that hasn't come to its end."""

    job: str | None
    since: int
    """In ms since 1970."""
    transactions: tuple[tuple[str, str], ...]
    """Ids and states of its transactions, at most fifty."""
    committing: bool
    """Whether its commit is in progress."""


@dataclass(frozen=True, kw_only=True)
class RetentionPicture:
    """What is truncated next."""

    policy: str
    """What is kept, in words."""
    bytes: int
    """That may be truncated when Pravega looks next; 0 when nothing is."""
    versions: tuple[int, int] | None
    """The versions of which rows go with that, first and last; None where the commit log knows of none."""
    until: int | None
    """When the last of these versions was committed, in ms since 1970."""
    due: str | None
    """What this package has still to truncate."""


@dataclass
class Gallery:
    """Pictures of one stream. It keeps what doesn't change: key ranges, successors, old versions. Safe for threads."""

    client: Client
    stream: Stream
    _ranges: dict[int, SegmentRange] = field(default_factory=dict)
    _successors: dict[int, tuple[int, ...]] = field(default_factory=dict)
    _commits: dict[int, Commit] = field(default_factory=dict)
    _states: dict[int, SegmentState] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def look(self, tails: Tails | None = None) -> dict[str, Any]:
        """All pictures, of now.

        Args:
            tails: where segments' tails were lately, as `Sampler.follow` gives it.

        Returns:
            `segments`, `hidden` (how many older ones aren't shown), `commits`, `jobs`, `queries`, `retention`, `state`.

        Raises:
            StreamNotFoundError: there is no such stream.
        """
        with self._lock:
            return self._look(tails or {})

    def _look(self, tails: Tails) -> dict[str, Any]:
        ledger = open_ledger(self.client, self.stream)
        state = State() if ledger is None else ledger.state()
        commits = [] if ledger is None else self._last_commits(ledger, state)
        segments, hidden = self.segments(commits, tails)
        return {
            "segments": segments,
            "hidden": hidden,
            "commits": [_commit_picture(commit) for commit in commits],
            "jobs": [] if ledger is None else self.jobs(ledger, state),
            "queries": [] if ledger is None else _queries(ledger),
            "retention": self.retention(segments, commits, state),
            "state": {"version": state.version, "rows": state.rows, "bytes": state.bytes},
        }

    def segments(self, commits: Iterable[Commit], tails: Tails) -> tuple[list[SegmentPicture], int]:
        """The segments from the stream's head to its tail, the oldest first, and how many older ones are left out.

        Args:
            commits: whose cuts tell where tails were.
            tails: where tails were lately.

        Raises:
            StreamNotFoundError: there is no such stream.
        """
        controller = self.client.controller
        current = controller.current_segments(self.stream)
        every = sorted({*controller.segments_between(self.stream), *current.ids})
        ids = every[-MOST_SEGMENTS:]
        self._ranges |= {r.segment_id: r for r in current.ranges}
        missing = [segment_id for segment_id in ids if segment_id not in self._ranges]
        if missing:
            self._ranges |= controller.segment_ranges(self.stream, missing)
        asked = [s for s in ids if s not in self._states or not self._states[s].sealed]
        states = segment_states(self.client.pool, self.stream, asked, created=True)
        self._states |= {segment_id: state for segment_id, state in states.items() if state is not None}
        head = dict(controller.head(self.stream))
        points: dict[int, list[tuple[int, int]]] = {}
        for commit in commits:
            for segment_id, offset in commit.cut.items():
                points.setdefault(segment_id, []).append((commit.committed_at, offset))
        for segment_id, some in tails.items():
            points.setdefault(segment_id, []).extend((round(at * 1000), offset) for at, offset in some)
        now = now_ms()
        pictures = [
            self._segment(segment_id, head.get(segment_id, 0), points.get(segment_id, []), now)
            for segment_id in ids
            if segment_id in self._states
        ]
        return pictures, len(every) - len(ids)

    def jobs(self, ledger: Ledger, state: State) -> list[JobPicture]:
        """The jobs that haven't come to their end, the oldest first.

        Args:
            ledger: the stream's commit log.
            state: its state.
        """
        pending = state.pending
        jobs = ledger.open_jobs()
        if pending is not None and pending.job not in {job.job for job in jobs}:
            states = self._transactions(pending.transactions)
            own = JobPicture(job=pending.job, since=pending.started_at, transactions=states, committing=True)
            return [own, *(self._job(job.job, job.since, job.transactions, None) for job in jobs)]
        return [
            self._job(job.job, job.since, job.transactions, None if pending is None else pending.job) for job in jobs
        ]

    def retention(
        self, segments: Sequence[SegmentPicture], commits: Sequence[Commit], state: State
    ) -> RetentionPicture | None:
        """What is truncated next; None where everything is kept, and nothing is due.

        Args:
            segments: all of them.
            commits: the last ones, the oldest first.
            state: the commit log's state.
        """
        due = "TRUNCATE TABLE, with the next commit" if state.truncation_due else None
        if state.cleaning is not None and not state.cleaning.done:
            due = f"what version {state.cleaning.version} has replaced"
        policy = self.client.controller.stream_configuration(self.stream).retention
        if policy is None and due is None:
            return None
        if policy is None:
            return RetentionPicture(policy="everything", bytes=0, versions=None, until=None, due=due)
        kept = sum(one.end_offset - one.start_offset for one in segments)
        goes, last, first = 0, None, None
        for commit in commits:
            before = sum(_until(commit.cut, one) - one.start_offset for one in segments)
            is_old = (
                kept - before >= policy.minimum
                if policy.retention_type is RetentionType.SIZE
                else commit.committed_at < now_ms() - policy.minimum
            )
            if before > 0 and is_old:
                goes, last, first = before, commit, first or commit
        if not commits and policy.retention_type is RetentionType.SIZE:
            goes = max(0, kept - policy.minimum)
        return RetentionPicture(
            policy=_words(policy),
            bytes=goes,
            versions=(first.version, last.version) if first and last else None,
            until=last.committed_at if last else None,
            due=due,
        )

    def _last_commits(self, ledger: Ledger, state: State) -> list[Commit]:
        wanted = range(max(1, state.version - MOST_COMMITS + 1), state.version + 1)
        newest = max(self._commits, default=0)
        if newest and ledger.commits([newest]) != [self._commits[newest]]:
            # The table was dropped and made again.
            self._commits.clear()
        missing = [version for version in wanted if version not in self._commits]
        self._commits = {v: c for v, c in self._commits.items() if v in wanted}
        self._commits |= {commit.version: commit for commit in (ledger.commits(missing) if missing else ())}
        return [self._commits[version] for version in wanted if version in self._commits]

    def _segment(self, segment_id: int, head: int, points: list[tuple[int, int]], now: int) -> SegmentPicture:
        state, owns = self._states[segment_id], self._ranges[segment_id]
        successors = self._followers(segment_id) if state.sealed else ()
        created_ms = [self._states[s].created_ms for s in successors if s in self._states]
        ended = min(created_ms) if created_ms else None
        known = [(state.created_ms, 0), *sorted(points), (ended or now, state.write_offset)]
        return SegmentPicture(
            segment=segment_id,
            epoch=segment_epoch(segment_id),
            number=segment_number(segment_id),
            min_key=owns.min_key,
            max_key=owns.max_key,
            made_at=state.created_ms,
            ended_at=ended,
            start_offset=max(state.start_offset, head),
            end_offset=state.write_offset,
            sealed=state.sealed,
            successors=successors,
            points=tuple(_ascending(known)),
        )

    def _followers(self, segment_id: int) -> tuple[int, ...]:
        if segment_id not in self._successors:
            successors = self.client.controller.successors(self.stream, segment_id)
            followers = tuple(one.segment.segment_id for one in successors)
            if not followers:
                return ()
            self._successors[segment_id] = followers
        return self._successors[segment_id]

    def _job(self, job: str | None, since: int, transactions: tuple[str, ...], committing: str | None) -> JobPicture:
        return JobPicture(
            job=job,
            since=since,
            transactions=self._transactions(transactions),
            committing=job is not None and job == committing,
        )

    def _transactions(self, ids: Iterable[str]) -> tuple[tuple[str, str], ...]:
        controller, some = self.client.controller, list(ids)[:_MOST_TRANSACTIONS]
        return tuple((text, controller.transaction_state(self.stream, uuid.UUID(text)).name) for text in some)


def _commit_picture(commit: Commit) -> CommitPicture:
    job = commit.job if commit.of_others else f"job {commit.job}"
    writer = job if commit.query is None else f"query {commit.query}, epoch {commit.epoch}"
    return CommitPicture(
        version=commit.version,
        committed_at=commit.committed_at,
        rows=commit.rows,
        bytes=commit.bytes,
        writer=writer,
        query=commit.query,
        epoch=commit.epoch,
        transactions=len(commit.transactions),
        milliseconds=None if commit.started_at is None else max(0, commit.committed_at - commit.started_at),
        replaces=commit.replacement is not None,
    )


def _queries(ledger: Ledger) -> list[dict[str, Any]]:
    """The streaming queries that write to the stream, the last one first."""
    queries = [{"query": p.query, "epoch": p.epoch, "at": at} for p, at in ledger.queries() if p.epoch >= 0]
    return sorted(queries, key=lambda query: -int(query["at"] or 0))


def _until(cut: Mapping[int, int], segment: SegmentPicture) -> int:
    """How far a segment was written at a cut that was the stream's tail."""
    if segment.segment in cut:
        return max(segment.start_offset, min(segment.end_offset, cut[segment.segment]))
    last_epoch = max(map(segment_epoch, cut), default=-1)
    return segment.end_offset if segment.epoch <= last_epoch else segment.start_offset


def _ascending(points: Iterable[tuple[int, int]]) -> Iterable[tuple[int, int]]:
    """The points that go on in time and in offsets: clocks of several machines tell them."""
    last = None
    for at, offset in points:
        if last is None or (at > last[0] and offset >= last[1]):
            last = (at, offset)
            yield last


def _words(policy: RetentionPolicy) -> str:
    def amount(number: int) -> str:
        text = size_text(number) if policy.retention_type is RetentionType.SIZE else duration_text(number)
        return text.removesuffix("s") if text.startswith("1 ") else text

    most = "" if policy.maximum == UNLIMITED else f", at most {amount(policy.maximum)} while subscribers lag"
    return f"the last {amount(policy.minimum)}{most}"
