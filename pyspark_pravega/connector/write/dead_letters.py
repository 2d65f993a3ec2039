"""Dead letters: events that can't be decoded become rows of another table, which has a key.

A row's key is where the event lies. So it is there once, however often a query meets the event: when a micro-batch or a
task is run again, or another query reads the same events.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from pyspark_pravega.client import EventWriter, Stream
from pyspark_pravega.clock import now_ms
from pyspark_pravega.connector.option_names import AT_LEAST_ONCE
from pyspark_pravega.connector.options import EventOptions, WriteOptions
from pyspark_pravega.connector.shared import shared_client
from pyspark_pravega.connector.table import DeadLetter, TableDefinition, load_definition
from pyspark_pravega.connector.write.plan import WritePlan
from pyspark_pravega.errors import ConfigurationError, StreamNotFoundError
from pyspark_pravega.serde.lenient import DROP_MALFORMED
from pyspark_pravega.spark.types import (
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

KEY = ("source", "segment", "offset")
COLUMNS = StructType(
    [
        StructField("source", StringType(), False),
        StructField("segment", LongType(), False),
        StructField("offset", LongType(), False),
        StructField("encoding_id", IntegerType()),
        StructField("reason", StringType()),
        StructField("event", BinaryType()),
        StructField("at", TimestampType()),
    ]
)
"""What a table of dead letters must have. `source` is the stream as `scope/stream`, `at` when the event was first met,
or met again."""


class DeadLetters:
    """Writes the bad events of one stream. It can be pickled."""

    def __init__(self, plan: WritePlan, source: Stream) -> None:
        """Prepare.

        Args:
            plan: how to write to the table of dead letters.
            source: the stream that they are of.
        """
        self._plan, self._source = plan, source

    def put(self, letters: Sequence[DeadLetter]) -> None:
        """As `DeadLetterSink.put`."""
        now = now_ms() * 1000
        rows = pa.RecordBatch.from_pylist(
            [{**vars(letter), "source": str(self._source), "at": now} for letter in letters],
            schema=pa.schema(
                [
                    ("source", pa.string()),
                    ("segment", pa.int64()),
                    ("offset", pa.int64()),
                    ("encoding_id", pa.int32()),
                    ("reason", pa.string()),
                    ("event", pa.binary()),
                    ("at", pa.timestamp("us", "UTC")),
                ]
            ),
        )
        assert self._plan.routing is not None
        with EventWriter(shared_client(self._plan.settings), self._plan.stream) as writer:
            writer.write_batch(self._plan.codec.encode(rows), self._plan.routing.keys(rows))


def with_dead_letters(definition: TableDefinition, events: EventOptions, *, streamed: bool = False) -> TableDefinition:
    """A table whose bad events go to another one while it is read, if the options of the read say so; of a streaming
    query also, if the table says so and the options say nothing else.

    Args:
        definition: the table.
        events: how the options take the stream's events.
        streamed: whether a streaming query reads it.

    Raises:
        ConfigurationError: that isn't a table of dead letters.
        StreamNotFoundError: there is no such table; the message says how to make it.
    """
    target = events.bad_events
    if target is None and streamed and events.mode is None:
        target = definition.properties.bad_events
    if target is None:
        return definition
    if target == definition.stream:
        raise ConfigurationError(f'bad events of stream "{target}" can\'t go to that stream itself: name another table')
    client = shared_client(definition.settings)
    try:
        letters = load_definition(client, definition.settings, target)
    except StreamNotFoundError:
        raise StreamNotFoundError(
            f'stream "{target}", where bad events of "{definition.stream}" are to go, does not exist: {_how(target)}'
        ) from None
    check_letters(letters, definition.stream)
    plan = WritePlan.of(letters, WriteOptions(writer_mode=AT_LEAST_ONCE))
    return replace(definition.with_mode(DROP_MALFORMED), dead_letters=DeadLetters(plan, definition.stream))


def check_letters(letters: TableDefinition, source: Stream) -> None:
    """Refuse a table that isn't one of dead letters.

    Args:
        letters: the table.
        source: the stream whose bad events it is to hold.

    Raises:
        ConfigurationError: it has other columns, or another key; the message says how to make one.
    """
    columns = [(field.name, field.dataType) for field in letters.schema]
    if columns != [(field.name, field.dataType) for field in COLUMNS] or (
        letters.key is None or tuple(letters.key.columns) != KEY or not letters.key.is_written
    ):
        raise ConfigurationError(
            f'stream "{letters.stream}" can\'t take the bad events of "{source}": it has other columns, or another '
            f"primary key; {_how(letters.stream)}"
        )


def _how(target: Stream) -> str:
    columns = ", ".join(
        f"{field.name} {field.dataType.simpleString().upper()}{'' if field.nullable else ' NOT NULL'}"
        for field in COLUMNS
    )
    name = f"{target.scope}.{target.name}".replace("-", "_")
    return f"make it by CREATE TABLE {name} ({columns}, PRIMARY KEY ({', '.join(KEY)}) NOT ENFORCED)"
