"""`pravega-spark put`, `tail`, `streams` and `schema`: rows as lines of JSON, without Spark."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from pyspark_pravega import cli
from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.catalog.ddl import Bucket
from pyspark_pravega.client import Client, EventWriter, ScalingPolicy, Stream, StreamConfiguration
from pyspark_pravega.connector.key_value import KeyValueDefinition, KeyValueJob, KeyValuePlan
from pyspark_pravega.connector.log import take_snapshot
from pyspark_pravega.connector.shared import shared_client
from pyspark_pravega.connector.table import TableDefinition
from pyspark_pravega.sandbox import Sandbox
from pyspark_pravega.settings import Settings
from pyspark_pravega.sql import rows as rows_module

pytestmark = pytest.mark.server

FEW = StructType().add("id", LongType(), nullable=False).add("name", StringType())
COLUMNS = (
    StructType([*FEW])
    .add("price", DecimalType(20, 3))
    .add("at", TimestampType())
    .add("local", TimestampNTZType())
    .add("day", DateType())
    .add("data", BinaryType())
    .add("ok", BooleanType())
    .add("ratio", DoubleType())
    .add("tags", ArrayType(StringType()))
    .add("s", StructType().add("x", IntegerType()).add("m", MapType(StringType(), DoubleType())))
)
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command; gives its exit code, standard output and standard error."""
    for name, value in settings.to_environment().items():
        monkeypatch.setenv(name, value)

    def command(*arguments: str, lines: str = "") -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines.encode()), encoding="utf-8"))
        capsys.readouterr()
        code = cli.main(arguments)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return command


def rows(first: int, last: int, *, protobuf: bool = False) -> list[dict[str, Any]]:
    """Some with values in all columns, some with none but the key. In Protobuf no array and no map can be null."""
    full = {
        "name": 'zoë \u2028 "quoted" \\ 漢',
        "price": Decimal("12345678901234567.125"),
        "at": "2026-01-02T03:04:05.000001Z",
        "local": "0001-01-01T00:00:00",
        "day": "9999-12-31",
        "data": "AAH/",
        "ok": False,
        "ratio": -0.1,
        "tags": ["a", "b" if protobuf else None, ""],
        "s": {"x": -(2**31), "m": {"k.1": 1.5, "": -2.0}},
    }
    nothing: list[Any] | None = [] if protobuf else None
    kinds: list[Mapping[str, Any]] = [
        full,
        {**dict.fromkeys(full), "tags": nothing},
        {**full, "tags": [], "s": {"x": None, "m": {} if protobuf else None}},
    ]
    return [{"id": 2**62 + number, **kinds[number % 3]} for number in range(first, last)]


def text(some: list[dict[str, Any]]) -> str:
    # A decimal is a number whose digits no double could hold.
    lines = [json.dumps({**row, "price": "PRICE"}).replace('"PRICE"', str(row["price"] or "null")) for row in some]
    return "".join(f"{line}\n" for line in lines)


def loaded(lines: str) -> list[dict[str, Any]]:
    some = [json.loads(line, parse_float=Decimal) for line in lines.split("\n") if line]
    return sorted((_plain(row) for row in some), key=lambda row: int(row["id"]))


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {**json.loads(json.dumps(row, default=float)), "price": row["price"]}


def make(settings: Settings, scope: str, table: str, columns: StructType = COLUMNS, **properties: str) -> str:
    bucket = Bucket(columns=(columns.fieldNames()[0],), buckets=4)
    Catalog(settings).tables.create([scope], table, columns, [bucket], properties)
    return f"{scope.replace('-', '_')}.{table}"


@pytest.mark.parametrize("table_format", ["avro", "json", "protobuf"])
@pytest.mark.in_turn
def test_lines_that_are_put_are_the_lines_that_are_shown(
    run: Run, settings: Settings, scope: str, monkeypatch: pytest.MonkeyPatch, table_format: str
) -> None:
    monkeypatch.setattr(rows_module, "_LINES_AT_ONCE", 1000)
    table = make(settings, scope, "t", format=table_format)
    assert run("tail", table, "--json")[:2] == (0, "")
    protobuf = table_format == "protobuf"
    # Several pieces of lines, several commits, four segments.
    for first, last in ((0, 2_500), (2_500, 2_507), (2_507, 2_510)):
        code, _, summary = run("put", table, lines=text(rows(first, last, protobuf=protobuf)) + "\n")
        assert code == 0, summary
        assert summary.startswith(f"{last - first:,} rows, "), summary
    for count, first in ((3, 2_507), (10, 2_500), (5_000, 0)):
        code, shown, _ = run("tail", table, "-n", str(count), "--json")
        assert code == 0
        assert loaded(shown) == [_plain(row) for row in rows(first, 2_510, protobuf=protobuf)]
    _, shown, _ = run("tail", table, "-n", "2", "--json")
    assert {row["id"] - 2**62 for row in loaded(shown)} < {2_507, 2_508, 2_509}
    # What is shown can be put again.
    again = make(settings, scope, "again", format=table_format)
    _, shown, _ = run("tail", table, "-n", "100", "--json")
    assert run("put", f"{scope}/again", lines=shown)[0] == 0
    assert loaded(run("tail", again, "-n", "1000", "--json")[1]) == loaded(shown)
    code, shown, _ = run("tail", "t", "-n", "1", "--scope", scope)
    assert code == 0
    assert [shown.count("\n"), shown.split()[:3]] == [3, ["id", "name", "price"]]
    # What the other commands tell of it.
    code, listed, _ = run("streams", scope, "--json")
    lines = {line["table"]: line for line in map(json.loads, listed.splitlines())}
    assert code == 0
    told_of = {key: lines[table][key] for key in ("segments", "rows", "version")}
    assert told_of == {"segments": 4, "rows": 2_510, "version": 3}
    assert lines[table]["bytes"] > 2_510
    code, shown, _ = run("schema", table, "--json")
    described = json.loads(shown)
    columns = StructType.fromJson({"type": "struct", "fields": described["columns"]})
    assert [(f.name, f.dataType.simpleString()) for f in columns] == [
        (f.name, f.dataType.simpleString()) for f in COLUMNS
    ]
    assert described["properties"]["format"] == table_format
    assert len(described["versions"]) == 1
    assert "NOT NULL" in run("schema", table)[1]


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ('{"id": 1, "nmae": "x"}', 'line 3: "nmae" is not a column; did you mean "name"?'),
        ('{"name": "x"}', 'line 3 lacks column "id", which can\'t be null'),
        ('{"id": "x", "name": "x"}', 'line 3: "id" is "x", not a whole number'),
        ('{"id": 1, "name": ', "line 3 is no JSON: "),
        ("[1]", "line 3 is no JSON object, as in "),
    ],
)
def test_a_line_that_is_no_row_is_told_by_its_number_and_nothing_is_written(
    run: Run, settings: Settings, client: Client, scope: str, line: str, sentence: str
) -> None:
    table = make(settings, scope, "t", FEW)
    assert run("put", table, lines='{"id": 0}\n')[0] == 0
    before = take_snapshot(client, Stream(scope, "t")).cut
    code, shown, error = run("put", table, lines='{"id": 1}\n\n' + line + "\n")
    assert (code, shown) == (1, "")
    assert sentence in error
    assert take_snapshot(client, Stream(scope, "t")).cut == before


def test_tables_with_keys_and_key_value_tables_show_their_rows(run: Run, settings: Settings, scope: str) -> None:
    """The rows that are there, those last that were changed last; `--log` shows the changes."""
    namespace = scope.replace("-", "_")
    columns = "id INT NOT NULL, price DECIMAL(10,2), s STRUCT<a: INT>"
    table = f"{namespace}.keyed"
    assert run("create", table, columns, "--primary-key", "id", "--segments", "3")[:2] == (0, f"{table} is made\n")
    assert run("tail", table, "--json")[:2] == (0, "")
    for first, last, price in ((0, 50, 1), (3, 5, 2), (4, 6, 3)):
        lines = [json.dumps({"id": n, "price": price, "s": {"a": n}}) for n in range(first, last)]
        assert run("put", table, lines="\n".join(lines))[0] == 0
    deleted = Catalog(settings).load_table([scope], "keyed").as_log()
    assert run("tail", table, "-n", "3", "--json")[1].count('"price":3.00') == 2
    delete_row(deleted, 49)
    for count in (1, 2, 3, 7, 48, 49, 200):
        shown = [json.loads(line) for line in run("tail", table, "-n", str(count), "--json")[1].splitlines()]
        assert len(shown) == min(count, 49)
        assert {row["id"]: row["price"] for row in shown if row["id"] in (3, 4, 5)}.items() <= {
            3: 2,
            4: 3,
            5: 3,
        }.items()
        assert {4, 5, 3} <= {row["id"] for row in shown} or count < 3
        assert "_operation" not in shown[0]
    code, log, _ = run("tail", table, "--log", "-n", "200", "--json")
    assert (code, log.count("\n"), log.count('"_operation":"delete"')) == (0, 55, 1)
    assert run("tail", table, "-n", "1")[1].splitlines()[0].split() == ["id", "price", "s"]

    entries = f"{namespace}.entries"
    assert run("create", entries, "id INT NOT NULL, v STRING", "--primary-key", "id", "--property",
               "tableType=key-value", "--property", "partitions=3")[0] == 0  # fmt: skip
    assert run("tail", entries, "--json")[:2] == (0, "")
    put_entries(Catalog(settings), scope, "entries", [(number, f"v{number}") for number in range(20)])
    shown = [json.loads(line) for line in run("tail", entries, "-n", "30", "--json")[1].splitlines()]
    assert sorted((row["id"], row["v"]) for row in shown) == [(number, f"v{number}") for number in range(20)]
    assert run("tail", entries, "-n", "4", "--json")[1].count("\n") == 4
    assert "has no history" in run("tail", entries, "-f")[2]
    assert "INSERT and MERGE write" in run("put", entries)[2]
    described = json.loads(run("schema", entries, "--json")[1])
    assert described["properties"] == {
        "table-type": "key-value", "format": "avro", "primary-key": "id", "partitions": "3"
    }  # fmt: skip

    listed = [json.loads(line) for line in run("streams", scope, "--json")[1].splitlines()]
    assert {one["table"]: (one["kind"], one["segments"], one["rows"], one["version"]) for one in listed} == {
        table: ("keyed", 3, 49, 3),
        entries: ("key-value", 3, 20, 0),
    }
    assert "keyed" in run("streams", scope)[1]


def delete_row(log: TableDefinition, key: int) -> None:
    """Delete a row as another program does that writes change records."""
    rows = pa.RecordBatch.from_pylist(
        [{"id": key, "price": None, "s": None, "_operation": "delete"}], schema=log.codec.schema
    )
    (payload,) = replace(log, is_log=False).for_writing().encode(rows).to_pylist()
    with EventWriter(shared_client(log.settings), log.stream) as writer:
        writer.write(payload, str(key))


def put_entries(catalog: Catalog, scope: str, table: str, rows: list[tuple[int, str]]) -> None:
    """Write rows as INSERT does."""
    definition = catalog.relation([scope], table)
    assert isinstance(definition, KeyValueDefinition)
    job = KeyValueJob(KeyValuePlan.of(definition, {}), 1)
    batch = pa.RecordBatch.from_pylist([{"id": number, "v": v} for number, v in rows])
    job.commit_job([job.write_task(iter([batch]))])


def test_a_table_is_made_and_scaled_from_the_command_line(run: Run, settings: Settings, scope: str) -> None:
    namespace = f"{scope.replace('-', '_')}_new"
    table = f"{namespace}.orders"
    columns = (
        "id BIGINT NOT NULL COMMENT 'the order''s', `a b` DECIMAL(10, 2), tags ARRAY<STRING>, "
        "m MAP<STRING, DOUBLE>, s STRUCT<x: INT NOT NULL, y: ARRAY<STRUCT<z: DATE>>>, c VARCHAR(5), n NUMERIC"
    ).replace("''", "\\'")
    assert run("create", table, columns, "--segments", "2", "--routing-key", "id", "--property", "retention=7 days")[
        :2
    ] == (0, f"{table} is made, and its namespace {namespace}, which was not there\n")
    described = json.loads(run("schema", f"{namespace}/orders", "--json")[1])
    kinds = {one.name: (one.dataType.simpleString(), one.nullable) for one in StructType.fromJson(
        {"type": "struct", "fields": described["columns"]})}  # fmt: skip
    assert kinds["id"] == ("bigint", False)
    assert kinds["s"] == ("struct<x:int,y:array<struct<z:date>>>", True)
    assert [kinds[name][0] for name in ("a b", "tags", "m", "n")] == [
        "decimal(10,2)", "array<string>", "map<string,double>", "decimal(10,0)"
    ]  # fmt: skip
    assert described["columns"][0]["metadata"]["comment"] == "the order's"
    assert {**described["properties"], "codec": ""}.items() >= {
        "segments": "2", "routing-key": "id", "retention": "7 days"
    }.items()  # fmt: skip
    assert "exists" in run("create", table, "id INT")[2]
    assert run("scale", table, "4")[1] == f"{table}: 2 -> 4 segments\n"
    scaled = json.loads(run("scale", table, "3", "--json")[1])
    assert (scaled["before"], [one["max_key"] for one in scaled["segments"]][-1]) == (4, 1.0)
    for wrong, words in (
        (("create", f"{namespace}.x", "id BIGNIT"), 'did you mean "BIGINT"?'),
        (("create", f"{namespace}.x", "id INT name STRING"), 'a comma is missing before "name STRING"'),
        (("create", f"{namespace}.x", "id ARRAY<INT"), '">" is missing at the end'),
        (("create", f"{namespace}.x", "id INT, ID INT"), "is named twice"),
        (("create", f"{namespace}.x", "id INT", "--property", "segments"), "must be NAME=VALUE"),
        (("create", f"{namespace}.x", "id INT", "--property", "segmets=2"), 'did you mean "segments"?'),
        (("scale", f"{namespace}.order", "4"), f'did you mean "{table}"?'),
        (("scale", table, "0"), "at least 1 segment"),
    ):
        code, shown, error = run(*wrong)
        assert (code, shown) == (1, "")
        assert words in error, error


def test_what_names_no_table_is_told(run: Run, settings: Settings, scope: str) -> None:
    namespace = scope.replace("-", "_")
    make(settings, scope, "orders", FEW)
    for command in (["tail"], ["schema"], ["put"]):
        for name in (f"{namespace}.order", f"{scope}/ordres", f"{namespace[:-1]}.orders"):
            assert f'did you mean "{namespace}.orders"?' in run(*command, name)[2]
        # Only what is there is meant, also where the namespace isn't.
        assert f'did you mean "{namespace}.orders"?' in run(*command, f"{namespace[:-1]}.order")[2]
        assert "did you mean" not in run(*command, f"{namespace[:-1]}.customers")[2]
    assert f'did you mean "{namespace}"?' in run("streams", namespace[:-1])[2]
    with pytest.raises(SystemExit) as left:
        run("tial", "shop.orders")
    assert left.value.code == 2
    for name, sentence in (
        ("orders", "names no table: write namespace.table"),
        ("a.b.c", "names no table"),
        (f"{scope}/none", "does not exist"),
        (f"pravega.{scope.replace('-', '_')}.none", "does not exist"),
    ):
        code, shown, error = run("tail", name)
        assert (code, shown) == (1, "")
        assert sentence in error
    assert "does not exist" in run("streams", "no_such_scope")[2]
    assert "-n must be" in run("tail", "a.b", "-n", "-1")[2]


def test_decimals_are_shown_as_sql_shows_them(run: Run, settings: Settings, scope: str) -> None:
    columns = (
        StructType([*FEW]).add("amount", DecimalType(10, 2)).add("exact", DecimalType(38, 18)).add("n", DecimalType(38))
    )
    table = make(settings, scope, "decimals", columns)
    values = {"amount": "12.5", "exact": "12345678901234567890.000000000000000001", "n": "7" * 38}
    numbers = ", ".join(f'"{name}": {value}' for name, value in values.items())
    assert run("put", table, lines=f'{{"id": 1, {numbers}}}\n{{"id": 2}}\n')[0] == 0
    shown = [line.split() for line in run("tail", table)[1].splitlines()[2:]]
    assert sorted(shown) == [
        ["1", "NULL", "12.50", values["exact"], values["n"]],
        ["2", *["NULL"] * 4],
    ]


def test_events_of_others_are_shown_over_a_scale(run: Run, client: Client, scope: str) -> None:
    """A stream without a schema and a commit log."""
    stream = Stream(scope, "bytes")
    client.controller.create_stream(stream, StreamConfiguration(scaling=ScalingPolicy.fixed(1)))
    for first, segments in ((0, 3), (100, 1), (200, 1)):
        with EventWriter(client, stream) as writer:
            for number in range(first, first + 100):
                writer.write(b"event %d" % number, str(number))
        client.controller.scale_to(stream, segments)
    code, shown, _ = run("tail", f"{scope}/bytes", "-n", "1000", "--json")
    assert code == 0
    assert len(set(shown.splitlines())) == 300
    assert run("streams", scope, "--json")[1].count('"rows": null') == 1
    assert "?" in run("streams", scope)[1]


@pytest.mark.parametrize("secure", [False, True])
def test_rows_are_followed_while_they_come(
    request: pytest.FixtureRequest, sandbox: Sandbox, run: Run, monkeypatch: pytest.MonkeyPatch, secure: bool
) -> None:
    running: Sandbox = request.getfixturevalue("secure_sandbox") if secure else sandbox
    for name, value in running.environment().items():
        monkeypatch.setenv(name, value)
    settings = Settings.resolve()
    scope = f"test-{uuid.uuid4().hex[:12]}"
    Catalog(settings).namespaces.create([scope], {})
    table = make(settings, scope, "t", FEW)
    with command(running, "tail", table, "-n", "3", "-f", "--json") as tail:
        try:
            for first in (0, 3):
                lines = "".join(json.dumps({"id": number, "name": "x"}) + "\n" for number in range(first, first + 3))
                assert run("put", table, lines=lines)[2].startswith("3 rows")
                assert tail.stdout is not None
                shown = {json.loads(tail.stdout.readline())["id"] for _ in range(3)}
                # Whether the first ones were there already when it began or came later: each is shown once.
                assert shown == set(range(first, first + 3))
        finally:
            tail.send_signal(signal.SIGINT)
        assert tail.wait(30) == 130


def command(running: Sandbox, *arguments: str) -> subprocess.Popen[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PRAVEGA_")}
    return subprocess.Popen(
        [sys.executable, "-m", "pyspark_pravega.cli", *arguments],
        env={**environment, **running.environment()},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_bash_completes_commands_options_and_names(settings: Settings, catalog: Catalog, scope: str) -> None:
    catalog.tables.create([scope], "order-lines", FEW, [], {})
    namespace = scope.replace("-", "_")
    script = (
        'eval "$(pravega-spark completion bash)"; COMP_LINE=$1; COMP_POINT=${#1}; COMP_TYPE=9; COMP_WORDBREAKS=" "; '
        '_python_argcomplete pravega-spark; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
    environment = {**os.environ, **settings.to_environment(), "PATH": path}

    def completed(line: str) -> list[str]:
        done = subprocess.run(
            ["bash", "-c", script, "bash", line], env=environment, capture_output=True, text=True, check=True
        )
        return [word.strip() for word in done.stdout.splitlines()]

    assert completed("pravega-spark sc") == ["schema", "scale"]
    assert {"start", "status", "stop", "wipe", "logs", "fetch"} <= set(completed("pravega-spark sandbox "))
    assert completed("pravega-spark top --o") == ["--once"]
    assert completed(f"pravega-spark tail {namespace}.o") == [f"{namespace}.order_lines"]
    assert completed(f"pravega-spark streams {namespace[:-1]}") == [namespace]
    # A cluster that doesn't answer completes nothing, and says nothing.
    environment["PRAVEGA_CONTROLLER_URI"] = "tcp://127.0.0.1:1"
    assert completed("pravega-spark tail sh") in ([], [""])


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_a_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["completion", shell]) == 0
    assert "pravega-spark" in capsys.readouterr().out


def test_the_help_of_each_command_has_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    def told(*words: str) -> str:
        with pytest.raises(SystemExit):
            cli.main([*words, "--help"])
        return capsys.readouterr().out

    def commands(text: str) -> list[str]:
        return re.findall(r"^ {4}([a-z]+)\b", text, re.MULTILINE)

    all_commands = [(name,) for name in commands(told())] + [("sandbox", name) for name in commands(told("sandbox"))]
    assert len(all_commands) > 15
    assert [words for words in all_commands if not re.search(r"Examples?:\s+\S", told(*words))] == []
