"""The read set of a statement that writes: a commit of others that has changed it is a conflict."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pyspark_pravega.client import Client, SegmentPart
from pyspark_pravega.client.positions import parts_between, proper_cut
from pyspark_pravega.client.routing import key_fractions
from pyspark_pravega.client.segments import segment_states
from pyspark_pravega.connector.log import Ledger, Snapshot, State, offsets_of
from pyspark_pravega.connector.read import KeyedReader, only_compacted_since, parts_of_keys
from pyspark_pravega.connector.table import TableDefinition
from pyspark_pravega.connector.write.routing import Routing
from pyspark_pravega.errors import InvalidStreamCutError

Floats = npt.NDArray[np.float64]

MOST_LOOKED_AT = 64 << 20
"""Bytes of events that a commit looks at for the keys of a statement; where more came it is a conflict."""


@dataclass(frozen=True, kw_only=True)
class ReadSet:
    """What a statement has read of the table that it writes to: a snapshot of it, or some of its keys."""

    version: int
    """The last version of the commit log that it has read; 0 when there was none."""
    offsets: dict[int, int]
    """Where the stream ended: segment id to offset in bytes."""
    keys: tuple[float, ...] | None = None
    """Of a table with a key, the routing hashes of the rows that it has looked at, there or not; None for all."""
    schema: str = ""
    """The schema with whose columns it has read them, `TableDefinition.schema_name`; empty where that isn't known."""

    @classmethod
    def of(cls, snapshot: Snapshot, keys: Floats | None = None) -> ReadSet:
        """What a read of a snapshot sees.

        Args:
            snapshot: the whole table.
            keys: the routing hashes of the wanted rows, see `routing_hashes`; None for all rows.
        """
        # Each query makes one, and few need it: what that asks of the controller is asked then.
        return cls(
            version=snapshot.version,
            offsets=snapshot.cut,
            keys=None if keys is None else tuple(keys.tolist()),
        )

    def is_of(self, other: ReadSet) -> bool:
        """Whether both have read the same version, whatever keys of it."""
        return (self.version, self.offsets) == (other.version, other.offsets)

    def to_json(self) -> str:
        """As it travels through the JVM."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> ReadSet:
        """What `to_json` gave."""
        content = json.loads(text)
        keys = content["keys"]
        return cls(
            **{**content, "offsets": offsets_of(content["offsets"]), "keys": None if keys is None else tuple(keys)}
        )


def routing_hashes(definition: TableDefinition, keys: pa.RecordBatch) -> Floats:
    """The hashes by which keys are routed to segments, in [0, 1): the same for the same key.

    Args:
        definition: a table with a key, whose routing key is known.
        keys: the key's columns, and perhaps others.
    """
    assert definition.routing_key is not None
    plain = definition.properties.has_plain_texts
    return _hashes(Routing.parse(definition.routing_key, keys.schema.names, plain=plain), keys)


def possible_routing_hashes(definition: TableDefinition, keys: pa.RecordBatch) -> Floats:
    """The hashes that keys may be routed by, in whichever text their writers have made routing keys of them.

    Args:
        definition: as of `routing_hashes`.
        keys: likewise.
    """
    assert definition.routing_key is not None
    routings = [Routing.parse(definition.routing_key, keys.schema.names, plain=plain) for plain in (True, False)]
    return np.unique(np.concatenate([_hashes(routing, keys) for routing in routings]))


def _hashes(routing: Routing, keys: pa.RecordBatch) -> Floats:
    texts = routing.keys(keys)
    # One for all there is only where no column of the key is in it.
    assert isinstance(texts, pa.Array)
    return key_fractions(texts)


def is_unchanged(client: Client, tail: Snapshot, state: State, seen: ReadSet) -> bool:
    """Whether a table still is what a statement has read of it.

    Args:
        client: the cluster.
        tail: the table now.
        state: its commit log's state now.
        seen: what was read.
    """
    if state.replaced_rows > seen.version:
        return False
    parts = parts_since(client, tail, seen.offsets)
    return parts is not None and not any(part.size for part in parts)


def is_unchanged_for_keys(
    client: Client, ledger: Ledger, definition: TableDefinition, tail: Snapshot, state: State, seen: ReadSet
) -> bool:
    """Whether the rows that a statement has read of a table with a key still are what they were. What came since is
    looked at for their keys; a compaction changes no row.

    Args:
        client: the cluster.
        ledger: the table's commit log.
        definition: what the stream is as a table.
        tail: the table now.
        state: its commit log's state now.
        seen: what was read.
    """
    compacted = state.replaced_rows > seen.version
    if compacted and not only_compacted_since(ledger, seen.version):
        return False
    parts = parts_since(client, tail, seen.offsets)
    if parts is None:
        # It was removed by a compaction that has read it.
        return False
    wanted = None if seen.keys is None else np.array(seen.keys)
    news = Snapshot(stream=tail.stream, parts=tuple(part for part in parts if part.size))
    if wanted is not None and news.parts:
        news = parts_of_keys(client, news, wanted)
    if not news.parts:
        return True
    if (wanted is None and not compacted) or news.size > MOST_LOOKED_AT:
        return False
    reader = KeyedReader(definition, None, [])
    for keys in reader.written_keys(news.parts):
        if keys.num_rows and (wanted is None or np.isin(routing_hashes(definition, keys), wanted).any()):
            return False
    return True


def parts_since(client: Client, tail: Snapshot, offsets: Mapping[int, int]) -> list[SegmentPart] | None:
    """What came to a stream since a moment; None where some of that is gone.

    Args:
        client: the cluster.
        tail: the stream now.
        offsets: where it ended then: segment id to offset in bytes.
    """
    if offsets == tail.cut:
        return []
    # A stream that was only scaled holds the same events.
    try:
        cut = proper_cut(client, tail.stream, offsets)
        segment_ids = client.controller.segments_between(tail.stream, cut)
        ends = tail.cut
        states = segment_states(client.pool, tail.stream, segment_ids)
        between = parts_between(tail.stream, states, cut, {s: ends[s] for s in segment_ids if s in ends})
    except InvalidStreamCutError:
        # It was truncated behind what was read.
        return None
    return None if between.lost else list(between.parts)
