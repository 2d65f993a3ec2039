"""What the options of a statement may say of the connection, with servers that listen to what they get."""

from __future__ import annotations

import base64
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent import futures
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import grpc
import pytest
from catalog_tools import COLUMNS, insert, make

from pyspark_pravega import settings as connection
from pyspark_pravega.catalog.catalog import Catalog
from pyspark_pravega.catalog.process.methods import CatalogMethods
from pyspark_pravega.connector.datasource import DefaultSource
from pyspark_pravega.errors import ConfigurationError, PravegaError
from pyspark_pravega.settings import CONFIGURED_KEYS, KEYS, Settings

pytestmark = pytest.mark.server

ANN = "Basic " + base64.b64encode(b"ann:s3cret").decode()
BOB = "Basic " + base64.b64encode(b"bob:own").decode()
PROVIDER = """
from pathlib import Path
Path(__file__).with_name("imported").touch()
class Mine:
    def authorization(self):
        return "Bearer x"
"""


@dataclass
class Ears:
    """A controller and a registry that write down who says what to them, and answer nothing of use."""

    controller: str = ""
    registry: str = ""
    heard: list[str | None] = field(default_factory=list)


@pytest.fixture(scope="module")
def ears() -> Iterator[Ears]:
    ears = Ears()

    class Registry(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            ears.heard.append(self.headers.get("Authorization"))
            self.send_response(404)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_POST = do_PUT = do_GET  # noqa: N815

        def log_message(self, *_: Any) -> None:
            """Nothing is printed."""

    class Controller(grpc.GenericRpcHandler):  # type: ignore[misc]
        def service(self, details: grpc.HandlerCallDetails) -> None:
            ears.heard.append(dict(details.invocation_metadata).get("authorization"))

    registry = ThreadingHTTPServer(("127.0.0.1", 0), Registry)
    threading.Thread(target=registry.serve_forever, daemon=True).start()
    controller = grpc.server(futures.ThreadPoolExecutor(4), handlers=[Controller()])
    ears.controller = f"tcp://127.0.0.1:{controller.add_insecure_port('127.0.0.1:0')}"
    ears.registry = f"http://127.0.0.1:{registry.server_port}"
    controller.start()
    yield ears
    controller.stop(None)
    registry.shutdown()
    registry.server_close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("statement")
    (folder / "a_provider_of_somebody.py").write_text(PROVIDER)
    (folder / "credentials").write_text("username = bob\npassword = own\n")
    return folder


@pytest.fixture(scope="module")
def tables(catalog: Catalog, module_scope: str) -> str:
    """A scope with a table `t` and a key-value table `kv`."""
    insert(catalog, make(catalog, module_scope), 1, 2)
    catalog.relations.create(
        [module_scope], "kv", COLUMNS, [], {"table-type": "key-value", "primary-key": "id", "partitions": "1"}
    )
    return module_scope


Way = Callable[[CatalogMethods, str, Mapping[str, str]], object]


def _stream(options: Mapping[str, str], scope: str) -> Any:
    return {
        "id": str(sorted(options.items())),
        "namespace": [scope],
        "table": "t",
        "columns": ["id"],
        "schema": COLUMNS.json(),
        "options": dict(options),
        "position": None,
    }


WAYS: dict[str, Way] = {
    "scan": lambda methods, scope, options: methods.plan_scan([scope], "t", ["id"], dict(options)),
    "narrow": lambda methods, scope, options: methods.narrow_scan([scope], "t", dict(options), [], None, []),
    "count": lambda methods, scope, options: methods.count_rows([scope], "t", dict(options)),
    "check": lambda methods, scope, options: methods.planner.check_read([scope], "t", dict(options)),
    "write": lambda methods, scope, options: methods.writes.plan_write([scope], "t", dict(options)),
    "stream": lambda methods, scope, options: methods.streams.initial(_stream(options, scope)),
    "open": lambda methods, scope, options: methods.open_stream(_stream(options, scope)),
    "key-value scan": lambda methods, scope, options: methods.plan_scan([scope], "kv", ["id"], dict(options)),
    "key-value write": lambda methods, scope, options: methods.writes.plan_write([scope], "kv", dict(options)),
}
SOURCES: dict[str, Callable[[DefaultSource], object]] = {
    "read": lambda source: source.reader(COLUMNS),
    "schema": lambda source: source.schema(),
    "readStream": lambda source: source.streamReader(COLUMNS).initialOffset(),
    "write": lambda source: source.writer(COLUMNS, False),
    "writeStream": lambda source: source.streamWriter(COLUMNS, False),
}


def refusal(call: Callable[[], object]) -> str:
    """How a call is refused because of its options; empty when it isn't."""
    try:
        call()
    except ConfigurationError as error:
        return str(error)
    except PravegaError as error:
        # As a Python data source tells it that knows its error later only.
        return str(error) if "PRAVEGA_INVALID_CONFIGURATION" in str(error) else ""
    return ""


def values(ears: Ears, folder: Path) -> dict[str, str]:
    """A value for each connection setting that isn't what is configured."""
    return {
        "controller-uri": ears.controller,
        "schema-registry-uri": ears.registry,
        "scope": "another",
        "timeout": "29",
        "username": "bob",
        "password": "own",
        "auth-method": "Bearer",
        "auth-token": "own",
        "credentials-file": str(folder / "credentials"),
        "credentials-provider": "a_provider_of_somebody:Mine",
        "tls-ca": str(folder / "credentials"),
        "validate-hostname": "false",
        "shared-memory": "0",
        "format-classes": "*",
    }


def test_each_setting_as_an_option_of_each_statement(
    settings: Settings, tables: str, ears: Ears, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the statement's own credentials go to its address; nothing is called or opened for it."""
    monkeypatch.syspath_prepend(str(folder))
    given = values(ears, folder)
    assert given.keys() == KEYS
    configured = Settings.resolve({"username": "ann", "password": "s3cret"}, catalog=settings.to_options(), environ={})
    methods, anonymous = CatalogMethods(configured), CatalogMethods(settings)
    addresses = ("controller-uri", "schema-registry-uri")
    whole = {"username", "password"}, {"auth-token"}, {"auth-token", "auth-method"}
    beside = [{}, *({key} for key in sorted(KEYS)), *whole]
    wrong = []
    for name, way in WAYS.items():
        for address in (*addresses, None):
            for others in beside:
                keys = {*others, *([address] if address else [])}
                options = {_spelt(key, name): given[key] for key in sorted(keys)}
                ears.heard.clear()
                said = refusal(lambda way=way, options=options: way(methods, tables, options))  # type: ignore[misc]
                to_others = bool(keys & set(addresses))
                own = any(way_of <= keys for way_of in whole)
                forbidden = bool(keys & CONFIGURED_KEYS) or (to_others and not own)
                incomplete = "auth-method" in keys and "auth-token" not in keys
                if (forbidden and (not said or ears.heard)) or ANN in ears.heard:
                    wrong.append((name, options, said, list(ears.heard)))
                if said and not (forbidden or incomplete):
                    wrong.append((name, options, said, list(ears.heard)))
                if "s3cret" in said or "own" in said.replace("own class", ""):
                    wrong.append((name, options, said, list(ears.heard)))
        for address in addresses:
            # Who has nothing to lose may name an address.
            ears.heard.clear()
            assert not refusal(lambda way=way, address=address: way(anonymous, tables, {address: given[address]}))  # type: ignore[misc]
            assert {*ears.heard} <= {None}, (name, address)
    assert not wrong, wrong[:5]
    assert not (folder / "imported").exists()


def _spelt(key: str, name: str) -> str:
    """A key as a user may write it: another way for each statement."""
    marks = ("-", "_", ".", "")
    return key.replace("-", marks[len(name) % len(marks)])


def test_a_statement_s_own_credentials_go_to_its_own_address(
    settings: Settings, tables: str, ears: Ears, folder: Path
) -> None:
    configured = Settings.resolve({"username": "ann", "password": "s3cret"}, catalog=settings.to_options(), environ={})
    methods, given = CatalogMethods(configured), values(ears, folder)
    for name in ("scan", "write", "stream"):
        ears.heard.clear()
        options = {key: given[key] for key in ("controller-uri", "schema-registry-uri", "username", "password")}
        with suppress(PravegaError):
            WAYS[name](methods, tables, options)
        assert {*ears.heard} == {BOB}, name
    # The configured address, in any of its forms, isn't another one.
    same = {"controller-uri": settings.controller_uri.upper().replace("TCP", "pravega"), "timeout": "31"}
    assert not refusal(lambda: WAYS["scan"](methods, tables, same))


@pytest.mark.parametrize("where", ["beside the credentials", "nowhere"])
def test_each_setting_as_an_option_of_the_data_source(
    settings: Settings, tables: str, ears: Ears, folder: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """Without the catalog the environment is the configuration: a view over a table of Spark's own may hold options."""
    monkeypatch.syspath_prepend(str(folder))
    environment = {"PRAVEGA_USERNAME": "ann", "PRAVEGA_PASSWORD": "s3cret", "PRAVEGA_TIMEOUT": "30"}
    whole = settings.to_environment()
    environment["PRAVEGA_SCHEMA_REGISTRY_URI"] = whole["PRAVEGA_SCHEMA_REGISTRY_URI"]
    if where == "beside the credentials":
        environment |= whole
    for variable in connection._ENVIRONMENT.values():
        monkeypatch.delenv(variable, raising=False)
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value)
    given, wrong = values(ears, folder), []
    here = {} if where == "beside the credentials" else {"controller-uri": settings.controller_uri}
    for name, way in SOURCES.items():
        for key in sorted(KEYS - {"scope", "auth-method"}):
            options = {"stream": f"{tables}/t", **here, key: given[key]}
            ears.heard.clear()
            source = DefaultSource({k.replace("-", ""): v for k, v in options.items()})
            said = refusal(lambda way=way, source=source: way(source))  # type: ignore[misc]
            forbidden = key in {*CONFIGURED_KEYS, "controller-uri", "schema-registry-uri"}
            if where == "nowhere":
                # A token is all that is said to the address.
                forbidden = forbidden or key != "auth-token"
            if forbidden != bool(said) or ears.heard:
                wrong.append((name, key, said, list(ears.heard)))
    assert not wrong, wrong[:5]
    assert not (folder / "imported").exists()


def test_a_table_s_format_is_imported_only_where_the_configuration_allows_it(
    settings: Settings, scope: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever may change a table's commit log chooses the class: it isn't even imported."""
    monkeypatch.syspath_prepend(str(folder))
    allowed = Settings.resolve({"format-classes": "other:*, ini_format:Ini"}, catalog=settings.to_options(), environ={})
    Catalog(allowed).tables.create([scope], "t", COLUMNS, [], {"format": "ini_format:Ini"})
    for patterns in ("", "ini_format:Other, ini", "x:*"):
        other = {"format-classes": patterns, "timeout": "30"}
        strict = Settings.resolve(other, catalog={**settings.to_options(), **other}, environ={})
        with pytest.raises(ConfigurationError, match=r'"ini_format:Ini" isn\'t among those .* PRAVEGA_FORMAT_CLASSES'):
            CatalogMethods(strict).plan_scan([scope], "t", ["id"], {})
        for name in ("a_provider_of_somebody:Mine", "ini_format:Ini"):
            with pytest.raises(ConfigurationError, match="format-classes"):
                Catalog(strict).tables.create([scope], "u", COLUMNS, [], {"format": name})
        with pytest.raises(ConfigurationError, match="format-classes"):
            CatalogMethods(strict).plan_scan([scope], "t", ["id"], {"format-classes": "*"})
    assert CatalogMethods(allowed).plan_scan([scope], "t", ["id"], {})["schema"]
    assert not (folder / "imported").exists()
