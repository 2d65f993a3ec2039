"""Commit logs with thousands of versions, written straight into their key-value tables: to commit takes too long."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import numpy.typing as npt
from catalog_tools import insert

from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.client import Stream
from pyspark_pravega.client.key_value import ANY_VERSION
from pyspark_pravega.connector.log import Commit, open_ledger, take_snapshot
from pyspark_pravega.connector.log.entry_keys import STATE, commit_key
from pyspark_pravega.connector.read import BatchReader

_AT_ONCE = 1_000
FIRST_COMMITTED_MS = 1_700_000_000_000


def spread_over_versions(catalog: Catalog, stream: Stream, rows: int, versions: int) -> dict[int, int]:
    """Insert rows with ids from 0 on, and write the commit log as if each version had added some to each segment.

    Args:
        catalog: the catalog.
        stream: a table of `catalog_tools.make` without rows.
        rows: how many; so many that each segment has some for each version.
        versions: how many versions there are to be; version n is of n milliseconds after `FIRST_COMMITTED_MS`.

    Returns:
        Of each version how many rows it has.
    """
    insert(catalog, stream, *range(rows))
    snapshot = take_snapshot(catalog.client, stream)
    reader = BatchReader(catalog.definition(stream), snapshot, ["_segment", "_offset"])
    batches = [batch for partition in reader.partitions() for batch in reader.read(partition)]
    segments = np.concatenate([batch.column(0).to_numpy() for batch in batches])
    offsets = np.concatenate([batch.column(1).to_numpy() for batch in batches])
    ends: dict[int, npt.NDArray[np.int64]] = {}
    counts = np.zeros(versions, np.int64)
    for part in (one for one in snapshot.parts if one.segment_id in snapshot.current):
        begins = np.sort(offsets[segments == part.segment_id])
        assert len(begins) >= versions, f"segment {part.segment_id} has {len(begins)} events: insert more rows"
        bounds = np.linspace(0, len(begins), versions + 1).astype(np.int64)
        counts += np.diff(bounds)
        ends[part.segment_id] = np.append(begins, part.end)[bounds[1:]]
    ledger = open_ledger(catalog.client, stream)
    assert ledger is not None
    entries = [
        Commit(
            version=number,
            job="00000000-0000-0000-0000-000000000000",
            transactions=(),
            rows=int(counts[number - 1]),
            bytes=0,
            committed_at=FIRST_COMMITTED_MS + number,
            cut={segment: int(of_segment[number - 1]) for segment, of_segment in ends.items()},
        )
        for number in range(1, versions + 1)
    ]
    for begin in range(0, versions, _AT_ONCE):
        some = entries[begin : begin + _AT_ONCE]
        ledger._table.put(*((commit_key(entry.version), ANY_VERSION, asdict(entry)) for entry in some))
    content = ledger._table.content(STATE)
    assert content is not None
    ledger._table.put((STATE, ANY_VERSION, {**content, "version": versions, "committed_at": entries[-1].committed_at}))
    return {number: int(count) for number, count in enumerate(counts, 1)}
