"""Jars are fetched once, checked, and never half there."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from pyspark_pravega.errors import SandboxError
from pyspark_pravega.sandbox import PRAVEGA, SCHEMA_REGISTRY, Bundle, fetch, pin

# Not in `make quick`: Ivy, which fetches them, is a JVM.
pytestmark = pytest.mark.server

HERE = Path(__file__).parent / "bundle"
JAR = "slf4j-api-1.7.25.jar"
SMALL = Bundle("slf4j", HERE / "slf4j.xml", HERE / "slf4j.sha256")


@pytest.fixture(scope="module")
def seed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    cache = tmp_path_factory.mktemp("seed") / "cache"
    fetch(SMALL, cache=cache)
    return cache


@pytest.fixture
def cache(seed: Path, tmp_path: Path) -> Path:
    """A cache that holds the small bundle, of this test alone."""
    return Path(shutil.copytree(seed, tmp_path / "cache"))


def pinned(tmp_path: Path, text: str) -> Bundle:
    manifest = tmp_path / "manifest.sha256"
    manifest.write_text(text)
    return replace(SMALL, manifest=manifest)


def test_the_servers_are_pinned() -> None:
    assert "pravega-standalone-0.13.0.jar" in PRAVEGA.sums()
    assert "schemaregistry-server-0.6.0.jar" in SCHEMA_REGISTRY.sums()


def test_what_was_fetched_is_used_again_without_ivy(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = fetch(SMALL, cache=cache)
    assert [path.name for path in first.glob("*.jar")] == [JAR]
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    assert fetch(SMALL, cache=cache) == first


def test_a_jar_that_was_only_touched_is_looked_into_and_kept(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = fetch(SMALL, cache=cache)
    os.utime(folder / JAR, (1, 1))
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    assert fetch(SMALL, cache=cache) == folder


@pytest.mark.parametrize("damage", ["truncated", "altered", "missing", "surplus"])
def test_a_damaged_cache_is_found_named_and_mended(cache: Path, damage: str, capfd: pytest.CaptureFixture[str]) -> None:
    folder = fetch(SMALL, cache=cache)
    jar = folder / JAR
    whole = jar.read_bytes()
    if damage == "truncated":
        jar.write_bytes(whole[:1000])
    elif damage == "altered":
        jar.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    elif damage == "missing":
        jar.unlink()
    else:
        (folder / "evil.jar").write_bytes(b"x")
    assert fetch(SMALL, cache=cache) == folder
    assert jar.read_bytes() == whole
    assert [path.name for path in folder.glob("*.jar")] == [JAR]
    assert ("evil.jar isn't in the manifest" if damage == "surplus" else JAR) in capfd.readouterr().err


def test_a_file_that_was_damaged_in_ivys_cache_is_downloaded_anew(
    cache: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (ivys,) = (cache / "ivy").rglob(JAR)
    ivys.write_bytes(b"damaged")
    shutil.rmtree(cache / "bundles")
    assert (fetch(SMALL, cache=cache) / JAR).stat().st_size > 1000
    assert "from scratch" in capfd.readouterr().err


def test_a_jar_that_differs_from_its_pinned_sum_is_refused(cache: Path, tmp_path: Path) -> None:
    wrong = pinned(tmp_path, f"{'0' * 64}  {JAR}\n")
    with pytest.raises(SandboxError, match=rf"{JAR} differs: its SHA-256 is .*, pinned is 0000"):
        fetch(wrong, cache=cache)
    assert not list((cache / "bundles").glob(".fetching-*"))


def test_a_jar_that_is_missing_or_not_pinned_is_refused(cache: Path, tmp_path: Path) -> None:
    wrong = pinned(tmp_path, f"{'0' * 64}  other.jar\n")
    with pytest.raises(SandboxError, match=rf"other.jar is missing; {JAR} isn't in the manifest"):
        fetch(wrong, cache=cache)


def test_a_malformed_manifest_is_refused_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match=r"manifest.sha256, line 2: .*'nonsense'"):
        fetch(pinned(tmp_path, "# sums\nnonsense\n"), cache=tmp_path)


def test_pin_writes_the_manifest_that_fetch_accepts(cache: Path, tmp_path: Path) -> None:
    fresh = replace(SMALL, manifest=tmp_path / "new.sha256")
    assert pin(fresh, cache=cache) == 1
    assert fresh.sums() == SMALL.sums()
    assert fresh.manifest.read_text().endswith(f"  41203  org/slf4j/slf4j-api/1.7.25/{JAR}\n")
    assert [path.name for path in fetch(fresh, cache=tmp_path / "other").glob("*.jar")] == [JAR]


def test_an_artifact_that_does_not_exist_is_named(cache: Path, tmp_path: Path) -> None:
    ivy_file = tmp_path / "ivy.xml"
    ivy_file.write_text(SMALL.ivy_file.read_text().replace("1.7.25", "0.0.0-absent"))
    shutil.rmtree(cache / "bundles")
    with pytest.raises(SandboxError, match=r"0\.0\.0-absent"):
        fetch(replace(SMALL, ivy_file=ivy_file), cache=cache)


def test_a_missing_java_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    with pytest.raises(SandboxError, match="JAVA_HOME is /nowhere"):
        fetch(SMALL, cache=tmp_path)
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(SandboxError, match="found no `java`"):
        fetch(SMALL, cache=tmp_path)


def test_the_users_ivy_settings_are_used(cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    shutil.rmtree(cache / "bundles")
    monkeypatch.setenv("PYSPARK_PRAVEGA_IVY_SETTINGS", "/nowhere.xml")
    with pytest.raises(SandboxError, match=r"/nowhere.xml, which isn't a file"):
        fetch(SMALL, cache=cache)
    repository = tmp_path / "repository"
    repository.mkdir()
    (jar,) = (cache / "ivy").rglob(JAR)
    shutil.copy(jar, repository / JAR)
    settings = tmp_path / "settings.xml"
    settings.write_text(
        "<ivysettings><settings defaultResolver='mine'/><resolvers><filesystem name='mine'>"
        f"<artifact pattern='{repository}/[artifact]-[revision].[ext]'/></filesystem></resolvers></ivysettings>"
    )
    monkeypatch.setenv("PYSPARK_PRAVEGA_IVY_SETTINGS", str(settings))
    ivy_file = tmp_path / "ivy.xml"
    ivy_file.write_text(SMALL.ivy_file.read_text().replace("default->master", "default->default"))
    shutil.rmtree(cache / "ivy")
    assert (fetch(replace(SMALL, ivy_file=ivy_file), cache=cache) / JAR).exists()


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SandboxError, match=r"set PYSPARK_PRAVEGA_CACHE to a folder"):
        fetch(SMALL, cache=tmp_path / "file" / "cache")


FETCH = (
    "import sys, pathlib; from pyspark_pravega.sandbox import *; d = pathlib.Path(sys.argv[1]);"
    "fetch(Bundle('slf4j', d / 'slf4j.xml', d / 'slf4j.sha256'), cache=pathlib.Path(sys.argv[2]))"
)


def test_a_killed_fetch_leaves_nothing_to_trip_over(cache: Path) -> None:
    bundles = cache / "bundles"
    shutil.rmtree(bundles)
    victim = subprocess.Popen([sys.executable, "-c", FETCH, str(HERE), str(cache)], stderr=subprocess.DEVNULL)
    while not list(bundles.glob(".fetching-*")):
        assert victim.poll() is None
        time.sleep(0.01)
    victim.send_signal(signal.SIGKILL)
    victim.wait()
    assert not list(bundles.glob("slf4j-*"))
    assert (fetch(SMALL, cache=cache) / JAR).exists()
    assert [path.name for path in bundles.iterdir()] == [fetch(SMALL, cache=cache).name]


def test_two_processes_fetch_one_after_the_other(cache: Path) -> None:
    shutil.rmtree(cache / "bundles")
    both = [
        subprocess.Popen([sys.executable, "-c", FETCH, str(HERE), str(cache)], stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    outputs = [process.communicate()[1] for process in both]
    assert [process.returncode for process in both] == [0, 0], outputs
    assert sum("fetching slf4j: 1 files" in text for text in outputs) == 1
