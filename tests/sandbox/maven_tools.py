"""A real Maven repository on loopback, which can come to harm in several ways."""

from __future__ import annotations

import hashlib
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Self

from pyspark_pravega.sandbox import Bundle

Answer = Callable[["Request", bytes], None]
"""Answers a GET for a file, given its bytes."""


class Repository:
    """Serves files; for each path a list of answers can be given, of which each serves one GET."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.harm: dict[str, list[Answer]] = {}
        self.requests: Counter[str] = Counter()
        """How often the bytes of a path were asked for."""
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}/maven"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def add(self, name: str, *, size: int = 10_000, organisation: str = "org/example", version: str = "1.0") -> str:
        """Publish a jar; its place."""
        place = f"{organisation}/{name}/{version}/{name}-{version}.jar"
        self.files[place] = hashlib.sha256(place.encode()).digest() * (size // 32)
        return place

    def bundle(self, folder: Path, *places: str, name: str = "example") -> Bundle:
        """Pin files of this repository."""
        manifest, ivy_file = folder / f"{name}.sha256", folder / f"{name}.xml"
        manifest.write_text("".join(f"{_sum(self.files[p])}  {len(self.files[p])}  {p}\n" for p in places))
        return Bundle(name, ivy_file, manifest)

    def publish_pom(self, place: str) -> None:
        """Publish what Ivy reads where it has to look for a file."""
        *organisation, module, version, _ = place.split("/")
        coordinates = {"groupId": ".".join(organisation), "artifactId": module, "version": version}
        fields = "".join(f"<{key}>{value}</{key}>" for key, value in coordinates.items())
        pom = f'<?xml version="1.0"?><project><modelVersion>4.0.0</modelVersion>{fields}</project>'
        self.files[place.removesuffix(".jar") + ".pom"] = pom.encode()


def misplaced(bundle: Bundle) -> Bundle:
    """The same pins, but each says that its file is where there's none."""
    manifest = bundle.manifest.with_name(f"misplaced-{bundle.manifest.name}")
    manifest.write_text(bundle.manifest.read_text().replace("  org/", "  nowhere/"))
    return replace(bundle, manifest=manifest)


class Request(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *arguments: object) -> None:
        pass

    def whole(self, content: bytes) -> None:
        self.head(content)
        self.wfile.write(content)

    def head(self, content: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()

    def cut(self, content: bytes) -> None:
        """Announce all, and close the connection in the middle."""
        self.head(content)
        self.wfile.write(content[: len(content) // 2])
        self.close_connection = True

    def wrong(self, content: bytes) -> None:
        """As many bytes, but the last one differs."""
        self.whole(content[:-1] + bytes([content[-1] ^ 1]))

    def busy(self, content: bytes) -> None:
        self.send_error(503)


def _handler(repository: Repository) -> type[Request]:
    class Handler(Request):
        def do_HEAD(self) -> None:
            content = repository.files.get(self.path.removeprefix("/maven/"))
            if content is None:
                self.send_error(404)
            else:
                self.head(content)

        def do_GET(self) -> None:
            place = self.path.removeprefix("/maven/")
            content = repository.files.get(place)
            if content is None:
                self.send_error(404)
                return
            repository.requests[place] += 1
            answers = repository.harm.get(place)
            (answers.pop(0) if answers else Request.whole)(self, content)

    return Handler


def _sum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
