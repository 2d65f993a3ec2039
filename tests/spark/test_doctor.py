"""`pravega-spark doctor` tells what is here and what answers, and nothing secret."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from pyspark_pravega.client import Client, Stream, StreamConfiguration
from pyspark_pravega.sandbox import Sandbox
from pyspark_pravega.settings import Settings

pytestmark = pytest.mark.server


def doctor(environment: dict[str, str], *arguments: str) -> tuple[int, dict[str, dict[str, Any]], str]:
    """Exit code, the findings by what they are about, and everything that was printed."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith("PRAVEGA_")}
    done = subprocess.run(
        [sys.executable, "-m", "pyspark_pravega.cli", "doctor", "--json", *arguments],
        env={**clean, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout, done.stderr
    found = {finding["what"]: finding for finding in json.loads(done.stdout)}
    return done.returncode, found, done.stdout + done.stderr


@pytest.mark.parametrize("secure", [False, True])
def test_all_is_well_with_a_sandbox(request: pytest.FixtureRequest, sandbox: Sandbox, secure: bool) -> None:
    running: Sandbox = request.getfixturevalue("secure_sandbox") if secure else sandbox
    with Client(Settings.resolve(environ=running.environment())) as client:
        client.controller.create_scope("examined")
        client.controller.create_stream(Stream("examined", "s"), StreamConfiguration())
    code, found, printed = doctor(running.environment())
    assert code == 0, printed
    assert all(finding["ok"] for finding in found.values())
    expected = ["packages", "java", "catalog jar", "codec", "configuration", "controller", "segment store"]
    assert list(found) == [*expected, "schema registry"]
    assert "answers in" in found["segment store"]["text"]
    assert running.environment().get("PRAVEGA_PASSWORD", "no secret") not in printed


def test_what_does_not_answer_is_told(sandbox: Sandbox) -> None:
    code, found, _ = doctor({**sandbox.environment(), "PRAVEGA_SCHEMA_REGISTRY_URI": "http://127.0.0.1:1"})
    assert code == 1
    assert found["controller"]["ok"]
    assert not found["schema registry"]["ok"]
    code, found, _ = doctor({}, "--controller", "tcp://127.0.0.1:1")
    assert code == 1
    assert "no Pravega controller answers at tcp://127.0.0.1:1" in found["controller"]["text"]
    assert "segment store" not in found


def test_wrong_credentials_are_told_and_not_shown(secure_sandbox: Sandbox) -> None:
    code, found, printed = doctor({**secure_sandbox.environment(), "PRAVEGA_PASSWORD": "hunter2"})
    assert code == 1
    assert "refused the credentials" in found["controller"]["text"]
    assert "hunter2" not in printed


def test_a_malformed_setting_is_told(sandbox: Sandbox) -> None:
    code, found, _ = doctor({"PRAVEGA_CONTROLLER_URI": "somewhere"})
    assert code == 1
    assert "controller-uri must look like" in found["configuration"]["text"]
    assert "controller" not in found


def test_people_get_lines(sandbox: Sandbox) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pyspark_pravega.cli", "doctor"],
        env={**os.environ, **sandbox.environment()},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["ok"] * len(done.stdout.splitlines())
