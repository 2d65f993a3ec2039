"""What readers, writers and tasks are made of: Spark's classes, or stand-ins where there is no pyspark.

Without Spark the same readers and writers are called by `pravega-spark tail` and `pravega-spark put`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark_pravega.spark.here import IS_IMPORTABLE

if TYPE_CHECKING or IS_IMPORTABLE:
    from pyspark import TaskContext
    from pyspark.sql.datasource import (
        DataSource,
        DataSourceArrowWriter,
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
        InputPartition,
        WriterCommitMessage,
    )
else:

    class TaskContext:
        """Without Spark nothing is a task."""

        @staticmethod
        def get() -> None:
            """None."""

    class InputPartition:
        """A part of what is read."""

        def __init__(self, value: Any) -> None:
            self.value = value

    class DataSource: ...

    class DataSourceReader: ...

    class DataSourceStreamReader: ...

    class DataSourceWriter: ...

    class DataSourceArrowWriter: ...

    class DataSourceStreamWriter: ...

    class WriterCommitMessage: ...


WRITES_ARROW: bool
"""Whether a streaming query's rows come to a sink in Python as Arrow's batches, as they do since 4.1."""
LIMITED: bool
"""Whether Spark asks a streaming source in Python for limits, and tells it them with each micro-batch, since 4.2."""

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxBytes,
        ReadMaxRows,
        ReadMinRows,
        SupportsTriggerAvailableNow,
    )
else:
    try:
        from pyspark.sql.datasource import DataSourceStreamArrowWriter

        WRITES_ARROW = IS_IMPORTABLE
    except ImportError:
        WRITES_ARROW, DataSourceStreamArrowWriter = False, DataSourceStreamWriter
    try:
        from pyspark.sql.streaming.datasource import (
            ReadAllAvailable,
            ReadLimit,
            ReadMaxBytes,
            ReadMaxRows,
            ReadMinRows,
            SupportsTriggerAvailableNow,
        )

        LIMITED = IS_IMPORTABLE
    except ImportError:
        LIMITED = False

        class ReadLimit: ...

        class SupportsTriggerAvailableNow: ...

        class ReadAllAvailable: ...

        class ReadMaxBytes: ...

        class ReadMaxRows: ...

        class ReadMinRows: ...


__all__ = [
    "LIMITED",
    "WRITES_ARROW",
    "DataSource",
    "DataSourceArrowWriter",
    "DataSourceReader",
    "DataSourceStreamArrowWriter",
    "DataSourceStreamReader",
    "DataSourceStreamWriter",
    "DataSourceWriter",
    "InputPartition",
    "ReadAllAvailable",
    "ReadLimit",
    "ReadMaxBytes",
    "ReadMaxRows",
    "ReadMinRows",
    "SupportsTriggerAvailableNow",
    "TaskContext",
    "WriterCommitMessage",
]
