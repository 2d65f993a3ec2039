"""The page's server: on loopback only, for who has the token, and for reading only.

Python's own `http.server` does it: few ask, on this machine, for a fixed list of answers. The token stands at the
begin of each path, so that every file and answer of the page is behind it, and no cookie is needed, which all servers
of a host would share.
"""

from __future__ import annotations

import hmac
import json
import secrets
import sys
import threading
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from pyspark_pravega.client import Stream
from pyspark_pravega.errors import ConfigurationError, InvalidNameError, NotFoundError, PravegaError
from pyspark_pravega.live.answers import SORTS, Answers
from pyspark_pravega.live.metrics import CONTENT_TYPE, exposition
from pyspark_pravega.live.rows import MOST_ROWS, Wanted

LOOPBACK = "127.0.0.1"
FILES = {
    "": ("index.html", "text/html; charset=utf-8"),
    "page.css": ("page.css", "text/css; charset=utf-8"),
    "uPlot.min.css": ("uPlot.min.css", "text/css; charset=utf-8"),
    "uPlot.iife.min.js": ("uPlot.iife.min.js", "text/javascript; charset=utf-8"),
    "page.js": ("page.js", "text/javascript; charset=utf-8"),
    "values.js": ("values.js", "text/javascript; charset=utf-8"),
    "streams.js": ("streams.js", "text/javascript; charset=utf-8"),
    "stream.js": ("stream.js", "text/javascript; charset=utf-8"),
    "pictures.js": ("pictures.js", "text/javascript; charset=utf-8"),
    "charts.js": ("charts.js", "text/javascript; charset=utf-8"),
    "health.js": ("health.js", "text/javascript; charset=utf-8"),
    "queries.js": ("queries.js", "text/javascript; charset=utf-8"),
    "rows.js": ("rows.js", "text/javascript; charset=utf-8"),
    "commits.js": ("commits.js", "text/javascript; charset=utf-8"),
    "browse.js": ("browse.js", "text/javascript; charset=utf-8"),
    "icon.svg": ("icon.svg", "image/svg+xml"),
}
"""The page's files: path, name in `page`, and kind."""
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-store",
}
_IDLE_S = 60.0
_POLL_S = 0.05
"""How often the server looks whether it is to end."""
_MOST_LINES = 200
"""Of the table of streams, in one answer."""


class LiveServer:
    """Serves the page from threads of its own until it is closed. A context manager."""

    def __init__(self, answers: Answers, *, port: int = 0, token: str | None = None) -> None:
        """Listen.

        Args:
            answers: what the page shows.
            port: on 127.0.0.1; a free one when 0.
            token: what the URL has to hold; a new one when None.

        Raises:
            ConfigurationError: the port is taken.
        """
        self.token = token or secrets.token_urlsafe(24)
        try:
            self._server = _Server((LOOPBACK, port), _Handler)
        except (OSError, OverflowError) as error:
            why = getattr(error, "strerror", None) or error
            raise ConfigurationError(
                f"port {port} of {LOOPBACK} can't be listened on ({why}): give another --port"
            ) from None
        self.port = int(self._server.server_address[1])
        self._server.hosts = {f"{name}:{self.port}" for name in (LOOPBACK, "localhost")}
        self._server.answers, self._server.token = answers, self.token
        self._thread = threading.Thread(target=self._server.serve_forever, args=(_POLL_S,), name="live", daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """The page's address, with the token."""
        return f"http://{LOOPBACK}:{self.port}/{self.token}/"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    answers: Answers
    token: str
    hosts: set[str]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Who closes a page in the midst of an answer is no error; all else is told on standard error."""
        if not isinstance(sys.exception(), (ConnectionError, TimeoutError)):
            super().handle_error(request, client_address)


class _RefusedError(Exception):
    """A request that gets no answer."""

    def __init__(self, status: HTTPStatus, why: str) -> None:
        super().__init__(why)
        self.status = status


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "pravega-spark", ""
    timeout = _IDLE_S

    def do_GET(self) -> None:
        """Answer a request."""
        if "Content-Length" in self.headers or "Transfer-Encoding" in self.headers:
            # Nothing reads the body, which would be taken for the next request.
            self.close_connection = True
        try:
            self._check_host()
            path, query = self._place()
            if path in FILES:
                name, kind = FILES[path]
                self._send(HTTPStatus.OK, (files(__package__) / "page" / name).read_bytes(), kind)
            elif path == "metrics":
                self._send(HTTPStatus.OK, self._metrics().encode(), CONTENT_TYPE)
            else:
                self._send_json(HTTPStatus.OK, self._answer(path, query))
        except _RefusedError as refused:
            self._send_json(refused.status, {"error": str(refused)})
        except NotFoundError as error:
            self._send_json(HTTPStatus.NOT_FOUND, {"error": str(error)})
        except (ConfigurationError, InvalidNameError) as error:
            self._send_json(HTTPStatus.BAD_REQUEST, {"error": str(error)})
        except PravegaError as error:
            self._send_json(HTTPStatus.BAD_GATEWAY, {"error": f"[{error.condition}] {error}"})

    do_HEAD = do_GET  # noqa: N815

    def log_message(self, format: str, *args: Any) -> None:
        """Paths hold the token, so nothing is logged."""

    def _check_host(self) -> None:
        """Another name for this machine may be somebody's page, which would read through its visitor's browser."""
        if self.headers.get("Host", "") not in self.server.hosts:
            raise _RefusedError(HTTPStatus.FORBIDDEN, "the Host header must name 127.0.0.1 or localhost, and the port")

    def _place(self) -> tuple[str, dict[str, str]]:
        """The path behind the token, and the query."""
        try:
            parts = urlsplit(self.path)
        except ValueError as error:
            raise _RefusedError(HTTPStatus.BAD_REQUEST, f"the request's target is not a URL: {error}") from None
        token, slash, path = parts.path.removeprefix("/").partition("/")
        kind, _, given = self.headers.get("Authorization", "").partition(" ")
        if not slash and token == "metrics" and kind.lower() == "bearer":
            token, slash, path = given.strip(), "/", "metrics"
        if not slash or not hmac.compare_digest(token.encode(), self.server.token.encode()):
            raise _RefusedError(
                HTTPStatus.FORBIDDEN, "the address lacks the token: use the one that pravega-spark ui has printed"
            )
        return path, {key: values[-1] for key, values in parse_qs(parts.query).items()}

    def _answer(self, path: str, query: Mapping[str, str]) -> Any:
        answers = self.server.answers
        if path == "api/streams":
            sort = query.get("sort", "table")
            if sort not in SORTS:
                raise _RefusedError(HTTPStatus.BAD_REQUEST, f"sort must be one of {', '.join(SORTS)}")
            return answers.streams(
                sort=sort,
                descending=query.get("order") == "descending",
                text=query.get("text", ""),
                begin=_number(query, "begin", 0),
                count=min(_MOST_LINES, _number(query, "count", 50)),
            )
        if path == "api/queries":
            return answers.queries()
        if path == "api/namespaces":
            return answers.namespaces()
        if path == "api/health":
            return answers.health()
        if path in _OF_STREAM:
            return _OF_STREAM[path](answers, Stream.parse(query.get("name", "")), query)
        raise _RefusedError(HTTPStatus.NOT_FOUND, "there is no such page")

    def _metrics(self) -> str:
        answers = self.server.answers
        answers.sampler.sample(answers.sampler.streams())
        return exposition(answers.sampler.lines(), answers.query_lines(), answers.watch.ages())

    def _send_json(self, status: HTTPStatus, content: Any) -> None:
        self._send(status, json.dumps(content).encode(), "application/json; charset=utf-8")

    def _send(self, status: HTTPStatus, body: bytes, kind: str) -> None:
        self.send_response(status)
        for name, value in {**HEADERS, "Content-Type": kind, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def _number(query: Mapping[str, str], name: str, default: int) -> int:
    text = query.get(name, "")
    if not text:
        return default
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise _RefusedError(HTTPStatus.BAD_REQUEST, f"{name} must be a number of 0 or more")
    return int(text)


def _rows(answers: Answers, stream: Stream, query: Mapping[str, str]) -> dict[str, Any]:
    count = min(MOST_ROWS, _number(query, "count", 20))
    texts = {name: query.get(name, "").strip() for name in ("version", "time", "column")}
    wanted = Wanted(count=count, value=query.get("value", ""), **texts)
    if wanted.is_plain:
        return answers.rows(stream, count, log=query.get("log") == "true")
    return answers.search(stream, wanted)


_OF_STREAM: dict[str, Callable[[Answers, Stream, Mapping[str, str]], dict[str, Any]]] = {
    "api/stream": lambda answers, stream, _: answers.stream(stream),
    "api/table": lambda answers, stream, _: answers.table(stream),
    "api/rows": _rows,
    "api/around": lambda answers, stream, _: answers.around(stream),
    "api/key-value": lambda answers, table, query: answers.entries(table, _number(query, "count", 50)),
    "api/changes": lambda answers, stream, query: answers.changes(stream, _number(query, "version", 0)),
}
"""What is asked of one stream."""
