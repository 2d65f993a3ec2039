"""How a table leaves the lake: what it needs there, and what of it is removed with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark_pravega.client import Stream
from pyspark_pravega.connector.lake.tiering import ID, iceberg_name
from pyspark_pravega.connector.log import State, open_ledger
from pyspark_pravega.connector.shared import shared_client
from pyspark_pravega.errors import PravegaError, UnsupportedOperationError
from pyspark_pravega.lake import LakeConfiguration, load_iceberg
from pyspark_pravega.settings import Settings


def check_needless(stream: Stream, state: State) -> None:
    """Refuse to forget a lake whose files are read.

    Args:
        stream: the table's stream.
        state: its commit log's.

    Raises:
        UnsupportedOperationError: rows are read there.
    """
    lake = state.lake
    if lake is None or lake.snapshot is None:
        return
    needs = state.base is not None if lake.by_key else state.tiered is not None
    if needs:
        raise UnsupportedOperationError(
            f'"lake" of stream "{stream}" can\'t be unset: reads take rows up to version {lake.version} from the lake. '
            "To put no more rows there, set 'lake-after' to a long time, as '10000 days'; to leave the lake, make a "
            "new table AS SELECT"
        )


def purge_of(settings: Settings, configuration: Callable[[], LakeConfiguration], stream: Stream) -> Callable[[], None]:
    """What removes a table's Iceberg table with its files, when its stream is gone.

    Args:
        settings: the cluster.
        configuration: where the lake is.
        stream: the stream, which is there still.

    Raises:
        UnsupportedOperationError: the Iceberg table isn't in this lake.
        ConfigurationError: pyiceberg isn't installed.
    """
    ledger = open_ledger(shared_client(settings), stream)
    lake = None if ledger is None else ledger.state().lake
    if lake is None:
        return lambda: None
    table: Any = load_iceberg().find_table(configuration(), iceberg_name(stream))
    if table is None or table.properties.get(ID) != lake.id:
        if lake.snapshot is None:
            return lambda: None
        raise UnsupportedOperationError(
            f"the Iceberg table of stream \"{stream}\" isn't in this lake: set the catalog's lake.* to where it is, or "
            "DROP TABLE without PURGE"
        )

    def purge() -> None:
        try:
            table.purge()
        except PravegaError as error:
            raise type(error)(
                f'stream "{stream}" is dropped, but not all of its Iceberg table "{table.name}": {error}. Drop that '
                f'with pyiceberg: load_catalog("pravega", ...).purge_table({iceberg_name(stream)})'
            ) from None

    return purge
