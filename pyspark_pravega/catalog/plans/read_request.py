"""What a read asks of a table: its columns, its options, and which part of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict, final

from pyspark.sql.types import StructType

from pyspark_pravega.client import StreamCut
from pyspark_pravega.connector.bounds import VersionBounds, Word, parse_bound
from pyspark_pravega.connector.index import Part
from pyspark_pravega.connector.indexing import Unindexed
from pyspark_pravega.connector.log import offsets_of
from pyspark_pravega.connector.options import EventOptions, ReadOptions
from pyspark_pravega.connector.read import CHANGE_COLUMNS, ChangesRange, Extent, Moment
from pyspark_pravega.connector.stream import check_no_bounds
from pyspark_pravega.connector.table import TableDefinition
from pyspark_pravega.connector.write import with_dead_letters
from pyspark_pravega.errors import ConfigurationError
from pyspark_pravega.serde.lenient import PERMISSIVE

Position = Moment | ChangesRange | Extent | Unindexed
"""Which part of a table is read: its rows at a moment of the past, what versions have changed, what lies between the
bounds that a read's options name, or figures of events that no index tells of."""


class ChangesBounds(TypedDict, total=False):
    """The bounds of CHANGES, as the JVM says them. See `ChangesRange`."""

    from_version: str
    to_version: str | None
    from_timestamp: int
    to_timestamp: int | None
    from_inclusive: bool
    to_inclusive: bool


@final
class ChangesText(TypedDict):
    """A position of CHANGES, as the JVM keeps it."""

    changes: ChangesBounds


@final
class MomentText(TypedDict):
    """A position of AS OF, as the JVM keeps it. See `Moment`."""

    offsets: dict[str, int]
    name: str
    version: int | None


@final
class ExtentText(TypedDict):
    """Bounds of a read, as the JVM keeps them. See `Extent`."""

    start: str
    """A word, or a cut in the Java client's text, which names its stream."""
    end: str


class UnindexedParts(TypedDict):
    """What is read for an index, as the JVM keeps it. See `Unindexed`."""

    parts: list[list[int]]
    """Of each its segment, its begin and its end."""
    keys: list[list[str]]
    task_bytes: int


@final
class UnindexedText(TypedDict):
    """A position of what is read for an index."""

    unindexed: UnindexedParts


PositionText = ChangesText | MomentText | ExtentText | UnindexedText


def position_of(text: PositionText | None) -> Position | None:
    """A position that the JVM hands back.

    Args:
        text: as it keeps it; None for the table as it is.
    """
    if text is None:
        return None
    if "changes" in text:
        return ChangesRange(**text["changes"])
    if "unindexed" in text:
        wanted = text["unindexed"]
        return Unindexed(
            parts=tuple(Part(*part) for part in wanted["parts"]),
            keys=tuple(map(tuple, wanted["keys"])),
            task_bytes=wanted["task_bytes"],
        )
    if "start" in text:
        return Extent(start=_cut_or_word(text["start"]), end=_cut_or_word(text["end"]))
    return Moment(offsets=offsets_of(text["offsets"]), name=text["name"], version=text["version"])


def text_of_moment(moment: Moment) -> MomentText:
    """A position of AS OF, for the JVM to keep.

    Args:
        moment: where it is.
    """
    offsets = {str(segment_id): offset for segment_id, offset in moment.offsets.items()}
    return {"offsets": offsets, "name": moment.name, "version": moment.version}


def text_of_extent(extent: Extent) -> ExtentText:
    """The bounds of a read, for the JVM to keep.

    Args:
        extent: what they mean in the stream.
    """
    start, end = (bound.value if isinstance(bound, Word) else bound.to_text() for bound in (extent.start, extent.end))
    return {"start": start, "end": end}


def text_of_unindexed(wanted: Unindexed) -> UnindexedText:
    """What is read for an index, for the JVM to keep.

    Args:
        wanted: what that is.
    """
    parts, keys = [list(part) for part in wanted.parts], [list(key) for key in wanted.keys]
    return {"unindexed": {"parts": parts, "keys": keys, "task_bytes": wanted.task_bytes}}


def _cut_or_word(text: str) -> StreamCut | Word:
    bound = parse_bound("position", text)
    assert isinstance(bound, StreamCut | Word)
    return bound


def changes_of(definition: TableDefinition, options: ReadOptions, position: Position | None) -> ChangesRange | None:
    """Which versions' changes a read tells.

    Args:
        definition: what the stream is as a table.
        options: the read's.
        position: as the JVM hands it back: bounds that SQL's own words tell.

    Returns:
        None where it reads rows.

    Raises:
        ConfigurationError: options bound versions where none are told, or stream cuts where versions are.
    """
    if definition.is_changes:
        position = ChangesRange.within(options.versions)
    elif options.versions != VersionBounds():
        raise ConfigurationError(
            f"startingVersion and its like bound what `{definition.changes_name}` tells: read that, or begin and end a "
            f'read of the rows of stream "{definition.stream}" by startTimestamp, endTimestamp or stream cuts'
        )
    if not isinstance(position, ChangesRange):
        return None
    check_no_bounds(options)
    return position


def all_columns(definition: TableDefinition) -> StructType:
    """A table's columns with those of CHANGES, its own last: they are stronger than others of their names.

    Args:
        definition: what the stream is as a table.
    """
    return StructType([*CHANGE_COLUMNS, *definition.schema])


def with_read_options(
    definition: TableDefinition, columns: Sequence[str], events: EventOptions, *, streamed: bool = False
) -> TableDefinition:
    """A table as a read's options take it.

    Args:
        definition: what the stream is as a table.
        columns: the wanted columns.
        events: how the options take the stream's events.
        streamed: whether a streaming query reads it.

    Raises:
        ConfigurationError: the columns contradict the options, there are no dead letters where they say, or the
            table's own mode means nothing here.
    """
    if definition.mode_fault is not None and events.mode is None and events.bad_events is None:
        raise definition.mode_fault
    if events.mode is not None:
        definition = _in_mode(definition, events.mode, columns)
    return with_dead_letters(definition, events, streamed=streamed)


def _in_mode(definition: TableDefinition, mode: str, columns: Sequence[str]) -> TableDefinition:
    """A table as a read with the option `mode` takes it.

    Args:
        definition: what the stream is as a table.
        mode: one of `serde.lenient.MODES`.
        columns: the wanted columns.

    Raises:
        ConfigurationError: there is no such mode, or columns that can't be null would have to be.
    """
    definition_in_mode = definition.with_mode(mode)
    # Spark has taken the table's columns for what they were before it told the option.
    strict = [f.name for f in definition.schema if not f.nullable and f.name in columns]
    if strict and definition_in_mode.mode == PERMISSIVE:
        raise ConfigurationError(
            f"mode permissive puts nulls into the columns of events that can't be decoded, and {', '.join(strict)} of "
            f'stream "{definition.stream}" can\'t be null: make "mode" a property of the table, or read with '
            'spark.read.format("pravega")'
        )
    return definition_in_mode
