"""`pravega-spark doctor`: what is here, and what answers."""

from __future__ import annotations

import argparse
import json
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING

from pyspark_pravega import __version__, serde
from pyspark_pravega.client import Client, Stream
from pyspark_pravega.client.reading import segment_state
from pyspark_pravega.errors import PravegaError
from pyspark_pravega.registry import SchemaRegistry
from pyspark_pravega.sandbox import places
from pyspark_pravega.settings import Settings
from pyspark_pravega.sql.commands import add_connection, resolve_settings
from pyspark_pravega.sql.session import shim_jar

if TYPE_CHECKING:
    from argparse import _SubParsersAction


@dataclass(frozen=True)
class Finding:
    """One line of the report."""

    what: str
    ok: bool
    text: str


def register(subparsers: _SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command.

    Args:
        subparsers: where to add it.
    """
    doctor = subparsers.add_parser(
        "doctor",
        help="check the installation, and whether the servers answer",
        description="Checks the installation and the servers. Exit code 0: all is well; 1: something isn't.",
    )
    add_connection(doctor)
    doctor.add_argument("--json", action="store_true", help="as JSON, for programs")
    doctor.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the report; returns the exit code."""
    found = list(examine(lambda: resolve_settings(arguments)))
    if arguments.json:
        print(json.dumps([asdict(finding) for finding in found], indent=2))
    else:
        width = max(len(finding.what) for finding in found)
        for finding in found:
            print(f"{'ok ' if finding.ok else 'BAD'}  {finding.what:{width}}  {finding.text}")
    return 0 if all(finding.ok for finding in found) else 1


def examine(settle: Callable[[], Settings]) -> Iterator[Finding]:
    """Look at everything; what can't be looked at because of something else is left out.

    Args:
        settle: gives the settings, or raises what is wrong with them.
    """
    packages = ", ".join(f"{name} {version(name)}" for name in ("pyspark", "pyarrow", "numpy", "grpcio"))
    yield Finding("packages", True, f"pyspark-pravega {__version__}, {packages}")
    yield _of("java", _java)
    yield _of("catalog jar", lambda: str(shim_jar()))
    yield Finding("codec", True, serde.describe())
    try:
        settings = settle()
        credentials = settings.credentials()
    except PravegaError as error:
        yield Finding("configuration", False, str(error))
        return
    who = type(credentials).__name__ if credentials else "no credentials"
    yield Finding("configuration", True, f"{', '.join(f'{k}={v}' for k, v in _shown(settings).items())}; {who}")
    with Client(settings) as client:
        controller = _of("controller", lambda: _controller(client))
        yield controller
        if controller.ok:
            yield _of("segment store", lambda: _segment_store(client))
    if settings.schema_registry_uri:
        yield _of("schema registry", lambda: _registry(settings))


def _of(what: str, look: Callable[[], str]) -> Finding:
    try:
        return Finding(what, True, look())
    except PravegaError as error:
        return Finding(what, False, str(error))


def _shown(settings: Settings) -> dict[str, str]:
    return settings.to_options(secrets=False)


def _java() -> str:
    said = subprocess.run([str(places.java()), "-version"], capture_output=True, text=True, check=False).stderr
    return said.splitlines()[0] if said else "it says nothing"


def _controller(client: Client) -> str:
    begun = time.monotonic()
    scopes = sum(1 for _ in client.controller.list_scopes())
    return f"{client.settings.controller_uri} answers in {(time.monotonic() - begun) * 1000:.0f} ms; {scopes} scopes"


def _segment_store(client: Client) -> str:
    """Asks about a segment of the first stream there is: without one there's nothing to ask a segment store about."""
    controller = client.controller
    for scope in controller.list_scopes():
        for name in controller.list_streams(scope):
            stream = Stream(scope, name)
            segments = controller.current_segments(stream).ids
            if segments:
                begun = time.monotonic()
                segment_state(client.pool, stream, segments[0])
                host, port = controller.endpoint(stream, segments[0])
                return f"{host}:{port} answers in {(time.monotonic() - begun) * 1000:.0f} ms"
    return "not asked: there is no stream yet"


def _registry(settings: Settings) -> str:
    assert settings.schema_registry_uri
    begun = time.monotonic()
    with SchemaRegistry(
        settings.schema_registry_uri,
        timeout=settings.timeout,
        credentials=settings.credentials(),
        tls=settings.tls,
    ) as registry:
        registry.ping()
    return f"{settings.schema_registry_uri} answers in {(time.monotonic() - begun) * 1000:.0f} ms"
