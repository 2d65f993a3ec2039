"""Those who complete one transaction over several tables at the same moment, while its streams are scaled.

Two calls for one transaction's commit at once, and the end of a scale, may end all commits of a stream
(docs/internals/controller-facts.md).
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from connector_tools import LEASE_MS, ledger_of, raw_table, read_events, run_task

from pyspark_pravega.client import Client, Stream
from pyspark_pravega.client.controller import even_ranges
from pyspark_pravega.connector.log import settle
from pyspark_pravega.connector.log.decided import completing
from pyspark_pravega.connector.options import WriteOptions
from pyspark_pravega.connector.table.definition import TableDefinition
from pyspark_pravega.connector.write import Prepared, WriteJob, WritePlan, commit_together, prepare
from pyspark_pravega.connector.write.commit import several
from pyspark_pravega.settings import Settings

pytestmark = pytest.mark.server

PAIRS, ROUNDS, AT_ONCE = 4, 3, 3


def written(tables: Sequence[TableDefinition], row: bytes) -> list[Prepared]:
    """Statements of one transaction, one for each table."""
    id, prepared = uuid.uuid4(), list[Prepared]()
    for table in tables:
        job = WriteJob(WritePlan.of(table, WriteOptions(transaction_timeout_ms=LEASE_MS)))
        scope = prepared[0].together.scope if prepared else None
        one = prepare(job, [run_task(job, row, row + b"'")], id, scope, None)
        assert one is not None
        prepared.append(one)
    return prepared


def test_those_who_complete_it_at_once_beside_a_scale_leave_streams_that_can_be_committed_to(
    client: Client, settings: Settings, scope: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The committer and three who want to write next meet at the decision, again and again."""
    monkeypatch.setattr(completing, "COMMIT_TIMEOUT_S", 20.0)
    met = threading.Barrier(1 + AT_ONCE)
    real: Any = vars(several)["bring_forward"]

    def bring_forward(*given: Any) -> Any:
        # All others have seen the decision by now, or are just about to.
        met.wait(60)
        return real(*given)

    def complete(table: TableDefinition) -> None:
        log = ledger_of(client, table)
        met.wait(60)
        settle(client, log)

    def scale(stream: Stream, segments: int) -> None:
        current = client.controller.current_segments(stream).ids
        client.controller.scale_stream(stream, current, even_ranges(segments))

    monkeypatch.setattr(several, "bring_forward", bring_forward)
    with ThreadPoolExecutor(AT_ONCE + 3) as threads:
        for pair in range(PAIRS):
            tables = [raw_table(client, settings, scope, f"{name}{pair}", segments=2) for name in ("a", "b")]
            expected: list[bytes] = []
            for number in range(ROUNDS):
                row = b"%d" % number
                prepared = written(tables, row)
                begun = [threads.submit(scale, table.stream, 3 - number % 2) for table in tables]
                begun += [threads.submit(complete, tables[i % 2]) for i in range(AT_ONCE)]
                commit_together(client, prepared, {})
                for one in begun:
                    one.result(60)
                expected += [row, row + b"'"]
                assert [sorted(read_events(client, table)) for table in tables] == [sorted(expected)] * 2
