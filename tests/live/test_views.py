"""Health, rows with a filter, what versions have changed, and what stands beside streams, on real servers."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
import uuid
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import httpx
import pyarrow as pa
import pytest
from catalog_tools import insert, make, plan
from letter_tools import make_letters, write_letters
from waiting import eventually

from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.client import Client, KeyValueTable, ScalingPolicy, Stream, StreamConfiguration
from pyspark_pravega.client.key_value import ANY_VERSION
from pyspark_pravega.connector.log import open_ledger, take_snapshot
from pyspark_pravega.connector.stream import ChangesOffset, SourceOffset, StreamFrontier
from pyspark_pravega.connector.stream.consumption import Subscription
from pyspark_pravega.connector.write import WriteJob
from pyspark_pravega.connector.write.plan import Epoch
from pyspark_pravega.live.answers import Answers
from pyspark_pravega.live.rows import Wanted, searching
from pyspark_pravega.live.rows import letters as counted
from pyspark_pravega.live.server import LiveServer
from pyspark_pravega.settings import Settings
from pyspark_pravega.sql.checkpoints import Folder
from pyspark_pravega.sql.last_rows import last_rows

QUERY = str(uuid.UUID(int=7))
pytestmark = [pytest.mark.usefixtures("no_sample_is_young"), pytest.mark.in_turn]


def write_epoch(catalog: Catalog, table: Stream, query: str, epoch: int, *ids: int) -> None:
    """As a streaming query commits."""
    job = WriteJob(plan(catalog.definition(table, age_s=0)))
    rows = pa.record_batch({"id": pa.array(ids, pa.int64()), "name": pa.array([f"q{number}" for number in ids])})
    job.commit_job([job.write_partition(0, iter([rows]))], Epoch(query=query, number=epoch, run="r"))


def checkpoint(folder: Path, batch: int, offset: SourceOffset | ChangesOffset) -> None:
    """As a streaming query leaves it after a micro-batch."""
    for inner in ("offsets", "commits"):
        (folder / inner).mkdir(parents=True, exist_ok=True)
    (folder / "offsets" / str(batch)).write_text(f"v1\n{{}}\n{offset.to_json()}\n")
    (folder / "commits" / str(batch)).write_text("v1\n{}")
    (folder / "metadata").write_text(json.dumps({"id": QUERY}))


def test_queries_have_names_targets_and_a_history(
    catalog: Catalog, client: Client, settings: Settings, scope: str, tmp_path: Path
) -> None:
    source, target = make(catalog, scope, "orders"), make(catalog, scope, "large-orders")
    insert(catalog, source, *range(10))
    frontier = StreamFrontier(client, source)
    for batch in range(3):
        checkpoint(tmp_path / "large_orders", batch, SourceOffset({source: frontier.tail()}))
        write_epoch(catalog, target, QUERY, batch, batch)
    insert(catalog, source, *range(500))
    answers = Answers(settings, [Folder.parse(str(tmp_path))], scope=scope)
    (query,) = answers.queries()["queries"]
    assert query["name"] == "large_orders"
    assert query["targets"] == [{"stream": str(target), "table": f"{scope.replace('-', '_')}.large_orders"}]
    assert query["interval_ms"] is not None
    (lag,) = query["sources"]
    assert [behind for _, behind, _ in lag["history"]] == [lag["bytes_behind"]]
    assert (lag["trend"], lag["caught_up_s"]) == ("measuring", None)
    assert answers.stream(target)["names"] == {QUERY: "large_orders"}
    (reader,) = answers.stream(source)["readers"]
    assert (reader["name"], reader["targets"]) == ("large_orders", query["targets"])
    # It keeps up, and what it read goes out.
    checkpoint(tmp_path / "large_orders", 3, SourceOffset({source: frontier.tail()}))

    def is_caught_up() -> bool:
        (lag,) = answers.queries()["queries"][0]["sources"]
        return len(lag["history"]) > 1 and lag["trend"] == "keeping up" and lag["bytes_out"] > 0

    eventually(is_caught_up)


def test_how_old_the_oldest_unread_row_is(
    catalog: Catalog, client: Client, settings: Settings, scope: str, tmp_path: Path
) -> None:
    """By the commit log, over scales, of queries over a stream and over CHANGES; of others as it was seen."""
    source, keyed = make(catalog, scope, "orders", segments=2), make(catalog, scope, "customers", primary_key="id")
    raw = Stream(scope, "raw")
    client.controller.create_stream(raw, StreamConfiguration(scaling=ScalingPolicy.fixed(1)))
    for number in range(4):
        insert(catalog, source, *range(50 * number, 50 * number + 50))
        insert(catalog, keyed, number)
        if number == 1:
            read = SourceOffset({source: StreamFrontier(client, source).tail()})
            client.controller.scale_to(source, 3)
    ledgers = [open_ledger(client, table) for table in (source, keyed)]
    times = {(t, c.version): c.committed_at for t, log in enumerate(ledgers) if log for c in log.all_commits()}
    checkpoint(tmp_path / "at_2", 0, read)
    checkpoint(tmp_path / "at_end", 0, SourceOffset({source: StreamFrontier(client, source).tail()}))
    checkpoint(tmp_path / "at_head", 0, SourceOffset({source: StreamFrontier(client, source).head()}))
    checkpoint(tmp_path / "others", 0, SourceOffset({raw: StreamFrontier(client, raw).head()}))
    checkpoint(tmp_path / "changes", 0, ChangesOffset(stream=keyed, commit=1, at=times[1, 1]))
    answers = Answers(settings, [Folder.parse(str(tmp_path))], scope=scope)

    def since() -> dict[str, int | None]:
        return {one["name"]: one["sources"][0]["waits_since"] for one in answers.queries()["queries"]}

    expected = {"at_2": times[0, 3], "at_end": None, "at_head": times[0, 1], "others": None, "changes": times[1, 2]}
    assert since() == expected
    (changes,) = [one["sources"][0] for one in answers.queries()["queries"] if one["name"] == "changes"]
    assert (changes["events_behind"], changes["version"]) == (3, 1)
    command = [sys.executable, "-m", "pyspark_pravega.cli", "lag", str(tmp_path / "changes"), "--controller"]
    lag = subprocess.run([*command, settings.controller_uri], capture_output=True, text=True, check=True).stdout
    assert "which has read version 1" in lag
    assert "  3 versions, " in lag
    assert ", 3 events behind" in lag
    with client.writer(raw) as writer:
        writer.write_batch([b"one"])
    written = time.time() * 1000

    def is_seen() -> bool:
        seen = since()["others"]
        return seen is not None and abs(seen - written) < 10_000

    eventually(is_seen)
    with LiveServer(answers) as server:
        metrics = httpx.get(f"{server.url}metrics").text
    ages = dict(re.findall(r'pravega_query_behind_seconds[{]checkpoint="[^"]*/(\w+)".*[}] ([0-9.]+)', metrics))
    assert ages.keys() == expected.keys()
    assert float(ages["at_end"]) == 0.0
    assert abs(float(ages["at_head"]) - (time.time() - times[0, 1] / 1000)) < 10


def test_what_is_kept_is_told_in_days(catalog: Catalog, scope: str, answers: Answers) -> None:
    table = make(catalog, scope, "orders", retention="7 days", retention_limit="30 days")
    policy = answers.stream(table)["retention"]["policy"]
    assert policy == "the last 7 days, at most 30 days while subscribers lag"


def test_health_tells_of_servers_logs_and_open_transactions(
    catalog: Catalog, settings: Settings, scope: str, answers: Answers
) -> None:
    table = make(catalog, scope, "orders")
    insert(catalog, table, 1)
    job = WriteJob(plan(catalog.definition(table, age_s=0)))
    rows = pa.record_batch({"id": pa.array([1], pa.int64()), "name": pa.array(["n"])})
    message = job.write_partition(0, iter([rows]))
    health = answers.health()
    kinds = [(one["kind"], one["milliseconds"] is not None) for one in health["servers"]]
    assert kinds == [("controller", True), ("segment store", True), ("schema registry", True)]
    assert health["servers"][0]["address"] == settings.controller_uri
    assert "0.1" in health["servers"][1]["text"], "the segment store's release"
    (log,) = health["logs"]
    assert (log["stream"], log["version"], log["state"]) == (str(table), 1, "writing")
    (open_job,) = log["jobs"]
    assert message.staged is not None
    assert [list(one) for one in open_job["transactions"]] == [[str(message.staged.transaction.id), "OPEN"]]
    assert [alert for alert in health["alerts"] if alert["stream"] == str(table)] == []
    job.commit_job([message])


def test_retention_that_no_longer_waits_for_a_subscriber_is_an_alert(
    catalog: Catalog, client: Client, scope: str, answers: Answers
) -> None:
    """Of a size, and of a time: as long as the commit is there whose rows lie at the stream's head."""
    large = make(catalog, scope, "orders", retention="1000 bytes", retention_limit="2000 bytes")
    old = make(catalog, scope, "visits", retention="1 seconds", retention_limit="4 seconds")
    insert(catalog, old, 1)
    insert(catalog, large, *range(60))
    for table, name in ((large, "nightly"), (old, "mail")):
        Subscription(client, name, (table,))

    def alerts() -> dict[str, str]:
        answers.streams()
        found = answers.health()["alerts"]
        return {alert["what"].partition(".")[2]: alert["text"] for alert in found if alert["kind"] == "retention"}

    eventually(lambda: "visits" in alerts())
    assert f"what subscriber {scope}/mail needs" in alerts()["visits"]
    assert "orders" not in alerts()
    insert(catalog, large, *range(100))
    eventually(lambda: "orders" in alerts())
    assert f"retention takes now what subscriber {scope}/nightly needs" in alerts()["orders"]


def test_a_server_that_is_gone_is_an_alert(settings: Settings) -> None:
    gone = Settings.resolve({"controller": "tcp://127.0.0.1:1", "timeout": "1"}, environ={})
    health = Answers(gone).health()
    assert [(one["kind"], one["level"]) for one in health["alerts"]] == [("server", "bad")]
    assert "doesn't answer" in health["alerts"][0]["text"]
    assert health["logs"] == []


def test_rows_at_a_moment_and_with_a_filter(
    catalog: Catalog, scope: str, answers: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(catalog, scope, "orders")
    insert(catalog, table, *range(30))
    between = time.time()
    insert(catalog, table, *range(30, 50), name=["ann", None] * 10)

    def ids(**wanted: str) -> list[str]:
        answer = answers.search(table, Wanted(count=100, **wanted))
        assert answer["error"] is None, answer
        return [row[0] for row in answer["rows"]]

    assert ids(column="id", value="7") == ["7"]
    assert ids(value="n7") == ["7"]
    assert ids(column="name", value="ann") == [str(number) for number in range(30, 50, 2)]
    assert ids(column="name", value="n1*") == ["1", *(str(number) for number in range(10, 20))]
    assert ids(version="1") == [str(number) for number in range(30)]
    assert ids(version="1", value="ann") == []
    assert ids(time=str(round(between * 1000))) == [str(number) for number in range(30)]
    answer = answers.search(table, Wanted(count=2, value="n"))
    assert (len(answer["rows"]), answer["matching"], answer["searched"]) == (2, 40, 50)
    assert "there is no column" in answers.search(table, Wanted(column="nmae", value="x"))["error"]
    assert 'did you mean "name"' in answers.search(table, Wanted(column="nmae", value="x"))["error"]
    assert "has no version" in answers.search(table, Wanted(version="9"))["error"]
    with monkeypatch.context() as narrow:
        narrow.setattr(searching, "MOST_BYTES", 600)
        some = answers.search(table, Wanted(value="ann"))
        assert (some["is_part"], some["searched"], some["matching"]) == (True, 20, 10)


def test_a_key_of_a_table_of_which_all_is_too_much(
    catalog: Catalog, scope: str, answers: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The segment that may hold it is gone through, and no other."""
    table = make(catalog, scope, "customers", segments=4, primary_key="id")
    insert(catalog, table, *range(200))
    insert(catalog, table, 7, name=["ann"])
    whole = answers.search(table, Wanted(column="id", value="7"))
    assert (whole["rows"], whole["matching"]) == ([["7", "ann"]], 1)
    assert 0 < whole["searched"] < 120
    size = sum(line.bytes for line in answers.sampler.lines([table])) or answers.streams()["lines"][0]["bytes"]
    with monkeypatch.context() as narrow:
        narrow.setattr(searching, "MOST_BYTES", size * 3 // 5)
        assert answers.search(table, Wanted(column="id", value="7")) == whole
        assert answers.search(table, Wanted(column="id", value="7", version="1"))["rows"] == [["7", "n7"]]
        for other in (Wanted(column="name", value="ann"), Wanted(column="id", value="7*"), Wanted(value="7")):
            assert "had to be gone through" in answers.search(table, other)["error"]
    for value in ("x", "7.5", ""):
        assert answers.search(table, Wanted(column="id", value=value, version="1"))["error"] is None


def test_what_a_version_has_changed(catalog: Catalog, scope: str, answers: Answers) -> None:
    plain, keyed = make(catalog, scope, "orders"), make(catalog, scope, "customers", primary_key="id")
    insert(catalog, plain, 1, 2)
    insert(catalog, plain, 3)
    told = answers.changes(plain, 2)
    assert told["changes"] == [{"type": "insert", "cells": ["3", "n3"]}]
    assert told["counts"] == {"insert": 1, "update": 0, "delete": 0}
    insert(catalog, keyed, 1, 2, name=["ann", "bob"])
    insert(catalog, keyed, 2, 3, name=["bea", "cy"])
    told = answers.changes(keyed, 2)
    assert (told["columns"], told["key"]) == (["id", "name"], ["id"])
    assert sorted(told["changes"], key=lambda one: one["cells"]) == [
        {"type": "update", "cells": ["2", "bea"], "before": ["2", "bob"]},
        {"type": "insert", "cells": ["3", "cy"]},
    ]
    assert told["counts"] == {"insert": 1, "update": 1, "delete": 0}
    assert [row[1] for row in answers.search(keyed, Wanted(version="1", count=9))["rows"]] == ["ann", "bob"]
    assert "has no version 9" in answers.changes(plain, 9)["error"]


def test_what_stands_beside_streams(catalog: Catalog, client: Client, scope: str, answers: Answers) -> None:
    table = make(catalog, scope, "orders", bad_events=f"stream:{scope.replace('-', '_')}.letters")
    insert(catalog, table, 1)
    Subscription(client, "nightly", (table,))
    around = answers.around(table)
    unknown = {"version": None, "behind": None, "waits_since": None}
    assert around["subscribers"] == [{"name": f"{scope}/nightly", **unknown}]
    assert around["letters"] == {"stream": f"{scope}/letters", "table": f"{scope.replace('-', '_')}.letters"}
    assert (around["cuts"], around["is_letters"], around["key"]) == ([], False, [])

    client.controller.create_key_value_table(scope, "rates", partitions=2, key_bytes=4)
    entries = KeyValueTable(client.pool, scope, "rates")
    entries.put([(b"EUR1", ANY_VERSION, b"1.0")])
    (namespace,) = answers.namespaces()["namespaces"]
    name = scope.replace("-", "_")
    assert (namespace["name"], namespace["streams"]) == (name, 1)
    assert namespace["key_values"] == [{"name": f"{scope}/rates", "table": f"{name}.rates"}]
    shown = answers.entries(Stream(scope, "rates"), 10)
    assert [(one["name"], one["key"]) for one in shown["columns"]] == [("key", True), ("value", False)]
    assert (shown["rows"], shown["partitions"]) == ([["EUR1", "1.0"]], 2)


def test_dead_letters_and_versions_that_wait(
    catalog: Catalog, client: Client, scope: str, answers: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of each source, and since when; none waits when they were redelivered; versions that a subscriber hasn't read."""
    name = scope.replace("-", "_")
    letters = make_letters(catalog, scope)
    orders, returns = (make(catalog, scope, one, bad_events=f"{name}.letters") for one in ("orders", "returns"))
    monkeypatch.setattr(counted, "_COUNTED_S", 0.0)
    assert answers.around(orders)["waiting"] == answers.around(letters)["waiting"] == []
    at = datetime(2026, 11, 1, 12, tzinfo=UTC)

    letter = partial(write_letters, catalog, letters)
    letter(orders, at, 100, 200, 300)
    letter(returns, at, 7)
    letter(orders, at, 100)
    seconds = round(at.timestamp() * 1000)
    of_orders = {"source": str(orders), "letters": 3, "since": seconds + 100_000}
    assert answers.around(orders)["waiting"] == [of_orders]
    of_returns = {"source": str(returns), "letters": 1, "since": seconds + 7_000}
    assert answers.around(letters)["waiting"] == [of_orders, of_returns]
    with monkeypatch.context() as narrow:
        narrow.setattr(counted, "MOST_BYTES", 10)
        letter(returns, at, 8)
        shown = answers.around(orders)
        assert (shown["waiting"], "bytes had to be gone through" in shown["waiting_error"]) == ([], True)

    ledger = open_ledger(client, letters)
    assert ledger is not None
    Subscription(client, "mail", (letters,))
    ledger.holders().note_subscriber(f"{scope}/mail", 2)
    third = ledger.commits([3])[0].committed_at
    known = {"name": f"{scope}/mail", "version": 2, "behind": 2, "waits_since": third}
    assert answers.around(letters)["subscribers"] == [known]


def test_last_rows_while_a_commit_is_in_progress(catalog: Catalog, client: Client, scope: str) -> None:
    """A snapshot counts it as a version, and the log has none of it yet."""
    table = make(catalog, scope, "orders")
    for number in range(3):
        insert(catalog, table, number)
    ledger, snapshot = open_ledger(client, table), take_snapshot(client, table)
    assert (ledger is not None, snapshot.version) == (True, 3)
    in_progress = replace(snapshot, version=4)
    last = last_rows(catalog.definition(table), in_progress, ledger, 2)
    assert last.column("id").to_pylist() == [1, 2]


def test_raw_events_are_text_where_they_are_some(client: Client, scope: str, answers: Answers) -> None:
    raw = Stream(scope, "raw")
    client.controller.create_stream(raw, StreamConfiguration(scaling=ScalingPolicy.fixed(1)))
    with client.writer(raw) as writer:
        writer.write_batch([b'{"page": 1}', b"\x00\xff", "grün".encode()])
    assert answers.rows(raw, 10)["rows"] == [['{"page": 1}'], ["0x00ff"], ["grün"]]
    assert answers.table(raw)["format"] == "raw"


def test_an_unknown_stream_is_told_its_neighbour(catalog: Catalog, scope: str, answers: Answers) -> None:
    make(catalog, scope, "orders")
    with LiveServer(answers) as server:
        answer = httpx.get(f"{server.url}api/stream?name={scope}/order")
    assert answer.status_code == 404
    assert f'did you mean "{scope}/orders"?' in answer.json()["error"]
