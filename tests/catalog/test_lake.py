"""The lake: rows of older versions in Iceberg's files, read with the stream as one table; held against a dict."""

from __future__ import annotations

import contextlib
import random
import subprocess
import sys
from pathlib import Path
from typing import Any, NoReturn

import pytest
from lake_tools import Table

from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.connector.lake import releasing, tiering
from pyspark_pravega.connector.log import open_ledger
from pyspark_pravega.connector.options import ReadOptions
from pyspark_pravega.connector.predicates import Predicate
from pyspark_pravega.connector.stream import StreamSource
from pyspark_pravega.errors import PravegaError, SegmentTruncatedError, UnsupportedOperationError
from pyspark_pravega.lake import iceberg

pytestmark = pytest.mark.server


class Died(BaseException):
    """The process that tiers has died."""


def die(*_: object, **__: object) -> NoReturn:
    raise Died


def die_behind(call: Any) -> Any:
    def called(*arguments: Any, **named: Any) -> NoReturn:
        call(*arguments, **named)
        raise Died

    return called


STEPS = {
    "an id is noted": lambda: (iceberg, "find_table", die),
    "there is an Iceberg table": lambda: (iceberg, "make_table", die_behind(iceberg.make_table)),
    "files are written": lambda: (iceberg.Change, "commit", die),
    "there is a snapshot": lambda: (iceberg.Change, "commit", die_behind(iceberg.Change.commit)),
    "the log knows": lambda: (tiering, "release_tiered", die),
    "events are released": lambda: (releasing, "truncate_at", die),
    "events are removed": lambda: (releasing, "truncate_at", die_behind(releasing.truncate_at)),
}
"""Steps of tiering, and what dies then."""


@pytest.mark.parametrize("seed", range(6))
def test_random_histories_give_what_a_dict_gives(catalog: Catalog, scope: str, tmp_path: Path, seed: int) -> None:
    """Each step is followed by all reads that are promised, by SELECT and by pyiceberg alone."""
    dice = random.Random(seed)
    table = Table(catalog, scope, tmp_path, **{"lake-keep-in-stream": "0 ms"} if seed % 2 else {})
    table.insert()
    columns = 0
    for _ in range(10):
        step = dice.choice(["insert", "insert", "tier", "tier", "dies", "overwrite", "scale", "column", "empty"])
        if step == "insert":
            table.insert(dice.randrange(1, 40))
        elif step == "tier":
            assert table.tier()[0] == table.state().version
        elif step == "dies":
            with pytest.MonkeyPatch.context() as broken, contextlib.suppress(Died):
                broken.setattr(*STEPS[dice.choice(list(STEPS))]())
                table.tier()
        elif step == "overwrite" and dice.random() < 0.6:
            table.overwrite(dice.randrange(1, 5))
        elif step == "scale":
            table.scale(dice.randrange(1, 4))
        elif step == "empty":
            table.insert(0)
        elif step == "column" and columns < 2:
            table.add_column()
            columns += 1
        table.check()
    table.insert()
    table.tier()
    table.check()
