"""Servers that are looked at once more when they have done their work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark_pravega.sandbox import Sandbox


@contextmanager
def checked_sandbox(heap: str) -> Iterator[Sandbox]:
    """A Pravega and a schema registry.

    At the end the log must not tell of transactions that it fails to move to long-term storage again and again, as it
    does when transactions are merged into each other (docs/architecture.md, "Why a copy").

    Args:
        heap: Pravega's heap, as Java takes it: all events are in it.
    """
    with Sandbox(heap=heap) as running:
        yield running
        assert "SegmentAggregator.mergeWith" not in running.pravega_log.read_text(errors="replace")
