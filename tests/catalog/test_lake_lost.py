"""A lake whose files are elsewhere for a while, or are gone: what is said, and that nothing is made in their place."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from catalog_tools import COLUMNS
from lake_tools import Table
from pyspark.sql.types import IntegerType, StructType, VariantType
from test_lake_keyed_reads import Truncated

from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.connector.lake import iceberg_name
from pyspark_pravega.errors import ConfigurationError, PravegaError
from pyspark_pravega.lake import LakeConfiguration, iceberg, spans

pytestmark = pytest.mark.server


def truncated(catalog: Catalog, scope: str, folder: Path) -> Table:
    return Table(catalog, scope, folder, **{"lake-keep-in-stream": "0 ms"})


def keyed(catalog: Catalog, scope: str, folder: Path) -> Table:
    return Truncated(catalog, scope, folder, random.Random(0))


@pytest.mark.parametrize("kind", [truncated, keyed])
def test_files_that_are_elsewhere_are_missed_in_a_sentence(
    catalog: Catalog, scope: str, tmp_path: Path, kind: Callable[[Catalog, str, Path], Table]
) -> None:
    lake, elsewhere = tmp_path / "lake", tmp_path / "elsewhere"
    table = kind(catalog, scope, lake)
    for _ in range(2):
        table.insert()
        table.tier()
    own = lake.joinpath(*iceberg_name(table.stream))
    for lost in (lake, own / "metadata", own / "data"):
        shutil.move(lost, elsewhere)
        for cache in (iceberg.files_of, iceberg.snapshot_at, spans._groups):
            cache.cache_clear()
        table.insert()
        with pytest.raises(PravegaError, match=r"bring the lake's files back, or set lake\.warehouse"):
            table.read()
        for call in (table.tier, lambda: table.catalog.procedures.call("clean_lake", [table.name, "1 day"])):
            if lost.name != "data":
                with pytest.raises(PravegaError, match=r"bring |where it is"):
                    call()
        assert not lost.exists()
        shutil.move(elsewhere, lost)
        table.check()


@pytest.mark.parametrize(
    ("name", "meant"), [("warehousee", "warehouse"), ("Ware-House", "warehouse"), ("url", "uri"), ("typ", "type")]
)
def test_a_misspelt_setting_is_refused(name: str, meant: str) -> None:
    with pytest.raises(ConfigurationError, match=rf'no "lake\.{name.lower()}"; did you mean "lake\.{meant}"'):
        LakeConfiguration.of({name: "/data/lake"})
    # What pyiceberg knows goes there.
    for known in ("token", "credential", "scope", "init_catalog_tables", "s3.region", "rest.sigv4-enabled"):
        assert known in LakeConfiguration.of({known: "x"}).properties


def test_a_table_that_can_not_go_to_the_lake_is_not_made(catalog: Catalog, scope: str, tmp_path: Path) -> None:
    columns = StructType().add("id", IntegerType()).add("v", VariantType())
    for properties, schema, why in (
        ({"lake-keep-in-stream": "10"}, COLUMNS, "must be a time with its unit"),
        ({"lake-after": "0"}, COLUMNS, "must be a time with its unit"),
        ({"retention": "1 day"}, COLUMNS, 'can\'t have "retention"'),
        ({}, columns, "leave it out, or the property lake"),
    ):
        given = {"lake": "iceberg", **properties}
        with pytest.raises(PravegaError, match=why):
            catalog.tables.create([scope], "no", schema, [], given)
    assert "no" not in str(catalog.client.controller.list_streams(scope))
    table = Table(catalog, scope, tmp_path, lake="")
    with pytest.raises(PravegaError, match="must be a time with its unit"):
        table.set(lake="iceberg", lake_keep_in_stream="10")
