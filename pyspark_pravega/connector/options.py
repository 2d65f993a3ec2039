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

MODE = "mode"
SCHEMA_TYPE = "schema-type"

TABLE_READ_KEYS = frozenset({MODE}) | settings.KEYS
"""Options of a read of a catalog's table."""
TABLE_WRITE_KEYS = frozenset({ROUTING_KEY, TRANSACTION_TIMEOUT_MS}) | settings.KEYS
"""Options of a write to a catalog's table."""
READ_KEYS = frozenset({STREAM, FORMAT, SCHEMA_TYPE}) | TABLE_READ_KEYS
"""Options of a read without the catalog."""
WRITE_KEYS = frozenset({STREAM, FORMAT, SCHEMA_TYPE}) | TABLE_WRITE_KEYS
"""Options of a write without the catalog."""

DEFAULT_LEASE_MS = 600_000
"""Without the catalog nothing keeps the transactions of finished tasks alive but a long lease."""
KEPT_LEASE_MS = 60_000
"""With the catalog, whose process renews leases, a short one lets what a lost machine left behind end soon."""
MIN_LEASE_MS, MAX_LEASE_MS = 10_000, 600_000


@dataclass(frozen=True, kw_only=True)
class WriteOptions:
    """How to write."""

    routing_key: str | None = None
    """The column with the events' routing keys; the table's own when None."""
    transaction_timeout_ms: int = DEFAULT_LEASE_MS
    """The transactions' lease."""

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
        given = canonical(options, known, "write option")
        return cls(
            routing_key=given.get(ROUTING_KEY),
            transaction_timeout_ms=_milliseconds(given.get(TRANSACTION_TIMEOUT_MS), lease_ms),
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


def _milliseconds(text: str | None, default: int) -> int:
    if text is None:
        return default
    if not text.strip().isdecimal() or not MIN_LEASE_MS <= int(text) <= MAX_LEASE_MS:
        raise ConfigurationError(
            f'option "{TRANSACTION_TIMEOUT_MS}" must be between {MIN_LEASE_MS} and {MAX_LEASE_MS} milliseconds, '
            f'not "{text}"'
        )
    return int(text)
