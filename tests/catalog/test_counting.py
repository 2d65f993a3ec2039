"""What the commit log knows of a table's rows: `count(*)` needs nothing else while it knows all."""

from __future__ import annotations

import json
import random
import time
import uuid
from contextlib import suppress

import pytest
from catalog_tools import ids, insert, make, plan, write
from readers import rows_read

from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.catalog.plans.read_request import Position
from pyspark_pravega.catalog.plans.scans import ScanRequest, count_rows, plan_scan
from pyspark_pravega.client import ScalingPolicy, Stream, StreamConfiguration
from pyspark_pravega.client.key_value.table import KeyValueTable
from pyspark_pravega.connector.log import Ledger, open_ledger
from pyspark_pravega.connector.log.entries import Intent
from pyspark_pravega.connector.log.entry_keys import ledger_name
from pyspark_pravega.connector.options import WriteOptions
from pyspark_pravega.connector.read.changes import ChangesRange
from pyspark_pravega.connector.read.versions import moment_of
from pyspark_pravega.connector.write import OverwritingJob
from pyspark_pravega.connector.write.job import WriteJob
from pyspark_pravega.connector.write.plan import WritePlan
from pyspark_pravega.errors import ConfigurationError, PravegaError

pytestmark = pytest.mark.server


def counted(catalog: Catalog, stream: Stream, **options: str) -> int | None:
    counted = count_rows(catalog.definition(stream, age_s=0), options)
    return None if counted is None else counted[0]


def ledger_of(catalog: Catalog, stream: Stream) -> Ledger:
    ledger = open_ledger(catalog.client, stream)
    assert ledger is not None
    return ledger


def test_rows_of_commits_are_known_through_scales(catalog: Catalog, scope: str) -> None:
    stream = make(catalog, scope, segments=2)
    assert counted(catalog, stream) == 0
    insert(catalog, stream, 1, 2, 3)
    assert counted(catalog, stream) == 3
    catalog.procedures.call("scale", [f"{scope}.t", 3])
    assert counted(catalog, stream) == 3
    insert(catalog, stream, *range(10))
    assert counted(catalog, stream) == 13 == len(ids(catalog, stream))


def test_events_of_others_have_to_be_counted(catalog: Catalog, scope: str) -> None:
    stream = make(catalog, scope)
    insert(catalog, stream, 1)
    definition = catalog.definition(stream, age_s=0)
    options = WriteOptions(transaction_timeout_ms=60_000, writer_mode="at-least-once")
    write(WriteJob(WritePlan.of(definition, options)), 2, 3)
    assert counted(catalog, stream) is None
    insert(catalog, stream, 4)
    assert counted(catalog, stream) is None
    assert ids(catalog, stream) == [1, 2, 3, 4]


def test_a_stream_without_a_commit_log_has_to_be_counted(catalog: Catalog, scope: str) -> None:
    stream = Stream(scope, "theirs")
    catalog.client.controller.create_stream(stream, StreamConfiguration(scaling=ScalingPolicy(min_segments=1)))
    assert counted(catalog, stream) is None


def test_after_a_truncation_events_have_to_be_counted(catalog: Catalog, scope: str) -> None:
    stream = make(catalog, scope)
    insert(catalog, stream, 1, 2)
    write(OverwritingJob(plan(catalog.definition(stream, age_s=0))), 3, 4)
    assert ids(catalog, stream) == [3, 4]
    assert counted(catalog, stream) is None


def test_keys_are_known_when_nothing_came_behind_a_compaction(catalog: Catalog, scope: str) -> None:
    stream = make(catalog, scope, segments=2, primary_key="id")
    assert counted(catalog, stream) == 0
    insert(catalog, stream, *range(10))
    insert(catalog, stream, *range(5, 15))
    assert counted(catalog, stream) is None
    catalog.procedures.call("compact", [f"{scope}.t", False])
    assert counted(catalog, stream) == 15
    insert(catalog, stream, 1)
    assert counted(catalog, stream) is None


def test_what_is_not_the_whole_table_has_to_be_counted(catalog: Catalog, scope: str) -> None:
    stream = make(catalog, scope)
    insert(catalog, stream, 1)
    assert counted(catalog, stream, endStreamCut='{"0":0}') is None
    assert counted(catalog, stream, mode="drop-malformed") is None
    with pytest.raises(ConfigurationError, match='unknown read option "mod"'):
        counted(catalog, stream, mod="permissive")


def test_a_commit_that_is_under_way_is_not_guessed_at(catalog: Catalog, scope: str) -> None:
    stream = make(catalog, scope)
    insert(catalog, stream, 1)
    ledger = ledger_of(catalog, stream)
    with catalog.client.transaction(stream) as transaction:
        ids_ = (str(transaction.transaction.id),)
        intent = Intent(job=str(uuid.uuid4()), transactions=ids_, rows=7, bytes=70, started_at=int(time.time() * 1000))
        state = ledger.begin(ledger.state(), intent)
        assert counted(catalog, stream) is None
        ledger.withdraw(state)
        transaction.abort()
    assert counted(catalog, stream) == 1


def test_a_log_of_an_earlier_version_knows_no_sums(catalog: Catalog, scope: str) -> None:
    """They stay unknown: what it has committed before wasn't counted."""
    stream = make(catalog, scope)
    insert(catalog, stream, 1)
    ledger = ledger_of(catalog, stream)
    table = KeyValueTable(catalog.client.pool, scope, ledger_name(stream))
    (entry,) = table.get([bytes(16)])
    assert entry is not None
    document = json.loads(entry.value)
    assert document.pop("rows") == 1
    assert document.pop("bytes") == ledger.commits([1])[0].bytes
    table.put([(bytes(16), entry.version, json.dumps(document).encode())])
    assert ledger.state().rows is None
    assert counted(catalog, stream) is None
    insert(catalog, stream, 2)
    assert ledger.state().version == 2
    assert counted(catalog, stream) is None


_STEPS = ("insert", "insert", "scale", "others", "overwrite", "truncate")


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.in_turn
def test_versions_and_their_changes_are_counted_as_reading_them_does(catalog: Catalog, scope: str, seed: int) -> None:
    """Of a random history, each moment and each range of versions, where reading it says anything at all."""
    chance, stream = random.Random(seed), make(catalog, scope, segments=2)
    # The first one has nothing that the log doesn't know.
    steps = ["insert", "scale", "insert", "insert"] if not seed else [chance.choice(_STEPS) for _ in range(7)]
    for step in ["insert", *steps]:
        rows = range(chance.randint(0 if seed else 1, 9))
        definition = catalog.definition(stream, age_s=0)
        if step == "insert":
            insert(catalog, stream, *rows)
        elif step == "scale":
            catalog.procedures.call("scale", [f"{scope}.t", chance.randint(1, 3)])
        elif step == "others":
            options = WriteOptions(transaction_timeout_ms=60_000, writer_mode="at-least-once")
            write(WriteJob(WritePlan.of(definition, options)), *rows)
        elif step == "overwrite":
            write(OverwritingJob(plan(definition)), *rows)
        else:
            catalog.procedures.call("truncate", [f"{scope}.t", str(ledger_of(catalog, stream).state().version)])
    definition, last = catalog.definition(stream, age_s=0), ledger_of(catalog, stream).state().version

    def asked(position: Position) -> tuple[int, int] | None:
        """What is counted and what is read; None where it has to be read, or can't be."""
        try:
            answer = count_rows(definition, {}, position=position)
        except PravegaError as error:
            with pytest.raises(type(error)):
                rows_read(plan_scan(definition, ScanRequest(columns=["id"], position=position)).reader)
            return None
        if answer is None:
            return None
        assert answer[1] is None
        return answer[0], len(rows_read(plan_scan(definition, ScanRequest(columns=["id"], position=position)).reader))

    known = []
    for first in range(1, last + 1):
        with suppress(PravegaError):
            known.append(asked(moment_of(catalog.client, stream, str(first))))
        for end in range(first, last + 1):
            known.append(asked(ChangesRange(from_version=str(first), to_version=str(end))))
    assert all(pair is None or pair[0] == pair[1] for pair in known)
    if not seed:
        assert len(known) == 4 + 10
        assert None not in known
