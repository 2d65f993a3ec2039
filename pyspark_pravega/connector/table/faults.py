"""Properties that are kept with a table and mean nothing here, as a later release or another program has set them: so
that they can be shown and changed, the table is what it is without them, and is neither read nor written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from pyspark_pravega.connector.option_names import FORMAT, SCHEMA_TYPE
from pyspark_pravega.connector.table.properties import (
    ENCODING_HEADER,
    KEY_PROPERTIES,
    LAKE,
    PINNED_SCHEMA,
    TableProperties,
)
from pyspark_pravega.declared import unreadable
from pyspark_pravega.errors import ConfigurationError, UnsupportedOperationError
from pyspark_pravega.serde.formats import FORMATS

Made = TypeVar("Made")


def without_fault(
    properties: TableProperties,
    define: Callable[[TableProperties], Made],
    bare: Callable[[], Made],
    error: ConfigurationError,
    *,
    has_registry: bool,
) -> tuple[Made, ConfigurationError]:
    """What is known of a table without the one of its properties that means nothing here, and the error of that one.

    Args:
        properties: the table's.
        define: makes the definition of properties.
        bare: makes one of nothing but the stream.
        error: why it can't be made of all of them.
        has_registry: whether a schema registry is configured.

    Raises:
        ConfigurationError: it isn't one of its properties, as where no registry is configured.
    """
    suspects = [SCHEMA_TYPE, PINNED_SCHEMA]
    suspects += sorted({ENCODING_HEADER, LAKE} & properties.not_parsed().keys())
    if properties.format not in FORMATS and (has_registry or properties.get(ENCODING_HEADER) != "true"):
        suspects.append(FORMAT)
    for name in suspects:
        if name not in properties:
            continue
        others = {key: text for key, text in properties.items() if key != name}
        try:
            definition = define(TableProperties(others, of=properties.of))
        except ConfigurationError:
            continue
        except UnsupportedOperationError:
            # Its schema is one of a format of somebody's own, whose class isn't there.
            if name != FORMAT:
                continue
            definition = bare()
        return definition, unreadable(properties.of, name, properties[name], error)
    raise error


def key_fault(properties: TableProperties, error: ConfigurationError) -> ConfigurationError:
    """The error of a table whose events don't have the key that its properties tell.

    Args:
        properties: the table's.
        error: what is wrong with them.
    """
    names = ", ".join(f"'{name}'" for name in sorted(KEY_PROPERTIES & properties.keys()))
    return ConfigurationError(
        f"{error}. Take the release that has set it, or ALTER TABLE ... UNSET TBLPROPERTIES ({names})"
    )
