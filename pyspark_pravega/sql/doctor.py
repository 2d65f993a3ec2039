"""`pravega-spark doctor`: what is here, and what answers."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from enum import StrEnum
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from pyspark_pravega import __version__, serde
from pyspark_pravega.client import Client, Stream
from pyspark_pravega.client.segments import segment_state
from pyspark_pravega.connector import handover
from pyspark_pravega.errors import PravegaError
from pyspark_pravega.frames import native_module
from pyspark_pravega.registry import SchemaRegistry
from pyspark_pravega.sandbox import places, running, state
from pyspark_pravega.serde.native import SLOWER
from pyspark_pravega.settings import DEFAULT_CONTROLLER_URI, Settings
from pyspark_pravega.spark import INSTALL, Spark, checks, find
from pyspark_pravega.spark.jars import jar
from pyspark_pravega.sql.commands import add_connection, resolve_settings

if TYPE_CHECKING:
    from argparse import _SubParsersAction


class Level(StrEnum):
    """How good a finding is."""

    OK = "ok"
    SLOW = "slow"
    """It works, but there's a faster way."""
    NONE = "none"
    """It isn't here, and all else does without."""
    BAD = "bad"
    SKIPPED = "skipped"
    """It couldn't be looked at, because something else is bad."""


_MARKS = {Level.OK: "ok", Level.SLOW: "slow", Level.NONE: "none", Level.BAD: "BAD", Level.SKIPPED: "-"}
_INTERNALS = "Spark's internals"
_LOOK_AT_LOGS = "`pravega-spark sandbox logs` tells more, `pravega-spark sandbox start` starts a new one"


@dataclass(frozen=True)
class Finding:
    """One line of the report."""

    what: str
    level: Level
    text: str

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return self.level in (Level.OK, Level.SLOW, Level.NONE)

    def to_json(self) -> dict[str, object]:
        """The same for programs."""
        return {"what": self.what, "ok": self.ok, "level": self.level, "text": self.text}


def register(subparsers: _SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command.

    Args:
        subparsers: where to add it.
    """
    doctor = subparsers.add_parser(
        "doctor",
        description="Checks the installation and the servers. Exit code 0: all is well; 1: something isn't. "
        "Example: pravega-spark doctor --json",
    )
    add_connection(doctor)
    doctor.add_argument("--json", action="store_true", help="as JSON, for programs")
    doctor.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the report; returns the exit code."""
    findings = list(examine(lambda: resolve_settings(arguments)))
    if arguments.json:
        print(json.dumps([finding.to_json() for finding in findings], indent=2))
    else:
        width = max(len(finding.what) for finding in findings)
        for finding in findings:
            print(f"{_MARKS[finding.level]:4}  {finding.what:{width}}  {finding.text}")
    return 0 if all(finding.ok for finding in findings) else 1


def examine(settle: Callable[[], Settings]) -> Iterator[Finding]:
    """Look at everything, also after something bad was found.

    Args:
        settle: gives the settings, or raises what is wrong with them.
    """
    spark = find()
    yield _of("packages", _packages)
    yield _spark(spark)
    java = _java(spark)
    yield java
    yield from _jvm(spark, java)
    yield _codec()
    try:
        settings = settle().at_a_glance
        credentials = settings.credentials()
    except PravegaError as error:
        yield Finding("configuration", Level.BAD, str(error))
        for what in ("controller", "segment store", "schema registry"):
            yield Finding(what, Level.SKIPPED, "not asked, as the configuration is wrong")
        return
    who = type(credentials).__name__ if credentials else "no credentials"
    if spark is not None:
        yield _shared_memory(settings)
    options = ", ".join(f"{key}={value}" for key, value in _shown(settings).items())
    yield Finding("configuration", Level.OK, f"{options}; {who}")
    yield _sandbox(settings)
    with ExitStack() as stack:
        try:
            client = stack.enter_context(Client(settings))
            controller = _of("controller", lambda: _controller(client))
            yield controller
        except PravegaError as error:
            controller = Finding("controller", Level.BAD, str(error))
            yield controller
        if controller.ok:
            yield _of("segment store", lambda: _segment_store(client))
        else:
            yield Finding("segment store", Level.SKIPPED, "not asked, as the controller doesn't answer")
    if settings.schema_registry_uri:
        yield _of("schema registry", lambda: _registry(settings))


def _of(what: str, look: Callable[[], str]) -> Finding:
    try:
        return Finding(what, Level.OK, look())
    except (PravegaError, OSError, PackageNotFoundError) as error:
        return Finding(what, Level.BAD, str(error))


def _packages() -> str:
    packages = ", ".join(f"{name} {version(name)}" for name in ("pyarrow", "numpy", "grpcio"))
    return f"pyspark-pravega {__version__}, {packages}"


def _spark(spark: Spark | None) -> Finding:
    if spark is not None:
        return Finding("spark", Level.OK, f"{spark.version} in {spark.home}")
    words = "SQL, PySpark and Spark's servers need one; the client, streams, tail, put, ui and the sandbox don't"
    return Finding("spark", Level.NONE, f"not here: {words}; {INSTALL}, or activate the environment that has Spark")


def _java(spark: Spark | None) -> Finding:
    if spark is None and not os.environ.get("JAVA_HOME") and shutil.which("java") is None:
        return Finding("java", Level.NONE, "not here: Spark and the sandbox need one")
    return _of("java", _java_version)


def _jvm(spark: Spark | None, java: Finding) -> Iterator[Finding]:
    """The jar for the Spark that is here, and what this package uses of that Spark's internals."""
    what = "catalog jar"
    if spark is None:
        yield Finding(what, Level.NONE, "not looked for, as there is no Spark")
        return
    fitting = _of(what, lambda: str(jar(spark.version)))
    yield fitting
    if not fitting.ok:
        yield Finding(_INTERNALS, Level.SKIPPED, "not looked at, as no jar fits this Spark")
        return
    if not java.ok:
        yield Finding(_INTERNALS, Level.SKIPPED, "not looked at, as Java doesn't run")
        return
    try:
        problems = checks.internals(places.java(), spark)
    except subprocess.TimeoutExpired as late:
        took = f"Java took longer than {late.timeout:g} s"
        words = f"not looked at, as {took}: run doctor again when this machine is less busy"
        yield Finding(_INTERNALS, Level.SKIPPED, words)
        return
    except (PravegaError, OSError, ImportError) as error:
        yield Finding(_INTERNALS, Level.BAD, f"can't be looked at: {error}")
        return
    wrong = [f"{name}: {problem}" for name, problem in problems.items() if problem is not None]
    if wrong:
        yield Finding(_INTERNALS, Level.BAD, f"otherwise than expected: {'; '.join(wrong)}")
    else:
        yield Finding(_INTERNALS, Level.OK, f"as expected: {', '.join(problems)}")


def _codec() -> Finding:
    if native_module.module() is not None:
        return Finding("codec", Level.OK, serde.describe())
    way = "`pip install ./native` in a clone builds that, with Rust 1.88 or newer"
    return Finding("codec", Level.SLOW, f"{serde.describe()}: {SLOWER}; {way}")


def _shared_memory(settings: Settings) -> Finding:
    what, otherwise = "shared memory", "rows go from Python workers to tasks through sockets"
    if not settings.shared_memory:
        return Finding(what, Level.OK, f'not used, as "shared-memory" is 0: {otherwise}')
    missing = handover.why_not(settings.shared_memory) or _why_unreadable(settings.shared_memory)
    if missing is not None:
        return Finding(what, Level.SLOW, f"{missing}: {otherwise}")
    size = settings.shared_memory >> 20
    return Finding(what, Level.OK, f"used: tasks that read share up to {size} MiB each with their Python workers")


def _why_unreadable(size: int) -> str | None:
    """What keeps another process of this user from a memory file of this one: the JVM opens those of its workers."""
    ring = handover.Ring(size)
    script = f"exec 3<>/proc/{os.getpid()}/fd/{ring.file}"
    try:
        done = subprocess.run(["/bin/sh", "-c", script], capture_output=True, text=True, check=False)
    finally:
        ring.close()
    reason = done.stderr.strip().rpartition(": ")[2]
    return f"files of another process can't be opened in /proc here ({reason})" if done.returncode else None


def _sandbox(settings: Settings) -> Finding:
    """The sandbox of this user. It is bad only where these settings mean it, or mean nothing in particular."""
    folder = places.state_folder()
    sandbox = state.load(folder)
    if sandbox is None:
        return Finding("sandbox", Level.OK, f"none runs; `{running.START}` starts one")
    ended = " and ".join(sandbox.ended())
    unused = "" if settings.controller_uri == sandbox.controller_uri else "; it isn't used: another address is named"
    if not ended:
        words = f"the one in {folder} is {sandbox.health().value}, {sandbox.addresses()}{unused}"
        return Finding("sandbox", Level.OK, words)
    meant = settings.controller_uri in (sandbox.controller_uri, DEFAULT_CONTROLLER_URI)
    words = f"{ended} ended without `pravega-spark sandbox stop` (killed, crashed, or this machine went down)"
    level = Level.BAD if meant else Level.OK
    return Finding(
        "sandbox", level, f"the one in {folder} is broken: {words}; {_LOOK_AT_LOGS}{'' if meant else unused}"
    )


def _shown(settings: Settings) -> dict[str, str]:
    # Shared memory has a line of its own.
    return {key: value for key, value in settings.to_options(secrets=False).items() if key != "shared-memory"}


def _java_version() -> str:
    output = subprocess.run([str(places.java()), "-version"], capture_output=True, text=True, check=False).stderr
    return output.splitlines()[0] if output else "it says nothing"


def _controller(client: Client) -> str:
    begin = time.monotonic()
    scopes = sum(1 for _ in client.controller.list_scopes())
    took_ms = (time.monotonic() - begin) * 1000
    return f"{client.settings.controller_uri} answers in {took_ms:.0f} ms; {scopes} scope{'' if scopes == 1 else 's'}"


def _segment_store(client: Client) -> str:
    """Asks about a segment of the first stream there is: without one there's nothing to ask a segment store about."""
    controller = client.controller
    for scope in controller.list_scopes():
        for name in controller.list_streams(scope):
            stream = Stream(scope, name)
            segments = controller.current_segments(stream).ids
            if segments:
                begin = time.monotonic()
                segment_state(client.pool, stream, segments[0])
                took = f"{(time.monotonic() - begin) * 1000:.0f} ms"
                with client.pool.connection(stream, segments[0]) as connection:
                    host, port = connection.endpoint
                    return f"{host}:{port} answers in {took}; {connection.greeting.release}"
    return "not asked: there is no stream yet"


def _registry(settings: Settings) -> str:
    assert settings.schema_registry_uri
    begin = time.monotonic()
    with SchemaRegistry(
        settings.schema_registry_uri,
        timeout=settings.timeout,
        credentials=settings.credentials(),
        tls=settings.tls,
    ) as registry:
        registry.ping()
    return f"{settings.schema_registry_uri} answers in {(time.monotonic() - begin) * 1000:.0f} ms"
