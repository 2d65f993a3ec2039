"""What tells of a lake: `t$lake`, `pravega-spark streams`; and `pravega-spark tier`, which fills it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from catalog_tools import insert, make
from lake_tools import Table

from pyspark_pravega import cli
from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.client import StreamCut
from pyspark_pravega.client.key_value.table import ANY_VERSION, KeyValueTable
from pyspark_pravega.connector.log import create_ledger
from pyspark_pravega.connector.log.entry_keys import KEY_BYTES, ledger_name

pytestmark = pytest.mark.server


@pytest.fixture(autouse=True)
def places(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands find the servers."""
    for name, value in catalog.settings.to_environment().items():
        monkeypatch.setenv(name, value)


def lake_of(table: Table) -> list[dict[str, Any]]:
    names = table.catalog.metadata.schema([table.stream.scope], "t$lake")[1].fieldNames()
    rows = table.catalog.metadata.rows([table.stream.scope], "t$lake", names).rows
    return [dict(zip(names, row, strict=True)) for row in rows]


def listed(table: Table, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    capsys.readouterr()
    assert cli.main(["streams", table.stream.scope, "--json"]) == 0
    lines: dict[str, Any] = json.loads(capsys.readouterr().out.splitlines()[0])
    return lines


def test_it_is_shown_what_lies_where(
    catalog: Catalog, scope: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = Table(catalog, scope, tmp_path, **{"lake-keep-in-stream": "0 ms"})
    table.insert(5)
    assert lake_of(table) == []
    assert "IN LAKE" not in (cli.main(["streams", scope]), capsys.readouterr().out)[1]
    table.tier()
    table.insert(4)
    table.tier()
    tail = catalog.client.tail(table.stream)
    table.insert(2)
    (row,) = lake_of(table)
    assert (row["version"], row["rows"], row["files"], row["kept_from"], row["current"]) == (2, 9, 2, 3, True)
    assert row["bytes"] == sum(path.stat().st_size for path in tmp_path.glob("*/*/data/*.parquet"))
    assert StreamCut.from_text(row["cut"]) == tail == dict(row["offsets"])
    state = table.state()
    assert state.lake is not None
    assert (row["snapshot"], row["metadata"]) == (state.lake.snapshot, state.lake.metadata)
    line = listed(table, capsys)
    assert (line["rows"], line["in_lake"], line["rows_in_lake"], line["version"]) == (11, 2, 9, 3)
    table.write_beside()
    assert listed(table, capsys)["rows"] is None, "nobody has counted what others have written"
    assert cli.main(["streams", scope]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert "IN LAKE" in shown[0]
    assert shown[1].split()[5] == "2"
    table.overwrite()
    assert [row["current"] for row in lake_of(table)] == [False]
    assert listed(table, capsys)["in_lake"] == 0


def test_the_command_tiers_all_tables_that_have_a_lake(
    catalog: Catalog, scope: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Or some; what can't be is said, and the others are done all the same."""
    table, plain = Table(catalog, scope, tmp_path), make(catalog, scope, "plain")
    bad = make(catalog, scope, "bad", lake="iceberg")
    for stream in (plain, bad):
        insert(catalog, stream, 1)
    table.insert(5)
    create_ledger(catalog.client, bad).change_properties(lambda before: {**before, "lake": "of tomorrow"})
    lake = ["--lake", f"warehouse={tmp_path}"]
    assert cli.main(["tier", f"{scope}/t", f"{scope}/bad", "--json", *lake]) == 1
    told = capsys.readouterr()
    assert "of tomorrow" in told.err
    assert scope in told.err
    (line,) = map(json.loads, told.out.splitlines())
    assert (line["version"], line["rows"], line["files"]) == (1, 5, 1)
    table.check()
    table.insert(2)
    assert cli.main(["tier", *lake]) == 1, "of all tables"
    assert "2 rows more in 1 file" in capsys.readouterr().out
    table.check()
    assert cli.main(["tier", f"{scope}/t", *lake]) == 0
    assert capsys.readouterr().out == ""
    for arguments, said in (
        ([f"{scope}/plain"], "has no lake"),
        ([f"{scope}/tt"], "did you mean"),
        (["--every", "soon"], "must be a time"),
        (["--lake", "warehouse"], "NAME=VALUE"),
        (["--lake", "warehouse=gs://x/y"], "can't be at"),
    ):
        assert cli.main(["tier", *arguments]) == 1
        assert said in capsys.readouterr().err


def test_a_table_that_cannot_be_read_does_not_hide_the_others(
    catalog: Catalog, scope: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table, later = Table(catalog, scope, tmp_path), make(catalog, scope, "later")
    table.insert(5)
    create_ledger(catalog.client, later)
    log, content = KeyValueTable(catalog.client.pool, scope, ledger_name(later)), b'{"format": 2}'
    log.put([(bytes(KEY_BYTES), ANY_VERSION, content)])
    assert cli.main(["streams", scope, "--json"]) == 1
    told = capsys.readouterr()
    assert [json.loads(line)["rows"] for line in told.out.splitlines()] == [5]
    assert "upgrade this one" in told.err
    log.put([(bytes(8) + (1).to_bytes(8, "big"), ANY_VERSION, content)])
    assert cli.main(["tier", "--lake", f"warehouse={tmp_path}"]) == 1
    told = capsys.readouterr()
    assert "5 rows more in 1 file" in told.out
    assert f'"{later}"' in told.err
    table.check()


@pytest.mark.in_turn
def test_the_command_goes_on_until_it_is_ended(catalog: Catalog, scope: str, tmp_path: Path) -> None:
    """Each time with all that has come meanwhile; SIGTERM leaves nothing half done."""
    table = Table(catalog, scope, tmp_path, **{"lake-keep-in-stream": "0 ms"})
    table.insert()
    command = [sys.executable, "-m", "pyspark_pravega.cli", "tier", table.name, "--every", "1s", "--json"]
    environment = {**os.environ, **catalog.settings.to_environment()}
    with subprocess.Popen(
        [*command, "--lake", f"warehouse={tmp_path}"], stdout=subprocess.PIPE, env=environment, text=True
    ) as process:
        assert process.stdout is not None
        try:
            for version in (1, 2, 3):
                assert json.loads(process.stdout.readline())["version"] == version
                table.check()
                table.insert()
            begun = time.monotonic()
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) == 0
            assert time.monotonic() - begun < 10
        finally:
            process.kill()
    table.check()
    assert table.tier()[0] == 4
    table.check()
    assert table.catalog.procedures.call("clean_lake", [table.name, "0 ms"]) == [[0, 0]]
