"""Tables with a key whose lake is in a bucket, on which any request may fail; files laid out anew with each tiering."""

from __future__ import annotations

import contextlib
import os
import random
from pathlib import Path

import pytest
from object_store import FAULTS, OK, ObjectStore, Relay, object_store, relayed
from test_lake_keyed_reads import Truncated
from test_lake_layout import any_layout

from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.catalog.ddl import RemoveProperty
from pyspark_pravega.errors import PravegaError
from pyspark_pravega.lake import iceberg, stores

pytestmark = pytest.mark.server


@pytest.mark.parametrize("seed", range(int(os.environ.get("LAKE_SEEDS", "2"))))
@pytest.mark.in_turn(8)
def test_random_histories_of_keys_in_a_bucket(
    catalog: Catalog, scope: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    dice = random.Random(seed)
    monkeypatch.setattr(stores, "_TRIES", 1)
    stores._file_system.cache_clear()
    with object_store() as objects, relayed(objects) as relay:
        relay.patience_s = 1.0
        table = in_bucket(catalog, scope, tmp_path, dice, objects, relay)
        table.insert()
        for _ in range(8):
            step = dice.choice(
                ["insert", "change", "tier", "tier", "fails", "fails", "compact", "scale", "clean", "add"]
            )
            if step in ("insert", "change", "compact"):
                getattr(table, step)()
            elif step in ("tier", "fails"):
                definition = table.catalog.definition(table.stream, age_s=0)
                layout = any_layout(definition.schema, dice)
                table.set(**layout)
                if step == "fails":
                    relay.fail(dice.randrange(30), dice.choice(FAULTS), dice.choice([1, 3, 1000]))
                with contextlib.suppress(PravegaError) if step == "fails" else contextlib.nullcontext():
                    table.tier()
                relay.plan = lambda *_: OK
                table.alter(*(RemoveProperty(property=name) for name in layout))
            elif step == "scale":
                table.scale(dice.randrange(1, 4))
            elif step == "clean":
                with contextlib.suppress(PravegaError):
                    table.catalog.procedures.call("clean_lake", [table.name, "0 ms"])
            elif step == "add" and len(table.columns) < 4:
                table.add_column()
            iceberg.files_of.cache_clear()
            iceberg.snapshot_at.cache_clear()
            table.check()
        table.insert()
        assert table.tier()[0] == table.last
        table.check_iceberg()
        table.check()


def in_bucket(
    catalog: Catalog, scope: str, folder: Path, dice: random.Random, objects: ObjectStore, relay: Relay
) -> Truncated:
    """A table whose lake is in a bucket, behind a relay; what looks at it alone goes past that."""

    class Stored(Truncated):
        where = objects.options(scope, folder / "catalog.db", relay.endpoint, request_timeout="0.5")

        def alone(self) -> dict[str, str]:
            return objects.options(scope, folder / "catalog.db")

    return Stored(catalog, scope, folder, dice, **{"lake-row-group-size": "1 KiB"})
