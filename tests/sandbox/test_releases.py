"""Which versions of Pravega a sandbox runs, and that their files are pinned whole; nothing is fetched."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from pyspark_pravega.errors import SandboxError
from pyspark_pravega.sandbox import Sandbox, state
from pyspark_pravega.sandbox.files import RELEASES, SCHEMA_REGISTRY, Bundle, chosen, releases

BUNDLES = [*RELEASES.values(), SCHEMA_REGISTRY]


@pytest.mark.parametrize("bundle", BUNDLES, ids=lambda bundle: bundle.name)
def test_each_file_of_a_release_is_pinned_with_its_place_and_size(bundle: Bundle) -> None:
    files = bundle.files()
    assert len(files) > 100
    assert all(file.coordinates and file.size for file in files)
    assert len({file.name for file in files}) == len(files)
    assert len({file.sha256 for file in files}) == len(files)
    assert [file.name for file in files] == sorted(file.name for file in files)


@pytest.mark.parametrize("version", RELEASES)
def test_a_release_consists_of_pravegas_jars_of_its_version(version: str) -> None:
    bundle = RELEASES[version]
    places = [file.coordinates for file in bundle.files() if file.coordinates]
    own = {place.module: place.revision for place in places if place.organisation == "io.pravega"}
    assert set(own.values()) == {f"{version}.0"}
    assert {"pravega-standalone", "pravega-controller", "pravega-segmentstore-server-host"} <= own.keys()
    assert re.findall(r'name="pravega-standalone" rev="([^"]+)"', bundle.ivy_file.read_text()) == [f"{version}.0"]
    overridden = dict(re.findall(r'<override [^>]*module="([^"]+)" rev="([^"]+)"', bundle.ivy_file.read_text()))
    revisions = {place.module: place.revision for place in places}
    assert [module for module, revision in overridden.items() if revisions.get(module, revision) != revision] == []


def test_a_version_is_named_by_the_caller_or_by_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(releases.VERSION_VARIABLE, raising=False)
    assert (chosen(None), chosen("0.11"), Sandbox().pravega) == (releases.NEWEST, "0.11", releases.NEWEST)
    monkeypatch.setenv(releases.VERSION_VARIABLE, "0.12")
    assert (chosen(None), chosen("0.11"), Sandbox().pravega) == ("0.12", "0.11", "0.12")


def test_a_version_that_cannot_be_had_is_refused_with_those_that_can(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SandboxError, match=r'^a sandbox runs Pravega 0\.11, 0\.12, 0\.13, not "0\.9"$'):
        Sandbox(pravega="0.9")
    monkeypatch.setenv(releases.VERSION_VARIABLE, "1.0")
    with pytest.raises(SandboxError, match=r'not "1\.0" \(PYSPARK_PRAVEGA_SANDBOX_PRAVEGA\)$'):
        Sandbox()


def test_a_state_file_tells_the_version(tmp_path: Path) -> None:
    told = state.State(
        controller_uri="tcp://127.0.0.1:1",
        schema_registry_uri="http://127.0.0.1:2",
        data_dir=str(tmp_path),
        pravega="0.12",
        ready=True,
        detached=True,
        servers={},
        ports={},
    )
    told.save()
    assert state.load(tmp_path) == told
    assert told.addresses().startswith("Pravega 0.12, controller ")
    file = tmp_path / state.STATE_FILE
    content = json.loads(file.read_text())
    del content["pravega"]
    file.write_text(json.dumps(content))
    older = state.load(tmp_path)
    assert older is not None
    assert older.pravega == "0.13"
