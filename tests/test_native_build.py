"""`native/cargo.py`: where it keeps what Rust has compiled, and what it copies."""

from __future__ import annotations

import os
import runpy
from pathlib import Path
from typing import Any

import pytest

from pyspark_pravega.sandbox import places

ROOT = Path(__file__).parent.parent


@pytest.fixture
def cargo() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "native" / "cargo.py"))


@pytest.mark.parametrize(
    "variables",
    [{}, {"XDG_CACHE_HOME": "/var/tmp/caches"}, {"PYSPARK_PRAVEGA_CACHE": "~/own"}, {"PYSPARK_PRAVEGA_CACHE": "here"}],
)
def test_it_is_kept_in_the_cache_of_this_package(
    cargo: dict[str, Any], variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("XDG_CACHE_HOME", "PYSPARK_PRAVEGA_CACHE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert cargo["cache_folder"]() == places.cache_folder() / "native"


def test_a_copy_has_the_sources_and_only_what_has_changed_is_written(cargo: dict[str, Any], tmp_path: Path) -> None:
    """Cargo compiles what has a new time."""
    cargo["copy_sources"](tmp_path)
    sources = {path.name for path in (ROOT / "native" / "src").iterdir()}
    assert {path.name for path in (tmp_path / "src").iterdir()} == sources
    copies = [path for path in tmp_path.rglob("*") if path.is_file()]
    for copy in copies:
        os.utime(copy, (1, 1))
    changed, removed, more = tmp_path / "src" / "lib.rs", tmp_path / "Cargo.lock", tmp_path / "src" / "old.rs"
    changed.write_text("")
    removed.unlink()
    more.write_text("")
    cargo["copy_sources"](tmp_path)
    assert not more.exists()
    assert {path for path in copies if path.stat().st_mtime != 1} == {changed, removed}
    for copy in copies:
        assert copy.read_bytes() == (ROOT / "native" / copy.relative_to(tmp_path)).read_bytes()
