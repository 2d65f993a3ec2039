"""What the live page, `top` and collectors are told, beside what client, catalog and Prometheus' parser say."""

from __future__ import annotations

import http.client
import json
import os
import pty
import re
import socket
import stat
import sys
import termios
import time
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest
from catalog_tools import insert, make, plan
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from pyspark.sql.types import DecimalType, LongType, StructType, TimestampType
from waiting import eventually

from examples.nyc_flights import live_page
from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.catalog.ddl import AddColumn
from pyspark_pravega.cli import main
from pyspark_pravega.client import Client, ScalingPolicy, Stream, StreamConfiguration
from pyspark_pravega.connector.options import WriteOptions
from pyspark_pravega.connector.shared import shared_client
from pyspark_pravega.connector.stream import SourceOffset, StreamFrontier
from pyspark_pravega.connector.write import WriteJob, WritePlan
from pyspark_pravega.connector.write.plan import Epoch
from pyspark_pravega.live import tables
from pyspark_pravega.live.answers import Answers
from pyspark_pravega.live.commands import _token
from pyspark_pravega.live.metrics import METRICS
from pyspark_pravega.live.server import FILES, LiveServer
from pyspark_pravega.live.top import short
from pyspark_pravega.sandbox import Sandbox
from pyspark_pravega.settings import Settings
from pyspark_pravega.sql.checkpoints import Folder

PATIENCE_S = 60.0
ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.usefixtures("no_sample_is_young")


@pytest.fixture
def server(answers: Answers) -> Iterator[LiveServer]:
    with LiveServer(answers) as running:
        yield running


def lines(answers: Answers) -> dict[str, dict[str, Any]]:
    return {line["stream"]: line for line in answers.streams(count=100)["lines"]}


def size(client: Client, stream: Stream) -> int:
    return sum(part.size for part in client.plan(stream))


def test_samples_tell_what_the_client_tells(catalog: Catalog, client: Client, scope: str, answers: Answers) -> None:
    """Commits and direct events, before and after a scale; a stream that comes and one that goes."""
    table, raw = make(catalog, scope, "orders", segments=2), Stream(scope, "raw")
    client.controller.create_stream(raw, StreamConfiguration(scaling=ScalingPolicy.fixed(3)))
    insert(catalog, table, *range(100))
    first = lines(answers)
    assert (first[str(table)]["rows"], first[str(table)]["version"]) == (100, 1)
    # It was committed before anybody looked, and a moment ago.
    assert first[str(table)]["bytes_in"] > 0
    assert first[str(raw)]["bytes_in"] is None
    assert (first[str(raw)]["bytes"], first[str(raw)]["rows"], first[str(raw)]["segments"]) == (0, None, 3)

    insert(catalog, table, *range(100, 140))
    with client.writer(raw) as writer:
        writer.write_batch([b"x" * 10] * 50, [str(number) for number in range(50)])
    second = lines(answers)
    assert second[str(table)]["bytes"] == second[str(table)]["written_bytes"] == size(client, table)
    assert (second[str(table)]["rows"], second[str(table)]["written_events"]) == (140, 140)
    assert second[str(raw)]["bytes"] == size(client, raw) == 50 * 18
    assert second[str(raw)]["written_events"] == 50
    assert second[str(raw)]["events_in"] > 0
    (_, bytes_before, events_before), (_, bytes_now, events_now) = answers.sampler.samples(table)[-2:]
    assert (bytes_now - bytes_before, events_now - events_before) == (
        size(client, table) - first[str(table)]["bytes"],
        40,
    )

    for segments, count in ((6, 20), (5, 20), (4, 10)):
        client.controller.scale_to(raw, segments)
        with client.writer(raw) as writer:
            writer.write_batch([b"y" * 10] * count, [str(number) for number in range(count)])
    third = eventually(lambda: (line := lines(answers)[str(raw)])["segments"] == 4 and line)
    assert (third["bytes"], third["written_bytes"], third["written_events"]) == (size(client, raw), 100 * 18, 100)

    client.truncate(client.tail(raw))
    answers.sampler._watched[raw].refreshed_at = 0.0
    gone = lines(answers)[str(raw)]
    assert (gone["bytes"], gone["written_bytes"]) == (0, 100 * 18)
    client.controller.delete_stream(raw, seal=True)
    assert eventually(lambda: set(lines(answers)) == {str(table)})


def test_the_table_of_streams_is_sorted_filtered_and_taken_in_parts(
    client: Client, scope: str, answers: Answers
) -> None:
    for number in range(6):
        stream = Stream(scope, f"s-{number}")
        client.controller.create_stream(stream, StreamConfiguration())
        with client.writer(stream) as writer:
            writer.write_batch([b"x"] * (number * 7 % 6))
    lines(answers)
    largest = answers.streams(sort="bytes", descending=True, begin=1, count=2)
    assert [line["bytes"] for line in largest["lines"]] == [9 * 4, 9 * 3]
    assert (largest["begin"], largest["matching"], largest["total"]) == (1, 6, 6)
    page = answers.streams(text="S_4")
    assert [line["stream"] for line in page["lines"]] == [f"{scope}/s-4"]
    assert (page["matching"], page["total"]) == (1, 6)


def test_pictures_tell_what_metadata_tables_tell(
    catalog: Catalog, client: Client, scope: str, answers: Answers
) -> None:
    """Segments with a split and a merge, commits of jobs and of a query, a job that is open, retention."""
    table = make(catalog, scope, "orders", segments=2, retention="50 bytes")
    insert(catalog, table, *range(40))
    client.controller.scale_to(table, 4)
    job = WriteJob(plan(catalog.definition(table, age_s=0)))
    rows = pa.record_batch({"id": pa.array(range(7), pa.int64()), "name": pa.array(["n"] * 7)})
    job.commit_job([job.write_partition(0, iter([rows]))], Epoch(query="hourly", number=3, run="r"))
    client.controller.scale_to(table, 3)
    insert(catalog, table, *range(40, 45))

    picture = answers.stream(table)
    of_segments = ["segment", "min_key", "max_key", "start_offset", "end_offset", "sealed", "successors"]
    table_rows = catalog.metadata.rows([scope], "orders$segments", of_segments).rows
    assert [[one[key] for key in of_segments] for one in picture["segments"]] == [
        [*row[:-1], tuple(row[-1])] if isinstance(picture["segments"][0]["successors"], tuple) else row
        for row in table_rows
    ]
    for one in picture["segments"]:
        begun, *others = one["points"]
        assert begun == (one["made_at"], 0)
        assert not others or others[-1][1] == one["end_offset"]
        assert (one["ended_at"] is None) == (not one["successors"])
    of_commits = ["version", "rows", "bytes"]
    table_rows = catalog.metadata.rows([scope], "orders$commits", of_commits).rows
    assert [[one[key] for key in of_commits] for one in picture["commits"]] == table_rows
    assert [one["writer"].partition(" ")[0] for one in picture["commits"]] == ["job", "query", "job"]
    assert picture["commits"][1]["writer"] == "query hourly, epoch 3"
    assert all(one["milliseconds"] >= 0 for one in picture["commits"])
    assert [(one["query"], one["epoch"]) for one in picture["queries"]] == [("hourly", 3)]
    assert picture["retention"]["policy"] == "the last 50 bytes"
    assert picture["retention"]["versions"] == (1, 2)
    assert picture["retention"]["bytes"] == sum(one["bytes"] for one in picture["commits"][:2])
    assert picture["jobs"] == []

    writing = WriteJob(plan(catalog.definition(table, age_s=0)))
    message = writing.write_partition(0, iter([rows]))
    (open_job,) = answers.stream(table)["jobs"]
    assert message.staged is not None
    assert open_job["job"] == str(writing.job)
    assert list(map(tuple, open_job["transactions"])) == [(str(message.staged.transaction.id), "OPEN")]
    writing.commit_job([message])
    after = answers.stream(table)
    assert (after["jobs"], after["commits"][-1]["rows"]) == ([], 7)


def test_rows_schemas_and_what_was_changed(
    catalog: Catalog, scope: str, answers: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(catalog, scope, "orders")
    insert(catalog, table, *range(30))
    insert(catalog, table, 30, 31, name=["<b>&", None])
    some_rows = answers.rows(table, 3)
    assert some_rows == {
        "columns": ["id", "name"],
        "rows": [["29", "n29"], ["30", "<b>&"], ["31", None]],
        "version": 2,
        "keyed": False,
        "error": None,
    }
    assert answers.rows(table, 3) is some_rows, "nothing was written, so nothing is read"
    with monkeypatch.context() as narrow:
        narrow.setattr(tables, "MOST_BYTES", 10)
        insert(catalog, table, 32)
        assert "pravega-spark tail" in answers.rows(table, 3)["error"]
    added = AddColumn(column=("at",), type=TimestampType())
    catalog.altering.alter([scope], "orders", [added])
    description = answers.table(table)
    assert [column["name"] for column in description["columns"]] == ["id", "name", "at"]
    assert [version["changes"] for version in description["versions"]] == [
        ("+ id bigint", "+ name string"),
        ("+ at timestamp",),
    ]
    first, second = description["versions"]
    assert first["difference"] == ()
    assert any(line.startswith("+") and '"at"' in line for line in second["difference"])
    assert tables.changed({"a": "int", "b": "int"}, {"a": "bigint", "c": "int"}) == (
        "+ c int",
        "- b int",
        "~ a int -> bigint",
    )


def test_a_table_with_a_key_shows_its_rows_and_its_changes(
    catalog: Catalog, scope: str, answers: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = StructType().add("id", LongType(), nullable=False).add("price", DecimalType(10, 2))
    catalog.tables.create([scope], "prices", columns, [], {"primaryKey": "id"})
    definition = catalog.load_table([scope], "prices")
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("price", pa.decimal128(10, 2))])
    for price in ("1.5", "2"):
        job = WriteJob(WritePlan.of(definition, WriteOptions()))
        batch = pa.RecordBatch.from_pylist([{"id": n, "price": Decimal(price)} for n in (1, 2)], schema=schema)
        job.commit_job([job.write_partition(0, iter([batch]))])
    stream = definition.stream
    shown = answers.rows(stream, 10)
    assert (shown["keyed"], shown["columns"], sorted(shown["rows"])) == (
        True, ["id", "price"], [["1", "2.00"], ["2", "2.00"]],
    )  # fmt: skip
    log = answers.rows(stream, 10, log=True)
    assert log["columns"] == ["id", "price", "_operation"]
    assert sorted(log["rows"]) == [[key, price, None] for key in "12" for price in ("1.50", "2.00")]
    assert answers.stream(stream)["line"]["rows"] == 2
    monkeypatch.setattr(tables, "MOST_BYTES", 10)
    assert "pravega-spark tail" in answers.rows(stream, 1)["error"]


def checkpoint(folder: Path, offset: SourceOffset) -> None:
    """As a streaming query leaves it after its first micro-batch."""
    for inner in ("offsets", "commits"):
        (folder / inner).mkdir(parents=True)
    (folder / "offsets" / "0").write_text(f"v1\n{{}}\n{offset.to_json()}\n")
    (folder / "commits" / "0").write_text("v1\n{}")
    (folder / "metadata").write_text(json.dumps({"id": "0c3e"}))


def test_queries_and_metrics(catalog: Catalog, client: Client, settings: Settings, scope: str, tmp_path: Path) -> None:
    """Prometheus' own parser reads them; figures are those of the client and of the checkpoint."""
    table = make(catalog, scope, "orders", segments=2)
    insert(catalog, table, *range(10))
    checkpoint(tmp_path / "q", SourceOffset({table: StreamFrontier(client, table).tail()}))
    insert(catalog, table, *range(25))
    (tmp_path / "broken" / "offsets").mkdir(parents=True)
    assert Answers(settings, [Folder.parse(str(tmp_path / "not yet"))], scope=scope).queries()["queries"] == []
    answers = Answers(settings, [Folder.parse(str(tmp_path))], scope=scope)
    broken, query = answers.queries()["queries"]
    assert "has committed no micro-batch yet" in broken["error"]
    assert (query["name"], query["query"], query["batch"], query["targets"]) == ("q", "0c3e", 0, [])
    behind = answers.stream(table)["commits"][-1]["bytes"]
    assert [(one["bytes_behind"], one["events_behind"]) for one in query["sources"]] == [(behind, 25)]

    with LiveServer(answers) as server:
        by_header = httpx.get(
            f"http://127.0.0.1:{server.port}/metrics", headers={"Authorization": f"Bearer {server.token}"}
        )
        response = httpx.get(f"{server.url}metrics")
    assert by_header.status_code == 200
    assert response.headers["content-type"] == "application/openmetrics-text; version=1.0.0; charset=utf-8"
    parsed = text_string_to_metric_families(response.text)  # type: ignore[no-untyped-call]
    families = {family.name: family for family in parsed}
    assert families.keys() == {metric.name for metric in METRICS}
    samples = {sample.name: sample for family in families.values() for sample in family.samples}
    assert 0 < samples.pop("pravega_query_behind_seconds").value < 60
    of_stream = {"scope": scope, "stream": "orders"}
    of_query = {"checkpoint": str(tmp_path / "q"), "query": "0c3e"}
    assert {name: (sample.labels, sample.value) for name, sample in samples.items() if "timestamp" not in name} == {
        "pravega_stream_written_bytes_total": (of_stream, size(client, table)),
        "pravega_stream_written_events_total": (of_stream, 35),
        "pravega_stream_stored_bytes": (of_stream, size(client, table)),
        "pravega_stream_segments": (of_stream, 2),
        "pravega_stream_version": (of_stream, 2),
        "pravega_query_batch": (of_query, 0),
        "pravega_query_behind_bytes": ({**of_query, **of_stream}, behind),
        "pravega_query_behind_events": ({**of_query, **of_stream}, 25),
    }
    committed = samples["pravega_stream_last_commit_timestamp_seconds"].value
    assert committed * 1000 == answers.stream(table)["commits"][-1]["committed_at"]


def test_the_dashboard_asks_for_metrics_that_there_are() -> None:
    dashboard = json.loads((ROOT / "examples" / "grafana_dashboard.json").read_text())
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())]
    used = {name for query in queries for name in re.findall(r"\bpravega_\w+", query)}
    there = {metric.sample for metric in METRICS}
    assert used <= there
    assert used, "it shows nothing"
    page = (ROOT / "docs" / "operating.md").read_text()
    assert [metric.sample for metric in METRICS if f"`{metric.sample}`" not in page] == []


def test_only_who_has_the_token_and_comes_to_this_machine_is_answered(server: LiveServer) -> None:
    base = f"http://127.0.0.1:{server.port}"
    for path in ("/", "/wrong/", "/metrics", f"/{server.token}", f"/{server.token[:-1]}/"):
        refused = httpx.get(base + path)
        assert refused.status_code == 403, path
        assert server.token not in refused.text
    assert httpx.get(f"{base}/metrics", headers={"Authorization": "Bearer wrong"}).status_code == 403
    for path in [*FILES, "api/streams", "metrics"]:
        answer = httpx.get(server.url + path)
        assert answer.status_code == 200, path
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert "access-control-allow-origin" not in answer.headers
        assert "server-timing" not in answer.headers
    for host in ("evil.example", f"evil.example:{server.port}", "127.0.0.1", ""):
        assert httpx.get(server.url, headers={"Host": host}).status_code == 403, host
    assert httpx.get(server.url, headers={"Host": f"localhost:{server.port}"}).status_code == 200
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
        assert httpx.request(method, server.url).status_code in (405, 501), method
    assert httpx.head(server.url).content == b""


def test_requests_of_odd_form_are_answered_once_and_leave_no_trace(
    server: LiveServer, capfd: pytest.CaptureFixture[str]
) -> None:
    body = "GET /again HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    for target, sent, status in (
        ("http://[", "", 400),
        (f"http://[/{server.token}/", "", 400),
        ("//[", "", 403),
        (f"/{server.token}/", body, 200),
    ):
        length = f"Content-Length: {len(sent)}\r\n" if sent else ""
        with socket.create_connection(("127.0.0.1", server.port)) as connection:
            connection.sendall(f"GET {target} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n{length}\r\n{sent}".encode())
            connection.shutdown(socket.SHUT_WR)
            answer = b"".join(iter(lambda: connection.recv(65_536), b"")).decode()
        assert re.findall(r"^HTTP/1\.1 (\d+)", answer, re.MULTILINE) == [str(status)], (target, answer)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("api/nothing", 404),
        ("../../etc/passwd", 404),
        ("page/../server.py", 404),
        ("api/streams?sort=error", 400),
        ("api/streams?count=-1", 400),
        ("api/stream?name=nowhere/nothing", 404),
        ("api/stream?name=<script>", 400),
    ],
)
def test_what_is_asked_wrongly_is_an_error_in_one_sentence(server: LiveServer, path: str, status: int) -> None:
    # httpx would tidy the path.
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    connection.request("GET", f"/{server.token}/{path}")
    answer = connection.getresponse()
    content = json.loads(answer.read())
    connection.close()
    assert (answer.status, "\n" in content["error"]) == (status, False)
    assert answer.getheader("content-type") == "application/json; charset=utf-8"


def test_with_authentication_and_tls_and_no_right_to_one_stream(secure_sandbox: Sandbox) -> None:
    """Nothing on the page is a credential; what may not be read says so in its line."""
    admin = Settings.resolve({"timeout": "30"}, environ=secure_sandbox.environment())
    catalog, client = Catalog(admin), shared_client(admin)
    client.controller.create_scope("guarded")
    table = make(catalog, "guarded", f"t-{time.time_ns()}")
    insert(catalog, table, 1, 2, 3)
    with LiveServer(Answers(admin)) as server:
        answers_read = [
            httpx.get(f"{server.url}api/{path}").text
            for path in ("streams", f"stream?name={table}", f"rows?name={table}")
        ]
        assert json.loads(answers_read[2])["rows"] == [["1", "n1"], ["2", "n2"], ["3", "n3"]]
        assert {line["stream"]: line["rows"] for line in json.loads(answers_read[0])["lines"]}[str(table)] == 3
        assert admin.password
        assert not any(admin.password in text for text in [*answers_read, httpx.get(server.url).text])
    wrong = replace(admin, password="wrong")
    with LiveServer(Answers(wrong)) as server:
        refused = httpx.get(f"{server.url}api/streams")
    assert refused.status_code == 502
    assert "PRAVEGA_" in refused.json()["error"]


def test_the_commands_say_what_is_wrong_before_they_begin(
    tmp_path: Path, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in sandbox.environment().items():
        monkeypatch.setenv(name, value)
    (tmp_path / "short").write_text("x")
    for arguments, words in [
        (["ui", "--checkpoint", str(tmp_path / "short")], "is no folder: a checkpoint is one"),
        (["ui", "--checkpoint", "s3a://shop/checkpoints?endpoint_override=http://127.0.0.1:1"], "can't be read: When"),
        (["top", "--checkpoint", "hdfs://127.0.0.1:1/checkpoints", "--once"], "set JAVA_HOME, HADOOP_HOME"),
        (["ui", "--token-file", str(tmp_path / "short")], "delete it to get a new one"),
        (["ui", "--token-file", str(tmp_path / "none" / "token")], "can't be used"),
        (["ui", "--controller", "tcp://127.0.0.1:1"], "no Pravega controller answers"),
        (["ui", "--port", "70000"], "port 70000"),
        (["top", "--json"], "--json needs --once"),
        (["top", "--interval", "0"], "--interval must be 1 second or more"),
        (["top", "-n", "0"], "-n must be 1 stream or more"),
        (["top", "no_such_namespace", "--once"], 'scope "no-such-namespace" does not exist'),
    ]:
        assert main(arguments) == 1, arguments
        (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("pravega-spark: [")]
        assert words in line
    token = _token(tmp_path / "token")
    assert token == _token(tmp_path / "token")
    assert stat.S_IMODE((tmp_path / "token").stat().st_mode) == 0o600


def test_the_demo_leaves_a_page_that_a_signal_ends(sandbox: Sandbox) -> None:
    address, process = live_page(sandbox.environment())
    try:
        assert httpx.get(address).status_code == 200
        assert httpx.get(f"{address}api/streams").json()["total"] >= 0
    finally:
        process.terminate()
        assert process.wait() == 0


def test_top_prints_a_table_once(
    catalog: Catalog,
    settings: Settings,
    scope: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("PRAVEGA_CONTROLLER_URI", settings.controller_uri)
    make(catalog, scope, "empty")
    insert(catalog, make(catalog, scope, "orders", segments=2), *range(1234))
    namespace = scope.replace("-", "_")
    assert main(["top", namespace, "--once", "--interval", "1", "--sort", "bytes"]) == 0
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.split()[:2] == ["TABLE", "SEGMENTS"]
    assert [row.split()[0] for row in rows] == [f"{namespace}.orders", f"{namespace}.empty"]
    assert rows[0].split()[1] == "2"
    assert "1,234" in rows[0].split()
    assert main(["top", namespace, "--once", "--json", "--interval", "1", "-n", "1", "--sort", "bytes"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line)["rows"] == 1234
    assert json.loads(line)["bytes_in"] > 0, "it was written a moment ago"


def test_top_ends_with_q_and_leaves_the_terminal_as_it_was(catalog: Catalog, settings: Settings, scope: str) -> None:
    insert(catalog, make(catalog, scope, "orders"), 1)
    child, terminal = pty.fork()
    if child == 0:
        os.environ.update(settings.to_environment())
        arguments = ["top", scope.replace("-", "_"), "--interval", "1"]
        os.execv(sys.executable, [sys.executable, "-m", "pyspark_pravega.cli", *arguments])
    before = termios.tcgetattr(terminal)
    shown = b""
    while b"orders" not in shown:
        shown += os.read(terminal, 65536)
    os.write(terminal, b"q")
    while True:
        try:
            more = os.read(terminal, 65536)
        except OSError:
            break
        if not more:
            break
        shown += more
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert shown.rstrip().endswith(b"\x1b[?1049l")
    assert before
    os.close(terminal)


@pytest.mark.parametrize(
    ("number", "text"),
    [(None, "-"), (0, "0"), (7, "7"), (7.25, "7.2"), (999, "999"), (1000, "1.00k"), (12345, "12.3k"), (2.5e6, "2.50M")],
)
def test_short_numbers(number: float | None, text: str) -> None:
    assert short(number) == text
