"""A program that has used the client may start others, as pyspark starts its JVM: between fork and exec."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from pyspark_pravega.sandbox import Sandbox

PROGRAM = """
import subprocess, sys
from pyspark_pravega.client import Client
from pyspark_pravega.settings import Settings

with Client(Settings.resolve()) as client:
    codes = []
    for _ in range(150):
        list(client.controller.list_scopes())
        codes.append(subprocess.run(["true"], preexec_fn=lambda: None).returncode)
print(codes.count(0))
"""


@pytest.mark.server
def test_children_start_after_the_client_was_used(sandbox: Sandbox) -> None:
    process = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, **sandbox.environment()},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert process.stdout == "150\n", process.stderr
