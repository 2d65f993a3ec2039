"""The sandbox that runs is found where nothing else names a controller, and errors name it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pyspark_pravega.catalog.process.service import settle_settings
from pyspark_pravega.client import Client
from pyspark_pravega.connector.shared import statement_settings
from pyspark_pravega.errors import ControllerUnavailableError
from pyspark_pravega.found import running_sandbox
from pyspark_pravega.sandbox import running
from pyspark_pravega.sandbox.processes import ProcessId
from pyspark_pravega.sandbox.state import State
from pyspark_pravega.settings import DEFAULT_CONTROLLER_URI, Settings
from pyspark_pravega.sql.session import completion

THERE, REGISTRY = "tcp://127.0.0.1:2", "http://127.0.0.1:3"


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    for name in [name for name in os.environ if name.startswith("PRAVEGA_")]:
        monkeypatch.delenv(name)
    monkeypatch.delenv(running.SAID, raising=False)


def start(folder: Path) -> None:
    """Write down that a sandbox runs, whose servers are this process."""
    own = ProcessId.of(os.getpid())
    assert own is not None
    data = folder / "pyspark-pravega" / "sandbox"
    data.mkdir(parents=True)
    State(
        controller_uri=THERE,
        schema_registry_uri=REGISTRY,
        data_dir=str(data),
        ready=True,
        detached=True,
        servers={"pravega": own},
        ports={},
        username="admin",
        password="secret",
    ).save()


@pytest.mark.parametrize("runs", [True, False])
def test_it_is_found_where_nothing_names_a_controller(
    runs: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if runs:
        start(tmp_path)
    wanted = (THERE, REGISTRY, "secret") if runs else (DEFAULT_CONTROLLER_URI, None, None)
    configured, missing = completion({}, "pravega", {"scope": "mine"})
    for found in (configured, settle_settings({}, {}), statement_settings({"stream": "a/b"}), Client().settings):
        assert (found.controller_uri, found.schema_registry_uri, found.password) == wanted
    assert ("spark.sql.catalog.pravega.controller-uri" in missing) == runs
    said = [f"pravega: using the running sandbox, Pravega 0.13, controller {THERE}, schema registry {REGISTRY}"]
    assert capsys.readouterr().err.splitlines() == (said if runs else [])


def test_a_program_and_what_it_starts_say_it_once_and_so_do_its_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    start(tmp_path)
    ask = [sys.executable, "-c", "from pyspark_pravega.found import running_sandbox; running_sandbox()"]

    def told(folder: str) -> int:
        """How often two processes that know nothing of each other say it, as Spark's workers."""
        for _ in range(2):
            subprocess.run(ask, env={**os.environ, "SPARK_LOCAL_DIRS": str(tmp_path / folder)}, check=True)
        return capfd.readouterr().err.count("using the running sandbox")

    # Spark gives them a folder of the program's own; one that a user names serves many programs.
    (tmp_path / "blockmgr-1").mkdir()
    assert told("blockmgr-1") == 1
    assert told("") == 2
    assert told("blockmgr-gone") == 2
    # What a program starts has nothing to say behind it.
    running_sandbox()
    assert capfd.readouterr().err.count("using the running sandbox") == 1
    assert told("") == 0


def test_it_is_not_asked_for_where_something_names_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    start(tmp_path)
    other = "tcp://other:1"
    named = [
        completion({"spark.sql.catalog.pravega.controllerUri": other}, "pravega", {})[0],
        completion({"spark.pravega.controller.uri": other}, "pravega", {})[0],
        completion({}, "pravega", {"controller-uri": other})[0],
        settle_settings({"controller": other}, {}),
        settle_settings({}, {"spark.pravega.controller-uri": other}),
        statement_settings({"controller-uri": other}),
    ]
    monkeypatch.setenv("PRAVEGA_CONTROLLER_URI", other)
    named += [completion({}, "pravega", {})[0], settle_settings({}, {}), statement_settings({}), Client().settings]
    assert {(one.controller_uri, one.schema_registry_uri, one.password) for one in named} == {(other, None, None)}
    assert capsys.readouterr().err == ""


def test_what_else_is_named_wins_over_what_is_the_sandbox_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start(tmp_path)
    monkeypatch.setenv("PRAVEGA_SCHEMA_REGISTRY_URI", "http://other:1")
    monkeypatch.setenv("PRAVEGA_AUTH_TOKEN", "token")
    found = completion({}, "pravega", {})[0]
    assert (found.controller_uri, found.schema_registry_uri) == (THERE, "http://other:1")
    assert (found.auth_token, found.username, found.password) == ("token", None, None)


def test_a_package_without_the_sandbox_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in the archives of `pravega-spark pack`."""
    start(tmp_path)
    monkeypatch.setitem(sys.modules, "pyspark_pravega.sandbox", None)
    monkeypatch.delitem(sys.modules, "pyspark_pravega.sandbox.running")
    assert running_sandbox() == {}


@pytest.mark.parametrize("runs", [True, False])
@pytest.mark.parametrize(
    "uri", ["tcp://127.0.0.1:1", "tcp://localhost:1", "tcp://[::1]:1", THERE, "tcp://no.invalid:1"]
)
def test_the_error_names_the_way_out(uri: str, runs: bool, tmp_path: Path) -> None:
    if runs:
        start(tmp_path)
    with pytest.raises(ControllerUnavailableError) as raised, Client(Settings(controller_uri=uri)) as client:
        list(client.controller.list_scopes())
    words = str(raised.value).partition("that the server is up")[2]
    if uri == "tcp://no.invalid:1":
        assert words == ""
    elif not runs:
        assert words == "; `pravega-spark sandbox start --detach` starts a Pravega on this machine"
    elif uri == THERE:
        assert words == "; it is the sandbox's, whose log `pravega-spark sandbox logs` shows"
    else:
        assert words.startswith(f"; a sandbox runs on this machine (Pravega 0.13, controller {THERE}")
        assert "isn't used, because another address is named" in words
