"""The options of a read or a write: their keys, their values, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pyspark_pravega import settings, values
from pyspark_pravega.client import Stream
from pyspark_pravega.client.names import check_name
from pyspark_pravega.connector.bounds import Bound, Time, Word, parse_bound, parse_time
from pyspark_pravega.errors import ConfigurationError, did_you_mean
from pyspark_pravega.settings import Settings, canonical_key

STREAM = "stream"
ROUTING_KEY = "routing-key"
TRANSACTION_TIMEOUT_MS = "transaction-timeout-ms"
FORMAT = "format"
WRITER_MODE = "writer-mode"
EVENT_TIME = "event-time"
CLUSTER_BY_KEY = "cluster-by-key"
QUERY, EPOCH = "query", "epoch"
ISOLATION_LEVEL = "isolation-level"
COMPACT_WHEN = "compact-when"
"""The property of a table with a key that lets its commits start a compaction: how many bytes of events must have come
since the last one."""
MERGE_SCHEMA = "merge-schema"
TRUNCATE_LATER = "truncate-with-next-write"
"""The property of a table whose TRUNCATE takes effect together with the next write."""

MODE = "mode"
BAD_EVENTS = "bad-events"
SCHEMA_TYPE = "schema-type"

START_CUT, END_CUT = "start-stream-cut", "end-stream-cut"
START_TIME, END_TIME = "start-timestamp", "end-timestamp"
MIN_PARTITIONS = "min-partitions"
FAIL_ON_DATA_LOSS = "fail-on-data-loss"
MAX_EVENTS, MAX_BYTES = "max-events-per-trigger", "max-bytes-per-trigger"
MIN_EVENTS, MAX_DELAY = "min-events-per-trigger", "max-trigger-delay"
SUBSCRIBER = "subscriber"
MOST_TASKS = "max-partitions"
"""How many tasks of a real-time query follow a stream at most."""

MAX_KEYS = "max-keys-in-memory"
"""How many keys of a table with a key a task holds in memory at a time."""

BOUND_KEYS = frozenset({START_CUT, END_CUT, START_TIME, END_TIME, MIN_PARTITIONS, FAIL_ON_DATA_LOSS, MAX_KEYS})
"""Options that say what of a stream is read, and how."""
TRIGGER_KEYS = frozenset({MAX_EVENTS, MAX_BYTES, MIN_EVENTS, MAX_DELAY, SUBSCRIBER, MOST_TASKS})
"""Options of streaming reads, without a meaning for others."""

METADATA = "metadata"
CREATE_SCOPE, CREATE_STREAM = "allow-create-scope", "allow-create-stream"
DEFAULT_SEGMENTS = "default-num-segments"
DEFAULT_FACTOR = "default-scale-factor"
DEFAULT_BYTES_RATE = "default-segment-target-rate-bytes-per-sec"
DEFAULT_EVENTS_RATE = "default-segment-target-rate-events-per-sec"
DEFAULT_RETENTION_MS = "default-retention-duration-milliseconds"
DEFAULT_RETENTION_BYTES = "default-retention-size-bytes"
CREATION_KEYS = frozenset(
    {
        *(CREATE_SCOPE, CREATE_STREAM, DEFAULT_SEGMENTS, DEFAULT_FACTOR, DEFAULT_BYTES_RATE, DEFAULT_EVENTS_RATE),
        *(DEFAULT_RETENTION_MS, DEFAULT_RETENTION_BYTES),
    }
)
"""Options of Pravega's own Spark connector about making a stream that isn't there."""
APPROX_BYTES = "approx-bytes-per-trigger"
OFFICIAL_READ_KEYS = CREATION_KEYS | {METADATA, APPROX_BYTES}
"""Options of Pravega's own Spark connector for reads, beyond those that are ours, too."""
ONCE = "exactly-once"
OFFICIAL_WRITE_KEYS = CREATION_KEYS | {ONCE, "read-after-write-consistency", "transaction-status-poll-interval-ms"}
"""The same for writes."""

TABLE_READ_KEYS = frozenset({MODE, BAD_EVENTS}) | BOUND_KEYS | TRIGGER_KEYS | settings.KEYS
"""Options of a read of a catalog's table."""
TABLE_WRITE_KEYS = (
    frozenset(
        {ROUTING_KEY, TRANSACTION_TIMEOUT_MS, WRITER_MODE, EVENT_TIME, CLUSTER_BY_KEY, ISOLATION_LEVEL, QUERY, EPOCH}
    )
    | settings.KEYS
)
"""Options of a write to a catalog's table, or without the catalog."""
CATALOG_WRITE_KEYS = TABLE_WRITE_KEYS | {MERGE_SCHEMA}
"""Options of a write to a catalog's table."""
READ_KEYS = frozenset({STREAM, FORMAT, SCHEMA_TYPE}) | TABLE_READ_KEYS | OFFICIAL_READ_KEYS
"""Options of a read without the catalog."""
WRITE_KEYS = frozenset({STREAM, FORMAT, SCHEMA_TYPE}) | TABLE_WRITE_KEYS
"""Options of a write without the catalog."""

EXACTLY_ONCE, AT_LEAST_ONCE, BEST_EFFORT = "exactly-once", "at-least-once", "best-effort"
WRITER_MODES = (EXACTLY_ONCE, AT_LEAST_ONCE, BEST_EFFORT)
SERIALIZABLE, SNAPSHOT = "serializable", "snapshot"
ISOLATION_LEVELS = (SERIALIZABLE, SNAPSHOT)

_SPARKS_OWN = frozenset({"checkpointlocation", "queryname", "asyncprogresstrackingenabled"})

_TIME_TRAVEL = frozenset({"versionasof", "timestampasof"})
"""Options of reads by which Spark itself travels in time; it hands them on."""

MAX_PARTITIONS = 100_000
"""More tasks than that a driver can't plan in its memory; borders between events would be looked for in hours."""
DEFAULT_MAX_DELAY_S = 900.0
DEFAULT_LEASE_MS = 600_000
"""Without the catalog nothing keeps the transactions of finished tasks alive but a long lease."""
KEPT_LEASE_MS = 60_000
"""With the catalog, whose process renews leases, a short one lets what a lost machine left behind end soon."""
MIN_LEASE_MS, MAX_LEASE_MS = 10_000, 600_000


@dataclass(frozen=True, kw_only=True)
class WriteOptions:
    """How to write."""

    routing_key: str | None = None
    """How the events' routing keys are made (`connector.write.routing`); as the table says when None."""
    transaction_timeout_ms: int = DEFAULT_LEASE_MS
    """The transactions' lease."""
    writer_mode: str | None = None
    """One of `WRITER_MODES`; the table's own when None."""
    event_time: str | None = None
    """The column with the events' times; the table's own when None."""
    cluster_by_key: bool | None = None
    """Whether Spark is to bring the rows of a key together in one task; as the table says when None."""
    isolation_level: str | None = None
    """One of `ISOLATION_LEVELS`; the table's own when None."""
    query: str | None = None
    """With `epoch`: what makes a write one that is done once."""
    epoch: int | None = None
    merge_schema: bool = False
    """Whether the rows' columns that the table doesn't have are added to it."""

    @classmethod
    def parse(
        cls,
        options: Mapping[str, str],
        *,
        known: frozenset[str] = WRITE_KEYS,
        lease_ms: int = DEFAULT_LEASE_MS,
    ) -> WriteOptions:
        """Read options.

        Args:
            options: keys in any of their spellings.
            known: the keys there are.
            lease_ms: the lease when none is given.

        Raises:
            ConfigurationError: a key is unknown, or a value malformed.
        """
        given = canonical(writes_own(options), known, "write option")
        if (QUERY in given) != (EPOCH in given):
            raise ConfigurationError('options "query" and "epoch" go together: who writes, and the number of the write')
        if given.get(WRITER_MODE, EXACTLY_ONCE) != EXACTLY_ONCE and QUERY in given:
            raise ConfigurationError(
                'options "query" and "epoch" are for writer mode exactly-once: others keep no record of writes'
            )
        return cls(
            routing_key=given.get(ROUTING_KEY),
            transaction_timeout_ms=lease_ms
            if TRANSACTION_TIMEOUT_MS not in given
            else values.number(
                TRANSACTION_TIMEOUT_MS,
                given[TRANSACTION_TIMEOUT_MS],
                least=MIN_LEASE_MS,
                most=MAX_LEASE_MS,
                unit="milliseconds",
            ),
            writer_mode=None if WRITER_MODE not in given else writer_mode(given[WRITER_MODE]),
            event_time=given.get(EVENT_TIME),
            cluster_by_key=None if CLUSTER_BY_KEY not in given else values.flag(CLUSTER_BY_KEY, given[CLUSTER_BY_KEY]),
            isolation_level=None if ISOLATION_LEVEL not in given else isolation_level(given[ISOLATION_LEVEL]),
            query=given.get(QUERY),
            epoch=None if EPOCH not in given else values.number(EPOCH, given[EPOCH]),
            merge_schema=MERGE_SCHEMA in given and values.flag(MERGE_SCHEMA, given[MERGE_SCHEMA]),
        )


def writes_own(options: Mapping[str, str]) -> dict[str, str]:
    """A write's options without those that are Spark's, as of a streaming query.

    Args:
        options: keys in any of their spellings.
    """
    return {key: value for key, value in options.items() if key.lower() not in _SPARKS_OWN}


def reads_own(options: Mapping[str, str]) -> dict[str, str]:
    """A batch read's options without those that Spark has done itself: `versionAsOf` and `timestampAsOf`.

    Args:
        options: keys in any of their spellings.
    """
    return {key: value for key, value in options.items() if key.lower() not in _TIME_TRAVEL}


def writer_mode(text: str) -> str:
    """A writer mode in its one spelling.

    Raises:
        ConfigurationError: there's no such mode.
    """
    mode = text.strip().lower().replace("_", "-")
    if mode not in WRITER_MODES:
        raise ConfigurationError(f'"{WRITER_MODE}" must be one of {", ".join(WRITER_MODES)}, not "{text}"')
    return mode


def isolation_level(text: str) -> str:
    """An isolation level in its one spelling.

    Raises:
        ConfigurationError: there's no such level.
    """
    level = text.strip().lower()
    if level not in ISOLATION_LEVELS:
        raise ConfigurationError(f'"{ISOLATION_LEVEL}" must be one of {", ".join(ISOLATION_LEVELS)}, not "{text}"')
    return level


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """What to read, and how."""

    start: Bound = Word.UNBOUNDED
    end: Bound = Word.UNBOUNDED
    min_partitions: int | None = None
    fail_on_data_loss: bool = True
    max_keys: int | None = None
    """How many keys a task holds in memory at a time."""
    max_events: int | None = None
    max_bytes: int | None = None
    min_events: int | None = None
    max_delay_s: float = DEFAULT_MAX_DELAY_S
    subscriber: str | None = None
    most_tasks: int | None = None
    """How many tasks of a real-time query follow a stream at most."""

    @property
    def has_bounds(self) -> bool:
        """Whether they say where to begin or end."""
        return (self.start, self.end) != (Word.UNBOUNDED, Word.UNBOUNDED)

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> ReadOptions:
        """Read options.

        Args:
            given: canonical options.

        Raises:
            ConfigurationError: a value is malformed, or two contradict each other.
        """
        for cut, time in ((START_CUT, START_TIME), (END_CUT, END_TIME)):
            if cut in given and time in given:
                raise ConfigurationError(f'options "{cut}" and "{time}" can\'t be given together')
        if MAX_DELAY in given and MIN_EVENTS not in given:
            raise ConfigurationError(
                f'option "{MAX_DELAY}" tells how long a micro-batch waits for "{MIN_EVENTS}" events: give that, too'
            )

        start, end = _bound(given, START_CUT, START_TIME), _bound(given, END_CUT, END_TIME)
        if isinstance(start, Time) and isinstance(end, Time) and end.milliseconds < start.milliseconds:
            raise ConfigurationError(
                f'option "{END_TIME}" ({given[END_TIME]}) lies before "{START_TIME}" ({given[START_TIME]}): '
                "nothing would be read"
            )

        def count(key: str) -> int | None:
            return None if key not in given else values.number(key, given[key], least=1)

        most, least = count(MAX_EVENTS), count(MIN_EVENTS)
        if most is not None and least is not None and least > most:
            raise ConfigurationError(f'option "{MIN_EVENTS}" ({least}) must not be above "{MAX_EVENTS}" ({most})')
        return cls(
            start=start,
            end=end,
            min_partitions=None
            if MIN_PARTITIONS not in given
            else values.number(MIN_PARTITIONS, given[MIN_PARTITIONS], least=1, most=MAX_PARTITIONS),
            fail_on_data_loss=values.flag(FAIL_ON_DATA_LOSS, given.get(FAIL_ON_DATA_LOSS, "true")),
            max_keys=count(MAX_KEYS),
            max_events=most,
            max_bytes=None if MAX_BYTES not in given else values.size(MAX_BYTES, given[MAX_BYTES]),
            min_events=least,
            max_delay_s=DEFAULT_MAX_DELAY_S if MAX_DELAY not in given else values.duration(MAX_DELAY, given[MAX_DELAY]),
            subscriber=given.get(SUBSCRIBER),
            most_tasks=count(MOST_TASKS),
        )


def canonical(options: Mapping[str, str], known: frozenset[str], kind: str) -> dict[str, str]:
    """Options under the one spelling of their keys.

    Args:
        options: keys in any of their spellings.
        known: the keys there are.
        kind: what they are, for the message.

    Raises:
        ConfigurationError: a key is unknown; the message names the nearest right one.
    """
    values = {}
    # Spark's own options are written failOnDataLoss, and reach a Python data source as failondataloss.
    run_together = {name.replace("-", ""): name for name in known}
    for key, value in options.items():
        name = canonical_key(key)
        name = name if name in known else run_together.get(name.replace("-", ""), name)
        if name not in known:
            raise ConfigurationError(f'unknown {kind} "{key}"{did_you_mean(name, known)}')
        values[name] = value
    return values


def spellings(keys: Iterable[str]) -> set[str]:
    """All spellings of keys in lower case, for those who can't ask `canonical`: `a-b`, `a_b`, `a.b` and `ab` (aB)."""
    return {key.replace("-", mark) for key in keys for mark in ("-", "_", ".", "")}


def stream_of(options: Mapping[str, str], connection: Settings) -> Stream:
    """The stream that options name: `scope/stream`, or `stream` with a scope from elsewhere.

    Args:
        options: canonical options.
        connection: gives the scope.

    Raises:
        ConfigurationError: no stream, or no scope, is named.
        InvalidNameError: a name that Pravega can't hold.
    """
    streams = streams_of(options, connection)
    if len(streams) > 1:
        raise ConfigurationError(
            f'option "stream" names {len(streams)} streams ({options[STREAM]}): only one can be written to'
        )
    return streams[0]


def streams_of(options: Mapping[str, str], connection: Settings) -> tuple[Stream, ...]:
    """The streams that options name, with commas between, each once; otherwise as `stream_of`."""
    names = [name.strip() for name in options.get(STREAM, "").split(",")]
    return tuple(dict.fromkeys(_stream(name, connection) for name in names))


def _stream(name: str, connection: Settings) -> Stream:
    if not name:
        raise ConfigurationError('option "stream" is missing: name the stream, as in .option("stream", "scope/stream")')
    scope, slash, stream = name.partition("/")
    if not slash:
        scope, stream = connection.scope or "", name
    if not scope:
        raise ConfigurationError(
            f'stream "{name}" is named without a scope: write "scope/{name}", or set option "scope" or PRAVEGA_SCOPE'
        )
    return Stream(check_name("scope", scope), check_name("stream", stream))


def _bound(given: Mapping[str, str], cut: str, time: str) -> Bound:
    if time in given:
        return parse_time(time, given[time])
    return parse_bound(cut, given[cut]) if cut in given else Word.UNBOUNDED
