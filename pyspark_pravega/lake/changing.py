"""A snapshot of an Iceberg table that is being made. It needs pyiceberg."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import _pyarrow_to_schema_without_ids, schema_to_pyarrow
from pyiceberg.manifest import ManifestFile
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update.snapshot import _ManifestMergeManager
from pyiceberg.types import (
    IcebergType,
    ListType,
    MapType,
    StructType,
)

from pyspark_pravega.errors import ConflictError, UnsupportedOperationError
from pyspark_pravega.lake.files import LakeSnapshot
from pyspark_pravega.lake.laid_out import Key
from pyspark_pravega.lake.layout import Layout
from pyspark_pravega.lake.specs import data_file, has_its_columns, lay_out, partition_values
from pyspark_pravega.lake.stores import Store, place_of, uri_of

PLAIN = Layout()
"""No partitions, and no order but that of the events."""
_LIST_BYTES, _MOST_LISTS = 8 << 20, 8
"""How large a list of files is that others aren't added to, and how many smaller ones make one."""
_FIELD_ID = b"PARQUET:field_id"


class Change:
    """A snapshot that is being made, perhaps with new columns. It becomes visible as a whole, or not at all."""

    def __init__(
        self,
        table: Table,
        store: Store,
        columns: pa.Schema,
        layout: Layout = PLAIN,
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
            lay_out(self._transaction, PLAIN)
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
        return snapshot_of(self._table, current)

    def _keep_others(self, snapshot: Any) -> None:
        """Let files stay that nobody names, and their lists be few, however many snapshots follow each other."""
        # All lists are looked through: which partitions they have doesn't matter.
        snapshot.delete_by_predicate(AlwaysTrue())
        merging: Any = _ManifestMergeManager(_LIST_BYTES, _MOST_LISTS, True, snapshot)

        def process(lists: list[ManifestFile]) -> Any:
            # pyiceberg can't put lists together that name only files which have gone before.
            own = snapshot.snapshot_id
            return merging.merge_manifests(
                [
                    one
                    for one in lists
                    if one.has_added_files() or one.has_existing_files() or one.added_snapshot_id == own
                ]
            )

        vars(snapshot)["_process_manifests"] = process


def snapshot_of(table: Table, snapshot: Snapshot) -> LakeSnapshot:
    """A snapshot as it tells of itself.

    Args:
        table: its table, as the metadata have it that show it.
        snapshot: the snapshot.
    """
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
