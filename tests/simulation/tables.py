"""Tables that become other tables in a simulated history: CREATE OR REPLACE TABLE, and ALTER TABLE of properties.

A table is known by the number of the statement that has made it, which is one of its properties. The stream's
configuration has the same number: whoever comes next sets it, if the statement has died before.
"""

from __future__ import annotations

import uuid
from types import SimpleNamespace
from typing import Any, cast

from cluster_model import STREAM, ClusterModel
from history import FIRST_TABLE, Operation

from pyspark_pravega.catalog.statements import replacing
from pyspark_pravega.connector.log import Ledger, State, opening, settled_table
from pyspark_pravega.connector.write import StagedTable, replace_all

_TABLE, _ALTERED = "table", "altered-"


def open_log(cluster: ClusterModel) -> Ledger:
    """The table's commit log."""
    return cast(Ledger, opening.open_ledger(cluster.client, STREAM))


def look_up(cluster: ClusterModel) -> tuple[int, frozenset[int], State]:
    """The table as a statement finds it; what a replacement has left is done first, if that is old.

    Returns:
        Which table it is, the statements that have altered it, and its log's state.
    """
    log = open_log(cluster)
    properties, state = settled_table(cluster.client, log)
    if state.cleaning is not None and state.cleaning.stream is not None and replacing._is_left(log, state):
        _finish(cluster, log, state)
    altered = frozenset(int(key.removeprefix(_ALTERED)) for key in properties if key.startswith(_ALTERED))
    return int(properties.get(_TABLE, FIRST_TABLE)), altered, state


def alter(cluster: ClusterModel, operation: Operation) -> None:
    """Set one property."""
    open_log(cluster).change_properties(lambda before: {**before, f"{_ALTERED}{operation.number}": "yes"})


def staged(operation: Operation) -> StagedTable:
    """What a statement makes of the table."""
    own = {_TABLE: str(operation.number)}
    stream = {"configuration": own, "compatibility": None, "pinned": None}
    return StagedTable(id=str(uuid.UUID(int=1 + operation.number << 64)), properties=own, stream=stream)


def replace_without_rows(cluster: ClusterModel, operation: Operation) -> None:
    """CREATE OR REPLACE TABLE."""
    replace_all(cluster.client, open_log(cluster), staged(operation))
    finish(cluster)


def finish(cluster: ClusterModel) -> None:
    """Do what the last replacement has left."""
    log = open_log(cluster)
    _finish(cluster, log, log.state())


def configured(cluster: ClusterModel) -> int:
    """The table for which the stream is configured."""
    return int(cluster.configuration.get(_TABLE, FIRST_TABLE))


def _finish(cluster: ClusterModel, log: Ledger, state: State) -> None:
    statements: Any = SimpleNamespace(_base=SimpleNamespace(client=cluster.client))
    replacing.Replacing._finish(statements, STREAM, log, state)


def shown(configuration: dict[str, str]) -> dict[str, str]:
    """A configuration as properties, in place of the product's."""
    return configuration


def stream_configuration(before: dict[str, str], given: dict[str, str], removed: set[str]) -> dict[str, str]:
    """A changed configuration, in place of the product's."""
    return {**{key: value for key, value in before.items() if key not in removed}, **given}
