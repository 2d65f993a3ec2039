"""What a scan plans to read, and where it ends early."""

from __future__ import annotations

import pytest
from catalog_tools import COLUMNS, insert, make
from readers import rows_read

from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.catalog.ddl import Bucket
from pyspark_pravega.catalog.plans.planner import Planner
from pyspark_pravega.catalog.plans.read_request import position_of, text_of_extent
from pyspark_pravega.catalog.plans.scans import ScanRequest, plan_scan
from pyspark_pravega.catalog.pushdown import Bounds, EarlyEnd, narrowed
from pyspark_pravega.catalog.sizes import estimated_rows
from pyspark_pravega.client import Stream, StreamSegments
from pyspark_pravega.client.controller.segments import ControllerSegments
from pyspark_pravega.clock import now_ms
from pyspark_pravega.connector.log import Ledger, open_ledger
from pyspark_pravega.connector.log.snapshot import take_snapshot
from pyspark_pravega.connector.log.tail import Snapshot
from pyspark_pravega.connector.predicates import Predicate
from pyspark_pravega.connector.read.extent import Extent
from pyspark_pravega.connector.read.reader import BatchReader
from pyspark_pravega.errors import ConfigurationError, DataLossError, InvalidStreamCutError

pytestmark = pytest.mark.server


@pytest.fixture(scope="module")
def stream(catalog: Catalog, module_scope: str) -> Stream:
    """One segment, four commits of ten rows each; no test changes it."""
    stream = make(catalog, module_scope)
    for commit in range(4):
        insert(catalog, stream, *range(10 * commit, 10 * commit + 10))
    return stream


def ledger_of(catalog: Catalog, stream: Stream) -> Ledger:
    ledger = open_ledger(catalog.client, stream)
    assert ledger is not None
    return ledger


def offset(comparison: str, value: int) -> Predicate:
    return Predicate(column="_offset", comparison=comparison, values=(value,))


def ids(catalog: Catalog, snapshot: Snapshot, limit: int | None = None, last: int = 2**63 - 1) -> list[int]:
    reader = BatchReader(catalog.definition(snapshot.stream), snapshot, ["id", "_offset"])
    ended = EarlyEnd(reader, limit, last)
    return [row["id"] for row in rows_read(ended)]


def test_a_limit_ends_a_partition(catalog: Catalog, stream: Stream) -> None:
    snapshot = take_snapshot(catalog.client, stream)
    assert ids(catalog, snapshot, 7) == list(range(7))
    assert ids(catalog, snapshot, 1000) == list(range(40))


def test_a_lower_offset_begins_at_the_commit_before_it(catalog: Catalog, stream: Stream) -> None:
    ledger, snapshot = ledger_of(catalog, stream), take_snapshot(catalog.client, stream)
    cuts = [commit.cut[0] for commit in ledger.all_commits()]
    for wanted, begin in ((cuts[0] - 1, 0), (cuts[0], cuts[0]), (cuts[1] + 5, cuts[1]), (cuts[2], cuts[2])):
        (part,) = narrowed(snapshot, Bounds.of([offset(">=", wanted)]), ledger).parts
        assert (part.start, part.end) == (begin, cuts[3])
    assert narrowed(snapshot, Bounds.of([offset(">=", cuts[3])]), ledger).parts == ()
    assert ids(catalog, narrowed(snapshot, Bounds.of([offset(">=", cuts[1])]), ledger)) == list(range(20, 40))


def test_an_upper_offset_ends_the_read(catalog: Catalog, stream: Stream) -> None:
    # All of it is one batch, so nothing is cut off; but nothing that is wanted is missing either.
    assert ids(catalog, take_snapshot(catalog.client, stream), last=0)[:1] == [0]


def test_rows_are_estimated_by_the_last_commit(catalog: Catalog, stream: Stream, scope: str) -> None:
    snapshot = take_snapshot(catalog.client, stream)
    rows = estimated_rows(snapshot.size, ledger_of(catalog, stream))
    assert rows is not None
    assert 36 <= rows <= 40
    assert estimated_rows(0, None) == 0
    assert estimated_rows(100, None) is None
    assert estimated_rows(100, ledger_of(catalog, make(catalog, scope, "empty"))) is None


@pytest.mark.parametrize("given", [{"format": "avro"}, {"format": "json"}, {"primary-key": "id"}], ids=str)
def test_the_memory_of_a_scan_is_that_of_the_wanted_columns_in_any_format(
    catalog: Catalog, scope: str, given: dict[str, str]
) -> None:
    """By it Spark chooses which side of a join it broadcasts."""
    stream = catalog.tables.create([scope], "t", COLUMNS, [Bucket(columns=("id",), buckets=1)], given).stream
    insert(catalog, stream, *range(100), name=["n" * 200] * 100)
    definition = catalog.definition(stream)
    scans = [plan_scan(definition, ScanRequest(columns=names)) for names in ([], ["id"], ["id", "name"])]
    assert [scan.rows for scan in scans] == [100, 100, 100]
    assert [scan.memory for scan in scans[:2]] == [1200, 1600]
    assert 100 * 216 <= scans[2].memory <= 100 * 240
    # The last commit's rows aren't like the others.
    insert(catalog, stream, *range(100, 102), name=["n" * 20_000] * 2)
    assert 99 <= (plan_scan(definition, ScanRequest(columns=["id"])).rows or 0) <= 105


def test_a_read_of_a_key_asks_nothing_more_about_segments(
    catalog: Catalog, scope: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = make(catalog, scope, segments=4, primary_key="id")
    insert(catalog, stream, *range(50))
    definition, asked = catalog.definition(stream), []
    ask = ControllerSegments.epoch_segments

    def watched(calls: ControllerSegments, stream: Stream, epoch: int) -> StreamSegments:
        asked.append(epoch)
        return ask(calls, stream, epoch)

    monkeypatch.setattr(ControllerSegments, "epoch_segments", watched)
    wanted = Predicate(column="id", comparison="=", values=(7,))
    scan = plan_scan(definition, ScanRequest(columns=["id"], predicates=[wanted]))
    assert (scan.slices, len(scan.reader.partitions())) == (1, 1)
    # The controller's answer would name all segments of the epoch, and the list of current ones has told.
    assert asked == []


def test_a_scan_tells_its_size_and_rows(catalog: Catalog, stream: Stream) -> None:
    definition = catalog.definition(stream)
    scan = plan_scan(definition, ScanRequest(columns=["id"]))
    assert scan.size == take_snapshot(catalog.client, stream).size
    assert (scan.slices, len(scan.reader.partitions())) == (1, 1)
    nothing = plan_scan(definition, ScanRequest(columns=["id"], predicates=[offset("<", 0)]))
    assert (nothing.size, nothing.rows, nothing.slices) == (0, 0, 0)


def settled(catalog: Catalog, scope: str, options: dict[str, str]) -> Extent | None:
    """What a read's bounds mean when it is defined, as the JVM has it handed back."""
    extent = Planner(catalog).check_read([scope], "t", options)
    if extent is None:
        return None
    position = position_of(text_of_extent(extent))
    assert position == extent
    return extent


def between(catalog: Catalog, scope: str, options: dict[str, str], extent: Extent | None) -> list[int]:
    scan = Planner(catalog).plan_scan([scope], "t", ScanRequest(columns=["id"], options=options, position=extent))
    return sorted(row["id"] for row in rows_read(scan.reader))


def test_bounds_mean_what_they_meant_when_the_read_was_defined(catalog: Catalog, scope: str) -> None:
    table, stream = f"{scope}.t", make(catalog, scope)
    insert(catalog, stream, 1, 2)
    catalog.procedures.call("create_cut", [table, "begin", None])
    insert(catalog, stream, 3)
    until_now = {"startStreamCut": "begin", "endTimestamp": str(now_ms() + 1)}
    while now_ms() < int(until_now["endTimestamp"]):
        pass
    ended, endless = settled(catalog, scope, until_now), settled(catalog, scope, {"startStreamCut": "begin"})
    insert(catalog, stream, 4)
    catalog.procedures.call("drop_cut", [table, "begin"])
    assert between(catalog, scope, until_now, ended) == [3]
    assert between(catalog, scope, {"startStreamCut": "begin"}, endless) == [3, 4]
    with pytest.raises(ConfigurationError, match='no cut is called "begin"'):
        between(catalog, scope, until_now, None)


def test_what_only_the_query_can_tell_isn_t_settled_before(catalog: Catalog, scope: str) -> None:
    """A time that hasn't come yet, and one that is older than all versions."""
    stream = make(catalog, scope)
    insert(catalog, stream, 1)
    for options in ({"endTimestamp": str(now_ms() + 60_000)}, {"startTimestamp": "2020-01-01"}, {}):
        assert settled(catalog, scope, options) is None
    insert(catalog, stream, 2)
    assert between(catalog, scope, {"endTimestamp": str(now_ms() + 60_000)}, None) == [1, 2]


def test_settled_bounds_don_t_hide_that_events_are_gone(catalog: Catalog, scope: str) -> None:
    stream = make(catalog, scope)
    insert(catalog, stream, 1)
    options = {"startStreamCut": catalog.client.tail(stream).to_json()}
    extent = settled(catalog, scope, options)
    insert(catalog, stream, 2)
    insert(catalog, stream, 3)
    catalog.procedures.call("truncate", [f"{scope}.t", "2"])
    with pytest.raises(DataLossError, match="are gone: segment 0 was truncated"):
        between(catalog, scope, options, extent)
    assert between(catalog, scope, {**options, "failOnDataLoss": "false"}, extent) == [3]


def test_bounds_that_were_settled_in_another_stream_are_settled_anew(catalog: Catalog, scope: str) -> None:
    stream = make(catalog, scope)
    insert(catalog, stream, 1)
    options = {"startStreamCut": catalog.client.tail(stream).to_json()}
    extent = settled(catalog, scope, options)
    catalog.relations.drop([scope], "t")
    insert(catalog, make(catalog, scope), 2)
    sentences = []
    for position in (None, extent):
        with pytest.raises(InvalidStreamCutError) as caught:
            between(catalog, scope, options, position)
        sentences.append(str(caught.value))
    assert sentences[0] == sentences[1]
