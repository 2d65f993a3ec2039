"""A query in a process of its own: started, kept running, and ended by commands on its standard input."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

Start = Callable[[SparkSession, dict[str, Any]], StreamingQuery]
"""Starts a query as a command says."""
_LOOK_S = 0.1


def obey(session: SparkSession, start: Start, refusal: str | None = None) -> None:
    """Do what each line of the input says, until it ends.

    `stop` ends the query, JSON with `statements` is SQL, and any other JSON starts the query. Answers are `ready`,
    `started` (each time), `refused: why`, `executed` and `stopped`.

    Args:
        session: the session.
        start: starts a query.
        refusal: what is said of a query that isn't to be started again; None for nothing.
    """
    print("ready", flush=True)
    over, running = threading.Event(), threading.Thread()
    for line in sys.stdin:
        if line.strip() == "stop":
            over.set()
            running.join()
            print("stopped", flush=True)
        elif "statements" in (command := json.loads(line)):
            for statement in command["statements"]:
                session.sql(statement)
            print("executed", flush=True)
        else:
            over = threading.Event()
            running = threading.Thread(target=_keep, args=(session, start, refusal, command, over))
            running.start()


def _keep(
    session: SparkSession, start: Start, refusal: str | None, command: dict[str, Any], over: threading.Event
) -> None:
    """Run a query until it is over, whatever becomes of it."""
    while not over.is_set():
        try:
            query = start(session, command)
            print("started", flush=True)
            while not over.is_set():
                query.awaitTermination(_LOOK_S)  # type: ignore[arg-type]
            query.stop()
        except PySparkException as error:
            print(error, file=sys.stderr, flush=True)
            if refusal is not None and refusal in str(error):
                print("refused: " + " ".join(str(error).split()), flush=True)
                return
