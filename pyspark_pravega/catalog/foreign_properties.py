"""Table properties of other systems, which would do nothing here: each with what does the same.

Names are those of Kafka's topics (kafka.apache.org, "Topic Configs"), of Delta Lake's, Iceberg's and Hudi's tables.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark_pravega.values import duration_text, size_text

_RETENTION = "'retention' = '7 days', or '10 GB', says what a stream keeps"
_KEY = "'primary-key' = 'id' makes a table that keeps the last row of each key, and 'compact-when' = '1 GB' compacts it"
_SEGMENTS = "'segments' = '4', and 'scaling' = '1000 events/s', say how many segments a stream has"
_SIZE_OF_FILES = "'rollover-size' = '64 MiB' says how large the files of a segment are"
_SERVERS = "Pravega's servers settle that: leave it out"
KAFKA = {
    "retention.ms": _RETENTION,
    "retention.bytes": _RETENTION,
    "log.retention.minutes": _RETENTION,
    "log.retention.hours": _RETENTION,
    "cleanup.policy": f"{_RETENTION}; {_KEY}",
    "delete.retention.ms": _KEY,
    "min.compaction.lag.ms": _KEY,
    "max.compaction.lag.ms": _KEY,
    "min.cleanable.dirty.ratio": _KEY,
    "compression.type": "'compression' = 'snappy' compresses events",
    "num.partitions": _SEGMENTS,
    "partitions": _SEGMENTS,
    "segment.bytes": _SIZE_OF_FILES,
    "segment.ms": _SIZE_OF_FILES,
    "message.timestamp.type": "'event-time' = 'a_column' says when events happened",
    "max.message.bytes": "the event of a row may have 8 MiB: leave it out",
    "replication.factor": _SERVERS,
    "min.insync.replicas": _SERVERS,
    "unclean.leader.election.enable": _SERVERS,
    "flush.messages": _SERVERS,
    "flush.ms": _SERVERS,
    "preallocate": _SERVERS,
    "remote.storage.enable": _SERVERS,
    "local.retention.ms": _SERVERS,
    "local.retention.bytes": _SERVERS,
}
"""Those of Kafka's topics, and two of its brokers that are taken for such: what to do instead."""
_VERSIONS = "'history' = '30 days' says which versions a table remembers"
_CONFLICTS = "'isolation-level' says what conflicts: serializable, or snapshot"
_CHANGES = "changes are there without it: SELECT ... CHANGES FROM VERSION 1, or `t$changes`"
LAKES = {
    "delta.appendonly": "a table without 'primary-key' takes no UPDATE, DELETE or MERGE",
    "delta.enablechangedatafeed": _CHANGES,
    "delta.logretentionduration": _VERSIONS,
    "delta.deletedfileretentionduration": _VERSIONS,
    "delta.isolationlevel": _CONFLICTS,
    "history.expire.max-snapshot-age-ms": _VERSIONS,
    "history.expire.min-snapshots-to-keep": _VERSIONS,
    "write.format.default": "'format' says how rows are written: avro, json or protobuf",
    "write.distribution-mode": "'cluster-by-key' says whether rows of a routing key are written by one task",
    "write.update.isolation-level": _CONFLICTS,
    "write.delete.isolation-level": _CONFLICTS,
    "write.merge.isolation-level": _CONFLICTS,
    "commit.retry.num-retries": "the setting timeout says how long a call is tried again: leave it out",
}
"""Those of tables in a lake: what to do instead."""
_OWNERS = {
    "delta.": "Delta Lake's",
    "write.": "Iceberg's",
    "read.": "Iceberg's",
    "hoodie.": "Hudi's",
    "kafka.": "Kafka's",
}
"""By what names begin with: all of these are theirs."""


def _kept(text: Callable[[int], str], unit: int = 1) -> Callable[[str], str | None]:
    def words(value: str) -> str | None:
        if value == "-1":
            return "a stream keeps everything: leave it out"
        return f"'retention' = '{text(int(value) * unit)}'" if value.isdecimal() and int(value) else None

    return words


def _segments(value: str) -> str | None:
    return f"'segments' = '{value}'" if value.isdecimal() and int(value) else None


def _files(value: str) -> str | None:
    return f"'rollover-size' = '{size_text(int(value))}'" if value.isdecimal() and int(value) else None


_VALUED: dict[str, Callable[[str], str | None]] = {
    "retention.ms": _kept(duration_text),
    "log.retention.minutes": _kept(duration_text, 60_000),
    "log.retention.hours": _kept(duration_text, 3_600_000),
    "retention.bytes": _kept(size_text),
    "segment.bytes": _files,
    "partitions": _segments,
    "num.partitions": _segments,
    "cleanup.policy": {"delete": _RETENTION, "compact": _KEY}.get,
    "compression.type": {
        "none": "events aren't compressed: leave it out",
        "uncompressed": "events aren't compressed: leave it out",
        "gzip": "'compression' = 'gzip' compresses events",
    }.get,
}
"""What does the same as some values of Kafka's; None of others."""


def told(key: str, value: str) -> str | None:
    """Whose a property is, and what does the same here.

    Args:
        key: its name, in any case.
        value: its value.

    Returns:
        The message of a refusal; None for a name that no other system has.
    """
    name = key.lower()
    owner = next((owner for prefix, owner in _OWNERS.items() if name.startswith(prefix)), None)
    topics = name.removeprefix("kafka.")
    twin = KAFKA.get(topics)
    if twin is not None:
        owner = "Kafka's"
        twin = (_VALUED[topics](value.strip().lower()) if topics in _VALUED else None) or twin
    else:
        twin = LAKES.get(name)
        owner = owner or ("Iceberg's" if twin else None)
    if owner is None:
        return None
    return f'table property "{key}" is {owner}, and does nothing here: {twin or "leave it out"}'
