"""The live page in a real browser, before real servers."""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from browser_tools import MISSING, Browser, browser, browser_is_there
from catalog_tools import insert, make
from letter_tools import make_letters, write_letters
from pyspark.sql.types import TimestampType

from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.catalog.ddl import AddColumn
from pyspark_pravega.client import Client, KeyValueTable, ScalingPolicy, Stream, StreamConfiguration
from pyspark_pravega.client.key_value import ANY_VERSION
from pyspark_pravega.connector.log import open_ledger
from pyspark_pravega.connector.stream import SourceOffset, StreamFrontier
from pyspark_pravega.connector.stream.consumption import Subscription
from pyspark_pravega.live.answers import Answers
from pyspark_pravega.live.server import LiveServer
from pyspark_pravega.settings import Settings
from pyspark_pravega.sql.checkpoints import Folder

pytestmark = [pytest.mark.skipif(not browser_is_there(), reason=MISSING), pytest.mark.in_turn]

MANY = int(os.environ.get("LIVE_STREAMS", "250"))
"""Streams of a scope: more than an answer of the server has lines. To make one costs Pravega 23 ms of CPU."""
HOSTILE = "<img src=x onerror=\"document.body.dataset.hit='1'\"><script>document.body.dataset.hit='1'</script>"
CHECKS = (Path(__file__).parent / "checks.js").read_text()
CHOOSE = """const one = document.querySelector(arguments[0]);
one.value = arguments[1]; one.dispatchEvent(new Event('change'));"""
PHONE = ["bytes", "rows", "committed_at"]
IS_LIVE = "return document.querySelector('#live-text').textContent === 'live'"


@pytest.fixture(scope="module")
def window(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture
def page(settings: Settings, scope: str, window: Browser) -> Iterator[tuple[Browser, str]]:
    """The browser, and the address of a page that shows the test's own scope."""
    with LiveServer(Answers(settings, scope=scope)) as server:
        yield window, server.url
        window.open("about:blank")
    window.log()


def told(window: Browser, expression: str, *arguments: Any) -> Any:
    """What a function of checks.js tells."""
    return window.run(f"{CHECKS}; return {expression}", *arguments)


def wait(window: Browser, what: str, expression: str, *arguments: Any) -> Any:
    """Likewise, when it is something."""
    return window.wait(what, f"{CHECKS}; return {expression}", *arguments)


def assert_sound(window: Browser) -> None:
    """Names for all that can be used, text that can be read, nothing that the browser complains of, nothing run."""
    assert told(window, "nameless()") == []
    for scheme in ("dark", "light"):
        window.emulate(prefers_color_scheme=scheme)
        assert told(window, "poorContrast()") == [], scheme
    assert window.log() == []
    assert window.run("return document.body.dataset.hit ?? null") is None, "text of a user was run"


def test_a_stream_while_it_is_written_and_scaled(
    catalog: Catalog, client: Client, scope: str, page: tuple[Browser, str]
) -> None:
    """Numbers are those of the commit log, pictures aren't blank, a scale appears, text stays text."""
    window, url = page
    table = make(catalog, scope, "orders", segments=2, retention="50 bytes")
    insert(catalog, table, *range(120))
    insert(catalog, table, 120, 121, name=[HOSTILE, None])
    window.open(url)
    shown = wait(window, "the stream's line", "cells(arguments[0])", str(table))
    assert shown["table"] == f"{scope.replace('-', '_')}.orders"
    assert (shown["rows"], shown["segments"], shown["version"]) == ("122", "2", "2")
    window.wait("it is live", IS_LIVE)
    assert_sound(window)
    # A phone shows of a line what there is room for, none of it cut.
    window.viewport(390, 844)
    assert told(window, "seen(arguments[0])", str(table)) == ["table", "bytes_in", "curve", "events_in", *PHONE]
    assert told(window, "cut()") == []
    window.viewport(1400, 900)

    # By keys alone: to the filter, to the first line, into the stream.
    window.press("/", *"ord", "ArrowDown", "Enter")
    window.wait("the stream's page", "return location.hash.startsWith('#/stream/')")
    window.wait("rows", "return document.querySelectorAll('table.rows tbody tr').length === 20")
    values = told(window, "values()")
    assert (values["120"], values["121"]) == (["", HOSTILE], ["null", "NULL"])
    assert [told(window, f"fact('{name}')") for name in ("rows", "version", "segments")] == ["122", "2", "2"]
    assert told(window, "commits()") == ["2", "120"]
    assert "versions 1 to 1" in window.text("[aria-label=Retention]")
    assert "+ name string" in window.wait("schemas", "return document.querySelector('.changes')?.textContent")
    wait(window, "the segments' picture", "colors(arguments[0]) > 5", ".picture canvas")
    insert(catalog, table, *range(200, 260))
    wait(window, "a new commit", "commits()[0] === '60'")
    for canvas in ("[aria-label^=Rates] .uplot canvas", "[aria-label^=Commits] .uplot canvas"):
        wait(window, "a chart", "colors(arguments[0]) > 3", canvas)
    assert window.text(".units") == "bytes a secondevents a second"
    curves = "return import('./charts.js').then((charts) => charts.rateCurves(arguments[0]))"
    samples = [[0, 0, 0, 5], [1000, 100, 1, 5], [61_000, 200, 2, 5], [62_000, 300, 3, 5]]
    assert window.run(curves, samples) == [[1, 31, 62], [100, None, 100], [5, None, 5], [1, None, 1]], "a hole"

    client.controller.scale_to(table, 4)
    label = "return document.querySelector('.picture canvas').getAttribute('aria-label').includes(arguments[0])"
    window.wait("the scale", label, "6 segments, 4 of which take events, 1 scales")
    assert told(window, "fact('segments')") == "4"
    window.run("document.querySelector('.picture canvas').focus()")
    window.press("ArrowRight")
    assert "segment 0: keys 0.000 to 0.500" in window.text(".picture .say")
    assert_sound(window)
    wait(window, "a light chart", "lightCharts() > 0")
    window.emulate(prefers_color_scheme="dark")
    wait(window, "dark charts", "lightCharts() === 0")
    window.emulate(prefers_color_scheme="light")
    for width in (390, 1400):
        window.viewport(width, 844)
        # Charts are drawn anew when their place has another size.
        window.wait("the screen's width", "return document.documentElement.scrollWidth <= arguments[0]", width)
    window.press("Escape")
    window.wait("the streams", "return document.querySelector('h1').textContent === 'Streams'")

    catalog.relations.drop([scope], "orders")
    window.open("about:blank")
    window.open(f"{url}#/stream/{table}")
    window.wait("the error", "return document.querySelector('#error').textContent.includes('does not exist')")
    assert (
        window.run("return [...document.querySelectorAll('.panel')].filter((one) => one.checkVisibility()).length") == 0
    )
    window.log()


def stopped_query(folder: Path, stream: Stream, client: Client, *, query: str) -> None:
    """A checkpoint whose last micro-batches were ten minutes ago, before all that the stream holds."""
    for inner in ("offsets", "commits"):
        (folder / inner).mkdir(parents=True)
    offset = SourceOffset({stream: StreamFrontier(client, stream).head()})
    for batch, seconds_ago in (("0", 604), ("1", 600)):
        (folder / "offsets" / batch).write_text(f"v1\n{{}}\n{offset.to_json()}\n")
        (folder / "commits" / batch).write_text("v1\n{}")
        os.utime(folder / "commits" / batch, (time.time() - seconds_ago,) * 2)
    (folder / "metadata").write_text(json.dumps({"id": query}))


def test_each_view_is_reached_by_clicks(
    catalog: Catalog, client: Client, settings: Settings, scope: str, window: Browser, tmp_path: Path
) -> None:
    """From an alert to the query, on to its table, its rows and what a version changed; to its schema, its subscriber
    and its dead letters; to namespaces and entries."""
    name, letters = scope.replace("-", "_"), make_letters(catalog, scope)
    table = make(catalog, scope, "customers", primary_key="id", bad_events=f"{name}.letters")
    insert(catalog, table, 1, 2, name=["ann", HOSTILE])
    insert(catalog, table, 2, 3, name=["bea", "cy"])
    catalog.altering.alter([scope], "customers", [AddColumn(column=("at",), type=TimestampType())])
    write_letters(catalog, letters, table, datetime.now(UTC), 1, 2, 3)
    Subscription(client, "mail", (table,))
    ledger = open_ledger(client, table)
    assert ledger is not None
    ledger.holders().note_subscriber(f"{scope}/mail", 1)
    client.controller.create_key_value_table(scope, "rates", partitions=1, key_bytes=3)
    KeyValueTable(client.pool, scope, "rates").put([(b"EUR", ANY_VERSION, b"1.0"), (b"USD", ANY_VERSION, b"1.1")])
    stopped_query(tmp_path / "nightly", table, client, query=str(uuid.UUID(int=5)))
    with LiveServer(Answers(settings, [Folder.parse(tmp_path.as_uri())], scope=scope)) as server:
        window.open(server.url)
        window.wait("the alert", "return document.querySelector('#banner').textContent.includes('has it stopped?')")
        assert "Something is wrong nightly: no micro-batch for" in window.text("#banner")
        assert window.text("#health-sign") == "1 alert"
        edge = "return parseInt(getComputedStyle(document.querySelector('.streams th:last-child')).paddingRight)"
        assert window.run(edge) >= 10, "the last column touches the table's border"
        assert_sound(window)
        window.click("#banner a")
        window.wait("health", "return document.querySelector('.sign strong')?.textContent === '1 alert'")
        assert "bad" in window.run("return document.querySelector('.sign').className")
        assert "segment store" in window.text("[aria-label=Servers]")
        assert f"{name}.customers" in window.text("[aria-label='Commit logs']")
        assert_fits(window)

        window.click(".alerts a")
        window.wait("the query", "return document.querySelector('.panel h2')?.textContent === 'nightly'")
        wait(window, "its lag's chart", "colors(arguments[0]) > 3", ".uplot canvas")
        assert "the oldest unread row is " in window.text(".lag")
        assert_fits(window)

        window.click(".flow a")
        shown_rows = "return document.querySelectorAll('table.rows tbody tr').length === arguments[0]"
        window.wait("rows", shown_rows, 3)
        window.click(".filter button:last-of-type")
        insert(catalog, table, 4, name=["di"], at=[datetime.now(UTC)])
        wait(window, "the commit", "commits()[0] === '1'")
        time.sleep(3)
        assert window.run(shown_rows, 3), "nobody follows"
        window.click(".filter button:last-of-type")
        window.wait("the row that came", shown_rows, 4)
        window.click("[aria-label='Filter rows by a value']")
        window.press(*"be*")
        window.run(CHOOSE, "[aria-label='Column of the filter']", "name")
        window.wait("the row", "return document.querySelectorAll('table.rows tbody tr').length === 1")
        assert "1 of 4 rows match · as it is now" in window.text("section[aria-label='Last rows'] .head")
        window.click("[aria-label='Version or time']")
        window.press("1")
        window.wait("no row then", "return document.body.textContent.includes('No row matches.')")
        assert "VERSION AS OF 1 WHERE" in window.run(
            "return [...document.querySelectorAll('.sql code')].map((one) => one.textContent).join(';')"
        )
        window.click("[aria-label='What version 2 changed']")
        changes = "return document.querySelector('.changed p').textContent.startsWith('1 inserted, 1 updated')"
        window.wait("what it changed", changes)
        assert HOSTILE in window.text(".changed del")
        assert window.text(".changed ins") == "bea"
        assert_fits(window)

        window.click("section[aria-label='Schema versions'] summary")
        window.wait("the difference", "return document.querySelector('pre.diff .plus')?.checkVisibility()")
        assert_fits(window)
        needs = "section[aria-label^=Subscribers]"
        assert f"{scope}/mail has read until version 1, 2 versions wait, the oldest for" in window.text(needs)
        assert f"go into {name}.letters3 wait the oldest for" in window.text(needs)
        window.click(f"{needs} a")
        window.wait("the letters", "return document.querySelector('h1').textContent.endsWith('.letters')")
        waiting = f"3 wait of {table}, the oldest for"
        window.wait(
            "how many wait",
            "return document.querySelector(arguments[0]).textContent.includes(arguments[1])",
            needs,
            waiting,
        )
        assert_fits(window)

        window.click("[data-view=namespaces]")
        window.wait("the namespace", "return document.body.textContent.includes(arguments[0])", f"{name}.rates")
        assert_fits(window)
        window.click("[aria-label=Namespaces] td:last-child a")
        window.wait("entries", "return document.querySelectorAll('table.rows tbody tr').length === 2")
        assert_fits(window)
        window.press("Escape")
        window.wait("namespaces", "return location.hash === '#/namespaces'")
        window.open("about:blank")
    window.log()


def assert_fits(window: Browser) -> None:
    """As `assert_sound`, on a phone and a desktop; nothing is wider than the screen."""
    for width in (390, 1400):
        window.viewport(width, 844)
        window.wait("the screen's width", "return document.documentElement.scrollWidth <= arguments[0]", width)
    assert_sound(window)


@pytest.mark.in_turn(8)
def test_many_streams_stay_smooth(client: Client, scope: str, page: tuple[Browser, str]) -> None:
    """Few lines are in the document, each look is a short task, and the last stream can be reached."""
    window, url = page

    def create(number: int) -> None:
        client.controller.create_stream(Stream(scope, f"s-{number:04}"), StreamConfiguration(scaling=ScalingPolicy()))

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(create, range(MANY)))
    window.open(url)
    window.wait(
        "all streams", "return document.querySelector('.bar').textContent.includes(arguments[0])", f"{MANY:,} streams"
    )
    last = f"s-{MANY - 1:04}"
    told(window, "watchTasks()")
    window.run("document.querySelector('.scroll').scrollTop = 1e9")
    wait(window, "the last stream", "cells(arguments[0])", last)
    assert window.run("return document.querySelectorAll('tr.line').length") < 100
    with client.writer(Stream(scope, last)) as writer:
        writer.write_batch([b"x" * 992] * 10)
    wait(window, "what was written to it", "cells(arguments[0]).bytes.startsWith('10.0')", last)
    print(f"longest task of the page: {window.run('return window.longest')} ms")
    assert_sound(window)
    # Of others' events it says what they are.
    window.open("about:blank")
    window.open(f"{url}#/stream/{Stream(scope, last)}")
    window.wait("what its events are", "return document.querySelector('.tag')?.textContent === 'raw events'")


def test_nobody_asks_while_the_page_is_hidden(page: tuple[Browser, str]) -> None:
    window, url = page
    window.open(url)
    window.wait("it is live", IS_LIVE)
    told(window, "countRequests()")
    told(window, "hide(true)")
    window.wait("rest", "return document.querySelector('#live-text').textContent === 'resting'")
    before = window.run("return window.requests")
    # Not even for another view.
    window.run("location.hash = '#/queries'")
    window.wait("the other view", "return document.querySelector('h1').textContent === 'Streaming queries'")
    assert window.run("return window.requests") == before
    told(window, "hide(false)")
    window.wait("it is live again", IS_LIVE)
    assert window.run("return window.requests") > before
