"""How a stream's commit log is opened, made and deleted.

A DROP seals the stream, deletes its log, and deletes the stream. Who makes a log looks afterwards whether the stream
still takes events. If not, a DROP may have passed by, and the log would keep the next table of that name from being
made; so its maker marks it as left over. It doesn't delete it: where a key-value table is created and deleted at one
time, or deleted by two, the controller of 0.13 may give no answer for 10 s, or none ever (docs/pravega-facts.md).
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from pyspark_pravega.client import Client, KeyValueTable, Stream
from pyspark_pravega.connector.log.entry_keys import KEY_BYTES, STATE, is_ledger_name, ledger_name
from pyspark_pravega.connector.log.ledger import Ledger
from pyspark_pravega.errors import (
    KeyValueTableNotFoundError,
    NotFoundError,
    SegmentNotFoundError,
    StreamNotFoundError,
    StreamSealedError,
    TableBeingDroppedError,
    UnavailableError,
)


def open_ledger(client: Client, stream: Stream) -> Ledger | None:
    """A stream's commit log.

    Returns:
        None when it has none: then no writer of this package has written to the stream.

    Raises:
        TableBeingDroppedError: it was deleted just now, and the stream is still there.
    """
    try:
        return _opened(client, stream)
    except KeyValueTableNotFoundError:
        return None


def create_ledger(client: Client, stream: Stream, *, to_write: bool = False) -> Ledger:
    """A stream's commit log, made when it isn't there.

    Args:
        client: the cluster.
        stream: the stream.
        to_write: whether events are to be written, which a sealed stream takes no more.

    Raises:
        StreamNotFoundError: there is no such stream.
        StreamSealedError: it was sealed meanwhile; or is sealed, and events are to be written.
    """
    ledger = open_ledger(client, stream)
    if ledger is not None:
        return ledger
    takes_events = _takes_events(client, stream)
    if to_write and not takes_events:
        raise _sealed(stream)
    is_new = _make(client, stream)
    try:
        if takes_events and not _takes_events(client, stream):
            raise _sealed(stream)
    except (StreamNotFoundError, StreamSealedError):
        # If it was there, it is perhaps another one's, who creates the table.
        if is_new:
            # A DROP may be deleting it: its connections are closed then.
            with suppress(NotFoundError, UnavailableError, TableBeingDroppedError):
                _opened(client, stream).abandon()
        raise
    return _opened(client, stream)


def claim_ledger(client: Client, stream: Stream) -> Ledger | None:
    """Make a stream's commit log; of several who try at once only one does.

    Returns:
        None when it was there, or was made by a call whose answer was lost.
    """
    is_new = _make(client, stream)
    return _opened(client, stream) if is_new else None


def delete_ledger(client: Client, stream: Stream, identity: tuple[int, ...] | None = None) -> bool:
    """Delete a stream's commit log.

    Args:
        client: the cluster.
        stream: the stream.
        identity: which one of that name: the log of another one stays, which somebody has made meanwhile. Logs are made
            before their streams, so a log belongs to the stream that is there behind a look at it.

    Returns:
        False when it had none.
    """
    controller = client.controller
    still = None if identity is None else lambda: controller.identity(stream) == identity
    return controller.delete_key_value_table(stream.scope, ledger_name(stream), still)


def delete_left_over_logs(client: Client, scope: str, tables: Iterable[str]) -> None:
    """Delete the commit logs of streams that are gone, in a scope without streams.

    Those of tables that are being created stay.

    Args:
        client: the cluster.
        scope: the scope.
        tables: the names of its key-value tables.
    """
    for table in filter(is_ledger_name, tables):
        # Of a log whose creation was broken off there may be a name, and no table.
        with suppress(KeyValueTableNotFoundError):
            try:
                ledger = Ledger(KeyValueTable.reopened(client.pool, scope, table, key=STATE), Stream(scope, table))
                is_left_over = ledger.is_left_over()
            except SegmentNotFoundError:
                # Its deletion was broken off.
                is_left_over = True
            if is_left_over:
                client.controller.delete_key_value_table(scope, table)


def _make(client: Client, stream: Stream) -> bool:
    # Of several who make it only one may think so: whose answer was lost doesn't.
    return client.create_key_value_table(stream.scope, ledger_name(stream), partitions=1, key_bytes=KEY_BYTES) is True


def _takes_events(client: Client, stream: Stream) -> bool:
    return bool(client.controller.current_segments(stream).ids)


def _sealed(stream: Stream) -> StreamSealedError:
    return StreamSealedError(
        f'stream "{stream}" is sealed, and takes no more events; perhaps it is being dropped: if it is still there '
        "after a while, run DROP TABLE again"
    )


def _opened(client: Client, stream: Stream) -> Ledger:
    try:
        table = KeyValueTable.reopened(client.pool, stream.scope, ledger_name(stream), key=STATE)
    except SegmentNotFoundError:
        raise TableBeingDroppedError(
            f'the table of stream "{stream}" is being dropped: its commit log is deleted already. Wait until the table '
            "is gone; if it stays, run DROP TABLE again, which completes it"
        ) from None
    return Ledger(table, stream)
