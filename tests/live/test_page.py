"""The live page in a real browser, before real servers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from browser_tools import MISSING, Browser, browser, browser_is_there
from catalog_tools import insert, make

from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.client import Client, ScalingPolicy, Stream, StreamConfiguration
from pyspark_pravega.live.answers import Answers
from pyspark_pravega.live.server import LiveServer
from pyspark_pravega.settings import Settings

pytestmark = pytest.mark.skipif(not browser_is_there(), reason=MISSING)

MANY = 1000
HOSTILE = "<img src=x onerror=\"document.body.dataset.hit='1'\"><script>document.body.dataset.hit='1'</script>"
COLORS = """
const canvas = document.querySelector(arguments[0]);
if (!canvas || !canvas.width) return 0;
const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data, seen = new Set();
for (let place = 0; place < data.length; place += 4)
  if (data[place + 3] > 200) seen.add(data[place] * 65536 + data[place + 1] * 256 + data[place + 2]);
return seen.size"""
CONTRAST = """
const parts = (text) => text.match(/[\\d.]+/g).map(Number);
const light = ([r, g, b]) => [r, g, b].map((v) => v / 255).map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
  .reduce((sum, v, place) => sum + v * [0.2126, 0.7152, 0.0722][place], 0);
const behind = (element) => {
  for (let one = element; one; one = one.parentElement) {
    const color = parts(getComputedStyle(one).backgroundColor);
    if (color.length < 4 || color[3] > 0.99) return color;
  }
  return [255, 255, 255];
};
const poor = [];
for (const element of document.querySelectorAll('body *')) {
  const text = [...element.childNodes].filter((node) => node.nodeType === 3).map((node) => node.textContent.trim()).join('');
  if (!text || !element.checkVisibility() || element.closest('.only-read, .skip, script, style')) continue;
  const [a, b] = [light(parts(getComputedStyle(element).color)), light(behind(element))];
  const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  if (ratio < 4.5) poor.push(`${text.slice(0, 40)}: ${ratio.toFixed(2)}`);
}
return poor"""
NAMELESS = """
const named = (one) => (one.getAttribute('aria-label') || one.textContent || one.getAttribute('title') || '').trim()
  || (one.labels && one.labels.length);
const wanted = 'a[href], button, input, select, canvas:not([aria-hidden]), [role=img], [role=region], [role=group], [tabindex="0"]';
const bad = [...document.querySelectorAll(wanted)].filter((one) => !named(one)).map((one) => one.outerHTML.slice(0, 120));
for (const table of document.querySelectorAll('table')) {
  if (table.closest('.u-legend') || table.matches('.u-legend')) continue;
  if (!table.caption && !table.closest('[aria-label]')) bad.push('a table without a name');
  if ([...table.querySelectorAll('th')].some((head) => !head.scope)) bad.push('a head without scope');
}
if (!document.documentElement.lang) bad.push('no language');
if (document.querySelectorAll('h1').length !== 1) bad.push('not one h1');
const ids = [...document.querySelectorAll('[id]')].map((one) => one.id);
if (new Set(ids).size !== ids.length) bad.push('an id twice');
return bad"""


@pytest.fixture(scope="module")
def window(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture
def page(settings: Settings, scope: str, window: Browser) -> Iterator[tuple[Browser, str]]:
    with LiveServer(Answers(settings, scope=scope)) as server:
        yield window, server.url
        window.open("about:blank")


def cells(window: Browser, stream: Stream) -> dict[str, str]:
    script = """
const link = [...document.querySelectorAll('tr.line a')].find((one) => one.getAttribute('href').endsWith(arguments[0]));
return link && Object.fromEntries([...link.closest('tr').cells].map((cell) => [cell.className.match(/c-(\\w+)/)[1], cell.textContent]))"""
    found: dict[str, str] = window.wait("a line of the stream", script, f"{stream}")
    return found


def fact(window: Browser, name: str) -> str:
    script = """
const term = [...document.querySelectorAll('dt')].find((one) => one.textContent === arguments[0]);
return term ? term.nextElementSibling.textContent : ''"""
    return str(window.run(script, name))


def sound(window: Browser) -> None:
    """Names for all that can be used, text that can be read, nothing that the browser refused."""
    assert window.run(NAMELESS) == []
    for scheme in ("light", "dark"):
        window.emulate(prefers_color_scheme=scheme)
        assert window.run(CONTRAST) == [], scheme
    window.emulate(prefers_color_scheme="light")
    assert window.log() == []
    assert window.run("return document.body.dataset.hit ?? null") is None, "text of a user has run"


def test_a_stream_while_it_is_written_and_scaled(
    catalog: Catalog, client: Client, scope: str, page: tuple[Browser, str]
) -> None:
    """Numbers are those of the commit log, pictures aren't blank, a scale appears, text stays text."""
    window, url = page
    table = make(catalog, scope, "orders", segments=2, retention="50 bytes")
    insert(catalog, table, *range(120))
    insert(catalog, table, 120, 121, name=[HOSTILE, None])
    window.open(url)
    shown = cells(window, table)
    assert (shown["table"], shown["rows"], shown["segments"], shown["version"]) == (
        f"{scope.replace('-', '_')}.orders",
        "122",
        "2",
        "2",
    )
    assert window.run("return document.querySelector('#live').className").startswith("live on")
    sound(window)

    # By keys alone: to the filter, to the first line, into the stream.
    window.press("/", *"ord", "ArrowDown", "Enter")
    window.wait("the stream's page", "return location.hash.startsWith('#/stream/')")
    window.wait("rows", "return document.querySelectorAll('table.rows tbody tr').length === 20")
    assert (
        window.run("return document.querySelector('table.rows tbody tr:nth-child(2) td:nth-child(2)').textContent")
        == HOSTILE
    )
    assert window.run("return document.querySelector('table.rows tbody tr td:nth-child(2)').className") == "null"
    assert (fact(window, "rows"), fact(window, "version"), fact(window, "segments")) == ("122", "2", "2")
    versions = "return [...document.querySelectorAll('[aria-label^=\"Commits, the\"] tbody tr')].map((one) => one.cells[2].textContent)"
    assert window.wait("commits", versions) == ["2", "120"]
    assert "versions 1 to 1" in window.text("[aria-label=Retention]")
    assert "+ name string" in window.wait("schemas", "return document.querySelector('.changes')?.textContent")
    window.wait(
        "the segments' picture", f"{COLORS.replace('return seen.size', 'return seen.size > 5')}", ".picture canvas"
    )
    insert(catalog, table, *range(200, 260))
    window.wait("a new commit", f"return (() => {{ {versions} }})()[0] === '60'")
    window.wait("charts", "return document.querySelectorAll('.uplot canvas').length === 2")
    for canvas in ("[aria-label^=Rates] .uplot canvas", "[aria-label^=Commits] .uplot canvas"):
        assert window.run(COLORS, canvas) > 3, canvas

    client.controller.scale_to(table, 4)
    label = "return document.querySelector('.picture canvas').getAttribute('aria-label').includes(arguments[0])"
    window.wait("the scale", label, "6 segments, 4 of which take events, 1 scales")
    assert fact(window, "segments") == "4"
    window.run("document.querySelector('.picture canvas').focus()")
    window.press("ArrowRight")
    assert "segment 0: keys 0.000 to 0.500" in window.text(".picture .say")
    sound(window)
    for width in (390, 1400):
        window.viewport(width, 844)
        assert window.run("return document.documentElement.scrollWidth") <= width, "it is as wide as the screen"
    window.press("Escape")
    window.wait("the streams", "return document.querySelector('h1').textContent === 'Streams'")

    catalog.drop_table([scope], "orders")
    window.open(f"{url}#/stream/{table}")
    window.wait("the error", "return document.querySelector('#error').textContent.includes('does not exist')")


def test_a_thousand_streams_stay_smooth(client: Client, scope: str, page: tuple[Browser, str]) -> None:
    """Few lines are in the document, each look is a short task, and the last stream can be reached."""
    window, url = page
    for number in range(MANY):
        client.controller.create_stream(Stream(scope, f"s-{number:04}"), StreamConfiguration(scaling=ScalingPolicy()))
    window.open(url)
    window.wait("all streams", "return document.querySelector('.bar').textContent.includes('1,000 streams')")
    window.run("""
window.longest = 0;
new PerformanceObserver((list) => { for (const one of list.getEntries()) window.longest = Math.max(window.longest, one.duration); })
  .observe({ entryTypes: ['longtask'] });""")
    window.run("document.querySelector('.scroll').scrollTop = 1e9")
    last = "return [...document.querySelectorAll('tr.line a')].some((one) => one.textContent.endsWith('.s_0999'))"
    window.wait("the last stream", last)
    assert window.run("return document.querySelectorAll('tr.line').length") < 100
    with client.writer(Stream(scope, "s-0999")) as writer:
        writer.write_batch([b"x" * 992] * 10)
    stored = "return [...document.querySelectorAll('tr.line')].pop().querySelector('.c-bytes').textContent.startsWith('10.0')"
    window.wait("what was written to it", stored)
    print(f"longest task: {window.run('return window.longest')} ms")
    sound(window)


def test_nobody_asks_while_the_page_is_hidden_or_closed(
    settings: Settings, scope: str, window: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    answers = Answers(settings, scope=scope)
    look = answers.streams

    def counted(**arguments: Any) -> dict[str, Any]:
        asked.append(time.monotonic())
        return look(**arguments)

    monkeypatch.setattr(answers, "streams", counted)
    with LiveServer(answers) as server:
        window.open(server.url)
        window.wait("the page", "return document.querySelector('#live-text').textContent === 'live'")
        window.wait(
            "a second look",
            "return performance.getEntriesByType('resource').filter((one) => one.name.includes('api/')).length > 1",
        )
        window.run("""
Object.defineProperty(document, 'hidden', { configurable: true, get: () => true });
document.dispatchEvent(new Event('visibilitychange'));""")
        window.wait("rest", "return document.querySelector('#live-text').textContent === 'resting'")
        count = len(asked)
        window.run("delete document.hidden; document.dispatchEvent(new Event('visibilitychange'));")
        window.wait("the page again", "return document.querySelector('#live-text').textContent === 'live'")
        assert len(asked) == count + 1
