"""The tables of the reference that are made from the code: settings, properties, options.

`.venv/bin/python tests/docs/reference_tables.py` writes them; with `--check` it says whether they are as they should
be.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from pathlib import Path

from pyspark_pravega.catalog.stream_properties import StreamProperties
from pyspark_pravega.connector import option_names as options
from pyspark_pravega.connector.key_value import KeyValueProperties
from pyspark_pravega.connector.table import TableProperties
from pyspark_pravega.declared import Declared
from pyspark_pravega.settings import SETTINGS

PAGES = sorted((Path(__file__).parents[2] / "docs").glob("reference*.md"))
BLOCK = re.compile(r"(<!-- made from the code: (.+?) -->\n)(.*?)(<!-- end -->)", re.DOTALL)
_READS = (options.WHICH, options.EVENTS, options.BOUNDS, options.TRIGGERS)
_OTHERS = (options.READS_OF_OTHERS, options.MAKING, options.WRITES_OF_OTHERS)


def _lines(kind: str, some: Iterable[Declared]) -> list[str]:
    rows = [f"| `{one.name}` | {one.value} | {one.unset} | {one.about} |" for one in some]
    return [f"| {kind} | value | default | what it says |", "|---|---|---|---|", *rows]


def _grouped(kind: str, some: Iterable[Declared], groups: Iterable[str]) -> list[str]:
    known, lines = list(some), []
    for group in groups:
        lines += [f"{group}:", "", *_lines(kind, [one for one in known if one.group == group]), ""]
    return lines


def _settings() -> list[str]:
    rows = [f"| `{one.name}` | `{one.environment}` | {one.value} | {one.unset} | {one.about} |" for one in SETTINGS]
    return ["| setting | environment | value | default | what it says |", "|---|---|---|---|---|", *rows]


def _properties(kind: type[TableProperties] | type[KeyValueProperties]) -> list[str]:
    declared = list(kind.declared().values())
    return _grouped("property", declared, dict.fromkeys(one.group for one in declared if one.group))


def tables() -> dict[str, list[str]]:
    """The lines of each of them, by its name in the page."""
    return {
        "settings": _settings(),
        "stream properties": _lines("property", StreamProperties.declared().values()),
        "table properties": _properties(TableProperties),
        "key-value properties": _properties(KeyValueProperties),
        "options of reads": _grouped("option", options.OPTIONS, _READS),
        "options of writes": _lines("option", [one for one in options.OPTIONS if one.group == options.WRITES]),
        "options of others": _grouped("option", options.OPTIONS, _OTHERS),
    }


def blocks(page: str) -> list[str]:
    """The names of the tables that a page's text has."""
    return [block[2] for block in BLOCK.finditer(page)]


def made(page: str) -> str:
    """A page with its tables as the code has them.

    Args:
        page: its text.
    """
    known = tables()

    def block(match: re.Match[str]) -> str:
        return f"{match[1]}\n" + "\n".join(known[match[2]]).strip() + f"\n\n{match[4]}"

    return BLOCK.sub(block, page)


if __name__ == "__main__":
    for page in PAGES:
        before = page.read_text()
        if sys.argv[1:] != ["--check"]:
            page.write_text(made(before))
        elif before != made(before):
            sys.exit(f"{page.name} isn't what the code says: run .venv/bin/python tests/docs/{Path(__file__).name}")
