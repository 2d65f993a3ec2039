"""Credentials and trust: from files, plug-ins and certificates, never shown."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from pyspark_pravega import security
from pyspark_pravega.errors import ConfigurationError
from pyspark_pravega.security import PasswordCredentials, Tls, TokenCredentials
from pyspark_pravega.settings import Settings

BASIC = "Basic dTpoOnVudGVyMg=="
"""The user `u` with the password `h:unter2`."""


def test_a_user_and_a_password_go_as_base64() -> None:
    assert PasswordCredentials(username="u", password="h:unter2").authorization() == BASIC


@pytest.mark.parametrize(
    ("text", "authorization"),
    [
        ("username=u\npassword=h:unter2\n", BASIC),
        ("# of the shop\n\n username = u \nPASSWORD = h:unter2", BASIC),
        ("auth_token = abc=", "Bearer abc="),
        ("auth-method=Custom\nauth-token=abc", "Custom abc"),
    ],
)
def test_a_file_gives_credentials(tmp_path: Path, text: str, authorization: str) -> None:
    file = tmp_path / "credentials"
    file.write_text(text)
    found = Settings.resolve({"credentials-file": str(file)}, environ={}).credentials()
    assert found is not None
    assert found.authorization() == authorization


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "holds no credentials: write username and password into it"),
        ("username=u", "password is not"),
        ("hunter2", "line 1 is not"),
        ("username=u\npasword=hunter2", 'line 2: unknown key "pasword"; did you mean "password"'),
    ],
)
def test_a_file_without_credentials_is_refused_without_being_shown(tmp_path: Path, text: str, reason: str) -> None:
    file = tmp_path / "credentials"
    file.write_text(text)
    with pytest.raises(ConfigurationError, match=reason) as refused:
        security.FileCredentials(str(file))
    assert "hunter2" not in str(refused.value)


def test_a_file_that_changes_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "credentials"
    file.write_text("auth-token = one")
    found = security.FileCredentials(str(file))
    assert found.authorization() == "Bearer one"
    file.write_text("auth-token = the second")
    assert found.authorization() == "Bearer the second"
    file.write_text("half a line")
    assert found.authorization() == "Bearer the second"
    file.unlink()
    assert found.authorization() == "Bearer the second"
    file.write_text("auth-token = three")
    assert found.authorization() == "Bearer three"


def test_a_missing_file_is_named() -> None:
    with pytest.raises(ConfigurationError, match="credentials-file /nowhere/x can't be read on this machine: No such"):
        security.FileCredentials("/nowhere/x")


def provide() -> TokenCredentials:
    return TokenCredentials(token="abc")


def provide_nothing() -> None:
    return None


def provide_an_error() -> None:
    raise ValueError("hunter2")


def test_a_plug_in_gives_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parent)
    name = "test_security:provide"
    for option, variable in ({"credentials-provider": name}, {}), ({}, {"PRAVEGA_CREDENTIALS_PROVIDER": name}):
        found = Settings.resolve(option, environ=variable).credentials()
        assert found is not None
        assert found.authorization() == "Bearer abc"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("test_security", 'must look like "module:callable"'),
        ("no_such_module:x", "failed with ModuleNotFoundError"),
        ("test_security:x", "failed with AttributeError"),
        ("test_security:provide_nothing", "gave no object with an authorization"),
        ("test_security:provide_an_error", "failed with ValueError"),
    ],
)
def test_a_plug_in_that_gives_none_is_refused(monkeypatch: pytest.MonkeyPatch, name: str, reason: str) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parent)
    with pytest.raises(ConfigurationError, match=reason) as refused:
        security.from_provider(name)
    assert "hunter2" not in str(refused.value)


def test_host_names_are_validated_unless_that_is_switched_off() -> None:
    assert Tls().ssl_context().check_hostname
    lenient = Tls(validate_hostname=False).ssl_context()
    assert not lenient.check_hostname
    assert lenient.verify_mode is ssl.CERT_REQUIRED


def test_authorities_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigurationError, match=r"tls-ca /nowhere/ca\.pem can't be used on this machine: No such file"
    ):
        Tls(ca="/nowhere/ca.pem").ssl_context()
    empty = tmp_path / "ca.pem"
    empty.write_text("not a certificate")
    with pytest.raises(ConfigurationError, match="it holds no PEM certificates"):
        Tls(ca=str(empty)).root_certificates()
