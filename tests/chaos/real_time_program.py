"""Spark with a real-time query from stream to stream, in a process of its own, which may be killed.

Argument: the controller. Each line of its input is a command: JSON with `table`, `columns`, `sink`, `checkpoint` and
`mode` starts a query, `stop` ends it. A query that fails is started again from its checkpoint, as an operator does. But
one that is refused isn't. It answers `started` (each time), `refused: why` and `stopped`.
"""

from __future__ import annotations

import json
import sys
import threading
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from stream_program import session_of

_LOOK_S = 0.1


def start(session: SparkSession, what: dict[str, str]) -> StreamingQuery:
    rows = session.readStream.table(what["table"]).select(what["columns"].split())
    writer: Any = rows.writeStream.outputMode("update").option("checkpointLocation", what["checkpoint"])
    # All rows have one key, so they are in their order, however the sink is scaled.
    writer = writer.option("writer-mode", what["mode"]).option("routing-key", "'all'")
    query: StreamingQuery = writer.trigger(realTime="1 second").toTable(what["sink"])
    return query


def keep(session: SparkSession, what: dict[str, str], over: threading.Event) -> None:
    """Run a query until it is over, whatever becomes of it."""
    while not over.is_set():
        try:
            query = start(session, what)
            print("started", flush=True)
            while not over.is_set():
                query.awaitTermination(_LOOK_S)  # type: ignore[arg-type]
            query.stop()
        except PySparkException as error:
            print(error, file=sys.stderr, flush=True)
            if "can't be written exactly once" in str(error):
                print("refused: " + " ".join(str(error).split()), flush=True)
                return


def main(controller: str) -> None:
    conf = {
        "spark.sql.streaming.realTimeMode.allowlistCheck": "false",
        "spark.sql.streaming.realTimeMode.asyncProgressTrackingByDefault.enabled": "false",
        "spark.sql.streaming.realTimeMode.minBatchDuration": "1000",
    }
    # Four cores, so that two tasks follow the stream; a task is tried three times.
    session = session_of(controller, "local[4,3]", conf)
    print("ready", flush=True)
    over, running = threading.Event(), threading.Thread()
    for line in sys.stdin:
        if line.strip() == "stop":
            over.set()
            running.join()
            print("stopped", flush=True)
        else:
            over = threading.Event()
            running = threading.Thread(target=keep, args=(session, json.loads(line), over))
            running.start()


if __name__ == "__main__":
    main(*sys.argv[1:])
