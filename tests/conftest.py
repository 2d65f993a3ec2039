"""What all tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from server_tools import checked_sandbox

from pyspark_pravega.sandbox import Account, Sandbox

READER = Account("reader", "prn::*,READ")
ANALYST = Account("analyst", "prn::*key-value-table:*,READ_UPDATE;prn::*,READ")
"""Who may read tables: Pravega 0.13 tells where a table's commit log is only to who may change it."""
NOBODY = Account("nobody", "")
SHORT_TOKEN_TTL_S = 10
OF_TABLE = "prn::/scope:rights/stream:t,{0};prn::/scope:rights/stream:t.ledger_kvtable,{0};"
RIGHTS = {
    "rights-reader": OF_TABLE.format("READ")
    + "prn::/scope:rights/key-value-table:t.ledger,READ_UPDATE;prn::/namespace:rights/group:t*,READ",
    "rights-writer": OF_TABLE.format("READ_UPDATE")
    + "prn::/scope:rights/key-value-table:t.ledger,READ_UPDATE;prn::/namespace:rights/group:t*,READ",
    "rights-maker": "prn::/scope:rights,READ_UPDATE;prn::/scope:rights/*,READ_UPDATE;"
    "prn::/namespace:rights*,READ_UPDATE",
    "rights-lister": "prn::/,READ;prn::/scope:rights,READ;prn::/scope:rights/stream:t,READ",
    "rights-namespaces": "prn::/,READ_UPDATE;prn::/scope:rights-new,READ",
    "rights-analyst": "prn::/scope:rights/key-value-table:*,READ_UPDATE;prn::/scope:rights*,READ;"
    "prn::/namespace:rights*,READ",
}
"""The least that docs/security.md says is needed, for a table `t` in the scope `rights`: user to ACL."""


class FailuresAtOnce:
    """Tells of a failure when it happens; the summary tells it again, but a run that is cut off has none."""

    def __init__(self, terminal: pytest.TerminalReporter) -> None:
        self._terminal = terminal

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._terminal.write_line(f"\n{report.nodeid}, {report.when}:\n{report.longreprtext}")


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if isinstance(terminal, pytest.TerminalReporter):
        config.pluginmanager.register(FailuresAtOnce(terminal))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    # The tests of each folder have servers of their own: what streams' last transactions have left can keep a server
    # busy with nothing until it ends (docs/architecture.md, "What was measured": an append of no bytes), and its heap
    # keeps all that was written. tests/chaos has a fixture of its own.
    folder = metafunc.definition.path.parent.name
    if "sandbox" in metafunc.fixturenames and folder != "chaos":
        metafunc.parametrize("sandbox", [folder], indirect=True, ids=[pytest.HIDDEN_PARAM], scope="session")


@pytest.fixture(scope="session")
def sandbox(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    """A Pravega and a schema registry for all tests of a folder; they make scopes of their own in it."""
    with checked_sandbox("3g") as running:
        yield running


# Of a module, not of the session: such a server, left to itself, soon keeps a core busy with nothing
# (docs/architecture.md, "What was measured": an append of no bytes).
@pytest.fixture(scope="module")
def secure_sandbox() -> Iterator[Sandbox]:
    """Both servers with authentication and TLS; their users are `admin`, `analyst`, `reader` and `nobody`."""
    with Sandbox(heap="1g", auth=True, tls=True, accounts=[ANALYST, READER, NOBODY]) as running:
        yield running


@pytest.fixture(scope="module")
def auth_sandbox() -> Iterator[Sandbox]:
    """Both servers with authentication and without TLS; delegation tokens are valid for 10 s only."""
    narrow = [Account(user, acl) for user, acl in RIGHTS.items()]
    with Sandbox(heap="1g", auth=True, accounts=[READER, NOBODY, *narrow], token_ttl_s=SHORT_TOKEN_TTL_S) as running:
        yield running
