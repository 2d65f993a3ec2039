"""What the live page costs: `python -m benchmarks.live`, the CPU of its server while it is looked at."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time

import httpx

from pyspark_pravega.client import Client, ScalingPolicy, Stream, StreamConfiguration
from pyspark_pravega.live.answers import Answers
from pyspark_pravega.live.server import LiveServer
from pyspark_pravega.sandbox import Sandbox
from pyspark_pravega.settings import Settings

_EVERY_S = 2.0
"""As the page asks."""
_WRITER = """
import sys, time
from pyspark_pravega.client import Client
from pyspark_pravega.settings import Settings
with Client(Settings.resolve()) as client:
    writers = [client.writer(f"live/s-{number}") for number in range(int(sys.argv[1]))]
    while True:
        for writer in writers:
            writer.write_batch([b"x" * 100] * 8, list("abcdefgh"))
            writer.flush()
        time.sleep(0.5)
"""
"""Writes to streams in another process, whose CPU isn't counted."""


def cores(url: str | None, path: str, seconds: float, every_s: float) -> float:
    """How much of a core this process uses while one page asks, or nobody."""
    with httpx.Client(timeout=60) as http:
        begun, used = time.monotonic(), time.process_time()
        while (passed := time.monotonic() - begun) < seconds:
            if url is not None:
                http.get(url + path).raise_for_status()
            time.sleep(every_s - (time.monotonic() - begun - passed) % every_s)
        return (time.process_time() - used) / (time.monotonic() - begun)


def main() -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=100)
    parser.add_argument("--segments", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=16)
    arguments = parser.parse_args()
    with Sandbox() as sandbox:
        settings = Settings.resolve(environ=sandbox.environment())
        with Client(settings) as client:
            client.controller.create_scope("live")
            streams = [Stream("live", f"s-{number}") for number in range(arguments.streams)]
            scaling = ScalingPolicy.fixed(arguments.segments)
            for stream in streams:
                client.controller.create_stream(stream, StreamConfiguration(scaling=scaling))
            with LiveServer(Answers(settings)) as server:
                table, one = "api/streams?count=200", f"api/stream?name={streams[0]}"
                # The first look opens what the others use.
                httpx.get(server.url + table, timeout=60).raise_for_status()
                nobody = cores(None, "", arguments.seconds / 2, _EVERY_S)
                command = [sys.executable, "-c", _WRITER, str(arguments.streams // 2)]
                writer = subprocess.Popen(command, env={**os.environ, **sandbox.environment()})
                written = cores(server.url, table, arguments.seconds, _EVERY_S)
                alone = cores(server.url, one, arguments.seconds / 2, _EVERY_S / 2)
                writer.terminate()
                writer.wait()
    what = f"{arguments.streams} streams of {arguments.segments} segments"
    for name, share in (
        ("nobody looks", nobody),
        (f"the table, {what}, half of them written", written),
        ("one stream's page", alone),
    ):
        print(f"{name}: {100 * share:.2f} % of a core")
    return 0


if __name__ == "__main__":
    sys.exit(main())
