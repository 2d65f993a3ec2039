"""What versions have added, of tables whose older rows lie in the lake."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark_pravega.client import Client
from pyspark_pravega.connector.lake.slices import LakeSlice, LakeSpan, end_in_lake, lake_slices, slice_batches
from pyspark_pravega.connector.log import Ledger, State, Tiered
from pyspark_pravega.connector.read import (
    ChangesReader,
    CommittedRange,
    commit_of,
    commits_between,
    committed_partitions,
    committed_ranges,
    first_whole_version,
)
from pyspark_pravega.connector.table import TableDefinition
from pyspark_pravega.errors import SegmentTruncatedError
from pyspark_pravega.serde.codec import Batch
from pyspark_pravega.spark.datasource import InputPartition


@dataclass(frozen=True, kw_only=True)
class Additions:
    """Where what versions have added is read."""

    slices: Sequence[LakeSlice] = ()
    """In the lake."""
    ranges: Sequence[CommittedRange] = field(default_factory=list)
    """In the stream."""
    rows: int = 0
    """How many rows commits have written of what is read in the lake; others may have written more."""

    @property
    def bytes(self) -> int:
        """Of the lake's files."""
        return sum(one.bytes for one in self.slices)

    def partitions(self) -> list[InputPartition]:
        """Both, shared out among tasks."""
        return [*self.slices, *committed_partitions(self.ranges)]


def added_between(
    client: Client, ledger: Ledger, first: int, last: int, *, fail_on_data_loss: bool = True
) -> Additions:
    """What versions have added: in the lake, where the stream doesn't hold the first of them any more, and behind that
    in the stream.

    Args:
        client: the cluster.
        ledger: the stream's commit log.
        first: the first version.
        last: the last one.
        fail_on_data_loss: whether what isn't there any more is an error, or left out.

    Raises:
        As `committed_ranges`, for what isn't in the lake either.
    """
    while True:
        state = ledger.state()
        in_lake = first if fail_on_data_loss else max(first, state.replaced_rows + 1)
        ranges: Sequence[CommittedRange] = []
        try:
            if not _is_told(state, in_lake):
                ranges = committed_ranges(client, ledger, first, last, fail_on_data_loss=fail_on_data_loss)
                return Additions(ranges=ranges)
            if first < in_lake:
                # Of those whose rows others have taken the place of the stream may hold some still.
                ranges = committed_ranges(client, ledger, first, min(last, in_lake - 1), fail_on_data_loss=False)
            added = _through_lake(client, ledger, state, in_lake, last, fail_on_data_loss=fail_on_data_loss)
            return replace(added, ranges=[*ranges, *added.ranges])
        except SegmentTruncatedError:
            # It may be in the lake by now.
            if ledger.state().lake == state.lake:
                raise


def first_told(client: Client, ledger: Ledger, first: int, last: int) -> int:
    """The first of some versions that the lake or the stream holds whole; see `first_whole_version`."""
    state = ledger.state()
    if state.tiered is not None and state.tiered.kept and first <= state.tiered.kept:
        # Of a version that took the place of all rows the lake doesn't hold what others had written before it.
        first = max(first, state.replaced_rows + 1 if state.replaced_rows else 1)
        oldest = ledger.first_commit()
        if oldest is None or oldest.version > 1:
            # What the oldest one has added can't be told without the one before it.
            first = max(first, (state.version if oldest is None else oldest.version) + 1)
        if first <= state.tiered.version:
            return first
    return first_whole_version(client, ledger, first, last)


def end_added(client: Client, ledger: Ledger, after: int, most: int, last: int) -> int:
    """The version with which a read of what versions have added ends; see `end_in_lake`.

    Args:
        client: the cluster.
        ledger: the stream's commit log.
        after: the version behind which it begins.
        most: the version with which it is to end.
        last: the last one with which it may end.
    """
    state = ledger.state()
    tiered = state.tiered
    if tiered is None or not _is_told(state, after + 1):
        return most
    span = LakeSpan.of(tiered, after=after, last=min(last, tiered.version))
    return end_in_lake(client.settings, span, most)


class LakeChangesReader(ChangesReader):
    """Reads what commits have added, in the lake and in the stream."""

    def __init__(
        self,
        definition: TableDefinition,
        added: Additions,
        columns: Sequence[str],
        *,
        fail_on_data_loss: bool = True,
    ) -> None:
        """Plan a read.

        Args:
            definition: what the stream is as a table.
            added: what to read; nothing for what is told with each partition.
            columns: as of `ChangesReader`.
            fail_on_data_loss: as of `BatchReader`.
        """
        super().__init__(definition, added.ranges, columns, fail_on_data_loss=fail_on_data_loss)
        self._slices = tuple(added.slices)

    def __getstate__(self) -> dict[str, Any]:
        # Each task is told its own.
        return {**super().__getstate__(), "_slices": ()}

    def partitions(self) -> Sequence[InputPartition]:
        """Those of the lake, and those of the stream."""
        return [*self._slices, *super().partitions()]

    def batches(self, partition: InputPartition) -> Iterator[Batch]:
        """The rows of a partition, see `BatchReader.batches`.

        Args:
            partition: one of `partitions()`, or Spark's stand-in when there are none.
        """
        if isinstance(partition, LakeSlice):
            yield from slice_batches(partition, self.schema, changes=True)
        else:
            yield from super().batches(partition)


def _is_told(state: State, first: int) -> bool:
    """Whether versions from one on are to be read in the lake, and can be."""
    tiered = state.tiered
    if tiered is None or not tiered.kept or first > tiered.kept:
        return False
    return not state.replaced_rows or first > state.replaced_rows


def _through_lake(
    client: Client, ledger: Ledger, state: State, first: int, last: int, *, fail_on_data_loss: bool
) -> Additions:
    tiered = state.tiered
    assert isinstance(tiered, Tiered)
    split = min(last, tiered.version)
    before = max(1, first - 1)
    commits = {commit.version: commit for commit in commits_between(ledger, before, split)}
    unknown = [version for version in range(before, split + 1) if version not in commits]
    if unknown and fail_on_data_loss:
        # It says why it isn't there.
        commit_of(ledger, ledger.stream, unknown[0])
    # To the one behind them the lake may count their rows.
    after = max([first - 1, *(version + 1 for version in unknown)])
    slices = lake_slices(client, ledger.stream, LakeSpan.of(tiered, after=after, last=split))
    for one in slices:
        one.times = {version: commit.committed_at for version, commit in commits.items() if version > after}
    ranges: Sequence[CommittedRange] = []
    if last > split:
        ranges = committed_ranges(client, ledger, split + 1, last, fail_on_data_loss=fail_on_data_loss)
    rows = sum(commit.rows for version, commit in commits.items() if version > after)
    return Additions(slices=slices, ranges=ranges, rows=rows)
