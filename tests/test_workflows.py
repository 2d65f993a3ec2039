"""The workflows of the repository: pinned actions, few rights, nothing secret, and the project's own make targets."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FILES = [*WORKFLOWS, ROOT / ".github" / "actions" / "setup" / "action.yml"]
MAY_WRITE = {
    ("docs.yml", "deploy"): {"pages", "id-token"},
    ("release.yml", "attest"): {"id-token", "attestations"},
    ("release.yml", "publish"): {"id-token"},
    ("release.yml", "release"): {"contents"},
}


def jobs(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    yield from yaml.safe_load(path.read_text())["jobs"].items()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_actions_are_pinned_by_commit_and_say_their_version(path: Path) -> None:
    used = re.findall(r"uses: (.+)", path.read_text())
    foreign = [use for use in used if not use.startswith("./")]
    assert [use for use in foreign if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", use)] == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_nothing_is_secret(path: Path) -> None:
    assert not re.search(r"secrets\.|password|_TOKEN: (?!\$\{\{ github\.token \}\})", path.read_text())


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_job_may_write_only_what_it_is_for(path: Path) -> None:
    assert yaml.safe_load(path.read_text())["permissions"] == {"contents": "read"}
    for name, job in jobs(path):
        rights = job.get("permissions", {})
        assert set(rights.values()) <= {"write"}
        assert set(rights) == MAY_WRITE.get((path.name, name), set())


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_what_is_made_has_a_make_target(path: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for _, job in jobs(path):
        for step in job.get("steps", ()):
            words = step.get("run", "").split()
            wanted = [word for word in words[1:] if re.fullmatch(r"[a-z-]+", word)] if words[:1] == ["make"] else []
            assert set(wanted) - targets == set()
        assert set(job.get("strategy", {}).get("matrix", {}).get("target", ())) - targets == set()
