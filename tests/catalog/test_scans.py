"""What a scan plans to read, and where it ends early."""

from __future__ import annotations

import pytest
from catalog_tools import insert, make
from readers import rows_read

from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.catalog.plans.scans import ScanRequest, plan_scan
from pyspark_pravega.catalog.pushdown import Bounds, EarlyEnd, estimated_rows, narrowed
from pyspark_pravega.client import Stream
from pyspark_pravega.connector.log import Ledger, open_ledger
from pyspark_pravega.connector.log.snapshot import take_snapshot
from pyspark_pravega.connector.log.tail import Snapshot
from pyspark_pravega.connector.predicates import Predicate
from pyspark_pravega.connector.read.reader import BatchReader

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


def test_a_scan_tells_its_size_and_rows(catalog: Catalog, stream: Stream) -> None:
    definition = catalog.definition(stream)
    scan = plan_scan(definition, ScanRequest(columns=["id"]))
    assert scan.size == take_snapshot(catalog.client, stream).size
    assert (scan.slices, len(scan.reader.partitions())) == (1, 1)
    nothing = plan_scan(definition, ScanRequest(columns=["id"], predicates=[offset("<", 0)]))
    assert (nothing.size, nothing.rows, nothing.slices) == (0, 0, 0)
