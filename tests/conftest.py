"""What all tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pyspark_pravega.sandbox import Sandbox


@pytest.fixture(scope="session")
def sandbox() -> Iterator[Sandbox]:
    """A Pravega and a schema registry for the whole session; tests make scopes of their own in it."""
    with Sandbox(heap="3g") as running:
        yield running
