"""Spark with a real-time query from stream to stream, in a process of its own, which may be killed.

Arguments: the controller, and perhaps the registry. Each line of its input is a command: JSON with `table`, `columns`,
`sink`, `checkpoint` and `mode` starts a query, and so does JSON with `tables`, `sink`, `checkpoint`, `function` and
`lists`, of the rows of several tables; JSON with `statements` is SQL; `stop` ends the query. A query that fails is
started again from its checkpoint, as an operator does. But one that is refused isn't. It answers `started` (each time),
`refused: why`, `executed` and `stopped`.
"""

from __future__ import annotations

import sys
from functools import reduce
from typing import Any

from kept_query import obey
from pyspark.sql import DataFrame, SparkSession, functions
from pyspark.sql.functions import posexplode, split, udf, upper
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StringType
from stream_program import session_of

LOUDER: dict[str, Any] = {
    "none": upper,
    "python": udf(lambda text: text.upper(), StringType(), useArrow=False),
    "arrow": udf(lambda text: text.upper(), StringType(), useArrow=True),
    "pandas": getattr(functions, "pandas_udf")(lambda texts: texts.str.upper(), StringType()),  # noqa: B009
}
"""What makes upper case of texts."""


def rows_of(session: SparkSession, table: str, what: dict[str, Any]) -> DataFrame:
    """Some rows of a table, or some words of their texts, in upper case."""
    rows = session.readStream.option("maxPartitions", 3 - len(what["tables"])).table(table).where("id % 7 <> 3")
    rows = rows.select("*", "_stream", "_segment", "_offset")
    if what["lists"]:
        rows = rows.select("id", "who", posexplode(split("text", " ")).alias("_index", "text"), *rows.columns[-3:])
        rows = rows.where("text <> 'no'")
    return rows.withColumn("text", LOUDER[what["function"]]("text"))


def start(session: SparkSession, what: dict[str, Any]) -> StreamingQuery:
    if "tables" in what:
        rows = reduce(DataFrame.unionByName, (rows_of(session, table, what) for table in what["tables"]))
        writer: Any = rows.writeStream.outputMode("update").option("checkpointLocation", what["checkpoint"])
    else:
        rows = session.readStream.table(what["table"]).select(what["columns"].split())
        writer = rows.writeStream.outputMode("update").option("checkpointLocation", what["checkpoint"])
        # All rows have one key, so they are in their order, however the sink is scaled.
        writer = writer.option("writer-mode", what["mode"]).option("routing-key", "'all'")
    query: StreamingQuery = writer.trigger(realTime="1 second").toTable(what["sink"])
    return query


def main(controller: str, registry: str | None = None) -> None:
    conf = {
        **({} if registry is None else {"spark.sql.catalog.pravega.schema-registry-uri": registry}),
        "spark.sql.streaming.realTimeMode.allowlistCheck": "false",
        "spark.sql.streaming.realTimeMode.asyncProgressTrackingByDefault.enabled": "false",
        "spark.sql.streaming.realTimeMode.minBatchDuration": "1000",
    }
    # Four cores, so that two tasks follow the stream; a task is tried three times.
    session = session_of(controller, "local[4,3]", conf)
    obey(session, start, "can't be written exactly once")


if __name__ == "__main__":
    main(*sys.argv[1:])
