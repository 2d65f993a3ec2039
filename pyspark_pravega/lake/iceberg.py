"""Iceberg's catalogs, tables and snapshots, by pyiceberg, which is an extra: `pip install "pyspark-pravega[lake]"`.

Commits are tried once. pyiceberg's own second try puts the same files on top of what another one has committed, which
would double rows.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.conversions import from_bytes
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, TableAlreadyExistsError
from pyiceberg.expressions import AlwaysTrue, And, BooleanExpression, In
from pyiceberg.expressions import GreaterThanOrEqual as AtLeast
from pyiceberg.expressions import LessThanOrEqual as AtMost
from pyiceberg.io.pyarrow import _pyarrow_to_schema_without_ids, schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.table import StaticTable, Table
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update.snapshot import _ManifestMergeManager
from pyiceberg.types import (
    BooleanType,
    DoubleType,
    FloatType,
    IcebergType,
    ListType,
    MapType,
    StringType,
    StructType,
)
from pyiceberg.utils.config import Config

from pyspark_pravega.errors import ConfigurationError, ConflictError, UnsupportedOperationError
from pyspark_pravega.lake.columns import VERSION
from pyspark_pravega.lake.configuration import URI, LakeConfiguration
from pyspark_pravega.lake.files import Between, LakeFile, LakeSnapshot
from pyspark_pravega.lake.key_files import begins_of, key_files
from pyspark_pravega.lake.laid_out import Key
from pyspark_pravega.lake.layout import Layout
from pyspark_pravega.lake.specs import data_file, has_its_columns, is_laid_out, lay_out, partition_values
from pyspark_pravega.lake.stores import PREFIX, Store, StoredFile, is_remote, place_of, uri_of

_NAME = "pravega"
"""What the catalog is called: in one of SQL its tables stand under that."""
_TRIES = "commit.retry.num-retries"
_OWN_PROPERTIES = {_TRIES: "0", "format-version": "2", "write.parquet.compression-codec": "zstd"}
_AT_LEAST: Any = AtLeast
_AT_MOST: Any = AtMost
_IN: Any = In
_PLAIN = Layout()
_LIST_BYTES, _MOST_LISTS = 8 << 20, 8
"""How large a list of files is that others aren't added to, and how many smaller ones make one."""
_FIELD_ID = b"PARQUET:field_id"

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
        return None if snapshot is None else _snapshot_of(self._table, snapshot)

    @property
    def folder(self) -> str:
        """Where its files are."""
        return f"{place_of(self._table.location())}/data"

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
        location = place_of(table.location())
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
            with self.store.asking(place_of(self._table.location())):
                self._table.maintenance.expire_snapshots().by_ids(wanted).commit()
        except CommitFailedException as error:
            raise ConflictError(f'Iceberg table "{self.name}" was changed meanwhile: {error}') from None

    def change(
        self,
        columns: pa.Schema,
        layout: Layout = _PLAIN,
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


class Change:
    """A snapshot that is being made, perhaps with new columns. It becomes visible as a whole, or not at all."""

    def __init__(
        self,
        table: Table,
        store: Store,
        columns: pa.Schema,
        layout: Layout = _PLAIN,
        *,
        replaces: bool = False,
        gone: Collection[str] | None = None,
        exact: Sequence[str] = (),
    ) -> None:
        """See `IcebergTable.change`."""
        self._table, self._store, self._replaces = table, store, replaces
        self._gone, self._exact = gone, exact
        self._transaction = table.transaction()
        outdated = _outdated(table.schema(), columns) if replaces else set()
        if outdated:
            # Partitions of a column that is no more would stand in the way.
            lay_out(self._transaction, _PLAIN)
            # A column of another type is another one, with an id of its own: old snapshots keep theirs.
            with self._transaction.update_schema(allow_incompatible_changes=True) as update:
                for name in sorted(outdated):
                    update.delete_column(name)
        known = {field.name for field in table.schema().fields if field.name not in outdated}
        if any(name not in known for name in columns.names):
            try:
                with self._transaction.update_schema() as update:
                    update.union_by_name(columns)
            except ValueError as error:
                name = ".".join(table.name())
                raise UnsupportedOperationError(
                    f'the columns can\'t go to the Iceberg table "{name}": {error}; give the new one another name'
                ) from None
        lay_out(self._transaction, layout)
        self.partitioned_by = partition_values(self._transaction.table_metadata)
        """What rows of a file have in common."""
        self._schema = self._transaction.table_metadata.schema()
        self.schema = _with_ids(columns, self._schema)
        """What files of it hold."""

    def commit(
        self, paths: Sequence[str], properties: Mapping[str, str], partitions: Mapping[str, Key] | None = None
    ) -> LakeSnapshot:
        """Make the snapshot.

        Args:
            paths: its new files.
            properties: what it is to say of itself.
            partitions: by file, what its rows have in common.

        Raises:
            ConflictError: another one was made since the table was looked at; nothing was done.
            As `Store.asking`: it may be done or not.
        """
        with self._store.asking(place_of(self._table.location())):
            return self._commit(paths, properties, partitions or {})

    def _commit(
        self, paths: Sequence[str], properties: Mapping[str, str], partitions: Mapping[str, Key]
    ) -> LakeSnapshot:
        metadata, io = self._transaction.table_metadata, self._table.io
        files = [data_file(io, metadata, uri_of(path), partitions.get(path, ()), self._exact) for path in paths]
        update = self._transaction.update_snapshot(snapshot_properties=dict(properties))
        before = self._table.current_snapshot()
        is_new = before is None or not (self._replaces or self._gone is not None)
        with update.fast_append() if is_new else update.overwrite() as snapshot:
            if before is not None and not is_new:
                old = [task.file for task in self._table.scan(snapshot_id=before.snapshot_id).plan_files()]
                if not self._replaces:
                    self._keep_others(snapshot)
                    old = [file for file in old if place_of(file.file_path) in (self._gone or ())]
                elif not all(has_its_columns(metadata, file) for file in old):
                    # pyiceberg can't write of which partition a file was whose columns are no more. It needn't: no
                    # file stays.
                    snapshot.delete_by_predicate(AlwaysTrue())
                    vars(snapshot)["_deleted_entries"] = list
                for file in old:
                    snapshot.delete_data_file(file)
            for file in files:
                snapshot.append_data_file(file)
        try:
            self._transaction.commit_transaction()
        except CommitFailedException as error:
            raise ConflictError(
                f'Iceberg table "{".".join(self._table.name())}" was changed meanwhile: {error}'
            ) from None
        current = self._table.current_snapshot()
        assert current is not None
        return _snapshot_of(self._table, current)

    def _keep_others(self, snapshot: Any) -> None:
        """Let files stay that nobody names, and their lists be few, however many snapshots follow each other."""
        # All lists are looked through: which partitions they have doesn't matter.
        snapshot.delete_by_predicate(AlwaysTrue())
        merging: Any = _ManifestMergeManager(_LIST_BYTES, _MOST_LISTS, True, snapshot)
        vars(snapshot)["_process_manifests"] = merging.merge_manifests


def find_table(configuration: LakeConfiguration, name: tuple[str, str]) -> IcebergTable | None:
    """A table of the lake; None where there is none of that name.

    Args:
        configuration: where the lake is.
        name: its namespace and its own.
    """
    store = store_of(tuple(configuration.properties.items()))
    if not configuration.is_there:
        return None
    try:
        with store.asking(configuration.warehouse):
            return IcebergTable(_catalog(configuration, store).load_table(name), store)
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
    """
    store = store_of(tuple(configuration.properties.items()))
    with store.asking(configuration.warehouse):
        catalog = _catalog(configuration, store)
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
    return _snapshot_of(table, there)


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
        least = (task.file.lower_bounds or {}).get(version.field_id)
        files.append(
            LakeFile(
                path=path,
                rows=task.file.record_count,
                size=task.file.file_size_in_bytes,
                first=0 if least is None else int(from_bytes(version.field_type, least)),
                is_laid_out=is_laid_out(table.metadata, task.file),
            )
        )
    return sorted(files, key=lambda file: file.path)


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


def _catalog(configuration: LakeConfiguration, store: Store) -> Catalog:
    properties = {**_elsewhere(), **configuration.properties}
    if properties["type"] == "sql":
        if not is_remote(configuration.warehouse):
            Path(configuration.warehouse).mkdir(parents=True, exist_ok=True)
        elif URI not in properties:
            raise ConfigurationError(
                f'the lake {configuration.warehouse} needs "{PREFIX}{URI}", where Iceberg\'s catalog is, as '
                "sqlite:////data/lake.db or postgresql+psycopg2://host/lake: a bucket can't hold it"
            )
    return load_catalog(_NAME, **{**properties, **dict(store.properties)})


def _snapshot_of(table: Table, snapshot: Snapshot) -> LakeSnapshot:
    summary: Any = snapshot.summary
    properties: dict[str, str] = {} if summary is None else dict(summary.additional_properties)
    return LakeSnapshot(
        id=snapshot.snapshot_id,
        parent=snapshot.parent_snapshot_id,
        properties=properties,
        metadata=table.metadata_location,
        rows=int(properties.get("total-records", 0)),
    )


def _outdated(schema: Schema, columns: pa.Schema) -> set[str]:
    """The names of a table's columns that others don't have, or have with another type."""
    before = schema_to_pyarrow(schema, include_field_ids=False)
    now = schema_to_pyarrow(_pyarrow_to_schema_without_ids(columns), include_field_ids=False)
    return {field.name for field in before if field.name not in now.names or now.field(field.name).type != field.type}


def _with_ids(columns: pa.Schema, schema: Schema) -> pa.Schema:
    """Columns with the ids that Iceberg has given their fields."""
    return pa.schema(
        [_with_id(field, schema.find_field(field.name).field_id, schema.find_type(field.name)) for field in columns]
    )


def _with_id(field: pa.Field, id: int, kind: IcebergType) -> pa.Field:
    return pa.field(
        field.name, _inner_ids(field.type, kind), nullable=field.nullable, metadata={_FIELD_ID: str(id).encode()}
    )


def _inner_ids(type: Any, kind: IcebergType) -> pa.DataType:
    match kind:
        case StructType():
            return pa.struct([_with_id(type.field(one.name), one.field_id, one.field_type) for one in kind.fields])
        case ListType():
            return pa.list_(_with_id(type.value_field, kind.element_id, kind.element_type))
        case MapType():
            key = _with_id(type.key_field, kind.key_id, kind.key_type)
            return pa.map_(key, _with_id(type.item_field, kind.value_id, kind.value_type))
        case _:
            same: pa.DataType = type
            return same
