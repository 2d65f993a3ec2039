"""The official Java client beside ours: how long it stands still is what Pravega itself takes."""

from __future__ import annotations

import subprocess
from pathlib import Path

from server_cluster import ServerCluster
from server_history import SEGMENTS

from pyspark_pravega.client import Client, ScalingPolicy, Stream, StreamConfiguration
from tests.jars.java_client import compile_java


class JavaPulse:
    """A JVM that writes events, commits transactions and changes a key-value table until `close`."""

    def __init__(self, cluster: ServerCluster, scope: str, folder: Path) -> None:
        """Make what is written to, and begin.

        Args:
            cluster: the servers.
            scope: one of its own.
            folder: where classes and its log go.
        """
        configuration = StreamConfiguration(scaling=ScalingPolicy(min_segments=SEGMENTS))
        with Client(cluster.settings) as client:
            client.controller.create_scope(scope)
            for stream in ("direct", "whole"):
                client.controller.create_stream(Stream(scope, stream), configuration)
            client.create_key_value_table(scope, "counts", partitions=SEGMENTS, key_bytes=1)
        # With TLS it takes one address (docs/internals/controller-facts.md), and waits while that controller is gone.
        addresses = cluster.settings.controller_uri
        programs = compile_java(
            Path(__file__).parent / "java",
            folder,
            controller_uri=addresses.partition(",")[0] if addresses.startswith("tls") else addresses,
            schema_registry_uri=cluster.settings.schema_registry_uri or "",
        )
        with (folder / "pulse.log").open("w") as log:
            self._process = subprocess.Popen(
                programs.command("servers.Pulse", scope, options=["-Xmx256m"]),
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, env=programs.environment(),
            )  # fmt: skip
        settings = cluster.settings
        self._say(f"{settings.tls_ca or ''}\n{settings.username or ''}\n{settings.password or ''}\n")
        self.since_the_last()

    def since_the_last(self) -> dict[str, tuple[int, float, int]]:
        """What each thread has done since the last call.

        Returns:
            By `writer`, `transactions`, `counter`: how many steps, the longest time between two of them in seconds, how
            many have failed.
        """
        self._say("\n")
        assert self._process.stdout is not None
        told = {}
        while line := self._process.stdout.readline().strip():
            name, done, longest_ms, failed = line.split("\t")
            told[name] = (int(done), int(longest_ms) / 1000, int(failed))
        assert told, "the Java client has ended"
        return told

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.communicate()

    def _say(self, text: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(text)
        self._process.stdin.flush()


def java_words(told: dict[str, tuple[int, float, int]]) -> str:
    """How the Java client fared, for people."""
    return "\n".join(
        f"  Java's {name}: {done} steps, the longest {longest_s:.1f} s, {failed} failures"
        for name, (done, longest_s, failed) in told.items()
    )
