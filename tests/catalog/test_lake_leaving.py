"""How a table leaves the lake, and what of it stays: DROP with and without PURGE, UNSET, clean_lake beside a query."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from catalog_tools import make
from lake_tools import Table
from object_store import ObjectStore, object_store
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import NoSuchTableError
from pyspark.sql.types import LongType
from test_lake_keyed_reads import Truncated

from pyspark_pravega import cli
from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.catalog.ddl import AddColumn, RemoveProperty
from pyspark_pravega.catalog.plans.scans import ScanRequest, plan_scan
from pyspark_pravega.catalog.process.pickles import pickle, unpickle
from pyspark_pravega.connector.lake import iceberg_name
from pyspark_pravega.errors import (
    ConfigurationError,
    DataLossError,
    TableChangedError,
    UnsupportedOperationError,
)
from pyspark_pravega.lake import LakeConfiguration, iceberg, spans

pytestmark = pytest.mark.server


@pytest.fixture(scope="module")
def objects() -> Iterator[ObjectStore]:
    with object_store() as store:
        yield store


@pytest.mark.parametrize("where", ["folder", "bucket"])
def test_a_drop_with_purge_removes_the_iceberg_table_and_its_files(
    catalog: Catalog, scope: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, objects: ObjectStore, where: str
) -> None:
    """And none of another table's, as one that was made like it. Without it they stay."""
    given = {} if where == "folder" else objects.options(scope, tmp_path / "catalog.db")
    monkeypatch.setattr(Table, "where", given)
    tables = [Table(catalog, scope, tmp_path, name, **{"lake-sorted-by": "name"}) for name in ("t", "like-t", "stays")]
    alone = given or tables[0].alone()

    def files(table: Table) -> list[str]:
        if where == "bucket":
            return objects.files(f"{scope}/{'/'.join(iceberg_name(table.stream))}")
        folder = tmp_path.joinpath(*iceberg_name(table.stream))
        return [str(path) for path in folder.rglob("*") if path.is_file()]

    for table in tables:
        for _ in range(2):
            table.insert()
            table.tier()
    assert len({path for table in tables for path in files(table)}) == sum(len(files(table)) for table in tables)
    first, like, stays = tables
    elsewhere = Catalog(catalog.settings, {"warehouse": str(tmp_path / "elsewhere")})
    with pytest.raises(UnsupportedOperationError, match="isn't in this lake: set the catalog's lake"):
        elsewhere.relations.drop([scope], "t", purge=True)
    assert not (tmp_path / "elsewhere").exists()
    assert first.read() == first.wide(first.versions[2])
    assert first.catalog.relations.drop([scope], "t", purge=True)
    assert files(first) == []
    lake = load_catalog("pravega", type="sql", **alone)
    with pytest.raises(NoSuchTableError):
        lake.load_table(iceberg_name(first.stream))
    assert not first.catalog.relations.drop([scope], "t", purge=True)
    there = files(stays)
    assert stays.catalog.relations.drop([scope], "stays")
    assert files(stays) == there
    assert lake.load_table(iceberg_name(stays.stream)).scan().to_arrow().num_rows == 6
    like.check() if where == "folder" else None
    assert like.read() == like.wide(like.versions[2])
    # A table of that name begins anew. One that was never tiered has nothing to purge.
    again = Table(catalog, scope, tmp_path, "t")
    again.insert()
    assert again.tier()[:2] == [1, 3]
    never = make(again.catalog, scope, "never", lake="iceberg")
    assert again.catalog.relations.drop([scope], never.name, purge=True)


def test_a_lake_whose_files_are_read_cannot_be_unset(catalog: Catalog, scope: str, tmp_path: Path) -> None:
    """Else somebody would take them for needless."""
    unset = RemoveProperty(property="lake")
    plain = Table(catalog, scope, tmp_path, "plain")
    plain.insert()
    plain.alter(unset)
    plain.set(lake="iceberg")
    plain.tier()
    for _ in range(2):
        with pytest.raises(UnsupportedOperationError, match=r"reads take rows up to version 1 .*'lake-after' to a lo"):
            plain.alter(unset)
        plain.set(lake_after="10000 days")
        plain.insert()
        assert plain.tier()[:2] == [1, 0]
    assert plain.read() == plain.wide(plain.versions[3])
    plain.overwrite()
    # Now the stream has all.
    plain.alter(unset, RemoveProperty(property="lake-after"))
    shutil.rmtree(tmp_path.joinpath(*iceberg_name(plain.stream)))
    assert plain.read() == plain.wide(plain.versions[4])
    for name, given, is_read in (("copied", {}, False), ("keyed", {"lake-keep-in-stream": "0 ms"}, True)):
        keyed = Table(catalog, scope, tmp_path, name, primary_key="id", **given)
        keyed.insert()
        keyed.tier()
        removed = [RemoveProperty(property=one) for one in ("lake", *given)]
        if is_read:
            with pytest.raises(UnsupportedOperationError, match="reads take rows up to version 1"):
                keyed.alter(*removed)
        else:
            keyed.alter(*removed)
        assert keyed.read() == keyed.versions[1]


def test_a_query_whose_rows_clean_lake_removes_is_told_to_run_again(
    catalog: Catalog, scope: str, tmp_path: Path
) -> None:
    """But one whose files are lost isn't."""
    table = Truncated(catalog, scope, tmp_path, random.Random(0))
    table.insert()
    table.tier()

    def planned() -> tuple[Any, list[Any]]:
        definition = table.catalog.definition(table.stream, age_s=0)
        reader = plan_scan(definition, ScanRequest(columns=table.columns)).reader
        return unpickle(pickle(reader)), [unpickle(pickle(one)) for one in reader.partitions()]

    def read(reader: Any, partitions: list[Any]) -> int:
        return sum(batch.num_rows for one in partitions for batch in reader.read(one))

    before = planned()
    assert read(*before)
    for _ in range(3):
        table.insert()
        table.tier()
    table.catalog.procedures.call("clean_lake", [table.name, "0 ms"])
    with pytest.raises(
        TableChangedError, match=r"removed from the lake after .* as CALL clean_lake does: run it again"
    ):
        read(*before)
    assert read(*planned())
    now = planned()
    for path in tmp_path.rglob("*.parquet"):
        path.unlink()
    with pytest.raises(DataLossError, match="bring the lake's files back"):
        read(*now)
    spans._groups.cache_clear()
    with pytest.raises(DataLossError, match="bring the lake's files back"):
        planned()


def test_a_column_that_is_called_as_partitions_is_refused_before_it_is_there(
    catalog: Catalog, scope: str, tmp_path: Path
) -> None:
    table = Table(catalog, scope, tmp_path, **{"lake-partitioned-by": "bucket(2, id), name"})

    def add(name: str) -> None:
        table.alter(AddColumn(column=(name,), type=LongType()))
        table.columns.append(name)

    # Nothing is called so yet, and what will be then gets another name.
    add("name_identity_partition")
    table.insert()
    table.tier()
    taken = ["id_bucket_2_partition", "name_identity_partition_"]
    for layout in ("bucket(2, id), name", "truncate(3, id)"):
        table.set(lake_partitioned_by=layout)
        table.insert()
        table.tier()
        taken += ["id_truncate_3_partition"] if layout.startswith("truncate") else []
        for name in taken:
            with pytest.raises(UnsupportedOperationError, match=f'"{name}" of stream .* give the column another name'):
                add(name)
    add("id_bucket_3_partition")
    table.insert()
    table.tier()
    table.check()


def test_who_looks_makes_no_folder(
    catalog: Catalog,
    scope: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Wherever the catalog's file is to be; who makes a table makes them, or says why not."""
    for variable, text in catalog.settings.to_environment().items():
        monkeypatch.setenv(variable, text)
    name = scope.replace("-", "_"), "t"
    for options in (
        {"warehouse": str(tmp_path / "a" / "lake")},
        {"warehouse": str(tmp_path / "b"), "uri": f"sqlite:///{tmp_path}/db/here/catalog.db"},
    ):
        configuration = LakeConfiguration.of(options)
        before = set(tmp_path.rglob("*"))
        assert iceberg.find_table(configuration, name) is None
        assert set(tmp_path.rglob("*")) == before
        table = Table(Catalog(catalog.settings), scope, tmp_path, f"t{len(options)}")
        table.catalog = Catalog(catalog.settings, options)
        table.insert()
        with pytest.raises(UnsupportedOperationError, match="has no Iceberg table in this lake"):
            table.catalog.procedures.call("clean_lake", [table.name, "0 ms"])
        assert set(tmp_path.rglob("*")) == before
        arguments = [text for key, value in options.items() for text in ("--lake", f"{key}={value}")]
        assert cli.main(["tier", table.name, *arguments]) == 0
        place = Path(configuration.warehouse).joinpath(*iceberg_name(table.stream))
        assert f"1 files at {place};" in capsys.readouterr().out
        assert list(place.glob("data/*.parquet"))
        assert iceberg.find_table(configuration, iceberg_name(table.stream)) is not None
    (tmp_path / "file").touch()
    table.catalog = Catalog(catalog.settings, {"warehouse": f"{tmp_path}/file/lake"})
    other = make(table.catalog, scope, "other", lake="iceberg")
    with pytest.raises(
        ConfigurationError, match=r'the lake\'s folder ".*/file/lake" can\'t be made: .*lake\.warehouse'
    ):
        table.catalog.procedures.call("tier", [str(other)])
