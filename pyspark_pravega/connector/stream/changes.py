"""A streaming query over CHANGES: each micro-batch is of whole versions, in their order.

Its offset is a version, as a value with a stable JSON text:

    {"version":1,"changes":{"stream":"shop/orders","commit":17,"at":1795278750762}}

Spark keeps such texts in checkpoints, so what a released version has written must be read for ever
(`tests/connector/checkpoints`).
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pyspark_pravega.client import Client, Stream
from pyspark_pravega.client.positions import proper_cut
from pyspark_pravega.connector.lake import added_between, end_added, first_told
from pyspark_pravega.connector.log import Ledger, open_ledger
from pyspark_pravega.connector.options import ReadOptions
from pyspark_pravega.connector.read import (
    MOST_ADDITIONS,
    ChangesRange,
    RowChangesPartition,
    commits_between,
    era_of,
    eras,
    first_told_version,
    row_change_partitions,
    row_changes,
)
from pyspark_pravega.connector.stream.consumption import Subscription
from pyspark_pravega.connector.stream.offsets import SourceOffset, StreamPosition
from pyspark_pravega.errors import (
    ConfigurationError,
    DataLossError,
    InvalidNameError,
    SegmentTruncatedError,
    VersionNotFoundError,
)
from pyspark_pravega.spark.datasource import InputPartition

_log = logging.getLogger(__name__)

VERSION = 1
"""Of the offsets' layout; raised when a reader of the present one couldn't understand it any more."""
_COUNTED = 1_000
"""Lag beyond as many versions is estimated."""


@dataclass(frozen=True, kw_only=True)
class ChangesOffset:
    """How far a query has read a stream's versions."""

    stream: Stream
    commit: int = 0
    """The last version that was read; 0 for none."""
    at: int = 0
    """When it was committed, in ms since 1970. It tells a stream from another one that was made later under its
    name."""

    def to_json(self) -> str:
        """The offset as text: always the same for the same offset."""
        changes = {"stream": str(self.stream), "commit": self.commit, "at": self.at}
        return json.dumps({"version": VERSION, "changes": changes}, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> ChangesOffset:
        """An offset from what `to_json` has made, in this version or an earlier one.

        Raises:
            ConfigurationError: it isn't that; the message says what is wrong.
        """
        try:
            document = json.loads(text)
            if document["version"] > VERSION:
                raise ConfigurationError(
                    f'"{text[:80]}" was written by a later version of pyspark-pravega (version {document["version"]}, '
                    f"known is {VERSION}): upgrade this one"
                )
            changes = document["changes"]
            return cls(stream=Stream.parse(changes["stream"]), commit=int(changes["commit"]), at=int(changes["at"]))
        except (ValueError, KeyError, TypeError, RecursionError, InvalidNameError):
            raise ConfigurationError(
                f'"{text[:80]}" is no offset of a query over CHANGES: the checkpoint is of another query; use another '
                "checkpointLocation"
            ) from None


@dataclass(frozen=True, kw_only=True)
class VersionLag:
    """How far a query over CHANGES is behind."""

    versions: int
    bytes: int
    """What their commits have written; beyond a thousand versions estimated."""
    events: int
    """Likewise."""

    def figures(self) -> dict[str, int]:
        """By the names under which a query's progress has them."""
        return {
            "versionsBehindLatest": self.versions,
            "totalBytesBehindLatest": self.bytes,
            "totalEventsBehindLatest": self.events,
        }


def versions_behind(ledger: Ledger, version: int) -> VersionLag:
    """How many versions came behind one.

    Args:
        ledger: the table's commit log.
        version: the last one that was read; 0 for none.
    """
    behind = max(0, ledger.state().version - version)
    commits = ledger.commits(range(version + 1, version + 1 + min(behind, _COUNTED)))
    scale = behind / len(commits) if commits else 0.0
    return VersionLag(
        versions=behind,
        bytes=round(scale * sum(commit.bytes for commit in commits)),
        events=round(scale * sum(commit.rows for commit in commits)),
    )


class ChangesSource:
    """The offsets and partitions of one streaming query over CHANGES. Used by one thread at a time.

    It keeps nothing that isn't in the offsets but what makes it faster: another one can go on with them.
    """

    def __init__(
        self, client: Client, stream: Stream, wanted: ChangesRange, options: ReadOptions, *, keyed: bool = False
    ) -> None:
        """Make a source; the cluster is asked when it is used.

        Args:
            client: the cluster.
            stream: the stream.
            wanted: which versions; without an end the query goes on with each new one.
            options: how much a micro-batch may take.
            keyed: whether the table has a key, so that versions change rows: what these were before is read, too.
        """
        self._keyed = keyed
        self._client, self._stream, self._wanted, self._options = client, stream, wanted, options
        self._opened: Ledger | None = None
        self._subscription: Subscription | None = None
        self._last_batch = time.monotonic()

    @staticmethod
    def offset(text: str) -> ChangesOffset:
        """An offset from its text; errors as `ChangesOffset.from_json`."""
        return ChangesOffset.from_json(text)

    def initial_offset(self) -> ChangesOffset:
        """Where a query without a checkpoint begins: before the first version that is wanted.

        Without a start it is the first one that is there; one that was asked for must be there.

        Raises:
            VersionNotFoundError: it lies beyond the next one, or isn't known any more.
            SegmentTruncatedError: a part of it was truncated away.
            ConfigurationError: a version isn't a commit's number, or the end lies before the start.
        """
        ledger = self._ledger()
        before = self._wanted.before(ledger, self._stream)
        if ledger is None:
            return ChangesOffset(stream=self._stream)
        last = ledger.state().version
        if before < last:
            if self._wanted.from_version is None or not self._options.fail_on_data_loss:
                first = first_told_version if self._keyed else first_told
                before = first(self._client, ledger, before + 1, last) - 1
            elif self._keyed:
                row_changes(self._client, ledger, before + 1, before + 1)
            else:
                added_between(self._client, ledger, before + 1, before + 1)
        return self._at(ledger, before)

    def latest_offset(
        self, start: ChangesOffset, *, limited: bool = True, target: ChangesOffset | None = None
    ) -> ChangesOffset:
        """Where the next micro-batch ends.

        Args:
            start: where it begins.
            limited: whether the options' limits hold. A batch has at least one version, however large, and never
                more than can be planned at once.
            target: where the query is to end, as `target` gave it; None for a query without end.

        Returns:
            `start` itself when there is nothing to read.

        Raises:
            ConfigurationError: `start` is of another stream.
            DataLossError: versions behind `start` aren't known any more, or the stream is another one.
        """
        begin = self._checked(start)
        ledger = self._ledger()
        if ledger is None:
            return start
        last = self._wanted.last(ledger, self._stream)
        if target is not None:
            last = min(last, target.commit)
        if last <= begin:
            return start
        if limited:
            if target is None and not self._enough(ledger, begin, last):
                return start
            admitted, all_there = self._admitted(ledger, begin, last), last
            last = admitted
            if not self._keyed and admitted < all_there:
                most = min(all_there, begin + _most_versions(ledger, all_there))
                last = end_added(self._client, ledger, begin, min(admitted, most), most)
        last = min(last, begin + _most_versions(ledger, last))
        self._last_batch = time.monotonic()
        return self._at(ledger, last)

    def target(self) -> ChangesOffset:
        """The last version now: where a query ends that reads what is there (Trigger.AvailableNow)."""
        ledger = self._ledger()
        if ledger is None:
            return ChangesOffset(stream=self._stream)
        return ChangesOffset(stream=self._stream, commit=self._wanted.last(ledger, self._stream))

    def tail(self) -> ChangesOffset:
        """The last version now."""
        ledger = self._ledger()
        return ChangesOffset(stream=self._stream) if ledger is None else self._at(ledger, ledger.state().version)

    def partitions(self, start: ChangesOffset, end: ChangesOffset) -> Sequence[InputPartition]:
        """What a micro-batch reads.

        Args:
            start: where it begins.
            end: where it ends.

        Raises:
            DataLossError: some of it is gone.
        """
        begin, ledger = self._checked(start), self._ledger()
        if ledger is None:
            return []
        fail = self._options.fail_on_data_loss
        try:
            if self._keyed:
                return self._row_changes(ledger, begin + 1, end.commit)
            added = added_between(self._client, ledger, begin + 1, end.commit, fail_on_data_loss=fail)
        except (VersionNotFoundError, SegmentTruncatedError) as error:
            raise DataLossError(
                f"{error}. The query has read the versions up to {begin}. Set failOnDataLoss to false to go on without "
                "what is gone. The option subscriber prevents it (with a retention, one by consumption), or a longer "
                "retention or lake-keep-in-stream"
            ) from None
        return added.partitions()

    def subscribe(self) -> None:
        """Make the query's subscriber, where the options name one, so that nothing is removed before the first commit.

        Raises:
            ConfigurationError: its name is that of another reader group.
        """
        if self._options.subscriber is not None and self._subscription is None:
            self._subscription = Subscription(self._client, self._options.subscriber, (self._stream,))

    def commit(self, end: ChangesOffset) -> None:
        """Take note that a query has committed everything up to an offset: a subscriber tells it to Pravega."""
        self.subscribe()
        ledger = self._ledger()
        if self._subscription is None or ledger is None:
            return
        for commit in ledger.commits([end.commit]):
            needed = commit.cut
            if self._keyed:
                # What rows were before is told by events that lie far behind.
                ledger.holders().note_subscriber(self._subscription.of(self._stream), end.commit)
                era = era_of(eras(ledger), end.commit)
                needed = {} if era is None or not era.begins else dict(era.begins)
            if needed:
                cut = proper_cut(self._client, self._stream, needed)
                self._subscription.tell(SourceOffset({self._stream: StreamPosition(cut=cut)}))

    def metrics(self, consumed: ChangesOffset) -> dict[str, str]:
        """How far a query is behind: versions, and what their commits have written.

        Args:
            consumed: what it has read.
        """
        ledger = self._ledger()
        if ledger is None:
            return {}
        return {name: str(number) for name, number in versions_behind(ledger, consumed.commit).figures().items()}

    def _row_changes(self, ledger: Ledger, first: int, last: int) -> list[RowChangesPartition]:
        if not self._options.fail_on_data_loss:
            first_told = first_told_version(self._client, ledger, first, last)
            if first_told > first:
                _log.warning(
                    'what versions %d to %d of stream "%s" have changed is gone; the query goes on behind them',
                    *(first, first_told - 1, self._stream),
                )
            first = first_told
        return row_change_partitions(self._client, row_changes(self._client, ledger, first, last))

    def _ledger(self) -> Ledger | None:
        if self._opened is None:
            self._opened = open_ledger(self._client, self._stream)
        return self._opened

    def _at(self, ledger: Ledger, version: int) -> ChangesOffset:
        offset = ChangesOffset(stream=self._stream, commit=version)
        for commit in ledger.commits([version] if version else []):
            offset = replace(offset, at=commit.committed_at)
        return offset

    def _checked(self, start: ChangesOffset) -> int:
        """The version that a query has read; 0 when the stream is another one, and the query is to go on with it."""
        if start.stream != self._stream:
            raise ConfigurationError(
                f'the checkpoint is of a query over CHANGES of stream "{start.stream}", and this one reads '
                f'"{self._stream}": use another checkpointLocation'
            )
        if not start.commit:
            return 0
        ledger = self._ledger()
        last = 0 if ledger is None else ledger.state().version
        known = [] if ledger is None else ledger.commits([start.commit])
        if start.commit <= last and (not known or not start.at or known[0].committed_at == start.at):
            return start.commit
        message = (
            f'stream "{self._stream}" isn\'t the one that this query has read: it was at version {start.commit}, and '
            f"the stream's versions are 1 to {last}; it was deleted and made again."
        )
        if self._options.fail_on_data_loss:
            raise DataLossError(
                f"{message} Begin with a new checkpoint, or set failOnDataLoss to false to go on with version 1"
            )
        _log.warning("%s The query goes on with version 1", message)
        return 0

    def _enough(self, ledger: Ledger, begin: int, last: int) -> bool:
        wanted = self._options.min_events
        if wanted is None or time.monotonic() - self._last_batch >= self._options.max_delay_s:
            return True
        for commit in commits_between(ledger, begin + 1, last):
            wanted -= commit.rows
            if wanted <= 0:
                return True
        return False

    def _admitted(self, ledger: Ledger, begin: int, last: int) -> int:
        options = self._options
        if options.max_events is None and options.max_bytes is None:
            return last
        events = size = 0
        admitted = begin
        for commit in commits_between(ledger, begin + 1, last):
            events, size = events + commit.rows, size + commit.bytes
            too_many = options.max_events is not None and events > options.max_events
            if admitted > begin and (too_many or (options.max_bytes is not None and size > options.max_bytes)):
                break
            admitted = commit.version
        return admitted if admitted > begin else last


def _most_versions(ledger: Ledger, last: int) -> int:
    """How many versions fit into a plan though each adds to all segments."""
    segments = max((len(commit.cut) for commit in ledger.commits([last])), default=1)
    return max(1, MOST_ADDITIONS // max(1, segments))


def check_no_bounds(options: ReadOptions) -> None:
    """Refuse options that say where in a stream to begin or end: CHANGES have bounds of their own.

    Raises:
        ConfigurationError: one is given.
    """
    if options.has_bounds:
        raise ConfigurationError(
            "CHANGES are told between versions: bound them by FROM and TO, or by the options startingVersion, "
            "endingVersion, startingTimestamp and endingTimestamp, instead of stream cuts"
        )
