"""The catalog process: answers Spark's JVM over pipes, one JSON document a line.

The first line configures it: `{"options": {...}, "session": {...}}`. Then come requests, answered in any order;
`methods` says which there are. The process ends with its standard input.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TextIO

from pyspark_pravega.catalog.base import DEFAULT_NAMESPACE
from pyspark_pravega.catalog.process.messages import Failure, Greeting, Piece
from pyspark_pravega.catalog.process.methods import CatalogMethods
from pyspark_pravega.catalog.process.protocol import Method, call
from pyspark_pravega.connector import foreign_options
from pyspark_pravega.connector.option_names import TABLE_READ_KEYS, spellings
from pyspark_pravega.connector.table import METADATA_COLUMNS
from pyspark_pravega.errors import (
    ConfigurationError,
    PravegaError,
    ScopeExistsError,
    ScopeNotEmptyError,
    ScopeNotFoundError,
    StreamExistsError,
    StreamNotFoundError,
    ViewExistsError,
    ViewNotFoundError,
    did_you_mean,
)
from pyspark_pravega.found import running_sandbox
from pyspark_pravega.frames.pandas_later import load_pandas_later
from pyspark_pravega.lake import PREFIX
from pyspark_pravega.settings import KEYS, Settings, canonical_key

THREADS = 2048
"""For each request a thread of the JVM waits, and most requests wait for a server: those that wait for one sick stream
must hold up nobody else, who may want to commit."""
PIECE_LETTERS = 1 << 20
"""A longer answer is sent in pieces."""

_KINDS: list[tuple[type[PravegaError], str]] = [
    (ScopeNotFoundError, "no-such-namespace"),
    (StreamNotFoundError, "no-such-table"),
    (ScopeExistsError, "namespace-exists"),
    (StreamExistsError, "table-exists"),
    (ScopeNotEmptyError, "namespace-not-empty"),
    (ViewNotFoundError, "no-such-view"),
    (ViewExistsError, "view-exists"),
]
_log = logging.getLogger(__name__)


def answer(methods: Mapping[str, Method], request: dict[str, Any]) -> dict[str, Any]:
    """Answer a request.

    Args:
        methods: by their names on the wire.
        request: id, method and params.

    Returns:
        id and result, or id and error.
    """
    try:
        return {"id": request["id"], "result": call(methods, request["method"], request["params"])}
    except PravegaError as error:
        return {"id": request["id"], "error": describe(error)}
    except Exception as error:
        _log.exception("%s failed", request["method"])
        return {"id": request["id"], "error": describe(error)}


def serve(requests: TextIO, answers: TextIO) -> None:
    """Answer requests until there are no more; what hasn't been answered by then isn't waited for.

    Args:
        requests: lines of JSON, the first one the configuration: `{"options": {...}, "session": {...}}`.
        answers: lines of JSON.
    """
    lock = threading.Lock()

    def send(answer: dict[str, Any]) -> None:
        # The JVM may have ended meanwhile: nobody is there to hear the answer.
        with suppress(BrokenPipeError):
            for line in lines_of(answer):
                with lock:
                    answers.write(line + "\n")
                    answers.flush()

    configuration = json.loads(requests.readline())
    try:
        options, lake = split_lake(configuration["options"])
        settings = settle_settings(options, configuration["session"])
        service = CatalogMethods(settings, lake)
    except PravegaError as error:
        send({"id": 0, "error": describe(error)})
        return
    greeting: Greeting = {
        "metadata": METADATA_COLUMNS.json(),
        "scope": settings.scope or DEFAULT_NAMESPACE,
        "checkedOptions": sorted(spellings(TABLE_READ_KEYS - KEYS) | set(foreign_options.names_of_reads())),
        "python": f"{sys.version_info.major}.{sys.version_info.minor}",
    }
    send({"id": 0, "result": greeting})
    threads = ThreadPoolExecutor(THREADS, thread_name_prefix="catalog")

    def respond(request: dict[str, Any]) -> None:
        try:
            send(answer(service.by_name, request))
        except BaseException as error:
            # Whatever it is, as the exit that a class of the user's asks for: the JVM waits for an answer.
            _log.exception("%s failed", request["method"])
            send({"id": request["id"], "error": describe(error)})
        service.answered()

    for line in requests:
        threads.submit(respond, json.loads(line))
    # Threads may wait for a server: nobody is there to hear their answer any more.
    threads.shutdown(wait=False, cancel_futures=True)


def lines_of(answer: dict[str, Any]) -> Iterator[str]:
    """An answer as lines: a long one comes in pieces, between which others' answers find their way.

    Args:
        answer: id and result, or id and error. One that JSON can't hold (nor the JVM read) becomes an error.
    """
    try:
        text = json.dumps(answer, separators=(",", ":"), allow_nan=False)
    except Exception as error:
        _log.exception("an answer can't be sent")
        text = json.dumps({"id": answer["id"], "error": describe(error)})
    if len(text) <= PIECE_LETTERS:
        yield text
        return
    for start in range(0, len(text), PIECE_LETTERS):
        end = start + PIECE_LETTERS
        piece: Piece = {"piece": text[start:end], "last": end >= len(text)}
        yield json.dumps({"id": answer["id"], **piece}, separators=(",", ":"))


def split_lake(options: dict[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """A catalog's configuration, and what of it says where the lake is.

    Args:
        options: `spark.sql.catalog.<name>.*` without that prefix.
    """
    lake = {key.lower().removeprefix(PREFIX): text for key, text in options.items() if key.lower().startswith(PREFIX)}
    return {key: text for key, text in options.items() if not key.lower().startswith(PREFIX)}, lake


def settle_settings(options: dict[str, str], session: dict[str, str]) -> Settings:
    """The connection from a catalog's configuration and the session's.

    Args:
        options: `spark.sql.catalog.<name>.*` without that prefix.
        session: `spark.pravega.*`.

    Raises:
        ConfigurationError: a key is unknown, or a value malformed.
    """
    for key in options:
        name = canonical_key(key)
        if name not in KEYS:
            raise ConfigurationError(f'unknown catalog configuration "{key}"{did_you_mean(name, KEYS)}')
    return Settings.resolve(catalog=options, session=session, otherwise=running_sandbox)


def describe(error: BaseException) -> Failure:
    """An error as the JVM takes it.

    Args:
        error: what was raised; of anything unexpected only its kind and text are told, never a trace.
    """
    if isinstance(error, PravegaError):
        kind = next((kind for cls, kind in _KINDS if isinstance(error, cls)), "other")
        return {"kind": kind, "condition": error.condition, "sqlState": error.sqlstate, "message": str(error)}
    return {
        "kind": "other",
        "condition": PravegaError.condition,
        "sqlState": PravegaError.sqlstate,
        "message": f"unexpected {type(error).__name__}: {error}; the catalog process's log tells more",
    }


def main() -> None:
    """Serve standard input and output; whatever else is printed goes to standard error."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="pravega catalog: %(levelname)s %(message)s")
    # Ctrl-C at a prompt goes to all its processes, and is about a statement; this one ends with its input.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    load_pandas_later()
    # Whatever the locale is: the JVM writes UTF-8.
    requests = os.fdopen(sys.stdin.fileno(), encoding="utf-8", closefd=False)
    serve(requests, answers)
    # Not sys.exit, which waits for the threads.
    os._exit(0)


if __name__ == "__main__":
    main()
