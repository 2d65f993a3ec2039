"""A real server that speaks S3 (moto's), in a process of its own, which asks who asks; and a way to it that fails."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

BUCKET = "lakes"
OK, BUSY, SILENT, LOST, CUT = "ok", "busy", "silent", "lost", "cut"
"""How a request is answered: as it is; by 503; not at all, and it isn't done; it is done, and its answer is lost; the
connection ends, and it isn't done."""
FAULTS = (BUSY, SILENT, LOST, CUT)
_HOP = {"connection", "transfer-encoding", "content-length", "keep-alive", "expect"}


@dataclass(frozen=True)
class ObjectStore:
    """Where the server is, and who may ask."""

    port: int
    key: str
    secret: str

    @property
    def endpoint(self) -> str:
        """Its URL."""
        return f"http://127.0.0.1:{self.port}"

    def options(self, path: str, database: Path, endpoint: str | None = None, **others: str) -> dict[str, str]:
        """A catalog's `lake.*`, without that prefix.

        Args:
            path: where in the bucket the lake is to be.
            database: SQLite's file for Iceberg's catalog.
            endpoint: another way to it.
            others: options more, with `_` for `-`.
        """
        return {
            "warehouse": f"s3://{BUCKET}/{path}",
            "uri": f"sqlite:///{database}",
            "s3.endpoint": endpoint or self.endpoint,
            "s3.access-key-id": self.key,
            "s3.secret-access-key": self.secret,
            "s3.region": "eu-central-1",
            **{f"s3.{name.replace('_', '-')}": text for name, text in others.items()},
        }

    def files(self, path: str) -> list[str]:
        """The names of the files beneath a path."""
        from pyarrow.fs import FileSelector, FileType

        selector = FileSelector(f"{BUCKET}/{path}", allow_not_found=True, recursive=True)
        return [info.path for info in self.file_system().get_file_info(selector) if info.type == FileType.File]

    def file_system(self) -> Any:
        """pyarrow's way to it."""
        from pyarrow.fs import S3FileSystem

        return S3FileSystem(
            endpoint_override=self.endpoint, access_key=self.key, secret_key=self.secret, region="eu-central-1"
        )


@contextmanager
def object_store() -> Iterator[ObjectStore]:
    """A server that runs meanwhile."""
    program = [sys.executable, "-W", "ignore", __file__]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield ObjectStore(**json.loads(process.stdout.readline()))
        finally:
            process.stdin.close()
            process.wait(10)


class Relay:
    """A way to the server on which requests fail as a plan says."""

    def __init__(self, port: int) -> None:
        """Let all through until `plan` is set."""
        self.plan: Callable[[str, str], str] = lambda method, path: OK
        self.requests: list[tuple[str, str]] = []
        self.read: Counter[str] = Counter()
        """How many bytes of each file were answered."""
        self.target = port
        self.endpoint = ""
        self.patience_s = 3.0
        """How long nothing is said."""

    def fail(self, number: int, how: str, times: int = 1) -> None:
        """Let requests fail from the next one but so many on."""
        first = len(self.requests) + number
        self.plan = lambda *_: how if first <= len(self.requests) - 1 < first + times else OK


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, format: str, *args: object) -> None:
        pass

    def handle_any(self) -> None:
        relay = self.server.relay
        body = self._body()
        relay.requests.append((self.command, self.path))
        how = relay.plan(self.command, self.path)
        if how in (SILENT, CUT):
            if how == SILENT:
                time.sleep(relay.patience_s)
            self.close_connection = True
            return
        if how == BUSY:
            self._answer(503, {}, b"<Error><Code>ServiceUnavailable</Code><Message>later</Message></Error>")
            return
        way = HTTPConnection("127.0.0.1", relay.target, timeout=60)
        try:
            way.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                if name.lower() not in _HOP:
                    way.putheader(name, value)
            if body or self.command in ("PUT", "POST"):
                way.putheader("Content-Length", str(len(body)))
            way.endheaders(body or None)
            answer = way.getresponse()
            content = answer.read()
            if self.command == "GET":
                relay.read[self.path.partition("?")[0]] += len(content)
            if how == LOST:
                self.close_connection = True
                return
            self._answer(answer.status, dict(answer.getheaders()), content)
        finally:
            way.close()

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = handle_any  # noqa: N815

    def _answer(self, status: int, headers: dict[str, str], content: bytes) -> None:
        self.send_response_only(status)
        length = headers.get("Content-Length", str(len(content))) if self.command == "HEAD" else str(len(content))
        for name, value in headers.items():
            if name.lower() not in _HOP:
                self.send_header(name, value)
        self.send_header("Content-Length", length)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def _body(self) -> bytes:
        if "chunked" in self.headers.get("Transfer-Encoding", ""):
            pieces = []
            while size := int(self.rfile.readline().partition(b";")[0], 16):
                pieces.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(pieces)
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    relay: Relay

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass


@contextmanager
def relayed(store: ObjectStore) -> Iterator[Relay]:
    """A relay that runs meanwhile.

    Args:
        store: where it leads.
    """
    relay = Relay(store.port)
    with _Server(("127.0.0.1", 0), _Handler) as server:
        server.relay = relay
        relay.endpoint = f"http://127.0.0.1:{server.server_address[1]}"
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield relay
        finally:
            server.shutdown()
            thread.join()


def _serve() -> None:
    import logging

    import boto3
    from moto import settings
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    _, port = server.get_host_and_port()
    where: dict[str, Any] = {
        "endpoint_url": f"http://127.0.0.1:{port}",
        "region_name": "us-east-1",
        "aws_access_key_id": "nobody",
        "aws_secret_access_key": "nothing",
    }
    iam = boto3.client("iam", **where)
    iam.create_user(UserName="ann")
    key = iam.create_access_key(UserName="ann")["AccessKey"]
    policy = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}
    iam.put_user_policy(UserName="ann", PolicyName="all", PolicyDocument=json.dumps(policy))
    boto3.client("s3", **where).create_bucket(Bucket=BUCKET)
    # From now on it asks who is there.
    settings.INITIAL_NO_AUTH_ACTION_COUNT = 0
    print(json.dumps({"port": port, "key": key["AccessKeyId"], "secret": key["SecretAccessKey"]}), flush=True)
    with suppress(KeyboardInterrupt):
        sys.stdin.read()


if __name__ == "__main__":
    _serve()
