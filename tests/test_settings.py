"""Connection settings: where they may come from, and which place is the strongest."""

from __future__ import annotations

import string
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_pravega.errors import ConfigurationError
from pyspark_pravega.security import PasswordCredentials
from pyspark_pravega.settings import (
    DEFAULT_CONTROLLER_URI,
    DEFAULT_SHARED_MEMORY,
    DEFAULT_TIMEOUT_S,
    KEYS,
    LEAST_SHARED_MEMORY,
    MOST_SHARED_MEMORY,
    SECRET_KEYS,
    Settings,
    canonical_key,
)

ANY_CREDENTIALS = SECRET_KEYS | {"username", "auth-method", "credentials-file", "credentials-provider"}

LAYERS: list[dict[str, Any]] = [
    {"options": {"scope": "from-options"}},
    {"catalog": {"scope": "from-catalog"}},
    {"session": {"spark.pravega.scope": "from-session"}},
    {"environ": {"PRAVEGA_SCOPE": "from-environ"}},
]


def resolve(options: dict[str, str] | None = None, **layers: Any) -> Settings:
    return Settings.resolve(options, **{"environ": {}, **layers})


@pytest.mark.parametrize("strongest", range(4))
def test_options_beat_the_catalog_beats_the_session_beats_the_environment(strongest: int) -> None:
    layers = {key: value for layer in LAYERS[strongest:] for key, value in layer.items()}
    expected = ["from-options", "from-catalog", "from-session", "from-environ"][strongest]
    assert resolve(layers.pop("options", None), **layers).scope == expected


def test_shared_memory_is_on_unless_the_strongest_place_says_0() -> None:
    layers = [
        {"options": {"shared-memory": "0"}},
        {"catalog": {"shared_memory": "1m"}},
        {"session": {"spark.pravega.shared.memory": "0"}},
        {"environ": {"PRAVEGA_SHARED_MEMORY": "2m"}},
        {},
    ]
    found = []
    for strongest in range(5):
        given: dict[str, Any] = {key: value for layer in layers[strongest:] for key, value in layer.items()}
        found.append(resolve(given.pop("options", None), **given).shared_memory)
    assert found == [0, 1 << 20, 0, 2 << 20, DEFAULT_SHARED_MEMORY] == [0, 1 << 20, 0, 2 << 20, 16 << 20]


def test_without_any_setting_the_defaults_hold() -> None:
    assert resolve() == Settings(controller_uri=DEFAULT_CONTROLLER_URI, timeout=DEFAULT_TIMEOUT_S)


def test_each_key_is_settled_by_itself() -> None:
    settled = resolve(
        {"timeout": "3"},
        catalog={"controller-uri": "tcp://one:1", "timeout": "4"},
        session={"spark.pravega.schema-registry-uri": "http://two:2"},
        environ={"PRAVEGA_SCOPE": "three", "PRAVEGA_CONTROLLER_URI": "tcp://four:4"},
    )
    assert settled == Settings(
        controller_uri="tcp://one:1", schema_registry_uri="http://two:2", scope="three", timeout=3.0
    )


def test_an_empty_value_counts_as_none() -> None:
    settled = resolve({"scope": " "}, catalog={"scope": "shop"}, environ={"PRAVEGA_SCHEMA_REGISTRY_URI": ""})
    assert settled.scope == "shop"
    assert settled.schema_registry_uri is None


def test_without_an_environment_given_the_process_s_own_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRAVEGA_CONTROLLER_URI", "tcp://elsewhere:1")
    assert Settings.resolve().controller_uri == "tcp://elsewhere:1"


@pytest.mark.parametrize(
    "key",
    ["controller-uri", "controller_uri", "controller.uri", "CONTROLLER-URI", "Controller_Uri", " controller ",
     "controller"],
)  # fmt: skip
def test_every_spelling_of_a_key_means_the_same(key: str) -> None:
    assert canonical_key(key) == "controller-uri"
    assert resolve({key: "tcp://a:1"}).controller_uri == "tcp://a:1"
    assert resolve(session={"spark.pravega." + key.strip(): "tcp://a:1"}).controller_uri == "tcp://a:1"


@pytest.mark.parametrize("key", ["schema-registry", "schema_registry", "schema_registry_uri", "schemaRegistry"])
def test_the_registry_has_a_short_name_too(key: str) -> None:
    expected = "http://a:1" if key != "schemaRegistry" else None
    assert resolve({key: "http://a:1"}).schema_registry_uri == expected


@given(st.text())
def test_a_key_in_its_one_spelling_stays_as_it_is(key: str) -> None:
    assert canonical_key(canonical_key(key)) == canonical_key(key)


def test_keys_of_others_are_passed_over_in_options_and_catalog() -> None:
    assert resolve({"path": "x", "routing-key": "y"}, catalog={"z": "1"}) == resolve()
    assert resolve(session={"spark.sql.shuffle.partitions": "4"}) == resolve()


def test_an_unknown_key_of_ours_in_the_session_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(ConfigurationError, match=r'"spark.pravega.controler-uri"; did you mean "controller-uri"\?'):
        resolve(session={"spark.pravega.controler-uri": "tcp://a:1"})


@pytest.mark.parametrize(
    ("given_uri", "used"),
    [
        ("tcp://h:1", "tcp://h:1"),
        ("h:1", "tcp://h:1"),
        (" tcp://h:1 ", "tcp://h:1"),
        ("tcp://[::1]:1", "tcp://[::1]:1"),
        ("tls://h:1", "tls://h:1"),
        ("ssl://h:1", "tls://h:1"),
        ("pravega://h:1", "tcp://h:1"),
        ("pravegas://h:1/", "tls://h:1"),
        ("tcp://a:1,b:2", "tcp://a:1,b:2"),
        ("a:1, b:2", "tcp://a:1,b:2"),
        ("tls://a:1,tls://b:2", "tls://a:1,b:2"),
    ],
)
def test_a_controller_is_named_with_or_without_its_scheme(given_uri: str, used: str) -> None:
    assert resolve({"controller": given_uri}).controller_uri == used


def test_a_slash_at_a_registry_s_end_is_dropped() -> None:
    assert resolve({"schema-registry": "http://h:1/"}).schema_registry_uri == "http://h:1"


BAD_URIS = [
    "", "h", "tcp://h", "tcp://:1", "tls://h", "http://h:1", "tcp://a:1,", "tcp://a:1,b",
    "tcp://h:port", "tcp://h:99999", "tcp://[::1:1",
    "tcp://user:hunter2@h:1", "user:hunter2@h:1", "tcp://hunter2@h:1", "tcp://user:hunter2@h", "user:hunter2@h",
    "tcp://h:1,x:hunter2@h:2", "tls://h:1,tcp://h:2",
]  # fmt: skip


@pytest.mark.parametrize("uri", [uri for uri in BAD_URIS if uri])
def test_a_malformed_controller_is_refused_without_repeating_what_may_be_a_password(uri: str) -> None:
    with pytest.raises(ConfigurationError, match=r'must look like "tcp://localhost:9090"') as refused:
        resolve({"controller-uri": uri})
    assert "hunter2" not in str(refused.value)
    assert refused.value.__cause__ is None


@pytest.mark.parametrize(
    "uri", ["h:1", "https//h", "tcp://h:1", "http://user:hunter2@h:1", "http://hunter2@h:1", "http://user:hunter2@h"]
)
def test_a_malformed_registry_is_refused_without_repeating_what_may_be_a_password(uri: str) -> None:
    with pytest.raises(ConfigurationError, match=r'schema-registry-uri must look like "http://localhost:9092"') as no:
        resolve({"schema-registry-uri": uri})
    assert "hunter2" not in str(no.value)


@pytest.mark.parametrize("timeout", ["0", "-1", "3600", "ten", "nan", "inf", "1e9", "1 hour", "0s", "5 parsecs"])
def test_a_timeout_is_a_time_up_to_an_hour(timeout: str) -> None:
    with pytest.raises(ConfigurationError, match='"timeout" must be seconds, or a time like 2 min'):
        resolve({"timeout": timeout})


@pytest.mark.parametrize(
    ("text", "wanted"), [("10", 10), ("2.5", 2.5), ("10s", 10), ("2 minutes", 120), ("500ms", 0.5), ("59 min", 3540)]
)
def test_a_timeout_has_a_unit_or_is_in_seconds(text: str, wanted: float) -> None:
    assert resolve({"timeout": text}).timeout == wanted


names = st.text(string.ascii_letters + string.digits + ".-", min_size=1, max_size=20)
hosts = st.text(string.ascii_lowercase, min_size=1, max_size=9)
ports = st.integers(0, 65535)
any_settings = st.builds(
    Settings,
    controller_uri=st.builds("tcp://{}:{}".format, hosts, ports),
    schema_registry_uri=st.none() | st.builds("http://{}:{}".format, hosts, ports),
    scope=st.none() | names,
    timeout=st.floats(0, 3600, exclude_min=True, exclude_max=True),
    tls_ca=st.none() | names,
    validate_hostname=st.booleans(),
    shared_memory=st.just(0) | st.integers(LEAST_SHARED_MEMORY, MOST_SHARED_MEMORY),
)
ways_to_give_credentials = st.sampled_from(
    [
        {},
        {"username": "u", "password": "p"},
        {"auth-token": "t"},
        {"auth-method": "Bearer", "auth-token": "t"},
        {"credentials-file": "/f"},
        {"credentials-provider": "a:b"},
    ]
)


@given(any_settings, ways_to_give_credentials)
def test_credentials_travel_with_the_settings(plain: Settings, credentials: dict[str, str]) -> None:
    settled = resolve(plain.to_options() | credentials)
    assert credentials.items() <= settled.to_options().items()
    assert resolve(settled.to_options()) == settled == resolve(environ=settled.to_environment())
    assert not SECRET_KEYS & settled.to_options(secrets=False).keys()


def test_several_controllers_are_listed_in_their_order() -> None:
    assert resolve({"controller": "tls://a:1,[::1]:2"}).controllers == (("a", 1), ("::1", 2))


@given(ways_to_give_credentials.filter(bool), ways_to_give_credentials.filter(bool))
def test_stronger_credentials_replace_weaker_ones_of_another_way(
    stronger: dict[str, str], weaker: dict[str, str]
) -> None:
    credentials = {
        key: value for key, value in resolve(stronger, catalog=weaker).to_options().items() if key in ANY_CREDENTIALS
    }
    same_way = "auth-token" in stronger and "auth-token" in weaker
    assert credentials == (weaker | stronger if same_way else stronger)


def test_a_password_may_come_from_another_place_than_its_user() -> None:
    settled = resolve(catalog={"username": "u"}, environ={"PRAVEGA_PASSWORD": "p"})
    assert settled.credentials() == PasswordCredentials(username="u", password="p")


def test_what_java_clients_read_is_read_too_but_is_weaker() -> None:
    java = {"pravega_client_auth_method": "Basic", "pravega_client_auth_token": "dTpw"}
    found = resolve(environ=java).credentials()
    assert found is not None
    assert found.authorization() == "Basic dTpw"
    ours = resolve(environ=java | {"PRAVEGA_USERNAME": "u", "PRAVEGA_PASSWORD": "q"}).credentials()
    assert ours == PasswordCredentials(username="u", password="q")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"username": "u"}, "username is set, but password is not: set password or PRAVEGA_PASSWORD"),
        ({"password": "hunter2"}, "password is set, but username is not"),
        ({"auth-method": "Bearer"}, "auth-token is not"),
        ({"username": "u", "password": "hunter2", "auth-token": "hunter2"}, "username|password and auth-token are set"),
        ({"username": "a:b", "password": "hunter2"}, "must not hold"),
        ({"validate-hostname": "hunter2x"}, '"validate-hostname" must be true or false'),
        ({"shared-memory": "hunter2x"}, '"shared-memory" must be a number of bytes'),
        ({"shared-memory": "12k"}, '"shared-memory" must be 0, or between 1m and 1g, not "12k"'),
    ],
)
def test_incomplete_or_contradictory_credentials_are_refused(options: dict[str, str], reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason) as refused:
        resolve(options)
    assert "hunter2" not in str(refused.value).replace("hunter2x", "")


def test_secrets_are_not_shown() -> None:
    settled = resolve({"username": "u", "password": "hunter2"})
    token = resolve({"auth-token": "hunter2"})
    for shown in (settled, settled.credentials(), token, token.credentials()):
        assert "hunter2" not in repr(shown) + str(shown)


@given(any_settings)
def test_settings_travel_as_options_and_as_environment(settled: Settings) -> None:
    assert set(settled.to_options()) <= KEYS
    assert resolve(settled.to_options()) == settled
    assert resolve(environ=settled.to_environment()) == settled


@given(any_settings, any_settings)
def test_options_made_of_settings_win_over_any_environment(ours: Settings, theirs: Settings) -> None:
    settled = Settings.resolve(ours.to_options(), environ=theirs.to_environment())
    assert settled.controller_uri == ours.controller_uri
    assert settled.timeout == ours.timeout
    assert settled.shared_memory == ours.shared_memory
