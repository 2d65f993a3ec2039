"""Pravega's own Java client with the schema registry's serializers, for tests and benchmarks to compare with."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pyspark_pravega.errors import SandboxError
from pyspark_pravega.sandbox import Bundle, fetch, places

_HERE = Path(__file__).parent
JAVA_CLIENT = Bundle("java-client", _HERE / "java-client.xml", _HERE / "java-client.sha256")
"""pravega-client 0.13.0 and schemaregistry-serializers 0.6.0."""


@dataclass(frozen=True, kw_only=True)
class JavaPrograms:
    """Compiled programs and what they need on their class path."""

    classes: Path
    jars: Path
    controller_uri: str
    schema_registry_uri: str

    def command(self, main: str, *arguments: str, options: Sequence[str] = ()) -> list[str]:
        """The command line of a program.

        Args:
            main: its class.
            arguments: its arguments.
            options: more options for the JVM.
        """
        return [
            str(places.java()),
            # Java takes the terminal's encoding for its output otherwise, and ASCII where there's none.
            *("-Dfile.encoding=UTF-8", "-Dstdout.encoding=UTF-8", "-Dsun.stdout.encoding=UTF-8"),
            f"-Dcontroller={self.controller_uri}",
            f"-Dregistry={self.schema_registry_uri}",
            *options,
            main,
            *arguments,
        ]

    def environment(self) -> Mapping[str, str]:
        """The environment of a program: the class path is in it."""
        return {**os.environ, "CLASSPATH": class_path(self.classes, self.jars)}

    def run(self, main: str, *arguments: str, stdin: str = "", timeout_s: float = 120.0) -> str:
        """Run a program to its end.

        Args:
            main: its class.
            arguments: its arguments.
            stdin: what it reads.
            timeout_s: how long it may take, in seconds.

        Returns:
            What it printed.

        Raises:
            AssertionError: it failed; the message holds what it said.
        """
        ended = subprocess.run(
            self.command(main, *arguments),
            input=stdin,
            capture_output=True,
            encoding="utf-8",
            env=self.environment(),
            timeout=timeout_s,
            check=False,
        )
        if ended.returncode:
            raise AssertionError(f"{main} {' '.join(arguments)} ended with {ended.returncode}:\n{ended.stderr}")
        return ended.stdout


def compile_java(
    sources: Path, classes: Path, *, controller_uri: str, schema_registry_uri: str, cache: Path | None = None
) -> JavaPrograms:
    """Compile all programs of a folder.

    Args:
        sources: the folder with their `.java` files.
        classes: where the compiled classes go.
        controller_uri: `tcp://host:port`, which programs get as the property `controller`.
        schema_registry_uri: `http://host:port`, as `registry`.
        cache: where the jars are kept; the sandbox's cache when None.

    Raises:
        SandboxError: the jars can't be fetched, or there is no compiler.
        AssertionError: they don't compile; the message holds what the compiler said.
    """
    jars = fetch(JAVA_CLIENT, cache=cache)
    compiler = places.java().resolve().with_name("javac")
    if not compiler.exists():
        raise SandboxError(f"{compiler} is missing: a JDK is needed, not only a JRE; set JAVA_HOME to one")
    files = sorted(str(path) for path in sources.glob("*.java"))
    command = [str(compiler), "-encoding", "UTF-8", "-cp", class_path(jars), "-d", str(classes), *files]
    compiled = subprocess.run(command, capture_output=True, text=True, check=False)
    if compiled.returncode:
        raise AssertionError(f"{sources} doesn't compile:\n{compiled.stdout}{compiled.stderr}")
    return JavaPrograms(
        classes=classes, jars=jars, controller_uri=controller_uri, schema_registry_uri=schema_registry_uri
    )


def class_path(*folders: Path) -> str:
    """Folders of classes and the jars in them, in an order that doesn't depend on the file system.

    Args:
        folders: where classes or jars are.
    """
    return os.pathsep.join(str(path) for folder in folders for path in (folder, *sorted(folder.glob("*.jar"))))
