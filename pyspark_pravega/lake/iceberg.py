"""Iceberg's catalogs, tables and snapshots, by pyiceberg, which is an extra: `pip install "pyspark-pravega[lake]"`.

Commits are tried once. pyiceberg's own second try puts the same files on top of what another one has committed, which
would double rows.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
from pyiceberg.catalog import load_catalog
from pyiceberg.conversions import from_bytes
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, TableAlreadyExistsError
from pyiceberg.expressions import AlwaysTrue, And, BooleanExpression, In
from pyiceberg.expressions import GreaterThanOrEqual as AtLeast
from pyiceberg.expressions import LessThanOrEqual as AtMost
from pyiceberg.schema import Schema
from pyiceberg.table import StaticTable, Table
from pyiceberg.types import (
    BooleanType,
    DoubleType,
    FloatType,
    IcebergType,
    StringType,
)
from pyiceberg.utils.config import Config

from pyspark_pravega.errors import ConfigurationError, ConflictError, UnsupportedOperationError
from pyspark_pravega.lake.changing import PLAIN, Change, snapshot_of
from pyspark_pravega.lake.columns import VERSION
from pyspark_pravega.lake.configuration import URI, LakeConfiguration
from pyspark_pravega.lake.files import NO_END, Between, LakeFile, LakeSnapshot
from pyspark_pravega.lake.key_files import begins_of, key_files
from pyspark_pravega.lake.layout import Layout
from pyspark_pravega.lake.specs import is_laid_out
from pyspark_pravega.lake.stores import PREFIX, WAREHOUSE, Store, StoredFile, is_remote, place_of

_NAME = "pravega"
"""What the catalog is called: in one of SQL its tables stand under that."""
_TRIES = "commit.retry.num-retries"
_OWN_PROPERTIES = {_TRIES: "0", "format-version": "2", "write.parquet.compression-codec": "zstd"}
_AT_LEAST: Any = AtLeast
_AT_MOST: Any = AtMost
_IN: Any = In

__all__ = [
    "Change",
    "IcebergTable",
    "begins_of",
    "files_of",
    "find_table",
    "key_files",
    "make_table",
    "snapshot_at",
    "store_of",
]


class IcebergTable:
    """One Iceberg table, as it is when it is looked at."""

    def __init__(self, table: Table, store: Store) -> None:
        """Use a table that was looked up."""
        self._table, self.store = table, store

    @property
    def name(self) -> str:
        """Its name in its catalog."""
        return ".".join(self._table.name())

    @property
    def properties(self) -> Mapping[str, str]:
        """The table's own."""
        return self._table.properties

    @property
    def snapshot(self) -> LakeSnapshot | None:
        """The last snapshot; None where there is none."""
        snapshot = self._table.current_snapshot()
        return None if snapshot is None else snapshot_of(self._table, snapshot)

    @property
    def location(self) -> str:
        """Where it is."""
        return place_of(self._table.location())

    @property
    def folder(self) -> str:
        """Where its files are."""
        return f"{self.location}/data"

    def columns(self) -> list[str]:
        """The names of its columns."""
        return [field.name for field in self._table.schema().fields]

    def unknown_files(self, known: Sequence[str], older_than_s: float) -> list[StoredFile]:
        """The files in its folder that no snapshot has, and no metadata of it name: those of commits that were broken
        off, and of snapshots that were forgotten.

        Args:
            known: locations of other files that stay.
            older_than_s: how old they are at least, in seconds: a commit that is under way has some, too.
        """
        table, metadata = self._table, self._table.metadata
        named = {table.metadata_location, *known, *(entry.metadata_file for entry in metadata.metadata_log)}
        location = self.location
        with self.store.asking(location):
            for snapshot in metadata.snapshots:
                named.add(snapshot.manifest_list)
                for manifest in snapshot.manifests(table.io):
                    named.add(manifest.manifest_path)
                    named |= {entry.data_file.file_path for entry in manifest.fetch_manifest_entry(table.io)}
        paths = {place_of(one) for one in named if one}
        until = time.time() - older_than_s
        files = [file for folder in (self.folder, f"{location}/metadata") for file in self.store.files(folder)]
        return [file for file in files if file.path not in paths and file.changed_at <= until]

    def forget(self, older_than_s: float, needed: Sequence[int] = ()) -> None:
        """Forget snapshots, but not the last one, and none that a branch or a tag of another program names.

        Args:
            older_than_s: for how long another one has been the last, at least, in seconds.
            needed: the ids of others that stay.

        Raises:
            ConflictError: the table was changed since it was looked at.
        """
        until, log = (time.time() - older_than_s) * 1000, self._table.history()
        old = {before.snapshot_id for before, after in itertools.pairwise(log) if after.timestamp_ms <= until}
        named = {reference.snapshot_id for reference in self._table.metadata.refs.values()}
        there = {snapshot.snapshot_id for snapshot in self._table.snapshots()}
        wanted = sorted(old & there - named - set(needed))
        if not wanted:
            return
        try:
            with self.store.asking(self.location):
                self._table.maintenance.expire_snapshots().by_ids(wanted).commit()
        except CommitFailedException as error:
            raise ConflictError(f'Iceberg table "{self.name}" was changed meanwhile: {error}') from None

    def purge(self) -> None:
        """Remove it, with all files in its folder.

        Raises:
            As `Store.asking`. What its catalog still has can be removed again.
        """
        location, last = self.location, place_of(self._table.metadata_location)
        folders = [self.folder, f"{location}/metadata"]
        with self.store.asking(location):
            for file in [file for folder in folders for file in self.store.files(folder)]:
                if file.path != last:
                    self.store.remove(file.path)
            self._table.catalog.drop_table(self._table.name())
            self.store.remove(last)
        for folder in [] if is_remote(location) else [*folders, location]:
            # Others may have put something there.
            with suppress(OSError):
                Path(folder).rmdir()

    def change(
        self,
        columns: pa.Schema,
        layout: Layout = PLAIN,
        *,
        replaces: bool = False,
        gone: Collection[str] | None = None,
        exact: Sequence[str] = (),
    ) -> Change:
        """Begin a change, for which nothing is written yet.

        Args:
            columns: those that it has to have; what it lacks is added.
            layout: how its files are laid out.
            replaces: whether its files take the place of all before: then columns go that the new ones don't have, or
                have with another type.
            gone: or of which files they take the place.
            exact: columns whose least and greatest texts in each file are to be known as a whole.
        """
        return Change(self._table, self.store, columns, layout, replaces=replaces, gone=gone, exact=exact)


def find_table(configuration: LakeConfiguration, name: tuple[str, str]) -> IcebergTable | None:
    """A table of the lake; None where there is none of that name.

    Args:
        configuration: where the lake is.
        name: its namespace and its own.
    """
    store = store_of(tuple(configuration.properties.items()))
    properties = _properties(configuration, store)
    database = _database(properties)
    if database is not None and not database.is_file():
        # Who looks makes none.
        return None
    try:
        with store.asking(configuration.warehouse):
            return IcebergTable(load_catalog(_NAME, **properties).load_table(name), store)
    except NoSuchTableError:
        return None


def make_table(
    configuration: LakeConfiguration, name: tuple[str, str], columns: pa.Schema, properties: Mapping[str, str]
) -> IcebergTable:
    """Make a table without rows; another process may make it at the same time.

    Args:
        configuration: where the lake is.
        name: its namespace and its own.
        columns: its columns.
        properties: what it is to say of itself.

    Raises:
        ConfigurationError: a folder can't be made.
    """
    store = store_of(tuple(configuration.properties.items()))
    own = _properties(configuration, store)
    database = _database(own)
    folders = [] if is_remote(configuration.warehouse) else [Path(configuration.warehouse)]
    for folder in [*folders, *([] if database is None else [database.parent])]:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigurationError(
                f'the lake\'s folder "{folder}" can\'t be made: {error.strerror}; set "{PREFIX}{WAREHOUSE}", or '
                f'"{PREFIX}{URI}", to one that can'
            ) from None
    with store.asking(configuration.warehouse):
        catalog = load_catalog(_NAME, **own)
        catalog.create_namespace_if_not_exists(name[:1])
        try:
            table = catalog.create_table(name, columns, properties={**_OWN_PROPERTIES, **properties})
        except TableAlreadyExistsError:
            table = catalog.load_table(name)
        return IcebergTable(table, store)


def store_of(properties: tuple[tuple[str, str], ...]) -> Store:
    """How the lake's files are reached: as a configuration says, and for the rest pyiceberg's own variables and file.

    Args:
        properties: those of a configuration.
    """
    return Store.of({**_elsewhere(), **dict(properties)})


def _elsewhere() -> dict[str, str]:
    """What pyiceberg's own variables and file say of the lake."""
    known = Config().get_catalog_config(_NAME) or {}
    return {name: text for name, text in cast(dict[str, Any], known).items() if isinstance(text, str)}


@lru_cache(maxsize=64)
def snapshot_at(store: Store, metadata: str, snapshot: int) -> LakeSnapshot:
    """What a snapshot says of itself. It never changes.

    Args:
        store: reaches the lake's files.
        metadata: where the metadata lie that show it.
        snapshot: its id.
    """
    with store.asking(place_of(metadata)):
        table = StaticTable.from_metadata(metadata, dict(store.properties))
    there = table.snapshot_by_id(snapshot)
    assert there is not None
    return snapshot_of(table, there)


@lru_cache(maxsize=64)
def files_of(
    store: Store, metadata: str, snapshot: int, last: int | None = None, wanted: tuple[Between, ...] = ()
) -> list[LakeFile]:
    """The files of a snapshot that may hold what is wanted. They never change.

    Args:
        store: reaches the lake's files.
        metadata: where the metadata lie that show it.
        snapshot: its id.
        last: the last version whose rows are wanted; None for all.
        wanted: which values are wanted.

    Raises:
        UnsupportedOperationError: some of their rows aren't the snapshot's: another program has deleted them.
    """
    with store.asking(place_of(metadata)):
        table = StaticTable.from_metadata(metadata, dict(store.properties))
        scan = table.scan(row_filter=_condition(table.schema(), last, wanted), snapshot_id=snapshot)
        tasks = list(scan.plan_files())
    version: Any = table.schema().find_field(VERSION)
    files = []
    for task in tasks:
        if task.delete_files:
            raise UnsupportedOperationError(f'another program has deleted rows of the Iceberg table of "{metadata}"')
        path = place_of(task.file.file_path)
        least, most = (
            (bounds or {}).get(version.field_id) for bounds in (task.file.lower_bounds, task.file.upper_bounds)
        )
        files.append(
            LakeFile(
                path=path,
                rows=task.file.record_count,
                size=task.file.file_size_in_bytes,
                first=0 if least is None else int(from_bytes(version.field_type, least)),
                last=NO_END if most is None else int(from_bytes(version.field_type, most)),
                is_laid_out=is_laid_out(table.metadata, task.file),
            )
        )
    return sorted(files, key=lambda file: file.path)


def partition_fields(store: Store, metadata: str) -> set[str]:
    """What partitions of a table are called, or were: Iceberg lets no column be called so.

    Args:
        store: reaches the lake's files.
        metadata: where the table's metadata lie.
    """
    with store.asking(place_of(metadata)):
        table = StaticTable.from_metadata(metadata, dict(store.properties))
    return {field.name for spec in table.metadata.partition_specs for field in spec.fields}


def _condition(schema: Schema, last: int | None, wanted: Sequence[Between]) -> BooleanExpression:
    condition: BooleanExpression = AlwaysTrue() if last is None else _AT_MOST(VERSION, last)
    for one in wanted:
        kind = schema.find_type(one.column)
        if one.among and not isinstance(kind, FloatType | DoubleType):
            # Partitions by a hash tell of no bounds.
            condition = And(condition, _IN(one.column, [_literal(kind, value) for value in one.among]))
        if isinstance(kind, BooleanType):
            # Iceberg compares them for equality only.
            continue
        for compared, value in ((_AT_LEAST, one.least), (_AT_MOST, one.most)):
            if value is not None:
                condition = And(condition, compared(one.column, _literal(kind, value)))
    return condition


def _literal(kind: IcebergType, value: Any) -> Any:
    if isinstance(kind, StringType):
        return value.decode()
    return bool(value) if isinstance(kind, BooleanType) else value


def _properties(configuration: LakeConfiguration, store: Store) -> dict[str, str]:
    """What pyiceberg is told of the catalog."""
    properties = {**_elsewhere(), **configuration.properties}
    if properties["type"] == "sql" and is_remote(configuration.warehouse) and URI not in properties:
        raise ConfigurationError(
            f'the lake {configuration.warehouse} needs "{PREFIX}{URI}", where Iceberg\'s catalog is, as '
            "sqlite:////data/lake.db or postgresql+psycopg2://host/lake: a bucket can't hold it"
        )
    return {**properties, **dict(store.properties)}


def _database(properties: Mapping[str, str]) -> Path | None:
    """The file of a catalog that is one of SQLite's."""
    if properties["type"] != "sql" or not properties[URI].startswith("sqlite"):
        return None
    # pyiceberg may be there without it.
    from sqlalchemy.engine import make_url

    database = make_url(properties[URI]).database
    return None if not database or database.startswith((":", "file:")) else Path(database)
