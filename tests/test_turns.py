"""What takes long is run in turn: as many runs together as there are parts leave none out."""

from __future__ import annotations

from collections import Counter

import pytest
from turns import ALLOWED, others, parts


def test_each_turn_runs_what_the_others_leave_out(request: pytest.FixtureRequest) -> None:
    items = request.session.items
    counts = {item: parts(item) for item in items}
    assert set(counts.values()) <= {1, *ALLOWED}
    most = max(ALLOWED)
    left = Counter(item for turn in range(7, 7 + most) for item in others(items, turn))
    assert left == Counter({item: most - most // count for item, count in counts.items() if count > 1})
    assert others(items, 1) == others(items, 1 + most)
