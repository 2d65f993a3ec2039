"""The site that `make docs` has built works from the disk, in a browser that reaches nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser_tools import MISSING, Browser, browser, browser_is_there
from page_tools import ROOT

SITE = ROOT / "build" / "site"
pytestmark = [
    pytest.mark.skipif(not (SITE / "index.html").exists(), reason="no site: `make docs` builds it, and runs this"),
    pytest.mark.skipif(not browser_is_there(), reason=MISSING),
]
DRAWINGS = {"concepts.html": 4, "architecture.html": 1, "cdc.html": 1}
LOADED = "return performance.getEntriesByType('resource').map(entry => entry.name)"


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Browser]:
    with browser(tmp_path, offline=True) as window:
        yield window


def test_pages_load_nothing_from_elsewhere() -> None:
    """Links may lead there; scripts, styles and pictures may not."""
    loads = re.compile(r"<(?:script|img|iframe|source)\b[^>]*\bsrc=\"?https?:|<link\b[^>]*\bhref=\"?https?:")
    assert [page.name for page in SITE.rglob("*.html") if loads.search(page.read_text())] == []


@pytest.mark.parametrize(("page", "drawings"), DRAWINGS.items())
def test_drawings_are_drawn_without_a_network(page: str, drawings: int, reader: Browser) -> None:
    reader.open((SITE / page).as_uri())
    # The theme puts each drawing into a shadow root that nobody can look into: what it takes is looked at.
    tall = "[...document.querySelectorAll('div.mermaid')].filter(box => box.offsetHeight > 50).length"
    reader.wait("each drawing is drawn", f"return {tall} === arguments[0]", drawings)
    assert [name for name in reader.run(LOADED) if not name.startswith("file:")] == []


def test_the_search_works_from_the_disk(reader: Browser) -> None:
    reader.open((SITE / "index.html").as_uri())
    reader.wait("the search is there", "return document.querySelector('[data-md-component=search-query]')")
    reader.run("document.querySelector('label[for=__search]').click()")
    reader.run("document.querySelector('[data-md-component=search-query]').focus()")
    reader.press(*"compaction")
    hits = "[...document.querySelectorAll('.md-search-result__link')].map(link => link.href).join(' ')"
    # Hits of the first letters come before the last one is typed.
    links = reader.wait("hits are shown", f"return {hits}.includes('h=compaction') && {hits}")
    assert "keyed-tables.html" in links
    assert "internals/" not in links
