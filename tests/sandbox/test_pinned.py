"""Pinned files are fetched by their names, several at once, whatever happens to connections meanwhile."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from maven_tools import Answer, Repository, Request, misplaced
from waiting import eventually

from pyspark_pravega.errors import SandboxError
from pyspark_pravega.progress import megabytes, time_left
from pyspark_pravega.sandbox import fetch, pin
from pyspark_pravega.sandbox.files import PRAVEGA, SCHEMA_REGISTRY, fetch_all, pinned

ROOT = Path(__file__).parents[2]
FETCH = (
    "import sys, pathlib; from pyspark_pravega.sandbox import *; d = pathlib.Path(sys.argv[1]);"
    "fetch(Bundle('example', d / 'example.xml', d / 'example.sha256'), cache=pathlib.Path(sys.argv[2]))"
)


# It starts Ivy, which is Java.
pytestmark = pytest.mark.server


@pytest.fixture
def repository(monkeypatch: pytest.MonkeyPatch) -> Iterator[Repository]:
    """The repository that fetches in this test ask, again and again without long pauses."""
    monkeypatch.setattr(pinned, "_PAUSE_S", 0.1)
    monkeypatch.setattr(pinned, "_POLL_S", 0.02)
    with Repository() as repository:
        monkeypatch.setenv("DEFAULT_ARTIFACT_REPOSITORY", repository.url)
        yield repository


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.startswith(".")}


def expected(repository: Repository, *places: str) -> dict[str, bytes]:
    return {place.rpartition("/")[2]: repository.files[place] for place in places}


def test_files_are_asked_for_once_and_nothing_else_is(repository: Repository, tmp_path: Path) -> None:
    places = [repository.add(f"module{number}", size=100_000) for number in range(9)]
    places += [repository.add("module0", version="2.0"), repository.add("module1-native", organisation="net")]
    assert content(fetch(repository.bundle(tmp_path, *places), cache=tmp_path / "cache")) == expected(
        repository, *places
    )
    assert repository.requests == dict.fromkeys(places, 1)


def test_classifiers_and_other_kinds_of_files_are_fetched(repository: Repository, tmp_path: Path) -> None:
    plain = repository.add("epoll")
    others = [plain.replace("1.0.jar", "1.0-linux-x86_64.jar"), plain.replace("1.0.jar", "1.0.nar")]
    for number, place in enumerate(others):
        repository.files[place] = repository.files[plain][number + 1 :]
    bundle = repository.bundle(tmp_path, plain, *others)
    assert content(fetch(bundle, cache=tmp_path / "cache")) == expected(repository, plain, *others)


def test_a_file_that_two_bundles_have_is_fetched_once(repository: Repository, tmp_path: Path) -> None:
    a, both, b = (repository.add(name) for name in ("a", "both", "b"))
    bundles = [repository.bundle(tmp_path, a, both, name="one"), repository.bundle(tmp_path, both, b, name="two")]
    one, two = fetch_all(bundles, cache=tmp_path / "cache")
    assert content(one) == expected(repository, a, both)
    assert content(two) == expected(repository, both, b)
    assert repository.requests == {a: 1, both: 1, b: 1}


@pytest.mark.parametrize("page", ["README.md", "docs/sandbox.md"])
def test_pages_tell_how_much_is_fetched(page: str) -> None:
    text = (ROOT / page).read_text()
    sizes = re.findall(r"fetched\s+once, (?:about )?(\d+) MB", text)
    files = {file.sha256: file.size or 0 for bundle in (PRAVEGA, SCHEMA_REGISTRY) for file in bundle.files()}
    assert sizes == [str(megabytes(sum(files.values())))]


def test_files_that_came_to_harm_are_fetched_again(
    repository: Repository, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    harms: dict[str, Answer] = {"cut": Request.cut, "wrong": Request.wrong, "busy": Request.busy}
    good, *bad = (repository.add(name, size=150_000) for name in ("good", *harms))
    repository.harm |= {place: [harm] for place, harm in zip(bad, harms.values(), strict=True)}
    bundle = repository.bundle(tmp_path, good, *bad)
    assert content(fetch(bundle, cache=tmp_path / "cache")) == expected(repository, good, *bad)
    assert repository.requests == {good: 1, **dict.fromkeys(bad, 2)}
    assert re.findall(r"(\S+) differs", capfd.readouterr().err) == ["wrong-1.0.jar"]


def test_wrong_bytes_are_never_used(repository: Repository, tmp_path: Path) -> None:
    bad = repository.add("bad")
    repository.harm[bad] = [Request.wrong] * 10
    with pytest.raises(SandboxError, match=r"bad-1.0.jar differs: its SHA-256 is .*, pinned is .* fetched twice"):
        fetch(repository.bundle(tmp_path, bad), cache=tmp_path / "cache")
    assert not list((tmp_path / "cache").rglob("bad-1.0.jar"))


def test_where_files_are_not_in_their_places_ivy_looks_for_them(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(pinned, "_FRUITLESS", 1)
    place = repository.add("sought")
    repository.publish_pom(place)
    bundle = repository.bundle(tmp_path, place)
    bundle.ivy_file.write_text(
        '<ivy-module version="2.0"><info organisation="pyspark-pravega" module="example"/>'
        '<configurations><conf name="default"/></configurations><dependencies>'
        '<dependency org="org.example" name="sought" rev="1.0" conf="default->master"/></dependencies></ivy-module>'
    )
    folder = fetch(misplaced(bundle), cache=tmp_path / "cache")
    assert content(folder) == expected(repository, place)
    errors = [line for line in capfd.readouterr().err.splitlines() if "couldn't" in line]
    assert errors == [
        "1 files couldn't be fetched (sought-1.0.jar); Ivy now looks for everything that example depends on, "
        "which takes some minutes"
    ]
    written = bundle.manifest.read_text()
    bundle.manifest.unlink()
    assert pin(bundle, cache=tmp_path / "cache") == 1
    assert bundle.manifest.read_text() == written


def test_what_stands_in_the_way_is_told(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    bundle = repository.bundle(tmp_path, repository.add("a"))
    monkeypatch.setattr(pinned, "_PAUSE_S", 0.01)
    bundle.ivy_file.write_text("<ivy-module version='2.0'><info organisation='x' module='y'/></ivy-module>")
    monkeypatch.setenv("DEFAULT_ARTIFACT_REPOSITORY", "http://127.0.0.1:1/maven")
    with pytest.raises(SandboxError, match=r"a-1.0.jar is missing"):
        fetch(bundle, cache=tmp_path / "cache")
    errors = capfd.readouterr().err
    assert "1 files couldn't be fetched (a-1.0.jar): java.net.ConnectException: Connection refused; Ivy now" in errors


def test_a_damaged_bundle_keeps_its_other_files(repository: Repository, tmp_path: Path) -> None:
    good, bad = repository.add("good"), repository.add("bad")
    bundle = repository.bundle(tmp_path, good, bad)
    folder = fetch(bundle, cache=tmp_path / "cache")
    (folder / "bad-1.0.jar").write_bytes(b"damaged")
    assert content(fetch(bundle, cache=tmp_path / "cache")) == expected(repository, good, bad)
    assert repository.requests == {good: 1, bad: 2}


def test_an_interrupted_fetch_goes_on_where_it_was(repository: Repository, tmp_path: Path) -> None:
    quick = [repository.add(f"quick{number}") for number in range(2)]
    slow = repository.add("slow", size=20_000_000)
    release = threading.Event()

    def half(request: Request, content: bytes) -> None:
        request.head(content)
        request.wfile.write(content[: len(content) // 2])
        request.wfile.flush()
        release.wait()
        request.close_connection = True

    repository.harm[slow] = [half]
    bundle = repository.bundle(tmp_path, *quick, slow)
    cache = tmp_path / "cache"
    victim = subprocess.Popen([sys.executable, "-c", FETCH, str(tmp_path), str(cache)], stderr=subprocess.DEVNULL)
    try:
        eventually(
            lambda: all(list(cache.glob(f"pinned/cache/*/*/jars/{place.rpartition('/')[2]}")) for place in quick)
        )
        victim.send_signal(signal.SIGKILL)
        victim.wait()
    finally:
        victim.kill()
        release.set()
    assert not list(cache.glob("bundles/*"))
    assert content(fetch(bundle, cache=cache)) == expected(repository, *quick, slow)
    assert repository.requests == {**dict.fromkeys(quick, 1), slow: 2}
    assert not (cache / "pinned").exists()


def test_two_processes_at_once_fetch_once(repository: Repository, tmp_path: Path) -> None:
    places = [repository.add(name) for name in ("a", "b")]
    repository.bundle(tmp_path, *places)
    command = [sys.executable, "-c", FETCH, str(tmp_path), str(tmp_path / "cache")]
    both = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    errors = [process.communicate()[1] for process in both]
    assert [process.returncode for process in both] == [0, 0], errors
    assert repository.requests == dict.fromkeys(places, 1)


def test_a_log_gets_lines_with_bytes_of_bytes(
    repository: Repository, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    fetch(repository.bundle(tmp_path, repository.add("large", size=3_200_000)), cache=tmp_path / "cache")
    first, *_, last = capfd.readouterr().err.splitlines()
    assert first == f"fetching example: 1 files, 3 MB, once, into {tmp_path / 'cache'}"
    assert last.startswith("fetching example: [##############################]    3 of 3 MB, 1 of 1 files, ")


def test_a_terminal_gets_a_bar_that_grows(repository: Repository, tmp_path: Path) -> None:
    release = threading.Event()

    def in_two_parts(request: Request, content: bytes) -> None:
        request.head(content)
        request.wfile.write(content[: len(content) // 2])
        request.wfile.flush()
        release.wait()
        request.wfile.write(content[len(content) // 2 :])

    place = repository.add("large", size=8_000_000)
    repository.harm[place] = [in_two_parts]
    repository.bundle(tmp_path, place)
    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", FETCH, str(tmp_path), str(tmp_path / "cache")]
    process = subprocess.Popen(command, stderr=theirs)
    os.close(theirs)
    screen = ""
    try:
        while "4 of 8 MB" not in screen:
            screen += os.read(ours, 4096).decode()
        release.set()
        while "8 of 8 MB" not in screen:
            screen += os.read(ours, 4096).decode()
        assert process.wait() == 0
    finally:
        release.set()
        process.kill()
        process.wait()
        os.close(ours)
    assert "[###############---------------]    4 of 8 MB, 0 of 1 files" in screen
    assert "\r" in screen


@pytest.mark.parametrize(
    "line",
    [
        "{sum}  12  ../../etc/passwd/1.0/passwd-1.0.jar",
        "{sum}  12  org/example/a/1.0/b-1.0.jar",
        "{sum}  12  org/example/a/1.0/a-1.0",
        "{sum}  twelve  org/example/a/1.0/a-1.0.jar",
        "{sum}  12  /org/example/a/1.0/a-1.0.jar",
        "{sum}  ../a.jar",
        "12345  a.jar",
    ],
)
def test_a_line_that_names_no_file_is_refused(tmp_path: Path, line: str, repository: Repository) -> None:
    bundle = repository.bundle(tmp_path)
    bundle.manifest.write_text(line.format(sum="0" * 64) + "\n")
    with pytest.raises(SandboxError, match=r"example.sha256, line 1: expected"):
        fetch(bundle, cache=tmp_path / "cache")


def test_the_time_that_is_left_is_told_when_it_can_be() -> None:
    assert time_left(10, 40, 4.0) == ", 12 s left"
    assert time_left(10, 610, 10.0) == ", 10 min left"
    assert [time_left(0, 40, 9.0), time_left(40, 40, 9.0), time_left(10, 40, 1.9)] == ["", "", ""]
