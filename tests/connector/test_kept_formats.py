"""Format 1 of the commit log, as 0.1.0 writes it: each later version has to read it, and to write what 0.1.0 reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pyspark_pravega.connector.log import json_table
from pyspark_pravega.connector.log.entries import (
    Cleaning,
    Commit,
    Intent,
    Replacement,
    State,
    commit_content,
    commit_of,
    state_content,
    state_of,
)
from pyspark_pravega.connector.log.json_table import Document

KEPT: dict[str, dict[str, Any]] = json.loads((Path(__file__).parent / "kept_formats.json").read_text())
"""Entries' contents, without `format`."""

STATE = State(
    version=17,
    pending=Intent(
        job="8d0f3f2a",
        transactions=("00000000-0000-0001-0000-000000000002",),
        rows=3,
        bytes=270,
        started_at=1795278750000,
        query="q1",
        epoch=4,
        offsets="0a1b",
        event_time=1795278749000,
        writer="spark-1",
        replacement=Replacement(
            begins={0: 120, 4294967297: 0}, id="r1", base=16, properties={"format": "avro"}, stream={"segments": 2}
        ),
    ),
    rows=40,
    bytes=3600,
    committed_at=1795278740000,
    replaced_rows=12,
    replaced_table=11,
    cleaning=Cleaning(version=12, begins={0: 60}, held=True),
    added_checks=2,
    truncation_due=True,
    compacted={0: (10, 20)},
    reached={0: 100},
    replaced_before=9,
    released=8,
    stored_as=5,
)
VERSION = Commit(
    version=16,
    job="7c0e",
    transactions=("00000000-0000-0001-0000-000000000001",),
    rows=10,
    bytes=900,
    committed_at=1795278740000,
    cut={0: 33060, 1: 30740},
    started_at=1795278739000,
)
REPLACED = Commit(
    version=12,
    job="6b0d",
    transactions=(),
    rows=0,
    bytes=0,
    committed_at=1795278700000,
    cut={0: 60},
    query="q1",
    epoch=3,
    replacement="r0",
    begins={0: 60},
    base=11,
    replaced=9,
    started_at=1795278699000,
)


def test_the_format_has_the_number_that_was_released() -> None:
    assert json_table.FORMAT == 1


@pytest.mark.parametrize(("name", "state"), [("empty state", State(stored_as=5)), ("state", STATE)])
def test_a_state_is_read_and_written_as_it_was(name: str, state: State) -> None:
    assert state_of(Document(content=KEPT[name], version=5)) == state
    assert as_json(state_content(state)) == KEPT[name]


@pytest.mark.parametrize(("name", "commit"), [("version", VERSION), ("version that replaced rows", REPLACED)])
def test_a_version_is_read_and_written_as_it_was(name: str, commit: Commit) -> None:
    assert commit_of(KEPT[name]) == commit
    assert as_json(commit_content(commit)) == KEPT[name]


def as_json(content: dict[str, Any]) -> Any:
    return json.loads(json.dumps(content))
