"""Where the lake is, by the catalog's configuration: `spark.sql.catalog.<name>.lake.*`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from pyspark_pravega.errors import ConfigurationError
from pyspark_pravega.lake.stores import PREFIX, WAREHOUSE, is_remote, place_of, uri_of

TYPE, URI = "type", "uri"
TYPES = ("sql", "rest", "hive", "glue")
_FOLDER, _DATABASE = "pravega-lake", "catalog.db"
_NEAR = 0.65
"""How much a name must be like one of ours to be taken for it: `url` is."""


@dataclass(frozen=True, kw_only=True)
class LakeConfiguration:
    """Where Iceberg's catalog is, and where its files are."""

    properties: Mapping[str, str]
    """As pyiceberg takes them; they may hold credentials."""
    warehouse: str
    """Where the files of tables are: a folder, or `s3://bucket/path`."""

    def __repr__(self) -> str:
        return f"LakeConfiguration({self.warehouse})"

    @classmethod
    def of(cls, options: Mapping[str, str]) -> LakeConfiguration:
        """What a configuration says, and for the rest SQLite in a folder beside the program.

        Args:
            options: by names without `lake.`; those that aren't ours go to pyiceberg as they are.

        Raises:
            ConfigurationError: one means nothing.
            UnsupportedOperationError: the files are to lie where they can't.
        """
        given = {name.lower(): text.strip() for name, text in options.items() if text.strip()}
        for name in given.keys() - {TYPE, URI, WAREHOUSE}:
            # pyiceberg takes any name, and then the lake is elsewhere.
            if near := get_close_matches(name, (TYPE, URI, WAREHOUSE), n=1, cutoff=_NEAR):
                raise ConfigurationError(f'the lake has no "{PREFIX}{name[:60]}"; did you mean "{PREFIX}{near[0]}"?')
        kind = given.get(TYPE, "sql").lower()
        if kind not in TYPES:
            raise ConfigurationError(f'"{PREFIX}{TYPE}" must be one of {", ".join(TYPES)}, not "{kind[:60]}"')
        warehouse = place_of(given.get(WAREHOUSE, _FOLDER))
        if kind not in ("sql", "glue") and URI not in given:
            raise ConfigurationError(f'"{PREFIX}{TYPE}" {kind} needs "{PREFIX}{URI}", where that catalog is')
        properties = {**given, TYPE: kind, WAREHOUSE: uri_of(warehouse)}
        if URI not in given and not is_remote(warehouse):
            properties[URI] = _beside(warehouse)
        return cls(properties=properties, warehouse=warehouse)


def _beside(warehouse: str) -> str:
    """Iceberg's catalog in a folder that has the files, too."""
    return f"sqlite:///{Path(warehouse) / _DATABASE}"
