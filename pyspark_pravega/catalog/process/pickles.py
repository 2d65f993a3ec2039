"""What Spark's Python workers open, and what the JVM keeps for this process: pickles, which travel as base 64."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import BinaryType, StructField, StructType
from pyspark.worker_util import pickleSer

from pyspark_pravega.catalog.process.arrival import sealed
from pyspark_pravega.connector.handover import Handover
from pyspark_pravega.connector.key_value import KeyValueJob
from pyspark_pravega.connector.read import RowsReader
from pyspark_pravega.connector.stream import RealTimeReader
from pyspark_pravega.connector.write import WriteJob, unpack
from pyspark_pravega.serde.codec import Batch

Text64 = str
"""Bytes, in base 64. Those of pickles are opaque to the JVM: it hands them to Spark's workers, or back."""
_WRITE_RESULT = StructType([StructField("message", BinaryType(), True)])


def pickled_read(reader: DataSourceReader, schema: StructType) -> tuple[Text64, list[Text64]]:
    """A read as Spark's Python runner takes it.

    Args:
        reader: plans and reads.
        schema: what its batches hold.

    Returns:
        The read function, and the partitions: at least one.
    """
    read: Callable[[Any], Any] = reader.batches if isinstance(reader, RowsReader) else reader.read

    def batches(argument: Iterator[pa.RecordBatch]) -> Iterator[Batch]:
        # To its end: Spark takes a worker again only when it has read all that it was given.
        (partition,) = argument
        rows: Iterator[Batch] = read(unpickle(partition.column(0)[0].as_py()))
        return rows

    # By this Spark knows functions of data sources: for its profiler.
    batches.__module__ = "pyspark.sql.worker.plan_data_source_read"
    partitions = list(reader.partitions()) or [InputPartition(None)]
    function = pickle((Handover(batches), schema))
    return _text(sealed(function)), [_text(pickle(partition)) for partition in partitions]


def pickled_follow(reader: RealTimeReader) -> Text64:
    """A read of a real-time query as Spark's Python runner takes it: its function, whose input begins with a partition.

    Args:
        reader: what each task does.
    """

    def follow(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from reader.read(unpickle(next(batches).column(0)[0].as_py()), batches)

    return _text(sealed(pickle((follow, reader.schema))))


def pickled_write(job: WriteJob | KeyValueJob, packed: StructType | None) -> Text64:
    """A write as Spark's Python runner takes it: its function, which returns the task's message.

    Args:
        job: the write.
        packed: the columns of the rows, where they come as they lie in the JVM's memory; see `unpack`.
    """

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        message = pickle(job.write_task(batches if packed is None else unpack(batches, packed)))
        yield pa.record_batch([pa.array([message], pa.binary())], names=["message"])

    return _text(sealed(pickle((write, _WRITE_RESULT))))


def text_of(value: object) -> Text64:
    """A value's pickle, as it travels."""
    return _text(pickle(value))


def value_of(text: Text64) -> Any:
    """The value whose pickle has travelled."""
    return unpickle(base64.b64decode(text))


def pickle(value: object) -> bytes:
    """A value as Spark's Python workers unpickle it."""
    pickled: bytes = pickleSer.dumps(value)  # type: ignore[no-untyped-call]
    return pickled


def unpickle(data: bytes) -> Any:
    """What `pickle` has made."""
    return pickleSer.loads(data)  # type: ignore[no-untyped-call]


def _text(data: bytes) -> Text64:
    return base64.b64encode(data).decode()
