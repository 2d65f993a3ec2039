"""The options of a read or a write: their keys, their values, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark_pravega import settings
from pyspark_pravega.client import Stream
from pyspark_pravega.client.names import check_name
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

MODE = "mode"
SCHEMA_TYPE = "schema-type"

TABLE_READ_KEYS = frozenset({MODE}) | settings.KEYS
"""Options of a read of a catalog's table."""
TABLE_WRITE_KEYS = (
    frozenset({ROUTING_KEY, TRANSACTION_TIMEOUT_MS, WRITER_MODE, EVENT_TIME, CLUSTER_BY_KEY, QUERY, EPOCH})
    | settings.KEYS
)
"""Options of a write to a catalog's table."""
READ_KEYS = frozenset({STREAM, FORMAT, SCHEMA_TYPE}) | TABLE_READ_KEYS
"""Options of a read without the catalog."""
WRITE_KEYS = frozenset({STREAM, FORMAT, SCHEMA_TYPE}) | TABLE_WRITE_KEYS
"""Options of a write without the catalog."""

EXACTLY_ONCE, AT_LEAST_ONCE, BEST_EFFORT = "exactly-once", "at-least-once", "best-effort"
WRITER_MODES = (EXACTLY_ONCE, AT_LEAST_ONCE, BEST_EFFORT)

_SPARKS_OWN = frozenset({"checkpointlocation", "queryname"})

DEFAULT_LEASE_MS = 600_000
"""Without the catalog nothing keeps the transactions of finished tasks alive but a long lease."""
KEPT_LEASE_MS = 60_000
"""With the catalog, whose process renews leases, a short one lets what a lost machine left behind end soon."""
MIN_LEASE_MS, MAX_LEASE_MS = 10_000, 600_000


@dataclass(frozen=True, kw_only=True)
class WriteOptions:
    """How to write."""

    routing_key: str | None = None
    """How the events' routing keys are made (`connector.routing`); as the table says when None."""
    transaction_timeout_ms: int = DEFAULT_LEASE_MS
    """The transactions' lease."""
    writer_mode: str | None = None
    """One of `WRITER_MODES`; the table's own when None."""
    event_time: str | None = None
    """The column with the events' times; the table's own when None."""
    cluster_by_key: bool | None = None
    """Whether Spark is to bring the rows of a key together in one task; as the table says when None."""
    query: str | None = None
    """With `epoch`: what makes a write one that is done once."""
    epoch: int | None = None

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
            transaction_timeout_ms=_milliseconds(given.get(TRANSACTION_TIMEOUT_MS), lease_ms),
            writer_mode=None if WRITER_MODE not in given else writer_mode(given[WRITER_MODE]),
            event_time=given.get(EVENT_TIME),
            cluster_by_key=None if CLUSTER_BY_KEY not in given else flag(CLUSTER_BY_KEY, given[CLUSTER_BY_KEY]),
            query=given.get(QUERY),
            epoch=None if EPOCH not in given else _number(EPOCH, given[EPOCH]),
        )


def writes_own(options: Mapping[str, str]) -> dict[str, str]:
    """A write's options without those that are Spark's, as of a streaming query.

    Args:
        options: keys in any of their spellings.
    """
    return {key: value for key, value in options.items() if key.lower() not in _SPARKS_OWN}


def writer_mode(text: str) -> str:
    """A writer mode in its one spelling.

    Raises:
        ConfigurationError: there's no such mode.
    """
    found = text.strip().lower().replace("_", "-")
    if found not in WRITER_MODES:
        raise ConfigurationError(f'"{WRITER_MODE}" must be one of {", ".join(WRITER_MODES)}, not "{text}"')
    return found


def canonical(options: Mapping[str, str], known: frozenset[str], kind: str) -> dict[str, str]:
    """Options under the one spelling of their keys.

    Args:
        options: keys in any of their spellings.
        known: the keys there are.
        kind: what they are, for the message.

    Raises:
        ConfigurationError: a key is unknown; the message names the nearest right one.
    """
    found = {}
    for key, value in options.items():
        name = canonical_key(key)
        if name not in known:
            raise ConfigurationError(f'unknown {kind} "{key}"{did_you_mean(name, known)}')
        found[name] = value
    return found


def stream_of(options: Mapping[str, str], connection: Settings) -> Stream:
    """The stream that options name: `scope/stream`, or `stream` with a scope from elsewhere.

    Args:
        options: canonical options.
        connection: gives the scope.

    Raises:
        ConfigurationError: no stream, or no scope, is named.
        InvalidNameError: a name that Pravega can't hold.
    """
    name = options.get(STREAM, "").strip()
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


def flag(key: str, text: str) -> bool:
    """What `true` and `false` stand for.

    Args:
        key: whose value it is.
        text: the value.

    Raises:
        ConfigurationError: it is neither.
    """
    if text.strip().lower() not in ("true", "false"):
        raise ConfigurationError(f'"{key}" must be true or false, not "{text}"')
    return text.strip().lower() == "true"


def _number(key: str, text: str) -> int:
    if not text.strip().isdecimal():
        raise ConfigurationError(f'"{key}" must be a number from 0, not "{text}"')
    return int(text)


def _milliseconds(text: str | None, default: int) -> int:
    if text is None:
        return default
    if not text.strip().isdecimal() or not MIN_LEASE_MS <= int(text) <= MAX_LEASE_MS:
        raise ConfigurationError(
            f'option "{TRANSACTION_TIMEOUT_MS}" must be between {MIN_LEASE_MS} and {MAX_LEASE_MS} milliseconds, '
            f'not "{text}"'
        )
    return int(text)
