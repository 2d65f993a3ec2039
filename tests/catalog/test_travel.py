"""Versions: by number, by time, by stream cut, by name; and what was committed between them."""

from __future__ import annotations

import time
from dataclasses import asdict, replace

import pyarrow as pa
import pytest
from catalog_tools import ids, insert, make, plan, rows, write

from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.catalog.plans.scans import count_rows
from pyspark_pravega.catalog.pushdown import Bounds, narrowed
from pyspark_pravega.client import Stream, StreamConfiguration, StreamCut
from pyspark_pravega.client.key_value import ANY_VERSION
from pyspark_pravega.connector.bounds import Time, Word
from pyspark_pravega.connector.log import open_ledger
from pyspark_pravega.connector.log.entries import commit_content
from pyspark_pravega.connector.log.entry_keys import STATE, commit_key
from pyspark_pravega.connector.log.snapshot import take_snapshot
from pyspark_pravega.connector.log.tail import Snapshot
from pyspark_pravega.connector.options import ReadOptions
from pyspark_pravega.connector.predicates import Predicate
from pyspark_pravega.connector.read import committed
from pyspark_pravega.connector.read.changes import ChangesRange, ChangesReader
from pyspark_pravega.connector.read.committed import committed_ranges
from pyspark_pravega.connector.read.extent import resolve_end, resolve_start
from pyspark_pravega.connector.read.versions import Moment, moment_at, moment_of, snapshot_until
from pyspark_pravega.connector.stream import changes as stream_changes
from pyspark_pravega.connector.stream.changes import ChangesSource
from pyspark_pravega.connector.write import OverwritingJob, ReadSet, WriteJob
from pyspark_pravega.errors import (
    ConfigurationError,
    InvalidStreamCutError,
    PravegaError,
    SegmentTruncatedError,
    VersionNotFoundError,
)

pytestmark = pytest.mark.server


@pytest.fixture
def stream(catalog: Catalog, scope: str) -> Stream:
    """Three versions, the third one after a scale: ids 1 and 2, 3, 4 to 9."""
    return three_versions(catalog, scope)


@pytest.fixture(scope="module")
def fixed(catalog: Catalog, module_scope: str) -> Stream:
    """As `stream`, for all tests that only read it."""
    return three_versions(catalog, module_scope)


def three_versions(catalog: Catalog, scope: str) -> Stream:
    stream = make(catalog, scope, segments=2)
    insert(catalog, stream, 1, 2)
    insert(catalog, stream, 3)
    catalog.procedures.call("scale", [f"{scope}.t", 3])
    insert(catalog, stream, *range(4, 10))
    return stream


def version(catalog: Catalog, stream: Stream, text: str) -> Moment:
    return moment_of(catalog.client, stream, text)


def changes(catalog: Catalog, stream: Stream, first: int, last: int) -> list[tuple[int, int]]:
    ledger = open_ledger(catalog.client, stream)
    assert ledger is not None
    ranges = committed_ranges(catalog.client, ledger, first, last)
    reader = ChangesReader(catalog.definition(stream), ranges, ["_commit_version", "id", "_change_type"])
    batches = [batch for partition in reader.partitions() for batch in reader.read(partition)]
    assert {kind for batch in batches for kind in batch.column("_change_type").to_pylist()} <= {"insert"}
    return sorted((row["_commit_version"], row["id"]) for batch in batches for row in batch.to_pylist())


def test_every_version_can_be_read(catalog: Catalog, fixed: Stream) -> None:
    assert ids(catalog, fixed, version(catalog, fixed, "1")) == [1, 2]
    assert ids(catalog, fixed, version(catalog, fixed, "2")) == [1, 2, 3]
    assert ids(catalog, fixed, version(catalog, fixed, " 3 ")) == list(range(1, 10))


def test_a_version_stays_what_it_was(catalog: Catalog, stream: Stream) -> None:
    before = version(catalog, stream, "3")
    insert(catalog, stream, 10)
    assert ids(catalog, stream, before) == list(range(1, 10))


def test_a_time_means_the_last_commit_until_then(catalog: Catalog, fixed: Stream) -> None:
    ledger = open_ledger(catalog.client, fixed)
    assert ledger is not None
    one, two, three = (commit.committed_at * 1000 for commit in ledger.all_commits())
    for microseconds, number in ((one, 1), (two - 1000, 1), (two, 2), (two + 999, 2), (three, 3), (2 * three, 3)):
        assert moment_at(catalog.client, fixed, microseconds).name == f"version {number}"
    with pytest.raises(VersionNotFoundError, match=r"or before: the first one known is of 20.* UTC"):
        moment_at(catalog.client, fixed, one - 1)


def test_times_before_the_versions_that_are_known_are_refused(catalog: Catalog, stream: Stream) -> None:
    """The log keeps the latest versions only: what was before them is neither nothing nor everything."""
    ledger = open_ledger(catalog.client, stream)
    assert ledger is not None
    one, two, three = (commit.committed_at for commit in ledger.all_commits())
    assert resolve_start(catalog.client, stream, ReadOptions(start=Time(one))) is Word.EARLIEST
    ledger._table.remove((commit_key(1), ANY_VERSION))
    words = r"isn't known any more: .* the first one known, 2, is of 20.* UTC; take a later time"
    for milliseconds in (0, one, two):
        for find in (resolve_start, resolve_end):
            with pytest.raises(VersionNotFoundError, match=words):
                find(catalog.client, stream, ReadOptions(start=Time(milliseconds), end=Time(milliseconds)))
    for first, last in ((0, 1), (one * 1000, two * 1000 - 1), (0, None)):
        changed = ChangesRange(from_timestamp=first, to_timestamp=last)
        with pytest.raises(VersionNotFoundError, match=words):
            changed.versions(ledger, stream)
    later = resolve_start(catalog.client, stream, ReadOptions(start=Time(two + 1)))
    assert later == version(catalog, stream, "2").offsets
    assert ChangesRange(from_timestamp=three * 1000).versions(ledger, stream) == (3, 3)


def test_a_stream_cut_is_a_version_in_both_of_its_texts(catalog: Catalog, stream: Stream) -> None:
    cut = catalog.client.tail(stream)
    insert(catalog, stream, 10)
    for text in (cut.to_text(), cut.to_json()):
        assert ids(catalog, stream, version(catalog, stream, text)) == list(range(1, 10))


def test_a_cut_has_a_name(catalog: Catalog, stream: Stream, scope: str) -> None:
    table = f"{scope}.t"
    catalog.procedures.call("create_cut", [table, "first_two", "1"])
    ((name, text, _),) = catalog.procedures.call("create_cut", [table, "today", None])
    assert (name, StreamCut.from_text(text)) == ("today", catalog.client.tail(stream))
    insert(catalog, stream, 10)
    assert ids(catalog, stream, version(catalog, stream, "first_two")) == [1, 2]
    assert ids(catalog, stream, version(catalog, stream, "today")) == list(range(1, 10))
    # It is the last thing with a time, too.
    assert moment_at(catalog.client, stream, time.time_ns() // 1000).name == "version 4"
    with pytest.raises(ConfigurationError, match='has a cut "today" already'):
        catalog.procedures.call("create_cut", [table, "today", None])
    assert catalog.procedures.call("drop_cut", [table, "today"]) == [[True]]
    assert catalog.procedures.call("drop_cut", [table, "today"]) == [[False]]
    with pytest.raises(VersionNotFoundError, match=r'no version "today".*; known are: first_two'):
        version(catalog, stream, "today")


def test_a_name_for_an_old_version_makes_it_no_newer(catalog: Catalog, stream: Stream, scope: str) -> None:
    """Given by a version's number, by a stream cut, and as JSON; a cut of the end is the last thing with a time."""
    table, cut = f"{scope}.t", StreamCut(stream, version(catalog, stream, "2").offsets)
    for number, text in enumerate(("1", cut.to_text(), cut.to_json())):
        catalog.procedures.call("create_cut", [table, f"cut_{number}", text])
    now = time.time_ns() // 1000
    assert ids(catalog, stream, moment_at(catalog.client, stream, now)) == list(range(1, 10))
    job = WriteJob(replace(plan(catalog.definition(stream)), mode="at-least-once"))
    write(job, 10)
    catalog.procedures.call("create_cut", [table, "end", None])
    for old in ("1", "2"):
        catalog.procedures.call("create_cut", [table, f"again_{old}", old])
    later = moment_at(catalog.client, stream, time.time_ns() // 1000 + 1000)
    assert (later.name, ids(catalog, stream, later)) == ('cut "end"', list(range(1, 11)))
    assert ids(catalog, stream, moment_at(catalog.client, stream, now)) == list(range(1, 10))
    # A table that nobody has committed to has named cuts only.
    other = make(catalog, scope, "others")
    write(WriteJob(replace(plan(catalog.definition(other)), mode="at-least-once")), 1)
    text = catalog.client.tail(other).to_json()
    write(WriteJob(replace(plan(catalog.definition(other)), mode="at-least-once")), 2)
    for name, given in (("end", None), ("before", text)):
        catalog.procedures.call("create_cut", [f"{scope}.others", name, given])
    assert moment_at(catalog.client, other, time.time_ns() // 1000 + 1000).name == 'cut "end"'


def test_a_writer_whose_clock_is_ahead_hides_no_version(
    catalog: Catalog, stream: Stream, caplog: pytest.LogCaptureFixture
) -> None:
    """Times ascend; until its time has come versions are found by when their own writers have begun them."""
    ledger = open_ledger(catalog.client, stream)
    assert ledger is not None
    year = 365 * 86_400_000
    for commit in list(ledger.all_commits()):
        earlier = replace(commit, committed_at=commit.committed_at - 3_600_000)
        ledger._table.put((commit_key(commit.version), ANY_VERSION, commit_content(earlier)))
    three = ledger.commits([3])[0]
    insert(catalog, stream, 10)
    # As the driver would have noted it: its clock is a year ahead.
    (ahead,) = ledger.commits([4])
    wrong = replace(ahead, committed_at=ahead.committed_at + year, started_at=(ahead.started_at or 0) + year)
    ledger._table.put((commit_key(4), ANY_VERSION, commit_content(wrong)))
    state = ledger._table.content(STATE)
    assert state is not None
    ledger._table.put((STATE, ANY_VERSION, {**state, "committed_at": wrong.committed_at}))
    assert moment_at(catalog.client, stream, time.time_ns() // 1000).name == "version 4"
    assert "lies ahead of the clock here" in caplog.text
    insert(catalog, stream, 11)
    insert(catalog, stream, 12)
    assert "times of versions ascend" in caplog.text
    times = [commit.committed_at for commit in ledger.all_commits()]
    assert times == sorted(times)
    for at, number in ((three.committed_at, 3), (time.time_ns() // 1_000_000, 6), (times[3], 6)):
        assert moment_at(catalog.client, stream, at * 1000).name == f"version {number}"


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("0", VersionNotFoundError, "has no version 0: its versions are 1 to 3"),
        ("4", VersionNotFoundError, "has no version 4: its versions are 1 to 3"),
        ("yesterday", VersionNotFoundError, 'has no version "yesterday": a version is the number of a commit'),
        ('{"0": 5, "99": 1}', InvalidStreamCutError, "doesn't fit it"),
        ('{"0": 0}', InvalidStreamCutError, "no segment owns keys"),
        ('{"0": 1000000, "1": 0}', InvalidStreamCutError, "lies beyond its end"),
        (StreamCut(Stream("other", "s"), {0: 1}).to_text(), InvalidStreamCutError, 'is one of stream "other/s"'),
    ],
)
def test_versions_that_never_were(
    catalog: Catalog, fixed: Stream, text: str, error: type[PravegaError], message: str
) -> None:
    with pytest.raises(error) as refused:
        version(catalog, fixed, text)
    assert message in str(refused.value)


def test_a_stream_that_nobody_has_committed_to(catalog: Catalog, scope: str) -> None:
    definition = make(catalog, scope, "empty")
    for text in ("1", "0"):
        with pytest.raises(VersionNotFoundError, match="it has no commits yet"):
            version(catalog, definition, text)
    theirs = Stream(scope, "theirs")
    catalog.client.controller.create_stream(theirs, StreamConfiguration())
    with pytest.raises(VersionNotFoundError, match="read it AS OF a stream cut"):
        moment_at(catalog.client, theirs, 0)
    assert snapshot_until(catalog.client, theirs, version(catalog, theirs, '{"0":0}')).size == 0


def test_what_was_truncated_away_can_t_be_read(catalog: Catalog, stream: Stream, scope: str) -> None:
    cut = version(catalog, stream, "1")
    catalog.procedures.call("truncate", [f"{scope}.t", "2"])
    assert ids(catalog, stream) == list(range(4, 10))
    assert ids(catalog, stream, version(catalog, stream, "3")) == list(range(4, 10))
    with pytest.raises(SegmentTruncatedError, match=r'version 1 of stream ".*" was truncated away'):
        snapshot_until(catalog.client, stream, cut)
    assert changes(catalog, stream, 3, 3) == [(3, number) for number in range(4, 10)]
    with pytest.raises(SegmentTruncatedError, match="was truncated away"):
        changes(catalog, stream, 2, 3)


@pytest.mark.parametrize("is_truncated", [False, True])
def test_a_version_whose_rows_were_replaced_is_refused(
    catalog: Catalog, scope: str, monkeypatch: pytest.MonkeyPatch, is_truncated: bool
) -> None:
    """Also one that came between what an overwrite has read and its commit: of it the kept rows only are there."""

    def fails(*_: object) -> None:
        raise PravegaError("not now")

    stream = make(catalog, scope, "kept", segments=2, isolation_level="snapshot")
    insert(catalog, stream, *range(10))
    before = ReadSet.of(take_snapshot(catalog.client, stream))
    insert(catalog, stream, *range(10, 20))
    job = OverwritingJob(plan(catalog.definition(stream, age_s=0)))
    batch = pa.record_batch({"id": pa.array([90, 91]), "name": pa.array(["a", "b"])})
    if not is_truncated:
        monkeypatch.setattr("pyspark_pravega.connector.log.cleaning.truncate_at", fails)
    job.commit_job([job.write_task(iter([batch]))], seen=[before])
    ledger = open_ledger(catalog.client, stream)
    assert ledger is not None
    assert (ledger.state().cleaning is None) == is_truncated
    kept = [*range(10, 20), 90, 91]
    assert ids(catalog, stream) == ids(catalog, stream, version(catalog, stream, "3")) == kept
    for number in "12" if is_truncated else "2":
        with pytest.raises(SegmentTruncatedError, match=f"version {number} of .* version 3 took the place"):
            ids(catalog, stream, version(catalog, stream, number))


# Changes


def test_every_change_is_an_insert_of_its_version(catalog: Catalog, fixed: Stream) -> None:
    third = [(3, number) for number in range(4, 10)]
    assert changes(catalog, fixed, 1, 3) == [(1, 1), (1, 2), (2, 3), *third]
    assert changes(catalog, fixed, 2, 2) == [(2, 3)]
    assert changes(catalog, fixed, 3, 3) == third


def test_bounds_of_changes(catalog: Catalog, fixed: Stream) -> None:
    def between(start: str, end: str | None, *, inclusive: tuple[bool, bool] = (True, True)) -> tuple[int, int]:
        from_inclusive, to_inclusive = inclusive
        wanted = ChangesRange(
            from_version=start, to_version=end, from_inclusive=from_inclusive, to_inclusive=to_inclusive
        )
        return wanted.versions(open_ledger(catalog.client, fixed), fixed)

    assert between("1", None) == (1, 3)
    assert between("1", "2") == (1, 2)
    assert between("1", "2", inclusive=(False, True)) == (2, 2)
    assert between("1", "3", inclusive=(False, False)) == (2, 2)
    assert between("0", "1", inclusive=(False, True)) == (1, 1)
    with pytest.raises(VersionNotFoundError, match="has no version 4"):
        between("1", "4")
    with pytest.raises(ConfigurationError, match=r"version 1 of stream .* comes before version 2"):
        between("2", "1")
    with pytest.raises(ConfigurationError, match='"x" isn\'t the number of one'):
        between("x", None)


def test_changes_between_times(catalog: Catalog, fixed: Stream) -> None:
    ledger = open_ledger(catalog.client, fixed)
    assert ledger is not None
    times = [commit.committed_at * 1000 for commit in ledger.all_commits()]

    def between(start: int, end: int | None, *, inclusive: bool = True) -> tuple[int, int]:
        wanted = ChangesRange(from_timestamp=start, to_timestamp=end, from_inclusive=inclusive, to_inclusive=inclusive)
        return wanted.versions(ledger, fixed)

    assert between(0, None) == (1, 3)
    assert between(times[0], times[1]) == (1, 2)
    assert between(times[0], times[2], inclusive=False) == (2, 2)
    assert between(times[2] + 1000, None) == (4, 3)


def test_a_plan_is_limited_in_size(catalog: Catalog, fixed: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    """A statement says what to do, a streaming query takes fewer versions at once."""
    for module in (committed, stream_changes):
        monkeypatch.setattr(module, "MOST_ADDITIONS", 3)
    words = rf'versions 1 to 3 of stream "{fixed}" have too many changes .* 3 is the most; read fewer versions at once'
    with pytest.raises(ConfigurationError, match=words):
        changes(catalog, fixed, 1, 3)
    assert [row for first in (1, 2) for row in changes(catalog, fixed, first, first)] == [(1, 1), (1, 2), (2, 3)]
    source = ChangesSource(catalog.client, fixed, ChangesRange(from_version="1"), ReadOptions())
    offsets = [source.initial_offset()]
    while (offset := source.latest_offset(offsets[-1], limited=False)) != offsets[-1]:
        offsets.append(offset)
    assert [offset.commit for offset in offsets] == [0, 1, 2, 3]


def test_a_version_names_current_segments_only(catalog: Catalog, stream: Stream, scope: str) -> None:
    """Entries that named each segment since the head outgrew what a server takes, and nobody could commit any more."""
    for segments in (2, 4):
        catalog.procedures.call("scale", [f"{scope}.t", segments])
        insert(catalog, stream, *range(10 * segments, 10 * segments + 9))
    ledger = open_ledger(catalog.client, stream)
    assert ledger is not None
    commits = list(ledger.all_commits())
    assert [len(commit.cut) for commit in commits] == [2, 2, 3, 2, 4]
    assert set(commits[-1].cut) == set(catalog.client.controller.current_segments(stream).ids)

    def seen() -> list[object]:
        versions = [ids(catalog, stream, version(catalog, stream, str(number))) for number in range(1, 6)]
        parts = [
            ids_of(narrowed(take_snapshot(catalog.client, stream), Bounds.of([offset_from(end)]), ledger))
            for commit in commits
            for end in sorted(commit.cut.values())
        ]
        counted = count_rows(catalog.definition(stream), {})
        assert counted is not None
        return [versions, parts, counted[0], changes(catalog, stream, 1, 5), changes(catalog, stream, 4, 4)]

    def offset_from(least: int) -> Predicate:
        return Predicate(column="_offset", comparison=">=", values=(least,))

    def ids_of(snapshot: Snapshot) -> list[tuple[int, int, int]]:
        return [(part.segment_id, part.start, part.end) for part in snapshot.parts]

    now = seen()
    assert now[2] == 27
    # Entries of an earlier release.
    all_until_now: dict[int, int] = {}
    for commit in commits:
        all_until_now |= commit.cut
        ledger._table.put((commit_key(commit.version), ANY_VERSION, asdict(replace(commit, cut=dict(all_until_now)))))
    assert seen() == now
    # One of an earlier release among new ones.
    last = asdict(commits[-1])
    ledger._table.put((commit_key(5), ANY_VERSION, last))
    assert seen() == now


def test_only_rows_are_wanted(catalog: Catalog, fixed: Stream) -> None:
    ledger = open_ledger(catalog.client, fixed)
    assert ledger is not None
    reader = ChangesReader(catalog.definition(fixed), committed_ranges(catalog.client, ledger, 1, 3), [])
    batches = [batch for partition in reader.partitions() for batch in reader.read(partition)]
    assert sum(batch.num_rows for batch in batches) == 9
    assert rows(catalog.definition(fixed), snapshot_until(catalog.client, fixed, version(catalog, fixed, "1"))) == [
        1,
        2,
    ]
