"""What Spark's Python workers open: values, and reads with their partitions."""

from __future__ import annotations

import io
import struct
from typing import Any

from pyspark.sql.datasource import DataSourceReader
from pyspark.sql.types import StructType
from pyspark.sql.worker.plan_data_source_read import write_read_func_and_partitions
from pyspark.worker_util import pickleSer

from pyspark_pravega.catalog.process.arrival import sealed
from pyspark_pravega.connector.datasource import DefaultSource
from pyspark_pravega.connector.handover import Handover

_INT = struct.Struct(">i")


def pickled_read(reader: DataSourceReader, schema: StructType) -> tuple[bytes, list[bytes]]:
    """A read as Spark's Python runner takes it.

    Args:
        reader: plans and reads.
        schema: what its batches hold.

    Returns:
        The pickled read function, and the pickled partitions: at least one.
    """
    out = io.BytesIO()
    write_read_func_and_partitions(
        out,
        reader=reader,
        data_source=DefaultSource({}),
        schema=schema,
        max_arrow_batch_size=1,
        binary_as_bytes=True,
    )
    data = memoryview(out.getvalue())
    function, rest = _block(data)
    read, returned = unpickle(function)
    function = pickle((Handover(read), returned))
    (count,) = _INT.unpack(rest[:4])
    rest, partitions = rest[4:], []
    for _ in range(count):
        partition, rest = _block(rest)
        partitions.append(partition)
    return sealed(function), partitions


def pickle(value: object) -> bytes:
    """A value as Spark's Python workers unpickle it."""
    pickled: bytes = pickleSer.dumps(value)  # type: ignore[no-untyped-call]
    return pickled


def unpickle(data: bytes) -> Any:
    """What `pickle` has made."""
    return pickleSer.loads(data)  # type: ignore[no-untyped-call]


def _block(data: memoryview) -> tuple[bytes, memoryview]:
    (length,) = _INT.unpack(data[:4])
    return bytes(data[4 : 4 + length]), data[4 + length :]
