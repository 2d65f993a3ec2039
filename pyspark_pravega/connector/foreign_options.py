"""Options of other sources that Spark's users know: some are taken for their twins here, of others a message tells the
twin, for the value that was given.

Names are those of Spark's Kafka source and sink, of Delta Lake's, Iceberg's and of Spark's files.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass

from pyspark_pravega.connector.option_names import (
    END_CUT,
    END_TIME,
    EPOCH,
    MAX_EVENTS,
    MIN_EVENTS,
    QUERY,
    START_CUT,
    START_TIME,
    STREAM,
)

_NAMES = {
    "path": STREAM,
    "startingOffsets": START_CUT,
    "endingOffsets": END_CUT,
    "maxOffsetsPerTrigger": MAX_EVENTS,
    "minOffsetsPerTrigger": MIN_EVENTS,
    "txnAppId": QUERY,
    "txnVersion": EPOCH,
}
"""Options that mean the same as ours, as their users write them. `load("scope/stream")` gives `path`."""
_TWINS = {word.lower(): name for word, name in _NAMES.items()}
_WRITTEN = {word.lower(): word for word in _NAMES}
_CUTS = {"startingoffsets": (START_CUT, START_TIME), "endingoffsets": (END_CUT, END_TIME)}
"""Those that hold offsets: with which of ours says a cut, and which a time."""
_WORDS = {-2: "earliest", -1: "latest"}
"""Offsets by which Kafka's source means an end of a partition."""


@dataclass(frozen=True)
class _Advice:
    """What does the same as an option of others."""

    words: str | Callable[[str], str]
    """A part of a sentence; or one made from the option's value."""
    needs: str | None = None
    """An option that is known where the words mean something; elsewhere there is nothing to be said."""
    elsewhere: str = "leave it out"


def _of_reads(words: str | Callable[[str], str]) -> _Advice:
    return _Advice(words, needs=START_CUT)


def _of_writes(words: str) -> _Advice:
    return _Advice(words, needs=QUERY)


def _numbers(text: str) -> list[int]:
    """The numbers of Kafka's JSON, `{"topic": {"partition": number}}`, or one alone; of other texts none."""
    try:
        leaves = list(_leaves(json.loads(text)))
    except (ValueError, RecursionError):
        return []
    return [one for one in leaves if isinstance(one, int)] if all(isinstance(one, int) for one in leaves) else []


def _leaves(document: object) -> Iterator[object]:
    if isinstance(document, dict):
        for own in document.values():
            yield from _leaves(own)
    else:
        yield document


def _starts(text: str) -> str:
    return f'{START_TIME} = "{min(times)}"' if (times := _numbers(text)) else f"{START_TIME} says when reading begins"


def _ends(text: str) -> str:
    return f'{END_TIME} = "{max(times)}"' if (times := _numbers(text)) else f"{END_TIME} says when reading ends"


def _as_of(text: str) -> str:
    try:
        moment = dt.datetime.fromtimestamp(int(text) / 1000, dt.UTC).replace(tzinfo=None)
    except (ValueError, OverflowError, OSError):
        return _TRAVEL
    return f'timestampAsOf = "{moment.isoformat(timespec="milliseconds")}Z" reads a catalog\'s table as it was'


_TRAVEL = (
    "versionAsOf (a version of `t$commits`) and timestampAsOf read a catalog's table as it was, in batch, as in "
    'spark.read.option("versionAsOf", 1).table("pravega.namespace.table")'
)
_READ_STREAM = _Advice(
    'name the stream, as in load("scope/stream")', STREAM, "the table is named already: leave it out"
)
_WRITTEN_STREAM = _Advice(
    'name the stream, as in option("stream", "scope/stream")', STREAM, "the table is named already: leave it out"
)
_SEVERAL = _Advice(
    'name the streams, as in load("scope/one,scope/two")', STREAM, "the table is named already: leave it out"
)
_CHANGES = _of_reads("`t$changes` tells what versions have changed, deleted rows among them")
_NO_DELETES = _of_reads(
    "a streaming read of a table without a key has the rows that were added, and no others: leave it out. What becomes "
    "of rows of a table with a key, `t$changes` tells"
)
_VERSIONS = _of_reads(
    "startingVersion and endingVersion say which versions a catalog's `t$changes` tells, as in "
    'option("startingVersion", 1).table("pravega.namespace.`t$changes`")'
)
_CORRUPT = _of_reads("with mode permissive `_corrupt_event` and `_corrupt_record` hold what can't be decoded")
_SUBSCRIBER = _of_reads("subscriber is the name under which a streaming query tells Pravega how far it is")
_SERVERS = _Advice("the setting controller-uri says where Pravega is")
_REPLACES = _of_writes("INSERT OVERWRITE replaces all rows, and MERGE some of a table with a key")
_OUT = _Advice("leave it out")
_RETRIES = _Advice("the setting timeout says how long servers are asked: leave it out")
_TASKS = _of_reads("minPartitions says how many tasks read at least")
_COLUMNS = _Advice("a table's columns are those of its schema: leave it out")
_FILES_OF_LAKE = _Advice("a stream has no files: leave it out")

_KAFKA = {
    "subscribe": _READ_STREAM,
    "subscribepattern": _SEVERAL,
    "assign": _READ_STREAM,
    "topic": _WRITTEN_STREAM,
    "startingoffsetsbytimestamp": _of_reads(_starts),
    "endingoffsetsbytimestamp": _of_reads(_ends),
    "startingoffsetsbytimestampstrategy": _of_reads("a time behind the last event is the stream's tail: leave it out"),
    "groupidprefix": _SUBSCRIBER,
    "includeheaders": _Advice("events have no headers: leave it out"),
    "maxrecordsperpartition": _TASKS,
    "fetchoffset.numretries": _RETRIES,
    "fetchoffset.retryintervalms": _RETRIES,
    "kafkaconsumer.polltimeoutms": _RETRIES,
    "kafka.bootstrap.servers": _SERVERS,
    "kafka.group.id": _SUBSCRIBER,
    "kafka.isolation.level": _Advice("rows are read when they are committed, and not before: leave it out"),
}
_DELTA = {
    "ignoredeletes": _NO_DELETES,
    "ignorechanges": _NO_DELETES,
    "skipchangecommits": _NO_DELETES,
    "startingversion": _VERSIONS,
    "endingversion": _VERSIONS,
    "readchangefeed": _CHANGES,
    "readchangedata": _CHANGES,
    "maxfilespertrigger": _of_reads("maxEventsPerTrigger and maxBytesPerTrigger limit a micro-batch"),
    "witheventtimeorder": _of_reads("events come in the order of their segments: leave it out"),
    "schematrackinglocation": _of_reads("each event knows its schema: leave it out"),
    "overwriteschema": _of_writes("CREATE OR REPLACE TABLE ... AS SELECT gives a table other columns, and its rows"),
    "replacewhere": _REPLACES,
    "partitionoverwritemode": _REPLACES,
    "usermetadata": _of_writes("query and epoch name a write, and `t$commits` shows the name"),
}
_ICEBERG = {
    "stream-from-timestamp": _of_reads(_starts),
    "streaming-skip-delete-snapshots": _NO_DELETES,
    "streaming-skip-overwrite-snapshots": _NO_DELETES,
    "streaming-max-files-per-micro-batch": _of_reads("maxBytesPerTrigger limits a micro-batch"),
    "streaming-max-rows-per-micro-batch": _of_reads("maxEventsPerTrigger limits a micro-batch"),
    "snapshot-id": _of_reads(_TRAVEL),
    "as-of-timestamp": _of_reads(_as_of),
    "start-snapshot-id": _VERSIONS,
    "end-snapshot-id": _VERSIONS,
    "split-size": _TASKS,
    "write-format": _FILES_OF_LAKE,
    "target-file-size-bytes": _FILES_OF_LAKE,
    "fanout-enabled": _FILES_OF_LAKE,
    "check-nullability": _Advice("columns that are NOT NULL take no nulls: leave it out"),
}
_LAKES = {"versionasof": _of_reads(_TRAVEL), "timestampasof": _of_reads(_TRAVEL)}
_FILES = {
    "columnnameofcorruptrecord": _CORRUPT,
    "badrecordspath": _of_reads("badEvents names the table to which events go that can't be decoded"),
    "inferschema": _COLUMNS,
    "header": _COLUMNS,
}
_OWNERS = {
    "Kafka's": _KAFKA,
    "Delta Lake's": _DELTA,
    "Iceberg's": _ICEBERG,
    "that of Spark's files": _FILES,
    "for a table in a catalog": _LAKES,
}


def twin(key: str, known: Collection[str]) -> str | None:
    """Ours that means the same as an option of another source.

    Args:
        key: the option, in any case.
        known: those of ours that may be given.
    """
    name = _TWINS.get(_run_together(key))
    return name if name in known else None


def _run_together(key: str) -> str:
    """A key without the marks between its words: `starting-offsets` is `startingOffsets`, as with our own."""
    return "".join(mark for mark in key.strip().lower() if mark not in "-_.")


def written(key: str) -> str:
    """What a message calls a twin: as the user wrote it. Spark hands a data source its options in lower case, and so
    those in lower case are shown as they are usually written.

    Args:
        key: a key of which there is a `twin`.
    """
    word = key.strip()
    return _WRITTEN.get(word, word)


def refused(key: str, value: str) -> str | None:
    """What is wrong with the value of an option that is taken for its twin: offsets of Kafka's partitions.

    Args:
        key: the option, in any case.
        value: its value.

    Returns:
        The message of a refusal, which names the value that means the same; None where there is nothing to refuse.
    """
    cut, time = _CUTS.get(_run_together(key), (None, None))
    offsets = _numbers(value) if cut is not None else []
    if not offsets or not (_is_of_topics(value) or min(offsets) < 0):
        return None
    start = f'option "{written(key)}" ({value}) holds offsets of a Kafka topic\'s partitions'
    if len(set(offsets)) == 1 and (word := _WORDS.get(offsets[0])):
        return f'{start}: {offsets[0]} is "{word}" here, {cut} = "{word}"'
    return (
        f"{start}, which say nothing about a stream's segments: give earliest, latest, or the name or JSON of a stream "
        f"cut by {cut}, or a time by {time}"
    )


def _is_of_topics(text: str) -> bool:
    """Whether JSON has parts with names that are a topic's, and no stream's."""
    document = json.loads(text)
    return isinstance(document, dict) and any(isinstance(own, dict) and "/" not in key for key, own in document.items())


def told(key: str, value: str, known: Collection[str]) -> str | None:
    """Whose an option is, and what does the same here.

    Args:
        key: its name, in any case.
        value: its value.
        known: those of ours that may be given.

    Returns:
        The message of a refusal; None for a name that no other source has.
    """
    name = key.strip().lower()
    for owner, twins in _OWNERS.items():
        if name in twins:
            advice = twins[name]
            words = advice.words if isinstance(advice.words, str) else advice.words(value)
            if advice.needs is not None and advice.needs not in known:
                words = advice.elsewhere
            return f'option "{key}" is {owner}, and means nothing here: {words}'
    if name.startswith("kafka."):
        return f'option "{key}" is for Kafka\'s client, and means nothing here: leave it out'
    return None


def names() -> Iterable[str]:
    """All of these options, in lower case."""
    return [*_TWINS, *(name for twins in _OWNERS.values() for name in twins)]


def names_of_reads() -> Iterable[str]:
    """Those that no write takes."""
    return [name for name in names() if _TWINS.get(name) not in (STREAM, QUERY, EPOCH)]
