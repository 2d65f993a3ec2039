"""What a program was submitted with wins over what `configure` takes from elsewhere, and loses to its arguments."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pyspark_pravega.settings import SECRET_KEYS, SETTINGS, Settings
from pyspark_pravega.spark import jars, needed
from pyspark_pravega.sql.session import CATALOG_CLASS, GROUP_FILTER, completion

PROGRAM = Path(__file__).with_name("submitted_program.py")
VALUES = {
    "controller-uri": ("tcp://one:1", "tcp://two:2", "tcp://three:3"),
    "schema-registry-uri": ("http://one:1", "http://two:2", "http://three:3"),
    "scope": ("one", "two", "three"),
    "timeout": ("1.0", "2.0", "3.0"),
    "username": ("ann", "bob", "eve"),
    "password": ("a", "b", "c"),
    "auth-method": ("Basic", "Bearer", "Custom"),
    "auth-token": ("a", "b", "c"),
    "credentials-file": ("/one", "/two", "/three"),
    "credentials-provider": ("one:a", "two:a", "three:a"),
    "tls-ca": ("/one.pem", "/two.pem", "/three.pem"),
    "validate-hostname": ("false", "true", "true"),
    "shared-memory": ("1048576", "2097152", "4194304"),
    "format-classes": ("one:*", "two:*", "three:*"),
}
"""Of each setting what a stronger place says, what a weaker one does, and what a third one does."""
TOGETHER = {
    "username": "password",
    "password": "username",
    "auth-method": "auth-token",
    "auth-token": "auth-method",
}
ARGUMENTS = ("controller-uri", "schema-registry-uri", "scope", "username", "password", "credentials-file", "tls-ca")
"""The settings that `configure` takes as arguments."""
KEPT = {GROUP_FILTER: "true", "spark.sql.streaming.checkpointFileManagerClass": "theirs"}
"""Spark's own settings that `configure` would set otherwise."""
ENVIRONMENT = {setting.name: setting.environment for setting in SETTINGS}
ELSEWHERE = {"spark.sql.catalog.other.controller-uri": "tcp://other:9", "spark.sql.catalog.pravega2.scope": "other"}


def said(setting: str, place: int) -> dict[str, str]:
    """A setting as a place says it, with what can't be said without it."""
    keys = [setting, *filter(None, [TOGETHER.get(setting)])]
    return {key: VALUES[key][place] for key in keys}


def test_each_setting_has_values() -> None:
    assert VALUES.keys() == ENVIRONMENT.keys()


@pytest.mark.parametrize("spelling", [str, lambda key: key.replace("-", "_"), lambda key: key.title().replace("-", "")])
@pytest.mark.parametrize("setting", VALUES)
@pytest.mark.parametrize("stronger", ["argument", "catalog", "session", "environment", "nowhere"])
def test_the_stronger_place_wins(
    stronger: str, setting: str, spelling: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The one that is stronger says one value, all that are weaker say another."""
    places = ["argument", "catalog", "session", "environment", "nowhere"]
    if stronger == "argument" and setting not in ARGUMENTS:
        return
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    for variable in ENVIRONMENT.values():
        monkeypatch.delenv(variable, raising=False)
    given: dict[str, str] = {}
    submitted = dict(ELSEWHERE)
    for place in places[places.index(stronger) : -1]:
        values = said(setting, 0 if place == stronger else 1)
        if place == "argument":
            given = values
        elif place == "environment":
            for key, value in values.items():
                monkeypatch.setenv(ENVIRONMENT[key], value)
        else:
            prefix = "spark.sql.catalog.pravega." if place == "catalog" else "spark.pravega."
            submitted |= {prefix + spelling(key): value for key, value in values.items()}

    settings, missing = completion(submitted, "pravega", given)

    assert not missing.keys() & ELSEWHERE.keys()
    # As the catalog process puts it together, which may have another environment.
    whole = submitted | missing
    prefix = "spark.sql.catalog.pravega."
    options = {key.removeprefix(prefix): value for key, value in whole.items() if key.startswith(prefix)}
    session = {key: value for key, value in whole.items() if key.startswith("spark.pravega.")}
    secrets = {key: value for key, value in settings.to_options().items() if key in SECRET_KEYS}
    told = Settings.resolve(catalog={**secrets, **options}, session=session, environ={})
    wanted = said(setting, 0) if stronger != "nowhere" else {}
    if setting == "shared-memory" and stronger == "environment":
        # It goes to the catalog process by the environment alone.
        assert settings.shared_memory == 1048576
        return
    assert told == settings == Settings.resolve(wanted, environ={})
    if stronger in ("catalog", "session"):
        assert not {prefix + spelling(key) for key in wanted} & missing.keys(), "what is there isn't said again"


def test_another_way_of_credentials_takes_the_place_of_what_was_submitted() -> None:
    prefix = "spark.sql.catalog.pravega"
    submitted = {f"{prefix}.credentials_file": "/a", f"{prefix}.controller-uri": "tcp://one:1"}
    settings, missing = completion(submitted, "pravega", {"username": "ann", "password": "x"})
    assert (settings.username, settings.credentials_file) == ("ann", None)
    assert {key: value for key, value in missing.items() if key.startswith(f"{prefix}.c")} == {
        f"{prefix}.credentials_file": ""
    }
    assert not [key for key in missing if "password" in key]


def test_jars_are_joined_and_a_class_stays() -> None:
    submitted = {"spark.jars": "/a.jar,/b.jar", "spark.sql.catalog.pravega": "theirs"}
    _, missing = completion(submitted, "pravega", {"controller-uri": "tcp://one:1"})
    assert missing["spark.jars"] == f"/a.jar,/b.jar,{jars.jar()}"
    assert "spark.sql.catalog.pravega" not in missing
    _, missing = completion({"spark.jars": f"/a.jar,file://{jars.jar()}"}, "pravega", {})
    assert "spark.jars" not in missing
    assert missing["spark.sql.catalog.pravega"] == CATALOG_CLASS


def submitted(place: str) -> dict[str, str]:
    """What a place says, of a catalog of its own."""
    prefix = f"spark.sql.catalog.{place}"
    names = [name for name in VALUES if name not in ("auth-method", "auth-token", "credentials-provider", "password")]
    return {f"{prefix}.{name}": VALUES[name][0] for name in names if name not in ("username", "shared-memory")}


def lines(conf: Mapping[str, str]) -> str:
    return "".join(f"{key} {value}\n" for key, value in conf.items())


def flags(conf: Mapping[str, str]) -> list[str]:
    return [part for key, value in conf.items() for part in ("--conf", f"{key}={value}")]


@pytest.mark.spark
@pytest.mark.parametrize("way", ["spark-submit", "python"])
def test_a_program_keeps_what_it_was_submitted_with(way: str, tmp_path: Path) -> None:
    """Each place has a catalog of its own, of which it says all; the environment says otherwise."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PRAVEGA_")}
    environment |= {ENVIRONMENT[name]: VALUES[name][1] for name in VALUES if name in ARGUMENTS and "word" not in name}
    environment.pop("PRAVEGA_USERNAME")
    environment["XDG_STATE_HOME"] = str(tmp_path)
    other = tmp_path / "other.jar"
    with zipfile.ZipFile(other, "w") as jar:
        jar.writestr("empty", "")
    file, places = tmp_path / "spark-defaults.conf", ["flags", "file", "builder"]
    file.write_text(lines(submitted("file")))
    command = [sys.executable, str(PROGRAM)]
    given = ["--jars", str(other), *flags(submitted("flags") | KEPT)]
    if way == "spark-submit":
        command = [needed("spark-submit").program("spark-submit"), *given, "--properties-file", str(file), str(PROGRAM)]
        environment["PYSPARK_PYTHON"] = sys.executable
    else:
        environment |= {"SPARK_CONF_DIR": str(tmp_path), "PYSPARK_SUBMIT_ARGS": shlex.join([*given, "pyspark-shell"])}
    asked = {
        "builder": submitted("builder"),
        "catalogs": {**{place: {} for place in places}, "nowhere": {}, "given": {"scope": "mine"}},
        "set": submitted("session"),
        "environment": {"PRAVEGA_SCOPE": "later"},
        "later": {"session": {}, "nowhere": {}, "given": {"scope": "yours"}},
    }
    done = subprocess.run(
        [*command, json.dumps(asked)],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-5000:]
    answer = json.loads(done.stdout.splitlines()[-1])
    conf = answer["conf"]
    for place in [*places, "session"]:
        wanted = submitted(place)
        assert {key: conf[key] for key in wanted} == wanted
        assert conf[f"spark.sql.catalog.{place}"] == answer["class"] == CATALOG_CLASS
    assert {key: conf[key] for key in KEPT} == KEPT
    assert conf["spark.sql.catalog.nowhere.controller-uri"] == VALUES["controller-uri"][1]
    assert conf["spark.sql.catalog.nowhere.scope"] == "later"
    assert conf["spark.sql.catalog.given.scope"] == "yours"
    named = [Path(path).name for path in answer["jars"].split(",")]
    assert sorted(named) == ["other.jar", jars.jar().name]
