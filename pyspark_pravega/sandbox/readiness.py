"""Whether a server that was started really answers, and why not."""

from __future__ import annotations

import http.client
import re
import socket
import struct
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import grpc

from pyspark_pravega.errors import SandboxError
from pyspark_pravega.sandbox.java import LOOPBACK
from pyspark_pravega.sandbox.ports import Listener, listeners
from pyspark_pravega.sandbox.processes import Kept
from pyspark_pravega.security import Credentials, Tls

_CALL_S = 5.0
_POLL_S = 0.1
_LAST_LINES = 15
_LIST_SCOPES = "/io.pravega.controller.stream.api.grpc.v1.ControllerService/listScopes"
_HELLO_TYPE, _HELLO_LENGTH, _WIRE_VERSION, _OLDEST_WIRE_VERSION = -127, 8, 16, 5
_HELLO = struct.pack(">iiii", _HELLO_TYPE, _HELLO_LENGTH, _WIRE_VERSION, _OLDEST_WIRE_VERSION)
_BIND_FAILURE = re.compile(r"Address already in use|BindException|Failed to bind to address")

Check = Callable[[], str | None]
"""Asks a server something: None when it answered as it should, else what was wrong."""


@dataclass(frozen=True, kw_only=True)
class Access:
    """How to get in."""

    credentials: Credentials | None = None
    """Who asks; None where nobody wants to know."""
    tls: Tls | None = None
    """Whom to trust; None where it's spoken without TLS."""

    def headers(self) -> dict[str, str]:
        """What to send with each call."""
        return {"authorization": self.credentials.authorization()} if self.credentials else {}


_PLAIN = Access()


class PortTakenError(SandboxError):
    """Another process took a port that a server was to listen on."""


def controller_answers(port: int, access: Access = _PLAIN) -> str | None:
    """Ask the controller for a page of scopes, which makes it ask the segment store.

    Args:
        port: its gRPC port on loopback.
        access: how to get in.

    Returns:
        None when it answered, else what was wrong.
    """
    # No proxy from the environment, and no memory of earlier failures, which would delay the next try.
    options = [("grpc.enable_http_proxy", 0), ("grpc.use_local_subchannel_pool", 1)]
    address = f"{LOOPBACK}:{port}"
    if access.tls:
        trust = grpc.ssl_channel_credentials(access.tls.root_certificates())
        channel = grpc.secure_channel(address, trust, options=options)
    else:
        channel = grpc.insecure_channel(address, options=options)
    with channel:
        try:
            channel.unary_unary(_LIST_SCOPES)(b"", timeout=_CALL_S, metadata=tuple(access.headers().items()))
        except grpc.RpcError as error:
            return f"the controller answered {error.code().name}"
    return None


def segment_store_answers(port: int, access: Access = _PLAIN) -> str | None:
    """Shake hands with the segment store.

    Args:
        port: its port on loopback.
        access: how to get in; who asks doesn't matter for a hello.

    Returns:
        None when it said hello, else what was wrong.
    """
    try:
        with ExitStack() as opened:
            connection = opened.enter_context(socket.create_connection((LOOPBACK, port), timeout=_CALL_S))
            if access.tls:
                wrapped = access.tls.ssl_context().wrap_socket(connection, server_hostname=LOOPBACK)
                connection = opened.enter_context(wrapped)
            connection.sendall(_HELLO)
            answer = opened.enter_context(connection.makefile("rb")).read(len(_HELLO))
    except OSError as error:
        return f"the segment store: {error}"
    if len(answer) < len(_HELLO) or struct.unpack(">iiii", answer)[0] != _HELLO_TYPE:
        return f"the segment store answered {answer.hex()} to a hello"
    return None


def registry_answers(port: int, access: Access = _PLAIN) -> str | None:
    """Ping the registry, and list a group, which makes it ask Pravega.

    Args:
        port: its port on loopback.
        access: how to get in.

    Returns:
        None when both were answered, else what was wrong.
    """
    for path in ("/ping", "/v1/groups?limit=1"):
        connection = (
            http.client.HTTPSConnection(LOOPBACK, port, timeout=_CALL_S, context=access.tls.ssl_context())
            if access.tls
            else http.client.HTTPConnection(LOOPBACK, port, timeout=_CALL_S)
        )
        try:
            connection.request("GET", path, headers=access.headers())
            status = connection.getresponse().status
        except (OSError, http.client.HTTPException) as error:
            return f"the schema registry: {error}"
        finally:
            connection.close()
        if status != http.client.OK:
            return f"the schema registry answered {status} to GET {path}"
    return None


def await_ready(
    name: str, process: Kept, log: Path, checks: Mapping[int, Check | None], deadline: float, *, since: int = 0
) -> None:
    """Wait until a server answers.

    Args:
        name: the server, for messages.
        process: its process.
        log: what it writes.
        checks: each of its ports, and what to ask there; None: it's enough that nobody else listens.
        deadline: when to give up, on the clock of `time.monotonic`.
        since: how long the log was when the process began, in bytes.

    Raises:
        PortTakenError: it couldn't get one of its ports.
        SandboxError: it ended, or didn't answer in time.
    """
    pending = dict(checks)
    reason: str | None = "it was not asked yet"
    while pending:
        if process.exit_code() is not None:
            if _BIND_FAILURE.search(_text(log, since)):
                raise PortTakenError(f"{name} couldn't listen: one of the ports {sorted(checks)} is taken")
            raise SandboxError(
                f"{name} ended while starting, with exit code {process.exit_code()}; see {log}\n{last_lines(log)}"
            )
        listening = listeners(checks, process.pid)
        for port in checks:
            if listening[port] is Listener.ANOTHER:
                raise PortTakenError(f"{name} couldn't listen on port {port}: another process does")
        if _BIND_FAILURE.search(_text(log, since)):
            raise PortTakenError(f"{name} couldn't listen: one of the ports {sorted(checks)} is taken")
        port, check = next(iter(pending.items()))
        if listening[port] is Listener.NOBODY:
            reason = f"nothing listens on port {port}"
        else:
            reason = check() if check else None
            if reason is None:
                del pending[port]
                continue
        if time.monotonic() > deadline:
            raise SandboxError(
                f"{name} didn't answer in time ({reason}); give it more time (--timeout, in Python timeout_s) "
                f"or memory (--heap), or see {log}\n{last_lines(log)}"
            )
        time.sleep(_POLL_S)


def last_lines(log: Path, count: int = _LAST_LINES) -> str:
    """The end of a log, for a message.

    Args:
        log: the file.
        count: how many lines.

    Returns:
        The last lines, indented, without those of stack traces.
    """
    lines = [line for line in _text(log).splitlines() if not line.startswith(("\tat ", "\t... "))]
    return "\n".join(f"  {line}" for line in lines[-count:])


def _text(log: Path, since: int = 0) -> str:
    try:
        with log.open("rb") as file:
            file.seek(since)
            return file.read().decode(errors="replace")
    except OSError:
        return ""
