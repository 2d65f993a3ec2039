"""Options of other sources that Spark's users know: some are taken for their twins here, of others a message tells the
twin.

Names are those of Spark's Kafka source and sink, of Delta Lake's, Iceberg's and of Spark's files.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from pyspark_pravega.connector.option_names import END_CUT, EPOCH, MAX_EVENTS, MIN_EVENTS, QUERY, START_CUT, STREAM

_TWINS = {
    "path": STREAM,
    "startingoffsets": START_CUT,
    "endingoffsets": END_CUT,
    "maxoffsetspertrigger": MAX_EVENTS,
    "minoffsetspertrigger": MIN_EVENTS,
    "txnappid": QUERY,
    "txnversion": EPOCH,
}
"""Options that mean the same as ours. `load("scope/stream")` gives `path`."""

_STREAM = 'name the stream, as in load("scope/stream"), or the table, as in table("pravega.namespace.table")'
_TIMES = "startTimestamp and endTimestamp say from when to when events are read"
_CHANGES = "`t$changes` tells what versions have changed, deleted rows among them"
_NO_DELETES = (
    "a streaming read of a table without a key has the rows that were added, and no others: leave it out. What becomes "
    "of rows of a table with a key, `t$changes` tells"
)
_TRAVEL = "versionAsOf and timestampAsOf read a table as it was"
_VERSIONS = "startingVersion and endingVersion say which versions `t$changes` of a catalog's table tells"
_CORRUPT = "with mode permissive `_corrupt_event` and `_corrupt_record` hold what can't be decoded"
_SUBSCRIBER = "subscriber is the name under which a query tells Pravega how far it is"
_SERVERS = "the setting controller-uri says where Pravega is"
_READ_COMMITTED = "rows are read when they are committed, and not before: leave it out"
_REPLACES = "INSERT OVERWRITE replaces all rows, and MERGE some"
_RETRIES = "the setting timeout says how long servers are asked: leave it out"

_KAFKA = {
    "subscribe": _STREAM,
    "subscribepattern": _STREAM,
    "assign": _STREAM,
    "topic": _STREAM,
    "startingoffsetsbytimestamp": _TIMES,
    "endingoffsetsbytimestamp": _TIMES,
    "startingoffsetsbytimestampstrategy": _TIMES,
    "groupidprefix": _SUBSCRIBER,
    "includeheaders": "events have no headers: leave it out",
    "fetchoffset.numretries": _RETRIES,
    "fetchoffset.retryintervalms": _RETRIES,
    "kafkaconsumer.polltimeoutms": _RETRIES,
    "kafka.bootstrap.servers": _SERVERS,
    "kafka.group.id": _SUBSCRIBER,
    "kafka.isolation.level": _READ_COMMITTED,
}
_DELTA = {
    "ignoredeletes": _NO_DELETES,
    "ignorechanges": _NO_DELETES,
    "skipchangecommits": _NO_DELETES,
    "startingversion": _VERSIONS,
    "endingversion": _VERSIONS,
    "readchangefeed": _CHANGES,
    "readchangedata": _CHANGES,
    "maxfilespertrigger": "maxEventsPerTrigger and maxBytesPerTrigger limit a micro-batch",
    "witheventtimeorder": "events come in the order of their segments: leave it out",
    "schematrackinglocation": "each event knows its schema: leave it out",
    "overwriteschema": "CREATE OR REPLACE TABLE ... AS SELECT gives a table other columns, and its rows",
    "replacewhere": _REPLACES,
    "partitionoverwritemode": _REPLACES,
}
_ICEBERG = {
    "stream-from-timestamp": _TIMES,
    "streaming-skip-delete-snapshots": _NO_DELETES,
    "streaming-skip-overwrite-snapshots": _NO_DELETES,
    "streaming-max-files-per-micro-batch": "maxBytesPerTrigger limits a micro-batch",
    "streaming-max-rows-per-micro-batch": "maxEventsPerTrigger limits a micro-batch",
    "snapshot-id": _TRAVEL,
    "as-of-timestamp": _TRAVEL,
    "start-snapshot-id": _VERSIONS,
    "end-snapshot-id": _VERSIONS,
}
_FILES = {
    "columnnameofcorruptrecord": _CORRUPT,
    "badrecordspath": "bad-events names the table to which events go that can't be decoded",
    "inferschema": "a table's columns are those of its schema: leave it out",
    "header": "a table's columns are those of its schema: leave it out",
}
_OWNERS = {"Kafka's": _KAFKA, "Delta Lake's": _DELTA, "Iceberg's": _ICEBERG, "that of Spark's files": _FILES}


def twin(key: str, known: Collection[str]) -> str | None:
    """Ours that means the same as an option of another source.

    Args:
        key: the option, in any case.
        known: those of ours that may be given.
    """
    name = _TWINS.get(key.strip().lower())
    return name if name in known else None


def told(key: str) -> str | None:
    """Whose an option is, and what does the same here.

    Args:
        key: its name, in any case.

    Returns:
        The message of a refusal; None for a name that no other source has.
    """
    name = key.strip().lower()
    for owner, twins in _OWNERS.items():
        if name in twins:
            return f'option "{key}" is {owner}, and means nothing here: {twins[name]}'
    if name.startswith("kafka."):
        return f'option "{key}" is for Kafka\'s client, and means nothing here: leave it out'
    return None


def names() -> Iterable[str]:
    """All of these options, in lower case."""
    return [*_TWINS, *(name for twins in _OWNERS.values() for name in twins)]


def names_of_reads() -> Iterable[str]:
    """Those that no write takes."""
    return [name for name in names() if _TWINS.get(name) not in (STREAM, QUERY, EPOCH)]
