"""What of a table's properties is shown: its own ones, its stream's, and the registry's policy."""

from __future__ import annotations

from pyspark_pravega.catalog.properties import CODEC, PROVIDER
from pyspark_pravega.catalog.stream_properties import shown
from pyspark_pravega.connector.option_names import FORMAT
from pyspark_pravega.connector.table import COLUMNS, COMPATIBILITY, TableDefinition, given_properties
from pyspark_pravega.serde.native import describe
from pyspark_pravega.together import together


def loaded_properties(definition: TableDefinition) -> dict[str, str]:
    """Those of a table's properties that are known without asking for more.

    Args:
        definition: what the stream is as a table.
    """
    return {
        "provider": PROVIDER,
        FORMAT: definition.format,
        CODEC: describe(definition.codec),
        **{k: value for k, value in given_properties(definition.properties).items() if k != COLUMNS},
    }


def shown_properties(definition: TableDefinition) -> dict[str, str]:
    """What SHOW TBLPROPERTIES and DESCRIBE EXTENDED show.

    Args:
        definition: what the stream is as a table.
    """
    policy, configuration = together(lambda: definition.compatibility, lambda: definition.configuration)
    return {
        **loaded_properties(definition),
        **({COMPATIBILITY: policy} if policy else {}),
        **shown(configuration),
    }
