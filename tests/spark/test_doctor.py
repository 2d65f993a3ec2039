"""`pravega-spark doctor` tells what is here and what answers, and nothing secret."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from pyspark_pravega import cli
from pyspark_pravega.client import Client, Stream, StreamConfiguration
from pyspark_pravega.sandbox import Sandbox
from pyspark_pravega.sandbox.processes import ProcessId
from pyspark_pravega.sandbox.state import State
from pyspark_pravega.settings import Settings
from pyspark_pravega.spark import checks

pytestmark = [pytest.mark.server, pytest.mark.in_turn]


def doctor(environment: dict[str, str], *arguments: str) -> tuple[int, dict[str, dict[str, Any]], str]:
    """Exit code, the findings by what they are about, and everything that was printed.

    The command runs in this process: to start one costs a second of CPU. `test_people_get_lines` starts some.
    """
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        for name in [name for name in os.environ if name.startswith("PRAVEGA_")]:
            patch.delenv(name)
        # No sandbox of whoever runs the tests.
        for name, value in {"XDG_STATE_HOME": "/nowhere", **environment}.items():
            patch.setenv(name, value)
        code = cli.main(["doctor", "--json", *arguments])
    assert out.getvalue(), err.getvalue()
    found = {finding["what"]: finding for finding in json.loads(out.getvalue())}
    return code, found, out.getvalue() + err.getvalue()


@pytest.mark.parametrize("secure", [False, True])
def test_all_is_well_with_a_sandbox(request: pytest.FixtureRequest, sandbox: Sandbox, secure: bool) -> None:
    running: Sandbox = request.getfixturevalue("secure_sandbox") if secure else sandbox
    with Client(Settings.resolve(environ=running.environment())) as client:
        client.controller.create_scope("examined")
        client.controller.create_stream(Stream("examined", "s"), StreamConfiguration())
    code, found, printed = doctor(running.environment())
    assert code == 0, printed
    assert all(finding["ok"] for finding in found.values())
    expected = [
        "packages",
        "spark",
        "java",
        "catalog jar",
        "Spark's internals",
        "codec",
        "shared memory",
        "configuration",
        "sandbox",
        "controller",
        "segment store",
    ]
    assert list(found) == [*expected, "schema registry"]
    assert found["sandbox"]["text"] == "none runs; `pravega-spark sandbox start --detach` starts one"
    assert re.search(r"answers in \d+ ms; Pravega 0\.1\d", found["segment store"]["text"])
    assert running.environment().get("PRAVEGA_PASSWORD", "no secret") not in printed


def test_what_does_not_answer_is_told(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    code, found, _ = doctor({**sandbox.environment(), "PRAVEGA_SCHEMA_REGISTRY_URI": "http://127.0.0.1:1"})
    assert code == 1
    assert found["controller"]["ok"]
    assert not found["schema registry"]["ok"]
    # As on a busy machine.
    monkeypatch.setattr(checks, "_LIMIT_S", 0.01)
    code, found, _ = doctor({}, "--controller", "tcp://127.0.0.1:1")
    assert found["Spark's internals"] == {
        "what": "Spark's internals",
        "ok": False,
        "level": "skipped",
        "text": "not looked at, as Java took longer than 0.01 s: run doctor again when this machine is less busy",
    }
    assert code == 1
    assert "no Pravega controller answers at tcp://127.0.0.1:1" in found["controller"]["text"]
    assert found["segment store"]["level"] == "skipped"
    assert "the controller doesn't answer" in found["segment store"]["text"]


def test_wrong_credentials_are_told_and_not_shown(secure_sandbox: Sandbox) -> None:
    code, found, printed = doctor({**secure_sandbox.environment(), "PRAVEGA_PASSWORD": "hunter2"})
    assert code == 1
    assert "refused the credentials" in found["controller"]["text"]
    assert "hunter2" not in printed


def test_all_faults_are_told_not_only_the_first(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").write_text("not a program")
    (tmp_path / "bin" / "java").chmod(0o755)
    code, found, _ = doctor({"PRAVEGA_CONTROLLER_URI": "somewhere", "JAVA_HOME": str(tmp_path)})
    assert code == 1
    assert "controller-uri must look like" in found["configuration"]["text"]
    assert [what for what in found if found[what]["level"] == "bad"] == ["java", "configuration"]
    skipped = [what for what in found if found[what]["level"] == "skipped"]
    assert skipped == ["Spark's internals", "controller", "segment store", "schema registry"]


def test_an_authority_that_cannot_be_read_is_told(sandbox: Sandbox) -> None:
    code, found, _ = doctor({**sandbox.environment(), "PRAVEGA_TLS_CA": "/nowhere.pem"})
    assert code == 0, found  # Nothing here speaks TLS.
    code, found, _ = doctor({"PRAVEGA_CONTROLLER_URI": "tls://127.0.0.1:1", "PRAVEGA_TLS_CA": "/nowhere.pem"})
    assert code == 1
    assert "tls-ca /nowhere.pem can't be used" in found["controller"]["text"]


@pytest.mark.parametrize("native", [True, False])
def test_the_plain_codec_is_called_slow(sandbox: Sandbox, native: bool) -> None:
    if native:
        pytest.importorskip("pyspark_pravega_native")
    code, found, _ = doctor({**sandbox.environment(), "PYSPARK_PRAVEGA_NATIVE": "1" if native else "0"})
    assert code == 0
    assert found["codec"]["ok"]
    assert found["codec"]["level"] == ("ok" if native else "slow")
    assert ("pip install ./native" in found["codec"]["text"]) == (not native)


def crashed(state: Path, sandbox: Sandbox, *names: str) -> None:
    """Write the state of a sandbox at this one's address, of whose servers some are processes that were killed."""
    alive = ProcessId.of(os.getpid())
    victim = subprocess.Popen(["sleep", "60"])
    gone = ProcessId.of(victim.pid)
    assert alive is not None
    assert gone is not None
    victim.send_signal(signal.SIGKILL)
    victim.wait()
    folder = state / "pyspark-pravega" / "sandbox"
    folder.mkdir(parents=True)
    State(
        controller_uri=sandbox.controller_uri,
        schema_registry_uri=sandbox.schema_registry_uri,
        data_dir=str(folder),
        ready=True,
        detached=True,
        servers={name: gone if name in names else alive for name in ("pravega", "schema-registry")},
        ports={},
    ).save()


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (("pravega", "schema-registry"), "pravega and schema-registry ended without `pravega-spark sandbox stop`"),
        (("schema-registry",), "schema-registry ended without `pravega-spark sandbox stop`"),
    ],
)
def test_a_sandbox_that_crashed_is_told(sandbox: Sandbox, tmp_path: Path, names: tuple[str, ...], words: str) -> None:
    crashed(tmp_path, sandbox, *names)
    for environment in ({}, sandbox.environment()):
        code, found, _ = doctor({**environment, "XDG_STATE_HOME": str(tmp_path)})
        assert code == 1
        assert found["sandbox"]["level"] == "bad"
        assert words in found["sandbox"]["text"]
        assert "pravega-spark sandbox logs" in found["sandbox"]["text"]
    # Who uses another Pravega doesn't miss it, and is told that.
    _, found, _ = doctor({"PRAVEGA_CONTROLLER_URI": "tcp://127.0.0.1:1", "XDG_STATE_HOME": str(tmp_path)})
    assert found["sandbox"]["ok"]
    assert found["sandbox"]["text"].endswith("it isn't used: another address is named")


def test_a_sandbox_that_runs_is_told(sandbox: Sandbox, tmp_path: Path) -> None:
    crashed(tmp_path, sandbox)
    code, found, _ = doctor({"XDG_STATE_HOME": str(tmp_path)})
    assert code == 0
    assert found["sandbox"]["level"] == "ok"
    assert "isn't used" not in found["sandbox"]["text"]
    assert found["controller"]["level"] == "ok"


@pytest.mark.parametrize(("native", "marks"), [("0", {"ok", "slow"}), ("1", {"ok"})])
def test_people_get_lines(sandbox: Sandbox, tmp_path: Path, native: str, marks: set[str]) -> None:
    if native == "1":
        pytest.importorskip("pyspark_pravega_native")
    own = {"XDG_STATE_HOME": str(tmp_path), "PYSPARK_PRAVEGA_NATIVE": native}
    done = subprocess.run(
        [sys.executable, "-m", "pyspark_pravega.cli", "doctor"],
        env={**os.environ, **sandbox.environment(), **own},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0
    assert {line.split()[0] for line in done.stdout.splitlines()} == marks
