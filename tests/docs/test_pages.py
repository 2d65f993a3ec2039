"""Pages: lines of a readable length, links and paths that lead somewhere, snippets that are known."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from page_tools import PAGES, ROOT, RUNNABLE, SHOWN, prose, snippets
from reference_tables import BLOCK, blocks, made, tables
from reference_tables import PAGES as REFERENCE

from pyspark_pravega import errors
from pyspark_pravega.catalog.statements import PROCEDURES
from pyspark_pravega.catalog.stream_properties import StreamProperties
from pyspark_pravega.cli import main
from pyspark_pravega.connector.key_value import KeyValueProperties
from pyspark_pravega.connector.table import TableProperties
from pyspark_pravega.errors import PravegaError
from pyspark_pravega.serde.native import SLOWER
from pyspark_pravega.settings import SETTINGS

MAX_LINE, MAX_ROW, MAX_CODE, MAX_ARCHITECTURE_WORDS, MAX_RESULTS_LINES = 120, 250, 76, 1200, 200
MAX_WORDS = 1500
"""Of a page for users, as `wc -w` counts: with code, and with the bars of tables."""
MAX_SENTENCES = 19_500
"""Words of all pages for users together, outside code and tables."""
FOR_USERS = [page for page in PAGES if page == "README.md" or re.fullmatch(r"docs/(guides/)?[\w-]+\.md", page)]
FOR_USERS = [page for page in FOR_USERS if page not in {"docs/architecture.md", "docs/pravega-facts.md"}]
OF_CLUSTERS = {"docs/clusters.md", "docs/platforms.md"}
"""Their commands are those of other programs, with names that are long."""
_TEST_LINK = re.compile(r"\[`(\w+)`\]\(\.\./(tests/[\w/]+\.py)\)")
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_CODE = re.compile(r"`([A-Za-z0-9_./-]+)`")
_MADE = re.compile(r"CREATE (?:TABLE|VIEW) (?!IF)(?:pravega\.)?([\w.]+)")
_TOP = {path.name for path in ROOT.iterdir()}
_ROOMS = {path.name for path in (ROOT / "pyspark_pravega").iterdir()}


@pytest.mark.parametrize("page", PAGES)
def test_no_line_is_too_long(page: str) -> None:
    # Tables that are made from the code are as wide as what it says. No row can be broken; links in it aren't seen.
    lines = BLOCK.sub(r"\1\4", (ROOT / page).read_text()).splitlines()
    for number, line in enumerate(lines, 1):
        row = line.startswith("| ")
        assert len(_TEST_LINK.sub("", line) if row else line) <= (MAX_ROW if row else MAX_LINE), f"{page}:{number}"


@pytest.mark.parametrize("page", [page for page in FOR_USERS if page not in OF_CLUSTERS])
def test_code_isn_t_too_wide(page: str) -> None:
    """The site shows so much without a bar to scroll."""
    code = [snippet.text for snippet in snippets(page) if snippet.language in RUNNABLE]
    lines = [line for text in code for line in text.splitlines()]
    assert [line for line in lines if len(line) > MAX_CODE] == []


@pytest.mark.parametrize("page", FOR_USERS)
def test_no_page_for_users_is_too_long(page: str) -> None:
    assert len((ROOT / page).read_text().split()) <= MAX_WORDS


def test_pages_for_users_are_short_together() -> None:
    lines = [line for page in FOR_USERS for _, line in prose(page) if not line.startswith("|")]
    assert sum(len(line.split()) for line in lines) <= MAX_SENTENCES


def test_the_architecture_is_read_in_minutes() -> None:
    assert len((ROOT / "docs/architecture.md").read_text().split()) <= MAX_ARCHITECTURE_WORDS


def test_results_are_the_last_ones_only() -> None:
    text = (ROOT / "benchmarks/RESULTS.md").read_text()
    assert len(text.splitlines()) <= MAX_RESULTS_LINES
    commands = re.findall(r"^## [0-9-]+: `(.*)`$", text, re.MULTILINE)
    assert len(commands) > 5
    assert len(commands) == len(set(commands))


def test_each_guarantee_has_its_test() -> None:
    promised, _, _ = (ROOT / "docs/guarantees.md").read_text().partition("## What isn't promised")
    rows = [line for line in promised.splitlines() if line.startswith("| ") and not line.startswith("| promise |")]
    assert [row for row in rows if not _TEST_LINK.search(row)] == []
    named = _TEST_LINK.findall(promised)
    assert len(named) > 60
    for name, file in named:
        assert f"def {name}(" in (ROOT / file).read_text(), f"{file} has no {name}"


def test_what_the_readme_claims_has_tests() -> None:
    claims = re.findall(r"^\d\. \*\*(?:.|\n(?=   ))+", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert len(claims) == 4
    assert [claim for claim in claims if not re.search(r"\]\(tests/[\w/]+\.py\)", claim)] == []


def anchors(page: Path) -> set[str]:
    """What links to a page's headings may say, as GitHub and the site make it."""
    headings = [line for _, line in prose(str(page.relative_to(ROOT))) if line.startswith("#")]
    names = [re.sub(r"[^\w\- ]", "", heading.lstrip("# ").lower()).strip() for heading in headings]
    return {re.sub(r"[ ]", "-", name) for name in names}


@pytest.mark.parametrize("page", ["README.md", "docs/faq.md", "docs/troubleshooting.md"])
def test_pages_say_of_the_plain_codec_what_it_says_itself(page: str) -> None:
    text = (ROOT / page).read_text()
    assert [figure for figure in re.findall(r"\d+ to \d+ times", SLOWER) if figure not in text] == []


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_to_pages_and_headings(page: str) -> None:
    for number, line in prose(page):
        for link in _LINK.findall(line):
            if re.match(r"[a-z]+:", link):
                continue
            target, _, anchor = link.partition("#")
            path = (ROOT / page).parent / target if target else ROOT / page
            assert path.exists(), f"{page}:{number}: {link}"
            if anchor:
                assert anchor in anchors(path.resolve()), f"{page}:{number}: {link}"


@pytest.mark.parametrize("page", [page for page in PAGES if page != "CHANGELOG.md"])
def test_files_that_pages_name_exist(page: str) -> None:
    """`docs/testing.md` from the root, or `connector/read` within the package, `jvm/` being its folder of classes."""
    for number, line in prose(page):
        for path in _CODE.findall(line):
            first, slash, _ = path.partition("/")
            if not slash or first not in _TOP | _ROOMS:
                continue
            places = [ROOT / path, ROOT / "pyspark_pravega" / path]
            assert any(place.exists() for place in places), f"{page}:{number}: {path}"


@pytest.mark.parametrize("page", PAGES)
def test_each_snippet_is_of_a_known_kind(page: str, record_property: Callable[[str, object], None]) -> None:
    """What could run runs (`test_snippets.py`), or says why it doesn't."""
    not_run = 0
    for snippet in snippets(page):
        assert snippet.language in RUNNABLE | SHOWN, snippet.place
        if snippet.marker is not None:
            assert snippet.language in RUNNABLE, f"{snippet.place}: only {RUNNABLE} run"
            assert len(snippet.marker) > 10, f"{snippet.place}: say why it isn't run"
            not_run += 1
    record_property("snippets not run", not_run)


@pytest.mark.parametrize("page", PAGES)
def test_no_statement_ends_in_a_comment(page: str) -> None:
    """At the prompt of spark-sql a line that doesn't end in `;` goes on with the next one."""
    lines = [line for snippet in snippets(page) if snippet.language == "sql" for line in snippet.text.splitlines()]
    assert [line for line in lines if re.search(r";\s+--", line)] == []


def test_no_two_pages_make_the_same_table() -> None:
    """Who has typed one page goes on with the next one, in the same sandbox."""
    makers: dict[str, set[str]] = {}
    for snippet in (snippet for page in FOR_USERS for snippet in snippets(page)):
        for name in _MADE.findall(snippet.text):
            makers.setdefault(name, set()).add(snippet.page)
    assert {name: pages for name, pages in makers.items() if len(pages) > 1} == {}


@pytest.mark.parametrize("page", PAGES)
def test_code_stands_in_fences(page: str) -> None:
    """An indented block has no language, and so nobody could say whether it runs."""
    lines = prose(page)
    for (_, above), (number, line) in itertools.pairwise(lines):
        assert not (line.startswith("    ") and not above.strip()), f"{page}:{number}: {line}"
    assert sum(line.startswith("```") for line in (ROOT / page).read_text().splitlines()) == 2 * len(snippets(page))


def docs(name: str) -> str:
    return (ROOT / "docs" / name).read_text()


def test_the_reference_has_each_setting_option_and_property() -> None:
    texts = [page.read_text() for page in REFERENCE]
    assert [made(text) for text in texts] == texts, "run .venv/bin/python tests/docs/reference_tables.py"
    assert sorted(name for text in texts for name in blocks(text)) == sorted(tables())


def test_a_page_for_users_describes_each_property() -> None:
    """The reference only lists it."""
    kinds = (StreamProperties, TableProperties, KeyValueProperties)
    declared = {one.name for kind in kinds for one in kind.declared().values() if one.about}
    pages = [page for page in PAGES if re.fullmatch(r"docs/(?!reference)[\w-]+\.md", page)]
    told = " ".join((ROOT / page).read_text() for page in pages)
    assert {name for name in declared if not re.search(rf"[`']{name}[`'= ]", told)} == set()


def test_a_page_has_each_procedure() -> None:
    rows = docs("procedures.md").partition("\n## Procedures\n")[2].partition("\n## ")[0].splitlines()
    cells = [row.split(" | ")[0] for row in rows if row.startswith("| `")]
    assert set(PROCEDURES) == {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}


def test_the_reference_has_each_error() -> None:
    known = {
        (kind.condition, kind.sqlstate, kind.__name__)
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, PravegaError)
    }
    assert known == set(
        re.findall(r"^\| `(PRAVEGA_\w+)` \| `(\w+)` \| `(\w+)` \|", docs("reference-errors.md"), re.MULTILINE)
    )


@pytest.mark.parametrize("page", PAGES)
def test_conditions_that_pages_name_exist(page: str) -> None:
    known = {kind.condition for kind in vars(errors).values() if isinstance(kind, type) and hasattr(kind, "condition")}
    known |= {setting.environment for setting in SETTINGS}
    named = set(re.findall(r"(?<![\w.])PRAVEGA_[A-Z]+(?:_[A-Z]+)*(?!\w)", (ROOT / page).read_text()))
    assert named - known - {"PRAVEGA_VERSION"} == set()


def test_the_reference_has_each_command(capsys: pytest.CaptureFixture[str]) -> None:
    def commands(*above: str) -> set[str]:
        with pytest.raises(SystemExit):
            main([*above, "--help"])
        help_text = capsys.readouterr().out
        return set(re.findall(r"^ {4}([a-z]+)\b", help_text, re.MULTILINE))

    named = [name.split() for name in re.findall(r"^\| `pravega-spark ([a-z ]+)", docs("reference.md"), re.MULTILINE)]
    assert commands() == {name for name, *_ in named}
    assert commands("sandbox") == {name for above, *names in named if above == "sandbox" for name in names}
