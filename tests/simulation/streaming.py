"""A streaming query that reads the table: what its micro-batches hold, over deaths and restarts, and whether it may."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Mapping, Sequence

from cluster_model import KEYS, ROWS, STREAM, ClusterModel, SegmentModel
from history import Operation, UnexplainedError

from pyspark_pravega.connector.options import ReadOptions
from pyspark_pravega.connector.stream import SourceOffset, StreamSource
from pyspark_pravega.errors import DataLossError, PravegaError

_RESTARTS = 3


class StreamingQuery:
    """Reads micro-batches as Spark does: an offset is noted, the batch is read, and then noted as done.

    What it has noted outlives it, and whoever comes next goes on from there: from the last batch that is done, or from
    an earlier one, as a user does who goes back in a checkpoint.
    """

    def __init__(self, cluster: ClusterModel) -> None:
        rng = cluster.world.rng
        self._cluster, self._world = cluster, cluster.world
        self._fails = rng.random() < 0.7
        self._limit = rng.choice((None, None, 1, 3))
        self._options = ReadOptions(fail_on_data_loss=self._fails, max_events=self._limit)
        self._offsets: list[str] = []
        """The end of each micro-batch that was begun."""
        self._done = 0
        """How many are done."""
        self._first: SourceOffset | None = None
        """Where the first one has begun."""
        self._begun: int | None = None
        """The last version of the commit log when the first one was noted, and its start was asked for."""
        self._batches: list[list[list[int]]] = []
        """What each has held: the events of each part of a segment."""
        self._lost = False

    def begin(self) -> None:
        """Take part."""
        self._restart(_RESTARTS)

    def read_to_the_end(self) -> None:
        """Read all that is there, without accidents."""
        if self._lost and self._fails:
            return
        try:
            self._run(patience=2)
        except DataLossError as error:
            self._note_loss(error)

    def judge(self, operations: Sequence[Operation], versions: Mapping[str, int]) -> None:
        """Each committed row was delivered once, in the order of its key's rows, and nothing else.

        Args:
            operations: all statements; the last one is a read of all that is there in the end.
            versions: the versions of the jobs that were committed.

        Raises:
            UnexplainedError: it wasn't so.
        """
        events = [event for batch in self._batches for part in batch for event in part]
        if len(set(events)) != len(events):
            twice = sorted({event for event in events if events.count(event) > 1})
            raise UnexplainedError(f"the streaming query has read {_told(twice)} twice: {self._told()}")
        uncommitted = [event for event in events if operations[event // ROWS].job not in versions]
        if uncommitted:
            raise UnexplainedError(f"the streaming query has read {_told(uncommitted)}, not committed: {self._told()}")
        of_replacements = [versions.get(one.job, 0) for one in operations if one.replaces]
        replaced = max((version for version in of_replacements if version <= (self._begun or 0)), default=0)
        old = [event for event in events if versions[operations[event // ROWS].job] < replaced]
        if old:
            raise UnexplainedError(f"the streaming query has read {_told(old)}, replaced before: {self._told()}")
        for key in range(len(KEYS)):
            order = [versions[operations[event // ROWS].job] for event in events if event % len(KEYS) == key]
            if order != sorted(order):
                raise UnexplainedError(f"rows of key {key} came in the order of versions {order}: {self._told()}")
        for batch in self._batches:
            keys = [key for part in batch for key in {event % len(KEYS) for event in part}]
            if len(set(keys)) != len(keys):
                raise UnexplainedError(f"a micro-batch has rows of one key in two parts: {batch}")
        missing = self._missing(set(events), operations[-1].seen)
        if missing:
            raise UnexplainedError(f"the streaming query has not read {_told(missing)}: {self._told()}")
        if self._limit is None and len(self._cluster.epochs) == 1:
            self._check_whole(operations)

    # How it runs

    def _restart(self, left: int) -> None:
        self._world.add(f"streaming {_RESTARTS - left}", lambda: self._live(left))

    def _live(self, left: int) -> None:
        try:
            with contextlib.suppress(PravegaError):
                self._run(patience=self._world.rng.randrange(1, 4))
        finally:
            if left and not (self._lost and self._fails):
                self._restart(left - 1)

    def _run(self, patience: int) -> None:
        """Read micro-batches until nothing new has come some times."""
        rng, world = self._world.rng, self._world
        source = StreamSource(self._cluster.client, [STREAM], self._options)
        self._done = max(0, self._done - rng.choice((0, 0, 1, 2)))
        begun = self._cluster.table.last_version
        start = SourceOffset.from_json(self._offsets[self._done - 1]) if self._done else source.initial_offset()
        while True:
            try:
                if self._done == len(self._offsets):
                    end = source.latest_offset(start)
                    if end == start:
                        if not patience:
                            return
                        patience -= 1
                        world.sleep(rng.choice((0.01, 0.1, 3.0)))
                        continue
                    if not self._offsets:
                        # From here on the checkpoint says what the first micro-batch is, whoever reads it.
                        self._begun = begun
                    self._offsets.append(end.to_json())
                    world.note(f"notes batch {self._done}: {end.to_json()}")
                end = SourceOffset.from_json(self._offsets[self._done])
                partitions = source.partitions(start, end)
            except DataLossError as error:
                self._note_loss(error)
                raise
            parts = [part for partition in partitions for part in partition.parts]
            read = self._cluster.read
            self._deliver(start, [read(part.segment_id, part.start, part.end) for part in parts])
            world.step("micro-batch")
            self._done += 1
            start = end

    def _deliver(self, start: SourceOffset, batch: list[list[int]]) -> None:
        self._world.note(f"reads batch {self._done}: {_told(event for part in batch for event in part)}")
        if self._done == 0 and (not self._batches or self._first != start):
            # Spark doesn't note where the first micro-batch begins: it is asked anew, and the head may have moved.
            self._first = start
            if self._batches and not _is_less(batch, self._batches[0]):
                raise UnexplainedError(f"the first micro-batch was read with {batch} instead of {self._batches[0]}")
            self._batches[:1] = [batch]
        elif self._done == len(self._batches):
            self._batches.append(batch)
        elif self._batches[self._done] != batch:
            before = self._batches[self._done]
            gone = {event for part in before for event in part} - {event for part in batch for event in part}
            if self._fails or gone & self._there() or not _is_less(batch, before):
                raise UnexplainedError(f"micro-batch {self._done} was read with {batch} instead of {before}")

    def _note_loss(self, error: DataLossError) -> None:
        self._lost = True
        self._world.note(f"is told {error!r}"[:300])
        if "isn't the one" in str(error):
            raise UnexplainedError(f"the stream was taken for another one: {error}")
        if not self._cluster.was_truncated:
            raise UnexplainedError(f"nothing was truncated, and yet events are gone: {error}")

    # What it may have read

    def _there(self) -> set[int]:
        """The events that weren't truncated."""
        return {event for one in self._cluster.segments.values() for event in one.between(one.start, one.end)}

    def _missing(self, events: set[int], content: frozenset[int]) -> list[int]:
        """What should have been read, and wasn't."""
        if self._fails and self._lost:
            return []
        if self._first is None:
            return [event for event in self._there() if event // ROWS in content]
        if not self._fails:
            # It may pass over what was truncated, and so was replaced.
            return sorted(event for event in self._there() if event // ROWS in content and event not in events)
        cluster, cut, missing = self._cluster, dict(self._first[STREAM].cut), []
        for segment_id in cluster.behind(cut):
            one: SegmentModel = cluster.segments.get(segment_id) or cluster.deleted[segment_id]
            missing += [event for event in one.between(cut.get(segment_id, 0), one.end) if event not in events]
        return sorted(missing)

    def _check_whole(self, operations: Sequence[Operation]) -> None:
        for batch in self._batches:
            found = [divmod(event, ROWS) for part in batch for event in part]
            for number in {number for number, _ in found} & operations[-1].seen:
                rows = {row for other, row in found if other == number}
                if rows != operations[number].rows:
                    raise UnexplainedError(f"a micro-batch has only rows {sorted(rows)} of statement {number}")

    def _told(self) -> str:
        return "; ".join(
            f"batch {number} has {_told(itertools.chain(*batch))}" for number, batch in enumerate(self._batches)
        )


def _is_less(batch: list[list[int]], before: list[list[int]]) -> bool:
    """Whether a micro-batch has nothing that wasn't there before."""
    return set(itertools.chain(*batch)) <= set(itertools.chain(*before))


def _told(events: object) -> str:
    return " ".join(f"{event // ROWS}.{event % ROWS}" for event in events) or "nothing"  # type: ignore[attr-defined]
