"""Streams with more segments than a process may open files: connections are shared, and what is missing has a name."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from client_tools import make_stream

from pyspark_pravega.client import Client
from pyspark_pravega.settings import Settings

pytestmark = pytest.mark.server

MAY_OPEN, SEGMENTS = 128, 200
PROGRAM = """
import json, os, resource, sys
from pyspark_pravega.client import Client, Stream
from pyspark_pravega.errors import PravegaError
from pyspark_pravega.settings import Settings

way, options, scope, may_open = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3], int(sys.argv[4])
resource.setrlimit(resource.RLIMIT_NOFILE, (may_open, may_open))
stream = Stream(scope, "t")
client = Client(Settings.resolve(options, environ={}))
keys = [str(number) for number in range(5_000)]
rounds = [[f"{turn}/{key}".encode() for key in keys] for turn in range(3)]
try:
    if way == "nothing left":
        client.tail(stream)
        client.pool.close()
        files = []
        try:
            while True:
                files.append(os.open(os.devnull, os.O_RDONLY))
        except OSError:
            pass
        client.tail(stream)
    elif way == "transaction":
        with client.transaction(stream) as transaction:
            for events in rounds:
                transaction.write_batch(events, keys)
                transaction.flush()
    else:
        with client.writer(stream) as writer:
            for events in rounds:
                writer.write_batch(events, keys)
                writer.flush()
    read = {}
    for batch in client.read(stream):
        for event in batch.payloads.to_pylist():
            turn, _, key = event.decode().partition("/")
            read.setdefault(key, []).append(int(turn))
    assert read == {key: [0, 1, 2] for key in keys}, "events are missing, doubled or out of order"
    print("all is there")
except PravegaError as error:
    print(f"{type(error).__name__}: {error}")
"""


def run(way: str, settings: Settings, scope: str) -> str:
    options = {"controller-uri": settings.controller_uri, "timeout": "10"}
    command = [sys.executable, "-c", PROGRAM, way, json.dumps(options), scope, str(MAY_OPEN)]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert finished.returncode == 0, finished.stderr
    return finished.stdout.strip()


@pytest.mark.parametrize("way", ["transaction", "direct"])
@pytest.mark.in_turn
def test_a_stream_may_have_more_segments_than_a_process_opens_files(
    client: Client, settings: Settings, scope: str, way: str
) -> None:
    make_stream(client, scope, "t", segments=SEGMENTS)
    assert run(way, settings, scope) == "all is there"


def test_a_process_that_may_open_no_more_files_is_told_so(client: Client, settings: Settings, scope: str) -> None:
    make_stream(client, scope, "t", segments=2)
    said = run("nothing left", settings, scope)
    assert said.startswith("OpenFilesError: no connection to segment store ")
    assert f"this process may open {MAY_OPEN} files (EMFILE)" in said
    assert "raise the limit, as by `ulimit -n`" in said
