"""The events: 8 columns, a few ten thousand different rows that are written over and over."""

from __future__ import annotations

import datetime
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import (
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from pyspark_pravega.serde.codec import Codec

ROWS = 50_000
ROUTING_KEY = "customer"
_COLUMNS: dict[str, type[DataType]] = {
    "id": LongType,
    ROUTING_KEY: StringType,
    "product": StringType,
    "quantity": IntegerType,
    "amount": DoubleType,
    "discount": DoubleType,
    "at": TimestampType,
    "note": StringType,
}
SCHEMA = StructType([StructField(name, kind(), nullable=name != "id") for name, kind in _COLUMNS.items()])
_CUSTOMERS, _PRODUCTS = 10_000, 500
_START = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


def make_rows(codec: Codec, event_size: int) -> pa.RecordBatch:
    """The different rows, the same in each run.

    Args:
        codec: tells how large rows become.
        event_size: what an event with its encoding header shall have on average, in bytes.

    Returns:
        `ROWS` rows of `SCHEMA`.
    """
    bare = _rows(codec.schema, 0)
    missing = event_size - round(pc.mean(pc.binary_length(codec.encode(bare))).as_py())
    if missing < 0:
        raise SystemExit(f"--events-size {event_size}: an event of these columns has {event_size - missing} bytes")
    return _rows(codec.schema, missing)


def batches(rows: pa.RecordBatch, events: int) -> Iterator[pa.RecordBatch]:
    """The rows over and over.

    Args:
        rows: the different rows.
        events: how many there shall be.
    """
    for start in range(0, events, len(rows)):
        yield rows.slice(0, min(len(rows), events - start))


def as_text(rows: pa.RecordBatch) -> str:
    """The rows as tab-separated lines, for the Java programs; times as microseconds since 1970."""
    columns = [column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column for column in rows.columns]
    texts = [[str(value) for value in column.to_pylist()] for column in columns]
    return "".join("\t".join(cells) + "\n" for cells in zip(*texts, strict=True))


def _rows(schema: pa.Schema, note_length: int) -> pa.RecordBatch:
    random = np.random.default_rng(20261121)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz "))
    notes = random.choice(letters, (ROWS, note_length))
    microseconds = random.integers(0, 300 * 86_400 * 1_000_000, ROWS)
    columns = [
        pa.array(random.integers(0, 2_000_000, ROWS)),
        pa.array([f"customer {number:06d}" for number in random.integers(0, _CUSTOMERS, ROWS)]),
        pa.array([f"product {number:04d}" for number in random.integers(0, _PRODUCTS, ROWS)]),
        pa.array(random.integers(1, 100, ROWS).astype(np.int32)),
        pa.array(random.integers(1, 1_000_000, ROWS) / 100),
        pa.array(random.integers(0, 50, ROWS) / 100),
        pa.array(microseconds + int(_START.timestamp() * 1_000_000)).cast(pa.timestamp("us", tz="UTC")),
        pa.array(["".join(note) for note in notes]),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
