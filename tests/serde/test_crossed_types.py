"""The types that are crossed with every way to read (tests/spark/test_type_crossing.py) are those of docs/types.md."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from crossed_types import LEAVES, columns

TYPES = Path(__file__).parents[2] / "docs" / "types.md"


def names_in_docs() -> set[str]:
    """The types in the first column of the first table, without lengths and parameters; not those that are refused."""
    lines = TYPES.read_text().split("## All formats at a glance")[1].split("\n\n")[1].splitlines()[2:]
    names: set[str] = set()
    for line in lines:
        name, *formats = (cell.strip() for cell in line.strip("|").split("|"))
        if formats != ["-", "-", "-"]:
            names |= {kind.strip() for kind in re.sub(r"\([^)]*\)|&lt;.*?&gt;", "", name).split(",")}
    return names


@pytest.mark.since_spark("4.1")
def test_every_type_of_the_docs_is_crossed() -> None:
    types = " ".join(kind for kind, _ in LEAVES.values())
    types += " ".join(column.type for column in columns("avro"))
    not_types = {"nullable", "MAP with other keys"}
    missing = {
        kind for kind in names_in_docs() - not_types if not re.search(rf"\b{kind.removesuffix(' to TIME')}\b", types)
    }
    assert len(names_in_docs()) > 20, "the table of types wasn't found"
    assert not missing, missing
