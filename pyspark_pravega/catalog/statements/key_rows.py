"""Whether the events that a stream holds can be changes of rows with a key: they are read for that."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pyarrow as pa

from pyspark_pravega.client import Client, SegmentPart
from pyspark_pravega.client.names import SegmentRange
from pyspark_pravega.connector.log import take_snapshot
from pyspark_pravega.connector.option_names import ROUTING_KEY
from pyspark_pravega.connector.read import KeyedReader
from pyspark_pravega.connector.table import (
    KEY_PROPERTIES,
    KEY_TEXTS,
    TableDefinition,
    TableProperties,
    shown_key,
    with_key,
)
from pyspark_pravega.connector.write import parts_since, routing_hashes

_THREADS = 2
_ASKED = KEY_PROPERTIES | {ROUTING_KEY, KEY_TEXTS}
"""The properties by which events are looked at."""


class KeyRows:
    """Looks at a stream's events, and when asked again only at those that came since."""

    def __init__(self, client: Client, definition: TableDefinition) -> None:
        """Look at nothing yet.

        Args:
            client: the cluster.
            definition: what the stream is as a table.
        """
        self._client = client
        self._definition = replace(definition, schema=definition.event_schema, key=None)
        self._seen: tuple[Mapping[str, str], dict[int, int]] | None = None

    def fault(self, properties: Mapping[str, str]) -> str | None:
        """What is wrong with the events that are there: one has no key, or lies where no reader looks for its key.

        Args:
            properties: the table's, with the key that it has or is to have.

        Returns:
            It as a sentence; None where all are in order.

        Raises:
            EventDecodeError: an event can't be decoded.
        """
        definition = with_key(replace(self._definition, properties=TableProperties(properties)))
        snapshot = take_snapshot(self._client, definition.stream)
        since: list[SegmentPart] | None = None
        asked = {name: value for name, value in properties.items() if name in _ASKED}
        if self._seen is not None and self._seen[0] == asked:
            since = parts_since(self._client, snapshot, self._seen[1])
        parts = [part for part in (snapshot.parts if since is None else since) if part.size]
        fault = self._fault_in(definition, parts)
        if fault is None:
            self._seen = asked, snapshot.cut
        return fault

    def _fault_in(self, definition: TableDefinition, parts: list[SegmentPart]) -> str | None:
        if not parts:
            return None
        reader = KeyedReader(definition, None, [])
        ranges: Mapping[int, SegmentRange] = {}
        if definition.routing_key is not None:
            ranges = self._client.controller.segment_ranges(definition.stream, [part.segment_id for part in parts])

        def look(part: SegmentPart) -> str | None:
            for keys, offsets in reader.placed_keys(part):
                for name in keys.schema.names:
                    if keys[name].null_count:
                        first = int(np.argmax(keys[name].is_null().to_numpy(zero_copy_only=False)))
                        where = f"segment {part.segment_id}, offset {int(offsets[first])}"
                        return f'an event has no value in column "{shown_key(name)}" ({where})'
                misplaced = _misplaced(definition, keys, ranges.get(part.segment_id))
                if misplaced is not None:
                    return (
                        f'an event was written with another routing key than that of "{definition.routing_key}" '
                        f"(segment {part.segment_id}, offset {int(offsets[misplaced])}), so that the events of one key "
                        "may lie in several segments"
                    )
            return None

        with ThreadPoolExecutor(_THREADS) as pool:
            return next(filter(None, pool.map(look, parts)), None)


def _misplaced(definition: TableDefinition, keys: pa.RecordBatch, owned: SegmentRange | None) -> int | None:
    """The first row whose key isn't one of those that a segment owns."""
    if owned is None or not keys.num_rows:
        return None
    hashes = routing_hashes(definition, keys)
    wrong = (hashes < owned.min_key) | (hashes >= owned.max_key)
    return int(np.argmax(wrong)) if wrong.any() else None
