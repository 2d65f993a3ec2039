"""Which of the tests that take long are run: `make test` takes a part of them, at the next commit another part."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING
from zlib import crc32

from server_tools import kinds_named, wants_thrift

if TYPE_CHECKING:
    import pytest

TURNS = 4
"""Of so many parts of a test's cases one runs, where it is marked `in_turn` and the mark doesn't say another number."""
ALLOWED = (2, TURNS, 8)


def turn() -> int | None:
    """Whose turn it is, by the environment: the number of a commit; None if all tests run."""
    given = os.environ.get("TESTS_TURN")
    return int(given) if given else None


def words() -> str:
    """What a run says of it."""
    number = turn()
    if number is None:
        return "all"
    return f"turn {', '.join(f'{number % count + 1} of {count}' for count in ALLOWED)}; ALL=1 runs all"


def parts(item: pytest.Item) -> int:
    """Into how many parts the cases of a test are dealt; 1 if each run has all of them."""
    if mark := item.get_closest_marker("in_turn"):
        return mark.args[0] if mark.args else TURNS
    return 2 if any(item.get_closest_marker(name) for name in ("server", "spark")) else 1


def others(items: Iterable[pytest.Item], turn: int) -> set[pytest.Item]:
    """The tests whose turn it isn't.

    The cases of a test are dealt out one by one, so that each turn has some of them. Which turn has the first one
    depends on the test's name. A file that is marked `in_turn(parts, whole=True)` comes as a whole. Files that share
    costly servers come together.

    Args:
        items: all tests in the order in which they were collected, with their marks.
        turn: any number, as of a commit: only its remainder by the number of the parts counts.
    """
    cases = Counter[str]()
    found = set()
    for item in items:
        mark = item.get_closest_marker("in_turn")
        whole = mark is not None and mark.kwargs.get("whole", False)
        name = item.nodeid.partition("::" if whole else "[")[0]
        place = crc32(name.encode()) + (0 if whole else cases[name])
        cases[name] += 1
        if (shared := _shared(item.path)) is not None:
            place = 2 * place + shared
        if (place - turn) % parts(item):
            found.add(item)
    return found


@cache
def _shared(file: Path) -> int | None:
    """Whether a file's tests come at even or at odd turns; None if it doesn't matter.

    Servers with authentication and the Thrift server take as long to start as many a test. So each second run has none
    of the ones, and the other runs none of the other.
    """
    return 0 if kinds_named(file) - {"sandbox"} else 1 if wants_thrift(file) else None
