"""The options of a read or a write: their values, and what is wrong with them. What there are is in `option_names`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

from pyspark_pravega import values
from pyspark_pravega.client import Stream
from pyspark_pravega.client.names import check_name
from pyspark_pravega.connector import foreign_options
from pyspark_pravega.connector.bounds import Bound, Time, VersionBounds, Word, bound_of, parse_time
from pyspark_pravega.connector.option_names import (
    BAD_EVENTS,
    CLUSTER_BY_KEY,
    END_CUT,
    END_TIME,
    EPOCH,
    EVENT_TIME,
    EXACTLY_ONCE,
    FAIL_ON_DATA_LOSS,
    FILTER_SIZE,
    FORMAT,
    FROM_INCLUSIVE,
    FROM_TIME,
    FROM_VERSION,
    ISOLATION_LEVEL,
    ISOLATION_LEVELS,
    MAX_BYTES,
    MAX_DELAY,
    MAX_EVENTS,
    MAX_KEYS,
    MERGE_SCHEMA,
    MIN_EVENTS,
    MIN_PARTITIONS,
    MODE,
    MOST_TASKS,
    QUERY,
    ROUTING_KEY,
    SCHEMA_TYPE,
    START_CUT,
    START_TIME,
    STREAM,
    SUBSCRIBER,
    TABLE_READ_KEYS,
    TO_INCLUSIVE,
    TO_TIME,
    TO_VERSION,
    TRANSACTION_TIMEOUT_MS,
    WRITE_KEYS,
    WRITER_MODE,
    WRITER_MODES,
    Given,
    shown,
    word_of,
    words_of,
    writes_own,
)
from pyspark_pravega.connector.table_names import stream_of_table, to_pravega
from pyspark_pravega.declared import name_among
from pyspark_pravega.errors import ConfigurationError, InvalidNameError, UnsupportedOperationError, did_you_mean
from pyspark_pravega.serde.lenient import DROP_MALFORMED, FAIL_FAST, MODES
from pyspark_pravega.settings import Settings, canonical_key

_PREFIX = "stream:"
_ALL_VERSIONS = VersionBounds()
MAX_PARTITIONS = 100_000
"""More tasks than that a driver can't plan in its memory; borders between events would be looked for in hours."""
DEFAULT_MAX_DELAY_S = 900.0
DEFAULT_FILTER_SIZE = 32 << 20
DEFAULT_LEASE_MS = 600_000
"""Without the catalog nothing keeps the transactions of finished tasks alive but a long lease."""
MIN_LEASE_MS, MAX_LEASE_MS = 10_000, 600_000
_KEPT_LEASE_MS = 60_000


def kept_lease_ms(timeout: float) -> int:
    """The lease where somebody renews it, each third of it: short, as what a lost machine has left behind is to end
    soon, but longer than servers are waited for, or an outage that a write survives would end its transactions.

    Args:
        timeout: how long servers are waited for, in seconds.

    Returns:
        Milliseconds.
    """
    return min(max(_KEPT_LEASE_MS, round(1500 * timeout)), MAX_LEASE_MS)


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
        word = partial(word_of, given)
        both = f'options "{word(QUERY)}" and "{word(EPOCH)}"'
        if (QUERY in given) != (EPOCH in given):
            raise ConfigurationError(f"{both} go together: who writes, and the number of the write")
        mode = None if WRITER_MODE not in given else writer_mode(word(WRITER_MODE), given[WRITER_MODE])
        if mode not in (None, EXACTLY_ONCE) and QUERY in given:
            raise ConfigurationError(f"{both} are for writer mode exactly-once: others keep no record of writes")

        def flag(key: str) -> bool | None:
            return None if key not in given else values.flag(word(key), given[key])

        return cls(
            routing_key=given.get(ROUTING_KEY),
            transaction_timeout_ms=lease_ms
            if TRANSACTION_TIMEOUT_MS not in given
            else values.number(
                word(TRANSACTION_TIMEOUT_MS),
                given[TRANSACTION_TIMEOUT_MS],
                least=MIN_LEASE_MS,
                most=MAX_LEASE_MS,
                unit="milliseconds",
            ),
            writer_mode=mode,
            event_time=given.get(EVENT_TIME),
            cluster_by_key=flag(CLUSTER_BY_KEY),
            isolation_level=None
            if ISOLATION_LEVEL not in given
            else isolation_level(word(ISOLATION_LEVEL), given[ISOLATION_LEVEL]),
            query=given.get(QUERY),
            epoch=None if EPOCH not in given else values.number(word(EPOCH), given[EPOCH]),
            merge_schema=bool(flag(MERGE_SCHEMA)),
        )


def writer_mode(key: str, text: str) -> str:
    """A writer mode in its one spelling.

    Args:
        key: whose value it is, for the message.
        text: the value.

    Raises:
        ConfigurationError: there's no such mode.
    """
    return _word(key, text, WRITER_MODES, text.strip().lower().replace("_", "-"))


def isolation_level(key: str, text: str) -> str:
    """An isolation level in its one spelling; otherwise as `writer_mode`."""
    return _word(key, text, ISOLATION_LEVELS, text.strip().lower())


def parse_mode(key: str, text: str) -> str:
    """What becomes of events that can't be decoded, in its one spelling, or in Spark's (FAILFAST); otherwise as
    `writer_mode`."""
    mode = text.strip().lower().replace("_", "-")
    return _word(key, text, MODES, {"failfast": FAIL_FAST, "dropmalformed": DROP_MALFORMED}.get(mode, mode))


def _word(key: str, text: str, known: Sequence[str], word: str) -> str:
    if word not in known:
        raise ConfigurationError(f'"{key}" must be one of {", ".join(known)}, not "{text}"')
    return word


def parse_bad_events(key: str, text: str) -> Stream:
    """Where bad events go.

    Args:
        key: whose value it is, for the message.
        text: the table, see `stream_of_table`; with or without `stream:` before it.

    Raises:
        InvalidNameError: it names no table, or Pravega can't hold the name.
    """
    with _told_with(key, text):
        return stream_of_table(text.strip().removeprefix(_PREFIX))


def parse_subscriber(key: str, text: str) -> str:
    """A subscriber's name.

    Args:
        key: whose value it is, for the message.
        text: the name.

    Raises:
        InvalidNameError: Pravega can't hold it.
    """
    with _told_with(key, text):
        return check_name("reader group", text)


@contextmanager
def _told_with(key: str, text: str) -> Iterator[None]:
    try:
        yield
    except InvalidNameError as error:
        raise InvalidNameError(f'"{key}" ({text[:100]}): {error}') from None


@dataclass(frozen=True, kw_only=True)
class EventOptions:
    """How the events of a stream are taken: stronger than the table's properties of these names."""

    format: str | None = None
    """A custom format, `package.module:Class`."""
    schema_type: str | None = None
    """Which of several types of events."""
    mode: str | None = None
    """One of `serde.lenient.MODES`."""
    bad_events: Stream | None = None
    """Where those go that can't be decoded."""

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> EventOptions:
        """Read options.

        Args:
            given: canonical options; those that don't say how events are taken are passed over.

        Raises:
            ConfigurationError: a value is malformed, or two contradict each other.
        """
        word = partial(word_of, given)
        mode = None if MODE not in given else parse_mode(word(MODE), given[MODE])
        bad_events = None if BAD_EVENTS not in given else parse_bad_events(word(BAD_EVENTS), given[BAD_EVENTS])
        if bad_events is not None and mode not in (None, DROP_MALFORMED):
            raise ConfigurationError(
                f'options "{word(BAD_EVENTS)}" and "{word(MODE)}" = "{given[MODE]}" contradict each other: bad events '
                f'either go to "{bad_events}" or become what the mode says; leave one of them out'
            )
        return cls(format=given.get(FORMAT), schema_type=given.get(SCHEMA_TYPE), mode=mode, bad_events=bad_events)


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """What to read, and how."""

    events: EventOptions = EventOptions()
    start: Bound = Word.UNBOUNDED
    end: Bound = Word.UNBOUNDED
    versions: VersionBounds = _ALL_VERSIONS
    """Of `t$changes` only."""
    min_partitions: int | None = None
    fail_on_data_loss: bool = True
    max_keys: int | None = None
    """How many keys a task holds in memory at a time."""
    filter_size: int = DEFAULT_FILTER_SIZE
    """How many bytes a read has at least before a join's values leave out what of them can't match."""
    max_events: int | None = None
    max_bytes: int | None = None
    min_events: int | None = None
    max_delay_s: float = DEFAULT_MAX_DELAY_S
    subscriber: str | None = None
    most_tasks: int | None = None
    """How many tasks of a real-time query follow a stream at most."""
    words: Mapping[str, str] = field(default_factory=dict, compare=False)
    """What the user called options, see `Given`."""

    def word(self, name: str) -> str:
        """What a message calls an option, see `word_of`."""
        return word_of(Given({}, self.words), name)

    @property
    def has_bounds(self) -> bool:
        """Whether they say where to begin or end."""
        return (self.start, self.end) != (Word.UNBOUNDED, Word.UNBOUNDED)

    @classmethod
    def of_table(cls, options: Mapping[str, str], *, versions: bool = False) -> ReadOptions:
        """The options of a read of a catalog's table.

        Args:
            options: with keys in any of their spellings.
            versions: whether it tells what versions have changed: then times bound these, else the rows.

        Raises:
            ConfigurationError: as of `parse`.
        """
        return cls.parse(_with_times_of(canonical(options, TABLE_READ_KEYS, "read option"), versions=versions))

    @classmethod
    def of_streams(cls, given: Mapping[str, str]) -> ReadOptions:
        """The options of a read without the catalog, which are canonical; errors as of `parse`."""
        return cls.parse(_with_times_of(given, versions=False))

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> ReadOptions:
        """Read options.

        Args:
            given: canonical options.

        Raises:
            ConfigurationError: a value is malformed, or two contradict each other.
        """
        word = partial(word_of, given)
        for bound, time in (
            *((START_CUT, START_TIME), (END_CUT, END_TIME)),
            *((FROM_VERSION, FROM_TIME), (TO_VERSION, TO_TIME)),
            *((FROM_VERSION, TO_TIME), (FROM_TIME, TO_VERSION)),
        ):
            if bound in given and time in given:
                raise ConfigurationError(f'options "{word(bound)}" and "{word(time)}" can\'t be given together')
        if MAX_DELAY in given and MIN_EVENTS not in given:
            raise ConfigurationError(
                f'option "{word(MAX_DELAY)}" tells how long a micro-batch waits for "{MIN_EVENTS}" events: give that, '
                "too"
            )

        start, end = bound_of(given, START_CUT, START_TIME), bound_of(given, END_CUT, END_TIME)
        if isinstance(start, Time) and isinstance(end, Time) and end.milliseconds < start.milliseconds:
            raise ConfigurationError(
                f'option "{word(END_TIME)}" ({given[END_TIME]}) lies before "{word(START_TIME)}" '
                f"({given[START_TIME]}): nothing would be read"
            )

        def count(key: str, most: int = values.MOST) -> int | None:
            return None if key not in given else values.number(word(key), given[key], least=1, most=most)

        most, least = count(MAX_EVENTS), count(MIN_EVENTS)
        if most is not None and least is not None and least > most:
            raise ConfigurationError(
                f'option "{word(MIN_EVENTS)}" ({least}) must not be above "{word(MAX_EVENTS)}" ({most})'
            )
        return cls(
            start=start,
            end=end,
            versions=_versions(given),
            min_partitions=count(MIN_PARTITIONS, MAX_PARTITIONS),
            fail_on_data_loss=values.flag(word(FAIL_ON_DATA_LOSS), given.get(FAIL_ON_DATA_LOSS, "true")),
            max_keys=count(MAX_KEYS),
            filter_size=_filter_size(word(FILTER_SIZE), given.get(FILTER_SIZE)),
            max_events=most,
            max_bytes=None if MAX_BYTES not in given else values.size(word(MAX_BYTES), given[MAX_BYTES]),
            min_events=least,
            max_delay_s=DEFAULT_MAX_DELAY_S
            if MAX_DELAY not in given
            else values.duration(word(MAX_DELAY), given[MAX_DELAY]),
            subscriber=None if SUBSCRIBER not in given else parse_subscriber(word(SUBSCRIBER), given[SUBSCRIBER]),
            most_tasks=count(MOST_TASKS),
            events=EventOptions.parse(given),
            words=words_of(given),
        )


def _filter_size(word: str, text: str | None) -> int:
    if text is None:
        return DEFAULT_FILTER_SIZE
    return 0 if text.strip() == "0" else values.size(word, text)


def _with_times_of(given: Mapping[str, str], *, versions: bool) -> Given:
    """Options with times under the names that mean something in a read: `startTimestamp` is `startingTimestamp` where
    versions are told, and the other way round where rows are read."""
    options = Given(given, words_of(given))
    for of_rows, of_versions in ((START_TIME, FROM_TIME), (END_TIME, TO_TIME)):
        other, meant = (of_rows, of_versions) if versions else (of_versions, of_rows)
        if other not in options:
            continue
        text = options.pop(other)
        if meant not in options:
            options.words[meant] = word_of(given, other)
        if options.setdefault(meant, text) != text:
            raise ConfigurationError(f'options "{other}" and "{meant}" mean the same here: leave one of them out')
    return options


def _versions(given: Mapping[str, str]) -> VersionBounds:
    def microseconds(key: str) -> int | None:
        return None if key not in given else parse_time(word_of(given, key), given[key]).milliseconds * 1000

    return VersionBounds(
        from_version=given.get(FROM_VERSION),
        to_version=given.get(TO_VERSION),
        from_timestamp=microseconds(FROM_TIME),
        to_timestamp=microseconds(TO_TIME),
        from_inclusive=values.flag(FROM_INCLUSIVE, given.get(FROM_INCLUSIVE, "true")),
        to_inclusive=values.flag(TO_INCLUSIVE, given.get(TO_INCLUSIVE, "true")),
    )


def canonical(options: Mapping[str, str], known: frozenset[str], kind: str) -> Given:
    """Options under the one spelling of their keys.

    Args:
        options: keys in any of their spellings.
        known: the keys there are.
        kind: what they are, for the message.

    Raises:
        ConfigurationError: a key is unknown, and the message names the nearest right one; or two spellings of one have
            different values.
    """
    given = Given({}, words_of(options))
    for key, value in options.items():
        # Spark's own options are written failOnDataLoss, and reach a Python data source as failondataloss.
        name = name_among(canonical_key(key), known)
        word = shown(name)
        if name not in known:
            if twin := foreign_options.twin(key, known):
                name, word = twin, foreign_options.written(key)
            if why := foreign_options.refused(key, value):
                raise ConfigurationError(why)
        if name not in known:
            why = foreign_options.told(key, value, known)
            raise ConfigurationError(why or f'unknown {kind} "{key}"{did_you_mean(name, map(shown, known))}')
        # Which one comes last is chance: they come from a hash map.
        if given.setdefault(name, value) != value:
            words = sorted({word_of(given, name), word})
            raise ConfigurationError(
                f'{kind}s "{words[0]}" and "{words[1]}" mean the same, and have different values: leave one out'
                if len(words) > 1
                else f'{kind} "{word}" is given in two spellings, with different values: leave one out'
            )
        if word != shown(name):
            given.words[name] = word
    return given


def stream_of(options: Mapping[str, str], connection: Settings) -> Stream:
    """The stream that options name, see `stream_of_table`; a scope that is missing comes from elsewhere.

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
            f'option "{word_of(options, STREAM)}" names {len(streams)} streams ({options[STREAM]}): only one can be '
            "written to"
        )
    return streams[0]


def streams_of(options: Mapping[str, str], connection: Settings) -> tuple[Stream, ...]:
    """The streams that options name, with commas between, each once; otherwise as `stream_of`."""
    names = [name.strip() for name in options.get(STREAM, "").split(",")]
    return tuple(dict.fromkeys(_stream(name, options.get("scope"), connection) for name in names))


def _stream(name: str, scope: str | None, connection: Settings) -> Stream:
    if not name:
        raise ConfigurationError('option "stream" is missing: name the stream, as in .option("stream", "scope/stream")')
    if "$" in name:
        of, _, table = name.replace("/", ".").rpartition(".")
        full = ".".join(part for part in (of or scope or connection.scope, f"`{table}`") if part)
        raise UnsupportedOperationError(
            f'"{name}" tells of a stream, and has a name in catalogs only: read it as a table of one, such as '
            f"pravega.{full}"
        )
    if scope is not None and "/" not in name:
        # As Pravega's own connector has it: a dot belongs to the stream's name.
        return Stream(to_pravega("scope", scope), to_pravega("stream", name))
    if connection.scope is None and (name.startswith("/") or not {".", "/"} & set(name)):
        raise ConfigurationError(
            f'stream "{name}" is named without a scope: write "scope/{name.lstrip("/")}", or set option "scope" or '
            "PRAVEGA_SCOPE"
        )
    return stream_of_table(name, scope=connection.scope)
