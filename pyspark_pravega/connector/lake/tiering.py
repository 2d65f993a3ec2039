"""Tiering: rows of a table's older versions go to the lake, each once, whatever dies meanwhile.

1. The commit log notes an id, by which the Iceberg table is known.
2. The rows behind the last version in the lake, up to another version's stream cut, are written to files.
3. Iceberg makes a snapshot of them. Its properties say which version it follows, and up to which one it goes.
4. The commit log notes the snapshot, on condition that it has noted none since. From then on readers take these rows
   from the lake.
5. The stream is truncated as far as nobody needs it (`releasing`).

Of a table with a key the lake has the rows as they are at that version: files with changed rows are written anew
(`rewriting`). Reads begin with them where the stream is truncated behind them; else it keeps what queries need, and
`CALL compact` truncates it.

Who dies behind step 3 has left a snapshot that the log doesn't know. The next one notes it: what lies between two
versions is always the same. Of two who tier at once one makes the snapshot, and the other one removes its files.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from pyspark_pravega.client import SegmentPart, Stream
from pyspark_pravega.client.names import segment_epoch
from pyspark_pravega.clock import now_ms
from pyspark_pravega.connector.base import COLUMNS, check_base, check_fits
from pyspark_pravega.connector.lake.last_rows import last_rows
from pyspark_pravega.connector.lake.pieces import PiecesReader
from pyspark_pravega.connector.lake.releasing import release_tiered
from pyspark_pravega.connector.lake.rewriting import (
    FILE_ROWS,
    LAYOUT,
    SCHEMA,
    Rewriting,
    layout_text,
    rewriting,
    schema_text,
)
from pyspark_pravega.connector.lake.rules import check_kept, layout_of
from pyspark_pravega.connector.lake.versions import versioned
from pyspark_pravega.connector.log import (
    Commit,
    Snapshot,
    State,
    Tiered,
    create_ledger,
    offsets_of,
    open_ledger,
    settle,
)
from pyspark_pravega.connector.read import (
    Moment,
    commit_of,
    commits_between,
    last_commit,
    parts_until,
    rows_at,
    snapshot_until,
)
from pyspark_pravega.connector.shared import shared_client
from pyspark_pravega.connector.table import TableDefinition, load_definition
from pyspark_pravega.errors import (
    ConflictError,
    DataLossError,
    SegmentTruncatedError,
    TableChangedError,
    UnsupportedOperationError,
)
from pyspark_pravega.lake import (
    POSITIONS,
    VERSION,
    FileWriter,
    LaidOutWriter,
    LakeConfiguration,
    LakeSnapshot,
    Layout,
    load_iceberg,
)
from pyspark_pravega.settings import Settings
from pyspark_pravega.spark.types import StructType

ID, BASE, UP_TO, CUT, REPLACES, BY, BY_KEY = (
    f"pravega.{name}" for name in ("table", "base", "version", "cut", "replaces", "by", "by-key")
)
"""What a snapshot says: of which table it is, which version it follows, up to which one it goes, where that ended in
the stream, whether it replaces all rows before, who made it, and whether it has the last
row of each key of a table with one."""
FILE_SIZE, ROW_GROUP_SIZE = 128 << 20, 16 << 20
_TRIES = 5
_COMMIT_VERSION = "_commit_version"


@dataclass(frozen=True, kw_only=True)
class TierReport:
    """What a call of `tier` came to."""

    version: int
    """The version up to which rows lie in the lake."""
    rows: int
    """How many this call has put there."""
    files: int
    kept_from: int
    """The first version whose events are in the stream for sure."""
    location: str
    """Where the Iceberg table is."""


def tier(
    settings: Settings, configuration: LakeConfiguration, stream: Stream, stopped: Callable[[], bool] = lambda: False
) -> TierReport:
    """Put a table's rows into the lake, up to the last version that its properties let go there.

    Args:
        settings: the cluster, and the schema registry.
        configuration: where the lake is.
        stream: the table's stream.
        stopped: whether to give up while files are written, which are removed then.

    Raises:
        UnsupportedOperationError: the table has no lake, or can't have one; or another program has changed what is
            there.
        ConfigurationError: pyiceberg isn't installed.
        ConflictError: others tier the table, or replace its rows, all the time.
    """
    for left in reversed(range(_TRIES)):
        try:
            return _Tiering(settings, configuration, stream, stopped).run()
        except ConflictError:
            if not left:
                raise
    raise AssertionError


def iceberg_name(stream: Stream) -> tuple[str, str]:
    """The namespace and the name of a stream's Iceberg table: as SQL has them.

    Args:
        stream: the stream.
    """
    return stream.scope.replace("-", "_"), stream.name.replace("-", "_")


def clean_lake(
    settings: Settings, configuration: LakeConfiguration, stream: Stream, older_than_s: float
) -> tuple[int, int]:
    """Remove files that calls of `tier` have left which were broken off; of a table with a key also older snapshots,
    each of which holds all rows.

    Args:
        settings: the cluster.
        configuration: where the lake is.
        stream: the table's stream.
        older_than_s: how old they are at least, in seconds: a call that is under way has some, too.

    Returns:
        How many files, and of how many bytes.

    Raises:
        ConflictError: another process tiers the table just now, or cleans its lake.
        UnsupportedOperationError: the table has no lake, or its Iceberg table isn't there.
        ConfigurationError: pyiceberg isn't installed.
    """
    # What the log says comes first: a snapshot that is noted later is in a table that is looked at later.
    ledger = open_ledger(shared_client(settings), stream)
    lake = None if ledger is None else ledger.state().lake
    table = None if lake is None else load_iceberg().find_table(configuration, iceberg_name(stream))
    if lake is None or table is None or table.properties.get(ID) != lake.id:
        raise UnsupportedOperationError(
            f'stream "{stream}" has no Iceberg table in this lake: CALL tier makes it; if it did, set the catalog\'s '
            "lake.* to where it is"
        )
    needed = [base for base in (lake.kept_base, lake.next_base) if base is not None]
    if lake.by_key and table.snapshot is not None and table.snapshot.id == lake.snapshot:
        # What no call has noted yet needs the one before. Reads need some besides the last one.
        table.forget(older_than_s, [base.snapshot for base in needed])
    files = table.unknown_files([lake.metadata, *(base.metadata for base in needed)], older_than_s)
    for file in files:
        table.store.remove(file.path)
    return len(files), sum(file.size for file in files)


class _Tiering:
    """One try."""

    def __init__(
        self, settings: Settings, configuration: LakeConfiguration, stream: Stream, stopped: Callable[[], bool]
    ) -> None:
        self._stopped = stopped
        self._settings, self._configuration, self._stream = settings, configuration, stream
        self._client = shared_client(settings)
        definition = load_definition(self._client, settings, stream)
        if definition.properties.lake is None:
            raise UnsupportedOperationError(
                f"stream \"{stream}\" has no lake: ALTER TABLE ... SET TBLPROPERTIES ('lake' = 'iceberg')"
            )
        check_kept(definition)
        layout_of(definition)
        self._properties, self._is_keyed = definition.properties, definition.key is not None
        self._iceberg: Any = load_iceberg()
        self._ledger = create_ledger(self._client, stream)
        self._by = uuid.uuid4().hex

    def run(self) -> TierReport:
        """Do it.

        Raises:
            ConflictError: another one does it at the same time, or others have taken the place of the table's rows.
        """
        state, table = self._settled()
        lake, rows, files = state.lake, 0, 0
        assert lake is not None
        target = self._target(state, lake)
        try:
            written = None if target is None else self._write(state, lake, table, target)
        except (SegmentTruncatedError, DataLossError, TableChangedError) as error:
            if self._ledger.state().replaced_rows == state.replaced_rows:
                raise
            # What was to be read is gone, as it isn't the table's any more.
            raise ConflictError(f'others replace the rows of stream "{self._stream}": {error}') from error
        if written is not None:
            snapshot, rows, files = written
            lake = self._note(lake, snapshot)
        kept = 0
        if not self._is_keyed or self._fits(lake):
            kept = release_tiered(self._client, self._ledger, self._properties.keep_in_stream_ms)
        kept_from = self._ledger.state().kept_from if self._is_keyed else kept + 1
        return TierReport(version=lake.version, rows=rows, files=files, kept_from=kept_from, location=table.location)

    def _fits(self, lake: Tiered) -> bool:
        """Whether the last rows of a table with a key have its columns, so that reads could begin with them."""
        if lake.snapshot is None or not lake.by_key:
            return False
        definition = load_definition(self._client, self._settings, self._stream)
        try:
            check_base(definition, lake.base, [])
        except UnsupportedOperationError:
            # The next ones will have them.
            return False
        return True

    def _settled(self) -> tuple[State, Any]:
        """The log's state and the Iceberg table, of which each knows the other one's last step."""
        state = settle(self._client, self._ledger)
        if state.lake is None:
            state = self._ledger.holders().note_lake(state, Tiered(id=uuid.uuid4().hex, by_key=self._is_keyed))
        lake = state.lake
        assert lake is not None
        if self._is_keyed and self._properties.keep_in_stream_ms is not None and not lake.releases:
            # Before any rows are there that reads need: from then on columns stay.
            lake = replace(lake, releases=True)
            state = self._ledger.holders().note_lake(state, lake)
        name = iceberg_name(self._stream)
        table: Any = self._iceberg.find_table(self._configuration, name)
        if table is None:
            if lake.snapshot is not None:
                raise UnsupportedOperationError(
                    f'version {lake.version} of stream "{self._stream}" is in an Iceberg table that isn\'t there: '
                    "bring it back, or set the catalog's lake.* to where it is"
                )
            columns = check_kept(load_definition(self._client, self._settings, self._stream))
            table = self._iceberg.make_table(self._configuration, name, columns, {ID: lake.id})
        assert table is not None
        if table.properties.get(ID) != lake.id:
            raise UnsupportedOperationError(
                f'Iceberg table "{table.name}" is there already, and isn\'t that of stream "{self._stream}" as it is '
                f'now. Drop it, with pyiceberg: load_catalog("pravega", ...).drop_table({iceberg_name(self._stream)}), '
                "or rename it"
            )
        snapshot = table.snapshot
        if (None if snapshot is None else snapshot.id) != lake.snapshot:
            if snapshot is None or snapshot.parent != lake.snapshot or not _follows(snapshot, lake):
                if self._ledger.state().lake != lake:
                    raise ConflictError(f'another process tiers stream "{self._stream}"')
                raise UnsupportedOperationError(
                    f'Iceberg table "{table.name}" was changed by another program, and others may only read it: roll '
                    f"it back to snapshot {lake.snapshot}"
                )
            # Who has made it has died, or is just going to note it.
            self._note(lake, snapshot)
            raise ConflictError(f'another process has tiered stream "{self._stream}"')
        return state, table

    def _target(self, state: State, lake: Tiered) -> Commit | None:
        """The version up to which rows are to go to the lake; None where they are there, or aren't old enough."""
        after = self._properties.lake_after_ms
        if not state.version:
            return None
        if after is None:
            target = commit_of(self._ledger, self._stream, state.version)
        else:
            old = last_commit(self._ledger, now_ms() - after)
            if old is None:
                return None
            target = old
        return target if target.version > lake.version and target.version >= state.replaced_rows else None

    def _write(self, state: State, lake: Tiered, table: Any, target: Commit) -> tuple[LakeSnapshot, int, int] | None:
        """Make the snapshot; gives it, and how many rows and files it has brought, or None where it was stopped."""
        # Looked up behind the version, it has each column that an event of it was written with.
        definition = load_definition(self._client, self._settings, self._stream)
        if definition.replaced_table != state.replaced_table:
            raise TableChangedError(f'stream "{self._stream}" was made another table just now: run it again')
        if (definition.key is not None) != self._is_keyed:
            raise ConflictError(f'stream "{self._stream}" was given a key just now, or has lost it: run it again')
        columns = check_kept(definition)
        some = rewriting(self._client, definition, state, lake, _end(target)) if self._is_keyed else None
        replaces = self._is_keyed or lake.by_key or lake.version < state.replaced_rows or lake.snapshot is None
        replaces = replaces and some is None
        if not replaces and some is None:
            snapshot = self._iceberg.snapshot_at(table.store, lake.metadata, lake.snapshot)
            check_fits(definition, StructType.fromJson(json.loads(snapshot.properties[COLUMNS])))
        whole = None if not self._is_keyed else self._rows_of_keys(target) if some is None else some.whole
        parts, commits = self._wanted(lake, target, whole, replaces=replaces)
        layout, gone = layout_of(definition), None if some is None else some.gone
        exact = () if definition.key is None else definition.key.columns
        change = table.change(columns, layout, replaces=replaces, gone=gone, exact=exact)
        writer = self._writer(table, change, layout, lake, some)
        seen: set[int] = set()
        try:
            for segment, batch in _batches(definition, parts, commits, whole, gone):
                if self._stopped():
                    writer.discard()
                    return None
                if segment not in seen and any(segment_epoch(one) < segment_epoch(segment) for one in writer.lanes):
                    # It may have taken the place of others, whose rows come before its own.
                    writer.settle()
                seen.add(segment)
                arrays = [batch.column(_source(field.name)).cast(field.type) for field in change.schema]
                writer.write(pa.RecordBatch.from_arrays(arrays, schema=change.schema), segment)
            writer.close()
            if whole is None:
                self._check_count(parts, commits, writer.rows)
            properties = {
                ID: lake.id,
                BASE: str(lake.version),
                UP_TO: str(target.version),
                CUT: json.dumps(target.cut),
                COLUMNS: definition.schema.json(),
                REPLACES: "true" if replaces else "false",
                BY: self._by,
            }
            if self._is_keyed:
                assert isinstance(writer, LaidOutWriter)
                file_rows = str(writer.file_rows or (0 if some is None else some.file_rows))
                more = {SCHEMA: schema_text(definition), LAYOUT: layout_text(definition), FILE_ROWS: file_rows}
                properties |= {BY_KEY: "true", **more}
        except BaseException:
            writer.discard()
            raise
        return self._committed(change, writer, properties), writer.rows, len(writer.paths)

    def _writer(
        self, table: Any, change: Any, layout: Layout, lake: Tiered, some: Rewriting | None
    ) -> FileWriter | LaidOutWriter:
        """What writes the files."""
        size, group_size = self._properties.lake_file_size, self._properties.lake_row_group_size or ROW_GROUP_SIZE
        files = FileWriter(table.store, table.folder, self._by, change.schema, size or FILE_SIZE, group_size)
        if not layout:
            return files
        all_rows = lake.rows if self._is_keyed and size is None else None
        begins = None if some is None else some.begins
        return LaidOutWriter(files, change.partitioned_by, layout.order, all_rows=all_rows, begins=begins)

    def _committed(self, change: Any, writer: FileWriter | LaidOutWriter, properties: dict[str, str]) -> LakeSnapshot:
        try:
            snapshot: LakeSnapshot = change.commit(writer.paths, properties, writer.partitions)
        except ConflictError:
            writer.discard()
            raise
        except Exception:
            # Its answer may be lost. Files of a snapshot that is there, or may come, must stay.
            table: Any = self._iceberg.find_table(self._configuration, iceberg_name(self._stream))
            last: LakeSnapshot | None = None if table is None else table.snapshot
            if last is None or last.properties.get(BY) != self._by:
                raise
            return last
        return snapshot

    def _rows_of_keys(self, target: Commit) -> Snapshot:
        """The events that tell the rows of a table with a key at a version."""
        return rows_at(self._client, self._stream, _end(target))

    def _wanted(
        self, lake: Tiered, target: Commit, whole: Snapshot | None = None, *, replaces: bool
    ) -> tuple[list[SegmentPart], list[Commit]]:
        """Which parts of the stream, and which versions have added what is in them."""
        end = _end(target)
        if replaces or whole is not None:
            whole = whole or snapshot_until(self._client, self._stream, end)
            parts = list(whole.parts)
            oldest = self._ledger.first_commit()
            first = target.version if oldest is None else oldest.version
            if whole.base is not None:
                first = max(first, whole.base.version + 1)
        else:
            start = Moment(offsets=lake.cut, name=f"version {lake.version}", version=lake.version)
            parts = parts_until(self._client, self._stream, start, end)
            first = lake.version + 1
        commits = list(commits_between(self._ledger, first, target.version - 1))
        return parts, [*commits, target]

    def _check_count(self, parts: list[SegmentPart], commits: list[Commit], rows: int) -> None:
        """Hold what was written against what the commit log has counted, where all is counted.

        Raises:
            DataLossError: it isn't as much.
        """
        if sum(part.size for part in parts) != sum(commit.bytes for commit in commits):
            return
        counted = sum(commit.rows for commit in commits)
        if not any(commit.of_others or commit.begins for commit in commits) and rows != counted:
            raise DataLossError(
                f'{rows} rows of stream "{self._stream}" were read for the lake, and versions {commits[0].version} to '
                f"{commits[-1].version} have written {counted}: nothing was done"
            )

    def _note(self, before: Tiered, snapshot: LakeSnapshot) -> Tiered:
        """Let the log know a snapshot, unless it knows it, or a later one, already.

        Raises:
            ConflictError: it doesn't follow what the log knows.
        """
        while True:
            state = self._ledger.state()
            lake = state.lake
            if lake is not None and lake.snapshot == snapshot.id:
                return lake
            if lake is None or (lake.id, lake.version, lake.snapshot) != (before.id, before.version, before.snapshot):
                raise ConflictError(f'another process tiers stream "{self._stream}"')
            replaces = snapshot.properties[REPLACES] == "true"
            by_key = snapshot.properties.get(BY_KEY) == "true"
            stays = lake.by_key if by_key else not replaces
            noted = Tiered(
                id=lake.id,
                version=int(snapshot.properties[UP_TO]),
                cut=offsets_of(json.loads(snapshot.properties[CUT])),
                snapshot=snapshot.id,
                metadata=snapshot.metadata,
                rows=snapshot.rows,
                kept=lake.kept if stays else 0,
                kept_cut=lake.kept_cut if stays else {},
                by_key=by_key,
                releases=by_key and lake.releases,
                kept_base=lake.kept_base if stays else None,
                next_base=lake.next_base if stays else None,
            )
            try:
                self._ledger.holders().note_lake(state, noted)
            except ConflictError:
                # Something else was committed meanwhile.
                continue
            return noted


def _follows(snapshot: LakeSnapshot, lake: Tiered) -> bool:
    """Whether a snapshot is one of this table's, and goes on where the log's ends."""
    return snapshot.properties.get(ID) == lake.id and snapshot.properties.get(BASE) == str(lake.version)


def _end(target: Commit) -> Moment:
    return Moment(offsets=target.cut, name=f"version {target.version}", version=target.version)


def _source(name: str) -> str:
    return _COMMIT_VERSION if name == VERSION else name


def _batches(
    definition: TableDefinition,
    parts: list[SegmentPart],
    commits: list[Commit],
    whole: Snapshot | None,
    only: Collection[str] | None,
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows with their places and versions, each batch with its segment; of a table with a key the last one of each
    key, without those of files that stay.
    """
    if whole is not None:
        return last_rows(definition, whole, versioned(parts, commits), _COMMIT_VERSION, only)
    reader = PiecesReader(definition, [*definition.schema.fieldNames(), *POSITIONS, _COMMIT_VERSION])
    return reader.by_turns(versioned(parts, commits))
