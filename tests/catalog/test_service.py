"""The catalog process over real pipes: one JSON document a line, answers in any order."""

from __future__ import annotations

import itertools
import json
import os
import select
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from catalog_tools import make
from pyspark.sql.types import LongType, StructField, StructType

from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.catalog.process.service import lines_of
from pyspark_pravega.connector.log import create_ledger
from pyspark_pravega.settings import Settings

QUICK: tuple[str, dict[str, Any]] = ("stopStream", {"id": "none"})
"""A request for which no server is asked."""
COLUMNS = StructType([StructField("id", LongType(), False)])


class Service:
    """A catalog process and both ends of its pipes."""

    def __init__(
        self,
        options: Mapping[str, str],
        session: Mapping[str, str] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._ids = itertools.count(1)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "pyspark_pravega.catalog.process.service"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            env={**os.environ, **(environment or {})},
        )
        self._write({"options": dict(options), "session": dict(session or {})})
        self.greeting = self.receive()

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()

    def _write(self, document: Mapping[str, Any]) -> None:
        assert self.process.stdin
        self.process.stdin.write(json.dumps(document, ensure_ascii=False) + "\n")
        self.process.stdin.flush()

    def send(self, method: str, **params: Any) -> int:
        request = next(self._ids)
        self._write({"id": request, "method": method, "params": params})
        return request

    def receive(self) -> dict[str, Any]:
        assert self.process.stdout
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        return answer

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """The answer to a request while no other is under way."""
        request = self.send(method, **params)
        answer = self.receive()
        assert answer["id"] == request
        return answer


@pytest.fixture(scope="module")
def service(settings: Settings) -> Iterator[Service]:
    started = Service(settings.to_options())
    yield started
    started.close()


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of a controller that never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"tcp://127.0.0.1:{listener.getsockname()[1]}"


server = pytest.mark.server


@server
def test_the_first_answer_tells_what_the_jvm_needs_to_know(service: Service) -> None:
    greeting = service.greeting
    assert greeting["id"] == 0
    assert set(greeting["result"]) == {"metadata", "scope", "checkedOptions", "python"}
    assert [field["name"] for field in json.loads(greeting["result"]["metadata"])["fields"]] == [
        "_stream", "_segment", "_offset", "_encoding_id", "_event_size", "_corrupt_event", "_corrupt_record",
    ]  # fmt: skip
    assert greeting["result"]["python"] == f"{sys.version_info.major}.{sys.version_info.minor}"
    assert service.call(QUICK[0], **QUICK[1])["result"] is None


@server
def test_a_table_is_made_loaded_and_dropped_over_the_pipe(service: Service, scope: str) -> None:
    properties = {"routing-key": "id", "segments": "2"}
    table = service.call(
        "createTable",
        namespace=[scope],
        table="all_orders",
        schema=json.loads(COLUMNS.json()),
        transforms=[],
        properties=properties,
        checks=[],
    )["result"]
    assert table["stream"] == f"{scope}/all-orders"
    assert StructType.fromJson(json.loads(table["schema"])) == COLUMNS
    assert table["properties"]["codec"].startswith("avro, ")
    loaded = {key: value for key, value in table["properties"].items() if key != "codec"}
    assert loaded == {"provider": "pravega", "format": "avro", "routing-key": "id"}
    shown = service.call("tableProperties", namespace=[scope], table="all_orders")["result"]
    del shown["codec"]
    assert shown == {"provider": "pravega", "format": "avro", "compatibility": "Backward", **properties}
    assert service.call("loadRelation", namespace=[scope], table="all_orders")["result"] == table
    assert service.call("listTables", namespace=[scope])["result"] == ["all_orders"]
    planned = service.call("planScan", namespace=[scope], table="all_orders", columns=["id"], options={})["result"]
    assert (planned["size"], planned["segments"]) == (0, 0)
    assert len(planned["partitions"]) == 1
    assert service.call("dropTable", namespace=[scope], table="all_orders")["result"] is True
    assert service.call("dropTable", namespace=[scope], table="all_orders")["result"] is False


@server
@pytest.mark.parametrize(
    ("method", "params", "kind", "condition"),
    [
        ("loadRelation", {"table": "missing"}, "no-such-table", "PRAVEGA_STREAM_NOT_FOUND"),
        ("createNamespace", {"properties": {}}, "namespace-exists", "PRAVEGA_SCOPE_EXISTS"),
        ("loadRelation", {"table": "a/b"}, "other", "PRAVEGA_INVALID_NAME"),
        ("loadNamespace", {"namespace": ["test-nowhere"]}, "no-such-namespace", "PRAVEGA_SCOPE_NOT_FOUND"),
        ("listTables", {"namespace": ["test-nowhere"]}, "no-such-namespace", "PRAVEGA_SCOPE_NOT_FOUND"),
        ("listTables", {"namespace": ["a", "b"]}, "other", "PRAVEGA_INVALID_NAME"),
    ],
)
def test_an_error_has_its_kind_its_condition_and_its_words(
    service: Service, scope: str, method: str, params: dict[str, Any], kind: str, condition: str
) -> None:
    error = service.call(method, **{"namespace": [scope], **params})["error"]
    assert (error["kind"], error["condition"]) == (kind, condition)
    assert error["message"]
    assert "Traceback" not in error["message"]


@server
def test_tables_and_namespaces_that_are_there_are_errors_of_their_kind(service: Service, scope: str) -> None:
    table = {
        "namespace": [scope], "table": "t", "schema": json.loads(COLUMNS.json()),
        "transforms": [], "properties": {}, "checks": [],
    }  # fmt: skip
    assert "result" in service.call("createTable", **table)
    assert service.call("createTable", **table)["error"]["kind"] == "table-exists"
    assert service.call("dropNamespace", namespace=[scope], cascade=False)["error"]["kind"] == "namespace-not-empty"
    assert service.call("dropNamespace", namespace=[scope], cascade=True)["result"] is True


@server
@pytest.mark.parametrize(
    ("method", "params"), [("noSuchMethod", {}), ("stopStream", {"id": "none", "surprise": 1}), ("loadRelation", {})]
)
def test_a_request_that_makes_no_sense_is_an_error_and_the_process_goes_on(
    service: Service, method: str, params: dict[str, Any]
) -> None:
    error = service.call(method, **params)["error"]
    assert (error["kind"], error["condition"]) == ("other", "PRAVEGA_ERROR")
    assert service.call(QUICK[0], **QUICK[1])["result"] is None


@server
def test_many_requests_at_once_are_each_answered_once(service: Service, scope: str) -> None:
    sent = {}
    for number in range(150):
        requests: list[tuple[str, dict[str, Any]]] = [
            QUICK,
            ("loadNamespace", {"namespace": [scope]}),
            ("loadRelation", {"namespace": [scope], "table": f"missing{number}"}),
        ]
        method, params = requests[number % 3]
        sent[service.send(method, **params)] = (method, number)
    answers = [service.receive() for _ in sent]
    assert sorted(answer["id"] for answer in answers) == sorted(sent)
    for answer in answers:
        method, number = sent[answer["id"]]
        if method == QUICK[0]:
            assert answer["result"] is None
        elif method == "loadNamespace":
            assert answer["result"] == {"scope": scope}
        else:
            assert f"missing{number}" in answer["error"]["message"]


@server
def test_a_long_answer_comes_in_pieces(service: Service, scope: str) -> None:
    """A line of many megabytes would hold up the answers of all other sessions."""
    table = {"namespace": [scope], "table": "t"}
    service.call("createTable", **table, schema=json.loads(COLUMNS.json()), transforms=[], properties={}, checks=[])
    rows = {"namespace": [scope], "table": "t$properties"}
    short = service.call("metadataRows", **rows, columns=["key", "value"])["result"]
    expected = {**short, "rows": [row * 20_000 for row in short["rows"]]}
    long = service.send("metadataRows", **rows, columns=["key", "value"] * 20_000)
    quick = service.send(QUICK[0], **QUICK[1])
    received: dict[int, list[dict[str, Any]]] = {long: [], quick: []}
    while not received[quick] or not received[long] or not received[long][-1]["last"]:
        answer = service.receive()
        received[answer["id"]].append(answer)
    assert received[quick] == [{"id": quick, "result": None}]
    pieces = received[long]
    assert [piece["last"] for piece in pieces] == [*([False] * (len(pieces) - 1)), True]
    assert len(pieces) > 1
    assert max(len(piece["piece"]) for piece in pieces) == 1 << 20
    assert json.loads("".join(piece["piece"] for piece in pieces)) == {"id": long, "result": expected}


@server
def test_requests_are_utf_8_whatever_the_locale_is(settings: Settings, scope: str) -> None:
    service = Service(settings.to_options(), environment={"PYTHONIOENCODING": "latin-1"})
    try:
        answer = service.call("createNamespace", namespace=[scope, "größe"], properties={})
        assert "größe" in answer["error"]["message"]
    finally:
        service.close()


@server
def test_a_slow_request_holds_up_no_other(service: Service, scope: str, silent: str) -> None:
    service.call(
        "createTable",
        namespace=[scope],
        table="t",
        schema=json.loads(COLUMNS.json()),
        transforms=[],
        properties={},
        checks=[],
    )
    options = {"controller-uri": silent, "timeout": "3"}
    slow = service.send("planScan", namespace=[scope], table="t", columns=[], options=options)
    quick = service.send(QUICK[0], **QUICK[1])
    assert service.receive()["id"] == quick
    answer = service.receive()
    assert answer["id"] == slow
    assert answer["error"]["condition"] == "PRAVEGA_CONTROLLER_UNAVAILABLE"
    assert silent in answer["error"]["message"]


@server
@pytest.mark.in_turn
def test_statements_that_wait_for_one_table_hold_up_no_other(settings: Settings, catalog: Catalog, scope: str) -> None:
    """However many there are: whoever commits must not wait in their queue."""
    sick, well = make(catalog, scope, "sick"), make(catalog, scope, "well")
    column = {"kind": "AddColumn", "type": '"long"', "nullable": True, "comment": None}
    started = Service(settings.to_options())
    try:
        with create_ledger(catalog.client, sick).schemas_locked():
            for number in range(100):
                changes = [{**column, "column": [f"c{number}"], "default": None}]
                started.send("alterTable", namespace=[scope], table="sick", changes=changes)
            asked = started.send("loadRelation", namespace=[scope], table=well.name)
            answer = started.receive()
            assert (answer["id"], answer["result"]["stream"]) == (asked, str(well))
    finally:
        started.close()


def test_each_request_is_answered(tmp_path: Path) -> None:
    """Also where a class of the user's ends its thread, and where JSON can't hold the answer."""
    (tmp_path / "a_format_that_exits.py").write_text("raise SystemExit(3)")
    started = Service({"format-classes": "*"}, environment={"PYTHONPATH": str(tmp_path)})
    try:
        answer = started.call(
            "createTable",
            namespace=["s"],
            table="t",
            schema=json.loads(COLUMNS.json()),
            transforms=[],
            properties={"format": "a_format_that_exits:Any"},
            checks=[],
        )
        assert "unexpected SystemExit: 3" in answer["error"]["message"]
        assert started.call(QUICK[0], **QUICK[1])["result"] is None
    finally:
        started.close()
    for result in ({1, 2}, float("nan"), {"rows": [[float("inf")]]}, b"x"):
        (line,) = lines_of({"id": 7, "result": result})
        assert json.loads(line)["id"] == 7
        assert json.loads(line)["error"]["condition"] == "PRAVEGA_ERROR"


@pytest.mark.parametrize(
    ("options", "session", "words"),
    [
        ({"controler-uri": "x"}, {}, 'unknown catalog configuration "controler-uri"; did you mean "controller-uri"?'),
        ({"controller-uri": "nowhere"}, {}, "controller-uri must look like"),
        ({}, {"spark.pravega.tiemout": "1"}, 'unknown configuration "spark.pravega.tiemout"; did you mean "timeout"?'),
        (
            {"timeout": "soon"},
            {},
            '"timeout" must be seconds, or a time like 2 min, above 0 and below 3600 s, not "soon"',
        ),
    ],
)
def test_a_wrong_configuration_is_the_only_answer(options: dict[str, str], session: dict[str, str], words: str) -> None:
    service = Service(options, session)
    try:
        assert service.greeting["id"] == 0
        assert service.greeting["error"]["condition"] == "PRAVEGA_INVALID_CONFIGURATION"
        assert words in service.greeting["error"]["message"]
        assert service.process.wait(30) == 0
    finally:
        service.close()


def test_the_process_ends_with_its_input_though_a_request_still_waits(silent: str) -> None:
    service = Service({"controller-uri": silent, "timeout": "3000"})
    try:
        service.send("listNamespaces")
        quick = service.send(QUICK[0], **QUICK[1])
        assert service.receive()["id"] == quick
        assert service.process.stdin
        service.process.stdin.close()
        # Much sooner than the request would give up.
        assert service.process.wait(300) == 0
    finally:
        service.process.stdin = None
        service.close()


def test_a_program_that_ends_while_it_is_answered_hears_nothing_of_it(settings: Settings) -> None:
    """The JVM is gone, and its process still makes answers."""
    leaving = Service(settings.to_options())
    assert leaving.process.stdout
    assert leaving.process.stdin
    assert leaving.process.stderr
    leaving.process.stdout.close()
    for _ in range(5):
        leaving.send("listNamespaces")
    # It has made one, and found nobody, before its input ends.
    assert select.select([leaving.process.stderr], [], [], 1.0)[0] == []
    leaving.process.stdin.close()
    assert leaving.process.wait(30) == 0
    assert leaving.process.stderr.read() == ""
    leaving.process.stderr.close()
