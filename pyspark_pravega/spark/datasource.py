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
        DataSourceStreamArrowWriter,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
        InputPartition,
        WriterCommitMessage,
    )
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxBytes,
        ReadMaxRows,
        ReadMinRows,
        SupportsTriggerAvailableNow,
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

    class DataSourceStreamArrowWriter: ...

    class WriterCommitMessage: ...

    class ReadLimit: ...

    class SupportsTriggerAvailableNow: ...

    class ReadAllAvailable: ...

    class ReadMaxBytes: ...

    class ReadMaxRows: ...

    class ReadMinRows: ...


__all__ = [
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
