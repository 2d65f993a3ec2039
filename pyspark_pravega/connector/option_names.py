"""The options of reads and writes, each with its name and what it does. Their values are parsed in `options`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from pyspark_pravega import settings
from pyspark_pravega.declared import Declared

STREAM = "stream"
FORMAT = "format"
SCHEMA_TYPE = "schema-type"
MODE = "mode"
BAD_EVENTS = "bad-events"

START_CUT, END_CUT = "startStreamCut", "endStreamCut"
START_TIME, END_TIME = "startTimestamp", "endTimestamp"
FROM_VERSION, TO_VERSION = "startingVersion", "endingVersion"
FROM_TIME, TO_TIME = "startingTimestamp", "endingTimestamp"
FROM_INCLUSIVE, TO_INCLUSIVE = "startingBoundInclusive", "endingBoundInclusive"
MIN_PARTITIONS = "minPartitions"
FAIL_ON_DATA_LOSS = "failOnDataLoss"
MAX_KEYS = "maxKeysInMemory"
FILTER_SIZE = "runtimeFilterSize"
MAX_EVENTS, MAX_BYTES = "maxEventsPerTrigger", "maxBytesPerTrigger"
MIN_EVENTS, MAX_DELAY = "minEventsPerTrigger", "maxTriggerDelay"
SUBSCRIBER = "subscriber"
MOST_TASKS = "maxPartitions"

WRITER_MODE = "writer-mode"
ROUTING_KEY = "routing-key"
CLUSTER_BY_KEY = "cluster-by-key"
EVENT_TIME = "event-time"
ISOLATION_LEVEL = "isolation-level"
TRANSACTION_TIMEOUT_MS = "transactionTimeoutMs"
QUERY, EPOCH = "query", "epoch"
MERGE_SCHEMA = "mergeSchema"

METADATA = "metadata"
STREAMED = "pravega-streamed"
"""Not of users: with it the JVM asks, when a query is defined, whether its read can be streamed."""
CREATE_SCOPE, CREATE_STREAM = "allowCreateScope", "allowCreateStream"
DEFAULT_SEGMENTS = "defaultNumSegments"
DEFAULT_FACTOR = "defaultScaleFactor"
DEFAULT_BYTES_RATE = "defaultSegmentTargetRateBytesPerSec"
DEFAULT_EVENTS_RATE = "defaultSegmentTargetRateEventsPerSec"
DEFAULT_RETENTION_MS = "defaultRetentionDurationMilliseconds"
DEFAULT_RETENTION_BYTES = "defaultRetentionSizeBytes"
APPROX_BYTES = "approxBytesPerTrigger"
ONCE = "exactlyOnce"

EXACTLY_ONCE, AT_LEAST_ONCE, BEST_EFFORT = "exactly-once", "at-least-once", "best-effort"
WRITER_MODES = (EXACTLY_ONCE, AT_LEAST_ONCE, BEST_EFFORT)
SERIALIZABLE, SNAPSHOT = "serializable", "snapshot"
ISOLATION_LEVELS = (SERIALIZABLE, SNAPSHOT)

WHICH, EVENTS, BOUNDS, VERSIONS, TRIGGERS, WRITES, MAKING, READS_OF_OTHERS, WRITES_OF_OTHERS = (
    *("Which stream", "Events", "From where to where, and how", "Which versions of `t$changes`"),
    *("Micro-batches and real-time batches", "Writes"),
    *("Making a stream", "Reads", "Writes with that connector"),
)
_BOOLEAN = "`true`, `false`"
_CUT = "`earliest`, `latest`, a stream cut, or a cut's name"
_TIME = "ISO 8601, or ms since 1970"
_MADE = "`true`; of a read without any of these: `false`"


def _option(name: str, group: str, value: str, about: str, unset: str = "") -> Declared:
    return Declared(name=name, group=group, value=value, about=about, unset=unset)


OPTIONS = (
    _option(STREAM, WHICH, "`namespace.table`, `scope/stream`, or several", "which stream; so does `load(...)`"),
    _option(FORMAT, WHICH, "as the table property", "what the events must be in, without the catalog", "the table's"),
    _option(SCHEMA_TYPE, WHICH, "a type", "which of several types of events, without the catalog", "the table's"),
    _option(MODE, EVENTS, "as the table property", "what becomes of events that can't be decoded", "the table's"),
    _option(BAD_EVENTS, EVENTS, "`namespace.table`", "where such events go", "the table's; in batch nowhere"),
    _option(START_CUT, BOUNDS, _CUT, "where reading begins", "`earliest`"),
    _option(END_CUT, BOUNDS, f"{_CUT}, `unbounded`", "where reading ends", "`latest`; a streaming query has no end"),
    _option(START_TIME, BOUNDS, _TIME, "a time in place of a cut"),
    _option(END_TIME, BOUNDS, _TIME, "a time in place of a cut"),
    _option(MIN_PARTITIONS, BOUNDS, "a number", "how many tasks at least, without a key", "by segments and sizes"),
    _option(FAIL_ON_DATA_LOSS, BOUNDS, _BOOLEAN, "whether it is an error that events are gone", "`true`"),
    _option(MAX_KEYS, BOUNDS, "a number", "of a table with a key: keys in a task's memory", "by its memory"),
    _option(FILTER_SIZE, BOUNDS, "a size; `0`", "from what size on joins leave out files and segments", "`32m`"),
    _option(FROM_VERSION, VERSIONS, "a version", "the first one that is told", "the first one that is there"),
    _option(TO_VERSION, VERSIONS, "a version", "the last one that is told", "the last one; a streaming query goes on"),
    _option(FROM_TIME, VERSIONS, _TIME, "a time in place of a version"),
    _option(TO_TIME, VERSIONS, _TIME, "a time in place of a version"),
    _option(FROM_INCLUSIVE, VERSIONS, _BOOLEAN, "whether what lies at the first bound is told", "`true`"),
    _option(TO_INCLUSIVE, VERSIONS, _BOOLEAN, "whether what lies at the last bound is told", "`true`"),
    _option(MAX_EVENTS, TRIGGERS, "a number", "how many events a micro-batch may have", "no limit"),
    _option(MAX_BYTES, TRIGGERS, "a size, `64m`", "how many bytes it may have, with frames", "no limit"),
    _option(MIN_EVENTS, TRIGGERS, "a number", "for how many events it waits", "it doesn't wait"),
    _option(MAX_DELAY, TRIGGERS, "a time, `15m`", "but no longer than that", "`15m`"),
    _option(SUBSCRIBER, TRIGGERS, "a name", "under which the query tells Pravega how far it is", "none"),
    _option(MOST_TASKS, TRIGGERS, "a number", "how many tasks of a real-time query read", "half the cores"),
    _option(WRITER_MODE, WRITES, "as the table property", "what the write promises", "the table's"),
    _option(ROUTING_KEY, WRITES, "as the table property", "how events get their routing keys", "the table's"),
    _option(CLUSTER_BY_KEY, WRITES, _BOOLEAN, "whether a key's rows come together in one task", "the table's"),
    _option(EVENT_TIME, WRITES, "a column", "whose largest value the commit tells", "the table's"),
    _option(ISOLATION_LEVEL, WRITES, "as the table property", "what of rows that come meanwhile", "the table's"),
    _option(TRANSACTION_TIMEOUT_MS, WRITES, "10000 to 600000", "the transactions' lease", "270000; no catalog: 600000"),
    _option(QUERY, WRITES, "a text", "with `epoch`: a write that is done once"),
    _option(EPOCH, WRITES, "a number", "the number of that write"),
    _option(MERGE_SCHEMA, WRITES, _BOOLEAN, "whether a streaming query adds its rows' columns to the table", "`false`"),
    _option(METADATA, READS_OF_OTHERS, "`Streams`, `StreamInfo`, ...", "tells of streams in place of their events"),
    _option(APPROX_BYTES, READS_OF_OTHERS, "a number", f"as `{MAX_BYTES}`"),
    _option(CREATE_SCOPE, MAKING, _BOOLEAN, "whether the scope is made", _MADE),
    _option(CREATE_STREAM, MAKING, _BOOLEAN, "whether the stream is made", _MADE),
    _option(DEFAULT_SEGMENTS, MAKING, "a number", "its segments", "1"),
    _option(DEFAULT_FACTOR, MAKING, "a number", "into how many a busy segment splits"),
    _option(DEFAULT_BYTES_RATE, MAKING, "a number", "the rate that one segment should take"),
    _option(DEFAULT_EVENTS_RATE, MAKING, "a number", "the same in events"),
    _option(DEFAULT_RETENTION_MS, MAKING, "a number", "for how long events are kept", "for ever"),
    _option(DEFAULT_RETENTION_BYTES, MAKING, "a number", "how many bytes are kept", "all"),
    _option(ONCE, WRITES_OF_OTHERS, _BOOLEAN, f"`{EXACTLY_ONCE}` or `{AT_LEAST_ONCE}`"),
    _option("readAfterWriteConsistency", WRITES_OF_OTHERS, _BOOLEAN, "nothing: it is so in any case"),
    _option("transactionStatusPollIntervalMs", WRITES_OF_OTHERS, "a number", "nothing: nobody has to ask"),
)
"""All of them but the connection settings. The last three groups are those of Pravega's own Spark connector."""

_SPARKS_OWN = frozenset({"checkpointlocation", "queryname", "asyncprogresstrackingenabled"})

_TIME_TRAVEL = frozenset({"versionasof", "timestampasof"})
"""Options of reads by which Spark itself travels in time; it hands them on."""


def named(*groups: str) -> frozenset[str]:
    """The names of the options of some groups.

    Args:
        groups: which ones.
    """
    return frozenset(option.name for option in OPTIONS if option.group in groups)


BOUND_KEYS = named(BOUNDS)
"""Options that say what of a stream is read, and how."""
VERSION_KEYS = named(VERSIONS)
"""Options that say which versions are told."""
TRIGGER_KEYS = named(TRIGGERS)
"""Options of streaming reads, without a meaning for others."""
MAKING_KEYS = named(MAKING)
"""Options about a stream that isn't there."""
OFFICIAL_READ_KEYS = named(MAKING, READS_OF_OTHERS)
"""Options of Pravega's own Spark connector for reads, beyond those that are ours, too."""
OFFICIAL_WRITE_KEYS = named(MAKING, WRITES_OF_OTHERS)
"""The same for writes."""
TABLE_READ_KEYS = named(EVENTS, BOUNDS, VERSIONS, TRIGGERS) | settings.KEYS
"""Options of a read of a catalog's table."""
CATALOG_WRITE_KEYS = named(WRITES) | settings.KEYS
"""Options of a write to a catalog's table."""
TABLE_WRITE_KEYS = CATALOG_WRITE_KEYS - {MERGE_SCHEMA}
"""Options of a write to a catalog's table, or without the catalog."""
READ_KEYS = named(WHICH, EVENTS, BOUNDS, TRIGGERS) | {FROM_TIME, TO_TIME} | settings.KEYS | OFFICIAL_READ_KEYS
"""Options of a read without the catalog."""
WRITE_KEYS = named(WHICH) | TABLE_WRITE_KEYS
"""Options of a write without the catalog."""


def shown(name: str) -> str:
    """An option's name in messages and pages: in camel case, also of one that is a table property, too.

    Args:
        name: as of `OPTIONS`, or a connection setting, whose name stays.
    """
    if name in settings.KEYS:
        return name
    first, *words = name.split("-")
    return first + "".join(map(str.title, words))


class Given(dict[str, str]):
    """Options under the names of `OPTIONS`, which know by which other words the user gave some of them."""

    def __init__(self, options: Mapping[str, str], words: Mapping[str, str] | None = None) -> None:
        """Hold options.

        Args:
            options: by their names here.
            words: of those that were given by another one's name: that name, as it was written.
        """
        super().__init__(options)
        self.words = dict(words or {})


def word_of(options: Mapping[str, str], name: str) -> str:
    """What a message calls an option: by the word that the user wrote, `startingOffsets` for `startStreamCut`.

    Args:
        options: those that were given.
        name: as of `OPTIONS`.
    """
    return words_of(options).get(name, shown(name))


def words_of(options: Mapping[str, str]) -> dict[str, str]:
    """By which other words the user gave options, see `Given`.

    Args:
        options: those that were given.
    """
    return options.words if isinstance(options, Given) else {}


def dashed(name: str) -> str:
    """A name in lower case, with dashes between its words.

    Args:
        name: in camel case, or so already.
    """
    return re.sub("(?<=[a-z])(?=[A-Z])", "-", name).lower()


def spellings(keys: Iterable[str]) -> set[str]:
    """All spellings of keys in lower case, for those who can't ask `options.canonical`: `a-b`, `a_b`, `a.b` and `ab`.

    Args:
        keys: in their one spelling.
    """
    return {dashed(key).replace("-", mark) for key in keys for mark in ("-", "_", ".", "")}


def writes_own(options: Mapping[str, str]) -> Given:
    """A write's options without those that are Spark's, as of a streaming query.

    Args:
        options: keys in any of their spellings.
    """
    own = {key: value for key, value in options.items() if key.lower() not in _SPARKS_OWN}
    return Given(own, words_of(options))


def reads_own(options: Mapping[str, str]) -> dict[str, str]:
    """A batch read's options without those that Spark has done itself: `versionAsOf` and `timestampAsOf`.

    Args:
        options: keys in any of their spellings.
    """
    return {key: value for key, value in options.items() if key.lower() not in _TIME_TRAVEL}
