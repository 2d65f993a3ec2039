"""The lake in a bucket: a real server that speaks S3, on which any request may fail. Held against a dict."""

from __future__ import annotations

import contextlib
import json
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lake_tools import Table, turns
from object_store import BUCKET, BUSY, CUT, FAULTS, LOST, OK, ObjectStore, Relay, object_store, relayed
from pyarrow.fs import AwsStandardS3RetryStrategy

from pyspark_pravega import cli
from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.catalog.process.service import describe
from pyspark_pravega.connector.lake import iceberg_name
from pyspark_pravega.connector.log import Tiered
from pyspark_pravega.errors import AuthenticationError, ConfigurationError, PravegaError, UnavailableError
from pyspark_pravega.lake import LakeConfiguration, iceberg, stores

pytestmark = pytest.mark.server


class Once(AwsStandardS3RetryStrategy):
    """No second try: each fault is one."""

    def __init__(self) -> None:
        super().__init__(max_attempts=1)


ONCE = f"{Once.__module__}.{Once.__name__}"


@pytest.fixture(scope="module")
def objects() -> Iterator[ObjectStore]:
    with object_store() as store:
        yield store


@pytest.fixture
def relay(objects: ObjectStore) -> Iterator[Relay]:
    with relayed(objects) as way:
        way.patience_s = 1.0
        yield way


class Stored(Table):
    """A table whose lake is in a bucket, behind a relay; what looks at it alone goes past that."""

    def __init__(self, catalog: Catalog, scope: str, folder: Path, objects: ObjectStore, relay: Relay) -> None:
        self.objects, self.relay, self.path = objects, relay, scope
        self.database = folder / "catalog.db"
        self.where = objects.options(
            scope, self.database, relay.endpoint, request_timeout="0.5", retry_strategy_impl=ONCE
        )
        sizes = {"lake-keep-in-stream": "0 ms", "lake-row-group-size": "1 KiB", "lake-file-size": "4 KiB"}
        super().__init__(catalog, scope, folder, **sizes)

    def alone(self) -> dict[str, str]:
        """Past the relay."""
        return self.objects.options(self.path, self.database, retry_strategy_impl=ONCE)

    def stored(self) -> set[str]:
        """All files of the table."""
        return {f"s3://{file}" for file in self.objects.files(self.path)}

    def known(self) -> set[str]:
        """The files that snapshots and metadata of the Iceberg table name, by pyiceberg alone."""
        from pyiceberg.catalog import load_catalog

        alone = load_catalog("pravega", type="sql", **self.alone()).load_table(iceberg_name(self.stream))
        files = {alone.metadata_location, *(one.metadata_file for one in alone.metadata.metadata_log)}
        for snapshot in alone.metadata.snapshots:
            files.add(snapshot.manifest_list)
            for manifest in snapshot.manifests(alone.io):
                files.add(manifest.manifest_path)
                files |= {entry.data_file.file_path for entry in manifest.fetch_manifest_entry(alone.io, False)}
        return files

    def try_to_tier(self) -> str:
        """Call `tier`; gives its error, which must be one of ours."""
        try:
            self.tier()
        except PravegaError as error:
            text = str(error)
            assert self.objects.secret not in text
            assert f"s3://{BUCKET}/{self.path}" in text or "Iceberg table" in text, text
            return text
        finally:
            self.relay.plan = lambda *_: OK
        return ""

    def glance(self) -> None:
        """Hold against what Python knows what is quickly read: of many versions `check` reads each one."""
        now = self.wide(self.versions[max(self.versions)])
        assert self.read() == self.without_catalog() == now
        assert self.iceberg() == (self.state().version, now)

    def clean(self) -> None:
        """Call `clean_lake`: then nothing is there that nobody knows of."""
        left = self.stored() - self.known()
        assert self.catalog.procedures.call("clean_lake", [self.name, "1 day"]) == [[0, 0]]
        ((cleaned, _),) = self.catalog.procedures.call("clean_lake", [self.name, "0 ms"])
        assert cleaned == len(left)
        assert self.stored() == self.known()


@pytest.fixture
def stored(
    catalog: Catalog, scope: str, tmp_path: Path, objects: ObjectStore, relay: Relay, monkeypatch: pytest.MonkeyPatch
) -> Stored:
    turns(monkeypatch, 200)
    monkeypatch.setattr(stores, "_TRIES", 1)
    stores._file_system.cache_clear()
    return Stored(catalog, scope, tmp_path, objects, relay)


@pytest.mark.in_turn(8)
def test_a_table_is_tiered_and_read_as_in_a_folder(stored: Stored) -> None:
    for _ in range(2):
        stored.insert(20)
        assert stored.tier()[:2] == [stored.state().version, 20]
        stored.check()
    stored.scale(3)
    stored.insert(5)
    stored.check()
    stored.overwrite()
    stored.tier()
    stored.check()
    stored.clean()


@pytest.mark.in_turn(8)
@pytest.mark.parametrize("how", FAULTS)
def test_each_request_of_tiering_may_fail(stored: Stored, how: str) -> None:
    """Whichever it is, nothing is lost or doubled, the next call goes on, and `clean_lake` finds what is left.

    Some of them here; LAKE_SEEDS=2 takes all.
    """
    stored.insert(10)
    stored.tier()
    stored.insert(10)
    before = len(stored.relay.requests)
    stored.tier()
    number = len(stored.relay.requests) - before
    assert number > 8
    failed = 0
    step = 1 if "LAKE_SEEDS" in os.environ else 2 if how == LOST else 4
    for request in range(FAULTS.index(how) % step, number, step):
        stored.insert(10)
        stored.relay.fail(request, how)
        failed += bool(stored.try_to_tier())
        now = stored.wide(stored.versions[max(stored.versions)])
        assert stored.read() == now, (request, how)
        stored.tier()
        assert (stored.state().lake or Tiered(id="")).rows == len(now), (request, how)
    # A connection that is used again and ends is opened anew without a word.
    assert failed
    stored.glance()
    stored.clean()
    stored.glance()


@pytest.mark.parametrize("seed", range(int(os.environ.get("LAKE_SEEDS", "2"))))
@pytest.mark.in_turn(8)
def test_random_histories_with_faults_give_what_a_dict_gives(stored: Stored, seed: int) -> None:
    dice = random.Random(seed)
    stored.insert()
    for _ in range(8):
        step = dice.choice(["insert", "tier", "fails", "fails", "read", "overwrite", "scale", "column"])
        how, first, times = dice.choice(FAULTS), dice.randrange(30), dice.choice([1, 3, 1000])
        if step == "insert":
            stored.insert(dice.randrange(1, 40))
        elif step == "tier":
            assert stored.tier()[0] == stored.state().version
        elif step == "fails":
            stored.insert(dice.randrange(1, 40))
            stored.relay.fail(first, how, times)
            stored.try_to_tier()
        elif step == "read":
            iceberg.files_of.cache_clear()
            iceberg.snapshot_at.cache_clear()
            stored.relay.fail(first % 5, how, times)
            with contextlib.suppress(UnavailableError, ConfigurationError):
                assert stored.read() == stored.wide(stored.versions[max(stored.versions)])
            stored.relay.plan = lambda *_: OK
        elif step == "overwrite" and dice.random() < 0.5:
            stored.overwrite(dice.randrange(1, 5))
        elif step == "scale":
            stored.scale(dice.randrange(1, 4))
        elif step == "column" and len(stored.columns) < 4:
            stored.add_column()
        assert stored.read() == stored.wide(stored.versions[max(stored.versions)])
    stored.insert()
    stored.tier()
    stored.check()
    stored.clean()
    stored.glance()


@pytest.mark.in_turn(8)
def test_faults_that_pass_are_waited_for(
    catalog: Catalog, scope: str, tmp_path: Path, objects: ObjectStore, relay: Relay
) -> None:
    """As users have it: requests are tried again, so that one fault of each four is no error."""

    class Waiting(Table):
        where = objects.options(scope, tmp_path / "catalog.db", relay.endpoint, request_timeout="0.5")

        def alone(self) -> dict[str, str]:
            return objects.options(scope, tmp_path / "catalog.db")

    table = Waiting(catalog, scope, tmp_path)
    dice = random.Random(1)
    relay.plan = lambda *_: dice.choice([BUSY, LOST, CUT]) if dice.random() < 0.1 else OK
    for _ in range(2):
        table.insert(20)
        with contextlib.suppress(PravegaError):
            table.tier()
        assert table.read() == table.wide(table.versions[max(table.versions)])
    relay.plan = lambda *_: OK
    table.tier()
    table.check()


@pytest.mark.parametrize(
    ("changed", "kind", "said"),
    [
        ({"warehouse": "s3://nobodys/t"}, ConfigurationError, "the lake s3://nobodys/t isn't at http.*make the bucket"),
        (
            {"s3.secret-access-key": "guessed/secret"},
            AuthenticationError,
            "refuses the credentials.*: When.*set lake.s3.access-key-id and lake.s3.secret-access-key",
        ),
        ({"s3.access-key-id": "AKIAGUESSED"}, AuthenticationError, "refuses the credentials"),
        ({"s3.endpoint": "http://127.0.0.1:1"}, UnavailableError, "doesn't answer at http://127.0.0.1:1: .*later"),
        ({"uri": ""}, ConfigurationError, 'needs "lake.uri", where Iceberg\'s catalog is'),
        ({"s3.request-timeout": "soon"}, ConfigurationError, 'lake.s3.request-timeout" must be'),
    ],
)
def test_what_is_wrong_is_said_once_with_what_to_set(
    stored: Stored,
    changed: dict[str, str],
    kind: type[PravegaError],
    said: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By CALL tier, by a read of what lies there, and by `pravega-spark tier`; and no secret is shown."""
    stored.insert()
    wrong = {**stored.alone(), **changed}
    with pytest.raises(kind, match=said) as raised:
        Catalog(stored.catalog.settings, wrong).procedures.call("tier", [stored.name])
    texts = [str(raised.value), json.dumps(describe(raised.value)), repr(LakeConfiguration.of(wrong))]
    if "warehouse" not in changed and "uri" not in changed:
        stored.tier()
        other = Catalog(stored.catalog.settings, wrong)
        iceberg.files_of.cache_clear()
        iceberg.snapshot_at.cache_clear()
        stored.catalog, right = other, stored.catalog
        with pytest.raises(PravegaError) as refused:
            stored.read()
        texts += [str(refused.value), repr(other.settings), repr(other.definition(stored.stream))]
        stored.catalog = right
    for name, value in stored.catalog.settings.to_environment().items():
        monkeypatch.setenv(name, value)
    for name, value in wrong.items():
        variable = name.upper().replace(".", "__").replace("-", "_")
        if name not in ("warehouse", "uri") and value:
            monkeypatch.setenv(f"PYICEBERG_CATALOG__PRAVEGA__{variable}", value)
    places = [f"--lake={name}={wrong[name]}" for name in ("warehouse", "uri")]
    assert cli.main(["tier", stored.name, *places]) == 1
    printed = capsys.readouterr()
    assert len(printed.err.splitlines()) == 1, printed.err
    for text in (*texts, printed.out, printed.err):
        for name in ("s3.secret-access-key", "s3.access-key-id"):
            assert wrong[name] not in text, (name, text)


def test_credentials_of_pyicebergs_own_variables_do(
    stored: Stored, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """For the command, and for reads without a catalog."""
    stored.insert(5)
    for name, value in stored.catalog.settings.to_environment().items():
        monkeypatch.setenv(name, value)
    for name, value in stored.alone().items():
        monkeypatch.setenv(f"PYICEBERG_CATALOG__PRAVEGA__{name.upper().replace('.', '__').replace('-', '_')}", value)
    assert cli.main(["tier", stored.name, "--lake", f"warehouse={stored.alone()['warehouse']}"]) == 0
    assert "5 rows more in 1 file" in capsys.readouterr().out
    stored.check()
    stored.catalog = Catalog(stored.catalog.settings)
    rows: list[Any] = stored.read()
    assert rows == stored.wide(stored.versions[1])
