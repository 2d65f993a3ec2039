"""Archives of classes that all checkouts share (tests/tools/class_archives.py): of the same jars only, and whole."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from class_archives import is_whole, kept_home, share_jars

JARS = {"a.jar": b"one", "b.jar": b"two", "c.jar": b"three"}


def test_the_jars_of_environments_become_the_same_files(tmp_path: Path) -> None:
    first, second = _environment(tmp_path / "1"), _environment(tmp_path / "2")
    for own in (first, second):
        share_jars(own, own / "kept", tmp_path)
    home = kept_home(first, first / "kept")
    assert home == kept_home(second, second / "kept") != first
    for name, content in JARS.items():
        assert (home / "jars" / name).read_bytes() == content
        assert (home / "jars" / name).samefile(first / "jars" / name)
        assert (home / "jars" / name).samefile(second / "jars" / name)


def test_other_jars_are_kept_apart(tmp_path: Path) -> None:
    first, second = _environment(tmp_path / "1"), _environment(tmp_path / "2", b"other")
    for own in (first, second):
        share_jars(own, own / "kept", tmp_path)
    assert kept_home(first, first / "kept") != kept_home(second, second / "kept")
    assert (second / "jars" / "a.jar").read_bytes() == b"other"


def test_a_jar_that_was_changed_in_the_cache_is_not_taken(tmp_path: Path) -> None:
    first, second = _environment(tmp_path / "1"), _environment(tmp_path / "2")
    share_jars(first, first / "kept", tmp_path)
    (kept_home(first, first / "kept") / "jars" / "a.jar").write_bytes(b"bad")
    share_jars(second, second / "kept", tmp_path)
    assert kept_home(second, second / "kept") == second
    assert (second / "jars" / "a.jar").read_bytes() == b"one"


def test_a_jar_that_was_changed_in_the_environment_is_not_taken_for_the_cache_s(tmp_path: Path) -> None:
    own = _environment(tmp_path / "1")
    share_jars(own, own / "kept", tmp_path)
    (own / "jars" / "a.jar").unlink()
    (own / "jars" / "a.jar").write_bytes(b"other")
    assert kept_home(own, own / "kept") == own


@pytest.mark.parametrize("content", [b"whole", b"half", None])
def test_an_archive_that_is_not_whole_is_removed(tmp_path: Path, content: bytes | None) -> None:
    archive = tmp_path / "spark-1.jsa"
    if content is not None:
        archive.write_bytes(content)
    archive.with_suffix(".sha256").write_text(hashlib.sha256(b"whole").hexdigest())
    assert is_whole(archive) == archive.exists() == (content == b"whole")


def test_an_archive_without_its_sum_is_removed(tmp_path: Path) -> None:
    archive = tmp_path / "spark-1.jsa"
    archive.write_bytes(b"whole")
    assert not is_whole(archive)
    assert not archive.exists()


def _environment(folder: Path, content: bytes = JARS["a.jar"]) -> Path:
    for name in ("jars", "bin"):
        (folder / name).mkdir(parents=True)
    (folder / "__init__.py").touch()
    for name, jar in {**JARS, "a.jar": content}.items():
        (folder / "jars" / name).write_bytes(jar)
    return folder
