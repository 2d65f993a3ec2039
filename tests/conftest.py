"""What all tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pyspark_pravega.sandbox import Sandbox


@pytest.fixture(scope="session")
def sandbox() -> Iterator[Sandbox]:
    """A Pravega and a schema registry for the whole session; tests make scopes of their own in it.

    At the end its log must not tell of transactions that it fails to move to long-term storage again and again, as it
    does when transactions are merged into each other (docs/architecture.md, "Why a copy").
    """
    with Sandbox(heap="3g") as running:
        yield running
        assert "SegmentAggregator.mergeWith" not in running.pravega_log.read_text(errors="replace")
