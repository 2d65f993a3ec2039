"""Which of the longest tests a run takes: `make test` runs a quarter of them, the next commit's run another quarter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING
from zlib import crc32

if TYPE_CHECKING:
    import pytest

TURNS = 4


def others(items: Iterable[pytest.Item], turn: int) -> set[pytest.Item]:
    """The tests whose turn it isn't.

    The cases of a test are dealt out one by one, so that each turn has some of them. Which turn has the first one
    depends on the test's name.

    Args:
        items: all tests in the order in which they were collected. Those marked `in_turn` are dealt out.
        turn: any number, as of a commit: only its remainder by `TURNS` counts.
    """
    cases = Counter[str]()
    found = set()
    for item in items:
        if item.get_closest_marker("in_turn"):
            function = item.nodeid.partition("[")[0]
            if (crc32(function.encode()) + cases[function] - turn) % TURNS:
                found.add(item)
            cases[function] += 1
    return found
